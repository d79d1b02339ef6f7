//! Spares stand in for leaves that broke, and become available again.

use pages::Pages;

use super::vdevs::{SIZE, filled, is_whole, resilvered, run_scrub};
use crate::engine::tests::world::{DISK, World};
use crate::engine::{Limits, Request, RequestId};
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::{
    Class, LeafId, LeafSpec, ShapeErrorKind, TopLevelKind, TopLevelSpec, VdevEvent, VdevTree,
};

/// Disk of the only spare; the next constant is its guid.
const SPARE: usize = 4;
const GUID: u64 = 100 + SPARE as u64;

/// Makes a raidz2 with two broken disks. The spare stands in for the first of them.
fn two_broken() -> (World, DatasetId, LeafId) {
    let (mut world, volume, _) = filled(TopLevelKind::Raidz { parity: 2 }, 4, 4096);
    world.disks.push(Default::default());
    world.pool.add_spares(vec![LeafSpec::new(GUID, DISK)]);
    world.checkpoint();
    for broken in [0, 1] {
        world.dead.insert(broken);
        world.write(volume, 0, &[1; 8192], true);
        world.settle();
    }
    let spare = world.pool.leaf(GUID).expect("it stands in");
    resilvered(&world);
    (world, volume, spare)
}

/// Makes a durable write.
fn write(dataset: DatasetId, offset: u64) -> Request {
    Request::Write {
        dataset,
        offset,
        data: Pages::from_bytes(&[3; 8192]),
        durable: true,
    }
}

/// Reports whether the labels say that the spare is in the first slot.
fn is_said_to_stand_in(world: &World) -> bool {
    let config = world.examine().expect("labels").config;
    let slots = &config.tree.top_levels[0].slots;
    slots[0].leaves.iter().any(|leaf| leaf.guid == GUID)
}

/// An opening would take the spare's data for parts of blocks until the labels say that it left.
#[test]
fn nothing_is_written_over_on_a_spare_before_the_labels_say_that_it_left() {
    let (mut world, volume, spare) = two_broken();
    let content = |world: &World| {
        let blocks = (1 << 20) / SECTOR_SIZE as u64..(DISK - (1 << 20)) / SECTOR_SIZE as u64;
        let disk = world.disks[SPARE].range(blocks);
        disk.map(|(at, sector)| (*at, sector.clone()))
            .collect::<Vec<_>>()
    };
    let before = content(&world);
    let now = world.now_us;
    world.pool.detach(spare, now).expect("taken out");
    let mut steps = 0;
    while is_said_to_stand_in(&world) {
        assert!(content(&world) == before, "after {steps} steps");
        world.pool.tick(now, 1_000);
        world.begin(write(volume, steps % 100 * 8192));
        assert!(world.do_one(), "the labels never say it");
        steps += 1;
    }
    world.settle();
    // The spare stands in for the other broken disk now.
    assert!(world.pool.leaf(GUID).is_some_and(|leaf| leaf != spare));
    assert!(content(&world) != before);
    resilvered(&world);
    let scrub = run_scrub(&mut world);
    assert_eq!((scrub.bad, scrub.unrecoverable), (0, 0));
}

#[test]
fn a_spare_that_is_leaving_is_busy_and_then_ready() {
    let (mut world, volume, spare) = two_broken();
    let now = world.now_us;
    world.pool.detach(spare, now).expect("taken out");
    let other = world.pool.leaf(100).expect("the first");
    let refused = world
        .pool
        .use_spare(other, GUID)
        .expect_err("it has just left");
    assert_eq!(refused.kind, ShapeErrorKind::Busy, "{refused}");
    // The second disk is back, so the spare is not used for it.
    world.dead.remove(&1);
    let second = world.pool.leaf(101).expect("the second");
    world.pool.online(second, now).expect("it is back");
    world.write(volume, 0, &[2; 8192], true);
    world.settle();
    world.pool.use_spare(other, GUID).expect("it stands ready");
    world.settle();
    resilvered(&world);
}

