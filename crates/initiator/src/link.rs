//! One TCP connection of a session: connecting, LOGIN, full-feature phase. It moves bytes in and
//! out, and never waits.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use iscsi::initiator::{
    LoggedIn, Login, LoginError, LoginProgress, LoginSettings, Offer, Session, SessionError,
    SessionUser,
};
use iscsi::pdu::{BHS_LENGTH, Bhs};
use socket2::SockRef;

use super::outside::Outside;
use model::initiator::settings::{Bind, TcpOptions};
use net::tcp_info::TcpInfo;

/// Longest login response: the limit declared before login is RFC 7143's 8 KiB.
const MAX_LOGIN_DATA: usize = 8192;
/// Bytes waiting for the socket from which no more are added. The peer is then slower than this
/// end.
const OUTPUT_CHUNK: usize = 1 << 20;
/// Commands or bytes that are sent before the turn is over. The target works on them while the
/// initiator prepares the next ones. If each side waits for a whole batch of the other, one core is
/// always idle. Each system call costs about as much as a command.
const BATCH_COMMANDS: u32 = 8;
const BATCH_BYTES: usize = 16 << 10;

/// Reason why a connection is over.
#[derive(Debug)]
pub(super) enum LinkError {
    /// The connection could not be made.
    Connect(io::Error),
    /// The portal named by a redirection cannot be looked up.
    Resolve {
        /// Portal as `host:port`.
        portal: String,
        /// Error of the look-up.
        source: io::Error,
    },
    /// The connection broke.
    Io(io::Error),
    /// The peer closed the connection.
    Closed,
    /// The target refused the login, is elsewhere, or failed to prove its identity.
    Login(LoginError),
    /// The target broke the protocol.
    Session(SessionError),
    /// The target sent nothing for this time.
    Silent(Duration),
    /// Connecting and logging in took longer than this.
    Slow(Duration),
    /// The target asked the initiator to leave, or ended the session.
    Ended(&'static str),
    /// A login failed, and the last attempt, which offered less, failed too.
    Again {
        /// First failure.
        first: Box<LinkError>,
        /// Offer of the last attempt.
        offer: String,
        /// Last failure.
        last: Box<LinkError>,
    },
}

impl LinkError {
    /// Returns the failure of the last attempt.
    pub(super) fn last(&self) -> &Self {
        match self {
            Self::Again { last, .. } => last,
            only => only,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Resolve { portal, source } => {
                write!(
                    f,
                    "the target redirected the login to {portal}, which cannot be looked up: {source}"
                )
            }
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::Closed => f.write_str("the target closed the connection"),
            Self::Login(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
            Self::Silent(time) => write!(f, "the target sent nothing for {time:.1?}"),
            Self::Slow(time) => write!(f, "no login within {time:.1?}"),
            Self::Ended(why) => f.write_str(why),
            Self::Again { first, offer, last } => {
                write!(
                    f,
                    "{first}; another attempt that offered {offer} failed too: {last}"
                )
            }
        }
    }
}

impl std::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) | Self::Io(error) => Some(error),
            Self::Resolve { source, .. } => Some(source),
            Self::Login(error) => Some(error),
            Self::Session(error) => Some(error),
            Self::Again { last, .. } => Some(last),
            _ => None,
        }
    }
}

#[derive(Debug)]
enum Phase {
    Connecting(Box<LoginSettings>),
    LoggingIn {
        login: Box<Login>,
        input: Vec<u8>,
    },
    /// Full-feature phase of RFC 7143.
    Full(Box<Session>),
}

/// TCP connection of a session.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// Peer's address. The socket does not tell it any more after the connection was reset.
    address: SocketAddr,
    phase: Phase,
    pub(super) out: Vec<u8>,
    /// Bytes of `out` that the socket took.
    taken: usize,
    /// Bytes that the socket took before `out`.
    taken_before: u64,
    /// Whether the socket is full.
    is_full: bool,
    /// Commands queued since the last [`Link::flush`].
    queued: u32,
    /// Error of an early flush; the next flush returns it.
    failure: Option<LinkError>,
    quick_ack: bool,
}

