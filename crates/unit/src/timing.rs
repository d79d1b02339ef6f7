//! The time that commands take, split into stages, whatever protocol carries them.
//!
//! A command spends its time in four stages: its data-out comes in, it waits in the queue, the
//! device works, the answer leaves. A [`Stopwatch`] goes with the command and counts the stages.
//! When the last byte of the answer has left, the [`Receipt`] of the command comes back, and its
//! times are added to the tallies of its unit, its nexus, its session and its port group
//! ([`tally`]).
//!
//! Times are readings of the event loop's clock, which the loop reads a few times in each turn, not
//! for each command. Work of the processor within a turn therefore counts for the stage that ends
//! next. A device that answers at once has a time of zero.

use std::sync::Arc;
use std::time::Instant;

use self::tally::NexusTally;
pub use model::figures::{CommandKind, CommandStage};

pub mod histogram;
pub mod per_loop;
pub mod rare;
pub mod tally;

/// Reading of a loop's clock, in nanoseconds since the loop began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// Clock of an event loop. It stands still between two readings.
#[derive(Debug)]
pub struct LoopClock {
    start: Instant,
    now: Moment,
}

impl LoopClock {
    /// Starts a clock.
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            now: Moment(0),
        }
    }

    /// Sets the clock to a reading that the loop has just made.
    #[inline]
    pub fn set(&mut self, now: Instant) {
        self.now = Moment(now.saturating_duration_since(self.start).as_nanos() as u64);
    }

    /// Returns the latest reading.
    #[inline]
    pub fn now(&self) -> Moment {
        self.now
    }
}

/// Time that a command has spent in each stage so far.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    spent_ns: [u64; CommandStage::ALL.len()],
    stage: CommandStage,
    since: Moment,
}

impl Stopwatch {
    /// Starts the stopwatch of a command that begins with this stage.
    #[inline]
    pub fn start(stage: CommandStage, now: Moment) -> Self {
        Self {
            spent_ns: [0; CommandStage::ALL.len()],
            stage,
            since: now,
        }
    }

    /// Ends the current stage and begins another.
    #[inline]
    pub fn turn_to(&mut self, stage: CommandStage, now: Moment) {
        self.spent_ns[self.stage as usize] += now.0.saturating_sub(self.since.0);
        self.stage = stage;
        self.since = now;
    }
}

/// Record of a command that has ended and whose answer is about to leave.
#[derive(Debug)]
pub struct Receipt {
    /// Nexus through which the command came.
    pub nexus: Arc<NexusTally>,
    kind: CommandKind,
    bytes: u64,
    stopwatch: Stopwatch,
}

impl Receipt {
    /// Makes the receipt of a command whose work has ended now.
    #[inline]
    pub fn new(
        nexus: &Arc<NexusTally>,
        kind: CommandKind,
        bytes: u64,
        mut stopwatch: Stopwatch,
        now: Moment,
    ) -> Self {
        stopwatch.turn_to(CommandStage::Reply, now);
        Self {
            nexus: Arc::clone(nexus),
            kind,
            bytes,
            stopwatch,
        }
    }

    /// Returns the times of the command, whose answer has left now.
    #[inline]
    pub fn left(&self, now: Moment) -> CommandTimes {
        let mut stopwatch = self.stopwatch;
        stopwatch.turn_to(CommandStage::Reply, now);
        CommandTimes {
            kind: self.kind,
            bytes: self.bytes,
            stages_ns: stopwatch.spent_ns,
        }
    }
}

/// Times of a command, from its arrival to the last byte of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTimes {
    /// Kind of the command.
    pub kind: CommandKind,
    /// Bytes that a READ or WRITE moved, or that a discard freed; 0 for others.
    pub bytes: u64,
    /// Nanoseconds of each stage.
    pub stages_ns: [u64; CommandStage::ALL.len()],
}

impl CommandTimes {
    /// Returns the whole time of the command in nanoseconds.
    #[inline]
    pub fn latency_ns(&self) -> u64 {
        self.stages_ns.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_adds_up_stages_that_come_again() {
        use CommandStage::{Device, Queue, Reply, WireIn};
        let mut stopwatch = Stopwatch::start(WireIn, Moment(10));
        for (stage, now) in [(Queue, 15), (Device, 16), (Queue, 26), (Device, 28)] {
            stopwatch.turn_to(stage, Moment(now));
        }
        stopwatch.turn_to(Reply, Moment(58));
        stopwatch.turn_to(Reply, Moment(60));
        assert_eq!(stopwatch.spent_ns, [5, 3, 40, 2]);
    }

    #[test]
    fn a_clock_tells_its_last_reading() {
        let start = Instant::now();
        let mut clock = LoopClock::new(start);
        assert_eq!(clock.now(), Moment(0));
        clock.set(start + std::time::Duration::from_micros(7));
        assert_eq!(clock.now(), Moment(7000));
    }
}
