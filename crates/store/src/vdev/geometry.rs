//! The columns of a block: where on which leaf each lies, and how the payload is spread over them.
//!
//! A block of a leaf or a mirror has one column, which each leaf of the vdev holds whole. A block
//! of a raidz has `parity` columns of parity and then its data columns, each in a slot of its own.

use pages::PAGE_SIZE;
use smallvec::SmallVec;

/// A part of a block that one slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Slot that holds the column; `None` if all slots do.
    pub(super) slot: Option<u16>,
    /// First sector of the column on the leaf.
    pub(super) sector: u64,
    /// Number of sectors.
    pub(super) sectors: u32,
}

/// Columns of a block: first those of parity, then those of data in the order of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) columns: SmallVec<[Column; 1]>,
    /// Number of columns that hold parity.
    pub(super) parity: usize,
    /// Sectors that belong to the block and hold nothing.
    pub(super) padding: SmallVec<[Column; 1]>,
}

impl Geometry {
    /// Returns the data columns' parts of the payload, in sectors of the payload.
    pub(super) fn data_ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let mut at = 0;
        self.columns[self.parity..].iter().map(move |column| {
            let start = at;
            at += column.sectors as usize * PAGE_SIZE;
            start..at
        })
    }
}
