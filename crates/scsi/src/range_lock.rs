//! Locks that keep atomic commands apart from writes to the blocks they use. COMPARE AND WRITE,
//! ORWRITE and WRITE ATOMIC (SBC-4 4.8, 4.29) exclude WRITE and each other.
//!
//! The address space is hashed onto stripes. A write shares its stripes (one atomic addition each),
//! and an atomic command owns them. Two ranges may fall onto one stripe by accident, which costs a
//! wait, never correctness.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::BlockRange;
use crate::task_set::Wake;

/// Ways to hold a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Beside other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

const STRIPES: u64 = 1024;
/// Flag: an exclusive holder is inside.
const OWNED: u32 = 1 << 31;
/// Flag: an exclusive holder waits, and newcomers queue behind it.
const WANTED: u32 = 1 << 30;

#[derive(Debug)]
struct Waiting {
    range: BlockRange,
    hold: Hold,
    waiter: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Number of waiters that need each stripe marked [`WANTED`].
    ///
    /// Every waiter marks its stripes, not the first alone, and a mark never flickers. Otherwise a
    /// newcomer would overtake.
    marks: BTreeMap<u64, u32>,
}

/// Range locks of one logical unit.
pub struct RangeLock {
    /// Words of the stripes. Each holds a count of shared holders and the two flags.
    stripes: Box<[AtomicU32]>,
    /// log2 of a stripe's length in blocks.
    shift: u32,
    queue: Mutex<Queue>,
    wake: Wake,
}

impl fmt::Debug for RangeLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeLock")
            .field("waiting", &self.queue().waiting.len())
            .finish_non_exhaustive()
    }
}

impl RangeLock {
    /// Makes the locks for a unit of blocks of `block_len` bytes. A stripe is 64 KiB.
    pub fn new(block_len: u32, wake: Wake) -> Self {
        let shift = (64 * 1024 / block_len.clamp(1, 64 * 1024)).trailing_zeros();
        let stripes = (0..STRIPES).map(|_| AtomicU32::new(0)).collect();
        Self {
            stripes,
            shift,
            queue: Mutex::default(),
            wake,
        }
    }

    /// Takes the range, or queues `waiter`. The waker is called with `waiter` once the range is
    /// granted to it.
    #[inline]
    pub fn lock(&self, range: BlockRange, hold: Hold, waiter: u64) -> bool {
        if hold == Hold::Shared && self.try_share(range) {
            return true;
        }
        self.queue_up(range, hold, waiter)
    }

    /// Gives the range back.
    #[inline]
    pub fn unlock(&self, range: BlockRange, hold: Hold) {
        let mut wanted = false;
        for stripe in self.stripes_of(range) {
            match hold {
                Hold::Shared => wanted |= stripe.fetch_sub(1, SeqCst) & WANTED != 0,
                Hold::Exclusive => {
                    stripe.fetch_and(!OWNED, SeqCst);
                    wanted = true;
                }
            }
        }
        if wanted {
            self.advance(self.queue());
        }
    }

    /// Takes a waiter out of the queue. Returns `false` if the range was already granted: the
    /// caller must then call [`RangeLock::unlock`].
    pub fn cancel(&self, waiter: u64) -> bool {
        let mut queue = self.queue();
        let place = queue.waiting.iter().position(|w| w.waiter == waiter);
        let removed = place.and_then(|place| queue.waiting.remove(place));
        if let Some(waiting) = &removed {
            self.unmark(&mut queue, waiting.range);
        }
        self.advance(queue);
        removed.is_some()
    }

    /// Returns each stripe of the range once.
    #[inline]
    fn stripes_of(&self, range: BlockRange) -> impl Iterator<Item = &AtomicU32> {
        self.numbers_of(range)
            .map(|number| &self.stripes[number as usize])
    }

    /// Returns the number of each stripe of the range once.
    #[inline]
    fn numbers_of(&self, range: BlockRange) -> impl Iterator<Item = u64> + use<> {
        let first = range.start.0 >> self.shift;
        let last = if range.is_empty() {
            first
        } else {
            (range.end() - 1) >> self.shift
        };
        let count = (last - first + 1).min(STRIPES);
        (0..count).map(move |n| first.wrapping_add(n) % STRIPES)
    }

