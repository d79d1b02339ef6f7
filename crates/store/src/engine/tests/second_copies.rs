//! Metadata lies twice on a vdev without redundancy: a bad sector loses only its own data.

use std::collections::BTreeSet;

use super::super::check::FindingKind;
use super::super::features::Feature;
use super::super::{Event, Features, Limits, Plan, PoolErrorKind, Request, Span};
use super::world::World;
use crate::catalog::Property;
use crate::catalog::request::{
    CreateFolder, CreateVolume, Destroy, Inherit, Rename, SetProperties, TakeSnapshots,
};
use crate::engine::tests::room::full::noise;
use crate::format::{Address, DatasetId, Pointer, SECTOR_SIZE};
use crate::map::walk::{Progress, Visit, Walk};
use crate::snapshot::deadlist::Deadlist;
use crate::space::{Purpose, Stream};
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree, layout};

const BLOCK: u64 = 4096;

/// Makes a pool of two disks without redundancy.
fn two(size: u64) -> World {
    let leaves = [100, 101].map(|guid| LeafSpec::new(guid, size));
    let tops = leaves.map(|leaf| TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf]));
    let tree = VdevTree {
        top_levels: tops.into(),
    };
    World::of_tree(tree, 2, size, Limits::default())
}

/// Returns the disk that has a block's sector, and the sector on that disk, on vdevs of one leaf
/// each.
fn on_disk(place: Address, sector: u64) -> (usize, u64) {
    let offset = layout::sector_offset(place.sector() + sector);
    (usize::from(place.vdev()), offset / SECTOR_SIZE as u64)
}

fn rot(world: &mut World, place: Address, sector: u64) {
    let (disk, sector) = on_disk(place, sector);
    world.disks[disk].insert(sector, vec![0xee; SECTOR_SIZE]);
}

/// Returns the nodes of a dataset's tree.
fn nodes(world: &mut World, dataset: DatasetId) -> Vec<Pointer> {
    let tree = world.pool.contents[&dataset].map.tree;
    let mut found = Vec::new();
    let mut walk = Walk::new(&tree, 0, None);
    loop {
        let mut budget = usize::MAX;
        let progress = walk.step(&mut world.pool.node_cache, &mut budget, |visit| {
            if let Visit::Node { pointer, .. } = visit {
                found.push(pointer);
            }
        });
        match progress {
            Ok(Progress::Done) => return found,
            Ok(Progress::More) => {}
            Err(missing) => {
                let (disk, first) = on_disk(missing.pointer.address, 0);
                let len = usize::from(missing.pointer.sectors) * SECTOR_SIZE;
                let offset = first * SECTOR_SIZE as u64;
                let block = super::world::read(&world.disks[disk], offset, len);
                let nodes = &mut world.pool.node_cache;
                nodes.fill(&missing, &block).expect("a node");
            }
        }
    }
}

/// Returns all metadata of the last checkpoint.
fn metadata(world: &mut World) -> Vec<Pointer> {
    let persisted = &world.pool.persisted;
    let tables = persisted.pages.iter().chain(&persisted.index).flatten();
    let lists = persisted.manifest.iter().chain(&persisted.deferred);
    let mut all: Vec<Pointer> = tables.chain(lists).copied().collect();
    let datasets: Vec<DatasetId> = world.pool.contents.keys().copied().collect();
    for dataset in datasets {
        all.extend(nodes(world, dataset));
        let dead = world.pool.contents[&dataset].dead.encode();
        let first = Deadlist::decode(&dead).expect("a list");
        let mut chunks = first;
        // The first chunk of each part is asked for.
        let _ = chunks.take_next(|pointer| {
            all.push(*pointer);
            None
        });
    }
    all.retain(|pointer| !pointer.is_hole());
    let mut seen = BTreeSet::new();
    all.retain(|pointer| seen.insert(pointer.address));
    all
}

/// Makes a volume whose blocks are each filled with their number.
fn filled(world: &mut World, size: u64) -> DatasetId {
    let volume = world.create_volume("v", size, BLOCK as u32);
    for at in (0..size).step_by(1 << 20) {
        world.write(volume, at, &numbers(at, 1 << 20), false);
    }
    world.checkpoint();
    volume
}

/// Returns the expected bytes of blocks that are each filled with their number.
fn numbers(at: u64, len: u64) -> Vec<u8> {
    let blocks = (at / BLOCK..).take((len / BLOCK) as usize);
    let words = |block: u64| [(block + 1).to_le_bytes(); BLOCK as usize / 8];
    blocks.flat_map(words).flatten().collect()
}

