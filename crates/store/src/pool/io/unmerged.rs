//! Enters changes into the maps, and counts the cost of bringing them into the trees.
//!
//! A change takes more space than its blocks: a checkpoint rewrites the nodes above them, and lists
//! the blocks and nodes that they replace. If writes are scattered over a large volume, this takes
//! more space than the data.
//!
//! A checkpoint that finds no room cannot be made, and the pool would stand still for ever. So the
//! room is counted before a change is admitted ([`admission`](crate::pool::room::admission)). The count
//! is for the worst case, since the nodes have not been read yet. If little space is free,
//! checkpoints therefore come earlier. Each checkpoint replaces the estimated cost by the real one.

use super::write::Write;
use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Node, Pointer, SECTOR_SIZE};
use crate::map::Tree;
use crate::map::touched::nodes_over;
use crate::pool::contents::Contents;
use crate::pool::state::Pool;

/// Most bytes of a node, which are counted for every node.
pub(in crate::pool) const NODE_SIZE: u32 = Node::<FAN_OUT>::MAX_SIZE as u32;
/// Replaced blocks and nodes that a sector of lists holds at least. Each of them may be listed
/// twice: as space to free, and as a block that only snapshots hold.
const LISTED_PER_SECTOR: u64 = 64;

/// Sectors of the chunks that lists are made of. A chunk finds room in any run that a node fits in.
const CHUNK_SECTORS: u64 = (crate::format::list::MAX_SIZE / SECTOR_SIZE) as u64;

/// Most work that a checkpoint has to do for changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Nodes to be written.
    nodes: u64,
    /// Blocks that are no longer in the map.
    replaced: u64,
}

/// Most space that the work of a checkpoint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) struct Cost {
    /// Sectors, parity included.
    pub(in crate::pool) sectors: u64,
    /// Runs of sectors with room for a node.
    pub(in crate::pool) runs: u64,
}

/// Most sectors that a structure takes, in any place.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pool) struct Widths {
    /// Sectors of a node of a map.
    pub(in crate::pool) node: u64,
    /// Sectors that one sector of a list takes.
    pub(in crate::pool) list: u64,
}

impl Work {
    fn and(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            replaced: self.replaced.saturating_add(other.replaced),
        }
    }
}

/// Changes that no durable checkpoint has.
#[derive(Debug, Default)]
pub(in crate::pool) struct Unmerged {
    /// Work for changes in layers that the checkpoint being made merges.
    merging: Work,
    /// Work for changes in layers that the next checkpoint merges.
    sealed: Work,
    /// Work for changes in the open group.
    unsealed: Work,
    /// Leaf of the map in which the last change of the open group ended.
    last_leaf: Option<(DatasetId, u64)>,
    /// Widths of structures on the present vdevs.
    pub(in crate::pool) widths: Widths,
}

impl Unmerged {
    /// Notes that all layers were closed for a checkpoint.
    pub(in crate::pool) fn begin_checkpoint(&mut self) {
        self.merging = std::mem::take(&mut self.sealed);
    }

    /// Notes that `nodes` of the nodes that a checkpoint may have to write are written. The nodes
    /// that they replace are still to be listed.
    pub(in crate::pool) fn written(&mut self, nodes: u64) {
        let nodes = nodes.min(self.merging.nodes);
        self.merging.nodes -= nodes;
        self.merging.replaced += nodes;
    }

    /// Notes that the closed layers are in the trees.
    pub(in crate::pool) fn commit_checkpoint(&mut self) {
        self.merging = Work::default();
    }

    fn all(&self) -> Work {
        self.merging.and(self.sealed).and(self.unsealed)
    }

    /// Notes that the changes of the open group are in layers.
    pub(in crate::pool) fn sealed(&mut self) {
        self.unsealed = Work::default();
        self.last_leaf = None;
    }

    /// Notes that a layer touches `after` nodes instead of `before`, by its own estimate. The more
    /// changes a layer has, the better is its estimate.
    fn note_sealed(&mut self, before: u64, after: u64, replaced: u64) {
        self.sealed.nodes = (self.sealed.nodes + after).saturating_sub(before);
        self.sealed.replaced = self.sealed.replaced.saturating_add(replaced);
    }

    /// Notes that a change came into the open group.
    fn taken(&mut self, work: Work, last_leaf: (DatasetId, u64)) {
        self.unsealed = self.unsealed.and(work);
        self.last_leaf = Some(last_leaf);
    }
}

