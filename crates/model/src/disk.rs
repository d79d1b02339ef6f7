//! Disks of this machine, as an administrator meets them who chooses some for a pool.

use std::collections::BTreeMap;

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
    /// Health, as the disk tells it. `None` means that it was not asked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<DiskHealth>,
}

/// Judgement of a disk's health.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DiskVerdict {
    /// The disk cannot be asked, or tells nothing.
    #[default]
    Unknown,
    /// The disk calls nothing failed, and its errors do not grow.
    Well,
    /// The errors of the disk grow, or it is past the life that it is rated for.
    Wearing,
    /// The disk says that it fails or has failed.
    Failing,
}

impl DiskVerdict {
    /// Returns the word in listings and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Well => "well",
            Self::Wearing => "wearing",
            Self::Failing => "failing",
        }
    }
}

/// Health of a disk, as the disk tells it (SMART).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskHealth {
    /// Judgement.
    pub verdict: DiskVerdict,
    /// Reasons of the judgement, each as a clause: `4 media errors more than before`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Temperature in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i64>,
    /// Hours for which the disk has had power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Used part of the life that the disk is rated for, in per cent. It may be above 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u64>,
    /// Counts of errors, by what they count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Time at which the disk was asked, in milliseconds since 1970.
    pub asked_ms: u64,
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
