//! Open pool at work. One thread owns the engine and the lane of its devices; all other threads
//! send orders and get answers.
//!
//! Event loops send reads and writes by [`PoolThread::submit`]. The answer reaches their lane like
//! that of any device. Administrators' calls wait for their answers. Only this file knows how an
//! order reaches the engine. Callers would not notice if the engine were called directly under a
//! lock.
//!
//! Every order is answered. If the engine fails through a defect, all outstanding and later orders
//! are answered with errors. The data on the devices stays unchanged.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use store::cache::Cache;
use store::format::DatasetId;
use store::pool::{
    Answer, Back, Examined, Plan, Pool, PoolConfig, PoolError, PoolErrorKind, Protection, Request,
};

use super::engine::Engine;
use super::events::EventLog;
use super::fence::{Named, PoolFence};
use crate::devices::disks::Disks;
use crate::devices::identity::Identity;
use crate::engine::unflushed::Unflushed;
use crate::import::damaged::Damaged;
use crate::import::opened_devices::Devices;
use crate::import::opening::{self, NotOpen};
use crate::read_ahead::Awaited;
use block::lane::{Remote, Waker};
use block::{BlockDevice, BlockError, BlockErrorKind, Lane, Submitted, Ticket};
use model::event::{Occurrence, Severity, Teller, Topic};
use model::pool::history::Happening;
use process::watchdog::Round;

/// Longest wait for the last writes to the devices of a pool that cannot be opened.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// Way in which a pool starts.
#[derive(Debug)]
pub(super) enum Begin {
    /// The pool is created.
    Create(Box<PoolConfig>),
    /// The pool is opened.
    Import {
        /// State of the pool according to its labels.
        examined: Box<Examined>,
        /// Number of checkpoints to give up, together with the damaged part, if the pool is to be
        /// rewound.
        back: Option<Back>,
    },
}

/// Input that a pool's thread needs.
#[derive(Debug)]
pub(super) struct Setup {
    /// Way in which the pool starts.
    pub(super) begin: Begin,
    /// Devices by the guids of their leaves and spares. Missing devices are left out.
    pub(super) devices: Vec<(u64, Arc<dyn BlockDevice>)>,
    /// Places of leaves and spares, missing ones included, and the known facts of their devices.
    pub(super) places: BTreeMap<u64, Place>,
    /// Cache for the blocks of this pool's volumes alone.
    pub(super) cache: Arc<Cache>,
    /// Host that has the pool from now on.
    pub(super) host: String,
    /// Whether the pool takes no changes and nothing is written to its devices.
    pub(super) is_read_only: bool,
    /// Protection that a new pool states in its labels: this host has it.
    pub(super) protection: Option<Protection>,
    /// Whether an opened pool keeps stating its protection.
    pub(super) is_protected: bool,
    /// Fence that keeps other hosts from the pool's devices.
    pub(super) fence: Option<PoolFence>,
    /// Whether io_uring is used, if the kernel allows it.
    pub(super) io_uring: bool,
    /// Source of devices.
    pub(super) disks: Disks,
    /// Way to report events of the pool.
    pub(super) events: Teller,
}

/// Place of a leaf or spare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Path of the file or device node.
    pub path: PathBuf,
    /// Reason why the device is not used, or its latest trouble. `None` if all is well.
    pub trouble: Option<String>,
    /// Targets at which another machine's disk was last seen.
    pub targets: Vec<String>,
    /// Newest generation of labels when the pool was opened without the device. `None` once the
    /// device was used again.
    pub missing_at: Option<u64>,
    /// Identity that tells the device from a copy, as of the last time the device was opened.
    pub(super) identity: Option<Identity>,
}

impl Place {
    /// Returns the place of a device that is present.
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            identity: Identity::of(&path),
            path,
            ..Self::default()
        }
    }

    /// Notes that the device is used again, perhaps at a new path.
    pub(super) fn is_back(&mut self, at: Self) {
        *self = Self {
            targets: std::mem::take(&mut self.targets),
            ..at
        };
    }
}

