//! A pool whose labels say which host has it: which records are written, and when the pool stops.

use super::super::activity::{Pace, Protection, Stop};
use super::super::*;
use super::world::{World, read, write};
use crate::format::activity::ACTIVITY_OFFSET;
use crate::format::{Activity, ActivityState, DatasetId, PoolKey, SECTOR_SIZE, Who};
use crate::vdev::layout::label_offset;
use crate::vdev::{DeviceError, DeviceErrorKind, DeviceOp, TopLevelKind, VdevState};

const SECOND: u64 = 1_000_000;

fn who(name: &str) -> Who {
    Who {
        host: format!("{name}/1"),
        boot: 7,
    }
}

/// Makes a protected pool with a volume.
fn world(kind: TopLevelKind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("v", 1 << 20, 4096);
    let protection = Protection::fresh(who("here"), 11, Pace::default());
    world.pool.protect(protection, true, world.now_us);
    let now_us = world.now_us;
    world.pass_until(now_us + SECOND);
    (world, volume)
}

fn key(world: &World) -> PoolKey {
    world.pool.config().key()
}

fn place(copy: u64) -> u64 {
    label_offset(copy, super::world::DISK).expect("a label") + ACTIVITY_OFFSET as u64
}

fn records(world: &World, disk: usize) -> Vec<Option<Activity>> {
    let record = |copy| {
        let sector = read(&world.disks[disk], place(copy), SECTOR_SIZE);
        Activity::decode(&sector, key(world))
    };
    (0..4).map(record).collect()
}

fn write_request(dataset: DatasetId) -> Request {
    Request::Write {
        dataset,
        offset: 0,
        data: pages::Pages::zeroes(4096),
        durable: true,
    }
}

/// Writes another host's claim over all copies of all disks.
fn claim(world: &mut World) {
    let record = Activity {
        state: ActivityState::Claimed,
        who: who("there"),
        opening: 12,
        turn: 2,
        sequence: 1,
        interval_us: SECOND,
        promise_us: 5 * SECOND,
    };
    let sector = record.encode(key(world));
    for disk in &mut world.disks {
        (0..4).for_each(|copy| write(disk, place(copy), &sector));
    }
}

#[test]
fn every_leaf_gets_a_record_in_each_interval_one_label_after_the_other() {
    let (mut world, _) = world(TopLevelKind::Mirror, 2);
    let now_us = world.now_us;
    world.pass_until(now_us + 5 * SECOND);
    for disk in 0..2 {
        let all: Vec<Activity> = records(&world, disk).into_iter().flatten().collect();
        assert_eq!(all.len(), 4, "all labels of disk {disk} have one");
        for record in &all {
            assert_eq!(record.state, ActivityState::Open);
            assert_eq!((record.opening, record.who.clone()), (11, who("here")));
            assert_eq!(
                (record.interval_us, record.promise_us),
                (SECOND, 5 * SECOND)
            );
        }
    }
    let records = world.pool.protected().expect("it is").records;
    assert!(
        (12..=16).contains(&records),
        "about one a second on each: {records}"
    );
}

#[test]
fn a_machine_that_was_paused_acknowledges_nothing_when_it_wakes() {
    let (mut world, volume) = world(TopLevelKind::Mirror, 2);
    world.begin(write_request(volume));
    // The disks have done the write by the time that the machine wakes.
    world.now_us += 6 * SECOND;
    let now_us = world.now_us;
    let answers = world.pass_until(now_us + SECOND);
    assert!(answers.is_empty(), "{answers:?}");
    assert!(matches!(world.pool.stopped(), Some(Stop::Silent(_))));
    let why = world.pool.suspended_because().expect("it says why");
    assert!(
        why.contains("another host may have taken the pool"),
        "{why}"
    );
    // The pool also returns no data, and asks the disks for nothing more.
    world.begin(Request::Read {
        dataset: volume,
        offset: 0,
        len: 4096,
    });
    let output = world.pool.take_output();
    assert!(
        output.answers.is_empty() && output.requests.is_empty(),
        "{output:?}"
    );
    assert_eq!(world.pool.deadline_us(), None);
}

