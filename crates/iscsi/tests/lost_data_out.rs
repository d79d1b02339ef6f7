//! Write data that was lost on its way: a DataSN out of order, a wrong data digest. Nothing of the
//! command is written; the rest of its data is taken in before it ends with a CRC error, and the
//! connection lives on (RFC 7143 §7.8, §7.9, §11.4.7.2).

#![allow(clippy::unwrap_used)]

mod data_out_harness;

use iscsi::pdu::{Bhs, Opcode, RESERVED_TAG, Reject, RejectReason, ScsiResponse};

use data_out_harness::{Target, command, data_out};

impl Target {
    /// The command ended with ABORTED COMMAND, PROTOCOL SERVICE CRC ERROR and wrote nothing.
    #[track_caller]
    fn lost(&self) {
        let (bhs, data) = self.sent.last().unwrap();
        assert_eq!(ScsiResponse::parse(bhs).unwrap().status, 2);
        assert_eq!((data[4] & 0x0f, data[14], data[15]), (0x0b, 0x47, 0x05));
        assert_eq!(self.router.written, Vec::<Vec<u8>>::new());
        assert_eq!(self.router.lost, 1);
    }

    /// The last PDU sent is a Reject for a data digest error that carries `header`.
    #[track_caller]
    fn rejected(&self, header: &[u8]) {
        let (bhs, data) = self.sent.last().unwrap();
        assert_eq!(
            Reject::parse(bhs).unwrap().reason,
            RejectReason::DataDigestError
        );
        assert_eq!(data, header);
    }
}

#[test]
fn a_repeated_data_sn_is_lost_data() {
    let mut target = Target::new(1024, false, false);
    target.write(1024, 0, false).unwrap();
    target.data_out(RESERVED_TAG, 0, 0, 512, false).unwrap();
    target.data_out(RESERVED_TAG, 0, 512, 512, true).unwrap();
    target.lost();
}

#[test]
fn a_data_sn_of_the_future_or_the_past_is_lost_data() {
    for sn in [1, 27, u32::MAX] {
        let mut target = Target::new(512, true, false);
        target.write(512, 0, true).unwrap();
        let ttt = target.r2t().ttt;
        target.data_out(ttt, sn, 0, 512, true).unwrap();
        target.lost();
    }
}

#[test]
fn all_that_is_due_is_taken_in_before_the_answer() {
    let mut target = Target::new(1024, true, false);
    target.write(1024, 0, true).unwrap();
    let ttt = target.r2t().ttt;
    let sent = target.sent.len();
    target.data_out(ttt, 1, 0, 512, false).unwrap();
    assert_eq!(target.sent.len(), sent, "answered before the final PDU");
    target.data_out(ttt, 0, 512, 512, true).unwrap();
    target.lost();
}

#[test]
fn no_more_is_asked_for_once_data_is_lost() {
    // MaxBurstLength is 8192: the second half would need another R2T.
    let mut target = Target::new(16384, true, false);
    target.write(16384, 0, true).unwrap();
    let ttt = target.r2t().ttt;
    target.data_out(ttt, 5, 0, 8192, true).unwrap();
    target.lost();
}

#[test]
fn a_wrong_digest_of_a_data_out_is_rejected_and_the_command_ends_with_a_crc_error() {
    let mut target = Target::with_digest(1024, true, false);
    target.write(1024, 0, true).unwrap();
    let ttt = target.r2t().ttt;
    let first = data_out(ttt, 0, 0, 512, false);
    target.send_broken(&first, &[2; 512], 1).unwrap();
    target.rejected(&first);
    target.data_out(ttt, 1, 512, 512, true).unwrap();
    target.lost();
}

#[test]
fn a_wrong_digest_of_immediate_data_waits_for_the_unsolicited_rest() {
    let mut target = Target::with_digest(1024, false, true);
    let header = command(0x2a, 1024, 512, false);
    target.send_broken(&header, &[1; 512], 1 << 31).unwrap();
    target.rejected(&header);
    target.data_out(RESERVED_TAG, 0, 512, 512, true).unwrap();
    target.lost();
}

#[test]
fn whole_data_with_right_digests_is_written() {
    let mut target = Target::with_digest(1024, false, true);
    target.write(1024, 512, false).unwrap();
    target.data_out(RESERVED_TAG, 0, 512, 512, true).unwrap();
    assert_eq!(Bhs::new(target.last()).opcode(), Ok(Opcode::ScsiResponse));
    assert_eq!(target.router.lost, 0);
    assert_eq!(target.router.written, [[[1; 512], [2; 512]].concat()]);
}
