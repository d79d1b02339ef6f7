//! Devices that share an identity are reported, and none of them is used.

use crate::engine::tests::world::World;
use crate::engine::{Limits, OpenErrorKind, Standing, twins};
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};

const BLOCK: u32 = 4096;
const GUID: u64 = 77;

#[test]
fn a_copy_beside_its_original_is_refused_in_every_layout() {
    for (kind, disks) in [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
        (TopLevelKind::Raidz { parity: 3 }, 5),
    ] {
        for copied in 0..disks {
            let mut world = World::new(kind, disks, Limits::default());
            let volume = world.create_volume("a", 1 << 20, BLOCK);
            world.checkpoint();
            let copy = world.disks[copied].clone();
            world.write(volume, 0, &[1; BLOCK as usize], true);
            world.checkpoint();
            let before = world.disks.clone();
            world.disks.push(copy);
            let error = world.examine().expect_err("one of them is a copy");
            assert_eq!(error.kind, OpenErrorKind::Twins, "{error}");
            assert!(
                error.context.contains("are all leaf 000000000000006"),
                "{error}"
            );
            // Without the copy everything is as it was.
            assert_eq!(world.disks[..disks], before);
            world.disks.pop();
            world.reopen().expect("the originals alone open");
            assert_eq!(world.read(volume, 0, BLOCK), [1; BLOCK as usize]);
        }
    }
}

#[test]
fn twins_say_what_each_of_them_holds() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    world.checkpoint();
    let copy = world.disks[0].clone();
    world.disks.push(copy);
    let labels = world.labels();
    let alike = twins(&labels, GUID).expect("labels");
    assert_eq!(alike.len(), 1);
    assert_eq!((alike[0].leaf, alike[0].standing), (100, Standing::Alike));
    world.checkpoint();
    let older = twins(&world.labels(), GUID).expect("labels");
    assert_eq!(older[0].standing, Standing::Newest(0));
    let [new, old] = &older[0].devices[..] else {
        panic!("{older:?}")
    };
    let newest = world.pool.persisted.epoch;
    assert_eq!(new.newest.map(|(epoch, _)| epoch), Some(newest));
    assert!(old.newest < new.newest && old.generation <= new.generation);
    assert_eq!((&*new.host, new.is_exported), ("here", false));
    assert_eq!(new.size, world.disk_size);
}

/// Logs, spares and caches have nothing but labels to compare.
#[test]
fn copies_of_logs_spares_and_caches_are_twins_too() {
    let tree = VdevTree {
        top_levels: vec![
            TopLevelSpec::new(
                TopLevelKind::Leaf,
                Class::Normal,
                [LeafSpec::new(100, crate::engine::tests::world::DISK)],
            ),
            TopLevelSpec::new(
                TopLevelKind::Leaf,
                Class::Log,
                [LeafSpec::new(101, crate::engine::tests::world::DISK)],
            ),
        ],
    };
    let mut world = World::of_tree(
        tree,
        2,
        crate::engine::tests::world::DISK,
        Limits::default(),
    );
    world.checkpoint();
    world.disks.push(world.disks[1].clone());
    let error = world.examine().expect_err("a log and its copy");
    assert_eq!(error.kind, OpenErrorKind::Twins, "{error}");
    assert!(error.context.contains("0000000000000065"), "{error}");
}

/// A leaf that was detached while away is used by nobody, and neither is its copy.
#[test]
fn copies_of_what_the_pool_does_not_know_any_more_stand_in_nobodys_way() {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK);
    world.write(volume, 0, &[1; BLOCK as usize], true);
    world.checkpoint();
    let old = world.disks[1].clone();
    let leaf = world.pool.leaf(101).expect("a leaf");
    world.pool.detach(leaf, world.now_us).expect("detached");
    world.settle();
    world.disks[1] = old.clone();
    world.disks.push(old);
    world
        .reopen_unchecked()
        .expect("opens on the one that is left");
    assert_eq!(world.read(volume, 0, BLOCK), [1; BLOCK as usize]);
}
