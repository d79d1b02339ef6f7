//! Tests of attack 5: write data that does not fit the announcement. Immediate data exceeds
//! FirstBurstLength or the CDB's length, Data-Out exceeds its burst, or an EDTL is wrong in either
//! direction. Nothing lands outside the command's buffer, and every difference is reported as a
//! residual.

use iscsi::pdu::{
    Ahs, BHS_LENGTH, DataIn, RESERVED_TAG, ReadyToTransfer, ScsiCommand, ScsiResponse,
};

use crate::data_out_harness::{FIRST_BURST, TAKES_NO_DATA, Target, command};

#[test]
fn immediate_data_beyond_first_burst_length_is_refused() {
    let mut target = Target::new(8192, false, true);
    let outcome = target.write(8192, FIRST_BURST as usize + 4, true);
    target.refused(outcome);
}

#[test]
fn immediate_data_beyond_the_expected_length_is_refused() {
    let mut target = Target::new(512, false, true);
    let outcome = target.write(512, 1024, true);
    target.refused(outcome);
}

#[test]
fn immediate_data_that_was_not_negotiated_is_refused() {
    let mut target = Target::new(512, true, false);
    let outcome = target.write(512, 512, true);
    target.refused(outcome);
}

#[test]
fn unsolicited_data_that_was_not_negotiated_is_refused() {
    let mut target = Target::new(1024, true, true);
    let outcome = target.write(1024, 512, false);
    target.refused(outcome);
}

#[test]
fn unsolicited_data_beyond_first_burst_length_is_refused() {
    let mut target = Target::new(8192, false, true);
    target.write(8192, 1024, false).unwrap();
    let outcome = target.data_out(RESERVED_TAG, 0, 1024, FIRST_BURST as usize, true);
    target.refused(outcome);
}

#[test]
fn solicited_data_stays_in_its_burst_and_its_order() {
    type Attempt = fn(&ReadyToTransfer) -> (u32, u32, u32, usize, bool);
    let attempts: [Attempt; 5] = [
        |r2t| {
            (
                r2t.ttt,
                0,
                r2t.buffer_offset,
                r2t.desired_data_transfer_length as usize + 4,
                true,
            )
        },
        |r2t| (r2t.ttt, 0, r2t.buffer_offset + 512, 512, true),
        |r2t| (r2t.ttt ^ 1, 0, r2t.buffer_offset, 512, false),
        |r2t| (RESERVED_TAG, 0, r2t.buffer_offset, 512, false),
        |r2t| (r2t.ttt, 0, u32::MAX - 3, 512, true),
    ];
    for (number, attempt) in attempts.iter().enumerate() {
        let mut target = Target::new(8192, true, true);
        target.write(8192, 1024, true).unwrap();
        let (ttt, sn, offset, len, is_final) = attempt(&target.r2t());
        let outcome = target.data_out(ttt, sn, offset, len, is_final);
        assert!(outcome.is_err(), "attempt {number}");
        target.refused(outcome);
    }
}

#[test]
fn a_burst_that_ends_short_is_no_write() {
    let mut target = Target::new(4096, true, true);
    target.write(4096, 0, true).unwrap();
    let r2t = target.r2t();
    let outcome = target.data_out(r2t.ttt, 0, 0, 512, true);
    assert!(outcome.is_err());
    assert_eq!(target.router.written, Vec::<Vec<u8>>::new());
}

#[test]
fn more_data_than_the_cdb_takes_is_dropped_and_told_as_underflow() {
    let mut target = Target::new(512, false, true);
    target.write(1024, 1024, true).unwrap();
    assert_eq!(target.router.written, [vec![1; 512]]);
    assert_eq!(target.residual(), (false, true, 512));
}

#[test]
fn less_data_than_the_cdb_takes_is_told_as_overflow() {
    let mut target = Target::new(1024, false, true);
    target.write(512, 512, true).unwrap();
    assert_eq!(target.router.written, [vec![1; 512]]);
    assert_eq!(target.residual(), (true, false, 512));
}

