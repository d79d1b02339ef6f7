//! Tests of commands that end before their immediate data is in, because they are refused at once
//! or need no data. The answer waits for the end of the command's PDU. Before that, an initiator
//! may not find the task of the answer among the commands that it has sent.

use iscsi::pdu::{Bhs, Opcode, ScsiResponse};

use crate::data_out_harness::{FIRST_BURST, REFUSED, TAKES_NO_DATA, Target, command, numbered};

const LEN: usize = FIRST_BURST as usize;

fn pdu(opcode: u8, cmd_sn: u32) -> Vec<u8> {
    let mut stream = numbered(command(opcode, FIRST_BURST, LEN, true), cmd_sn).to_vec();
    stream.extend([9; LEN]);
    stream
}

/// Returns tag and StatSN of each response.
fn responses(target: &Target) -> Vec<(u32, u32)> {
    let sent = target.sent.iter();
    let responses = sent.filter(|(bhs, _)| Bhs::new(bhs).opcode() == Ok(Opcode::ScsiResponse));
    responses
        .map(|(bhs, _)| {
            let response = ScsiResponse::parse(bhs).unwrap();
            (response.itt, response.stat_sn)
        })
        .collect()
}

#[test]
fn an_answer_waits_for_the_last_byte_of_the_command() {
    for opcode in [REFUSED, TAKES_NO_DATA] {
        let stream = pdu(opcode, 1);
        for at in (0..stream.len()).step_by(4) {
            let mut target = Target::new(FIRST_BURST, false, true);
            target.receive(&stream[..at]).unwrap();
            target.finish();
            assert_eq!(responses(&target), [], "{opcode:#x} at byte {at}");
            target.receive(&stream[at..]).unwrap();
            target.finish();
            assert_eq!(responses(&target), [(101, 1)], "{opcode:#x} at byte {at}");
        }
    }
}

#[test]
fn other_commands_are_answered_meanwhile() {
    let mut target = Target::new(FIRST_BURST, false, true);
    target.receive(&pdu(TAKES_NO_DATA, 1)).unwrap();
    let refused = pdu(REFUSED, 2);
    target.receive(&refused[..LEN]).unwrap();
    target.finish();
    assert_eq!(responses(&target), [(101, 1)]);
    target.receive(&refused[LEN..]).unwrap();
    target.receive(&pdu(REFUSED, 3)).unwrap();
    assert_eq!(responses(&target), [(101, 1), (102, 2), (103, 3)]);
}

#[test]
fn an_answer_that_waits_goes_with_its_connection() {
    let mut target = Target::new(FIRST_BURST, false, true);
    target.receive(&pdu(REFUSED, 1)[..LEN]).unwrap();
    target.change_connection();
    target.lose_the_other();
    target.receive(&pdu(REFUSED, 2)).unwrap();
    target.take_output();
    assert_eq!(responses(&target), [(102, 1)]);
}
