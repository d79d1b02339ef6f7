//! Changes of the logins while I/O runs: sessions come and go one at a time, and devices get new
//! settings.
//!
//! A session that is not wanted any more takes no new I/O, ends its present I/O, and logs out.
//! Sessions whose settings changed are made anew, one after another, so that the others carry the
//! I/O meanwhile.

use std::net::SocketAddr;

use super::super::commands::CommandLimits;
use super::super::link::LinkError;
use super::super::nexus::{NexusState, us};
use super::{Fabric, Target};
use model::initiator::settings::{Bind, DeviceSettings, SessionSettings, TargetSettings};

/// Time that a leaving session has to end its commands.
const DRAIN_US: u64 = 5_000_000;
/// Time that a renewed session has before the next one's turn.
const RENEWAL_US: u64 = 10_000_000;
/// Interval at which a leaving session tries again to end its remains at the target.
const FENCE_AGAIN_US: u64 = 100_000;

/// Sessions that are to be made anew, one after another.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// Sessions that wait for renewal; the last one goes first.
    waiting: Vec<usize>,
    /// Session being renewed, and the time until which the renewal is waited for.
    current: Option<(usize, u64)>,
}

impl Fabric {
    /// Replaces a target's routes and settings, with the portals' addresses in the order of the
    /// routes. With `renew`, sessions that stay are made anew.
    pub(in super::super) fn set_target(
        &mut self,
        target: usize,
        settings: TargetSettings,
        addresses: &[SocketAddr],
        renew: bool,
    ) {
        let now = self.now_us();
        let mut wanted = ways(&settings, addresses);
        self.targets[target].settings = settings;
        let mut channels = Vec::new();
        for at in 0..self.nexuses.len() {
            if !self.is_wanted(at) || self.nexuses[at].target != target {
                continue;
            }
            let nexus = &self.nexuses[at];
            let same =
                |way: &(SocketAddr, Option<Bind>)| way.0 == nexus.portal && way.1 == nexus.bind;
            match wanted.iter().position(same) {
                Some(way) => {
                    wanted.remove(way);
                    channels.push(nexus.channel);
                    if renew {
                        self.renewals.waiting.insert(0, at);
                    }
                }
                None => self.part(at, now),
            }
        }
        for (portal, bind) in wanted {
            let channel = (0..)
                .find(|channel| !channels.contains(channel))
                .unwrap_or(0);
            channels.push(channel);
            let nexus = self.new_nexus(target, channel, portal, bind, now);
            let free = self
                .nexuses
                .iter()
                .position(super::super::nexus::Nexus::is_free);
            match free {
                Some(slot) => self.nexuses[slot] = nexus,
                None => self.nexuses.push(nexus),
            }
        }
        self.tick();
    }

    /// Changes the settings of a target's sessions; existing sessions stay as they are. A session
    /// that waits for its next login waits no longer than the new settings say.
    pub(in super::super) fn set_session(&mut self, target: usize, settings: SessionSettings) {
        let latest = self.now_us() + us(settings.back_off.most);
        self.targets[target].settings.session = settings;
        let nexuses = self.nexuses.iter_mut();
        for nexus in nexuses.filter(|nexus| nexus.target == target) {
            if let NexusState::Down { retry_us } = &mut nexus.state {
                *retry_us = latest.min(*retry_us);
            }
        }
        self.tick();
    }

    /// Logs out of a target, and forgets it once its sessions are over.
    pub(in super::super) fn drop_target(&mut self, target: usize) {
        let now = self.now_us();
        for at in 0..self.nexuses.len() {
            if self.nexuses[at].target == target && self.is_wanted(at) {
                self.part(at, now);
            }
        }
        self.targets[target].is_gone = true;
        self.tick();
    }

    /// Finds a place for a target: one whose sessions are all over, or a new one.
    pub(super) fn place_target(&mut self, settings: TargetSettings) -> usize {
        let used = |at: usize| {
            let mine = self.nexuses.iter().filter(|nexus| nexus.target == at);
            mine.clone().any(|nexus| !nexus.is_free())
        };
        let at = (0..self.targets.len()).find(|at| self.targets[*at].is_gone && !used(*at));
        let at = at.unwrap_or(self.targets.len());
        let target = Target {
            settings,
            number: at as u32,
            is_gone: false,
        };
        match self.targets.get_mut(at) {
            Some(place) => *place = target,
            None => self.targets.push(target),
        }
        at
    }

    /// Reports whether a session is wanted.
    pub(super) fn is_wanted(&self, at: usize) -> bool {
        let nexus = &self.nexuses[at];
        nexus.parting_until_us.is_none()
            && !matches!(nexus.state, NexusState::Leaving { .. } | NexusState::Gone)
    }

    /// Marks a session as no longer wanted.
    fn part(&mut self, at: usize, now: u64) {
        self.renewals.waiting.retain(|other| *other != at);
        let nexus = &mut self.nexuses[at];
        nexus.parting_until_us = Some(now + DRAIN_US);
        // A scan that ended now would bring the session's paths up again.
        nexus.scan = None;
        nexus.scan_at_us = None;
        for path in &mut nexus.paths {
            path.is_known = false;
        }
        // No new I/O goes down the session; its present I/O ends.
        self.each_path(at, now, |policy, path, now, out| {
            policy.path_suspect(path, now, out);
        });
        self.take_leave(at, now);
    }

