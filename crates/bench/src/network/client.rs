//! Measures one direction of a path, against an iperf3 server or Sandstone's own.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::{ANSWER_LIMIT, Control};
use super::error::NetworkError;
use super::message::{Cookie, DEFAULT_BLOCK, EndState, TestParameters, TestResults};
use super::socket::Dial;
use super::stream::{self, Stream, Work};
use crate::machine::cpu_time;
use model::initiator::settings::Bind;
use net::tcp_info::TcpInfo;

/// Direction in which data flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Data flows from this machine to the other end.
    Send,
    /// Data flows from the other end to this machine.
    Receive,
}

/// Settings of a test.
#[derive(Clone, Debug)]
pub struct TestSettings {
    /// Address of the other end.
    pub server: SocketAddr,
    /// Source address or interface.
    pub bind: Option<Bind>,
    /// Number of connections at the same time.
    pub parallel: u32,
    /// Duration in seconds.
    pub seconds: u32,
    /// Size of socket buffers in bytes; `None` leaves it to the kernel.
    pub window: Option<u32>,
}

impl TestSettings {
    fn dial(&self) -> Dial {
        Dial {
            bind: self.bind.clone(),
            window: self.window,
        }
    }
}

/// One second of a test; the last may be shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// End of the interval, in seconds since the test began.
    pub at_s: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Segments retransmitted, of all streams; `None` at the receiving end.
    pub retransmits: Option<u64>,
    /// Smoothed round trip at the end of the interval, the streams' mean, in microseconds; `None`
    /// at the receiving end.
    pub rtt_us: Option<f64>,
}

impl Interval {
    /// Returns the bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// Data that one direction carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Direction of the data.
    pub direction: Direction,
    /// Number of connections.
    pub parallel: u32,
    /// Duration in seconds.
    pub seconds: f64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Intervals of a second.
    pub intervals: Vec<Interval>,
    /// Segments retransmitted by the sending end; `None` if that end does not know.
    pub retransmits: Option<u64>,
    /// TCP's facts about the first connection.
    pub tcp: Tcp,
    /// Processor time of the other end, in percent of one core.
    pub other_end_cpu_percent: f64,
}

/// TCP's facts about a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// Bytes of payload in a full segment, as announced by this end.
    pub advertised_mss: u32,
    /// Whether segments carry time stamps, which take 12 bytes.
    pub timestamps: bool,
    /// Path MTU, as assumed by the kernel.
    pub path_mtu: u32,
    /// Smallest round trip in microseconds; 0 if the kernel does not know.
    pub min_rtt_us: u32,
}

impl From<TcpInfo> for Tcp {
    fn from(info: TcpInfo) -> Self {
        Self {
            mss: info.snd_mss,
            advertised_mss: info.advmss,
            timestamps: info.timestamps,
            path_mtu: info.pmtu,
            min_rtt_us: info.min_rtt_us,
        }
    }
}

