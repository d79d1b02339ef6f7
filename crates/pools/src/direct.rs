//! Reads that lanes make beside the engine: from the map to the devices and back, on the core that
//! the request came to.
//!
//! | question | file |
//! |---|---|
//! | Which devices may be read, and which leaves of maps are known? | `direct.rs` |
//! | How does one read go, and when does it go to the engine after all? | `direct/read.rs` |
//! | Who frees a read from a device that does not answer? | `direct/watch.rs` |
//!
//! The engine decides all that is not plain. It gets every read of which a block is not known
//! here, was changed lately, lies in pieces, or turns out wrong, and those that take long.

pub(crate) mod read;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use block::BlockDevice;
use pages::PAGE_SIZE;
use smallvec::SmallVec;
use store::format::{DatasetId, Pointer};
use store::pool::Pool;
use store::published::Published;
use store::vdev::{DirectReads, LeafId, sector_offset};

use self::watch::UnderWay;

/// Most bytes of one read.
const LONGEST: usize = 1 << 20;

/// Longest wait for reads of devices that are taken out of use. A device that is still open cannot
/// be used for something else.
const FAREWELL: Duration = Duration::from_millis(100);

/// Devices and maps that lanes may read beside the engine.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    table: RwLock<Table>,
    under_way: UnderWay,
}

#[derive(Debug, Default)]
struct Table {
    /// Leaves of maps, or `None` while the engine answers all reads.
    published: Option<Arc<Published>>,
    /// Leaves with whole copies of the blocks of each top-level vdev.
    copies: Vec<Vec<(LeafId, Arc<DirectReads>)>>,
    devices: HashMap<LeafId, Arc<dyn BlockDevice>>,
}

/// Blocks that lie in a row on a device, and the device.
#[derive(Debug)]
struct Run {
    pointers: SmallVec<[Pointer; 1]>,
    device: Arc<dyn BlockDevice>,
    counts: Arc<DirectReads>,
    /// First byte on the device.
    offset: u64,
    /// Bytes on the device.
    len: u32,
}

impl Direct {
    /// Lets lanes read blocks of a pool from devices that have whole copies of them.
    pub(crate) fn serve(&self, pool: &Pool) {
        let mut table = self.write();
        table.published = Some(Arc::clone(pool.published()));
        table.copies = pool.whole_copies();
    }

    /// Leaves all reads to the engine.
    pub(crate) fn stop(&self) {
        let mut table = self.write();
        table.published = None;
        table.copies.clear();
    }

    /// Gives a leaf its device.
    pub(crate) fn attach(&self, leaf: LeafId, device: &Arc<dyn BlockDevice>) {
        let mut table = self.write();
        match device.reads_on_any_lane() {
            true => table.devices.insert(leaf, Arc::clone(device)),
            false => table.devices.remove(&leaf),
        };
    }

    /// Reports whether no read is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_idle()
    }

    /// Takes the device of a leaf out of use.
    pub(crate) fn detach(&self, leaf: LeafId) {
        let device = self.write().devices.remove(&leaf);
        if device.is_some() {
            self.under_way.let_end(FAREWELL);
        }
    }

    /// Takes all devices out of use.
    pub(crate) fn let_go(&self) {
        let devices = std::mem::take(&mut self.write().devices);
        if !devices.is_empty() {
            self.under_way.let_end(FAREWELL);
        }
    }

    /// Returns how these blocks of a dataset are read with one request; `None` if they are not.
    fn run(&self, dataset: DatasetId, blocks: std::ops::Range<u64>) -> Option<Run> {
        let table = self.read();
        let mut pointers = SmallVec::new();
        let published = table.published.as_ref()?;
        published
            .look_up(dataset, blocks, &mut pointers)
            .then_some(())?;
        let first = *pointers.first()?;
        let mut end = first.address.sector();
        for pointer in &pointers {
            let is_next =
                pointer.address.vdev() == first.address.vdev() && pointer.address.sector() == end;
            is_next.then_some(())?;
            end += u64::from(pointer.sectors);
        }
        let len = (end - first.address.sector()) as usize * PAGE_SIZE;
        let copies = table.copies.get(usize::from(first.address.vdev()))?;
        let (leaf, counts) = copies.iter().min_by_key(|(_, counts)| counts.under_way())?;
        Some(Run {
            device: Arc::clone(table.devices.get(leaf)?),
            counts: Arc::clone(counts),
            offset: sector_offset(first.address.sector()),
            len: u32::try_from(len).ok().filter(|_| len <= LONGEST)?,
            pointers,
        })
    }

    /// Reports whether these blocks of a dataset still lie there.
    fn lie_there(&self, dataset: DatasetId, blocks: std::ops::Range<u64>, at: &[Pointer]) -> bool {
        let table = self.read();
        let mut pointers = SmallVec::new();
        let published = table.published.as_ref();
        let are_known = published.is_some_and(|of| of.look_up(dataset, blocks, &mut pointers));
        are_known && pointers[..] == *at
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // Every change is an insertion or a removal: a panic leaves nothing half done.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}
