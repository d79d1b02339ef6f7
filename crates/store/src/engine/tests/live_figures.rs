//! Figures are of the present: a report before a checkpoint has the figures that the checkpoint
//! finds. A pool at rest soon has no space left that waits to be free.

use std::collections::BTreeMap;

use super::super::room::usage::Moment;
use super::super::{DatasetUsage, Limits, Plan, PoolError, PoolErrorKind};
use super::world::World;
use crate::catalog::ROOT;
use crate::catalog::request::{CloneSnapshot, CreateVolume, Destroy, Rollback};
use crate::engine::tests::room::full::noise;
use crate::format::DatasetId;
use crate::map::NodeCache;
use crate::vdev::TopLevelKind;

const BLOCK: u64 = 4096;
/// Size of blocks that take one or four sectors when compressed.
const LARGE: u64 = 16 << 10;
/// Time without work at rest, for tests that make their own checkpoints.
const HOUR_US: u64 = 3_600_000_000;

fn world() -> World {
    World::of_size(TopLevelKind::Leaf, 1, 64 << 20, Limits::default())
}

fn write(world: &mut World, volume: DatasetId, blocks: std::ops::Range<u64>, seed: u64) {
    for block in blocks {
        world.write(volume, block * BLOCK, &noise(BLOCK, seed + block), true);
    }
}

/// Returns the used, referenced and written space, in blocks.
fn told(world: &World, name: &str) -> (u64, u64, u64) {
    let of = world.pool.usage()[&world.id(name)];
    (of.used / BLOCK, of.referenced / BLOCK, of.written / BLOCK)
}

#[test]
fn what_was_just_written_is_told_before_any_checkpoint() {
    let mut world = world();
    let volume = world.create_volume("v", 1 << 20, BLOCK as u32);
    let checkpoints = world.pool.schedule.made();
    write(&mut world, volume, 0..10, 1);
    assert_eq!(told(&world, "v"), (10, 10, 10));
    write(&mut world, volume, 5..12, 2);
    assert_eq!(told(&world, "v"), (12, 12, 12));
    world.clear(volume, 0, 4 * BLOCK);
    assert_eq!(told(&world, "v"), (8, 8, 8));
    // Zeros take no blocks.
    world.write(volume, 4 * BLOCK, &vec![0; BLOCK as usize], true);
    assert_eq!(told(&world, "v"), (7, 7, 7));

    world.snapshot_of("v@one").expect("a snapshot");
    assert_eq!(told(&world, "v@one"), (0, 7, 7));
    assert_eq!(told(&world, "v"), (7, 7, 0));
    write(&mut world, volume, 10..14, 3);
    assert_eq!(told(&world, "v@one"), (2, 7, 7));
    assert_eq!(told(&world, "v"), (11, 9, 4));

    let request = CloneSnapshot {
        snapshot: "v@one".to_owned(),
        name: "copy".to_owned(),
        ..CloneSnapshot::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_clone(&request, stamp));
    world.administer(plan).expect("a clone");
    let copy = world.id("copy");
    write(&mut world, copy, 0..5, 4);
    assert_eq!(told(&world, "copy"), (5, 12, 5));
    let root = world.pool.usage()[&ROOT];
    assert_eq!((root.used / BLOCK, root.referenced), (11 + 5, 0));
    let space = world.pool.dataset_space(volume).expect("a volume");
    assert_eq!(space.referenced / BLOCK, 9);
    assert_eq!(world.pool.schedule.made(), checkpoints, "none was made");
}

#[test]
fn what_is_written_is_not_told_as_kept_for_the_volume_any_more() {
    let mut world = world();
    let thick = world.create_of_blocks("thick", 40 * BLOCK, BLOCK as u32, true);
    let parts = |world: &World| {
        let of = world.pool.usage()[&thick];
        let parts = [of.used, of.by_dataset, of.by_refreservation];
        parts.map(|bytes| bytes / BLOCK)
    };
    assert_eq!(parts(&world), [40, 0, 40]);
    write(&mut world, thick, 0..10, 1);
    assert_eq!(parts(&world), [40, 10, 30]);
}

/// Forgets the nodes in memory, as after an opening.
fn forget_nodes(world: &mut World) {
    world.pool.node_cache = NodeCache::new(world.limits.node_bytes);
}

