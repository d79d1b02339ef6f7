//! A device: all paths to one logical unit, and the I/Os under way to the unit.
//!
//! This file holds the entry points: paths come and go, I/Os are submitted and end, time passes.
//! The consequences stand in `queue.rs` (order of sending), `path_selection.rs` (choice of the
//! path), `failover.rs` (paths lost and restored) and `retry.rs` (results of attempts).

use std::collections::VecDeque;

use scsi::application_client::target_port_groups::AccessState;

use super::action::{Action, Actions};
use super::counters::Counters;
use super::failover::Outage;
use super::ghosts::Ghosts;
use super::hold::Hold;
use super::io::{Ended, Failure, Io, IoId, IoShape, IoStage, Outcome};
use super::path::{Link, Path, PathId, PathIdentity};
use super::path_selection::Selection;
use super::settings::Settings;

/// Interval at which a path is asked for its state, if it reports neither that it serves I/O nor
/// when it will.
const PROBE_TRANSITION_EVERY_US: u64 = 200_000;
const PROBE_INACTIVE_EVERY_US: u64 = 10_000_000;

/// A multipath device. It never acts by itself: every call passes the time, and a list that
/// collects the actions to do.
#[derive(Debug)]
pub struct Device {
    pub(super) name: String,
    pub(super) settings: Settings,
    /// Paths, indexed by number; `None` for a number without a path.
    pub(super) paths: Vec<Option<Path>>,
    /// I/Os, indexed by number.
    pub(super) ios: Vec<Io>,
    /// I/Os that wait for a path or for room, in order of submission.
    pub(super) queue: VecDeque<IoId>,
    /// I/Os that wait for the end of a ghost.
    pub(super) held: Vec<IoId>,
    /// Whether some held I/Os wait only for a request that writes the same blocks right now.
    pub(super) a_race_holds: bool,
    /// I/Os that are repeated at a given time.
    pub(super) delayed: Vec<(u64, IoId)>,
    pub(super) ghosts: Ghosts,
    pub(super) selection: Selection,
    /// Number of I/Os on all paths together (ACTV).
    pub(super) in_flight: u32,
    pub(super) next_number: u64,
    pub(super) outage: Outage,
    /// Time at which a standby group may be activated again.
    pub(super) activate_again_us: u64,
    pub(super) counters: Counters,
    pub(super) hold: Hold,
}

impl Device {
    /// Creates a device without paths. From its first I/O or path event on, the device counts as
    /// all paths down.
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

    /// Returns the NAA name or other identifier that all paths share.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings of the device.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings for all later I/Os. An outage under way ends with the new timeout.
    /// Writes of sessions that are lost already keep their time.
    pub fn set_settings(&mut self, settings: Settings, now_us: u64, out: &mut Actions) {
        let window = settings.depth();
        for path in self.paths.iter_mut().flatten() {
            path.window = window;
        }
        self.settings = settings;
        self.paths_changed(now_us, out);
    }

    /// Adds a path, which is dead until [`Self::path_up`]. If the number is in use, the call
    /// replaces only the identity that discovery found.
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

    /// Reports whether a number may be given to a new path. No path may have the number, and no
    /// write sent under it may still land.
    pub fn is_free(&self, id: PathId) -> bool {
        super::path_selection::get(&self.paths, id).is_none() && !self.ghosts.haunt(id)
    }

    /// Reports whether [`Self::path_fenced`] would tell anything new. It would if a write sent
    /// under this number may still land, and the session is not known to be over.
    pub fn needs_fence(&self, id: PathId) -> bool {
        self.ghosts.need_fence(id)
    }

    /// Returns the time until which an old copy of a write may land that was already reported as
    /// done. Until then, only this device keeps other hosts from writing over the blocks too early.
    /// Returns `None` if there is no old copy.
    pub fn unsettled_until_us(&self) -> Option<u64> {
        self.ghosts.unsettled_until_us()
    }

    /// Forgets a path. Its I/Os are treated as after [`Self::path_dead`], and [`Self::path_fenced`]
    /// still counts for the path.
    pub fn remove_path(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        self.bury(id, now_us, out);
        if let Some(slot) = self.paths.get_mut(id.0 as usize) {
            *slot = None;
        }
        self.paths_changed(now_us, out);
    }

    /// Notes that the path has a session and the unit is there, or that the path answers again
    /// after [`Self::path_suspect`]. For an array of type ALUA, report the path's state first if it
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

    /// Notes that the path is silent. No new I/O is sent down it; its present I/Os stay.
    pub fn path_suspect(&mut self, id: PathId, now_us: u64, out: &mut Actions) {
        if let Some(path) = self.path_mut(id).filter(|path| path.link == Link::Up) {
            path.link = Link::Suspect;
            self.paths_changed(now_us, out);
        }
    }

