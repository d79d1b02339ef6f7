//! What a dead list knows of its blocks without reading them.

use std::collections::BTreeMap;

use crate::format::{Epoch, Pointer};
use crate::map::Count;

use super::Dead;

/// Blocks of a dead list, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// How many, nodes of maps among them.
    pub blocks: u64,
    /// Sectors of all of them, parity not counted.
    pub sectors: u64,
    pub(super) nodes: Nodes,
    pub(super) whole: Whole,
}

/// How many of them are nodes of maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) count: u64,
    pub(super) sectors: u64,
    /// Some of it was written by a program that did not count them.
    pub(super) is_unknown: bool,
}

/// How many of them are volumes' and not packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) count: u64,
    /// As of [`Nodes`].
    pub(super) is_unknown: bool,
}

/// Volumes' blocks, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// How many.
    pub blocks: u64,
    /// Their sectors, parity not counted.
    pub sectors: u64,
}

/// The figures of a list at one moment: by the epoch of the snapshot after which the blocks were born.
#[derive(Clone, Debug, Default)]
pub struct Figures(pub(super) BTreeMap<Epoch, Figure>);

impl Figures {
    /// Of the blocks that were born after the snapshot of this epoch, 0 for all.
    pub fn after(&self, after: Epoch) -> Figure {
        let parts = self.0.range(after..);
        parts.fold(Figure::default(), |sum, (_, part)| sum.and(*part))
    }
}

impl Figure {
    /// These, and others.
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

    /// Those that are no nodes of maps; `None` where they were not counted.
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

    /// How many of these are not packed; `None` as before.
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
    /// These, and others.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_add(others.blocks),
            sectors: self.sectors.saturating_add(others.sectors),
        }
    }

    /// These without some of them.
    #[must_use]
    pub fn without(self, some: Self) -> Self {
        Self {
            blocks: self.blocks.saturating_sub(some.blocks),
            sectors: self.sectors.saturating_sub(some.sectors),
        }
    }
}