/// Figures do not read the leaves of maps, so after an opening they are guesses. A guess is right
/// if the volume is full or empty. A checkpoint makes the figures exact.
#[test]
fn figures_of_replaced_blocks_that_nobody_has_looked_at_are_a_fair_guess() {
    for (filled, replaced, expected) in [(256, 256, 256), (0, 128, 128), (128, 128, 192)] {
        let mut world = world();
        let volume = world.create_volume("v", 256 * BLOCK, BLOCK as u32);
        write(&mut world, volume, 0..filled, 1);
        world.checkpoint();
        forget_nodes(&mut world);
        write(&mut world, volume, 0..replaced, 2);
        assert_eq!(told(&world, "v").1, expected, "{filled}");
        world.advance();
        assert_eq!(told(&world, "v").1, filled.max(replaced));
        // Now the leaf is in memory.
        write(&mut world, volume, 0..replaced, 3);
        assert_eq!(told(&world, "v").1, filled.max(replaced));
    }
}

#[test]
fn a_volume_that_is_unmapped_as_a_whole_is_empty_whatever_is_known_of_its_map() {
    let mut world = world();
    let size = 1 << 40;
    let volume = world.create_volume("v", size, BLOCK as u32);
    for at in [0, 1 << 30, 77 << 30] {
        world.write(volume, at, &noise(8 * BLOCK, at + 1), true);
    }
    world.checkpoint();
    forget_nodes(&mut world);
    assert_eq!(told(&world, "v").1, 24);
    world.clear(volume, 0, size);
    assert_eq!(told(&world, "v").1, 0);
}

/// Compares figures before and after a checkpoint. Only checkpoints report sectors of nodes. Here a
/// map has one node, and each layer replaces it once.
fn compare(before: &DatasetUsage, after: &DatasetUsage, nodes: u64, what: &str) {
    assert_eq!(before.used_blocks, after.used_blocks, "{what}");
    assert_eq!(before.referenced_blocks, after.referenced_blocks, "{what}");
    assert_eq!(before.referenced, after.referenced, "{what}");
    let kept = (before.by_refreservation, after.by_refreservation);
    assert_eq!(kept.0, kept.1, "{what}");
    for (before, after) in [
        (before.used, after.used),
        // The snapshots of a clone keep blocks that are not shared.
        (before.by_dataset, after.by_dataset),
        (before.written, after.written),
        (before.by_snapshots, after.by_snapshots),
        (before.by_children, after.by_children),
    ] {
        let range = before..=before + nodes * BLOCK;
        assert!(range.contains(&after), "{what}: {before}, then {after}");
    }
}

fn usage(world: &World) -> BTreeMap<String, DatasetUsage> {
    let (catalog, usage) = (world.pool.catalog(), world.pool.usage());
    let all = usage.into_iter();
    // These are the datasets as the world finds them, by their names.
    let named = all.map(|(id, of)| {
        let name = catalog.full_name(id);
        let own = name.strip_prefix("tank/").unwrap_or("");
        (own.to_owned(), of)
    });
    named.collect()
}

/// Reports whether no replaced block is a guess.
pub(super) fn is_exact(world: &World) -> bool {
    let mut maps = world.pool.contents.values().map(|of| &of.map);
    maps.all(|map| {
        let nodes = &world.pool.node_cache;
        let mut closed = map.closed(nodes);
        map.tally(nodes).is_exact() && closed.all(|(_, tally)| tally.is_exact())
    })
}