/// A late write must not destroy data written since.
#[test]
fn a_spare_whose_disk_owes_answers_does_not_stand_in() {
    let (mut world, volume, spare) = two_broken();
    world.stuck.insert(SPARE);
    world.begin(write(volume, 0));
    while world.unanswered.is_empty() {
        assert!(world.do_one(), "nothing is written to it");
    }
    let now = world.now_us;
    world.pool.detach(spare, now).expect("taken out");
    // The spare would do all later requests before this write.
    world.stuck.clear();
    world.settle();
    assert!(!is_said_to_stand_in(&world));
    assert_eq!(world.pool.leaf(GUID), None);
    let status = world.pool.status();
    assert_eq!(
        (status.spares, status.leaving_spares),
        (vec![GUID], vec![GUID])
    );
    world.answer_stuck();
    world.settle();
    assert!(world.pool.status().leaving_spares.is_empty());
    assert!(world.pool.leaf(GUID).is_some_and(|leaf| leaf != spare));
    resilvered(&world);
    let scrub = run_scrub(&mut world);
    assert_eq!((scrub.bad, scrub.unrecoverable), (0, 0));
}

#[test]
fn a_spare_of_a_log_that_is_removed_leaves_as_others_do() {
    let mirror = |class, disks: [u64; 2]| {
        let leaves = disks.map(|disk| LeafSpec::new(100 + disk, DISK));
        TopLevelSpec::new(TopLevelKind::Mirror, class, leaves)
    };
    let tree = VdevTree {
        top_levels: vec![mirror(Class::Normal, [0, 1]), mirror(Class::Log, [2, 3])],
    };
    let mut world = World::of_tree(tree, 4, DISK, Limits::default());
    world.disks.push(Default::default());
    world.pool.add_spares(vec![LeafSpec::new(GUID, DISK)]);
    let volume = world.create_volume("v", SIZE, 4096);
    world.checkpoint();
    for broken in [3, 1] {
        world.dead.insert(broken);
        let leaf = world.pool.leaf(100 + broken as u64).expect("a leaf");
        let now = world.now_us;
        world.pool.removed(leaf, now).expect("it is gone");
        world.checkpoint();
    }
    let spare = world.pool.leaf(GUID).expect("it stands in");
    world.stuck.insert(SPARE);
    world.begin(write(volume, 0));
    while world.unanswered.is_empty() {
        assert!(world.do_one(), "nothing is written to it");
    }
    // The spare is given up, and then the log is removed.
    while world.pool.uses(spare) {
        let given_up = world.pool.deadline_us().expect("nobody waits for it");
        world.now_us = world.now_us.max(given_up);
        world.pool.tick(world.now_us, 1_000);
        world.settle();
    }
    let now = world.now_us;
    world.pool.remove_log(RequestId(1 << 40), 1, now);
    // The spare would do all later requests before this write.
    world.stuck.clear();
    world.settle();
    assert!(world.pool.status().logs.is_empty());
    assert_eq!(world.pool.leaf(GUID), None);
    world.answer_stuck();
    world.settle();
    // The spare stands in for the broken disk of the other mirror.
    assert!(world.pool.leaf(GUID).is_some_and(|leaf| leaf != spare));
    resilvered(&world);
}

#[test]
fn a_spare_takes_over_by_itself_and_the_scrub_is_clean() {
    for (kind, disks) in [
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ] {
        let (mut world, volume, mut model) = filled(kind, disks, 4096);
        world.disks.push(Default::default());
        let spare = LeafSpec::new(100 + disks as u64, DISK);
        world.pool.add_spares(vec![spare]);
        world.checkpoint();
        world.dead.insert(0);
        let bytes = vec![0x5a; 100_000];
        world.write(volume, 4096, &bytes, true);
        model[4096..104_096].copy_from_slice(&bytes);
        world.settle();
        let status = world.pool.status();
        assert!(status.spares.is_empty(), "{status:?}");
        resilvered(&world);
        let scrub = run_scrub(&mut world);
        assert_eq!((scrub.bad, scrub.unrecoverable), (0, 0));
        // The other disk may go as well now, since one may be missing.
        world.dead.insert(1);
        assert!(world.read(volume, 0, SIZE as u32) == model);
    }
}

