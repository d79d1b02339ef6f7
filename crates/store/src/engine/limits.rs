//! Bounds on a pool's memory and delays, by default or for an amount of memory.

use std::sync::Arc;

use super::manifest::MAX_MANIFEST;
use crate::cache::{Cache, Charge};
use crate::map::Layer;

/// Bounds on a pool's memory and delays.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of changes that are not on the devices yet. Further changes wait.
    pub dirty_bytes: usize,
    /// Bytes of map nodes that are kept.
    pub node_bytes: usize,
    /// Changes of maps after which a checkpoint is made.
    pub updates: u64,
    /// Groups of the log after which a checkpoint is made. Import has to follow them, which takes
    /// time.
    pub groups: u64,
    /// Time without a checkpoint after which one is made, in microseconds, if anything changed.
    pub checkpoint_us: u64,
    /// Idle time after which a checkpoint is made, in microseconds, if anything changed or freed
    /// space waits for one.
    pub rest_us: u64,
    /// Time after which a group is written that no request waits for, in microseconds.
    pub gather_us: u64,
    /// Most nodes of maps that a call handles in background work. Each takes about 80 microseconds.
    pub budget: usize,
    /// Most blocks and nodes of deleted datasets that one checkpoint frees. Each is an extent that
    /// waits in memory until two more checkpoints are durable.
    pub freed_blocks: usize,
    /// Blocks that a scan gathers before it works them off in the order of their places.
    pub scan_batch: usize,
    /// Most bytes of a checkpoint's manifest, no more than a root can point to. A change that could
    /// need more is refused.
    pub manifest_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            dirty_bytes: 64 << 20,
            node_bytes: 256 << 20,
            updates: 1 << 20,
            groups: 1 << 16,
            checkpoint_us: 60_000_000,
            rest_us: 5_000_000,
            gather_us: 2_000,
            budget: 1,
            freed_blocks: 1 << 18,
            scan_batch: 1 << 16,
            manifest_bytes: MAX_MANIFEST,
        }
    }
}

impl Limits {
    /// Returns limits for about `bytes` of memory. Maps, changes without a checkpoint and data
    /// waiting to be written take no more than that together. No limit exceeds its default, and a
    /// pool works even with few bytes.
    pub fn within(bytes: usize) -> Self {
        let by_default = Self::default();
        let bytes = bytes.max(LEAST_MEMORY);
        let updates = bytes / 8 * 3 / LAYERS_OF_CHANGES / Layer::CHANGE_BYTES;
        Self {
            node_bytes: by_default.node_bytes.min(bytes / 2),
            dirty_bytes: by_default.dirty_bytes.min(bytes / 8),
            updates: by_default.updates.min(updates as u64),
            ..by_default
        }
    }
}

/// Memory that is taken in any case. With less, each long write would wait for the one before it.
const LEAST_MEMORY: usize = 32 << 20;

/// Ratio of the changes in memory to [`Limits::updates`]. While a checkpoint is made, at most twice
/// that many changes are taken, and further ones wait.
const LAYERS_OF_CHANGES: usize = 3;

/// Time between two counts of the memory beside the cache.
const CHARGE_EVERY_US: u64 = 50_000;
/// Datasets that are looked at in that time.
const CHARGE_DATASETS: usize = 1000;

/// Share of the cache's cap that the rest of a pool takes.
#[derive(Debug)]
pub(super) struct MemoryCharge {
    charge: Charge,
    /// Time at which the share was last counted.
    counted_us: u64,
}

impl MemoryCharge {
    pub(super) fn new(cache: &Arc<Cache>) -> Self {
        Self {
            charge: Charge::new(Arc::clone(cache)),
            counted_us: 0,
        }
    }

    /// Begins a count if one is due. Each dataset is looked at, so a pool with many of them counts
    /// less often.
    pub(super) fn begin(&mut self, datasets: usize, now_us: u64) -> bool {
        let shares = 1 + (datasets / CHARGE_DATASETS) as u64;
        let is_due = now_us >= self.counted_us + shares * CHARGE_EVERY_US;
        if is_due {
            self.counted_us = now_us;
        }
        is_due
    }

    /// Sets the share, in bytes.
    pub(super) fn set(&mut self, bytes: usize) {
        self.charge.set(bytes);
    }

    /// Returns the share, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}
