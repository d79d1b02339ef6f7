//! The order in which a logical unit's commands run: SIMPLE, ORDERED and HEAD OF QUEUE (SAM-5 8).
//!
//! One task set serves all nexuses (TST = 000b) and all event loops. As long as every command is
//! SIMPLE, entering and leaving touch only a counter of the loop's own (a *lane*): no lock, no shared
//! cache line. The first ORDERED command closes a gate; from then on commands queue up and run in
//! their order until the queue is empty and the gate opens again.
//!
//! # Why no command slips past the gate
//! A lane adds itself to its counter and *then* looks at the gate; who closes the gate closes it and
//! *then* adds up the counters. All four accesses are sequentially consistent, so at least one of the
//! two sees the other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::TaskAttribute;

/// How many lanes a task set tells apart; lanes beyond share counters.
pub const LANES: usize = 64;

/// Called with the waiter's own number once its turn has come. May be called on any thread, never
/// with a lock held.
pub type Wake = Arc<dyn Fn(u64) + Send + Sync>;

/// Whether a command may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Run it; [`TaskSet::leave`] when it ends.
    Now,
    /// Keep it; the waker will be called with its number when it may run.
    Queued,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct LaneCounter(AtomicU32);

#[derive(Debug)]
struct Waiting {
    lane: usize,
    waiter: u64,
    ordered: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    ordered_running: bool,
}

/// The task set of one logical unit.
pub struct TaskSet {
    /// Commands running, by lane; the ORDERED one is not counted.
    running: Box<[LaneCounter]>,
    gate: AtomicBool,
    queue: Mutex<Queue>,
    wake: Wake,
}