#[test]
fn a_spare_that_was_taken_out_by_hand_is_not_called_again_after_a_restart() {
    let (mut world, volume, _) = filled(TopLevelKind::Mirror, 2, 4096);
    world.disks.push(Default::default());
    world.pool.add_spares(vec![LeafSpec::new(102, DISK)]);
    world.checkpoint();
    world.dead.insert(1);
    world.absent.insert(1);
    world.write(volume, 0, &[1; 4096], true);
    world.settle();
    let spare = world.pool.leaf(102).expect("it stands in");
    let now = world.now_us;
    world.pool.detach(spare, now).expect("taken out");
    world.settle();
    assert_eq!(world.pool.status().spares, [102]);
    world.crash().expect("opens");
    world.settle();
    assert_eq!(world.pool.status().spares, [102], "it is called again");
    // If the disk is back and breaks once more, a spare is used again.
    world.dead.clear();
    world.absent.clear();
    world.crash().expect("opens");
    world.settle();
    assert!(is_whole(&world), "{:?}", world.pool.status());
    world.dead.insert(1);
    world.write(volume, 0, &[2; 4096], true);
    world.settle();
    assert_eq!(world.pool.status().spares_in_use, [102]);
}

/// Makes a mirror and two spares.
fn with_two_spares() -> (World, DatasetId) {
    let (mut world, volume, _) = filled(TopLevelKind::Mirror, 2, 4096);
    world.disks.resize_with(4, Default::default);
    let spares = [102, 103].map(|guid| LeafSpec::new(guid, DISK));
    world.pool.add_spares(spares);
    world.checkpoint();
    (world, volume)
}

/// Removes a disk, so that the pool notices.
fn lose(world: &mut World, volume: DatasetId, disk: usize) {
    world.dead.insert(disk);
    world.write(volume, 0, &[disk as u8; 8192], true);
    world.settle();
}

/// Returns the guids of the leaves in the slots of the first vdev.
fn slots(world: &World) -> Vec<Vec<u64>> {
    let tops = world.pool.status().top_levels;
    let slots = tops[0].slots.iter();
    slots
        .map(|slot| slot.leaves.iter().map(|leaf| leaf.guid).collect())
        .collect()
}

/// Puts a disk back, and waits until it is rebuilt.
fn bring_back(world: &mut World, disk: usize) {
    world.dead.remove(&disk);
    let leaf = world.pool.leaf(100 + disk as u64).expect("a leaf");
    let now = world.now_us;
    world.pool.online(leaf, now).expect("it is back");
    world.settle();
}

fn detach(world: &mut World, guid: u64) {
    let leaf = world.pool.leaf(guid).expect("a leaf");
    let now = world.now_us;
    world.pool.detach(leaf, now).expect("taken out");
}

/// Replaces a leaf by a new disk, which does nothing yet.
fn replace(world: &mut World, old: u64, disk: usize) {
    let old = world.pool.leaf(old).expect("a leaf");
    let spec = LeafSpec::new(100 + disk as u64, DISK);
    let new = world.pool.replace(old, &spec).expect("it is replaced");
    world.leaves.insert(new.0, disk);
}

/// Returns the available spares, and those in use.
fn spares(world: &World) -> (Vec<u64>, Vec<u64>) {
    let status = world.pool.status();
    (status.spares, status.spares_in_use)
}

#[test]
fn a_spare_whose_device_is_away_is_not_called_before_it_is_back() {
    let (mut world, volume) = with_two_spares();
    world.pool.set_away_spares([102].into());
    lose(&mut world, volume, 0);
    assert_eq!(world.pool.status().spares_in_use, [103]);
    resilvered(&world);
    lose(&mut world, volume, 3);
    assert_eq!(world.pool.status().spares_in_use, [103]);
    let first = world.pool.leaf(100).expect("the first");
    let refused = world.pool.use_spare(first, 102).expect_err("it is away");
    assert_eq!(refused.kind, ShapeErrorKind::Away, "{refused}");
    world.pool.set_away_spares([].into());
    world.settle();
    assert_eq!(world.pool.status().spares_in_use, [102, 103]);
    resilvered(&world);
}

#[test]
fn another_spare_stands_in_where_one_breaks() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    assert_eq!(slots(&world), [vec![100, 102], vec![101]]);
    lose(&mut world, volume, 2);
    assert_eq!(slots(&world), [vec![100, 102, 103], vec![101]]);
    resilvered(&world);
    // When the first disk is back, both spares are available.
    bring_back(&mut world, 0);
    assert_eq!(slots(&world), [[100], [101]]);
    assert_eq!(world.pool.status().spares, [102, 103]);
    assert!(is_whole(&world), "{:?}", world.pool.status());
    let scrub = run_scrub(&mut world);
    assert_eq!((scrub.bad, scrub.unrecoverable), (0, 0));
}

