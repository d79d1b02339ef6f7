//! The places on a log vdev: a ring that is written round and round.
//!
//! Copies of groups lie one behind the other. A place is given again when the groups in it are
//! durable elsewhere. Groups become durable in order, so the oldest place is always the next to be
//! free.

use std::collections::VecDeque;

/// Most sectors of a log vdev that are used. All of them are read when the pool is opened, and
/// their content is durable elsewhere within moments.
pub const MOST_SECTORS: u64 = 64 << 10;

/// The used part of a log vdev.
#[derive(Debug)]
pub struct Ring {
    sectors: u64,
    next: u64,
    /// Places that are held, in the order in which they were given.
    held: VecDeque<Held>,
    held_sectors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Last group in the place.
    seq: u64,
    start: u64,
    sectors: u64,
}

impl Ring {
    /// Makes an empty ring on a vdev of `sectors` sectors.
    pub fn new(sectors: u64) -> Self {
        Self {
            sectors: sectors.min(MOST_SECTORS),
            next: 0,
            held: VecDeque::new(),
            held_sectors: 0,
        }
    }

    /// Notes that the vdev has `sectors` sectors now.
    pub fn grow(&mut self, sectors: u64) {
        self.sectors = self.sectors.max(sectors.min(MOST_SECTORS));
    }

    /// Returns the number of sectors that the ring uses of its vdev.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the number of sectors whose content is still needed.
    pub fn held_sectors(&self) -> u64 {
        self.held_sectors
    }

    /// Gives `sectors` sectors in a row to groups up to `seq`. Returns `None` if they are not free.
    pub fn take(&mut self, seq: u64, sectors: u64) -> Option<u64> {
        let start = self.room(sectors)?;
        self.held.push_back(Held {
            seq,
            start,
            sectors,
        });
        self.held_sectors += sectors;
        self.next = start + sectors;
        Some(start)
    }

    /// Returns the start of `sectors` free sectors in a row.
    fn room(&self, sectors: u64) -> Option<u64> {
        let fits_behind = self.next + sectors <= self.sectors;
        let Some(oldest) = self.held.front() else {
            return (sectors <= self.sectors).then_some(if fits_behind { self.next } else { 0 });
        };
        if self.next > oldest.start {
            let fits_before = sectors <= oldest.start;
            return match (fits_behind, fits_before) {
                (true, _) => Some(self.next),
                (false, true) => Some(0),
                (false, false) => None,
            };
        }
        (self.next + sectors <= oldest.start).then_some(self.next)
    }

    /// Frees the places of all groups up to `seq`, which are durable elsewhere.
    pub fn settle(&mut self, seq: u64) {
        while let Some(held) = self.held.pop_front_if(|held| held.seq <= seq) {
            self.held_sectors -= held.sectors;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No place that is needed is given a second time, and a free place is found again.
        #[test]
        fn no_place_is_given_twice(
            sizes in prop::collection::vec((1..40_u64, 0..4_u64), 1..200),
            grows_at in 0..200_u64,
        ) {
            let mut ring = Ring::new(100);
            let mut model: VecDeque<(u64, std::ops::Range<u64>)> = VecDeque::new();
            for (seq, (sectors, settled)) in (1..).zip(sizes) {
                if seq == grows_at {
                    ring.grow(150);
                }
                if let Some(start) = ring.take(seq, sectors) {
                    let range = start..start + sectors;
                    prop_assert!(range.end <= ring.sectors());
                    for (_, other) in &model {
                        prop_assert!(range.end <= other.start || other.end <= range.start);
                    }
                    model.push_back((seq, range));
                } else {
                    prop_assert!(!model.is_empty(), "an empty ring has room");
                }
                let until = seq.saturating_sub(settled);
                ring.settle(until);
                model.retain(|(seq, _)| *seq > until);
                let held: u64 = model.iter().map(|(_, range)| range.end - range.start).sum();
                prop_assert_eq!(ring.held_sectors(), held);
            }
        }
    }

    #[test]
    fn a_full_ring_gives_nothing() {
        let mut ring = Ring::new(10);
        assert_eq!((ring.take(1, 6), ring.take(2, 4)), (Some(0), Some(6)));
        assert_eq!(ring.take(3, 1), None);
        ring.settle(1);
        assert_eq!((ring.take(3, 7), ring.take(3, 6)), (None, Some(0)));
        assert_eq!(Ring::new(10).take(1, 11), None);
        ring.grow(14);
        assert_eq!((ring.take(3, 4), ring.take(4, 1)), (None, None));
        ring.settle(3);
        assert_eq!((ring.take(5, 8), ring.sectors()), (Some(6), 14));
        ring.grow(12);
        assert_eq!(ring.sectors(), 14);
        ring.grow(MOST_SECTORS + 1);
        assert_eq!(ring.sectors(), MOST_SECTORS);
    }
}
