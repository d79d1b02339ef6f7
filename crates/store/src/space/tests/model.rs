//! Tests of the space against a model that keeps the state of every sector, through checkpoints and
//! crashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Length below which freed runs are not reported.
const LEAST_FREED: u32 = 4;

/// State of a sector in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectorState {
    Free,
    Live,
    Young,
    Dropped,
    DroppedYoung,
    Deferred,
}

/// Content of the disk for one checkpoint.
#[derive(Clone, Default)]
struct Durable {
    pages: BTreeMap<Page, (Extent, Box<[u8; PAGE_BYTES]>)>,
    deferred: Vec<Extent>,
    lists: Vec<Extent>,
    live: Vec<Extent>,
}

/// The pool as its engine sees it.
struct Pool {
    space: Space,
    states: Vec<Vec<SectorState>>,
    live: Vec<(Extent, bool)>,
    /// Extents that the log allocated since the last durable checkpoint froze, and how many of them
    /// the checkpoint being made knows.
    log: Vec<Extent>,
    frozen: usize,
    /// The last two durable checkpoints.
    durable: [Durable; 2],
    /// Extents that were held, also those whose hold was lifted.
    held: Vec<Extent>,
    /// Sectors that became free and were not held since.
    untold: Vec<Vec<bool>>,
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        vdev: u16,
        least: u32,
        more: u32,
        purpose: bool,
    },
    Reserve {
        vdev: u16,
        followed_by: u32,
    },
    Metadata {
        vdev: u16,
        sectors: u32,
    },
    GiveBack {
        which: usize,
        keep: u32,
    },
    Drop {
        which: usize,
    },
    DropMany {
        each: usize,
    },
    Fill {
        vdev: u16,
        sectors: u32,
    },
    Begin,
    Commit,
    Settle {
        budget: usize,
    },
    Crash,
    Rewind,
    Grow {
        vdev: u16,
        sectors: u64,
    },
    Hold {
        vdev: u16,
        from: Option<u64>,
        least: u32,
        count: usize,
    },
    LetGo {
        which: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let vdev = 0..2_u16;
    let step = prop_oneof![
        8 => (vdev.clone(), prop_oneof![1..5_u32, 1..300_u32], 0..40_u32, any::<bool>())
            .prop_map(|(vdev, least, more, purpose)| Step::Write { vdev, least, more, purpose }),
        2 => (vdev.clone(), 0..100_u32)
            .prop_map(|(vdev, followed_by)| Step::Reserve { vdev, followed_by }),
        3 => (vdev.clone(), 1..5_u32).prop_map(|(vdev, sectors)| Step::Metadata { vdev, sectors }),
        1 => (any::<usize>(), 0..10_u32).prop_map(|(which, keep)| Step::GiveBack { which, keep }),
        4 => any::<usize>().prop_map(|which| Step::Drop { which }),
        2 => (2..5_usize).prop_map(|each| Step::DropMany { each }),
        2 => (vdev.clone(), 1..9_u32).prop_map(|(vdev, sectors)| Step::Fill { vdev, sectors }),
        3 => Just(Step::Begin),
        4 => Just(Step::Commit),
        2 => (0..30_usize).prop_map(|budget| Step::Settle { budget }),
        1 => Just(Step::Crash),
        1 => Just(Step::Rewind),
        2 => (vdev.clone(), prop::option::of(0..40_000_u64), 1..20_u32, 1..5_usize)
            .prop_map(|(vdev, from, least, count)| Step::Hold { vdev, from, least, count }),
        1 => any::<usize>().prop_map(|which| Step::LetGo { which }),
        1 => (vdev, 0..9_000_u64).prop_map(|(vdev, sectors)| Step::Grow { vdev, sectors }),
    ];
    prop::collection::vec(step, 1..80)
}

impl Pool {
    fn new(sizes: &[u64]) -> Self {
        let free = |size: &u64| vec![SectorState::Free; *size as usize];
        let mut space = Space::new(sizes);
        space.note_freed(true);
        let told = |size: &u64| vec![false; *size as usize];
        Self {
            space,
            held: Vec::new(),
            untold: sizes.iter().map(told).collect(),
            states: sizes.iter().map(free).collect(),
            live: Vec::new(),
            log: Vec::new(),
            frozen: 0,
            durable: Default::default(),
        }
    }

