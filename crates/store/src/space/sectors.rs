//! The sectors of one top-level vdev: the two bitmaps, their counts by region, and the pages of
//! `view` that differ from those on disk.

use super::bits::{self, FULL, REGION, Region};
use super::flags::Flags;
use super::freed::Freed;
use super::runs::Runs;
use super::{PAGE_BYTES, PAGE_SECTORS};
use crate::format::space_page;

/// Number of regions of a page.
const PAGE_REGIONS: u32 = (PAGE_SECTORS / REGION as u64) as u32;

/// Sectors of one top-level vdev. Sectors of the last region beyond the vdev's end are in use in
/// both bitmaps, so that no search meets them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sectors {
    size: u64,
    free_sectors: u64,
    /// Sectors that must not be allocated.
    busy: Vec<Region>,
    /// Sectors that the next checkpoint calls in use.
    view: Vec<Region>,
    /// Number of free sectors of each region.
    free: Vec<u16>,
    /// Longest free run of each region. It is too high if it was not measured since the last
    /// allocation, and never too low.
    longest: Vec<u16>,
    /// Upper bound of `longest` over all regions.
    bound: u32,
    /// Regions with busy sectors that come into `view` only after the running checkpoint.
    young: Flags,
    /// Pages of `view` that changed and have no place for this change.
    dirty: Flags,
    /// Pages that have a place, and have not been written to it.
    placed: Flags,
    /// Counts of long runs, and of runs of the shortest needed length.
    runs: Runs,
    short_runs: Runs,
    /// Count of runs in which a node of a map finds room, wherever they are.
    node_runs: Runs,
    /// Sectors that became free and of which devices were not told.
    pub(super) freed: Freed,
}

impl Sectors {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn free_sectors(&self) -> u64 {
        self.free_sectors
    }

    pub(super) fn regions(&self) -> u32 {
        self.busy.len() as u32
    }

    /// Returns the free sectors and the longest run of each region in turn.
    pub(super) fn emptiness(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let both = self.free.iter().zip(&self.longest);
        both.map(|(free, longest)| (u32::from(*free), u32::from(*longest)))
    }

    pub(super) fn free_of(&self, region: u32) -> u32 {
        self.free[region as usize].into()
    }

    pub(super) fn longest_of(&self, region: u32) -> u32 {
        self.longest[region as usize].into()
    }

    pub(super) fn bound(&self) -> u32 {
        self.bound
    }

    /// Notes that no region has a run of `run` sectors.
    pub(super) fn limit_bound(&mut self, run: u32) {
        self.bound = self.bound.min(run - 1);
    }

    pub(super) fn busy(&self, region: u32) -> &Region {
        &self.busy[region as usize]
    }

    /// Counts runs of `short` and of `long` free sectors from now on, below `end`. A length of 0 is
    /// not counted.
    pub(super) fn count_runs_of(&mut self, (short, long): (u32, u32), end: u64) {
        let regions = self.busy.len();
        self.runs.count_those_of(long, end, regions);
        self.short_runs.count_those_of(short, end, regions);
    }

    /// Returns the number of long runs. A longer run counts as several, one behind the other.
    pub(super) fn long_runs(&mut self) -> u64 {
        self.runs.total(&self.busy)
    }

    /// Returns the number of short runs, counted in the way of `long_runs`.
    pub(super) fn short_runs(&mut self) -> u64 {
        self.short_runs.total(&self.busy)
    }

    /// Counts runs of `length` free sectors for nodes of maps from now on.
    pub(super) fn count_node_runs_of(&mut self, length: u32) {
        (self.node_runs).count_those_of(length, u64::MAX, self.busy.len());
    }

    /// Returns the number of runs for nodes.
    pub(super) fn node_runs(&mut self) -> u64 {
        self.node_runs.total(&self.busy)
    }

    /// Returns the number of runs for nodes in a region.
    pub(super) fn node_runs_of(&mut self, region: u32) -> u64 {
        self.node_runs.of_region(region, &self.busy)
    }

    /// Measures a region's longest run.
    pub(super) fn measure(&mut self, region: u32) {
        self.longest[region as usize] = bits::longest(self.busy(region)) as u16;
    }

    /// Adds sectors at the end.
    pub(super) fn grow(&mut self, size: u64) {
        let regions = size.div_ceil(REGION.into()) as usize;
        for bitmap in [&mut self.busy, &mut self.view] {
            bitmap.resize(regions, FULL);
        }
        self.free.resize(regions, 0);
        self.longest.resize(regions, 0);
        self.young.reach(regions);
        self.runs.reach(regions);
        self.short_runs.reach(regions);
        self.node_runs.reach(regions);
        self.freed.reach(regions);
        let pages = size.div_ceil(PAGE_SECTORS) as usize;
        self.dirty.reach(pages);
        self.placed.reach(pages);
        for (region, start, length) in parts(self.size, size - self.size) {
            bits::clear(&mut self.view[region as usize], start, length);
            self.unset_busy(region, start, length);
        }
        self.size = size;
    }

