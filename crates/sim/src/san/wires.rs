//! Connections between hosts and the target. The host's end is a socket, which its adapter reads
//! and writes as it would a TCP connection; everything beyond is under the world's control.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::network::{ConnectionId, End};
use crate::random::Random;

/// Bytes on their way in one direction.
#[derive(Debug, Default)]
struct Pipe {
    pieces: VecDeque<Piece>,
    last_arrival: Duration,
}

#[derive(Debug)]
struct Piece {
    arrival: Duration,
    bytes: Vec<u8>,
    /// Whether the piece is beyond the part of the network that faults stop.
    is_past_faults: bool,
}

/// State of a connection at the host's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The connection is being made. The buffer of the host's socket is stuffed until then.
    Dialing,
    Open,
    /// The host or the network ended it. Remains may still arrive at the target.
    Over,
}

/// A connection.
#[derive(Debug)]
struct Wire {
    /// Number of the path through the network.
    path: usize,
    stage: Stage,
    /// World's end of the host's socket.
    near: Option<UnixStream>,
    to_target: Pipe,
    to_host: Pipe,
    /// Whether the target serves the connection and knows of no end.
    is_served: bool,
}

/// Treatment of bytes by the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Longest delay of a piece.
    pub(super) max_delay: Duration,
    /// Length of the longest piece.
    pub(super) max_piece: u64,
    /// Longest time after the end of a connection for which its remains may arrive.
    pub(super) late: Duration,
}

/// Output of a host's socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pulled {
    Nothing,
    /// The host sent bytes, which arrive at these times.
    Bytes(Vec<Duration>),
    /// The host closed the connection. Remains arrive at these times; the target is told of the
    /// end at the second time, if ever.
    Closed(Vec<Duration>, Option<Duration>),
}

/// Arrival that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Nothing arrives yet, or never.
    Nothing,
    Bytes(Vec<u8>),
}

/// All connections.
#[derive(Debug)]
pub(super) struct Wires {
    weather: Weather,
    wires: BTreeMap<ConnectionId, Wire>,
    made: usize,
}

impl Wires {
    pub(super) fn new(weather: Weather) -> Self {
        Self {
            weather,
            wires: BTreeMap::new(),
            made: 0,
        }
    }

    /// Returns the number of connections so far.
    pub(super) fn made(&self) -> usize {
        self.made
    }

    /// Adds a connection that a host begins to make over a path.
    pub(super) fn dial(&mut self, path: usize, near: UnixStream) -> ConnectionId {
        let id = ConnectionId(self.made);
        self.made += 1;
        self.wires.insert(
            id,
            Wire {
                path,
                stage: Stage::Dialing,
                near: Some(near),
                to_target: Pipe::default(),
                to_host: Pipe::default(),
                is_served: false,
            },
        );
        id
    }

    /// Returns the path of a connection that is not forgotten.
    pub(super) fn path(&self, id: ConnectionId) -> Option<usize> {
        self.wires.get(&id).map(|wire| wire.path)
    }

