//! Tally of what is rare beside reads and writes: discards, flushes, failures.
//!
//! All loops count in the same place, so counting takes an atomic addition. These commands are too
//! rare or too slow for that to matter, and cells for each loop would cost more memory than the
//! sums are worth.

use std::sync::atomic::{AtomicU64, Ordering};

use super::CommandTimes;
use model::figures::CommandKind;
use model::figures::rare::{DiscardSums, FailureSums, FlushSums, RareSums};

/// Sums of discards and flushes of a unit.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    discards: AtomicU64,
    discarded_bytes: AtomicU64,
    discard_ns: AtomicU64,
    flushes: AtomicU64,
    flush_ns: AtomicU64,
}

/// Sums of commands that failed or were aborted.
#[derive(Debug, Default)]
pub(super) struct Failures {
    commands: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    reserves: AtomicU64,
    aborts: AtomicU64,
    resets: AtomicU64,
}

/// Command that ended with another status than GOOD.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Kind of the command.
    pub kind: CommandKind,
    /// Bytes that a READ or WRITE was to move.
    pub bytes: u64,
    /// Whether the command met another host's reservation.
    pub met_reservation: bool,
}

/// Reason why commands ended before their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A task management function or a command aborted them.
    Abort,
    /// A reset of the logical unit or of the target ended them.
    Reset,
}

fn raise(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Upkeep {
    /// Adds a command, if it is a discard or a flush.
    #[inline]
    pub(super) fn add(&self, times: &CommandTimes) {
        match times.kind {
            CommandKind::Discard => {
                raise(&self.discards, 1);
                raise(&self.discarded_bytes, times.bytes);
                raise(&self.discard_ns, times.latency_ns());
            }
            CommandKind::Flush => {
                raise(&self.flushes, 1);
                raise(&self.flush_ns, times.latency_ns());
            }
            CommandKind::Read | CommandKind::Write | CommandKind::Other | CommandKind::Reserve => {}
        }
    }

    /// Returns the sums, together with those of failures.
    pub(super) fn sums(&self, failures: &Failures) -> RareSums {
        RareSums {
            discards: DiscardSums {
                commands: value(&self.discards),
                bytes: value(&self.discarded_bytes),
                time_ns: value(&self.discard_ns),
            },
            flushes: FlushSums {
                commands: value(&self.flushes),
                time_ns: value(&self.flush_ns),
            },
            failures: failures.sums(),
        }
    }
}

impl Failures {
    /// Adds a command that failed.
    pub(super) fn add(&self, failure: Failure) {
        raise(&self.commands, 1);
        match failure.kind {
            CommandKind::Read => {
                raise(&self.reads, 1);
                raise(&self.read_bytes, failure.bytes);
            }
            CommandKind::Write => {
                raise(&self.writes, 1);
                raise(&self.written_bytes, failure.bytes);
            }
            CommandKind::Reserve if failure.met_reservation => raise(&self.reserves, 1),
            CommandKind::Reserve
            | CommandKind::Other
            | CommandKind::Discard
            | CommandKind::Flush => {}
        }
    }

    /// Adds commands that ended before their time.
    pub(super) fn add_aborted(&self, commands: u64, cause: Cause) {
        match cause {
            Cause::Abort => raise(&self.aborts, commands),
            Cause::Reset => raise(&self.resets, commands),
        }
    }

    /// Returns the sums.
    pub(super) fn sums(&self) -> FailureSums {
        FailureSums {
            commands: value(&self.commands),
            reads: value(&self.reads),
            writes: value(&self.writes),
            read_bytes: value(&self.read_bytes),
            written_bytes: value(&self.written_bytes),
            reserves: value(&self.reserves),
            aborts: value(&self.aborts),
            resets: value(&self.resets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_by_kind() {
        let failures = Failures::default();
        for (kind, met_reservation) in [
            (CommandKind::Read, false),
            (CommandKind::Write, true),
            (CommandKind::Other, false),
            (CommandKind::Reserve, true),
            (CommandKind::Reserve, false),
        ] {
            failures.add(Failure {
                kind,
                bytes: 512,
                met_reservation,
            });
        }
        failures.add_aborted(3, Cause::Abort);
        failures.add_aborted(2, Cause::Reset);
        let expected = FailureSums {
            commands: 5,
            reads: 1,
            writes: 1,
            read_bytes: 512,
            written_bytes: 512,
            reserves: 1,
            aborts: 3,
            resets: 2,
        };
        assert_eq!(failures.sums(), expected);
    }

    #[test]
    fn discards_and_flushes_have_their_bytes_and_times() {
        let upkeep = Upkeep::default();
        for kind in [CommandKind::Discard, CommandKind::Flush, CommandKind::Read] {
            upkeep.add(&CommandTimes {
                kind,
                bytes: 4096,
                stages_ns: [1, 2, 30, 4],
            });
        }
        let sums = upkeep.sums(&Failures::default());
        let expected = DiscardSums {
            commands: 1,
            bytes: 4096,
            time_ns: 37,
        };
        assert_eq!(sums.discards, expected);
        assert_eq!((sums.flushes.commands, sums.flushes.time_ns), (1, 37));
    }
}
