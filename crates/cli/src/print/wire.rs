//! A stream over TCP, from one command line to another. Both ends prove that they know a key that
//! was made for the stream. A key of the connection proves every piece on the way. An eavesdropper
//! on the network can read the stream, but cannot send or take a stream, nor change, cut or repeat
//! any part of it.
//!
//! ```text
//! sender → receiver      "SANDWIRE", version, a random number   48 bytes
//! receiver → sender      a random number, proof of the key      64 bytes
//! sender → receiver      proof of the key                       32 bytes
//! then, in both ways     length (u32), bytes, proof             length 0 ends it
//! ```

use std::fmt;
use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Time within which a caller must prove that it knows the key, however it spreads its bytes.
const PATIENCE: Duration = Duration::from_secs(10);
const MAGIC: &[u8; 8] = b"SANDWIRE";
const VERSION: u16 = 1;
/// Length of the longest piece, in bytes.
const MAX_PIECE: usize = 1 << 20;

/// Key that both ends know. It is made at random for one stream, or by an administrator for many.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn random() -> Self {
        Self(random())
    }

    fn prove(&self, role: &[u8], hello: &[u8], nonce: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        // All parts have fixed lengths but the role, which comes last.
        hasher.update(hello).update(nonce).update(role);
        hasher.finalize()
    }
}

impl FromStr for Key {
    type Err = String;

    /// Reads 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a key has 64 hexadecimal digits".to_owned();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut key = [0; 32];
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(key))
    }
}

/// Form of the key for the administrator of the other end.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Form of the key without its bytes, because keys must not get into logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Direction of a connection whose other end knows the key.
#[derive(Debug)]
struct Direction {
    key: blake3::Hash,
    /// Number of pieces so far.
    count: u64,
}

impl Direction {
    fn proof(&mut self, piece: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.key.as_bytes());
        hasher.update(&self.count.to_le_bytes()).update(piece);
        self.count += 1;
        hasher.finalize()
    }
}

/// Connection whose other end knows the key.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    out: Direction,
    into: Direction,
    /// Bytes that were read and not taken yet.
    piece: Vec<u8>,
    taken: usize,
    is_ended: bool,
}

