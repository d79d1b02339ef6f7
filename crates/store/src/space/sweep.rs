//! The choice of the next allocation's place. Each stream sweeps one region after the other in
//! ascending order, so that data written in sequence lies in sequence on the device. It takes the
//! emptiest regions first, so that runs are long.
//!
//! Regions are compared by sixteenths of their emptiness and, within one sixteenth, by their
//! distance. So a pool that is equally full everywhere is swept from its beginning to its end and
//! around. The tail is for metadata first: [`tail`](super::metadata_tail).

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

use super::Stream;
use super::bits::{self, REGION};
use super::in_vain::InVain;
use super::second_copies::SecondCopies;
use super::sectors::Sectors;

/// Number of regions that are chosen at a time. A look at all regions of a vdev takes 100 µs per
/// TiB; all allocations from the chosen regions share it.
const CHOSEN: usize = 256;
/// Number of classes of emptiness: one for each sixteenth, and one for empty regions.
const CLASSES: usize = 17;
/// Class from which on a region before the tail is good for metadata. The lowest of these regions
/// is taken. Metadata comes and goes with every checkpoint, and would otherwise leave no region
/// whole for data.
const METADATA_CLASS: usize = 12;

/// Returns the highest class that a stream asks for.
fn highest_class(stream: Stream) -> usize {
    match stream {
        Stream::Data => CLASSES - 1,
        Stream::Metadata => METADATA_CLASS,
    }
}

/// Returns how good a region with `free` free sectors is for a stream.
pub(super) fn class_of(stream: Stream, free: u32) -> usize {
    ((free * 16 / REGION) as usize).min(highest_class(stream))
}

/// Reach of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Data leaves the tail of the vdev alone: [`tail`](super::metadata_tail).
    BeforeTail,
    /// A stream takes any sectors that it may have.
    All,
}

/// Way of one stream over one vdev.
#[derive(Clone, Debug, Default)]
struct Sweep {
    region: Option<u32>,
    /// Position in the region at which the next search begins.
    position: u32,
    /// Regions to come, each with its class when it was chosen.
    next: VecDeque<(u32, usize)>,
}

/// A top-level vdev: its sectors, and the sweeps over them.
#[derive(Clone, Debug, Default)]
pub(super) struct Vdev {
    pub(super) sectors: Sectors,
    sweeps: [Sweep; Stream::COUNT],
    /// Number of sectors at its end that only metadata gets.
    kept: u64,
    /// First region of its tail, which data leaves alone while it finds a place before:
    /// [`tail`](super::metadata_tail).
    tail: u32,
    /// Runs before the tail that were looked for in vain.
    no_run_before_tail: InVain,
    /// Lengths of runs that are needed, ascending. Runs of the last length are kept whole while
    /// they are few. If the list is empty, no runs are kept.
    lengths: Vec<u32>,
    /// Region in which pieces of free space are looked for first.
    pieces_in: u32,
    /// Pieces below each length that were looked for everywhere in vain.
    no_pieces_of: Vec<InVain>,
    /// Length of a run for a node of a map; 0: these are not counted.
    node_run: u32,
    /// Pieces below `node_run` that were looked for everywhere in vain.
    no_crumbs_of: InVain,
    pub(super) second_copies: SecondCopies,
    /// Share of allocations that the vdev has not had yet, in sectors times rounds.
    pub(super) credit: i128,
}

impl Vdev {
    pub(super) fn new(size: u64) -> Self {
        let mut vdev = Self {
            tail: u32::MAX,
            ..Self::default()
        };
        vdev.sectors.grow(size);
        vdev
    }

    /// Finds `least` to `most` free sectors for a stream and takes the first `taken` of them.
    /// Returns their first sector and how many were found.
    pub(super) fn allocate(
        &mut self,
        stream: Stream,
        reach: Reach,
        (least, most): (u32, u32),
        taken: impl FnOnce(u32) -> u32,
        is_young: bool,
    ) -> Option<(u64, u32)> {
        let (region, start) = self.find(stream, reach, least)?;
        let found = match most {
            most if most == least => least,
            most => bits::run_at(self.sectors.busy(region), start, most),
        };
        let taken = taken(found);
        self.sectors.take(region, start, taken, is_young);
        // The rest of a run that was long is a piece.
        self.pieces_in = region;
        self.sweeps[stream as usize].position = start + taken;
        let sector = u64::from(region) * u64::from(REGION) + u64::from(start);
        Some((sector, taken))
    }

