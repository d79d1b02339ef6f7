//! The queue of a device: at most DQLEN I/Os are at the device, and the others are sent in order of
//! submission.
//!
//! An I/O waits in one of three places: the queue (for room or for a path), *held* (for the end of
//! a ghost, see `ghosts.rs`) and *delayed* (until the time to repeat). An I/O that leaves one of
//! the latter two takes its old place in the queue. A path that says BUSY or TASK SET FULL gets a
//! smaller share (ESXi's QFullSampleSize and QFullThreshold).

use super::action::{Action, Actions};
use super::device::Device;
use super::failover::Outage;
use super::ghosts::Permit;
use super::hold::Hold;
use super::io::{Failure, Io, IoId, IoShape, IoStage, Outcome};
use super::path::{Link, Path};
use super::path_selection::each;
use super::settings::Settings;
use scsi::application_client::target_port_groups::AccessState;

/// Time after which a request to activate a group is repeated.
const ACTIVATE_AGAIN_US: u64 = 5_000_000;

impl Device {
    /// Sends the I/Os at the head of the queue that may be sent.
    #[inline]
    pub(super) fn dispatch(&mut self, now_us: u64, out: &mut Actions) {
        if self.hold == Hold::Lost {
            return self.fail_waiting(Failure::ReservationConflict, now_us, out);
        }
        let depth = self.settings.depth();
        while let Some(&io) = self.queue.front() {
            if self.in_flight >= depth {
                return;
            }
            let entry = &self.ios[io.0 as usize];
            let must_wait = match self.ghosts.permit(entry.number, &entry.shape) {
                Permit::Free => false,
                Permit::Alone => {
                    let is_raced = self.is_raced(&entry.shape);
                    self.a_race_holds |= is_raced;
                    is_raced
                }
                Permit::Wait => true,
            };
            let entry = &mut self.ios[io.0 as usize];
            if must_wait {
                entry.stage = IoStage::Held;
                self.queue.pop_front();
                self.held.push(io);
                continue;
            }
            let bytes = entry.shape.bytes;
            let chosen = self
                .selection
                .choose(&self.paths, &self.settings, bytes, now_us);
            let Some(id) = chosen else {
                self.activate(now_us, out);
                return;
            };
            let Some(Some(path)) = self.paths.get_mut(id.0 as usize) else {
                return;
            };
            path.in_flight += 1;
            path.last_sent_us = now_us;
            entry.first_sent_us.get_or_insert(now_us);
            entry.sent_us = now_us;
            entry.stage = IoStage::OnPath(id);
            self.in_flight += 1;
            self.queue.pop_front();
            out.push(Action::Send { io, path: id });
        }
    }

    /// Reports whether an I/O on a path changes blocks of this shape. Nobody knows which of the two
    /// the target would perform last.
    fn is_raced(&self, shape: &IoShape) -> bool {
        let on_path = |io: &&Io| matches!(io.stage, IoStage::OnPath(_));
        let mut others = self.ios.iter().filter(on_path);
        others.any(|io| io.shape.direction.changes_blocks() && io.shape.overlaps(shape))
    }

    /// Notes that an I/O which changes blocks has left its path. I/Os that waited for the end of a
    /// race try again.
    #[inline]
    pub(super) fn race_is_over(&mut self) {
        if std::mem::take(&mut self.a_race_holds) {
            self.release_held();
        }
    }

    /// Puts an I/O at its place in the queue: before all that were submitted later.
    pub(super) fn enqueue(&mut self, io: IoId) {
        let ios = &mut self.ios;
        ios[io.0 as usize].stage = IoStage::Queued;
        let number = ios[io.0 as usize].number;
        let at = self
            .queue
            .partition_point(|other| ios[other.0 as usize].number < number);
        self.queue.insert(at, io);
    }

    /// Lets held I/Os try again, because a ghost or its session is over.
    pub(super) fn release_held(&mut self) {
        for io in std::mem::take(&mut self.held) {
            self.enqueue(io);
        }
    }

    /// Queues the I/Os whose time to repeat has come.
    pub(super) fn release_delayed(&mut self, now_us: u64) {
        let mut at = 0;
        while let Some(&(due_us, io)) = self.delayed.get(at) {
            if due_us <= now_us {
                self.delayed.swap_remove(at);
                self.enqueue(io);
            } else {
                at += 1;
            }
        }
    }