#[test]
fn a_record_of_another_host_stops_the_pool_with_who_that_is() {
    let (mut world, volume) = world(TopLevelKind::Leaf, 1);
    claim(&mut world);
    let now_us = world.now_us;
    world.pass_until(now_us + 2 * SECOND);
    let Some(Stop::Other(by)) = world.pool.stopped() else {
        panic!("{:?}", world.pool.stopped());
    };
    assert_eq!(by.who, who("there"));
    world.begin(write_request(volume));
    assert!(world.pool.take_output().answers.is_empty());
    // The claim was not overwritten.
    let openings = records(&world, 0)
        .into_iter()
        .flatten()
        .map(|of| of.opening);
    assert_eq!(openings.collect::<Vec<u64>>(), [12; 4]);
}

#[test]
fn a_leaf_that_takes_no_record_is_given_up_and_the_pool_goes_on_where_it_can() {
    let (mut world, volume) = world(TopLevelKind::Mirror, 2);
    world.stuck.insert(1);
    let now_us = world.now_us;
    world.pass_until(now_us + 7 * SECOND);
    assert_eq!(world.pool.stopped(), None);
    let status = world.pool.status();
    let leaves = &status.top_levels[0].slots;
    assert_eq!(leaves[1].leaves[0].state, VdevState::Removed, "it is away");
    let id = world.begin(write_request(volume));
    let now_us = world.now_us;
    let answers = world.pass_until(now_us + SECOND);
    assert!(
        answers
            .iter()
            .any(|(of, result)| *of == id && result.is_ok())
    );
    // Without the other disk the pool cannot continue.
    world.stuck.insert(0);
    let now_us = world.now_us;
    world.pass_until(now_us + 7 * SECOND);
    assert!(matches!(world.pool.stopped(), Some(Stop::Silent(_))));
}

#[test]
fn a_pool_that_is_let_go_says_so_last_of_all_and_writes_nothing_after_it() {
    let (mut world, volume) = world(TopLevelKind::Mirror, 2);
    world.begin(write_request(volume));
    let now_us = world.now_us;
    world.pass_until(now_us + SECOND);
    let now_us = world.now_us;
    world.pool.begin_closing(true, now_us);
    world.pass_until(now_us + SECOND);
    assert!(world.pool.is_settled());
    for disk in 0..2 {
        let all: Vec<Activity> = records(&world, disk).into_iter().flatten().collect();
        assert!(all.len() == 4 && all.iter().all(|of| of.state == ActivityState::Closed));
    }
    let before = world.disks.clone();
    let now_us = world.now_us;
    world.pass_until(now_us + 100 * SECOND);
    assert!(
        world.disks == before,
        "another host may have taken the pool"
    );
}

#[test]
fn protection_that_is_switched_off_leaves_records_that_are_closed() {
    let (mut world, volume) = world(TopLevelKind::Leaf, 1);
    let now_us = world.now_us;
    world.pool.unprotect(now_us);
    world.pass_until(now_us + SECOND);
    assert_eq!(world.pool.protected(), None);
    assert!(
        records(&world, 0)
            .into_iter()
            .flatten()
            .all(|of| of.state == ActivityState::Closed)
    );
    // The unprotected pool continues, however long it is paused.
    world.now_us += 100 * SECOND;
    world.write(volume, 0, &[1; 4096], true);
}

#[test]
fn a_disk_that_is_reserved_for_another_host_stops_the_pool_and_is_not_blamed() {
    let (mut world, volume) = world(TopLevelKind::Mirror, 2);
    world.stuck.insert(0);
    world.begin(write_request(volume));
    let now_us = world.now_us;
    world.pass_until(now_us + SECOND / 2);
    let mut asked = world.unanswered.iter();
    let write = asked.find(|asked| matches!(asked.op, DeviceOp::Write { .. }));
    let io = write.expect("both copies are written").io;
    let refused = DeviceError::new(DeviceErrorKind::Reserved, "WRITE");
    world.pool.completed(io, Err(refused), world.now_us);
    let output = world.pool.take_output();
    assert!(
        output.answers.is_empty() && output.requests.is_empty(),
        "{output:?}"
    );
    assert!(matches!(world.pool.stopped(), Some(Stop::Reserved(_))));
    let why = world.pool.suspended_because().expect("it says why");
    assert!(why.contains("reserved a device of the pool"), "{why}");
    let leaf = world.pool.status().top_levels[0].slots[0].leaves[0].clone();
    assert_eq!((leaf.state, leaf.errors.write), (VdevState::Online, 0));
}
