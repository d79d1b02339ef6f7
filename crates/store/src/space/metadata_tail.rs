//! The tail of a vdev: the part at its end that data leaves alone, so that nodes of maps find room
//! there.
//!
//! If a volume of small blocks is written all over, the free space between its blocks soon is
//! single sectors. But each checkpoint writes most of the nodes above them anew, of a few sectors
//! each. Without runs for these nodes, a checkpoint has to stop after a few hundred writes, and the
//! pool does little else but make checkpoints. So data goes into the tail only if it finds no place
//! before, and metadata goes there first. The number of runs in the tail decides its length: blocks
//! that snapshots keep there make it longer.

use std::ops::Range;

use super::Space;

/// Largest share of the regions that the tail may have: one in this number.
const ONE_IN: u32 = 8;

impl Space {
    /// Sets the tail of a top-level vdev: the regions at its end that data leaves alone. The tail
    /// has `runs` runs for nodes, or is an eighth of the vdev. If its runs are roughly in the range
    /// already, all stays as it is: data that was written into a region leaves it only when it is
    /// overwritten.
    pub fn keep_tail(&mut self, vdev: u16, runs: Range<u64>) {
        let vdev = &mut self.vdevs[usize::from(vdev)];
        let regions = vdev.sectors.regions();
        let first = regions - regions / ONE_IN;
        let before = vdev.tail().clamp(first, regions);
        let free = (before..regions).map(|region| vdev.sectors.node_runs_of(region));
        if runs.contains(&free.sum()) {
            return;
        }
        let wanted = runs.start.midpoint(runs.end);
        let (mut tail, mut there) = (regions, 0);
        while there < wanted && tail > first {
            tail -= 1;
            there += vdev.sectors.node_runs_of(tail);
        }
        vdev.begin_tail(tail);
    }
}
