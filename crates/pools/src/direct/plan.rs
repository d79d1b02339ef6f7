//! Plan of a read beside the engine: places of its blocks, and requests to devices that bring them.

use std::ops::Range;
use std::sync::Arc;

use block::BlockDevice;
use pages::PAGE_SIZE;
use smallvec::SmallVec;
use store::beside::{LONGEST_REQUEST, Located, Row, Tickets};
use store::vdev::{DirectReads, LeafId, sector_offset};

use super::{LONGEST_AHEAD, Table};

const _: () = assert!(LONGEST_AHEAD as u64 <= LONGEST_REQUEST);

/// Places of blocks, and how they are read.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) located: Located,
    /// Requests to devices, in the order of the blocks. Holes need none.
    pub(super) requests: DeviceReads,
}

/// Requests to devices.
pub(super) type DeviceReads = SmallVec<[DeviceRead; 1]>;

/// Request to a device that brings blocks.
#[derive(Debug)]
pub(super) struct DeviceRead {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) counts: Arc<DirectReads>,
    /// First byte on the device.
    pub(super) offset: u64,
    /// Bytes on the device.
    pub(super) len: u32,
    /// Blocks that it brings, by their indexes in the read. Holes may be among them.
    pub(super) blocks: Range<usize>,
}

impl Plan {
    /// Finds out how these blocks are read; `None` if lanes cannot read them.
    pub(super) fn make(table: &Table, wanted: Tickets) -> Option<Self> {
        let located = wanted.locate(table.published.as_ref()?)?;
        let mut requests = DeviceReads::new();
        for row in located.rows()? {
            let read = table.device_read(row, &requests)?;
            requests.push(read);
        }
        Some(Self { located, requests })
    }
}

impl Table {
    /// Returns the request for a row, beside those that the read makes already. It goes to the leaf
    /// that has the fewest.
    fn device_read(&self, row: Row, others: &[DeviceRead]) -> Option<DeviceRead> {
        let copies = self.copies.get(usize::from(row.vdev))?;
        let busy = |(_, counts): &&(LeafId, Arc<DirectReads>)| {
            let own = others.iter().filter(|of| Arc::ptr_eq(&of.counts, counts));
            counts.under_way() as usize + own.count()
        };
        // A leaf without a device has no requests under way, so it would always be chosen.
        let there = copies
            .iter()
            .filter(|(leaf, _)| self.devices.contains_key(leaf));
        let (leaf, counts) = there.min_by_key(busy)?;
        let len = (row.sectors.end - row.sectors.start) * PAGE_SIZE as u64;
        Some(DeviceRead {
            device: Arc::clone(self.devices.get(leaf)?),
            counts: Arc::clone(counts),
            offset: sector_offset(row.sectors.start),
            len: u32::try_from(len).ok().filter(|_| len <= LONGEST_REQUEST)?,
            blocks: row.blocks,
        })
    }
}