#[test]
fn where_the_broken_one_is_taken_out_the_spare_that_is_well_stays() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    lose(&mut world, volume, 2);
    resilvered(&world);
    detach(&mut world, 100);
    world.settle();
    assert_eq!(slots(&world), [[103], [101]]);
    assert_eq!(spares(&world), (vec![102], vec![]));
    // The new disk breaks, and the other spare stands in for it as for any leaf.
    world.dead.remove(&2);
    lose(&mut world, volume, 3);
    assert_eq!(slots(&world), [vec![103, 102], vec![101]]);
    resilvered(&world);
}

#[test]
fn a_spare_stands_in_where_a_replacement_breaks() {
    let (mut world, volume) = with_two_spares();
    world.pool.set_away_spares([102, 103].into());
    lose(&mut world, volume, 0);
    world.disks.push(Default::default());
    world.dead.insert(4);
    replace(&mut world, 100, 4);
    world.settle();
    assert_eq!(slots(&world), [vec![100, 104], vec![101]]);
    world.pool.set_away_spares([103].into());
    world.settle();
    assert_eq!(slots(&world), [vec![100, 104, 102], vec![101]]);
    resilvered(&world);
    // The replacement is given up, and the spare stays, since it does not take the place for good.
    detach(&mut world, 104);
    world.settle();
    assert_eq!(slots(&world), [vec![100, 102], vec![101]]);
    assert_eq!(world.pool.status().spares_in_use, [102]);
    // The spare also stays when the first disk is replaced beside it, and that is given up. Then
    // the replacement succeeds.
    replace(&mut world, 100, 4);
    world.settle();
    assert_eq!(slots(&world), [vec![100, 102, 104], vec![101]]);
    detach(&mut world, 104);
    world.settle();
    assert_eq!(slots(&world), [vec![100, 102], vec![101]]);
    assert_eq!(world.pool.status().spares_in_use, [102]);
    world.dead.remove(&4);
    replace(&mut world, 100, 4);
    world.settle();
    assert_eq!(slots(&world), [[104], [101]]);
    assert_eq!(world.pool.status().spares, [102, 103]);
    assert!(is_whole(&world), "{:?}", world.pool.status());
}

/// The spare was not needed any more. When the disk breaks once more, it is.
#[test]
fn a_spare_that_was_taken_out_beside_a_disk_that_is_back_is_called_again() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    resilvered(&world);
    world.dead.clear();
    let [first, spare] = [100, 102].map(|guid| world.pool.leaf(guid).expect("a leaf"));
    let now = world.now_us;
    world.pool.online(first, now).expect("it is back");
    world.pool.detach(spare, now).expect("the second has all");
    world.settle();
    assert!(is_whole(&world), "{:?}", world.pool.status());
    lose(&mut world, volume, 0);
    assert_eq!(world.pool.status().spares_in_use, [102]);
}

/// The labels of a spare may be old, of a time when other leaves lacked its data.
#[test]
fn what_a_spare_was_before_is_no_history_of_its_own() {
    let (mut world, volume, _) = filled(TopLevelKind::Mirror, 2, 4096);
    world.disks.push(Default::default());
    world.pool.add_spares(vec![LeafSpec::new(102, DISK)]);
    world.checkpoint();
    lose(&mut world, volume, 1);
    resilvered(&world);
    world.checkpoint();
    // The first disk goes, and the second is back. The spare leaves its slot, and its own labels do
    // not say so.
    lose(&mut world, volume, 2);
    bring_back(&mut world, 1);
    assert_eq!(slots(&world), [[100], [101]]);
    for _ in 0..300 {
        world.advance();
    }
    // The spare is used for the first disk and cannot be reached. It is there when the pool is
    // opened.
    lose(&mut world, volume, 0);
    assert_eq!(slots(&world), [vec![100, 102], vec![101]]);
    world.dead.clear();
    world.absent.insert(0);
    world.crash().expect("the second has all");
    world.settle();
    resilvered(&world);
    let scrub = run_scrub(&mut world);
    assert_eq!((scrub.bad, scrub.unrecoverable), (0, 0));
}