#[test]
fn a_read_sends_what_was_expected_and_tells_the_rest() {
    for (edtl, wanted) in [(512, 1024), (1024, 512), (0, 512), (u32::MAX, 512)] {
        let mut target = Target::new(wanted, true, true);
        target.send(&command(0x28, edtl, 0, true), &[]).unwrap();
        let sent: usize = target.sent.iter().map(|(_, data)| data.len()).sum();
        assert_eq!(sent, edtl.min(wanted) as usize);
        let (overflow, underflow, count) = match DataIn::parse(target.last()) {
            Ok(last) => (last.overflow, last.underflow, last.residual_count),
            Err(_) => target.residual(),
        };
        assert_eq!(
            (overflow, underflow),
            (edtl < wanted, edtl > wanted),
            "EDTL {edtl}"
        );
        assert_eq!(count, edtl.abs_diff(wanted));
    }
}

#[test]
fn data_for_a_command_that_has_all_its_data_is_not_written() {
    let mut target = Target::new(512, false, true);
    target.write(512, 512, true).unwrap();
    // The command has ended, so its tag means nothing now, and the late data is dropped.
    target.data_out(RESERVED_TAG, 0, 0, 512, true).unwrap();
    assert_eq!(target.router.written, [vec![1; 512]]);
}

/// Tests RFC 7143 §11.3.1, §11.4.5.1: an initiator announces and sends data by its expected length,
/// not by the CDB. A command that takes no data and is not over yet is no reason to end the
/// connection.
#[test]
fn unsolicited_data_of_a_command_that_takes_none_is_dropped_and_told_as_underflow() {
    let mut target = Target::new(0, false, false);
    target
        .send(&command(TAKES_NO_DATA, 1024, 0, false), &[])
        .unwrap();
    target.data_out(RESERVED_TAG, 0, 0, 512, false).unwrap();
    target.data_out(RESERVED_TAG, 1, 512, 512, true).unwrap();
    assert_eq!(target.sent.len(), 0);
    target.finish();
    assert_eq!(target.residual(), (false, true, 1024));
}

#[test]
fn more_of_it_than_was_announced_is_refused() {
    let announced = |is_final| {
        let mut target = Target::new(0, false, false);
        target
            .send(&command(TAKES_NO_DATA, 1024, 0, is_final), &[])
            .unwrap();
        target
    };
    let mut target = announced(true);
    let outcome = target.data_out(RESERVED_TAG, 0, 0, 512, true);
    target.refused(outcome);
    let mut target = announced(false);
    target.data_out(RESERVED_TAG, 0, 0, 512, true).unwrap();
    let outcome = target.data_out(RESERVED_TAG, 1, 512, 512, true);
    target.refused(outcome);
    let mut target = announced(false);
    let outcome = target.data_out(RESERVED_TAG, 0, 512, 1024, true);
    target.refused(outcome);
    let mut target = announced(false);
    let outcome = target.data_out(5, 0, 0, 512, true);
    target.refused(outcome);
}

/// Tests RFC 7143 §11.4.1, §11.4.6: no command here moves data both ways, so none of the expected
/// read data has come.
#[test]
fn a_command_with_both_r_and_w_is_told_that_nothing_was_read() {
    for opcode in [0x28, 0x2a] {
        let mut target = Target::new(512, false, true);
        let mut ahs = Vec::new();
        assert!(Ahs::BidirectionalReadLength(4096).encode(&mut ahs));
        let immediate = if opcode == 0x2a { 512 } else { 0 };
        let mut bhs = command(opcode, 512, immediate, true);
        let mut pdu = ScsiCommand::parse(&bhs).unwrap();
        (pdu.read, pdu.write) = (true, true);
        pdu.total_ahs_length = (ahs.len() / 4) as u8;
        pdu.encode(&mut bhs);
        let stream = [&bhs[..], &ahs, &vec![1; immediate]].concat();
        target.receive(&stream).unwrap();
        let answer = ScsiResponse::parse(target.last()).unwrap();
        assert_eq!(target.sent.len(), 1, "{opcode:02x}: no Data-In");
        assert_eq!(
            (
                answer.bidirectional_read_overflow,
                answer.bidirectional_read_underflow,
                answer.bidirectional_read_residual_count
            ),
            (false, true, 4096),
            "{opcode:02x}"
        );
        assert_eq!(answer.underflow, opcode == 0x28, "of the write");
    }
    let mut target = Target::new(512, false, true);
    target.write(512, 512, true).unwrap();
    let answer = ScsiResponse::parse(target.last()).unwrap();
    assert!(!answer.bidirectional_read_underflow);
    assert_eq!(answer.bidirectional_read_residual_count, 0);
    assert_eq!(target.last()[40..44], [0; 4], "of {BHS_LENGTH} bytes");
}