    fn states(&mut self, extent: Extent) -> &mut [SectorState] {
        let range = extent.sector as usize..extent.end() as usize;
        &mut self.states[usize::from(extent.vdev)][range]
    }

    fn set(&mut self, extent: Extent, state: SectorState) {
        self.states(extent).fill(state);
    }

    /// Checks an allocation and notes it.
    fn took(&mut self, extent: Extent, is_young: bool) {
        assert!(
            self.states(extent)
                .iter()
                .all(|state| *state == SectorState::Free),
            "{extent:?}"
        );
        self.assert_unreached(extent);
        self.set(
            extent,
            if is_young {
                SectorState::Young
            } else {
                SectorState::Live
            },
        );
        self.live.push((extent, is_young));
    }

    /// Asserts that neither of the last two checkpoints has the extent.
    fn assert_unreached(&self, extent: Extent) {
        for durable in &self.durable {
            let reached = durable.live.iter();
            for other in reached.filter(|other| other.vdev == extent.vdev) {
                let apart = extent.end() <= other.sector || other.end() <= extent.sector;
                assert!(
                    apart,
                    "{extent:?} is written over {other:?} of a checkpoint"
                );
            }
        }
    }

    /// Checks that only free sectors are held and that the figures stay as they are.
    fn hold(&mut self, vdev: u16, from: Option<u64>, least: u32, count: usize) -> Vec<Extent> {
        while !self.space.may_hold() {
            self.space.settle(1);
        }
        let which = from.map_or(Untold::Freed, Untold::From);
        let (extents, next) = self.space.hold(vdev, which, least, count);
        assert!(extents.len() <= count);
        for extent in &extents {
            assert!(
                extent.sectors >= least
                    && from.is_none_or(|from| extent.sector >= from && extent.end() <= next)
            );
            assert!(
                self.states(*extent)
                    .iter()
                    .all(|state| *state == SectorState::Free),
                "{extent:?}"
            );
            self.assert_unreached(*extent);
            let range = extent.sector as usize..extent.end() as usize;
            if from.is_none() {
                let untold = &mut self.untold[usize::from(vdev)][range];
                assert!(untold.contains(&true), "{extent:?} was told before");
                untold.fill(false);
            }
        }
        self.held.extend(&extents);
        extents
    }

    fn let_all_go(&mut self) {
        for extent in std::mem::take(&mut self.held) {
            self.space.let_go(extent);
        }
    }

    /// Tells devices of all freed sectors, apart from runs that are too short.
    fn tell_all(&mut self, least: u32) {
        for vdev in 0..self.space.vdevs() {
            while !self.hold(vdev, None, least, 3).is_empty() {
                self.let_all_go();
            }
            let of = usize::from(vdev);
            let regions = self.states[of].chunks(LONGEST as usize);
            let untold = self.untold[of].chunks(LONGEST as usize);
            for (states, untold) in regions.zip(untold) {
                let mut at = 0;
                for run in states.split(|state| *state != SectorState::Free) {
                    let is_told = !untold[at..at + run.len()].contains(&true);
                    assert!(
                        is_told || run.len() < least as usize,
                        "{} sectors",
                        run.len()
                    );
                    at += run.len() + 1;
                }
            }
        }
    }

    /// Checks that an allocation was rightly refused.
    fn refused(&self, vdev: u16, run: u32) {
        for region in self.states[usize::from(vdev)].chunks(LONGEST as usize) {
            let mut free = region.split(|state| *state != SectorState::Free);
            assert!(
                free.all(|free| free.len() < run as usize),
                "{run} sectors of vdev {vdev}"
            );
        }
    }

