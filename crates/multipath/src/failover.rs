//! Paths lost and restored: what happens to the I/Os on them, and when a device counts as down.
//!
//! What was on a lost path is repeated on another one at once, except writes: those wait until the
//! lost session is over (`ghosts.rs`). While any path lives nothing fails for want of a path. Where
//! all are down (APD) I/O waits for the timeout and then fails at once until one returns; where
//! every path says that the unit does not exist (PDL) it fails at once. What kills every path that
//! it is sent down fails when its time is over: the next path would die as well.

use super::action::{Action, Actions};
use super::device::Device;
use super::io::{Failure, IoId, Outcome, Stage};
use super::path::{Link, Path, PathId};

/// So many paths may be lost under an I/O before its time limit counts: a bad cable alone fails
/// nothing.
const LOSSES: u16 = 16;

/// Whether and since when a device has no path that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// Some path lives.
    None,
    /// All paths down; I/O waits.
    AllPathsDown {
        /// Since then; until the timeout that is in force.
        since_us: u64,
    },
    /// All paths down for longer than the timeout; I/O fails.
    TimedOut,
    /// Permanent device loss; I/O fails.
    DeviceLost,
}

impl Device {
    /// The path has no session any more. What is on it goes elsewhere; answers of the lost session
    /// must not be reported from here on. Where a write was on it, [`Action::Fence`] asks for the
    /// end of the session's tasks.
    pub fn path_dead(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        if self.bury(id, now_us, out) {
            self.paths_changed(now_us, out);
        }
    }

    /// Takes from a path all that is on it; whether it had a session.
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
            if entry.stage != Stage::OnPath(id) {
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

    /// Every session that the path had until its last [`Self::path_dead`] is over: the target ended
    /// their tasks (session reinstatement, RFC 7143 6.3.5) or said so. Their writes have a settle
    /// time ([`Settings::fence_settle_us`](super::Settings::fence_settle_us)) from the first time
    /// on that this is reported. What was learned of an earlier session must not be reported after
    /// a later one was lost: the later one's writes would count as ended too.
    pub fn path_fenced(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        let settled_us = now_us.saturating_add(self.settings.fence_settle_us);
        if self.ghosts.fenced(id, now_us, settled_us) {
            self.release_held();
            self.dispatch(now_us, out);
        }
    }

    /// The target can be reached and has been asked to end the path's last session: its answer is
    /// worth waiting for, at most until then. The fence timeout is for targets that cannot be
    /// reached; one that waits for its disks before it answers still performs the old writes.
    pub fn fence_is_asked_for(&mut self, id: PathId, until_us: u64) {
        self.ghosts.lengthen(id, until_us);
    }

    /// Nobody is there whom the target could tell that the path's last session is over: its writes
    /// count as over at this time.
    pub fn fence_cannot_be_confirmed(&mut self, id: PathId, until_us: u64) {
        self.ghosts.shorten(id, until_us);
    }

    /// The state of some path changed.
    pub(super) fn paths_changed(&mut self, now_us: u64, out: &mut Actions) {
        self.selection.review(&self.paths, &self.settings);
        self.review_outage(now_us, out);
        self.dispatch(now_us, out);
    }

    /// Whether a path lives, and what becomes of those that wait where none does.
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
            // The last path that said so was taken away: nothing has said otherwise.
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

    /// When I/O no longer waits, of an outage that began then.
    pub(super) fn apd_ends_us(&self, since_us: u64) -> u64 {
        since_us.saturating_add(self.settings.apd_timeout_us)
    }
}
