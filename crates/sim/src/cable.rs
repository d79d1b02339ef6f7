//! Cables: real sockets between the simulated network and the target's event loops.
//!
//! Each cable is a pair of stream sockets of this process. The event loop has one end, and does
//! with it all that it does with TCP. The world has the other end, and decides when bytes move.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt;

use crate::network::ConnectionId;

/// Bytes that one reading takes at most.
const ROOM: usize = 64 << 10;

/// The world's end of a cable.
#[derive(Debug)]
struct Cable {
    socket: UnixStream,
    /// Bytes that have arrived and found no room in the socket.
    arrived: Vec<u8>,
    /// Whether no more bytes arrive.
    is_closed: bool,
}

/// Bytes that the target sent, and whether it has closed its end behind them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the target has closed its end.
    pub is_closed: bool,
}

/// All cables that the target has not let go of.
#[derive(Debug, Default)]
pub struct Cables(BTreeMap<ConnectionId, Cable>);

impl Cables {
    /// Plugs a cable in, and returns the target's end. The kernel keeps about `buffer` bytes that
    /// the target sent.
    ///
    /// # Errors
    /// The kernel refuses sockets.
    pub fn plug(&mut self, id: ConnectionId, buffer: usize) -> io::Result<TcpStream> {
        let (socket, target) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        target.set_nonblocking(true)?;
        sockopt::set_socket_send_buffer_size(&target, buffer)?;
        let cable = Cable {
            socket,
            arrived: Vec::new(),
            is_closed: false,
        };
        self.0.insert(id, cable);
        Ok(TcpStream::from(OwnedFd::from(target)))
    }

    /// Gives bytes to the target.
    pub fn put(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(cable) = self.0.get_mut(&id) {
            cable.arrived.extend_from_slice(bytes);
            cable.push();
        }
    }

    /// Tells the target that the other end closed, behind the bytes given before.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(cable) = self.0.get_mut(&id) {
            cable.is_closed = true;
            cable.push();
        }
    }

    /// Gives bytes to the target that found no room before.
    pub fn push(&mut self) {
        self.0.values_mut().for_each(Cable::push);
    }

    /// Returns the cables that the target has not let go of.
    pub fn plugged(&self) -> Vec<ConnectionId> {
        self.0.keys().copied().collect()
    }

    /// Reports whether the target has not let go of this cable.
    pub fn is_plugged(&self, id: ConnectionId) -> bool {
        self.0.contains_key(&id)
    }

    /// Takes what the target has sent. The cable is forgotten when the target has closed it.
    pub fn take(&mut self, id: ConnectionId) -> Sent {
        let mut sent = Sent::default();
        let Some(cable) = self.0.get_mut(&id) else {
            return sent;
        };
        loop {
            let start = sent.bytes.len();
            sent.bytes.resize(start + ROOM, 0);
            let read = cable.socket.read(&mut sent.bytes[start..]);
            sent.bytes.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => sent.is_closed = true,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The target closed its end and left bytes unread.
                Err(_) => sent.is_closed = true,
            }
            break;
        }
        if sent.is_closed {
            self.0.remove(&id);
        }
        sent
    }
}

impl Cable {
    fn push(&mut self) {
        while !self.arrived.is_empty() {
            match self.socket.write(&self.arrived) {
                Ok(count) => drop(self.arrived.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The target has closed its end, which is seen when it is read.
                Err(_) => self.arrived.clear(),
            }
        }
        if self.is_closed {
            // A socket that is closed already is what is wanted.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_in_both_directions_and_ends_are_told_behind_them() {
        let mut cables = Cables::default();
        let id = ConnectionId(3);
        let mut target = cables.plug(id, 64 << 10).unwrap();
        let mut buffer = [0; 8];
        let none = target.read(&mut buffer).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        cables.put(id, b"there");
        cables.close(id);
        assert_eq!(target.read(&mut buffer).unwrap(), 5);
        assert_eq!(target.read(&mut buffer).unwrap(), 0, "the end");
        assert_eq!(cables.take(id), Sent::default());
        target.write_all(b"back").unwrap();
        drop(target);
        let sent = cables.take(id);
        assert_eq!((&*sent.bytes, sent.is_closed), (&b"back"[..], true));
        assert!(!cables.is_plugged(id));
    }

    #[test]
    fn what_finds_no_room_is_kept() {
        let mut cables = Cables::default();
        let id = ConnectionId(0);
        let mut target = cables.plug(id, 64 << 10).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        cables.put(id, &bytes);
        let mut found = Vec::new();
        let mut buffer = vec![0; 10_000];
        while found.len() < bytes.len() {
            match target.read(&mut buffer) {
                Ok(count) => found.extend_from_slice(&buffer[..count]),
                Err(_) => cables.push(),
            }
        }
        assert!(found == bytes);
    }
}
