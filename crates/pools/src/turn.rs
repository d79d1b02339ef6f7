//! The turn of whoever opens or changes a pool: these happen one after the other. While an opening only waits for the proof
//! that no other host has its pool, others have theirs.

use std::sync::MutexGuard;

use super::registry::Pools;
use model::{Error, ErrorKind};

/// A turn, or none that could be given up.
pub(super) struct Turn<'a> {
    held: Option<MutexGuard<'a, ()>>,
    has_waited: bool,
}

impl<'a> Turn<'a> {
    /// Begins one.
    pub(super) fn of(pools: &'a Pools) -> Self {
        Self {
            held: Some(pools.changing()),
            has_waited: false,
        }
    }

    /// Whoever calls has the turn, and keeps it.
    pub(super) fn kept() -> Self {
        Self {
            held: None,
            has_waited: false,
        }
    }

    /// Whether others had theirs in between.
    pub(super) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Does what takes long and changes nothing of the pools that are known. What was true before may not be any more.
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
    /// # Errors
    /// The daemon ends.
    pub(super) fn refuse_at_the_end(&self) -> Result<(), Error> {
        match self.is_ending() {
            true => Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon ends",
                "try again when it runs",
            )),
            false => Ok(()),
        }
    }
}
