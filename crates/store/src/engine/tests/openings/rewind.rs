//! Rewinds when the structures of the newest labels are damaged. Whole data is there, given-up data
//! is reported, and none of it comes back.

use crate::catalog::request::TakeSnapshots;
use crate::engine::tests::world::{World, write};
use crate::engine::{Back, Limits, OpenErrorKind, Plan};
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::TopLevelKind;
use pages::Pages;

const BLOCK: usize = 4096;

/// Makes three durable blocks: one is in the checkpoint before the newest, the second in the
/// newest, the third only in the log.
fn world() -> (World, DatasetId) {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    for block in 0..2 {
        write_block(&mut world, volume, block);
        world.checkpoint();
    }
    write_block(&mut world, volume, 2);
    (world, volume)
}

fn write_block(world: &mut World, volume: DatasetId, block: u64) {
    let byte = block as u8 + 1;
    world.write(volume, block * BLOCK as u64, &[byte; BLOCK], true);
}

fn has(world: &mut World, volume: DatasetId, block: u64) -> bool {
    let found = world.read(volume, block * BLOCK as u64, BLOCK as u32);
    assert!(found == [block as u8 + 1; BLOCK] || found == [0; BLOCK]);
    found[0] != 0
}

/// Makes the newest checkpoint's manifest unreadable on both disks.
fn destroy_manifest(world: &mut World) {
    for pointer in world.pool.persisted.manifest.clone() {
        destroy(world, pointer.address.sector());
    }
}

fn destroy(world: &mut World, sector: u64) {
    let offset = crate::vdev::layout::sector_offset(sector);
    destroy_at(world, offset / SECTOR_SIZE as u64);
}

/// Destroys a sector of the disks.
fn destroy_at(world: &mut World, sector: u64) {
    for disk in &mut world.disks {
        let bytes = Pages::from_bytes(&[0xee; SECTOR_SIZE]);
        write(disk, sector * SECTOR_SIZE as u64, &bytes);
    }
}

#[test]
fn the_checkpoint_before_the_newest_is_whole_and_gives_up_what_came_after() {
    let (mut world, volume) = world();
    let newest = world.pool.persisted.epoch;
    destroy_manifest(&mut world);
    let error = world.reopen().expect_err("nothing leads to the volume");
    assert_eq!(error.kind, OpenErrorKind::Damaged);
    let rewound = world.rewind(1).expect("the checkpoint before is whole");
    assert_eq!(rewound.checkpoints, 1);
    assert!(rewound.epoch < newest);
    assert_eq!(rewound.damage, None);
    let found = [0, 1, 2].map(|block| has(&mut world, volume, block));
    assert_eq!(
        found,
        [true, true, false],
        "the log up to the newest one is followed"
    );
}

#[test]
fn a_power_cut_before_the_first_checkpoint_changes_nothing_and_nothing_was_promised() {
    let (mut world, volume) = world();
    destroy_manifest(&mut world);
    world.rewind(1).expect("goes back");
    // The disks get no time, so their requests are lost.
    world
        .reopen_now()
        .expect_err("the labels lead where they did");
    world.rewind(1).expect("goes back again");
    // The disks do no more than an answer needs.
    world.is_lazy = true;
    write_block(&mut world, volume, 5);
    world
        .reopen_now()
        .expect("what is promised, the labels lead to");
    assert!(has(&mut world, volume, 1) && has(&mut world, volume, 5));
}

#[test]
fn an_older_checkpoint_is_had_as_it_was_where_nothing_is_damaged() {
    for (checkpoints, there) in [(0, [true, true, false]), (1, [true, false, false])] {
        let (mut world, volume) = world();
        let back = Back {
            checkpoints,
            without_log: true,
        };
        let rewound = world.go_back(back).expect("it is whole");
        assert_eq!((rewound.groups, rewound.damage), (0, None));
        assert_eq!(rewound.checkpoints, checkpoints);
        let found = |world: &mut World| [0, 1, 2].map(|block| has(world, volume, block));
        assert_eq!(found(&mut world), there);
        write_block(&mut world, volume, 5);
        world.reopen().expect("the labels lead to the new history");
        assert_eq!(found(&mut world), there);
        assert!(has(&mut world, volume, 5));
    }
}

#[test]
fn what_was_given_up_never_comes_back() {
    let (mut world, volume) = world();
    destroy_manifest(&mut world);
    world.rewind(1).expect("goes back");
    world.checkpoint();
    for round in 0..3 {
        world.reopen().expect("the labels lead to the new history");
        assert!(!has(&mut world, volume, 2));
        write_block(&mut world, volume, 3 + round);
        world.reopen().expect("opens");
        assert!(has(&mut world, volume, 3 + round));
    }
}

#[test]
fn a_log_that_lost_durable_groups_is_cut_before_them() {
    let (mut world, volume) = world();
    let lost = world.end_of_log();
    for block in 3..8 {
        write_block(&mut world, volume, block);
    }
    destroy_at(&mut world, lost);
    let error = world.reopen().expect_err("durable groups are missing");
    assert_eq!(error.kind, OpenErrorKind::LogDamaged);
    let rewound = world.rewind(0).expect("what is before them is whole");
    let damage = rewound.damage.expect("it is told");
    assert!(damage.contains("says that it was durable"), "{damage}");
    assert_eq!((rewound.checkpoints, rewound.groups > 0), (0, true));
    let found = [0, 1, 2, 3, 4, 7].map(|block| has(&mut world, volume, block));
    assert_eq!(found, [true, true, true, false, false, false]);
    // Records of the old end, later in the log than the new one, prove nothing any more.
    write_block(&mut world, volume, 3);
    world.reopen().expect("opens");
    assert!(has(&mut world, volume, 3) && !has(&mut world, volume, 4));
}

/// Each snapshot begins an epoch, even without a checkpoint. Blocks written later must not be born
/// before it: they would be taken for the snapshot's own.
#[test]
fn what_is_written_after_going_back_is_younger_than_all_snapshots() {
    let (mut world, volume) = world();
    for number in 0..10 {
        let request = TakeSnapshots {
            names: vec![format!("a@{number}")],
            ..TakeSnapshots::default()
        };
        let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
        world.administer(plan).expect("a snapshot");
    }
    let lost = world.end_of_log();
    for block in 3..8 {
        write_block(&mut world, volume, block);
    }
    destroy_at(&mut world, lost);
    world.rewind(0).expect("what is before is whole");
    write_block(&mut world, volume, 3);
    world.clear(volume, 0, BLOCK as u64);
    world.checkpoint();
    let snapshot = world.id("a@9");
    let found = [0, 1, 2, 3].map(|block| has(&mut world, snapshot, block));
    assert_eq!(found, [true, true, true, false]);
    world.reopen().expect("opens");
    let found = [0, 1, 2, 3].map(|block| has(&mut world, volume, block));
    assert_eq!(found, [false, true, true, true]);
}

#[test]
fn where_the_log_ends_need_not_be_known_by_who_gives_it_up() {
    let (mut world, volume) = world();
    let end = world.end_of_log();
    let unreadable = [(0, end), (1, end)];
    world.unreadable.extend(unreadable);
    world.reopen().expect_err("something durable may lie there");
    let rewound = world.rewind(0).expect("that is given up");
    assert!(rewound.damage.is_some());
    assert!(has(&mut world, volume, 2));
}

#[test]
fn there_is_no_going_back_behind_the_first_checkpoint() {
    let (mut world, _) = world();
    let error = world.rewind(99).expect_err("there are fewer");
    assert!(error.context.contains("no older checkpoint"), "{error}");
}
