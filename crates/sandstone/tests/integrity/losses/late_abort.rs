//! An initiator that has the tasks of others aborted gets the answer only when they are quiet.
//!
//! That includes the writes of sessions that ended. A device must not let a held write land after
//! the new holder of a reservation was told that nobody else writes.

use std::time::Duration;

use iscsi::pdu::{TaskManagementFunction, TaskManagementResult};
use testing::wait;

use super::fencing::persistent_reserve_out;
use super::kill::settings;
use super::late_write::{BLOCK, with_a_late_write, write_cdb};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const WRITE_EXCLUSIVE: u8 = 1;
const LOST_KEY: u64 = 1;
const OWN_KEY: u64 = 42;

fn reserve_out(session: &mut PipelinedSession, action: u8, key: u64, new_key: u64) {
    let (cdb, list) = persistent_reserve_out(action, WRITE_EXCLUSIVE, key, new_key);
    assert_eq!(session.run(0, cdb, 0, list).status, 0);
}

/// Moves a session's data, and reports whether a command or function was answered.
pub(crate) fn is_answered(session: &mut PipelinedSession) -> bool {
    let mut ended = Vec::new();
    session.pump(&mut ended).unwrap();
    for command in &ended {
        assert_eq!(command.status, 0, "{command:?}");
    }
    let managed = session.take_managed();
    for (_, result) in &managed {
        assert_eq!(*result, TaskManagementResult::Complete);
    }
    !ended.is_empty() || !managed.is_empty()
}

/// Checks that the task begun by `start` is answered after the late write of a lost session, not
/// before.
fn comes_after_the_late_write(start: impl FnOnce(&mut PipelinedSession)) {
    let (device, served, lost, portals) = with_a_late_write(|session| {
        reserve_out(session, 0, 0, LOST_KEY);
        reserve_out(session, 1, LOST_KEY, 0);
    });
    let mut other = PipelinedSession::new(portals[1], settings(1));
    other.log_in();
    other.wait_until_ready(0);
    reserve_out(&mut other, 0, 0, OWN_KEY);
    wait::until("the cut is noticed", || served.sessions() == 1);
    start(&mut other);
    wait::throughout(Duration::from_millis(300), || {
        assert!(
            !is_answered(&mut other),
            "answered while the write is still under way"
        );
    });
    device.let_go();
    while !is_answered(&mut other) {
        wait_for_traffic(std::slice::from_ref(&other));
    }
    // A reset has more to tell.
    other.wait_until_ready(0);
    let mut read = write_cdb();
    read[0] = 0x88;
    let found = other.run(0, read, BLOCK, Vec::new());
    assert!(
        found.data_in == [b'a'; BLOCK],
        "the write lands after the answer: {:?}",
        found.status
    );
    drop(lost);
    other.cut();
    served.stop();
}

#[test]
fn preempt_and_abort_waits_for_writes_of_a_session_that_ended() {
    comes_after_the_late_write(|other| {
        let (cdb, list) = persistent_reserve_out(5, WRITE_EXCLUSIVE, OWN_KEY, LOST_KEY);
        other.write(9, 0, cdb, list);
    });
}

#[test]
fn clear_task_set_waits_for_writes_of_a_session_that_ended() {
    comes_after_the_late_write(|other| {
        other.manage(9, TaskManagementFunction::ClearTaskSet, 0, None);
    });
}

#[test]
fn logical_unit_reset_waits_for_writes_of_a_session_that_ended() {
    comes_after_the_late_write(|other| {
        other.manage(9, TaskManagementFunction::LogicalUnitReset, 0, None);
    });
}

/// Functions that wait for a stuck device are bounded, and answered all the same.
#[test]
fn too_many_functions_are_rejected() {
    const MANY: u64 = 1000;
    let (device, served, lost, portals) = with_a_late_write(|session| {
        reserve_out(session, 0, 0, LOST_KEY);
    });
    let mut other = PipelinedSession::new(portals[1], settings(1));
    other.log_in();
    other.wait_until_ready(0);
    wait::until("the cut is noticed", || served.sessions() == 1);
    let mut managed = Vec::new();
    for cookie in 0..MANY {
        other.manage(cookie, TaskManagementFunction::ClearTaskSet, 0, None);
        let mut ended = Vec::new();
        other.pump(&mut ended).unwrap();
        managed.extend(other.take_managed());
    }
    wait::until("most of them are rejected", || {
        other.pump(&mut Vec::new()).unwrap();
        managed.extend(other.take_managed());
        managed.len() >= 800
    });
    let is_rejected =
        |answer: &&(u64, TaskManagementResult)| answer.1 == TaskManagementResult::Rejected;
    assert_eq!(managed.iter().filter(is_rejected).count(), managed.len());
    device.let_go();
    while (managed.len() as u64) < MANY {
        wait_for_traffic(std::slice::from_ref(&other));
        other.pump(&mut Vec::new()).unwrap();
        managed.extend(other.take_managed());
    }
    // Each is answered once; those that had a place, with success.
    let rejected = managed.iter().filter(is_rejected).count() as u64;
    let complete = managed
        .iter()
        .filter(|answer| answer.1 == TaskManagementResult::Complete);
    assert_eq!(complete.count() as u64, MANY - rejected);
    assert!(rejected < MANY);
    drop(lost);
    other.cut();
    served.stop();
}
