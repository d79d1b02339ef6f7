//! Disks become larger while the pool is in use. Their vdevs grow at the right time, and data and
//! sizes survive a power cut at any moment.

use crate::engine::Limits;
use crate::engine::LogStatus;
use crate::engine::tests::world::{DISK, World};
use crate::format::DatasetId;
use crate::vdev::{Class, LeafSpec, ShapeErrorKind, TopLevelKind, TopLevelSpec, VdevTree};

const BLOCK: usize = 64 << 10;
/// Blocks of a volume that fill only a part of a disk.
const FEW: u64 = 50;

fn content(block: u64) -> Vec<u8> {
    let mut state = block * 2 + 1;
    let words = (0..BLOCK / 8).flat_map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 31).to_le_bytes()
    });
    words.collect()
}

fn write(world: &mut World, volume: DatasetId, blocks: std::ops::Range<u64>) {
    for block in blocks {
        world.write(volume, block * BLOCK as u64, &content(block), false);
    }
}

fn verify(world: &mut World, volume: DatasetId, blocks: std::ops::Range<u64>) {
    for block in blocks {
        let bytes = world.read(volume, block * BLOCK as u64, BLOCK as u32);
        assert!(bytes == content(block), "block {block}");
    }
}

fn filled(kind: TopLevelKind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("v", 1 << 30, BLOCK as u32);
    write(&mut world, volume, 0..FEW);
    world.checkpoint();
    (world, volume)
}

/// Gives a disk another size, and tells the pool.
fn resize(world: &mut World, disk: usize, vdev: u16, size: u64) {
    world.disk_sizes.insert(disk, size);
    let leaf = world.pool.leaf(100 + disk as u64).expect("a leaf");
    world.pool.resize_leaf(leaf, vdev, size).expect("larger");
}

/// Returns the sectors for blocks.
fn sectors(world: &World) -> u64 {
    world.pool.status().space[0].size
}

/// Kinds of vdevs for blocks, with their number of leaves, and the number of leaves with different
/// data.
const KINDS: [(TopLevelKind, usize, u64); 4] = [
    (TopLevelKind::Leaf, 1, 1),
    (TopLevelKind::Mirror, 2, 1),
    (TopLevelKind::Raidz { parity: 1 }, 3, 3),
    (TopLevelKind::Raidz { parity: 2 }, 5, 5),
];

#[test]
fn a_vdev_grows_when_its_last_disk_has_and_what_is_new_is_used() {
    for (kind, disks, columns) in KINDS {
        let (mut world, volume) = filled(kind, disks);
        let before = sectors(&world);
        for disk in 1..disks {
            resize(&mut world, disk, 0, 2 * DISK);
            world.checkpoint();
            assert_eq!(sectors(&world), before, "{kind:?}: a disk is small");
        }
        // An opening also knows that some disks have grown.
        world.reopen().expect("opens");
        assert_eq!(sectors(&world), before, "{kind:?}");
        verify(&mut world, volume, 0..FEW);
        resize(&mut world, 0, 0, 2 * DISK);
        world.checkpoint();
        let after = before + columns * (DISK >> 12);
        assert_eq!(sectors(&world), after, "{kind:?}");
        // This is more than there was before.
        let more = (before << 12) / BLOCK as u64 * 5 / 4;
        let more = more * (disks as u64 - parity(kind)) / columns;
        write(&mut world, volume, FEW..more);
        world.checkpoint();
        for _ in 0..2 {
            world.reopen().expect("opens");
            assert_eq!(sectors(&world), after, "{kind:?}");
            verify(&mut world, volume, 0..more);
        }
        // A disk that became small again is not taken for its former size.
        let leaf = world.pool.leaf(100).expect("a leaf");
        let refused = world.pool.resize_leaf(leaf, 0, DISK).expect_err("in use");
        assert_eq!(refused.kind, ShapeErrorKind::TooSmall);
        assert_eq!(sectors(&world), after, "{kind:?}");
    }
}

/// Returns the columns of a block that hold no data; for a mirror, the extra copies.
fn parity(kind: TopLevelKind) -> u64 {
    match kind {
        TopLevelKind::Raidz { parity } => parity.into(),
        TopLevelKind::Mirror => 1,
        _ => 0,
    }
}

