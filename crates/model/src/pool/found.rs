//! A pool that was found and is not open.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rewind::RewindView;
use super::twins::TwinsView;
use super::vdev::VdevView;

/// A pool that was found and is not open; or a device whose labels cannot be used, without a name
/// and number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundPool {
    /// Name of the pool.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// How it would be: ONLINE, DEGRADED, or UNAVAIL where it cannot be imported.
    #[serde(default)]
    pub state: String,
    /// Whether it was exported.
    pub is_exported: bool,
    /// Who had it last.
    pub host: String,
    /// What it was found on.
    #[schema(value_type = Vec<String>)]
    pub devices: Vec<PathBuf>,
    /// Devices of it that were not found: where they were last, or their numbers.
    pub missing: Vec<String>,
    /// How it is laid out: the pool with its top-level vdevs, then `logs`, `cache` and `spares`
    /// where it has any. Empty where its labels cannot be used.
    #[serde(default)]
    pub layout: Vec<VdevView>,
    /// Those of the missing that may have been used without what was found: then its newest changes
    /// are there only.
    #[serde(default)]
    pub unaccounted: Vec<String>,
    /// Why it cannot be imported; `None` where it can.
    pub problem: Option<String>,
    /// Whether that is a `pool reguid` that was interrupted.
    #[serde(default)]
    pub is_between_numbers: bool,
    /// Devices that share an identity: none of them is taken before somebody names one.
    #[serde(default)]
    pub twins: Vec<TwinsView>,
    /// Copies of devices that were named, which were left alone.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub left_out: Vec<PathBuf>,
    /// What was taken although it may be doubted.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether that is a missing log: it can be imported without it, with what that costs.
    #[serde(default)]
    pub is_log_missing: bool,
    /// Whether that is an old copy: what it lacks is on a device that was in use later, or lost.
    #[serde(default)]
    pub is_old_copy: bool,
    /// What was given up of it, or would be; `None` where that was not asked for.
    pub rewind: Option<RewindView>,
}
