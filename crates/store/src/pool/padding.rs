//! How much room for data a volume's block size leaves. On raidz each block has parity of its own
//! and is padded: small blocks pay far more for that than the vdev's share of parity.

use super::state::{Contents, Pool};
use crate::catalog::{MAX_BLOCK_SIZE, MIN_BLOCK_SIZE};
use crate::format::{DatasetId, SECTOR_SIZE};

/// A volume's block size where nothing is said; zfs's.
const USUAL: u32 = 16 << 10;
/// The same where a vdev is raidz: large enough to waste little on most widths.
const ON_RAIDZ: u32 = 64 << 10;
/// Percent of the room that is possible, below which a block size is not used unwarned.
const ENOUGH: u64 = 90;
/// Sectors of a block that is so long that padding does not matter.
const LONG: u16 = 1 << 14;

/// A block size that wastes space on padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wasteful {
    /// What it leaves of the room for data that the pool could have, in percent.
    pub percent: u64,
    /// The smallest block size that leaves enough, or of all the one that leaves most; in bytes.
    pub better: u32,
}

impl Pool {
    /// The block size in bytes of a volume where nothing is said.
    pub fn default_block_size(&self) -> u32 {
        let is_raidz = self.widest(SECTOR_SIZE as u32) > 1;
        if is_raidz { ON_RAIDZ } else { USUAL }
    }

    /// What is to be said of a block size; `None` where it is good.
    pub fn wasteful(&self, block_size: u32) -> Option<Wasteful> {
        let percent = self.percent_of_ideal(block_size);
        if percent >= ENOUGH {
            return None;
        }
        let sizes = (0..u32::BITS).map(|bit| 1 << bit);
        let all: Vec<u32> = sizes
            .filter(|size| (MIN_BLOCK_SIZE..=MAX_BLOCK_SIZE).contains(size))
            .collect();
        let enough = |size: &&u32| self.percent_of_ideal(**size) >= ENOUGH;
        let most = || all.iter().max_by_key(|size| self.percent_of_ideal(**size));
        let better = *all.iter().find(enough).or_else(most)?;
        (better != block_size).then_some(Wasteful { percent, better })
    }

    /// Bytes of data in blocks of that size for which so many sectors have room, with their parity
    /// and padding: with vdevs of several kinds, as on the one where they take most.
    pub(super) fn data_in(&self, sectors: u64, block_size: u32) -> u64 {
        let bytes = u128::from(sectors) * u128::from(block_size);
        let data = bytes / u128::from(self.widest(block_size).max(1));
        u64::try_from(data).unwrap_or(u64::MAX)
    }

    /// Bytes of a volume's data for which so many sectors have room, in as many copies as it wants.
    pub(super) fn data_of(&self, of: &Contents, sectors: u64) -> u64 {
        self.data_in(sectors, of.block_size) / u64::from(of.settings.copies)
    }

    /// Bytes that data of a volume may still take.
    pub(super) fn available_to(&self, volume: DatasetId, of: &Contents) -> u64 {
        self.data_of(of, self.unused_by_others(volume))
    }

    /// Bytes of the largest volume that could be made in a folder now, in blocks of the usual size
    /// and with all of it reserved.
    pub(super) fn room_for_volume(&self, folder: DatasetId) -> u64 {
        let block_size = self.default_block_size();
        let copies = u64::from(self.catalog.settings(folder).copies);
        let data = self.data_in(self.reservable(), block_size) / copies;
        data - data % u64::from(block_size)
    }

    /// Of the data that a vdev has room for in very long blocks, what it has room for in these; the
    /// worst vdev counts.
    fn percent_of_ideal(&self, block_size: u32) -> u64 {
        let sectors = (block_size as usize).div_ceil(SECTOR_SIZE) as u16;
        let percent = (0..self.space.vdevs()).map(|vdev| {
            let [long, these] =
                [LONG, sectors].map(|of| u64::from(self.array.footprint(vdev, of)).max(1));
            (100 * u64::from(sectors) * long) / (these * u64::from(LONG))
        });
        percent.min().unwrap_or(100)
    }
}