fn reads_whole(world: &mut World, volume: DatasetId, size: u64) {
    for at in (0..size).step_by(1 << 20) {
        assert!(
            world.read(volume, at, 1 << 20) == numbers(at, 1 << 20),
            "{at}"
        );
    }
}

#[test]
fn the_top_map_node_of_a_single_disk_pool_rots_and_every_block_still_reads_and_is_healed_and_counted()
 {
    const SIZE: u64 = 64 << 20;
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 128 << 20, Limits::default());
    let volume = filled(&mut world, SIZE);
    let root = world.pool.contents[&volume].map.tree.root;
    assert!(root.is_double(), "{root:?}");
    let (disk, sector) = on_disk(root.address, 0);
    let good = world.disks[disk][&sector].clone();
    rot(&mut world, root.address, 0);
    world.reopen_unchecked().expect("opens");
    reads_whole(&mut world, volume, SIZE);
    world.settle();
    assert_eq!(world.disks[disk][&sector], good, "it is healed");
    let status = world.pool.status();
    let leaf = &status.top_levels[0].slots[0].leaves[0];
    assert_eq!(leaf.errors.checksum, 1, "it is counted");
    assert_eq!(status.top_levels[0].unreadable, 0);
    world.check();
}

/// Makes a pool with all kinds of metadata on disks: nodes, lists, snapshots, and structures being
/// freed.
fn rich(world: &mut World) -> DatasetId {
    const SIZE: u64 = 8 << 20;
    let volume = filled(world, SIZE);
    let gone = world.create_volume("gone", SIZE, BLOCK as u32);
    world.write(gone, 0, &noise(2 << 20, 3), false);
    let taken = TakeSnapshots {
        names: vec!["v@one".to_owned(), "gone@one".to_owned()],
        ..TakeSnapshots::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&taken, stamp));
    world.administer(plan).expect("snapshots");
    for at in (0..SIZE).step_by(4 * BLOCK as usize) {
        world.write(volume, at, &numbers(at, BLOCK), false);
    }
    world.checkpoint();
    let destroyed = Destroy {
        names: vec!["gone".to_owned()],
        is_recursive: true,
        ..Destroy::default()
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_destroy(&destroyed));
    world.administer(plan).expect("destroyed");
    world.checkpoint();
    volume
}

#[test]
fn any_sector_of_metadata_on_disks_without_redundancy_may_rot() {
    for mut world in [
        World::new(TopLevelKind::Leaf, 1, Limits::default()),
        two(64 << 20),
    ] {
        let volume = rich(&mut world);
        let all = metadata(&mut world);
        let sound = world.disks.clone();
        for pointer in &all {
            assert!(pointer.is_double(), "{pointer:?}");
            for place in pointer.places() {
                for sector in BTreeSet::from([0, u64::from(pointer.sectors) - 1]) {
                    world.disks.clone_from(&sound);
                    rot(&mut world, place, sector);
                    world.reopen_unchecked().expect("opens");
                    let report = world.report();
                    let kinds = report.findings.iter().map(|of| of.kind);
                    let kinds: Vec<FindingKind> = kinds.collect();
                    let is_read = kinds == [FindingKind::BadCopy];
                    // An opening heals the blocks that it reads.
                    assert!(is_read || kinds.is_empty(), "{kinds:?} {place} {sector}");
                    reads_whole(&mut world, volume, 1 << 20);
                }
            }
        }
        assert!(all.len() > 10, "{}", all.len());
    }
}

#[test]
fn a_scrub_repairs_either_copy_of_every_block_of_metadata() {
    for number in [0, 1] {
        let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
        rich(&mut world);
        let all = metadata(&mut world);
        for pointer in &all {
            let place = pointer.places().nth(number).expect("it lies twice");
            rot(&mut world, place, 0);
        }
        let now = world.now_us;
        world.pool.scrub(now);
        world.settle();
        let status = world.pool.scan_status().expect("a scrub");
        assert_eq!(status.unrecoverable, 0);
        assert!(status.repaired > 0 && status.bad == status.repaired);
        world.check();
        world.reopen().expect("opens");
    }
}

#[test]
fn copies_lie_a_quarter_of_a_disk_apart_or_on_another() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    rich(&mut world);
    let sectors = world.pool.space.size(0);
    for pointer in metadata(&mut world) {
        let second = pointer.second().expect("it lies twice");
        let apart = pointer.address.sector().abs_diff(second.sector());
        assert!(apart >= sectors / 4, "{pointer:?}");
    }
    let mut world = two(64 << 20);
    rich(&mut world);
    for pointer in metadata(&mut world) {
        let second = pointer.second().expect("it lies twice");
        assert_ne!(pointer.address.vdev(), second.vdev(), "{pointer:?}");
    }
}

