//! A client's socket: unix or TCP, with TLS on top once the client requested it.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustls::{ServerConfig, ServerConnection};

/// Most plaintext that waits for encryption and for the socket, in bytes.
const TLS_BUFFER: usize = 512 << 10;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A number of bytes, after which no more are waiting.
    Last(usize),
    /// A number of bytes, after which more may be waiting.
    More(usize),
    /// Nothing is waiting.
    Nothing,
    /// The client closed its end, or the socket is broken.
    Closed,
}

/// Connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    /// Socket from a unix listener.
    Unix(mio::net::UnixStream),
    /// Socket from a TCP listener.
    Tcp(mio::net::TcpStream),
}

impl Socket {
    /// Returns the client's name as a unit's initiator: its address, as far as it has one.
    pub(super) fn peer(&self) -> String {
        match self {
            Self::Unix(_) => "nbd+unix".to_owned(),
            Self::Tcp(socket) => match socket.peer_addr() {
                Ok(address) => format!("nbd:{address}"),
                Err(_) => "nbd".to_owned(),
            },
        }
    }

    /// Registers the socket with the poller.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Unix(socket) => socket.register(registry, token, interest),
            Self::Tcp(socket) => socket.register(registry, token, interest),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read(buffer),
            Self::Tcp(socket) => socket.read(buffer),
        }
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.read_vectored(buffers),
            Self::Tcp(socket) => socket.read_vectored(buffers),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write(bytes),
            Self::Tcp(socket) => socket.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(socket) => socket.write_vectored(slices),
            Self::Tcp(socket) => socket.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// TLS over a socket.
struct Tls {
    session: ServerConnection,
    /// Plaintext that must leave before TLS begins.
    before: Vec<u8>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("handshaking", &self.session.is_handshaking())
            .finish_non_exhaustive()
    }
}

/// Socket, encrypted or not.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    tls: Option<Box<Tls>>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream {
    /// Wraps a socket that is not encrypted yet.
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    /// Starts TLS. From now on everything is encrypted, except `before`, which leaves first.
    ///
    /// # Errors
    /// The configuration does not work.
    pub(super) fn start_tls(
        &mut self,
        config: Arc<ServerConfig>,
        before: Vec<u8>,
    ) -> Result<(), rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(TLS_BUFFER));
        self.tls = Some(Box::new(Tls { session, before }));
        Ok(())
    }

    /// Reports whether bytes go to the socket unencrypted.
    pub(super) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Reads the waiting bytes.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Received {
        let Some(tls) = &mut self.tls else {
            let room = buffer.len();
            return received(self.socket.read(buffer), room);
        };
        loop {
            match tls.session.reader().read(buffer) {
                // Further bytes are found by reading until nothing is waiting.
                Ok(0) => return Received::Closed,
                Ok(count) => return Received::More(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Received::Closed,
            }
            match tls.session.read_tls(&mut self.socket) {
                Ok(0) => return Received::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Received::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Received::Closed,
            }
            if let Err(error) = tls.session.process_new_packets() {
                tracing::info!(%error, "TLS failed");
                // The alert tells the client why.
                let _ = self.flush();
                return Received::Closed;
            }
        }
    }

    /// Reads the waiting bytes into several pieces; allowed only if [`Stream::is_plain`].
    pub(super) fn read_vectored(&mut self, pieces: &mut [IoSliceMut<'_>]) -> Received {
        let room = pieces.iter().map(|piece| piece.len()).sum();
        received(self.socket.read_vectored(pieces), room)
    }

    /// Writes as much as the socket takes.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is taken until the socket is writable; any other error means that it
    /// is broken.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_plain() {
            return self.socket.write_vectored(slices);
        }
        self.flush()?;
        let Some(tls) = &mut self.tls else {
            return Ok(0);
        };
        match tls.session.writer().write_vectored(slices)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Passes TLS's pending output to the socket: its handshake and encrypted bytes.
    ///
    /// # Errors
    /// As for [`Stream::write`].
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while !tls.before.is_empty() {
            match self.socket.write(&tls.before) {
                Ok(count) => drop(tls.before.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        while tls.session.wants_write() {
            match tls.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes TLS properly, as far as the socket takes the message at once.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.send_close_notify();
            let _ = self.flush();
        }
    }
}

fn received(result: io::Result<usize>, room: usize) -> Received {
    match result {
        Ok(0) => Received::Closed,
        Ok(count) if count < room => Received::Last(count),
        Ok(count) => Received::More(count),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Received::More(0),
        Err(_) => Received::Closed,
    }
}
