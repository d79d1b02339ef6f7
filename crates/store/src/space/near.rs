//! Free sectors near others, wherever the streams are: for who has to be found from there.

use std::cmp::Reverse;
use std::ops::Range;

use super::bits::{self, REGION};
use super::sweep::{Reach, Vdev};
use super::{Extent, Purpose, Space, Stream};
use crate::format::Address;

impl Space {
    /// Takes `sectors` free ones less than `distance` away from a place, of the shortest run that has so many; while runs
    /// are few that somebody needs, of none of these. They are the last ones there, since a stream may go on right behind the
    /// place. `None`: there are none.
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

    /// Sectors that were allocated and not used yet are unknown to the checkpoint being made, as those are that are
    /// allocated from now on for [`Purpose::Young`]: who has them still when the power fails need not be known to
    /// anybody.
    ///
    /// # Panics
    /// Where none is being made.
    pub fn make_young(&mut self, extent: Extent) {
        assert!(self.is_making, "no checkpoint is being made");
        let sectors = &mut self.vdevs[usize::from(extent.vdev)].sectors;
        sectors.make_young(extent.sector, extent.sectors);
    }
}

impl Vdev {
    /// Takes free sectors that lie in a range, the last of the shortest run that has one of these lengths; the first of
    /// them.
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
                // Whole ones fit before it: what raidz has of a run stays a multiple of its width.
                let room = (start + length).min(to).saturating_sub(start);
                let last = start + (room / least).checked_sub(1)? * least;
                let fits = last >= from && (least..most).contains(&length);
                fits.then_some((length, Reverse((region, last))))
            })
        });
        // Of runs that are as short the last: streams go forwards, so it stays near for longest.
        let (_, Reverse((region, start))) = runs.min()?;
        self.sectors.take(region, start, least, is_young);
        Some(u64::from(region) * size + u64::from(start))
    }
}