#[test]
fn the_power_may_fail_at_any_step_of_growing() {
    for (kind, disks, columns) in KINDS {
        let (mut steps, mut is_over) = (0, false);
        let mut seen = [0; 2];
        while !is_over {
            let (mut world, volume) = filled(kind, disks);
            let before = sectors(&world);
            let after = before + columns * (DISK >> 12);
            for disk in 0..disks {
                resize(&mut world, disk, 0, 2 * DISK);
            }
            world.begin_checkpoint(0);
            for _ in 0..steps {
                is_over |= !world.do_one();
            }
            steps += 1 + steps / 8;
            world.crash().expect("opens");
            world.settle();
            let found = sectors(&world);
            assert!([before, after].contains(&found), "{kind:?} {found}");
            seen[usize::from(found == after)] += 1;
            verify(&mut world, volume, 0..FEW);
            // If the growth was forgotten, it is done again.
            for disk in 0..disks {
                resize(&mut world, disk, 0, 2 * DISK);
            }
            world.checkpoint();
            assert_eq!(sectors(&world), after, "{kind:?}");
            write(&mut world, volume, FEW..2 * FEW);
            world.checkpoint();
            world.reopen().expect("opens");
            assert_eq!(sectors(&world), after, "{kind:?}");
            verify(&mut world, volume, 0..2 * FEW);
        }
        assert!(seen[0] > 2 && seen[1] > 0, "{kind:?}: {seen:?}");
    }
}

fn log(world: &World) -> LogStatus {
    world.pool.status().logs[0]
}

/// Makes a pool on disk 0 with a small log vdev on the disks after it, and a volume. Copies are
/// made already.
fn with_log(kind: TopLevelKind, leaves: usize) -> (World, DatasetId) {
    let main = LeafSpec::new(100, DISK);
    let small = (1..=leaves).map(|number| LeafSpec::new(100 + number as u64, SMALL_LOG));
    let tree = VdevTree {
        top_levels: vec![
            TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [main]),
            TopLevelSpec::new(kind, Class::Log, small),
        ],
    };
    let limits = Limits {
        checkpoint_us: u64::MAX / 4,
        ..Limits::default()
    };
    let mut world = World::of_tree(tree, 1 + leaves, DISK, limits);
    for disk in 1..=leaves {
        world.disk_sizes.insert(disk, SMALL_LOG);
    }
    let volume = world.create_volume("v", 32 << 20, 4096);
    world.write(volume, 0, &content(0), true);
    world.checkpoint();
    world.is_lazy = true;
    (world, volume)
}

/// Bytes of a log vdev with room for a MiB of copies.
const SMALL_LOG: u64 = 3 << 20;

/// Writes durably more than a small log holds, while the disk of the blocks does nothing any more.
fn promised(world: &mut World, volume: DatasetId) {
    world.stuck.insert(0);
    for block in 1..40 {
        world.write(volume, block * BLOCK as u64, &content(block), true);
    }
}

#[test]
fn a_log_vdev_that_grew_promises_as_much_as_it_has_room_for() {
    for (kind, leaves) in [(TopLevelKind::Leaf, 1), (TopLevelKind::Mirror, 2)] {
        let (mut world, volume) = with_log(kind, leaves);
        let before = log(&world).ring_sectors;
        for disk in 1..leaves {
            resize(&mut world, disk, 1, 8 << 20);
            world.checkpoint();
            assert_eq!(log(&world).ring_sectors, before, "a half is small");
        }
        resize(&mut world, leaves, 1, 8 << 20);
        world.checkpoint();
        let after = before + (5 << 20 >> 12);
        assert_eq!(log(&world).ring_sectors, after, "{kind:?}");
        // No block is placed there.
        assert_eq!(world.pool.status().space[1].size, 0);
        world.write(volume, 0, &content(0), true);
        promised(&mut world, volume);
        assert!(log(&world).held_sectors > before, "{:?}", log(&world));
        world.crash().expect("opens");
        assert_eq!(log(&world).ring_sectors, after, "{kind:?}");
        verify(&mut world, volume, 0..40);
        world.checkpoint();
        world.crash().expect("opens from the checkpoint");
        verify(&mut world, volume, 0..40);
    }
}

#[test]
fn what_a_log_vdev_promised_outlives_the_power_failing_while_it_grows() {
    let (mut steps, mut is_over) = (0, false);
    while !is_over {
        let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
        let before = log(&world).ring_sectors;
        for block in 1..8 {
            world.write(volume, block * BLOCK as u64, &content(block), true);
        }
        resize(&mut world, 1, 1, 8 << 20);
        for _ in 0..steps {
            is_over |= !world.do_one();
        }
        steps += 1 + steps / 8;
        world.crash().expect("opens");
        verify(&mut world, volume, 0..8);
        let found = log(&world).ring_sectors;
        let after = before + (5 << 20 >> 12);
        assert!([before, after].contains(&found), "{found}");
        world.is_lazy = false;
        world.settle();
        resize(&mut world, 1, 1, 8 << 20);
        world.checkpoint();
        assert_eq!(log(&world).ring_sectors, after);
        verify(&mut world, volume, 0..8);
    }
}
