//! A device: all paths to one logical unit, and the I/Os that are under way to it.
//!
//! This file holds the ways in: paths come and go, I/Os are submitted and end, time passes. What
//! follows from them stands in `queue.rs` (who is sent when), `path_selection.rs` (which path),
//! `failover.rs` (paths lost and restored) and `retry.rs` (how an attempt ended).

use std::collections::VecDeque;

use scsi::application_client::target_port_groups::AccessState;

use super::action::{Action, Actions};
use super::counters::Counters;
use super::failover::Outage;
use super::ghosts::Ghosts;
use super::hold::Hold;
use super::io::{Ended, Failure, Io, IoId, IoShape, Outcome, Stage};
use super::path::{Link, Path, PathId, PathIdentity};
use super::path_selection::Selection;
use super::settings::Settings;

/// How often a path is asked for its state, where it says neither that it serves I/O nor when.
const PROBE_TRANSITION_EVERY_US: u64 = 200_000;
const PROBE_INACTIVE_EVERY_US: u64 = 10_000_000;

/// A multipath device. It does nothing by itself: every call hands over the time and a list that
/// collects what is to be done.
#[derive(Debug)]
pub struct Device {
    pub(super) name: String,
    pub(super) settings: Settings,
    /// By number; `None` where there is none of that number.
    pub(super) paths: Vec<Option<Path>>,
    /// By number.
    pub(super) ios: Vec<Io>,
    /// Those that wait for a path or for room, in order of submission.
    pub(super) queue: VecDeque<IoId>,
    /// Those that wait for the end of a ghost.
    pub(super) held: Vec<IoId>,
    /// Of them, some only wait for what is writing the same blocks at this moment.
    pub(super) a_race_holds: bool,
    /// Those that are repeated at a given time.
    pub(super) delayed: Vec<(u64, IoId)>,
    pub(super) ghosts: Ghosts,
    pub(super) selection: Selection,
    /// I/Os on all paths together (ACTV).
    pub(super) in_flight: u32,
    pub(super) next_number: u64,
    pub(super) outage: Outage,
    /// When a standby group may be activated again.
    pub(super) activate_again_us: u64,
    pub(super) counters: Counters,
    pub(super) hold: Hold,
}

impl Device {
    /// A device without paths, which counts as all paths down from its first I/O or path event on.
    pub fn new(name: impl Into<String>, settings: Settings) -> Self {
        Self {
            name: name.into(),
            settings,
            paths: Vec::new(),
            ios: Vec::new(),
            queue: VecDeque::new(),
            held: Vec::new(),
            a_race_holds: false,
            delayed: Vec::new(),
            ghosts: Ghosts::default(),
            selection: Selection::default(),
            in_flight: 0,
            next_number: 0,
            outage: Outage::None,
            activate_again_us: 0,
            counters: Counters::default(),
            hold: Hold::None,
        }
    }

    /// The NAA or other identifier that all paths share.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What governs the device.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces what governs the device, for all I/Os from now on. An outage under way ends with
    /// the new timeout; writes of sessions that are lost already keep the time that they have.
    pub fn set_settings(&mut self, settings: Settings, now_us: u64, out: &mut Actions) {
        let window = settings.depth();
        for path in self.paths.iter_mut().flatten() {
            path.window = window;
        }
        self.settings = settings;
        self.paths_changed(now_us, out);
    }

    /// Makes a path known; it is dead until [`Self::path_up`]. Under a number that is in use it
    /// replaces what discovery found out, nothing else.
    pub fn add_path(&mut self, id: PathId, identity: PathIdentity) {
        let at = id.0 as usize;
        if self.paths.len() <= at {
            self.paths.resize_with(at + 1, || None);
        }
        match &mut self.paths[at] {
            Some(path) => *path.identity = identity,
            empty => *empty = Some(Path::new(identity, self.settings.depth())),
        }
    }

    /// Whether a number may be given to a new path: none has it, and nothing that went under it may
    /// still land.
    pub fn is_free(&self, id: PathId) -> bool {
        super::path_selection::get(&self.paths, id).is_none() && !self.ghosts.haunt(id)
    }

    /// Whether [`Self::path_fenced`] would tell anything new: a write that went under this number
    /// may still land, and its session is not known to be over.
    pub fn needs_fence(&self, id: PathId) -> bool {
        self.ghosts.need_fence(id)
    }

    /// Until when an old copy may land of a write that was reported as done: so long only this
    /// device keeps others from writing over it too early. `None` where there is none.
    pub fn unsettled_until_us(&self) -> Option<u64> {
        self.ghosts.unsettled_until_us()
    }

    /// Forgets a path; what is on it is treated as after [`Self::path_dead`], and
    /// [`Self::path_fenced`] still counts for it.
    pub fn remove_path(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        self.bury(id, now_us, out);
        if let Some(slot) = self.paths.get_mut(id.0 as usize) {
            *slot = None;
        }
        self.paths_changed(now_us, out);
    }

