//! State of a bell that ends a lane's sleep: who has to write to the descriptor, and whether the
//! lane may sleep.
//!
//! A lane that is awake costs its callers no system call, because it looks again before it sleeps.

use std::sync::atomic::{AtomicU8, Ordering};

/// State without a call since the lane looked last.
const QUIET: u8 = 0;
/// State after a call, before the lane has looked.
const RUNG: u8 = 1;
/// State while the lane sleeps, or is about to sleep: a caller has to write to the descriptor.
const ASLEEP: u8 = 2;

/// Ordering of changes: a thread that sees one also sees all that was written before it.
const CHANGE: Ordering = Ordering::AcqRel;
/// Ordering of a look that changes nothing.
const LOOK: Ordering = Ordering::Acquire;

/// Word of memory that threads share.
pub(super) trait Word {
    /// Exchanges the value. A thread that sees the new one sees all that was written before it.
    fn swap(&self, value: u8) -> u8;

    /// Exchanges the value `from`, and reports whether it was there.
    fn replace(&self, from: u8, to: u8) -> bool;
}

impl Word for AtomicU8 {
    fn swap(&self, value: u8) -> u8 {
        self.swap(value, CHANGE)
    }

    fn replace(&self, from: u8, to: u8) -> bool {
        let replaced = self.compare_exchange(from, to, CHANGE, LOOK);
        replaced.is_ok()
    }
}

/// State of a bell, quiet at first.
#[derive(Debug, Default)]
pub(super) struct BellState<W = AtomicU8>(W);

impl<W: Word> BellState<W> {
    /// Notes a call. Reports whether the caller has to write to the descriptor.
    pub(super) fn ring(&self) -> bool {
        // A lane that sees this state also sees the outcomes left for it.
        self.0.swap(RUNG) == ASLEEP
    }

    /// Reports whether the lane may sleep, because nobody called since its last sleep. Otherwise
    /// the lane has to look again.
    pub(super) fn may_sleep(&self) -> bool {
        let is_quiet = self.0.replace(QUIET, ASLEEP);
        if !is_quiet {
            self.0.swap(QUIET);
        }
        is_quiet
    }

    /// Notes that the lane slept.
    pub(super) fn woken(&self) {
        self.0.swap(QUIET);
    }
}

#[cfg(test)]
mod tests {
    //! Tests with the orders of callers and a lane that a processor may choose, weak ones too.

    use loom::sync::Notify;
    use loom::sync::atomic::{AtomicU8, AtomicUsize};
    use loom::thread;

    use super::*;

    impl Word for AtomicU8 {
        fn swap(&self, value: u8) -> u8 {
            self.swap(value, CHANGE)
        }

        fn replace(&self, from: u8, to: u8) -> bool {
            let replaced = self.compare_exchange(from, to, CHANGE, LOOK);
            replaced.is_ok()
        }
    }

    /// Word whose changes promise nothing about what was written before.
    struct Loose(AtomicU8);

    impl Word for Loose {
        fn swap(&self, value: u8) -> u8 {
            self.0.swap(value, Ordering::Relaxed)
        }

        fn replace(&self, from: u8, to: u8) -> bool {
            let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
            self.0.compare_exchange(from, to, set, get).is_ok()
        }
    }

    /// Bell, the number of outcomes that each caller left, and the descriptor.
    struct World<W> {
        bell: BellState<W>,
        outcomes: Vec<AtomicUsize>,
        descriptor: Notify,
    }

    impl<W: Word + Send + Sync + 'static> World<W> {
        /// Lets `callers` threads call `calls` times each, while a lane waits for all outcomes.
        fn run(word: W, callers: usize, calls: usize) {
            // It is not freed. A count of its owners would be one more thing to order.
            let world: &'static Self = Box::leak(Box::new(Self {
                bell: BellState(word),
                outcomes: (0..callers).map(|_| AtomicUsize::new(0)).collect(),
                descriptor: Notify::new(),
            }));
            let call = move |outcome: &'static AtomicUsize| {
                for number in 1..=calls {
                    outcome.store(number, Ordering::Relaxed);
                    if world.bell.ring() {
                        world.descriptor.notify();
                    }
                }
            };
            let outcomes = world.outcomes.iter();
            outcomes.for_each(|outcome| drop(thread::spawn(move || call(outcome))));
            let is_there = |outcome: &AtomicUsize| outcome.load(Ordering::Relaxed) == calls;
            // The lane looks for outcomes, and sleeps in between.
            while !world.outcomes.iter().all(is_there) {
                if world.bell.may_sleep() {
                    world.descriptor.wait();
                    world.bell.woken();
                }
            }
        }
    }

    fn orders(bound: Option<usize>) -> loom::model::Builder {
        let mut orders = loom::model::Builder::new();
        orders.preemption_bound = bound;
        orders
    }

    #[test]
    fn no_call_is_slept_through() {
        orders(None).check(|| World::run(AtomicU8::new(QUIET), 1, 2));
        orders(Some(2)).check(|| World::run(AtomicU8::new(QUIET), 2, 1));
    }

    /// The orders of memory are needed: the search finds what goes wrong without them.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_call_whose_outcome_is_not_seen_is_slept_through() {
        orders(None).check(|| World::run(Loose(AtomicU8::new(QUIET)), 1, 1));
    }
}