impl Throughput {
    /// Returns the bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// Control connection that the other end has answered.
#[derive(Debug)]
pub struct Opened {
    pub(super) control: Control,
    pub(super) cookie: Cookie,
    /// Answer of the other end: a test may begin, or bytes come back.
    pub(super) state: EndState,
    /// Time from the cookie to the answer: the other end's program and the path.
    pub answer: Duration,
}

/// Time for which to try again while the other end is busy. An iperf3 server needs a moment between
/// two tests.
const BUSY_LIMIT: Duration = Duration::from_secs(2);

/// Connects, and waits for the other end's answer. A cookie that begins with `prefix` says what the
/// client wants.
///
/// # Errors
/// The other end does not listen, or does not speak the protocol.
pub fn open(settings: &TestSettings, prefix: &[u8]) -> Result<Opened, NetworkError> {
    open_while(settings, prefix, |error| {
        matches!(error, NetworkError::Busy)
    })
}

/// Connects like [`open`], for a test that follows another. iperf3 closes its listener between two
/// tests. So nobody listens for a moment, and a client that connected just before is sent away.
///
/// # Errors
/// As for [`open`].
pub fn open_next(settings: &TestSettings) -> Result<Opened, NetworkError> {
    open_while(settings, b"", |error| match error {
        NetworkError::Busy => true,
        NetworkError::Socket { source, .. } => matches!(
            source.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        ),
        _ => false,
    })
}

fn open_while(
    settings: &TestSettings,
    prefix: &[u8],
    may_pass: impl Fn(&NetworkError) -> bool,
) -> Result<Opened, NetworkError> {
    let end = Instant::now() + BUSY_LIMIT;
    loop {
        match open_once(settings, prefix) {
            Err(error) if may_pass(&error) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
}

fn open_once(settings: &TestSettings, prefix: &[u8]) -> Result<Opened, NetworkError> {
    let server = settings.server;
    let stream = Dial {
        window: None,
        ..settings.dial()
    }
    .connect(server)
    .map_err(NetworkError::socket(format!("connect to {server}")))?;
    let mut control = Control::new(stream).map_err(NetworkError::socket("set up a socket"))?;
    let cookie = Cookie::new(prefix).map_err(NetworkError::socket("get random numbers"))?;
    let asked = Instant::now();
    control.send_cookie(&cookie)?;
    let state = control.state(ANSWER_LIMIT)?;
    let answer = asked.elapsed();
    match state {
        EndState::ParamExchange => {}
        EndState::Echo if cookie.wants_echo() => {}
        state => {
            return Err(NetworkError::Protocol(format!(
                "it began with state {state:?}"
            )));
        }
    }
    Ok(Opened {
        control,
        cookie,
        state,
        answer,
    })
}

/// Measures one direction. `watch` is called for each second; `stop` ends the test.
///
/// # Errors
/// The other end refuses, ends or breaks the test, or a socket fails.
pub fn measure(
    opened: Opened,
    settings: &TestSettings,
    direction: Direction,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Interval),
) -> Result<Throughput, NetworkError> {
    let Opened {
        mut control,
        cookie,
        ..
    } = opened;
    control.send_json(&TestParameters {
        tcp: true,
        time: settings.seconds,
        parallel: settings.parallel,
        reverse: direction == Direction::Receive,
        window: settings.window.unwrap_or(0),
        len: DEFAULT_BLOCK,
        pacing_timer: 1000,
        client_version: concat!("sandstone ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..TestParameters::default()
    })?;
    control.expect(EndState::CreateStreams)?;
    let streams = connect(settings, direction, &cookie)?;
    control.expect(EndState::TestStart)?;
    control.expect(EndState::TestRunning)?;
    let cpu = cpu_time();
    let began = Instant::now();
    let mut observed = Observed::new(&streams, direction, began);
    let ended = stream::run(&streams, Work::default(), || {
        let end = began + Duration::from_secs(u64::from(settings.seconds));
        let ended = observed.until(end, &mut control, stop, watch);
        // This is the last look before the streams are stopped and the rest of their data arrives.
        observed.look(watch);
        ended
    });
    ended?;
    let (elapsed, tcp) = (observed.seconds(), TcpInfo::of(&streams[0].socket));
    control.send_state(EndState::TestEnd)?;
    let mine = stream::results(&streams, cpu, Duration::from_secs_f64(elapsed));
    let theirs = exchange(&mut control, &mine)?;
    if stop.load(Ordering::Relaxed) {
        return Err(NetworkError::Interrupted);
    }
    Ok(Throughput {
        direction,
        parallel: settings.parallel,
        seconds: elapsed,
        bytes: observed.bytes,
        intervals: observed.intervals,
        retransmits: match direction {
            Direction::Send => retransmits(&mine),
            Direction::Receive => retransmits(&theirs),
        },
        tcp: tcp.unwrap_or_default().into(),
        other_end_cpu_percent: theirs.cpu_util_total,
    })
}

fn connect(
    settings: &TestSettings,
    direction: Direction,
    cookie: &Cookie,
) -> Result<Vec<Stream>, NetworkError> {
    let dial = settings.dial();
    let one = |_| {
        let socket = dial
            .connect(settings.server)
            .map_err(NetworkError::socket("open a data connection"))?;
        std::io::Write::write_all(&mut &socket, &cookie.0)
            .map_err(NetworkError::socket("open a data connection"))?;
        Stream::new(socket, direction == Direction::Send)
            .map_err(NetworkError::socket("set up a socket"))
    };
    (0..settings.parallel.max(1)).map(one).collect()
}

/// Exchanges the counts of both ends after the test.
fn exchange(control: &mut Control, mine: &TestResults) -> Result<TestResults, NetworkError> {
    control.expect(EndState::ExchangeResults)?;
    control.send_json(mine)?;
    let theirs = control.json()?;
    control.expect(EndState::DisplayResults)?;
    control.send_state(EndState::IperfDone)?;
    Ok(theirs)
}

fn retransmits(results: &TestResults) -> Option<u64> {
    let counts = results.streams.iter().map(|stream| stream.retransmits);
    counts
        .map(|count| u64::try_from(count).ok())
        .try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)))
        .filter(|_| results.sender_has_retransmits >= 0)
}

/// Observed state of running streams.
struct Observed<'a> {
    streams: &'a [Stream],
    direction: Direction,
    began: Instant,
    last: Instant,
    bytes: u64,
    retransmits: u64,
    intervals: Vec<Interval>,
}

impl<'a> Observed<'a> {
    fn new(streams: &'a [Stream], direction: Direction, began: Instant) -> Self {
        Self {
            streams,
            direction,
            began,
            last: began,
            bytes: 0,
            retransmits: 0,
            intervals: Vec::new(),
        }
    }

    fn seconds(&self) -> f64 {
        (self.last - self.began).as_secs_f64()
    }

    fn until(
        &mut self,
        end: Instant,
        control: &mut Control,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&Interval),
    ) -> Result<(), NetworkError> {
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            if let Some(state) = control.state_if_any()? {
                return Err(NetworkError::Protocol(format!(
                    "it sent {state:?} during the test"
                )));
            }
            if self.last.elapsed() >= Duration::from_secs(1) {
                self.look(watch);
            }
        }
        Ok(())
    }

    fn look(&mut self, watch: &mut dyn FnMut(&Interval)) {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f64();
        let bytes: u64 = self.streams.iter().map(Stream::bytes).sum();
        let infos = self
            .streams
            .iter()
            .filter_map(|stream| TcpInfo::of(&stream.socket).ok());
        let infos: Vec<TcpInfo> = infos.collect();
        let retransmits = infos.iter().map(|info| u64::from(info.total_retrans)).sum();
        let rtt: f64 = infos.iter().map(|info| f64::from(info.rtt_us)).sum();
        let sends = self.direction == Direction::Send && !infos.is_empty();
        let interval = Interval {
            at_s: (now - self.began).as_secs_f64(),
            seconds,
            bytes: bytes.saturating_sub(self.bytes),
            retransmits: sends.then(|| retransmits - self.retransmits.min(retransmits)),
            rtt_us: sends.then(|| rtt / infos.len() as f64),
        };
        (self.last, self.bytes, self.retransmits) = (now, bytes, retransmits);
        // A remainder after the last whole second is too short to mean anything.
        if seconds >= 0.1 || self.intervals.is_empty() {
            watch(&interval);
            self.intervals.push(interval);
        }
    }
}