    /// The path has a session and the unit is there, or answers again after
    /// [`Self::path_suspect`]. With an array of type ALUA, report the path's state first where it
    /// is known.
    pub fn path_up(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        let (depth, alua) = (self.settings.depth(), self.settings.satp.is_alua());
        let Some(path) = self.path_mut(id) else {
            return;
        };
        if path.link != Link::Suspect && path.link != Link::Up {
            path.latency_us = 0.0;
            path.window = depth;
            path.busy_seen = 0;
            path.good_seen = 0;
            path.probe_at_us = None;
            if alua {
                out.push(Action::Probe { path: id });
            }
        }
        path.link = Link::Up;
        self.paths_changed(now_us, out);
    }

    /// The path is silent. Nothing new is sent down it; what is on it stays.
    pub fn path_suspect(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        if let Some(path) = self.path_mut(id).filter(|path| path.link == Link::Up) {
            path.link = Link::Suspect;
            self.paths_changed(now_us, out);
        }
    }

    /// TEST UNIT READY ended well on this path: a unit that had gone is there again, and a target
    /// that knows no port groups serves I/O again, whatever it said before.
    pub fn unit_present(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        let Some(path) = self.path_mut(id) else {
            return;
        };
        let was_gone = path.link == Link::UnitGone;
        if path.identity.tpgs == 0 {
            self.alua_state(id, AccessState::ActiveOptimized, now_us, out);
        }
        if was_gone {
            self.path_up(id, now_us, out);
        }
    }

    /// The asymmetric access state of one path.
    pub fn alua_state(&mut self, id: PathId, state: AccessState, now_us: u64, out: &mut Actions) {
        if self.set_access(id, state, now_us) {
            self.paths_changed(now_us, out);
        }
    }

    /// The state of a whole target port group, as REPORT TARGET PORT GROUPS tells it, with its PREF
    /// bit.
    pub fn alua_group(
        &mut self,
        group: u16,
        state: AccessState,
        preferred: bool,
        now_us: u64,
        out: &mut Actions,
    ) {
        let mut changed = false;
        for at in 0..self.paths.len() {
            let Some(path) = &mut self.paths[at] else {
                continue;
            };
            if path.identity.target_port_group != group {
                continue;
            }
            changed |= path.preferred_group != preferred;
            path.preferred_group = preferred;
            changed |= self.set_access(PathId(at as u32), state, now_us);
        }
        if changed {
            self.paths_changed(now_us, out);
        }
    }

    /// Notes a state; whether it is another one.
    pub(super) fn set_access(&mut self, id: PathId, state: AccessState, now_us: u64) -> bool {
        let Some(path) = self.path_mut(id) else {
            return false;
        };
        let changed = path.access != state;
        path.access = state;
        path.probe_at_us = match state {
            AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => None,
            AccessState::Transitioning => Some(now_us + PROBE_TRANSITION_EVERY_US),
            AccessState::Standby | AccessState::Unavailable | AccessState::Offline => {
                Some(now_us + PROBE_INACTIVE_EVERY_US)
            }
        };
        changed
    }

    /// Takes an I/O. It is sent at once, or waits; [`Action::Finish`] ends it, perhaps at once. An
    /// id that is in use must not be submitted again; it is ignored.
    #[inline]
    pub fn submit(&mut self, io: IoId, shape: IoShape, now_us: u64, out: &mut Actions) {
        let at = io.0 as usize;
        if self.ios.len() <= at {
            self.ios.resize(at + 1, Io::FREE);
        }
        let entry = &mut self.ios[at];
        if entry.stage != Stage::Free {
            debug_assert!(false, "{io:?} is under way");
            return;
        }
        *entry = Io {
            shape,
            stage: Stage::Queued,
            tries: 0,
            repeats: 0,
            losses: 0,
            failure: Failure::NoActivePath,
            number: self.next_number,
            submitted_us: now_us,
            first_sent_us: None,
            sent_us: now_us,
        };
        self.next_number += 1;
        self.queue.push_back(io);
        if self.queue.len() == 1 {
            self.dispatch(now_us, out);
        }
        if self.selection.candidates().is_empty() {
            self.review_outage(now_us, out);
        }
    }

    /// What was given to a path had to wait there, until the target's command window let it go:
    /// that was a wait of ours, not of the device.
    pub fn sent_late(&mut self, io: IoId, path: PathId, now_us: u64) {
        let Some(entry) = self.ios.get_mut(io.0 as usize) else {
            return;
        };
        if entry.stage != Stage::OnPath(path) {
            return;
        }
        if entry.first_sent_us == Some(entry.sent_us) {
            entry.first_sent_us = Some(now_us);
        }
        entry.sent_us = now_us;
    }

