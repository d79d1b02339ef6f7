//! One thread with its connections and its lane; the first one also accepts.
//!
//! In each turn, the loop looks at ready sockets, and lets each connection with input run a bounded
//! amount. It then starts the resulting block requests in one batch, takes completions, and writes
//! all answers.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use slab::Slab;

use super::connection::{Connection, Pause, Service};
use super::fence::Place;
use super::listener::Listener;
use super::operation::Operation;
use super::server::{Message, Shared};
use super::stream::{Socket, Stream};
use block::budget::Budget;
use block::{Pages, lane};
use unit::execution::Outcome;
use unit::loops::Call;
use unit::nexus::Nexus;

/// Events taken at once.
const EVENTS: usize = 256;
/// Size of the input buffer in bytes; one read serves many requests.
const BUFFER: usize = 128 << 10;
/// Reads of one connection in one turn, limited for fairness.
const READS_PER_TURN: usize = 4;
/// Longest time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Time for which a client may move nothing while others wait for the memory that it holds.
const STALL: Duration = Duration::from_secs(30);
/// Time for which a client that has left may move nothing, counted from the end of its requests.
/// Others wait for its writes too, and its writes may wait for the memory.
const FAREWELL: Duration = Duration::from_secs(5);
/// Interval of the time checks.
const TICK: Duration = Duration::from_secs(1);
/// Interval of the fence checks. Another loop may open the fence.
const FENCE: Duration = Duration::from_millis(2);

pub(super) const WAKER: Token = Token(usize::MAX);
pub(super) const LANE: Token = Token(usize::MAX - 1);
/// Token of the first listener; further ones count down from it.
const LISTENERS: usize = usize::MAX - 2;

/// Loop of a thread.
#[derive(Debug)]
pub(super) struct EventLoop {
    /// State shared by the connections. It is dropped before them: its lane waits for requests at
    /// the device, and only then are the places at the fence given up.
    service: Service,
    shared: Arc<Shared>,
    poll: Poll,
    inbox: Receiver<Message>,
    listeners: Vec<Listener>,
    connections: Slab<Connection>,
    budget: Arc<Budget>,
    /// Connections that may have input of which the poller will not tell again.
    ready: Vec<usize>,
    /// Connections to be written, resumed or closed.
    touched: Vec<usize>,
    buffer: Vec<u8>,
    last_tick: Instant,
    /// Whether a listener has clients that could not be accepted.
    accept_again: bool,
    /// Time by which the loop must have ended.
    stopping: Option<Instant>,
    may_exit: bool,
}

/// Returns the token of a listener.
fn listener_token(index: usize) -> Token {
    Token(LISTENERS - index)
}

