//! When something that failed is tried again: after two seconds, then after twice as long each time, up to a minute;
//! at once where a disk is there that was not there the last time. What fails for good costs next to nothing so, and
//! what a disk was waited for does not wait any longer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first wait.
const FIRST: Duration = Duration::from_secs(2);
/// The longest.
const MOST: Duration = Duration::from_secs(60);

/// What was tried, and when it may be tried again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// The disks of other machines that were there.
    with: Vec<PathBuf>,
    /// Not before this, with the same disks; and how long that was away when it was noted.
    next: Option<(Instant, Duration)>,
}

impl Attempt {
    /// Whether to try with these disks now. Those that are away are news when they are back.
    pub(crate) fn is_due(&mut self, there: &[PathBuf], now: Instant) -> bool {
        self.with.retain(|path| there.contains(path));
        let is_news = there.iter().any(|path| !self.with.contains(path));
        is_news || self.next.is_none_or(|(at, _)| at <= now)
    }

    /// It was tried with these disks.
    pub(crate) fn made(&mut self, there: Vec<PathBuf>, now: Instant) {
        let before = self.next.map(|(_, wait)| wait);
        let wait = before.map_or(FIRST, |wait| (2 * wait).min(MOST));
        self.with = there;
        self.next = Some((now + wait, wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_get_longer_and_a_disk_that_comes_ends_them() {
        let start = Instant::now();
        let disk = |name: &str| PathBuf::from(name);
        let mut attempt = Attempt::default();
        let mut tried = Vec::new();
        for second in 0..300 {
            let now = start + Duration::from_secs(second);
            if attempt.is_due(&[disk("a")], now) {
                attempt.made(vec![disk("a")], now);
                tried.push(second);
            }
        }
        assert_eq!(tried, [0, 2, 6, 14, 30, 62, 122, 182, 242]);
        let now = start + Duration::from_secs(243);
        assert!(attempt.is_due(&[disk("a"), disk("b")], now));
        attempt.made(vec![disk("a"), disk("b")], now);
        // It goes, and comes again.
        assert!(!attempt.is_due(&[disk("a")], now));
        assert!(attempt.is_due(&[disk("a"), disk("b")], now));
    }
}
