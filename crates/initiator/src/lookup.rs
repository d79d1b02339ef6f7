//! Looks up the name of a portal to which a redirection leads (TargetAddress, RFC 7143 §13.8). This
//! runs on a thread of its own: a look-up can take long, and a lane does not wait.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use iscsi::initiator::LoginError;
use iscsi::pdu::Isid;

use super::adapter::Adapter;
use super::fabric::Fabric;
use super::link::LinkError;
use super::nexus::NexusState;
use model::initiator::url::with_port;

/// Time for which a session waits for the address before it begins again at its first portal.
pub(super) const LOOKUP_US: u64 = 30_000_000;

/// Target of a redirection.
pub(super) enum Elsewhere {
    /// Redirection to this address.
    Address(SocketAddr),
    /// Redirection to this `host:port`.
    Name(String),
}

impl Elsewhere {
    /// Returns the redirection in a login's failure, and whether it is permanent. Returns `None` if
    /// the failure is no redirection.
    pub(super) fn of(error: &LinkError) -> Option<(Self, bool)> {
        let LinkError::Login(LoginError::Redirected { address, permanent }) = error.last() else {
            return None;
        };
        let untagged = address.rsplit_once(',').map(|(address, _)| address);
        let portal = with_port(untagged.unwrap_or(address)).ok()?;
        let elsewhere = match portal.parse() {
            Ok(address) => Self::Address(address),
            Err(_) => Self::Name(portal),
        };
        Some((elsewhere, *permanent))
    }
}

/// Name that a session waits for.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// Index and identity of the session.
    pub(super) nexus: usize,
    pub(super) isid: Isid,
    /// Portal as `host:port`.
    pub(super) portal: String,
    /// Portal that sent the redirection. Of several addresses, one of its family is reached from
    /// this source.
    pub(super) from: SocketAddr,
    pub(super) is_permanent: bool,
}

impl Lookup {
    fn run(&self) -> io::Result<SocketAddr> {
        let found: Vec<SocketAddr> = self.portal.to_socket_addrs()?.collect();
        let mut alike = found.iter();
        let alike = alike.find(|address| address.is_ipv4() == self.from.is_ipv4());
        let any = alike.or(found.first()).copied();
        any.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Adapter {
    /// Looks names up, each on a thread of its own that ends afterwards.
    pub(super) fn look_up(&self, lookups: Vec<Lookup>) {
        for lookup in lookups {
            self.fabric().looking_up += 1;
            let adapter = self.weak();
            let thread = std::thread::Builder::new().name("lookup".into());
            let asked = lookup.clone();
            let begun = thread.spawn(move || {
                let found = asked.run();
                if let Some(adapter) = adapter.upgrade() {
                    adapter.fabric().looked_up(&asked, found);
                    adapter.ring();
                }
            });
            if let Err(error) = begun {
                self.fabric().looked_up(&lookup, Err(error));
            }
        }
    }
}

impl Fabric {
    /// Takes the result of a look-up that a session waits for.
    pub(super) fn looked_up(&mut self, lookup: &Lookup, found: io::Result<SocketAddr>) {
        let now = self.now_us();
        self.looking_up -= 1;
        let Some(nexus) = self.nexuses.get(lookup.nexus) else {
            return;
        };
        // The session may have begun anew meanwhile, or may be another one.
        if nexus.isid != lookup.isid || !matches!(nexus.state, NexusState::Down { .. }) {
            return;
        }
        match found {
            Ok(address) => {
                let nexus = &mut self.nexuses[lookup.nexus];
                nexus.redirected = Some(address);
                if lookup.is_permanent {
                    nexus.moved_to = Some(address);
                }
                nexus.state = NexusState::Down { retry_us: now };
            }
            Err(source) => {
                let portal = lookup.portal.clone();
                self.lose(lookup.nexus, LinkError::Resolve { portal, source });
            }
        }
    }
}
