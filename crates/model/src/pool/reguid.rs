//! Requests and answers of `pool reguid`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request of `pool reguid`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReguidPool {
    /// Name or number of the copy by its labels.
    pub pool: String,
    /// Files and devices of the copy. Each is named explicitly, without folders.
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
    /// New name of the copy. `None` keeps the old name.
    #[serde(default)]
    pub new_name: Option<String>,
    /// Whether the request overrides these obstacles:
    /// - the labels say that another host has the copy
    /// - the devices are no copy, but those of a pool that this daemon knows and that is not open
    /// - logical units used the disks meanwhile
    #[serde(default)]
    pub force: bool,
}

/// Result of giving a copy a new number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReguidView {
    /// Name of the pool.
    pub name: String,
    /// New number of the copy.
    pub guid: String,
    /// Number that the labels had before.
    pub was: String,
    /// Devices of the copy.
    #[schema(value_type = Vec<String>)]
    pub devices: Vec<PathBuf>,
    /// Devices of the copy that were not named. The copy is without them.
    pub missing: Vec<String>,
    /// Whether an earlier attempt was interrupted, and this attempt completed it.
    pub is_continued: bool,
}
