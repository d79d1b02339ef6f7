//! Full pools: which changes fail, which never do, and how space comes back.

use pages::Pages;

use crate::catalog::request::{CreateVolume, Destroy, Resize, SetProperties, TakeSnapshots};
use crate::engine::tests::world::World;
use crate::engine::{Limits, Plan, PoolErrorKind, Request};
use crate::format::DatasetId;
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};

const BLOCK: u64 = 4096;
const SMALL: u64 = 16 << 20;

/// Makes bytes that cannot be compressed.
pub(in crate::engine::tests) fn noise(len: u64, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..len / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

impl World {
    pub(in crate::engine::tests) fn try_write(
        &mut self,
        volume: DatasetId,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), PoolErrorKind> {
        self.attempt_to(Request::Write {
            dataset: volume,
            offset: at,
            data: Pages::from_bytes(bytes),
            durable: false,
        })
    }

    fn attempt_to(&mut self, request: Request) -> Result<(), PoolErrorKind> {
        self.ask(request).map(drop).map_err(|error| error.kind)
    }

    fn try_unmap(
        &mut self,
        dataset: DatasetId,
        offset: u64,
        len: u64,
    ) -> Result<(), PoolErrorKind> {
        self.attempt_to(Request::Unmap {
            dataset,
            offset,
            len,
            durable: false,
        })
    }

    /// Writes one block after the other until there is no space. Returns the bytes that were taken.
    pub(in crate::engine::tests) fn fill(&mut self, volume: DatasetId, step: u64) -> u64 {
        self.fill_from(volume, 0, step)
    }

    /// Writes one block after the other from a place on until there is no space. Returns the place
    /// where it ended.
    pub(in crate::engine::tests) fn fill_from(
        &mut self,
        volume: DatasetId,
        from: u64,
        step: u64,
    ) -> u64 {
        let mut at = from;
        loop {
            match self.try_write(volume, at, &noise(step, at + 1)) {
                Ok(()) => at += step,
                Err(kind) => {
                    let why = self.pool.condition.suspended();
                    assert_eq!(kind, PoolErrorKind::NoSpace, "{why:?}");
                    return at;
                }
            }
        }
    }

    fn create(
        &mut self,
        name: &str,
        size: u64,
        is_thick: bool,
    ) -> Result<DatasetId, PoolErrorKind> {
        let request = CreateVolume {
            name: name.to_owned(),
            size,
            block_size: BLOCK as u32,
            is_thick,
            ..CreateVolume::default()
        };
        self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_create_volume(&request, stamp)
        }))
        .map(|()| self.id(name))
        .map_err(|error| error.kind)
    }

    pub(in crate::engine::tests) fn create_of_blocks(
        &mut self,
        name: &str,
        size: u64,
        block_size: u32,
        is_thick: bool,
    ) -> DatasetId {
        let request = CreateVolume {
            name: name.to_owned(),
            size,
            block_size,
            is_thick,
            ..CreateVolume::default()
        };
        let plan: Plan =
            Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
        self.administer(plan).expect("there is room");
        self.id(name)
    }

    pub(in crate::engine::tests) fn snapshot_of(
        &mut self,
        name: &str,
    ) -> Result<(), PoolErrorKind> {
        let request = TakeSnapshots {
            names: vec![name.to_owned()],
            ..TakeSnapshots::default()
        };
        self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_snapshot(&request, stamp)
        }))
        .map_err(|error| error.kind)
    }

    pub(in crate::engine::tests) fn destroy(&mut self, name: &str) {
        let request = Destroy {
            names: vec![name.to_owned()],
            is_recursive: true,
            with_clones: true,
        };
        self.administer(Box::new(move |catalog, _| catalog.plan_destroy(&request)))
            .expect("a full pool can be emptied");
    }
}

fn kinds() -> [(TopLevelKind, usize); 3] {
    [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ]
}

#[test]
fn a_full_pool_says_so_and_can_be_emptied_by_unmap() {
    for (kind, disks) in kinds() {
        let mut world = World::of_size(kind, disks, SMALL, Limits::default());
        let volume = world.create("a", 1 << 30, false).expect("thin");
        let first = world.fill(volume, 4 * BLOCK);
        assert!(first >= SMALL / 3, "{first}");
        for at in (0..first).step_by(1 << 20) {
            let expected = noise(4 * BLOCK, at + 1);
            assert!(world.read(volume, at, 4 * BLOCK as u32) == expected);
        }
        world.reopen().expect("a full pool opens");
        assert_eq!(
            world.try_write(volume, first, &noise(4 * BLOCK, 9)),
            Err(PoolErrorKind::NoSpace)
        );
        world.clear(volume, 0, first);
        let again = world.fill(volume, 4 * BLOCK);
        assert!(again + (1 << 20) >= first, "{again} of {first}");
        world.check();
        world.reopen().expect("opens");
    }
}

