//! Tests of leaves that come, go, and replace one another.

use pages::Pages;

use super::rig::{Disk, LEAF_SIZE, Rig, block, content, leaves, tree};
use crate::format::{Address, Epoch};
use crate::vdev::*;

fn fill(rig: &mut Rig, count: u64) -> Vec<(Block, Pages)> {
    (0..count)
        .map(|number| {
            let data = content(number, 5);
            let sector = number * 12;
            rig.write(Address::new(0, sector), &data).expect("written");
            (block(sector, &data, 1), data)
        })
        .collect()
}

fn resilver(rig: &mut Rig, leaf: LeafId, blocks: &[(Block, Pages)]) {
    let resilver = rig.array.start_resilver(leaf).expect("online");
    for (block, _) in blocks {
        assert!(resilver.missing.contains(block.birth));
        rig.rebuild(block, leaf).expect("rebuilt");
    }
    rig.flush().expect("flushed");
    let is_complete = rig.with(|array, out| array.finish_resilver(&resilver, out));
    assert!(is_complete.expect("online"));
}

fn expect_all(rig: &mut Rig, blocks: &[(Block, Pages)]) {
    for (block, data) in blocks {
        assert_eq!(rig.read(block).expect("read").to_vec(), data.to_vec());
    }
}

fn kind_of(result: Result<impl std::fmt::Debug, ShapeError>) -> ShapeErrorKind {
    result.expect_err("refused").kind
}

#[test]
fn a_leaf_becomes_a_mirror_and_a_leaf_again() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    let blocks = fill(&mut rig, 10);
    let new = LeafSpec::new(77, LEAF_SIZE);
    let leaf = rig.array.attach(LeafId(0), &new).expect("attached");
    rig.disks.push(Disk::default());
    assert_eq!(
        (rig.top().kind, rig.top().state),
        (TopLevelKind::Mirror, VdevState::Degraded)
    );
    expect_all(&mut rig, &blocks);
    assert_eq!(rig.disks[1].reads, 0, "it has nothing yet");
    // The new leaf is written to from the start, and not to be relied on.
    rig.array.set_epochs(Epoch(2), Epoch(2));
    rig.write(Address::new(0, 500), &content(500, 4))
        .expect("written");
    assert_eq!(rig.disks[1].writes, 1);
    let result = rig.with(|array, out| array.detach(LeafId(0), 0, out));
    assert_eq!(kind_of(result), ShapeErrorKind::NotRedundant);
    resilver(&mut rig, leaf, &blocks);
    assert_eq!(rig.top().state, VdevState::Online);
    rig.with(|array, out| array.detach(LeafId(0), 0, out))
        .expect("detached");
    assert_eq!(
        (rig.top().kind, rig.top().state),
        (TopLevelKind::Leaf, VdevState::Online)
    );
    rig.disks[0] = Disk::default();
    expect_all(&mut rig, &blocks);
    assert_eq!(rig.array.find(77), Some(leaf));
    assert_eq!(rig.array.find(1), None);
}

#[test]
fn a_column_of_a_raidz_is_replaced_while_it_works_and_while_it_is_gone() {
    for is_gone in [false, true] {
        for kind in [SlotKind::Replacing, SlotKind::Spare] {
            let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 4);
            let blocks = fill(&mut rig, 10);
            if is_gone {
                rig.with(|array, out| array.remove(LeafId(2), 0, out))
                    .expect("a leaf");
                rig.disks[2].broken = Some(DeviceErrorKind::Gone);
            }
            let new = LeafSpec::new(77, LEAF_SIZE);
            let leaf = rig.array.replace(LeafId(2), &new, kind).expect("replaced");
            rig.disks.push(Disk::default());
            assert_eq!(rig.top().slots[2].kind, kind);
            assert_eq!(rig.top().state, VdevState::Degraded);
            resilver(&mut rig, leaf, &blocks);
            rig.with(|array, out| array.detach(LeafId(2), 0, out))
                .expect("detached");
            assert_eq!(rig.top().slots[2].kind, SlotKind::Single);
            assert_eq!(rig.top().state, VdevState::Online);
            rig.with(|array, out| array.offline(LeafId(0), 0, out))
                .expect("redundant");
            expect_all(&mut rig, &blocks);
            let result = rig.with(|array, out| array.offline(LeafId(1), 0, out));
            assert_eq!(kind_of(result), ShapeErrorKind::NotRedundant);
        }
    }
}

