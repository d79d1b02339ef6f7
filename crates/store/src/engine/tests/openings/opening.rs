//! Opens pools whose devices are damaged, old or away. If redundancy allows it, a pool opens with
//! all acknowledged data; otherwise the error says why not.

use crate::catalog::request::TakeSnapshots;
use crate::engine::config::PoolConfig;
use crate::engine::tests::world::{DISK, World, read, write};
use crate::engine::{Limits, OpenErrorKind, Plan, Request};
use crate::format::label::LABEL_SIZE;
use crate::format::{DatasetId, Epoch, Label, SECTOR_SIZE};
use crate::vdev::layout;
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};
use pages::Pages;

const BLOCK: usize = 4096;

/// Makes a pool with a volume whose first block is durable, and lies only in the log.
fn written(kind: TopLevelKind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    world.checkpoint();
    world.write(volume, 0, &[1; BLOCK], true);
    (world, volume)
}

#[test]
fn one_unreadable_copy_of_where_the_log_ends_does_not_keep_a_mirror_closed() {
    for bad in 0..2 {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        let end = world.end_of_log();
        world.unreadable.insert((bad, end));
        world
            .reopen()
            .expect("the other copy tells that nothing is there");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
        world.write(volume, 0, &[2; BLOCK], true);
        world.reopen().expect("opens");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
    }
}

/// The power failed while roots were written. Two copies are enough to follow a root, but one of
/// them may be lost next. Blocks that only older roots lead to are overwritten from now on.
#[test]
fn a_root_that_is_followed_is_brought_into_all_labels() {
    let (mut world, _) = written(TopLevelKind::Mirror, 2);
    world.checkpoint();
    let epoch = keep_newest_root(&mut world, &[(0, 2), (1, 2)]);
    world.reopen_unchecked().expect("two copies are enough");
    let roots = world.examine().expect("labels").roots;
    assert_eq!((roots[0].root.epoch, roots[0].copies), (epoch, 8));
}

/// Keeps the newest root in some labels only, each given as a disk and the number of a copy.
/// Returns the root's epoch.
fn keep_newest_root(world: &mut World, kept: &[(usize, u64)]) -> Epoch {
    let epoch = world.pool.persisted.epoch;
    for disk in 0..world.disks.len() {
        for copy in (0..4).filter(|copy| !kept.contains(&(disk, *copy))) {
            let label = layout::label_offset(copy, DISK).expect("a leaf");
            let at = label + Label::slot_offset(epoch.0);
            let empty = Pages::zeroes(SECTOR_SIZE as u32);
            write(&mut world.disks[disk], at, &empty);
        }
    }
    epoch
}

/// The given-up root leads to space that is free from now on. Its other copies may lie on a leaf
/// that could not be read this time.
#[test]
fn a_newer_root_that_is_given_up_is_in_no_label_any_more() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    world.checkpoint();
    let given_up = keep_newest_root(&mut world, &[(1, 0)]);
    world.reopen_unchecked().expect("opens at the one before");
    let label = layout::label_offset(0, DISK).expect("a leaf");
    let at = label + Label::slot_offset(given_up.0);
    assert_eq!(
        read(&world.disks[1], at, SECTOR_SIZE).to_vec(),
        [0; SECTOR_SIZE]
    );
    let roots = world.examine().expect("labels").roots;
    assert!(
        roots[0].root.epoch < given_up && roots[0].copies == 8,
        "{roots:?}"
    );
    assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
}

#[test]
fn a_root_of_an_epoch_that_a_leaf_missed_is_not_believed_of_it() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    world.checkpoint();
    keep_newest_root(&mut world, &[(1, 0), (1, 2)]);
    // All leaves that are here have the root then.
    world.absent.insert(0);
    let given_up = world.examine().expect("labels").roots.remove(0).root;
    world.absent = [1].into();
    world
        .reopen_unchecked()
        .expect("opens at the one before, without it");
    world.write(volume, 0, &[2; BLOCK], true);
    world.absent.clear();
    let roots = world.examine().expect("labels").roots;
    let is_believed = roots.iter().any(|candidate| candidate.root == given_up);
    assert!(!is_believed, "{given_up:?} {roots:?}");
    world.reopen().expect("opens");
    assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
}

