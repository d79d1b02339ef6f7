//! Changes of the vdevs of a pool: `pool offline`, `online`, `attach`, `replace`, `detach`, `add`,
//! `remove`, `clear`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::vdev_request::{Additions, VdevRequest};

/// A change of the vdevs of a pool. Devices are named by path, by the last part of the path, or by
/// number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum VdevChange {
    /// Takes devices offline.
    Offline {
        /// Names of the devices.
        devices: Vec<String>,
    },
    /// Brings devices back that were offline, failed or missing.
    Online {
        /// Names of the devices.
        devices: Vec<String>,
        /// Whether the pool uses all space that the devices have by now.
        #[serde(default)]
        expand: bool,
    },
    /// Makes a mirror of a device, or adds a device to its mirror.
    Attach {
        /// Name of the device that gets a mirror.
        device: String,
        /// Path of the new device.
        #[schema(value_type = String)]
        new: PathBuf,
        /// Whether the new device may hold labels of another pool.
        #[serde(default)]
        force: bool,
        /// Size in bytes of a file to make, if the path does not exist.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Rebuilds a device on another device, which then takes its place.
    Replace {
        /// Name of the device.
        device: String,
        /// Path of the new device. `None` means another device at the old path. A spare stands in
        /// at once.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        new: Option<PathBuf>,
        /// Whether the new device may hold labels of another pool.
        #[serde(default)]
        force: bool,
        /// Size in bytes of a file to make, if the path does not exist.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Takes a device out of its mirror or out of a replacement, or a spare out of use.
    Detach {
        /// Name of the device.
        device: String,
    },
    /// Adds top-level vdevs, logs, caches and spares.
    Add {
        /// Top-level vdevs to add.
        #[serde(default)]
        vdevs: Vec<VdevRequest>,
        /// Log vdevs to add: devices, and mirrors of devices.
        #[serde(default)]
        logs: Vec<VdevRequest>,
        /// Cache devices to add. They keep blocks that memory gives up.
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        caches: Vec<PathBuf>,
        /// Spares to add, which stand ready to replace another device.
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        spares: Vec<PathBuf>,
        /// Whether devices may hold labels of another pool or other known data, and redundancy may
        /// differ.
        #[serde(default)]
        force: bool,
        /// Size in bytes of files to make where a path does not exist.
        #[serde(default)]
        file_size: Option<u64>,
        /// Whether the request is a dry run. A dry run reports the layout and the obstacles, and
        /// changes nothing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Removes logs, caches, and spares that are not in use.
    Remove {
        /// Names of the devices. A mirrored log has the name that the status shows.
        devices: Vec<String>,
    },
    /// Forgets errors, and tries failed devices again. Reopens a pool that takes no changes any
    /// more.
    Clear {
        /// Names of the devices. An empty list means all.
        #[serde(default)]
        devices: Vec<String>,
    },
}

impl VdevChange {
    /// Returns the new devices, if the change takes any. They must be in the list of pools.
    /// Otherwise, the next start would not find the whole pool.
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
