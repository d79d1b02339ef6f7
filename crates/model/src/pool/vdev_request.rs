//! The vdevs of a request, in zpool's kinds: the parts of a new pool, and parts to add to a pool.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A top-level vdev that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VdevRequest {
    /// Way in which the vdev keeps its blocks.
    pub kind: VdevKind,
    /// Files and devices of the vdev, as absolute paths.
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
}

/// Way in which a top-level vdev keeps its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VdevKind {
    /// A single device.
    Disk,
    /// A copy of each block on every device.
    Mirror,
    /// Stripes over all devices, with one column of parity.
    Raidz1,
    /// Stripes over all devices, with two columns of parity.
    Raidz2,
    /// Stripes over all devices, with three columns of parity.
    Raidz3,
}

impl VdevKind {
    /// Returns the fewest devices that the kind needs, and its name.
    pub fn least(self) -> (usize, &'static str) {
        match self {
            Self::Disk => (1, "disk"),
            Self::Mirror => (2, "mirror"),
            Self::Raidz1 => (2, "raidz1"),
            Self::Raidz2 => (3, "raidz2"),
            Self::Raidz3 => (4, "raidz3"),
        }
    }

    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        self.least().1
    }

    /// Returns the number of devices, out of `devices`, that may be lost.
    fn redundancy(self, devices: usize) -> usize {
        match self {
            Self::Disk => 0,
            Self::Mirror => devices.saturating_sub(1),
            Self::Raidz1 => 1,
            Self::Raidz2 => 2,
            Self::Raidz3 => 3,
        }
    }
}

impl VdevRequest {
    /// Returns the number of devices that the vdev may lose.
    pub fn redundancy(&self) -> usize {
        self.kind.redundancy(self.paths.len())
    }
}

/// Devices for a new pool, or devices to add to a pool.
#[derive(Clone, Copy, Debug)]
pub struct Additions<'a> {
    /// Vdevs for blocks.
    pub vdevs: &'a [VdevRequest],
    /// Vdevs for the log of durable writes.
    pub logs: &'a [VdevRequest],
    /// Devices of the cache, for blocks that memory gives up.
    pub caches: &'a [PathBuf],
    /// Spares, which stand ready to replace another device.
    pub spares: &'a [PathBuf],
}

impl<'a> Additions<'a> {
    /// Returns the paths of all files and devices in the request.
    pub fn paths(self) -> impl Iterator<Item = &'a Path> {
        let vdevs = self.vdevs.iter().chain(self.logs);
        let paths = vdevs.flat_map(|vdev| &vdev.paths);
        let paths = paths.chain(self.caches).chain(self.spares);
        paths.map(PathBuf::as_path)
    }
}