    /// Reports whether these sectors exist.
    pub(super) fn holds(&self, sector: u64, sectors: u32) -> bool {
        sector
            .checked_add(sectors.into())
            .is_some_and(|end| end <= self.size)
    }

    /// Returns how many of these sectors are busy.
    pub(super) fn count_busy(&self, sector: u64, sectors: u32) -> u32 {
        count(&self.busy, sector, sectors)
    }

    /// Returns how many of these sectors are in `view`.
    pub(super) fn count_view(&self, sector: u64, sectors: u32) -> u32 {
        count(&self.view, sector, sectors)
    }

    /// Takes free sectors, which lie in one region.
    #[inline]
    pub(super) fn take(&mut self, region: u32, start: u32, length: u32, is_young: bool) {
        debug_assert_eq!(bits::count(self.busy(region), start, length), 0);
        self.change_runs(region);
        bits::set(&mut self.busy[region as usize], start, length);
        self.free[region as usize] -= length as u16;
        self.free_sectors -= u64::from(length);
        if is_young {
            self.young.insert(region);
        } else {
            bits::set(&mut self.view[region as usize], start, length);
            self.touch(region);
        }
    }

    /// Takes free sectors, wherever they lie.
    pub(super) fn take_all(&mut self, sector: u64, sectors: u32, is_young: bool) {
        for (region, start, length) in parts(sector, sectors.into()) {
            self.take(region, start, length, is_young);
        }
    }

    /// Makes busy sectors young: they come into `view` only after the running checkpoint.
    pub(super) fn make_young(&mut self, sector: u64, sectors: u32) {
        self.forget(sector, sectors);
        for (region, _, _) in parts(sector, sectors.into()) {
            self.young.insert(region);
        }
    }

    /// Frees sectors for allocation, and returns how many were busy.
    pub(super) fn release(&mut self, sector: u64, sectors: u32) -> u32 {
        parts(sector, sectors.into())
            .map(|(region, start, length)| {
                self.freed.note(region, start, length);
                self.unset_busy(region, start, length)
            })
            .sum()
    }

    /// Holds free sectors: they cannot be taken, and nothing else changes.
    pub(super) fn hold(&mut self, sector: u64, sectors: u32) {
        for (region, start, length) in parts(sector, sectors.into()) {
            debug_assert_eq!(bits::count(self.busy(region), start, length), 0);
            self.change_runs(region);
            bits::set(&mut self.busy[region as usize], start, length);
            self.free[region as usize] -= length as u16;
            self.free_sectors -= u64::from(length);
        }
    }

    /// Ends a hold.
    pub(super) fn unhold(&mut self, sector: u64, sectors: u32) {
        for (region, start, length) in parts(sector, sectors.into()) {
            self.freed.look_again(region);
            self.unset_busy(region, start, length);
        }
    }

    /// Starts, or stops, to note the sectors that become free.
    pub(super) fn note_freed(&mut self, is_noted: bool) {
        self.freed.keep(is_noted, self.busy.len());
    }

    /// Takes sectors out of `view`, and returns how many were in it.
    pub(super) fn forget(&mut self, sector: u64, sectors: u32) -> u32 {
        let mut forgotten = 0;
        for (region, start, length) in parts(sector, sectors.into()) {
            let changed = bits::clear(&mut self.view[region as usize], start, length);
            if changed > 0 {
                self.touch(region);
            }
            forgotten += changed;
        }
        forgotten
    }

    #[inline]
    fn change_runs(&mut self, region: u32) {
        self.runs.change(region);
        self.short_runs.change(region);
        self.node_runs.change(region);
    }

    #[inline]
    fn unset_busy(&mut self, region: u32, start: u32, length: u32) -> u32 {
        let index = region as usize;
        let freed = bits::clear(&mut self.busy[index], start, length);
        if freed > 0 {
            self.change_runs(region);
            self.free[index] += freed as u16;
            self.free_sectors += u64::from(freed);
            let run = bits::run_around(&self.busy[index], start, length);
            self.longest[index] = self.longest[index].max(run as u16);
            self.bound = self.bound.max(run);
        }
        freed
    }

    /// Brings the young sectors of one region into `view`. Returns false if no region has any. All
    /// busy sectors of the region must belong in `view`.
    pub(super) fn age(&mut self) -> bool {
        let Some(region) = self.young.pop() else {
            return false;
        };
        if self.view[region as usize] != self.busy[region as usize] {
            self.view[region as usize] = self.busy[region as usize];
            self.touch(region);
        }
        true
    }

