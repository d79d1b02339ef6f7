//! The thread of one iSNS server. It registers, refreshes before the registration period ends,
//! tries again with growing pauses, and deregisters at the end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use iscsi::isns::{Message, Registration, Response, Status};

use super::announcement::{Announcement, interface_addresses};
use super::exchange::Connection;
use super::{Order, Timing};

/// Carries out orders until [`Order::Stop`].
pub(super) fn run(server: SocketAddr, timing: Timing, orders: &Receiver<Order>) {
    let mut client = Client {
        server,
        timing,
        wanted: Arc::default(),
        registered: None,
        // A killed daemon may have left an unknown registration behind.
        dirty: true,
        failures: 0,
        period_s: timing.period_s,
        transaction_id: 0,
    };
    let mut due = None;
    loop {
        let order = match due {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => {
                orders.recv_timeout(Instant::saturating_duration_since(&due, Instant::now()))
            }
        };
        match order {
            Ok(Order::Announce(wanted)) => client.wanted = wanted,
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return client.withdraw(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // If several orders wait, only the last counts.
        for order in orders.try_iter() {
            match order {
                Order::Announce(wanted) => client.wanted = wanted,
                Order::Stop => return client.withdraw(),
            }
        }
        due = client.work().map(|pause| Instant::now() + pause);
    }
}

struct Client {
    server: SocketAddr,
    timing: Timing,
    wanted: Arc<Announcement>,
    /// Registration that the server has, as far as this client knows.
    registered: Option<Registration>,
    /// Whether the server may have a registration that differs from `registered`.
    dirty: bool,
    /// Number of failed tries since the last success.
    failures: u32,
    /// Registration period that the server keeps.
    period_s: u32,
    transaction_id: u16,
}

/// Reason why a try failed.
#[derive(Debug)]
enum Failure {
    Connection(io::Error),
    Refused(&'static str, Status),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Refused(what, status) => write!(f, "{what} was refused: {status}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl Client {
    /// Updates the server's registration. Returns the pause until the next call; `None` when
    /// nothing is left to do.
    fn work(&mut self) -> Option<Duration> {
        if self.wanted.targets.is_empty() && self.registered.is_none() {
            return None;
        }
        match self.reconcile() {
            Ok(()) => {
                if self.failures > 0 {
                    tracing::info!(server = %self.server, "the iSNS server answers again");
                }
                self.failures = 0;
                let third = Duration::from_secs(u64::from(self.period_s)) / 3;
                let refresh = match self.period_s {
                    0 => self.timing.refresh,
                    _ => self.timing.refresh.min(third),
                };
                self.registered
                    .is_some()
                    .then(|| refresh.max(self.timing.retry_min))
            }
            Err(failure) => {
                // Nobody knows which parts of a failed request arrived.
                self.dirty = true;
                let pause = self.timing.retry_min * 2_u32.saturating_pow(self.failures.min(16));
                let pause = pause.min(self.timing.retry_max);
                if self.failures == 0 {
                    tracing::warn!(server = %self.server, error = %failure, "the targets cannot be registered with the iSNS server; trying again");
                } else {
                    tracing::debug!(server = %self.server, error = %failure, ?pause, "the registration with the iSNS server still fails");
                }
                self.failures = self.failures.saturating_add(1);
                Some(pause)
            }
        }
    }

    fn reconcile(&mut self) -> Result<(), Failure> {
        let mut connection = Connection::open(self.server, self.timing.exchange)?;
        let local = connection.local()?;
        let wanted = self
            .wanted
            .registration(local, &interface_addresses(), self.timing.period_s);
        match self.registered.clone() {
            _ if wanted.is_empty() => self.deregister(&mut connection),
            Some(registered) if !self.dirty && registered == wanted => {
                self.refresh(&mut connection, &wanted)
            }
            Some(registered) if !self.dirty => self.change(&mut connection, &registered, wanted),
            _ => self.register(&mut connection, wanted, true),
        }
    }

    /// Registers everything (DevAttrReg).
    fn register(
        &mut self,
        connection: &mut Connection,
        wanted: Registration,
        replace: bool,
    ) -> Result<(), Failure> {
        let source = self.source(&wanted);
        let request = wanted.register(&source, replace, self.next_transaction());
        let response = ask(connection, &request)?;
        accept("the registration", &response)?;
        self.period_s = response.period_s.unwrap_or(self.timing.period_s);
        tracing::info!(
            server = %self.server, targets = wanted.nodes.len(), portals = wanted.portals.len(),
            period_s = self.period_s, "registered with the iSNS server"
        );
        self.registered = Some(wanted);
        self.dirty = false;
        Ok(())
    }

    /// Changes one registration to another, and keeps the parts that stay. Initiators that are
    /// notified of changes hear of real changes only.
    fn change(
        &mut self,
        connection: &mut Connection,
        registered: &Registration,
        wanted: Registration,
    ) -> Result<(), Failure> {
        let source = self.source(&wanted);
        self.register(connection, wanted.clone(), false)?;
        let transaction = self.next_transaction();
        if let Some(request) = registered.deregister_gone(&wanted, &source, transaction) {
            accept("the deregistration", &ask(connection, &request)?)?;
        }
        Ok(())
    }

    /// Gives a sign of life, and checks whether the server still has everything. The server may
    /// have been restarted without its database, or its database may have been cleared.
    fn refresh(
        &mut self,
        connection: &mut Connection,
        wanted: &Registration,
    ) -> Result<(), Failure> {
        let source = self.source(wanted);
        let request = wanted.query(&source, self.next_transaction());
        let response = ask(connection, &request)?;
        if response.status == Status::SUCCESSFUL && response.holds(wanted) {
            return Ok(());
        }
        // A node in no discovery domain sees nothing, not even itself. So this may be no loss, and
        // nothing is replaced.
        self.register(connection, wanted.clone(), false)
    }

    fn deregister(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let Some(registered) = self.registered.clone() else {
            return Ok(());
        };
        let source = self.source(&registered);
        let request = registered.deregister(&source, self.next_transaction());
        accept("the deregistration", &ask(connection, &request)?)?;
        tracing::info!(server = %self.server, "deregistered from the iSNS server");
        self.registered = None;
        Ok(())
    }

    /// Deregisters, as the client's last act. It tries once, and takes no longer than one exchange
    /// beyond the connection.
    fn withdraw(mut self) {
        if self.registered.is_none() {
            return;
        }
        let done = Connection::open(self.server, self.timing.exchange)
            .map_err(Failure::from)
            .and_then(|mut connection| self.deregister(&mut connection));
        if let Err(error) = done {
            tracing::warn!(
                server = %self.server, %error, period_s = self.period_s,
                "the targets could not be deregistered; the iSNS server forgets them after the registration period"
            );
        }
    }

    /// Returns the node that speaks (the Source Attribute). Servers take changes of an entity only
    /// from a node of the entity. So the node must be registered already, and if possible it is one
    /// that stays.
    fn source(&self, wanted: &Registration) -> String {
        let wanted_names = wanted.nodes.iter().map(|node| &node.name);
        let Some(registered) = &self.registered else {
            return wanted_names.take(1).cloned().collect();
        };
        let stays = wanted_names
            .into_iter()
            .find(|name| registered.nodes.iter().any(|node| node.name == **name));
        let known = registered.nodes.iter().map(|node| &node.name);
        stays.into_iter().chain(known).take(1).cloned().collect()
    }

    fn next_transaction(&mut self) -> u16 {
        self.transaction_id = self.transaction_id.wrapping_add(1);
        self.transaction_id
    }
}

fn ask(connection: &mut Connection, request: &Message) -> Result<Response, Failure> {
    Ok(connection.exchange(request)?)
}

fn accept(what: &'static str, response: &Response) -> Result<(), Failure> {
    if response.status == Status::SUCCESSFUL {
        return Ok(());
    }
    Err(Failure::Refused(what, response.status))
}
