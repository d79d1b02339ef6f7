//! When to take input: a read from the socket and all that follows it cost far more than one more
//! command in it.
//!
//! An initiator that sends many writes one by one and quickly is not served one by one: the loop lets a
//! few gather, and so its answers leave together too, which is less work for the initiator as well.
//! Everything else is taken at once: commands of an initiator with few outstanding, which would wait for
//! nothing; what comes in batches already, so that a busy loop never idles; and reads, whose commands are
//! so short that many fit in one piece anyway.

use std::time::{Duration, Instant};

/// Input gathers for as long as this many commands take to come: what is gained lies in their number, and how
/// quickly they come is the initiator's processor's affair.
const GATHERED: u64 = 6;
/// Commands come quickly where they are less than this apart on average.
const QUICK_NS: u64 = 16_000;
/// An initiator with this many commands outstanding has enough to do while a few of them gather.
const DEEP: u32 = 16;
/// Input with this many commands on average is a batch without waiting.
const BATCH: u64 = 8;
/// Fixed-point fraction of the average.
const FRACTION: u64 = 16;
/// Input with this many bytes for each command is mostly data-out.
const DATA_OUT_BYTES: u64 = 1024;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Gathering {
    /// When input was last taken.
    last: Instant,
    /// Running average of the time between commands.
    gap_ns: u64,
    /// Running average of the commands taken at once, times [`FRACTION`].
    batch: u64,
    /// The input taken last was mostly data-out, of an initiator with many commands outstanding.
    deep_writes: bool,
    /// Since when there is input that is not taken.
    since: Option<Instant>,
}

impl Gathering {
    /// Takes everything at once, to begin with.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            last: now,
            gap_ns: 8 * QUICK_NS,
            batch: 0,
            deep_writes: false,
            since: None,
        }
    }

    /// There is input: whether to leave it for now and ask again in the next turn.
    #[inline]
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        self.deep_writes
            && self.gap_ns < QUICK_NS
            && self.batch < BATCH * FRACTION
            && now.duration_since(*self.since.get_or_insert(now)) < self.span()
    }

    /// How long input gathers: always less than [`GATHERED`] times [`QUICK_NS`].
    fn span(&self) -> Duration {
        Duration::from_nanos(GATHERED * self.gap_ns)
    }

    /// Input of this many bytes was taken, with so many commands in it; so many are outstanding.
    #[inline]
    pub(super) fn taken(&mut self, commands: u64, outstanding: u32, bytes: usize, now: Instant) {
        let elapsed = now.duration_since(self.last).as_nanos();
        // One long pause shall not outweigh many short ones.
        let elapsed = u64::try_from(elapsed)
            .unwrap_or(u64::MAX)
            .min(64 * QUICK_NS);
        let gap = elapsed / commands.max(1);
        self.gap_ns = (self.gap_ns * 7 + gap) / 8;
        self.batch = (self.batch * 7 + commands * FRACTION) / 8;
        let writes = bytes as u64 >= commands.max(1) * DATA_OUT_BYTES;
        self.deep_writes = writes && outstanding >= DEEP;
        self.last = now;
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After many inputs, each of so many commands with so many bytes each.
    fn after(gap: Duration, commands: u64, bytes: usize, outstanding: u32) -> (Gathering, Instant) {
        let mut now = Instant::now();
        let mut gathering = Gathering::new(now);
        for _ in 0..100 {
            now += gap;
            gathering.taken(commands, outstanding, bytes * commands as usize, now);
        }
        (gathering, now)
    }

    const QUICK: Duration = Duration::from_micros(5);

    #[test]
    fn quick_deep_writes_gather_for_a_bounded_time() {
        let (mut gathering, now) = after(QUICK, 1, 4144, 32);
        assert!(gathering.goes_on(now));
        assert!(gathering.goes_on(now + 3 * QUICK));
        assert!(!gathering.goes_on(now + 6 * QUICK));
    }

    #[test]
    fn what_gathered_counts_for_the_pace() {
        let pause = Duration::from_micros(30);
        let (mut gathering, now) = after(pause, 6, 4144, 32);
        assert!(gathering.goes_on(now), "six in 30 µs are quick");
        let (mut gathering, now) = after(pause, 1, 4144, 32);
        assert!(!gathering.goes_on(now), "one in 30 µs gains nothing");
    }

    #[test]
    fn all_others_are_taken_at_once() {
        let slow = Duration::from_micros(20);
        for (gap, commands, bytes, outstanding, what) in [
            (slow, 1, 4144, 32, "slow writes"),
            (QUICK, 1, 4144, 8, "few outstanding"),
            (QUICK, 1, 48, 32, "reads"),
            (QUICK, 16, 4144, 64, "batches"),
        ] {
            let (mut gathering, now) = after(gap, commands, bytes, outstanding);
            assert!(!gathering.goes_on(now), "{what}");
        }
        let now = Instant::now();
        assert!(!Gathering::new(now).goes_on(now));
    }
}
