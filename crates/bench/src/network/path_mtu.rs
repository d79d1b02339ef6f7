//! Finds out whether packets of the interface's size pass whole, and if not, which do.
//!
//! Datagrams that must not be fragmented are sent, and have to come back. A switch that drops a
//! packet as too large says nothing, so only a packet that comes back has passed. Packets come back
//! from Sandstone's own server ([`super::echo`]) or, as ICMP echo, from the kernel of any machine.

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use super::echo::{RoundTrips, never_fragment};
use super::error::is_timeout;
use super::message::Cookie;
use super::socket::bind;
use model::initiator::settings::Bind;

/// Smallest packet that is tried. IPv4 need carry only less, but no storage network is limited to
/// this.
const SMALLEST: u32 = 576;
/// Bytes for a VLAN tag that links carry beyond their MTU.
const VLAN_TAG: u32 = 4;
/// Number of lost tries after which a packet counts as lost.
const TRIES: u32 = 3;
/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_millis(250);

/// Way by which datagrams come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A program: Sandstone's own server.
    Udp,
    /// The other end's kernel.
    Icmp,
}

/// Packet sizes that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// MTU of the interface, which was tried.
    pub asked: u32,
    /// Largest packet that came back whole; `None` if not even a small one did.
    pub passes: Option<u32>,
    /// Way by which the size was found.
    pub method: Method,
}

impl PathMtu {
    /// Reports whether the largest packet of the interface passes whole.
    pub fn is_whole(&self) -> bool {
        self.passes == Some(self.asked)
    }
}

/// Finds the largest packet up to `mtu` that `passes`, by halving.
///
/// # Errors
/// Errors of `passes`.
pub fn largest(
    mtu: u32,
    mut passes: impl FnMut(u32) -> io::Result<bool>,
) -> io::Result<Option<u32>> {
    if passes(mtu)? {
        return Ok(Some(mtu));
    }
    if mtu <= SMALLEST || !passes(SMALLEST)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (SMALLEST, mtu);
    // The usual settings of networks are found at once; halving waits for each loss.
    for usual in [1500, 9000] {
        if usual <= good || usual >= bad {
            continue;
        }
        if !passes(usual)? {
            bad = usual;
            break;
        }
        // A few more bytes are the room for a VLAN tag, and of no use.
        if usual + VLAN_TAG + 1 >= bad || !passes(usual + VLAN_TAG + 1)? {
            return Ok(Some(usual));
        }
        good = usual + VLAN_TAG + 1;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(good))
}

/// Sender of packets that have to come back.
#[derive(Debug)]
pub struct Prober {
    socket: Socket,
    to: SocketAddr,
    method: Method,
    cookie: Option<Cookie>,
    sequence: u16,
    /// Whether received ICMP packets have their IP header before them.
    has_ip_header: bool,
    buffer: Vec<u8>,
}

