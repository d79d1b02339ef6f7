//! The free space: every sector of every top-level vdev, which allocation may take it, and when it
//! may be taken again.
//!
//! Memory holds two bitmaps per top-level vdev (64 MiB per TiB), beside a few bytes for each region
//! of 16 MiB. `busy` says which sectors must not be allocated. `view` says which sectors the
//! checkpoint to come (or being made) will call in use. A sector goes through these states:
//!
//! | state | `busy` | `view` |
//! |---|---|---|
//! | free | 0 | 0 |
//! | in use | 1 | 1 |
//! | young: taken by the log while a checkpoint is being made that does not know it | 1 | 0 |
//! | dropped in making checkpoint e, until e is durable | 1 | 1 |
//! | after that, until e + 1 is durable | 1 | 0 |
//!
//! So checkpoint e says that a block that it dropped is in use, and also has the block in its list
//! of [`deferred`](Space::deferred) extents. Nothing that the last two durable checkpoints or the
//! log behind them can reach is ever overwritten.
//!
//! Work that grows with the size of a checkpoint is done in slices, by [`Space::settle`].
//! `docs/allocation.md` explains on one page how a place is chosen, and what each idea is worth.

mod bits;
mod checkpoint;
mod extents;
mod flags;
mod fragmentation;
mod freed;
mod hold;
mod in_vain;
mod metadata_tail;
mod near_search;
mod node_runs;
mod runs;
mod second_copies;
mod second_copy_place;
mod sectors;
mod sweep;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::format::{Address, SECTOR_SIZE as PAGE_BYTES, space_page};
use bits::REGION;
use extents::Extents;
use node_runs::NodeRuns;
use sweep::{Reach, Vdev};

pub use crate::format::Extent;
pub use hold::Untold;

/// Number of sectors that a page of the bitmap covers.
const PAGE_SECTORS: u64 = space_page::SECTORS;
/// Length of the longest extent that can be allocated: a region.
pub const LONGEST: u32 = REGION;

/// Stream of allocations. Each stream has regions of its own, as far as there are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Blocks of volumes, and the records of the log between them.
    Data,
    /// Blocks that checkpoints write.
    Metadata,
}

impl Stream {
    const COUNT: usize = 2;
}

/// First checkpoint that knows an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The checkpoint being made, or the next if none is being made.
    Checkpoint,
    /// The next checkpoint, though one is being made. This is for the log, which goes on meanwhile.
    /// It equals [`Purpose::Checkpoint`] while none is being made.
    Young,
}

/// Claim of an allocation to break a long run while few are left and kept: see
/// [`Space::keep_runs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The runs are kept for this allocation, or the pool cannot go on without it.
    Kept,
    /// The allocation may take only pieces of free space.
    Pieces,
}

/// Sectors whose state is not what the caller believes: a damaged image or a fault in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The sectors do not exist.
    Beyond(Extent),
    /// A part of the sectors is in use already.
    DoubleAllocation(Extent),
    /// A part of the sectors is free already.
    NotAllocated(Extent),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (extent, what) = match self {
            Self::Beyond(extent) => (extent, "do not exist"),
            Self::DoubleAllocation(extent) => (extent, "are already in use"),
            Self::NotAllocated(extent) => (extent, "are already free"),
        };
        let (vdev, first, end) = (extent.vdev, extent.sector, extent.end());
        write!(f, "sectors {first}..{end} of top-level vdev {vdev} {what}")
    }
}

impl std::error::Error for Fault {}

/// Counts of sectors, exact. `size` = `available` + `deferred` + `allocated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All sectors.
    pub size: u64,
    /// Free sectors.
    pub available: u64,
    /// Dropped sectors, which become free after one or two more checkpoints.
    pub deferred: u64,
    /// Sectors in use.
    pub allocated: u64,
}

/// Counts of a top-level vdev's sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VdevSpace {
    /// All sectors.
    pub size: u64,
    /// Free sectors.
    pub available: u64,
}

/// A page of a top-level vdev's bitmap: [`space_page`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page {
    /// Position of the top-level vdev.
    pub vdev: u16,
    /// Number of the page: it covers the sectors from `number` × [`space_page::SECTORS`] on.
    pub number: u32,
}