/// State that a pool's thread works with.
pub(super) struct Hands<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) devices: &'a mut Devices,
    pub(super) unflushed: &'a mut Unflushed,
    pub(super) damaged: &'a mut Damaged,
    pub(super) shared: &'a Shared,
    pub(super) now_us: u64,
}

impl Hands<'_> {
    /// Returns the pool's devices and their paths.
    pub(super) fn named_devices(&self) -> Vec<Named> {
        let places = self.shared.places();
        let guids = self.devices.all(|leaf| self.pool.guid(leaf)).into_iter();
        guids
            .filter_map(|(guid, device)| Some((places.get(&guid)?.path.clone(), device)))
            .collect()
    }
}

/// Order to a pool's thread.
pub(super) enum Order {
    /// Request of a volume. The answer goes to the lane that sent it.
    Serve {
        request: Request,
        /// Range that a read waits for.
        awaited: Option<Awaited>,
        ticket: Ticket,
        lane: Remote,
    },
    /// Brings bytes of a volume into the cache.
    ReadAhead {
        dataset: DatasetId,
        bytes: Range<u64>,
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
pub(super) type Reply = Sender<Result<(), PoolError>>;

/// Open pool.
pub struct PoolThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that the thread and its callers share.
pub(super) struct Shared {
    name: String,
    is_read_only: bool,
    cache: Arc<Cache>,
    places: Mutex<BTreeMap<u64, Place>>,
    event_log: Mutex<EventLog>,
    events: Teller,
    reopenings: AtomicU64,
    /// Generation of the configuration that all labels hold, or 0 if it is not known yet.
    generation: AtomicU64,
    shut: Mutex<Option<Shut>>,
    /// Time until which this host surely owns the pool, in microseconds since boot.
    owned_until_us: Arc<AtomicU64>,
    fence: Mutex<Option<PoolFence>>,
    disks: Disks,
    inbox: Mutex<Inbox>,
    /// Whether the inbox holds orders. The flag saves the lock when the inbox is empty, and the
    /// waker when it was already called.
    filled: AtomicBool,
    waker: Waker,
}

/// Reason why a host has no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shut {
    /// Reason, as a sentence without a full stop.
    pub(super) reason: String,
    /// Remedy, as a clause without a full stop.
    pub(super) next: String,
    /// Whether the pool is to be reopened.
    pub(super) is_to_be_reopened: bool,
}

impl Shut {
    /// Describes an engine that failed through a defect.
    pub(super) fn defect(pool: &str) -> Self {
        Self {
            reason: format!("the engine of pool {pool} failed (a defect; the log says where)"),
            next: "keep the daemon's log, restart the daemon, and report this".to_owned(),
            is_to_be_reopened: false,
        }
    }

    /// Describes a pool that stopped because another host has it, or may have it.
    pub(super) fn stopped(pool: &str, reason: &str) -> Self {
        Self {
            reason: format!("pool {pool} is not served any more: {reason}"),
            next: format!(
                "decide which host shall have the pool. To continue on this host, use `sandstone pool clear \
                 {pool}`: it watches the devices, and opens the pool if no other host uses it. To leave the \
                 pool to the other host, use `sandstone pool export {pool}`: this host only forgets it"
            ),
            is_to_be_reopened: true,
        }
    }

    /// Describes a pool that was let go because it took no more changes.
    pub(super) fn suspended(pool: &str, reason: &str) -> Self {
        Self {
            reason: format!("pool {pool} takes no changes and must be reopened: {reason}"),
            next: format!("check its devices, then use `sandstone pool clear {pool}`"),
            is_to_be_reopened: true,
        }
    }
}

/// Place for the answer to one order. All kinds of answers share one type of channel, because each
/// type of channel costs the program 10 KB.
struct Slot<T> {
    value: Arc<Mutex<Option<T>>>,
    filled: Sender<()>,
}

impl<T> Slot<T> {
    fn fill(self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        // The requester may have stopped waiting for the answer.
        let _ = self.filled.send(());
    }
}

/// Answer that was asked for.
#[must_use]
pub(super) struct Awaiting<T> {
    value: Arc<Mutex<Option<T>>>,
    is_filled: Receiver<()>,
    shared: Arc<Shared>,
}

impl<T> Awaiting<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The pool is no longer open, or its engine failed.
    pub(super) fn wait(self) -> Result<T, PoolError> {
        // An order that was dropped unanswered closes the channel and leaves no value.
        let _ = self.is_filled.recv();
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.take().ok_or_else(|| self.shared.ended())
    }
}