impl Prober {
    /// Creates a prober against Sandstone's own server.
    ///
    /// # Errors
    /// The error comes from the system.
    pub fn udp((to, cookie): (SocketAddr, Cookie), from: Option<&Bind>) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
        bind(&socket, from)?;
        socket.connect(&to.into())?;
        Self::new(socket, to, Method::Udp, Some(cookie), false)
    }

    /// Creates a prober against the kernel of `host`. It needs CAP_NET_RAW, or a group in
    /// `net.ipv4.ping_group_range`.
    ///
    /// # Errors
    /// The error comes from the system, as "permission denied".
    pub fn icmp(host: IpAddr, from: Option<&Bind>) -> io::Result<Self> {
        let to = SocketAddr::new(host, 0);
        let (domain, protocol) = match host {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let (socket, raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
        };
        bind(&socket, from)?;
        socket.connect(&to.into())?;
        Self::new(socket, to, Method::Icmp, None, raw && host.is_ipv4())
    }

    fn new(
        socket: Socket,
        to: SocketAddr,
        method: Method,
        cookie: Option<Cookie>,
        has_ip_header: bool,
    ) -> io::Result<Self> {
        let socket = match method {
            Method::Udp => {
                let udp: UdpSocket = socket.into();
                never_fragment(&udp)?;
                udp.into()
            }
            Method::Icmp if to.is_ipv4() => {
                sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
                socket
            }
            Method::Icmp => {
                sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
                socket
            }
        };
        Ok(Self {
            socket,
            to,
            method,
            cookie,
            sequence: 0,
            has_ip_header,
            buffer: vec![0; 1 << 16],
        })
    }

    /// Finds the largest packet that passes, up to the interface's MTU.
    ///
    /// # Errors
    /// The error comes from the system.
    pub fn path_mtu(&mut self, mtu: u32) -> io::Result<PathMtu> {
        // No IP packet is larger than this, whatever the loopback's MTU is.
        let asked = mtu.min(65_535);
        let passes = largest(asked, |packet| self.passes(packet))?;
        Ok(PathMtu {
            asked,
            passes,
            method: self.method,
        })
    }

    /// Reports whether a packet of this size comes back.
    fn passes(&mut self, packet: u32) -> io::Result<bool> {
        for _ in 0..TRIES {
            if self.round_trip(packet)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Measures the round trips of up to `count` small packets.
    ///
    /// # Errors
    /// The error comes from the system.
    pub fn round_trips(&mut self, count: u32) -> io::Result<Option<RoundTrips>> {
        let mut times = Vec::new();
        for _ in 0..count {
            let Some(time) = self.round_trip(128)? else {
                break;
            };
            times.push(time);
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(RoundTrips::of(times))
    }

    /// Sends an IP packet of this size, and waits until it is back. Returns `None` if it does not
    /// come back.
    fn round_trip(&mut self, packet: u32) -> io::Result<Option<Duration>> {
        let ip = if self.to.is_ipv4() { 20 } else { 40 };
        self.sequence = self.sequence.wrapping_add(1);
        let message = self.message(packet.saturating_sub(ip) as usize);
        let sent = Instant::now();
        match self.socket.send(&message) {
            Ok(_) => {}
            // The packet is too large for this interface, or the route is gone, which is a loss
            // too.
            Err(error) if is_loss(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        loop {
            let left = PATIENCE.saturating_sub(sent.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match (&self.socket).read(&mut self.buffer) {
                Ok(len) if self.is_answer(len, &message) => return Ok(Some(sent.elapsed())),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Ok(None),
                // This is a late report about an earlier packet's refusal.
                Err(error) if is_loss(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the payload of an IP packet that carries `len` bytes.
    fn message(&self, len: usize) -> Vec<u8> {
        let [high, low] = self.sequence.to_be_bytes();
        match (&self.cookie, self.to) {
            (Some(cookie), _) => {
                // The kernel adds the UDP header, which has 8 bytes.
                let mut message = cookie.0.to_vec();
                message.extend([high, low]);
                message.resize(len.saturating_sub(8).max(message.len()), 0x5a);
                message
            }
            (None, to) => {
                let kind = if to.is_ipv4() { 8 } else { 128 };
                let id = (std::process::id() as u16).to_be_bytes();
                let mut message = vec![kind, 0, 0, 0, id[0], id[1], high, low];
                message.resize(len.max(8), 0x5a);
                if to.is_ipv4() {
                    let sum = internet_checksum(&message).to_be_bytes();
                    message[2..4].copy_from_slice(&sum);
                }
                message
            }
        }
    }

    /// Reports whether the `len` received bytes are the whole answer to `message`.
    fn is_answer(&self, len: usize, message: &[u8]) -> bool {
        let received = &self.buffer[..len];
        match self.method {
            Method::Udp => received == message,
            Method::Icmp => {
                let header = match received.first() {
                    Some(first) if self.has_ip_header => usize::from(first & 15) * 4,
                    _ => 0,
                };
                let kind = if self.to.is_ipv4() { 0 } else { 129 };
                received.get(header..).is_some_and(|icmp| {
                    // For unprivileged sockets the kernel chooses the identifier itself.
                    icmp.len() == message.len() && icmp[0] == kind && icmp[6..] == message[6..]
                })
            }
        }
    }
}

/// Reports whether a packet was lost before it left, or an earlier one was reported as lost.
fn is_loss(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EMSGSIZE
                | libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::ENOBUFS
        )
    )
}

/// Computes the checksum of RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_largest_packet_is_found(mtu in 576u32..65_536, limit in 0u32..70_000) {
            let mut asked = 0;
            let found = largest(mtu, |packet| {
                asked += 1;
                Ok(packet <= limit)
            });
            let usual = |limit| [1500, 9000].into_iter().find(|usual| (*usual..=usual + VLAN_TAG).contains(&limit));
            let expected = match limit.min(mtu) {
                all if all == mtu => Some(mtu),
                limit if limit >= SMALLEST => Some(usual(limit).unwrap_or(limit)),
                _ => None,
            };
            prop_assert_eq!(found.unwrap(), expected);
            prop_assert!(asked <= 22, "{} packets", asked);
        }
    }

    #[test]
    fn usual_sizes_are_found_at_once() {
        for (mtu, limit, most) in [(9000, 9000, 1), (9000, 1500, 4), (16_000, 9000, 6)] {
            let mut asked = 0;
            let found = largest(mtu, |packet| {
                asked += 1;
                Ok(packet <= limit)
            });
            assert_eq!(found.unwrap(), Some(limit));
            assert!(asked <= most, "{asked} for {limit} of {mtu}");
        }
    }

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(
            internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        assert_eq!(internet_checksum(&[0xff]), 0x00ff);
    }
}