    /// Sets a stream back if it went over these sectors last. They have become free.
    pub(super) fn step_back(&mut self, sector: u64, sectors: u32) {
        let region = (sector / u64::from(REGION)) as u32;
        let start = (sector % u64::from(REGION)) as u32;
        if region < self.tail {
            self.no_run_before_tail = InVain::default();
        }
        self.second_copies.look_again();
        for sweep in &mut self.sweeps {
            if sweep.region == Some(region) && sweep.position == start + sectors {
                sweep.position = start;
            }
        }
    }

    fn find(&mut self, stream: Stream, reach: Reach, run: u32) -> Option<(u32, u32)> {
        if run == 0 || run > self.sectors.bound() {
            return None;
        }
        let is_limited = stream == Stream::Data && reach == Reach::BeforeTail;
        if is_limited && self.no_run_before_tail.covers(run) {
            return None;
        }
        let sweep = &self.sweeps[stream as usize];
        if let Some(region) = sweep.region
            && self.may_enter(stream, reach, region)
            && self.sectors.longest_of(region) >= run
        {
            let position = sweep.position;
            if let Some(start) = self.run_in(stream, reach, region, position, run) {
                return Some((region, start));
            }
            self.sectors.measure(region);
        }
        let others = self.sweeps[1 - stream as usize].region;
        loop {
            while let Some((region, class)) = self.sweeps[stream as usize].next.pop_front() {
                let free = self.sectors.free_of(region);
                let sweep = &self.sweeps[stream as usize];
                let is_others = others == Some(region) && !sweep.next.is_empty();
                // Another stream may have used the region up meanwhile.
                let is_worse = class_of(stream, free) < class;
                let may_enter = self.may_enter(stream, reach, region);
                if !may_enter || self.sectors.longest_of(region) < run || is_others || is_worse {
                    continue;
                }
                if let Some(start) = self.run_in(stream, reach, region, 0, run) {
                    self.sweeps[stream as usize].region = Some(region);
                    return Some((region, start));
                }
                self.sectors.measure(region);
            }
            let next = self.choose(stream, reach, run, others);
            if next.is_empty() {
                if is_limited {
                    self.no_run_before_tail.note(run);
                } else if stream == Stream::Metadata || self.kept == 0 {
                    // A run that data may not have, metadata may still find.
                    self.sectors.limit_bound(run);
                }
                return None;
            }
            self.sweeps[stream as usize].next = next;
        }
    }

    /// Finds the first run of this length in a region, from a position on, that a stream may have.
    fn run_in(
        &self,
        stream: Stream,
        reach: Reach,
        region: u32,
        position: u32,
        run: u32,
    ) -> Option<u32> {
        let start = bits::find(self.sectors.busy(region), position, run)?;
        (start + run <= self.end_in(stream, reach, region)).then_some(start)
    }

    /// Reports whether a stream goes into a region.
    fn may_enter(&self, stream: Stream, reach: Reach, region: u32) -> bool {
        stream == Stream::Metadata || reach == Reach::All || region < self.tail
    }

    /// Returns the end, in a region, of the sectors that a stream may have.
    pub(super) fn end_in(&self, stream: Stream, reach: Reach, region: u32) -> u32 {
        if !self.may_enter(stream, reach, region) {
            return 0;
        }
        let kept = match stream {
            Stream::Data => self.kept,
            Stream::Metadata => 0,
        };
        if kept == 0 {
            return REGION;
        }
        let first = u64::from(region) * u64::from(REGION);
        let end = self.sectors.size().saturating_sub(kept);
        end.saturating_sub(first).min(REGION.into()) as u32
    }

    /// Reports whether a region may have a run of this length for a stream. The answer is exact if
    /// a part of the region is not the stream's, since nobody measures that part.
    fn may_have(&self, stream: Stream, reach: Reach, region: u32, run: u32) -> bool {
        let end = self.end_in(stream, reach, region);
        let is_partial = end < REGION;
        end > 0
            && self.sectors.longest_of(region) >= run
            && (!is_partial || self.run_in(stream, reach, region, 0, run).is_some())
    }

    /// Keeps `sectors` sectors at the end for metadata.
    pub(super) fn keep_for_metadata(&mut self, sectors: u64) {
        self.kept = sectors;
        self.second_copies.look_again();
        let lengths = std::mem::take(&mut self.lengths);
        self.count_runs_of(lengths);
    }

    /// Sets the needed lengths of runs, ascending. Runs of the last length are long from now on;
    /// without lengths, no run is long.
    pub(super) fn count_runs_of(&mut self, lengths: Vec<u32>) {
        self.no_pieces_of = vec![InVain::default(); lengths.len()];
        self.lengths = lengths;
        let end = self.sectors.size().saturating_sub(self.kept);
        self.sectors.count_runs_of((self.short(), self.long()), end);
    }

