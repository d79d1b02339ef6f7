//! Free sectors near a place, wherever the streams are: for blocks that a search from there must
//! find.

use std::cmp::Reverse;
use std::ops::Range;

use super::bits::{self, REGION};
use super::sweep::{Reach, Vdev};
use super::{Extent, Purpose, Space, Stream};
use crate::format::Address;

impl Space {
    /// Takes `sectors` free sectors less than `distance` away from a place, of the shortest run
    /// that is long enough. While needed runs are few, it takes none of these. The sectors are the
    /// last of their run, since a stream may go on right behind the place. Returns `None` if there
    /// are none.
    pub fn allocate_near(
        &mut self,
        place: Address,
        distance: u64,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let vdev = place.vdev();
        let are_few = self.are_runs_few(vdev, sectors);
        let are_node_runs_few = self.are_node_runs_few(vdev, sectors);
        let is_young = self.is_making && purpose == Purpose::Young;
        let of = &mut self.vdevs[usize::from(vdev)];
        let needed = [(are_few, of.short()), (are_node_runs_few, of.node_run())];
        let needed = needed.iter().filter(|(are_few, _)| *are_few);
        let limit = needed.map(|(_, length)| *length).min().unwrap_or(u32::MAX);
        let first = (place.sector() + 1).saturating_sub(distance);
        let end = of.sectors.size().min(place.sector() + distance);
        let mut sector = of.take_near(first..end, sectors..limit, is_young);
        if sector.is_none() && self.lift_holds() {
            let of = &mut self.vdevs[usize::from(vdev)];
            sector = of.take_near(first..end, sectors..limit, is_young);
        }
        let sector = sector?;
        let found = Extent {
            vdev,
            sector,
            sectors,
        };
        self.forget_runs(vdev, Some(found));
        Some(found)
    }

    /// Makes sectors young that were allocated and not used yet. The checkpoint being made does not
    /// know them, as if they were allocated from now on for [`Purpose::Young`]. If the power fails
    /// while the sectors are still unused, nobody needs to know of them.
    ///
    /// # Panics
    /// No checkpoint is being made.
    pub fn make_young(&mut self, extent: Extent) {
        assert!(self.is_making, "no checkpoint is being made");
        let sectors = &mut self.vdevs[usize::from(extent.vdev)].sectors;
        sectors.make_young(extent.sector, extent.sectors);
    }
}

impl Vdev {
    /// Takes free sectors in a range, at the end of the shortest run that has one of these lengths.
    /// Returns the first sector.
    fn take_near(&mut self, range: Range<u64>, lengths: Range<u32>, is_young: bool) -> Option<u64> {
        let size = u64::from(REGION);
        let regions = (range.start / size) as u32..range.end.div_ceil(size) as u32;
        let (least, most) = (lengths.start, lengths.end);
        let runs = regions.flat_map(|region| {
            let first = u64::from(region) * size;
            let end = self.end_in(Stream::Data, Reach::All, region);
            let inside = move |sector: u64| sector.saturating_sub(first).min(end.into()) as u32;
            let (from, to) = (inside(range.start), inside(range.end));
            let runs = bits::runs(self.sectors.busy(region));
            runs.filter_map(move |(start, length)| {
                // Whole allocations fit before the taken one: raidz's part of a run stays a
                // multiple of its width.
                let room = (start + length).min(to).saturating_sub(start);
                let last = start + (room / least).checked_sub(1)? * least;
                let fits = last >= from && (least..most).contains(&length);
                fits.then_some((length, Reverse((region, last))))
            })
        });
        // Of equally short runs the last is taken: streams go forwards, so it stays near for
        // longest.
        let (_, Reverse((region, start))) = runs.min()?;
        self.sectors.take(region, start, least, is_young);
        Some(u64::from(region) * size + u64::from(start))
    }
}