/// Does a step of a random history; `seed` makes unique bytes.
fn step(world: &mut World, random: &mut dyn FnMut(u64) -> u64, seed: u64) {
    let names: Vec<String> = usage(world).into_keys().collect();
    let (snapshots, volumes): (Vec<String>, Vec<String>) = (names.into_iter())
        .filter(|name| !name.is_empty())
        .partition(|name| name.contains('@'));
    let volume = volumes[random(volumes.len() as u64) as usize].clone();
    let id = world.id(&volume);
    let mut any = |of: &[String]| of[random(of.len() as u64) as usize].clone();
    let snapshot = (!snapshots.is_empty()).then(|| any(&snapshots));
    match (random(16), snapshot) {
        (0..=7, _) => {
            let len = 1 + random(3);
            let bytes = match random(3) {
                0 => vec![seed as u8 | 1; (len * LARGE) as usize],
                1 => noise(len * LARGE, seed),
                // This writes a part of a block.
                _ => noise(BLOCK, seed),
            };
            world.write(id, random(38) * LARGE, &bytes, random(2) == 0);
        }
        (8 | 9, _) => world.clear(id, random(30) * LARGE, (1 + random(9)) * LARGE),
        (10 | 11, _) => {
            let _ = world.snapshot_of(&format!("{volume}@s{seed}"));
        }
        (12, Some(snapshot)) if volumes.len() < 4 => {
            let request = CloneSnapshot {
                snapshot,
                name: format!("copy{seed}"),
                ..CloneSnapshot::default()
            };
            let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_clone(&request, stamp));
            world.administer(plan).expect("a clone");
        }
        (13, Some(snapshot)) => {
            let names = vec![snapshot];
            let request = Destroy {
                names,
                ..Destroy::default()
            };
            // A snapshot that has clones stays.
            let plan: Plan = Box::new(move |catalog, _| catalog.plan_destroy(&request));
            let _ = world.administer(plan);
        }
        (14, Some(snapshot)) => {
            let request = Rollback {
                snapshot,
                ..Rollback::default()
            };
            // A snapshot that is not the newest is refused.
            let plan: Plan = Box::new(move |catalog, _| catalog.plan_rollback(&request));
            let _ = world.administer(plan);
        }
        _ => world.begin_checkpoint(random(12) as usize),
    }
    world.settle();
}

/// Random histories have checkpoints at any moment, some of them unfinished. The figures are always
/// those that the next checkpoint finds.
#[test]
fn live_figures_are_those_that_the_next_checkpoint_finds() {
    let mut compared = 0;
    for seed in 1..=40_u64 {
        let mut world = world();
        world.create_volume("thin", 48 * LARGE, LARGE as u32);
        world.create_of_blocks("thick", 48 * LARGE, LARGE as u32, true);
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        for number in 0..60_u64 {
            step(&mut world, &mut random, seed * 1000 + number);
            if random(40) == 0 {
                world.reopen().expect("opens");
            }
            if random(4) > 0 {
                continue;
            }
            let (before, is_exact) = (usage(&world), is_exact(&world));
            world.advance();
            if !is_exact {
                continue;
            }
            let after = usage(&world);
            // Each dataset has at most one layer since the previous checkpoint, and each layer
            // replaces a node.
            let nodes = after.len() as u64;
            for (name, before) in &before {
                let what = format!("seed {seed}, step {number}: {name}");
                compare(before, &after[name], nodes, &what);
                compared += 1;
            }
        }
        world.check();
    }
    assert!(compared > 1000, "{compared}");
}

/// Promises of admission rest on checkpoints alone.
#[test]
fn guesses_promise_no_space() {
    let mut world = world();
    let thick = world.create_of_blocks("thick", 40 * BLOCK, BLOCK as u32, true);
    world.checkpoint();
    let reserved = world.pool.promises.reserved();
    write(&mut world, thick, 0..10, 1);
    let of = &world.pool.contents[&thick];
    let own = world.pool.own(thick, of, Moment::Checkpoint);
    assert_eq!(own.referenced.sectors, 0);
    world.pool.count_reserved();
    assert_eq!(world.pool.promises.reserved(), reserved);
}