    fn write(&mut self, vdev: u16, (least, wanted): (u32, u32), purpose: Purpose) {
        if self.space.counts().available < 200 + u64::from(wanted) {
            return;
        }
        let is_young = self.space.is_making_checkpoint() && purpose == Purpose::Young;
        let extent = match wanted {
            wanted if wanted == least => self.space.allocate(Stream::Data, vdev, least, purpose),
            _ => self
                .space
                .allocate_run(Stream::Data, vdev, least, wanted, purpose),
        };
        match extent {
            Some(extent) => {
                assert!((least..=wanted).contains(&extent.sectors));
                self.took(extent, is_young);
                if is_young || !self.space.is_making_checkpoint() {
                    self.log.push(extent);
                }
            }
            None => self.refused(vdev, least),
        }
    }

    fn forget_live(&mut self, which: usize) -> Option<(Extent, bool)> {
        let index = which.checked_rem(self.live.len())?;
        Some(self.live.swap_remove(index))
    }

    fn drop_one(&mut self, which: usize) {
        let Some((extent, is_young)) = self.forget_live(which) else {
            return;
        };
        self.space.drop_later(extent).expect("it is in use");
        self.set(
            extent,
            if is_young {
                SectorState::DroppedYoung
            } else {
                SectorState::Dropped
            },
        );
    }

    /// Allocates metadata of the checkpoint being made, somewhere.
    fn metadata(&mut self, sectors: u32) -> Extent {
        let extent = (0..self.space.vdevs())
            .find_map(|vdev| {
                self.space
                    .allocate(Stream::Metadata, vdev, sectors, Purpose::Checkpoint)
            })
            .expect("a reserve was kept");
        self.took(extent, false);
        extent
    }

    fn drop_extent(&mut self, extent: Extent) {
        let which = self.live.iter().position(|(live, _)| *live == extent);
        self.drop_one(which.expect("it is live"));
    }

    fn commit(&mut self) {
        let mut pages = self.durable[0].pages.clone();
        let mut placed = Vec::new();
        let mut lists = Vec::new();
        for list in self.durable[0].lists.clone() {
            self.drop_extent(list);
        }
        loop {
            while let Some(page) = self.space.next_dirty_page() {
                if let Some((old, _)) = pages.remove(&page) {
                    self.drop_extent(old);
                }
                let place = self.metadata(1);
                pages.insert(page, (place, Box::new([0; PAGE_BYTES])));
                placed.push(page);
            }
            if lists.len() * 400 >= self.space.deferred().len() {
                break;
            }
            lists.push(self.metadata(1));
        }
        for page in placed {
            let bytes = self.space.write_page(page);
            pages
                .get_mut(&page)
                .expect("it was placed")
                .1
                .copy_from_slice(&bytes);
        }
        self.check_pages(&pages);
        let live = self.live.iter().filter(|live| !live.1).map(|live| live.0);
        let durable = Durable {
            pages,
            deferred: self.space.deferred().collect(),
            lists,
            live: live.collect(),
        };
        let [_, last] = &mut self.durable;
        *last = durable;
        self.durable.swap(0, 1);
        self.space.commit_checkpoint();
        self.log.drain(..self.frozen);
        self.frozen = 0;
        let untold = self.untold.iter_mut().flatten();
        for (state, untold) in self.states.iter_mut().flatten().zip(untold) {
            *state = match *state {
                SectorState::Young => SectorState::Live,
                SectorState::Dropped => SectorState::Deferred,
                SectorState::DroppedYoung => SectorState::Dropped,
                SectorState::Deferred => {
                    *untold = true;
                    SectorState::Free
                }
                SectorState::Free | SectorState::Live => *state,
            };
        }
        self.live.iter_mut().for_each(|live| live.1 = false);
    }

    /// Checks that the pages on disk cover the extents that the checkpoint reaches and those that
    /// it dropped.
    fn check_pages(&self, pages: &BTreeMap<Page, (Extent, Box<[u8; PAGE_BYTES]>)>) {
        for (vdev, states) in (0..).zip(&self.states) {
            for (number, states) in (0..).zip(states.chunks(PAGE_SECTORS as usize)) {
                let page = pages.get(&Page { vdev, number });
                for (sector, state) in states.iter().enumerate() {
                    let bit =
                        page.is_some_and(|(_, page)| page[sector / 8] >> (sector % 8) & 1 == 1);
                    assert_eq!(
                        bit,
                        matches!(state, SectorState::Live | SectorState::Dropped)
                    );
                }
            }
        }
    }

