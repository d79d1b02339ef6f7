//! The traffic of a session's connections: bytes go to the protocol, its events to the parts that
//! handle them, and its output to the sockets.

use iscsi::target::{ConnectionError, Event};

use super::connection::{Received, Role};
use super::foresight::foresee;
use super::served_session::ServedSession;
use crate::event_loop::EventLoop;
use crate::payload;
use crate::router::Router;
use crate::shared::Core;
use block::clock;
use unit::command::ended::Ended;
use unit::command::operation::SessionKey;
use unit::command::operation::TaskKey;

/// Bytes of output from which a connection is not read until the peer has taken some.
const OUTPUT_LIMIT: usize = 8 << 20;
/// Bytes that a connection makes the session keep outside the memory budget from which it is not
/// read. A session has its floor of the budget, and little more.
const HELD_LIMIT: usize = 256 << 10;

impl EventLoop {
    pub(crate) fn read_session(&mut self, slot: usize, key: SessionKey, index: usize) -> bool {
        let Some(session) = self.sessions.get_mut(&key) else {
            return false;
        };
        if takes_too_much(session, index) {
            // The connection is read again once it has taken the answers that it asked for.
            self.connections[slot].paused = true;
            self.mark_dirty(slot);
            return false;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let connection = &mut self.connections[slot];
        let (received, count) =
            match connection.read_direct(&mut session.protocol, index, &mut buffer) {
                Some((received, count)) => (received, count),
                None => {
                    let received = connection.read(&mut buffer);
                    match received {
                        Received::Last(count) | Received::More(count) => (received, count),
                        Received::Nothing | Received::Closed => (received, 0),
                    }
                }
            };
        let alive = match received {
            Received::Closed => {
                self.close_connection(slot, "closed by the initiator");
                false
            }
            Received::Nothing => false,
            Received::Last(bytes) => {
                let before = session.protocol.counters().commands;
                if self.take_input(slot, key, index, &buffer[..count]) {
                    self.taken(slot, key, before, bytes);
                }
                false
            }
            Received::More(_) => self.take_input(slot, key, index, &buffer[..count]),
        };
        self.buffer = buffer;
        alive
    }

    /// Notes that bytes of input were taken from a session that had had `before` commands.
    fn taken(&mut self, slot: usize, key: SessionKey, before: u64, bytes: usize) {
        if let (Some(session), Some(connection)) =
            (self.sessions.get(&key), self.connections.get_mut(slot))
        {
            let commands = session.protocol.counters().commands - before;
            let Role::Session(_, index) = connection.role else {
                return;
            };
            let outstanding = session.protocol.outstanding(index);
            connection
                .gathering
                .taken(commands, outstanding, bytes, self.now);
        }
    }

    /// Gives bytes to the protocol. Returns `false` if the connection is gone.
    pub(crate) fn take_input(
        &mut self,
        slot: usize,
        key: SessionKey,
        index: usize,
        bytes: &[u8],
    ) -> bool {
        let mut input = bytes;
        if let Some(session) = self.sessions.get(&key) {
            foresee(&session.view, session.protocol.upcoming(index, bytes));
        }
        loop {
            let now = self.clock();
            self.mark_dirty(slot);
            let Some(session) = self.sessions.get_mut(&key) else {
                return false;
            };
            let mut router = Router {
                core: &mut self.core,
                view: &session.view,
                session: key,
                share: &session.share,
                unsent: session.unsent(),
            };
            let outcome = session
                .protocol
                .receive(index, &mut input, now, &mut router);
            match outcome {
                Ok(None) => {
                    let (exp_cmd_sn, max_cmd_sn) = session.protocol.command_window();
                    session.registered.note_window(exp_cmd_sn, max_cmd_sn);
                    if session.connections.len() > 1 {
                        self.mark_session_dirty(key);
                    }
                    return true;
                }
                Ok(Some(event)) => self.protocol_event(key, event),
                Err(error) => {
                    self.connection_error(slot, key, index, &error);
                    return false;
                }
            }
        }
    }

    /// Marks the session's connections. Input of one connection may have ended a wait of requests
    /// of the others: those have answers to send now, or may be read again.
    #[cold]
    pub(crate) fn mark_session_dirty(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let slots: smallvec::SmallVec<[usize; 4]> = session.connections.values().copied().collect();
        slots.into_iter().for_each(|slot| self.mark_dirty(slot));
    }

    fn connection_error(
        &mut self,
        slot: usize,
        key: SessionKey,
        index: usize,
        error: &ConnectionError,
    ) {
        if let (Some(session), Some(connection)) =
            (self.sessions.get_mut(&key), self.connections.get_mut(slot))
        {
            let initiator = &session.name.initiator;
            tracing::warn!(%initiator, peer = %connection.peer, %error, "connection dropped");
            // This sends the Reject, if the peer still takes it.
            let _ = connection.write(&mut session.protocol, index);
        }
        self.close_connection(slot, "protocol error");
    }

    pub(crate) fn protocol_event(&mut self, key: SessionKey, event: Event) {
        match event {
            Event::TaskManagement {
                request,
                referenced,
                connection,
            } => {
                self.task_management(key, connection, &request, referenced);
                self.carry_out_orders();
            }
            Event::Text {
                request,
                data,
                connection,
            } => self.text_request(key, connection, &request, &data),
            Event::Logout(_) => self.after_logout(key),
        }
    }

    /// Cancels commands of connections that were logged out. The connections close once their
    /// output has left.
    ///
    /// A session that was logged out leaves its units first: whoever has the Logout Response finds
    /// its reservation gone (SAM-5 §5.9, I_T nexus loss), however long the output takes.
    fn after_logout(&mut self, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(&key)
            && session.protocol.is_over()
        {
            session.detach();
        }
        self.cancel_orphans(key);
        self.mark_session_dirty(key);
    }

    pub(crate) fn complete(&mut self, key: SessionKey, task: TaskKey, ended: Ended) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session
            .protocol
            .complete(payload::task(task), payload::completion(ended));
        let slots: smallvec::SmallVec<[usize; 4]> = session.connections.values().copied().collect();
        slots.into_iter().for_each(|slot| self.mark_dirty(slot));
    }

