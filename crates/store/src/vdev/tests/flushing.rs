//! Tests of the promise of a flush, and of the losses of a failed one.

use super::rig::{Rig, block, content, leaves, tree};
use crate::format::{Address, Epoch};
use crate::vdev::*;

fn write(rig: &mut Rig, sector: u64) {
    let data = content(sector, 4);
    rig.write(Address::new(0, sector), &data).expect("written");
}

#[test]
fn only_leaves_that_were_written_to_are_flushed_and_one_flush_serves_all_who_wait() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    rig.flush().expect("nothing to do");
    assert!(rig.disks.iter().all(|disk| disk.flushes == 0));
    write(&mut rig, 0);
    let tags: Vec<u64> = (0..10).map(|_| rig.start_flush()).collect();
    rig.run();
    for tag in tags {
        rig.flushed(tag).expect("flushed");
    }
    for disk in &rig.disks {
        // The first flush was under way already. The others shared one.
        assert_eq!(disk.flushes, 1);
    }
    rig.flush().expect("nothing to do");
    assert!(rig.disks.iter().all(|disk| disk.flushes == 1));
}

#[test]
fn a_write_done_after_a_flush_began_needs_another() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    write(&mut rig, 0);
    rig.disks[0].mute = true;
    let first = rig.start_flush();
    let flush = rig.pending.pop().expect("a flush");
    rig.disks[0].mute = false;
    write(&mut rig, 8);
    let second = rig.start_flush();
    assert!(rig.pending.is_empty(), "it waits for the first");
    rig.pending.push(flush);
    rig.step();
    rig.flushed(first).expect("flushed");
    assert!(!rig.done.contains_key(&second));
    rig.run();
    rig.flushed(second).expect("flushed");
    assert_eq!(rig.disks[0].flushes, 2);
}

#[test]
fn a_lost_flush_stays_lost_whatever_is_cleared() {
    let mut rig = Rig::new(TopLevelKind::Leaf, 1);
    write(&mut rig, 0);
    rig.disks[0].fail_flushes = true;
    assert_eq!(rig.flush().expect_err("lost").kind, ArrayErrorKind::Lost);
    assert!(rig.events.contains(&VdevEvent::Lost { vdev: 0 }));
    rig.disks[0].fail_flushes = false;
    // As after Linux's fsync, the next flush would succeed, and means nothing.
    assert_eq!(rig.flush().expect_err("lost").kind, ArrayErrorKind::Lost);
    write(&mut rig, 8);
    assert_eq!(rig.flush().expect_err("lost").kind, ArrayErrorKind::Lost);
    assert!(rig.top().is_lossy);
    rig.array.clear(LeafId(0)).expect("a leaf");
    assert_eq!(rig.errors(0), ErrorCounts::default());
    write(&mut rig, 16);
    // A caller that was told that the first write is written was not told that it is lost.
    assert_eq!(rig.flush().expect_err("lost").kind, ArrayErrorKind::Lost);
    assert_eq!(rig.top().state, VdevState::Degraded);
}

#[test]
fn a_log_vdev_that_lost_writes_flushes_again_when_it_is_cleared() {
    let log = TopLevelSpec::new(TopLevelKind::Leaf, Class::Log, leaves(2).skip(1));
    let mut tree = tree(TopLevelKind::Leaf, 1);
    tree.top_levels.push(log);
    let mut rig = Rig::of(&tree, 1, Limits::default());
    let data = content(1, 1);
    let record = vec![(Address::new(1, 0), data)];
    let tag = rig.ask(|array, tag, now_us, out| {
        array.write(tag, record, Priority::SyncWrite, now_us, out);
    });
    rig.run();
    rig.written(tag).expect("written");
    rig.disks[1].fail_flushes = true;
    let flush = |rig: &mut Rig| {
        let tag = rig.ask(|array, tag, now_us, out| array.flush_log(tag, 1, now_us, out));
        rig.run();
        rig.flushed(tag)
    };
    assert_eq!(
        flush(&mut rig).expect_err("lost").kind,
        ArrayErrorKind::Lost
    );
    rig.disks[1].fail_flushes = false;
    assert_eq!(
        flush(&mut rig).expect_err("lost").kind,
        ArrayErrorKind::Lost
    );
    rig.array.clear(LeafId(1)).expect("a leaf");
    flush(&mut rig).expect("flushed");
}

