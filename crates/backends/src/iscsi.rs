//! Backend on a disk of another machine, which this machine's initiator reaches: a storage gateway.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, Opening};
use block::{BlockDevice, OpenError};
use initiator::host_adapter::HostAdapter;
use model::backend::{Capabilities, Follows, Overwrites};
use pools::Pools;

/// Backend on a disk of another machine.
#[derive(Clone, Copy)]
pub struct RemoteDisk<'a> {
    /// Name of the disk, the same on every path.
    pub name: &'a str,
    /// Initiator that reaches the disk.
    pub host: &'a HostAdapter,
    /// Pools of this daemon, which may use the disk themselves.
    pub pools: &'a Pools,
}

impl Backend for RemoteDisk<'_> {
    /// Returns abilities that hold for every array. The way in which an array writes is not known.
    /// A disk with a smaller size is not believed to have shrunk: the array may only answer badly.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            overwrites: Overwrites::Never,
            has_physical_blocks: true,
            follows: Follows::Growth,
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let name = self.name;
        let user = format!("lu {}", opening.unit);
        let opened = self.host.device_for(&user, name, opening.patience);
        let opened =
            opened.map_err(|error| OpenError::new(format!("{name}: {error}"), error.next()))?;
        let block = opened.geometry().granularity;
        if !opening.block_size.is_multiple_of(block) {
            return Err(OpenError::new(
                format!(
                    "{name} has blocks of {block} bytes, but the unit has blocks of {}",
                    opening.block_size
                ),
                format!("add --block-size {block}"),
            ));
        }
        // Noted before the unit can write anything.
        let lent = self.pools.lend(name, opening.unit);
        lent.map_err(|error| OpenError::new(error.message, error.next))?;
        Ok(Arc::new(opened))
    }

    fn physical_block_size(&self, patience: Duration) -> Option<u32> {
        let geometry = self.host.device(self.name, patience)?.geometry();
        (geometry.len > 0).then_some(geometry.physical)
    }
}
