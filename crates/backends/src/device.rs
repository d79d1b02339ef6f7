//! Backend on a block device of this machine: a disk, a partition, a real zvol. Its own system
//! gives it its size.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Opening};
use block::device::{NodeDevice, physical_block_size};
use block::{BlockDevice, OpenError};
use model::backend::{Capabilities, Follows, Overwrites};

/// Backend on a block device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Node of the device.
    path: PathBuf,
}

impl Device {
    /// Returns the backend on the node `path`, which may be relative to /dev.
    pub fn at(path: &Path) -> Self {
        Self {
            path: Path::new("/dev").join(path),
        }
    }
}

impl Backend for Device {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            overwrites: Overwrites::Always,
            has_physical_blocks: true,
            follows: Follows::Nothing,
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let block_size = opening.block_size;
        let node = NodeDevice::open(&self.path, block_size)?;
        if node.rest() > 0 {
            tracing::warn!(
                device = %self.path.display(),
                rest_bytes = node.rest(),
                block_size,
                "the size of the device is not a multiple of the unit's blocks: the rest is not used"
            );
        }
        Ok(Arc::new(node))
    }

    fn physical_block_size(&self, _: Duration) -> Option<u32> {
        physical_block_size(&self.path)
    }
}