    /// Sets the length of the runs that nodes of maps need.
    pub(super) fn count_node_runs_of(&mut self, length: u32) {
        (self.node_run, self.no_crumbs_of) = (length, InVain::default());
        self.sectors.count_node_runs_of(length);
    }

    /// Returns the first region of the tail.
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns the length of a run for a node; 0: these are not counted.
    pub(super) fn node_run(&self) -> u32 {
        self.node_run
    }

    /// Returns the length of the shortest runs that are needed; 0: none are.
    pub(super) fn short(&self) -> u32 {
        self.lengths.first().copied().unwrap_or(0)
    }

    /// Returns the length of long runs; 0: no run is long.
    pub(super) fn long(&self) -> u32 {
        self.lengths.last().copied().unwrap_or(0)
    }

    /// Notes that sectors became free: there may be pieces again.
    pub(super) fn look_for_pieces(&mut self) {
        self.no_pieces_of.fill(InVain::default());
        self.no_crumbs_of = InVain::default();
        self.no_run_before_tail = InVain::default();
        self.second_copies.look_again();
    }

    /// Returns the regions that the streams are in.
    pub(super) fn swept_regions(&self) -> [Option<u32>; Stream::COUNT] {
        std::array::from_fn(|stream| self.sweeps[stream].region)
    }

    /// Sets the first region of the tail. Data leaves the tail alone while it finds a place before
    /// it.
    pub(super) fn begin_tail(&mut self, region: u32) {
        self.tail = region;
        self.no_run_before_tail = InVain::default();
    }

    /// Takes free sectors out of a run that is shorter than a long one. Returns the first of them.
    /// If there is a run that is too short for any kept length, it is taken; with `is_least`, no
    /// other is taken.
    pub(super) fn allocate_piece(
        &mut self,
        stream: Stream,
        sectors: u32,
        is_least: bool,
        is_young: bool,
    ) -> Option<u64> {
        let most = if is_least { 1 } else { self.lengths.len() };
        (0..most).find_map(|below| self.allocate_below(stream, sectors, below, is_young))
    }

    /// Takes free sectors out of a run that is shorter than one of the lengths.
    fn allocate_below(
        &mut self,
        stream: Stream,
        sectors: u32,
        below: usize,
        is_young: bool,
    ) -> Option<u64> {
        let limit = *self.lengths.get(below)?;
        let in_vain = self.no_pieces_of[below];
        let found = self.take_shorter(stream, sectors, limit, in_vain, is_young);
        if found.is_none() && sectors < limit {
            self.no_pieces_of[below].note(sectors);
        }
        found
    }

    /// Takes free sectors out of a run in which neither a node of a map nor any kept run would find
    /// room.
    pub(super) fn allocate_crumb(
        &mut self,
        stream: Stream,
        sectors: u32,
        is_young: bool,
    ) -> Option<u64> {
        let limit = match self.short() {
            0 => self.node_run,
            short => short.min(self.node_run),
        };
        let found = self.take_shorter(stream, sectors, limit, self.no_crumbs_of, is_young);
        if found.is_none() && sectors < limit {
            self.no_crumbs_of.note(sectors);
        }
        found
    }

    /// Takes free sectors out of a run below `limit`. If a search for as many or fewer was
    /// `in_vain` before, only one region is looked through.
    fn take_shorter(
        &mut self,
        stream: Stream,
        sectors: u32,
        limit: u32,
        in_vain: InVain,
        is_young: bool,
    ) -> Option<u64> {
        if sectors == 0 || sectors >= limit {
            return None;
        }
        let regions = self.sectors.regions();
        let first = self.pieces_in.min(regions.saturating_sub(1));
        let most = if in_vain.covers(sectors) { 1 } else { regions };
        let mut order = (first..regions).chain(0..first).take(most as usize);
        let found = order.find_map(|region| {
            let start = self.piece_in(stream, region, sectors..limit)?;
            Some((region, start))
        });
        let (region, start) = found?;
        self.pieces_in = region;
        self.sectors.take(region, start, sectors, is_young);
        Some(u64::from(region) * u64::from(REGION) + u64::from(start))
    }

    /// Returns the free sectors for data in runs of `sectors` and their multiples.
    pub(super) fn in_runs(&self, sectors: u32) -> u64 {
        let of_region = |region| {
            let end = self.end_in(Stream::Data, Reach::All, region);
            let runs = bits::runs(self.sectors.busy(region));
            let inside =
                runs.map(|(start, length)| (start + length).min(end).saturating_sub(start));
            let whole: u32 = inside.map(|length| length - length % sectors.max(1)).sum();
            u64::from(whole)
        };
        (0..self.sectors.regions()).map(of_region).sum()
    }

