//! The effect of an operation on blocks: steps for the engine, to be done in their order.
//!
//! A volume or snapshot D has a *view* (which block lies where) and a *dead list*. The dead list
//! has the blocks that are in the view of the snapshot before D, [`super::Dataset::previous`], but
//! no more in D's own view. A block that D drops goes there if it was born up to the epoch of that
//! snapshot. If it was born later, nobody else has it, and it is free. The steps below keep that
//! true.

use crate::format::{DatasetId, Epoch};

/// A step that the engine has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A volume begins with an empty view and dead list.
    Create {
        /// Number of the volume.
        volume: DatasetId,
        /// Size in bytes.
        size: u64,
        /// Size of a block in bytes.
        block_size: u32,
    },
    /// The volume's top layer is closed. The snapshot gets the resulting view and the volume's dead
    /// list. The volume goes on with that view and an empty dead list.
    Snapshot {
        /// The volume.
        volume: DatasetId,
        /// New snapshot of the volume.
        snapshot: DatasetId,
    },
    /// The clone begins with the snapshot's view and an empty dead list.
    Clone {
        /// The new volume.
        clone: DatasetId,
        /// Snapshot of which the clone is made.
        snapshot: DatasetId,
        /// Size in bytes.
        size: u64,
        /// Size of a block in bytes.
        block_size: u32,
    },
    /// A snapshot goes, and one other dataset builds on it. Of `next`'s dead list, blocks born
    /// after `after` are freed. The other blocks of that list, and all of `snapshot`'s dead list,
    /// are `next`'s dead list from now on. The snapshot's view is dropped, and none of its blocks
    /// are freed.
    Merge {
        /// Snapshot that goes.
        snapshot: DatasetId,
        /// Dataset that builds on it: the next snapshot, or the volume.
        next: DatasetId,
        /// Epoch of the snapshot before; 0 if there is none.
        after: Epoch,
    },
    /// A volume or snapshot goes on which nothing builds. Blocks of its view born after `after` are
    /// freed. Its view and its dead list are dropped.
    Free {
        /// Dataset that goes.
        dataset: DatasetId,
        /// Epoch of the snapshot before; 0 if there is none.
        after: Epoch,
    },
    /// A volume goes back to a snapshot. Blocks of the volume's view born after `after` are freed,
    /// and its dead list is dropped. The volume goes on with the snapshot's view and size and an
    /// empty dead list.
    Rollback {
        /// The volume.
        volume: DatasetId,
        /// Newest snapshot of the volume.
        snapshot: DatasetId,
        /// Epoch of the snapshot.
        after: Epoch,
        /// Size from now on, in bytes.
        size: u64,
    },
    /// A volume has another size. Blocks beyond it are dropped as by UNMAP.
    Resize {
        /// Volume of another size.
        volume: DatasetId,
        /// Size before, in bytes.
        from: u64,
        /// Size from now on, in bytes.
        to: u64,
    },
    /// [`super::Catalog::settings`] of a volume or snapshot may have changed.
    Settings {
        /// Volume or snapshot.
        dataset: DatasetId,
    },
}

/// Result of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Steps that the engine has to do, in this order.
    pub steps: Vec<Step>,
}