#[test]
fn where_two_spares_stand_in_the_one_that_is_whole_stays() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    resilvered(&world);
    // The first disk goes for a moment. When it is back, the second has not got anything yet.
    lose(&mut world, volume, 2);
    world.dead.insert(3);
    world.write(volume, 0, &[9; 8192], true);
    world.settle();
    bring_back(&mut world, 2);
    assert_eq!(slots(&world), [vec![100, 102, 103], vec![101]]);
    world.dead.remove(&3);
    let second = world.pool.leaf(103).expect("in use");
    let now = world.now_us;
    world.pool.online(second, now).expect("it is back");
    detach(&mut world, 100);
    world.pool.tick(now, 1_000);
    assert_eq!(slots(&world), [[102], [101]]);
    world.settle();
    assert!(is_whole(&world), "{:?}", world.pool.status());
    assert_eq!(spares(&world), (vec![103], vec![]));
}

#[test]
fn where_none_of_two_spares_is_whole_both_stay_until_one_is() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    lose(&mut world, volume, 2);
    lose(&mut world, volume, 3);
    assert_eq!(slots(&world), [vec![100, 102, 103], vec![101]]);
    detach(&mut world, 100);
    world.settle();
    assert_eq!(slots(&world), [vec![102, 103], vec![101]]);
    assert_eq!(world.pool.status().spares_in_use, [102, 103]);
    bring_back(&mut world, 2);
    assert_eq!(slots(&world), [[102], [101]]);
    assert_eq!(spares(&world), (vec![103], vec![]));
}

#[test]
fn a_spare_that_is_not_needed_beside_another_stands_ready() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    lose(&mut world, volume, 2);
    resilvered(&world);
    bring_back(&mut world, 2);
    assert_eq!(slots(&world), [vec![100, 103], vec![101]]);
    assert_eq!(world.pool.status().spares, [102]);
}

#[test]
fn of_two_replacements_the_one_that_was_attached_last_stays() {
    let (mut world, _) = with_two_spares();
    world.disks.resize_with(6, Default::default);
    replace(&mut world, 100, 4);
    replace(&mut world, 104, 5);
    world.settle();
    assert_eq!(slots(&world), [[105], [101]]);
    // A broken leaf does not count.
    world.disks.resize_with(8, Default::default);
    world.dead.insert(7);
    replace(&mut world, 105, 6);
    replace(&mut world, 106, 7);
    world.settle();
    assert_eq!(slots(&world), [[106], [101]]);
    assert!(is_whole(&world), "{:?}", world.pool.status());
}

#[test]
fn a_spare_is_called_for_a_disk_that_was_cleared_after_it_was_taken_out() {
    let (mut world, volume) = with_two_spares();
    let first = world.pool.leaf(100).expect("the first");
    for _ in 0..10 {
        world.pool.observe(&VdevEvent::ChecksumError {
            leaf: first,
            offset: 0,
            len: 4096,
        });
    }
    let now = world.now_us;
    world.pool.tick(now, 1_000);
    assert_eq!(slots(&world), [vec![100, 102], vec![101]]);
    detach(&mut world, 102);
    world.settle();
    assert_eq!(slots(&world), [[100], [101]]);
    world.pool.clear(first).expect("a leaf");
    world.settle();
    lose(&mut world, volume, 0);
    assert_eq!(world.pool.status().spares_in_use.len(), 1);
}

#[test]
fn a_spare_is_removed_only_where_it_stands_ready() {
    let (mut world, volume) = with_two_spares();
    lose(&mut world, volume, 0);
    let refused = world.pool.remove_spare(102).expect_err("it is in use");
    assert_eq!(refused.kind, ShapeErrorKind::InUse, "{refused}");
    world.pool.remove_spare(103).expect("it stands ready");
    let refused = world.pool.remove_spare(103).expect_err("it is none");
    assert_eq!(refused.kind, ShapeErrorKind::NoSuchLeaf, "{refused}");
    assert_eq!(spares(&world), (vec![], vec![102]));
}

/// The spare's labels are old: the leaf that it stood in for may have gone on since.
#[test]
fn a_spare_that_is_alone_tells_that_it_may_be_old() {
    let (mut world, volume) = with_two_spares();
    world.pool.remove_spare(103).expect("it stands ready");
    lose(&mut world, volume, 1);
    resilvered(&world);
    lose(&mut world, volume, 0);
    detach(&mut world, 100);
    world.checkpoint();
    let alone = |world: &mut World| {
        let before = std::mem::replace(&mut world.absent, [0, 1].into());
        let examined = world.examine().expect("labels");
        world.absent = before;
        examined.unaccounted
    };
    assert!(alone(&mut world).is_empty());
    bring_back(&mut world, 1);
    assert_eq!(slots(&world), [[101]]);
    assert_eq!(alone(&mut world), [101]);
}
