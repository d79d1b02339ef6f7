//! State that all event loops share: the directory, the registry of sessions, the memory budget,
//! and the way to each other.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::{fmt, io};

use scsi::logical_unit::LogicalUnit;
use scsi::nexus::TargetPort;

use super::directory::Directory;
use super::message::{AbortOrder, Function, Message};
use crate::connection::dealer::Dealer;
use crate::connection::tcp_counts::PortalCounts;
use crate::session::registry::Registry;
use block::budget::Budget;
use model::event::Teller;
use model::figures::PortGroupFigures;
use unit::command::peers::Peers;
use unit::loops::{Loops, Seat};
use unit::timing::tally::PortGroupTally;
use unit::unit::Unit;

/// Way to one event loop.
pub(super) struct LoopHandle {
    sender: Mutex<Sender<Message>>,
    waker: mio::Waker,
}

impl LoopHandle {
    /// Returns a handle made of the loop's own parts.
    pub(super) fn new(sender: Sender<Message>, waker: mio::Waker) -> Self {
        Self {
            sender: Mutex::new(sender),
            waker,
        }
    }

    fn send(&self, message: Message) {
        // A loop that has ended needs no messages.
        let _ = self
            .sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(message);
        let _ = self.waker.wake();
    }

    /// Wakes the loop without a message, because a block request finished.
    pub(super) fn wake(&self) {
        let _ = self.waker.wake();
    }
}

/// Limits of the whole daemon.
#[derive(Clone, Copy, Debug)]
pub struct DaemonLimits {
    /// Most sessions in all.
    pub max_sessions: usize,
    /// Most connections that have not logged in. Each loop has its equal part.
    pub max_logins: usize,
    /// Most time that a login may take.
    pub login_timeout: std::time::Duration,
    /// Time that a session may leave data that it owes, or that waits for it, while memory is
    /// short. At any other time, a connection may leave owed data twice as long.
    pub stall_timeout: std::time::Duration,
    /// Most bytes in flight: data-out being collected and data-in being sent.
    pub memory: u64,
}

/// State that all event loops share.
pub(super) struct Shared {
    directory: RwLock<Arc<Directory>>,
    registry: Mutex<Registry>,
    loops: Vec<LoopHandle>,
    /// Dealer that gives each new connection to a loop.
    pub dealer: Arc<Dealer>,
    /// TCP segments of each portal.
    pub portal_counts: PortalCounts,
    /// Memory for data in flight.
    pub budget: Arc<Budget>,
    /// Limits of the daemon.
    pub limits: DaemonLimits,
    /// Way to report logins and ends of sessions.
    pub events: Teller,
    /// Loops of all protocols that serve the units.
    pub serving: Arc<Loops>,
    /// Places of these event loops in `serving`.
    seats: Vec<Seat>,
    /// Times of commands by target and portal group tag, since the daemon began.
    port_group_tallies: Mutex<BTreeMap<(String, u16), Arc<PortGroupTally>>>,
}

/// Runs the commands of one event loop.
pub(super) type Core = unit::command::core::Core<Shared>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("loops", &self.loops.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns the state for these loops, without any configuration yet.
    ///
    /// # Errors
    /// The loops are too many.
    pub(super) fn new(
        loops: Vec<LoopHandle>,
        limits: DaemonLimits,
        events: Teller,
    ) -> io::Result<Arc<Self>> {
        let serving = Loops::new();
        let shared = Arc::new_cyclic(|weak: &Weak<Self>| {
            let join = |index| {
                let weak = weak.clone();
                serving.join(move |call| {
                    if let Some(shared) = weak.upgrade() {
                        shared.send(index, Message::Call(call));
                    }
                })
            };
            Self {
                directory: RwLock::default(),
                registry: Mutex::default(),
                dealer: Dealer::new(loops.len()),
                seats: (0..loops.len()).map_while(join).collect(),
                serving: Arc::clone(&serving),
                port_group_tallies: Mutex::default(),
                portal_counts: PortalCounts::default(),
                loops,
                budget: Budget::new(limits.memory, limits.max_sessions),
                limits,
                events,
            }
        });
        if shared.seats.len() < shared.loops.len() {
            let most = shared.seats.len();
            return Err(io::Error::other(format!(
                "at most {most} event loops are possible: choose fewer threads"
            )));
        }
        Ok(shared)
    }

    /// Returns the current snapshot of the configuration.
    pub(super) fn directory(&self) -> Arc<Directory> {
        self.directory
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the name of a target as it is configured. An initiator need not know that spelling.
    pub(super) fn target_name(&self, told: &str) -> String {
        let directory = self.directory();
        let target = directory.config.target(told);
        target.map_or(told, |target| &target.iqn).to_owned()
    }

    /// Replaces the snapshot and tells every loop.
    pub(super) fn set_directory(&self, directory: Arc<Directory>) {
        *self
            .directory
            .write()
            .unwrap_or_else(PoisonError::into_inner) = directory.clone();
        self.send_to_all(|| Message::Reconfigure(directory.clone()));
    }

    /// Locks and returns the registry of sessions.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tally of a target port, which is made if it is the first time.
    pub(super) fn port_group_tally(&self, port: &TargetPort) -> Arc<PortGroupTally> {
        let key = (port.name.clone(), port.portal_group_tag);
        let mut tallies = self.port_group_tallies.lock();
        let tallies = tallies
            .as_mut()
            .unwrap_or_else(|poisoned| poisoned.get_mut());
        Arc::clone(tallies.entry(key).or_default())
    }

    /// Returns the figures of all port groups that had sessions. Groups of targets that are gone
    /// are forgotten, once they have no session left.
    pub(super) fn port_group_figures(&self) -> Vec<PortGroupFigures> {
        let config = Arc::clone(&self.directory().config);
        let mut tallies = self.port_group_tallies.lock();
        let tallies = tallies
            .as_mut()
            .unwrap_or_else(|poisoned| poisoned.get_mut());
        tallies.retain(|(target, _), tally| {
            Arc::strong_count(tally) > 1 || config.target(target).is_some()
        });
        let figures = tallies
            .iter()
            .map(|((target, tag), tally)| PortGroupFigures {
                target: target.clone(),
                portal_group: *tag,
                totals: tally.totals(),
                failures: tally.failures(),
                latency: tally.latency(),
            });
        figures.collect()
    }

    /// Returns the number of loops.
    pub(super) fn loops(&self) -> usize {
        self.loops.len()
    }

    /// Wakes a loop without a message.
    pub(super) fn wake_loop(&self, index: usize) {
        self.loops[index].wake();
    }

    /// Sends a message to a loop.
    pub(super) fn send(&self, index: usize, message: Message) {
        self.loops[index].send(message);
    }

    /// Sends a message to every loop.
    pub(super) fn send_to_all(&self, mut message: impl FnMut() -> Message) {
        self.loops.iter().for_each(|handle| handle.send(message()));
    }
}

impl Peers for Shared {
    type Function = Function;

    fn loops(&self) -> &Arc<Loops> {
        &self.serving
    }

    fn abort(&self, but: usize, order: &Arc<AbortOrder>) {
        let others = self.loops.iter().enumerate();
        let others = others.filter(|(other, _)| *other != but);
        others.for_each(|(_, handle)| handle.send(Message::Abort(Arc::clone(order))));
    }

    fn unit_of(&self, logical: &Arc<LogicalUnit>) -> Option<Arc<Unit>> {
        let directory = self.directory();
        directory
            .units
            .values()
            .find(|unit| Arc::ptr_eq(&unit.logical, logical))
            .cloned()
    }
}
