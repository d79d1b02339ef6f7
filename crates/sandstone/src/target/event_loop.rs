//! One event loop: sockets, messages, block completions; sessions that live and die on one core.
//!
//! Each turn looks at what is ready, lets every connection with input run a bounded amount, submits the
//! block requests that came of it in one batch, takes completions, and writes all output with as few
//! system calls as possible. Nothing in a turn blocks.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use iscsi::target::{ConnectionError, Event};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};
use slab::Slab;

use super::connection::{Connection, Received, Role};
use super::core::{Core, Progress};
use super::directory::Directory;
use super::listener::Arrived;
use super::login::{LoggedIn, LoginConnection, LoginProgress};
use super::message::Message;
use super::operation::{Operations, SessionKey, Token, Waiting, Work};
use super::registry::{RegisteredSession, Seat, SessionName};
use super::router::Router;
use super::served_session::ServedSession;
use super::shared::Shared;
use super::spin::Spin;
use super::turn::Turn;
use crate::block::Lane;

/// Input buffer of a loop in bytes; one read serves many commands.
const BUFFER: usize = 256 * 1024;
/// Reads of one connection in one turn: fairness.
const READS_PER_TURN: usize = 4;
/// A connection whose output grew to this many bytes is not read until the peer has taken some.
const OUTPUT_LIMIT: usize = 8 << 20;
/// The same for what a connection makes the session keep outside the memory budget: a session has its
/// floor of it, and little more.
const HELD_LIMIT: usize = 256 << 10;
/// How long a loop looks away while input gathers.
const LOOK_AWAY: Duration = Duration::from_micros(10);
pub(super) const TICK: Duration = Duration::from_secs(1);

pub(super) const WAKER: mio::Token = mio::Token(usize::MAX);
const LANE: mio::Token = mio::Token(usize::MAX - 1);

/// An event loop.
#[derive(Debug)]
pub(super) struct EventLoop {
    pub(super) core: Core,
    poll: Poll,
    inbox: Receiver<Message>,
    pub(super) connections: Slab<Connection>,
    pub(super) sessions: HashMap<SessionKey, ServedSession>,
    /// Sessions that have ended but whose tasks are not over.
    ending: Vec<(SessionName, Arc<RegisteredSession>)>,
    /// Logins that wait for the end of such a session.
    delayed: Vec<LoggedIn>,
    /// Connections with output.
    dirty: Vec<usize>,
    /// Connections that may have more input than one turn took.
    ready: Vec<usize>,
    /// How many of these only let their input gather.
    gathering: usize,
    buffer: Vec<u8>,
    start: Instant,
    pub(super) now: Instant,
    pub(super) last_tick: Instant,
    spin: Spin,
    pub(super) under_pressure: bool,
    pub(super) stopping: bool,
}

impl EventLoop {
    /// A loop with its poller, in which `WAKER` is registered.
    ///
    /// # Errors
    /// The lane's completion descriptor cannot be watched.
    pub(super) fn new(
        index: usize,
        poll: Poll,
        inbox: Receiver<Message>,
        shared: Arc<Shared>,
        io_uring: bool,
    ) -> io::Result<Self> {
        let weak = Arc::downgrade(&shared);
        let waker: crate::block::lane::Waker = Arc::new(move || {
            if let Some(shared) = weak.upgrade() {
                shared.wake_loop(index);
            }
        });
        let lane = if io_uring {
            Lane::new(waker)
        } else {
            Lane::without_io_uring(waker)
        };
        if let Some(fd) = lane.poll_fd() {
            poll.registry()
                .register(&mut SourceFd(&fd.as_raw_fd()), LANE, Interest::READABLE)?;
        }
        let now = Instant::now();
        let core = Core {
            index,
            shared,
            lane,
            operations: Operations::new(index),
            orders: Vec::new(),
            turn: Turn::default(),
        };
        Ok(Self {
            core,
            poll,
            inbox,
            connections: Slab::new(),
            sessions: HashMap::new(),
            ending: Vec::new(),
            delayed: Vec::new(),
            dirty: Vec::new(),
            ready: Vec::new(),
            gathering: 0,
            buffer: vec![0; BUFFER],
            start: now,
            now,
            last_tick: now,
            spin: Spin::new(now),
            under_pressure: false,
            stopping: false,
        })
    }

