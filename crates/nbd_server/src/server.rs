//! The threads of a server together, from start to orderly end.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use nbd::handshake::TlsMode;

use super::connection::Service;
use super::event_loop::{EventLoop, WAKER};
use super::fence::{Fence, Place};
use super::listener::{Endpoint, ListenError, Listener};
use super::stream::Socket;
use super::tls::{TlsError, TlsOptions, load};
use block::Lane;
use scsi::nexus::TargetPort;
use unit::execution::Executor;
use unit::loops::Call;
use unit::unit::Unit;

/// Time that clients have at the end to take the promised answers.
const END: Duration = Duration::from_secs(10);

/// Settings of the export, its listeners and its limits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Name of the export. It is the default export, whatever its name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Addresses to listen on.
    pub endpoints: Vec<Endpoint>,
    /// Certificates, if TLS is offered.
    pub tls: Option<TlsOptions>,
    /// Most memory for data in flight, in bytes.
    pub memory_cap: u64,
    /// Most clients at a time.
    pub max_connections: usize,
}

/// Reason why a server does not start.
#[derive(Debug)]
pub enum StartError {
    /// Listening failed.
    Listen(ListenError),
    /// The certificates cannot be used.
    Tls(TlsError),
    /// The system has no thread or descriptor left.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::System(error) => write!(f, "the server cannot start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Message to a loop.
#[derive(Debug)]
pub(super) enum Message {
    /// Client for the loop, with its place at the fence.
    Accepted(Socket, Place),
    /// Call by which loops of all protocols go on: an operation has its range now, or work is
    /// waited for.
    Call(Call),
    /// Stop: refuse new requests, and answer everything by this time.
    Stop(Instant),
    /// Permission to end once the loop has nothing to do.
    Exit,
}

/// Handle to a loop.
#[derive(Clone, Debug)]
struct Door {
    sender: Sender<Message>,
    waker: Arc<Waker>,
}

impl Door {
    /// Sends a message. Returns the message if the loop has ended.
    fn send(&self, message: Message) -> Option<Message> {
        let back = self.sender.send(message).err();
        let _ = self.waker.wake();
        back.map(|error| error.0)
    }
}

/// State shared by the loops.
#[derive(Debug)]
pub(super) struct Shared {
    doors: Vec<Door>,
    /// Number of the loop that gets the next client.
    next: AtomicUsize,
    pub(super) fence: Arc<Fence>,
    pub(super) tls_mode: TlsMode,
    pub(super) memory_per_loop: u64,
    pub(super) max_connections: usize,
    /// Number of clients of all loops.
    clients: AtomicUsize,
}

impl Shared {
    /// Counts a client in. Returns `false` if the most allowed clients are here.
    pub(super) fn enter(&self) -> bool {
        let more = |count| (count < self.max_connections).then_some(count + 1);
        self.clients
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Counts a client out.
    pub(super) fn leave(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives a client to a loop, in turn, skipping loops that ended in a panic. Returns the client
    /// if it is the turn of the first loop, which is the caller.
    pub(super) fn deal(&self, socket: Socket, place: Place) -> Option<(Socket, Place)> {
        let mut client = (socket, place);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed) % self.doors.len();
            if index == 0 {
                return Some(client);
            }
            match self.doors[index].send(Message::Accepted(client.0, client.1)) {
                Some(Message::Accepted(socket, place)) => client = (socket, place),
                _ => return None,
            }
        }
    }
}

/// Loop that has no device yet.
#[derive(Debug)]
struct Seat {
    poll: Poll,
    waker: Arc<Waker>,
    lane: Lane,
}

/// Loops of a server before it starts. The device is opened in the lane of the first one, in which
/// its sessions may live.
#[derive(Debug)]
pub struct Loops(Vec<Seat>);

impl Loops {
    /// Prepares this number of loops, at least one.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn prepare(count: usize, io_uring: bool) -> io::Result<Self> {
        let seats = (0..count.max(1)).map(|_| {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
            let bell = Arc::clone(&waker);
            let wake: block::lane::Waker = Arc::new(move || drop(bell.wake()));
            let lane = if io_uring {
                Lane::new(wake)
            } else {
                Lane::without_io_uring(wake)
            };
            Ok(Seat { poll, waker, lane })
        });
        seats.collect::<io::Result<_>>().map(Self)
    }

