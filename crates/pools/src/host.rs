//! An open pool at work: one thread owns the engine and the lane of its devices; everybody else sends
//! orders and gets answers.
//!
//! Event loops send reads and writes by [`PoolHost::submit`]; the answer reaches their lane like that
//! of any device. Administrators' calls wait for theirs. How an order reaches the engine is this
//! file's secret: callers would not notice if the engine were called directly under a lock.
//!
//! Every order is answered: where the engine fails (a defect), what it owed is answered with errors, and
//! so is all that comes later. What is on the devices stays as it was.

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
use crate::engine::read_ahead::Awaited;
use crate::engine::unflushed::Unflushed;
use crate::import::damaged::Damaged;
use crate::import::opened_devices::Devices;
use crate::import::opening::{self, NotOpen};
use block::lane::{Remote, Waker};
use block::{BlockDevice, BlockError, BlockErrorKind, Lane, Submitted, Ticket};
use model::pool::history::Happening;

/// How long the last writes to devices of a pool that cannot be opened may take.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// How a pool comes to be.
#[derive(Debug)]
pub(super) enum Begin {
    /// It is made.
    Create(Box<PoolConfig>),
    /// It is opened.
    Import {
        /// What its labels say.
        examined: Box<Examined>,
        /// Give up what is damaged, and so many checkpoints.
        back: Option<Back>,
    },
}

/// What a pool's thread needs.
#[derive(Debug)]
pub(super) struct Setup {
    /// How it comes to be.
    pub(super) begin: Begin,
    /// The devices by the guids of their leaves and spares; those that are missing are missing.
    pub(super) devices: Vec<(u64, Arc<dyn BlockDevice>)>,
    /// Where leaves and spares are, also those that are missing, and what is known of their devices.
    pub(super) places: BTreeMap<u64, Place>,
    /// Where blocks of its volumes are kept, and no other pool's.
    pub(super) cache: Arc<Cache>,
    /// Who has it from now on.
    pub(super) host: String,
    /// Nothing is written to the devices of a pool that is opened, and it takes no changes.
    pub(super) is_read_only: bool,
    /// How a pool that is made says in its labels that this host has it.
    pub(super) protection: Option<Protection>,
    /// A pool that is opened goes on saying so.
    pub(super) is_protected: bool,
    /// Other hosts are kept from its devices.
    pub(super) fence: Option<PoolFence>,
    /// Use io_uring where the kernel allows it.
    pub(super) io_uring: bool,
    /// Where devices come from.
    pub(super) disks: Disks,
}

/// Where a leaf or spare is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its file or device node.
    pub path: PathBuf,
    /// Why it is not used, or what happened to it last; `None` where all is well.
    pub trouble: Option<String>,
    /// Of another machine's disk, the targets at which it was seen last.
    pub targets: Vec<String>,
    /// The newest generation of labels when the pool was opened without it; `None` where it was used since.
    pub missing_at: Option<u64>,
    /// What tells its device from a copy, as it was when that was opened last.
    pub(super) identity: Option<Identity>,
}

impl Place {
    /// That of a device which is there.
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            identity: Identity::of(&path),
            path,
            ..Self::default()
        }
    }

    /// Its device is used again, and may have another path.
    pub(super) fn is_back(&mut self, at: Self) {
        *self = Self {
            targets: std::mem::take(&mut self.targets),
            ..at
        };
    }
}

/// What a pool's thread works with.
pub(super) struct Hands<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) devices: &'a mut Devices,
    pub(super) unflushed: &'a mut Unflushed,
    pub(super) damaged: &'a mut Damaged,
    pub(super) shared: &'a Shared,
    pub(super) now_us: u64,
}

impl Hands<'_> {
    /// The devices that the pool has, with where they are.
    pub(super) fn named_devices(&self) -> Vec<Named> {
        let places = self.shared.places();
        let guids = self.devices.all(|leaf| self.pool.guid(leaf)).into_iter();
        guids
            .filter_map(|(guid, device)| Some((places.get(&guid)?.path.clone(), device)))
            .collect()
    }
}

