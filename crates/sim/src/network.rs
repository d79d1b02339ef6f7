//! TCP connections as the protocol sees them: bytes in order, cut anywhere, and late. Connections
//! may break, or go silent without notice.

use std::collections::VecDeque;
use std::time::Duration;

use crate::random::Random;

/// Number of a connection, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that connected.
    Initiator,
    /// The end that listens.
    Target,
}

/// Weather: how the network treats bytes.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Longest delay of a piece.
    pub max_delay: Duration,
    /// Length of the longest piece in bytes; 1 cuts at every byte.
    pub max_piece: u64,
}

/// Bytes on their way in one direction.
#[derive(Debug, Default)]
struct Pipe {
    pieces: VecDeque<(Duration, Vec<u8>)>,
    last_arrival: Duration,
}

#[derive(Debug, Default)]
struct Wire {
    to_initiator: Pipe,
    to_target: Pipe,
    broken: bool,
    silent: bool,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    weather: Weather,
    wires: Vec<Wire>,
}

impl Network {
    /// Makes a network without connections.
    pub fn new(weather: Weather) -> Self {
        Self {
            weather,
            wires: Vec::new(),
        }
    }

    /// Makes a new connection.
    pub fn connect(&mut self) -> ConnectionId {
        self.wires.push(Wire::default());
        ConnectionId(self.wires.len() - 1)
    }

    /// Sends bytes to `end`. Returns the times at which pieces of them arrive. [`Network::take`]
    /// has them then.
    pub fn send(
        &mut self,
        id: ConnectionId,
        end: End,
        bytes: &[u8],
        now: Duration,
        random: &mut Random,
    ) -> Vec<Duration> {
        let weather = self.weather;
        let wire = &mut self.wires[id.0];
        if wire.broken || wire.silent {
            return Vec::new();
        }
        let pipe = wire.pipe(end);
        let mut arrivals = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = random
                .within(1..weather.max_piece + 1)
                .min(rest.len() as u64);
            let (piece, tail) = rest.split_at(length as usize);
            rest = tail;
            let delay_ms = random.within(0..weather.max_delay.as_millis() as u64 + 1);
            // Delays are whole milliseconds, so that pieces also arrive together and are read as
            // one.
            let arrival = (now + Duration::from_millis(delay_ms)).max(pipe.last_arrival);
            pipe.last_arrival = arrival;
            pipe.pieces.push_back((arrival, piece.to_vec()));
            arrivals.push(arrival);
        }
        arrivals.dedup();
        arrivals
    }

    /// Takes the bytes that have arrived at `end`, as one read of a socket returns them.
    pub fn take(&mut self, id: ConnectionId, end: End, now: Duration) -> Vec<u8> {
        let wire = &mut self.wires[id.0];
        if wire.broken || wire.silent {
            return Vec::new();
        }
        let pipe = wire.pipe(end);
        let mut bytes = Vec::new();
        while let Some((arrival, _)) = pipe.pieces.front()
            && *arrival <= now
            && let Some((_, piece)) = pipe.pieces.pop_front()
        {
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    /// Returns the time at which the last bytes that were sent to `end` arrive.
    pub fn last_arrival(&mut self, id: ConnectionId, end: End) -> Duration {
        self.wires[id.0].pipe(end).last_arrival
    }

    /// Breaks the connection: bytes on their way are lost.
    pub fn cut(&mut self, id: ConnectionId) {
        self.wires[id.0].broken = true;
    }

    /// Silences the connection: no byte passes any more, and nobody is told.
    pub fn silence(&mut self, id: ConnectionId) {
        self.wires[id.0].silent = true;
    }

    /// Reports whether the connection was silenced.
    pub fn is_silent(&self, id: ConnectionId) -> bool {
        self.wires[id.0].silent
    }
}

impl Wire {
    fn pipe(&mut self, end: End) -> &mut Pipe {
        match end {
            End::Initiator => &mut self.to_initiator,
            End::Target => &mut self.to_target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_or_not_at_all() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let weather = Weather {
                max_delay: Duration::from_millis(20),
                max_piece: random.one_of(&[1, 7, 4000]),
            };
            let mut network = Network::new(weather);
            let id = network.connect();
            let sent: Vec<u8> = (0..=255).collect();
            let mut arrivals = Vec::new();
            for half in sent.chunks(128) {
                arrivals.extend(network.send(id, End::Target, half, Duration::ZERO, &mut random));
            }
            let mut received = Vec::new();
            for arrival in &arrivals {
                received.extend(network.take(id, End::Target, *arrival));
            }
            assert_eq!(received, sent);
            assert!(network.take(id, End::Initiator, Duration::MAX).is_empty());
            network.send(id, End::Initiator, &sent, Duration::ZERO, &mut random);
            network.cut(id);
            assert!(network.take(id, End::Initiator, Duration::MAX).is_empty());
        }
    }
}