/// The free space of a pool.
#[derive(Clone, Debug, Default)]
pub struct Space {
    vdevs: Vec<Vdev>,
    is_making: bool,
    /// Extents dropped in making the checkpoint to come or being made.
    dropped: Extents,
    /// Young sectors that were dropped while a checkpoint is being made.
    dropped_young: Extents,
    /// Extents dropped in making the last durable checkpoint.
    deferred: Extents,
    /// Number of deferred extents that have been taken out of `view`.
    forgotten: usize,
    /// Extents dropped in making the checkpoint before: free, except in `busy`.
    freed: Extents,
    double_drops: u64,
    /// Number of long runs that are kept; 0: none are.
    kept_runs: u64,
    /// Number of runs of the shortest needed length that are kept.
    kept_short: u64,
    /// Lower bound of the number of long runs.
    known_runs: u64,
    node_runs: NodeRuns,
    /// Free sectors that are held back: [`hold`].
    held: Vec<Extent>,
    /// Whether sectors that become free are noted.
    notes_freed: bool,
}

impl Space {
    /// Makes a pool in which everything is free, from the sectors of each top-level vdev.
    pub fn new(sizes: &[u64]) -> Self {
        let mut space = Self::default();
        for size in sizes {
            space.add_vdev(*size);
        }
        space
    }

    /// Adds a top-level vdev, and returns its position.
    ///
    /// # Panics
    /// The pool would have more vdevs or sectors than addresses can name.
    pub fn add_vdev(&mut self, sectors: u64) -> u16 {
        assert!(sectors <= Address::SECTORS && self.vdevs.len() <= u16::MAX.into());
        let mut vdev = Vdev::new(sectors);
        vdev.sectors.note_freed(self.notes_freed);
        self.vdevs.push(vdev);
        (self.vdevs.len() - 1) as u16
    }

    /// Makes a top-level vdev larger. Its new sectors are free. Pages that cover only new sectors
    /// need not lie on disk before one is taken.
    ///
    /// # Panics
    /// The vdev would become smaller, or larger than addresses can name.
    pub fn grow(&mut self, vdev: u16, sectors: u64) {
        let old = &mut self.vdevs[usize::from(vdev)].sectors;
        assert!(sectors >= old.size() && sectors <= Address::SECTORS);
        old.grow(sectors);
    }

    /// Keeps `sectors` sectors at the end of a top-level vdev for [`Stream::Metadata`]. In a full
    /// pool the free space between blocks may be single sectors. A checkpoint must find several in
    /// a row, or the pool could never be emptied.
    pub fn keep_for_metadata(&mut self, vdev: u16, sectors: u64) {
        self.vdevs[usize::from(vdev)].keep_for_metadata(sectors);
    }

    /// Takes `sectors` free sectors at the stream's position or behind it, or else in the stream's
    /// next region. Returns `None` if this vdev has no run of this length (at most [`LONGEST`]).
    #[inline]
    pub fn allocate(
        &mut self,
        stream: Stream,
        vdev: u16,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        self.allocate_as(Claim::Kept, stream, vdev, sectors, purpose)
    }

    /// Allocates like [`Space::allocate`], with a claim: the caller may perhaps not take a part of
    /// a long run.
    #[inline]
    pub fn allocate_as(
        &mut self,
        claim: Claim,
        stream: Stream,
        vdev: u16,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let found = self.allocate_of_rest(claim, stream, vdev, sectors, purpose);
        if found.is_none() && self.lift_holds() {
            return self.allocate_of_rest(claim, stream, vdev, sectors, purpose);
        }
        found
    }

