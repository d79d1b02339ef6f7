//! Blocks and nodes that are wanted, each with what waits for it.

use crate::cache::Key;
use crate::format::DatasetId;

/// Number of the pending request for blocks that nothing waits for. No real request has this
/// number.
pub(super) const NOBODY: u64 = 0;

/// Block that a part of a pending request wants.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Wanted {
    pub(in crate::engine) dataset: DatasetId,
    pub(in crate::engine) block: u64,
    pub(in crate::engine) pending: u64,
    pub(in crate::engine) part: usize,
}

impl Wanted {
    /// Returns the block's key in the cache.
    pub(super) fn cache_key(&self) -> Key {
        cache_key(self.dataset, self.block)
    }

    /// Reports whether the block is read ahead, so that no request waits for it.
    pub(in crate::engine) fn is_ahead(&self) -> bool {
        self.pending == NOBODY
    }
}

/// Blocks that wait for a node: they are to be read ahead, or their leaves are to be published.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Ahead {
    pub(super) dataset: DatasetId,
    pub(super) block: u64,
    pub(super) end: u64,
}

impl Ahead {
    pub(super) fn wanted(&self, block: u64) -> Wanted {
        Wanted {
            dataset: self.dataset,
            block,
            pending: NOBODY,
            part: 0,
        }
    }
}

/// Waiter for a node.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum NodeWaiter {
    Block(Wanted),
    Extents(u64),
    /// Request for the differences of snapshots.
    Changes(u64),
    /// Request for a block of a stream.
    Stored(u64),
    /// The checkpoint, which looks again by itself.
    Checkpoint,
    /// Scan of this number, which looks again by itself.
    Scan(u64),
    /// Nothing yet; the node will be asked for soon.
    Nobody,
    /// Nothing yet; the node and the blocks below it will be asked for soon.
    Ahead(Ahead),
    /// Nothing yet; lanes will look into the leaves below it.
    Leaves(Ahead),
}

/// Returns the key of a block in the cache.
pub(in crate::engine) fn cache_key(dataset: DatasetId, block: u64) -> Key {
    Key {
        volume: dataset.0.into(),
        block,
    }
}
