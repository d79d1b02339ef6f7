//! State that a pool's thread shares with its callers: the inbox of orders, and facts about the
//! pool that need no question to the thread.

mod event_log;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::cache::Cache;
use store::engine::{Pool, PoolError, PoolErrorKind};

use self::event_log::EventLog;
use crate::devices::disks::Disks;
use crate::direct::Direct;
use crate::fence::PoolFence;
use crate::import::opened_devices::Devices;
use crate::order::Order;
use crate::ownership::Ownership;
use crate::setup::{Place, Setup};
use block::lane::Waker;
use model::event::{Occurrence, Severity, Teller, Topic};

/// State that the thread and its callers share.
pub(crate) struct Shared {
    name: String,
    is_read_only: bool,
    cache: Arc<Cache>,
    direct: Arc<Direct>,
    places: Mutex<BTreeMap<u64, Place>>,
    event_log: Mutex<EventLog>,
    events: Teller,
    reopenings: AtomicU64,
    /// Generation of the configuration that all labels hold, or 0 if it is not known yet.
    generation: AtomicU64,
    shut: Mutex<Option<Shut>>,
    ownership: Ownership,
    fence: Mutex<Option<PoolFence>>,
    disks: Disks,
    inbox: Mutex<Inbox>,
    /// Whether the inbox holds orders. The flag saves the lock when the inbox is empty, and the
    /// waker when it was already called.
    filled: AtomicBool,
    /// Number of calls of the waker.
    wakes: AtomicU64,
    waker: Waker,
}

#[derive(Default)]
struct Inbox {
    orders: Vec<Order>,
    /// Number of all orders that were queued.
    queued: u64,
    /// Whether no thread takes orders any more.
    is_ended: bool,
    /// Whether the pool is to be opened anew, until it was.
    is_opening: bool,
}

/// Number of times that callers handed work to the threads of pools. What a lane does by itself is
/// not among it.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandedOver {
    /// Orders that were queued.
    pub orders: u64,
    /// Times that a thread was woken, or would have been if it had slept.
    pub wakes: u64,
}

/// Reason why a host has no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shut {
    /// Reason, as a sentence without a full stop.
    pub(crate) reason: String,
    /// Remedy, as a clause without a full stop.
    pub(crate) next: String,
    /// Whether the pool is to be reopened.
    pub(crate) is_to_be_reopened: bool,
}

impl Shut {
    /// Describes an engine that failed through a defect.
    pub(crate) fn defect(pool: &str) -> Self {
        Self {
            reason: format!("the engine of pool {pool} failed (a defect; the log says where)"),
            next: "keep the daemon's log, restart the daemon, and report this".to_owned(),
            is_to_be_reopened: false,
        }
    }

    /// Describes a pool that stopped because another host has it, or may have it.
    pub(crate) fn stopped(pool: &str, reason: &str) -> Self {
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
    pub(crate) fn suspended(pool: &str, reason: &str) -> Self {
        Self {
            reason: format!("pool {pool} takes no changes and must be reopened: {reason}"),
            next: format!("check its devices, then use `sandstone pool clear {pool}`"),
            is_to_be_reopened: true,
        }
    }
}

impl Shared {
    /// Makes the state of a pool that is about to begin, with these devices.
    pub(crate) fn new(name: String, setup: &Setup, devices: &Devices) -> Self {
        Self {
            name,
            is_read_only: setup.is_read_only,
            cache: Arc::clone(&setup.cache),
            direct: Arc::clone(devices.direct()),
            places: Mutex::new(setup.places.clone()),
            event_log: Mutex::default(),
            events: setup.events.clone(),
            reopenings: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            shut: Mutex::default(),
            ownership: Ownership::unlimited(),
            fence: Mutex::default(),
            disks: setup.disks.clone(),
            inbox: Mutex::default(),
            filled: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
            waker: devices.waker(),
        }
    }

    /// Returns the generation of the configuration that all labels hold, if it is known.
    pub(crate) fn generation(&self) -> Option<u64> {
        let generation = self.generation.load(Ordering::Relaxed);
        (generation > 0).then_some(generation)
    }

    /// Notes the generation that all labels surely hold.
    pub(crate) fn note_generation(&self, pool: &Pool) {
        if pool.is_config_durable() {
            let generation = pool.config().generation;
            self.generation.store(generation, Ordering::Relaxed);
        }
    }

    /// Queues an order, and reports whether the thread will take it.
    pub(crate) fn send(&self, order: Order) -> bool {
        self.queue(self.lock(), order).is_ok()
    }

    /// Queues an order, and returns it if no thread will take it.
    pub(crate) fn try_send(&self, order: Order) -> Result<(), Box<Order>> {
        self.queue(self.lock(), order)
    }

    /// Queues an order, unless the thread opens the pool anew.
    pub(crate) fn send_unless_opening(&self, order: impl FnOnce() -> Order) {
        let inbox = self.lock();
        if !inbox.is_opening {
            drop(self.queue(inbox, order()));
        }
    }

