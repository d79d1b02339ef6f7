//! The arrival of a connection: accepted, logged in, and given to the session that it begins or
//! joins, on the loop that owns it.

use std::sync::Arc;

use mio::Interest;

use super::connection::{Connection, Received, Role};
use super::login::{LoggedIn, LoginConnection, LoginProgress};
use super::registry::{RegisteredSession, Seat, SessionName};
use super::served_session::ServedSession;
use super::told;
use crate::connection::listener::Arrived;
use crate::event_loop::EventLoop;
use crate::message::Message;

impl EventLoop {
    pub(crate) fn accepted(&mut self, arrived: Arrived) {
        let Arrived {
            stream,
            peer,
            local,
            dealt,
        } = arrived;
        self.make_room_for_login();
        if let Err(error) = crate::connection::socket_options::apply(&stream) {
            tracing::debug!(%peer, %error, "socket options were refused");
        }
        let mut stream = mio::net::TcpStream::from_std(stream);
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self
            .poll
            .registry()
            .register(&mut stream, mio::Token(slot), interest)
        {
            tracing::warn!(%peer, %error, "the event loop cannot watch a connection");
            return;
        }
        let role = Role::Login(Box::new(LoginConnection::new()));
        entry.insert(Connection::new(stream, peer, local, dealt, role));
        self.readable(slot);
    }

    /// Closes the oldest login if too many connections are logging in. A real login is through in
    /// no time, so logins that stall make room for others.
    fn make_room_for_login(&mut self) {
        let shared = &self.core.shared;
        let most = (shared.limits.max_logins / shared.loops()).max(1);
        let outside = self.connections.iter();
        let outside = outside.filter(|(_, c)| !matches!(c.role, Role::Session(..)));
        let (count, oldest) = outside.fold((0, None), |(count, oldest), (slot, c)| {
            let older = oldest.is_none_or(|(since, _)| c.since < since);
            let oldest = if older { Some((c.since, slot)) } else { oldest };
            (count + 1, oldest)
        });
        let Some((_, slot)) = oldest.filter(|_| count >= most) else {
            return;
        };
        tracing::warn!(peer = %self.connections[slot].peer, "too many connections are logging in: the oldest \
                                                             is closed");
        self.close_connection(slot, "too many connections are logging in");
    }

    pub(crate) fn read_login(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        let received = connection.read(&mut self.buffer);
        let (count, more) = match received {
            Received::Last(count) => (count, false),
            Received::More(count) => (count, true),
            Received::Nothing => return false,
            Received::Closed => {
                self.close_connection(slot, "closed during login");
                return false;
            }
        };
        let Role::Login(login) = &mut connection.role else {
            return more;
        };
        let progress = login.receive(
            &self.buffer[..count],
            self.core.index,
            (connection.local, connection.peer),
            &self.core.shared,
        );
        connection.output.append(&mut login.output);
        match progress {
            LoginProgress::Pending => {}
            LoginProgress::Refused => connection.role = Role::Closing,
            LoginProgress::Done(result, seat, replaces) => {
                self.logged_in(slot, *result, seat, replaces);
                return false;
            }
        }
        self.mark_dirty(slot);
        more
    }

    /// Hands a connection whose login succeeded to the loop that owns the session.
    fn logged_in(
        &mut self,
        slot: usize,
        result: iscsi::target::login::LoginResult,
        seat: Seat,
        replaces: Option<Arc<RegisteredSession>>,
    ) {
        let Connection {
            dealt,
            mut stream,
            peer,
            local,
            role,
            output,
            ..
        } = self.connections.remove(slot);
        let Role::Login(login) = role else { return };
        let (input, _) = login.take_rest();
        if let Some(old) = &replaces {
            let message = Message::Close(old.key, "reinstated by a new login");
            self.core.shared.send(old.loop_index, message);
        }
        if let Err(error) = self.poll.registry().deregister(&mut stream) {
            tracing::warn!(%peer, %error, "a connection could not be handed to another event loop");
            let name = SessionName::of(&result.identity, result.portal_group_tag);
            self.abandon(&name, &seat.session);
            return;
        }
        let owner = seat.session.loop_index;
        let logged_in = LoggedIn {
            dealt: dealt.moved_to(owner),
            stream,
            peer,
            local,
            result,
            seat,
            replaces,
            input,
            output,
        };
        if owner == self.core.index && logged_in.replaces.is_none() {
            self.attach(logged_in);
        } else {
            self.core
                .shared
                .send(owner, Message::LoggedIn(Box::new(logged_in)));
        }
    }

    /// Gives a logged-in connection to its session, which begins with its first one.
    pub(crate) fn attach(&mut self, logged_in: LoggedIn) {
        let name = logged_in.name();
        if self.ending.contains_key(&name) {
            // Writes of the session before are still under way. They must not overtake a retried or
            // newer write of the same blocks.
            self.let_wait(logged_in);
            return;
        }
        let key = logged_in.seat.session.key;
        if logged_in.result.identity.tsih != 0
            && self.replace_connection(key, logged_in.result.identity.cid)
        {
            self.let_wait(logged_in);
            return;
        }
        let newest = self.core.shared.registry().find(&name);
        if newest.is_none_or(|newest| newest.key != key) {
            tracing::info!(peer = %logged_in.peer, "a waiting login was replaced by a newer login");
            return;
        }
        let LoggedIn {
            dealt,
            mut stream,
            peer,
            local,
            result,
            seat,
            input,
            output,
            ..
        } = logged_in;
        let registered = seat.session.clone();
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self
            .poll
            .registry()
            .register(&mut stream, mio::Token(slot), interest)
        {
            tracing::warn!(%peer, %error, "the event loop cannot watch a connection");
            self.abandon(&name, &registered);
            return;
        }
        let mut connection = Connection::new(stream, peer, local, dealt, Role::Closing);
        connection.output = output;
        connection.seat = Some(seat);
        entry.insert(connection);
        let now = self.clock();
        if result.identity.tsih != 0 && !self.sessions.contains_key(&key) {
            tracing::warn!(%peer, "a connection came too late for its session");
            self.close_connection(slot, "its session has ended");
            return;
        }
        let session = self.sessions.entry(key).or_insert_with(|| {
            ServedSession::new(result.clone(), registered, local, &self.core.shared)
        });
        // Memory may have been short before the session began.
        session.follow_pressure(self.under_pressure);
        let index = session.add_connection(&result, slot, now);
        let (initiator, target) = (session.name.initiator.clone(), session.name.target.clone());
        tracing::info!(%initiator, %target, tsih = session.registered.tsih, %peer, "logged in");
        let tsih = session.registered.tsih;
        told::logged_in(&self.core.shared.events, &session.name, tsih, peer);
        self.connections[slot].role = Role::Session(key, index);
        self.mark_dirty(slot);
        self.take_input(slot, key, index, &input);
        // Bytes may have arrived before the socket was watched here.
        self.mark_ready(slot);
    }
}
