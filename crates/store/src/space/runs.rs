//! How many long runs of free sectors a vdev has: what is kept whole for volumes that reserved their space, whose
//! blocks are runs, while others take the pieces between them.
//!
//! Regions that changed are counted again only when somebody asks.

use super::bits::{self, REGION, Region};
use super::flags::Flags;

/// Runs of one length, by region.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Sectors of a run; 0: nobody asks.
    length: u32,
    /// Only sectors below this count.
    end: u64,
    /// Runs of each region as of when it was counted.
    of: Vec<u16>,
    /// Regions that changed since.
    changed: Flags,
    total: u64,
}

impl Runs {
    /// There are so many regions.
    pub(super) fn reach(&mut self, regions: usize) {
        if self.length > 0 {
            self.forget(regions);
        }
    }

    /// Counts runs of this length, 0 for none.
    pub(super) fn count_those_of(&mut self, length: u32, end: u64, regions: usize) {
        if (length, end) == (self.length, self.end) {
            return;
        }
        (self.length, self.end) = (length, end);
        self.forget(if length > 0 { regions } else { 0 });
    }

    /// Nothing is known of any region.
    fn forget(&mut self, regions: usize) {
        self.of = vec![0; regions];
        self.total = 0;
        self.changed = Flags::default();
        self.changed.reach(regions);
        (0..regions).for_each(|region| self.changed.insert(region as u32));
    }

    #[inline]
    pub(super) fn change(&mut self, region: u32) {
        if self.length > 0 {
            self.changed.insert(region);
        }
    }

    pub(super) fn total(&mut self, busy: &[Region]) -> u64 {
        while let Some(region) = self.changed.pop() {
            self.count(region, busy);
        }
        self.total
    }

    /// Those of one region.
    pub(super) fn of_region(&mut self, region: u32, busy: &[Region]) -> u64 {
        if self.length > 0 && self.changed.contains(region) {
            self.changed.remove(region);
            self.count(region, busy);
        }
        self.of.get(region as usize).copied().unwrap_or(0).into()
    }

    fn count(&mut self, region: u32, busy: &[Region]) {
        let first = u64::from(region) * u64::from(REGION);
        let end = self.end.saturating_sub(first).min(REGION.into()) as u32;
        let runs = bits::runs(&busy[region as usize]);
        let inside = runs.map(|(start, length)| (start + length).min(end).saturating_sub(start));
        let count: u32 = inside.map(|length| length / self.length).sum();
        let before = &mut self.of[region as usize];
        self.total = self.total + u64::from(count) - u64::from(*before);
        *before = count as u16;
    }

    pub(super) fn memory(&self) -> usize {
        self.of.capacity() * size_of::<u16>() + self.changed.memory()
    }
}
