//! Enters changes into the maps, and counts what each costs a checkpoint.

use super::change::Write;
use super::unmerged::{Cost, Work};
use crate::engine::contents::Contents;
use crate::engine::state::Pool;
use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Pointer};
use crate::map::Tree;
use crate::map::touched::nodes_over;

impl Pool {
    /// Prefetches the memory that mapping a block will need soon.
    pub(in crate::engine) fn foresee_mapping(&self, dataset: DatasetId, block: u64) {
        if let Some(of) = self.contents.get(&dataset) {
            of.map.layers.top().prefetch(block);
        }
    }

    /// Maps a block to its new place. Returns whether the dataset exists.
    pub(in crate::engine) fn map_block(
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
        self.unmerged.cost(work, self.space.counts().allocated)
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
