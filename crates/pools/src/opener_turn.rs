//! Turns of the callers that open or change pools: one caller after the other.
//!
//! While an opening only waits for the proof that no other host has its pool, other callers have
//! their turn.

use std::sync::MutexGuard;

use super::registry::Pools;
use model::{Error, ErrorKind};

/// Turn of a caller, either held here or kept by a caller above.
pub(super) struct Turn<'a> {
    held: Option<MutexGuard<'a, ()>>,
    has_waited: bool,
}

impl<'a> Turn<'a> {
    /// Waits for a turn and takes it.
    pub(super) fn of(pools: &'a Pools) -> Self {
        Self {
            held: Some(pools.changing()),
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
    pub(super) fn meanwhile<T>(&mut self, pools: &'a Pools, wait: impl FnOnce() -> T) -> T {
        let had_it = self.held.take().is_some();
        let result = wait();
        if had_it {
            self.held = Some(pools.changing());
            self.has_waited = true;
        }
        result
    }
}

impl Pools {
    /// Refuses changes once the daemon ends.
    ///
    /// # Errors
    pub(super) fn refuse_at_the_end(&self) -> Result<(), Error> {
        match self.is_ending() {
            true => Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon is stopping",
                "try again when it is running",
            )),
            false => Ok(()),
        }
    }
}
