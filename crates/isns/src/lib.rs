//! Registration with iSNS servers: initiators that ask one find the targets without being told
//! their addresses (RFC 4171; the messages are [`iscsi::isns`]).
//!
//! A thread for each configured server, off the event loops, does nothing but keep that server's
//! picture true: a slow or dead server delays nobody.
//!
//! | what | where |
//! |---|---|
//! | which targets and portals are told | `announcement.rs` |
//! | when something is sent, refreshed, tried again | `client.rs` |
//! | one request and its response on a connection | `exchange.rs` |
//! | an initiator asks which targets there are | `finding.rs` |

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

/// How long things may take, and how often they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The Registration Period asked for, in seconds: a server forgets a daemon that was killed
    /// after it.
    pub period_s: u32,
    /// The longest time between looks at what the server has. A third of the period that the server
    /// keeps is a limit too.
    pub refresh: Duration,
    /// After a failure, the time until the next try; doubled with each failure that follows.
    pub retry_min: Duration,
    /// The longest time between tries.
    pub retry_max: Duration,
    /// The most that a connection and one request on it may take.
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

/// Keeps iSNS servers told of the targets.
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

/// What a server's thread is told.
#[derive(Debug)]
enum Order {
    /// Keep this registered.
    Announce(Arc<Announcement>),
    /// Deregister, then end.
    Stop,
}

impl Registrar {
    /// With no server yet.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            clients: Mutex::default(),
        }
    }

    /// Keeps `announcement` registered with exactly these servers; with those that are no longer
    /// among them it is deregistered. Returns at once.
    pub fn announce(&self, servers: &[SocketAddr], announcement: Announcement) {
        let announcement = Arc::new(announcement);
        let mut clients = self.lock();
        clients.retain(|server, client| {
            // One that has ended needs no order.
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
                        tracing::error!(%server, %error, "no thread for an iSNS server");
                        continue;
                    }
                },
            };
            let _ = client.orders.send(Order::Announce(announcement.clone()));
        }
    }

    /// Begins to deregister everywhere.
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
            // A thread that panicked has said so.
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
