//! Trims of a pool: those that users asked for, and the steps that vdevs have under way.

use std::collections::{BTreeMap, BTreeSet};

use super::record::TrimRecord;
use crate::space::Extent;
use crate::vdev::{DeviceError, LeafId};

/// All trims of a pool.
#[derive(Debug, Default)]
pub(in crate::engine) struct Trims {
    /// Trims that a user asked for, by the guids of leaves.
    pub(super) by_leaf: BTreeMap<u64, TrimRecord>,
    /// Step that each top-level vdev has under way.
    pub(super) steps: BTreeMap<u16, Step>,
    /// Time before which a top-level vdev is left alone.
    pub(super) due_us: BTreeMap<u16, u64>,
    /// Leaves whose devices reported that they cannot trim.
    pub(super) unable: BTreeSet<u64>,
    /// Bytes that `autotrim` told devices of since the pool was opened.
    pub(super) auto_bytes: u64,
    /// Whether trims are over: the pool is let go, and no step begins any more.
    pub(super) is_over: bool,
}

/// Step of a trim: free runs that devices are being told of.
#[derive(Debug)]
pub(super) struct Step {
    /// Leaf of the trim that a user asked for; `None` for all leaves of the vdev.
    pub(super) of: Option<u64>,
    pub(super) extents: Vec<Extent>,
    /// Answers that are still to come.
    pub(super) waiting: usize,
    pub(super) failed: Vec<(LeafId, DeviceError)>,
    pub(super) asked_us: u64,
    /// Sector at which the trim of the leaf continues.
    pub(super) next: u64,
}

impl Trims {
    /// Restores the trims that the last checkpoint kept.
    pub(in crate::engine) fn open(&mut self, records: &[TrimRecord]) {
        let by_leaf = records.iter().map(|record| (record.leaf, record.clone()));
        self.by_leaf = by_leaf.collect();
    }

    /// Returns the trims for the next checkpoint to keep.
    pub(in crate::engine) fn records(&self) -> Vec<TrimRecord> {
        self.by_leaf.values().cloned().collect()
    }

    /// Reports whether no step is under way.
    pub(in crate::engine) fn is_at_rest(&self) -> bool {
        self.steps.is_empty()
    }
}
