//! One request to an iSNS server and its response, within a time limit.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use iscsi::isns::{Assembler, Message, Response};

/// A connection to a server for the requests at hand. It is not kept until the next refresh. So if
/// the server goes away meanwhile, a refused connection shows this, never a silent half-open
/// connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    assembler: Assembler,
    limit: Duration,
}

impl Connection {
    /// Connects within `limit`, which applies to each exchange too.
    ///
    /// # Errors
    /// The server does not listen or does not answer.
    pub(super) fn open(server: SocketAddr, limit: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, limit)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            assembler: Assembler::default(),
            limit,
        })
    }

    /// Returns the source address of the connection.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(super) fn local(&self) -> io::Result<IpAddr> {
        Ok(self.stream.local_addr()?.ip())
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The connection broke, the time is over, or the answer is no iSNS message.
    pub(super) fn exchange(&mut self, request: &Message) -> io::Result<Response> {
        Response::decode(&self.answer(request)?).map_err(malformed)
    }

    /// Sends a request and waits for the message that answers it.
    ///
    /// # Errors
    /// The connection broke, the time is over, or the answer is no iSNS message.
    pub(super) fn answer(&mut self, request: &Message) -> io::Result<Message> {
        let deadline = Instant::now() + self.limit;
        self.stream.set_write_timeout(Some(self.limit))?;
        self.stream.write_all(&request.encode())?;
        let mut buffer = [0; 4096];
        loop {
            while let Some(message) = self.assembler.next_message().map_err(malformed)? {
                // Any other message (a heartbeat, a late answer) is ignored.
                if message.function == request.function.response()
                    && message.transaction_id == request.transaction_id
                {
                    return Ok(message);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.assembler.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

pub(super) fn malformed(error: iscsi::isns::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
