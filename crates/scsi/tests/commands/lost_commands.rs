//! Tests that a change in effect is carried out to the end, even if the command or its nexus ends.
//! Half of it would leave others with a state that is not stored, not reported, or not true.

use crate::harness::*;
use scsi::{BlockError, Command, Input, Start, Status, Step, Task, TaskAttribute, UnitAttention};

/// Starts a command with data-out whose steps the test takes itself.
fn task(who: &Initiator, cdb: &[u8], data_out_len: usize) -> Box<dyn Task> {
    let command = Command {
        cdb,
        attribute: TaskAttribute::Simple,
        data_out_len: Some(data_out_len as u32),
        data_in_len: 0,
    };
    match who.itls[0].start(&command, who) {
        Start::Task(task) => task,
        other => panic!("not a task: {other:?}"),
    }
}

#[track_caller]
fn ends_well(step: &Step) {
    let Step::Done(response) = step else {
        panic!("it goes on: {step:?}");
    };
    assert_eq!(response.status, Status::Good);
}

/// Starts a MODE SELECT that changes WCE and stores the change.
fn change_of_write_cache(who: &Initiator) -> (Box<dyn Task>, Vec<u8>) {
    let sensed = good(who.run(&[0x1a, 0x08, 0x08, 0, 255, 0], &[]));
    let mut list = [&[0; 4], &sensed[4..]].concat();
    list[4 + 2] ^= 0x04;
    let cdb = [0x15, 0x11, 0, 0, list.len() as u8, 0];
    (task(who, &cdb, list.len()), list)
}

fn wce(who: &Initiator) -> u8 {
    good(who.run(&[0x1a, 0x08, 0x08, 0, 255, 0], &[]))[4 + 2] & 0x04
}

/// Tests the order of a change. An initiator that reads that there is no write cache flushes none.
/// So the cache's content is durable before any initiator hears of the change.
#[test]
fn mode_select_empties_the_write_cache_before_it_says_that_there_is_none() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    let (mut select, list) = change_of_write_cache(&a);
    assert!(!select.outlives_its_command(), "nothing has happened yet");
    let flushing = select.step(Input::Begin { data_out: &list });
    assert!(matches!(flushing, Step::Flush), "{flushing:?}");
    assert!(!select.outlives_its_command(), "nothing has changed yet");
    let unit = a.itls[0].unit();
    assert!(
        !unit.write_cache_enabled(),
        "what is written now may come behind the flush"
    );
    assert_eq!((b.attention(), wce(&b)), (None, 0x04));
    let saving = select.step(Input::Done);
    assert!(matches!(saving, Step::Save { .. }), "{saving:?}");
    assert!(select.outlives_its_command());
    let told = UnitAttention::MODE_PARAMETERS_CHANGED;
    assert_eq!((b.attention(), wce(&b)), (Some(told), 0));
    ends_well(&select.step(Input::Done));
    assert!(!unit.write_cache_enabled());
}

#[test]
fn a_write_cache_that_cannot_be_emptied_stays_on() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    let (mut select, list) = change_of_write_cache(&a);
    let flushing = select.step(Input::Begin { data_out: &list });
    assert!(matches!(flushing, Step::Flush), "{flushing:?}");
    let failed = select.step(Input::Failed(BlockError::Write { lba: None }));
    assert!(matches!(&failed, Step::Done(response) if response.status == Status::CheckCondition));
    assert!(a.itls[0].unit().write_cache_enabled());
    assert_eq!((b.attention(), wce(&b)), (None, 0x04));
}

/// Tests a dropped command, as if the connection went away.
#[test]
fn a_mode_select_that_is_dropped_while_it_empties_the_write_cache_leaves_it_on() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let (mut select, list) = change_of_write_cache(&a);
    drop(select.step(Input::Begin { data_out: &list }));
    drop(select);
    assert!(a.itls[0].unit().write_cache_enabled());
}

#[test]
fn mode_select_that_is_refused_changes_nothing() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let list = [0xff; 12];
    let mut select = task(&a, &[0x15, 0x11, 0, 0, 12, 0], list.len());
    let refused = select.step(Input::Begin { data_out: &list });
    assert!(matches!(refused, Step::Done(_)), "{refused:?}");
    assert!(!select.outlives_its_command());
}

#[test]
fn set_target_port_groups_is_told_to_its_initiator_s_other_sessions() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(1, 2));
    let list = [0, 0, 0, 0, 2, 0, 0, 2];
    let mut set = task(&a, &[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0], list.len());
    assert!(!set.outlives_its_command(), "nothing has happened yet");
    let saving = set.step(Input::Begin { data_out: &list });
    assert!(matches!(saving, Step::Save { .. }), "{saving:?}");
    assert!(set.outlives_its_command());
    ends_well(&set.step(Input::Done));
    let told = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
    assert_eq!(b.attention(), Some(told));
}

/// Tests a cache whose switching on could not be stored. Until then, writes were acknowledged from
/// a cache that was on.
#[test]
fn a_write_cache_whose_switching_on_cannot_be_stored_is_emptied_before_it_is_off_again() {
    let device = Device::new(&[scsi::logical_unit::UnitConfig {
        write_cache: false,
        ..config(1)
    }]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    let (mut select, list) = change_of_write_cache(&a);
    let saving = select.step(Input::Begin { data_out: &list });
    assert!(matches!(saving, Step::Save { .. }), "{saving:?}");
    let told = UnitAttention::MODE_PARAMETERS_CHANGED;
    assert_eq!((b.attention(), wce(&b)), (Some(told), 0x04));
    let flushing = select.step(Input::Failed(BlockError::NoSpace));
    assert!(matches!(flushing, Step::Flush), "{flushing:?}");
    let unit = a.itls[0].unit();
    assert!(!unit.write_cache_enabled() && unit.may_hold_volatile());
    assert_eq!((b.attention(), wce(&b)), (None, 0x04));
    let failed = select.step(Input::Done);
    assert!(matches!(&failed, Step::Done(response) if response.status == Status::CheckCondition));
    assert_eq!((b.attention(), wce(&b)), (Some(told), 0));
    assert!(!unit.may_hold_volatile());
}
