//! Backend on a volume of a pool, or on a snapshot for a unit that is only read.

use std::sync::Arc;

use crate::backend::{Backend, Opening};
use block::{BlockDevice, OpenError};
use model::backend::{Capabilities, Follows, Overwrites};
use pools::Pools;

/// Backend on a volume.
#[derive(Clone, Copy)]
pub struct Volume<'a> {
    /// Name of the volume, with the pool's.
    pub name: &'a str,
    /// Pools that may have it.
    pub pools: &'a Pools,
}

impl Backend for Volume<'_> {
    /// Returns that nothing is overwritten: a pool never writes in place.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            overwrites: Overwrites::Never,
            has_physical_blocks: false,
            follows: Follows::Everything,
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let (block_size, noted) = (opening.block_size, opening.volume);
        let volume = self.pools.open_noted_volume(self.name, block_size, noted)?;
        Ok(Arc::new(volume))
    }
}