/// A write failed once and was done again. The only leaf missed an epoch, but no other leaf knows
/// better.
#[test]
fn the_newest_root_of_the_only_leaf_is_believed_whatever_that_missed() {
    let (mut world, volume) = written(TopLevelKind::Leaf, 1);
    world.checkpoint();
    let newest = world.pool.persisted.epoch;
    for copy in 0..4 {
        let at = layout::label_offset(copy, DISK).expect("a leaf");
        let old = read(&world.disks[0], at, LABEL_SIZE);
        let mut label = Label::read(&old).expect("a label");
        let mut config = PoolConfig::decode(&label.config).expect("a configuration");
        config.tree.top_levels[0].slots[0].leaves[0]
            .missing
            .add_since(newest);
        label.config = config.encode();
        write(&mut world.disks[0], at, &Pages::from_bytes(&label.encode()));
    }
    let roots = world.examine().expect("labels").roots;
    assert_eq!((roots[0].root.epoch, roots[0].copies), (newest, 4));
    assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
}

#[test]
fn where_no_copy_can_be_read_the_end_of_the_log_is_not_guessed() {
    for (kind, disks) in [(TopLevelKind::Leaf, 1), (TopLevelKind::Mirror, 2)] {
        let (mut world, _) = written(kind, disks);
        let end = world.end_of_log();
        world.unreadable.extend((0..disks).map(|disk| (disk, end)));
        let error = world.reopen().expect_err("it may have been acknowledged");
        assert_eq!(error.kind, OpenErrorKind::Damaged, "{error}");
        assert!(error.context.contains("the end of the log"), "{error}");
    }
}

/// The second leaf was offline, so a record lies on the first only. No other leaf can say that
/// there is no record.
#[test]
fn a_leaf_that_missed_the_record_does_not_say_that_there_is_none() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    let second = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.offline(second, now).expect("the first has all");
    world.checkpoint();
    let only_copy = world.end_of_log();
    world.write(volume, 0, &[2; BLOCK], true);
    let now = world.now_us;
    // The leaf is back, and not rebuilt yet: the labels say what it misses.
    world.pool.online(second, now).expect("comes back");
    world.unreadable.insert((0, only_copy));
    let error = world
        .reopen_now()
        .expect_err("an acknowledged write lies there");
    assert!(error.context.contains("the end of the log"), "{error}");
    world.unreadable.clear();
    world.reopen_now().expect("opens");
    assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
}

/// Two records fit. One is of a group that was cut, since its data was torn. The other was written
/// over it, and had reached only one leaf when the power failed again.
#[test]
fn of_two_records_that_fit_the_one_that_was_followed_is_brought_to_all_leaves() {
    for stale in 0..2 {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        world.is_lazy = true;
        // Moves to a place where the second leaf is read first. A comparison reads all leaves in
        // order.
        while world.pool.commit.chain.next.sector() / 256 % 2 == 0 {
            world.write(volume, BLOCK as u64, &[5; 8 * BLOCK], true);
        }
        let place = world.end_of_log();
        let before = world.disks.clone();
        world.write(volume, 0, &[2; BLOCK], true);
        let cut = world.disks[stale][&place].clone();
        world.disks = before;
        world.reopen_unchecked().expect("opens");
        // Nobody was told that this write is durable.
        world.write(volume, 0, &[3; BLOCK], true);
        world.disks[stale].insert(place, cut);
        world.reopen_unchecked().expect("opens");
        let found = world.read(volume, 0, BLOCK as u32);
        assert!(found == [1; BLOCK] || found == [3; BLOCK], "{}", found[0]);
        world.write(volume, BLOCK as u64, &[4; BLOCK], true);
        world
            .reopen_now()
            .expect("what was found is there for good");
        assert!(world.read(volume, 0, BLOCK as u32) == found, "{stale}");
        assert_eq!(world.read(volume, BLOCK as u64, BLOCK as u32), [4; BLOCK]);
    }
}

