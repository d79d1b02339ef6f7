//! Fencing: makes certain that the lost lives of a session are over. None of their writes may land
//! after a repeat elsewhere.
//!
//! A LOGIN with the session's ISID ends its old life (session reinstatement, RFC 7143 §6.3.5), but
//! only in the portal group of that life. The session's own portal is tried first. If it is silent
//! or closed, the LOGIN takes a detour through the portal of another session in this portal group.
//! The answer proves what the standard says, which not every target obeys. So the policy lets the
//! writes settle afterwards.

use std::net::SocketAddr;

use super::super::nexus::{Nexus, NexusState, us};
use super::Fabric;
use model::initiator::settings::Bind;

/// Time for which a lost session's own portal is tried. Then its old life is ended through another
/// portal.
pub(super) const DETOUR_AFTER_US: u64 = 50_000;
/// Time for which the writes of a lost session are waited for, if no other session leads to its
/// portal group. Only its own portal could confirm their end, and the portal may be gone for good.
const UNCONFIRMED_US: u64 = 5_000_000;

/// Time, beyond the time for its commands, for which a leaving session tries to end its remains.
const LEAVE_US: u64 = 15_000_000;

/// A portal group, by the tag that the target told.
pub(in super::super) type PortalGroup = Option<u16>;

impl Fabric {
    /// Handles a session whose own portal does not answer: ends the last life through another
    /// portal, or goes on waiting.
    pub(super) fn take_detour(&mut self, at: usize, now: u64) {
        match self.detour(at) {
            Some(through) => {
                self.nexuses[at].fence_from_us = None;
                self.drop_link(at);
                // A detour that fails at once counts as one more failed try.
                self.nexuses[at].state = NexusState::Down { retry_us: now };
                self.connect(at, Some(through), now);
            }
            None => self.nexuses[at].fence_from_us = Some(now + DETOUR_AFTER_US),
        }
    }

    /// Notes that a life is lost, whose commands may still be performed. A group needs no fence if
    /// no write of earlier lives can land there any more, or if they only settle.
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

    /// Reports whether some write of lost lives waits for the confirmation of its end. For a
    /// confirmed write that settles, nothing more can be done at the target.
    fn is_fence_awaited(&self, at: usize) -> bool {
        let mut paths = self.nexuses[at].paths.iter();
        paths.any(|path| self.devices[path.device].policy.needs_fence(path.path))
    }

    /// Returns another session's way to a portal group in which a lost life was.
    pub(super) fn detour(&self, at: usize) -> Option<(SocketAddr, Option<Bind>)> {
        let mut groups = self.nexuses[at].unfenced.iter().flatten();
        let through = groups.find_map(|group| {
            self.siblings(at, Some(*group))
                .find(|through| through.is_up() && !through.is_suspect)
        })?;
        let portal = through.moved_to.unwrap_or(through.portal);
        Some((portal, through.bind.clone()))
    }

    /// Lists other sessions of the target that lead to a portal group, or led there and will lead
    /// there again.
    fn siblings(&self, at: usize, group: PortalGroup) -> impl Iterator<Item = &Nexus> {
        let target = self.nexuses[at].target;
        let others = self.nexuses.iter().enumerate();
        others
            .filter(move |(other, sibling)| *other != at && sibling.target == target)
            .map(|(_, sibling)| sibling)
            .filter(|sibling| {
                !matches!(sibling.state, NexusState::Gone | NexusState::Leaving { .. })
            })
            .filter(move |sibling| sibling.portal_group() == group)
    }

    /// Notes that the target takes a LOGIN that ends the last life. Its answer is waited for.
    pub(super) fn ask_for_fence(&mut self, at: usize) {
        let now = self.now_us();
        let target = self.nexuses[at].target;
        let limit = self.targets[target].settings.session.login_timeout;
        let until = now + us(limit);
        self.each_path(at, now, |policy, path, _, _| {
            policy.fence_is_asked_for(path, until)
        });
    }

    /// Notes that a LOGIN to a group was answered, so the lives in that group are over. Commands
    /// from lives in other groups, before a redirection, may still land.
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

    /// Shortens the wait for the end of lost lives, if no other session leads to their portal
    /// groups.
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

    /// Reports whether an unwanted session has yet to end its remains at the target, and some
    /// portal is there for this.
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
