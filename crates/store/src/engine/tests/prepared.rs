//! Blocks prepared by the caller are exactly what the engine would have made of them.

use pages::Pages;

use super::super::{Limits, Plan, Recipe, Request};
use super::world::World;
use crate::catalog::Settings;
use crate::catalog::request::SetProperties;
use crate::engine::io::wanted::cache_key;
use crate::format::DatasetId;
use crate::vdev::TopLevelKind;

const SIZE: usize = 16 << 10;

/// Makes a block that compresses, one that does not, and one of zeros.
fn blocks() -> Vec<u8> {
    let text = (0..SIZE).map(|at| (at / 100) as u8 | 1);
    let mut state = 1_u64;
    let noise = (0..SIZE).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    });
    text.chain(noise).chain([0; SIZE]).collect()
}

fn set(world: &mut World, property: &str, value: &str) {
    let request = SetProperties {
        name: "a".to_owned(),
        properties: [(property.to_owned(), value.to_owned())].into(),
        is_received: false,
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
    world.administer(plan).expect("a property");
}

fn write_prepared(world: &mut World, dataset: DatasetId, recipe: Recipe, offset: u64) {
    let data = Pages::from_bytes(&blocks());
    let prepared = recipe.prepare(0, &data).expect("whole blocks");
    let request = Request::WritePrepared {
        dataset,
        offset,
        prepared,
        durable: true,
    };
    world.ask(request).expect("a write");
}

/// Returns the bytes on the devices that a dataset refers to.
fn referenced(world: &World, dataset: DatasetId) -> u64 {
    let space = world.pool.dataset_space(dataset).expect("it is there");
    space.referenced
}

#[test]
fn what_was_made_ready_is_what_the_engine_makes() {
    for (property, value) in [
        ("compression", "lz4"),
        ("compression", "off"),
        ("checksum", "blake3"),
        ("checksum", "off"),
    ] {
        let mut taken = Vec::new();
        for is_prepared in [false, true] {
            let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
            let volume = world.create_volume("a", 8 << 20, SIZE as u32);
            set(&mut world, property, value);
            if is_prepared {
                let settings = world.pool.catalog().settings(volume);
                let recipe = Recipe::of(&settings, SIZE as u32).expect("it is quick");
                write_prepared(&mut world, volume, recipe, 0);
            } else {
                world.write(volume, 0, &blocks(), true);
            }
            // Replay and reads verify the checksums.
            world.crash().expect("opens");
            assert_eq!(world.read(volume, 0, 3 * SIZE as u32), blocks());
            world.checkpoint();
            world.check();
            taken.push(referenced(&world, volume));
        }
        assert_eq!(taken[0], taken[1], "{property}={value}");
    }
}

#[test]
fn what_was_made_ready_otherwise_is_made_again() {
    let by_default = Recipe::of(&Settings::default(), SIZE as u32).expect("it is quick");
    for (property, value) in [
        ("compression", "off"),
        ("compression", "zstd"),
        ("checksum", "blake3"),
    ] {
        let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
        let volume = world.create_volume("a", 8 << 20, SIZE as u32);
        set(&mut world, property, value);
        write_prepared(&mut world, volume, by_default, 0);
        // Blocks that do not begin at a block's start are not written as prepared, either.
        write_prepared(&mut world, volume, by_default, 64 * SIZE as u64 + 4096);
        world.crash().expect("opens");
        assert_eq!(world.read(volume, 0, 3 * SIZE as u32), blocks());
        let at = 64 * SIZE as u64 + 4096;
        assert_eq!(world.read(volume, at, 3 * SIZE as u32), blocks());
        world.checkpoint();
        world.check();
        let is_packed = value != "off";
        // Two and three of these blocks are no zeros.
        let whole = 5 * SIZE as u64;
        assert_eq!(
            referenced(&world, volume) < whole,
            is_packed,
            "{property}={value}"
        );
    }
}

/// Writes of the three blocks wait for memory while no disk answers, within a limit of dirty bytes.
#[test]
fn what_waits_for_memory_keeps_what_was_made_of_its_blocks_within_the_limit() {
    let limits = Limits {
        dirty_bytes: 2 * SIZE,
        ..Limits::default()
    };
    let mut world = World::new(TopLevelKind::Leaf, 1, limits);
    let volume = world.create_volume("a", 64 << 20, SIZE as u32);
    let settings = world.pool.catalog().settings(volume);
    let recipe = Recipe::of(&settings, SIZE as u32).expect("it is quick");
    let prepared = || {
        let data = Pages::from_bytes(&blocks());
        recipe.prepare(0, &data).expect("whole blocks")
    };
    let packed = prepared().packed_bytes();
    assert!((1..SIZE / 2).contains(&packed));
    let writes = (0..40).map(|at: u64| {
        let request = Request::WritePrepared {
            dataset: volume,
            offset: at * 3 * SIZE as u64,
            prepared: prepared(),
            durable: false,
        };
        world.begin(request)
    });
    let writes: Vec<_> = writes.collect();
    let waiting = world.pool.stalled.iter();
    let keeps: Vec<bool> = waiting.map(|of| of.write.prepared.is_some()).collect();
    let kept = limits.dirty_bytes / packed;
    assert!(kept < keeps.len(), "{keeps:?}");
    assert_eq!(keeps.iter().filter(|keeps| **keeps).count(), kept);
    assert!(
        keeps[..kept].iter().all(|keeps| *keeps),
        "the first to go on"
    );
    assert_eq!(world.pool.stalled.kept_packed(), kept * packed);
    let answers = world.settle();
    for id in writes {
        assert!(answers.iter().any(|(of, done)| *of == id && done.is_ok()));
    }
    assert_eq!(world.pool.stalled.kept_packed(), 0);
    for at in 0..40 {
        let offset = at * 3 * SIZE as u64;
        assert_eq!(world.read(volume, offset, 3 * SIZE as u32), blocks());
    }
    world.check();
}

#[test]
fn zstandard_and_parts_of_blocks_are_left_to_the_engine() {
    let settings = Settings::default();
    let recipe = Recipe::of(&settings, SIZE as u32).expect("it is quick");
    let data = Pages::from_bytes(&blocks());
    assert!(recipe.prepare(4096, &data).is_none());
    assert!(recipe.prepare(0, &data.slice(0..SIZE + 4096)).is_none());
    let of_sectors = Recipe::of(&settings, 4096).expect("it is quick");
    assert!(of_sectors.prepare(4096, &data.slice(0..4096)).is_some());
    assert!(of_sectors.prepare(4096, &data.slice(0..0)).is_none());
    assert!(of_sectors.prepare(4096, &data.slice(0..8192)).is_some());
    let slow = Settings {
        compression: crate::catalog::CompressionChoice::Zstd(None),
        ..settings
    };
    assert!(Recipe::of(&slow, SIZE as u32).is_none());
}

#[test]
fn blocks_that_a_writer_passes_replace_those_in_the_cache_and_do_not_come_into_it() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 8 << 20, SIZE as u32);
    let settings = world.pool.catalog().settings(volume);
    let recipe = Recipe::of(&settings, SIZE as u32).expect("it is quick");
    let are_cached = |world: &World| -> Vec<bool> {
        let keys = (0..3).map(|block| cache_key(volume, block));
        keys.map(|key| world.pool.cache.holds(key)).collect()
    };
    for is_passed in [false, true] {
        // Zeros are never in the cache.
        world.write(volume, 0, &vec![7; 3 * SIZE], false);
        assert_eq!(are_cached(&world), [true; 3]);
        let prepared = recipe.prepare(0, &Pages::from_bytes(&blocks()));
        let prepared = prepared.expect("whole blocks");
        let request = Request::WritePrepared {
            dataset: volume,
            offset: 0,
            prepared: if is_passed {
                prepared.passed()
            } else {
                prepared
            },
            durable: false,
        };
        world.ask(request).expect("written");
        assert_eq!(are_cached(&world), [!is_passed, !is_passed, false]);
        assert_eq!(world.read(volume, 0, 3 * SIZE as u32), blocks());
        world.checkpoint();
        assert_eq!(world.read(volume, 0, 3 * SIZE as u32), blocks());
        world.check();
    }
}

#[test]
fn a_recipe_is_a_number_and_back() {
    use crate::catalog::{ChecksumChoice, CompressionChoice};
    let mut seen = std::collections::BTreeSet::new();
    for block_size in [4096, 16384, 1 << 20] {
        for compression in [CompressionChoice::Off, CompressionChoice::Lz4] {
            for checksum in [ChecksumChoice::Xxh3, ChecksumChoice::Blake3] {
                let settings = Settings {
                    compression,
                    checksum,
                    ..Settings::default()
                };
                let recipe = Recipe::of(&settings, block_size).expect("it is quick");
                assert_eq!(Recipe::from_bits(recipe.to_bits()), Some(recipe));
                seen.insert(recipe.to_bits());
            }
        }
    }
    assert_eq!(seen.len(), 12);
    assert_eq!(Recipe::from_bits(u64::MAX), None);
    assert_eq!(Recipe::from_bits(0x1000_0000 | 3), None);
}
