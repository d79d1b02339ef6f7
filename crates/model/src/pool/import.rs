//! Requests of `pool import`, and imports that are waiting.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rewind::Reach;

/// Request of `pool import`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Name or number of the pool. `None` only lists pools.
    #[serde(default)]
    pub pool: Option<String>,
    /// Files, devices, and folders of them to search. An empty list means /dev.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
    /// Whether the import overrides these obstacles:
    /// - the labels say that another host has the pool
    /// - missing devices may have newer changes, or others were being rebuilt from them
    /// - logical units used the disks meanwhile
    #[serde(default)]
    pub force: bool,
    /// Whether missing log vdevs are left out. Writes that were acknowledged on these logs alone
    /// are lost.
    #[serde(default)]
    pub without_log: bool,
    /// Amount of changes that may be given up if the pool is damaged.
    #[serde(default)]
    pub rewind: Reach,
    /// Number of the checkpoint to return to, with `rewind`. Newer checkpoints are given up even if
    /// they are whole.
    #[serde(default)]
    pub checkpoint: Option<u64>,
    /// Whether the request only reports the changes that would be given up.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether the pool is only read: nothing is written to its devices, and it takes no changes.
    #[serde(default)]
    pub read_only: bool,
    /// New name of the pool. `None` keeps the old name.
    #[serde(default)]
    pub new_name: Option<String>,
}

/// An import that waits for proof that no other host has the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitView {
    /// Name of the pool.
    pub pool: String,
    /// Number of the pool.
    pub guid: String,
    /// Approximate number of seconds left.
    pub seconds: u64,
    /// Reason for the wait, as a sentence without a full stop.
    pub why: String,
}
