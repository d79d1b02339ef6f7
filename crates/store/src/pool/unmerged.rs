//! Changes enter the maps, and what it will cost to bring them into the trees is counted.
//!
//! A change takes more than its blocks: a checkpoint writes the nodes above them anew, and lists what they replace. Where
//! writes are scattered over a large volume, that is more than the data. A checkpoint that finds no room cannot be
//! made, and the pool would stand still for ever. So the room is counted before a change is taken
//! ([`admission`](super::admission)): for the worst case, since nobody has read those nodes yet. Where little is free that
//! makes checkpoints come earlier, and each of them turns what was counted into what it really takes.

use super::state::{Contents, Pool};
use super::write::Write;
use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Node, Pointer, SECTOR_SIZE};
use crate::map::Tree;
use crate::map::touched::nodes_over;

/// Bytes of a node that nothing makes smaller.
pub(super) const NODE_SIZE: u32 = Node::<FAN_OUT>::MAX_SIZE as u32;
/// Blocks and nodes that were replaced and that a sector of a list has at least: once as what becomes free, once as what only
/// snapshots hold.
const LISTED_PER_SECTOR: u64 = 64;

/// Sectors of the chunks that lists are made of, which find room where a node does.
const CHUNK_SECTORS: u64 = (crate::format::list::MAX_SIZE / SECTOR_SIZE) as u64;

/// What a checkpoint has to do for changes, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Nodes to be written.
    nodes: u64,
    /// Blocks that are not in the map any more.
    replaced: u64,
}

/// What that takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Sectors, parity included.
    pub(super) sectors: u64,
    /// Runs of sectors that a node finds room in.
    pub(super) runs: u64,
}

/// Sectors that things take at most, wherever they lie.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widths {
    /// A node of a map.
    pub(super) node: u64,
    /// A sector of a list.
    pub(super) list: u64,
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
pub(super) struct Unmerged {
    /// In layers that the checkpoint being made merges.
    merging: Work,
    /// In layers that the next one merges.
    sealed: Work,
    /// In the group that is open.
    unsealed: Work,
    /// The leaf that the last change of that ended in.
    last_leaf: Option<(DatasetId, u64)>,
    /// As the vdevs are.
    pub(super) widths: Widths,
}

impl Unmerged {
    /// All layers were closed.
    pub(super) fn begin_checkpoint(&mut self) {
        self.merging = std::mem::take(&mut self.sealed);
    }

    /// So many of the nodes that a checkpoint may have to write are written. What they replace is still to be listed.
    pub(super) fn written(&mut self, nodes: u64) {
        let nodes = nodes.min(self.merging.nodes);
        self.merging.nodes -= nodes;
        self.merging.replaced += nodes;
    }

    /// Those that were closed are in trees.
    pub(super) fn commit_checkpoint(&mut self) {
        self.merging = Work::default();
    }

    fn all(&self) -> Work {
        self.merging.and(self.sealed).and(self.unsealed)
    }

    /// The changes of the open group are in layers.
    pub(super) fn sealed(&mut self) {
        self.unsealed = Work::default();
        self.last_leaf = None;
    }

    /// A layer touches so many nodes instead of so many, as far as it knows; the more it has, the better it may
    /// know.
    fn note_sealed(&mut self, before: u64, after: u64, replaced: u64) {
        self.sealed.nodes = (self.sealed.nodes + after).saturating_sub(before);
        self.sealed.replaced = self.sealed.replaced.saturating_add(replaced);
    }

    /// A change came into the open group.
    fn taken(&mut self, work: Work, last_leaf: (DatasetId, u64)) {
        self.unsealed = self.unsealed.and(work);
        self.last_leaf = Some(last_leaf);
    }
}

impl Pool {
    /// A block is about to be mapped: what that waits for is brought near.
    pub(super) fn foresee_mapping(&self, dataset: DatasetId, block: u64) {
        if let Some(of) = self.contents.get(&dataset) {
            of.map.layers.top().prefetch(block);
        }
    }

    /// A block lies there from now on.
    pub(super) fn map_block(&mut self, dataset: DatasetId, block: u64, pointer: Pointer) -> bool {
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

    /// Blocks are zeros from now on.
    pub(super) fn map_zeros(&mut self, dataset: DatasetId, block: u64, count: u64) -> bool {
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

    /// A change that was admitted is in the open group, or the last part of it is.
    pub(super) fn note_taken(&mut self, write: &Write) {
        if let Some(of) = self.contents.get(&write.dataset) {
            let last = (write.touched(of.block_size.into()).end - 1) / FAN_OUT as u64;
            let work = self.work_of(write);
            self.unmerged.taken(work, (write.dataset, last));
        }
    }

    /// What all changes that were admitted and are in no durable checkpoint will cost at most.
    pub(super) fn cost_of_all(&self) -> Cost {
        self.cost(self.unmerged.all())
    }

    /// The same with one more.
    pub(super) fn cost_with(&self, write: &Write) -> Cost {
        self.cost(self.unmerged.all().and(self.work_of(write)))
    }

    /// The same of those only that the checkpoint being made does not have.
    pub(super) fn cost_of_next(&self) -> Cost {
        self.cost(self.unmerged.sealed.and(self.unmerged.unsealed))
    }

    fn cost(&self, work: Work) -> Cost {
        // There are not more blocks to be replaced than there are.
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
        // What lies wholly in a range of zeros is dropped; only nodes at its two ends are written anew.
        let leaves = match write.is_zeros() {
            true => count.min(2),
            false => count,
        };
        let nodes = nodes_over(&blocks, leaves, height);
        // Who goes on in the leaf of the change before needs no other path to it.
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

/// The levels that a volume's tree has at most once all changes are in it.
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
        // What the next checkpoint has to do is not taken for written.
        unmerged.written(7);
        assert_eq!(unmerged.all(), work(3, 15 + 2));
        unmerged.commit_checkpoint();
        assert_eq!(unmerged.all(), work(3, 2));
    }
}