#[derive(Default)]
struct Inbox {
    orders: Vec<Order>,
    /// Whether no thread takes orders any more.
    is_ended: bool,
    /// Whether the pool is to be opened anew, until it was.
    is_opening: bool,
}

impl PoolThread {
    /// Starts the thread of a pool, and returns once the pool is open.
    ///
    /// # Errors
    /// The pool cannot be created or opened, or the system has no thread or descriptor left.
    pub(super) fn start(name: &str, setup: Setup) -> Result<Self, NotOpen> {
        let failed = |error: std::io::Error| format!("the system cannot start a thread: {error}");
        let (opened, is_open) = channel();
        let (cache, thread) = (Arc::clone(&setup.cache), thread_name(name));
        let places = Mutex::new(setup.places.clone());
        let (disks, events) = (setup.disks.clone(), setup.events.clone());
        let is_read_only = setup.is_read_only;
        let name = name.to_owned();
        let work = move || {
            let mut devices = match Devices::new(setup.io_uring) {
                Ok(devices) => devices,
                Err(error) => return drop(opened.send(Err(failed(error).into()))),
            };
            let shared = Arc::new(Shared {
                name,
                is_read_only,
                cache,
                places,
                event_log: Mutex::default(),
                events,
                reopenings: AtomicU64::new(0),
                generation: AtomicU64::new(0),
                shut: Mutex::default(),
                owned_until_us: Arc::new(AtomicU64::new(u64::MAX)),
                fence: Mutex::default(),
                disks,
                inbox: Mutex::default(),
                filled: AtomicBool::new(false),
                waker: devices.waker(),
            });
            let fence = setup.fence.clone();
            match opening::open(setup, &mut devices) {
                Ok(pool) => {
                    shared.note_generation(&pool.pool);
                    shared.keep_fence(fence);
                    // If the caller no longer waits, nobody can give orders either.
                    if opened.send(Ok(Arc::clone(&shared))).is_ok() {
                        Engine::new(pool, devices, shared).run();
                    }
                }
                Err(error) => {
                    // Once the caller hears of the failure, it may use the devices for something
                    // else. So nothing may be written to them afterwards.
                    devices.come_to_rest(LAST_WRITES);
                    drop(opened.send(Err(error)));
                }
            }
        };
        let builder = std::thread::Builder::new().name(thread);
        let thread = builder.spawn(work).map_err(failed)?;
        let shared = is_open.recv().unwrap_or_else(|_| {
            let reason = "the opening failed unexpectedly; see the daemon's log";
            Err(reason.to_owned().into())
        })?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Reports whether the pool was opened only to be read.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_read_only
    }

    /// Returns the generation of the configuration that all labels hold, if it is known.
    pub(super) fn generation(&self) -> Option<u64> {
        let generation = self.shared.generation.load(Ordering::Relaxed);
        (generation > 0).then_some(generation)
    }

