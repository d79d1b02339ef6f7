//! Hold that keeps new writes out of a unit's volatile cache, while the cache is emptied and before
//! it is reported off.
//!
//! An initiator that reads WCE = 0, or is told to look (06/2A/01), sends no SYNCHRONIZE CACHE any
//! more. So the order is this. First, every new write is made durable. Then the writes acknowledged
//! from the cache before are made durable. Only then does the unit report that it has no cache.

use std::sync::Arc;

use super::LogicalUnit;

/// Hold on write-through: while one exists, [`LogicalUnit::write_cache_enabled`] returns false,
/// whatever WCE is. The transport must make a write durable before GOOD even if it gave the write
/// to the cache before and the write ends meanwhile.
#[derive(Debug)]
#[must_use = "writes go to the cache again when it is dropped"]
pub struct WriteThrough(Arc<LogicalUnit>);

impl LogicalUnit {
    /// Makes every write durable until the result is dropped.
    pub fn write_through(self: &Arc<Self>) -> WriteThrough {
        self.hold_write_through(1);
        WriteThrough(Arc::clone(self))
    }
}

impl Drop for WriteThrough {
    fn drop(&mut self) {
        self.0.hold_write_through(-1);
    }
}
