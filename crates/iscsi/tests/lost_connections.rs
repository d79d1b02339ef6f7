//! A session with two connections, one of which is lost or logged out (RFC 7143 §6.3.4, §7.2.1, §11.14), and what
//! may then be said and done on the other.

#![allow(clippy::unwrap_used)]

mod data_out_harness;

use std::time::Duration;

use iscsi::pdu::{
    BHS_LENGTH, Bhs, Opcode, RESERVED_TAG, RawBhs, ReadyToTransfer,
    TaskManagementFunction as Function, TaskManagementRequest,
};
use iscsi::target::{ConnectionSettings, Event};

use data_out_harness::{FIRST_BURST, Target, command, data_out};

const LEN: usize = FIRST_BURST as usize;

fn new() -> Target {
    Target::new(FIRST_BURST, false, true)
}

/// A write with all its data, each byte of which is its CmdSN.
fn write(cmd_sn: u32) -> Vec<u8> {
    [&header(0x2a, cmd_sn, LEN)[..], &[cmd_sn as u8; LEN]].concat()
}

fn tag(cmd_sn: u32) -> u32 {
    100 + cmd_sn
}

fn header(opcode: u8, cmd_sn: u32, immediate: usize) -> RawBhs {
    let mut bhs = command(opcode, FIRST_BURST, immediate, true);
    bhs[16..20].copy_from_slice(&tag(cmd_sn).to_be_bytes());
    bhs[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    bhs
}

fn with_tag(mut pdu: Vec<u8>, tag: u32) -> Vec<u8> {
    pdu[16..20].copy_from_slice(&tag.to_be_bytes());
    pdu
}

/// An immediate function for a unit that is sent before the command with this CmdSN.
fn function(function: Function, cmd_sn: u32) -> RawBhs {
    let mut bhs = [0; BHS_LENGTH];
    TaskManagementRequest {
        immediate: true,
        function,
        total_ahs_length: 0,
        data_segment_length: 0,
        lun: 0,
        itt: 900 + cmd_sn,
        referenced_task_tag: RESERVED_TAG,
        cmd_sn,
        exp_stat_sn: 1,
        ref_cmd_sn: 0,
        exp_data_sn: 0,
    }
    .encode(&mut bhs);
    bhs
}

/// Gives bytes to one connection; the event that the runtime is asked for.
fn give(target: &mut Target, index: usize, bytes: &[u8]) -> Option<Event> {
    let mut input = bytes;
    let router = &mut target.router;
    let event = target
        .session
        .receive(index, &mut input, Duration::ZERO, router);
    target.take_output();
    event.unwrap()
}

fn sent(target: &Target, opcode: Opcode) -> Vec<RawBhs> {
    let sent = target.sent.iter().map(|(bhs, _)| *bhs);
    sent.filter(|bhs| Bhs::new(bhs).opcode() == Ok(opcode))
        .collect()
}

/// The tags of the writes that were answered.
fn answered(target: &Target) -> Vec<u32> {
    let sent = sent(target, Opcode::ScsiResponse);
    sent.iter().map(|bhs| Bhs::new(bhs).itt()).collect()
}

fn written(target: &Target) -> Vec<u8> {
    let written = target.router.written.iter();
    written.map(|data| data[0]).collect()
}

#[test]
fn the_tag_of_a_task_that_died_with_its_connection_is_free() {
    let mut target = new();
    target.router.slow = true;
    let (used, other) = target.indices();
    give(&mut target, other, &write(1));
    target.lose_the_other_running(1);
    give(&mut target, used, &with_tag(write(2), tag(1)));
    assert_eq!(sent(&target, Opcode::Reject).len(), 0);
    target.finish();
    assert_eq!(written(&target), [1, 2]);
    assert_eq!(answered(&target), [tag(1)], "the second, not the first");
    // Nor is the first found where the tag is asked for.
    give(&mut target, used, &with_tag(write(3), tag(1)));
    target.finish();
    assert_eq!(written(&target), [1, 2, 3]);
}

#[test]
fn an_abort_that_was_to_be_told_is_not_told_on_the_connection_that_came_after() {
    let mut target = new();
    target.router.slow = true;
    let (_, other) = target.indices();
    give(&mut target, other, &write(1));
    let task = target.session.tasks(|_| true)[0];
    assert!(target.session.abort(task, true));
    target.lose_the_other_running(1);
    let settings = ConnectionSettings {
        cid: 7,
        header_digest: false,
        data_digest: false,
        max_recv_data_segment_length: 8192,
        initiator_max_recv_data_segment_length: 8192,
        stat_sn: 1,
    };
    let newer = target.session.add_connection(&settings, Duration::ZERO);
    assert_eq!(newer, other, "its place is taken");
    target.finish();
    assert_eq!(answered(&target), []);
}

#[test]
fn data_of_an_aborted_task_is_dropped_where_its_tag_is_used_again_elsewhere() {
    let mut target = new();
    let (used, other) = target.indices();
    give(&mut target, other, &header(0x2a, 1, 0));
    let r2t = ReadyToTransfer::parse(target.last()).unwrap();
    let task = target.session.tasks(|_| true)[0];
    assert!(!target.session.abort(task, false));
    // The same tag, with data still to come.
    let mut second = header(0x2a, 2, 0);
    second[16..20].copy_from_slice(&tag(1).to_be_bytes());
    give(&mut target, used, &second);
    let second = ReadyToTransfer::parse(target.last()).unwrap();
    let late = |ttt, byte| {
        let bhs = data_out(ttt, 0, 0, LEN, true);
        with_tag([&bhs[..], &[byte; LEN]].concat(), tag(1))
    };
    give(&mut target, other, &late(r2t.ttt, 1));
    assert_eq!(written(&target), []);
    give(&mut target, used, &late(second.ttt, 2));
    assert_eq!(written(&target), [2]);
    assert_eq!(sent(&target, Opcode::Reject).len(), 0);
}

/// RFC 7143 §4.2.3.2: it reaches what was sent before it.
#[test]
fn what_was_sent_after_a_function_and_overtook_it_is_not_aborted() {
    let mut target = new();
    target.router.slow = true;
    let (used, other) = target.indices();
    give(&mut target, used, &write(1));
    give(&mut target, other, &[write(2), write(3)].concat());
    let Some(Event::TaskManagement { request, .. }) =
        give(&mut target, used, &function(Function::LogicalUnitReset, 3))
    else {
        panic!("it has nothing to wait for");
    };
    let reached = target.session.tasks_before(&request, used, |lun| lun == 0);
    assert_eq!(target.session.tasks(|_| true).len(), 3);
    assert_eq!(reached.len(), 2);
    for task in reached {
        target.session.abort(task, false);
    }
    target.finish();
    assert_eq!(answered(&target), [tag(3)]);
    assert_eq!(target.session.tasks_before(&request, used, |_| true), []);
}

/// Its task is over, and the tag in use again before the function is heard.
#[test]
fn an_abort_spares_a_command_that_took_the_tag_of_its_task() {
    for begun in [true, false] {
        let mut target = new();
        target.router.slow = true;
        let (used, other) = target.indices();
        if begun {
            give(&mut target, other, &write(1));
        }
        give(&mut target, other, &write(2));
        let mut abort = function(Function::AbortTask, 2);
        abort[20..24].copy_from_slice(&tag(2).to_be_bytes());
        let event = give(&mut target, used, &abort);
        let Some(Event::TaskManagement { referenced, .. }) = event else {
            panic!("{event:?}");
        };
        assert_eq!(referenced, None);
        give(&mut target, used, &write(if begun { 3 } else { 1 }));
        target.finish();
        assert!(written(&target).contains(&2), "begun: {begun}");
    }
}

#[test]
fn numbers_of_functions_are_not_believed_where_order_tells() {
    let mut target = new();
    target.router.slow = true;
    let (used, _) = target.indices();
    give(&mut target, used, &[write(1), write(2)].concat());
    // As some initiators number them.
    let Some(Event::TaskManagement { request, .. }) =
        give(&mut target, used, &function(Function::AbortTaskSet, 1))
    else {
        panic!("it has nothing to wait for");
    };
    let reached = target.session.tasks_before(&request, used, |_| true);
    assert_eq!(reached.len(), 2);
}

#[test]
fn what_waits_for_a_lost_command_is_aborted_with_what_runs() {
    let mut target = new();
    let (used, _) = target.indices();
    target.lose_the_other();
    let mut elsewhere = write(3);
    elsewhere[9] = 1;
    give(&mut target, used, &[write(2), elsewhere].concat());
    let event = give(&mut target, used, &function(Function::LogicalUnitReset, 4));
    assert!(matches!(event, Some(Event::TaskManagement { .. })));
    // The lost one comes again: the second is over, the third is another unit's.
    give(&mut target, used, &[write(1), write(4)].concat());
    assert_eq!(written(&target), [1, 3, 4]);
}
