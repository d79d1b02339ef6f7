//! Rewind of a damaged pool to an older checkpoint: how far, and with which consequences.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Amount of changes that a rewind of a damaged pool may give up.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// No changes.
    #[default]
    None,
    /// The end of the log, and at most the newest checkpoint. The rest is whole.
    Newest,
    /// Any number of checkpoints. Blocks of the rest may have been overwritten. Reads and a scrub
    /// report such blocks.
    Extreme,
}

/// A checkpoint that the labels know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KnownCheckpoint {
    /// Number of the checkpoint.
    pub number: u64,
    /// Time of the checkpoint, in seconds since 1970.
    pub time_s: u64,
}

/// Result of a rewind, done or only predicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RewindView {
    /// Whether the rewind was done. Otherwise, the view is a prediction.
    pub is_done: bool,
    /// Whether nothing is given up, because the pool can be opened as it is.
    pub is_whole: bool,
    /// Number of the checkpoint to which the pool returns.
    #[serde(default)]
    pub checkpoint: u64,
    /// Time of this checkpoint, in seconds since 1970.
    pub checkpoint_s: u64,
    /// Time of the newest checkpoint, in seconds since 1970.
    pub newest_s: u64,
    /// Number of checkpoints that are given up, with all changes after them.
    pub checkpoints: usize,
    /// Number of groups of changes in the log that are kept after the checkpoint.
    pub groups: u64,
    /// Damage after the last kept group. `None` means that the end of the log was found there.
    pub damage: Option<String>,
    /// Volumes and snapshots that exist after the rewind.
    pub datasets: Vec<String>,
    /// Volumes and snapshots of the newest state that are gone after the rewind. `None` means that
    /// the newest state cannot be read.
    #[serde(default)]
    pub gone: Option<Vec<String>>,
    /// Volumes and snapshots that exist after the rewind, but not in the newest state.
    #[serde(default)]
    pub returned: Vec<String>,
    /// Checkpoints that the labels know, the newest first.
    #[serde(default)]
    pub known: Vec<KnownCheckpoint>,
    /// Whether blocks of the kept volumes and snapshots may have been overwritten since.
    pub is_doubtful: bool,
}