impl Wire {
    /// Connects to a receiver.
    ///
    /// # Errors
    /// Nobody answers, or the other end does not know the key.
    pub(crate) fn connect(address: &str, key: &Key) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        let until = Instant::now() + PATIENCE;
        let mut hello = [0; 48];
        hello[..8].copy_from_slice(MAGIC);
        hello[8..10].copy_from_slice(&VERSION.to_le_bytes());
        hello[16..].copy_from_slice(&random::<32>());
        stream.write_all(&hello)?;
        let (mut nonce, mut proof) = ([0; 32], [0; 32]);
        read_until(&mut stream, &mut nonce, until)?;
        read_until(&mut stream, &mut proof, until)?;
        if key.prove(b"receiver", &hello, &nonce) != proof {
            return Err(stranger());
        }
        let own = key.prove(b"sender", &hello, &nonce);
        stream.write_all(own.as_bytes())?;
        Self::new(stream, key, [b"to receiver", b"to sender"], &hello, &nonce)
    }

    /// Waits for a sender that knows the key. Sends others away.
    ///
    /// # Errors
    /// The system takes no connections.
    pub(crate) fn accept(listener: &TcpListener, key: &Key) -> io::Result<Self> {
        loop {
            let (stream, from) = next_caller(|| listener.accept())?;
            match Self::greet(stream, key) {
                Ok(wire) => return Ok(wire),
                Err(error) => tracing::warn!(%from, %error, "a sender without the key was refused"),
            }
        }
    }

    fn greet(mut stream: TcpStream, key: &Key) -> io::Result<Self> {
        let until = Instant::now() + PATIENCE;
        let mut hello = [0; 48];
        read_until(&mut stream, &mut hello, until)?;
        let mut expected = [0; 16];
        expected[..8].copy_from_slice(MAGIC);
        expected[8..10].copy_from_slice(&VERSION.to_le_bytes());
        if hello[..16] != expected {
            return Err(stranger());
        }
        let nonce: [u8; 32] = random();
        stream.write_all(&nonce)?;
        stream.write_all(key.prove(b"receiver", &hello, &nonce).as_bytes())?;
        let mut proof = [0; 32];
        read_until(&mut stream, &mut proof, until)?;
        if key.prove(b"sender", &hello, &nonce) != proof {
            return Err(stranger());
        }
        Self::new(stream, key, [b"to sender", b"to receiver"], &hello, &nonce)
    }

    fn new(
        stream: TcpStream,
        key: &Key,
        [out, into]: [&[u8]; 2],
        hello: &[u8],
        nonce: &[u8],
    ) -> io::Result<Self> {
        // From here on, either end may take its time. A dead connection is noticed.
        stream.set_read_timeout(None)?;
        stream.set_nodelay(true)?;
        let keep = socket2::TcpKeepalive::new()
            .with_time(Duration::from_secs(30))
            .with_interval(Duration::from_secs(10));
        socket2::SockRef::from(&stream).set_tcp_keepalive(&keep)?;
        let direction = |role: &[u8]| Direction {
            key: key.prove(role, hello, nonce),
            count: 0,
        };
        Ok(Self {
            out: direction(out),
            into: direction(into),
            stream,
            piece: Vec::new(),
            taken: 0,
            is_ended: false,
        })
    }

    /// Tells the other end that nothing more comes.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.send(&[])
    }

    /// Splits the connection in two, to send on one half and receive on the other at once.
    pub(crate) fn split(self) -> io::Result<(Self, Self)> {
        let stream = self.stream.try_clone()?;
        let other = Self {
            stream,
            out: Direction {
                key: self.out.key,
                count: self.out.count,
            },
            into: Direction {
                key: self.into.key,
                count: self.into.count,
            },
            piece: Vec::new(),
            taken: 0,
            is_ended: false,
        };
        Ok((self, other))
    }

    /// Reads the remaining bytes, for a while, so that the other end can read the last answer.
    pub(crate) fn linger(mut self) {
        let is_possible = self.stream.shutdown(Shutdown::Write).is_ok()
            && self.stream.set_read_timeout(Some(PATIENCE)).is_ok();
        let until = Instant::now() + PATIENCE;
        let mut rest = [0; 4096];
        while is_possible
            && Instant::now() < until
            && self.stream.read(&mut rest).is_ok_and(|len| len > 0)
        {}
    }

    fn send(&mut self, piece: &[u8]) -> io::Result<()> {
        let proof = self.out.proof(piece);
        let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        self.stream.write_all(&len.to_le_bytes())?;
        self.stream.write_all(piece)?;
        self.stream.write_all(proof.as_bytes())
    }

    fn take(&mut self) -> io::Result<()> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len)?;
        let len = u32::from_le_bytes(len) as usize;
        if len > MAX_PIECE {
            return Err(stranger());
        }
        self.piece.resize(len, 0);
        self.stream.read_exact(&mut self.piece)?;
        let mut proof = [0; 32];
        self.stream.read_exact(&mut proof)?;
        if self.into.proof(&self.piece) != proof {
            self.piece.clear();
            return Err(stranger());
        }
        self.taken = 0;
        self.is_ended = len == 0;
        Ok(())
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(MAX_PIECE);
        if len > 0 {
            self.send(&bytes[..len])?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    /// Reads only bytes that the other end wrote. Reports the end only if the other end announced
    /// it.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.piece.len() && !self.is_ended {
            self.take()?;
        }
        let rest = &self.piece[self.taken..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        Ok(len)
    }
}

/// Caller whose bytes are waited for only until a deadline.
trait Caller: Read {
    fn now(&self) -> Instant;

    /// Sets the most time that the next read may take.
    fn wait_at_most(&mut self, time: Duration) -> io::Result<()>;
}

impl Caller for TcpStream {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// Fills the buffer before a deadline. A caller that sends a byte now and then gains no time by
/// that.
fn read_until(caller: &mut impl Caller, buffer: &mut [u8], until: Instant) -> io::Result<()> {
    let mut len = 0;
    while len < buffer.len() {
        let left = until.saturating_duration_since(caller.now());
        if left.is_zero() {
            let what = "the other end took too long to prove that it knows the key";
            return Err(io::Error::new(TimedOut, what));
        }
        caller.wait_at_most(left)?;
        match caller.read(&mut buffer[len..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => len += more,
            // The check above sees whether the time is over.
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Accepts the next connection that still exists. Linux reports errors of connections that broke
/// earlier; they say nothing about the others.
fn next_caller<T>(mut accept: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match accept() {
            Err(error) if is_of_one_connection(&error) => {
                tracing::warn!(%error, "a connection broke before it was accepted");
            }
            other => return other,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
    )
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Ending the program here is better than a key that can be guessed.
    getrandom::fill(&mut bytes).expect("the kernel has random numbers");
    bytes
}

fn stranger() -> io::Error {
    let what = "the other end does not know the key, or its messages were changed on the way";
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

#[cfg(test)]
mod tests;
