//! Input of a pool's thread: the way in which the pool starts, its devices and their places.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use store::cache::Cache;
use store::engine::{Back, Examined, PoolConfig, Protection};

use crate::devices::disks::Disks;
use crate::devices::identity::Identity;
use crate::fence::PoolFence;
use block::BlockDevice;
use model::event::Teller;

/// Way in which a pool starts.
#[derive(Debug)]
pub(crate) enum Begin {
    /// The pool is created.
    Create(Box<PoolConfig>),
    /// The pool is opened.
    Import {
        /// State of the pool according to its labels.
        examined: Box<Examined>,
        /// Number of checkpoints to give up, together with the damaged part, if the pool is to be
        /// rewound.
        back: Option<Back>,
    },
}

/// Input that a pool's thread needs.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Way in which the pool starts.
    pub(crate) begin: Begin,
    /// Devices by the guids of their leaves and spares. Missing devices are left out.
    pub(crate) devices: Vec<(u64, Arc<dyn BlockDevice>)>,
    /// Places of leaves and spares, missing ones included, and the known facts of their devices.
    pub(crate) places: BTreeMap<u64, Place>,
    /// Cache for the blocks of this pool's volumes alone.
    pub(crate) cache: Arc<Cache>,
    /// Host that has the pool from now on.
    pub(crate) host: String,
    /// Whether the pool takes no changes and nothing is written to its devices.
    pub(crate) is_read_only: bool,
    /// Protection that a new pool states in its labels: this host has it.
    pub(crate) protection: Option<Protection>,
    /// Whether an opened pool keeps stating its protection.
    pub(crate) is_protected: bool,
    /// Fence that keeps other hosts from the pool's devices.
    pub(crate) fence: Option<PoolFence>,
    /// Whether io_uring is used, if the kernel allows it.
    pub(crate) io_uring: bool,
    /// Source of devices.
    pub(crate) disks: Disks,
    /// Way to report events of the pool.
    pub(crate) events: Teller,
}

/// Place of a leaf or spare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Path of the file or device node.
    pub path: PathBuf,
    /// Reason why the device is not used, or its latest trouble. `None` if all is well.
    pub trouble: Option<String>,
    /// Targets at which another machine's disk was last seen.
    pub targets: Vec<String>,
    /// Newest generation of labels when the pool was opened without the device. `None` once the
    /// device was used again.
    pub missing_at: Option<u64>,
    /// Identity that tells the device from a copy, as of the last time the device was opened.
    pub(crate) identity: Option<Identity>,
}

impl Place {
    /// Returns the place of a device that is present.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            identity: Identity::of(&path),
            path,
            ..Self::default()
        }
    }

    /// Notes that the device is used again, perhaps at a new path.
    pub(crate) fn is_back(&mut self, at: Self) {
        *self = Self {
            targets: std::mem::take(&mut self.targets),
            ..at
        };
    }
}