impl EventLoop {
    /// Creates a loop whose poller has [`WAKER`] registered. Listeners are for the first loop only.
    ///
    /// # Errors
    /// A socket or listener cannot be watched.
    pub(super) fn new(
        service: Service,
        shared: Arc<Shared>,
        poll: Poll,
        inbox: Receiver<Message>,
        mut listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        use std::os::fd::AsRawFd as _;
        if let Some(fd) = service.executor.lane.poll_fd() {
            let fd = fd.as_raw_fd();
            let interest = mio::Interest::READABLE;
            poll.registry()
                .register(&mut mio::unix::SourceFd(&fd), LANE, interest)?;
        }
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), listener_token(index))?;
        }
        let budget = Budget::new(shared.memory_per_loop, shared.max_connections);
        let now = service.now;
        Ok(Self {
            service,
            shared,
            poll,
            inbox,
            listeners,
            connections: Slab::new(),
            budget,
            ready: Vec::new(),
            touched: Vec::new(),
            buffer: vec![0; BUFFER],
            last_tick: now,
            accept_again: false,
            stopping: None,
            may_exit: false,
        })
    }

    /// Runs until it is told to stop and every request is answered.
    pub(super) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut completions = Vec::new();
        while !self.is_over() {
            self.messages();
            match self.poll.poll(&mut events, self.timeout()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "a thread cannot wait for events");
                    break;
                }
            }
            self.read_clock();
            let mut accepts = self.accept_again;
            let ready = std::mem::take(&mut self.ready);
            for event in &events {
                match event.token() {
                    WAKER | LANE => {}
                    Token(token) if token > LISTENERS - self.listeners.len() => accepts = true,
                    Token(slot) => self.socket_event(slot, event),
                }
            }
            for slot in ready {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.ready = false;
                    self.readable(slot);
                }
            }
            // New clients come after the present ones: a new client may take the place of one that
            // left.
            if accepts {
                self.accept();
            }
            self.go_on();
            self.block_requests(&mut completions);
            self.tick();
            self.settle();
            self.block_requests(&mut completions);
        }
    }

    /// Reads the clock, for everything until the next reading.
    fn read_clock(&mut self) {
        self.service.now = Instant::now();
        self.service.executor.clock.set(self.service.now);
    }

    fn is_over(&self) -> bool {
        let Some(deadline) = self.stopping else {
            return false;
        };
        let drained = self.connections.is_empty() || self.service.now >= deadline;
        drained && self.may_exit
    }

    fn timeout(&self) -> Option<Duration> {
        let more = !self.ready.is_empty() || !self.touched.is_empty();
        if more || !self.service.unfinished.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let lane = self.service.executor.lane.next_deadline();
        let fenced = self.connections.iter();
        let fence = fenced
            .filter(|(_, connection)| connection.paused == Some(Pause::Fence))
            .map(|_| now + FENCE)
            .next();
        let busy = !self.connections.is_empty() || self.accept_again || self.stopping.is_some();
        let tick = busy.then(|| self.last_tick + TICK);
        let deadline = [lane, fence, tick].into_iter().flatten().min();
        deadline.map(|deadline| deadline.saturating_duration_since(now))
    }

    fn messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Accepted(socket, place) => self.begin(place, socket),
                Message::Call(Call::Drain(order)) => self.service.executor.drain(&order),
                Message::Call(Call::Wake(token)) => {
                    let ended = self.service.executor.granted(token);
                    self.hand_out(ended);
                }
                Message::Stop(deadline) => {
                    self.stopping = Some(deadline);
                    // No new clients are accepted, and the socket files are gone.
                    self.listeners.clear();
                    for (slot, connection) in &mut self.connections {
                        connection.shut_down();
                        touch(&mut self.touched, slot, connection);
                    }
                }
                Message::Exit => self.may_exit = true,
            }
        }
    }

    fn accept(&mut self) {
        self.accept_again = false;
        for index in 0..self.listeners.len() {
            loop {
                match self.listeners[index].accept() {
                    Ok(socket) => {
                        // From here on the client's end is noticed, whichever loop gets the client.
                        let place = match self.shared.fence.enter(&socket) {
                            Ok(place) => place,
                            Err(error) => {
                                tracing::warn!(%error, "the fence cannot watch a client");
                                continue;
                            }
                        };
                        if let Some((own, place)) = self.shared.deal(socket, place) {
                            self.begin(place, own);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        // Descriptors have most likely run out. Accepting is tried again when other
                        // clients have gone.
                        tracing::warn!(%error, "a client could not be accepted");
                        self.accept_again = true;
                        break;
                    }
                }
            }
        }
    }

    /// Takes a client, if there is room for one more. A client that is turned away loses the socket
    /// first, then the place.
    fn begin(&mut self, place: Place, mut socket: Socket) {
        if self.stopping.is_some() {
            return;
        }
        if !self.shared.enter() {
            tracing::warn!("a client was refused: too many are connected");
            return;
        }
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        if let Err(error) = socket.register(self.poll.registry(), Token(slot)) {
            tracing::warn!(%error, "a thread cannot watch a client");
            self.shared.leave();
            return;
        }
        let (unit, port) = (&self.service.unit, &self.service.port);
        let nexus = Nexus::join(Arc::clone(unit), socket.peer(), Arc::clone(port));
        nexus.itl.set_read_only(self.service.export.read_only);
        let stream = Stream::new(socket);
        let share = self.budget.share();
        let (tls, now) = (self.shared.tls_mode, self.service.now);
        let mut connection = Connection::new(stream, nexus, tls, share, place, now);
        touch(&mut self.touched, slot, &mut connection);
        entry.insert(connection);
    }

    fn socket_event(&mut self, slot: usize, event: &mio::event::Event) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if event.is_writable() {
            connection.blocked = false;
            touch(&mut self.touched, slot, connection);
        }
        if event.is_read_closed() || event.is_error() {
            connection.leave();
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.readable(slot);
        }
    }

    /// Reads a connection until nothing is waiting or its share of the turn is used up.
    fn readable(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        touch(&mut self.touched, slot, connection);
        for _ in 0..READS_PER_TURN {
            if !connection.read(slot, &mut self.buffer, &mut self.service) {
                return;
            }
        }
        mark_ready(&mut self.ready, slot, connection);
    }

    /// Requests the next pieces of long trims and zeros, even if nobody waits for them any more. A
    /// request that arrived complete is performed completely.
    fn go_on(&mut self) {
        for operation in std::mem::take(&mut self.service.unfinished) {
            let slot = operation.slot;
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.start(operation, Pages::new(), &mut self.service);
                touch(&mut self.touched, slot, connection);
            }
        }
    }

    /// Starts what was submitted, and hands out what came back.
    fn block_requests(&mut self, completions: &mut Vec<(u64, lane::Outcome)>) {
        self.service.executor.lane.submit_batch();
        self.service.executor.lane.take_completions(completions);
        if !completions.is_empty() {
            // The device may have worked while the loop handled the input of this turn.
            self.read_clock();
        }
        for (token, outcome) in completions.drain(..) {
            let ended = self.service.executor.completed(token, outcome);
            self.hand_out(ended);
        }
    }

    /// Gives an operation that has ended back to its connection.
    fn hand_out(&mut self, ended: Option<(Operation, Outcome)>) {
        let Some((operation, outcome)) = ended else {
            return;
        };
        let slot = operation.slot;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.finished(operation, outcome, &mut self.service);
            touch(&mut self.touched, slot, connection);
        }
    }

    /// Writes answers, resumes waiting connections, and closes those that are over.
    fn settle(&mut self) {
        for slot in std::mem::take(&mut self.touched) {
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            connection.touched = false;
            connection.write(&mut self.service);
            let closed = connection.close_if_over(self.stopping.is_some());
            if closed && connection.in_flight() == 0 {
                self.connections.remove(slot);
                self.shared.leave();
            }
        }
        for (slot, connection) in &mut self.connections {
            if connection.paused.is_some() && connection.resume(slot, &mut self.service) {
                mark_ready(&mut self.ready, slot, connection);
                touch(&mut self.touched, slot, connection);
            }
            if connection.catch_up(slot, &mut self.service) {
                touch(&mut self.touched, slot, connection);
            }
        }
    }

    /// Checks once a second for handshakes that take too long, and for clients that hold memory
    /// others wait for.
    fn tick(&mut self) {
        let now = self.service.now;
        if now.duration_since(self.last_tick) < TICK {
            return;
        }
        self.last_tick = now;
        let mut all = self.connections.iter();
        let scarce = all.any(|(_, connection)| connection.paused == Some(Pause::Memory));
        let older = |since: Option<Instant>, limit| {
            since.is_some_and(|since| now.duration_since(since) > limit)
        };
        for (slot, connection) in &mut self.connections {
            let slow = older(connection.handshaking_since(), HANDSHAKE);
            let patience = if connection.is_leaving() {
                FAREWELL
            } else {
                STALL
            };
            let stalled = scarce && older(connection.sits_on_memory_since(), patience);
            if slow {
                connection.give_up();
            } else if stalled {
                connection.give_up_answers();
            } else {
                continue;
            }
            tracing::info!(slot, "a client that makes no progress was disconnected");
            touch(&mut self.touched, slot, connection);
        }
    }
}

impl Drop for EventLoop {
    /// Closes all connections, so that clients see the end. This also happens after a panic; other
    /// loops go on.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let clients = self.connections.len();
            tracing::error!(clients, "a thread panicked: its clients are disconnected");
            if !self.listeners.is_empty() {
                tracing::error!("no client can connect any more: start the server again");
            }
        }
        for (_, connection) in &mut self.connections {
            self.shared.leave();
            connection.give_up();
            connection.close_if_over(true);
        }
    }
}

fn touch(touched: &mut Vec<usize>, slot: usize, connection: &mut Connection) {
    if !connection.touched {
        connection.touched = true;
        touched.push(slot);
    }
}

fn mark_ready(ready: &mut Vec<usize>, slot: usize, connection: &mut Connection) {
    if !connection.ready {
        connection.ready = true;
        ready.push(slot);
    }
}