#[test]
fn a_leaf_that_fails_a_flush_is_faulted_and_misses_what_it_lost() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    write(&mut rig, 0);
    rig.flush().expect("flushed");
    rig.array.set_epochs(Epoch(5), Epoch(5));
    write(&mut rig, 8);
    rig.array.set_epochs(Epoch(9), Epoch(9));
    rig.disks[1].fail_flushes = true;
    rig.flush().expect("the other leaf has it");
    assert_eq!(
        (rig.status(1).state, rig.errors(1).write),
        (VdevState::Faulted, 1)
    );
    assert_eq!(rig.top().state, VdevState::Degraded);
    let missing = rig.array.missing(LeafId(1)).expect("a leaf");
    assert_eq!(missing.ranges(), [(Epoch(5), Epoch(9))]);
    // The leaf's own flush is no success, whatever the others hold.
    let tag = rig.ask(|array, tag, now_us, out| {
        array.write_leaf(tag, LeafId(1), 0, content(1, 1), now_us, out);
    });
    rig.run();
    rig.written(tag)
        .expect("labels are written to faulted leaves too");
    let tag = rig.ask(|array, tag, now_us, out| array.flush_leaf(tag, LeafId(1), now_us, out));
    rig.run();
    assert_eq!(
        rig.flushed(tag).expect_err("failed").kind,
        ArrayErrorKind::Device
    );
    // The second leaf to fail is one too many.
    write(&mut rig, 16);
    rig.disks[0].fail_flushes = true;
    assert_eq!(rig.flush().expect_err("lost").kind, ArrayErrorKind::Lost);
    assert_eq!(
        rig.status(0).state,
        VdevState::Online,
        "the last one is not given up"
    );
}

#[test]
fn a_lone_device_that_goes_with_unflushed_writes_has_lost_them() {
    for is_dirty in [false, true] {
        let mut rig = Rig::new(TopLevelKind::Leaf, 1);
        let data = content(0, 4);
        write(&mut rig, 0);
        if !is_dirty {
            rig.flush().expect("flushed");
        }
        rig.disks[0].broken = Some(DeviceErrorKind::Gone);
        rig.read(&block(0, &data, 1)).expect_err("gone");
        assert_eq!(rig.status(0).state, VdevState::Removed);
        rig.disks[0].broken = None;
        rig.with(|array, out| array.online(LeafId(0), out))
            .expect("back");
        assert_eq!(
            rig.read(&block(0, &data, 1)).expect("read").to_vec(),
            data.to_vec()
        );
        assert_eq!(rig.flush().is_err(), is_dirty);
    }
}

#[test]
fn a_failed_write_is_never_ok_and_loses_nothing_else() {
    let mut rig = Rig::new(TopLevelKind::Raidz { parity: 1 }, 3);
    let data = content(0, 4);
    write(&mut rig, 0);
    rig.flush().expect("flushed");
    rig.disks[0].fail_writes = true;
    write(&mut rig, 20);
    assert_eq!(rig.status(0).state, VdevState::Faulted);
    rig.disks[1].fail_writes = true;
    let error = rig
        .write(Address::new(0, 40), &data)
        .expect_err("two of three failed");
    assert_eq!(error.kind, ArrayErrorKind::Device);
    assert_eq!(
        rig.status(1).state,
        VdevState::Online,
        "still needed for reading"
    );
    assert_eq!(
        rig.read(&block(0, &data, 1)).expect("read").to_vec(),
        data.to_vec()
    );
}

#[test]
fn labels_of_leaves_put_aside_fail_alone_and_at_once() {
    let mut rig = Rig::new(TopLevelKind::Mirror, 2);
    rig.with(|array, out| array.offline(LeafId(1), 0, out))
        .expect("redundant");
    let label = |rig: &mut Rig| {
        let tag = rig.ask(|array, tag, now_us, out| {
            array.write_leaf(tag, LeafId(1), 0, content(1, 1), now_us, out);
        });
        rig.run();
        rig.written(tag).expect("written");
    };
    label(&mut rig);
    rig.disks[1].mute = true;
    let tag = rig.ask(|array, tag, now_us, out| array.flush_leaf(tag, LeafId(1), now_us, out));
    rig.with(|array, out| array.remove(LeafId(1), 0, out))
        .expect("a leaf");
    assert_eq!(
        rig.flushed(tag).expect_err("removed").kind,
        ArrayErrorKind::Device
    );
    rig.disks[1].mute = false;
    rig.run();
    // The other leaf lacks writes as well. Still no block depends on these labels.
    rig.with(|array, out| array.online(LeafId(1), out))
        .expect("online");
    rig.with(|array, out| array.offline(LeafId(1), 0, out))
        .expect("redundant");
    rig.with(|array, out| array.remove(LeafId(0), 0, out))
        .expect("a leaf");
    label(&mut rig);
    rig.disks[1].fail_flushes = true;
    let tag = rig.ask(|array, tag, now_us, out| array.flush_leaf(tag, LeafId(1), now_us, out));
    rig.run();
    rig.flushed(tag).expect_err("failed");
    assert!(!rig.top().is_lossy);
}