impl fmt::Debug for TaskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSet")
            .field("running", &self.total())
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl TaskSet {
    /// An empty task set.
    pub fn new(wake: Wake) -> Self {
        let running = (0..LANES).map(|_| LaneCounter::default()).collect();
        Self {
            running,
            gate: AtomicBool::new(false),
            queue: Mutex::default(),
            wake,
        }
    }

    /// A command arrives.
    #[inline]
    pub fn enter(&self, lane: usize, attribute: TaskAttribute, waiter: u64) -> Entered {
        if attribute == TaskAttribute::Ordered {
            return self.queue_up(lane, waiter, true);
        }
        let counter = &self.running[lane % LANES].0;
        counter.fetch_add(1, SeqCst);
        // HEAD OF QUEUE runs before everything that has not started (SAM-5 8.6.4).
        if !self.gate.load(SeqCst) || attribute == TaskAttribute::HeadOfQueue {
            return Entered::Now;
        }
        counter.fetch_sub(1, SeqCst);
        self.queue_up(lane, waiter, false)
    }

    /// A command that ran ends. `attribute` is the one it entered with.
    #[inline]
    pub fn leave(&self, lane: usize, attribute: TaskAttribute) {
        if attribute == TaskAttribute::Ordered {
            self.lock().ordered_running = false;
        } else {
            self.running[lane % LANES].0.fetch_sub(1, SeqCst);
        }
        if self.gate.load(SeqCst) {
            self.advance(self.lock());
        }
    }

    /// Takes a queued command out of the queue (it was aborted). `false` if its turn had come: then it
    /// entered and must [`TaskSet::leave`].
    pub fn cancel(&self, waiter: u64) -> bool {
        let mut queue = self.lock();
        let before = queue.waiting.len();
        queue.waiting.retain(|waiting| waiting.waiter != waiter);
        let removed = queue.waiting.len() < before;
        self.advance(queue);
        removed
    }

    #[cold]
    fn queue_up(&self, lane: usize, waiter: u64, ordered: bool) -> Entered {
        let mut queue = self.lock();
        self.gate.store(true, SeqCst);
        queue.waiting.push_back(Waiting {
            lane,
            waiter,
            ordered,
        });
        let woken = self.take_runnable(&mut queue);
        drop(queue);
        let mut entered = Entered::Queued;
        for other in woken {
            if other == waiter {
                entered = Entered::Now;
            } else {
                (self.wake)(other);
            }
        }
        entered
    }

    #[cold]
    fn advance(&self, mut queue: MutexGuard<'_, Queue>) {
        let woken = self.take_runnable(&mut queue);
        drop(queue);
        woken.into_iter().for_each(|waiter| (self.wake)(waiter));
    }

    /// Moves everything whose turn has come from the queue to the running.
    fn take_runnable(&self, queue: &mut Queue) -> Vec<u64> {
        let mut woken = Vec::new();
        while !queue.ordered_running
            && let Some(first) = queue.waiting.front()
        {
            if first.ordered {
                if self.total() > 0 {
                    break;
                }
                queue.ordered_running = true;
            } else {
                self.running[first.lane % LANES].0.fetch_add(1, SeqCst);
            }
            woken.push(first.waiter);
            queue.waiting.pop_front();
        }
        if queue.waiting.is_empty() && !queue.ordered_running {
            self.gate.store(false, SeqCst);
        }
        woken
    }

    fn total(&self) -> u32 {
        self.running.iter().map(|lane| lane.0.load(SeqCst)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between any two statements that could panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task_set() -> (TaskSet, Arc<Mutex<Vec<u64>>>) {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let log = woken.clone();
        (
            TaskSet::new(Arc::new(move |waiter| log.lock().unwrap().push(waiter))),
            woken,
        )
    }

    use TaskAttribute::{HeadOfQueue, Ordered, Simple};

    #[test]
    fn ordered_waits_for_older_and_holds_younger() {
        let (set, woken) = task_set();
        assert_eq!(set.enter(0, Simple, 1), Entered::Now);
        assert_eq!(set.enter(1, Ordered, 2), Entered::Queued);
        assert_eq!(set.enter(2, Simple, 3), Entered::Queued);
        assert_eq!(set.enter(2, HeadOfQueue, 4), Entered::Now);
        set.leave(0, Simple);
        assert!(woken.lock().unwrap().is_empty());
        set.leave(2, HeadOfQueue);
        assert_eq!(*woken.lock().unwrap(), [2]);
        assert_eq!(set.enter(0, Simple, 5), Entered::Queued);
        set.leave(1, Ordered);
        assert_eq!(*woken.lock().unwrap(), [2, 3, 5]);
        set.leave(2, Simple);
        set.leave(0, Simple);
        assert_eq!(
            set.enter(0, Simple, 6),
            Entered::Now,
            "the gate opened again"
        );
    }

    #[test]
    fn an_ordered_command_alone_runs_at_once() {
        let (set, _) = task_set();
        assert_eq!(set.enter(0, Ordered, 1), Entered::Now);
        assert_eq!(set.enter(0, Ordered, 2), Entered::Queued);
        assert!(set.cancel(2));
        set.leave(0, Ordered);
        assert!(!set.cancel(2));
        assert_eq!(set.enter(0, Simple, 3), Entered::Now);
    }

    #[test]
    fn ordered_never_runs_beside_another_on_many_threads() {
        use std::sync::atomic::{AtomicI32, AtomicUsize};
        let pending: Arc<Mutex<Vec<u64>>> = Arc::default();
        let log = pending.clone();
        let set = Arc::new(TaskSet::new(Arc::new(move |waiter| {
            log.lock().unwrap().push(waiter)
        })));
        let (inside, runs) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for lane in 0..4_usize {
                let (set, pending, inside, runs) = (&set, &pending, &inside, &runs);
                scope.spawn(move || {
                    let run = |attribute| {
                        let weight = if attribute == Ordered { 1000 } else { 1 };
                        let before = inside.fetch_add(weight, SeqCst);
                        assert!(
                            before < 1000 && (attribute == Simple || before == 0),
                            "{before} beside {attribute:?}"
                        );
                        std::hint::spin_loop();
                        inside.fetch_sub(weight, SeqCst);
                        runs.fetch_add(1, SeqCst);
                        set.leave(lane, attribute);
                    };
                    for n in 0..5000_u64 {
                        let attribute = if n % 17 == lane as u64 {
                            Ordered
                        } else {
                            Simple
                        };
                        let waiter = (lane as u64) << 32 | n;
                        if set.enter(lane, attribute, waiter) == Entered::Queued {
                            while !pending.lock().unwrap().contains(&waiter) {
                                std::thread::yield_now();
                            }
                            pending.lock().unwrap().retain(|other| *other != waiter);
                        }
                        run(attribute);
                    }
                });
            }
        });
        assert_eq!(runs.load(SeqCst), 20_000);
        assert!(!set.gate.load(SeqCst));
    }
}