    /// Forgets all but the content of the disk. Comes back from the last checkpoint and its log, or
    /// from the checkpoint before it without a log.
    fn crash(&mut self, rewind: bool) {
        if rewind && !self.durable[1].live.is_empty() {
            self.durable[0] = self.durable[1].clone();
            self.log.clear();
        }
        let sizes: Vec<_> = self
            .states
            .iter()
            .map(|states| states.len() as u64)
            .collect();
        let log = std::mem::take(&mut self.log);
        let durable = std::mem::take(&mut self.durable);
        *self = Self::new(&sizes);
        for (page, (_, bytes)) in &durable[0].pages {
            self.space.load_page(*page, bytes).expect("a good page");
        }
        for extent in &durable[0].deferred {
            self.space.load_deferred(*extent).expect("a good extent");
            self.set(*extent, SectorState::Deferred);
        }
        for extent in &log {
            self.space
                .mark_allocated(*extent, Purpose::Checkpoint)
                .expect("it is free");
            let again = self.space.mark_allocated(*extent, Purpose::Young);
            assert_eq!(again, Err(Fault::DoubleAllocation(*extent)));
        }
        for extent in durable[0].live.iter().chain(&log) {
            self.took(*extent, false);
        }
        self.log = log;
        self.durable = durable;
        self.check_all();
    }

    fn check_counts(&self) {
        let mut counts = [0; 6];
        for state in self.states.iter().flatten() {
            counts[*state as usize] += 1;
        }
        let [free, live, young, dropped, dropped_young, deferred] = counts;
        let expected = Counts {
            size: counts.iter().sum(),
            available: free,
            deferred: dropped + dropped_young + deferred,
            allocated: live + young,
        };
        assert_eq!(self.space.counts(), expected);
        let is_free = |state: &&SectorState| **state == SectorState::Free;
        let free = |states: &Vec<SectorState>| states.iter().filter(is_free).count() as u64;
        let free: Vec<u64> = self.states.iter().map(free).collect();
        let by_vdev = self.space.by_vdev();
        let available: Vec<u64> = by_vdev.iter().map(|of| of.available).collect();
        assert_eq!(available, free);
        assert_eq!(by_vdev.iter().map(|of| of.size).sum::<u64>(), expected.size);
        assert_eq!(self.space.double_drops(), 0);
    }

    /// Checks, when all is settled, that both bitmaps are right.
    fn check_all(&mut self) {
        self.let_all_go();
        assert!(self.space.settle(usize::MAX));
        self.check_counts();
        for (vdev, states) in self.space.vdevs.iter().zip(&self.states) {
            let mut free = 0;
            for (sector, state) in (0..).zip(states) {
                let busy = vdev.sectors.count_busy(sector, 1) == 1;
                let view = vdev.sectors.count_view(sector, 1) == 1;
                let expected = match state {
                    SectorState::Free => (false, false),
                    SectorState::Live | SectorState::Dropped => (true, true),
                    SectorState::Young | SectorState::DroppedYoung | SectorState::Deferred => {
                        (true, false)
                    }
                };
                assert_eq!((busy, view), expected, "sector {sector}, {state:?}");
                free += u64::from(!busy);
            }
            assert_eq!(vdev.sectors.free_sectors(), free);
            for (region, (free, longest)) in (0..).zip(vdev.sectors.emptiness()) {
                let busy = vdev.sectors.busy(region);
                assert_eq!(free, bits::runs(busy).map(|run| run.1).sum::<u32>());
                assert!((bits::longest(busy)..=vdev.sectors.bound()).contains(&longest));
            }
        }
    }

