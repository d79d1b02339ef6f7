//! Computes how much room for data a volume's block size leaves.
//!
//! On raidz, each block has its own parity and is padded. Small blocks pay far more for that than
//! the vdev's share of parity.

use crate::engine::contents::Contents;
use crate::engine::state::Pool;
use crate::format::dataset::{MAX_BLOCK_SIZE, MIN_BLOCK_SIZE};
use crate::format::{DatasetId, SECTOR_SIZE};

/// Default block size of a volume, as in zfs.
const USUAL: u32 = 16 << 10;
/// Default block size if a vdev is raidz: large enough to waste little on most widths.
const ON_RAIDZ: u32 = 64 << 10;
/// Percentage of the possible room below which a block size brings a warning.
const ENOUGH: u64 = 90;
/// Sectors of a block that is so long that padding does not matter.
const LONG: u16 = 1 << 14;

/// Block size that wastes space on padding, and a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wasteful {
    /// Room for data that the block size leaves, in percent of what the pool could have.
    pub percent: u64,
    /// Smallest block size in bytes that leaves enough room; if none does, the one that leaves
    /// most.
    pub better: u32,
}

impl Pool {
    /// Returns the default block size of a volume, in bytes.
    pub fn default_block_size(&self) -> u32 {
        let is_raidz = self.widest(SECTOR_SIZE as u32) > 1;
        if is_raidz { ON_RAIDZ } else { USUAL }
    }

    /// Checks a block size for waste; `None` if it is good.
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

    /// Returns the bytes of data that fit into `sectors` in blocks of `block_size`, with their
    /// parity and padding. If there are several kinds of vdevs, the kind that takes most counts.
    pub(in crate::engine) fn data_in(&self, sectors: u64, block_size: u32) -> u64 {
        let bytes = u128::from(sectors) * u128::from(block_size);
        let data = bytes / u128::from(self.widest(block_size).max(1));
        u64::try_from(data).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of a volume's data that fit into `sectors`, in as many copies as it wants.
    pub(in crate::engine) fn data_of(&self, of: &Contents, sectors: u64) -> u64 {
        self.data_in(sectors, of.block_size) / u64::from(of.settings.copies)
    }

    /// Returns the bytes that data of a volume may still take.
    pub(in crate::engine) fn available_to(&self, volume: DatasetId, of: &Contents) -> u64 {
        self.data_of(of, self.unused_by_others(volume))
    }

    /// Returns the size of the largest volume that could be made in a folder now. It has blocks of
    /// the default size, and all of it is reserved.
    pub(in crate::engine) fn room_for_volume(&self, folder: DatasetId) -> u64 {
        let block_size = self.default_block_size();
        let copies = u64::from(self.catalog().settings(folder).copies);
        let data = self.data_in(self.reservable(), block_size) / copies;
        data - data % u64::from(block_size)
    }

    /// Returns the room that blocks of this size leave, in percent of the room for very long
    /// blocks. The worst vdev counts.
    fn percent_of_ideal(&self, block_size: u32) -> u64 {
        let sectors = (block_size as usize).div_ceil(SECTOR_SIZE) as u16;
        let percent = (0..self.space_vdevs()).map(|vdev| {
            let [long, these] =
                [LONG, sectors].map(|of| u64::from(self.footprint(vdev, of)).max(1));
            (100 * u64::from(sectors) * long) / (these * u64::from(LONG))
        });
        percent.min().unwrap_or(100)
    }
}
