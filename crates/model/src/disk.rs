//! Disks of this machine, as an administrator meets them who chooses some for a pool.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A disk of this machine: the names that are printed on it, what uses it, and what is on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskView {
    /// Path that stays the same after a restart, below /dev/disk/by-id. It is the node if udev
    /// gives the disk no such name.
    pub path: String,
    /// Device node.
    pub node: String,
    /// Size in bytes.
    pub size: u64,
    /// Model, as the disk reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number, which is printed on the disk too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// World wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Slot of the enclosure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Whether the disk has turning platters.
    pub is_rotational: bool,
    /// Reason why no pool can take the disk now, as a clause: `it is mounted on /`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// Known data on the disk, which a pool would overwrite: `an XFS file system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
}

/// Request to light the lamp of a disk's slot, or to put it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LocateDisk {
    /// Path, device node or serial number of the disk.
    pub disk: String,
    /// Whether the lamp is lit.
    pub on: bool,
}

impl DiskView {
    /// Returns what tells the disk from others: its serial number, else its world wide name, else
    /// its path.
    pub fn identity(&self) -> &str {
        let printed = self.serial.as_deref().or(self.wwn.as_deref());
        printed.unwrap_or(&self.path)
    }
}