impl Pool {
    /// Prefetches the memory that mapping a block will need soon.
    pub(in crate::pool) fn foresee_mapping(&self, dataset: DatasetId, block: u64) {
        if let Some(of) = self.contents.get(&dataset) {
            of.map.layers.top().prefetch(block);
        }
    }

    /// Maps a block to its new place. Returns whether the dataset exists.
    pub(in crate::pool) fn map_block(
        &mut self,
        dataset: DatasetId,
        block: u64,
        pointer: Pointer,
    ) -> bool {
        let Some(of) = self.contents.get_mut(&dataset) else {
            return false;
        };
        let height = height_of(of);
        let before = of.map.layers.top().touched_nodes(height);
        let snapshots = || self.catalog.epochs_beneath(dataset);
        let old = of.map.insert(&self.nodes, snapshots, block, pointer);
        let after = of.map.layers.top().touched_nodes(height);
        self.unmerged.note_sealed(before, after, 1);
        if let Some(old) = old {
            self.drop_block(&old);
        }
        true
    }

    /// Maps blocks to zeros. Returns whether the dataset exists.
    pub(in crate::pool) fn map_zeros(
        &mut self,
        dataset: DatasetId,
        block: u64,
        count: u64,
    ) -> bool {
        let Some(of) = self.contents.get_mut(&dataset) else {
            return false;
        };
        let height = height_of(of);
        let before = of.map.layers.top().touched_nodes(height);
        let mut dropped: Vec<Pointer> = Vec::new();
        let range = block..block.saturating_add(count);
        let snapshots = || self.catalog.epochs_beneath(dataset);
        of.map.clear(&self.nodes, snapshots, range, |pointer| {
            dropped.push(pointer);
        });
        let after = of.map.layers.top().touched_nodes(height);
        self.unmerged.note_sealed(before, after, count);
        for pointer in dropped {
            self.drop_block(&pointer);
        }
        true
    }

    /// Notes that an admitted change, or the last part of it, is in the open group.
    pub(in crate::pool) fn note_taken(&mut self, write: &Write) {
        if let Some(of) = self.contents.get(&write.dataset) {
            let last = (write.touched(of.block_size.into()).end - 1) / FAN_OUT as u64;
            let work = self.work_of(write);
            self.unmerged.taken(work, (write.dataset, last));
        }
    }

    /// Returns the most that all admitted changes will cost that no durable checkpoint has.
    pub(in crate::pool) fn cost_of_all(&self) -> Cost {
        self.cost(self.unmerged.all())
    }

    /// Returns the most that these changes and one more will cost.
    pub(in crate::pool) fn cost_with(&self, write: &Write) -> Cost {
        self.cost(self.unmerged.all().and(self.work_of(write)))
    }

    /// Returns the most that the changes will cost that the checkpoint being made does not have.
    pub(in crate::pool) fn cost_of_next(&self) -> Cost {
        self.cost(self.unmerged.sealed.and(self.unmerged.unsealed))
    }

    fn cost(&self, work: Work) -> Cost {
        // No more blocks can be replaced than exist.
        let replaced = work.replaced.min(self.space.counts().allocated);
        let lists = (work.nodes + replaced).div_ceil(LISTED_PER_SECTOR);
        let Widths { node, list } = self.unmerged.widths;
        Cost {
            sectors: work.nodes * node + lists * list,
            runs: work.nodes + lists.div_ceil(CHUNK_SECTORS),
        }
    }

    fn work_of(&self, write: &Write) -> Work {
        let Some(of) = self.contents.get(&write.dataset) else {
            return Work::default();
        };
        let touched = write.touched(of.block_size.into());
        let count = touched.end - touched.start;
        let height = height_of(of);
        let blocks = touched.start..=touched.end - 1;
        // Nodes wholly inside a range of zeros are dropped; only nodes at its two ends are
        // rewritten.
        let leaves = match write.is_zeros() {
            true => count.min(2),
            false => count,
        };
        let nodes = nodes_over(&blocks, leaves, height);
        // A change in the leaf of the previous change shares its path.
        let leaf = (write.dataset, touched.start / FAN_OUT as u64);
        let shared = match self.unmerged.last_leaf == Some(leaf) {
            true => u64::from(height),
            false => 0,
        };
        Work {
            nodes: nodes - shared,
            replaced: count,
        }
    }
}

/// Returns the most levels that a volume's tree has once all changes are in it.
fn height_of(of: &Contents) -> u8 {
    let last = of.size.div_ceil(of.block_size.into()).saturating_sub(1);
    of.map.tree.height.max(Tree::<FAN_OUT>::height_for(last))
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
