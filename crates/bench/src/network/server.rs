//! A server of iperf3's protocol over TCP. `iperf3 -c` measures against it, and so does Sandstone's
//! client.
//!
//! As with iperf3, one test runs at a time, and other clients are told that the server is busy.
//! Everything that a client can make grow is bounded: connections that have not identified
//! themselves, streams, JSON, times.

use std::io::{self, Read as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::control::{ANSWER_LIMIT, Control};
use super::echo;
use super::error::NetworkError;
use super::message::{COOKIE_LEN, Cookie, EndState, MAX_PARALLEL, TestParameters, TestResults};
use super::socket::set_window;
use super::stream::{self, Stream, Work};
use crate::machine::cpu_time;

/// Most connections served at once; further ones are closed. A test has up to 256, and its control
/// connection.
const MAX_CONNECTIONS: usize = 512;
/// Most clients whose bytes are sent back at one time.
const MAX_ECHOES: usize = 16;
/// Time in which a connection must send its cookie.
const COOKIE_LIMIT: Duration = Duration::from_secs(5);
/// Time by which a test may exceed its agreed duration.
const GRACE: Duration = Duration::from_secs(30);
/// Interval at which waiting threads check whether the server ends.
const TURN: Duration = Duration::from_millis(200);

/// Record of a test, for the log of the server's user.
#[derive(Clone, Debug)]
pub struct Served {
    /// The client.
    pub client: SocketAddr,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address is taken, or does not belong to this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// The system does not tell the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`; `report` is called for each test.
    ///
    /// # Errors
    /// Connections can no longer be accepted.
    pub fn run(
        &self,
        stop: &AtomicBool,
        report: &(dyn Fn(Result<Served, NetworkError>) + Sync),
    ) -> io::Result<()> {
        let desk = Desk {
            test: Mutex::new(None),
            connections: AtomicUsize::new(0),
            echoes: AtomicUsize::new(0),
            stop,
            report,
        };
        thread::scope(|scope| {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                match self.listener.accept() {
                    Ok((stream, client)) => {
                        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                        number += 1;
                        let Some(place) = Place::take(&desk.connections, MAX_CONNECTIONS) else {
                            continue; // dropped, which closes it
                        };
                        let desk = &desk;
                        let serve = move || desk.serve(stream, client, number, place);
                        thread::Builder::new().spawn_scoped(scope, serve)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                    // The client is gone already, or descriptors are short for a moment.
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            }
            Ok(())
        })
    }

    fn wait(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: TURN.as_nanos() as _,
        };
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// One of a bounded number of places, freed on drop.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(taken: &'a AtomicUsize, most: usize) -> Option<Self> {
        let place = Self(taken);
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// State of the test under way: its cookie, and the channel for its data connections.
struct Current {
    cookie: Cookie,
    streams: Sender<(u64, TcpStream)>,
}

struct Desk<'a> {
    test: Mutex<Option<Current>>,
    connections: AtomicUsize,
    echoes: AtomicUsize,
    stop: &'a AtomicBool,
    report: &'a (dyn Fn(Result<Served, NetworkError>) + Sync),
}

/// Guard that frees the desk when the test is over, however it ends.
struct Seat<'a, 'b>(&'a Desk<'b>);

impl Drop for Seat<'_, '_> {
    fn drop(&mut self) {
        *self.0.current() = None;
    }
}

impl Desk<'_> {
    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.test.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a new connection, the `number`-th: a stream of a test, or a client with a request.
    fn serve(&self, stream: TcpStream, client: SocketAddr, number: u64, _place: Place<'_>) {
        let Ok(cookie) = read_cookie(&stream) else {
            return;
        };
        if cookie.wants_echo() {
            if let (Some(_place), Ok(mut control)) =
                (Place::take(&self.echoes, MAX_ECHOES), Control::new(stream))
            {
                // If the client went away or was too slow, it is the client's loss.
                let _ = echo::serve(&mut control, &cookie, self.stop);
            }
            return;
        }
        let Ok(mut control) = Control::new(stream) else {
            return;
        };
        let streams = match self.seat(&cookie) {
            Seating::Stream(streams) => {
                if let Ok(stream) = control.stream().try_clone() {
                    // A test that ends at this moment wants no more streams.
                    let _ = streams.send((number, stream));
                }
                return;
            }
            Seating::Busy => {
                let _ = control.send_state(EndState::AccessDenied);
                return;
            }
            Seating::Test(streams) => streams,
        };
        let _seat = Seat(self);
        (self.report)(self.test(&mut control, client, &streams));
    }

    fn seat(&self, cookie: &Cookie) -> Seating {
        let mut current = self.current();
        match &*current {
            Some(test) if test.cookie == *cookie => Seating::Stream(test.streams.clone()),
            Some(_) => Seating::Busy,
            None => {
                let (streams, arrivals) = channel();
                *current = Some(Current {
                    cookie: *cookie,
                    streams,
                });
                Seating::Test(arrivals)
            }
        }
    }

    fn test(
        &self,
        control: &mut Control,
        client: SocketAddr,
        arrivals: &Receiver<(u64, TcpStream)>,
    ) -> Result<Served, NetworkError> {
        control.send_state(EndState::ParamExchange)?;
        let parameters: TestParameters = control.json()?;
        if let Err(refusal) = parameters.check() {
            let mut answer = vec![EndState::ServerError.byte()];
            answer.extend_from_slice(&refusal.number.to_be_bytes());
            answer.extend_from_slice(&[0; 4]);
            control.send(&answer)?;
            return Err(NetworkError::Protocol(format!(
                "{client} was refused: {}",
                refusal.reason
            )));
        }
        control.send_state(EndState::CreateStreams)?;
        let streams = self.gather(&parameters, arrivals)?;
        control.send_state(EndState::TestStart)?;
        control.send_state(EndState::TestRunning)?;
        let work = Work {
            block: parameters.len,
            bits_per_s: parameters.bandwidth,
        };
        let cpu = cpu_time();
        let began = Instant::now();
        stream::run(&streams, work, || self.until_end(control, &parameters))?;
        let elapsed = began.elapsed();
        let mine = stream::results(&streams, cpu, elapsed);
        for stream in streams.iter().filter(|stream| stream.sends) {
            // An iperf3 client may wait for the rest of a block. It says nothing until the rest has
            // arrived or cannot arrive any more. A client that has closed already does not wait.
            let _ = stream.socket.shutdown(Shutdown::Write);
        }
        control.send_state(EndState::ExchangeResults)?;
        let _theirs: TestResults = control.json()?;
        control.send_json(&mine)?;
        control.send_state(EndState::DisplayResults)?;
        // Nothing is lost if the client just closes.
        let _ = control.state(ANSWER_LIMIT);
        let moved = |sends: bool| {
            let side = streams.iter().filter(|stream| stream.sends == sends);
            side.map(Stream::moved).sum()
        };
        Ok(Served {
            client,
            received: moved(false),
            sent: moved(true),
            seconds: elapsed.as_secs_f64(),
        })
    }

    /// Collects the data connections in the order of arrival: first those on which the client
    /// sends.
    fn gather(
        &self,
        parameters: &TestParameters,
        arrivals: &Receiver<(u64, TcpStream)>,
    ) -> Result<Vec<Stream>, NetworkError> {
        let (receiving, sending) = match (parameters.bidirectional, parameters.reverse) {
            (true, _) => (parameters.parallel, parameters.parallel),
            (false, true) => (0, parameters.parallel),
            (false, false) => (parameters.parallel, 0),
        };
        let wanted = (receiving + sending).min(2 * MAX_PARALLEL) as usize;
        let end = Instant::now() + ANSWER_LIMIT;
        let mut arrived = Vec::with_capacity(wanted);
        while arrived.len() < wanted {
            if self.stop.load(Ordering::Relaxed) {
                return Err(NetworkError::Interrupted);
            }
            if let Ok(stream) = arrivals.recv_timeout(TURN) {
                arrived.push(stream);
            } else if Instant::now() >= end {
                return Err(NetworkError::Protocol(format!(
                    "only {} of {wanted} streams connected",
                    arrived.len()
                )));
            }
        }
        arrived.sort_by_key(|(number, _)| *number);
        let stream = |(index, (_, socket)): (usize, (u64, TcpStream))| {
            let options = SockRef::from(&socket);
            set_window(&options, parameters.window)?;
            options.set_tcp_nodelay(parameters.nodelay)?;
            Stream::new(socket, index >= receiving as usize)
        };
        arrived
            .into_iter()
            .enumerate()
            .map(stream)
            .collect::<io::Result<Vec<Stream>>>()
            .map_err(NetworkError::socket("set up a data connection"))
    }

    fn until_end(
        &self,
        control: &mut Control,
        parameters: &TestParameters,
    ) -> Result<(), NetworkError> {
        let agreed = match parameters.time {
            // The client ends after an amount, however long this takes.
            0 => super::message::MAX_TIME_S,
            time => time.saturating_add(parameters.omit),
        };
        let end = Instant::now() + Duration::from_secs(u64::from(agreed)) + GRACE;
        loop {
            match control.state_if_any()? {
                Some(EndState::TestEnd) => return Ok(()),
                Some(state) => {
                    return Err(NetworkError::Protocol(format!(
                        "it sent {state:?} during the test"
                    )));
                }
                None => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                control.send_state(EndState::ServerTerminate)?;
                return Err(NetworkError::Interrupted);
            }
            if Instant::now() >= end {
                control.send_state(EndState::ServerTerminate)?;
                return Err(NetworkError::Protocol(
                    "the client did not end its test".to_owned(),
                ));
            }
        }
    }
}

/// Role of a connection.
enum Seating {
    /// New test, which gets its streams through this channel.
    Test(Receiver<(u64, TcpStream)>),
    /// Stream of the test under way.
    Stream(Sender<(u64, TcpStream)>),
    /// Connection of a different test: the server is busy.
    Busy,
}

fn read_cookie(mut stream: &TcpStream) -> io::Result<Cookie> {
    stream.set_nonblocking(false)?;
    let end = Instant::now() + COOKIE_LIMIT;
    let mut cookie = [0; COOKIE_LEN];
    let mut filled = 0;
    while filled < COOKIE_LEN {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut cookie[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) => return Err(error),
        }
    }
    Ok(Cookie(cookie))
}

/// Server on a thread of its own, which ends on drop.
#[derive(Debug)]
pub struct Background {
    /// Listening address.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    /// Starts a server.
    ///
    /// # Errors
    /// The address is taken, or does not belong to this machine.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let server = Server::bind(address)?;
        let address = server.address()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::Builder::new().spawn(move || {
            // If the server cannot go on, its clients see that it is gone.
            let _ = server.run(&flag, &|_| {});
        })?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of a test's thread was printed where it happened.
            let _ = thread.join();
        }
    }
}
