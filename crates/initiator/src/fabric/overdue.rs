//! Commands without an answer from a target that still answers pings. They are aborted and
//! repeated. If the target does not even answer the abort, the session is given up.

use std::time::Duration;

use iscsi::pdu::{TaskManagementFunction, TaskManagementResult};

use super::super::link::{Link, LinkError};
use super::super::nexus::us;
use super::traffic::{cookie, device_and_io, path_of};
use super::{ERRAND, Fabric, Way};
use multipath::{Ended, IoId, PathId};

/// Interval of the checks. A timeout of many seconds need not be exact.
const LOOK_EVERY_US: u64 = 1_000_000;
/// Longest time for an answer to an abort.
const ABORT_LIMIT_US: u64 = 10_000_000;

/// Abort that was requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abort {
    pub(super) nexus: usize,
    /// Number of the abort. The command's number may belong to another command when the answer
    /// comes.
    number: u64,
    /// Cookie of the command.
    cookie: u64,
    asked_us: u64,
}

impl Fabric {
    /// Returns the time of the next check; `None` while nothing is under way.
    pub(super) fn overdue_deadline_us(&self) -> Option<u64> {
        let active = |device: &super::Device| device.policy.queue_snapshot().actv > 0;
        let busy = !self.errands.is_empty() || self.devices.iter().any(active);
        busy.then_some(self.looked_us + LOOK_EVERY_US)
    }

    /// Looks for commands that have waited too long for their answers.
    pub(super) fn look_for_overdue(&mut self, now: u64) {
        if now < self.looked_us + LOOK_EVERY_US {
            return;
        }
        self.looked_us = now;
        for device in 0..self.devices.len() {
            let limit = |at: usize| us(self.limit_of(at));
            let ways = &self.devices[device].paths;
            let overdue: Vec<(IoId, PathId)> = self.devices[device]
                .policy
                .on_paths()
                .filter(|(_, path, sent)| {
                    now.saturating_sub(*sent) >= limit(ways[path.0 as usize].nexus)
                })
                .map(|(io, path, _)| (io, path))
                .collect();
            for (io, path) in overdue {
                self.abort_overdue(device, io, path, now);
            }
        }
        for at in 0..self.nexuses.len() {
            let limit = us(self.limit_of(at));
            let errand = self.errands.iter().any(|(_, errand)| {
                errand.nexus == at && now.saturating_sub(errand.sent_us) >= limit
            });
            let limit = limit.min(ABORT_LIMIT_US);
            let abort = self
                .aborts
                .iter()
                .any(|abort| abort.nexus == at && now.saturating_sub(abort.asked_us) >= limit);
            if errand || abort {
                self.lose(
                    at,
                    LinkError::Ended("the target answers pings but no commands"),
                );
            }
        }
    }

    fn limit_of(&self, at: usize) -> Duration {
        self.targets[self.nexuses[at].target]
            .settings
            .session
            .command_timeout
    }

    fn abort_overdue(&mut self, device: usize, io: IoId, path: PathId, now: u64) {
        let Way { nexus: at, lun, .. } = self.devices[device].paths[path.0 as usize];
        let cookie = cookie(device, path, io);
        if self.is_being_aborted(at, cookie) || !self.nexuses[at].is_up() {
            return;
        }
        if !self.abort(at, lun, cookie, now) {
            // The command has not even left: the target's command window stays closed.
            return self.lose(
                at,
                LinkError::Ended("the target no longer accepts commands"),
            );
        }
        tracing::warn!(portal = %self.nexuses[at].portal, device = self.devices[device].policy.name(), "a command got no answer; it is aborted");
    }

    fn is_being_aborted(&self, at: usize, cookie: u64) -> bool {
        let mut aborts = self.aborts.iter();
        aborts.any(|abort| abort.nexus == at && abort.cookie == cookie)
    }

    /// Asks the target to abort a command. Returns `false` if the command is not at the target, or
    /// is being aborted already.
    pub(super) fn abort(&mut self, at: usize, lun: u64, cookie: u64, now: u64) -> bool {
        if self.is_being_aborted(at, cookie) {
            return false;
        }
        let Some((session, out)) = self.nexuses[at].link().and_then(Link::session) else {
            return false;
        };
        let function = TaskManagementFunction::AbortTask;
        let number = self.next_abort;
        self.next_abort += 1;
        if !session.task_management(number, function, lun, Some(cookie), out) {
            return false;
        }
        self.aborts.push(Abort {
            nexus: at,
            number,
            cookie,
            asked_us: now,
        });
        self.mark_dirty(at);
        true
    }

    /// Handles a command that ended while its abort is under way. The abort's answer means nothing
    /// any more, and the command's number may be given to another.
    #[inline]
    pub(super) fn forget_abort(&mut self, at: usize, cookie: u64) {
        if !self.aborts.is_empty() {
            self.aborts
                .retain(|abort| abort.nexus != at || abort.cookie != cookie);
        }
    }

    /// Handles the answer to an abort: the command does not end any more, unless it has ended
    /// already.
    pub(super) fn abort_answered(
        &mut self,
        at: usize,
        number: u64,
        result: TaskManagementResult,
        now: u64,
    ) {
        let asked = |abort: &Abort| abort.nexus == at && abort.number == number;
        let Some(place) = self.aborts.iter().position(asked) else {
            return;
        };
        let cookie = self.aborts.swap_remove(place).cookie;
        // A task that does not exist any more was answered before this answer, or was lost.
        if !matches!(
            result,
            TaskManagementResult::Complete | TaskManagementResult::TaskDoesNotExist
        ) {
            let why = "the target neither answers a command nor aborts it";
            return self.lose(at, LinkError::Ended(why));
        }
        let Some((session, _)) = self.nexuses[at].link().and_then(Link::session) else {
            return;
        };
        if !session.forget(cookie) {
            return;
        }
        if cookie & ERRAND != 0 {
            let errand = self.errands.try_remove((cookie & !ERRAND) as usize);
            if let Some(errand) = errand {
                self.errand_ended(errand, None, &[], now);
            }
        } else {
            let (device, io) = device_and_io(cookie);
            let policy = &mut self.devices[device].policy;
            policy.ended(
                io,
                path_of(cookie),
                Ended::TaskAborted,
                now,
                &mut self.actions,
            );
            self.carry_out(device, now);
        }
    }
}
