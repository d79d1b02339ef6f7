//! Survey of a path from end to end: round trips, packets that pass whole, and throughput both
//! ways.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::{self, Direction, Interval, Opened, TestSettings, Throughput};
use super::echo::{Echo, RoundTrips};
use super::error::NetworkError;
use super::interface::{Interface, source_address};
use super::message::{ECHO_PREFIX, EndState};
use super::path_mtu::{PathMtu, Prober};
use super::wire::Packing;
use model::initiator::settings::Bind;

const PING_PONGS: u32 = 20_000;
const PING_PONG_LIMIT: Duration = Duration::from_secs(1);
const ICMP_ECHOES: u32 = 50;

/// Program at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherEnd {
    /// A server of iperf3, or another program with its protocol.
    Iperf3,
    /// Sandstone's own server.
    Sandstone,
}

/// Measurements of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// Address of the other end.
    pub server: SocketAddr,
    /// Program at the other end.
    pub other_end: OtherEnd,
    /// Source address; `None` if the kernel does not tell.
    pub source: Option<IpAddr>,
    /// Interface of the path; `None` if the kernel does not tell.
    pub interface: Option<Interface>,
    /// Time from the first byte of a connection to the answer of the other end's program, in
    /// nanoseconds.
    pub first_answer_ns: u64,
    /// Round trips through both programs over TCP. Only Sandstone's own server sends messages back.
    pub program: Option<RoundTrips>,
    /// Round trips through the other end's kernel (ICMP echo); `None` if this is not allowed or not
    /// answered.
    pub kernel: Option<RoundTrips>,
    /// Packets that pass whole; `None` if nobody sends datagrams back.
    pub path_mtu: Option<PathMtu>,
    /// Reason why `path_mtu` was not found out.
    pub path_mtu_missing: Option<String>,
    /// Each direction that was measured.
    pub throughput: Vec<Throughput>,
}

/// Verdict on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether the user should correct something.
    pub is_wrong: bool,
    /// Verdict in words.
    pub text: String,
}

/// Event of a survey, for an observer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// The survey measures round trips.
    RoundTrips,
    /// The survey sends datagrams.
    PathMtu,
    /// A direction begins.
    Begin(Direction),
    /// A second of a direction is over.
    Second(Direction, &'a Interval),
}

/// Surveys a path, in these directions one after the other.
///
/// # Errors
/// The other end does not listen, or refuses or breaks a test.
pub fn survey(
    settings: &TestSettings,
    directions: &[Direction],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Step<'_>),
) -> Result<Survey, NetworkError> {
    let server = settings.server;
    let source = match &settings.bind {
        Some(Bind::Address(address)) => Some(*address),
        _ => source_address(server).ok(),
    };
    let interface = match &settings.bind {
        Some(Bind::Interface(name)) => Interface::named(name),
        _ => source.and_then(Interface::with_address),
    };
    let opened = client::open(settings, ECHO_PREFIX)?;
    let mut survey = Survey {
        server,
        other_end: OtherEnd::Iperf3,
        source,
        interface,
        first_answer_ns: u64::try_from(opened.answer.as_nanos()).unwrap_or(u64::MAX),
        program: None,
        kernel: None,
        path_mtu: None,
        path_mtu_missing: None,
        throughput: Vec::new(),
    };
    // An iperf3 server took the connection for a test, so the test may as well begin with it.
    let mut waiting = survey.echo(opened, settings, stop, watch)?;
    for direction in directions {
        let opened = match waiting.take() {
            Some(opened) => opened,
            None => client::open_next(settings)?,
        };
        watch(Step::Begin(*direction));
        let mut each = |interval: &Interval| watch(Step::Second(*direction, interval));
        let measured = client::measure(opened, settings, *direction, stop, &mut each)?;
        survey.throughput.push(measured);
    }
    if let Some(mut opened) = waiting {
        // Nothing was to be measured with this connection.
        opened.control.send_state(EndState::ClientTerminate)?;
    }
    Ok(survey)
}

