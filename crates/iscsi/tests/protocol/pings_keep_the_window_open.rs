//! Test that requests other than SCSI commands never close the command window (RFC 7143 §4.2.2.1).
//! They use up CmdSNs too, and end at once.

use iscsi::pdu::{BHS_LENGTH, NopIn, NopOut, RESERVED_TAG};

use crate::data_out_harness::Target;

#[test]
fn many_pings_in_the_order_of_commands_are_all_answered() {
    let mut target = Target::new(512, false, true);
    for cmd_sn in 1..=50 {
        let ping = NopOut {
            immediate: false,
            data_segment_length: 0,
            lun: 0,
            itt: cmd_sn,
            ttt: RESERVED_TAG,
            cmd_sn,
            exp_stat_sn: cmd_sn,
        };
        let mut bhs = [0; BHS_LENGTH];
        ping.encode(&mut bhs);
        target.send(&bhs, &[]).unwrap();
        assert_eq!(target.sent.len(), cmd_sn as usize, "an answer to each");
        let answer = NopIn::parse(target.last()).unwrap();
        assert_eq!(
            (answer.itt, answer.exp_cmd_sn, answer.max_cmd_sn),
            (cmd_sn, cmd_sn + 1, cmd_sn + 8)
        );
    }
}
