//! One device of an array: its state, its missing epochs, its unflushed writes, its counters.

pub(super) mod queue;
mod unflushed;

use std::sync::Arc;

use super::counts::{DirectReads, LeafIo};
use super::dtl::Dtl;
use super::layout;
use super::status::ErrorCounts;
use super::tree::{LeafSpec, LeafState};
use crate::format::Epoch;
use queue::Queue;
use unflushed::Unflushed;

#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) guid: u64,
    /// Size of the device in bytes.
    pub(super) size: u64,
    /// Byte behind which nothing is there: the device shrank.
    pub(super) reach: u64,
    pub(super) state: LeafState,
    /// Top-level vdev that the leaf belongs to.
    pub(super) vdev: u16,
    pub(super) missing: Dtl,
    /// Epoch of the first root that its labels get in this place.
    pub(super) joined: Epoch,
    /// Epoch from which on all epochs are missing too: the leaf is away.
    pub(super) missing_since: Option<Epoch>,
    /// Number of times that more was missed. It shows whether a resilver began too early.
    pub(super) misses: u64,
    pub(super) queue: Queue,
    pub(super) unflushed: Unflushed,
    pub(super) errors: ErrorCounts,
    pub(super) io: LeafIo,
    /// Reads of the device beside the array.
    pub(super) direct: Arc<DirectReads>,
    /// Number of requests that were given up and not answered yet. While there are any, the device
    /// may still do them, so nothing is asked of it.
    pub(super) abandoned: u32,
    /// Byte at which the last read ended. The next read is cheap there.
    pub(super) read_until: u64,
}

impl Leaf {
    /// Makes a leaf of a top-level vdev whose blocks are now born in `epoch`.
    pub(super) fn new(spec: &LeafSpec, vdev: u16, epoch: Epoch) -> Self {
        let is_away = spec.state != LeafState::Online;
        Self {
            guid: spec.guid,
            size: spec.size,
            reach: u64::MAX,
            state: spec.state,
            vdev,
            missing: spec.missing.clone(),
            joined: spec.joined,
            missing_since: is_away.then_some(epoch),
            misses: 0,
            queue: Queue::default(),
            unflushed: Unflushed::default(),
            errors: ErrorCounts::default(),
            io: LeafIo::default(),
            direct: Arc::default(),
            abandoned: 0,
            read_until: 0,
        }
    }

    /// Returns the sectors in the leaf's data area.
    pub(super) fn sectors(&self) -> u64 {
        layout::data_sectors(self.size).unwrap_or(0)
    }

    /// Reports whether requests for blocks reach the leaf's device.
    pub(super) fn is_usable(&self) -> bool {
        self.state == LeafState::Online && self.abandoned == 0
    }

    /// Reports whether the leaf belongs to its vdev and is not used.
    pub(super) fn is_away(&self) -> bool {
        !matches!(self.state, LeafState::Online | LeafState::Detached)
    }

    /// Reports whether there is a device that labels can be read from and written to.
    pub(super) fn is_open(&self) -> bool {
        self.abandoned == 0
            && !matches!(
                self.state,
                LeafState::Unavailable | LeafState::Removed | LeafState::Detached
            )
    }

    /// Reports whether the leaf may lack a block born in this epoch.
    pub(super) fn misses(&self, birth: Epoch) -> bool {
        self.missing.contains(birth) || self.missing_since.is_some_and(|since| birth >= since)
    }

    /// Reports whether the leaf may lack a block born in this epoch or in a later one.
    pub(super) fn misses_since(&self, birth: Epoch) -> bool {
        let last = self.missing.ranges().last();
        last.is_some_and(|(_, last)| *last >= birth) || self.missing_since.is_some()
    }

    /// Notes that blocks born in these epochs may be missing from now on.
    pub(super) fn miss(&mut self, first: Epoch, last: Epoch) {
        self.missing.add(first, last);
        self.misses += 1;
    }

    /// Reports whether the leaf has every block it should have.
    pub(super) fn is_complete(&self) -> bool {
        self.is_usable() && self.missing.is_empty() && self.missing_since.is_none()
    }

    /// Counts a failed request.
    pub(super) fn count(&mut self, is_read: bool) {
        match is_read {
            true => self.errors.read += 1,
            false => self.errors.write += 1,
        }
    }
}