/// Effect of received bytes.
#[derive(Debug)]
pub(super) enum Received {
    /// Ordinary data. `more` tells whether more may be waiting.
    Data { more: bool },
    /// The login is over; commands may be sent.
    LoggedIn(Box<LoggedIn>),
}

impl Link {
    /// Begins to connect.
    pub(super) fn connect(
        address: SocketAddr,
        bind: Option<&Bind>,
        tcp: &TcpOptions,
        login: LoginSettings,
        outside: &dyn Outside,
    ) -> Result<Self, LinkError> {
        let stream = outside.connect(address, bind, tcp);
        let stream = stream.map_err(LinkError::Connect)?;
        Ok(Self {
            stream,
            address,
            phase: Phase::Connecting(Box::new(login)),
            out: Vec::new(),
            taken: 0,
            taken_before: 0,
            is_full: false,
            queued: 0,
            failure: None,
            quick_ack: tcp.quick_ack,
        })
    }

    /// Returns the session, in the full-feature phase.
    #[inline]
    pub(super) fn session(&mut self) -> Option<(&mut Session, &mut Vec<u8>)> {
        match &mut self.phase {
            Phase::Full(session) => Some((session, &mut self.out)),
            _ => None,
        }
    }

    /// Returns the offer of another attempt after this error, also in words. `None`: another
    /// attempt would change nothing.
    pub(super) fn second_offer(&self, error: &LinkError) -> Option<(Offer, String)> {
        let Phase::LoggingIn { login, input } = &self.phase else {
            return None;
        };
        let refusal = match error {
            LinkError::Login(error) => Some(error),
            // If the peer closed the connection in the middle of a response, the offer was not the
            // reason.
            LinkError::Closed | LinkError::Io(_) if input.is_empty() => None,
            _ => return None,
        };
        let offer = login.second_offer(refusal)?;
        Some((offer, offer.words(login.settings())))
    }

    /// Returns the number of commands sent and not ended.
    pub(super) fn outstanding(&self) -> usize {
        match &self.phase {
            Phase::Full(session) => session.outstanding(),
            _ => 0,
        }
    }

    /// Reports whether no command is under way.
    pub(super) fn is_idle(&self) -> bool {
        match &self.phase {
            Phase::Full(session) => session.outstanding() + session.waiting() == 0,
            _ => true,
        }
    }

    /// Returns the number of bytes that were ever queued.
    pub(super) fn queued_bytes(&self) -> u64 {
        self.taken_before + self.out.len() as u64
    }

    /// Returns the number of bytes that the other end's kernel has taken; 0 if this kernel does not
    /// tell.
    pub(super) fn acknowledged(&self) -> u64 {
        TcpInfo::of(&self.stream).map_or(0, |info| info.bytes_acked)
    }

    /// Returns the local address of the connection.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// Returns the peer's address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Handles a writable socket: it is connected, or has room again. Reports whether it has just
    /// connected.
    pub(super) fn writable(&mut self) -> Result<bool, LinkError> {
        let mut has_connected = false;
        self.is_full = false;
        if let Phase::Connecting(settings) = &self.phase {
            if let Some(error) = self.stream.take_error().map_err(LinkError::Connect)? {
                return Err(LinkError::Connect(error));
            }
            if SockRef::from(&self.stream).peer_addr().is_err() {
                return Ok(false);
            }
            has_connected = true;
            let (login, request) = Login::start((**settings).clone());
            self.out.extend_from_slice(&request);
            self.phase = Phase::LoggingIn {
                login: Box::new(login),
                input: Vec::new(),
            };
        }
        self.flush().map(|()| has_connected)
    }

    /// Notes that a command was queued, and sends it early if a batch is complete.
    #[inline]
    pub(super) fn command_queued(&mut self) {
        self.queued += 1;
        // A full socket takes no more if it is asked more often.
        let is_batch = self.queued >= BATCH_COMMANDS || self.out.len() >= BATCH_BYTES;
        if is_batch && !self.is_full && self.failure.is_none() {
            self.failure = self.flush().err();
        }
    }