    /// Runs until [`Message::Stop`].
    pub(super) fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        let mut completions = Vec::new();
        while !self.stopping {
            self.let_gather();
            let timeout = self.timeout();
            let before = self.now;
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "an event loop cannot wait for events");
                return;
            }
            self.now = Instant::now();
            if timeout != Some(Duration::ZERO) {
                self.spin.slept(before, self.now);
            }
            let mut worked = !events.is_empty() || !self.ready.is_empty();
            worked |= self.go_on_with_tasks();
            for slot in std::mem::take(&mut self.ready) {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.ready = false;
                    self.readable(slot);
                }
            }
            for event in &events {
                match event.token() {
                    WAKER => self.messages(),
                    LANE => {}
                    mio::Token(slot) => self.socket_event(slot, event),
                }
            }
            worked |= self.block_requests(&mut completions);
            self.finish_ending();
            self.flush();
            self.tick_if_due();
            if worked {
                self.spin.worked(self.now);
            }
        }
        self.connections.clear();
    }

    /// Looks away for a moment where there is nothing to do but to let input gather: each look at the
    /// sockets makes the kernel tell of the next piece anew, at the sender's cost where it is local.
    fn let_gather(&mut self) {
        let gathering = std::mem::take(&mut self.gathering);
        if gathering == 0
            || gathering < self.ready.len()
            || !self.core.orders.is_empty()
            || self.core.turn.is_awaited()
            || self.core.lane.in_flight() > 0
        {
            return;
        }
        let until = self.now + LOOK_AWAY;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        if !self.ready.is_empty()
            || !self.core.orders.is_empty()
            || self.core.turn.is_awaited()
            || self.spin.go_on(Instant::now())
        {
            return Some(Duration::ZERO);
        }
        let tick = if self.connections.is_empty() {
            None
        } else {
            Some(self.last_tick + TICK)
        };
        let deadline = match (tick, self.core.lane.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Time since the loop began, as the protocol counts it.
    pub(super) fn clock(&self) -> Duration {
        self.now.duration_since(self.start)
    }

    fn socket_event(&mut self, slot: usize, event: &mio::event::Event) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if event.is_writable() && connection.blocked {
            connection.blocked = false;
            self.mark_dirty(slot);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.readable(slot);
        }
    }

    /// Reads a connection until nothing is waiting or its share of the turn is used up.
    fn readable(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && connection.gathering.goes_on(self.now)
        {
            self.gathering += usize::from(!connection.ready);
            self.mark_ready(slot);
            return;
        }
        for _ in 0..READS_PER_TURN {
            let Some(connection) = self.connections.get(slot) else {
                return;
            };
            let goes_on = match connection.role {
                Role::Login(_) => self.read_login(slot),
                Role::Session(key, index) => self.read_session(slot, key, index),
                Role::Closing => self.drop_input(slot),
            };
            if !goes_on {
                return;
            }
        }
        self.mark_ready(slot);
    }

    fn mark_ready(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.ready
        {
            connection.ready = true;
            self.ready.push(slot);
        }
    }

    pub(super) fn mark_dirty(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    fn drop_input(&mut self, slot: usize) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = self.connections[slot].read(&mut buffer);
        self.buffer = buffer;
        if received == Received::Closed {
            self.close_connection(slot, "closed by the initiator");
        }
        matches!(received, Received::More(_))
    }

    fn read_login(&mut self, slot: usize) -> bool {
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
            connection.local,
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

    /// A login succeeded here: hands the connection to the loop that owns the session.
    fn logged_in(
        &mut self,
        slot: usize,
        result: iscsi::target::login::LoginResult,
        seat: Seat,
        replaces: Option<Arc<RegisteredSession>>,
    ) {
        let Connection {
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
            tracing::warn!(%peer, %error, "a connection could not be handed over");
            let name = SessionName::of(&result.identity, result.portal_group_tag);
            self.abandon(&name, &seat.session);
            return;
        }
        let logged_in = LoggedIn {
            stream,
            peer,
            local,
            result,
            seat,
            replaces,
            input,
            output,
        };
        let owner = logged_in.seat.session.loop_index;
        if owner == self.core.index && logged_in.replaces.is_none() {
            self.attach(logged_in);
        } else {
            self.core
                .shared
                .send(owner, Message::LoggedIn(Box::new(logged_in)));
        }
    }

    /// Gives a logged-in connection to its session, which begins with its first one.
    fn attach(&mut self, logged_in: LoggedIn) {
        let name = SessionName::of(
            &logged_in.result.identity,
            logged_in.result.portal_group_tag,
        );
        if self.ending.iter().any(|(ending, _)| *ending == name) {
            // Writes of the session before are still under way. A retried or newer write of the same
            // blocks must not be overtaken by them.
            self.delayed.push(logged_in);
            return;
        }
        let key = logged_in.seat.session.key;
        if logged_in.result.identity.tsih != 0
            && self.replace_connection(key, logged_in.result.identity.cid)
        {
            self.delayed.push(logged_in);
            return;
        }
        let newest = self.core.shared.registry().find(&name);
        if newest.is_none_or(|newest| newest.key != key) {
            tracing::info!(peer = %logged_in.peer, "a login was replaced by a newer one while it waited");
            return;
        }
        let LoggedIn {
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
            tracing::warn!(%peer, %error, "a connection could not be watched");
            self.abandon(&name, &registered);
            return;
        }
        let mut connection = Connection::new(stream, peer, local, Role::Closing);
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
        let index = session.add_connection(&result, slot, now);
        let (initiator, target) = (session.name.initiator.clone(), session.name.target.clone());
        tracing::info!(%initiator, %target, tsih = session.registered.tsih, %peer, "logged in");
        self.connections[slot].role = Role::Session(key, index);
        self.mark_dirty(slot);
        self.take_input(slot, key, index, &input);
        // Bytes may have arrived before the socket was watched here.
        self.mark_ready(slot);
    }

    fn read_session(&mut self, slot: usize, key: SessionKey, index: usize) -> bool {
        let Some(session) = self.sessions.get_mut(&key) else {
            return false;
        };
        if takes_too_much(session, index) {
            // It is read again once it has taken what it asked for.
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

    /// So many bytes of input were taken from a session that had had `before` commands.
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

    /// Gives bytes to the protocol. `false` if the connection is gone.
    fn take_input(&mut self, slot: usize, key: SessionKey, index: usize, bytes: &[u8]) -> bool {
        let mut input = bytes;
        loop {
            let now = self.now.duration_since(self.start);
            self.mark_dirty(slot);
            let Some(session) = self.sessions.get_mut(&key) else {
                return false;
            };
            let mut router = Router {
                core: &mut self.core,
                view: &session.view,
                session: key,
                share: &session.share,
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

    /// What one connection brought may be what requests of the others waited for: those have answers to
    /// send now, or may be read again.
    #[cold]
    fn mark_session_dirty(&mut self, key: SessionKey) {
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
            // The Reject, if the peer still takes it.
            let _ = connection.write(&mut session.protocol, index);
        }
        self.close_connection(slot, "protocol error");
    }

    fn protocol_event(&mut self, key: SessionKey, event: Event) {
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

    /// Connections that were logged out close once their output has left.
    fn after_logout(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let slots: Vec<usize> = session.connections.values().copied().collect();
        slots.into_iter().for_each(|slot| self.mark_dirty(slot));
    }

    /// Begins a turn with the tasks that had to wait for it. Whether there were any.
    fn go_on_with_tasks(&mut self) -> bool {
        self.core.turn.begin();
        let awaited = self.core.turn.is_awaited();
        while let Some(token) = self.core.turn.next() {
            if let Some((key, task, completion)) = self.core.granted(token) {
                self.complete(key, task, completion);
            }
        }
        awaited
    }

    /// Submits and completes block requests. Whether there was anything to do.
    pub(super) fn block_requests(
        &mut self,
        completions: &mut Vec<(u64, crate::block::lane::Outcome)>,
    ) -> bool {
        self.carry_out_orders();
        self.core.lane.submit_batch();
        self.core.lane.take_completions(completions);
        let worked = !completions.is_empty();
        for (token, outcome) in completions.drain(..) {
            if let Some((key, task, completion)) = self.core.completed(Token(token), outcome) {
                self.complete(key, task, completion);
            }
        }
        if worked {
            self.core.lane.submit_batch();
        }
        worked
    }

    /// Forgets ended sessions whose tasks are over now, and lets in the logins that waited for that.
    fn finish_ending(&mut self) {
        if self.ending.is_empty() && self.delayed.is_empty() {
            return;
        }
        for (name, session) in std::mem::take(&mut self.ending) {
            if self.core.operations.of_session(session.key).is_empty() {
                self.core.shared.registry().remove(&name, &session);
            } else {
                self.ending.push((name, session));
            }
        }
        for logged_in in std::mem::take(&mut self.delayed) {
            self.attach(logged_in);
        }
    }

    pub(super) fn complete(
        &mut self,
        key: SessionKey,
        task: iscsi::target::TaskId,
        completion: iscsi::target::Completion<super::payload::DataIn>,
    ) {
        let Some(session) = self.sessions.get_mut(&key) else {
            return;
        };
        session.protocol.complete(task, completion);
        let slots: smallvec::SmallVec<[usize; 4]> = session.connections.values().copied().collect();
        slots.into_iter().for_each(|slot| self.mark_dirty(slot));
    }

    /// Writes the output of every connection that has some.
    pub(super) fn flush(&mut self) {
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

    /// Ends a connection, and its session with the last one.
    pub(super) fn close_connection(&mut self, slot: usize, reason: &'static str) {
        if let Some(key) = self.remove_connection(slot, reason)
            && self
                .sessions
                .get(&key)
                .is_some_and(|session| session.protocol.is_empty())
        {
            self.end_session(key);
        }
    }

    /// Ends a connection with its tasks, not its session, which is returned.
    pub(super) fn remove_connection(
        &mut self,
        slot: usize,
        reason: &'static str,
    ) -> Option<SessionKey> {
        let mut connection = self.connections.try_remove(slot)?;
        let _ = self.poll.registry().deregister(&mut connection.stream);
        let Role::Session(key, index) = connection.role else {
            return None;
        };
        let session = self.sessions.get_mut(&key)?;
        session.connections.remove(&index);
        session.protocol.remove_connection(index);
        let initiator = session.name.initiator.clone();
        tracing::info!(%initiator, peer = %connection.peer, reason, "connection closed");
        self.cancel_orphans(key);
        Some(key)
    }

    /// Cancels operations of a session whose tasks are gone from it or aborted.
    pub(super) fn cancel_orphans(&mut self, key: SessionKey) {
        for token in self.core.operations.of_session(key) {
            let Some(task) = self
                .core
                .operations
                .get_mut(token)
                .map(|operation| operation.task)
            else {
                continue;
            };
            let alive = self
                .sessions
                .get_mut(&key)
                .is_some_and(|session| session.protocol.is_alive(task));
            if !alive && self.core.cancel(token) {
                self.complete(key, task, super::core::good(None));
            }
        }
    }

    pub(super) fn end_session(&mut self, key: SessionKey) {
        let Some(mut session) = self.sessions.remove(&key) else {
            return;
        };
        session.detach();
        self.cancel_orphans(key);
        self.core.fence_off(key);
        // Until its tasks are over it keeps its name: a new session of that name comes to this loop and
        // waits for them.
        self.ending.push((session.name, session.registered));
        self.finish_ending();
    }

    pub(super) fn close_session(&mut self, key: SessionKey, reason: &'static str) {
        let Some(session) = self.sessions.get(&key) else {
            return;
        };
        let slots: Vec<usize> = session.connections.values().copied().collect();
        slots
            .into_iter()
            .for_each(|slot| self.close_connection(slot, reason));
        self.end_session(key);
    }

    fn messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Accepted(arrived) => self.accepted(arrived),
                Message::LoggedIn(logged_in) => self.attach(*logged_in),
                Message::Wake(token) => self.woken(token),
                Message::Abort(order) => self.core.orders.push(order),
                Message::Reconfigure(directory) => self.reconfigure(&directory),
                Message::Close(key, reason) => self.close_session(key, reason),
                Message::CloseTarget(target, reason) => {
                    let keys: Vec<_> = self.sessions_of(&target);
                    keys.into_iter()
                        .for_each(|key| self.close_session(key, reason));
                }
                Message::Describe(reply) => {
                    let _ = reply.send(self.describe());
                }
                Message::Stop => self.stop(),
            }
        }
    }

    pub(super) fn sessions_of(&self, target: &str) -> Vec<SessionKey> {
        let of_target = self
            .sessions
            .iter()
            .filter(|(_, session)| &*session.name.target == target);
        of_target.map(|(key, _)| *key).collect()
    }

    fn accepted(&mut self, arrived: Arrived) {
        let Arrived {
            stream,
            peer,
            local,
        } = arrived;
        self.make_room_for_login();
        if let Err(error) = super::socket_options::apply(&stream) {
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
            tracing::warn!(%peer, %error, "a connection could not be watched");
            return;
        }
        let role = Role::Login(Box::new(LoginConnection::new()));
        entry.insert(Connection::new(stream, peer, local, role));
        self.readable(slot);
    }

    /// Where too many connections are logging in, the one that began first goes: whoever means it is
    /// through in no time, so that those who stall make room for those who do not.
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
        tracing::warn!(peer = %self.connections[slot].peer, "too many are logging in: the oldest is dropped");
        self.close_connection(slot, "too many are logging in");
    }

    /// What an operation waited for has happened.
    fn woken(&mut self, token: Token) {
        let Some(operation) = self.core.operations.get_mut(token) else {
            return;
        };
        let (key, task) = (operation.session, operation.task);
        if let Work::Management {
            connection,
            itt,
            result,
        } = operation.work
        {
            if self.core.operations.take(token).is_some() {
                self.core.operations.retire(token);
            }
            self.answer_task_management(key, connection, itt, result);
            return;
        }
        if self.core.remove_fence(token) {
            return;
        }
        let Some(operation) = self.core.operations.get_mut(token) else {
            return;
        };
        if operation.waiting != Waiting::Turn {
            if let Some((key, task, completion)) = self.core.granted(token) {
                self.complete(key, task, completion);
            }
            return;
        }
        let cancelled = operation.cancelled;
        let Some(session) = self.sessions.get_mut(&key) else {
            self.core.cancel_after_turn(token);
            return;
        };
        if cancelled {
            self.core.cancel_after_turn(token);
            self.complete(key, task, super::core::good(None));
            return;
        }
        let mut router = Router {
            core: &mut self.core,
            view: &session.view,
            session: key,
            share: &session.share,
        };
        if let Progress::Done(completion) = router.turn_came(token) {
            self.complete(key, task, completion);
        }
    }

    fn reconfigure(&mut self, directory: &Arc<Directory>) {
        let keys: Vec<SessionKey> = self.sessions.keys().copied().collect();
        for key in keys {
            let Some(session) = self.sessions.get_mut(&key) else {
                continue;
            };
            if session.nexus.is_none() {
                continue;
            }
            let slot = session.connections.values().next().copied();
            let Some(local) = slot.and_then(|slot| Some(self.connections.get(slot)?.local)) else {
                continue;
            };
            match session.access(&directory.config, local) {
                None => self.close_session(key, "no longer allowed by the configuration"),
                Some(access) => {
                    let (left, changed) = session.set_view(&access, directory);
                    if changed {
                        session.raise_luns_changed();
                    }
                    for mapped in left {
                        self.abort_lun(key, mapped.lun);
                    }
                }
            }
        }
    }
}

/// Whether a connection has to wait before it may ask for more.
#[inline]
fn takes_too_much(session: &ServedSession, index: usize) -> bool {
    session.protocol.queued_bytes(index) > OUTPUT_LIMIT
        || session.protocol.held_bytes(index) > HELD_LIMIT
}
