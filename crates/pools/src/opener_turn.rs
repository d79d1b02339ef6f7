//! Turns of the callers that open or change pools: one caller after the other.
//!
//! While an opening only waits for the proof that no other host has its pool, other callers have
//! their turn.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock that is held while a pool is added or removed, so that one change follows the other.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<()>);

impl Turns {
    /// Waits for the lock and takes it.
    pub(super) fn take(&self) -> MutexGuard<'_, ()> {
        // The lock guards nothing that a panic could leave half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turn of a caller, either held here or kept by a caller above.
pub(super) struct Turn<'a> {
    held: Option<MutexGuard<'a, ()>>,
    has_waited: bool,
}

impl<'a> Turn<'a> {
    /// Waits for a turn and takes it.
    pub(super) fn of(turns: &'a Turns) -> Self {
        Self {
            held: Some(turns.take()),
            has_waited: false,
        }
    }

    /// Returns a turn for a caller that already has one and keeps it.
    pub(super) fn kept() -> Self {
        Self {
            held: None,
            has_waited: false,
        }
    }

    /// Reports whether other callers may have had a turn in between.
    pub(super) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Runs a long wait that changes no known pool, and gives up the turn meanwhile. Facts checked
    /// before the wait may no longer hold afterwards.
    pub(super) fn meanwhile<T>(&mut self, turns: &'a Turns, wait: impl FnOnce() -> T) -> T {
        let had_it = self.held.take().is_some();
        let result = wait();
        if had_it {
            self.held = Some(turns.take());
            self.has_waited = true;
        }
        result
    }
}
