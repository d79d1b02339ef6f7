//! Paths lost and restored: the fate of their I/Os, and the moment at which a device counts as
//! down.
//!
//! An I/O on a lost path is repeated on another path at once. Writes are the exception: they wait
//! until the lost session is over (`ghosts.rs`). While any path lives, no I/O fails for lack of a
//! path. If all paths are down (APD), I/O waits for the timeout, and then fails at once until a
//! path returns. If every path says that the unit does not exist (PDL), I/O fails at once. An I/O
//! that kills every path it is sent down fails when its time is over, because it would kill the
//! next path as well.

use super::action::{Action, Actions};
use super::device::Device;
use super::io::{Failure, IoId, IoStage, Outcome};
use super::path::{Link, Path, PathId};

/// Number of paths that an I/O may lose before its time limit counts. A bad cable alone thus fails
/// no I/O.
const LOSSES: u16 = 16;

/// Outage of a device: whether it lacks a living path, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// No outage: at least one path lives.
    None,
    /// All paths down; I/O waits.
    AllPathsDown {
        /// Time at which all paths went down. I/O waits until the timeout in force.
        since_us: u64,
    },
    /// All paths down for longer than the timeout; I/O fails.
    TimedOut,
    /// Permanent device loss; I/O fails.
    DeviceLost,
}

impl Device {
    /// Notes that the path has no session any more. Its I/Os go elsewhere. From now on, answers of
    /// the lost session must not be reported. If a write was on the path, [`Action::Fence`] asks
    /// for the end of the session's tasks.
    pub fn path_dead(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        if self.bury(id, now_us, out) {
            self.paths_changed(now_us, out);
        }
    }

    /// Takes all I/Os from a path, and reports whether the path had a session.
    pub(super) fn bury(&mut self, id: PathId, now_us: u64, out: &mut Actions) -> bool {
        let dies = |path: &&mut Path| path.link != Link::Dead;
        let Some(path) = self.path_mut(id).filter(dies) else {
            return false;
        };
        path.link = Link::Dead;
        path.in_flight = 0;
        path.probe_at_us = None;
        self.take_back(id, now_us, out);
        if self.ghosts.need_fence(id) {
            out.push(Action::Fence { path: id });
        }
        true
    }

    /// Takes back all I/Os on a lost path, and notes which of them may still land.
    fn take_back(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        let until_us = self
            .settings
            .fence_timeout_us
            .map(|timeout_us| now_us + timeout_us);
        for at in 0..self.ios.len() {
            let entry = &mut self.ios[at];
            if entry.stage != IoStage::OnPath(id) {
                continue;
            }
            entry.tries = entry.tries.saturating_add(1);
            entry.losses = entry.losses.saturating_add(1);
            entry.failure = Failure::NoActivePath;
            let waited_us = now_us.saturating_sub(entry.submitted_us);
            let is_hopeless =
                entry.losses >= LOSSES && waited_us >= self.settings.command_time_limit_us;
            let (number, shape) = (entry.number, entry.shape);
            self.in_flight -= 1;
            if shape.direction.changes_blocks() {
                self.ghosts.add(id, number, shape, now_us, until_us);
            }
            let io = IoId(at as u32);
            if is_hopeless {
                self.finish(io, Outcome::Failed(Failure::PathsKeepDying), now_us, out);
            } else {
                self.enqueue(io);
            }
        }
    }

    /// Notes that every session which the path had until its last [`Self::path_dead`] is over. The
    /// target ended their tasks (session reinstatement, RFC 7143 6.3.5), or said so. Their writes
    /// have a settle time ([`Settings::fence_settle_us`](super::Settings::fence_settle_us)),
    /// counted from the first such report. Never report news of an earlier session after a later
    /// one was lost: the later session's writes would count as ended too.
    pub fn path_fenced(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        let settled_us = now_us.saturating_add(self.settings.fence_settle_us);
        if self.ghosts.fenced(id, now_us, settled_us) {
            self.release_held();
            self.dispatch(now_us, out);
        }
    }

    /// Notes that the target can be reached and has been asked to end the path's last session. Its
    /// answer is worth waiting for, at most until `until_us`. The fence timeout is meant for
    /// targets that cannot be reached. A target that waits for its disks before it answers still
    /// performs the old writes.
    pub fn fence_is_asked_for(&mut self, id: PathId, until_us: u64) {
        self.ghosts.lengthen(id, until_us);
    }

    /// Notes that nobody is left to whom the target could confirm the end of the path's last
    /// session. The session's writes count as over at this time.
    pub fn fence_cannot_be_confirmed(&mut self, id: PathId, until_us: u64) {
        self.ghosts.shorten(id, until_us);
    }

    /// Handles a change in the state of some path.
    pub(super) fn paths_changed(&mut self, now_us: u64, out: &mut Actions) {
        self.selection.review(&self.paths, &self.settings);
        self.review_outage(now_us, out);
        self.dispatch(now_us, out);
    }

    /// Checks whether a path lives, and decides about the waiting I/Os if none does.
    pub(super) fn review_outage(&mut self, now_us: u64, out: &mut Actions) {
        let mut paths = self.paths.iter().flatten().peekable();
        let any = paths.peek().is_some();
        let (mut alive, mut gone) = (false, any);
        for path in paths {
            alive |= path.is_alive();
            gone &= path.link == Link::UnitGone;
        }
        self.outage = match self.outage {
            _ if alive => Outage::None,
            _ if gone => Outage::DeviceLost,
            // The last path that said so was removed, and no path has said otherwise.
            Outage::DeviceLost if !any => Outage::DeviceLost,
            Outage::AllPathsDown { since_us } if self.apd_ends_us(since_us) <= now_us => {
                Outage::TimedOut
            }
            Outage::None | Outage::DeviceLost => Outage::AllPathsDown { since_us: now_us },
            goes_on => goes_on,
        };
        match self.outage {
            Outage::None | Outage::AllPathsDown { .. } => {}
            Outage::TimedOut => self.fail_waiting(Failure::AllPathsDown, now_us, out),
            Outage::DeviceLost => self.fail_waiting(Failure::DeviceLost, now_us, out),
        }
    }

    /// Returns the time at which I/O stops waiting, for an outage that began at `since_us`.
    pub(super) fn apd_ends_us(&self, since_us: u64) -> u64 {
        since_us.saturating_add(self.settings.apd_timeout_us)
    }
}
