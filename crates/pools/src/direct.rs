//! Reads that lanes make beside the engine: from the map to the devices and back, on the core that
//! the request came to.
//!
//! | question | file |
//! |---|---|
//! | Which devices may be read, and which leaves of maps are known? | `direct.rs` |
//! | Which requests to devices bring the blocks of a read? | `direct/plan.rs` |
//! | How does one read go, and when does it go to the engine after all? | `direct/read.rs` |
//! | How does a read of one block go, which most reads at random are? | `direct/single.rs` |
//! | Which bytes are under way, or wait, for a reader that reads in order? | `direct/ahead.rs` |
//! | Who frees a read from a device that does not answer? | `direct/watch.rs` |
//!
//! The steps themselves, and how blocks are verified, are in [`store::beside`].
//!
//! The engine decides all that is not plain. It gets every read of which a block is not known
//! here, was changed lately, lies in many pieces, or turns out wrong, and those that take long.

mod ahead;
mod plan;
pub(crate) mod read;
mod single;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use block::BlockDevice;
use store::beside::{Located, Tickets};
use store::engine::Pool;
use store::published::Published;
use store::vdev::{DirectReads, LeafId};

use self::ahead::AheadReads;
use self::plan::Plan;
use self::single::Known;
use self::watch::UnderWay;
use crate::pool_thread::PoolThread;

/// Most bytes of blocks that one read ahead brings.
pub(crate) const LONGEST_AHEAD: usize = 1 << 20;

/// Longest wait for reads of devices that are taken out of use. A device that is still open cannot
/// be used for something else.
const FAREWELL: Duration = Duration::from_millis(100);

/// Devices and maps that lanes may read beside the engine.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    table: RwLock<Table>,
    under_way: UnderWay,
    ahead: AheadReads,
}

#[derive(Debug, Default)]
struct Table {
    /// Leaves of maps, or `None` while the engine answers all reads.
    published: Option<Arc<Published>>,
    /// Leaves with whole copies of the blocks of each top-level vdev.
    copies: Vec<Vec<(LeafId, Arc<DirectReads>)>>,
    devices: HashMap<LeafId, Arc<dyn BlockDevice>>,
}

impl Direct {
    /// Lets lanes read blocks of a pool from devices that have whole copies of them.
    pub(crate) fn serve(&self, pool: &Pool) {
        let mut table = self.write();
        table.published = Some(Arc::clone(pool.published()));
        table.copies = pool.whole_copies();
        drop(table);
        self.under_way.forget();
    }

    /// Leaves all reads to the engine.
    pub(crate) fn stop(&self) {
        let mut table = self.write();
        table.published = None;
        table.copies.clear();
        drop(table);
        self.under_way.forget();
        self.ahead.clear();
    }

    /// Gives a leaf its device.
    pub(crate) fn attach(&self, leaf: LeafId, device: &Arc<dyn BlockDevice>) {
        let mut table = self.write();
        match device.reads_on_any_lane() {
            true => table.devices.insert(leaf, Arc::clone(device)),
            false => table.devices.remove(&leaf),
        };
        drop(table);
        self.under_way.forget();
    }

    /// Reports whether no read is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_idle()
    }

    /// Takes the device of a leaf out of use.
    pub(crate) fn detach(&self, leaf: LeafId) {
        let device = self.write().devices.remove(&leaf);
        self.under_way.forget();
        if device.is_some() {
            self.under_way.let_end(FAREWELL);
        }
    }

    /// Takes all devices out of use.
    pub(crate) fn let_go(&self) {
        let devices = std::mem::take(&mut self.write().devices);
        self.under_way.forget();
        if !devices.is_empty() {
            self.under_way.let_end(FAREWELL);
        }
    }

    /// Returns the part of the pool that lanes may read; `None` while the engine answers all reads.
    /// A lane that keeps it is told by [`UnderWay::forget`] when it changes.
    fn known(&self, host: &PoolThread) -> Option<Known> {
        Known::of(&self.read(), host)
    }

    /// Finds out how these blocks are read; `None` if lanes cannot read them.
    fn plan(&self, wanted: Tickets) -> Option<Plan> {
        Plan::make(&self.read(), wanted)
    }

    /// Returns the first byte of each read whose bytes wait for a reader, and their number.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Vec<(u64, usize)> {
        self.ahead.waiting()
    }

    /// Lets bytes that wait in vain go, as at a later time.
    #[cfg(test)]
    pub(crate) fn expire_late(&self, at: std::time::Instant) {
        self.ahead.expire_late(at);
    }

    /// Reports whether some blocks of a read still lie where it found them.
    fn still_lie(&self, read: &Located, blocks: std::ops::Range<u64>) -> bool {
        let table = self.read();
        let published = table.published.as_ref();
        published.is_some_and(|of| read.still_lie(of, blocks))
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // Every change is an insertion or a removal: a panic leaves nothing half done.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}
