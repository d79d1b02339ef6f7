//! Order in which a logical unit's commands run: SIMPLE, ORDERED and HEAD OF QUEUE (SAM-5 8).
//!
//! Each I_T nexus counts its own running commands, whatever the task set type (TST, SPC-4 7.5.8).
//! As long as every command is SIMPLE, entering and leaving take no lock. They touch one cache line
//! that only the nexus's event loop uses. An ORDERED command closes gates. From then on commands
//! queue up behind it and run in their order, until nothing waits and the gates open again.
//!
//! # What the task set type means
//! With one task set for all nexuses (000b), an ORDERED command waits for the older commands of all
//! nexuses. The younger commands of all nexuses wait for it. It is a *barrier*, and closes every
//! gate. With a task set per nexus (001b), it closes the gate of its own nexus alone, and no other
//! nexus notices.
//!
//! # What a change of the type does
//! The type decides the class of ORDERED commands that arrive *from then on*. Commands that entered
//! before keep their order. A barrier that waits or runs holds every younger command until it has
//! ended. Every command is counted and queued with its nexus, whatever the type was when it
//! entered. So an ORDERED command of the new type waits for all older ones that it must not
//! overtake.
//!
//! Nothing moves from set to set, and nothing is aborted. For a moment after the change, a command
//! may wait for one for which it no longer needed to wait.
//!
//! # Why no command slips past a gate
//! A nexus adds to its counter and *then* looks at its gate. A command that closes gates closes
//! them and *then* looks at the counters. The nexus's accesses and the fence between the closer's
//! accesses are sequentially consistent. So at least one of the two sees the other.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::nexus::NexusId;

/// Function that is called with the waiter's own number once its turn has come. It may be called on
/// any thread, never with a lock held.
pub type Wake = Arc<dyn Fn(u64) + Send + Sync>;

/// Task attribute (SAM-5 8.6). The transport refuses ACA, because NormACA is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskAttribute {
    /// No order is promised.
    #[default]
    Simple,
    /// Starts after all older tasks, and ends before all younger ones start.
    Ordered,
    /// Starts before every task that has not started.
    HeadOfQueue,
}

/// Reach of a task set: the TST field of the control mode page (SPC-4 7.5.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSetType {
    /// 000b: one task set for all I_T nexuses.
    #[default]
    Shared,
    /// 001b: a task set for each I_T nexus.
    PerNexus,
}

/// Answer to a command that enters: whether it may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Run the command, and call [`NexusTasks::leave`] when it ends.
    Now,
    /// Keep the command. The waker will be called with its number when it may run.
    Queued,
}

/// Task sets of one logical unit.
pub struct TaskSets {
    order: Mutex<Order>,
    wake: Wake,
}

/// Tasks of one I_T nexus in the task sets.
pub struct NexusTasks {
    place: Arc<Place>,
    sets: Arc<TaskSets>,
    nexus: NexusId,
}

/// State that the commands of a nexus read without a lock.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    /// Number of the nexus's commands that run. The ORDERED one is not counted.
    running: AtomicU32,
    /// Whether a command that arrives must queue up.
    gate: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// SIMPLE: held only by ORDERED commands.
    Simple,
    /// ORDERED among the commands of its nexus.
    Ordered,
    /// ORDERED among the commands of all nexuses.
    Barrier,
}

#[derive(Debug)]
struct Waiting {
    /// Number of the command in the order of arrival, over all nexuses.
    arrival: u64,
    waiter: u64,
    class: Class,
}

#[derive(Debug, Default)]
struct Member {
    place: Arc<Place>,
    /// Number of times that the nexus joined. It may see the unit under several LUNs.
    joined: usize,
    waiting: VecDeque<Waiting>,
    /// ORDERED command that runs.
    ordered: Option<Class>,
}

#[derive(Debug, Default)]
struct Order {
    members: BTreeMap<NexusId, Member>,
    /// Barriers that wait, by arrival and nexus. The first may run already.
    barriers: VecDeque<(u64, NexusId)>,
    arrivals: u64,
}

impl TaskSets {
    /// Makes task sets without commands.
    pub fn new(wake: Wake) -> Arc<Self> {
        Arc::new(Self {
            order: Mutex::default(),
            wake,
        })
    }

    /// Adds a nexus that will send commands. A nexus that joined before and has not gone keeps its
    /// state: it may see the unit under several LUNs.
    pub fn join(self: &Arc<Self>, nexus: NexusId) -> NexusTasks {
        let mut order = self.lock();
        let no_barrier = order.barriers.is_empty();
        let member = order.members.entry(nexus).or_default();
        member.joined += 1;
        member.set_gate(no_barrier);
        NexusTasks {
            place: member.place.clone(),
            sets: self.clone(),
            nexus,
        }
    }