    /// Takes sectors that are not held.
    #[inline]
    fn allocate_of_rest(
        &mut self,
        claim: Claim,
        stream: Stream,
        vdev: u16,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        if self.are_runs_few(vdev, sectors) {
            let piece = self.place_in_piece(claim, stream, vdev, sectors, purpose);
            if piece.is_some() || claim == Claim::Pieces {
                return piece;
            }
        }
        if self.are_node_runs_few(vdev, sectors) {
            let crumb = self.place_in_crumb(stream, vdev, sectors, purpose);
            if crumb.is_some() || self.would_cost_nodes(claim, stream, vdev, sectors) {
                return crumb;
            }
        }
        let run = (sectors, sectors);
        let found = self.place_wherever(stream, vdev, run, |found| found, purpose);
        self.forget_runs(vdev, found);
        found
    }

    /// Keeps `runs` long runs of free sectors whole, for allocations with [`Claim::Kept`].
    /// `lengths` gives, for each top-level vdev, the lengths of runs that are needed, ascending.
    /// The last is the length of a long run.
    ///
    /// While there are hardly more long runs, shorter allocations take the shortest runs as long as
    /// there are any, and [`Claim::Pieces`] gets no long one. While there are hardly more than
    /// `short` runs of the first length, [`Claim::Pieces`] gets none of these. Without lengths,
    /// nothing is kept.
    pub fn keep_runs(&mut self, lengths: &[Vec<u32>], short: u64, runs: u64) {
        for (number, vdev) in self.vdevs.iter_mut().enumerate() {
            let own = lengths.get(number).cloned().unwrap_or_default();
            if vdev.long() != own.last().copied().unwrap_or(0) {
                self.known_runs = 0;
            }
            vdev.count_runs_of(own);
        }
        self.kept_runs = if lengths.is_empty() { 0 } else { runs };
        self.kept_short = short;
    }

    /// Returns the number of long runs, and the number of long runs that are kept.
    pub fn runs(&mut self) -> (u64, u64) {
        while self.free_one() {}
        self.lift_holds();
        self.known_runs = self
            .vdevs
            .iter_mut()
            .map(|vdev| vdev.sectors.long_runs())
            .sum();
        (self.known_runs, self.kept_runs)
    }

    /// Returns the free sectors of a top-level vdev that data gets in runs of `sectors` and their
    /// multiples.
    pub fn in_runs(&self, vdev: u16, sectors: u32) -> u64 {
        let of = &self.vdevs[usize::from(vdev)];
        let held = self.held.iter().filter(|held| held.vdev == vdev);
        let held = held.map(|held| of.of_data_in_runs(held.sector, held.sectors, sectors));
        of.in_runs(sectors) + held.sum::<u64>()
    }

    /// Returns the most long runs that an allocation may cost: those that it lies in.
    fn cost(&self, vdev: u16, sectors: u32) -> u64 {
        match self.vdevs[usize::from(vdev)].long() {
            0 => 0,
            long => 1 + u64::from(sectors.div_ceil(long)),
        }
    }

    /// Reports whether an allocation may leave fewer long runs than are kept.
    #[inline]
    fn are_runs_few(&mut self, vdev: u16, sectors: u32) -> bool {
        if self.kept_runs == 0 {
            return false;
        }
        let least = self.kept_runs + self.cost(vdev, sectors);
        self.known_runs < least && self.runs().0 < least
    }

    /// Reports whether an allocation may leave fewer runs of the shortest length than are kept.
    fn are_short_runs_few(&mut self, vdev: u16, sectors: u32) -> bool {
        let short = self.vdevs[usize::from(vdev)].short().max(1);
        let least = self.kept_short + 1 + u64::from(sectors.div_ceil(short));
        let vdevs = self.vdevs.iter_mut();
        let there: u64 = vdevs.map(|vdev| vdev.sectors.short_runs()).sum();
        there < least
    }

    fn forget_runs(&mut self, vdev: u16, found: Option<Extent>) {
        if let Some(extent) = found {
            let cost = self.cost(vdev, extent.sectors);
            self.known_runs = self.known_runs.saturating_sub(cost);
            self.forget_node_runs(vdev, extent.sectors);
        }
    }

