//! Requests and answers of `pool check`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a check found out about a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// The pool's name.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// When its last checkpoint was made, in seconds since 1970.
    pub checkpoint_s: u64,
    /// Devices that were not found: what is on them was not looked at.
    pub missing: Vec<String>,
    /// Devices that gave wrong bytes, or failed to give any.
    #[serde(default)]
    pub wrong: Vec<WrongDevice>,
    /// Volumes and snapshots.
    pub datasets: u64,
    /// Blocks of them.
    pub blocks: u64,
    /// Nodes of their maps.
    pub nodes: u64,
    /// Blocks and nodes of which every copy was read and is right.
    pub verified: u64,
    /// Bytes on the devices that are needed.
    pub needed: u64,
    /// What is wrong.
    pub findings: Vec<FindingView>,
    /// How much more is wrong.
    pub more_findings: u64,
}

/// A device that is the reason for findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrongDevice {
    /// Where it is.
    pub path: String,
    /// How often it gave wrong bytes, also for what the check had to read twice.
    pub checksum: u64,
    /// How often it failed to read.
    pub read: u64,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// A word that stays what it is.
    pub kind: String,
    /// What is wrong, and where.
    pub text: String,
    /// What it means and what to do.
    pub action: String,
}

/// Request to check a pool.
#[derive(Clone, Debug, Default)]
pub struct CheckPool {
    /// Files and devices, and folders that hold them.
    pub paths: Vec<PathBuf>,
    /// Name or number of the pool. `None` means the only pool found.
    pub pool: Option<String>,
    /// Checkpoint to which the pool is rewound for the check.
    pub checkpoint: Option<u64>,
    /// Whether missing log devices are left out, as in an import without them.
    pub without_log: bool,
}
