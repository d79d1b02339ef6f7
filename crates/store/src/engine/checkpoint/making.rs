//! Checkpoint being made: its stage, its merges, and the writes that it waits for.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::merging::{Merged, Running, Task};
use crate::catalog::Catalog;
use crate::engine::manifest::Job;
use crate::format::{Address, DatasetId, Epoch, Node, Pointer, Root};
use crate::map::Tree;
use crate::map::hash::BuildNumberHasher;
use crate::map::walk::Walk;
use crate::snapshot::deadlist::{Deadlist, Figures};

/// Most nodes that are being written. Each is in memory twice, as itself and as its block, and
/// neither can be thrown out. When a merge did not wait for busy devices, all leaves of a tree were
/// in memory. This many nodes keep devices at work that are quicker than merges.
pub(in crate::engine) const NODES_IN_FLIGHT: usize = 128;

/// Checkpoint being made.
#[derive(Debug)]
pub(in crate::engine) struct Making {
    /// Epoch that ended when the checkpoint began.
    pub(in crate::engine) epoch: Epoch,
    /// Last group in the checkpoint.
    pub(super) seq: u64,
    /// Place of the record after that group.
    pub(super) log: Address,
    /// Checksum of that group's record.
    pub(super) previous: u128,
    /// Datasets at that moment.
    pub(super) catalog: Arc<Catalog>,
    pub(super) stage: CheckpointStage,
    /// Layers still to be merged, lower ones first.
    pub(super) tasks: VecDeque<Task>,
    pub(super) merging: Option<Running>,
    /// Results of the merged layers.
    pub(super) merged: Vec<Merged>,
    /// Dead lists of the datasets at that moment.
    pub(in crate::engine) dead: BTreeMap<DatasetId, Deadlist>,
    /// Figures of these lists when the checkpoint began, as in the last checkpoint. The lists grow
    /// while the checkpoint is made.
    pub(in crate::engine) dead_before: BTreeMap<DatasetId, Figures>,
    /// Snapshots taken since then, which have the dead list of their volume as of that moment.
    pub(in crate::engine) heirs: BTreeMap<DatasetId, DatasetId>,
    pub(super) jobs: VecDeque<Job>,
    /// Blocks that jobs may still free in this checkpoint.
    pub(super) to_free: usize,
    pub(super) walking: Option<Walking>,
    pub(super) writes: Writes,
    pub(super) root: Option<Root>,
    /// Operations on labels under way, and those of this round that succeeded.
    pub(super) labels: (usize, usize),
}

/// Writes under way, and the blocks that they replace.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) count: usize,
    /// Nodes that must not be read from the devices yet, by the write that they wait for.
    pub(super) held: HashMap<u64, Arc<Node>, BuildNumberHasher>,
    pub(super) dropped: Vec<Pointer>,
    pub(super) dropped_nodes: Vec<Pointer>,
    /// Nodes whose places other nodes take in the new trees.
    pub(super) replaced: Vec<Pointer>,
    /// Blocks that lie once since there was no room for their second copies.
    pub(super) once: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointStage {
    /// Merges layers into trees, as fast as devices take their nodes.
    Merge,
    /// Frees blocks of deleted datasets.
    Free,
    /// Writes the rest.
    Persist,
    /// Waits for all writes and for the groups before the checkpoint.
    Settle,
    /// Waits for the flush.
    Flush,
    /// Waits until the labels are true.
    Configuration,
    /// Writes the root into labels: copies 0 and 2 in the first round, then 1 and 3.
    Labels { round: u8, is_flushing: bool },
    /// Waits for a node that was asked for.
    Waiting(&'static CheckpointStage),
}

impl Making {
    /// Reports whether the checkpoint waits only for its turn, given that all groups up to
    /// `written_seq` are on the devices.
    pub(in crate::engine) fn is_working(&self, written_seq: u64) -> bool {
        match self.stage {
            CheckpointStage::Merge => self.nodes_to_go_on_with() > 0,
            CheckpointStage::Free | CheckpointStage::Persist => true,
            CheckpointStage::Settle => self.is_settled(written_seq),
            CheckpointStage::Flush
            | CheckpointStage::Configuration
            | CheckpointStage::Labels { .. }
            | CheckpointStage::Waiting(_) => false,
        }
    }

    /// Returns the number of nodes that may be written now.
    pub(super) fn nodes_to_go_on_with(&self) -> usize {
        NODES_IN_FLIGHT.saturating_sub(self.nodes_in_flight())
    }

    /// Returns the number of nodes that are being written.
    pub(in crate::engine) fn nodes_in_flight(&self) -> usize {
        self.writes.held.len()
    }

    /// Reports whether blocks of deleted datasets are still to be freed.
    pub(in crate::engine) fn is_freeing(&self) -> bool {
        !self.jobs.is_empty() || self.walking.is_some()
    }

    /// Returns the structures that are being freed, except a tree that is being walked.
    pub(in crate::engine) fn jobs(&self) -> &VecDeque<Job> {
        &self.jobs
    }

    /// Reports whether a tree is being walked.
    pub(in crate::engine) fn is_walking(&self) -> bool {
        self.walking.is_some()
    }

    pub(super) fn is_settled(&self, written_seq: u64) -> bool {
        self.writes.count == 0 && written_seq >= self.seq
    }
}

/// Tree that is being freed, and the walk through it.
#[derive(Debug)]
pub(super) struct Walking {
    pub(super) tree: Tree,
    pub(super) after: Epoch,
    pub(super) walk: Walk,
}
