//! Contents of volumes and snapshots: their maps, settings and counts.

use crate::catalog::Settings;
use crate::format::Epoch;
use crate::map::Map;
use crate::snapshot::deadlist::Deadlist;

/// Volume or snapshot that is in use.
#[derive(Debug)]
pub(super) struct Contents {
    /// Map from blocks to their places.
    pub(super) map: Map,
    /// Size in bytes.
    pub(super) size: u64,
    /// Size of a block in bytes.
    pub(super) block_size: u32,
    pub(super) settings: Settings,
    /// Attempt of the stream that is being received into the volume: only its changes count. No
    /// other request changes or reads the volume.
    pub(super) attempt: Option<u64>,
    /// Blocks of the snapshot before it that are not its own any more.
    pub(super) dead: Deadlist,
    /// Counts of its blocks as of the last checkpoint.
    pub(super) referenced: Referenced,
}

/// Counts of the blocks of a volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Referenced {
    /// Sectors of the blocks, parity not counted.
    pub(super) sectors: u64,
    /// Number of blocks; `None` if the program that wrote the checkpoint did not count them.
    pub(super) blocks: Option<u64>,
    /// Number of blocks that are not compressed; `None` if the program that wrote the checkpoint
    /// did not count them.
    pub(super) whole: Option<u64>,
}

impl Referenced {
    /// Counts of no blocks.
    pub(super) const NOTHING: Self = Self {
        sectors: 0,
        blocks: Some(0),
        whole: Some(0),
    };
}

/// Deleted volume or snapshot whose blocks are still to be freed.
#[derive(Debug)]
pub(super) struct Dying {
    pub(super) map: Map,
    /// Blocks born up to this epoch belong to other datasets.
    pub(super) after: Epoch,
}