/// Given-up groups stay given up, even if a leaf that confirmed an opening's mark still has the old
/// record.
#[test]
fn of_a_mark_and_another_record_the_mark_is_followed() {
    for stale in 0..2 {
        for is_written in [false, true] {
            let (mut world, volume) = written(TopLevelKind::Mirror, 2);
            world.is_lazy = true;
            let place = world.end_of_log();
            let before = world.disks.clone();
            world.write(volume, 0, &[2; BLOCK], true);
            let given_up = std::mem::replace(&mut world.disks, before);
            world.reopen_unchecked().expect("opens");
            if is_written {
                world.write(volume, BLOCK as u64, &[3; BLOCK], true);
            }
            // These are the record and, if nothing was written over it, its block.
            for (at, sector) in &given_up[stale] {
                let is_block = *at > place && !world.disks[stale].contains_key(at);
                if *at == place || is_block {
                    world.disks[stale].insert(*at, sector.clone());
                    let other = &mut world.disks[1 - stale];
                    if is_block {
                        other.insert(*at, sector.clone());
                    }
                }
            }
            world.reopen_now().expect("opens");
            assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK], "{stale}");
            let second = if is_written { [3; BLOCK] } else { [0; BLOCK] };
            assert_eq!(world.read(volume, BLOCK as u64, BLOCK as u32), second);
        }
    }
}

/// An initiator repeats unanswered requests after a power cut. So the pool may write the same
/// record again, though the records after it were given up meanwhile.
#[test]
fn a_group_that_is_written_once_more_is_not_continued_by_what_followed_it_before() {
    let (mut world, volume) = written(TopLevelKind::Leaf, 1);
    world.is_lazy = true;
    world.reopen_unchecked().expect("opens");
    let (before, mut second) = (world.disks.clone(), 0);
    let (offset, data) = (BLOCK as u64, Pages::from_bytes(&[3; BLOCK]));
    let dataset = volume;
    let clear = Request::Clear {
        dataset,
        offset: 0,
        len: BLOCK as u64,
        durable: false,
    };
    let write = Request::Write {
        dataset,
        offset,
        data,
        durable: false,
    };
    for request in [clear.clone(), write] {
        second = world.end_of_log();
        world.ask(request).expect("a change");
        while world.end_of_log() == second {
            world.now_us += 1000;
            world.pool.tick(world.now_us, 1_000);
        }
    }
    while !world.is_at_rest() {
        world.do_one();
    }
    // When the power failed, the second group had reached the disk, but not the first group and the
    // labels.
    let after = std::mem::replace(&mut world.disks, before);
    let sectors = after[0].range(second..second + 2);
    world.disks[0].extend(sectors.map(|(at, sector)| (*at, sector.clone())));
    world.reopen_unchecked().expect("opens");
    assert_eq!(world.read(volume, 0, BLOCK as u32)[0], 1);
    let end = world.end_of_log();
    world.ask(clear).expect("the same once more");
    while world.end_of_log() == end || !world.is_at_rest() {
        world.do_one();
    }
    world.reopen_now().expect("opens");
    assert_eq!(world.read(volume, 0, BLOCK as u32)[0], 0);
    let found = world.read(volume, offset, BLOCK as u32)[0];
    assert_eq!(found, 0, "nobody wrote that again");
}

/// Two openings that find the same end write the same mark. If the first mark was lost, the second
/// opening gives up the groups written after it. So they do not follow the second mark.
#[test]
fn what_lies_behind_a_mark_that_was_lost_does_not_lie_behind_the_next_one() {
    for (kind, disks) in [(TopLevelKind::Leaf, 1), (TopLevelKind::Mirror, 2)] {
        let (mut world, volume) = written(kind, disks);
        world.is_lazy = true;
        let (place, before) = (world.end_of_log(), world.disks.clone());
        world.reopen_unchecked().expect("opens");
        let (behind, marked) = (world.end_of_log(), world.disks.clone());
        world.write(volume, 0, &[2; BLOCK], true);
        // The power fails before a root leads there. One disk says that it has the mark, and the
        // other cannot read it.
        let after = std::mem::replace(&mut world.disks, marked);
        for (disk, after) in world.disks.iter_mut().zip(after) {
            let sectors = after.range(behind..behind + 2);
            disk.extend(sectors.map(|(at, sector)| (*at, sector.clone())));
        }
        world.disks[0].remove(&place);
        world.disks[0].extend(
            before[0]
                .get_key_value(&place)
                .map(|(at, old)| (*at, old.clone())),
        );
        if disks > 1 {
            world.unreadable.insert((1, place));
        }
        for opening in 0..3 {
            let opened = world.reopen_unchecked();
            if disks == 1 {
                // The only disk lost a write that it had confirmed, and a promised group after it
                // is still there.
                let kind = opened.expect_err("a promise that is broken").kind;
                assert_eq!(kind, OpenErrorKind::LogDamaged, "opening {opening}");
                continue;
            }
            opened.expect("opens");
            let found = world.read(volume, 0, BLOCK as u32)[0];
            assert_eq!(found, 1, "{kind:?}: opening {opening}");
        }
    }
}

