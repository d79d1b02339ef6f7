//! Lists of millions of extents in ten bytes each.

use crate::format::{Address, Extent};

/// Extents in the order in which they came. Neighbours that came one after the other are joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents {
    addresses: Vec<u64>,
    lengths: Vec<u16>,
    sectors: u64,
}

impl Extents {
    pub(super) fn push(&mut self, extent: Extent) {
        let mut address = extent.address().to_bits();
        let mut left = extent.sectors;
        self.sectors += u64::from(left);
        if let (Some(last), Some(length)) = (self.addresses.last(), self.lengths.last_mut())
            && last + u64::from(*length) == address
            && last >> 48 == u64::from(extent.vdev)
        {
            let joined = left.min(u32::from(u16::MAX - *length));
            *length += joined as u16;
            address += u64::from(joined);
            left -= joined;
        }
        while left > 0 {
            let length = left.min(u16::MAX.into());
            self.addresses.push(address);
            self.lengths.push(length as u16);
            address += u64::from(length);
            left -= length;
        }
    }

    pub(super) fn pop(&mut self) -> Option<Extent> {
        let last = self.get(self.len().checked_sub(1)?)?;
        self.addresses.pop();
        self.lengths.pop();
        self.sectors -= u64::from(last.sectors);
        if self.addresses.is_empty() {
            *self = Self::default();
        }
        Some(last)
    }

    /// Makes an extent empty.
    pub(super) fn void(&mut self, index: usize) {
        self.sectors -= u64::from(std::mem::take(&mut self.lengths[index]));
    }

    pub(super) fn get(&self, index: usize) -> Option<Extent> {
        let address = Address::from_bits(*self.addresses.get(index)?);
        let length = *self.lengths.get(index)?;
        Some(Extent::at(address, length.into()))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Extent> + '_ {
        let both = self.addresses.iter().zip(&self.lengths);
        both.map(|(bits, length)| Extent::at(Address::from_bits(*bits), (*length).into()))
    }

    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the sectors of all extents.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(super) fn memory(&self) -> usize {
        self.addresses.capacity() * size_of::<u64>() + self.lengths.capacity() * size_of::<u16>()
    }
}