    /// Ends every waiting I/O.
    pub(super) fn fail_waiting(&mut self, failure: Failure, now_us: u64, out: &mut Actions) {
        let queue = std::mem::take(&mut self.queue);
        let held = std::mem::take(&mut self.held);
        let delayed = std::mem::take(&mut self.delayed);
        let all = queue
            .into_iter()
            .chain(held)
            .chain(delayed.into_iter().map(|(_, io)| io));
        for io in all {
            self.finish(io, Outcome::Failed(failure), now_us, out);
        }
    }

    /// Reports whether paths live, but none may carry I/O.
    fn is_stuck(&self) -> bool {
        self.outage == Outage::None && self.selection.candidates().is_empty()
    }

    /// Returns the time at which the oldest I/O has waited too long for a path that serves it.
    pub(super) fn overdue_us(&self) -> Option<u64> {
        let oldest = self.queue.front().filter(|_| self.is_stuck())?;
        Some(self.ios[oldest.0 as usize].submitted_us + self.settings.command_time_limit_us)
    }

    /// Ends the I/Os that have waited too long for a path that serves them.
    pub(super) fn end_overdue(&mut self, now_us: u64, out: &mut Actions) {
        while self.overdue_us().is_some_and(|due_us| due_us <= now_us) {
            let Some(io) = self.queue.pop_front() else {
                return;
            };
            let entry = &self.ios[io.0 as usize];
            let failure = entry.failure;
            self.finish(io, Outcome::Failed(failure), now_us, out);
        }
    }

    /// Asks for a standby group, if I/O waits and only standby groups are there. This array and the
    /// settings must allow it.
    fn activate(&mut self, now_us: u64, out: &mut Actions) {
        if self.activation_us().is_none_or(|due_us| due_us > now_us) {
            return;
        }
        let standby = each(&self.paths)
            .filter(|(_, path)| path.is_activatable())
            .min_by_key(|(id, path)| (!path.preferred_group, *id));
        if let Some((path, _)) = standby {
            out.push(Action::ActivateGroup { path });
            self.activate_again_us = now_us + ACTIVATE_AGAIN_US;
        }
    }

    /// Returns the time from which a group may be asked for; `None` if asking is not allowed or not
    /// needed.
    pub(super) fn activation_us(&self) -> Option<u64> {
        let wanted = !self.queue.is_empty()
            && self.in_flight < self.settings.depth()
            && self.is_stuck()
            && self.settings.explicit_allow
            && self.settings.satp.is_alua();
        // A transition under way will end in a state. Asking meanwhile only prolongs it.
        let transition = |path: &Path| path.access == AccessState::Transitioning;
        let mut paths = self.paths.iter().flatten();
        if !wanted || paths.any(|path| path.link == Link::Up && transition(path)) {
            return None;
        }
        let mut paths = self.paths.iter().flatten();
        paths
            .any(Path::is_activatable)
            .then_some(self.activate_again_us)
    }
}

impl Path {
    /// Reports whether an explicit request (TPGS bit 1) may make this path active.
    fn is_activatable(&self) -> bool {
        self.link == Link::Up
            && self.access == AccessState::Standby
            && self.identity.tpgs & 0b10 != 0
    }

    /// Handles an answer BUSY or TASK SET FULL.
    pub(super) fn busy_answer(&mut self, settings: &Settings) {
        self.good_seen = 0;
        self.busy_seen += 1;
        let sample = settings.queue_full_sample_size;
        if sample > 0 && self.busy_seen >= sample {
            self.busy_seen = 0;
            // The target took what is there now. Half of it leaves room for other hosts.
            self.window = (self.window.min(self.in_flight + 1) / 2).max(1);
        }
    }

    /// Handles an answer GOOD.
    #[inline]
    pub(super) fn good_answer(&mut self, settings: &Settings) {
        if self.window >= settings.depth() {
            return;
        }
        self.good_seen += 1;
        if self.good_seen >= settings.queue_full_threshold.max(1) {
            self.good_seen = 0;
            self.busy_seen = 0;
            self.window += 1;
        }
    }
}