#[test]
fn a_vdev_tells_when_redundancy_does_not_cover_what_its_leaves_lack() {
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    let blocks = fill(&mut rig, 10);
    let new = LeafSpec::new(77, LEAF_SIZE);
    (rig.array)
        .replace(LeafId(1), &new, SlotKind::Replacing)
        .expect("replaced");
    rig.disks.push(Disk::default());
    rig.with(|array, out| array.remove(LeafId(1), 0, out))
        .expect("a leaf");
    assert!(!rig.top().is_lacking(), "one column is covered");
    rig.with(|array, out| array.remove(LeafId(2), 0, out))
        .expect("a leaf");
    assert!(rig.top().is_lacking());
    assert!(rig.read(&blocks[0].0).is_err());
}

#[test]
fn a_replacement_can_be_undone() {
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    let blocks = fill(&mut rig, 4);
    let new = LeafSpec::new(77, LEAF_SIZE);
    let leaf = rig
        .array
        .replace(LeafId(1), &new, SlotKind::Replacing)
        .expect("replaced");
    rig.disks.push(Disk::default());
    rig.write(Address::new(0, 500), &content(500, 4))
        .expect("written");
    rig.with(|array, out| array.detach(leaf, 0, out))
        .expect("detached");
    assert_eq!(rig.top().state, VdevState::Online);
    expect_all(&mut rig, &blocks);
    // The GUID may be used again.
    rig.array
        .replace(LeafId(1), &new, SlotKind::Replacing)
        .expect("replaced");
}

#[test]
fn an_offline_leaf_misses_the_epochs_it_was_away() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    fill(&mut rig, 3);
    rig.flush().expect("flushed");
    rig.array.set_epochs(Epoch(4), Epoch(4));
    rig.with(|array, out| array.offline(LeafId(0), 0, out))
        .expect("redundant");
    assert_eq!(
        (rig.status(0).state, rig.top().state),
        (VdevState::Offline, VdevState::Degraded)
    );
    let data = content(900, 4);
    rig.array.set_epochs(Epoch(6), Epoch(6));
    rig.write(Address::new(0, 900), &data).expect("written");
    // The labels record it, so that it is known after a restart.
    let tree = rig.array.tree();
    let again = Array::new(&tree, Epoch(7), Limits::default()).expect("a tree");
    let missing = again.missing(LeafId(0)).expect("a leaf");
    assert_eq!(missing.ranges(), [(Epoch(4), Epoch(7))]);
    assert_eq!(
        again.top_levels().next().expect("one").state,
        VdevState::Degraded
    );
    rig.array.set_epochs(Epoch(8), Epoch(8));
    rig.with(|array, out| array.online(LeafId(0), out))
        .expect("online");
    assert_eq!(
        rig.array.missing(LeafId(0)).expect("a leaf").ranges(),
        [(Epoch(4), Epoch(8))]
    );
    rig.disks[0].reads = 0;
    let block = block(900, &data, 6);
    assert_eq!(rig.read(&block).expect("read").to_vec(), data.to_vec());
    assert_eq!(rig.disks[0].reads, 0);
    // As a last resort the leaf is asked, and proves that it does not have the block.
    rig.disks[1].broken = Some(DeviceErrorKind::Failed);
    rig.read(&block).expect_err("only the other leaf has it");
    assert_eq!(rig.disks[0].reads, 1);
    assert_eq!(rig.errors(0).checksum, 0, "nobody expected it there");
}

#[test]
fn a_resilver_that_missed_something_is_not_enough() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    let blocks = fill(&mut rig, 3);
    rig.with(|array, out| array.offline(LeafId(0), 0, out))
        .expect("redundant");
    rig.with(|array, out| array.online(LeafId(0), out))
        .expect("online");
    let first = rig.array.start_resilver(LeafId(0)).expect("online");
    rig.with(|array, out| array.offline(LeafId(0), 0, out))
        .expect("redundant");
    let result = rig.with(|array, out| array.finish_resilver(&first, out));
    assert_eq!(kind_of(result), ShapeErrorKind::Away);
    rig.with(|array, out| array.online(LeafId(0), out))
        .expect("online");
    assert!(
        !rig.with(|array, out| array.finish_resilver(&first, out))
            .expect("online")
    );
    resilver(&mut rig, LeafId(0), &blocks);
}

