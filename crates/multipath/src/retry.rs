//! What follows from an answer that is not GOOD: repeat the I/O (at once, later, elsewhere) or fail
//! it.
//!
//! The target has answered, so the attempt is over there and nothing of it can land later. Repeats
//! come at once first and then ever more slowly, so that a target that always gives the same answer
//! is not flooded; how often depends on what the answer promises.

use scsi::application_client::sense::Reaction;

use super::action::{Action, Actions, Refresh};
use super::device::Device;
use super::hold::Hold;
use super::io::{Ended, Failure, IoId, Outcome, Stage};
use super::path::PathId;

/// How an I/O may be repeated.
struct Patience {
    /// The first so many repeats come at once.
    at_once: u16,
    /// Delay of the next one; it doubles each time up to [`LONGEST_DELAY_US`].
    delay_us: u64,
    /// Repeats at all; the time limit of the command comes on top.
    at_most: u16,
}

const LONGEST_DELAY_US: u64 = 1_000_000;

/// The target said what passes: attentions, another state of the path.
const PASSING: Patience = Patience {
    at_once: 4,
    delay_us: 10_000,
    at_most: u16::MAX,
};
/// Aborted, for reasons that may come back with every attempt.
const ABORTED: Patience = Patience {
    at_once: 2,
    delay_us: 10_000,
    at_most: 10,
};
/// Busy: it passes, but not at once.
const BUSY: Patience = Patience {
    at_once: 0,
    delay_us: 1_000,
    at_most: u16::MAX,
};
/// Becoming ready.
const LATER: Patience = Patience {
    at_once: 0,
    delay_us: 100_000,
    at_most: u16::MAX,
};
/// Broken, perhaps only here and now.
const BROKEN: Patience = Patience {
    at_once: 0,
    delay_us: 10_000,
    at_most: 3,
};

impl Device {
    /// An attempt ended on `path` with anything but GOOD and a lost connection.
    pub(super) fn react(
        &mut self,
        io: IoId,
        path: PathId,
        how: Ended,
        now_us: u64,
        out: &mut Actions,
    ) {
        match how {
            Ended::Good => self.finish(io, Outcome::Good, now_us, out),
            Ended::TransportLost => self.path_dead(path, now_us, out),
            Ended::ReservationConflict if self.hold == Hold::Held => {
                self.doubt_hold(path, out);
                self.repeat(io, Failure::ReservationConflict, &PASSING, now_us, out);
                self.path_suspect(path, now_us, out);
            }
            Ended::ReservationConflict => {
                let outcome = Outcome::Failed(Failure::ReservationConflict);
                self.finish(io, outcome, now_us, out);
            }
            Ended::Busy | Ended::TaskSetFull => {
                if let Some(Some(path)) = self.paths.get_mut(path.0 as usize) {
                    path.busy_answer(&self.settings);
                }
                self.repeat(io, Failure::Busy, &BUSY, now_us, out);
            }
            Ended::TaskAborted => self.repeat(io, Failure::Busy, &ABORTED, now_us, out),
            Ended::Sense(reaction) => self.react_to_sense(io, path, reaction, now_us, out),
        }
    }

    fn react_to_sense(
        &mut self,
        io: IoId,
        path: PathId,
        reaction: Reaction,
        now_us: u64,
        out: &mut Actions,
    ) {
        if let Some(what) = Refresh::after(reaction) {
            out.push(Action::Refresh { path, what });
        }
        let patience = match reaction {
            Reaction::Succeeded => return self.finish(io, Outcome::Good, now_us, out),
            Reaction::ReservationsChanged if self.hold == Hold::Held => {
                self.doubt_hold(path, out);
                self.repeat(io, Failure::Sense(reaction), &PASSING, now_us, out);
                self.path_suspect(path, now_us, out);
                return;
            }
            Reaction::UnitAttention | Reaction::CapacityChanged | Reaction::ReservationsChanged => {
                &PASSING
            }
            Reaction::LunsChanged | Reaction::IdentityChanged => {
                // The number may be another unit's by now: nothing goes there until it has said
                // again who it is.
                self.repeat(io, Failure::Sense(reaction), &PASSING, now_us, out);
                self.path_suspect(path, now_us, out);
                return;
            }
            Reaction::AccessStateChanged => {
                out.push(Action::Probe { path });
                &PASSING
            }
            Reaction::AccessState(state) => {
                out.push(Action::Probe { path });
                // In the queue first, so that a path found by the review takes it along.
                self.repeat(io, Failure::Sense(reaction), &PASSING, now_us, out);
                self.alua_state(path, state, now_us, out);
                return;
            }
            Reaction::UnitGone => {
                self.repeat(io, Failure::Sense(reaction), &PASSING, now_us, out);
                self.unit_gone(path, now_us);
                self.paths_changed(now_us, out);
                return;
            }
            Reaction::Aborted => &ABORTED,
            Reaction::Later => &LATER,
            Reaction::NotReady | Reaction::HardwareError => &BROKEN,
            Reaction::NoSpace
            | Reaction::WriteProtected
            | Reaction::MediumError
            | Reaction::IllegalRequest
            | Reaction::Miscompare
            | Reaction::Other => {
                let outcome = Outcome::Failed(Failure::Sense(reaction));
                return self.finish(io, outcome, now_us, out);
            }
        };
        self.repeat(io, Failure::Sense(reaction), patience, now_us, out);
    }

    /// Puts an I/O back into the queue, now or later, or fails it where patience is at its end.
    fn repeat(
        &mut self,
        io: IoId,
        failure: Failure,
        patience: &Patience,
        now_us: u64,
        out: &mut Actions,
    ) {
        let entry = &mut self.ios[io.0 as usize];
        if entry.failure != failure {
            // Patience is for one reason at a time.
            entry.failure = failure;
            entry.repeats = 0;
        }
        let repeats = entry.repeats;
        entry.repeats = entry.repeats.saturating_add(1);
        entry.tries = entry.tries.saturating_add(1);
        let waited_us = now_us.saturating_sub(entry.submitted_us);
        if repeats >= patience.at_most || waited_us >= self.settings.command_time_limit_us {
            self.finish(io, Outcome::Failed(failure), now_us, out);
        } else if repeats < patience.at_once {
            self.enqueue(io);
        } else {
            entry.stage = Stage::Delayed;
            let doublings = u32::from(repeats - patience.at_once).min(10);
            let delay_us = (patience.delay_us << doublings).min(LONGEST_DELAY_US);
            self.delayed.push((now_us + delay_us, io));
        }
    }
}
