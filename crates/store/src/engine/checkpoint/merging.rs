//! Layers on their way into trees: which wait, which is being merged, and what came of the others.

use std::sync::Arc;

use crate::catalog::{Catalog, Dataset};
use crate::engine::contents::Referenced;
use crate::format::{DatasetId, Epoch};
use crate::map::merge::{Merge, Statistics};
use crate::map::{Closed, Tree};

/// Layer that is to be merged.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) closed: Arc<Closed>,
    /// Layer below it, which is merged first.
    pub(super) below: Option<Arc<Closed>>,
    /// Tree below the lowest layer; the next field counts its blocks.
    pub(super) tree: Tree,
    pub(super) referenced: Referenced,
    pub(super) owner: Owner,
}

/// Dataset whose dead list takes the blocks that the merge drops.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// Number of the dataset; `None` if it is being deleted, since nobody needs its list.
    pub(super) dataset: Option<DatasetId>,
    /// Epochs of the snapshots that the dataset builds on, ascending.
    pub(super) snapshots: Vec<Epoch>,
}

/// Merge under way.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) merge: Merge,
}

/// Layer that was merged, and the resulting tree.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) closed: Arc<Closed>,
    pub(super) tree: Tree,
    pub(super) referenced: Referenced,
}

/// Returns the tree below a task's layer, and the counts of its blocks.
pub(super) fn below(all: &[Merged], task: &Task) -> (Tree, Referenced) {
    let below = task.below.as_ref();
    let merged = below.and_then(|below| {
        let mut merged = all.iter();
        merged.find(|merged| Arc::ptr_eq(&merged.closed, below))
    });
    merged.map_or((task.tree, task.referenced), |merged| {
        (merged.tree, merged.referenced)
    })
}

/// Finds the owner of the blocks that a layer replaces: the oldest snapshot that has the layer,
/// else the volume.
pub(super) fn owner_of(catalog: &Catalog, dataset: DatasetId, epoch: Epoch) -> Owner {
    let has_layer = |of: &&Dataset| {
        of.as_snapshot()
            .is_some_and(|snapshot| snapshot.epoch >= epoch)
    };
    let own = catalog.dataset(dataset).into_iter();
    let older = own.chain(catalog.chain(dataset)).take_while(|of| {
        // The volume itself comes first, then its snapshots, newest first.
        of.id == dataset && of.as_snapshot().is_none() || has_layer(of)
    });
    let owner = older.last().map_or(dataset, |of| of.id);
    Owner {
        dataset: Some(owner),
        snapshots: catalog.epochs_beneath(owner),
    }
}

/// Reports whether a layer changed the counts as its tally said, as far as the tally knew.
pub(super) fn is_as_tallied(closed: &Closed, merged: &Statistics) -> bool {
    let tally = closed.tally();
    let (added, dropped) = (tally.written(), tally.replaced());
    let is_same = added.sectors + merged.block_sectors_dropped
        == dropped.sectors + merged.block_sectors_added
        && added.blocks + merged.blocks_dropped == dropped.blocks + merged.blocks_added
        && added.whole + merged.whole_dropped == dropped.whole + merged.whole_added;
    is_same || !tally.is_exact()
}
