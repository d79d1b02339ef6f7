//! Round trips through both programs, and datagrams that come back whole. Both need Sandstone at
//! each end: a server of iperf3 sends nothing back.
//!
//! The client's cookie begins with [`super::message::ECHO_PREFIX`]. The server answers with state
//! `Echo` and the number of a UDP port (two bytes, network order). From then on each byte of the
//! connection comes back. A datagram to that port comes back if it begins with the cookie and comes
//! from the client's address. So nobody can make the server answer a third party, or send more than
//! it received.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::client::Opened;
use super::control::{ANSWER_LIMIT, Control};
use super::error::{NetworkError, is_timeout};
use super::message::{COOKIE_LEN, Cookie, EndState};

/// Bytes of a message that goes to and fro: as small as an iSCSI header.
const MESSAGE: usize = 48;
/// Longest time for which the server serves a client.
const SESSION_LIMIT: Duration = Duration::from_secs(120);
/// Largest UDP payload.
const MAX_DATAGRAM: usize = 65_507;

/// Times from question to answer, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Number of round trips.
    pub count: u32,
    /// Shortest time.
    pub min_ns: u64,
    /// Time that half of the round trips did not exceed.
    pub median_ns: u64,
    /// Time that 99 % of the round trips did not exceed.
    pub p99_ns: u64,
    /// Longest time.
    pub max_ns: u64,
}

impl RoundTrips {
    /// Evaluates these times; `None` if there are none.
    pub fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let ns = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // This is the smallest time that at least this share does not exceed.
        let share = |percent: usize| ns(&times[(times.len() * percent).div_ceil(100).max(1) - 1]);
        Some(Self {
            count: u32::try_from(times.len()).unwrap_or(u32::MAX),
            min_ns: times.first().map(ns)?,
            median_ns: share(50),
            p99_ns: share(99),
            max_ns: times.last().map(ns)?,
        })
    }
}

/// The client's side of a connection whose bytes come back.
#[derive(Debug)]
pub struct Echo {
    control: Control,
    cookie: Cookie,
    /// Address that sends datagrams back.
    udp: SocketAddr,
}

impl Echo {
    /// Uses a connection that was opened with [`super::message::ECHO_PREFIX`]. Returns the
    /// connection if the other end took it for a test.
    ///
    /// # Errors
    /// The other end names no port.
    pub fn new(opened: Opened, server: SocketAddr) -> Result<Result<Self, Opened>, NetworkError> {
        if opened.state != EndState::Echo {
            return Ok(Err(opened));
        }
        let Opened {
            mut control,
            cookie,
            ..
        } = opened;
        let mut port = [0; 2];
        control
            .read(&mut port, ANSWER_LIMIT)
            .map_err(NetworkError::socket("receive from the other end"))?;
        Ok(Ok(Self {
            control,
            cookie,
            udp: SocketAddr::new(server.ip(), u16::from_be_bytes(port)),
        }))
    }

    /// Returns the address that sends datagrams back, and the bytes with which they must begin.
    pub fn datagrams(&self) -> (SocketAddr, Cookie) {
        (self.udp, self.cookie)
    }

    /// Sends one message after the other to and fro, until `limit` or `most` of them.
    ///
    /// # Errors
    /// The connection fails, or different bytes come back.
    pub fn ping_pong(
        &mut self,
        most: u32,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<RoundTrips>, NetworkError> {
        let end = Instant::now() + limit;
        let mut times = Vec::with_capacity(most as usize);
        for number in 0..most {
            let mut message = [0; MESSAGE];
            message[..4].copy_from_slice(&number.to_be_bytes());
            let mut back = [0; MESSAGE];
            let sent = Instant::now();
            self.control.send(&message)?;
            self.control
                .read(&mut back, ANSWER_LIMIT)
                .map_err(NetworkError::socket("receive the echo of a message"))?;
            times.push(sent.elapsed());
            if back != message {
                return Err(NetworkError::Protocol(
                    "it echoed a different message".to_owned(),
                ));
            }
            if Instant::now() >= end || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(RoundTrips::of(times))
    }
}

/// Serves a client: sends its bytes back until it goes or its time is over.
pub(super) fn serve(control: &mut Control, cookie: &Cookie, stop: &AtomicBool) -> io::Result<()> {
    // An IPv4 address is used as plain IPv4: an IPv6 socket would not know IPv4's flag against
    // fragmenting.
    let here = control.local_address()?.ip().to_canonical();
    let peer = control.stream().peer_addr()?.ip().to_canonical();
    let udp = UdpSocket::bind((here, 0))?;
    never_fragment(&udp)?;
    let [high, low] = udp.local_addr()?.port().to_be_bytes();
    let mut stream = control.stream();
    stream.write_all(&[EndState::Echo.byte(), high, low])?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| reflect(&udp, peer, cookie, &over));
        let result = send_back(stream, stop);
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn send_back(mut stream: &std::net::TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let end = Instant::now() + SESSION_LIMIT;
    let mut buffer = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        match io::Read::read(&mut stream, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => stream.write_all(&buffer[..count])?,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn reflect(udp: &UdpSocket, peer: IpAddr, cookie: &Cookie, over: &AtomicBool) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    if udp
        .set_read_timeout(Some(Duration::from_millis(200)))
        .is_err()
    {
        return;
    }
    while !over.load(Ordering::Relaxed) {
        let Ok((len, from)) = udp.recv_from(&mut buffer) else {
            continue;
        };
        if from.ip() == peer && len >= COOKIE_LEN && buffer[..COOKIE_LEN] == cookie.0 {
            // A datagram that is lost, or too large for this side's link, does not come back, and
            // the client sees this.
            let _ = udp.send_to(&buffer[..len], from);
        }
    }
}

/// Makes datagrams leave whole or not at all, whatever the kernel assumes about the path.
pub(super) fn never_fragment(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => {
            sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
        }
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_summed_up() {
        let times = (1..=200).rev().map(Duration::from_nanos).collect();
        let expected = RoundTrips {
            count: 200,
            min_ns: 1,
            median_ns: 100,
            p99_ns: 198,
            max_ns: 200,
        };
        assert_eq!(RoundTrips::of(times), Some(expected));
        assert_eq!(RoundTrips::of(Vec::new()), None);
        let one = RoundTrips::of(vec![Duration::from_nanos(7)]).unwrap();
        assert_eq!((one.min_ns, one.median_ns, one.p99_ns), (7, 7, 7));
    }
}
