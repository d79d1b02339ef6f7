//! Requests and answers of `pool check`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Result of a check of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// Name of the pool.
    pub name: String,
    /// Number of the pool.
    pub guid: String,
    /// Time of the last checkpoint, in seconds since 1970.
    pub checkpoint_s: u64,
    /// Devices that were not found. Their contents were not checked.
    pub missing: Vec<String>,
    /// Devices that returned wrong bytes, or failed to read.
    #[serde(default)]
    pub wrong: Vec<WrongDevice>,
    /// Number of volumes and snapshots.
    pub datasets: u64,
    /// Number of their blocks.
    pub blocks: u64,
    /// Number of nodes of their maps.
    pub nodes: u64,
    /// Number of blocks and nodes of which every copy was read and is right.
    pub verified: u64,
    /// Bytes on the devices that are needed.
    pub needed: u64,
    /// Problems that the check found.
    pub findings: Vec<FindingView>,
    /// Number of further problems that are not listed.
    pub more_findings: u64,
}

/// A device that is the reason for findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrongDevice {
    /// Path of the device.
    pub path: String,
    /// Number of times that the device returned wrong bytes, including for data that the check had
    /// to read twice.
    pub checksum: u64,
    /// Number of reads that failed.
    pub read: u64,
}

/// A problem that the check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// Stable word for the kind of problem.
    pub kind: String,
    /// Description of the problem and its place.
    pub text: String,
    /// Consequence of the problem, and the step to take.
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
