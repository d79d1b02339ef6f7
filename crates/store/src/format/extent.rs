//! Runs of sectors.

use super::pointer::Address;

/// Contiguous sectors of a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Position of the top-level vdev in the pool.
    pub vdev: u16,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
}

impl Extent {
    /// Returns the extent of `sectors` sectors from `address` on.
    pub fn at(address: Address, sectors: u32) -> Self {
        Self {
            vdev: address.vdev(),
            sector: address.sector(),
            sectors,
        }
    }

    /// Returns the first sector, as pointers give it.
    ///
    /// # Panics
    /// The sector is beyond the range of an address.
    pub fn address(&self) -> Address {
        Address::new(self.vdev, self.sector)
    }

    /// Returns the sector after the last.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors.into())
    }
}