    fn queue(&self, mut inbox: MutexGuard<'_, Inbox>, order: Order) -> Result<(), Box<Order>> {
        if inbox.is_ended {
            return Err(Box::new(order));
        }
        inbox.is_opening |= matches!(order, Order::Reopen { .. });
        inbox.orders.push(order);
        inbox.queued += 1;
        drop(inbox);
        if !self.filled.swap(true, Ordering::AcqRel) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            (self.waker)();
        }
        Ok(())
    }

    /// Returns what callers handed to the thread.
    pub(crate) fn handed_over(&self) -> HandedOver {
        HandedOver {
            orders: self.lock().queued,
            wakes: self.wakes.load(Ordering::Relaxed),
        }
    }

    /// Appends the orders that arrived since the last call.
    pub(crate) fn take(&self, orders: &mut VecDeque<Order>) {
        // A look leaves the flag with the callers' processors, which set it.
        if self.filled.load(Ordering::Relaxed) && self.filled.swap(false, Ordering::AcqRel) {
            orders.extend(self.lock().orders.drain(..));
        }
    }

    /// Notes that the pool was opened anew, or could not be.
    pub(crate) fn end_opening(&self) {
        self.lock().is_opening = false;
    }

    /// Reports whether the thread takes no orders any more, and never will.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_ended
    }

    /// Accepts no more orders, and returns those that were not taken.
    pub(crate) fn end(&self) -> Vec<Order> {
        let mut inbox = self.lock();
        inbox.is_ended = true;
        std::mem::take(&mut inbox.orders)
    }

    /// Replaces the fence that keeps other hosts from the pool's devices.
    pub(crate) fn keep_fence(&self, fence: Option<PoolFence>) {
        if let Some(fence) = &fence {
            fence.follow(&self.ownership);
        }
        *self.lock_fence() = fence;
    }

    /// Returns the fence that keeps other hosts from the pool's devices, if there is one.
    pub(crate) fn fence(&self) -> Option<PoolFence> {
        self.lock_fence().clone()
    }

    fn lock_fence(&self) -> MutexGuard<'_, Option<PoolFence>> {
        // Every change is one assignment: a panic leaves nothing half done.
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the part of the pool that lanes read beside the engine.
    pub(crate) fn direct(&self) -> &Arc<Direct> {
        &self.direct
    }

    /// Returns the cache of the pool's blocks.
    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Returns the pool's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether the pool was opened only to be read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the source of devices.
    pub(crate) fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Returns the places of leaves and spares.
    pub(crate) fn places(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        // Every change is one insertion or removal: a panic leaves nothing half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the log of the pool's events.
    pub(crate) fn event_log(&self) -> MutexGuard<'_, EventLog> {
        // One line more or less does no harm.
        self.event_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an event of the pool, and reports it to the daemon.
    pub(crate) fn note(&self, severity: Severity, text: &str) {
        self.event_log().note(text);
        let told = Occurrence::new(severity, Topic::Pool, &self.name, text);
        let next = format!("sandstone pool status {}", self.name);
        self.events.tell(match severity {
            Severity::Info => told,
            _ => told.next(next),
        });
    }

    /// Returns the error with which orders are refused.
    pub(crate) fn ended(&self) -> PoolError {
        let context = match &*self.lock_shut() {
            Some(shut) => shut.reason.clone(),
            None => format!("pool {} does not answer any more", self.name),
        };
        PoolError::new(PoolErrorKind::Suspended, context)
    }

    /// Returns the reason why there is no engine, or `None` if there is one.
    pub(crate) fn why_shut(&self) -> Option<Shut> {
        self.lock_shut().clone()
    }

    /// Notes the reason why there is no engine, or `None` if there is one.
    pub(crate) fn shut(&self, why: Option<Shut>) {
        *self.lock_shut() = why;
    }

    fn lock_shut(&self) -> MutexGuard<'_, Option<Shut>> {
        // Every change is one assignment: a panic leaves nothing half done.
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time until which this host surely owns the pool.
    pub(crate) fn own_until(&self, since_boot_us: u64) {
        self.ownership.own_until(since_boot_us);
    }

    /// Reports whether this host surely owns the pool.
    pub(crate) fn is_owned(&self) -> bool {
        self.ownership.is_sure()
    }

    /// Returns the time for which this host surely owns the pool.
    pub(crate) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Returns how often the pool was let go to be reopened.
    pub(crate) fn reopenings(&self) -> u64 {
        self.reopenings.load(Ordering::Acquire)
    }

    /// Counts that volumes may have lost writes that were not promised. This happens before any
    /// read can show the loss.
    pub(crate) fn count_reopening(&self) {
        self.reopenings.fetch_add(1, Ordering::AcqRel);
    }

    /// Throws out all blocks: no reader may see bytes that the pool's devices may not have. Reads
    /// beside the engine have been stopped, and those under way leave nothing.
    pub(crate) fn empty_cache(&self) {
        self.cache.revoke_tickets();
        let cap = self.cache.cap();
        self.cache.resize(0);
        self.cache.resize(cap);
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Every change is one push or take: a panic leaves nothing half done.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