#[test]
fn a_pool_is_full_as_soon_as_a_long_write_may_fail() {
    for (kind, disks) in kinds() {
        for step in [BLOCK, 64 * BLOCK, 256 * BLOCK] {
            let mut world = World::of_size(kind, disks, 4 * SMALL, Limits::default());
            assert!(!world.pool.status().is_full, "nothing in it");
            let volume = world.create("thin", 1 << 30, false).expect("thin");
            assert!(!world.pool.status().is_full, "an empty volume");
            let end = world.fill(volume, step);
            assert!(world.pool.status().is_full, "{step} until {end}");
            world.snapshot_of("thin@1").ok();
            world.reopen().expect("opens");
            assert!(world.pool.status().is_full, "{step} until {end}");
            world.destroy("thin");
            world.settle();
            assert!(!world.pool.status().is_full, "all is destroyed");
        }
    }
}

#[test]
fn a_pool_whose_volumes_reserved_their_space_is_not_full() {
    let mut world = World::of_size(TopLevelKind::Mirror, 2, 4 * SMALL, Limits::default());
    let root = world.pool.catalog.datasets().next().expect("a root").id;
    let size = world.pool.room_for_volume(root) & !(BLOCK - 1);
    let thick = world.create("thick", size, true).expect("all of it");
    for _ in 0..2 {
        assert!(!world.pool.status().is_full);
        for at in (0..size).step_by(64 * BLOCK as usize) {
            let len = (size - at).min(64 * BLOCK);
            world.try_write(thick, at, &noise(len, at)).expect("room");
        }
    }
    assert!(!world.pool.status().is_full);
    let thin = world.create("thin", 1 << 30, false).expect("thin");
    let end = world.fill(thin, 256 * BLOCK);
    assert!(end <= 1 << 20, "next to nothing was left for it: {end}");
    assert!(world.pool.status().is_full, "a volume of the two is full");
}

/// Snapshots hold all unmapped blocks, so nothing becomes free, and each changed node of the maps
/// adds one.
#[test]
fn a_full_pool_refuses_snapshots_before_it_refuses_to_unmap_what_they_share() {
    for (kind, disks) in kinds() {
        let mut world = World::of_size(kind, disks, SMALL, Limits::default());
        let volume = world.create("a", 1 << 30, false).expect("thin");
        // Each leaf has few blocks, so that there are many leaves.
        let stride = 16 * BLOCK;
        let mut end = 0;
        while (world.try_write(volume, end, &noise(BLOCK, end + 1))).is_ok() {
            end += stride;
        }
        let mut taken = 0;
        let refused = loop {
            let snapshot = world.snapshot_of(&format!("a@{taken}"));
            // This unmaps one block of each leaf's sixteen.
            for at in (0..end).step_by(16 * stride as usize) {
                let at = at + taken % 16 * stride;
                let unmapped = world.try_unmap(volume, at, BLOCK);
                assert_eq!(unmapped, Ok(()), "{kind:?}, at {at}, {taken} snapshots");
            }
            match snapshot {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
            assert!(taken < 16, "{kind:?}");
        };
        assert_eq!(refused, PoolErrorKind::NoSpace);
        assert!(taken > 0, "{kind:?}");
        world.check();
        // The last snapshot is destroyed, and unmapping can continue.
        (0..taken).for_each(|of| world.destroy(&format!("a@{of}")));
        world.checkpoint();
        world.checkpoint();
        world.snapshot_of("a@again").expect("there is room again");
        world.reopen().expect("opens");
    }
}

/// Blocks that a thick volume wrote since the last checkpoint do not also count as reserved for it.
#[test]
fn a_snapshot_of_a_thin_volume_does_not_wait_for_what_thick_ones_have_written() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 4 * SMALL, Limits::default());
    let thick = world.create("thick", SMALL, true).expect("thick");
    let thin = world.create("thin", 1 << 30, false).expect("thin");
    world.fill(thin, 4 * BLOCK);
    world.checkpoint();
    world.checkpoint();
    let epoch = world.pool.persisted.epoch;
    for at in [0, 1 << 20] {
        let bytes = noise(1 << 20, at + 1);
        assert_eq!(world.try_write(thick, at, &bytes), Ok(()));
    }
    assert_eq!(world.pool.persisted.epoch, epoch);
    assert_eq!(world.snapshot_of("thin@1"), Ok(()));
    world.check();
}