#[test]
fn vdevs_are_added_and_log_vdevs_removed() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    let log = TopLevelSpec::new(
        TopLevelKind::Leaf,
        Class::Log,
        [LeafSpec::new(50, LEAF_SIZE)],
    );
    assert_eq!(rig.array.add_top_level(&log, Epoch(1)).expect("added"), 1);
    rig.disks.push(Disk::default());
    assert_eq!(
        kind_of(rig.array.add_top_level(&log, Epoch(1))),
        ShapeErrorKind::InUse
    );
    let data = content(1, 2);
    rig.write(Address::new(1, 8), &data).expect("written");
    let result = rig.with(|array, out| array.remove_log(0, 0, out));
    assert_eq!(kind_of(result), ShapeErrorKind::WrongKind);
    rig.with(|array, out| array.remove_log(1, 0, out))
        .expect("a log");
    let error = rig.write(Address::new(1, 8), &data).expect_err("a hole");
    assert_eq!(error.kind, ArrayErrorKind::OutOfRange);
    rig.flush().expect("nothing is lost");
    assert_eq!(rig.array.add_top_level(&log, Epoch(1)).expect("added"), 2);
    let again = Array::new(&rig.array.tree(), Epoch(1), Limits::default()).expect("a tree");
    assert_eq!(again.tree(), rig.array.tree());
}

#[test]
fn a_vdev_grows_when_it_is_told_to() {
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    let before = rig.top().sectors;
    for leaf in 0..3 {
        rig.array
            .resize_leaf(LeafId(leaf), 2 * LEAF_SIZE)
            .expect("larger");
        assert_eq!(rig.top().sectors, before);
    }
    let after = rig.array.grow(0).expect("a vdev");
    assert_eq!(
        (after, rig.top().sectors),
        (before + 3 * (LEAF_SIZE >> 12), after)
    );
    assert_eq!(
        kind_of(rig.array.resize_leaf(LeafId(0), LEAF_SIZE)),
        ShapeErrorKind::TooSmall
    );
    let small = LeafSpec::new(9, LEAF_SIZE);
    let result = rig.array.replace(LeafId(0), &small, SlotKind::Spare);
    assert_eq!(kind_of(result), ShapeErrorKind::TooSmall);
}

/// A file can pretend to be larger than any address reaches.
#[test]
fn a_vdev_grows_no_further_than_addresses_reach() {
    for (kind, leaves) in [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ] {
        let mut rig = Rig::new(kind, leaves);
        for leaf in 0..leaves as u32 {
            rig.array
                .resize_leaf(LeafId(leaf), u64::MAX / 2)
                .expect("larger");
        }
        let after = rig.array.grow(0).expect("a vdev");
        assert!(after <= Address::SECTORS, "{after}");
        assert!(after > Address::SECTORS / 3, "{after}");
        // The tree must be one that can be opened again.
        let again = Array::new(&rig.array.tree(), Epoch(1), Limits::default()).expect("a tree");
        assert_eq!(again.tree(), rig.array.tree());
    }
}

#[test]
fn trees_that_are_none_are_refused() {
    let refused = |kind, count, size| {
        let leaves = (1..=count).map(|guid| LeafSpec::new(guid, size));
        let top = TopLevelSpec::new(kind, Class::Normal, leaves);
        kind_of(Array::new(
            &VdevTree {
                top_levels: vec![top],
            },
            Epoch(0),
            Limits::default(),
        ))
    };
    assert_eq!(
        refused(TopLevelKind::Leaf, 2, LEAF_SIZE),
        ShapeErrorKind::WrongKind
    );
    assert_eq!(
        refused(TopLevelKind::Mirror, 1, LEAF_SIZE),
        ShapeErrorKind::WrongKind
    );
    assert_eq!(
        refused(TopLevelKind::Raidz { parity: 2 }, 2, LEAF_SIZE),
        ShapeErrorKind::WrongKind
    );
    assert_eq!(
        refused(TopLevelKind::Raidz { parity: 4 }, 9, LEAF_SIZE),
        ShapeErrorKind::WrongKind
    );
    assert_eq!(
        refused(TopLevelKind::Raidz { parity: 0 }, 9, LEAF_SIZE),
        ShapeErrorKind::WrongKind
    );
    assert_eq!(
        refused(TopLevelKind::Leaf, 1, 2 << 20),
        ShapeErrorKind::TooSmall
    );
    let mut wide = tree(TopLevelKind::Leaf, 1);
    wide.top_levels[0].leaf_sectors = Some(LEAF_SIZE >> 12);
    let result = Array::new(&wide, Epoch(0), Limits::default());
    assert_eq!(kind_of(result), ShapeErrorKind::TooSmall);
    let mut twice = tree(TopLevelKind::Mirror, 2);
    twice.top_levels[0].slots[1].leaves = leaves(1).collect();
    assert_eq!(
        kind_of(Array::new(&twice, Epoch(0), Limits::default())),
        ShapeErrorKind::InUse
    );
}

