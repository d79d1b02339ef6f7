//! Discovery: asks a portal by SendTargets for its targets (RFC 7143 §4.3, Appendix C).
//!
//! Discovery has a session of its own that waits, under one time limit for everything. A broken,
//! slow or hostile portal costs at most that time and a bounded amount of memory. The error tells
//! the cases apart.

mod found;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use iscsi::initiator::{CommandEnd, LoginError, SessionEvent, SessionUser};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use found::PortalAnswer;
use found::found;

use super::attempts::Attempts;
use super::link::{Link, LinkError, Received};
use super::outside::Kernel;
use block::clock;
use model::initiator::settings::{Bind, SessionSettings};
use model::initiator::url::with_port;
use net::entropy::{KernelEntropy, random_isid};

/// Redirections that are followed, one after another.
const MAX_REDIRECTIONS: u32 = 4;
const BUFFER: usize = 64 << 10;

/// Reason why a portal told nothing.
#[derive(Debug)]
pub struct DiscoveryError {
    /// Portal that was asked.
    pub portal: String,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Resolve(io::Error),
    Link(LinkError),
    Late(Duration),
    Redirections,
    Redirection(String),
    Answer(String),
    System(io::Error),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let portal = &self.portal;
        match &self.reason {
            Reason::Resolve(error) => write!(f, "{portal} cannot be looked up: {error}"),
            Reason::Link(error) => write!(f, "{portal}: {error}"),
            Reason::Late(limit) => write!(f, "{portal}: no answer within {limit:.1?}"),
            Reason::Redirections => {
                write!(
                    f,
                    "{portal}: the login was redirected more than {MAX_REDIRECTIONS} times"
                )
            }
            Reason::Redirection(to) => {
                write!(
                    f,
                    "{portal}: the target redirected the login to {to:?}, which is not a portal"
                )
            }
            Reason::Answer(what) => write!(f, "{portal}: its answer cannot be used: {what}"),
            Reason::System(error) => write!(f, "{portal}: {error}"),
        }
    }
}

impl std::error::Error for DiscoveryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Resolve(error) | Reason::System(error) => Some(error),
            Reason::Link(error) => Some(error),
            _ => None,
        }
    }
}

impl DiscoveryError {
    /// Returns the step to try next, as a clause without a full stop.
    pub fn next(&self) -> &'static str {
        match &self.reason {
            Reason::Resolve(_) => "check the name, or write the address itself",
            Reason::Link(error) => link_next(error.last()),
            Reason::Late(_) => "check that it is an iSCSI portal, and the network in between",
            _ => {
                "see the target's own log; the process that listens there may not be an iSCSI target"
            }
        }
    }
}

fn link_next(error: &LinkError) -> &'static str {
    match error {
        LinkError::Connect(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "check that an iSCSI target listens there; the usual port is 3260"
            }
            io::ErrorKind::PermissionDenied => {
                "binding to an interface needs root or CAP_NET_RAW; --bind ADDRESS does not"
            }
            io::ErrorKind::AddrNotAvailable => {
                "--bind takes an address of this machine; `ip addr` shows them"
            }
            _ => "check the address, the network in between, and --bind",
        },
        LinkError::Login(LoginError::Chap(_) | LoginError::Authentication(_)) => {
            "check the CHAP user and secret on both sides"
        }
        LinkError::Login(LoginError::Refused(_)) => {
            "check what the target demands of this initiator: its name (--initiator-name), CHAP (--user)"
        }
        _ => "see the target's own log; the process that listens there may not be an iSCSI target",
    }
}

/// Asks `portal` (`host[:port]`) for all targets that it shows to the initiator of `settings`. A
/// target that names no address is at the asked portal.
///
/// # Errors
/// The portal cannot be reached, refuses, or gives no usable answer.
pub fn send_targets(
    portal: &str,
    bind: Option<&Bind>,
    settings: &SessionSettings,
    limit: Duration,
) -> Result<PortalAnswer, DiscoveryError> {
    let failed = |reason| DiscoveryError {
        portal: portal.to_owned(),
        reason,
    };
    let deadline = clock::now() + limit;
    let mut address = resolve(portal).map_err(|error| failed(Reason::Resolve(error)))?;
    for _ in 0..=MAX_REDIRECTIONS {
        let asked = Asking {
            settings,
            bind,
            limit,
            deadline,
        };
        match asked.ask(address) {
            Ok((text, second)) => {
                let mut found = found(&text, address);
                found.notes.extend(second.map(|offer| {
                    format!("the login succeeded only at another attempt, which offered {offer}")
                }));
                if found.targets.is_empty() && found.has_left_out {
                    return Err(failed(Reason::Answer(found.notes.join("; "))));
                }
                return Ok(found);
            }
            Err(Reason::Link(error)) => {
                let LinkError::Login(LoginError::Redirected { address: to, .. }) = error.last()
                else {
                    return Err(failed(Reason::Link(error)));
                };
                let known = redirected(to);
                address = known.ok_or_else(|| failed(Reason::Redirection(to.clone())))?;
            }
            Err(reason) => return Err(failed(reason)),
        }
    }
    Err(failed(Reason::Redirections))
}

