//! Tests of a session with two connections: commands that come before their turn, and their
//! unsolicited data (RFC 7143 §4.2.2.1). The turn of a command comes whether its data is in or not,
//! and at any point of that data.

use iscsi::pdu::{BHS_LENGTH, Bhs, Opcode, RESERVED_TAG, RawBhs};
use iscsi::target::ConnectionError;

use crate::data_out_harness::{FIRST_BURST, Target, command, data_out, numbered};

const LEN: usize = FIRST_BURST as usize;

/// Builds a write of all its data, with `immediate` bytes at once.
fn write(cmd_sn: u32, immediate: usize) -> RawBhs {
    let is_final = immediate == LEN;
    numbered(command(0x2a, FIRST_BURST, immediate, is_final), cmd_sn)
}

/// Builds unsolicited data of the command with this CmdSN.
fn data_of(cmd_sn: u32, sn: u32, offset: usize, len: usize) -> RawBhs {
    let mut bhs = data_out(RESERVED_TAG, sn, offset as u32, len, offset + len == LEN);
    bhs[16..20].copy_from_slice(&(100 + cmd_sn).to_be_bytes());
    bhs
}

/// Sends the command that is due first, on the other connection.
fn due(target: &mut Target) {
    target.change_connection();
    target.send(&write(1, LEN), &[1; LEN]).unwrap();
    target.change_connection();
}

fn responses(target: &Target) -> usize {
    let sent = target.sent.iter();
    sent.filter(|(bhs, _)| Bhs::new(bhs).opcode() == Ok(Opcode::ScsiResponse))
        .count()
}

#[test]
fn the_turn_may_come_at_any_byte_of_the_data() {
    let mut stream = write(2, 512).to_vec();
    stream.extend([2; 512]);
    stream.extend(data_of(2, 0, 512, 1024));
    stream.extend([3; 1024]);
    stream.extend(data_of(2, 1, 1536, LEN - 1536));
    stream.extend([4; LEN - 1536]);
    let data = [&[2; 512][..], &[3; 1024], &[4; LEN - 1536]].concat();
    for at in (0..=stream.len()).step_by(4) {
        let mut target = Target::new(FIRST_BURST, false, true);
        target.receive(&stream[..at]).unwrap();
        due(&mut target);
        target.receive(&stream[at..]).unwrap();
        assert_eq!(responses(&target), 2, "at byte {at}");
        assert!(
            target.router.written == [vec![1; LEN], data.clone()],
            "at byte {at}"
        );
    }
}

#[test]
fn what_comes_behind_does_not_wait_for_the_data_either() {
    let mut target = Target::new(FIRST_BURST, false, true);
    target.send(&write(2, 512), &[2; 512]).unwrap();
    target.send(&write(3, LEN), &[3; LEN]).unwrap();
    due(&mut target);
    assert!(target.router.written == [vec![1; LEN], vec![3; LEN]]);
    target
        .send(&data_of(2, 0, 512, LEN - 512), &[2; LEN - 512])
        .unwrap();
    assert!(target.router.written[2] == [2; LEN]);
    assert_eq!(responses(&target), 3);
}

#[test]
fn what_is_wrong_with_it_ends_the_connection_that_it_came_on() {
    let wrong = [
        ("a gap", data_of(2, 0, 1024, 512)),
        ("a lost PDU", data_of(2, 1, 512, 512)),
        ("too much", data_of(2, 0, 512, LEN)),
    ];
    for (what, bhs) in wrong {
        let mut target = Target::new(FIRST_BURST, false, true);
        target.send(&write(2, 512), &[2; 512]).unwrap();
        let data = vec![2; Bhs::new(&bhs).data_segment_length()];
        let outcome = target.send(&bhs, &data);
        assert!(
            matches!(outcome, Err(ConnectionError::Protocol(_))),
            "{what}"
        );
        target.refused(outcome);
    }
    let mut target = Target::new(FIRST_BURST, true, true);
    let outcome = target.send(&write(2, 512), &[2; 512]);
    target.refused(outcome);
    assert_eq!(target.sent[0].1[..BHS_LENGTH], write(2, 512));
    // The other connection goes on.
    due(&mut target);
    assert!(target.router.written == [vec![1; LEN]]);
}

/// Tests RFC 7143 §7.8: the command ends with a CRC error when its turn and all its data have come.
#[test]
fn early_data_with_a_wrong_digest_spoils_its_command() {
    for due_first in [false, true] {
        let mut target = Target::with_digest(FIRST_BURST, false, true);
        target.send(&write(2, 512), &[2; 512]).unwrap();
        let broken = data_of(2, 0, 512, 1024);
        target.send_broken(&broken, &[3; 1024], 1).unwrap();
        if due_first {
            due(&mut target);
        }
        let rest = vec![4; LEN - 1536];
        target
            .send(&data_of(2, 1, 1536, LEN - 1536), &rest)
            .unwrap();
        if !due_first {
            due(&mut target);
        }
        assert_eq!(target.router.written, [vec![1; LEN]]);
        assert_eq!((target.router.lost, responses(&target)), (1, 2));
        assert_eq!(target.in_flight(), 0);
    }
}
