//! Requests of `pool import`, and imports that wait.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rewind::Reach;

/// `pool import`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Which pool: its name or number; without it, pools are only listed.
    #[serde(default)]
    pub pool: Option<String>,
    /// Files, devices, and folders of these, to look at; none is /dev.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
    /// Also where its labels say that another host has it, where devices are away that may have
    /// newer changes or that others were being rebuilt from, and with disks that logical units had
    /// meanwhile.
    #[serde(default)]
    pub force: bool,
    /// Without log vdevs that are missing; what was promised there and nowhere else is lost.
    #[serde(default)]
    pub without_log: bool,
    /// How much may be given up where it is damaged.
    #[serde(default)]
    pub rewind: Reach,
    /// With `rewind`: goes back to the checkpoint of this number, also where newer ones are whole.
    #[serde(default)]
    pub checkpoint: Option<u64>,
    /// Only tell what would be given up.
    #[serde(default)]
    pub dry_run: bool,
    /// Only to be read: nothing is written to its devices, and it takes no changes.
    #[serde(default)]
    pub read_only: bool,
    /// The name that it has from now on; without it, the one that it had.
    #[serde(default)]
    pub new_name: Option<String>,
}

/// An import that waits for the proof that no other host has the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitView {
    /// The pool.
    pub pool: String,
    /// Its number.
    pub guid: String,
    /// Seconds that are left, about.
    pub seconds: u64,
    /// Why, a sentence without a full stop.
    pub why: String,
}