    /// An attempt ended on this path. An answer for an I/O that is no longer on that path (the path
    /// was declared dead meanwhile) changes nothing.
    #[inline]
    pub fn ended(&mut self, io: IoId, path: PathId, how: Ended, now_us: u64, out: &mut Actions) {
        let Some(entry) = self.ios.get_mut(io.0 as usize) else {
            return;
        };
        if entry.stage != Stage::OnPath(path) {
            return;
        }
        if how == Ended::TransportLost {
            self.path_dead(path, now_us, out);
            return;
        }
        entry.stage = Stage::Queued;
        let latency_us = now_us.saturating_sub(entry.sent_us);
        self.in_flight -= 1;
        if let Some(Some(path)) = self.paths.get_mut(path.0 as usize) {
            path.in_flight -= 1;
            path.measured(latency_us, now_us);
            if how == Ended::Good {
                path.good_answer(&self.settings);
            }
        }
        if how == Ended::Good {
            self.finish(io, Outcome::Good, now_us, out);
        } else {
            self.react(io, path, how, now_us, out);
        }
        self.race_is_over();
        self.dispatch(now_us, out);
    }

    /// Gives up an I/O that is not on a path: it is forgotten, without [`Action::Finish`], and its
    /// id free. One that is on a path goes on until it ends; then the answer is `false`.
    pub fn cancel(&mut self, io: IoId) -> bool {
        let Some(entry) = self.ios.get(io.0 as usize) else {
            return false;
        };
        match entry.stage {
            Stage::Free | Stage::OnPath(_) => return false,
            Stage::Queued => self.queue.retain(|other| *other != io),
            Stage::Held => self.held.retain(|other| *other != io),
            Stage::Delayed => self.delayed.retain(|(_, other)| *other != io),
        }
        self.ios[io.0 as usize] = Io::FREE;
        true
    }

    /// The I/Os that are on paths, and when each was sent.
    pub fn on_paths(&self) -> impl Iterator<Item = (IoId, PathId, u64)> {
        let ios = (0..).map(IoId).zip(&self.ios);
        ios.filter_map(|(io, entry)| match entry.stage {
            Stage::OnPath(path) => Some((io, path, entry.sent_us)),
            _ => None,
        })
    }

    /// Time has passed: repeats what is due, ends what has waited too long. Call it at
    /// [`Self::next_deadline`] or later.
    pub fn tick(&mut self, now_us: u64, out: &mut Actions) {
        if self.ghosts.expire(now_us) {
            self.release_held();
        }
        self.release_delayed(now_us);
        self.probe_due(now_us, out);
        self.review_outage(now_us, out);
        self.dispatch(now_us, out);
        self.end_overdue(now_us, out);
    }

    /// When [`Self::tick`] has something to do next, `None` where only events matter.
    pub fn next_deadline(&self) -> Option<u64> {
        let probes = self.paths.iter().flatten().filter_map(|p| p.probe_at_us);
        let repeats = self.delayed.iter().map(|(due_us, _)| *due_us);
        let outage = match self.outage {
            Outage::AllPathsDown { since_us } => Some(self.apd_ends_us(since_us)),
            _ => None,
        };
        probes
            .chain(repeats)
            .chain(outage)
            .chain(self.ghosts.next_us())
            .chain(self.overdue_us())
            .chain(self.activation_us())
            .min()
    }

    fn probe_due(&mut self, now_us: u64, out: &mut Actions) {
        for (id, path) in (0..).map(PathId).zip(&mut self.paths) {
            let Some(path) = path else {
                continue;
            };
            if path.probe_at_us.is_some_and(|due_us| due_us <= now_us) {
                if path.link != Link::Dead {
                    out.push(Action::Probe { path: id });
                }
                let quick = path.access == AccessState::Transitioning && path.link == Link::Up;
                path.probe_at_us = (path.link != Link::Dead).then_some(if quick {
                    now_us + PROBE_TRANSITION_EVERY_US
                } else {
                    now_us + PROBE_INACTIVE_EVERY_US
                });
            }
        }
    }

    /// Says from a path that the unit is not behind it any more.
    pub(super) fn unit_gone(&mut self, id: PathId, now_us: u64) {
        if let Some(path) = self.path_mut(id).filter(|path| path.is_alive()) {
            path.link = Link::UnitGone;
            path.probe_at_us = Some(now_us + PROBE_INACTIVE_EVERY_US);
        }
    }

    pub(super) fn path_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.paths.get_mut(id.0 as usize)?.as_mut()
    }

    /// Ends an I/O that is on no path and in no list.
    #[inline]
    pub(super) fn finish(&mut self, io: IoId, outcome: Outcome, now_us: u64, out: &mut Actions) {
        let entry = &mut self.ios[io.0 as usize];
        self.counters.count(entry, outcome, now_us);
        entry.stage = Stage::Free;
        if outcome == Outcome::Good {
            self.ghosts.reported(entry.number, self.next_number);
        }
        out.push(Action::Finish { io, outcome });
    }
}