    /// Returns the lane in which the device is opened.
    pub fn first_lane(&mut self) -> &mut Lane {
        &mut self.0[0].lane
    }
}

/// Running server.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    endpoints: Vec<Endpoint>,
}

impl Server {
    /// Offers `unit` from now on.
    ///
    /// # Errors
    /// It cannot listen, the certificates are of no use, or the system has no thread left.
    pub fn start(
        loops: Loops,
        unit: Arc<Unit>,
        options: &ServerOptions,
    ) -> Result<Self, StartError> {
        let tls = match &options.tls {
            Some(tls) => Some(load(tls).map_err(StartError::Tls)?),
            None => None,
        };
        let mut listeners = Vec::new();
        for endpoint in &options.endpoints {
            listeners.push(Listener::bind(endpoint).map_err(StartError::Listen)?);
        }
        let endpoints = listeners.iter().map(Listener::endpoint);
        let endpoints = endpoints.collect::<io::Result<_>>()?;
        let count = loops.0.len();
        let mut inboxes: Vec<Receiver<Message>> = Vec::new();
        let (mut doors, mut ways) = (Vec::new(), Vec::new());
        for seat in &loops.0 {
            let (sender, inbox) = channel();
            let waker = Arc::clone(&seat.waker);
            let door = Door { sender, waker };
            let own = door.clone();
            let way = unit
                .loops
                .join(move |call| drop(own.send(Message::Call(call))));
            ways.push(way.ok_or_else(too_many_loops)?);
            doors.push(door);
            inboxes.push(inbox);
        }
        let shared = Arc::new(Shared {
            doors,
            next: AtomicUsize::new(0),
            fence: Fence::new()?,
            tls_mode: match &options.tls {
                None => TlsMode::None,
                Some(tls) if tls.require => TlsMode::Require,
                Some(_) => TlsMode::Allow,
            },
            memory_per_loop: options.memory_cap / count as u64,
            max_connections: options.max_connections,
            clients: AtomicUsize::new(0),
        });
        let export = super::export(
            &unit.device.geometry(),
            &options.name,
            &options.description,
            options.read_only,
        );
        let mut server = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            endpoints,
        };
        let port = Arc::new(TargetPort {
            name: options.name.clone(),
            portal_group_tag: 0,
            relative_port_id: 0,
            target_port_group: 0,
        });
        for ((seat, inbox), way) in loops.0.into_iter().zip(inboxes).zip(ways) {
            let service = Service {
                unit: Arc::clone(&unit),
                port: Arc::clone(&port),
                export: export.clone(),
                executor: Executor::new(seat.lane, way),
                unfinished: Vec::new(),
                tls: tls.clone(),
                now: Instant::now(),
            };
            // The first loop gets all listeners.
            let listeners = std::mem::take(&mut listeners);
            let shared = Arc::clone(&shared);
            let started = EventLoop::new(service, shared, seat.poll, inbox, listeners).and_then(
                |mut event_loop| {
                    std::thread::Builder::new()
                        .name("nbd".into())
                        .spawn(move || event_loop.run())
                },
            );
            match started {
                Ok(thread) => server.threads.push(thread),
                Err(error) => {
                    server.stop();
                    return Err(error.into());
                }
            }
        }
        Ok(server)
    }

    /// Returns the listening addresses, with the ports that were chosen.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Stops the server: no client is accepted, the socket files are removed, and every received
    /// request is answered. The first loop ends last, because the device's sessions live in its
    /// lane.
    pub fn stop(self) {
        let deadline = Instant::now() + END;
        for door in &self.shared.doors {
            door.send(Message::Stop(deadline));
        }
        let mut threads = self.threads.into_iter();
        let first = threads.next();
        for door in self.shared.doors.iter().skip(1) {
            door.send(Message::Exit);
        }
        threads.for_each(join);
        if let Some(door) = self.shared.doors.first() {
            door.send(Message::Exit);
        }
        first.into_iter().for_each(join);
    }
}

fn too_many_loops() -> io::Error {
    io::Error::other("no more event loops can serve the logical unit: choose fewer threads")
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread panicked");
    }
}
