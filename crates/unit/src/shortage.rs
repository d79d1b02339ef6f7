//! Want of space, as views show it: nothing is left, or the last write that needed some failed for
//! that.
//!
//! The space that a backend tells is not enough. A pool refuses writes a little before nothing is
//! left, and takes them again before what was unmapped counts as free.

use std::sync::atomic::{AtomicU64, Ordering};

/// No write failed, or others succeeded since.
const NONE: u64 = u64::MAX;

/// The number of writes that had succeeded when one failed for want of space.
#[derive(Debug)]
pub(super) struct Shortage(AtomicU64);

impl Default for Shortage {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Shortage {
    /// A write failed for want of space; `succeeded` writes went well before.
    pub(super) fn note(&self, succeeded: u64) {
        self.0.store(succeeded, Ordering::Relaxed);
    }

    /// Whether space is lacking, now that `succeeded` writes went well, and `available` bytes are
    /// left, of which a write takes `granule` at least.
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
        // The rest is too small for what is written beside the data.
        shortage.note(7);
        assert!(shortage.is_felt(7, 10_000, 4096));
        assert!(shortage.is_felt(7, 1 << 40, 4096));
        assert!(!shortage.is_felt(8, 10_000, 4096));
        assert!(!shortage.is_felt(8, 10_000, 4096), "until one fails again");
        shortage.note(8);
        assert!(shortage.is_felt(8, 10_000, 4096));
    }
}
