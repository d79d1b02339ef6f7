//! Merges layers into trees.

use std::sync::Arc;

use super::super::contents::{Dying, Referenced};
use super::super::request::{PoolError, PoolErrorKind};
use super::super::state::Pool;
use super::making::CheckpointStage;
use super::merging::{Merged, Owner, Running, Task, below, is_as_tallied, owner_of};
use crate::engine::io::wanted::NodeWaiter;
use crate::format::{Epoch, Pointer};
use crate::map::merge::{Merge, Stop};
use crate::map::walk::Progress;
use crate::map::{Closed, Map};
use crate::snapshot::deadlist::Dead;

/// Nodes that are read before the merge asks for them: few in comparison with the nodes that the
/// smallest cache holds.
const NODES_AHEAD: usize = 8;

impl Pool {
    /// Finds the layers to be merged, each once, however many datasets share it.
    pub(super) fn plan_merges(&mut self) {
        let Some(making) = &self.checkpoint else {
            return;
        };
        let mut tasks: Vec<Task> = Vec::new();
        let mut plan = |map: &Map, referenced: Referenced, owner: &dyn Fn(&Closed) -> Owner| {
            let mut below = None;
            for closed in map.layers.closed() {
                if !tasks.iter().any(|task| Arc::ptr_eq(&task.closed, closed)) {
                    tasks.push(Task {
                        closed: Arc::clone(closed),
                        below: below.clone(),
                        tree: map.tree,
                        referenced,
                        owner: owner(closed),
                    });
                }
                below = Some(Arc::clone(closed));
            }
        };
        let catalog = &making.catalog;
        for (id, contents) in self.datasets_in_use() {
            let owner = |closed: &Closed| owner_of(catalog, *id, closed.epoch);
            plan(&contents.map, contents.referenced, &owner);
        }
        // Among datasets being deleted, a layer belongs to the oldest one. The oldest frees the
        // blocks that the layer drops, unless an earlier dataset has them.
        let all = self.destroyed.dying();
        let owner = |closed: &Closed| {
            let holds = |of: &&Dying| {
                let layers = of.map.layers.closed().iter();
                layers
                    .into_iter()
                    .any(|layer| std::ptr::eq(&**layer, closed))
            };
            let oldest = all.iter().filter(holds).map(|dying| dying.after).min();
            Owner {
                dataset: None,
                snapshots: oldest.into_iter().collect(),
            }
        };
        for dying in all {
            plan(&dying.map, Referenced::NOTHING, &owner);
        }
        if let Some(making) = &mut self.checkpoint {
            making.tasks = tasks.into();
        }
    }

    /// Does the next step of merging.
    pub(super) fn merge_step(&mut self) {
        let making = self.checkpoint.as_ref();
        let bound = making.map_or(0, |making| making.nodes_to_go_on_with());
        let mut budget = self.limits().budget.min(bound);
        while budget > 0 {
            let Some(making) = &mut self.checkpoint else {
                return;
            };
            if making.merging.is_none() {
                let Some(task) = making.tasks.pop_front() else {
                    return self.set_stage(CheckpointStage::Free);
                };
                let (tree, _) = below(&making.merged, &task);
                let merge = Merge::new(tree, Arc::clone(&task.closed));
                making.merging = Some(Running { task, merge });
            }
            match self.merge_some(&mut budget) {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => self.note_merged(),
                Err(Stop::Missing(missing)) => {
                    self.set_stage(CheckpointStage::Waiting(&CheckpointStage::Merge));
                    self.read_node(missing, NodeWaiter::Checkpoint);
                    return self.read_nodes_ahead();
                }
                Err(Stop::NoSpace) => {
                    let context = "no space is left for the trees of the checkpoint";
                    return self.checkpoint_failed(PoolError::new(PoolErrorKind::NoSpace, context));
                }
            }
        }
    }

    /// Reads together the nodes that the merge will ask for next.
    fn read_nodes_ahead(&mut self) {
        for missing in self.upcoming_nodes(NODES_AHEAD) {
            self.read_node(missing, NodeWaiter::Nobody);
        }
    }

    fn merge_some(&mut self, budget: &mut usize) -> Result<Progress, Stop> {
        let running = self.checkpoint.as_ref().and_then(|of| of.merging.as_ref());
        let Some(running) = running else {
            return Ok(Progress::More);
        };
        let birth = running.task.closed.epoch;
        let merged = self.with_writer(Some(birth), |making, writer, nodes| {
            let running = making.merging.as_mut()?;
            let before = running.merge.statistics().nodes_written;
            let progress = running.merge.step(nodes, writer, budget);
            let written = running.merge.statistics().nodes_written - before;
            let blocks = std::mem::take(&mut writer.writes.dropped);
            let nodes = std::mem::take(&mut writer.writes.dropped_nodes);
            Some((progress, written, running.task.owner.clone(), blocks, nodes))
        });
        let Some((progress, written, owner, blocks, nodes)) = merged.flatten() else {
            return Ok(Progress::More);
        };
        self.unmerged.written(written);
        self.bury_replaced(&owner, blocks, Dead::Block);
        self.bury_replaced(&owner, nodes, Dead::Node);
        progress
    }

    /// Frees blocks or nodes that a layer replaced. If older snapshots have them, it puts them on
    /// the dead list instead.
    fn bury_replaced(&mut self, owner: &Owner, dropped: Vec<Pointer>, what: Dead) {
        let shared_until = owner.snapshots.last().copied().unwrap_or(Epoch(0));
        for pointer in dropped {
            if pointer.birth > shared_until {
                self.drop_block(&pointer);
                continue;
            }
            let dead = self.checkpoint.as_mut().zip(owner.dataset);
            if let Some((making, dataset)) = dead {
                let list = making.dead.entry(dataset).or_default();
                list.append(pointer, what, &owner.snapshots);
            }
        }
    }

    fn note_merged(&mut self) {
        let Some(making) = &mut self.checkpoint else {
            return;
        };
        let Some(Running { task, merge }) = making.merging.take() else {
            return;
        };
        let (_, before) = below(&making.merged, &task);
        let statistics = merge.statistics();
        debug_assert!(
            merge.tree().is_none_or(|tree| {
                statistics.nodes_written <= task.closed.layer.touched_nodes(tree.height)
            }),
            "{statistics:?} of {:?}",
            task.closed.layer
        );
        debug_assert!(is_as_tallied(&task.closed, &statistics), "{statistics:?}");
        let changed = |before: u64, added: u64, dropped| (before + added).saturating_sub(dropped);
        let referenced = Referenced {
            sectors: changed(
                before.sectors,
                statistics.block_sectors_added,
                statistics.block_sectors_dropped,
            ),
            blocks: (before.blocks)
                .map(|of| changed(of, statistics.blocks_added, statistics.blocks_dropped)),
            whole: (before.whole)
                .map(|of| changed(of, statistics.whole_added, statistics.whole_dropped)),
        };
        if let Some(tree) = merge.tree() {
            making.merged.push(Merged {
                closed: task.closed,
                tree,
                referenced,
            });
        }
    }
}
