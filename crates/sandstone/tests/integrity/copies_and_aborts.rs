//! Writes of a copy are under way at the destination unit, although the command is at another unit.
//!
//! An initiator that has the destination's tasks aborted gets the answer only when these writes
//! have landed.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use block::memory::MemoryDevice;
use iscsi::pdu::TaskManagementFunction;
use testing::wait;

use crate::changes::changed_maps::copy;
use crate::losses::fencing::persistent_reserve_out;
use crate::losses::kill::settings;
use crate::losses::late_abort::is_answered;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const GOOD: u8 = 0x00;
/// THIRD PARTY DEVICE FAILURE: the destination refuses.
const DEVICE_FAILURE: (u8, u8) = (0x0d, 0x01);
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const PREEMPT_AND_ABORT: u8 = 5;
const WRITE_EXCLUSIVE: u8 = 1;
const COPIERS_KEY: u64 = 1;
const OWN_KEY: u64 = 42;
const COPY: u64 = 7;

fn reserve_out(session: &mut PipelinedSession, action: u8, key: u64, new_key: u64) {
    let (cdb, list) = persistent_reserve_out(action, WRITE_EXCLUSIVE, key, new_key);
    assert_eq!(session.run(1, cdb, 0, list).status, GOOD);
}

/// Checks that the task begun by `start` at the destination of a copy is answered after the block
/// under way.
///
/// Returns the sense with which the copy of two blocks ended.
fn comes_after_the_block(start: impl FnOnce(&mut PipelinedSession)) -> Option<(u8, u8)> {
    let portal = free_portal();
    let source = Arc::new(MemoryDevice::new(8 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap());
    let destination = Arc::new(FirstWriteWaits::new());
    let units = [0, 1].map(|lun| unit(lun, 8, BLOCK as u32, true)).to_vec();
    let devices: Vec<Arc<dyn BlockDevice>> = vec![source, destination.clone()];
    let served = Served::start(&[portal], units, devices, limits());
    let [mut copier, mut other] = [0, 1].map(|number| {
        let mut session = PipelinedSession::new(portal, settings(number));
        session.log_in();
        session.wait_until_ready(0);
        session.wait_until_ready(1);
        session
    });
    let (mut all, data) = (write_cdb(), vec![b's'; 8 * BLOCK]);
    all[13] = 8;
    assert_eq!(copier.run(0, all, 0, data).status, GOOD);
    reserve_out(&mut copier, REGISTER, 0, COPIERS_KEY);
    reserve_out(&mut copier, RESERVE, COPIERS_KEY, 0);
    reserve_out(&mut other, REGISTER, 0, OWN_KEY);
    let (cdb, list) = copy(2);
    copier.write(COPY, 0, cdb, list);
    copier.pump(&mut Vec::new()).unwrap();
    destination.wait_until_held();
    start(&mut other);
    wait::throughout(Duration::from_millis(300), || {
        assert!(
            !is_answered(&mut other),
            "answered while the block is still under way"
        );
    });
    destination.let_go();
    while !is_answered(&mut other) {
        wait_for_traffic(std::slice::from_ref(&other));
    }
    // A reset has more to tell.
    other.wait_until_ready(1);
    let mut read = write_cdb();
    read[0] = 0x88;
    let found = other.run(1, read, BLOCK, Vec::new());
    assert!(
        found.data_in == [b's'; BLOCK],
        "the block lands after the answer"
    );
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(&copier));
        copier.pump(&mut ended).unwrap();
    }
    assert_eq!(ended[0].cookie, COPY);
    copier.cut();
    other.cut();
    served.stop();
    ended[0].asc()
}

#[test]
fn preempt_and_abort_waits_for_what_a_copy_writes() {
    let ended = comes_after_the_block(|other| {
        let (cdb, list) =
            persistent_reserve_out(PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, OWN_KEY, COPIERS_KEY);
        other.write(9, 1, cdb, list);
    });
    assert_eq!(ended, Some(DEVICE_FAILURE), "and then it is fenced");
}

#[test]
fn logical_unit_reset_waits_for_what_a_copy_writes() {
    let ended = comes_after_the_block(|other| {
        other.manage(9, TaskManagementFunction::LogicalUnitReset, 1, None);
    });
    assert_eq!(ended, None, "it goes on: its task is another unit's");
}

#[test]
fn clear_task_set_waits_for_what_a_copy_writes() {
    let ended = comes_after_the_block(|other| {
        other.manage(9, TaskManagementFunction::ClearTaskSet, 1, None);
    });
    assert_eq!(ended, None, "it goes on: its task is another unit's");
}
