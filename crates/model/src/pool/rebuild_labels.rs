//! Requests and answers of `pool check --rebuild-labels`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check::CheckView;

/// Request to rebuild labels.
#[derive(Clone, Debug, Default)]
pub struct RebuildLabels {
    /// Paths of the devices. Each device is named explicitly.
    pub paths: Vec<PathBuf>,
    /// Name or number of the pool. `None` means the only pool that the devices show.
    pub pool: Option<String>,
    /// Whether labels are written.
    pub write: bool,
}

/// Result of a search for labels, with the labels that are or would be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RebuildView {
    /// Name of the pool.
    pub name: String,
    /// Number of the pool.
    pub guid: String,
    /// Host that had the pool last.
    pub host: String,
    /// Whether the pool was exported.
    pub is_exported: bool,
    /// Number of the pool's newest checkpoint.
    pub epoch: u64,
    /// Time of the newest checkpoint, in seconds since 1970.
    pub checkpoint_s: u64,
    /// Devices that the request named.
    pub devices: Vec<RebuiltDevice>,
    /// Missing devices that may have been used without the named ones. If so, only they have the
    /// newest changes.
    pub unaccounted: Vec<String>,
    /// Devices that hold an older state than the pool, and how far each is behind. They are rebuilt
    /// before they count.
    pub behind: Vec<String>,
    /// Findings of the proof.
    pub proof: CheckView,
    /// Whether the labels were written.
    pub is_written: bool,
}

/// A device with its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RebuiltDevice {
    /// Path of the device.
    #[schema(value_type = String)]
    pub path: PathBuf,
    /// Number of the leaf on the device.
    pub leaf: String,
    /// Byte offsets at which inner labels were found. If the list is empty, the device has labels
    /// of its own.
    pub found_at: Vec<u64>,
    /// Byte offsets at which labels are written.
    pub labels_at: Vec<u64>,
}

/// Progress of a rebuild, for the waiting user.
#[derive(Clone, Copy, Debug)]
pub enum RebuildProgress<'a> {
    /// A device is searched. The numbers are the bytes searched so far, and all bytes.
    Searches(&'a Path, u64, u64),
    /// The findings are proven. The numbers are the bytes read so far, and all bytes.
    Proves(u64, u64),
    /// The devices are watched for another host that uses them.
    Watches,
}
