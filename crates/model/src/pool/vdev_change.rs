//! Changes of the vdevs of a pool: `pool offline`, `online`, `attach`, `replace`, `detach`, `add`,
//! `remove`, `clear`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::vdev_request::{Additions, VdevRequest};

/// A change of what a pool is made of. Devices are named by their paths, or by the last part of
/// these, or by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum VdevChange {
    /// Puts devices aside.
    Offline {
        /// Which.
        devices: Vec<String>,
    },
    /// Uses devices again that were put aside, failed or were away.
    Online {
        /// Which.
        devices: Vec<String>,
        /// Use all of the space that they have by now.
        #[serde(default)]
        expand: bool,
    },
    /// Makes a mirror of a device, or adds one to its mirror.
    Attach {
        /// To which.
        device: String,
        /// The new one.
        #[schema(value_type = String)]
        new: PathBuf,
        /// Also where another pool's labels are on it.
        #[serde(default)]
        force: bool,
        /// Make a file of this size, in bytes, where there is none.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Rebuilds a device on another one, which then takes its place.
    Replace {
        /// Which.
        device: String,
        /// The new one; without it, another one at the same path. A spare stands in at once.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        new: Option<PathBuf>,
        /// Also where another pool's labels are on it.
        #[serde(default)]
        force: bool,
        /// Make a file of this size, in bytes, where there is none.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Takes a device out of its mirror, out of a replacement, or a spare out of use.
    Detach {
        /// Which.
        device: String,
    },
    /// Adds top-level vdevs, logs, caches and spares.
    Add {
        /// The vdevs.
        #[serde(default)]
        vdevs: Vec<VdevRequest>,
        /// Log vdevs: devices, and mirrors of these.
        #[serde(default)]
        logs: Vec<VdevRequest>,
        /// Devices that keep blocks that memory gives up.
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        caches: Vec<PathBuf>,
        /// Devices that stand ready.
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        spares: Vec<PathBuf>,
        /// Also where another pool's labels or something else that is known is on them, or
        /// redundancy differs.
        #[serde(default)]
        force: bool,
        /// Make files of this size, in bytes, where there are none.
        #[serde(default)]
        file_size: Option<u64>,
        /// Only tell how the pool would be laid out, and what stands in the way; change nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Takes away logs, caches, and spares that stand ready.
    Remove {
        /// Which; a mirrored log by the name that its status tells.
        devices: Vec<String>,
    },
    /// Forgets errors, and tries devices again that failed. Opens a pool anew that takes no changes
    /// any more.
    Clear {
        /// Which; none is all.
        #[serde(default)]
        devices: Vec<String>,
    },
}

impl VdevChange {
    /// Returns the new devices, if the change takes any. They must be in the list of pools, or the
    /// next start would not find the pool whole.
    pub fn takes(&self) -> Option<Vec<&Path>> {
        match self {
            Self::Attach { new, .. } => Some(vec![new]),
            Self::Replace { new, .. } => Some(new.iter().map(PathBuf::as_path).collect()),
            Self::Add {
                vdevs,
                logs,
                caches,
                spares,
                ..
            } => {
                let what = Additions {
                    vdevs,
                    logs,
                    caches,
                    spares,
                };
                Some(what.paths().collect())
            }
            Self::Offline { .. }
            | Self::Online { .. }
            | Self::Detach { .. }
            | Self::Remove { .. }
            | Self::Clear { .. } => None,
        }
    }
}