#[test]
fn a_lone_leaf_that_is_away_misses_what_the_one_that_joined_it_took() {
    for kind in [SlotKind::Replacing, SlotKind::Spare] {
        let mut rig = Rig::new(TopLevelKind::Leaf, 1);
        let mut blocks = fill(&mut rig, 10);
        rig.flush().expect("flushed");
        rig.with(|array, out| array.remove(LeafId(0), 0, out))
            .expect("a leaf");
        assert!(rig.array.missing(LeafId(0)).expect("a leaf").is_empty());
        let new = LeafSpec::new(77, LEAF_SIZE);
        let leaf = rig.array.replace(LeafId(0), &new, kind).expect("replaced");
        rig.disks.push(Disk::default());
        let data = content(500, 4);
        rig.write(Address::new(0, 500), &data).expect("written");
        blocks.push((block(500, &data, 1), data));
        // The labels say this if the power fails now.
        let missing = rig.array.missing(LeafId(0)).expect("a leaf");
        assert_eq!(missing.ranges(), [(Epoch(1), Epoch(1))]);
        rig.with(|array, out| array.online(LeafId(0), out))
            .expect("it is back");
        assert!(rig.status(0).is_incomplete);
        let result = rig.with(|array, out| array.detach(leaf, 0, out));
        assert_eq!(kind_of(result), ShapeErrorKind::NotRedundant);
        expect_all(&mut rig, &blocks);
    }
}

#[test]
fn what_is_rebuilt_is_written_however_much_is_written_elsewhere_meanwhile() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    let blocks = fill(&mut rig, 3);
    let new = LeafSpec::new(77, LEAF_SIZE);
    let leaf = rig.array.attach(LeafId(0), &new).expect("attached");
    rig.disks.push(Disk::default());
    let resilver = rig.array.start_resilver(leaf).expect("online");
    rig.disks[0].mute = true;
    let rebuilds: Vec<u64> = blocks
        .iter()
        .map(|(block, _)| {
            let block = block.clone();
            rig.ask(|array, tag, now_us, out| array.rebuild_block(tag, block, leaf, now_us, out))
        })
        .collect();
    // There are more writes than are remembered. One of them is at the place of a block, which is
    // another block from then on.
    let other = content(99, 5);
    let writes: Vec<u64> = (0..10_000_u64)
        .map(|number| match number {
            0 => rig.start_write(Address::new(0, 12), &other),
            _ => rig.start_write(Address::new(0, 100 + number % 1000), &content(number, 1)),
        })
        .collect();
    rig.disks[0].mute = false;
    rig.run();
    for tag in writes {
        rig.written(tag).expect("written");
    }
    for tag in rebuilds {
        match rig.done.remove(&tag) {
            Some(ArrayDone::Rebuilt(result)) => result.expect("rebuilt"),
            told => panic!("{told:?}"),
        }
    }
    rig.flush().expect("flushed");
    let is_complete = rig.with(|array, out| array.finish_resilver(&resilver, out));
    assert!(is_complete.expect("online"));
    rig.with(|array, out| array.detach(LeafId(0), 0, out))
        .expect("detached");
    rig.disks[0] = Disk::default();
    expect_all(&mut rig, &[blocks[0].clone(), blocks[2].clone()]);
    expect_all(&mut rig, &[(block(12, &other, 1), other)]);
}
