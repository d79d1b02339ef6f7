//! Targets of a scan: the trees and lists of datasets and the tables beside them, and the blocks
//! found there.

use std::ops::Range;

use crate::format::node::{FAN_OUT, NodeId};
use crate::format::{Address, DatasetId, Epoch, Pointer};
use crate::map::Missing;
use crate::map::walk::Walk;
use crate::snapshot::deadlist::Deadlist;
use crate::vdev::LeafId;

/// Block of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanTarget {
    pub(super) pointer: Pointer,
    /// Place of the block, if a tree leads to it.
    pub(super) place: Option<Place>,
}

/// Place in the tree of a volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Place {
    pub(super) dataset: DatasetId,
    /// Level of the node there; `None` for the block itself.
    level: Option<u8>,
    /// Position within the level.
    index: u64,
}

/// Structure whose blocks are visited.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Blocks of a volume or snapshot from a position on that were born after an epoch.
    Dataset {
        id: DatasetId,
        after: Epoch,
        position: u64,
    },
    /// Chunks of a dataset's dead list.
    Dead(DatasetId),
    /// Tables that checkpoints write beside trees.
    Tables,
}

#[derive(Debug)]
pub(super) enum Walking {
    Tree(Walk),
    Dead(Deadlist),
}

impl ScanTarget {
    pub(super) fn elsewhere(pointer: Pointer) -> Self {
        Self {
            pointer,
            place: None,
        }
    }
}

impl Place {
    pub(super) fn of_block(dataset: DatasetId, index: u64) -> Self {
        Self {
            dataset,
            level: None,
            index,
        }
    }

    pub(super) fn of_node(dataset: DatasetId, id: NodeId) -> Self {
        Self {
            dataset,
            level: Some(id.level),
            index: id.index,
        }
    }

    /// Returns the blocks that the place leads to.
    pub(super) fn blocks(self) -> Range<u64> {
        let nodes = self.level.map_or(0, |level| u32::from(level) + 1);
        let each = (FAN_OUT as u64).saturating_pow(nodes);
        let first = self.index.saturating_mul(each);
        first..first.saturating_add(each)
    }
}

impl Target {
    pub(super) fn dataset_mut(&mut self) -> Option<&mut DatasetId> {
        match self {
            Self::Dataset { id, .. } | Self::Dead(id) => Some(id),
            Self::Tables => None,
        }
    }

    /// Returns the target from the present position of its walk on.
    pub(super) fn at(&self, walking: &Walking) -> Self {
        match (self, walking) {
            (Self::Dataset { id, after, .. }, Walking::Tree(walk)) => Self::Dataset {
                id: *id,
                after: *after,
                position: walk.position(),
            },
            _ => self.clone(),
        }
    }
}

/// Reason why gathering stops for now.
pub(super) enum Pause {
    Node(Missing),
    Chunk(Pointer),
    /// Dead lists belong to a checkpoint while it is made.
    Checkpoint,
}

/// Block under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct ScanBlock {
    /// Number of the scan that asked for the block.
    pub(super) number: u64,
    pub(super) of: (Address, Epoch),
    pub(super) sectors: u64,
    /// Checkpoints that were durable when the block was found.
    pub(super) gathered: u64,
    /// Place of the block in a tree.
    pub(super) place: Option<Place>,
    /// Leaf on which the block is rebuilt; `None` in a scrub.
    pub(super) leaf: Option<LeafId>,
}