    /// Returns the cache of the pool's blocks.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.shared.cache
    }

    /// Asks for bytes of a volume to be brought into the cache.
    pub(super) fn read_ahead(&self, dataset: DatasetId, bytes: Range<u64>) {
        // Nobody waits for the read-ahead.
        self.shared.send(Order::ReadAhead { dataset, bytes });
    }

    /// Hands a request to the engine. The answer comes to `lane`.
    pub(super) fn submit(
        &self,
        request: Request,
        awaited: Option<Awaited>,
        ticket: Ticket,
        lane: &mut Lane,
    ) -> Submitted {
        let order = Order::Serve {
            request,
            awaited,
            ticket,
            lane: lane.remote_of_pool(),
        };
        if self.shared.send(order) {
            lane.count_at_pool();
            Submitted::Pending
        } else {
            let context = format!("pool {} is not open any more", self.shared.name);
            Submitted::Ready(Err(BlockError::new(BlockErrorKind::Gone, context)))
        }
    }

    /// Hands a request to the engine. The answer comes through the returned receiver. If the pool
    /// is no longer open, no answer comes.
    pub(super) fn begin(&self, request: Request) -> Receiver<Result<Answer, PoolError>> {
        let (reply, answer) = channel();
        self.shared.send(Order::Stream { request, reply });
        answer
    }

    /// Returns the error of an order that may never be answered.
    pub(super) fn ended(&self) -> PoolError {
        self.shared.ended()
    }

    /// Changes datasets, and waits until the change survives a power cut.
    ///
    /// # Errors
    /// The catalogue refuses the change, or the pool takes no changes.
    pub fn administer(&self, plan: Plan) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::Administer { plan, reply })
    }

    /// Queries the engine.
    ///
    /// # Errors
    /// The pool is no longer open, or its engine failed.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Pool) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        self.begin_ask(question).wait()
    }

    /// Queries the engine, and waits for no answer yet.
    pub(super) fn begin_ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Pool) -> T + Send + 'static,
    ) -> Awaiting<T> {
        self.begin_answer(|slot| Order::Ask(Box::new(move |pool| slot.fill(question(pool)))))
    }

    /// Asks the engine's thread for a turn. A thread that opens the pool anew is not asked, because
    /// that takes as long as its devices need.
    pub(super) fn ask_for_turn(&self, round: &mut Round) {
        let inbox = self.shared.lock();
        if inbox.is_opening {
            return;
        }
        let turn = round.ask(thread_name(&self.shared.name));
        let question = Order::Ask(Box::new(move |_| drop(turn)));
        self.shared.queue(inbox, question);
    }

    /// Runs a piece of work on the engine's thread, with access to the pool and its devices.
    ///
    /// # Errors
    /// The pool is no longer open, or its engine failed.
    pub(super) fn handle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Hands<'_>) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        self.begin_handle(work).wait()
    }

    /// Begins a piece of work as [`Self::handle`] does, and waits for no answer yet.
    pub(super) fn begin_handle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Hands<'_>) -> T + Send + 'static,
    ) -> Awaiting<T> {
        self.begin_answer(|slot| Order::Handle(Box::new(move |hands| slot.fill(work(hands)))))
    }

    /// Waits until all changes of vdevs are in the labels.
    ///
    /// # Errors
    /// The pool takes no changes.
    pub(super) fn sync(&self) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::Sync { reply })
    }

    /// Removes a log vdev once all its promised data lies among the blocks, and waits until the
    /// labels say so.
    ///
    /// # Errors
    /// The vdev is no log vdev, or the pool takes no changes.
    pub(super) fn remove_log(&self, vdev: u16) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::RemoveLog { vdev, reply })
    }

    /// Returns the places of the pool's leaves, spares and caches, by guid.
    pub fn places(&self) -> BTreeMap<u64, Place> {
        self.shared.places().clone()
    }

    /// Notes why a device is not used, and reports whether the reason is new.
    pub(super) fn note_trouble(&self, guid: u64, why: &str) -> bool {
        let mut places = self.shared.places();
        let Some(place) = places.get_mut(&guid) else {
            return false;
        };
        place.trouble.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Returns the latest events of the pool, oldest first.
    pub fn happenings(&self) -> Vec<Happening> {
        self.shared.event_log().all()
    }

    /// Reports whether the engine takes no orders any more, and never will.
    pub(super) fn is_over(&self) -> bool {
        self.shared.lock().is_ended
    }

    /// Returns how often the pool was let go to be reopened. Each time, writes that were not
    /// promised may be lost.
    pub(super) fn reopenings(&self) -> u64 {
        self.shared.reopenings.load(Ordering::Acquire)
    }

    /// Reports whether this host surely owns the pool. If so, the cached data is current.
    pub(super) fn is_owned(&self) -> bool {
        let until_us = self.shared.owned_until_us.load(Ordering::Acquire);
        until_us == u64::MAX || opening::since_boot_us() < until_us
    }

    /// Returns the fence that keeps other hosts from the pool's devices, if there is one.
    pub(super) fn fence(&self) -> Option<PoolFence> {
        self.shared.fence()
    }

    /// Replaces the fence that keeps other hosts from the pool's devices.
    pub(super) fn keep_fence(&self, fence: Option<PoolFence>) {
        self.shared.keep_fence(fence);
    }

    /// Returns the reason why there is no engine, or `None` if there is one.
    pub(super) fn shut(&self) -> Option<Shut> {
        self.shared.lock_shut().clone()
    }

    /// Lets go of a pool that takes no more changes, and of its devices. A pool that was already
    /// let go stays so.
    ///
    /// # Errors
    /// The pool is working, or its devices still owe answers.
    pub(super) fn let_go(&self) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::LetGo { reply })
    }

    /// Notes why a pool that was let go cannot be reopened yet.
    pub(super) fn stay_shut(&self, reason: &str, next: &str) {
        self.shared.shut(Some(Shut {
            reason: reason.to_owned(),
            next: next.to_owned(),
            is_to_be_reopened: true,
        }));
    }

    /// Reopens a pool that was let go. The users of its volumes go on.
    ///
    /// # Errors
    /// The pool cannot be opened, and stays shut for this reason.
    pub(super) fn reopen(&self, setup: Setup) -> Result<(), NotOpen> {
        let (reply, answer) = channel();
        let setup = Box::new(setup);
        let ended = || NotOpen::from(self.ended().context);
        if !self.shared.send(Order::Reopen { setup, reply }) {
            return Err(ended());
        }
        answer.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Writes everything into a last checkpoint and ends. With `is_exported`, the labels then say
    /// that any host may import the pool.
    ///
    /// # Errors
    /// The last writes failed. A pool that was to be exported then stays open.
    pub(super) fn close(&self, is_exported: bool) -> Result<(), PoolError> {
        let closed = self.wait_for(|reply| Order::Close { is_exported, reply });
        if closed.is_ok() || !is_exported {
            self.join();
        }
        closed
    }

    /// Ends at once. Data that is not durable is lost.
    pub(super) fn abandon(&self) {
        self.shared.send(Order::Abandon);
        self.join();
    }

    /// Waits for the value that an order fills in.
    fn begin_answer<T>(&self, order: impl FnOnce(Slot<T>) -> Order) -> Awaiting<T> {
        let (filled, is_filled) = channel();
        let value = Arc::new(Mutex::new(None));
        let slot = Slot {
            value: Arc::clone(&value),
            filled,
        };
        // An order that is not taken is dropped unanswered.
        self.shared.send(order(slot));
        Awaiting {
            value,
            is_filled,
            shared: Arc::clone(&self.shared),
        }
    }

    fn wait_for(&self, order: impl FnOnce(Reply) -> Order) -> Result<(), PoolError> {
        let (reply, answer): (_, Receiver<Result<(), PoolError>>) = channel();
        if !self.shared.send(order(reply)) {
            return Err(self.shared.ended());
        }
        answer.recv().unwrap_or_else(|_| Err(self.shared.ended()))
    }

    fn join(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // A thread that panicked has already said so.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Shared {
    /// Notes the generation that all labels surely hold.
    pub(super) fn note_generation(&self, pool: &Pool) {
        if pool.is_config_durable() {
            let generation = pool.config().generation;
            self.generation.store(generation, Ordering::Relaxed);
        }
    }

    /// Queues an order, and reports whether the thread will take it.
    fn send(&self, order: Order) -> bool {
        self.queue(self.lock(), order)
    }

    fn queue(&self, mut inbox: MutexGuard<'_, Inbox>, order: Order) -> bool {
        if inbox.is_ended {
            return false;
        }
        inbox.is_opening |= matches!(order, Order::Reopen { .. });
        inbox.orders.push(order);
        drop(inbox);
        if !self.filled.swap(true, Ordering::AcqRel) {
            (self.waker)();
        }
        true
    }

    /// Appends the orders that arrived since the last call.
    pub(super) fn take(&self, orders: &mut VecDeque<Order>) {
        if self.filled.swap(false, Ordering::AcqRel) {
            orders.extend(self.lock().orders.drain(..));
        }
    }

    /// Notes that the pool was opened anew, or could not be.
    pub(super) fn end_opening(&self) {
        self.lock().is_opening = false;
    }

    /// Accepts no more orders, and returns those that were not taken.
    pub(super) fn end(&self) -> Vec<Order> {
        let mut inbox = self.lock();
        inbox.is_ended = true;
        std::mem::take(&mut inbox.orders)
    }

    /// Replaces the fence that keeps other hosts from the pool's devices.
    pub(super) fn keep_fence(&self, fence: Option<PoolFence>) {
        if let Some(fence) = &fence {
            fence.follow(&self.owned_until_us);
        }
        *self.lock_fence() = fence;
    }

    /// Returns the fence that keeps other hosts from the pool's devices, if there is one.
    pub(super) fn fence(&self) -> Option<PoolFence> {
        self.lock_fence().clone()
    }

    fn lock_fence(&self) -> MutexGuard<'_, Option<PoolFence>> {
        // Every change is one assignment: a panic leaves nothing half done.
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cache of the pool's blocks.
    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the pool's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the source of devices.
    pub(super) fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Returns the places of leaves and spares.
    pub(super) fn places(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        // Every change is one insertion or removal: a panic leaves nothing half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the log of the pool's events.
    pub(super) fn event_log(&self) -> MutexGuard<'_, EventLog> {
        // One line more or less does no harm.
        self.event_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an event of the pool, and reports it to the daemon.
    pub(super) fn note(&self, severity: Severity, text: &str) {
        self.event_log().note(text);
        let told = Occurrence::new(severity, Topic::Pool, &self.name, text);
        let next = format!("sandstone pool status {}", self.name);
        self.events.tell(match severity {
            Severity::Info => told,
            _ => told.next(next),
        });
    }

    /// Returns the error with which orders are refused.
    pub(super) fn ended(&self) -> PoolError {
        let context = match &*self.lock_shut() {
            Some(shut) => shut.reason.clone(),
            None => format!("pool {} does not answer any more", self.name),
        };
        PoolError::new(PoolErrorKind::Suspended, context)
    }

    /// Notes the reason why there is no engine, or `None` if there is one.
    pub(super) fn shut(&self, why: Option<Shut>) {
        *self.lock_shut() = why;
    }

    fn lock_shut(&self) -> MutexGuard<'_, Option<Shut>> {
        // Every change is one assignment: a panic leaves nothing half done.
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time until which this host surely owns the pool.
    pub(super) fn own_until(&self, since_boot_us: u64) {
        // Only the pool's thread writes the value. Storing an unchanged value would take the cache
        // line from the readers.
        if self.owned_until_us.load(Ordering::Relaxed) != since_boot_us {
            self.owned_until_us.store(since_boot_us, Ordering::Release);
        }
    }

    /// Counts that volumes may have lost writes that were not promised. This happens before any
    /// read can show the loss.
    pub(super) fn count_reopening(&self) {
        self.reopenings.fetch_add(1, Ordering::AcqRel);
    }

    /// Throws out all blocks: no reader may see bytes that the pool's devices may not have.
    pub(super) fn empty_cache(&self) {
        let cap = self.cache.cap();
        self.cache.resize(0);
        self.cache.resize(cap);
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Every change is one push or take: a panic leaves nothing half done.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of a pool's thread.
fn thread_name(pool: &str) -> String {
    format!("pool-{pool}")
}

impl Drop for PoolThread {
    /// Abandons a pool that was not closed. Its next import replays the log.
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for PoolThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolThread")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
