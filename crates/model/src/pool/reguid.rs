//! Requests and answers of `pool reguid`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `pool reguid`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReguidPool {
    /// The name or number that the copy has by its labels.
    pub pool: String,
    /// The files and devices of the copy, each by itself: no folders.
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
    /// Its new name; without it, it keeps the one that it has.
    #[serde(default)]
    pub new_name: Option<String>,
    /// Also where another host has it by its labels, where it is what a pool of this daemon had,
    /// and with disks that logical units had meanwhile.
    #[serde(default)]
    pub force: bool,
}

/// What became of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReguidView {
    /// Name of the pool.
    pub name: String,
    /// Its new number.
    pub guid: String,
    /// The number that its labels had before.
    pub was: String,
    /// Its devices.
    #[schema(value_type = Vec<String>)]
    pub devices: Vec<PathBuf>,
    /// Devices of it that were not named: it is without them.
    pub missing: Vec<String>,
    /// An earlier attempt was interrupted, and this one completed it.
    pub is_continued: bool,
}
