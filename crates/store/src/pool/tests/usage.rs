//! What datasets take is counted as zfs counts it: every block once, and with the blocks that a snapshot keeps the nodes
//! of its map. Here one node is replaced whenever blocks are.

use super::super::{DatasetUsage, Limits, Plan};
use super::world::World;
use crate::catalog::ROOT;
use crate::catalog::request::{CloneSnapshot, CreateVolume, TakeSnapshots};
use crate::vdev::Kind;

const BLOCK: u64 = 4096;

fn write(world: &mut World, name: &str, blocks: std::ops::Range<u64>, tag: u8) {
    let volume = world.id(name);
    for block in blocks {
        let bytes = vec![tag; BLOCK as usize];
        world.write(volume, block * BLOCK, &bytes, true);
    }
}

fn snapshot(world: &mut World, name: &str) {
    let request = TakeSnapshots {
        names: vec![name.to_owned()],
        is_recursive: false,
        properties: Default::default(),
        guid: None,
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
    world.administer(plan).expect("a snapshot");
}

/// All figures, in blocks.
fn usage(world: &World, name: &str) -> DatasetUsage {
    let all = world.pool.usage();
    let of = all[&world.id(name)];
    DatasetUsage {
        used: of.used / BLOCK,
        referenced: of.referenced / BLOCK,
        written: of.written / BLOCK,
        by_dataset: of.by_dataset / BLOCK,
        by_snapshots: of.by_snapshots / BLOCK,
        by_refreservation: of.by_refreservation / BLOCK,
        by_children: of.by_children / BLOCK,
    }
}

#[test]
fn volumes_snapshots_and_clones_are_charged_for_what_is_theirs() {
    let mut world = World::new(Kind::Mirror, 2, Limits::default());
    world.create_volume("a", 8 << 20, BLOCK as u32);
    write(&mut world, "a", 0..10, 1);
    world.checkpoint();
    let own = DatasetUsage {
        used: 10,
        referenced: 10,
        written: 10,
        by_dataset: 10,
        ..DatasetUsage::default()
    };
    assert_eq!(usage(&world, "a"), own);

    snapshot(&mut world, "a@one");
    write(&mut world, "a", 0..3, 2);
    world.checkpoint();
    let (one, a) = (usage(&world, "a@one"), usage(&world, "a"));
    assert_eq!((one.used, one.referenced, one.written), (4, 10, 10));
    assert_eq!((a.used, a.by_dataset, a.by_snapshots), (14, 10, 4));
    assert_eq!((a.referenced, a.written), (10, 4));

    // Blocks that two snapshots share are neither's alone.
    snapshot(&mut world, "a@two");
    write(&mut world, "a", 2..5, 3);
    world.checkpoint();
    let (one, two, a) = (
        usage(&world, "a@one"),
        usage(&world, "a@two"),
        usage(&world, "a"),
    );
    assert_eq!((one.used, two.used), (4, 2));
    assert_eq!((a.used, a.by_snapshots, a.written), (18, 8, 4));

    let request = CloneSnapshot {
        snapshot: "a@one".to_owned(),
        name: "copy".to_owned(),
        with_parents: false,
        properties: Default::default(),
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_clone(&request, stamp));
    world.administer(plan).expect("a clone");
    world.checkpoint();
    let copy = usage(&world, "copy");
    assert_eq!((copy.used, copy.referenced), (0, 10));
    write(&mut world, "copy", 8..12, 4);
    snapshot(&mut world, "copy@own");
    write(&mut world, "copy", 9..10, 5);
    world.checkpoint();
    let copy = usage(&world, "copy");
    assert_eq!((copy.referenced, copy.by_dataset), (12, 5));
    assert_eq!((copy.by_snapshots, copy.used, copy.written), (2, 7, 2));

    let request = CreateVolume {
        name: "kept".to_owned(),
        size: 40 * BLOCK,
        block_size: BLOCK as u32,
        properties: [("refreservation".to_owned(), (40 * BLOCK).to_string())].into(),
        ..CreateVolume::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
    world.administer(plan).expect("a volume");
    write(&mut world, "kept", 0..4, 6);
    world.checkpoint();
    let kept = usage(&world, "kept");
    assert_eq!((kept.used, kept.by_refreservation), (40, 36));
    let root = world.pool.usage()[&ROOT];
    assert_eq!(root.used / BLOCK, 18 + 7 + 40);
}