    fn apply(&mut self, step: &Step) {
        let making = self.space.is_making_checkpoint();
        match *step {
            Step::Write {
                vdev,
                least,
                more,
                purpose,
            } => {
                let purpose = if purpose {
                    Purpose::Young
                } else {
                    Purpose::Checkpoint
                };
                self.write(vdev, (least, least + more), purpose);
            }
            Step::Reserve { vdev, followed_by } if self.space.counts().available > 200 => {
                match self
                    .space
                    .reserve(Stream::Data, vdev, followed_by, Purpose::Young)
                {
                    Some(extent) => {
                        assert_eq!(extent.sectors, 1);
                        self.took(extent, making);
                        self.log.push(extent);
                    }
                    None => self.refused(vdev, 1),
                }
            }
            Step::Metadata { vdev, sectors } if making && self.space.counts().available > 200 => {
                let purpose = Purpose::Checkpoint;
                match self
                    .space
                    .allocate(Stream::Metadata, vdev, sectors, purpose)
                {
                    Some(extent) => self.took(extent, false),
                    None => self.refused(vdev, sectors),
                }
            }
            Step::GiveBack { which, keep } => {
                // Only an extent that the log does not know durably may go: the last that it
                // allocated.
                let last = self.log[self.frozen..].last().copied();
                let Some(at) = self.live.iter().position(|live| Some(live.0) == last) else {
                    return;
                };
                self.log.pop();
                let extent = self.live[at].0;
                let (_, is_young) = self.live.swap_remove(at);
                let keep = if which % 2 == 0 {
                    keep.min(extent.sectors)
                } else {
                    0
                };
                let kept = Extent {
                    sectors: keep,
                    ..extent
                };
                let rest = Extent {
                    sector: extent.sector + u64::from(keep),
                    sectors: extent.sectors - keep,
                    ..extent
                };
                self.space.give_back(rest);
                self.set(rest, SectorState::Free);
                let range = rest.sector as usize..rest.end() as usize;
                self.untold[usize::from(rest.vdev)][range].fill(true);
                if keep > 0 {
                    self.live.push((kept, is_young));
                    self.log.push(kept);
                }
            }
            Step::Drop { which } => {
                // Only checkpoints drop the places of pages and lists.
                let lists = &self.durable[0];
                let mut kept = lists.pages.values().map(|page| &page.0).chain(&lists.lists);
                let index = which.checked_rem(self.live.len()).unwrap_or(0);
                let extent = self.live.get(index).map(|live| live.0);
                if extent.is_some_and(|extent| !kept.any(|kept| *kept == extent)) {
                    self.drop_one(which);
                }
            }
            Step::DropMany { each } => {
                for which in (0..self.live.len()).rev().step_by(each) {
                    self.apply(&Step::Drop { which });
                }
            }
            Step::Fill { vdev, sectors } => {
                for _ in 0..400 {
                    self.write(vdev, (sectors, sectors), Purpose::Young);
                }
            }
            Step::Begin if !making => {
                self.space.begin_checkpoint();
                self.frozen = self.log.len();
            }
            Step::Commit if making => self.commit(),
            Step::Settle { budget } => {
                self.space.settle(budget);
            }
            Step::Crash => self.crash(false),
            Step::Rewind => self.crash(true),
            Step::Grow { vdev, sectors } => {
                let states = &mut self.states[usize::from(vdev)];
                states.resize(states.len() + sectors as usize, SectorState::Free);
                self.untold[usize::from(vdev)].resize(states.len(), false);
                self.space.grow(vdev, states.len() as u64);
            }
            Step::Hold {
                vdev,
                from,
                least,
                count,
            } => {
                let size = self.states[usize::from(vdev)].len() as u64;
                let from = from.map(|from| from.min(size));
                // A caller that asks for freed sectors asks for runs of one length.
                let least = if from.is_none() { LEAST_FREED } else { least };
                self.hold(vdev, from, least, count);
            }
            Step::LetGo { which } => {
                if let Some(at) = which.checked_rem(self.held.len()) {
                    let extent = self.held.swap_remove(at);
                    self.space.let_go(extent);
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_space_is_what_a_model_of_every_sector_says(steps in steps()) {
        let mut pool = Pool::new(&[5_000, 37_003]);
        for step in &steps {
            pool.apply(step);
            pool.check_counts();
        }
        pool.check_all();
        pool.tell_all(LEAST_FREED);
        pool.check_all();
        pool.crash(false);
    }
}
