//! The space against a model that keeps the state of every sector, through checkpoints and crashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What the model knows of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Live,
    Young,
    Dropped,
    DroppedYoung,
    Deferred,
}

/// What lies on disk for one checkpoint.
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
    states: Vec<Vec<State>>,
    live: Vec<(Extent, bool)>,
    /// What the log allocated since the last durable checkpoint froze, and how much of it the one
    /// being made knows.
    log: Vec<Extent>,
    frozen: usize,
    /// The last two.
    durable: [Durable; 2],
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
        1 => (vdev, 0..9_000_u64).prop_map(|(vdev, sectors)| Step::Grow { vdev, sectors }),
    ];
    prop::collection::vec(step, 1..80)
}

impl Pool {
    fn new(sizes: &[u64]) -> Self {
        let free = |size: &u64| vec![State::Free; *size as usize];
        Self {
            space: Space::new(sizes),
            states: sizes.iter().map(free).collect(),
            live: Vec::new(),
            log: Vec::new(),
            frozen: 0,
            durable: Default::default(),
        }
    }

    fn states(&mut self, extent: Extent) -> &mut [State] {
        let range = extent.sector as usize..extent.end() as usize;
        &mut self.states[usize::from(extent.vdev)][range]
    }

    fn set(&mut self, extent: Extent, state: State) {
        self.states(extent).fill(state);
    }

    /// Checks an allocation and notes it.
    fn took(&mut self, extent: Extent, is_young: bool) {
        assert!(
            self.states(extent)
                .iter()
                .all(|state| *state == State::Free),
            "{extent:?}"
        );
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
        self.set(extent, if is_young { State::Young } else { State::Live });
        self.live.push((extent, is_young));
    }

