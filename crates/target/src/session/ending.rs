//! The end of connections and sessions. Their tasks are cancelled, and writes that a device still
//! makes for them are fenced off. A session keeps its name until that is over.

use super::connection::Role;
use super::told;
use crate::event_loop::EventLoop;
use crate::payload;
use unit::command::ended::Ended;
use unit::command::operation::SessionKey;

impl EventLoop {
    /// Ends a connection, and its session with the last one.
    pub(crate) fn close_connection(&mut self, slot: usize, reason: &'static str) {
        let Some(key) = self.remove_connection(slot, reason) else {
            return;
        };
        while let Some(session) = self.sessions.get_mut(&key) {
            if session.protocol.is_empty() {
                return self.end_session(key);
            }
            // Tasks that a task management function waited for may have been under way there.
            let Some(event) = session.protocol.due_function() else {
                // Answers may have waited for the initiator's confirmation there.
                return self.mark_session_dirty(key);
            };
            self.protocol_event(key, event);
        }
    }

    /// Ends a connection with its tasks but without its session, which is returned.
    pub(crate) fn remove_connection(
        &mut self,
        slot: usize,
        reason: &'static str,
    ) -> Option<SessionKey> {
        let mut connection = self.connections.try_remove(slot)?;
        let _ = self.poll.registry().deregister(&mut connection.stream);
        let Role::Session(key, index) = connection.role else {
            return None;
        };
        let counts = &self.core.shared.portal_counts;
        counts.add(
            connection.local,
            &connection.stream,
            &mut connection.counted,
        );
        let session = self.sessions.get_mut(&key)?;
        session.connections.remove(&index);
        session.protocol.remove_connection(index);
        let initiator = session.name.initiator.clone();
        tracing::info!(%initiator, peer = %connection.peer, reason, "connection closed");
        if session.connections.is_empty() {
            told::ended(
                &self.core.shared.events,
                &session.name,
                connection.peer,
                reason,
            );
        }
        self.cancel_orphans(key);
        Some(key)
    }

    /// Cancels operations of a session whose tasks are gone from it or aborted, and fences off
    /// writes that a device still makes for them. Nobody waits for these writes, and later writes
    /// must come after them.
    pub(crate) fn cancel_orphans(&mut self, key: SessionKey) {
        for token in self.core.operations.of_session(key) {
            let Some(operation) = self.core.operations.get_mut(token) else {
                continue;
            };
            let task = operation.task;
            let alive = self
                .sessions
                .get_mut(&key)
                .is_some_and(|session| session.protocol.is_alive(payload::task(task)));
            if alive {
                continue;
            }
            if self.core.cancel(token) {
                self.complete(key, task, Ended::good(None));
            } else {
                self.core.fence_off(token);
            }
        }
    }

    pub(crate) fn end_session(&mut self, key: SessionKey) {
        let Some(mut session) = self.sessions.remove(&key) else {
            return;
        };
        session.detach();
        self.cancel_orphans(key);
        let operations = &mut self.core.operations;
        if operations.has_any(key) {
            // Until its tasks are over it keeps its name: a new session of that name comes to this
            // loop and waits for them.
            self.ending.insert(session.name, session.registered);
        } else {
            let mut registry = self.core.shared.registry();
            registry.remove(&session.name, &session.registered);
        }
        // A login that was to join it waits in vain.
        let mut delayed = self.delayed.iter();
        if delayed.any(|login| login.seat.session.key == key) {
            operations.note_end();
            self.finish_ending();
        }
    }

    /// Tells the initiator that the target ends this session, and closes it.
    pub(crate) fn dismiss_session(&mut self, key: SessionKey, reason: &'static str) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.announce_end();
        self.mark_session_dirty(key);
        self.flush();
        self.close_session(key, reason);
    }

    /// Asks the initiator to log out. If it does not, the session is dismissed
    /// ([`EventLoop::tick_if_due`]).
    pub(crate) fn ask_to_log_out(&mut self, key: SessionKey, within_s: u16) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.ask_to_log_out(within_s);
        self.mark_session_dirty(key);
        self.flush();
    }

    pub(crate) fn close_session(&mut self, key: SessionKey, reason: &'static str) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let slots: Vec<usize> = session.connections.values().copied().collect();
        slots
            .into_iter()
            .for_each(|slot| self.close_connection(slot, reason));
        self.end_session(key);
    }

    /// Forgets ended sessions whose tasks are over now, and lets in the logins that waited for
    /// that.
    pub(crate) fn finish_ending(&mut self) {
        let awaited = !(self.ending.is_empty() && self.delayed.is_empty());
        // They wait for the end of an operation.
        if !awaited || !self.core.operations.take_ends() {
            return;
        }
        let (operations, shared) = (&self.core.operations, &self.core.shared);
        self.ending.retain(|name, session| {
            let goes_on = operations.has_any(session.key);
            if !goes_on {
                shared.registry().remove(name, session);
            }
            goes_on
        });
        for logged_in in std::mem::take(&mut self.delayed) {
            self.attach(logged_in);
        }
    }
}