    /// Returns the number of commands of all nexuses that run, and of those that wait.
    pub fn under_way(&self) -> (u32, u32) {
        let order = self.lock();
        order.members.values().fold((0, 0), |(runs, waits), of| {
            let (running, waiting) = of.under_way();
            (runs + running, waits + waiting)
        })
    }

    fn wake(&self, woken: Vec<u64>) {
        woken.into_iter().for_each(|waiter| (self.wake)(waiter));
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        // The order is consistent between any two statements that could panic.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NexusTasks {
    /// Returns the number of commands of the nexus that run, and of those that wait. As long as the
    /// gate is open, none waits, and no lock is taken.
    pub fn under_way(&self) -> (u32, u32) {
        if !self.place.gate.load(SeqCst) {
            return (self.place.running.load(Relaxed), 0);
        }
        let order = self.sets.lock();
        order
            .members
            .get(&self.nexus)
            .map_or((0, 0), Member::under_way)
    }

    /// Enters a command that arrives. The type of the task sets is read only if it matters.
    #[inline]
    pub fn enter(
        &self,
        attribute: TaskAttribute,
        waiter: u64,
        task_set_type: impl FnOnce() -> TaskSetType,
    ) -> Entered {
        if attribute == TaskAttribute::Ordered {
            return self.enter_ordered(waiter, task_set_type);
        }
        self.place.running.fetch_add(1, SeqCst);
        // HEAD OF QUEUE runs before everything that has not started (SAM-5 8.6.4).
        if !self.place.gate.load(SeqCst) || attribute == TaskAttribute::HeadOfQueue {
            return Entered::Now;
        }
        self.place.running.fetch_sub(1, SeqCst);
        self.queue_up(waiter, Class::Simple)
    }

    /// Ends a command that ran. `attribute` is the one with which it entered.
    #[inline]
    pub fn leave(&self, attribute: TaskAttribute) {
        if attribute == TaskAttribute::Ordered {
            return self.leave_ordered();
        }
        self.place.running.fetch_sub(1, SeqCst);
        if self.place.gate.load(SeqCst) {
            self.leave_gated();
        }
    }

    /// Takes a queued command out of the queue, because it was aborted. Returns `false` if its turn
    /// had come: it then entered and must [`NexusTasks::leave`].
    pub fn cancel(&self, waiter: u64) -> bool {
        let mut order = self.sets.lock();
        let Some(removed) = order.remove(self.nexus, waiter) else {
            return false;
        };
        let woken = order.advance(self.nexus, removed);
        drop(order);
        self.sets.wake(woken);
        true
    }

    #[cold]
    fn enter_ordered(&self, waiter: u64, task_set_type: impl FnOnce() -> TaskSetType) -> Entered {
        let class = match task_set_type() {
            TaskSetType::Shared => Class::Barrier,
            TaskSetType::PerNexus => Class::Ordered,
        };
        self.queue_up(waiter, class)
    }

    #[cold]
    fn queue_up(&self, waiter: u64, class: Class) -> Entered {
        let mut order = self.sets.lock();
        order.push(self.nexus, waiter, class);
        // Of other nexuses, only a barrier may have become runnable, because this nexus counted
        // itself for a moment when it found its gate closed.
        let mut woken = order.advance(self.nexus, Class::Simple);
        drop(order);
        let others = woken.len();
        woken.retain(|other| *other != waiter);
        let entered = woken.len() < others;
        self.sets.wake(woken);
        if entered {
            Entered::Now
        } else {
            Entered::Queued
        }
    }

    #[cold]
    fn leave_ordered(&self) {
        let mut order = self.sets.lock();
        let ended = order.end_ordered(self.nexus);
        let woken = order.advance(self.nexus, ended);
        drop(order);
        self.sets.wake(woken);
    }

    #[cold]
    fn leave_gated(&self) {
        let woken = self.sets.lock().advance(self.nexus, Class::Simple);
        self.sets.wake(woken);
    }
}

impl Drop for NexusTasks {
    fn drop(&mut self) {
        let mut order = self.sets.lock();
        if let Some(member) = order.members.get_mut(&self.nexus) {
            member.joined -= 1;
            if member.joined == 0 {
                order.members.remove(&self.nexus);
            }
        }
    }
}

impl Order {
    /// Adds a command at the end of the queue, and closes the gates that it needs closed.
    fn push(&mut self, nexus: NexusId, waiter: u64, class: Class) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        if class == Class::Barrier {
            self.barriers.push_back((arrival, nexus));
            for member in self.members.values() {
                member.place.gate.store(true, Relaxed);
            }
        }
        if let Some(member) = self.members.get_mut(&nexus) {
            member.place.gate.store(true, Relaxed);
            member.waiting.push_back(Waiting {
                arrival,
                waiter,
                class,
            });
        }
        // One fence serves all gates, before any counter is read.
        fence(SeqCst);
    }

