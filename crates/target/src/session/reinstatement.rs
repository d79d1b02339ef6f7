//! Connection reinstatement: a login with the CID of an existing connection of the session takes
//! that connection's place (RFC 7143 §6.3.4). The initiator knows that the old connection is dead
//! before we do.

use super::login::LoggedIn;
use super::registry::{RegisteredSession, SessionName};
use crate::event_loop::EventLoop;
use crate::payload;
use unit::command::operation::SessionKey;

impl EventLoop {
    /// Ends the connection of a session that has this CID, if there is one. Its tasks end with it,
    /// as error recovery level 0 has it, and the session goes on. Returns whether the new
    /// connection must wait. It must if writes of a lost connection are still under way, because
    /// they must not overtake the initiator's repeated writes.
    pub(crate) fn replace_connection(&mut self, key: SessionKey, cid: u16) -> bool {
        let Some(session) = self.sessions.get(&key) else {
            return false;
        };
        let old = session.protocol.find_connection(cid);
        if let Some(slot) = old.and_then(|index| session.connections.get(&index).copied()) {
            self.remove_connection(slot, "replaced by a new login with its CID");
        }
        let (operations, sessions) = (&mut self.core.operations, &self.sessions);
        operations.of_session(key).into_iter().any(|token| {
            let task = operations.get_mut(token).map(|operation| operation.task);
            let session = sessions.get(&key);
            task.is_some_and(|task| {
                session.is_some_and(|session| !session.protocol.is_alive(payload::task(task)))
            })
        })
    }

    /// Keeps a login until its wait is over. An older login that it replaces waits no longer: an
    /// initiator that tries again and again while a device hangs has one socket here for each CID.
    pub(crate) fn let_wait(&mut self, newer: LoggedIn) {
        let name = newer.name();
        let place = |login: &LoggedIn| (login.seat.session.key, login.result.identity.cid);
        let (key, cid) = place(&newer);
        self.delayed.retain(|older| {
            let replaced = place(older) == (key, cid) || older.seat.session.key.0 < key.0;
            let goes = replaced && older.name() == name;
            if goes {
                tracing::info!(peer = %older.peer, "a waiting login was replaced by a newer login");
            }
            !goes
        });
        self.delayed.push(newer);
    }

    /// Cleans up after a successful login that came to nothing. If its session has no connection
    /// because of that, the session does not stay.
    pub(crate) fn abandon(&mut self, name: &SessionName, session: &RegisteredSession) {
        match self.sessions.get(&session.key) {
            Some(served) if served.connections.is_empty() => self.end_session(session.key),
            Some(_) => {}
            None if session.loop_index == self.core.index => {
                self.core.shared.registry().remove(name, session);
            }
            // The session's own loop knows better.
            None => {}
        }
    }
}
