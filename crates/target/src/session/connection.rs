//! A socket of an event loop: a login in progress, or a connection of a session.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use iscsi::target::Session;
use iscsi::target::discovery::TextExchange;
use smallvec::SmallVec;

use super::gathering::Gathering;
use super::login::LoginConnection;
use super::registry::Seat;
use crate::connection::dealer::Dealt;
use crate::connection::tcp_counts::Counted;
use crate::payload::{DataIn, DataOut};
use block::clock;
use unit::command::operation::SessionKey;

/// Most pieces of one vectored write: half of what the kernel takes (IOV_MAX), so that the array
/// stays within the first-level cache.
const MAX_PIECES: usize = 512;
/// Most pieces of one vectored read.
const MAX_ROOM: usize = 256;
/// Length, in bytes, from which the rest of a data segment is read straight into its place. Below,
/// one read of everything that has arrived is cheaper than a system call for each command.
pub(crate) const DIRECT_THRESHOLD: usize = 32 * 1024;

/// Use of a socket.
#[derive(Debug)]
pub(crate) enum Role {
    /// Connection that logs in.
    Login(Box<LoginConnection>),
    /// Connection of a session, under this index.
    Session(SessionKey, usize),
    /// Connection that is closed once its output has left.
    Closing,
}

/// Connection of an event loop, before and after its login.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Count of the connection at its loop. It is dropped before the socket. So a client that sees
    /// its connection closed, and comes again, finds that the loop has one less.
    pub dealt: Dealt,
    /// The socket.
    pub stream: mio::net::TcpStream,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The portal it came to.
    pub local: SocketAddr,
    /// Use of the connection.
    pub role: Role,
    /// Bytes that leave before anything of the session: login responses.
    pub output: Vec<u8>,
    /// Text requests in progress.
    pub text: TextExchange,
    /// Whether the kernel's buffer was full, so that the connection waits to become writable.
    pub blocked: bool,
    /// Whether the peer has closed. The end is then still to be read behind the last bytes, and
    /// nothing will report it again.
    pub half_closed: bool,
    /// Whether the connection is in the loop's list of connections with output.
    pub dirty: bool,
    /// Whether the connection is in the loop's list of connections with input.
    pub ready: bool,
    /// Place in its session, once it has logged in.
    pub seat: Option<Seat>,
    /// State that decides when input is taken.
    pub gathering: Gathering,
    /// Whether the connection is not read until its output has left, or requests that it sent too
    /// early have had their turn.
    pub paused: bool,
    /// Time at which the connection was accepted.
    pub since: Instant,
    /// TCP segments that are in the sums of the portal already.
    pub counted: Counted,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes read: fewer than there was room for, so no more are waiting.
    Last(usize),
    /// Bytes read, and more may be waiting.
    More(usize),
    /// Nothing is waiting.
    Nothing,
    /// The peer closed, or the socket is broken.
    Closed,
}

fn received(result: io::Result<usize>, room: usize, half_closed: bool) -> Received {
    match result {
        Ok(0) => Received::Closed,
        Ok(count) if count < room && !half_closed => Received::Last(count),
        Ok(count) => Received::More(count),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Received::More(0),
        Err(_) => Received::Closed,
    }
}

impl Connection {
    /// Returns a connection that starts with its login.
    pub(crate) fn new(
        stream: mio::net::TcpStream,
        peer: SocketAddr,
        local: SocketAddr,
        dealt: Dealt,
        role: Role,
    ) -> Self {
        let now = clock::now();
        Self {
            dealt,
            stream,
            peer,
            local,
            role,
            output: Vec::new(),
            text: TextExchange::default(),
            blocked: false,
            half_closed: false,
            dirty: false,
            ready: false,
            paused: false,
            seat: None,
            gathering: Gathering::new(now),
            since: now,
            counted: Counted::default(),
        }
    }

    /// Reports whether to leave input for now, so that more of it gathers.
    pub(crate) fn gathers(&mut self, now: Instant) -> bool {
        // A closed peer sends no more, and a socket without an answer is read at once.
        !self.half_closed
            && self.gathering.goes_on(now, || {
                rustix::io::ioctl_fionread(&self.stream)
                    .ok()
                    .and_then(|bytes| usize::try_from(bytes).ok())
                    .unwrap_or(usize::MAX)
            })
    }

    /// Reads the waiting bytes.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Received {
        let room = buffer.len();
        received(self.stream.read(buffer), room, self.half_closed)
    }

    /// Reads the rest of a long data segment straight into its place, and the bytes behind it into
    /// `buffer`. The second value is the number of bytes in `buffer`. Returns `None` if no such
    /// segment is arriving.
    pub(crate) fn read_direct(
        &mut self,
        session: &mut Session<DataIn, DataOut>,
        index: usize,
        buffer: &mut [u8],
    ) -> Option<(Received, usize)> {
        let stream = &mut self.stream;
        let (result, placed_room, room) = session.direct(index, DIRECT_THRESHOLD, |pieces| {
            let mut slices: SmallVec<[IoSliceMut<'_>; MAX_ROOM + 1]> = SmallVec::new();
            let mut placed_room = 0;
            for piece in pieces.take(MAX_ROOM) {
                placed_room += piece.len();
                slices.push(IoSliceMut::new(piece));
            }
            let room = placed_room + buffer.len();
            slices.push(IoSliceMut::new(buffer));
            (stream.read_vectored(&mut slices), placed_room, room)
        })?;
        let outcome = received(result, room, self.half_closed);
        let count = match outcome {
            Received::Last(count) | Received::More(count) => count,
            Received::Nothing | Received::Closed => 0,
        };
        let placed = count.min(placed_room);
        session.placed(index, placed);
        Some((outcome, count - placed))
    }

    /// Writes the waiting output of `session`, as much as the kernel takes.
    ///
    /// # Errors
    /// The socket is broken.
    pub(crate) fn write(
        &mut self,
        session: &mut Session<DataIn, DataOut>,
        index: usize,
    ) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) => return self.write_error(error),
            }
        }
        while session.queued_bytes(index) > 0 {
            let mut slices: SmallVec<[IoSlice<'_>; MAX_PIECES]> = SmallVec::new();
            let mut offered = 0;
            session.gather(index, |piece| {
                offered += piece.len();
                slices.push(IoSlice::new(piece));
                slices.len() < MAX_PIECES
            });
            let result = self.stream.write_vectored(&slices);
            drop(slices);
            match result {
                Ok(count) => {
                    session.sent(index, count);
                    if count < offered {
                        self.blocked = true;
                        return Ok(());
                    }
                }
                Err(error) => return self.write_error(error),
            }
        }
        Ok(())
    }

    /// Writes login responses.
    ///
    /// # Errors
    /// The socket is broken.
    pub(crate) fn write_output(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) => return self.write_error(error),
            }
        }
        Ok(())
    }

    fn write_error(&mut self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                self.blocked = true;
                Ok(())
            }
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }
}
