//! Second copies: they lie far away from the first, so that no scratch, no dying head and no torn
//! write takes both.
//!
//! If a block has both copies on one vdev, they lie a quarter of the vdev apart if there is room
//! for that. Otherwise they lie as far apart as there is room. Second copies, too, are swept region
//! by region, from the middle of the vdev outwards. Data comes from the beginning of the vdev, and
//! first copies of metadata lie in its [tail](super::metadata_tail).

use std::collections::BinaryHeap;
use std::ops::Range;

use super::bits::{self, REGION};
use super::second_copies::TRIES;
use super::sweep::{Reach, Vdev, class_of};
use super::{Claim, Extent, Purpose, Space, Stream};

/// Number of parts of a vdev. Two copies lie one part apart if there is room.
const PARTS: u64 = 4;
/// Sectors that two copies lie apart if there is no room for more: 1 MiB.
const NEAR: u64 = 256;

impl Space {
    /// Takes `sectors` free sectors of another extent's vdev, far away from that extent. Returns
    /// `None` if there are none, or if other allocations need them more.
    pub fn allocate_apart(
        &mut self,
        claim: Claim,
        stream: Stream,
        from: Extent,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let vdev = from.vdev;
        // A trim that is under way must neither bring a copy nearer to the first nor make a copy
        // impossible.
        self.lift_holds();
        let are_kept = claim == Claim::Pieces && self.are_runs_few(vdev, sectors);
        let cost_nodes = self.are_node_runs_few(vdev, sectors)
            && self.would_cost_nodes(claim, stream, vdev, sectors);
        if are_kept || cost_nodes {
            return None;
        }
        let is_young = self.is_making && purpose == Purpose::Young;
        let range = from.sector..from.end();
        let place = |space: &mut Self| {
            let of = &mut space.vdevs[usize::from(vdev)];
            of.take_apart(stream, &range, sectors, is_young)
        };
        let mut sector = place(self);
        if sector.is_none() && !self.freed.is_empty() {
            while self.free_one() {}
            sector = place(self);
        }
        let found = sector.map(|sector| Extent {
            vdev,
            sector,
            sectors,
        });
        self.forget_runs(vdev, found);
        found
    }
}

impl Vdev {
    /// Takes free sectors as far away from `from` as there is room. Returns the first of them.
    fn take_apart(
        &mut self,
        stream: Stream,
        from: &Range<u64>,
        sectors: u32,
        is_young: bool,
    ) -> Option<u64> {
        if sectors == 0 {
            return None;
        }
        let distances: [u64; TRIES] = [self.sectors.size() / PARTS, NEAR, 0];
        let mut tries = (0..).zip(distances);
        let (region, start) = tries.find_map(|(number, distance)| {
            // First copies lie together. If one found nothing so far away, the next would not
            // either.
            if self.second_copies.is_in_vain(stream, number, sectors) {
                return None;
            }
            let found = self.find_apart(stream, from, distance, sectors);
            if found.is_none() {
                self.second_copies.note_in_vain(stream, number, sectors);
            }
            found
        })?;
        self.second_copies.placed(stream, region, start + sectors);
        self.sectors.take(region, start, sectors, is_young);
        Some(u64::from(region) * u64::from(REGION) + u64::from(start))
    }

    /// Finds a place behind the last second copy, or else in the best region that is far enough
    /// away.
    fn find_apart(
        &self,
        stream: Stream,
        from: &Range<u64>,
        distance: u64,
        sectors: u32,
    ) -> Option<(u32, u32)> {
        let find = |region, position| {
            let start = self.apart_in(stream, (region, position), from, distance, sectors)?;
            Some((region, start))
        };
        if let Some((region, position)) = self.second_copies.last(stream)
            && let Some(found) = find(region, position)
        {
            return Some(found);
        }
        let regions = self.sectors.regions();
        let swept = self.swept_regions();
        let may_have = |region: &u32| self.sectors.longest_of(*region) >= sectors;
        let rank = |region: u32| {
            let is_free = !swept.contains(&Some(region));
            let class = class_of(stream, self.sectors.free_of(region));
            let from_middle = region.abs_diff(regions / 2);
            (is_free, class, u32::MAX - from_middle, region)
        };
        let mut best: BinaryHeap<_> = (0..regions).filter(may_have).map(rank).collect();
        std::iter::from_fn(|| best.pop()).find_map(|(.., region)| find(region, 0))
    }

    /// Finds the first run of a region, from a position on, that lies far enough away.
    fn apart_in(
        &self,
        stream: Stream,
        (region, position): (u32, u32),
        from: &Range<u64>,
        distance: u64,
        sectors: u32,
    ) -> Option<u32> {
        let first = u64::from(region) * u64::from(REGION);
        let inside = |sector: u64| sector.saturating_sub(first).min(REGION.into()) as u32;
        let end = self.end_in(stream, Reach::All, region);
        let before = inside(from.start.saturating_sub(distance)).min(end);
        let behind = inside(from.end.saturating_add(distance));
        let busy = self.sectors.busy(region);
        let find = |position, end| {
            let start = bits::find(busy, position, sectors)?;
            (start + sectors <= end).then_some(start)
        };
        find(position, before).or_else(|| find(position.max(behind), end))
    }
}
