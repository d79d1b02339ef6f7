//! Finds blocks in the maps, enters changes into them, and counts what each costs a checkpoint.

use std::ops::Range;

use pages::Pages;
use smallvec::{SmallVec, smallvec};

use super::change::Write;
use super::unmerged::{Cost, Work};
use crate::engine::contents::Contents;
use crate::engine::state::Pool;
use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Epoch, NodeError, Pointer};
use crate::map::touched::nodes_over;
use crate::map::walk::{Progress, Visit, Walk};
use crate::map::{self, Diff, Missing, Tree};

/// Contents of datasets.
impl Pool {
    /// Returns the contents of a volume or snapshot in use.
    pub(in crate::engine) fn contents_of(&self, dataset: DatasetId) -> Option<&Contents> {
        self.contents.get(&dataset)
    }

    /// Returns all volumes and snapshots in use.
    pub(in crate::engine) fn datasets_in_use(
        &self,
    ) -> impl ExactSizeIterator<Item = (&DatasetId, &Contents)> {
        self.contents.iter()
    }

    /// Looks up a block in the map of a dataset; `None` if there is no such dataset.
    pub(in crate::engine) fn look_up(
        &mut self,
        dataset: DatasetId,
        block: u64,
    ) -> Option<Result<Pointer, Missing>> {
        let contents = self.contents.get(&dataset)?;
        Some(contents.map.look_up(&mut self.node_cache, block))
    }

    /// Looks up neighbouring blocks in the map. The nodes are searched once for the run, not once
    /// for each block.
    pub(in crate::engine) fn look_up_run(
        &mut self,
        dataset: DatasetId,
        blocks: &Range<u64>,
    ) -> Result<SmallVec<[Pointer; 1]>, Missing> {
        let mut found = smallvec![Pointer::HOLE; (blocks.end - blocks.start) as usize];
        if let Some(contents) = self.contents.get(&dataset) {
            match &mut found[..] {
                [one] => *one = contents.map.look_up(&mut self.node_cache, blocks.start)?,
                run => (contents.map).look_up_run(&mut self.node_cache, blocks.start, run)?,
            }
        }
        Ok(found)
    }

    /// Forgets the leaf of a dataset's map that leads to a block.
    pub(super) fn forget_leaf(&mut self, dataset: DatasetId, block: u64) {
        if let Some(of) = self.contents.get(&dataset) {
            of.map.tree.forget_leaf(&mut self.node_cache, block);
        }
    }

    /// Takes the bytes of a node that was not in memory.
    ///
    /// # Errors
    /// The bytes are not that node.
    pub(in crate::engine) fn fill_node(
        &mut self,
        missing: &Missing,
        block: &Pages,
    ) -> Result<(), NodeError> {
        self.node_cache.fill(missing, block)
    }

    /// Takes a node that cannot be read for one whose blocks are all lost.
    pub(in crate::engine) fn fill_lost_node(&mut self, missing: &Missing) {
        self.node_cache.fill_lost(missing);
    }

    /// Continues a walk through a tree.
    ///
    /// # Errors
    /// A node is not in memory.
    pub(in crate::engine) fn walk_on(
        &mut self,
        walk: &mut Walk,
        budget: &mut usize,
        visit: impl FnMut(Visit),
    ) -> Result<Progress, Missing> {
        walk.step(&mut self.node_cache, budget, visit)
    }

    /// Continues to compare two trees.
    ///
    /// # Errors
    /// A node is not in memory.
    pub(in crate::engine) fn compare_on(
        &mut self,
        diff: &mut Diff,
        tell: impl FnMut(map::Change),
    ) -> Result<Progress, Missing> {
        diff.step(&mut self.node_cache, &mut 1, tell)
    }

    /// Returns the bytes of map nodes in memory.
    pub(in crate::engine) fn node_bytes(&self) -> usize {
        self.node_cache.bytes()
    }
}

/// Changes of maps.
impl Pool {
    /// Closes the layers of all maps at the end of an epoch.
    pub(in crate::engine) fn close_layers(&mut self, epoch: Epoch) {
        for contents in self.contents.values_mut() {
            contents.map.layers.close(epoch);
            if cfg!(debug_assertions) {
                // The merge compares its counts with those of the tally, which must be looked up.
                contents.map.closed(&self.node_cache).for_each(drop);
            }
        }
    }

    /// Forgets nodes that no tree has any more.
    pub(in crate::engine) fn discard_nodes(&mut self, places: &[Pointer]) {
        places
            .iter()
            .for_each(|pointer| self.node_cache.discard(pointer));
    }

    /// Prefetches the memory that mapping a block will need soon.
    pub(in crate::engine) fn foresee_mapping(&self, dataset: DatasetId, block: u64) {
        if let Some(of) = self.contents.get(&dataset) {
            of.map.layers.top().prefetch(block);
        }
    }

    /// Maps blocks to their new places. Returns whether the dataset exists.
    pub(in crate::engine) fn map_blocks(
        &mut self,
        dataset: DatasetId,
        blocks: impl Iterator<Item = (u64, Pointer)> + Clone,
    ) -> bool {
        let Some(of) = self.contents.get_mut(&dataset) else {
            return false;
        };
        // Most of the cost is waiting for memory. The processor asks for all of it first.
        let top = of.map.layers.top();
        blocks.clone().for_each(|(block, _)| top.prefetch(block));
        let height = height_of(of);
        let before = of.map.layers.top().touched_nodes(height);
        let snapshots = || self.catalog.epochs_beneath(dataset);
        let mut old: SmallVec<[Pointer; 4]> = SmallVec::new();
        let mut count = 0;
        for (block, pointer) in blocks {
            old.extend(of.map.insert(&self.node_cache, snapshots, block, pointer));
            count += 1;
        }
        let after = of.map.layers.top().touched_nodes(height);
        self.unmerged.note_sealed(before, after, count);
        old.iter().for_each(|pointer| self.drop_block(pointer));
        true
    }

    /// Maps blocks to zeros. Returns whether the dataset exists.
    pub(in crate::engine) fn map_zeros(
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
        of.map.clear(&self.node_cache, snapshots, range, |pointer| {
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
    pub(in crate::engine) fn note_taken(&mut self, write: &Write) {
        if let Some(of) = self.contents.get(&write.dataset) {
            let last = (write.touched(of.block_size.into()).end - 1) / FAN_OUT as u64;
            let work = self.work_of(write);
            self.unmerged.taken(work, (write.dataset, last));
        }
    }

    /// Returns the most that all admitted changes will cost that no durable checkpoint has.
    pub(in crate::engine) fn cost_of_all(&self) -> Cost {
        self.cost(self.unmerged.all())
    }

    /// Returns the most that these changes and one more will cost.
    pub(in crate::engine) fn cost_with(&self, write: &Write) -> Cost {
        self.cost(self.unmerged.all().and(self.work_of(write)))
    }

    /// Returns the most that the changes will cost that the checkpoint being made does not have.
    pub(in crate::engine) fn cost_of_next(&self) -> Cost {
        self.cost(self.unmerged.of_next())
    }

    fn cost(&self, work: Work) -> Cost {
        self.unmerged.cost(work, self.space_counts().allocated)
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
        let shared = match self.unmerged.ended_in(leaf) {
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
