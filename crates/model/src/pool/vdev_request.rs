//! The vdevs that somebody asks for, in zpool's kinds: the parts of a new pool, and the parts that a pool gets.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A top-level vdev that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VdevRequest {
    /// How it keeps its blocks.
    pub kind: VdevKind,
    /// Its files and devices, absolute.
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
}

/// How a top-level vdev keeps its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VdevKind {
    /// On one device.
    Disk,
    /// On each of its devices.
    Mirror,
    /// Over its devices, with one of parity.
    Raidz1,
    /// Over its devices, with two of parity.
    Raidz2,
    /// Over its devices, with three of parity.
    Raidz3,
}

impl VdevKind {
    /// Fewest devices, and its name.
    pub fn least(self) -> (usize, &'static str) {
        match self {
            Self::Disk => (1, "disk"),
            Self::Mirror => (2, "mirror"),
            Self::Raidz1 => (2, "raidz1"),
            Self::Raidz2 => (3, "raidz2"),
            Self::Raidz3 => (4, "raidz3"),
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        self.least().1
    }

    /// Devices that may be lost, of so many.
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
    /// Devices that it may lose.
    pub fn redundancy(&self) -> usize {
        self.kind.redundancy(self.paths.len())
    }
}

/// What a pool gets.
#[derive(Clone, Copy, Debug)]
pub struct Additions<'a> {
    /// Vdevs for blocks.
    pub vdevs: &'a [VdevRequest],
    /// Those for the log of durable writes.
    pub logs: &'a [VdevRequest],
    /// Devices for blocks that memory gives up.
    pub caches: &'a [PathBuf],
    /// Devices that stand ready to take another's place.
    pub spares: &'a [PathBuf],
}

impl<'a> Additions<'a> {
    /// All files and devices that it names.
    pub fn paths(self) -> impl Iterator<Item = &'a Path> {
        let vdevs = self.vdevs.iter().chain(self.logs);
        let paths = vdevs.flat_map(|vdev| &vdev.paths);
        let paths = paths.chain(self.caches).chain(self.spares);
        paths.map(PathBuf::as_path)
    }
}