#[test]
fn vdevs_with_redundancy_hold_metadata_once() {
    for (kind, disks) in [
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
        (TopLevelKind::Raidz { parity: 2 }, 5),
    ] {
        let mut world = World::new(kind, disks, Limits::default());
        let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
        world.write(volume, 0, &noise(1 << 20, 3), false);
        world.checkpoint();
        let persisted = &world.pool.persisted;
        let tables = persisted.pages.iter().chain(&persisted.index).flatten();
        let lists = persisted.manifest.iter().chain(&persisted.deferred);
        assert!(tables.chain(lists).all(|of| !of.is_double()));
        assert!(!world.pool.contents[&volume].map.tree.root.is_double());
        assert_eq!(world.report().twice, 0);
    }
}

#[test]
fn a_full_pool_writes_one_copy_where_there_is_no_room_for_two_and_says_so() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 24 << 20, Limits::default());
    let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
    world.checkpoint();
    world.write(volume, 0, &noise(1 << 20, 3), true);
    // The volume takes so much that second copies would need space kept for first copies.
    let mut taken = Vec::new();
    while world.pool.space.counts().available > world.pool.slop() * 3 / 4 {
        let space = &mut world.pool.space;
        let extent = space.allocate(Stream::Data, 0, 16, Purpose::Checkpoint);
        taken.push(extent.expect("it is free"));
    }
    world.advance();
    assert_eq!(world.pool.condition.suspended(), None);
    let once = world.pool.status().written_once;
    // The event comes once, for the first checkpoint that had no room.
    let told = world.events.iter().filter_map(|event| match event {
        Event::WrittenOnce { blocks } => Some(*blocks),
        _ => None,
    });
    assert!((1..=once).contains(&told.sum()), "{once}");
    assert!(!world.pool.contents[&volume].map.tree.root.is_double());
    assert!(world.report().once > 0);
    for extent in taken {
        world.pool.space.give_back(extent);
    }
    world.write(volume, 0, &noise(BLOCK, 5), true);
    world.checkpoint();
    assert!(world.pool.contents[&volume].map.tree.root.is_double());
    assert_eq!(world.pool.status().written_once, once);
}

#[test]
fn an_operation_that_lies_in_a_block_of_its_own_may_rot_before_a_checkpoint_has_it() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    world.create_volume("v", 1 << 20, BLOCK as u32);
    world.checkpoint();
    let note = "long ".repeat(1000);
    let request = SetProperties {
        name: "v".to_owned(),
        properties: [("my:note".to_owned(), note.clone())].into(),
        is_received: false,
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
    let before: BTreeSet<_> = world.pool.records.iter().map(|(_, of)| *of).collect();
    world.administer(plan).expect("set");
    let new = world.pool.records.iter().map(|(_, extent)| *extent);
    let stored: Vec<_> = new
        .filter(|extent| extent.sectors > 1 && !before.contains(extent))
        .collect();
    assert_eq!(stored.len(), 2, "one operation in two places: {stored:?}");
    let sound = world.disks.clone();
    for extent in stored {
        world.disks.clone_from(&sound);
        rot(&mut world, extent.address(), 1);
        world.reopen_unchecked().expect("opens");
        let property = Property::User("my:note".to_owned());
        let found = world.pool.catalog().property(world.id("v"), &property);
        let found = found.map(|of| of.value.to_string());
        assert_eq!(found.as_deref(), Some(note.as_str()));
        world.check();
    }
}

