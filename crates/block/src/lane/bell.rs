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

/// Word of memory that threads share.
pub(super) trait Word {
    /// Exchanges the value. A thread that sees the new one sees all that was written before it.
    fn swap(&self, value: u8) -> u8;

    /// Exchanges the value `from`, and reports whether it was there.
    fn replace(&self, from: u8, to: u8) -> bool;
}

impl Word for AtomicU8 {
    fn swap(&self, value: u8) -> u8 {
        self.swap(value, Ordering::AcqRel)
    }

    fn replace(&self, from: u8, to: u8) -> bool {
        let replaced = self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
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
    //! Tests with all orders of two callers and a lane that a processor may choose, weak ones too.

    use loom::sync::atomic::{AtomicBool, AtomicU8};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// Callers of the lane.
    const CALLERS: usize = 2;

    impl Word for AtomicU8 {
        fn swap(&self, value: u8) -> u8 {
            self.swap(value, Ordering::AcqRel)
        }

        fn replace(&self, from: u8, to: u8) -> bool {
            let replaced = self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
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

    /// Bell, the outcomes that callers leave, and the descriptor.
    struct World<W> {
        bell: BellState<W>,
        outcomes: [AtomicBool; CALLERS],
        descriptor: Mutex<u64>,
        written: Condvar,
    }

    impl<W: Word> World<W> {
        fn new(word: W) -> Arc<Self> {
            Arc::new(Self {
                bell: BellState(word),
                outcomes: [AtomicBool::new(false), AtomicBool::new(false)],
                descriptor: Mutex::new(0),
                written: Condvar::new(),
            })
        }

        fn call(&self, caller: usize) {
            self.outcomes[caller].store(true, Ordering::Relaxed);
            if self.bell.ring() {
                *self.descriptor.lock().expect("no panic") += 1;
                self.written.notify_one();
            }
        }

        /// Looks for outcomes, and sleeps in between, until all have come.
        fn serve(&self) {
            loop {
                let mut outcomes = self.outcomes.iter();
                if outcomes.all(|outcome| outcome.load(Ordering::Relaxed)) {
                    return;
                }
                if self.bell.may_sleep() {
                    let mut count = self.descriptor.lock().expect("no panic");
                    while *count == 0 {
                        count = self.written.wait(count).expect("no panic");
                    }
                    drop(count);
                    self.bell.woken();
                    *self.descriptor.lock().expect("no panic") = 0;
                }
            }
        }

        fn run(world: &Arc<Self>)
        where
            W: Send + Sync + 'static,
        {
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let world = Arc::clone(world);
                    thread::spawn(move || world.call(caller))
                })
                .collect();
            world.serve();
            callers
                .into_iter()
                .for_each(|caller| caller.join().expect("it ends"));
        }
    }

    #[test]
    fn no_call_is_slept_through() {
        loom::model(|| World::run(&World::new(AtomicU8::new(QUIET))));
    }

    /// The orders of memory are needed: the search finds what goes wrong without them.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_call_whose_outcome_is_not_seen_is_slept_through() {
        loom::model(|| World::run(&World::new(Loose(AtomicU8::new(QUIET)))));
    }
}
