//! Cost of bringing changes into the trees, as far as no durable checkpoint has them.
//!
//! A change takes more space than its blocks: a checkpoint rewrites the nodes above them, and lists
//! the blocks and nodes that they replace. If writes are scattered over a large volume, this takes
//! more space than the data.
//!
//! A checkpoint that finds no room cannot be made, and the pool would stand still for ever. So the
//! room is counted before a change is admitted ([`admission`](crate::engine::room::admission)). The count
//! is for the worst case, since the nodes have not been read yet. If little space is free,
//! checkpoints therefore come earlier. Each checkpoint replaces the estimated cost by the real one.

use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Node, SECTOR_SIZE};

/// Most bytes of a node, which are counted for every node.
pub(in crate::engine) const NODE_SIZE: u32 = Node::<FAN_OUT>::MAX_SIZE as u32;
/// Replaced blocks and nodes that a sector of lists holds at least. Each of them may be listed
/// twice: as space to free, and as a block that only snapshots hold.
const LISTED_PER_SECTOR: u64 = 64;

/// Sectors of the chunks that lists are made of. A chunk finds room in any run that a node fits in.
const CHUNK_SECTORS: u64 = (crate::format::list::MAX_SIZE / SECTOR_SIZE) as u64;

/// Most work that a checkpoint has to do for changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Nodes to be written.
    pub(super) nodes: u64,
    /// Blocks that are no longer in the map.
    pub(super) replaced: u64,
}

/// Most space that the work of a checkpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Cost {
    /// Sectors, parity included.
    pub(in crate::engine) sectors: u64,
    /// Runs of sectors with room for a node.
    pub(in crate::engine) runs: u64,
}

/// Most sectors that a structure takes, in any place.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Widths {
    /// Sectors of a node of a map.
    pub(in crate::engine) node: u64,
    /// Sectors that one sector of a list takes.
    pub(in crate::engine) list: u64,
}

impl Work {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            replaced: self.replaced.saturating_add(other.replaced),
        }
    }
}

/// Changes that no durable checkpoint has.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unmerged {
    /// Work for changes in layers that the checkpoint being made merges.
    merging: Work,
    /// Work for changes in layers that the next checkpoint merges.
    sealed: Work,
    /// Work for changes in the open group.
    unsealed: Work,
    /// Leaf of the map in which the last change of the open group ended.
    last_leaf: Option<(DatasetId, u64)>,
    /// Widths of structures on the present vdevs.
    pub(in crate::engine) widths: Widths,
}

impl Unmerged {
    /// Notes that all layers were closed for a checkpoint.
    pub(in crate::engine) fn begin_checkpoint(&mut self) {
        self.merging = std::mem::take(&mut self.sealed);
    }

    /// Notes that `nodes` of the nodes that a checkpoint may have to write are written. The nodes
    /// that they replace are still to be listed.
    pub(in crate::engine) fn written(&mut self, nodes: u64) {
        let nodes = nodes.min(self.merging.nodes);
        self.merging.nodes -= nodes;
        self.merging.replaced += nodes;
    }

    /// Notes that the closed layers are in the trees.
    pub(in crate::engine) fn commit_checkpoint(&mut self) {
        self.merging = Work::default();
    }

    pub(super) fn all(&self) -> Work {
        self.merging.and(self.sealed).and(self.unsealed)
    }

    /// Returns the work for changes that the checkpoint being made does not have.
    pub(super) fn of_next(&self) -> Work {
        self.sealed.and(self.unsealed)
    }

    /// Returns the most that this work costs if `allocated` sectors are in use.
    pub(super) fn cost(&self, work: Work, allocated: u64) -> Cost {
        // No more blocks can be replaced than exist.
        let replaced = work.replaced.min(allocated);
        let lists = (work.nodes + replaced).div_ceil(LISTED_PER_SECTOR);
        let Widths { node, list } = self.widths;
        Cost {
            sectors: work.nodes * node + lists * list,
            runs: work.nodes + lists.div_ceil(CHUNK_SECTORS),
        }
    }

    /// Reports whether the last change of the open group ended in this leaf of a map.
    pub(super) fn ended_in(&self, leaf: (DatasetId, u64)) -> bool {
        self.last_leaf == Some(leaf)
    }

    /// Notes that the changes of the open group are in layers.
    pub(in crate::engine) fn sealed(&mut self) {
        self.unsealed = Work::default();
        self.last_leaf = None;
    }

    /// Notes that a layer touches `after` nodes instead of `before`, by its own estimate. The more
    /// changes a layer has, the better is its estimate.
    pub(super) fn note_sealed(&mut self, before: u64, after: u64, replaced: u64) {
        self.sealed.nodes = (self.sealed.nodes + after).saturating_sub(before);
        self.sealed.replaced = self.sealed.replaced.saturating_add(replaced);
    }

    /// Notes that a change came into the open group.
    pub(super) fn taken(&mut self, work: Work, last_leaf: (DatasetId, u64)) {
        self.unsealed = self.unsealed.and(work);
        self.last_leaf = Some(last_leaf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_written_take_no_room_any_more_but_what_they_replace_is_to_be_listed() {
        let work = |nodes, replaced| Work { nodes, replaced };
        let mut unmerged = Unmerged {
            sealed: work(10, 5),
            ..Unmerged::default()
        };
        unmerged.begin_checkpoint();
        unmerged.sealed = work(3, 2);
        unmerged.written(4);
        assert_eq!(unmerged.all(), work(6 + 3, 9 + 2));
        // The work of the next checkpoint does not count as written.
        unmerged.written(7);
        assert_eq!(unmerged.all(), work(3, 15 + 2));
        unmerged.commit_checkpoint();
        assert_eq!(unmerged.all(), work(3, 2));
    }
}