    /// Takes a waiting command out of the queue.
    fn remove(&mut self, nexus: NexusId, waiter: u64) -> Option<Class> {
        let member = self.members.get_mut(&nexus)?;
        let at = member.waiting.iter().position(|w| w.waiter == waiter)?;
        let removed = member.waiting.remove(at)?;
        self.barriers
            .retain(|(arrival, _)| *arrival != removed.arrival);
        Some(removed.class)
    }

    /// Ends the ORDERED command of a nexus.
    fn end_ordered(&mut self, nexus: NexusId) -> Class {
        let member = self.members.get_mut(&nexus);
        let ended = member.and_then(|member| member.ordered.take());
        if ended == Some(Class::Barrier) {
            // The running barrier is the oldest.
            self.barriers.pop_front();
        }
        ended.unwrap_or(Class::Ordered)
    }

    /// Starts every command whose turn has come, now that a command of this class and nexus has
    /// gone. Returns the waiters to wake.
    fn advance(&mut self, nexus: NexusId, gone: Class) -> Vec<u64> {
        let mut woken = Vec::new();
        let barrier = self.barriers.front().map(|(arrival, _)| *arrival);
        if gone == Class::Barrier {
            for member in self.members.values_mut() {
                member.advance(barrier, &mut woken);
            }
        } else if let Some(member) = self.members.get_mut(&nexus) {
            member.advance(barrier, &mut woken);
        }
        self.advance_barrier(&mut woken);
        woken
    }

    /// Starts the oldest barrier if nothing runs and nothing older waits.
    fn advance_barrier(&mut self, woken: &mut Vec<u64>) {
        let Some((arrival, nexus)) = self.barriers.front().copied() else {
            return;
        };
        if !self.members.values().all(|member| member.lets(arrival)) {
            return;
        }
        if let Some(member) = self.members.get_mut(&nexus)
            && let Some(first) = member.waiting.pop_front()
        {
            member.ordered = Some(Class::Barrier);
            woken.push(first.waiter);
        }
    }
}

impl Member {
    /// Returns the number of commands that run, and of those that wait.
    fn under_way(&self) -> (u32, u32) {
        let running = self.place.running.load(Relaxed) + u32::from(self.ordered.is_some());
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        (running, waiting)
    }

    /// Moves the commands whose turn has come from the queue to the running ones, up to the oldest
    /// barrier.
    fn advance(&mut self, barrier: Option<u64>, woken: &mut Vec<u64>) {
        while self.ordered.is_none()
            && let Some(first) = self.waiting.front()
            && barrier.is_none_or(|barrier| first.arrival < barrier)
        {
            if first.class == Class::Simple {
                self.place.running.fetch_add(1, SeqCst);
            } else if self.place.running.load(SeqCst) == 0 {
                self.ordered = Some(first.class);
            } else {
                break;
            }
            woken.push(first.waiter);
            self.waiting.pop_front();
        }
        self.set_gate(barrier.is_none());
    }

    /// Reports whether a barrier that arrived at this number need not wait for this nexus. The
    /// queue is checked, too: the command before its first may have left and not looked at the
    /// queue yet.
    fn lets(&self, barrier: u64) -> bool {
        let older = |first: &Waiting| first.arrival < barrier;
        self.ordered.is_none()
            && !self.waiting.front().is_some_and(older)
            && self.place.running.load(SeqCst) == 0
    }

    /// Opens the gate if a SIMPLE command need not wait. Otherwise the gate stays closed, or is
    /// closed for a nexus that joins and has sent nothing.
    fn set_gate(&self, no_barrier: bool) {
        let open = no_barrier && self.waiting.is_empty() && self.ordered.is_none();
        self.place.gate.store(!open, Release);
    }
}

impl fmt::Debug for TaskSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = self.lock();
        f.debug_struct("TaskSets")
            .field("nexuses", &order.members.len())
            .field("barriers", &order.barriers.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for NexusTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NexusTasks")
            .field("nexus", &self.nexus)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
