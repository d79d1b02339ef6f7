//! What an operation means for blocks: steps for the engine, to be done in their order.
//!
//! A volume or snapshot D has a *view* (which block lies where) and a *dead list*: the blocks that are
//! in the view of the snapshot before it, [`super::Dataset::previous`], but no more in its own. What D drops
//! goes there if it was born up to the epoch of that snapshot; if it was born later, nobody else has
//! it, and it is free. The steps below keep that true.

use crate::format::{DatasetId, Epoch};

/// What the engine has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A volume begins with an empty view and dead list.
    Create {
        /// Its number.
        volume: DatasetId,
        /// Bytes.
        size: u64,
        /// Bytes.
        block_size: u32,
    },
    /// The volume's top layer is closed; the snapshot gets the view that results and the volume's dead
    /// list; the volume goes on with the same view and an empty dead list.
    Snapshot {
        /// The volume.
        volume: DatasetId,
        /// Its new snapshot.
        snapshot: DatasetId,
    },
    /// The clone begins with the snapshot's view and an empty dead list.
    Clone {
        /// The new volume.
        clone: DatasetId,
        /// What it was made of.
        snapshot: DatasetId,
        /// Bytes.
        size: u64,
        /// Bytes.
        block_size: u32,
    },
    /// A snapshot goes, and one other dataset builds on it: of `next`'s dead list, blocks born after
    /// `after` are freed; the others, and all of `snapshot`'s dead list, are `next`'s dead list from now
    /// on. The snapshot's view is dropped, without freeing blocks of it.
    Merge {
        /// What goes.
        snapshot: DatasetId,
        /// What builds on it: the next snapshot, or the volume.
        next: DatasetId,
        /// The epoch of the snapshot before; 0 where there is none.
        after: Epoch,
    },
    /// A volume or snapshot goes on which nothing builds: blocks of its view born after `after` are freed;
    /// its view and its dead list are dropped.
    Free {
        /// What goes.
        dataset: DatasetId,
        /// The epoch of the snapshot before; 0 where there is none.
        after: Epoch,
    },
    /// Blocks of the volume's view born after `after` are freed; its dead list is dropped; it goes on with
    /// the snapshot's view and size and an empty dead list.
    Rollback {
        /// The volume.
        volume: DatasetId,
        /// Its newest snapshot.
        snapshot: DatasetId,
        /// That one's epoch.
        after: Epoch,
        /// Bytes from now on.
        size: u64,
    },
    /// A volume has another size. Blocks that lie beyond it are dropped as by UNMAP.
    Resize {
        /// Which.
        volume: DatasetId,
        /// Bytes before.
        from: u64,
        /// Bytes from now on.
        to: u64,
    },
    /// [`super::Catalog::settings`] of a volume or snapshot may have changed.
    Settings {
        /// Which.
        dataset: DatasetId,
    },
}

/// What came of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// What the engine has to do, in this order.
    pub steps: Vec<Step>,
}
