//! Adapts the owner's records to the speed of the leaves: how often one is written, and how long
//! the owner continues without one.
//!
//! A turn on a leaf is one read and one write of a sector. The interval between two turns is two
//! hundred times the length of a turn on the slowest leaf. The length counts when other work does
//! not keep the leaf busy. So turns take at most half a per cent of any leaf's time. The promise
//! covers three failed turns and the slowest recent turns.

/// Shortest interval, and the longest.
const LEAST_INTERVAL_US: u64 = 1_000_000;
const MOST_INTERVAL_US: u64 = 8_000_000;
/// Ratio of the interval to a turn, so that turns take half a per cent of a leaf's time.
const SHARE: u64 = 200;
/// Shortest promise, and the longest.
pub(super) const LEAST_PROMISE_US: u64 = 5_000_000;
const MOST_PROMISE_US: u64 = 60_000_000;

/// Interval and promise of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Shortest promise; the time for which devices may be silent without harm.
    pub least_promise_us: u64,
    /// Time from one record on a leaf to the next.
    pub interval_us: u64,
    /// Time that the host continues without a record.
    pub promise_us: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::at_least(LEAST_PROMISE_US)
    }
}

impl Pace {
    /// Returns the fastest pace for devices that may be silent for `promise_us`.
    pub fn at_least(promise_us: u64) -> Self {
        let promise_us = promise_us.clamp(LEAST_PROMISE_US, MOST_PROMISE_US);
        Self {
            least_promise_us: promise_us,
            interval_us: LEAST_INTERVAL_US,
            promise_us,
        }
    }

    /// Adapts the pace to the turns on the leaves.
    pub(super) fn adapt<'a>(&mut self, turns: impl Iterator<Item = &'a Turns>) {
        let (mut quickest, mut slowest) = (0, 0);
        for turns in turns {
            quickest = turns.quickest_us().max(quickest);
            slowest = turns.slowest_us().max(slowest);
        }
        self.interval_us = (SHARE * quickest).clamp(LEAST_INTERVAL_US, MOST_INTERVAL_US);
        let promise_us = 3 * self.interval_us + 2 * slowest;
        self.promise_us = promise_us.max(self.least_promise_us).min(MOST_PROMISE_US);
    }
}

/// Durations of the last turns on a leaf, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    last: [u64; 8],
    count: usize,
}

impl Turns {
    pub(super) fn note(&mut self, took_us: u64) {
        self.last[self.count % self.last.len()] = took_us;
        self.count += 1;
    }

    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }

    fn known(&self) -> &[u64] {
        &self.last[..self.count.min(self.last.len())]
    }

    fn quickest_us(&self) -> u64 {
        self.known().iter().copied().min().unwrap_or(0)
    }

    fn slowest_us(&self) -> u64 {
        self.known().iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(turns: &[&[u64]]) -> (u64, u64) {
        let turns: Vec<Turns> = turns
            .iter()
            .map(|leaf| {
                let mut turns = Turns::default();
                leaf.iter().for_each(|took_us| turns.note(*took_us));
                turns
            })
            .collect();
        let mut pace = Pace::default();
        pace.adapt(turns.iter());
        (pace.interval_us, pace.promise_us)
    }

    #[test]
    fn a_leaf_gives_at_most_half_a_per_cent_of_its_time() {
        assert_eq!(pace(&[&[100, 300]]), (1_000_000, 5_000_000));
        // A spinning disk, beside a fast one.
        assert_eq!(pace(&[&[100], &[16_000]]), (3_200_000, 9_632_000));
        assert_eq!(pace(&[&[900_000]]), (8_000_000, 25_800_000));
    }

    #[test]
    fn a_leaf_that_others_keep_busy_is_not_asked_less_but_believed_for_longer() {
        assert_eq!(pace(&[&[200, 2_000_000, 200]]), (1_000_000, 7_000_000));
        // Old turns do not count.
        let mut long_past = vec![2_000_000];
        long_past.extend([200; 8]);
        assert_eq!(pace(&[&long_past]), (1_000_000, 5_000_000));
    }

    #[test]
    fn whoever_bears_more_silence_promises_it() {
        let pace = Pace::at_least(15_000_000);
        assert_eq!((pace.interval_us, pace.promise_us), (1_000_000, 15_000_000));
    }
}