fn is_complete(world: &World, disk: u64) -> bool {
    let mut tops = world.pool.status().top_levels.into_iter();
    tops.any(|top| {
        let mut leaves = top.slots.into_iter().flat_map(|slot| slot.leaves);
        leaves.any(|leaf| leaf.guid == 100 + disk && !leaf.is_incomplete)
    })
}

/// Each request is waited for only until it is answered: the power fails at the moment of the
/// acknowledgement.
#[test]
fn what_was_acknowledged_without_a_leaf_is_known_to_be_missing_there() {
    for torn in [None, Some(0), Some(1)] {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        world.is_lazy = true;
        world.dead.insert(1);
        let place = world.end_of_log();
        world.write(volume, 0, &[2; BLOCK], true);
        // The other leaf is back when the pool is opened again.
        world.dead.clear();
        if let Some(round) = torn {
            world.tear_labels(0, round);
        }
        world.unreadable.insert((0, place));
        let error = world.reopen_now();
        let error = error.expect_err("the only copy of an acknowledged write cannot be read");
        assert!(error.context.contains("the end of the log"), "{error}");
        world.unreadable.clear();
        world.absent.insert(0);
        // Alone it knows nothing of changes that the other leaf took without it, and the opening
        // says so.
        let examined = world.examine().expect("a pool");
        assert_eq!(examined.unaccounted, [100]);
    }
}

#[test]
fn a_leaf_that_comes_back_after_a_power_cut_gets_what_it_missed() {
    for torn in [None, Some(0), Some(1)] {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        world.is_lazy = true;
        world.dead.insert(1);
        world.write(volume, 0, &[2; BLOCK], true);
        world.dead.clear();
        if let Some(round) = torn {
            world.tear_labels(0, round);
        }
        world.reopen_unchecked().expect("opens");
        assert!(!is_complete(&world, 1), "{torn:?}");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
        world.settle();
        assert!(is_complete(&world, 1), "{:?}", world.pool.status());
        world.dead.insert(0);
        world.pool.cache.invalidate_volume(volume.0.into());
        assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
    }
}

/// The test covers any moment of the checkpoint that follows the loss of a leaf, with either round
/// of labels torn.
#[test]
fn a_torn_configuration_beside_a_whole_root_makes_no_leaf_complete() {
    for steps in 0..60 {
        for round in 0..2 {
            let (mut world, volume) = written(TopLevelKind::Mirror, 2);
            world.is_lazy = true;
            world.dead.insert(1);
            world.write(volume, 0, &[2; BLOCK], true);
            world.begin_checkpoint(steps);
            world.dead.clear();
            world.tear_labels(0, round);
            world.reopen_unchecked().expect("opens");
            assert!(!is_complete(&world, 1), "{steps}, {round}");
            assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
        }
    }
}

/// Epochs pass without new labels while a leaf is away, since each snapshot begins an epoch.
#[test]
fn a_leaf_that_was_away_misses_also_the_epochs_that_no_label_names() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    let second = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.removed(second, now).expect("it is gone");
    world.settle();
    world.is_lazy = true;
    for name in ["a@1", "a@2"] {
        let request = TakeSnapshots {
            names: vec![name.to_owned()],
            ..TakeSnapshots::default()
        };
        let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
        world.administer(plan).expect("a snapshot");
    }
    let place = world.end_of_log();
    world.write(volume, 0, &[2; BLOCK], true);
    world.unreadable.insert((0, place));
    let error = world.reopen_now().expect_err("only the first had it");
    assert!(error.context.contains("the end of the log"), "{error}");
    world.unreadable.clear();
    world.reopen_unchecked().expect("opens");
    assert!(!is_complete(&world, 1));
    world.settle();
    assert!(is_complete(&world, 1));
    world.dead.insert(0);
    world.pool.cache.invalidate_volume(volume.0.into());
    assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
}

