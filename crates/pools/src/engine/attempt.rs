//! Retries of an action that failed.
//!
//! The waits are two seconds, then twice as long each time, up to a minute. A disk that was not
//! there the last time ends the wait at once. So an action that always fails costs next to nothing,
//! and an action that waited for a disk does not wait longer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// First wait between two attempts.
const FIRST: Duration = Duration::from_secs(2);
/// Longest wait between two attempts.
const MOST: Duration = Duration::from_secs(60);

/// Disks that an action was last tried with, and the time of the next attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// Disks of other machines that were there at the last attempt.
    with: Vec<PathBuf>,
    /// Time of the next attempt with unchanged disks, and the length of the wait before it.
    next: Option<(Instant, Duration)>,
}

impl Attempt {
    /// Reports whether to try now with the disks in `there`. A disk that was away counts as new
    /// when it is back.
    pub(crate) fn is_due(&mut self, there: &[PathBuf], now: Instant) -> bool {
        self.with.retain(|path| there.contains(path));
        let is_news = there.iter().any(|path| !self.with.contains(path));
        is_news || self.next.is_none_or(|(at, _)| at <= now)
    }

    /// Notes an attempt with the disks in `there`.
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
        // Disk b goes away and comes back.
        assert!(!attempt.is_due(&[disk("a")], now));
        assert!(attempt.is_due(&[disk("a"), disk("b")], now));
    }
}