    /// Marks the stripes of a caller that begins to wait.
    fn mark(&self, queue: &mut Queue, range: BlockRange) {
        for number in self.numbers_of(range) {
            *queue.marks.entry(number).or_default() += 1;
            self.stripes[number as usize].fetch_or(WANTED, SeqCst);
        }
    }

    /// Removes the marks of a caller that no longer waits, unless another waiter needs them.
    fn unmark(&self, queue: &mut Queue, range: BlockRange) {
        for number in self.numbers_of(range) {
            let Entry::Occupied(mut marks) = queue.marks.entry(number) else {
                continue;
            };
            *marks.get_mut() -= 1;
            if *marks.get() == 0 {
                marks.remove();
                self.stripes[number as usize].fetch_and(!WANTED, SeqCst);
            }
        }
    }

    #[inline]
    fn try_share(&self, range: BlockRange) -> bool {
        for (taken, stripe) in self.stripes_of(range).enumerate() {
            if stripe.fetch_add(1, SeqCst) & (OWNED | WANTED) != 0 {
                // The caller queues next and advances the queue, so no waiter that saw our count is
                // stuck.
                self.stripes_of(range).take(taken + 1).for_each(|stripe| {
                    stripe.fetch_sub(1, SeqCst);
                });
                return false;
            }
        }
        true
    }