    fn place_in_piece(
        &mut self,
        claim: Claim,
        stream: Stream,
        vdev: u16,
        sectors: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let is_young = self.is_making && purpose == Purpose::Young;
        let is_least = claim == Claim::Pieces && self.are_short_runs_few(vdev, sectors);
        let place = &mut self.vdevs[usize::from(vdev)];
        let piece = place.allocate_piece(stream, sectors, is_least, is_young);
        let kept = || {
            let is_metadata = stream == Stream::Metadata;
            is_metadata.then(|| place.allocate_kept(sectors, is_young))?
        };
        let sector = piece.or_else(kept)?;
        Some(Extent {
            vdev,
            sector,
            sectors,
        })
    }

    /// Takes the next run of at least `least` free sectors, up to `wanted` of them. The caller can
    /// [give back](Space::give_back) the sectors that it does not use in the end.
    ///
    /// # Panics
    /// `wanted` is below `least`.
    #[inline]
    pub fn allocate_run(
        &mut self,
        stream: Stream,
        vdev: u16,
        least: u32,
        wanted: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        assert!(wanted >= least, "between {least} and {wanted} sectors");
        let run = (least, wanted);
        let found = self.place_wherever(stream, vdev, run, |found| found, purpose);
        self.forget_runs(vdev, found);
        found
    }

    /// Takes the one sector in which the log's next record will lie. If possible, `followed_by`
    /// free sectors follow it, else fewer. The stream's next allocation begins with those, so that
    /// a record and the data behind it are one device write.
    ///
    /// If the sector is taken before a checkpoint begins and written after that, the checkpoint
    /// already says that it is in use. Then replay must not mark it again.
    pub fn reserve(
        &mut self,
        stream: Stream,
        vdev: u16,
        followed_by: u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        if self.are_runs_few(vdev, 1)
            && let Some(piece) = self.place_in_piece(Claim::Kept, stream, vdev, 1, purpose)
        {
            return Some(piece);
        }
        if self.are_node_runs_few(vdev, 1)
            && let Some(crumb) = self.place_in_crumb(stream, vdev, 1, purpose)
        {
            return Some(crumb);
        }
        // In a pool that was overwritten for long, runs are short. One more sector is enough for a
        // writer of one block at a time.
        let found = [followed_by, followed_by / 4, 1]
            .into_iter()
            .find_map(|more| {
                let run = more.saturating_add(1);
                self.place(stream, Reach::BeforeTail, vdev, (run, run), |_| 1, purpose)
            });
        let found = found.or_else(|| self.place_wherever(stream, vdev, (1, 1), |_| 1, purpose));
        self.forget_runs(vdev, found);
        found
    }

    /// Takes a place before the tail, or else in it.
    #[inline]
    fn place_wherever(
        &mut self,
        stream: Stream,
        vdev: u16,
        run: (u32, u32),
        taken: impl Fn(u32) -> u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let place =
            |space: &mut Self, reach| space.place(stream, reach, vdev, run, &taken, purpose);
        place(self, Reach::BeforeTail).or_else(|| place(self, Reach::All))
    }

    #[inline]
    fn place(
        &mut self,
        stream: Stream,
        reach: Reach,
        vdev: u16,
        run: (u32, u32),
        taken: impl Fn(u32) -> u32,
        purpose: Purpose,
    ) -> Option<Extent> {
        let is_young = self.is_making && purpose == Purpose::Young;
        let place = &mut self.vdevs[usize::from(vdev)];
        let mut found = place.allocate(stream, reach, run, &taken, is_young);
        if found.is_none() && (!self.freed.is_empty() || !self.held.is_empty()) {
            while self.free_one() {}
            self.lift_holds();
            let place = &mut self.vdevs[usize::from(vdev)];
            found = place.allocate(stream, reach, run, &taken, is_young);
        }
        found.map(|(sector, sectors)| Extent {
            vdev,
            sector,
            sectors,
        })
    }

    /// Frees sectors at once that were allocated and never became part of anything durable. A part
    /// of an extent may be given back.
    pub fn give_back(&mut self, extent: Extent) {
        let vdev = &mut self.vdevs[usize::from(extent.vdev)];
        vdev.sectors.forget(extent.sector, extent.sectors);
        let freed = vdev.sectors.release(extent.sector, extent.sectors);
        debug_assert_eq!(freed, extent.sectors, "{extent:?} was not allocated");
        vdev.step_back(extent.sector, extent.sectors);
    }