fn set_copies(world: &mut World, name: &str, copies: u8) -> Result<(), PoolErrorKind> {
    let request = SetProperties {
        name: name.to_owned(),
        properties: [("copies".to_owned(), copies.to_string())].into(),
        is_received: false,
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
    world.administer(plan).map_err(|error| error.kind)
}

/// Returns the pointers of a volume's blocks.
fn blocks(world: &mut World, volume: DatasetId, count: u64) -> Vec<Pointer> {
    let pool = &mut world.pool;
    let map = &pool.contents[&volume].map;
    (0..count)
        .map(|block| map.look_up(&mut pool.node_cache, block).expect("in memory"))
        .collect()
}

#[test]
fn blocks_lie_twice_from_the_moment_at_which_copies_is_two() {
    for (kind, disks) in [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ] {
        let mut world = World::new(kind, disks, Limits::default());
        let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
        world.write(volume, 0, &noise(8 * BLOCK, 1), true);
        let before = world.pool.usage()[&volume].referenced;
        set_copies(&mut world, "v", 2).expect("set");
        assert!(world.pool.config().features.is_active(Feature::TwoCopies));
        world.write(volume, 4 * BLOCK, &noise(8 * BLOCK, 2), true);
        let doubles = |world: &mut World| -> Vec<bool> {
            let blocks = blocks(world, volume, 12);
            blocks.iter().map(Pointer::is_double).collect()
        };
        let expected: Vec<bool> = (0..12).map(|block| block >= 4).collect();
        assert_eq!(doubles(&mut world), expected, "{kind:?}");
        world.crash().expect("opens");
        assert_eq!(doubles(&mut world), expected, "the log has them");
        world.checkpoint();
        let usage = world.pool.usage()[&volume];
        assert_eq!(before, 8 * BLOCK, "at once");
        assert_eq!(usage.referenced, (4 + 2 * 8) * BLOCK);
        set_copies(&mut world, "v", 1).expect("set");
        world.write(volume, 4 * BLOCK, &noise(BLOCK, 3), true);
        world.reopen().expect("opens");
        assert!(!blocks_read(&mut world, volume, 4).is_double());
        world.clear(volume, 0, 8 << 20);
        for _ in 0..3 {
            world.checkpoint();
        }
        assert_eq!(world.pool.usage()[&volume].referenced, 0);
    }
}

fn blocks_read(world: &mut World, volume: DatasetId, block: u64) -> Pointer {
    world.read(volume, block * BLOCK, BLOCK as u32);
    blocks(world, volume, block + 1)[block as usize]
}

#[test]
fn a_block_that_lies_twice_outlives_the_loss_of_either_copy() {
    for which in [0, 1] {
        for mut world in [
            World::new(TopLevelKind::Leaf, 1, Limits::default()),
            two(64 << 20),
        ] {
            let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
            set_copies(&mut world, "v", 2).expect("set");
            world.write(volume, 0, &numbers(0, 1 << 20), true);
            world.checkpoint();
            for pointer in blocks(&mut world, volume, 256) {
                let place = pointer.places().nth(which).expect("it lies twice");
                rot(&mut world, place, 0);
            }
            world.reopen_unchecked().expect("opens");
            assert!(world.read(volume, 0, 1 << 20) == numbers(0, 1 << 20));
            let now = world.now_us;
            world.pool.scrub(now);
            world.settle();
            world.check();
        }
    }
}

/// A group counts if one copy of each of its blocks is there: the power may have failed while the
/// others were written.
#[test]
fn a_group_counts_at_replay_where_one_copy_of_each_block_is_whole() {
    for which in [0, 1] {
        let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
        let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
        set_copies(&mut world, "v", 2).expect("set");
        world.checkpoint();
        world.write(volume, 0, &numbers(0, 16 * BLOCK), true);
        for pointer in blocks(&mut world, volume, 16) {
            let place = pointer.places().nth(which).expect("it lies twice");
            rot(&mut world, place, 0);
        }
        world.crash().expect("opens");
        assert!(world.read(volume, 0, 16 * BLOCK as u32) == numbers(0, 16 * BLOCK));
        world.settle();
        world.check();
    }
}

#[test]
fn a_thick_volume_with_two_copies_reserves_both_and_can_be_written_over_in_a_full_pool() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 64 << 20, Limits::default());
    let size = 16 << 20;
    let volume = world.create_of_blocks("thick", size, BLOCK as u32, true);
    let once = world.pool.status().available;
    set_copies(&mut world, "thick", 2).expect("there is room");
    let twice = world.pool.status().available;
    assert!(once - twice >= size / BLOCK, "{once} {twice}");
    let usage = world.pool.usage()[&volume];
    assert_eq!(usage.by_refreservation, 2 * size);
    let other = world.create_volume("thin", 64 << 20, BLOCK as u32);
    world.fill(other, 64 << 10);
    for round in 0..3_u64 {
        for at in (0..size).step_by(64 << 10) {
            let written = world.try_write(volume, at, &noise(64 << 10, at + round));
            assert_eq!(written, Ok(()), "{round} {at}");
        }
    }
    world.checkpoint();
    assert_eq!(world.pool.usage()[&volume].referenced, 2 * size);
    assert_eq!(world.pool.usage()[&volume].by_refreservation, 0);
}

