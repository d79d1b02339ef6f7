//! Views of pools that were found and are not open.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rewind::RewindView;
use super::twins::TwinsView;
use super::vdev::VdevView;

/// A pool that was found and is not open. It may also be a device with unusable labels, which has
/// no name and number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundPool {
    /// Name of the pool.
    pub name: String,
    /// Number of the pool.
    pub guid: String,
    /// State that the pool would have: ONLINE, DEGRADED, or UNAVAIL if it cannot be imported.
    #[serde(default)]
    pub state: String,
    /// Whether the pool was exported.
    pub is_exported: bool,
    /// Host that had the pool last.
    pub host: String,
    /// Devices on which the pool was found.
    #[schema(value_type = Vec<String>)]
    pub devices: Vec<PathBuf>,
    /// Devices of the pool that were not found, by their last paths or their numbers.
    pub missing: Vec<String>,
    /// Layout of the pool: the pool with its top-level vdevs, then `logs`, `cache` and `spares` if
    /// it has any. The layout is empty if the labels cannot be used.
    #[serde(default)]
    pub layout: Vec<VdevView>,
    /// Missing devices that may have been used without the devices found. If so, only they have the
    /// newest changes.
    #[serde(default)]
    pub unaccounted: Vec<String>,
    /// Reason why the pool cannot be imported. `None` means that it can.
    pub problem: Option<String>,
    /// Whether the problem is a `pool reguid` that was interrupted.
    #[serde(default)]
    pub is_between_numbers: bool,
    /// Devices that share an identity. None of them is used until the administrator names one.
    #[serde(default)]
    pub twins: Vec<TwinsView>,
    /// Copies of named devices, which were left alone.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub left_out: Vec<PathBuf>,
    /// Notes on doubtful devices that were used all the same.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether the problem is a missing log. The pool can be imported without the log, at the
    /// stated cost.
    #[serde(default)]
    pub is_log_missing: bool,
    /// Whether the problem is an old copy. The changes it lacks are on a device that was in use
    /// later, or lost.
    #[serde(default)]
    pub is_old_copy: bool,
    /// Changes that were given up, or would be. `None` means that the request did not ask for a
    /// rewind.
    pub rewind: Option<RewindView>,
}
