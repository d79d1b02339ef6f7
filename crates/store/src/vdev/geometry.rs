//! The columns of a block: where on which leaf each lies, and how the payload is spread over them.
//!
//! A block of a leaf or a mirror has one column, which each leaf of the vdev holds whole. A block
//! of a raidz has `parity` columns of parity and then its data columns, each in a slot of its own.

use pages::{PAGE_SIZE, Pages};
use smallvec::{SmallVec, smallvec};

use super::raidz;
use super::tree::{TopLevel, TopLevelKind};

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
    /// Returns the content of each column for a block with this payload.
    pub(super) fn encode(&self, payload: &Pages) -> SmallVec<[Pages; 1]> {
        if self.columns.len() == 1 {
            return smallvec![payload.clone()];
        }
        raidz::encode(self, payload)
    }

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

impl TopLevel {
    /// Returns a block's columns; `None` if the block does not lie in the vdev.
    pub(super) fn geometry(&self, sector: u64, sectors: u16) -> Option<Geometry> {
        let end = sector.checked_add(u64::from(self.footprint(sectors)))?;
        if sectors == 0 || end > self.sectors() {
            return None;
        }
        match self.kind {
            TopLevelKind::Hole => None,
            TopLevelKind::Leaf | TopLevelKind::Mirror => Some(Geometry {
                columns: smallvec![Column {
                    slot: None,
                    sector,
                    sectors: u32::from(sectors)
                }],
                parity: 0,
                padding: SmallVec::new(),
            }),
            TopLevelKind::Raidz { parity } => Some(raidz::geometry(
                self.slots.len() as u64,
                u64::from(parity),
                sector,
                sectors,
            )),
        }
    }

    /// Returns the sectors that a block of `sectors` of payload takes.
    pub(super) fn footprint(&self, sectors: u16) -> u32 {
        match self.kind {
            TopLevelKind::Raidz { parity } => raidz::footprint(
                self.slots.len() as u32,
                u32::from(parity),
                u32::from(sectors),
            ),
            TopLevelKind::Leaf | TopLevelKind::Mirror | TopLevelKind::Hole => u32::from(sectors),
        }
    }
}