    /// Notes that sectors are in use. At import, the log says which, after the checkpoint's
    /// [pages](Space::load_page) and [deferred extents](Space::load_deferred).
    ///
    /// If the root of a later checkpoint was lost, the log goes on behind that checkpoint. Sectors
    /// that this checkpoint dropped were free by then, and may be in use again.
    ///
    /// # Errors
    /// The sectors do not exist, or some are in use already. Then nothing is changed.
    pub fn mark_allocated(&mut self, extent: Extent, purpose: Purpose) -> Result<(), Fault> {
        self.check_exists(extent)?;
        let is_young = self.is_making && purpose == Purpose::Young;
        let sectors = &self.vdevs[usize::from(extent.vdev)].sectors;
        let is_busy = sectors.count_busy(extent.sector, extent.sectors) > 0;
        if is_busy && sectors.count_view(extent.sector, extent.sectors) == 0 {
            self.free_deferred();
        }
        let sectors = &mut self.vdevs[usize::from(extent.vdev)].sectors;
        if sectors.count_busy(extent.sector, extent.sectors) > 0 {
            return Err(Fault::DoubleAllocation(extent));
        }
        sectors.take_all(extent.sector, extent.sectors, is_young);
        self.forget_node_runs(extent.vdev, extent.sectors);
        Ok(())
    }

    /// Frees all extents that the checkpoint dropped from which the pool was loaded, since a later
    /// checkpoint was durable.
    fn free_deferred(&mut self) {
        self.forgotten = 0;
        for extent in std::mem::take(&mut self.deferred).iter() {
            let sectors = &mut self.vdevs[usize::from(extent.vdev)].sectors;
            sectors.release(extent.sector, extent.sectors);
        }
    }

    /// Drops sectors that something durable may still reach. They stay as they are until two more
    /// checkpoints are durable. A checkpoint that is being made counts, unless the sectors are too
    /// young for it.
    ///
    /// # Errors
    /// The sectors do not exist, or some are not in use. Not every second drop is found here: see
    /// [`Space::double_drops`]. see [`Space::double_drops`].
    pub fn drop_later(&mut self, extent: Extent) -> Result<(), Fault> {
        self.check_exists(extent)?;
        let is_settled = self.is_settled();
        let sectors = &self.vdevs[usize::from(extent.vdev)].sectors;
        let in_view = sectors.count_view(extent.sector, extent.sectors);
        let is_whole = if self.is_making || !is_settled {
            sectors.count_busy(extent.sector, extent.sectors) == extent.sectors
        } else {
            in_view == extent.sectors
        };
        let is_young = self.is_making && in_view == 0;
        if !is_whole || is_young && !sectors.may_be_young(extent.sector) {
            return Err(Fault::NotAllocated(extent));
        }
        if is_young {
            self.dropped_young.push(extent);
        } else {
            self.dropped.push(extent);
        }
        Ok(())
    }

    fn check_exists(&self, extent: Extent) -> Result<(), Fault> {
        self.vdevs
            .get(usize::from(extent.vdev))
            .filter(|vdev| vdev.sectors.holds(extent.sector, extent.sectors))
            .map(drop)
            .ok_or(Fault::Beyond(extent))
    }

    /// Returns the number of sectors that were dropped twice, if this was found only when they were
    /// to be freed. An extent that was dropped twice is never freed, since it might have a new
    /// owner by then. A number above 0 means a fault in the store, or a damaged image.
    pub fn double_drops(&self) -> u64 {
        self.double_drops
    }
}

/// Figures of the space.
impl Space {
    /// Returns the counts of the pool's sectors.
    pub fn counts(&self) -> Counts {
        let size = self.vdevs.iter().map(|vdev| vdev.sectors.size()).sum();
        let free: u64 = (self.vdevs.iter())
            .map(|vdev| vdev.sectors.free_sectors())
            .sum();
        let available = free + self.freed.sectors() + self.held_sectors();
        let deferred =
            self.dropped.sectors() + self.dropped_young.sectors() + self.deferred.sectors();
        Counts {
            size,
            available,
            deferred,
            allocated: size.saturating_sub(available + deferred),
        }
    }