impl Survey {
    /// Returns the bytes per second that the path carried in a direction; `None` if they were not
    /// measured.
    pub fn carried(&self, direction: Direction) -> Option<f64> {
        let mut measured = self.throughput.iter();
        let one = measured.find(|one| one.direction == direction)?;
        Some(one.bytes_per_s()).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// Measures round trips and datagrams.
    fn echo(
        &mut self,
        opened: Opened,
        settings: &TestSettings,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(Step<'_>),
    ) -> Result<Option<Opened>, NetworkError> {
        watch(Step::RoundTrips);
        let (mut echo, waiting) = match Echo::new(opened, settings.server)? {
            Ok(echo) => (Some(echo), None),
            Err(opened) => (None, Some(opened)),
        };
        if let Some(echo) = &mut echo {
            self.other_end = OtherEnd::Sandstone;
            self.program = echo.ping_pong(PING_PONGS, PING_PONG_LIMIT, stop)?;
        }
        let mut icmp = Prober::icmp(settings.server.ip(), settings.bind.as_ref());
        if let Ok(prober) = &mut icmp {
            self.kernel = prober.round_trips(ICMP_ECHOES).unwrap_or(None);
        }
        watch(Step::PathMtu);
        let Some(mtu) = self.interface.as_ref().map(|interface| interface.mtu) else {
            self.path_mtu_missing = Some("the interface is not known".to_owned());
            return Ok(waiting);
        };
        let mut udp = echo
            .as_ref()
            .map(|echo| Prober::udp(echo.datagrams(), settings.bind.as_ref()));
        let probers = udp.iter_mut().chain([&mut icmp]);
        let mut reason = None;
        for prober in probers {
            let found = match prober {
                Ok(prober) => prober.path_mtu(mtu),
                Err(error) => Err(std::io::Error::new(error.kind(), error.to_string())),
            };
            match found {
                Ok(found) if found.passes.is_some() => {
                    self.path_mtu = Some(found);
                    return Ok(waiting);
                }
                Ok(_) => reason = Some("no datagram came back".to_owned()),
                Err(error) => reason = Some(format!("ICMP echo: {error}")),
            }
        }
        self.path_mtu_missing = reason;
        Ok(waiting)
    }

    /// Returns the capacity of the wire in bytes of payload per second; `None` if its speed is not
    /// known.
    pub fn wire_bytes_per_s(&self) -> Option<f64> {
        let interface = self.interface.as_ref()?;
        let bits = interface.bits_per_s? as f64;
        Some(self.packing(interface.mtu).bytes_per_s(bits))
    }

    fn packing(&self, mtu: u32) -> Packing {
        let passes = self.path_mtu.and_then(|found| found.passes);
        let timestamps = self.throughput.first().is_none_or(|one| one.tcp.timestamps);
        Packing {
            mtu: passes.unwrap_or(mtu),
            ipv6: self.server.is_ipv6(),
            timestamps,
        }
    }

    /// Returns the findings that a user should know.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.jumbo();
        findings.extend(self.segments());
        findings.extend(self.share());
        findings.extend(self.losses());
        findings
    }

    fn jumbo(&self) -> Vec<Finding> {
        let say = |is_wrong, text| vec![Finding { is_wrong, text }];
        let Some(found) = self.path_mtu else {
            let why = self.path_mtu_missing.as_deref().unwrap_or("no reason");
            return say(
                false,
                format!("not known whether packets of the MTU pass whole: {why}"),
            );
        };
        let asked = found.asked;
        match found.passes {
            Some(passes) if passes == asked && asked > 1500 => say(
                false,
                format!("jumbo frames pass whole, both ways: {asked}"),
            ),
            Some(passes) if passes == asked => {
                say(false, format!("packets of the MTU pass whole: {asked}"))
            }
            Some(passes) => say(
                true,
                format!(
                    "an MTU of {asked} is set on this end, but only {passes} bytes pass: set the MTU of \
                     every switch port and of the other end to {asked}, or this end's to {passes}"
                ),
            ),
            None => Vec::new(),
        }
    }

    /// Derives a finding about the other end's MTU from its segment size.
    fn segments(&self) -> Option<Finding> {
        let tcp = self.throughput.first()?.tcp;
        let mtu = self.interface.as_ref()?.mtu.min(65_535);
        let header = if self.server.is_ipv6() { 60 } else { 40 };
        let stamp = if tcp.timestamps { 12 } else { 0 };
        let theirs = tcp.mss + stamp + header;
        let smaller = tcp.mss > 0 && theirs + 100 < mtu;
        smaller.then(|| Finding {
            is_wrong: true,
            text: format!(
                "TCP sends segments for an MTU of {theirs}, and this end has an MTU of {mtu}: the other end \
                 has a smaller MTU, or a device on the way reported one"
            ),
        })
    }

    fn share(&self) -> Vec<Finding> {
        let share = |one: &Throughput| {
            let wire = self.wire_bytes_per_s()?;
            let share = one.bytes_per_s() / wire;
            let way = match one.direction {
                Direction::Send => "to the other end",
                Direction::Receive => "from the other end",
            };
            Some(Finding {
                is_wrong: share < 0.9,
                text: format!(
                    "{:.0} MB/s {way} is {:.0} % of what this wire carries ({:.0} MB/s after the headers of Ethernet, \
                     IP and TCP)",
                    one.bytes_per_s() / 1e6,
                    share * 100.0,
                    wire / 1e6
                ),
            })
        };
        self.throughput.iter().filter_map(share).collect()
    }

    fn losses(&self) -> Option<Finding> {
        let lost: u64 = self
            .throughput
            .iter()
            .filter_map(|one| one.retransmits)
            .sum();
        let bytes: u64 = self.throughput.iter().map(|one| one.bytes).sum();
        let mss = self.throughput.first()?.tcp.mss.max(1);
        let share = lost as f64 / (bytes as f64 / f64::from(mss)).max(1.0);
        // Filling a buffer to the brim loses a few segments. A greater loss is a fault of cable,
        // port or switch.
        (share > 0.001).then(|| Finding {
            is_wrong: true,
            text: format!(
                "{lost} segments were sent again ({:.2} %): check cable, port and flow control for errors",
                share * 100.0
            ),
        })
    }
}