#[test]
fn a_promise_of_second_copies_that_does_not_fit_is_refused() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 64 << 20, Limits::default());
    world.create_of_blocks("thick", 40 << 20, BLOCK as u32, true);
    assert_eq!(
        set_copies(&mut world, "thick", 2),
        Err(PoolErrorKind::NoSpace)
    );
}

/// A thick volume may get two copies by itself, by its folder, by inheritance, and by a move.
#[test]
fn second_copies_that_do_not_fit_are_refused_whichever_way_they_come() {
    for way in 0..4 {
        let mut world = World::of_size(TopLevelKind::Leaf, 1, 64 << 20, Limits::default());
        for name in ["one", "two"] {
            let folder = CreateFolder {
                name: name.to_owned(),
                ..CreateFolder::default()
            };
            let plan: Plan =
                Box::new(move |catalog, stamp| catalog.plan_create_folder(&folder, stamp));
            world.administer(plan).expect("a folder");
        }
        set_copies(&mut world, "two", 2).expect("nothing is reserved");
        let name = if way == 2 { "two/thick" } else { "one/thick" };
        let volume = CreateVolume {
            name: name.to_owned(),
            size: 40 << 20,
            block_size: BLOCK as u32,
            is_thick: true,
            properties: [("copies".to_owned(), "1".to_owned())].into(),
            ..CreateVolume::default()
        };
        let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_volume(&volume, stamp));
        world.administer(plan).expect("there is room for one copy");
        let inherit = |world: &mut World| {
            let inherit = Inherit {
                name: name.to_owned(),
                property: "copies".to_owned(),
                ..Inherit::default()
            };
            let plan: Plan = Box::new(move |catalog, _| catalog.plan_inherit(&inherit));
            world.administer(plan).map_err(|error| error.kind)
        };
        if way != 2 {
            inherit(&mut world).expect("one copy, as before");
        }
        let refused = match way {
            0 => set_copies(&mut world, name, 2),
            1 => set_copies(&mut world, "one", 2),
            2 => inherit(&mut world),
            _ => {
                let rename = Rename {
                    from: name.to_owned(),
                    to: "two/thick".to_owned(),
                    ..Rename::default()
                };
                let plan: Plan =
                    Box::new(move |catalog, stamp| catalog.plan_rename(&rename, stamp));
                world.administer(plan).map_err(|error| error.kind)
            }
        };
        assert_eq!(refused, Err(PoolErrorKind::NoSpace), "way {way}");
        let volume = world.id(name);
        assert_eq!(world.pool.contents[&volume].settings.copies, 1);
    }
}

/// A pool of an older program has no second copies before the feature is enabled.
#[test]
fn a_pool_without_the_feature_has_no_second_copies_and_refuses_copies() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    world.pool.config.features = Features::default();
    world.pool.use_second_copies();
    let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
    for _ in 0..3 {
        world.write(volume, 0, &noise(8 * BLOCK, 1), true);
        world.checkpoint();
    }
    assert!(nodes(&mut world, volume).iter().all(|of| !of.is_double()));
    assert!(
        world
            .pool
            .persisted
            .manifest
            .iter()
            .all(|of| !of.is_double())
    );
    assert_eq!(set_copies(&mut world, "v", 2), Err(PoolErrorKind::Refused));
    // The feature is enabled. It is used from the next checkpoint on that finds it in the labels.
    world.pool.config.features.enable_all();
    for _ in 0..2 {
        world.write(volume, 0, &noise(8 * BLOCK, 1), true);
        world.checkpoint();
    }
    assert!(world.pool.persisted.manifest.iter().all(Pointer::is_double));
    set_copies(&mut world, "v", 2).expect("set");
}

/// The top node has lost both copies: all blocks below it are lost, and the report says so.
#[test]
fn a_lost_node_is_told_as_all_the_blocks_below_it() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = filled(&mut world, 4 << 20);
    let root = world.pool.contents[&volume].map.tree.root;
    for place in root.places() {
        rot(&mut world, place, 0);
    }
    world.reopen_unchecked().expect("opens");
    let read = Request::Read {
        dataset: volume,
        offset: 8192,
        len: 4096,
    };
    let error = world.ask(read).expect_err("it is lost");
    assert_eq!(error.kind, PoolErrorKind::Damaged);
    assert_eq!(error.lost, Some(0..512 * 512));
    let whole = Span {
        dataset: volume,
        offset: 0,
        len: 4 << 20,
    };
    assert_eq!(world.unrecoverable, [whole]);
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    let scan = world.pool.scan_status().expect("a scrub");
    assert_eq!(scan.unrecoverable, (4 << 20) / BLOCK);
    assert_eq!(world.unrecoverable, [whole, whole]);
}
