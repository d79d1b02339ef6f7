//! Keeping what is written out of a unit's volatile cache while that is emptied, before it is said to be off.
//!
//! Who reads WCE = 0, or is told to look (06/2A/01), sends no SYNCHRONIZE CACHE any more. So the order is: from now on
//! every write is durable; what was acknowledged from the cache before is made durable; and only then does the unit
//! say that it has none.

use std::sync::Arc;

use crate::logical_unit::LogicalUnit;

/// As long as one of these is there, [`LogicalUnit::write_cache_enabled`] says no, whatever WCE is. A write that the
/// transport had given to the cache before, and that ends meanwhile, is the transport's to make durable before GOOD.
#[derive(Debug)]
#[must_use = "writes go to the cache again when it is dropped"]
pub struct WriteThrough(Arc<LogicalUnit>);

impl LogicalUnit {
    /// Has every write made durable until the result is dropped.
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
