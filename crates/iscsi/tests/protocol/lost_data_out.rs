//! Tests of PDUs that were lost on their way: a DataSN out of order, a wrong digest. Nothing of a
//! command that lost a Data-Out is written. The rest of its data is taken in before it ends with a
//! CRC error. Any other lost PDU counts as if it had never come. The connection lives on (RFC 7143
//! §7.8, §7.9, §11.4.7.2).

use std::time::Duration;

use iscsi::digest::{crc32c, to_wire};
use iscsi::pdu::{
    BHS_LENGTH, Bhs, NopOut, Opcode, RESERVED_TAG, Reject, RejectReason, ScsiResponse,
};
use iscsi::target::{ConnectionError, Event, ReceiveError};

use crate::data_out_harness::{Target, command, data_out};

impl Target {
    /// Asserts that the command ended with ABORTED COMMAND, PROTOCOL SERVICE CRC ERROR, and wrote
    /// nothing.
    #[track_caller]
    fn lost(&self) {
        let (bhs, data) = self.sent.last().unwrap();
        assert_eq!(ScsiResponse::parse(bhs).unwrap().status, 2);
        assert_eq!((data[4] & 0x0f, data[14], data[15]), (0x0b, 0x47, 0x05));
        assert_eq!(self.router.written, Vec::<Vec<u8>>::new());
        assert_eq!(self.router.lost, 1);
    }

    /// Asserts that the last PDU sent is a Reject for a data digest error that carries `header`.
    #[track_caller]
    fn rejected(&self, header: &[u8]) {
        let (bhs, data) = self.sent.last().unwrap();
        assert_eq!(
            Reject::parse(bhs).unwrap().reason,
            RejectReason::DataDigestError
        );
        assert_eq!(data, header);
    }

    /// Returns the ExpCmdSN of the last PDU.
    fn exp_cmd_sn(&self) -> u32 {
        u32::from_be_bytes(self.last()[28..32].try_into().unwrap())
    }

    /// Sends a text request. Returns whether the runtime is asked to answer it.
    fn asks_for_text(&mut self, bhs: &[u8; BHS_LENGTH], text: &[u8]) -> bool {
        let digest = to_wire(crc32c(text));
        let stream = [&bhs[..], text, &digest].concat();
        let index = self.indices().0;
        let mut input = &stream[..];
        let event = self
            .session
            .receive(index, &mut input, Duration::ZERO, &mut self.router);
        matches!(event, Ok(Some(Event::Text { data, .. })) if data == text)
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

/// Tests RFC 7143 §7.8: a discarded PDU that is no data PDU needs no further action. There is no
/// response to it, and the command is executed when it comes undamaged.
#[test]
fn a_command_with_a_wrong_digest_of_immediate_data_is_discarded_and_comes_again() {
    for (bits, is_final) in [(0x01, true), (0x01, false), (0x41, true)] {
        let mut target = Target::with_digest(1024, false, true);
        let mut header = command(0x2a, 1024, if is_final { 1024 } else { 512 }, is_final);
        header[0] = bits;
        let data = vec![1; if is_final { 1024 } else { 512 }];
        target.send_broken(&header, &data, 1 << 31).unwrap();
        target.rejected(&header);
        assert_eq!(target.exp_cmd_sn(), 1, "its CmdSN is not used up");
        if !is_final {
            // The rest is on its way already, and is discarded as well.
            target.data_out(RESERVED_TAG, 0, 512, 512, true).unwrap();
        }
        assert_eq!(target.sent.len(), 1, "no response");
        assert_eq!(target.router.begun, [], "it never came");
        target.send(&header, &data).unwrap();
        if !is_final {
            target.data_out(RESERVED_TAG, 0, 512, 512, true).unwrap();
        }
        assert_eq!(target.router.written.len(), 1, "{bits:02x}");
        assert_eq!(target.sent.len(), 2);
        assert_eq!(ScsiResponse::parse(target.last()).unwrap().status, 0);
        assert_eq!(target.exp_cmd_sn(), if bits == 0x01 { 2 } else { 1 });
        assert_eq!(target.in_flight(), 0);
    }
}

/// Tests that commands sent behind a discarded one wait for it, and are executed after it.
#[test]
fn commands_behind_a_discarded_one_wait_for_it() {
    let mut target = Target::with_digest(512, true, true);
    let mut second = command(0x2a, 512, 512, true);
    second[16..20].copy_from_slice(&78_u32.to_be_bytes());
    second[27] = 2;
    let first = command(0x2a, 512, 512, true);
    target.send_broken(&first, &[1; 512], 1).unwrap();
    target.send(&second, &[2; 512]).unwrap();
    assert_eq!(target.router.written, Vec::<Vec<u8>>::new());
    target.send(&first, &[1; 512]).unwrap();
    assert_eq!(target.router.written, [vec![1; 512], vec![2; 512]]);
    assert_eq!(target.exp_cmd_sn(), 3);
}

#[test]
fn a_ping_with_a_wrong_digest_is_discarded_and_comes_again() {
    for immediate in [false, true] {
        let mut target = Target::with_digest(512, true, true);
        let ping = NopOut {
            immediate,
            data_segment_length: 20,
            lun: 0,
            itt: 5,
            ttt: RESERVED_TAG,
            cmd_sn: 1,
            exp_stat_sn: 1,
        };
        let mut header = [0; BHS_LENGTH];
        ping.encode(&mut header);
        target.send_broken(&header, &[9; 20], 4).unwrap();
        target.rejected(&header);
        assert_eq!((target.sent.len(), target.exp_cmd_sn()), (1, 1));
        target.send(&header, &[9; 20]).unwrap();
        let (bhs, data) = target.sent.last().unwrap();
        assert_eq!(Bhs::new(bhs).opcode(), Ok(Opcode::NopIn));
        assert_eq!(data[..], [9; 20]);
        assert_eq!(target.exp_cmd_sn(), if immediate { 1 } else { 2 });
    }
}

#[test]
fn a_text_request_with_a_wrong_digest_is_discarded_and_comes_again() {
    for first in [0x04, 0x44] {
        let mut target = Target::with_digest(512, true, true);
        let mut header = [0; BHS_LENGTH];
        (header[0], header[1], header[7], header[27]) = (first, 0x80, 16, 1);
        header[20..24].copy_from_slice(&RESERVED_TAG.to_be_bytes());
        target
            .send_broken(&header, b"SendTargets=All\0", 4)
            .unwrap();
        target.rejected(&header);
        assert_eq!(target.exp_cmd_sn(), 1);
        assert!(target.asks_for_text(&header, b"SendTargets=All\0"));
        target.take_output();
        assert_eq!(target.sent.len(), 1, "one Reject and no more");
    }
}

/// Tests a wrong header digest, after which the start of the next PDU is unknown.
#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let mut target = Target::with_header_digest();
    let mut stream = command(0x2a, 512, 0, true).to_vec();
    stream.extend([1, 2, 3, 4]);
    let wrong = ConnectionError::Receive(ReceiveError::HeaderDigest);
    assert_eq!(target.receive(&stream), Err(wrong));
    assert_eq!((target.sent.len(), target.router.begun.len()), (0, 0));
    let mut target = Target::with_header_digest();
    stream.truncate(BHS_LENGTH);
    stream.extend(to_wire(crc32c(&stream)));
    target.receive(&stream).unwrap();
    assert_eq!(target.r2t().desired_data_transfer_length, 512);
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