/// The record is of a later epoch than the one before: a checkpoint or snapshot lies between.
#[test]
fn a_leaf_that_missed_a_later_epoch_does_not_say_where_the_log_ends() {
    for steps in 0..40 {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        world.is_lazy = true;
        world.begin_checkpoint(steps);
        let request = TakeSnapshots {
            names: vec!["a@1".to_owned()],
            ..TakeSnapshots::default()
        };
        let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
        world.administer(plan).expect("a snapshot");
        world.dead.insert(1);
        let place = world.end_of_log();
        world.write(volume, 0, &[2; BLOCK], true);
        world.dead.clear();
        world.unreadable.insert((0, place));
        let error = world.reopen_now().expect_err("only the first has it");
        assert!(error.context.contains("the end of the log"), "{error}");
        world.unreadable.clear();
        world.reopen_unchecked().expect("opens");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [2; BLOCK]);
    }
}

#[test]
fn a_record_that_is_misread_once_is_found() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    world.checkpoint();
    let place = world.end_of_log();
    world.write(volume, 0, &[1; BLOCK], true);
    for misread in [place, place + 1] {
        world.misread.insert((0, misread));
        world.reopen_now().expect("opens");
        assert!(world.misread.is_empty(), "the record, or its block");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
    }
}

/// A group that was being written when the power failed is on only one leaf, where it cannot be
/// read.
#[test]
fn what_one_opening_did_not_find_the_next_one_does_not_find() {
    for whole in 0..2 {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        world.is_lazy = true;
        let (place, before) = (world.end_of_log(), world.disks.clone());
        world.write(volume, 0, &[2; BLOCK], true);
        world.disks[1 - whole].clone_from(&before[1 - whole]);
        world.unreadable.insert((whole, place));
        world
            .reopen_unchecked()
            .expect("the other one tells the end");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
        world.reopen_unchecked().expect("opens");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK], "{whole}");
    }
}

/// The record of a group that never became whole is on one leaf, since the power failed during its
/// write. A record written over it on that leaf is lost.
#[test]
fn a_record_of_a_past_that_was_given_up_leads_away_from_nothing_that_was_acknowledged() {
    for liar in 0..2 {
        let (mut world, volume) = written(TopLevelKind::Mirror, 2);
        world.is_lazy = true;
        let (place, before) = (world.end_of_log(), world.disks.clone());
        world.write(volume, 0, &[2; BLOCK], true);
        let old = world.disks[liar][&place].clone();
        world.disks = before;
        world.disks[liar].insert(place, old.clone());
        world.reopen_unchecked().expect("opens");
        assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
        for number in 3..6 {
            world.disks[liar].insert(place, old.clone());
            world.write(volume, 0, &[number; BLOCK], true);
            world.disks[liar].insert(place, old.clone());
            world.reopen_unchecked().expect("opens");
            assert_eq!(
                world.read(volume, 0, BLOCK as u32),
                [number; BLOCK],
                "{liar}"
            );
        }
    }
}

/// Acknowledged data may lie on the new vdev, since its labels and those of the others know it by
/// then.
#[test]
fn what_was_acknowledged_on_a_new_vdev_is_found() {
    for torn in [None, Some(0), Some(1)] {
        let (mut world, volume) = written(TopLevelKind::Leaf, 1);
        world.is_lazy = true;
        world.disks.push(Default::default());
        let leaf = LeafSpec::new(101, DISK);
        let top = TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf]);
        world.pool.add(&top).expect("a vdev");
        world.leaves.insert(1, 1);
        for block in 0..40 {
            world.write(volume, block * BLOCK as u64, &[9; BLOCK], true);
        }
        if let Some(round) = torn {
            world.tear_labels(0, round);
            world.tear_labels(1, round);
        }
        world.reopen_now().expect("opens");
        for block in 0..40 {
            let found = world.read(volume, block * BLOCK as u64, BLOCK as u32);
            assert_eq!(found, [9; BLOCK], "{block}");
        }
    }
}