    /// Passes waiting output to the socket.
    pub(super) fn flush(&mut self) -> Result<(), LinkError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.queued = 0;
        if matches!(self.phase, Phase::Connecting(_)) {
            return Ok(());
        }
        while self.taken < self.out.len() {
            match self.stream.write(&self.out[self.taken..]) {
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkError::Io(error)),
            }
        }
        if (self.taken == self.out.len() || self.taken >= OUTPUT_CHUNK)
            && let Phase::Full(session) = &mut self.phase
        {
            session.output_taken();
        }
        if self.taken == self.out.len() {
            self.taken_before += self.taken as u64;
            self.is_full = false;
            self.out.clear();
            self.taken = 0;
            if self.out.capacity() > 2 * OUTPUT_CHUNK {
                self.out.shrink_to(OUTPUT_CHUNK);
            }
        } else if self.taken >= OUTPUT_CHUNK {
            self.out.drain(..self.taken);
            self.taken_before += self.taken as u64;
            self.taken = 0;
        }
        Ok(())
    }

    /// Reads once, and processes the bytes.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        user: &mut impl SessionUser,
        outside: &dyn Outside,
    ) -> Result<Received, LinkError> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok(Received::Data { more: false });
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                return Ok(Received::Data { more: true });
            }
            Err(error) => return Err(LinkError::Io(error)),
        };
        if self.quick_ack {
            // The kernel forgets this option, so it is set after each read. If the kernel refuses,
            // acks are late.
            let _ = SockRef::from(&self.stream).set_tcp_quickack(true);
        }
        let more = count == buffer.len();
        match &mut self.phase {
            Phase::Full(session) => session
                .receive(&buffer[..count], user, &mut self.out)
                .map(|()| Received::Data { more })
                .map_err(LinkError::Session),
            Phase::LoggingIn { login, input } => {
                input.extend_from_slice(&buffer[..count]);
                match log_in(login, input, &mut self.out, outside)? {
                    None => Ok(Received::Data { more }),
                    Some(logged_in) => {
                        let mut session = Session::new(&logged_in);
                        let rest = std::mem::take(input);
                        session
                            .receive(&rest, user, &mut self.out)
                            .map_err(LinkError::Session)?;
                        self.phase = Phase::Full(Box::new(session));
                        Ok(Received::LoggedIn(logged_in))
                    }
                }
            }
            Phase::Connecting(_) => Ok(Received::Data { more: false }),
        }
    }

    /// Ends the connection so that the kernel sends none of the waiting data. From now on the
    /// commands may be repeated elsewhere.
    pub(super) fn abort(self) {
        // If the option is refused, the kernel goes on for a while. The fence covers that too.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Processes the whole login responses in `input`.
fn log_in(
    login: &mut Login,
    input: &mut Vec<u8>,
    out: &mut Vec<u8>,
    mut outside: &dyn Outside,
) -> Result<Option<Box<LoggedIn>>, LinkError> {
    while let Some(bhs) = input.first_chunk::<BHS_LENGTH>() {
        let header = Bhs::new(bhs);
        let start = BHS_LENGTH + header.total_ahs_length();
        let length = header.data_segment_length();
        if length > MAX_LOGIN_DATA {
            let what = LoginError::Protocol("a login response is longer than declared");
            return Err(LinkError::Login(what));
        }
        let end = start + header.padded_data_segment_length();
        let Some(data) = input.get(start..end) else {
            return Ok(None);
        };
        let progress = login.receive(bhs, &data[..length], &mut outside);
        let progress = progress.map_err(LinkError::Login)?;
        input.drain(..end);
        match progress {
            LoginProgress::Send(bytes) => out.extend_from_slice(&bytes),
            LoginProgress::Connected(logged_in) => return Ok(Some(logged_in)),
        }
    }
    Ok(None)
}
