//! Tests of immediate commands, which stand outside the command window (RFC 7143 §4.2.2.1). Their
//! number is still bounded. Commands above the bound are rejected, and all else goes on.

use iscsi::pdu::{
    BHS_LENGTH, Bhs, NopOut, Opcode, RESERVED_TAG, RawBhs, ReadyToTransfer, Reject, RejectReason,
    TaskManagementFunction, TaskManagementRequest,
};

use crate::data_out_harness::{FIRST_BURST, Target, command, data_out};

/// Number of places in the window of the session.
const DEPTH: u32 = 8;
/// Number of commands, far above any that an initiator has reason to send.
const FLOOD: u32 = 1000;

/// Builds a write of 4096 bytes, of which the first ones are immediate data.
fn write(itt: u32, cmd_sn: u32, immediate: bool, data: usize) -> RawBhs {
    let mut bhs = command(0x2a, FIRST_BURST, data, true);
    bhs[16..20].copy_from_slice(&itt.to_be_bytes());
    bhs[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    bhs[0] |= if immediate { 0x40 } else { 0 };
    bhs
}

fn opcode(pdu: &(RawBhs, Vec<u8>)) -> Opcode {
    Bhs::new(&pdu.0).opcode().unwrap()
}

/// Begins immediate writes at a target until it takes no more. Returns the target and the number
/// that it took.
fn flooded() -> (Target, u32) {
    let mut target = Target::new(FIRST_BURST, false, true);
    for itt in 0..FLOOD {
        target.send(&write(itt, 1, true, 512), &[1; 512]).unwrap();
    }
    let taken = target
        .sent
        .iter()
        .filter(|pdu| opcode(pdu) == Opcode::ReadyToTransfer);
    let taken = taken.count() as u32;
    (target, taken)
}

#[test]
fn too_many_of_them_are_rejected_one_by_one() {
    let (target, taken) = flooded();
    assert!((DEPTH..=2 * DEPTH).contains(&taken), "{taken} were taken");
    assert_eq!(target.sent.len(), FLOOD as usize, "an answer to each");
    for (itt, (bhs, data)) in (taken..FLOOD).zip(&target.sent[taken as usize..]) {
        let reject = Reject::parse(bhs).unwrap();
        assert_eq!(reject.reason, RejectReason::ImmediateCommandReject);
        assert_eq!(data[..], write(itt, 1, true, 512));
    }
}

#[test]
fn commands_in_their_order_go_on_beside_them() {
    let (mut target, _) = flooded();
    for cmd_sn in 1..=DEPTH {
        let data = vec![2; FIRST_BURST as usize];
        let bhs = write(FLOOD + cmd_sn, cmd_sn, false, data.len());
        target.send(&bhs, &data).unwrap();
        assert_eq!(opcode(target.sent.last().unwrap()), Opcode::ScsiResponse);
    }
    assert_eq!(target.router.written.len() as u32, DEPTH);
}

#[test]
fn pings_and_task_management_get_through() {
    let (mut target, _) = flooded();
    let mut ping = [0; BHS_LENGTH];
    NopOut {
        immediate: true,
        data_segment_length: 0,
        lun: 0,
        itt: FLOOD,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
    .encode(&mut ping);
    target.send(&ping, &[]).unwrap();
    assert_eq!(opcode(target.sent.last().unwrap()), Opcode::NopIn);
    let mut abort = [0; BHS_LENGTH];
    TaskManagementRequest {
        immediate: true,
        function: TaskManagementFunction::AbortTask,
        total_ahs_length: 0,
        data_segment_length: 0,
        lun: 0,
        itt: FLOOD,
        referenced_task_tag: 0,
        cmd_sn: 1,
        exp_stat_sn: 1,
        ref_cmd_sn: 1,
        exp_data_sn: 0,
    }
    .encode(&mut abort);
    assert!(target.asks_for_task_management(&abort));
}

#[test]
fn data_of_a_rejected_one_is_dropped_and_a_place_that_is_free_again_is_given() {
    let (mut target, taken) = flooded();
    let rejected = target.sent.len();
    let mut stray = data_out(RESERVED_TAG, 0, 512, 512, true);
    stray[16..20].copy_from_slice(&(FLOOD - 1).to_be_bytes());
    target.send(&stray, &[3; 512]).unwrap();
    assert_eq!(target.sent.len(), rejected, "nobody asks for it");
    // The first write ends.
    let r2t = ReadyToTransfer::parse(&target.sent[0].0).unwrap();
    let rest = r2t.desired_data_transfer_length as usize;
    let mut last = data_out(r2t.ttt, 0, 512, rest, true);
    last[16..20].copy_from_slice(&r2t.itt.to_be_bytes());
    target.send(&last, &vec![1; rest]).unwrap();
    assert_eq!(target.router.written, [vec![1; FIRST_BURST as usize]]);
    assert_eq!(opcode(target.sent.last().unwrap()), Opcode::ScsiResponse);
    target.send(&write(FLOOD, 1, true, 512), &[1; 512]).unwrap();
    assert_eq!(opcode(target.sent.last().unwrap()), Opcode::ReadyToTransfer);
    target
        .send(&write(FLOOD + 1, 1, true, 512), &[1; 512])
        .unwrap();
    assert_eq!(opcode(target.sent.last().unwrap()), Opcode::Reject);
    assert_eq!(taken, DEPTH + 8, "the limit that the numbers above lead to");
}
