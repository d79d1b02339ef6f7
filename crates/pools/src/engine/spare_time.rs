//! When a pool's thread does what nobody waits for (checkpoints, scans): while the devices are at work. Who has just been
//! answered may ask again because of it, and shall not find the thread busy.

/// So long after an answer the thread is left to who asks again. Microseconds; waking a sleeper on another processor
/// takes 15 to 50.
const ASKS_AGAIN_US: u64 = 60;
/// So long work is put off for that at most: who reads from memory only asks again and again, and never keeps a device at
/// work. Microseconds.
const PUT_OFF_US: u64 = 240;

/// Whether somebody is expected to ask.
#[derive(Debug, Default)]
pub(crate) struct SpareTime {
    asks_again_until_us: u64,
}

impl SpareTime {
    /// Devices were asked for something in this turn, or somebody was answered.
    pub(crate) fn heed(&mut self, has_requests: bool, has_answers: bool, now_us: u64) {
        if has_requests {
            self.asks_again_until_us = 0;
        } else if has_answers {
            self.asks_again_until_us = now_us + ASKS_AGAIN_US;
        }
    }

    /// Whether work is to be done that was due then.
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
