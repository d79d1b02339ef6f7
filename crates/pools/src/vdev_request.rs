//! The devices that somebody names for a pool, in zpool's kinds: what it is made of, or what it is to get.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use store::vdev::Kind;
use utoipa::ToSchema;

use model::Error;
use model::device_name::is_remote;

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
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Disk => Kind::Leaf,
            Self::Mirror => Kind::Mirror,
            Self::Raidz1 => Kind::Raidz { parity: 1 },
            Self::Raidz2 => Kind::Raidz { parity: 2 },
            Self::Raidz3 => Kind::Raidz { parity: 3 },
        }
    }

    /// Fewest devices, and its name.
    fn least(self) -> (usize, &'static str) {
        match self {
            Self::Disk => (1, "disk"),
            Self::Mirror => (2, "mirror"),
            Self::Raidz1 => (2, "raidz1"),
            Self::Raidz2 => (3, "raidz2"),
            Self::Raidz3 => (4, "raidz3"),
        }
    }

    /// What it is called.
    pub(super) fn name(self) -> &'static str {
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
    pub(super) fn redundancy(&self) -> usize {
        self.kind.redundancy(self.paths.len())
    }
}

/// What a pool gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Additions<'a> {
    /// Vdevs for blocks.
    pub(super) vdevs: &'a [VdevRequest],
    /// Those for the log of durable writes.
    pub(super) logs: &'a [VdevRequest],
    /// Devices for blocks that memory gives up.
    pub(super) caches: &'a [PathBuf],
    /// Devices that stand ready to take another's place.
    pub(super) spares: &'a [PathBuf],
}

impl<'a> Additions<'a> {
    /// All files and devices that it names.
    pub(super) fn paths(self) -> impl Iterator<Item = &'a Path> {
        let vdevs = self.vdevs.iter().chain(self.logs);
        let paths = vdevs.flat_map(|vdev| &vdev.paths);
        let paths = paths.chain(self.caches).chain(self.spares);
        paths.map(PathBuf::as_path)
    }

    /// Whether they are named as they must be.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn check(self) -> Result<(), Error> {
        for vdev in self.vdevs.iter().chain(self.logs) {
            let (least, name) = vdev.kind.least();
            let named = vdev.paths.len();
            if vdev.kind == VdevKind::Disk && named != 1 {
                return Err(Error::invalid(
                    format!("a disk is one device, and {named} are named for it"),
                    "name each as a vdev of its own, or make a mirror or raidz of them",
                ));
            }
            if named < least {
                return Err(Error::invalid(
                    format!("a {name} takes at least {least} devices; named for it: {named}"),
                    "name more, or another kind of vdev",
                ));
            }
        }
        let can_be_log =
            |vdev: &&VdevRequest| matches!(vdev.kind, VdevKind::Disk | VdevKind::Mirror);
        if let Some(vdev) = self.logs.iter().find(|vdev| !can_be_log(vdev)) {
            return Err(Error::invalid(
                format!("a log vdev cannot be {}", vdev.kind.least().1),
                "use devices and mirrors of devices for the log",
            ));
        }
        let mut seen = HashSet::new();
        for path in self.paths() {
            if !path.is_absolute() && !is_remote(path) {
                return Err(Error::invalid(
                    format!("{} is no absolute path", path.display()),
                    "write it in full, or the name of another machine's disk (naa.…)",
                ));
            }
            let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            if !seen.insert(real) {
                return Err(Error::invalid(
                    format!("{} is named twice", path.display()),
                    "name each device once",
                ));
            }
        }
        Ok(())
    }
}
