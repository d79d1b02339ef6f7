//! A session with two connections, one of which is lost or logged out (RFC 7143 §6.3.4, §7.2.1, §11.14), and what
//! may then be said and done on the other.

#![allow(clippy::unwrap_used)]

mod data_out_harness;

use std::time::Duration;

use iscsi::pdu::{Bhs, Opcode, RawBhs, ReadyToTransfer};
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