#[test]
fn what_an_unmap_covers_of_a_block_stays_where_there_is_no_room_for_the_rest() {
    let size = 16 << 10;
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let volume = world.create_of_blocks("a", 1 << 30, size, false);
    let small = world.create("b", 1 << 30, false).expect("thin");
    let size = u64::from(size);
    let end = world.fill(volume, size);
    // A block that needs a new leaf is refused when one in an old leaf still has room.
    world.fill(small, BLOCK);
    let written = |at| noise(size, at + 1);
    let zeros = world.attempt_to(Request::Clear {
        dataset: volume,
        offset: BLOCK,
        len: BLOCK,
        durable: false,
    });
    assert_eq!(zeros, Err(PoolErrorKind::NoSpace));
    assert_eq!(world.try_unmap(volume, BLOCK, BLOCK), Ok(()));
    assert!(world.read(volume, 0, size as u32) == written(0));
    // The write goes from within one block into another, with one between.
    let at = end / 2 / size * size;
    assert_eq!(world.try_unmap(volume, at + BLOCK, 2 * size), Ok(()));
    assert!(world.read(volume, at, size as u32) == written(at));
    assert!(world.read(volume, at + size, size as u32) == vec![0; size as usize]);
    assert!(world.read(volume, at + 2 * size, size as u32) == written(at + 2 * size));
    // A write that changes nothing costs nothing, and waits for nothing.
    let epoch = world.pool.persisted.epoch;
    for round in 0..2000 {
        let far = round % 2 * (end / 2 / size * size);
        assert_eq!(world.try_unmap(volume, far + BLOCK, BLOCK), Ok(()));
    }
    assert_eq!(world.pool.persisted.epoch, epoch);
    world.clear(volume, end - (1 << 20), 1 << 20);
    world.checkpoint();
    world.checkpoint();
    // Now there is room.
    assert_eq!(world.try_unmap(volume, BLOCK, BLOCK), Ok(()));
    let mut expected = written(0);
    expected[BLOCK as usize..2 * BLOCK as usize].fill(0);
    assert!(world.read(volume, 0, size as u32) == expected);
    world.crash().expect("opens");
    world.check();
}

#[test]
fn blocks_of_a_full_pool_can_be_overwritten_when_others_were_unmapped() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let volume = world.create("a", 1 << 30, false).expect("thin");
    let first = world.fill(volume, BLOCK);
    world.clear(volume, 0, 1 << 20);
    for round in 0..20 {
        for at in (2 << 20..3 << 20).step_by(BLOCK as usize * 16) {
            let bytes = noise(16 * BLOCK, at + round);
            world.try_write(volume, at, &bytes).expect("there is room");
        }
    }
    world.reopen().expect("opens");
    assert!(first > 8 << 20);
}

#[test]
fn destroying_works_when_full_and_its_space_comes_back() {
    let limits = Limits {
        freed_blocks: 100,
        ..Limits::default()
    };
    for (kind, disks) in kinds() {
        let mut world = World::of_size(kind, disks, SMALL, limits);
        let keep = world.create("keep", 1 << 30, false).expect("thin");
        world.write(keep, 0, &noise(1 << 20, 3), true);
        let volume = world.create("a", 1 << 30, false).expect("thin");
        let first = world.fill(volume, 4 * BLOCK);
        world.snapshot_of("a@1").expect("a snapshot takes no space");
        assert_eq!(
            world.try_write(volume, 0, &noise(4 * BLOCK, 9)),
            Err(PoolErrorKind::NoSpace)
        );
        world.destroy("a");
        let volume = world.create("b", 1 << 30, false).expect("thin");
        let again = world.fill(volume, 4 * BLOCK);
        assert!(again + (1 << 20) >= first, "{again} of {first}");
        assert!(world.read(keep, 0, 1 << 20) == noise(1 << 20, 3));
        world.reopen().expect("opens");
    }
}

