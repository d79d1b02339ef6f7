//! Want of space, as views show it: nothing is left, or a write failed for that and not much has become free since.

use std::sync::atomic::{AtomicU64, Ordering};

/// No write failed, as far as is known.
const NONE: u64 = u64::MAX;
/// One failed, and nobody has looked since.
const UNSEEN: u64 = u64::MAX - 1;
/// Bytes that must become free after a failed write before space counts as there again.
const RELIEF: u64 = 1 << 20;

/// The space that was available when a write failed for want of it.
#[derive(Debug)]
pub(super) struct Shortage(AtomicU64);

impl Default for Shortage {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Shortage {
    /// A write failed for want of space.
    pub(super) fn note(&self) {
        self.0.store(UNSEEN, Ordering::Relaxed);
    }

    /// Whether space is lacking now that `available` bytes are left, of which a write takes `granule` at least.
    pub(super) fn is_felt(&self, available: u64, granule: u64) -> bool {
        let failed_at = match self.0.load(Ordering::Relaxed) {
            NONE => return available < granule,
            UNSEEN => available,
            failed_at => failed_at,
        };
        let is_relieved = available >= failed_at.saturating_add(RELIEF);
        let kept = if is_relieved {
            NONE
        } else {
            failed_at.min(available)
        };
        self.0.store(kept, Ordering::Relaxed);
        !is_relieved || available < granule
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_shows_until_more_is_free_than_was_then() {
        let shortage = Shortage::default();
        assert!(!shortage.is_felt(4096, 4096));
        assert!(shortage.is_felt(4095, 4096));
        // The rest is too small for what is written beside the data.
        shortage.note();
        assert!(shortage.is_felt(10_000, 4096));
        assert!(shortage.is_felt(9_000, 4096));
        assert!(shortage.is_felt(9_000 + RELIEF - 1, 4096));
        assert!(!shortage.is_felt(9_000 + RELIEF, 4096));
        assert!(!shortage.is_felt(9_000, 4096), "until one fails again");
        shortage.note();
        assert!(shortage.is_felt(u64::MAX / 2, 4096));
    }
}
