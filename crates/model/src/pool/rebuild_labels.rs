//! Requests and answers of `pool check --rebuild-labels`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check::CheckView;

/// What is to be rebuilt.
#[derive(Clone, Debug, Default)]
pub struct RebuildLabels {
    /// The devices, each by itself.
    pub paths: Vec<PathBuf>,
    /// The pool's name or number; `None`: the only one of which something is found.
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
    /// Those of the missing that may have been used without these: the newest changes are there only, then.
    pub unaccounted: Vec<String>,
    /// Devices that hold an older state than the pool, and how far they are behind. They are rebuilt before they count.
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

/// How far a rebuild is, for who waits.
#[derive(Clone, Copy, Debug)]
pub enum RebuildProgress<'a> {
    /// A device is searched: bytes that were looked at, and all.
    Searches(&'a Path, u64, u64),
    /// What was found is proven: bytes, and all.
    Proves(u64, u64),
    /// It is watched whether another host uses the devices.
    Watches,
}
