//! Requests and answers of `pool create` and `pool export`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::vdev_request::{Additions, VdevRequest};

/// `pool create`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Name of the pool.
    pub name: String,
    /// Its top-level vdevs; blocks are spread over all of them.
    pub vdevs: Vec<VdevRequest>,
    /// Its log vdevs, devices and mirrors of these: durable writes are answered when they are
    /// there.
    #[serde(default)]
    pub logs: Vec<VdevRequest>,
    /// Its cache vdevs: blocks that memory gives up are kept there.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub caches: Vec<PathBuf>,
    /// Devices that stand ready to take another's place.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub spares: Vec<PathBuf>,
    /// Use devices that hold another pool's labels or something else that is known, and vdevs that
    /// differ in redundancy.
    #[serde(default)]
    pub force: bool,
    /// Make files of this size, in bytes, where paths do not exist.
    #[serde(default)]
    pub file_size: Option<u64>,
    /// Whether it is protected against being open on two hosts; without it, where another host
    /// could reach its devices.
    #[serde(default)]
    pub multihost: Option<bool>,
    /// Only tell how it would be laid out, and what stands in the way; change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

impl CreatePool {
    /// Returns the files and devices that the pool is to be made of.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.additions().paths()
    }

    /// Returns the vdevs, logs, caches and spares that the pool is to be made of.
    pub fn additions(&self) -> Additions<'_> {
        Additions {
            vdevs: &self.vdevs,
            logs: &self.logs,
            caches: &self.caches,
            spares: &self.spares,
        }
    }
}

/// What became of a pool that was to be let go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportView {
    /// Why it was only forgotten, and nothing written to its devices; `None` where it was exported.
    pub forgotten: Option<String>,
}
