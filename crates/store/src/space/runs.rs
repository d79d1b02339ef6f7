//! The number of long runs of free sectors on a vdev. Volumes that reserved their space write their
//! blocks into runs, so long runs are kept whole for them. Other allocations take the pieces
//! between the runs.
//!
//! Regions that changed are counted again only when the number is asked for.

use super::bits::{self, REGION, Region};
use super::flags::Flags;

/// Runs of one length, by region.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Sectors of a run; 0: runs are not counted.
    length: u32,
    /// Sector below which runs count.
    end: u64,
    /// Number of runs of each region when it was counted.
    of: Vec<u16>,
    /// Regions that changed since they were counted.
    changed: Flags,
    total: u64,
}

impl Runs {
    /// Makes room for `regions` regions.
    pub(super) fn reach(&mut self, regions: usize) {
        if self.length > 0 {
            self.forget(regions);
        }
    }

    /// Counts runs of this length from now on; 0 stops the counting.
    pub(super) fn count_those_of(&mut self, length: u32, end: u64, regions: usize) {
        if (length, end) == (self.length, self.end) {
            return;
        }
        (self.length, self.end) = (length, end);
        self.forget(if length > 0 { regions } else { 0 });
    }

    /// Forgets the counts of all regions.
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

    /// Returns the number of runs of one region.
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
        let busy = &busy[region as usize];
        let (mut at, mut count) = (0, 0);
        // Shorter runs, of which a full pool has many, are passed over by words.
        while let Some(start) = bits::find(busy, at, self.length) {
            at = start + bits::run_at(busy, start, REGION);
            count += at.min(end).saturating_sub(start) / self.length;
        }
        let before = &mut self.of[region as usize];
        self.total = self.total + u64::from(count) - u64::from(*before);
        *before = count as u16;
    }

    pub(super) fn memory(&self) -> usize {
        self.of.capacity() * size_of::<u16>() + self.changed.memory()
    }
}