    /// Reports whether sectors of this sector's region were taken as young.
    pub(super) fn may_be_young(&self, sector: u64) -> bool {
        self.young.contains((sector / u64::from(REGION)) as u32)
    }

    pub(super) fn has_young(&self) -> bool {
        self.young.len() > 0
    }

    #[inline]
    fn touch(&mut self, region: u32) {
        let page = region / PAGE_REGIONS;
        if !self.placed.contains(page) {
            self.dirty.insert(page);
        }
    }

    /// Returns the lowest page that is dirty and has no place. From now on it counts as having one.
    pub(super) fn place_dirty(&mut self) -> Option<u32> {
        let page = self.dirty.pop()?;
        self.placed.insert(page);
        Some(page)
    }

    /// Returns the pages that still differ from those on disk: the number without a place, and the
    /// number not yet written.
    pub(super) fn unwritten(&self) -> (usize, usize) {
        (self.dirty.len(), self.placed.len())
    }

    /// Returns the bytes of a page that is written now. Later changes make the page dirty again.
    pub(super) fn write_page(&mut self, page: u32) -> [u8; PAGE_BYTES] {
        if self.placed.contains(page) {
            self.placed.remove(page);
        }
        self.page(page)
    }

    /// Returns the bytes of a page.
    pub(super) fn page(&self, page: u32) -> [u8; PAGE_BYTES] {
        let mut words = [0; space_page::WORDS];
        let first = page * PAGE_REGIONS;
        for (region, words) in (first..).zip(words.as_chunks_mut().0) {
            let Some(of_region) = self.view.get(region as usize) else {
                break;
            };
            *words = *of_region;
            let inside = self.inside(region);
            bits::clear(words, inside, REGION - inside);
        }
        space_page::encode(&words)
    }

    /// Returns how many sectors of a region exist.
    fn inside(&self, region: u32) -> u32 {
        let first = u64::from(region) * u64::from(REGION);
        self.size.saturating_sub(first).min(REGION.into()) as u32
    }

    /// Takes a page from disk, before any other change of its sectors. Returns false if the page
    /// says that sectors beyond the end are in use, or if some of its sectors already are in use.
    pub(super) fn load_page(&mut self, page: u32, bytes: &[u8; PAGE_BYTES]) -> bool {
        let first = u64::from(page) * u64::from(PAGE_REGIONS);
        let mut loaded = Vec::with_capacity(PAGE_REGIONS as usize);
        for (region, words) in (first..).zip(space_page::decode(bytes).as_chunks().0) {
            let mut words: Region = *words;
            if region >= self.busy.len() as u64 {
                if words != [0; _] {
                    return false;
                }
                continue;
            }
            let region = region as u32;
            let inside = self.inside(region);
            if bits::count(&words, inside, REGION - inside) > 0
                || bits::count(self.busy(region), 0, inside) > 0
            {
                return false;
            }
            bits::set(&mut words, inside, REGION - inside);
            loaded.push((region, words));
        }
        for (region, words) in loaded {
            let index = region as usize;
            self.busy[index] = words;
            self.view[index] = words;
            let free = REGION - bits::count(&words, 0, REGION);
            self.free_sectors -= u64::from(self.free[index]);
            self.free_sectors += u64::from(free);
            self.free[index] = free as u16;
            self.change_runs(region);
            self.measure(region);
        }
        true
    }

    /// Returns both bitmaps, `busy` and `view`, a word at a time.
    pub(super) fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let both = self.busy.iter().flatten().zip(self.view.iter().flatten());
        both.map(|(busy, view)| (*busy, *view))
    }

    pub(super) fn memory(&self) -> usize {
        (self.busy.capacity() + self.view.capacity()) * size_of::<Region>()
            + (self.free.capacity() + self.longest.capacity()) * size_of::<u16>()
            + self.young.memory()
            + self.dirty.memory()
            + self.placed.memory()
            + self.runs.memory()
            + self.short_runs.memory()
            + self.node_runs.memory()
            + self.freed.memory()
    }
}

/// Returns how many bits of a range are set.
fn count(bitmap: &[Region], sector: u64, sectors: u32) -> u32 {
    parts(sector, sectors.into())
        .map(|(region, start, length)| bits::count(&bitmap[region as usize], start, length))
        .sum()
}

/// Splits a range of sectors by region, into region, start in it, and length.
#[inline]
fn parts(sector: u64, sectors: u64) -> impl Iterator<Item = (u32, u32, u32)> {
    let end = sector + sectors;
    let mut at = sector;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let start = (at % u64::from(REGION)) as u32;
            let length = u64::from(REGION - start).min(end - at) as u32;
            let region = (at / u64::from(REGION)) as u32;
            at += u64::from(length);
            (region, start, length)
        })
    })
}
