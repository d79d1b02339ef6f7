//! Reaction to an answer that is not GOOD: the I/O is repeated (at once, later, elsewhere), or
//! fails.
//!
//! The target has answered, so the attempt is over there, and no part of it can land later. Repeats
//! come at once first, and then ever more slowly, so that they do not flood a target that always
//! gives the same answer. The number of repeats depends on what the answer promises.

use scsi::application_client::sense::Reaction;

use super::action::{Action, Actions, Refresh};
use super::device::Device;
use super::hold::Hold;
use super::io::{Ended, Failure, IoId, IoStage, Outcome};
use super::path::PathId;

/// Rules for repeating an I/O.
struct Patience {
    /// Number of repeats that come at once.
    at_once: u16,
    /// Delay of the next repeat. It doubles each time, up to [`LONGEST_DELAY_US`].
    delay_us: u64,
    /// Most repeats. The time limit of the command applies as well.
    at_most: u16,
}

const LONGEST_DELAY_US: u64 = 1_000_000;

/// Patience for passing conditions: unit attentions, a new state of the path.
const PASSING: Patience = Patience {
    at_once: 4,
    delay_us: 10_000,
    at_most: u16::MAX,
};
/// Patience for aborted commands. The reasons may come back with every attempt.
const ABORTED: Patience = Patience {
    at_once: 2,
    delay_us: 10_000,
    at_most: 10,
};
/// Patience for a busy target. The condition passes, but not at once.
const BUSY: Patience = Patience {
    at_once: 0,
    delay_us: 1_000,
    at_most: u16::MAX,
};
/// Patience for a unit that is becoming ready.
const LATER: Patience = Patience {
    at_once: 0,
    delay_us: 100_000,
    at_most: u16::MAX,
};
/// Patience for errors that may exist only here and now.
const BROKEN: Patience = Patience {
    at_once: 0,
    delay_us: 10_000,
    at_most: 3,
};

impl Device {
    /// Reacts to an attempt on `path` that ended with neither GOOD nor a lost connection.
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
                // The LUN may belong to another unit by now. Nothing goes there until the unit has
                // identified itself again.
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
                // The I/O enters the queue first, so that a path found by the review takes it
                // along.
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

    /// Puts an I/O back into the queue, now or later. Fails it if its repeats are used up.
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
            // Each reason has its own count of repeats.
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
            entry.stage = IoStage::Delayed;
            let doublings = u32::from(repeats - patience.at_once).min(10);
            let delay_us = (patience.delay_us << doublings).min(LONGEST_DELAY_US);
            self.delayed.push((now_us + delay_us, io));
        }
    }
}