/// Space that an operation freed is there for changes two checkpoints later, even if earlier
/// changes waited for three in vain.
#[test]
fn who_comes_after_a_volume_shrank_waits_for_its_space() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let volume = world.create("a", 1 << 30, false).expect("thin");
    let end = world.fill(volume, 4 * BLOCK);
    let bytes = noise(4 * BLOCK, 9);
    let full = Err(PoolErrorKind::NoSpace);
    assert_eq!(world.try_write(volume, end, &bytes), full);
    let request = Resize {
        name: "a".to_owned(),
        size: 1 << 20,
        may_shrink: true,
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_resize(&request));
    world.administer(plan).expect("a full pool can be emptied");
    let mut steps = 0;
    while world.pool.is_freeing() {
        world.do_one();
        steps += 1;
        assert!(steps < 100_000, "it comes to an end");
    }
    assert_eq!(world.try_write(volume, 0, &bytes), Ok(()));
    world.check();
}

#[test]
fn a_thick_volume_never_lacks_space() {
    for (kind, disks) in kinds() {
        let mut world = World::of_size(kind, disks, SMALL, Limits::default());
        let size = 3 << 20;
        let thick = world.create("thick", size, true).expect("there is room");
        let thin = world.create("thin", 1 << 30, false).expect("thin");
        world.fill(thin, 4 * BLOCK);
        for round in 0..4 {
            for at in (0..size).step_by(BLOCK as usize * 16) {
                let written = world.try_write(thick, at, &noise(16 * BLOCK, at + round));
                assert_eq!(written, Ok(()), "{kind:?}, round {round}, byte {at}");
            }
            world.fill(thin, 4 * BLOCK);
            if round == 1 {
                world.reopen().expect("opens");
            }
        }
        let last = world.read(thick, size - 16 * BLOCK, 16 * BLOCK as u32);
        assert!(last == noise(16 * BLOCK, size - 16 * BLOCK + 3));
        world.reopen().expect("opens");
    }
}

#[test]
fn what_is_promised_to_thick_volumes_is_there() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let error = world.create("much", 64 << 20, true).expect_err("too much");
    assert_eq!(error, PoolErrorKind::NoSpace);
    let thick = world.create("thick", 4 << 20, true).expect("there is room");
    world.write(thick, 0, &noise(4 << 20, 1), true);
    // With a snapshot, the volume may need all of its size again.
    world.snapshot_of("thick@1").expect("there is room");
    let thin = world.create("thin", 1 << 30, false).expect("thin");
    world.fill(thin, 4 * BLOCK);
    for at in (0..4 << 20).step_by(BLOCK as usize * 16) {
        let written = world.try_write(thick, at, &noise(16 * BLOCK, at));
        assert_eq!(written, Ok(()), "byte {at}");
    }
    // There is no room for a second promise.
    let request = SetProperties {
        name: "thin".to_owned(),
        properties: [("refreservation".to_owned(), "12M".to_owned())].into(),
        ..SetProperties::default()
    };
    let set = world.administer(Box::new(move |catalog, _| catalog.plan_set(&request)));
    assert_eq!(set.map_err(|error| error.kind), Err(PoolErrorKind::NoSpace));
    world.reopen().expect("opens");
}

#[test]
fn a_snapshot_that_would_break_a_promise_is_refused() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let thick = world.create("thick", 8 << 20, true).expect("there is room");
    world.write(thick, 0, &noise(8 << 20, 1), true);
    world.checkpoint();
    assert_eq!(world.snapshot_of("thick@1"), Err(PoolErrorKind::NoSpace));
    world.clear(thick, 0, 8 << 20);
    for _ in 0..3 {
        world.checkpoint();
    }
    world.snapshot_of("thick@1").expect("it has nothing now");
}

/// Single durable writes leave a record between any two blocks, so the freed blocks lie alone.
#[test]
fn a_pool_filled_by_single_durable_writes_can_be_emptied() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let volume = world.create("a", 1 << 30, false).expect("thin");
    let mut at = 0;
    loop {
        let request = Request::Write {
            dataset: volume,
            offset: at,
            data: Pages::from_bytes(&noise(BLOCK, at + 1)),
            durable: true,
        };
        match world.ask(request) {
            Ok(_) => at += BLOCK,
            Err(error) => {
                assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
                break;
            }
        }
    }
    world.reopen().expect("opens");
    assert!(world.read(volume, at - BLOCK, BLOCK as u32) == noise(BLOCK, at - BLOCK + 1));
    world.clear(volume, 0, at);
    let again = world.fill(volume, BLOCK);
    assert!(again >= at, "{again} of {at}");
    world.destroy("a");
    for _ in 0..4 {
        world.checkpoint();
    }
    let counts = world.pool.space.counts();
    assert!(counts.allocated < 40, "{counts:?}");
}

