//! One event loop: sockets, messages, block completions; sessions that live and die on one core.
//!
//! Each turn looks for ready sockets and lets every connection with input run a bounded amount. It
//! submits the resulting block requests in one batch and takes completions. It writes all output
//! with as few system calls as possible. Nothing in a turn blocks.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll};
use slab::Slab;

use super::describe::Describing;
use super::directory::Directory;
use super::message::Message;
use super::router::Router;
use super::shared::Core;
use super::shared::Shared;
use crate::session::connection::{Connection, Received, Role};
use crate::session::gathering;
use crate::session::login::LoggedIn;
use crate::session::registry::{RegisteredSession, SessionName};
use crate::session::served_session::ServedSession;
use block::spin::{self, Spin};
use block::{Lane, clock};
use iscsi::name;
use unit::command::core::Progress;
use unit::command::ended::Ended;
use unit::command::operation::{SessionKey, Token, Waiting, Work};
use unit::command::operations::{BySession, Operations};
use unit::command::turn::Turn;
use unit::loops::Call;
use unit::timing::LoopClock;

/// Input buffer of a loop in bytes; one read serves many commands.
const BUFFER: usize = 256 * 1024;
/// Most reads of one connection in one turn, for fairness.
const READS_PER_TURN: usize = 4;
pub(super) const TICK: Duration = Duration::from_secs(1);

pub(super) const WAKER: mio::Token = mio::Token(usize::MAX);
const LANE: mio::Token = mio::Token(usize::MAX - 1);

/// Lists that a turn fills, kept between turns to spare the allocations.
#[derive(Debug)]
pub(super) struct TurnBuffers {
    events: Events,
    completions: Vec<(u64, block::lane::Outcome)>,
}

impl Default for TurnBuffers {
    fn default() -> Self {
        Self {
            events: Events::with_capacity(1024),
            completions: Vec::new(),
        }
    }
}

/// Event loop.
#[derive(Debug)]
pub(super) struct EventLoop {
    pub(super) core: Core,
    pub(super) poll: Poll,
    inbox: Receiver<Message>,
    pub(super) connections: Slab<Connection>,
    pub(super) sessions: BySession<ServedSession>,
    /// Sessions that have ended but whose tasks are not over.
    pub(super) ending: HashMap<SessionName, Arc<RegisteredSession>>,
    /// Logins that wait for the end of a session in `ending`.
    pub(super) delayed: Vec<LoggedIn>,
    /// Connections with output.
    pub(super) dirty: Vec<usize>,
    /// Connections that may have more input than one turn took.
    ready: Vec<usize>,
    /// Number of connections in `ready` that only let their input gather.
    gathering: usize,
    /// Lists of sessions that are being made.
    pub(super) describing: VecDeque<Describing>,
    pub(super) buffer: Vec<u8>,
    start: Instant,
    pub(super) now: Instant,
    pub(super) last_tick: Instant,
    spin: Spin,
    pub(super) under_pressure: bool,
    pub(super) stopping: bool,
}

impl EventLoop {
    /// Returns a loop with its poller, in which `WAKER` is registered.
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
        let waker: block::lane::Waker = Arc::new(move || {
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
        let now = clock::now();
        let core = Core {
            index,
            shared,
            lane,
            operations: Operations::new(index),
            orders: Vec::new(),
            turn: Turn::default(),
            clock: LoopClock::new(now),
        };
        Ok(Self {
            core,
            poll,
            inbox,
            connections: Slab::new(),
            sessions: BySession::default(),
            ending: HashMap::new(),
            delayed: Vec::new(),
            dirty: Vec::new(),
            ready: Vec::new(),
            gathering: 0,
            describing: VecDeque::new(),
            buffer: vec![0; BUFFER],
            start: now,
            now,
            last_tick: now,
            spin: Spin::new(spin::FOR_A_CLIENT, now),
            under_pressure: false,
            stopping: false,
        })
    }

    /// Runs until [`Message::Stop`].
    pub(super) fn run(&mut self) {
        let mut buffers = TurnBuffers::default();
        while !self.stopping {
            self.let_gather();
            let timeout = self.timeout();
            if let Err(error) = self.turn(timeout, &mut buffers) {
                tracing::error!(%error, "an event loop cannot wait for events");
                return;
            }
        }
        self.connections.clear();
    }

    /// Takes one turn, which waits for events up to `timeout`. Returns whether there was anything
    /// to do.
    ///
    /// # Errors
    /// The poller cannot wait.
    pub(super) fn turn(
        &mut self,
        timeout: Option<Duration>,
        buffers: &mut TurnBuffers,
    ) -> io::Result<bool> {
        match self.poll.poll(&mut buffers.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        self.read_clock();
        if timeout != Some(Duration::ZERO) {
            self.spin.slept(self.now);
        }
        let mut worked = !buffers.events.is_empty() || !self.ready.is_empty();
        worked |= self.go_on_with_tasks();
        for slot in std::mem::take(&mut self.ready) {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.ready = false;
                self.readable(slot);
            }
        }
        for event in &buffers.events {
            match event.token() {
                WAKER => self.messages(),
                LANE => {}
                mio::Token(slot) => self.socket_event(slot, event),
            }
        }
        worked |= self.block_requests(&mut buffers.completions);
        self.finish_ending();
        self.flush();
        self.describe_some();
        self.tick_if_due();
        if worked {
            self.spin.worked(self.now);
        }
        Ok(worked)
    }

    /// Reads the clock, for everything until the next reading.
    #[inline]
    fn read_clock(&mut self) {
        self.now = clock::now();
        self.core.clock.set(self.now);
    }

    /// Pauses for a moment if the only work is to let input gather. Each look at the sockets makes
    /// the kernel announce the next piece anew, at the cost of a local sender.
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
        let until = self.now + gathering::PAUSE;
        while clock::now() < until {
            std::hint::spin_loop();
        }
    }