    /// Returns the sectors for data in runs of `sectors`, among held sectors in one region. They
    /// count as if nothing free lay beside them.
    pub(super) fn of_data_in_runs(&self, sector: u64, length: u32, sectors: u32) -> u64 {
        let region = (sector / u64::from(REGION)) as u32;
        let start = (sector % u64::from(REGION)) as u32;
        let end = self.end_in(Stream::Data, Reach::All, region);
        let inside = (start + length).min(end).saturating_sub(start);
        u64::from(inside - inside % sectors.max(1))
    }

    /// Takes free sectors of the end that is kept for metadata. Returns the first of them.
    pub(super) fn allocate_kept(&mut self, sectors: u32, is_young: bool) -> Option<u64> {
        let end = self.sectors.size();
        let first = end.saturating_sub(self.kept);
        let regions = (first / u64::from(REGION)) as u32..self.sectors.regions();
        let found = regions.into_iter().find_map(|region| {
            let from = first.saturating_sub(u64::from(region) * u64::from(REGION)) as u32;
            let start = bits::find(self.sectors.busy(region), from, sectors)?;
            Some((region, start))
        });
        let (region, start) = found.filter(|_| sectors > 0)?;
        self.sectors.take(region, start, sectors, is_young);
        Some(u64::from(region) * u64::from(REGION) + u64::from(start))
    }

    fn piece_in(&self, stream: Stream, region: u32, lengths: Range<u32>) -> Option<u32> {
        if self.sectors.free_of(region) < lengths.start {
            return None;
        }
        let end = self.end_in(stream, Reach::All, region);
        let mut runs = bits::runs(self.sectors.busy(region));
        let fits = |(start, length): &(u32, u32)| {
            let inside = (start + length).min(end).saturating_sub(*start);
            lengths.contains(&inside)
        };
        runs.find(fits).map(|(start, _)| start)
    }

    /// Chooses the regions to sweep next that may have a run of `run` sectors.
    fn choose(
        &self,
        stream: Stream,
        reach: Reach,
        run: u32,
        others: Option<u32>,
    ) -> VecDeque<(u32, usize)> {
        let may_have = |region| self.may_have(stream, reach, region, run);
        if stream == Stream::Metadata {
            let tail = self.tail..self.sectors.regions();
            let tail = tail.filter(|region| others != Some(*region) && may_have(*region));
            let of_tail =
                tail.map(|region| (region, class_of(stream, self.sectors.free_of(region))));
            let mut chosen: Vec<(u32, usize)> = of_tail.take(CHOSEN).collect();
            if !chosen.is_empty() {
                chosen.sort_by_key(|(_, class)| Reverse(*class));
                return chosen.into();
            }
        }
        let mut counts = [0_usize; CLASSES];
        for (region, (free, longest)) in (0..).zip(self.sectors.emptiness()) {
            if longest >= run && may_have(region) {
                counts[class_of(stream, free)] += 1;
            }
        }
        // The choice takes all regions of the emptiest classes that together are not too many, and
        // the nearest regions of the next class.
        let mut room = CHOSEN;
        let mut lowest = highest_class(stream);
        while lowest > 0 && counts[lowest] <= room {
            room -= counts[lowest];
            lowest -= 1;
        }
        let regions = self.sectors.regions();
        let first = match (stream, self.sweeps[stream as usize].region) {
            (Stream::Data, Some(region)) => (region + 1) % regions,
            _ => 0,
        };
        let mut chosen = Vec::with_capacity(CHOSEN);
        for region in (first..regions).chain(0..first) {
            if others == Some(region) || !may_have(region) {
                continue;
            }
            let class = class_of(stream, self.sectors.free_of(region));
            if class > lowest {
                chosen.push((region, class));
            } else if class == lowest && room > 0 {
                room -= 1;
                chosen.push((region, class));
            }
        }
        chosen.sort_by_key(|(_, class)| Reverse(*class));
        if chosen.is_empty() {
            let rest = others.filter(|region| may_have(*region));
            return rest.into_iter().map(|region| (region, 0)).collect();
        }
        chosen.into()
    }

    pub(super) fn memory(&self) -> usize {
        let queues = self.sweeps.iter().map(|sweep| sweep.next.capacity());
        self.sectors.memory() + queues.sum::<usize>() * size_of::<(u32, usize)>()
    }
}