    /// Returns the bitmaps of a top-level vdev, 64 sectors at a time, as `busy` and `view`. Bits
    /// beyond the vdev's end are set in both.
    pub fn words(&self, vdev: u16) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.vdevs[usize::from(vdev)].sectors.words()
    }

    /// Returns the extents that were dropped since the last checkpoint began. They are in `busy`
    /// and `view`.
    pub fn dropped(&self) -> impl Iterator<Item = Extent> + '_ {
        self.dropped.iter().chain(self.dropped_young.iter())
    }

    /// Returns the extents that were dropped before. They are in `busy` only, once all is settled.
    pub fn waiting(&self) -> impl Iterator<Item = Extent> + '_ {
        self.deferred.iter().chain(self.freed.iter())
    }

    /// Returns the number of top-level vdevs.
    pub fn vdevs(&self) -> u16 {
        self.vdevs.len() as u16
    }

    /// Returns the sectors of a top-level vdev.
    pub fn size(&self, vdev: u16) -> u64 {
        self.vdevs[usize::from(vdev)].sectors.size()
    }

    /// Returns the free sectors of a top-level vdev, without those that are free and not yet
    /// settled.
    pub fn free(&self, vdev: u16) -> u64 {
        self.vdevs[usize::from(vdev)].sectors.free_sectors() + self.held_of(vdev)
    }

    /// Returns the sectors of each top-level vdev, and its free ones. As in [`Space::counts`],
    /// sectors that are free and not yet settled count as free.
    pub fn by_vdev(&self) -> Vec<VdevSpace> {
        let space = self.vdevs.iter().map(|vdev| VdevSpace {
            size: vdev.sectors.size(),
            available: vdev.sectors.free_sectors(),
        });
        let mut space: Vec<VdevSpace> = space.collect();
        for extent in self.freed.iter().chain(self.held.iter().copied()) {
            space[usize::from(extent.vdev)].available += u64::from(extent.sectors);
        }
        space
    }

    /// Returns the number of pages of a top-level vdev's bitmap.
    pub fn pages(&self, vdev: u16) -> u32 {
        self.size(vdev).div_ceil(PAGE_SECTORS) as u32
    }

    /// Returns the top-level vdev whose turn it is to take `sectors` sectors, among the allowed
    /// vdevs that have them free. Over many turns, each vdev gets a share in proportion to its free
    /// space.
    pub fn choose_vdev(&mut self, sectors: u64, allowed: impl Fn(u16) -> bool) -> Option<u16> {
        let mut total = 0;
        let mut chosen: Option<(u16, i128)> = None;
        let held = &self.held;
        for (number, vdev) in (0..).zip(&mut self.vdevs) {
            let own = held.iter().filter(|held| held.vdev == number);
            let held: u64 = own.map(|held| u64::from(held.sectors)).sum();
            let free = vdev.sectors.free_sectors() + held;
            if free < sectors || free == 0 || !allowed(number) {
                continue;
            }
            total += i128::from(free);
            vdev.credit += i128::from(free);
            if chosen.is_none_or(|(_, most)| vdev.credit > most) {
                chosen = Some((number, vdev.credit));
            }
        }
        let (number, _) = chosen?;
        self.vdevs[usize::from(number)].credit -= total;
        Some(number)
    }

    /// Returns the bytes of memory that the space takes, the lists of dropped extents included.
    pub fn memory(&self) -> usize {
        let vdevs = self.vdevs.iter().map(|vdev| vdev.memory());
        vdevs.sum::<usize>() + self.lists_memory()
    }

    /// Returns the bytes of memory that the lists of dropped extents take. They grow with the
    /// blocks that are overwritten between checkpoints, not with the pool.
    pub fn lists_memory(&self) -> usize {
        let lists = [
            &self.dropped,
            &self.dropped_young,
            &self.deferred,
            &self.freed,
        ];
        lists.iter().map(|list| list.memory()).sum()
    }
}