    /// Returns how long the next turn may wait for events.
    fn timeout(&mut self) -> Option<Duration> {
        if !self.ready.is_empty()
            || !self.core.orders.is_empty()
            || !self.describing.is_empty()
            || self.core.turn.is_awaited()
            || self.spin.go_on(clock::now())
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
        deadline.map(|deadline| deadline.saturating_duration_since(clock::now()))
    }

    /// Returns the time since the loop began, as the protocol counts it.
    pub(super) fn clock(&self) -> Duration {
        self.now.duration_since(self.start)
    }

    fn socket_event(&mut self, slot: usize, event: &mio::event::Event) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.half_closed |= event.is_read_closed() || event.is_error();
        if event.is_writable() && connection.blocked {
            connection.blocked = false;
            self.mark_dirty(slot);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.readable(slot);
        }
    }

    /// Reads a connection until nothing is waiting or its share of the turn is used up.
    pub(super) fn readable(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && connection.gathers(self.now)
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

    pub(super) fn mark_ready(&mut self, slot: usize) {
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

    /// Begins a turn with the tasks that had to wait for it. Returns whether there were any.
    fn go_on_with_tasks(&mut self) -> bool {
        self.core.turn.begin();
        let awaited = self.core.turn.is_awaited();
        while let Some(token) = self.core.turn.next_waiting() {
            if let Some((key, task, completion)) = self.core.granted(token) {
                self.complete(key, task, completion);
            }
        }
        awaited
    }

    /// Submits and completes block requests. Returns whether there was anything to do.
    pub(super) fn block_requests(
        &mut self,
        completions: &mut Vec<(u64, block::lane::Outcome)>,
    ) -> bool {
        self.carry_out_orders();
        self.core.lane.submit_batch();
        self.core.lane.take_completions(completions);
        let worked = !completions.is_empty();
        if worked {
            // Devices may have worked while the loop handled the input of this turn.
            self.read_clock();
        }
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

    fn messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Accepted(arrived) => self.accepted(arrived),
                Message::LoggedIn(logged_in) => self.attach(*logged_in),
                Message::Call(Call::Wake(token)) => self.woken(token),
                Message::Call(Call::Drain(order)) => {
                    order.wait_for_commands(&mut self.core.operations);
                }
                Message::Abort(order) => self.core.orders.push(order),
                Message::Reconfigure(directory) => self.reconfigure(&directory),
                Message::Close(key, reason) => self.close_session(key, reason),
                Message::Dismiss(key, reason) => self.dismiss_session(key, reason),
                Message::AskToLogOut(key, within_s) => self.ask_to_log_out(key, within_s),
                Message::DismissTarget(target, reason) => {
                    let keys: Vec<_> = self.sessions_of(&target);
                    keys.into_iter()
                        .for_each(|key| self.dismiss_session(key, reason));
                }
                Message::Describe(reply) => self.describe(reply),
                Message::Turn(turn) => drop(turn),
                Message::Stop => self.stop(),
            }
        }
    }

    fn sessions_of(&self, target: &str) -> Vec<SessionKey> {
        let of_target = self
            .sessions
            .iter()
            .filter(|(_, session)| name::is_same(&session.name.target, target));
        of_target.map(|(key, _)| *key).collect()
    }

    /// Continues an operation whose wait is over.
    fn woken(&mut self, token: Token) {
        let Some(operation) = self.core.operations.get_mut(token) else {
            return;
        };
        let (key, task) = (operation.session, operation.task);
        if let Work::Answer(number) = operation.work {
            if self.core.operations.take(token).is_some() {
                self.core.operations.retire(token);
            }
            if let Some(session) = self.sessions.get_mut(&key) {
                session.functions_waiting -= 1;
            }
            self.answer_when_asked(key, number);
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
            self.complete(key, task, Ended::good(None));
            return;
        }
        let mut router = Router {
            core: &mut self.core,
            view: &session.view,
            session: key,
            share: &session.share,
            unsent: session.unsent(),
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
            let slots = session.connections.values();
            let portals: Vec<_> = slots
                .filter_map(|slot| Some(self.connections.get(*slot)?.local))
                .collect();
            let Some(accesses) = session.accesses(&directory.config, &portals) else {
                self.dismiss_session(key, "no longer allowed by the configuration");
                continue;
            };
            if accesses.iter().any(|access| session.has_other_port(access)) {
                self.dismiss_session(key, "its portal belongs to another portal group now");
                continue;
            }
            let Some(access) = accesses.first() else {
                continue;
            };
            let (left, changed) = session.set_view(access, directory);
            if changed {
                session.raise_luns_changed();
            }
            for mapped in left {
                self.abort_lun(key, mapped.lun);
            }
        }
    }
}
