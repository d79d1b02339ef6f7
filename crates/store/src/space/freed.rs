//! Sectors that became free and were not trimmed yet: the work of `autotrim`.
//!
//! Each sector has a bit, in regions where sectors became free; only these regions cost memory. A
//! sector that is taken again keeps its bit, so a caller must also check that it is free.

use super::bits::{self, REGION, Region};
use super::flags::Flags;

/// Freed sectors of one top-level vdev.
#[derive(Clone, Debug, Default)]
pub(super) struct Freed {
    /// Bits by region. There are none while nobody wants to know.
    regions: Vec<Option<Box<Region>>>,
    is_noted: bool,
    /// Regions in which sectors became free since the region was looked at.
    news: Flags,
}

impl Freed {
    /// Starts, or stops, to note the sectors that become free.
    pub(super) fn keep(&mut self, is_noted: bool, regions: usize) {
        if self.is_noted != is_noted {
            *self = Self {
                is_noted,
                ..Self::default()
            };
        }
        self.reach(regions);
    }

    /// Makes room for `regions` regions.
    pub(super) fn reach(&mut self, regions: usize) {
        if self.is_noted {
            self.regions.resize(regions, None);
            self.news.reach(regions);
        }
    }

    /// Notes that sectors of a region became free.
    pub(super) fn note(&mut self, region: u32, start: u32, length: u32) {
        if self.is_noted {
            let bits = self.regions[region as usize].get_or_insert_with(|| Box::new([0; _]));
            bits::set(bits, start, length);
            self.news.insert(region);
        }
    }

    /// Notes that devices are told of these sectors.
    pub(super) fn tell(&mut self, region: u32, start: u32, length: u32) {
        if let Some(Some(bits)) = self.regions.get_mut(region as usize) {
            bits::clear(bits, start, length);
        }
    }

    /// Marks a region to be looked at again, if sectors became free there: more of it is free now.
    pub(super) fn look_again(&mut self, region: u32) {
        if let Some(Some(_)) = self.regions.get(region as usize) {
            self.news.insert(region);
        }
    }

    /// Reports whether there is a region to look at.
    pub(super) fn has_news(&self) -> bool {
        self.news.len() > 0
    }

    /// Returns the lowest region to look at.
    pub(super) fn first(&self) -> Option<u32> {
        self.news.first()
    }

    /// Notes that a region was looked at. Its remaining runs are too short, and wait for more
    /// sectors beside them to become free.
    pub(super) fn looked_at(&mut self, region: u32) {
        self.news.remove(region);
        let slot = &mut self.regions[region as usize];
        if slot.as_ref().is_some_and(|bits| **bits == [0; _]) {
            *slot = None;
        }
    }

    /// Returns the free runs of a region that have at least `least` sectors and contain freed ones.
    /// `busy` are the region's sectors in use. The search goes from `least` before the first freed
    /// sector to `least` behind the last. Runs that were too short before lie there.
    pub(super) fn runs(
        &self,
        region: u32,
        busy: &Region,
        least: u32,
    ) -> impl Iterator<Item = (u32, u32)> {
        let freed = self.regions[region as usize].as_deref();
        let runs = freed.into_iter().flat_map(move |freed| {
            let untold: Region = std::array::from_fn(|word| !freed[word]);
            let free = bits::runs(busy).filter(move |(_, length)| *length >= least);
            free.filter_map(move |(start, length)| {
                let end = start + length;
                let first = bits::find(&untold, start, 1).filter(|at| *at < end)?;
                let own = bits::runs(&untold).take_while(|(at, _)| *at < end);
                let last = own.map(|(at, length)| (at + length).min(end)).last()?;
                let from = first.saturating_sub(least).max(start);
                let to = (last + least).min(end);
                (to - from >= least).then_some((from, to - from))
            })
        });
        runs.collect::<Vec<_>>().into_iter()
    }

    pub(super) fn memory(&self) -> usize {
        let kept = self.regions.iter().filter(|of| of.is_some()).count();
        kept * size_of::<Region>()
            + self.regions.capacity() * size_of::<usize>()
            + self.news.memory()
    }
}

const _: () = assert!(REGION.is_multiple_of(u64::BITS));