/// Soon after the last change no space waits to be free, and then the pool is silent.
#[test]
fn freed_space_is_free_soon_after_the_last_change_and_then_nothing_is_written() {
    for kind in [TopLevelKind::Leaf, TopLevelKind::Raidz { parity: 1 }] {
        let disks = if kind == TopLevelKind::Leaf { 1 } else { 3 };
        // Destroying takes many checkpoints.
        let limits = Limits {
            freed_blocks: 10,
            ..Limits::default()
        };
        let mut world = World::of_size(kind, disks, 64 << 20, limits);
        let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
        write(&mut world, volume, 0..200, 1);
        world.checkpoint();
        write(&mut world, volume, 0..200, 2);
        world.create_volume("gone", 8 << 20, BLOCK as u32);
        let gone = world.id("gone");
        write(&mut world, gone, 0..100, 3);
        world.destroy("gone");
        world.settle();
        assert!(world.pool.status().counts.deferred > 0, "{kind:?}");
        let rest_us = world.limits.rest_us;
        let until = world.now_us + rest_us + 1_000_000;
        world.pass_until(until);
        let counts = world.pool.status().counts;
        assert_eq!(counts.deferred, 0, "{kind:?}");
        assert_eq!(counts.size, counts.available + counts.allocated);
        let checkpoints = world.pool.schedule.made();
        let until = world.now_us + HOUR_US;
        world.pass_until(until);
        assert_eq!(world.pool.schedule.made(), checkpoints, "{kind:?}");
        world.check();
        // An opened pool does not report the tables of its last checkpoint for long, either.
        world.reopen().expect("opens");
        let until = world.now_us + rest_us + 1_000_000;
        world.pass_until(until);
        assert_eq!(world.pool.status().counts.deferred, 0, "{kind:?}");
        let checkpoints = world.pool.schedule.made();
        let until = world.now_us + HOUR_US;
        world.pass_until(until);
        assert_eq!(world.pool.schedule.made(), checkpoints, "{kind:?}");
    }
}

/// A pool that is written all the time has checkpoints as before, since rest begins after the last
/// change.
#[test]
fn a_pool_that_is_written_has_no_checkpoints_for_its_rest() {
    let mut world = world();
    let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
    let checkpoints = world.pool.schedule.made();
    for round in 0..20 {
        write(&mut world, volume, round..round + 1, round);
        let until = world.now_us + world.limits.rest_us / 2;
        world.pass_until(until);
    }
    assert_eq!(world.pool.schedule.made(), checkpoints);
}

/// Each write of such a guest is followed by a rest. Several checkpoints for each would be more
/// work than the writes.
#[test]
fn a_pool_that_is_written_now_and_then_rests_once_in_a_while() {
    let mut world = world();
    let volume = world.create_volume("v", 8 << 20, BLOCK as u32);
    write(&mut world, volume, 0..100, 1);
    let until = world.now_us + HOUR_US;
    world.pass_until(until);
    let (checkpoints, begin_us) = (world.pool.schedule.made(), world.now_us);
    let minutes = 10;
    while world.now_us < begin_us + minutes * world.limits.checkpoint_us {
        let seed = world.now_us;
        write(&mut world, volume, 0..1, seed);
        let until = world.now_us + 2 * world.limits.rest_us;
        world.pass_until(until);
    }
    let made = world.pool.schedule.made() - checkpoints;
    assert!(made <= 5 * minutes, "{made} checkpoints");
}

fn create(world: &mut World, name: &str, size: u64, block_size: u32) -> Result<(), PoolError> {
    let request = CreateVolume {
        name: name.to_owned(),
        size,
        block_size,
        is_thick: true,
        ..CreateVolume::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
    world.administer(plan)
}

/// A volume of the size reported for a folder can be created there, and hardly a larger one.
/// Parity, copies, the slop, reservations and maps are deducted.
#[test]
fn a_volume_as_large_as_a_folder_has_available_can_be_created_and_no_larger_one() {
    let shapes = [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
        (TopLevelKind::Raidz { parity: 2 }, 6),
    ];
    for (kind, disks) in shapes {
        let mut world = World::of_size(kind, disks, 256 << 20, Limits::default());
        let block_size = world.pool.default_block_size();
        let thin = world.create_volume("thin", 1 << 30, block_size);
        let thick = world.create_of_blocks("thick", 16 << 20, block_size, true);
        for volume in [thin, thick] {
            world.write(volume, 0, &noise(4 << 20, 1), true);
        }
        let until = world.now_us + world.limits.rest_us + 1_000_000;
        world.pass_until(until);
        let available = world.pool.usage()[&ROOT].available.expect("of a folder");
        assert!(available > 100 << 20, "{kind:?}: {available}");
        let more = (available / 20).next_multiple_of(block_size.into());
        let refused = create(&mut world, "large", available + more, block_size);
        assert_eq!(refused.expect_err("too large").kind, PoolErrorKind::NoSpace);
        create(&mut world, "exact", available, block_size).expect("it is available");
        let left = world.pool.usage()[&ROOT].available.expect("of a folder");
        assert!(left < available / 40, "{kind:?}: {left}");
    }
}
