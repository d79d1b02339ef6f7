//! Lack of space, as views show it: no space is left, or the last write that needed space failed
//! for lack of it.
//!
//! The free space that a backend reports is not enough to decide this. A pool refuses writes
//! shortly before no space is left. It takes writes again before unmapped space counts as free.
//!
//! A host that stopped at the failure writes nothing more until its administrator resumes it. So a
//! shortage also ends when clearly more space is left than there was.

use std::sync::atomic::{AtomicU64, Ordering};

/// Value if no write failed, or others succeeded since.
const NONE: u64 = u64::MAX;

/// Number of smallest writes for which space must have come before it is clearly more.
const CLEARLY: u64 = 64;

/// Memory of a write that failed for lack of space.
#[derive(Debug)]
pub(super) struct Shortage {
    /// Number of writes that had succeeded when it failed.
    failed_at: AtomicU64,
    /// Least space that was seen since, in bytes.
    least: AtomicU64,
}

impl Default for Shortage {
    fn default() -> Self {
        Self {
            failed_at: AtomicU64::new(NONE),
            least: AtomicU64::new(u64::MAX),
        }
    }
}

impl Shortage {
    /// Notes that a write failed for lack of space, after `succeeded` successful writes.
    pub(super) fn note(&self, succeeded: u64) {
        self.least.store(u64::MAX, Ordering::Relaxed);
        self.failed_at.store(succeeded, Ordering::Relaxed);
    }

    /// Reports whether space is lacking, after `succeeded` successful writes and with `available`
    /// bytes left. A write takes at least `granule` bytes.
    pub(super) fn is_felt(&self, succeeded: u64, available: u64, granule: u64) -> bool {
        let failed_at = self.failed_at.load(Ordering::Relaxed);
        if failed_at != NONE && succeeded <= failed_at {
            let before = self.least.fetch_min(available, Ordering::Relaxed);
            let least = before.min(available);
            if available - least < least.max(CLEARLY * granule) {
                return true;
            }
        }
        self.failed_at.store(NONE, Ordering::Relaxed);
        available < granule
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_that_comes_ends_the_shortage_of_a_host_that_waits() {
        let shortage = Shortage::default();
        shortage.note(7);
        assert!(shortage.is_felt(7, 900_000, 4096));
        // A pool that frees nearly as much as it had when it refused writes is still short.
        assert!(shortage.is_felt(7, 1_700_000, 4096));
        assert!(!shortage.is_felt(7, 1_800_000, 4096), "twice as much");
        // After a write failed with nothing left, two free blocks are not room yet.
        shortage.note(7);
        assert!(shortage.is_felt(7, 0, 4096));
        assert!(shortage.is_felt(7, 8192, 4096));
        assert!(!shortage.is_felt(7, 64 * 4096, 4096));
        shortage.note(7);
        assert!(
            shortage.is_felt(7, 64 * 4096, 4096),
            "until a write fails again"
        );
    }

    #[test]
    fn a_failed_write_shows_until_one_succeeds() {
        let shortage = Shortage::default();
        assert!(!shortage.is_felt(7, 4096, 4096));
        assert!(shortage.is_felt(7, 4095, 4096));
        // The space left is too small for the metadata that is written with the data.
        shortage.note(7);
        assert!(shortage.is_felt(7, 10_000, 4096));
        assert!(!shortage.is_felt(8, 10_000, 4096));
        assert!(!shortage.is_felt(8, 10_000, 4096), "until one fails again");
        shortage.note(8);
        assert!(shortage.is_felt(8, 10_000, 4096));
    }
}
