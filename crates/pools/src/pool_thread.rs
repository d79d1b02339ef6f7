//! Open pool at work. One thread owns the engine and the lane of its devices; all other threads
//! send orders and get answers.
//!
//! Event loops send reads and writes by [`PoolThread::submit`]. The answer reaches their lane like
//! that of any device. Administrators' calls wait for their answers. Only this file and [`Shared`]
//! know how an order reaches the engine. Callers would not notice if the engine were called
//! directly under a lock.
//!
//! Every order is answered. If the engine fails through a defect, all outstanding and later orders
//! are answered with errors. The data on the devices stays unchanged.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use store::cache::Cache;
use store::engine::{Answer, Plan, Pool, PoolError, Request};
use store::format::DatasetId;

use crate::direct::Direct;
use crate::engine::Engine;
use crate::fence::PoolFence;
use crate::import::opened_devices::Devices;
use crate::import::opening::{self, NotOpen};
use crate::order::{self, Asked, Awaiting, Hands, Order, Reply, Slot};
use crate::ownership::Ownership;
use crate::read_ahead::Awaited;
use crate::setup::{Place, Setup};
use crate::shared::{HandedOver, Shared, Shut};
use block::lane::Gathered;
use block::{BlockError, BlockErrorKind, Lane, Submitted, Ticket};
use model::pool::history::Happening;
use process::watchdog::Round;

/// Longest wait for the last writes to the devices of a pool that cannot be opened.
const LAST_WRITES: Duration = Duration::from_secs(10);

/// Requests with which a batch leaves before its turn is over: the engine works on them meanwhile.
const LONGEST_BATCH: usize = 16;

/// Requests that a lane gathers for a pool.
struct ToPool {
    shared: Arc<Shared>,
    requests: Vec<Asked>,
}

impl Gathered for ToPool {
    fn hand_over(self: Box<Self>, lane: &mut Lane) {
        let Self { shared, requests } = *self;
        let remote = lane.remote_of_pool();
        let order = Order::Serve {
            requests,
            lane: remote,
        };
        let Err(order) = shared.try_send(order) else {
            return;
        };
        if let Order::Serve { requests, lane } = *order {
            for asked in requests {
                let context = format!("pool {} is not open any more", shared.name());
                let error = BlockError::new(BlockErrorKind::Gone, context);
                lane.complete(asked.ticket, Err(error));
            }
        }
    }
}

/// Open pool.
pub struct PoolThread {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl PoolThread {
    /// Starts the thread of a pool, and returns once the pool is open.
    ///
    /// # Errors
    /// The pool cannot be created or opened, or the system has no thread or descriptor left.
    pub(super) fn start(name: &str, setup: Setup) -> Result<Self, NotOpen> {
        let failed = |error: std::io::Error| format!("the system cannot start a thread: {error}");
        let (opened, is_open) = channel();
        let (name, thread) = (name.to_owned(), thread_name(name));
        let work = move || {
            let mut devices = match Devices::new(setup.io_uring) {
                Ok(devices) => devices,
                Err(error) => return drop(opened.send(Err(failed(error).into()))),
            };
            let shared = Arc::new(Shared::new(name, &setup, &devices));
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
        self.shared.name()
    }

    /// Reports whether the pool was opened only to be read.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_read_only()
    }

    /// Returns the generation of the configuration that all labels hold, if it is known.
    pub(super) fn generation(&self) -> Option<u64> {
        self.shared.generation()
    }

    /// Returns the cache of the pool's blocks.
    pub fn cache(&self) -> &Arc<Cache> {
        self.shared.cache()
    }

    /// Returns what callers handed to the pool's thread.
    pub(super) fn handed_over(&self) -> HandedOver {
        self.shared.handed_over()
    }

    /// Returns the part of the pool that lanes read beside the engine.
    pub(super) fn direct(&self) -> &Direct {
        self.shared.direct()
    }

    /// Hands a request to the engine whose answer a lane waits for already.
    pub(super) fn submit_pending(
        &self,
        request: Request,
        awaited: Option<Awaited>,
        ticket: Ticket,
        lane: &mut Lane,
    ) {
        lane.uncount_pending();
        self.gather(request, awaited, ticket, lane);
    }

    /// Lets a request leave to the engine with the lane's batch. All requests of a turn share one
    /// passage, and each lane has a list of its own until then, which no other thread touches.
    fn gather(&self, request: Request, awaited: Option<Awaited>, ticket: Ticket, lane: &mut Lane) {
        lane.count_at_pool();
        let key = Arc::as_ptr(&self.shared).addr();
        let ToPool { requests, .. } = lane.gather(key, || ToPool {
            shared: Arc::clone(&self.shared),
            requests: Vec::new(),
        });
        requests.push(Asked {
            request,
            awaited,
            ticket,
        });
        if requests.len() >= LONGEST_BATCH {
            lane.hand_over();
        }
    }

    /// Asks for bytes of a volume to be brought into the cache.
    pub(super) fn read_ahead(&self, dataset: DatasetId, bytes: Range<u64>) {
        // Nobody waits for the read-ahead.
        self.shared.send(Order::ReadAhead { dataset, bytes });
    }

    /// Asks for the leaves of a volume's map for these blocks to be published.
    pub(super) fn publish(&self, dataset: DatasetId, blocks: Range<u64>) {
        // Nobody waits for it.
        self.shared.send(Order::Publish { dataset, blocks });
    }

    /// Hands a request to the engine with the lane's batch. The answer comes to `lane`.
    pub(super) fn submit(
        &self,
        request: Request,
        awaited: Option<Awaited>,
        ticket: Ticket,
        lane: &mut Lane,
    ) -> Submitted {
        self.gather(request, awaited, ticket, lane);
        Submitted::Pending
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
        self.shared.send_unless_opening(|| {
            let turn = round.ask(thread_name(self.name()));
            Order::Ask(Box::new(move |_| drop(turn)))
        });
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
        self.shared.is_over()
    }

    /// Returns how often the pool was let go to be reopened. Each time, writes that were not
    /// promised may be lost.
    pub(super) fn reopenings(&self) -> u64 {
        self.shared.reopenings()
    }

    /// Reports whether this host surely owns the pool. If so, the cached data is current.
    pub(super) fn is_owned(&self) -> bool {
        self.shared.is_owned()
    }

    /// Returns the time for which this host surely owns the pool.
    pub(super) fn ownership(&self) -> &Ownership {
        self.shared.ownership()
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
        self.shared.why_shut()
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

    /// Sends an order that fills in an answer.
    fn begin_answer<T>(&self, order: impl FnOnce(Slot<T>) -> Order) -> Awaiting<T> {
        let (slot, awaiting) = order::answer(&self.shared);
        // An order that is not taken is dropped unanswered.
        self.shared.send(order(slot));
        awaiting
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
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
