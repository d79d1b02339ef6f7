//! Requests and answers of `pool check --rebuild-labels`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check::CheckView;

/// Request to rebuild labels.
#[derive(Clone, Debug, Default)]
pub struct RebuildLabels {
    /// Paths of the devices, each named itself.
    pub paths: Vec<PathBuf>,
    /// Name or number of the pool. `None` means the only pool that the devices show.
    pub pool: Option<String>,
    /// Whether labels are written.
    pub write: bool,
}

/// What was found, and what is or would be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RebuildView {
    /// The pool's name.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// The host that had it last.
    pub host: String,
    /// Whether it was exported.
    pub is_exported: bool,
    /// The number of its newest checkpoint.
    pub epoch: u64,
    /// When that was made, in seconds since 1970.
    pub checkpoint_s: u64,
    /// The devices that were named.
    pub devices: Vec<RebuiltDevice>,
    /// Those of the missing that may have been used without these: the newest changes are there
    /// only, then.
    pub unaccounted: Vec<String>,
    /// Devices that hold an older state than the pool, and how far they are behind. They are
    /// rebuilt before they count.
    pub behind: Vec<String>,
    /// What the proof found.
    pub proof: CheckView,
    /// Whether the labels were written.
    pub is_written: bool,
}

/// A device, and its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RebuiltDevice {
    /// Where it is.
    #[schema(value_type = String)]
    pub path: PathBuf,
    /// The number of the leaf that it is.
    pub leaf: String,
    /// Where inner labels were found, in bytes; empty: it has labels of its own.
    pub found_at: Vec<u64>,
    /// Where labels are written, in bytes.
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
