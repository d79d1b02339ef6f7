//! Going back to an older checkpoint of a damaged pool: how far, and the consequences.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much may be given up of a pool that is damaged.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Nothing.
    #[default]
    None,
    /// The end of the log, and at most the newest checkpoint. What is left is whole.
    Newest,
    /// As many checkpoints as it takes. Blocks of what is left may have been overwritten: they are
    /// told when they are read, and by a scrub.
    Extreme,
}

/// A checkpoint that labels know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KnownCheckpoint {
    /// Its number.
    pub number: u64,
    /// When it was made, in seconds since 1970.
    pub time_s: u64,
}

/// What going back comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RewindView {
    /// Whether it was done; otherwise it is what would be.
    pub is_done: bool,
    /// Nothing is given up: the pool can be opened as it is.
    pub is_whole: bool,
    /// The checkpoint that the pool goes back to: its number.
    #[serde(default)]
    pub checkpoint: u64,
    /// When it was made, in seconds since 1970.
    pub checkpoint_s: u64,
    /// When the newest checkpoint was made, in seconds since 1970.
    pub newest_s: u64,
    /// Checkpoints that are given up, with all changes behind them.
    pub checkpoints: usize,
    /// Groups of changes of the log that are kept behind the checkpoint.
    pub groups: u64,
    /// What is wrong behind those; `None`: the end of the log was found there.
    pub damage: Option<String>,
    /// The volumes and snapshots that there are then.
    pub datasets: Vec<String>,
    /// Those of the newest state that there are no more then; `None` where that cannot be read.
    #[serde(default)]
    pub gone: Option<Vec<String>>,
    /// Those that there are then, and not in the newest state.
    #[serde(default)]
    pub returned: Vec<String>,
    /// The checkpoints that labels know, the newest first.
    #[serde(default)]
    pub known: Vec<KnownCheckpoint>,
    /// Blocks of these may have been overwritten since.
    pub is_doubtful: bool,
}
