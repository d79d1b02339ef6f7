//! Spare time of a pool's thread: when it does work that nobody waits for, for example checkpoints
//! and scans.
//!
//! The thread does such work while the devices are busy. A caller that was just answered often
//! sends its next request at once, and must not find the thread busy.

/// Time, in microseconds, for which the thread waits after an answer for the caller's next request.
/// Waking a sleeping thread on another processor takes 15 to 50.
const ASKS_AGAIN_US: u64 = 60;
/// Longest time, in microseconds, by which such waits put off other work. A caller that reads only
/// from memory asks again and again, and never keeps a device busy.
const PUT_OFF_US: u64 = 240;

/// Expectation that a caller will soon send its next request.
#[derive(Debug, Default)]
pub(crate) struct SpareTime {
    asks_again_until_us: u64,
}

impl SpareTime {
    /// Notes whether this turn sent requests to devices, or answered callers.
    pub(crate) fn heed(&mut self, has_requests: bool, has_answers: bool, now_us: u64) {
        if has_requests {
            self.asks_again_until_us = 0;
        } else if has_answers {
            self.asks_again_until_us = now_us + ASKS_AGAIN_US;
        }
    }

    /// Reports whether work that was due at `due_us` should be done now.
    pub(crate) fn is_now(&self, due_us: u64, now_us: u64) -> bool {
        let is_expected = now_us < self.asks_again_until_us;
        now_us >= due_us && (!is_expected || now_us >= due_us + PUT_OFF_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_answered_has_a_moment_to_ask_again() {
        let mut spare = SpareTime::default();
        assert!(spare.is_now(1000, 1000) && !spare.is_now(1001, 1000));
        spare.heed(false, true, 1000);
        assert!(!spare.is_now(1000, 1000 + ASKS_AGAIN_US - 1));
        assert!(spare.is_now(1000, 1000 + ASKS_AGAIN_US));
        // A turn in which nothing happened changes nothing.
        spare.heed(false, false, 1010);
        assert!(!spare.is_now(1000, 1010));
    }

    #[test]
    fn work_is_done_while_devices_are_at_work() {
        let mut spare = SpareTime::default();
        spare.heed(false, true, 1000);
        spare.heed(true, true, 1010);
        assert!(spare.is_now(1000, 1010));
    }

    #[test]
    fn answers_without_end_do_not_put_it_off_for_ever() {
        let mut spare = SpareTime::default();
        let answered_us = (1000..).step_by(10).take_while(|now_us| {
            spare.heed(false, true, *now_us);
            !spare.is_now(1000, *now_us) && *now_us < 100_000
        });
        assert_eq!(answered_us.last(), Some(1000 + PUT_OFF_US - 10));
    }
}
