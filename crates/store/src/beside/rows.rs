//! Rows of blocks: requests to devices that bring the blocks of a read.
//!
//! Blocks that lie in a row are one request. Blocks that were written together lie so, but for a
//! record of the log here and there: a request reads across short gaps.

use std::ops::Range;

use pages::PAGE_SIZE;
use smallvec::SmallVec;

use crate::format::Pointer;

/// Most sectors of a gap that a request reads across. To bring them costs less than a request.
const GAP: u64 = 8;
/// Most requests of a read. Bytes that lie in more pieces are the engine's.
const MOST: usize = 16;
/// Most bytes of a request, with its gaps.
pub const LONGEST_REQUEST: u64 = (1 << 20) + (1 << 18);

/// Sectors of a top-level vdev that blocks take.
#[derive(Clone, Debug)]
pub struct Row {
    /// Number of the vdev.
    pub vdev: u16,
    /// Sectors, with the gaps between the blocks.
    pub sectors: Range<u64>,
    /// Blocks, by their indexes in the read. Holes may be among them.
    pub blocks: Range<usize>,
}

/// Joins blocks to rows; `None` if they lie in too many.
pub(super) fn rows(pointers: &[Pointer]) -> Option<SmallVec<[Row; 1]>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Address;

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
