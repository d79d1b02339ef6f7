//! What all event loops share: the directory, the registry of sessions, the memory budget, and the
//! way to each other.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::{fmt, io};

use scsi::logical_unit::LogicalUnit;

use super::directory::Directory;
use super::message::{AbortOrder, Function, Message};
use crate::connection::dealer::Dealer;
use crate::session::registry::Registry;
use block::budget::Budget;
use scsi::task_set::Wake;
use unit::command::peers::Peers;
use unit::loops::{Loops, Seat};
use unit::transition::DrainOrder;
use unit::unit::Unit;

/// The way to one event loop.
pub(super) struct LoopHandle {
    sender: Mutex<Sender<Message>>,
    waker: mio::Waker,
}

impl LoopHandle {
    /// From the loop's own parts.
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

    /// Wakes the loop without a message (a block request finished).
    pub(super) fn wake(&self) {
        let _ = self.waker.wake();
    }
}

/// Limits of the whole daemon.
#[derive(Clone, Copy, Debug)]
pub struct DaemonLimits {
    /// Sessions in all.
    pub max_sessions: usize,
    /// Connections that have not logged in; each loop has its equal part.
    pub max_logins: usize,
    /// How long a login may take.
    pub login_timeout: std::time::Duration,
    /// How long a session may leave data that it owes, or that waits for it, while memory is short;
    /// twice as long may a connection leave what it owes at any time.
    pub stall_timeout: std::time::Duration,
    /// Bytes in flight: data-out being collected and data-in being sent.
    pub memory: u64,
}

/// What all event loops share.
pub(super) struct Shared {
    directory: RwLock<Arc<Directory>>,
    registry: Mutex<Registry>,
    loops: Vec<LoopHandle>,
    /// Which loop gets a new connection.
    pub dealer: Arc<Dealer>,
    /// Memory for data in flight.
    pub budget: Arc<Budget>,
    /// Limits.
    pub limits: DaemonLimits,
    /// Loops of whatever protocol that serve the units.
    pub serving: Arc<Loops>,
    /// The loops' places among those.
    seats: Vec<Seat>,
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
    /// For these loops; nothing is configured yet.
    ///
    /// # Errors
    /// There are too many loops.
    pub(super) fn new(loops: Vec<LoopHandle>, limits: DaemonLimits) -> io::Result<Arc<Self>> {
        let serving = Loops::new();
        let shared = Arc::new_cyclic(|weak: &Weak<Self>| {
            let join = |index| {
                let weak = weak.clone();
                serving.join(move |token| {
                    if let Some(shared) = weak.upgrade() {
                        shared.send(index, Message::Wake(token));
                    }
                })
            };
            Self {
                directory: RwLock::default(),
                registry: Mutex::default(),
                dealer: Dealer::new(loops.len()),
                seats: (0..loops.len()).map_while(join).collect(),
                serving: Arc::clone(&serving),
                loops,
                budget: Budget::new(limits.memory, limits.max_sessions),
                limits,
            }
        });
        if shared.seats.len() < shared.loops.len() {
            let most = shared.seats.len();
            return Err(io::Error::other(format!(
                "there can be no more than {most} event loops: choose fewer threads"
            )));
        }
        Ok(shared)
    }

    /// The current snapshot of the configuration.
    pub(super) fn directory(&self) -> Arc<Directory> {
        self.directory
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The name of a target as it is configured, whose spelling an initiator need not know.
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

    /// The sessions.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many loops there are.
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

    fn wake(&self) -> Wake {
        self.serving.wake()
    }

    fn abort(&self, but: usize, order: &Arc<AbortOrder>) {
        let others = self.loops.iter().enumerate();
        let others = others.filter(|(other, _)| *other != but);
        others.for_each(|(_, handle)| handle.send(Message::Abort(Arc::clone(order))));
    }

    fn drain(&self, order: &DrainOrder) {
        self.send_to_all(|| Message::Drain(order.clone()));
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
