//! The figures that a dead list knows of its blocks without reading them.

use std::collections::BTreeMap;

use crate::format::{Epoch, Pointer};
use crate::map::Count;

use super::Dead;

/// Blocks of a dead list, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// Number of blocks, nodes of maps among them.
    pub blocks: u64,
    /// Sectors of all the blocks, parity not counted.
    pub sectors: u64,
    pub(super) nodes: Nodes,
    pub(super) whole: Whole,
}

/// Count of the blocks that are nodes of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) count: u64,
    pub(super) sectors: u64,
    /// Whether a part of the list was written by a program that did not count nodes.
    pub(super) is_unknown: bool,
}

/// Count of the volumes' blocks that are not packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) count: u64,
    /// Whether a part of the list was written by a program that did not count whole blocks.
    pub(super) is_unknown: bool,
}

/// Volumes' blocks, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of blocks.
    pub blocks: u64,
    /// Sectors of the blocks, parity not counted.
    pub sectors: u64,
}

/// Figures of a list at one moment, by the epoch of the snapshot after which the blocks were born.
#[derive(Clone, Debug, Default)]
pub struct Figures(pub(super) BTreeMap<Epoch, Figure>);

impl Figures {
    /// Returns the figure of the blocks that were born after the snapshot of epoch `after`, 0 for
    /// all.
    pub fn after(&self, after: Epoch) -> Figure {
        let parts = self.0.range(after..);
        parts.fold(Figure::default(), |sum, (_, part)| sum.and(*part))
    }
}

impl Figure {
    /// Returns the sum of both figures.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self {
            blocks: self.blocks + others.blocks,
            sectors: self.sectors + others.sectors,
            nodes: Nodes {
                count: self.nodes.count + others.nodes.count,
                sectors: self.nodes.sectors + others.nodes.sectors,
                is_unknown: self.nodes.is_unknown || others.nodes.is_unknown,
            },
            whole: Whole {
                count: self.whole.count + others.whole.count,
                is_unknown: self.whole.is_unknown || others.whole.is_unknown,
            },
        }
    }

    /// Returns the blocks that are no nodes of maps; `None` if nodes were not counted.
    pub fn volume_blocks(&self) -> Option<BlockCount> {
        let all = BlockCount {
            blocks: self.blocks,
            sectors: self.sectors,
        };
        let nodes = BlockCount {
            blocks: self.nodes.count,
            sectors: self.nodes.sectors,
        };
        (!self.nodes.is_unknown).then(|| all.without(nodes))
    }

    /// Returns the number of volumes' blocks that are not packed; `None` if they were not counted.
    pub fn whole_blocks(&self) -> Option<u64> {
        (!self.whole.is_unknown).then_some(self.whole.count)
    }

    pub(super) fn count(&mut self, block: &Pointer, what: Dead) {
        let sectors = block.stored_sectors();
        self.blocks += 1;
        self.sectors += sectors;
        match what {
            Dead::Node => {
                self.nodes.count += 1;
                self.nodes.sectors += sectors;
            }
            Dead::Block => self.whole.count += u64::from(block.is_whole()),
        }
    }
}

impl From<Count> for Figure {
    fn from(blocks: Count) -> Self {
        Self {
            blocks: blocks.blocks,
            sectors: blocks.sectors,
            whole: Whole {
                count: blocks.whole,
                is_unknown: false,
            },
            ..Self::default()
        }
    }
}

impl BlockCount {
    /// Returns the sum of both counts.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_add(others.blocks),
            sectors: self.sectors.saturating_add(others.sectors),
        }
    }

    /// Returns these counts without the counts of `some`.
    #[must_use]
    pub fn without(self, some: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_sub(some.blocks),
            sectors: self.sectors.saturating_sub(some.sectors),
        }
    }
}
