//! Orders to a pool's thread, and the answers that callers wait for.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use store::engine::{Answer, Plan, Pool, PoolError, Request};
use store::format::DatasetId;

use crate::engine::unflushed::Unflushed;
use crate::fence::Named;
use crate::import::damaged::Damaged;
use crate::import::opened_devices::Devices;
use crate::import::opening::NotOpen;
use crate::read_ahead::Awaited;
use crate::setup::Setup;
use crate::shared::Shared;
use block::Ticket;
use block::lane::Remote;

/// State that a pool's thread works with.
pub(crate) struct Hands<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) devices: &'a mut Devices,
    pub(crate) unflushed: &'a mut Unflushed,
    pub(crate) damaged: &'a mut Damaged,
    pub(crate) shared: &'a Shared,
    pub(crate) now_us: u64,
}

impl Hands<'_> {
    /// Returns the pool's devices and their paths.
    pub(crate) fn named_devices(&self) -> Vec<Named> {
        let places = self.shared.places();
        let guids = self.devices.all(|leaf| self.pool.guid(leaf)).into_iter();
        guids
            .filter_map(|(guid, device)| Some((places.get(&guid)?.path.clone(), device)))
            .collect()
    }
}

/// Request of a volume that a lane sent.
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// Range that a read waits for.
    pub(crate) awaited: Option<Awaited>,
    pub(crate) ticket: Ticket,
}

/// Order to a pool's thread.
pub(crate) enum Order {
    /// Requests of volumes. The answers go to the lane that sent them.
    Serve { requests: Vec<Asked>, lane: Remote },
    /// Brings bytes of a volume into the cache.
    ReadAhead {
        dataset: DatasetId,
        bytes: Range<u64>,
    },
    /// Brings the leaves of a volume's map for these blocks, and publishes them.
    Publish {
        dataset: DatasetId,
        blocks: Range<u64>,
    },
    /// Request of a stream. The answer goes to the stream's thread.
    Stream {
        request: Request,
        reply: Sender<Result<Answer, PoolError>>,
    },
    /// Change of datasets.
    Administer { plan: Plan, reply: Reply },
    /// Query.
    Ask(Box<dyn FnOnce(&Pool) + Send>),
    /// Change of the pool's devices, or of its background work.
    Handle(Box<dyn FnOnce(&mut Hands<'_>) + Send>),
    /// Answers once all earlier changes of vdevs are in the labels.
    Sync { reply: Reply },
    /// Removes a log vdev, and answers once the labels say so.
    RemoveLog { vdev: u16, reply: Reply },
    /// Writes everything into a last checkpoint and ends.
    Close { is_exported: bool, reply: Reply },
    /// Lets go of a pool that takes no more changes, and of its devices.
    LetGo { reply: Reply },
    /// Reopens a pool that was let go.
    Reopen {
        setup: Box<Setup>,
        reply: Sender<Result<(), NotOpen>>,
    },
    /// Ends at once, with nothing more written.
    Abandon,
}

/// Channel for the outcome of an administrator's order.
pub(crate) type Reply = Sender<Result<(), PoolError>>;

/// Place for the answer to one order. All kinds of answers share one type of channel, because each
/// type of channel costs the program 10 KB.
pub(crate) struct Slot<T> {
    value: Arc<Mutex<Option<T>>>,
    filled: Sender<()>,
}

impl<T> Slot<T> {
    pub(crate) fn fill(self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        // The requester may have stopped waiting for the answer.
        let _ = self.filled.send(());
    }
}

/// Makes a place for an answer, and what waits for it.
pub(crate) fn answer<T>(shared: &Arc<Shared>) -> (Slot<T>, Awaiting<T>) {
    let (filled, is_filled) = channel();
    let value = Arc::new(Mutex::new(None));
    let slot = Slot {
        value: Arc::clone(&value),
        filled,
    };
    let awaiting = Awaiting {
        value,
        is_filled,
        shared: Arc::clone(shared),
    };
    (slot, awaiting)
}

/// Answer that was asked for.
#[must_use]
pub(crate) struct Awaiting<T> {
    value: Arc<Mutex<Option<T>>>,
    is_filled: Receiver<()>,
    shared: Arc<Shared>,
}

impl<T> Awaiting<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The pool is no longer open, or its engine failed.
    pub(crate) fn wait(self) -> Result<T, PoolError> {
        // An order that was dropped unanswered closes the channel and leaves no value.
        let _ = self.is_filled.recv();
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.take().ok_or_else(|| self.shared.ended())
    }
}