    #[cold]
    fn queue_up(&self, range: BlockRange, hold: Hold, waiter: u64) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(Waiting {
            range,
            hold,
            waiter,
        });
        self.mark(&mut queue, range);
        let woken = self.take_grantable(&mut queue);
        drop(queue);
        let mut granted = false;
        for other in woken {
            if other == waiter {
                granted = true;
            } else {
                (self.wake)(other);
            }
        }
        granted
    }

    #[cold]
    fn advance(&self, mut queue: MutexGuard<'_, Queue>) {
        let woken = self.take_grantable(&mut queue);
        drop(queue);
        woken.into_iter().for_each(|waiter| (self.wake)(waiter));
    }

    /// Grants waiters in their order until one must go on waiting. Every stripe that a waiter needs
    /// is marked, so each release of one comes here.
    fn take_grantable(&self, queue: &mut Queue) -> Vec<u64> {
        let mut woken = Vec::new();
        while let Some(first) = queue.waiting.front() {
            let (range, hold, waiter) = (first.range, first.hold, first.waiter);
            let free = self.stripes_of(range).all(|stripe| {
                let state = stripe.load(SeqCst);
                state & OWNED == 0 && (hold == Hold::Shared || state == WANTED)
            });
            if !free {
                break;
            }
            // WANTED is set on all of them: no other holder enters between the check and the grant.
            self.stripes_of(range).for_each(|stripe| {
                match hold {
                    Hold::Shared => stripe.fetch_add(1, SeqCst),
                    Hold::Exclusive => stripe.fetch_or(OWNED, SeqCst),
                };
            });
            self.unmark(queue, range);
            woken.push(waiter);
            queue.waiting.pop_front();
        }
        woken
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between any two statements that could panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lock() -> (RangeLock, Arc<Mutex<Vec<u64>>>) {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let log = woken.clone();
        (
            RangeLock::new(
                512,
                Arc::new(move |waiter| log.lock().unwrap().push(waiter)),
            ),
            woken,
        )
    }

    fn range(start: u64, count: u64) -> BlockRange {
        BlockRange::new(start, count).unwrap()
    }

    #[test]
    fn exclusive_waits_for_shared_and_newcomers_queue_behind_it() {
        let (lock, woken) = lock();
        assert!(lock.lock(range(0, 8), Hold::Shared, 1));
        assert!(!lock.lock(range(4, 1), Hold::Exclusive, 2));
        assert!(!lock.lock(range(5, 1), Hold::Shared, 3));
        assert!(
            lock.lock(range(1 << 20 | 128, 8), Hold::Shared, 4),
            "another stripe is free"
        );
        lock.unlock(range(0, 8), Hold::Shared);
        assert_eq!(*woken.lock().unwrap(), [2]);
        lock.unlock(range(4, 1), Hold::Exclusive);
        assert_eq!(*woken.lock().unwrap(), [2, 3]);
        lock.unlock(range(5, 1), Hold::Shared);
        assert!(lock.lock(range(0, 1), Hold::Exclusive, 5));
    }

    #[test]
    fn a_cancelled_waiter_frees_the_way() {
        let (lock, woken) = lock();
        assert!(lock.lock(range(0, 1), Hold::Shared, 1));
        assert!(!lock.lock(range(0, 1), Hold::Exclusive, 2));
        assert!(!lock.lock(range(0, 1), Hold::Shared, 3));
        assert!(lock.cancel(2));
        assert_eq!(*woken.lock().unwrap(), [3]);
        assert!(!lock.cancel(3));
    }

    #[test]
    fn newcomers_queue_behind_everyone_who_waits_not_the_first_alone() {
        let (lock, woken) = lock();
        let (near, far) = (range(0, 8), range(100_000, 8));
        assert!(lock.lock(near, Hold::Shared, 1));
        assert!(lock.lock(far, Hold::Shared, 2));
        assert!(!lock.lock(near, Hold::Exclusive, 3));
        assert!(!lock.lock(far, Hold::Exclusive, 4));
        assert!(
            !lock.lock(far, Hold::Shared, 5),
            "it would overtake 4, which waits behind 3"
        );
        lock.unlock(far, Hold::Shared);
        assert!(!lock.lock(far, Hold::Shared, 6), "still before its turn");
        lock.unlock(near, Hold::Shared);
        assert_eq!(*woken.lock().unwrap(), [3, 4]);
        lock.unlock(far, Hold::Exclusive);
        assert_eq!(*woken.lock().unwrap(), [3, 4, 5, 6]);
    }

    #[test]
    fn marks_go_with_the_last_who_waits() {
        let (lock, woken) = lock();
        assert!(lock.lock(range(0, 1), Hold::Exclusive, 1));
        for waiter in 2..6 {
            assert!(!lock.lock(range(0, 200), Hold::Exclusive, waiter));
        }
        for waiter in 2..6 {
            assert!(lock.cancel(waiter));
        }
        lock.unlock(range(0, 1), Hold::Exclusive);
        assert_eq!(*woken.lock().unwrap(), [0; 0]);
        assert!(lock.stripes.iter().all(|stripe| stripe.load(SeqCst) == 0));
        assert!(lock.queue().marks.is_empty());
    }

    #[test]
    fn a_range_that_wraps_around_the_stripes_takes_each_once() {
        let (lock, _) = lock();
        assert!(lock.lock(range(0, 1 << 40), Hold::Exclusive, 1));
        lock.unlock(range(0, 1 << 40), Hold::Exclusive);
        assert!(lock.stripes.iter().all(|stripe| stripe.load(SeqCst) == 0));
    }

    #[test]
    fn exclusive_holders_are_alone_on_many_threads() {
        use std::sync::atomic::AtomicI32;
        let pending: Arc<Mutex<Vec<u64>>> = Arc::default();
        let log = pending.clone();
        let lock = RangeLock::new(
            512,
            Arc::new(move |waiter| log.lock().unwrap().push(waiter)),
        );
        let inside = AtomicI32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (lock, pending, inside) = (&lock, &pending, &inside);
                scope.spawn(move || {
                    for n in 0..3000_u64 {
                        let hold = if (n + thread).is_multiple_of(5) {
                            Hold::Exclusive
                        } else {
                            Hold::Shared
                        };
                        let waiter = thread << 32 | n;
                        let blocks = range(n % 3 * 64, 200);
                        if !lock.lock(blocks, hold, waiter) {
                            while !pending.lock().unwrap().contains(&waiter) {
                                std::thread::yield_now();
                            }
                            pending.lock().unwrap().retain(|other| *other != waiter);
                        }
                        let weight = if hold == Hold::Exclusive { 1000 } else { 1 };
                        let before = inside.fetch_add(weight, SeqCst);
                        assert!(before < 1000 && (hold == Hold::Shared || before == 0));
                        inside.fetch_sub(weight, SeqCst);
                        lock.unlock(blocks, hold);
                    }
                });
            }
        });
        assert!(
            lock.stripes
                .iter()
                .all(|stripe| stripe.load(SeqCst) & !WANTED == 0)
        );
    }
}