/// Free space lies in pieces too small for a block. The space between them is free after two more
/// checkpoints.
#[test]
fn who_finds_free_space_only_in_pieces_waits_for_the_rest() {
    for (kind, disks) in kinds() {
        let mut world = World::of_size(kind, disks, SMALL, Limits::default());
        let request = CreateVolume {
            name: "large".to_owned(),
            size: 1 << 20,
            block_size: 16 << 10,
            ..CreateVolume::default()
        };
        let plan: Plan =
            Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
        world.administer(plan).expect("created");
        let large = world.id("large");
        let small = world.create("small", 1 << 30, false).expect("thin");
        let end = world.fill(small, BLOCK);
        let halves = [0, BLOCK].map(|from| (from..end).step_by(2 * BLOCK as usize));
        for at in halves[0].clone() {
            world.clear(small, at, BLOCK);
        }
        (0..3).for_each(|_| world.checkpoint());
        for at in halves[1].clone() {
            world.clear(small, at, BLOCK);
        }
        let bytes = noise(128 << 10, 5);
        assert_eq!(world.try_write(large, 0, &bytes), Ok(()), "{kind:?}");
        assert!(world.read(large, 0, 128 << 10) == bytes);
        world.check();
    }
}

/// The write does not wait for ever, and a change that must be seen as a whole is not seen in part.
#[test]
fn where_free_space_stays_in_pieces_there_is_none_and_nothing_was_written() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let request = CreateVolume {
        name: "large".to_owned(),
        size: 1 << 20,
        block_size: 16 << 10,
        ..CreateVolume::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
    world.administer(plan).expect("created");
    let large = world.id("large");
    let small = world.create("small", 1 << 30, false).expect("thin");
    let end = world.fill(small, BLOCK);
    for at in (0..end).step_by(2 * BLOCK as usize) {
        world.clear(small, at, BLOCK);
    }
    (0..3).for_each(|_| world.checkpoint());
    let mut written = 0;
    let refused = loop {
        let len = 128_u64 << 10;
        match world.try_write(large, written, &noise(len, 5)) {
            Ok(()) => written += len,
            Err(kind) => break kind,
        }
    };
    assert_eq!(refused, PoolErrorKind::NoSpace);
    assert!(
        world
            .read(large, written, 128 << 10)
            .iter()
            .all(|byte| *byte == 0)
    );
    world.check();
}

/// Fills the pool, then writes every block of the thick volume twice.
fn write_all_of_a_thick_volume(
    (kind, disks): (TopLevelKind, usize),
    (block_size, others): (u32, u32),
    fill: &dyn Fn(&mut World),
) -> Result<(), String> {
    let mut world = World::of_size(kind, disks, SMALL, Limits::default());
    let size = 3 << 20;
    let thick = world.create_of_blocks("thick", size, block_size, true);
    world.create_of_blocks("thin", 1 << 30, others, false);
    fill(&mut world);
    let step = u64::from(block_size);
    for round in 0..2 {
        for at in (0..size).step_by(step as usize) {
            if let Err(error) = world.try_write(thick, at, &noise(step, at + round)) {
                let counts = world.pool.space.counts();
                return Err(format!(
                    "{kind:?} of {disks}, blocks of {block_size} beside {others}, round {round}, byte {at}: \
                     {error:?}, {counts:?}, slop {}, reserved {}",
                    world.pool.slop(),
                    world.pool.promises.reserved()
                ));
            }
        }
    }
    world.check();
    for at in (0..size).step_by(step as usize) {
        assert!(world.read(thick, at, block_size) == noise(step, at + 1));
    }
    world.reopen().map_err(|error| error.to_string())
}

