//! Space of a thin unit and its soft threshold, which warns initiators that space runs short (SBC-4
//! 4.7.3.8).
//!
//! The administrator sets the threshold as a share of the pool. Initiators see it as a count of
//! threshold sets in the logical block provisioning mode page (1Ch/02h). They hear of it by the
//! unit attention THIN PROVISIONING SOFT THRESHOLD REACHED, and read the counts in log page 0Ch.

/// Space of a thin unit, in logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Blocks still available to the unit. Other units may share them.
    pub available: u64,
    /// Blocks taken by the unit.
    pub used: u64,
    /// Blocks of the whole pool or file system, of which `available` is the rest.
    pub capacity: u64,
}

/// Returns log2 of the threshold set size in logical blocks (SBC-4 4.7.3.8.1): a set is 1 MiB. VPD
/// page B2h reports it, and it is the unit of all counts that initiators see.
pub(crate) fn threshold_exponent(block_len: u32) -> u8 {
    // 20 - log2(block length), for the block lengths 512 and 4096.
    20u32.saturating_sub(block_len.max(1).ilog2()) as u8
}

/// Divisor of the pool's size for the smallest change that moves the threshold. File systems that
/// grow their bookkeeping change the size a little all the time.
const CAPACITY_TOLERANCE: u64 = 64;

/// Soft threshold of a unit, and whether it was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoftThreshold {
    /// Share of the capacity in use, in percent, that is reported. `None` reports nothing.
    percent: Option<u8>,
    /// Capacity in blocks of which the threshold is a share, 0 until the backend has reported it.
    capacity: u64,
    /// Whether the threshold was reached and space has not come back since.
    reached: bool,
}

/// Meaning of a report about space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Whether the threshold count changed, which is a change of mode parameters.
    pub(crate) count_changed: bool,
    /// Whether the threshold was reached just now.
    pub(crate) reached: bool,
}

impl SoftThreshold {
    /// Sets the share of the capacity in use that is reported. Returns whether the count changed.
    pub(crate) fn set_percent(&mut self, percent: Option<u8>) -> bool {
        let before = self.available_blocks();
        self.percent = percent;
        let changed = self.available_blocks() != before;
        if changed {
            // This is another threshold, to be reached anew.
            self.reached = false;
        }
        changed
    }

    /// Takes over the amount of space.
    pub(crate) fn update(&mut self, space: Space) -> News {
        let before = self.available_blocks();
        if space.capacity.abs_diff(self.capacity) > self.capacity / CAPACITY_TOLERANCE {
            self.capacity = space.capacity;
        }
        let Some(threshold) = self.available_blocks() else {
            return News::default();
        };
        let low = space.available <= threshold;
        let news = News {
            count_changed: before != Some(threshold),
            reached: low && !self.reached,
        };
        // After a report, the next one comes only after some of the space came back, not after a
        // single block.
        let rearmed = threshold + (self.capacity - threshold).min(threshold / 8).max(1);
        self.reached = low || (self.reached && space.available < rearmed);
        news
    }

    /// Reports whether space is short now, for an initiator that comes later.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached
    }

    /// Returns the number of available blocks at which the threshold is reached, or `None` if none
    /// is enabled.
    fn available_blocks(&self) -> Option<u64> {
        let left = 100 - u64::from(self.percent?.min(100));
        (self.capacity > 0).then(|| self.capacity / 100 * left)
    }

    /// Returns THRESHOLD COUNT in sets of 2^`exponent` blocks, or `None` if no threshold is
    /// enabled.
    pub(crate) fn count(&self, exponent: u8) -> Option<u32> {
        let sets = self.available_blocks()? >> exponent;
        Some(u32::try_from(sets).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(available: u64) -> Space {
        Space {
            available,
            used: 1,
            capacity: 100_000,
        }
    }

    #[test]
    fn a_threshold_is_told_once_until_space_came_back() {
        let mut threshold = SoftThreshold::default();
        assert_eq!(threshold.update(space(0)), News::default(), "none is set");
        assert!(threshold.set_percent(Some(80)));
        assert!(!threshold.update(space(20_001)).reached);
        assert!(threshold.update(space(20_000)).reached);
        assert!(!threshold.update(space(0)).reached, "told already");
        // The available space swings around the threshold.
        assert!(!threshold.update(space(22_499)).reached);
        assert!(threshold.is_reached());
        assert!(!threshold.update(space(20_000)).reached);
        assert!(!threshold.update(space(22_500)).reached);
        assert!(!threshold.is_reached());
        assert!(threshold.update(space(20_000)).reached);
    }

    #[test]
    fn every_threshold_can_be_told_again() {
        for percent in 1..100 {
            let mut threshold = SoftThreshold::default();
            threshold.set_percent(Some(percent));
            assert!(threshold.update(space(0)).reached, "{percent}");
            assert!(!threshold.update(space(100_000)).reached, "{percent}");
            assert!(threshold.update(space(0)).reached, "{percent}");
        }
    }

    #[test]
    fn the_count_follows_the_share_and_a_grown_pool() {
        let mut threshold = SoftThreshold::default();
        assert_eq!(threshold.count(3), None);
        threshold.set_percent(Some(75));
        assert_eq!(threshold.count(3), None, "the capacity is not known");
        assert!(threshold.update(space(90_000)).count_changed);
        assert_eq!(threshold.count(3), Some(25_000 >> 3));
        let grown = |capacity| Space {
            capacity,
            ..space(90_000)
        };
        assert!(!threshold.update(grown(100_900)).count_changed, "a little");
        assert!(threshold.update(grown(200_000)).count_changed);
        assert_eq!(threshold.count(0), Some(50_000));
        assert!(threshold.set_percent(None));
        assert_eq!(threshold.count(0), None);
        assert_eq!(threshold.update(space(0)), News::default());
    }

    #[test]
    fn a_threshold_set_is_one_mebibyte() {
        assert_eq!(threshold_exponent(512), 11);
        assert_eq!(threshold_exponent(4096), 8);
    }
}
