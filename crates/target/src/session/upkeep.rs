//! The work of an event loop once a second (time limits, pings, memory pressure), and at its end.

use std::time::Duration;

use iscsi::target::ConnectionError;

use super::connection::Role;
use crate::event_loop::{EventLoop, TICK};
use block::clock;

/// Time that an ending loop waits for its devices. Initiators repeat commands that were not
/// answered.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

impl EventLoop {
    pub(crate) fn tick_if_due(&mut self) {
        if self.connections.is_empty() || self.now.duration_since(self.last_tick) < TICK {
            return;
        }
        self.last_tick = self.now;
        if self.core.lane.in_flight() == 0 && self.core.shared.budget.used() == 0 {
            // In a quiet moment, memory of the last burst goes back to the system.
            pages::trim();
        }
        let now = self.clock();
        let timeout = self.core.shared.limits.login_timeout;
        let late: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, c)| {
                !matches!(c.role, Role::Session(..)) && self.now.duration_since(c.since) > timeout
            })
            .map(|(slot, _)| slot)
            .collect();
        late.into_iter()
            .for_each(|slot| self.close_connection(slot, "login took too long"));
        self.ease_pressure();
        self.close_stalled(now);
        self.dismiss_those_who_stayed();
        let mut touched = Vec::new();
        let mut dead = Vec::new();
        let mut stuck = Vec::new();
        for (key, session) in &mut self.sessions {
            for (index, why) in session.protocol.tick(now) {
                if matches!(
                    why,
                    ConnectionError::CommandMissing | ConnectionError::Format(_)
                ) {
                    stuck.push((*key, why));
                    break;
                }
                dead.extend(session.connections.get(&index).map(|slot| (*slot, why)));
            }
            touched.extend(session.connections.values().copied());
        }
        for (slot, why) in dead {
            tracing::warn!(peer = %self.connections[slot].peer, "connection given up: {why}");
            self.close_connection(slot, "the initiator does not answer");
        }
        for (key, why) in stuck {
            let session = self.sessions.get(&key);
            let initiator = session.map(|session| session.name.initiator.clone());
            tracing::warn!(?initiator, "session given up: {why}");
            self.dismiss_session(key, "the session cannot continue");
        }
        touched.into_iter().for_each(|slot| self.mark_dirty(slot));
        self.flush();
    }

    /// Ends sessions whose initiators were asked to log out and did not.
    fn dismiss_those_who_stayed(&mut self) {
        let sessions = self.sessions.iter();
        let stayed =
            sessions.filter(|(_, session)| session.logout_due.is_some_and(|due| due <= self.now));
        for key in stayed.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.dismiss_session(key, "the initiator was asked to log out and did not");
        }
    }

    /// Closes sessions that hold memory without progress while others wait for memory.
    fn close_stalled(&mut self, now: Duration) {
        let limit = self.core.shared.limits.stall_timeout;
        let sessions = self.sessions.iter_mut();
        let stalled = sessions.filter_map(|(key, session)| {
            let stalled = session.stalled_for(now) >= limit && self.under_pressure;
            stalled.then(|| (*key, session.name.initiator.clone()))
        });
        for (key, initiator) in stalled.collect::<Vec<_>>() {
            tracing::warn!(%initiator, "memory is short, and the data of a session does not move");
            self.close_session(
                key,
                "the data of the session did not move while memory was short",
            );
        }
    }

    /// Narrows the command windows while more than half of the memory for data in flight is taken.
    fn ease_pressure(&mut self) {
        let under_pressure = self.core.shared.budget.is_under_pressure();
        if under_pressure == self.under_pressure {
            return;
        }
        self.under_pressure = under_pressure;
        for session in self.sessions.values_mut() {
            session.follow_pressure(under_pressure);
        }
    }

    /// Tells every initiator that its session ends, then ends.
    pub(crate) fn stop(&mut self) {
        for session in self.sessions.values_mut() {
            session.announce_end();
        }
        let slots: Vec<usize> = self.connections.iter().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.mark_dirty(slot));
        self.flush();
        self.finish_on_devices();
        self.stopping = true;
    }

    /// Answers requests that the devices have taken already. Nothing new is read.
    fn finish_on_devices(&mut self) {
        let give_up = clock::now() + LAST_ANSWERS;
        let mut completions = Vec::new();
        while self.core.operations.any_on_device() && clock::now() < give_up {
            self.block_requests(&mut completions);
            self.flush();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.flush();
    }
}