    /// Writes the output of every connection that has some.
    pub(crate) fn flush(&mut self) {
        for slot in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            connection.dirty = false;
            if connection.blocked {
                continue;
            }
            match connection.role {
                Role::Session(key, index) => self.flush_session(slot, key, index),
                Role::Login(_) | Role::Closing => self.flush_output(slot),
            }
        }
    }

    fn flush_session(&mut self, slot: usize, key: SessionKey, index: usize) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        let result = self.connections[slot].write(&mut session.protocol, index);
        count_receipts(session, index, &mut self.core);
        let left = session.protocol.queued_bytes(index);
        let finished = left == 0 && session.protocol.is_logged_out(index);
        if result.is_err() {
            self.close_connection(slot, "the socket is broken");
        } else if finished {
            self.close_connection(slot, "logged out");
        } else if self.connections[slot].paused && !takes_too_much(session, index) {
            self.connections[slot].paused = false;
            self.mark_ready(slot);
        }
    }

    fn flush_output(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let failed = connection.write_output().is_err();
        if failed || (matches!(connection.role, Role::Closing) && connection.output.is_empty()) {
            self.close_connection(slot, "the login ended");
        }
    }
}

/// Counts the commands whose answers have left a connection.
#[inline]
fn count_receipts(session: &mut ServedSession, index: usize, core: &mut Core) {
    let Some(first) = session.protocol.take_receipt(index) else {
        return;
    };
    // The socket may have taken its time.
    core.clock.set(clock::now());
    let now = core.clock.now();
    let others = std::iter::from_fn(|| session.protocol.take_receipt(index));
    for receipt in std::iter::once(first).chain(others) {
        let times = receipt.left(now);
        receipt.nexus.add(core.index, &times);
        session.registered.tally.add(&times);
        if let Some(port_group) = &session.port_group_tally {
            port_group.add(core.index, &times);
        }
    }
}

/// Reports whether a connection has to wait before it may ask for more.
#[inline]
fn takes_too_much(session: &ServedSession, index: usize) -> bool {
    session.protocol.queued_bytes(index) > OUTPUT_LIMIT
        || session.protocol.held_bytes(index) > HELD_LIMIT
}
