//! Counts of what a command costs beside its time, for benchmarks. A build without the feature
//! `counted` counts nothing, and has no code for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of parts of a counter. Threads share one if there are more.
const PARTS: usize = 64;

/// Keys hashed for the store's tables: one for each look-up, insertion and removal, and one for
/// each entry that moves when a table grows.
pub static HASHES: Counter = Counter::new();

/// Counter of many threads. Each adds to a part that others seldom touch, so that they do not wait
/// for each other much more than without it.
#[derive(Debug)]
pub struct Counter {
    parts: [Part; PARTS],
}

/// Part of a counter, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Part(AtomicU64);

/// Number of threads that have counted.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of this thread from 1, or 0 before it counts. It needs no memory from an allocator,
    /// so that allocations can be counted.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

impl Counter {
    /// Makes a counter that stands at 0.
    pub const fn new() -> Self {
        Self {
            parts: [const { Part(AtomicU64::new(0)) }; PARTS],
        }
    }

    /// Adds one.
    pub fn add(&self) {
        let thread = THREAD.with(|of| {
            if of.get() == 0 {
                of.set(1 + THREADS.fetch_add(1, Ordering::Relaxed));
            }
            of.get()
        });
        self.parts[thread % PARTS].0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the count of all threads.
    pub fn sum(&self) -> u64 {
        let parts = self.parts.iter();
        parts.map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_parts_lose_nothing() {
        static COUNTER: Counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..2 * PARTS {
                scope.spawn(|| (0..100).for_each(|_| COUNTER.add()));
            }
        });
        assert_eq!(COUNTER.sum(), 2 * 100 * PARTS as u64);
    }

    #[test]
    fn each_use_of_a_table_counts_once() {
        use std::collections::HashMap;

        use crate::cache::{Cache, Key};
        use crate::map::hash::BuildNumberHasher;

        // Other tests count meanwhile, and seldom on the part of this thread. So one of a few
        // attempts is undisturbed.
        HASHES.add();
        let own = || {
            let part = &HASHES.parts[THREAD.get() % PARTS];
            part.0.load(Ordering::Relaxed)
        };
        let counts_of = |work: &dyn Fn()| {
            let counts = || {
                let before = own();
                work();
                own() - before
            };
            [counts(), counts(), counts()]
        };
        let of_a_map = counts_of(&|| {
            let hasher = BuildNumberHasher::default();
            let mut map: HashMap<u64, u64, _> = HashMap::with_capacity_and_hasher(8, hasher);
            map.insert(1, 2);
            assert_eq!(map.get(&1), Some(&2));
            map.remove(&1);
        });
        assert!(of_a_map.contains(&3), "{of_a_map:?}");
        let cache = Cache::new(1 << 20, 1);
        let of_the_cache = counts_of(&|| {
            let key = Key {
                volume: 1,
                block: 2,
            };
            assert!(cache.get(key).is_none());
        });
        assert!(of_the_cache.contains(&1), "{of_the_cache:?}");
    }
}
