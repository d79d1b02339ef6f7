//! Disks whose size has changed, and labels that are lost.

use crate::engine::tests::disks::vdevs::{SIZE, filled};
use crate::engine::tests::world::{DISK, Disk, World, write};
use crate::engine::{Event, Limits, OpenErrorKind};
use crate::format::label::LABEL_SIZE;
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::layout::{data_sectors, label_offset};
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};
use pages::Pages;

const MIB: u64 = 1 << 20;

fn short(world: &World) -> Vec<(u64, u64, u64, bool)> {
    let told = world.pool.status().short.into_iter();
    let mut all: Vec<_> = told
        .map(|of| (of.leaf, of.has, of.had, of.is_cut))
        .collect();
    let events = world.events.iter().filter_map(|event| match event {
        Event::Short { short } => Some((short.leaf, short.has, short.had, short.is_cut)),
        _ => None,
    });
    all.extend(events);
    all.dedup();
    all
}

/// Returns the end of the last sector that was written for data, in bytes.
fn data_end(disk: &Disk) -> u64 {
    let rear = (DISK - 2 * LABEL_SIZE as u64) / SECTOR_SIZE as u64;
    let last = disk.range(..rear).next_back().expect("data");
    (last.0 + 1) * SECTOR_SIZE as u64
}

#[test]
fn a_disk_that_shrank_is_named_and_what_is_missing_is_read_from_others() {
    for (kind, disks) in [
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
        (TopLevelKind::Raidz { parity: 2 }, 4),
    ] {
        let (mut world, volume, mut model) = filled(kind, disks, 4096);
        let end = data_end(&world.disks[1]) / 2 / MIB * MIB;
        world.resize_disk(1, end.max(3 * MIB));
        world.reopen_unchecked().expect("the others have all");
        world.settle();
        assert_eq!(
            short(&world),
            [(101, end.max(3 * MIB), DISK, true)],
            "{kind:?}"
        );
        world.forget_cache();
        assert!(world.read(volume, 0, SIZE as u32) == model, "{kind:?}");
        for number in 0..64_u64 {
            let at = number * 31 % (SIZE / 4096) * 4096;
            world.write(volume, at, &[number as u8; 4096], true);
            model[at as usize..at as usize + 4096].fill(number as u8);
        }
        world.advance();
        world.reopen_unchecked().expect("opens again");
        world.settle();
        world.forget_cache();
        assert!(world.read(volume, 0, SIZE as u32) == model, "{kind:?}");
    }
}

/// The vdev uses as much of each disk as the smallest has.
#[test]
fn a_disk_that_shrank_by_what_nobody_used_gets_labels_at_its_new_end() {
    let leaves = [
        LeafSpec::new(100, DISK),
        LeafSpec::new(101, DISK + 16 * MIB),
    ];
    let tree = VdevTree {
        top_levels: vec![TopLevelSpec::new(
            TopLevelKind::Mirror,
            Class::Normal,
            leaves,
        )],
    };
    let mut world = World::of_tree(tree, 2, DISK + 16 * MIB, Limits::default());
    world.disk_sizes.insert(0, DISK);
    let volume = world.create_volume("v", MIB, 4096);
    world.write(volume, 0, &[7; 4096], true);
    world.checkpoint();
    let size = DISK + 3 * MIB;
    world.resize_disk(1, size);
    world.reopen_unchecked().expect("all data is there");
    world.settle();
    assert_eq!(short(&world), [(101, size, DISK + 16 * MIB, false)]);
    world.events.clear();
    world.checkpoint();
    world.reopen().expect("opens");
    assert_eq!(short(&world), []);
    let newest = &world.examine().expect("labels").roots[0];
    assert_eq!(newest.copies, 8, "also at the new end");
    assert_eq!(world.read(volume, 0, 4096), [7; 4096]);
}

/// The next record of the log lies beyond the new end, so nobody knows whether one was there.
#[test]
fn the_end_of_a_disk_is_never_the_end_of_the_log() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("v", MIB, 4096);
    world.checkpoint();
    let before = world.end_of_log();
    for block in 0..8 {
        world.write(volume, block * 4096, &[block as u8 + 1; 4096], true);
    }
    // The first of these records, and all after it, are gone.
    world.resize_disk(0, before * SECTOR_SIZE as u64);
    let error = world.reopen_unchecked().expect_err("the log is cut off");
    let (has, had) = (before * SECTOR_SIZE as u64, DISK);
    assert!(
        error
            .context
            .contains(&format!("{has} bytes, but had {had}")),
        "{error}"
    );
}

#[test]
fn a_disk_that_grew_keeps_its_labels_where_they_were() {
    let (mut world, volume, model) = filled(TopLevelKind::Leaf, 1, 4096);
    world.resize_disk(0, DISK + 20 * MIB);
    let examined = world.examine().expect("labels");
    assert_eq!(examined.roots[0].copies, 4);
    assert!(!examined.is_config_new, "no label is damaged");
    world.reopen().expect("opens");
    world.checkpoint();
    assert_eq!(world.examine().expect("labels").roots[0].copies, 4);
    assert_eq!(short(&world), []);
    assert!(world.read(volume, 0, SIZE as u32) == model);
    let sectors = world.pool.status().top_levels[0].sectors;
    assert_eq!(
        Some(sectors),
        data_sectors(DISK),
        "the size that is remembered counts"
    );
}

/// Makes a pool of one disk with only one label left.
fn with_one_label(kept: u64) -> (World, DatasetId, Vec<u8>) {
    let (mut world, volume, mut model) = filled(TopLevelKind::Leaf, 1, 4096);
    world.write(volume, 0, &[9; 4096], true);
    model[..4096].fill(9);
    for copy in (0..4).filter(|copy| *copy != kept) {
        let at = label_offset(copy, DISK).expect("a leaf");
        write(
            &mut world.disks[0],
            at,
            &Pages::from_bytes(&[0xee; LABEL_SIZE]),
        );
    }
    (world, volume, model)
}

#[test]
fn a_device_with_one_good_label_of_four_opens_and_gets_all_four() {
    for kept in 0..4 {
        let (mut world, volume, model) = with_one_label(kept);
        assert!(world.examine().expect("a label").is_lone_label, "{kept}");
        world.reopen().expect("what the label leads to is whole");
        assert!(world.read(volume, 0, SIZE as u32) == model, "{kept}");
        let examined = world.examine().expect("labels");
        assert!(
            !examined.is_lone_label && examined.roots[0].copies == 4,
            "{kept}"
        );
    }
}

#[test]
fn one_good_label_that_leads_to_damage_is_not_believed() {
    let (mut world, volume, _) = with_one_label(0);
    let root = world.pool.contents[&volume].map.tree.root;
    // A vdev without redundancy has two copies of it.
    for address in [Some(root.address), root.second()].into_iter().flatten() {
        let sector = crate::vdev::layout::sector_offset(address.sector());
        let bad = Pages::from_bytes(&[0xee; SECTOR_SIZE]);
        write(&mut world.disks[0], sector, &bad);
    }
    let error = world.reopen_unchecked().expect_err("a map is damaged");
    assert_eq!(error.kind, OpenErrorKind::Damaged, "{error}");
}
