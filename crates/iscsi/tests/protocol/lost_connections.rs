//! Tests of a session with two connections, of which one is lost or logged out (RFC 7143 §6.3.4,
//! §7.2.1, §11.14). They cover the exchanges that are then allowed on the other.

use std::time::Duration;

use iscsi::pdu::{
    BHS_LENGTH, Bhs, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NopIn, NopOut,
    Opcode, RESERVED_TAG, RawBhs, ReadyToTransfer, TaskManagementFunction as Function,
    TaskManagementRequest, TaskManagementResponse, TaskManagementResult as Answer,
};
use iscsi::target::{ConnectionError, ConnectionSettings, Event};

use crate::data_out_harness::{DATA_OUT_TIMEOUT, FIRST_BURST, Target, command, data_out};

const LEN: usize = FIRST_BURST as usize;

fn new() -> Target {
    Target::new(FIRST_BURST, false, true)
}

/// Builds a write with all its data, each byte of which is its CmdSN.
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

/// Builds an immediate function for a unit that is sent before the command with this CmdSN.
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

/// Builds an immediate logout of one connection.
fn logout(cid: u16) -> RawBhs {
    let mut bhs = [0; BHS_LENGTH];
    LogoutRequest {
        immediate: true,
        reason: LogoutReason::CloseConnection,
        itt: 800,
        cid,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
    .encode(&mut bhs);
    bhs
}

/// Builds an immediate logout of the session.
fn logout_of_all() -> RawBhs {
    let mut bhs = logout(0);
    // The reason is: close the session.
    bhs[1] = 0x80;
    bhs
}

/// Builds an immediate NOP-Out that answers a ping, or asks for nothing.
fn nop_out(ttt: u32, exp_stat_sn: u32) -> RawBhs {
    let mut bhs = [0; BHS_LENGTH];
    NopOut {
        immediate: true,
        data_segment_length: 0,
        lun: 0,
        itt: RESERVED_TAG,
        ttt,
        cmd_sn: 1,
        exp_stat_sn,
    }
    .encode(&mut bhs);
    bhs
}

/// Gives bytes to one connection, and returns the event for the runtime.
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

/// Returns the tags of the writes that were answered.
fn answered(target: &Target) -> Vec<u32> {
    let sent = sent(target, Opcode::ScsiResponse);
    sent.iter().map(|bhs| Bhs::new(bhs).itt()).collect()
}

fn logouts(target: &Target) -> Vec<LogoutResult> {
    let sent = sent(target, Opcode::LogoutResponse);
    let parsed = sent.iter().map(|bhs| LogoutResponse::parse(bhs).unwrap());
    parsed.map(|answer| answer.response).collect()
}

fn functions(target: &Target) -> Vec<(u32, Answer)> {
    let sent = sent(target, Opcode::TaskManagementResponse);
    let parsed = sent.iter().map(TaskManagementResponse::parse);
    let parsed = parsed.map(Result::unwrap);
    parsed.map(|answer| (answer.itt, answer.response)).collect()
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
    // A search for the tag does not find the first command either.
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
    // This command has the old tag, with data still to come.
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

/// Tests RFC 7143 §7.2.1: a retry may come on another connection once its own was logged out.
#[test]
fn a_command_that_was_lost_may_come_again_on_another_connection() {
    let mut target = new();
    let (used, _) = target.indices();
    target.lose_the_other();
    give(&mut target, used, &write(2));
    assert_eq!(written(&target), []);
    give(&mut target, used, &write(1));
    assert_eq!(written(&target), [1, 2]);
}

#[test]
fn a_gap_that_nobody_fills_ends_the_session() {
    let seconds = DATA_OUT_TIMEOUT.as_secs();
    for filled in [false, true] {
        let mut target = new();
        let (used, _) = target.indices();
        target.lose_the_other();
        assert_eq!(target.tick(seconds), None, "nothing waits");
        give(&mut target, used, &write(2));
        assert_eq!(target.tick(2 * seconds), None, "seen for the first time");
        assert_eq!(target.tick(3 * seconds - 1), None);
        if filled {
            give(&mut target, used, &write(1));
            give(&mut target, used, &write(4));
        }
        let overdue = (!filled).then_some(ConnectionError::CommandMissing);
        assert_eq!(target.tick(3 * seconds), overdue);
    }
}

/// Tests that the missing command may come behind the data of an earlier one, on a slow line.
#[test]
fn a_gap_is_waited_for_while_data_comes() {
    let seconds = DATA_OUT_TIMEOUT.as_secs();
    let mut target = new();
    let (used, other) = target.indices();
    give(&mut target, used, &header(0x2a, 1, 0));
    let r2t = ReadyToTransfer::parse(target.last()).unwrap();
    give(&mut target, other, &write(3));
    for part in 0..4 {
        assert_eq!(target.tick(part * seconds), None);
        let last = part == 3;
        let (sn, offset) = (part as u32, part as u32 * 1024);
        let bhs = data_out(r2t.ttt, sn, offset, 1024, last);
        let pdu = with_tag([&bhs[..], &[1; 1024]].concat(), tag(1));
        give(&mut target, used, &pdu);
    }
    assert_eq!(target.tick(4 * seconds), None);
    give(&mut target, used, &write(2));
    assert_eq!(written(&target), [1, 2, 3]);
}

#[test]
fn a_gap_ends_every_connection_once() {
    let mut target = new();
    let (used, other) = target.indices();
    give(&mut target, used, &write(2));
    assert_eq!(target.session.tick(Duration::ZERO), []);
    let mut ended = target.session.tick(DATA_OUT_TIMEOUT);
    ended.sort_unstable_by_key(|it| it.0);
    let why = ConnectionError::CommandMissing;
    let mut all = [(used, why), (other, why)];
    all.sort_unstable_by_key(|it| it.0);
    assert_eq!(ended, all);
}

#[test]
fn the_logout_of_another_connection_is_answered_when_its_tasks_are_over() {
    let mut target = new();
    target.router.slow = true;
    let (used, other) = target.indices();
    // One command runs, and one came before its turn.
    give(&mut target, other, &[write(1), write(3)].concat());
    let event = give(&mut target, used, &logout(1));
    assert!(matches!(event, Some(Event::Logout(_))), "{event:?}");
    assert_eq!(logouts(&target), []);
    assert!(target.session.is_logged_out(other));
    assert!(!target.session.is_logged_out(used));
    target.finish();
    assert_eq!(logouts(&target), [LogoutResult::Closed]);
    assert_eq!(answered(&target), [], "what ends behind it is not answered");
    // Unacknowledged commands were discarded, and may come again.
    target.router.slow = false;
    give(&mut target, used, &write(2));
    assert_eq!(written(&target), [1, 2]);
    give(&mut target, used, &write(3));
    assert_eq!(written(&target), [1, 2, 3]);
}

#[test]
fn the_logout_of_its_own_connection_leaves_it_open_until_it_is_answered() {
    let mut target = new();
    target.router.slow = true;
    let (used, _) = target.indices();
    give(&mut target, used, &write(1));
    give(&mut target, used, &logout(0));
    assert!(!target.session.is_logged_out(used));
    // Nothing more is received.
    give(&mut target, used, &write(2));
    target.finish();
    assert_eq!(logouts(&target), [LogoutResult::Closed]);
    assert!(target.session.is_logged_out(used));
    assert_eq!((written(&target), answered(&target)), (vec![1], vec![]));
}

#[test]
fn a_session_that_was_logged_out_takes_no_connection_that_was_on_its_way_to_it() {
    let mut target = new();
    let (used, other) = target.indices();
    let event = give(&mut target, used, &logout_of_all());
    assert!(matches!(event, Some(Event::Logout(_))), "{event:?}");
    assert_eq!(logouts(&target), [LogoutResult::Closed]);
    let settings = ConnectionSettings {
        cid: 7,
        header_digest: false,
        data_digest: false,
        max_recv_data_segment_length: 1 << 16,
        initiator_max_recv_data_segment_length: 1 << 16,
        stat_sn: 1,
    };
    let late = target.session.add_connection(&settings, Duration::ZERO);
    for index in [used, other, late] {
        assert!(target.session.is_logged_out(index), "it keeps the session");
    }
    give(&mut target, late, &write(1));
    assert_eq!((written(&target), answered(&target)), (vec![], vec![]));
}

/// The command before them comes with the logout, so that their turn has come when it is over.
#[test]
fn requests_that_wait_for_their_turn_end_with_their_session() {
    let mut target = new();
    let (used, other) = target.indices();
    give(&mut target, other, &write(2));
    let event = give(
        &mut target,
        used,
        &[write(1), logout_of_all().to_vec()].concat(),
    );
    assert!(matches!(event, Some(Event::Logout(_))), "{event:?}");
    for index in [used, other] {
        assert!(give(&mut target, index, &[]).is_none());
    }
    assert_eq!(written(&target), [1]);
    assert_eq!(answered(&target), [tag(1)]);
}

#[test]
fn the_logout_of_a_connection_that_is_gone_waits_for_its_tasks_too() {
    let mut target = new();
    target.router.slow = true;
    let (used, other) = target.indices();
    give(&mut target, other, &write(1));
    target.lose_the_other_running(1);
    give(&mut target, used, &logout(1));
    assert_eq!(logouts(&target), []);
    target.finish();
    assert_eq!(logouts(&target), [LogoutResult::CidNotFound]);
}

#[test]
fn so_many_logouts_wait_and_no_more() {
    let mut target = new();
    target.router.slow = true;
    let (used, other) = target.indices();
    give(&mut target, other, &write(1));
    target.lose_the_other_running(1);
    for _ in 0..9 {
        give(&mut target, used, &logout(5));
    }
    assert_eq!(logouts(&target), [LogoutResult::CidNotFound]);
    target.finish();
    assert_eq!(logouts(&target), [LogoutResult::CidNotFound; 9]);
}

#[test]
fn the_window_is_not_told_on_a_connection_that_was_logged_out() {
    let mut target = new();
    let (used, other) = target.indices();
    let first = used.min(other);
    assert_eq!(first, used, "it would be asked first");
    target.session.set_depth(1);
    for cmd_sn in 1..=8 {
        give(&mut target, used, &write(cmd_sn));
    }
    give(&mut target, other, &logout(0));
    target.sent.clear();
    target.session.set_depth(0);
    give(&mut target, other, &write(9));
    target.session.set_depth(8);
    assert_eq!(target.session.queued_bytes(used), 0);
}

/// Tests RFC 7143 §4.2.3.2: a function reaches the commands that were sent before it.
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

/// Tests an abort whose task is over, and whose tag is in use again before the function arrives.
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
    // Some initiators number their functions in this way.
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
    // The lost command comes again: the second is over, and the third is of another unit.
    give(&mut target, used, &[write(1), write(4)].concat());
    assert_eq!(written(&target), [1, 3, 4]);
}

/// Tests RFC 7143 §4.2.3.3: a status that came behind the answer would be taken for that of another
/// command.
#[test]
fn a_function_is_answered_when_the_statuses_before_it_were_heard() {
    for lost in [false, true] {
        let mut target = new();
        let (used, other) = target.indices();
        give(&mut target, other, &write(1));
        let reset = function(Function::LogicalUnitReset, 2);
        assert!(give(&mut target, used, &reset).is_some());
        let session = &mut target.session;
        session.task_management_response(used, 902, Answer::Complete);
        target.take_output();
        assert_eq!(
            functions(&target),
            [],
            "the status of the write is on its way"
        );
        let ping = sent(&target, Opcode::NopIn);
        let ping = NopIn::parse(&ping[0]).unwrap();
        assert_ne!(ping.ttt, RESERVED_TAG, "an answer is asked for");
        if lost {
            target.lose_the_other();
        } else {
            give(&mut target, other, &nop_out(RESERVED_TAG, 1));
            assert_eq!(functions(&target), [], "that did not tell of it");
            give(&mut target, other, &nop_out(ping.ttt, 2));
        }
        target.take_output();
        assert_eq!(functions(&target), [(902, Answer::Complete)]);
    }
}

#[test]
fn a_function_is_answered_when_the_r2ts_of_what_it_aborted_were_heard() {
    let mut target = new();
    let (used, other) = target.indices();
    give(&mut target, other, &header(0x2a, 1, 0));
    assert!(ReadyToTransfer::parse(target.last()).is_ok());
    let reset = function(Function::LogicalUnitReset, 2);
    assert!(give(&mut target, used, &reset).is_some());
    let task = target.session.tasks(|_| true)[0];
    assert!(!target.session.abort(task, false));
    let session = &mut target.session;
    session.task_management_response(used, 902, Answer::Complete);
    target.take_output();
    let ping = NopIn::parse(&sent(&target, Opcode::NopIn)[0]).unwrap();
    give(&mut target, other, &nop_out(RESERVED_TAG, 1));
    assert_eq!(functions(&target), [], "no StatSN tells of an R2T");
    give(&mut target, other, &nop_out(ping.ttt, 1));
    assert_eq!(functions(&target), [(902, Answer::Complete)]);
    // After that confirmation, the next function has nothing to wait for.
    assert!(give(&mut target, used, &function(Function::AbortTaskSet, 2)).is_some());
    let session = &mut target.session;
    session.task_management_response(used, 902, Answer::Complete);
    target.take_output();
    assert_eq!(functions(&target).len(), 2);
}
