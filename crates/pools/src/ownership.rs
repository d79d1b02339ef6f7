//! Ownership of a pool: the time until which this host surely has it.
//!
//! The pool's thread sets the time. All that reads or writes beside the thread asks here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::since_boot_us;

/// Time until which this host surely owns a pool, in microseconds since boot. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Ownership(Arc<AtomicU64>);

impl Ownership {
    /// Makes the ownership of a pool that no other host claims.
    pub(crate) fn unlimited() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// Notes the time until which this host surely owns the pool. Only the pool's thread calls it.
    pub(crate) fn own_until(&self, since_boot_us: u64) {
        // Storing an unchanged value would take the cache line from the readers.
        if self.0.load(Ordering::Relaxed) != since_boot_us {
            self.0.store(since_boot_us, Ordering::Release);
        }
    }

    /// Reports whether this host surely owns the pool now.
    pub(crate) fn is_sure(&self) -> bool {
        let until_us = self.0.load(Ordering::Acquire);
        until_us == u64::MAX || since_boot_us() < until_us
    }
}
