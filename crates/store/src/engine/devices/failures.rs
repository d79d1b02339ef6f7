//! Finds devices that fail so often that they will not last.
//!
//! A device may answer reads with errors, or with wrong bytes. The data is healed from the other
//! leaves each time, and a spare is used for the device before it fails altogether.
//!
//! The device stays in use meanwhile, degraded. Its data is still good if the checksums say so, and
//! the other leaves may lack some of it. When the spare has everything, the device is given up. (A
//! device that fails a write or does not answer is given up at once by [`crate::vdev`].)

use std::collections::BTreeMap;

use crate::vdev::{LeafId, TopLevelStatus, VdevState};

/// Errors within [`WINDOW_US`] that are too many, as in zpool.
const TOO_MANY: u32 = 10;
/// Window in which errors are counted, in microseconds: ten minutes.
const WINDOW_US: u64 = 600_000_000;

/// Errors of devices in the last minutes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Failures(BTreeMap<LeafId, Count>);

#[derive(Debug)]
struct Count {
    since_us: u64,
    errors: u32,
    is_failing: bool,
}

impl Failures {
    /// Counts an error. Returns whether the device now fails too often.
    pub(in crate::engine) fn count(&mut self, leaf: LeafId, now_us: u64) -> bool {
        let count = self.0.entry(leaf).or_insert(Count {
            since_us: now_us,
            errors: 0,
            is_failing: false,
        });
        if now_us.saturating_sub(count.since_us) > WINDOW_US {
            (count.since_us, count.errors) = (now_us, 0);
        }
        count.errors = count.errors.saturating_add(1);
        let is_too_much = count.errors >= TOO_MANY && !count.is_failing;
        count.is_failing |= is_too_much;
        is_too_much
    }

    /// Resets the error count of a device.
    pub(in crate::engine) fn forget(&mut self, leaf: LeafId) {
        self.0.remove(&leaf);
    }

    /// Returns the devices that fail too often.
    pub(in crate::engine) fn failing(&self) -> impl Iterator<Item = LeafId> {
        let failing = self.0.iter().filter(|(_, count)| count.is_failing);
        failing.map(|(leaf, _)| *leaf)
    }

    /// Marks devices that fail too often as degraded, with the slots and vdevs that they are in.
    pub(in crate::engine) fn mark(&self, tops: &mut [TopLevelStatus]) {
        for top in tops {
            let leaves = top.slots.iter_mut().flat_map(|slot| &mut slot.leaves);
            for leaf in leaves.filter(|leaf| leaf.state == VdevState::Online) {
                if self.0.get(&leaf.leaf).is_some_and(|count| count.is_failing) {
                    leaf.state = VdevState::Degraded;
                    if top.state == VdevState::Online {
                        top.state = VdevState::Degraded;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_errors_in_ten_minutes_are_too_many_and_said_once() {
        let mut failures = Failures::default();
        let leaf = LeafId(3);
        for hour in 1..100_u64 {
            assert!(!failures.count(leaf, hour * 3_600_000_000), "{hour}");
        }
        let told = (0..30).filter(|at| failures.count(leaf, 400_000_000_000 + at * 1000));
        assert_eq!(told.collect::<Vec<u64>>(), [9]);
        assert_eq!(failures.failing().collect::<Vec<_>>(), [leaf]);
        failures.forget(leaf);
        assert_eq!(failures.failing().count(), 0);
    }
}