    /// Notes that TEST UNIT READY succeeded on this path. A unit that had gone is there again. A
    /// target without port groups serves I/O again, whatever it said before.
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

    /// Notes the asymmetric access state of one path.
    pub fn alua_state(&mut self, id: PathId, state: AccessState, now_us: u64, out: &mut Actions) {
        if self.set_access(id, state, now_us) {
            self.paths_changed(now_us, out);
        }
    }

    /// Notes the state of a whole target port group, with its PREF bit, as REPORT TARGET PORT
    /// GROUPS tells them.
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

    /// Notes an access state, and reports whether it differs from the previous one.
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

    /// Takes an I/O. The I/O is sent at once, or waits; [`Action::Finish`] ends it, perhaps at
    /// once. An id in use must not be submitted again; such a call is ignored.
    #[inline]
    pub fn submit(&mut self, io: IoId, shape: IoShape, now_us: u64, out: &mut Actions) {
        let at = io.0 as usize;
        if self.ios.len() <= at {
            self.ios.resize(at + 1, Io::FREE);
        }
        let entry = &mut self.ios[at];
        if entry.stage != IoStage::Free {
            debug_assert!(false, "{io:?} is under way");
            return;
        }
        *entry = Io {
            shape,
            stage: IoStage::Queued,
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

    /// Notes that an I/O given to a path had to wait there for the target's command window. This
    /// wait counts as the host's, not the device's.
    pub fn sent_late(&mut self, io: IoId, path: PathId, now_us: u64) {
        let Some(entry) = self.ios.get_mut(io.0 as usize) else {
            return;
        };
        if entry.stage != IoStage::OnPath(path) {
            return;
        }
        if entry.first_sent_us == Some(entry.sent_us) {
            entry.first_sent_us = Some(now_us);
        }
        entry.sent_us = now_us;
    }

    /// Notes that an attempt ended on this path. If the I/O is no longer on the path (declared dead
    /// meanwhile), the answer changes nothing.
    #[inline]
    pub fn ended(&mut self, io: IoId, path: PathId, how: Ended, now_us: u64, out: &mut Actions) {
        let Some(entry) = self.ios.get_mut(io.0 as usize) else {
            return;
        };
        if entry.stage != IoStage::OnPath(path) {
            return;
        }
        if how == Ended::TransportLost {
            self.path_dead(path, now_us, out);
            return;
        }
        entry.stage = IoStage::Queued;
        let latency_us = now_us.saturating_sub(entry.sent_us);
        self.in_flight -= 1;
        if let Some(Some(path)) = self.paths.get_mut(path.0 as usize) {
            path.in_flight -= 1;
            path.measured(latency_us, now_us);
            if how == Ended::Good {
                path.good_answer(&self.settings);
                path.counters.count(entry, Outcome::Good, now_us);
            }
        }
        if how == Ended::Good {
            self.finish(io, Outcome::Good, now_us, out);
        } else {
            self.counters.count_attempt(how);
            self.react(io, path, how, now_us, out);
        }
        self.race_is_over();
        self.dispatch(now_us, out);
    }

    /// Gives up an I/O that is not on a path: forgets it without [`Action::Finish`], and frees its
    /// id. An I/O on a path goes on until it ends; the call then returns `false`.
    pub fn cancel(&mut self, io: IoId) -> bool {
        let Some(entry) = self.ios.get(io.0 as usize) else {
            return false;
        };
        match entry.stage {
            IoStage::Free | IoStage::OnPath(_) => return false,
            IoStage::Queued => self.queue.retain(|other| *other != io),
            IoStage::Held => self.held.retain(|other| *other != io),
            IoStage::Delayed => self.delayed.retain(|(_, other)| *other != io),
        }
        self.ios[io.0 as usize] = Io::FREE;
        true
    }

    /// Lists the I/Os on paths, each with the time at which it was sent.
    pub fn on_paths(&self) -> impl Iterator<Item = (IoId, PathId, u64)> {
        let ios = (0..).map(IoId).zip(&self.ios);
        ios.filter_map(|(io, entry)| match entry.stage {
            IoStage::OnPath(path) => Some((io, path, entry.sent_us)),
            _ => None,
        })
    }

    /// Handles the passing of time: repeats I/Os that are due, and ends I/Os that have waited too
    /// long. Call it at [`Self::next_deadline`] or later.
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

    /// Returns the time at which [`Self::tick`] has something to do next; `None` if only events
    /// matter.
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

    /// Notes a path's report that the unit is no longer behind it.
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
        entry.stage = IoStage::Free;
        if outcome == Outcome::Good {
            self.ghosts.reported(entry.number, self.next_number);
        }
        out.push(Action::Finish { io, outcome });
    }
}
