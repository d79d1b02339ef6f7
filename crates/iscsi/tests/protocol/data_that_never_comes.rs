//! Test of an initiator that answers pings but never sends the data it owes. Its command keeps its
//! place in the task set, and every ORDERED command of others waits behind it. So its connection is
//! closed.

use iscsi::pdu::RESERVED_TAG;
use iscsi::target::ConnectionError;

use crate::data_out_harness::{Target, command};

#[test]
fn a_connection_that_owes_solicited_data_is_closed_in_the_end() {
    let mut target = Target::new(8192, true, true);
    target.write(8192, 1024, true).unwrap();
    assert_eq!(target.tick(1), None);
    assert_eq!(target.tick(60), None);
    assert_eq!(target.tick(61), Some(ConnectionError::DataOutOverdue));
}

#[test]
fn so_is_one_that_owes_unsolicited_data_while_other_commands_go_on() {
    let mut target = Target::new(8192, false, true);
    target.write(8192, 1024, false).unwrap();
    for second in 1..=60 {
        assert_eq!(target.tick(second), None);
        let mut read = command(0x28, 8192, 0, true);
        read[16..20].copy_from_slice(&(1000 + second as u32).to_be_bytes());
        read[24..28].copy_from_slice(&(1 + second as u32).to_be_bytes());
        target.send(&read, &[]).unwrap();
    }
    assert_eq!(target.tick(61), Some(ConnectionError::DataOutOverdue));
}

#[test]
fn whoever_is_slow_is_waited_for() {
    let mut target = Target::new(4096, false, true);
    target.write(4096, 512, false).unwrap();
    for (sn, offset) in (512..4096).step_by(512).enumerate() {
        let second = sn as u64 * 50;
        assert_eq!(target.tick(second + 1), None);
        assert_eq!(target.tick(second + 49), None);
        let last = offset == 3584;
        target
            .data_out(RESERVED_TAG, sn as u32, offset, 512, last)
            .unwrap();
    }
    assert_eq!(target.residual(), (false, false, 0));
    assert_eq!(target.tick(10_000), None, "nothing is owed");
}
