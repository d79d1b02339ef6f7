//! The time at which to take input. A read from the socket and its consequences cost far more than
//! one more command in it.
//!
//! An initiator that sends many commands one by one and quickly is not served one by one. The loop
//! lets a few gather, so its answers leave together too, which is less work for the initiator as
//! well. The commands are counted by the bytes that wait in the socket. Gathering ends when enough
//! are there, when the initiator pauses and so waits for answers, and at the latest after [`SPAN`].
//! Commands of an initiator with few outstanding are taken at once: they would wait for nothing.

use std::time::{Duration, Instant};

/// Number of commands that is enough. With twice as many nothing more was gained, and the initiator
/// idled.
const ENOUGH: u32 = 8;
/// Number of outstanding commands from which an initiator has enough to do while half of them
/// gather.
const DEEP: u32 = 16;
/// Average time between commands below which they come quickly.
const QUICK_NS: u64 = 16_000;
/// Silence after which an initiator is not about to send the next command. A loop also looks away
/// for this time while input gathers.
pub(crate) const PAUSE: Duration = Duration::from_micros(10);
/// Longest time for which input gathers, whatever comes.
const SPAN: Duration = Duration::from_micros(60);
/// Fixed-point fraction of the average of bytes.
const FRACTION: usize = 16;

/// State of one connection.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// Time at which input was last taken.
    last: Instant,
    /// Running average of the time between commands.
    gap_ns: u64,
    /// Running average of the bytes of a command, its data-out among them, times [`FRACTION`].
    command_bytes: usize,
    /// Number of commands that is enough; 0 if input is taken at once.
    enough: u32,
    /// Input that is not taken yet.
    waiting: Option<Waiting>,
}

/// Amount and time of input that is not taken yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    bytes: usize,
    /// Time at which the last of these bytes were seen.
    grew: Instant,
}

impl Gathering {
    /// Returns a state that takes everything at once, to begin with.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last: now,
            gap_ns: 8 * QUICK_NS,
            command_bytes: 0,
            enough: 0,
            waiting: None,
        }
    }

    /// Reports whether to leave input for now and ask again in a later turn. `bytes` returns the
    /// amount of input.
    #[inline]
    pub(crate) fn goes_on(&mut self, now: Instant, bytes: impl FnOnce() -> usize) -> bool {
        if self.enough == 0 || self.gap_ns >= QUICK_NS {
            return false;
        }
        let bytes = bytes();
        let waiting = self.waiting.get_or_insert(Waiting {
            since: now,
            bytes,
            grew: now,
        });
        if bytes > waiting.bytes {
            (waiting.bytes, waiting.grew) = (bytes, now);
        }
        bytes < self.command_bytes * self.enough as usize / FRACTION
            && now.duration_since(waiting.grew) < PAUSE
            && now.duration_since(waiting.since) < SPAN
    }

    /// Notes that input of this many bytes was taken, its number of commands, and the number
    /// outstanding.
    #[inline]
    pub(crate) fn taken(&mut self, commands: u64, outstanding: u32, bytes: usize, now: Instant) {
        let elapsed = now.duration_since(self.last).as_nanos();
        // One long pause must not outweigh many short ones.
        let elapsed = u64::try_from(elapsed)
            .unwrap_or(u64::MAX)
            .min(64 * QUICK_NS);
        let commands = commands.max(1);
        self.gap_ns = (self.gap_ns * 7 + elapsed / commands) / 8;
        let command_bytes = bytes * FRACTION / usize::try_from(commands).unwrap_or(usize::MAX);
        self.command_bytes = (self.command_bytes * 7 + command_bytes).div_ceil(8);
        self.enough = match outstanding >= DEEP {
            true => ENOUGH.min(outstanding / 2),
            false => 0,
        };
        self.last = now;
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(5);
    const WRITE: usize = 4144;
    const READ: usize = 48;

    /// Returns the state after many inputs, each with this number of commands and bytes.
    fn after(gap: Duration, commands: u64, bytes: usize, outstanding: u32) -> (Gathering, Instant) {
        let mut now = Instant::now();
        let mut gathering = Gathering::new(now);
        for _ in 0..100 {
            now += gap;
            gathering.taken(commands, outstanding, bytes * commands as usize, now);
        }
        (gathering, now)
    }

    #[test]
    fn quick_deep_commands_gather_until_enough_are_there() {
        for bytes in [READ, WRITE] {
            let (mut gathering, now) = after(QUICK, 1, bytes, 32);
            for there in 1..8 {
                let now = now + QUICK * there;
                assert!(gathering.goes_on(now, || bytes * there as usize));
            }
            assert!(!gathering.goes_on(now + QUICK * 8, || bytes * 8));
        }
    }

    #[test]
    fn what_came_together_is_not_kept_waiting() {
        let (mut gathering, now) = after(QUICK * 8, 8, WRITE, 32);
        assert!(!gathering.goes_on(now, || 8 * WRITE));
    }

    #[test]
    fn a_pause_of_the_initiator_ends_it() {
        let (mut gathering, now) = after(QUICK, 1, WRITE, 32);
        assert!(gathering.goes_on(now, || WRITE));
        assert!(gathering.goes_on(now + QUICK, || 2 * WRITE));
        assert!(gathering.goes_on(now + PAUSE, || 2 * WRITE));
        assert!(!gathering.goes_on(now + QUICK + PAUSE, || 2 * WRITE));
    }

    #[test]
    fn it_ends_in_time_whatever_comes() {
        let (mut gathering, now) = after(QUICK, 1, WRITE, 32);
        let mut end = now;
        let mut bytes = 0;
        while gathering.goes_on(end, || bytes) {
            end += QUICK;
            bytes += READ;
        }
        assert_eq!(end - now, SPAN);
    }

    #[test]
    fn what_was_taken_counts_no_more() {
        let (mut gathering, mut now) = after(QUICK, 1, WRITE, 32);
        for _ in 0..8 {
            assert!(gathering.goes_on(now, || WRITE));
            now += PAUSE;
            assert!(!gathering.goes_on(now, || WRITE));
            gathering.taken(1, 32, WRITE, now);
        }
    }

    #[test]
    fn all_others_are_taken_at_once() {
        let slow = Duration::from_micros(20);
        for (gap, outstanding, what) in [(slow, 32, "slow"), (QUICK, 15, "few outstanding")] {
            let (mut gathering, now) = after(gap, 1, WRITE, outstanding);
            assert!(!gathering.goes_on(now, || WRITE), "{what}");
        }
        let now = Instant::now();
        assert!(!Gathering::new(now).goes_on(now, || WRITE));
    }
}
