//! Checks that `secondarycache` decides which blocks go to cache vdevs, for each volume and at any
//! time. Blocks that lie there already are used as long as they are right, whatever the property
//! now says.

use super::cache_vdevs::{BLOCK, BLOCKS, cache, content, read_all, with_cache};
use crate::catalog::request::{CreateFolder, CreateVolume, Inherit, SetProperties};
use crate::engine::Plan;
use crate::engine::tests::world::World;
use crate::format::DatasetId;

fn set(world: &mut World, name: &str, value: &str) {
    let request = SetProperties {
        name: name.to_owned(),
        properties: [("secondarycache".to_owned(), value.to_owned())].into(),
        ..SetProperties::default()
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
    world.administer(plan).expect("set");
}

/// Returns the bytes that go to the cache vdev while all blocks of a volume are read often enough
/// to be kept.
fn kept(world: &mut World, volume: DatasetId) -> u64 {
    let before = cache(world).written_bytes;
    for _ in 0..3 {
        read_all(world, volume, 1);
    }
    cache(world).written_bytes - before
}

#[test]
fn only_what_is_wanted_there_goes_to_a_cache_vdev() {
    // There is no metadata on the cache vdev, since trees stay in memory.
    for (value, is_kept) in [("none", false), ("metadata", false), ("all", true)] {
        let (mut world, volume) = with_cache();
        set(&mut world, "v", value);
        assert_eq!(kept(&mut world, volume) > 0, is_kept, "{value}");
        let status = cache(&world);
        assert_eq!(status.hits > 0, is_kept, "{status:?}");
        assert_eq!(status.used > 0, is_kept, "{status:?}");
        // The property also counts after an opening.
        world.checkpoint();
        world.reopen().expect("opens");
        assert_eq!(kept(&mut world, volume) > 0, is_kept, "{value}");
    }
}

#[test]
fn what_a_folder_says_counts_for_the_volumes_in_it() {
    let (mut world, other) = with_cache();
    let folder = CreateFolder {
        name: "f".to_owned(),
        ..CreateFolder::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_folder(&folder, stamp));
    world.administer(plan).expect("a folder");
    let request = CreateVolume {
        name: "f/w".to_owned(),
        size: (BLOCK * BLOCKS) as u64,
        block_size: BLOCK as u32,
        ..CreateVolume::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
    world.administer(plan).expect("a volume");
    let volume = world.id("f/w");
    for block in 0..BLOCKS {
        world.write(volume, (block * BLOCK) as u64, &content(block, 1), false);
    }
    set(&mut world, "f", "none");
    world.checkpoint();
    // Blocks that the other volume left in memory go first.
    for _ in 0..2 {
        kept(&mut world, volume);
    }
    assert_eq!(kept(&mut world, volume), 0);
    assert!(kept(&mut world, other) > 0, "it lies in no folder");
    let inherit = Inherit {
        name: "f".to_owned(),
        property: "secondarycache".to_owned(),
        ..Inherit::default()
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_inherit(&inherit));
    world.administer(plan).expect("given up");
    assert!(kept(&mut world, volume) > 0);
}

#[test]
fn what_lies_there_already_is_right_whatever_is_said_later() {
    let (mut world, volume) = with_cache();
    assert!(kept(&mut world, volume) > 0);
    set(&mut world, "v", "none");
    let before = cache(&world);
    assert_eq!(kept(&mut world, volume), 0);
    assert!(cache(&world).hits > before.hits, "it is given yet");
    for block in 0..BLOCKS {
        world.write(volume, (block * BLOCK) as u64, &content(block, 2), false);
    }
    for _ in 0..2 {
        read_all(&mut world, volume, 2);
    }
    let after = cache(&world);
    assert_eq!(after.written_bytes, before.written_bytes);
    set(&mut world, "v", "all");
    for _ in 0..3 {
        read_all(&mut world, volume, 2);
    }
    assert!(cache(&world).written_bytes > before.written_bytes);
}
