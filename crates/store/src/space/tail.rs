//! The tail of a vdev: what data leaves alone at its end, so that nodes of maps find room there.
//!
//! Where a volume of small blocks is written all over, what is free between its blocks is single sectors soon, while
//! each checkpoint writes most of the nodes above them anew, of a few sectors each. Without runs for these it has to
//! stop after a few hundred writes, and the pool does little else but make checkpoints. So data goes into the tail
//! only where it finds no place before it, and metadata goes there first. How long the tail is follows from how many
//! runs it has: what snapshots keep there makes it longer.

use std::ops::Range;

use super::Space;

/// The tail has at most one region in so many.
const ONE_IN: u32 = 8;

impl Space {
    /// Data leaves alone so many regions at the end of a top-level vdev that they have that many runs for nodes, or an
    /// eighth of it. Where that is so already, more or less, all stays as it is: what data wrote into a region
    /// leaves it only when it is written over.
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
