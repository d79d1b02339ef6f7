//! Lack of space, as views show it: no space is left, or the last write that needed space failed
//! for lack of it.
//!
//! The free space that a backend reports is not enough to decide this. A pool refuses writes
//! shortly before no space is left. It takes writes again before unmapped space counts as free.

use std::sync::atomic::{AtomicU64, Ordering};

/// Value if no write failed, or others succeeded since.
const NONE: u64 = u64::MAX;

/// Number of writes that had succeeded when one failed for lack of space.
#[derive(Debug)]
pub(super) struct Shortage(AtomicU64);

impl Default for Shortage {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Shortage {
    /// Notes that a write failed for lack of space, after `succeeded` successful writes.
    pub(super) fn note(&self, succeeded: u64) {
        self.0.store(succeeded, Ordering::Relaxed);
    }

    /// Reports whether space is lacking, after `succeeded` successful writes and with `available`
    /// bytes left. A write takes at least `granule` bytes.
    pub(super) fn is_felt(&self, succeeded: u64, available: u64, granule: u64) -> bool {
        let failed_at = self.0.load(Ordering::Relaxed);
        if failed_at != NONE && succeeded <= failed_at {
            return true;
        }
        self.0.store(NONE, Ordering::Relaxed);
        available < granule
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_shows_until_one_succeeds() {
        let shortage = Shortage::default();
        assert!(!shortage.is_felt(7, 4096, 4096));
        assert!(shortage.is_felt(7, 4095, 4096));
        // The space left is too small for the metadata that is written with the data.
        shortage.note(7);
        assert!(shortage.is_felt(7, 10_000, 4096));
        assert!(shortage.is_felt(7, 1 << 40, 4096));
        assert!(!shortage.is_felt(8, 10_000, 4096));
        assert!(!shortage.is_felt(8, 10_000, 4096), "until one fails again");
        shortage.note(8);
        assert!(shortage.is_felt(8, 10_000, 4096));
    }
}
