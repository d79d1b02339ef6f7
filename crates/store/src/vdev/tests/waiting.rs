//! Tests of devices that are slow or do not answer at all.

use super::rig::{Disk, LEAF_SIZE, Rig, block, content};
use crate::format::Address;
use crate::vdev::*;

const SECOND: u64 = 1_000_000;

#[test]
fn a_slow_copy_is_overtaken_by_another() {
    for (kind, count) in [
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ] {
        let mut rig = Rig::new(kind, count);
        let data = content(1, 8);
        rig.write(Address::new(0, 0), &data).expect("written");
        let block = block(0, &data, 1);
        for leaf in 0..count as usize {
            rig.disks[leaf].mute = true;
            let tag = rig.start_read(&block);
            rig.run();
            assert_eq!(rig.done.contains_key(&tag), rig.pending.is_empty());
            if rig.pending.is_empty() {
                rig.was_read(tag).expect("the other leaf was asked");
            } else {
                rig.pass(SECOND - 100);
                assert!(!rig.done.contains_key(&tag));
                rig.pass(100);
                rig.run();
                assert_eq!(rig.was_read(tag).expect("read").to_vec(), data.to_vec());
                assert!(rig.events.contains(&VdevEvent::Slow {
                    leaf: LeafId(leaf as u32)
                }));
            }
            rig.disks[leaf].mute = false;
            rig.run();
        }
        assert_eq!(rig.top().state, VdevState::Online, "slow is not broken");
    }
}

/// A label is asked of its own leaf only, and a block's read beside it is not late yet.
#[test]
fn a_slow_label_makes_no_other_read_slow() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    let data = content(1, 8);
    rig.write(Address::new(0, 0), &data).expect("written");
    rig.disks.iter_mut().for_each(|disk| disk.mute = true);
    rig.ask(|array, tag, now_us, out| array.read_leaf(tag, LeafId(0), 0, 4096, now_us, out));
    rig.pass(SECOND / 2);
    rig.start_read(&block(0, &data, 1));
    rig.pass(SECOND / 2);
    assert!(rig.events.contains(&VdevEvent::Slow { leaf: LeafId(0) }));
    assert_eq!(rig.pending.len(), 2);
    rig.pass(SECOND / 2);
    assert_eq!(rig.pending.len(), 3, "the block is late, too");
}

/// Blocks of a device that is let go are on the device that replaces it. So a read that waits only
/// for the old device is still answered. Without a checksum the new device was not asked, since it
/// did not have all blocks yet. With a checksum it was asked, but too early.
#[test]
fn who_waits_for_a_leaf_that_is_replaced_is_answered_by_the_new_one() {
    for is_proven in [false, true] {
        let mut rig = Rig::new(TopLevelKind::Leaf, 1);
        let data = content(1, 8);
        rig.write(Address::new(0, 0), &data).expect("written");
        let proven = block(0, &data, 1);
        let block = match is_proven {
            true => proven,
            false => Block {
                verify: Verify::None,
                ..proven
            },
        };
        let new = LeafSpec::new(77, LEAF_SIZE);
        let replaced = rig.array.replace(LeafId(0), &new, SlotKind::Replacing);
        let leaf = replaced.expect("replaced");
        rig.disks.push(Disk::default());
        let resilver = rig.array.start_resilver(leaf).expect("online");
        // The old device loses the answer to this read, and answers all others.
        rig.disks[0].mute = true;
        let tag = rig.start_read(&block);
        rig.pass(SECOND);
        rig.run();
        assert!(!rig.done.contains_key(&tag));
        assert_eq!(rig.disks[1].reads > 0, is_proven);
        let lost = std::mem::take(&mut rig.pending);
        rig.disks[0].mute = false;
        rig.rebuild(&block, leaf).expect("rebuilt");
        rig.flush().expect("flushed");
        rig.pending.extend(lost);
        rig.disks[0].mute = true;
        let is_complete = rig.with(|array, out| array.finish_resilver(&resilver, out));
        assert!(is_complete.expect("online"));
        rig.with(|array, out| array.detach(LeafId(0), SECOND, out))
            .expect("the new one has all");
        rig.run();
        assert_eq!(rig.was_read(tag).expect("read").to_vec(), data.to_vec());
        assert_eq!(rig.top().unreadable, 0);
    }
}

#[test]
fn a_device_that_never_answers_is_given_up_and_its_late_answer_changes_nothing() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    rig.disks[1].mute = true;
    let data = content(1, 8);
    let tag = rig.start_write(Address::new(0, 0), &data);
    rig.run();
    rig.pass(30 * SECOND - 100);
    assert!(!rig.done.contains_key(&tag));
    rig.pass(SECOND);
    rig.written(tag).expect("the other leaf holds it");
    // The device failed nothing: it is away, not broken.
    assert_eq!(rig.status(1).state, VdevState::Removed);
    // The device may still write, so it cannot come back before it has answered.
    let busy = rig
        .with(|array, out| array.online(LeafId(1), out))
        .expect_err("busy");
    assert_eq!(busy.kind, ShapeErrorKind::Busy);
    rig.disks[1].mute = false;
    rig.run();
    assert!(rig.done.is_empty());
    rig.with(|array, out| array.online(LeafId(1), out))
        .expect("online");
    assert!(rig.status(1).is_incomplete);
    // The late write did arrive, but nobody relies on it before the leaf is rebuilt.
    rig.disks[1].reads = 0;
    let block = block(0, &data, 1);
    assert_eq!(rig.read(&block).expect("read").to_vec(), data.to_vec());
    assert_eq!(rig.disks[1].reads, 0);
    let resilver = rig.array.start_resilver(LeafId(1)).expect("online");
    rig.rebuild(&block, LeafId(1)).expect("rebuilt");
    assert!(
        rig.with(|array, out| array.finish_resilver(&resilver, out))
            .expect("online")
    );
    assert_eq!(rig.top().state, VdevState::Online);
}

#[test]
fn a_lone_device_that_hangs_refuses_and_comes_back() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    let data = content(1, 4);
    rig.write(Address::new(0, 0), &data).expect("written");
    rig.disks[0].mute = true;
    let waiting: Vec<u64> = (0..100)
        .map(|at| rig.start_write(Address::new(0, 100 + at * 8), &data))
        .collect();
    rig.pass(31 * SECOND);
    for tag in waiting {
        let error = rig.written(tag).expect_err("not written");
        assert_eq!(
            error.source.expect("a device's").kind,
            DeviceErrorKind::TimedOut
        );
    }
    assert_eq!(rig.status(0).state, VdevState::Unavailable);
    let block = block(0, &data, 1);
    assert_eq!(
        rig.read(&block).expect_err("hangs").kind,
        ArrayErrorKind::Unavailable
    );
    assert_eq!(rig.flush().expect_err("hangs").kind, ArrayErrorKind::Device);
    rig.disks[0].mute = false;
    rig.run();
    assert_eq!(rig.status(0).state, VdevState::Online);
    assert_eq!(rig.read(&block).expect("read").to_vec(), data.to_vec());
    rig.flush().expect("flushed");
}