    /// Checks that an allocation was rightly refused.
    fn refused(&self, vdev: u16, run: u32) {
        for region in self.states[usize::from(vdev)].chunks(LONGEST as usize) {
            let mut free = region.split(|state| *state != State::Free);
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
                State::DroppedYoung
            } else {
                State::Dropped
            },
        );
    }

    /// Metadata of the checkpoint being made, somewhere.
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
        for state in self.states.iter_mut().flatten() {
            *state = match *state {
                State::Young => State::Live,
                State::Dropped => State::Deferred,
                State::DroppedYoung => State::Dropped,
                State::Deferred => State::Free,
                State::Free | State::Live => *state,
            };
        }
        self.live.iter_mut().for_each(|live| live.1 = false);
    }

    /// The pages on disk say what the checkpoint reaches and what it dropped.
    fn check_pages(&self, pages: &BTreeMap<Page, (Extent, Box<[u8; PAGE_BYTES]>)>) {
        for (vdev, states) in (0..).zip(&self.states) {
            for (number, states) in (0..).zip(states.chunks(PAGE_SECTORS as usize)) {
                let page = pages.get(&Page { vdev, number });
                for (sector, state) in states.iter().enumerate() {
                    let bit =
                        page.is_some_and(|(_, page)| page[sector / 8] >> (sector % 8) & 1 == 1);
                    assert_eq!(bit, matches!(state, State::Live | State::Dropped));
                }
            }
        }
    }

    /// Forgets all but what is on disk, and comes back from the last checkpoint and its log, or from
    /// the one before it without.
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
            self.set(*extent, State::Deferred);
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
        let is_free = |state: &&State| **state == State::Free;
        let free = |states: &Vec<State>| states.iter().filter(is_free).count() as u64;
        let free: Vec<u64> = self.states.iter().map(free).collect();
        let by_vdev = self.space.by_vdev();
        let available: Vec<u64> = by_vdev.iter().map(|of| of.available).collect();
        assert_eq!(available, free);
        assert_eq!(by_vdev.iter().map(|of| of.size).sum::<u64>(), expected.size);
        assert_eq!(self.space.double_drops(), 0);
    }

    /// When all is settled, both bitmaps say what they should.
    fn check_all(&mut self) {
        assert!(self.space.settle(usize::MAX));
        self.check_counts();
        for (vdev, states) in self.space.vdevs.iter().zip(&self.states) {
            let mut free = 0;
            for (sector, state) in (0..).zip(states) {
                let busy = vdev.sectors.count_busy(sector, 1) == 1;
                let view = vdev.sectors.count_view(sector, 1) == 1;
                let expected = match state {
                    State::Free => (false, false),
                    State::Live | State::Dropped => (true, true),
                    State::Young | State::DroppedYoung | State::Deferred => (true, false),
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
                // Only what the log does not know durably: the last that it allocated.
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
                self.set(rest, State::Free);
                if keep > 0 {
                    self.live.push((kept, is_young));
                    self.log.push(kept);
                }
            }
            Step::Drop { which } => {
                // The places of pages and lists are dropped by checkpoints only.
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
                states.resize(states.len() + sectors as usize, State::Free);
                self.space.grow(vdev, states.len() as u64);
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
        pool.crash(false);
    }
}

/// A vdev of which so many percent are in use at random.
fn random(sectors: u64, percent: u64) -> Space {
    let mut space = Space::new(&[sectors]);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..space.pages(0) {
        let mut bytes = [0; PAGE_BYTES];
        for bit in 0..(sectors - u64::from(number) * PAGE_SECTORS).min(PAGE_SECTORS) as usize {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[bit / 8] |= u8::from(seed % 100 < percent) << (bit % 8);
        }
        space
            .load_page(Page { vdev: 0, number }, &bytes)
            .expect("a good page");
    }
    space
}

/// How often an allocation lies before the last, until nothing is free.
fn descents(space: &mut Space, sectors: u32) -> u32 {
    let (mut descents, mut last) = (0, 0);
    while let Some(extent) = space.allocate(Stream::Data, 0, sectors, Purpose::Checkpoint) {
        descents += u32::from(extent.sector < last);
        last = extent.sector;
    }
    descents
}

#[test]
fn an_evenly_filled_vdev_is_swept_from_its_beginning_to_its_end() {
    for (percent, sectors) in [(0, 1), (0, 32), (70, 1), (70, 3), (95, 1)] {
        let mut space = random(1_000_000, percent);
        // The sweep goes around once more for what lies in regions of another sixteenth.
        let times = descents(&mut space, sectors);
        assert!(times <= 3, "{times} steps back at {percent} %");
        assert_eq!(
            space.allocate(Stream::Data, 0, sectors, Purpose::Young),
            None
        );
        let left = space.counts().available;
        assert!(sectors > 1 || left == 0, "{left} sectors were not found");
    }
}

#[test]
fn streams_have_regions_of_their_own_and_each_its_order() {
    let mut space = Space::new(&[1 << 20]);
    let (mut data, mut metadata) = (Vec::new(), Vec::new());
    for _ in 0..9_000 {
        data.extend(space.allocate(Stream::Data, 0, 3, Purpose::Young));
        metadata.extend(space.allocate(Stream::Metadata, 0, 1, Purpose::Checkpoint));
    }
    let region = |extent: &Extent| extent.sector / u64::from(LONGEST);
    assert!(data.is_sorted() && metadata.is_sorted());
    assert!(
        !metadata
            .iter()
            .any(|extent| data.iter().any(|of| region(of) == region(extent)))
    );
}

#[test]
fn the_emptiest_region_is_swept_first() {
    let mut space = random(100 * u64::from(LONGEST), 60);
    let whole = Extent {
        vdev: 0,
        sector: 41 * u64::from(LONGEST),
        sectors: LONGEST,
    };
    // What is in use there is dropped by two checkpoints.
    let bits: Vec<_> = (whole.sector..whole.end()).collect();
    for sector in bits {
        let extent = Extent {
            sector,
            sectors: 1,
            ..whole
        };
        if space.vdevs[0].sectors.count_busy(sector, 1) == 1 {
            space.drop_later(extent).expect("it is in use");
        }
    }
    for _ in 0..2 {
        space.begin_checkpoint();
        while let Some(page) = space.next_dirty_page() {
            space.write_page(page);
        }
        space.commit_checkpoint();
    }
    assert!(space.settle(usize::MAX));
    let extent = space.allocate(Stream::Data, 0, 32, Purpose::Young);
    assert_eq!(extent.map(|extent| extent.sector), Some(whole.sector));
}

#[test]
fn a_reserved_record_has_its_data_right_behind_it() {
    let mut space = random(1 << 18, 50);
    for _ in 0..1_000 {
        let record = space
            .reserve(Stream::Data, 0, 5, Purpose::Young)
            .expect("room");
        let data = space
            .allocate(Stream::Data, 0, 5, Purpose::Young)
            .expect("room");
        assert_eq!((record.sectors, record.end()), (1, data.sector));
    }
    // Where nothing has room behind it, a sector is enough.
    while space.allocate(Stream::Data, 0, 2, Purpose::Young).is_some() {}
    assert!(space.reserve(Stream::Data, 0, 1, Purpose::Young).is_some());
}

#[test]
fn what_is_given_back_is_taken_next_if_it_was_the_last() {
    let mut space = Space::new(&[1 << 16]);
    let run = |space: &mut Space, wanted| {
        space
            .allocate_run(Stream::Data, 0, 1, wanted, Purpose::Young)
            .expect("room")
    };
    let first = run(&mut space, 100);
    space.give_back(Extent {
        sector: 60,
        sectors: 40,
        ..first
    });
    assert_eq!(run(&mut space, 8).sector, 60);
    // What lies behind the stream waits until it comes around.
    space.give_back(Extent {
        sector: 0,
        sectors: 60,
        ..first
    });
    assert_eq!(run(&mut space, 8).sector, 68);
}

#[test]
fn a_page_that_changes_after_it_was_written_comes_again() {
    let mut space = Space::new(&[1 << 16]);
    let take = |space: &mut Space, purpose| {
        space
            .allocate(Stream::Metadata, 0, 1, purpose)
            .expect("room");
    };
    let page = Page { vdev: 0, number: 0 };
    take(&mut space, Purpose::Checkpoint);
    space.begin_checkpoint();
    assert_eq!(
        (space.dirty_pages(), space.next_dirty_page()),
        (1, Some(page))
    );
    take(&mut space, Purpose::Checkpoint);
    assert_eq!(space.next_dirty_page(), None, "it has a place");
    assert_eq!(space.write_page(page)[0], 0b11);
    take(&mut space, Purpose::Young);
    assert_eq!(space.next_dirty_page(), None, "young sectors are not in it");
    take(&mut space, Purpose::Checkpoint);
    assert_eq!(space.next_dirty_page(), Some(page));
    assert_eq!(space.write_page(page)[0], 0b1011);
    space.commit_checkpoint();
    assert!(space.settle(usize::MAX));
    space.begin_checkpoint();
    assert_eq!(space.next_dirty_page(), Some(page));
    assert_eq!(space.write_page(page)[0], 0b1111);
}

#[test]
fn vdevs_get_shares_by_their_free_space() {
    let mut space = Space::new(&[30_000, 10_000, 60_000]);
    let mut turns = [0; 3];
    for _ in 0..1_000 {
        turns[usize::from(space.choose_vdev(1, |_| true).expect("room"))] += 1;
    }
    assert_eq!(turns, [300, 100, 600]);
    assert_eq!(space.choose_vdev(1, |vdev| vdev == 1), Some(1));
    assert_eq!(space.choose_vdev(30_001, |vdev| vdev != 2), None);
}

#[test]
fn faults_are_told_and_change_nothing() {
    let mut space = Space::new(&[10_000]);
    let extent = |sector, sectors| Extent {
        vdev: 0,
        sector,
        sectors,
    };
    let before = space.counts();
    for beyond in [
        extent(9_999, 2),
        extent(u64::MAX, 1),
        Extent {
            vdev: 1,
            ..extent(0, 1)
        },
    ] {
        assert_eq!(
            space.mark_allocated(beyond, Purpose::Young),
            Err(Fault::Beyond(beyond))
        );
        assert_eq!(space.drop_later(beyond), Err(Fault::Beyond(beyond)));
        assert_eq!(space.load_deferred(beyond), Err(Fault::Beyond(beyond)));
    }
    let free = extent(4_000, 200);
    assert_eq!(space.drop_later(free), Err(Fault::NotAllocated(free)));
    assert_eq!(space.load_deferred(free), Err(Fault::NotAllocated(free)));
    assert_eq!(space.counts(), before);
    let mut bytes = [0; PAGE_BYTES];
    bytes[10_000 / 8] = 1;
    assert!(
        space
            .load_page(Page { vdev: 0, number: 0 }, &bytes)
            .is_err()
    );
    assert!(
        space
            .load_page(
                Page {
                    vdev: 0,
                    number: u32::MAX
                },
                &bytes
            )
            .is_err()
    );
    assert!(
        space
            .load_page(Page { vdev: 7, number: 0 }, &bytes)
            .is_err()
    );
    assert_eq!(space.counts(), before);
    let text = Fault::DoubleAllocation(extent(5, 2)).to_string();
    assert_eq!(text, "sectors 5..7 of top-level vdev 0 are in use already");
}

#[test]
fn what_is_dropped_twice_is_not_given_to_two() {
    let mut space = Space::new(&[10_000]);
    let extent = space
        .allocate(Stream::Data, 0, 8, Purpose::Young)
        .expect("room");
    space.drop_later(extent).expect("it is in use");
    space.drop_later(extent).expect("not found yet");
    for _ in 0..3 {
        space.begin_checkpoint();
        assert_eq!(space.drop_later(extent).is_err(), space.double_drops() > 0);
        while let Some(page) = space.next_dirty_page() {
            space.write_page(page);
        }
        space.commit_checkpoint();
        space.settle(usize::MAX);
        assert_eq!(space.drop_later(extent), Err(Fault::NotAllocated(extent)));
    }
    assert!(space.double_drops() > 0);
}

#[test]
fn fragmentation_is_that_of_zpool() {
    let mut space = Space::new(&[1 << 16]);
    assert_eq!((space.fragmentation(0), space.longest_run(0)), (0, LONGEST));
    for sector in (0..1 << 16).step_by(2) {
        let extent = Extent {
            vdev: 0,
            sector,
            sectors: 1,
        };
        space
            .mark_allocated(extent, Purpose::Checkpoint)
            .expect("it is free");
    }
    assert_eq!((space.fragmentation(0), space.longest_run(0)), (95, 1));
    assert_eq!(space.allocate(Stream::Data, 0, 2, Purpose::Young), None);
}

#[test]
fn a_tebibyte_takes_64_mebibytes_of_memory() {
    let space = Space::new(&[1 << 28]);
    let memory = space.memory();
    assert!((64 << 20..65 << 20).contains(&memory), "{memory} bytes");
}

#[test]
#[ignore = "a measurement: cargo test --release -p store space -- --ignored --nocapture"]
fn allocating_4_kib_of_a_tebibyte_at_70_percent_takes_under_100_ns() {
    for (percent, sectors) in [(70, 1), (70, 4), (70, 8), (95, 1)] {
        let mut space = random(1 << 28, percent);
        let begin = std::time::Instant::now();
        let mut count = 0_u64;
        while count < 40_000_000
            && space
                .allocate(Stream::Data, 0, sectors, Purpose::Young)
                .is_some()
        {
            count += 1;
        }
        let each = begin.elapsed().as_nanos() as f64 / count as f64;
        println!("{percent} % full, {sectors} sectors: {each:.1} ns each, {count} of them");
        assert!(sectors > 1 || each < 100.0);
    }
}

#[test]
#[ignore = "a measurement: cargo test --release -p store space -- --ignored --nocapture"]
fn settling_a_dropped_block_takes_under_a_microsecond() {
    let mut space = random(1 << 28, 70);
    let mut seed = 1_u64;
    let mut drops = 0;
    let clock = std::time::Instant::now;
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 36
    };
    let begin = clock();
    for _ in 0..2_000_000 {
        let extent = Extent {
            vdev: 0,
            sector: next(),
            sectors: 1,
        };
        drops += u32::from(space.drop_later(extent).is_ok());
    }
    println!("{:?} to drop {drops} blocks", begin.elapsed());
    let mut settling = std::time::Duration::ZERO;
    for _ in 0..2 {
        space.begin_checkpoint();
        while let Some(page) = space.next_dirty_page() {
            space.write_page(page);
        }
        space.commit_checkpoint();
        let begin = clock();
        while !space.settle(1_000) {}
        settling += begin.elapsed();
    }
    println!(
        "{settling:?} to settle them; {} bytes of memory",
        space.memory()
    );
    assert!(drops > 1_000_000 && settling.as_nanos() < u128::from(drops) * 1_000);
}

#[test]
fn data_never_takes_what_is_kept_for_metadata() {
    for size in [3000_u64, 3 * u64::from(REGION), 9000] {
        for kept in [100_u64, 5000] {
            let kept = kept.min(size / 2);
            let mut space = Space::new(&[size]);
            space.keep_for_metadata(0, kept);
            let mut taken = 0;
            while let Some(extent) = space.allocate(Stream::Data, 0, 1, Purpose::Young) {
                assert!(extent.end() <= size - kept, "{extent:?}");
                taken += 1;
            }
            assert_eq!(taken, size - kept);
            assert_eq!(space.allocate(Stream::Data, 0, 7, Purpose::Young), None);
            let last = space.allocate(Stream::Metadata, 0, 5, Purpose::Checkpoint);
            assert!(last.is_some_and(|extent| extent.sector >= size - kept));
            // And what becomes free in front is found again.
            let freed = Extent {
                vdev: 0,
                sector: 40,
                sectors: 9,
            };
            space.give_back(freed);
            let again = space.allocate(Stream::Data, 0, 9, Purpose::Young);
            assert_eq!(again, Some(freed));
        }
    }
}
