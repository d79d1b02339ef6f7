//! Fragmentation of the free space, as zpool reports it.

use super::Space;
use super::bits::{self, REGION};

/// Number of regions of a vdev that are looked at. They are evenly spread, so that a figure never
/// takes long.
const SAMPLES: usize = 512;

/// Percentages for a free run of 2^n sectors up to twice that, n from 0 (4 KiB) to 12 (16 MiB).
/// This is the table of zpool's FRAG (OpenZFS metaslab.c, zfs_frag_table), from 4 KiB on.
const PERCENT: [u64; 13] = [95, 90, 80, 70, 60, 50, 40, 30, 20, 15, 10, 5, 0];

impl Space {
    /// Returns the fragmentation of a top-level vdev's free space in percent. It is 0 if all of it
    /// lies in runs of a whole region, and 95 if all of it is single sectors. Each region counts by
    /// its free sectors. If a vdev has many regions, 512 of them are asked.
    pub fn fragmentation(&self, vdev: u16) -> u8 {
        let sectors = &self.vdevs[usize::from(vdev)].sectors;
        let stride = (sectors.regions() as usize).div_ceil(SAMPLES).max(1);
        let (mut free, mut weighed) = (0, 0);
        for region in (0..sectors.regions()).step_by(stride) {
            for (_, length) in bits::runs(sectors.busy(region)) {
                free += u64::from(length);
                weighed += u64::from(length) * PERCENT[length.ilog2() as usize];
            }
        }
        weighed.checked_div(free).unwrap_or(0) as u8
    }

    /// Returns the longest run of free sectors of a top-level vdev that one allocation can take. It
    /// is at most [`LONGEST`](super::LONGEST).
    pub fn longest_run(&self, vdev: u16) -> u32 {
        let sectors = &self.vdevs[usize::from(vdev)].sectors;
        let mut longest = 0;
        for (region, (_, at_most)) in (0..).zip(sectors.emptiness()) {
            if at_most > longest {
                longest = longest.max(bits::longest(sectors.busy(region)));
            }
            if longest == REGION {
                break;
            }
        }
        longest
    }
}
