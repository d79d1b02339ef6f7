//! Connection reinstatement: a login with the CID of a connection that its session has takes that
//! connection's place (RFC 7143 §6.3.4). The initiator knows that the old one is dead before we do.

use super::login::LoggedIn;
use super::registry::{RegisteredSession, SessionName};
use crate::event_loop::EventLoop;
use crate::payload;
use unit::command::operation::SessionKey;

impl EventLoop {
    /// Ends the connection of a session that has this CID, if there is one; its tasks end with it,
    /// as error recovery level 0 has it, and the session goes on. Returns whether the new
    /// connection must wait: writes of a connection that is gone are still under way, and what the
    /// initiator sends again must not be overtaken by them.
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

    /// Keeps a login until what it must wait for is over. One that it replaces waits no longer: an
    /// initiator that tries again and again while a device hangs has one socket here for each CID.
    pub(crate) fn let_wait(&mut self, newer: LoggedIn) {
        let name = newer.name();
        let place = |login: &LoggedIn| (login.seat.session.key, login.result.identity.cid);
        let (key, cid) = place(&newer);
        self.delayed.retain(|older| {
            let replaced = place(older) == (key, cid) || older.seat.session.key.0 < key.0;
            let goes = replaced && older.name() == name;
            if goes {
                tracing::info!(peer = %older.peer, "a login was replaced by a newer one while it waited");
            }
            !goes
        });
        self.delayed.push(newer);
    }

    /// A login that succeeded has come to nothing: a session that has no connection because of that
    /// does not stay.
    pub(crate) fn abandon(&mut self, name: &SessionName, session: &RegisteredSession) {
        match self.sessions.get(&session.key) {
            Some(served) if served.connections.is_empty() => self.end_session(session.key),
            Some(_) => {}
            None if session.loop_index == self.core.index => {
                self.core.shared.registry().remove(name, session);
            }
            // Its own loop knows better.
            None => {}
        }
    }
}