fn resolve(portal: &str) -> io::Result<SocketAddr> {
    let portal = with_port(portal)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let found = portal.to_socket_addrs()?.next();
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Parses the target of a redirection: `host[:port][,tag]`.
fn redirected(to: &str) -> Option<SocketAddr> {
    let address = to.rsplit_once(',').map_or(to, |(address, _)| address);
    resolve(address).ok()
}

struct Asking<'a> {
    settings: &'a SessionSettings,
    bind: Option<&'a Bind>,
    limit: Duration,
    deadline: Instant,
}

impl Asking<'_> {
    /// Returns the answer to SendTargets=All. If the first login failed, it also returns the
    /// special features of the offer that succeeded.
    fn ask(&self, address: SocketAddr) -> Result<(Vec<u8>, Option<String>), Reason> {
        let mut attempts = Attempts::default();
        loop {
            let mut login = self.settings.login("", random_isid(&mut KernelEntropy));
            login.target_name = None;
            login.offer = attempts.offer;
            let link = Link::connect(address, self.bind, &self.settings.tcp, login, &Kernel);
            let mut link = link.map_err(|error| Reason::Link(attempts.give_up(error)))?;
            match self.converse(&mut link) {
                Ok(text) => return Ok((text, attempts.succeeded())),
                Err(Reason::Link(error)) => attempts.failed(&link, error).map_err(Reason::Link)?,
                Err(Reason::Late(limit)) if attempts.has_failed() => {
                    return Err(Reason::Link(attempts.give_up(LinkError::Slow(limit))));
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Logs in, asks and logs out.
    fn converse(&self, link: &mut Link) -> Result<Vec<u8>, Reason> {
        let mut listener = Listener::default();
        let mut buffer = vec![0; BUFFER];
        let mut is_connected = false;
        loop {
            let events = self.wait(link, !is_connected || !link.out.is_empty())?;
            if events.contains(PollFlags::OUT) {
                is_connected = true;
                link.writable().map_err(Reason::Link)?;
            }
            if events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                // An error of the connection shows when reading, or on the check after connecting.
                link.writable().map_err(Reason::Link)?;
                let received = link
                    .receive(&mut buffer, &mut listener, &Kernel)
                    .map_err(Reason::Link)?;
                if let (Received::LoggedIn(_), Some((session, out))) = (received, link.session()) {
                    session.send_targets("All", out);
                }
            }
            if let Some(text) = listener.text.take() {
                if let Some((session, out)) = link.session() {
                    session.logout(out);
                    // If the logout is not sent, the target notices the closed connection.
                    let _ = link.flush();
                }
                return Ok(text);
            }
            if let Some(why) = listener.refused.take() {
                return Err(Reason::Answer(why));
            }
            link.flush().map_err(Reason::Link)?;
        }
    }

    fn wait(&self, link: &Link, output: bool) -> Result<PollFlags, Reason> {
        let fd = link.as_fd();
        let wanted = if output {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        loop {
            let left = self.deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Err(Reason::Late(self.limit));
            }
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut fds = [PollFd::new(&fd, wanted)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(fds[0].revents()),
                Err(error) => return Err(Reason::System(error.into())),
            }
        }
    }
}

/// Listener that waits for the answer.
#[derive(Default)]
struct Listener {
    text: Option<Vec<u8>>,
    refused: Option<String>,
}

impl SessionUser for Listener {
    fn data_out(&mut self, _cookie: u64, _offset: u32, length: u32, out: &mut Vec<u8>) {
        // No command with data was sent.
        out.resize(out.len() + length as usize, 0);
    }

    fn data_in(&mut self, _cookie: u64, _offset: u32, _bytes: &[u8]) {}

    fn ended(&mut self, _cookie: u64, _end: CommandEnd<'_>) {}

    fn event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Text(text) => self.text = Some(text),
            SessionEvent::Rejected(reason) => {
                self.refused = Some(format!("SendTargets was rejected ({reason:?})"));
            }
            SessionEvent::Async { message, .. } => {
                self.refused = Some(format!(
                    "the target ended the session ({:?})",
                    message.async_event
                ));
            }
            _ => {}
        }
    }
}
