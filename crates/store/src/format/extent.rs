//! Runs of sectors.

use super::pointer::Address;

/// Contiguous sectors of a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The top-level vdev's position in the pool.
    pub vdev: u16,
    /// The first sector.
    pub sector: u64,
    /// How many.
    pub sectors: u32,
}

impl Extent {
    /// So many sectors from there on.
    pub fn at(address: Address, sectors: u32) -> Self {
        Self {
            vdev: address.vdev(),
            sector: address.sector(),
            sectors,
        }
    }

    /// The first sector, as pointers say it.
    ///
    /// # Panics
    /// Where the sector is beyond what an address can say.
    pub fn address(&self) -> Address {
        Address::new(self.vdev, self.sector)
    }

    /// The sector after the last.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors.into())
    }
}