#[test]
fn labels_of_the_other_vdevs_know_which_leaf_was_lost() {
    let leaf = |number: u64| LeafSpec::new(100 + number, DISK);
    let mirror = |first| {
        TopLevelSpec::new(
            TopLevelKind::Mirror,
            Class::Normal,
            [leaf(first), leaf(first + 1)],
        )
    };
    let tree = VdevTree {
        top_levels: vec![mirror(0), mirror(2)],
    };
    let mut world = World::of_tree(tree, 4, DISK, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    world.checkpoint();
    world.is_lazy = true;
    world.dead.insert(1);
    for block in 0..40 {
        world.write(volume, block * BLOCK as u64, &[2; BLOCK], true);
    }
    world.dead.clear();
    // The leaf that has everything is away, and the leaf that lacks data is back.
    world.absent.insert(0);
    let error = world
        .reopen_now()
        .expect_err("what was acknowledged is away");
    assert_eq!(error.kind, OpenErrorKind::Missing, "{error}");
    assert!(world.examine().expect("a pool").unaccounted.is_empty());
    world.absent.clear();
    world.reopen_unchecked().expect("opens");
    for block in 0..40 {
        assert_eq!(
            world.read(volume, block * BLOCK as u64, BLOCK as u32),
            [2; BLOCK]
        );
    }
}

#[test]
fn a_leaf_away_that_may_have_gone_on_alone_is_told() {
    for (kind, disks, expected) in [
        (TopLevelKind::Mirror, 2, &[100][..]),
        (TopLevelKind::Mirror, 3, &[100]),
        (TopLevelKind::Raidz { parity: 1 }, 3, &[]),
        (TopLevelKind::Raidz { parity: 2 }, 4, &[]),
    ] {
        let (mut world, _) = written(kind, disks);
        world.absent.insert(0);
        assert_eq!(
            world.examine().expect("a pool").unaccounted,
            expected,
            "{kind:?}"
        );
        world.absent.clear();
        assert!(world.examine().expect("a pool").unaccounted.is_empty());
    }
}

/// The test first uses one leaf of a mirror alone, then the other.
#[test]
fn leaves_that_went_on_without_each_other_are_not_joined() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    world.dead.insert(1);
    world.write(volume, 0, &[2; BLOCK], true);
    world.checkpoint();
    world.dead.clear();
    world.absent.insert(0);
    world.reopen_now().expect("the other one alone");
    assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
    world.write(volume, 0, &[3; BLOCK], true);
    world.checkpoint();
    world.absent.clear();
    world.dead.clear();
    let error = world
        .reopen_now()
        .expect_err("both have what the other lacks");
    assert_eq!(error.kind, OpenErrorKind::Parted, "{error}");
    for (away, expected) in [(1, 2), (0, 3)] {
        let mut alone = world.clone_disks();
        alone.absent.insert(away);
        alone.reopen_now().expect("each alone is a pool");
        assert_eq!(alone.read(volume, 0, BLOCK as u32), [expected; BLOCK]);
    }
}

/// A leaf that was detached while away still has its labels, with a checkpoint that was given up.
#[test]
fn a_leaf_that_was_detached_while_it_was_away_is_not_believed() {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let volume = world.create_volume("v", 1 << 20, 4096);
    world.write(volume, 0, &[1; 4096], true);
    world.checkpoint();
    // The power fails when only the first leaf has the next checkpoint.
    let before = world.disks[1].clone();
    world.write(volume, 0, &[2; 4096], false);
    world.checkpoint();
    let given_up = world.pool.persisted.epoch;
    world.disks[1] = before;
    world.absent.insert(0);
    world.crash().expect("opens without the first");
    let leaf = world.pool.leaf(100).expect("the first");
    let now = world.now_us;
    world.pool.detach(leaf, now).expect("the second has all");
    world.write(volume, 0, &[3; 4096], true);
    while world.pool.persisted.epoch < given_up {
        assert!(world.do_one(), "no checkpoint");
    }
    assert_eq!(world.pool.persisted.epoch, given_up);
    world.absent.clear();
    world.dead.clear();
    world.crash().expect("opens");
    assert_eq!(world.read(volume, 0, 4096), [3; 4096]);
}
