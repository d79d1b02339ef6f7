//! Plan of a read beside the engine: places of its blocks, and requests to devices that bring them.
//!
//! Blocks that lie in a row are one request. Blocks that were written together lie so, but for a
//! record of the log here and there: a request reads across short gaps.

use std::ops::Range;
use std::sync::Arc;

use block::BlockDevice;
use pages::PAGE_SIZE;
use smallvec::SmallVec;
use store::format::{DatasetId, Pointer};
use store::vdev::{DirectReads, LeafId, sector_offset};

use super::{LONGEST_AHEAD, Table};

/// Most sectors of a gap that a request reads across. To bring them costs less than a request.
const GAP: u64 = 8;
/// Most requests of a read. Bytes that lie in more pieces are the engine's.
const MOST: usize = 16;
/// Most bytes of a request, with its gaps.
const LONGEST_REQUEST: u64 = (LONGEST_AHEAD + LONGEST_AHEAD / 4) as u64;

/// Places of blocks, and how they are read.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) pointers: SmallVec<[Pointer; 1]>,
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

/// Sectors of a top-level vdev that blocks take.
struct Row {
    vdev: u16,
    sectors: Range<u64>,
    blocks: Range<usize>,
}

impl Plan {
    /// Finds out how these blocks of a dataset are read; `None` if lanes cannot read them.
    pub(super) fn make(table: &Table, dataset: DatasetId, blocks: Range<u64>) -> Option<Self> {
        let mut pointers = SmallVec::new();
        let published = table.published.as_ref()?;
        published
            .look_up(dataset, blocks, &mut pointers)
            .then_some(())?;
        let mut requests = DeviceReads::new();
        for row in rows(&pointers)? {
            let read = table.device_read(row, &requests)?;
            requests.push(read);
        }
        Some(Self { pointers, requests })
    }
}

/// Joins blocks to rows; `None` if they lie in too many.
fn rows(pointers: &[Pointer]) -> Option<SmallVec<[Row; 1]>> {
    let mut rows: SmallVec<[Row; 1]> = SmallVec::new();
    for (number, pointer) in pointers.iter().enumerate() {
        if pointer.is_hole() {
            continue;
        }
        let (vdev, start) = (pointer.address.vdev(), pointer.address.sector());
        let end = start + u64::from(pointer.sectors);
        if let Some(row) = rows.last_mut()
            && row.takes(vdev, start, end)
        {
            (row.sectors.end, row.blocks.end) = (end, number + 1);
            continue;
        }
        (rows.len() < MOST).then_some(())?;
        rows.push(Row {
            vdev,
            sectors: start..end,
            blocks: number..number + 1,
        });
    }
    Some(rows)
}

impl Row {
    /// Reports whether sectors follow this row closely enough to be read with it.
    fn takes(&self, vdev: u16, start: u64, end: u64) -> bool {
        let gap = start.checked_sub(self.sectors.end);
        let len = end.saturating_sub(self.sectors.start) * PAGE_SIZE as u64;
        self.vdev == vdev && gap.is_some_and(|gap| gap <= GAP) && len <= LONGEST_REQUEST
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
        let (leaf, counts) = copies.iter().min_by_key(busy)?;
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

#[cfg(test)]
mod tests {
    use store::format::Address;

    use super::*;

    fn block(vdev: u16, sector: u64, sectors: u16) -> Pointer {
        Pointer {
            address: Address::new(vdev, sector),
            sectors,
            ..Pointer::HOLE
        }
    }

    /// Returns the first sector, the end and the blocks of each row.
    fn found(pointers: &[Pointer]) -> Vec<(Range<u64>, Range<usize>)> {
        let rows = rows(pointers).expect("few rows");
        rows.into_iter()
            .map(|row| (row.sectors, row.blocks))
            .collect()
    }

    #[test]
    fn blocks_in_a_row_are_one_request_across_short_gaps() {
        let blocks = [block(0, 10, 4), block(0, 14, 2), block(0, 17, 1)];
        assert_eq!(found(&blocks), [(10..18, 0..3)]);
        let far = [block(0, 10, 1), block(0, 11 + GAP, 1), block(0, 300, 1)];
        let end = 12 + GAP;
        assert_eq!(found(&far), [(10..end, 0..2), (300..301, 2..3)]);
    }

    #[test]
    fn other_vdevs_and_earlier_sectors_are_other_requests() {
        let blocks = [block(0, 10, 1), block(1, 11, 1), block(1, 5, 1)];
        assert_eq!(
            found(&blocks),
            [(10..11, 0..1), (11..12, 1..2), (5..6, 2..3)]
        );
    }

    #[test]
    fn holes_need_no_request() {
        assert_eq!(found(&[Pointer::HOLE, Pointer::HOLE]), []);
        let blocks = [Pointer::HOLE, block(0, 1, 1), Pointer::HOLE, block(0, 2, 1)];
        assert_eq!(found(&blocks), [(1..3, 1..4)]);
    }

    #[test]
    fn a_request_has_a_longest_length_and_a_read_a_number_of_requests() {
        let most = LONGEST_REQUEST / PAGE_SIZE as u64;
        let long: Vec<_> = (0..most + 2).map(|sector| block(0, sector, 1)).collect();
        let rows_of_long = found(&long);
        assert_eq!(rows_of_long.len(), 2);
        assert_eq!(rows_of_long[0].0, 0..most);
        let scattered = |count: usize| -> Vec<_> {
            let blocks = 0..count as u64;
            blocks.map(|number| block(0, 100 * number, 1)).collect()
        };
        assert_eq!(found(&scattered(MOST)).len(), MOST);
        assert!(rows(&scattered(MOST + 1)).is_none());
    }
}