    /// Logs out a session that has nothing left to do. A session that took too long first logs in
    /// once more, which ends its remains at the target.
    pub(super) fn take_leave(&mut self, at: usize, now: u64) {
        let nexus = &mut self.nexuses[at];
        let Some(until) = nexus.parting_until_us else {
            return;
        };
        let is_idle = match &mut nexus.state {
            NexusState::Up { link } => link.is_idle(),
            _ => true,
        };
        if !is_idle && now < until {
            return;
        }
        if !is_idle {
            // Commands without an answer may still be performed, until the target knows that this
            // end is gone.
            self.note_unfenced(at);
            self.drop_link(at);
        }
        if self.nexuses[at].needs_fence() {
            self.each_path(at, now, |policy, path, now, out| {
                policy.path_dead(path, now, out);
            });
            self.give_up_confirmation(at, now);
        }
        if self.waits_for_fence(at, now) {
            if matches!(self.nexuses[at].state, NexusState::Gone) {
                let retry_us = now + FENCE_AGAIN_US;
                self.nexuses[at].state = NexusState::Down { retry_us };
                if self.nexuses[at].fence_from_us.is_some() {
                    // The session's own portal refuses it.
                    self.take_detour(at, now);
                }
            }
            return;
        }
        self.nexuses[at].parting_until_us = None;
        if self.nexuses[at].is_up() {
            self.log_out_of(at, now);
        } else {
            self.drop_link(at);
        }
        while let Some(path) = self.nexuses[at].paths.first().copied() {
            self.remove_path(at, path, now);
        }
        self.count_change();
    }

    /// Renews the next session, when the one before is up again.
    pub(super) fn renew_next(&mut self, now: u64) {
        if let Some((at, until)) = self.renewals.current {
            let nexus = &self.nexuses[at];
            let is_back = nexus.is_up() && nexus.scan.is_none();
            if !is_back && now < until && self.is_wanted(at) {
                return;
            }
            self.renewals.current = None;
        }
        while let Some(at) = self.renewals.waiting.pop() {
            if self.nexuses[at].is_up() && self.is_wanted(at) {
                self.lose(at, LinkError::Ended("its settings changed"));
                self.renewals.current = Some((at, now + RENEWAL_US));
                return;
            }
        }
    }

    /// Returns the latest time at which [`Self::renew_next`] must look.
    pub(super) fn renewal_deadline_us(&self) -> Option<u64> {
        self.renewals.current.map(|(_, until)| until)
    }

    /// Looks again at the units of one target, or of all targets.
    pub(in super::super) fn rescan(&mut self, target: Option<usize>) {
        for at in 0..self.nexuses.len() {
            if target.is_none_or(|target| self.nexuses[at].target == target) && self.is_wanted(at) {
                self.scan_again(at);
            }
        }
    }

    /// Changes the settings of devices, for I/Os from now on.
    pub(in super::super) fn set_devices(&mut self, settings: DeviceSettings) {
        self.device_settings = settings;
        for at in 0..self.devices.len() {
            self.settle_settings(at);
        }
    }

    /// Limits the time for which I/O of a device waits while all paths are down. `None`: as long as
    /// the settings say.
    pub(in super::super) fn set_patience(&mut self, device: usize, patience_us: Option<u64>) {
        self.devices[device].patience_us = patience_us;
        self.settle_settings(device);
    }

    fn settle_settings(&mut self, at: usize) {
        let now = self.now_us();
        let device = &mut self.devices[at];
        let name = device.policy.name().to_owned();
        let mut wanted = self.device_settings.claim(&name, &device.identity);
        let patience_us = device.patience_us.unwrap_or(u64::MAX);
        wanted.apd_timeout_us = wanted.apd_timeout_us.min(patience_us);
        let max_io = self.device_settings.max_io(&name);
        device.limits = CommandLimits {
            write_same: device.limits.write_same,
            ..CommandLimits::new(&device.portrait, device.limits.block, max_io)
        };
        if *device.policy.settings() != wanted {
            device.policy.set_settings(wanted, now, &mut self.actions);
            self.carry_out(at, now);
        }
    }

    /// Counts a change that others may wait for: a device came, grew, or lost its paths.
    pub(super) fn count_change(&mut self) {
        self.changes += 1;
    }

    /// Reports whether nothing is ever answered again.
    #[inline]
    pub(in super::super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the number of changes.
    pub(in super::super) fn changes(&self) -> u64 {
        self.changes
    }
}

/// Lists every way to a target, repeated for each session that it is to have.
pub(super) fn ways(
    settings: &TargetSettings,
    addresses: &[SocketAddr],
) -> Vec<(SocketAddr, Option<Bind>)> {
    let routes = settings.routes.iter().zip(addresses);
    routes
        .flat_map(|(route, address)| {
            (0..settings.sessions).map(move |_| (*address, route.bind.clone()))
        })
        .collect()
}
