//! How the lives of a session that are lost are made certain to be over: no write of them may land
//! after what was repeated elsewhere.
//!
//! A LOGIN with the session's ISID ends its old life (session reinstatement, RFC 7143 §6.3.5), but
//! only in the portal group in which that life was. The own portal is tried first; where that is
//! silent or closed, the LOGIN takes a detour through the portal of another session in the same
//! group. Its answer proves what the standard says, not what every target does: the policy lets the
//! writes settle after it.

use std::net::SocketAddr;

use super::super::nexus::{Nexus, State, us};
use super::Fabric;
use model::initiator::settings::Bind;

/// How long a lost session's own portal is tried before its old life is ended through another.
pub(super) const DETOUR_AFTER_US: u64 = 50_000;
/// How long the writes of a lost session are waited for where no other session leads to its portal
/// group: nobody but its own portal could confirm that they are over, and that may be gone for
/// good.
const UNCONFIRMED_US: u64 = 5_000_000;

/// How long a session that leaves tries to end what it left, beyond the time for its commands to
/// end.
const LEAVE_US: u64 = 15_000_000;

/// A portal group, by its tag, where the target told it.
pub(in super::super) type PortalGroup = Option<u16>;

impl Fabric {
    /// The own portal does not answer: ends the last life through another's, or goes on waiting.
    pub(super) fn take_detour(&mut self, at: usize, now: u64) {
        match self.detour(at) {
            Some(through) => {
                self.nexuses[at].fence_from_us = None;
                self.drop_link(at);
                // Where the detour fails at once, that is one more try that failed.
                self.nexuses[at].state = State::Down { retry_us: now };
                self.connect(at, Some(through), now);
            }
            None => self.nexuses[at].fence_from_us = Some(now + DETOUR_AFTER_US),
        }
    }

    /// A life is lost: what it sent may still be performed. A group in which nothing of earlier
    /// lives can land any more, or only settles, needs no fence.
    pub(super) fn note_unfenced(&mut self, at: usize) {
        let is_awaited = self.is_fence_awaited(at);
        let nexus = &mut self.nexuses[at];
        let group = nexus.portal_group();
        if !is_awaited {
            nexus.unfenced.clear();
        }
        if !nexus.unfenced.contains(&group) {
            nexus.unfenced.push(group);
        }
    }

    /// Whether some write of lost lives waits for the confirmation that they are over. For one that
    /// has it and settles, nothing more can be done at the target.
    fn is_fence_awaited(&self, at: usize) -> bool {
        let mut paths = self.nexuses[at].paths.iter();
        paths.any(|path| self.devices[path.device].policy.needs_fence(path.path))
    }

    /// Another session's way to a portal group in which a lost life was.
    pub(super) fn detour(&self, at: usize) -> Option<(SocketAddr, Option<Bind>)> {
        let mut groups = self.nexuses[at].unfenced.iter().flatten();
        let through = groups.find_map(|group| {
            self.siblings(at, Some(*group))
                .find(|through| through.is_up() && !through.is_suspect)
        })?;
        let portal = through.moved_to.unwrap_or(through.portal);
        Some((portal, through.bind.clone()))
    }

    /// Other sessions of the same target that lead, or led and are to lead again, to a portal
    /// group.
    fn siblings(&self, at: usize, group: PortalGroup) -> impl Iterator<Item = &Nexus> {
        let target = self.nexuses[at].target;
        let others = self.nexuses.iter().enumerate();
        others
            .filter(move |(other, sibling)| *other != at && sibling.target == target)
            .map(|(_, sibling)| sibling)
            .filter(|sibling| !matches!(sibling.state, State::Gone | State::Leaving { .. }))
            .filter(move |sibling| sibling.portal_group() == group)
    }

    /// The target takes a LOGIN that ends the last life: its answer is waited for.
    pub(super) fn ask_for_fence(&mut self, at: usize) {
        let now = self.now_us();
        let target = self.nexuses[at].target;
        let limit = self.targets[target].settings.session.login_timeout;
        let until = now + us(limit);
        self.each_path(at, now, |policy, path, _, _| {
            policy.fence_is_asked_for(path, until)
        });
    }

    /// A LOGIN to that group was answered: the lives that were there are over. What was sent in
    /// lives that were elsewhere, before a redirection, may still land.
    pub(super) fn login_fences(&mut self, at: usize, group: PortalGroup, now: u64) {
        let unfenced = &mut self.nexuses[at].unfenced;
        unfenced.retain(|other| *other != group);
        if unfenced.is_empty() {
            self.each_path(at, now, |policy, path, now, out| {
                policy.path_fenced(path, now, out)
            });
        } else {
            self.give_up_confirmation(at, now);
        }
    }

    /// Where nobody else leads to where lost lives were, their end is not waited for as long.
    pub(super) fn give_up_confirmation(&mut self, at: usize, now: u64) {
        let mut groups = self.nexuses[at].unfenced.iter();
        if groups.any(|group| self.siblings(at, *group).next().is_some()) {
            return;
        }
        let until = now + UNCONFIRMED_US;
        self.each_path(at, now, |policy, path, _, _| {
            policy.fence_cannot_be_confirmed(path, until);
        });
    }

    /// Whether a session that is not wanted any more has yet to end what it left at the target, and
    /// somebody is there through whom it can.
    pub(super) fn waits_for_fence(&self, at: usize, now: u64) -> bool {
        let nexus = &self.nexuses[at];
        let mut groups = nexus.unfenced.iter();
        let limit = nexus.parting_until_us.map(|until| until + LEAVE_US);
        !nexus.is_up()
            && limit.is_some_and(|limit| now < limit)
            && groups.any(|group| self.siblings(at, *group).next().is_some())
            && self.is_fence_awaited(at)
    }
}
