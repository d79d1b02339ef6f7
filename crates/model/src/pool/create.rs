//! Requests and answers of `pool create` and `pool export`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::vdev_request::{Additions, VdevRequest};

/// Request of `pool create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Name of the pool.
    pub name: String,
    /// Top-level vdevs of the pool. Blocks are spread over all of them.
    pub vdevs: Vec<VdevRequest>,
    /// Log vdevs of the pool: devices, and mirrors of devices. Durable writes are answered when
    /// they are on the log.
    #[serde(default)]
    pub logs: Vec<VdevRequest>,
    /// Cache vdevs of the pool. They keep blocks that memory gives up.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub caches: Vec<PathBuf>,
    /// Spares, which stand ready to replace another device.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub spares: Vec<PathBuf>,
    /// Whether vdevs may differ in redundancy, and devices may hold labels of another pool or other
    /// known data.
    #[serde(default)]
    pub force: bool,
    /// Size in bytes of files to make where a path does not exist.
    #[serde(default)]
    pub file_size: Option<u64>,
    /// Whether the pool is protected against being open on two hosts. `None` protects it if another
    /// host could reach its devices.
    #[serde(default)]
    pub multihost: Option<bool>,
    /// Whether the request is a dry run. A dry run reports the layout and the obstacles, and
    /// changes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

impl CreatePool {
    /// Returns the files and devices for the pool.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.additions().paths()
    }

    /// Returns the vdevs, logs, caches and spares for the pool.
    pub fn additions(&self) -> Additions<'_> {
        Additions {
            vdevs: &self.vdevs,
            logs: &self.logs,
            caches: &self.caches,
            spares: &self.spares,
        }
    }
}

/// Result of a request to export a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportView {
    /// Reason why the pool was only forgotten, with nothing written to its devices. `None` means
    /// that it was exported.
    pub forgotten: Option<String>,
}