fn probe(fill: &dyn Fn(&mut World)) {
    let kinds = [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
        (TopLevelKind::Raidz { parity: 3 }, 5),
    ];
    let mut failures = Vec::new();
    for kind in kinds {
        for block_size in [16 << 10, 64 << 10, 128 << 10] {
            for others in [4096, 128 << 10] {
                let done = write_all_of_a_thick_volume(kind, (block_size, others), fill);
                failures.extend(done.err());
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_thick_volume_takes_all_its_blocks_in_a_pool_that_others_filled() {
    probe(&|world| {
        let thin = world.id("thin");
        let size = world.pool.contents[&thin].block_size.into();
        world.fill(thin, size);
    });
}

#[test]
fn a_thick_volume_takes_all_its_blocks_where_others_left_pieces() {
    probe(&|world| {
        let thin = world.id("thin");
        let size = u64::from(world.pool.contents[&thin].block_size);
        let end = world.fill(thin, size);
        for at in (0..end).step_by(2 * size as usize) {
            world.clear(thin, at, size);
        }
        (0..3).for_each(|_| world.checkpoint());
        let more = world.fill_from(thin, end, size);
        assert!(more > end);
    });
}

/// Several thick volumes lie on vdevs of two kinds, beside a thin one that takes every piece it
/// gets.
#[test]
fn thick_volumes_of_several_block_sizes_take_all_their_blocks_side_by_side() {
    let leaves = |from: u64, count: u64| (from..from + count).map(|of| LeafSpec::new(of, SMALL));
    let raidz = TopLevelSpec::new(
        TopLevelKind::Raidz { parity: 2 },
        Class::Normal,
        leaves(100, 4),
    );
    let mirror = TopLevelSpec::new(TopLevelKind::Mirror, Class::Normal, leaves(104, 2));
    let top_levels = vec![raidz, mirror];
    let mut world = World::of_tree(VdevTree { top_levels }, 6, SMALL, Limits::default());
    let size = 2 << 20;
    let sizes = [16 << 10, 64 << 10, 128 << 10];
    let thick = sizes.map(|of| {
        let name = format!("thick{of}");
        (world.create_of_blocks(&name, size, of, true), u64::from(of))
    });
    let thin = world.create_of_blocks("thin", 1 << 30, 4096, false);
    let end = world.fill(thin, BLOCK);
    let mut state = 5_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % below
    };
    for step in 0..900 {
        let (volume, block) = thick[random(3) as usize];
        let at = random(size / block) * block;
        let written = world.try_write(volume, at, &noise(block, step + 1));
        let runs = world.pool.space.runs();
        assert_eq!(written, Ok(()), "step {step}, blocks of {block}, {runs:?}");
        if random(3) == 0 {
            world.clear(thin, random(end / BLOCK) * BLOCK, BLOCK);
        }
        // The thin volume takes the space that it can get.
        let _ = world.try_write(thin, random(end / BLOCK) * BLOCK, &noise(BLOCK, step));
        if step % 300 == 299 {
            world.reopen().expect("opens");
        }
    }
    world.check();
}

#[test]
fn no_thick_volume_is_made_where_what_is_free_lies_in_pieces() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SMALL, Limits::default());
    let small = world.create("small", 1 << 30, false).expect("thin");
    let end = world.fill(small, BLOCK);
    for at in (0..end).step_by(2 * BLOCK as usize) {
        world.clear(small, at, BLOCK);
    }
    (0..3).for_each(|_| world.checkpoint());
    let request = CreateVolume {
        name: "large".to_owned(),
        size: 3 << 20,
        block_size: 64 << 10,
        is_thick: true,
        ..CreateVolume::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
    let error = world.administer(plan).expect_err("it could not be kept");
    assert_eq!(error.kind, PoolErrorKind::NoSpace);
    assert!(error.to_string().contains("in pieces"), "{error}");
    world
        .create("single", 3 << 20, true)
        .expect("its blocks fit");
}

/// Runs that are kept for large blocks do not keep other volumes from the runs between, of which
/// there are enough.
#[test]
fn others_fill_the_runs_that_are_too_short_for_what_is_kept() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 4 * SMALL, Limits::default());
    let block = 16 << 10;
    let thin = world.create_of_blocks("thin", 1 << 30, block, false);
    let step = u64::from(block);
    world.create_of_blocks("small", 1 << 20, block, true);
    world.create_of_blocks("large", 4 << 20, 128 << 10, true);
    let end = world.fill(thin, step);
    for at in (0..end).step_by(2 * step as usize) {
        world.clear(thin, at, step);
    }
    (0..3).for_each(|_| world.checkpoint());
    let more = world.fill_from(thin, end, step) - end;
    assert!(more > end / 3, "{more} of {end}");
}