    /// Lists the connections of a path that the host has, or is making.
    pub(super) fn on_path(&self, path: usize) -> Vec<ConnectionId> {
        let wires = self.wires.iter();
        wires
            .filter(|(_, wire)| wire.path == path && wire.stage != Stage::Over)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Lists the connections that the target serves.
    pub(super) fn served(&self) -> Vec<ConnectionId> {
        let wires = self.wires.iter();
        wires
            .filter(|(_, wire)| wire.is_served)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Reports whether the target serves a connection.
    pub(super) fn is_served(&self, id: ConnectionId) -> bool {
        self.wires.get(&id).is_some_and(|wire| wire.is_served)
    }

    /// Reports whether a host still waits for a connection to be made.
    pub(super) fn is_dialing(&self, id: ConnectionId) -> bool {
        self.wires
            .get(&id)
            .is_some_and(|wire| wire.stage == Stage::Dialing)
    }

    /// Notes that the target accepted a connection.
    pub(super) fn accepted(&mut self, id: ConnectionId) {
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.is_served = true;
        }
    }

    /// Completes a connection: the host's socket becomes writable.
    pub(super) fn connected(&mut self, id: ConnectionId) {
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        if let (Stage::Dialing, Some(near)) = (wire.stage, &mut wire.near) {
            let mut stuffing = vec![0; 64 << 10];
            while near.read(&mut stuffing).is_ok_and(|count| count > 0) {}
            wire.stage = Stage::Open;
        }
    }

    /// Takes what a host sent, or its close.
    pub(super) fn pull(&mut self, id: ConnectionId, now: Duration, random: &mut Random) -> Pulled {
        let weather = self.weather;
        let Some(wire) = self.wires.get_mut(&id) else {
            return Pulled::Nothing;
        };
        let Some(near) = &mut wire.near else {
            return Pulled::Nothing;
        };
        if wire.stage == Stage::Dialing {
            if has_hung_up(near) {
                return self.end(id, now, random);
            }
            return Pulled::Nothing;
        }
        let mut sent = Vec::new();
        let mut buffer = [0; 16 << 10];
        let is_closed = loop {
            match near.read(&mut buffer) {
                Ok(0) => break true,
                Ok(count) => sent.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        let arrivals = wire.to_target.send(&sent, weather, now, random);
        match (is_closed, arrivals.is_empty()) {
            (true, _) => self.end(id, now, random),
            (false, true) => Pulled::Nothing,
            (false, false) => Pulled::Bytes(arrivals),
        }
    }

    /// Ends a connection at the host's end. Of what is under way to the target, all, a part or
    /// nothing still arrives.
    pub(super) fn end(&mut self, id: ConnectionId, now: Duration, random: &mut Random) -> Pulled {
        let late = self.weather.late;
        let Some(wire) = self.wires.get_mut(&id) else {
            return Pulled::Nothing;
        };
        if wire.stage == Stage::Over {
            return Pulled::Nothing;
        }
        wire.stage = Stage::Over;
        wire.near = None;
        wire.to_host.pieces.clear();
        let arrivals = wire.to_target.leave_remains(now, late, random);
        // A reset may overtake nothing, but it may be lost.
        let last = arrivals.last().copied().unwrap_or(now);
        let told = random
            .per_mille(500)
            .then(|| last + within(Duration::from_millis(200), random));
        Pulled::Closed(arrivals, told)
    }

    /// Sends bytes of the target to a host. Returns the times at which they arrive.
    pub(super) fn send_to_host(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        now: Duration,
        random: &mut Random,
    ) -> Vec<Duration> {
        let weather = self.weather;
        match self.wires.get_mut(&id) {
            Some(wire) if wire.stage == Stage::Open => {
                wire.to_host.send(bytes, weather, now, random)
            }
            _ => Vec::new(),
        }
    }

    /// Notes that the target ended a connection, and returns the time at which the host hears of it
    /// at the earliest.
    pub(super) fn target_closed(&mut self, id: ConnectionId, now: Duration) -> Option<Duration> {
        let wire = self.wires.get_mut(&id)?;
        wire.is_served = false;
        wire.to_target.pieces.clear();
        match wire.stage {
            Stage::Over => {
                self.wires.remove(&id);
                None
            }
            _ => Some(wire.to_host.last_arrival.max(now)),
        }
    }

    /// Ends a connection at the host's end because the target has ended it, or has refused it.
    pub(super) fn hang_up(&mut self, id: ConnectionId) {
        self.wires.remove(&id);
    }

    /// Takes what has arrived at an end. Until `open_at`, faults hold back what is not past them;
    /// the second value is then the time at which to look again.
    pub(super) fn arrive(
        &mut self,
        id: ConnectionId,
        end: End,
        now: Duration,
        open_at: Duration,
        random: &mut Random,
    ) -> (Arrived, Option<Duration>) {
        let Some(wire) = self.wires.get_mut(&id) else {
            return (Arrived::Nothing, None);
        };
        let pipe = match end {
            End::Target if wire.is_served => &mut wire.to_target,
            End::Initiator if wire.stage == Stage::Open => &mut wire.to_host,
            _ => return (Arrived::Nothing, None),
        };
        let mut bytes = Vec::new();
        while let Some(piece) = pipe.pieces.front_mut()
            && piece.arrival <= now
        {
            if open_at > now && !piece.is_past_faults {
                // TCP sends it again some time after the way is open.
                piece.arrival = open_at + within(Duration::from_millis(300), random);
                let again = piece.arrival;
                pipe.last_arrival = pipe.last_arrival.max(again);
                return (arrived(bytes), Some(again));
            }
            bytes.append(&mut piece.bytes);
            pipe.pieces.pop_front();
        }
        (arrived(bytes), None)
    }

    /// Gives bytes to a host's socket. Reports whether the host's end took them.
    pub(super) fn deliver(&mut self, id: ConnectionId, bytes: &[u8]) -> bool {
        let near = self.wires.get_mut(&id).and_then(|wire| wire.near.as_mut());
        // Answers of the few requests under way fit into the socket's buffer. A closed socket is
        // noticed when it is pulled.
        near.is_some_and(|near| near.write_all(bytes).is_ok())
    }
}

impl Pipe {
    fn send(
        &mut self,
        bytes: &[u8],
        weather: Weather,
        now: Duration,
        random: &mut Random,
    ) -> Vec<Duration> {
        let mut arrivals = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = random.within(1..weather.max_piece + 1);
            let (piece, tail) = rest.split_at((length as usize).min(rest.len()));
            rest = tail;
            let arrival = (now + within(weather.max_delay, random)).max(self.last_arrival);
            self.last_arrival = arrival;
            self.pieces.push_back(Piece {
                arrival,
                bytes: piece.to_vec(),
                is_past_faults: false,
            });
            arrivals.push(arrival);
        }
        arrivals.dedup();
        arrivals
    }

    /// Keeps what may arrive of a connection that has ended, and returns the times.
    fn leave_remains(
        &mut self,
        now: Duration,
        late: Duration,
        random: &mut Random,
    ) -> Vec<Duration> {
        let all: u64 = self
            .pieces
            .iter()
            .map(|piece| piece.bytes.len() as u64)
            .sum();
        let mut left = match random.within(0..4) {
            0 => 0,
            1 => random.within(0..all + 1),
            _ => all,
        };
        // Most remains come soon: before anybody has logged in again.
        let longest = late / random.one_of(&[1, 10, 100, 1000]);
        let until = now + within(longest, random);
        let mut arrivals = Vec::new();
        for piece in &mut self.pieces {
            piece.bytes.truncate(left as usize);
            left -= piece.bytes.len() as u64;
            // Remains keep their order, and come in one go or in several.
            piece.arrival = piece.arrival.clamp(now, until);
            if random.per_mille(500) {
                piece.arrival = until;
            }
            piece.arrival = piece.arrival.max(arrivals.last().copied().unwrap_or(now));
            piece.is_past_faults = true;
            arrivals.push(piece.arrival);
        }
        arrivals.dedup();
        arrivals
    }
}

fn arrived(bytes: Vec<u8>) -> Arrived {
    match bytes.is_empty() {
        true => Arrived::Nothing,
        false => Arrived::Bytes(bytes),
    }
}

/// Draws a time up to `longest`.
pub(super) fn within(longest: Duration, random: &mut Random) -> Duration {
    Duration::from_micros(random.within(0..longest.as_micros() as u64 + 1))
}

/// Makes the two ends of a connection that is being made. The buffer of the host's end is full, so
/// that the adapter takes it for what it is: not connected yet.
pub(super) fn dialed() -> std::io::Result<(UnixStream, UnixStream)> {
    let (mut theirs, near) = UnixStream::pair()?;
    theirs.set_nonblocking(true)?;
    near.set_nonblocking(true)?;
    let stuffing = vec![0; 64 << 10];
    while theirs.write(&stuffing).is_ok() {}
    Ok((theirs, near))
}

/// Reports whether the other end is closed, although bytes of it wait.
fn has_hung_up(near: &UnixStream) -> bool {
    let mut fds = [PollFd::new(near, PollFlags::RDHUP)];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && !fds[0].revents().is_empty()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;

    use super::*;

    const CALM: Weather = Weather {
        max_delay: Duration::from_millis(5),
        max_piece: 7,
        late: Duration::from_secs(10),
    };

    fn connected(wires: &mut Wires) -> (ConnectionId, TcpStream) {
        let (theirs, near) = dialed().expect("a pair");
        let id = wires.dial(0, near);
        let host = TcpStream::from(OwnedFd::from(theirs));
        assert!(
            (&host).write(&[1]).is_err(),
            "a connection that is being made takes nothing"
        );
        wires.accepted(id);
        wires.connected(id);
        (id, host)
    }

    #[test]
    fn remains_of_a_closed_connection_arrive_in_order_or_not_at_all() {
        let sent: Vec<u8> = (0..100).collect();
        let mut shares = [0; 3];
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let mut wires = Wires::new(CALM);
            let (id, mut host) = connected(&mut wires);
            host.write_all(&sent).expect("room");
            drop(host);
            let Pulled::Closed(arrivals, _) = wires.pull(id, Duration::ZERO, &mut random) else {
                panic!("it was closed");
            };
            let mut received = Vec::new();
            for now in arrivals {
                assert!(now <= CALM.late);
                let closed_way = Duration::MAX;
                let (arrived, again) = wires.arrive(id, End::Target, now, closed_way, &mut random);
                assert_eq!(again, None, "remains are past all faults");
                if let Arrived::Bytes(bytes) = arrived {
                    received.extend(bytes);
                }
            }
            assert_eq!(received, sent[..received.len()]);
            let share = match received.len() {
                0 => 0,
                100 => 2,
                _ => 1,
            };
            shares[share] += 1;
        }
        assert!(shares.iter().all(|count| *count > 5), "{shares:?}");
    }

    #[test]
    fn a_host_that_gives_up_while_it_connects_is_noticed() {
        let mut random = Random::new(1);
        let mut wires = Wires::new(CALM);
        let (theirs, near) = dialed().expect("a pair");
        let id = wires.dial(0, near);
        let pulled = wires.pull(id, Duration::ZERO, &mut random);
        assert_eq!(pulled, Pulled::Nothing);
        drop(theirs);
        let pulled = wires.pull(id, Duration::ZERO, &mut random);
        assert!(matches!(pulled, Pulled::Closed(..)), "{pulled:?}");
    }

    #[test]
    fn a_silent_way_delays_and_keeps_the_order() {
        let mut random = Random::new(1);
        let mut wires = Wires::new(CALM);
        let (id, mut host) = connected(&mut wires);
        host.write_all(&[1; 20]).expect("room");
        let now = Duration::from_millis(10);
        wires.pull(id, Duration::ZERO, &mut random);
        let open_at = Duration::from_secs(3);
        let (arrived, again) = wires.arrive(id, End::Target, now, open_at, &mut random);
        assert_eq!(arrived, Arrived::Nothing);
        let again = again.expect("it comes later");
        assert!(again >= open_at);
        let (arrived, _) = wires.arrive(id, End::Target, again, open_at, &mut random);
        assert_eq!(arrived, Arrived::Bytes(vec![1; 20]));
    }
}
