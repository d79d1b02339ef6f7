//! Registration with iSNS servers. An initiator that asks such a server finds the targets without
//! knowing their addresses (RFC 4171; the messages are [`iscsi::isns`]).
//!
//! Each configured server has a thread, off the event loops, which only keeps the server's
//! registration up to date. A slow or dead server therefore delays nobody.
//!
//! | subject | where |
//! |---|---|
//! | targets and portals that servers are told | `announcement.rs` |
//! | times of sending, refreshing, trying again | `client.rs` |
//! | one request and its response on a connection | `exchange.rs` |
//! | an initiator's question for targets | `finding.rs` |

mod announcement;
mod client;
mod exchange;
mod finding;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use announcement::{AnnouncedTarget, Announcement};
pub use finding::{FindError, find_targets};

/// Durations and intervals of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Registration Period to request, in seconds. After this time a server forgets a daemon that
    /// was killed.
    pub period_s: u32,
    /// Longest time between checks of the server's registration. A third of the period that the
    /// server keeps is a limit too.
    pub refresh: Duration,
    /// Pause after a failure until the next try. It doubles with each further failure.
    pub retry_min: Duration,
    /// Longest pause between tries.
    pub retry_max: Duration,
    /// Longest time for a connection and one request on it.
    pub exchange: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            period_s: 600,
            refresh: Duration::from_secs(60),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
            exchange: Duration::from_secs(2),
        }
    }
}

/// Registrar that keeps iSNS servers informed of the targets.
#[derive(Debug)]
pub struct Registrar {
    timing: Timing,
    clients: Mutex<BTreeMap<SocketAddr, Client>>,
}

/// The thread of one server.
#[derive(Debug)]
struct Client {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// Order to a server's thread.
#[derive(Debug)]
enum Order {
    /// Keep this registered.
    Announce(Arc<Announcement>),
    /// Deregister, then end.
    Stop,
}

impl Registrar {
    /// Creates a registrar without servers.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            clients: Mutex::default(),
        }
    }

    /// Keeps `announcement` registered with exactly these servers. Deregisters from servers that
    /// are no longer in the list. Returns at once.
    pub fn announce(&self, servers: &[SocketAddr], announcement: Announcement) {
        let announcement = Arc::new(announcement);
        let mut clients = self.lock();
        clients.retain(|server, client| {
            // A thread that has ended needs no order.
            let stays = servers.contains(server) && !client.thread.is_finished();
            if !stays {
                let _ = client.orders.send(Order::Stop);
            }
            stays
        });
        for &server in servers {
            let client = match clients.entry(server) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => match Client::start(server, self.timing) {
                    Ok(client) => entry.insert(client),
                    Err(error) => {
                        tracing::error!(%server, %error, "the thread for an iSNS server could not be started");
                        continue;
                    }
                },
            };
            let _ = client.orders.send(Order::Announce(announcement.clone()));
        }
    }

    /// Begins to deregister from all servers.
    pub fn stop(&self) {
        for client in self.lock().values() {
            let _ = client.orders.send(Order::Stop);
        }
    }

    /// Waits until every server was told, or did not answer in time.
    pub fn join(&self) {
        let clients = std::mem::take(&mut *self.lock());
        for client in clients.into_values() {
            let _ = client.orders.send(Order::Stop);
            // A thread that panicked has already reported it.
            let _ = client.thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    fn start(server: SocketAddr, timing: Timing) -> std::io::Result<Self> {
        let (orders, receiver): (_, Receiver<Order>) = channel();
        let thread = std::thread::Builder::new()
            .name("isns".into())
            .spawn(move || client::run(server, timing, &receiver))?;
        Ok(Self { orders, thread })
    }
}