/// Something to be done by a pool's thread.
pub(super) enum Order {
    /// A request of a volume; the answer goes to the lane that it came from.
    Serve {
        request: Request,
        /// Of a read.
        awaited: Option<Awaited>,
        ticket: Ticket,
        lane: Remote,
    },
    /// To bring bytes of a volume into the cache.
    ReadAhead {
        dataset: DatasetId,
        bytes: Range<u64>,
    },
    /// A request of a stream; the answer goes to whoever waits for it.
    Stream {
        request: Request,
        reply: Sender<Result<Answer, PoolError>>,
    },
    /// A change of datasets.
    Administer { plan: Plan, reply: Reply },
    /// A question.
    Ask(Box<dyn FnOnce(&Pool) + Send>),
    /// A change of what the pool is made of, or of what it does beside its work.
    Handle(Box<dyn FnOnce(&mut Hands<'_>) + Send>),
    /// Answer when all changes of vdevs until now are in the labels.
    Sync { reply: Reply },
    /// Take a log vdev away; answer when the labels say so.
    RemoveLog { vdev: u16, reply: Reply },
    /// Everything into a last checkpoint, and the end.
    Close { is_exported: bool, reply: Reply },
    /// Let go of a pool that takes no changes any more, and of its devices.
    LetGo { reply: Reply },
    /// Open a pool anew that was let go.
    Reopen {
        setup: Box<Setup>,
        reply: Sender<Result<(), NotOpen>>,
    },
    /// The end, as it is.
    Abandon,
}

/// Where the outcome of an administrator's order goes.
pub(super) type Reply = Sender<Result<(), PoolError>>;

/// An open pool.
pub struct PoolHost {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread and its callers share.
pub(super) struct Shared {
    name: String,
    is_read_only: bool,
    cache: Arc<Cache>,
    places: Mutex<BTreeMap<u64, Place>>,
    event_log: Mutex<EventLog>,
    reopenings: AtomicU64,
    /// The generation of the configuration that is in all labels; 0: not known yet.
    generation: AtomicU64,
    shut: Mutex<Option<Shut>>,
    /// Until when the pool is surely this host's, in microseconds since boot.
    owned_until_us: Arc<AtomicU64>,
    fence: Mutex<Option<PoolFence>>,
    disks: Disks,
    inbox: Mutex<Inbox>,
    /// Spares the lock where there is nothing, and the waker where it was called already.
    filled: AtomicBool,
    waker: Waker,
}

/// Why there is no engine behind a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shut {
    /// A sentence without a full stop.
    pub(super) reason: String,
    /// What to do about it, a clause without a full stop.
    pub(super) next: String,
    /// It is to be opened anew.
    pub(super) is_to_be_reopened: bool,
}

impl Shut {
    /// The engine failed.
    pub(super) fn defect(pool: &str) -> Self {
        Self {
            reason: format!("the engine of pool {pool} failed (a defect; the log says where)"),
            next: "keep the daemon's log, restart the daemon, and report this".to_owned(),
            is_to_be_reopened: false,
        }
    }

    /// Another host has the pool, or may have it.
    pub(super) fn stopped(pool: &str, reason: &str) -> Self {
        Self {
            reason: format!("pool {pool} is not served any more: {reason}"),
            next: format!(
                "find out which host is to have it. To go on here, use `sandstone pool clear {pool}`: it watches the devices, and \
                 opens the pool where no other host uses it. To leave it to the other, use `sandstone pool export {pool}`: \
                 it is only forgotten here"
            ),
            is_to_be_reopened: true,
        }
    }

    /// The pool was let go, since it took no changes any more.
    pub(super) fn suspended(pool: &str, reason: &str) -> Self {
        Self {
            reason: format!("pool {pool} takes no changes, and is to be opened anew: {reason}"),
            next: format!("see to its devices, then use `sandstone pool clear {pool}`"),
            is_to_be_reopened: true,
        }
    }
}

#[derive(Default)]
struct Inbox {
    orders: Vec<Order>,
    /// Nobody takes orders any more.
    is_ended: bool,
}

impl PoolHost {
    /// Starts the thread of a pool; returns when the pool is open.
    ///
    /// # Errors
    /// It cannot be made or opened, or the system has no thread or descriptor left.
    pub(super) fn start(name: &str, setup: Setup) -> Result<Self, NotOpen> {
        let failed = |error: std::io::Error| format!("the system refuses a thread: {error}");
        let (opened, is_open) = channel();
        let (cache, thread_name) = (Arc::clone(&setup.cache), format!("pool-{name}"));
        let places = Mutex::new(setup.places.clone());
        let disks = setup.disks.clone();
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
                    // Nobody waits any more: then nobody has a way to give orders either.
                    if opened.send(Ok(Arc::clone(&shared))).is_ok() {
                        Engine::new(pool, devices, shared).run();
                    }
                }
                Err(error) => {
                    // Whoever hears of it may use the devices otherwise: nothing is written to them after that.
                    devices.come_to_rest(LAST_WRITES);
                    drop(opened.send(Err(error)));
                }
            }
        };
        let builder = std::thread::Builder::new().name(thread_name);
        let thread = builder.spawn(work).map_err(failed)?;
        let shared = is_open.recv().unwrap_or_else(|_| {
            let reason = "opening it failed in a way that nobody foresaw; the log says where";
            Err(reason.to_owned().into())
        })?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether it was opened only to be read.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_read_only
    }

    /// The generation of the configuration that is in all labels; `None` where that is not known.
    pub(super) fn generation(&self) -> Option<u64> {
        let generation = self.shared.generation.load(Ordering::Relaxed);
        (generation > 0).then_some(generation)
    }

    /// Blocks of its volumes that are in memory.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.shared.cache
    }

    /// Has bytes of a volume brought into the cache.
    pub(super) fn read_ahead(&self, dataset: DatasetId, bytes: Range<u64>) {
        // Nobody waits for it.
        self.shared.send(Order::ReadAhead { dataset, bytes });
    }

    /// Hands a request to the engine; the answer comes to `lane`.
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

    /// Hands a request to the engine; the answer comes to whoever keeps what is returned. Where the pool
    /// is not open any more, no answer comes.
    pub(super) fn begin(&self, request: Request) -> Receiver<Result<Answer, PoolError>> {
        let (reply, answer) = channel();
        self.shared.send(Order::Stream { request, reply });
        answer
    }

    /// Why an order may never be answered.
    pub(super) fn ended(&self) -> PoolError {
        self.shared.ended()
    }

    /// Changes datasets; waits until that outlives a power cut.
    ///
    /// # Errors
    /// The catalogue refuses it, or the pool takes no changes.
    pub fn administer(&self, plan: Plan) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::Administer { plan, reply })
    }

    /// Asks the engine.
    ///
    /// # Errors
    /// The pool is not open any more, or its engine failed.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Pool) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (reply, answer) = channel();
        // Nobody may wait for the answer any more.
        let ask = Box::new(move |pool: &Pool| drop(reply.send(question(pool))));
        if !self.shared.send(Order::Ask(ask)) {
            return Err(self.shared.ended());
        }
        answer.recv().map_err(|_| self.shared.ended())
    }

    /// Lets the engine's thread do something to the pool and its devices.
    ///
    /// # Errors
    /// The pool is not open any more, or its engine failed.
    pub(super) fn handle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Hands<'_>) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (reply, answer) = channel();
        // Nobody may wait for the answer any more.
        let handle = Box::new(move |hands: &mut Hands<'_>| drop(reply.send(work(hands))));
        if !self.shared.send(Order::Handle(handle)) {
            return Err(self.shared.ended());
        }
        answer.recv().map_err(|_| self.shared.ended())
    }

    /// Waits until all changes of vdevs are in the labels.
    ///
    /// # Errors
    /// The pool takes no changes.
    pub(super) fn sync(&self) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::Sync { reply })
    }

    /// Takes a log vdev away, when all that it promised lies among the blocks; waits until the labels say so.
    ///
    /// # Errors
    /// It is none, or the pool takes no changes.
    pub(super) fn remove_log(&self, vdev: u16) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::RemoveLog { vdev, reply })
    }

    /// Where its leaves, spares and caches are, by their guids.
    pub fn places(&self) -> BTreeMap<u64, Place> {
        self.shared.places().clone()
    }

    /// Notes why a device is not used; whether that is another reason than before.
    pub(super) fn note_trouble(&self, guid: u64, why: &str) -> bool {
        let mut places = self.shared.places();
        let Some(place) = places.get_mut(&guid) else {
            return false;
        };
        place.trouble.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// What happened to it lately, oldest first.
    pub fn happenings(&self) -> Vec<Happening> {
        self.shared.event_log().all()
    }

    /// Whether it takes no orders any more, and never will.
    pub(super) fn is_over(&self) -> bool {
        self.shared.lock().is_ended
    }

    /// How often it was let go to be opened anew: what was not promised may be lost each time.
    pub(super) fn reopenings(&self) -> u64 {
        self.shared.reopenings.load(Ordering::Acquire)
    }

    /// Whether the pool is surely this host's: what is in memory of it is true.
    pub(super) fn is_owned(&self) -> bool {
        let until_us = self.shared.owned_until_us.load(Ordering::Acquire);
        until_us == u64::MAX || opening::since_boot_us() < until_us
    }

    /// By what other hosts are kept from its devices; `None`: they are not.
    pub(super) fn fence(&self) -> Option<PoolFence> {
        self.shared.fence()
    }

    /// Keeps other hosts from its devices by this from now on.
    pub(super) fn keep_fence(&self, fence: Option<PoolFence>) {
        self.shared.keep_fence(fence);
    }

    /// Why there is no engine behind it; `None` where there is one.
    pub(super) fn shut(&self) -> Option<Shut> {
        self.shared.lock_shut().clone()
    }

    /// Lets go of a pool that takes no changes any more, and of its devices; of one that was let go, nothing.
    ///
    /// # Errors
    /// It is at work, or its devices have not answered all that they were asked.
    pub(super) fn let_go(&self) -> Result<(), PoolError> {
        self.wait_for(|reply| Order::LetGo { reply })
    }

    /// A pool that was let go cannot be opened anew yet.
    pub(super) fn stay_shut(&self, reason: &str, next: &str) {
        self.shared.shut(Some(Shut {
            reason: reason.to_owned(),
            next: next.to_owned(),
            is_to_be_reopened: true,
        }));
    }

    /// Opens a pool anew that was let go: whoever uses its volumes goes on.
    ///
    /// # Errors
    /// It cannot be opened, and stays shut for this reason.
    pub(super) fn reopen(&self, setup: Setup) -> Result<(), NotOpen> {
        let (reply, answer) = channel();
        let setup = Box::new(setup);
        let ended = || NotOpen::from(self.ended().context);
        if !self.shared.send(Order::Reopen { setup, reply }) {
            return Err(ended());
        }
        answer.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Writes everything into a last checkpoint and ends; with `is_exported` the labels then say that any
    /// host may import the pool.
    ///
    /// # Errors
    /// That could not be written. Where it was to be exported, the pool stays open then.
    pub(super) fn close(&self, is_exported: bool) -> Result<(), PoolError> {
        let closed = self.wait_for(|reply| Order::Close { is_exported, reply });
        if closed.is_ok() || !is_exported {
            self.join();
        }
        closed
    }

    /// Ends at once: what was not durable is lost.
    pub(super) fn abandon(&self) {
        self.shared.send(Order::Abandon);
        self.join();
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
        // One that panicked has said so.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Shared {
    /// Notes what the labels say for sure.
    pub(super) fn note_generation(&self, pool: &Pool) {
        if pool.is_config_durable() {
            let generation = pool.config().generation;
            self.generation.store(generation, Ordering::Relaxed);
        }
    }

    /// Leaves an order; whether anybody will take it.
    fn send(&self, order: Order) -> bool {
        let mut inbox = self.lock();
        if inbox.is_ended {
            return false;
        }
        inbox.orders.push(order);
        drop(inbox);
        if !self.filled.swap(true, Ordering::AcqRel) {
            (self.waker)();
        }
        true
    }

    /// Appends the orders that came since the last call.
    pub(super) fn take(&self, orders: &mut VecDeque<Order>) {
        if self.filled.swap(false, Ordering::AcqRel) {
            orders.extend(self.lock().orders.drain(..));
        }
    }

    /// No orders from now on; returns those that nobody took.
    pub(super) fn end(&self) -> Vec<Order> {
        let mut inbox = self.lock();
        inbox.is_ended = true;
        std::mem::take(&mut inbox.orders)
    }

    /// Keeps other hosts from the pool's devices by this from now on.
    pub(super) fn keep_fence(&self, fence: Option<PoolFence>) {
        if let Some(fence) = &fence {
            fence.follow(&self.owned_until_us);
        }
        *self.lock_fence() = fence;
    }

    /// By what other hosts are kept from its devices; `None`: they are not.
    pub(super) fn fence(&self) -> Option<PoolFence> {
        self.lock_fence().clone()
    }

    fn lock_fence(&self) -> MutexGuard<'_, Option<PoolFence>> {
        // Every change is one assignment: a panic leaves nothing halfway.
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks of its volumes that are in memory.
    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The pool's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where devices come from.
    pub(super) fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Where leaves and spares are.
    pub(super) fn places(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        // Every change is one insertion or removal: a panic leaves nothing halfway.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened to the pool.
    pub(super) fn event_log(&self) -> MutexGuard<'_, EventLog> {
        // A line more or less is no harm.
        self.event_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Why orders are not obeyed.
    pub(super) fn ended(&self) -> PoolError {
        let context = match &*self.lock_shut() {
            Some(shut) => shut.reason.clone(),
            None => format!("pool {} does not answer any more", self.name),
        };
        PoolError::new(PoolErrorKind::Suspended, context)
    }

    /// Says why there is no engine; `None`: there is one.
    pub(super) fn shut(&self, why: Option<Shut>) {
        *self.lock_shut() = why;
    }

    fn lock_shut(&self) -> MutexGuard<'_, Option<Shut>> {
        // Every change is one assignment: a panic leaves nothing halfway.
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says until when the pool is surely this host's.
    pub(super) fn own_until(&self, since_boot_us: u64) {
        // Only the pool's thread writes it. A store of what is there already would take the line from those who read.
        if self.owned_until_us.load(Ordering::Relaxed) != since_boot_us {
            self.owned_until_us.store(since_boot_us, Ordering::Release);
        }
    }

    /// Says that volumes may have lost what was not promised; before anything is read that shows it.
    pub(super) fn count_reopening(&self) {
        self.reopenings.fetch_add(1, Ordering::AcqRel);
    }

    /// Throws out all blocks: nobody may see what the pool's devices may not have.
    pub(super) fn empty_cache(&self) {
        let cap = self.cache.cap();
        self.cache.resize(0);
        self.cache.resize(cap);
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Every change is one push or take: a panic leaves nothing halfway.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PoolHost {
    /// What was not closed is abandoned: its next import follows the log.
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for PoolHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolHost")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
