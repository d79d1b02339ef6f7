//! Tests of a session with two connections on which task management functions overtake commands
//! that were sent before them (RFC 7143 §4.2.3.3, §11.6.1).

use iscsi::pdu::{
    BHS_LENGTH, Bhs, NopOut, Opcode, RESERVED_TAG, RawBhs, TaskManagementFunction as Function,
    TaskManagementRequest, TaskManagementResponse, TaskManagementResult as Answer,
};

use crate::data_out_harness::{FIRST_BURST, Target, command, data_out};

const LEN: usize = FIRST_BURST as usize;
/// Most functions of a session that may wait.
const MAX_WAITING: u32 = 8;

fn tag(cmd_sn: u32) -> u32 {
    100 + cmd_sn
}

/// Builds the header of a write with `immediate` bytes of its data at once.
fn header(cmd_sn: u32, immediate: usize) -> RawBhs {
    let mut bhs = command(0x2a, FIRST_BURST, immediate, immediate == LEN);
    bhs[16..20].copy_from_slice(&tag(cmd_sn).to_be_bytes());
    bhs[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    // The CmdSN is in the CDB, for the device server to report.
    bhs[33] = cmd_sn as u8;
    bhs
}

/// Builds a write with all its data, each byte of which is its CmdSN.
fn write(cmd_sn: u32) -> Vec<u8> {
    [&header(cmd_sn, LEN)[..], &[cmd_sn as u8; LEN]].concat()
}

/// Builds an immediate function that is sent before the command with this CmdSN, and that names the
/// CmdSN `means`.
fn function(function: Function, cmd_sn: u32, means: u32) -> RawBhs {
    let mut bhs = [0; BHS_LENGTH];
    TaskManagementRequest {
        immediate: true,
        function,
        total_ahs_length: 0,
        data_segment_length: 0,
        lun: 0,
        itt: 900 + cmd_sn,
        referenced_task_tag: if function == Function::AbortTask {
            tag(means)
        } else {
            RESERVED_TAG
        },
        cmd_sn,
        exp_stat_sn: 1,
        ref_cmd_sn: means,
        exp_data_sn: 0,
    }
    .encode(&mut bhs);
    bhs
}

fn ping(cmd_sn: u32, immediate: bool) -> RawBhs {
    let mut bhs = [0; BHS_LENGTH];
    NopOut {
        immediate,
        data_segment_length: 0,
        lun: 0,
        itt: tag(cmd_sn),
        ttt: RESERVED_TAG,
        cmd_sn,
        exp_stat_sn: 1,
    }
    .encode(&mut bhs);
    bhs
}

fn new() -> Target {
    Target::new(FIRST_BURST, false, true)
}

/// Sends bytes on the other connection. They ask nothing of the runtime.
#[track_caller]
fn on_the_other(target: &mut Target, bytes: &[u8]) {
    target.change_connection();
    assert_eq!(target.functions(bytes), []);
    target.change_connection();
}

/// Returns the CmdSNs of the writes that were performed, in their order.
fn written(target: &Target) -> Vec<u8> {
    let written = target.router.written.iter();
    written.map(|data| data[0]).collect()
}

fn answers(target: &Target) -> Vec<(u32, Answer)> {
    let sent = target.sent.iter();
    sent.filter_map(|(bhs, _)| TaskManagementResponse::parse(bhs).ok())
        .map(|answer| (answer.itt, answer.response))
        .collect()
}

fn responses(target: &Target) -> usize {
    let sent = target.sent.iter();
    sent.filter(|(bhs, _)| Bhs::new(bhs).opcode() == Ok(Opcode::ScsiResponse))
        .count()
}

#[test]
fn a_command_that_waits_for_its_turn_is_aborted() {
    let mut target = new();
    on_the_other(&mut target, &write(2));
    assert_eq!(target.in_flight(), 1);
    assert_eq!(target.functions(&function(Function::AbortTask, 3, 2)), []);
    assert_eq!(answers(&target), [(903, Answer::Complete)]);
    assert_eq!(target.in_flight(), 0);
    // The CmdSN of the command counts as received, so later commands may go on.
    assert_eq!(target.functions(&write(1)), []);
    assert_eq!(target.functions(&write(3)), []);
    assert_eq!(written(&target), [1, 3]);
    assert_eq!(responses(&target), 2, "who was aborted is not answered");
}

/// Returns a function that names its unit in flat space addressing (SAM-5 4.7.7.3). Commands use
/// the other form.
fn in_flat_space(function: RawBhs) -> RawBhs {
    let mut bhs = function;
    bhs[8] = 0x40;
    bhs
}

#[test]
fn both_ways_to_write_a_lun_mean_the_same_unit() {
    // A command waits for its turn.
    let mut target = new();
    on_the_other(&mut target, &write(2));
    let abort = in_flat_space(function(Function::AbortTask, 3, 2));
    assert_eq!(target.functions(&abort), []);
    assert_eq!(answers(&target), [(903, Answer::Complete)]);
    assert_eq!(target.in_flight(), 0);
    assert_eq!(target.functions(&write(1)), []);
    assert_eq!(written(&target), [1]);
    // The data of a command is still to come.
    let mut target = new();
    let stream = write(1);
    on_the_other(&mut target, &stream[..BHS_LENGTH]);
    let abort = in_flat_space(function(Function::AbortTask, 2, 1));
    assert_eq!(target.functions(&abort).len(), 1);
    on_the_other(&mut target, &stream[BHS_LENGTH..]);
    assert_eq!(written(&target), []);
    // All these commands wait for one that comes no more.
    let mut target = new();
    let reset = in_flat_space(function(Function::LogicalUnitReset, 4, 0));
    let stream = [&write(2)[..], &write(3), &reset].concat();
    assert_eq!(target.functions(&stream), []);
    target.lose_the_other();
    let told = target.functions(&ping(4, true));
    assert_eq!(told, [(Function::LogicalUnitReset, 0)]);
    assert_eq!(target.in_flight(), 0);
    assert_eq!(target.functions(&write(1)), []);
    assert_eq!(written(&target), [1]);
}

#[test]
fn a_command_that_has_not_come_is_dropped_when_it_comes() {
    // The places are: before the command that is due, after it, and after one that is behind it.
    for place in 0..3 {
        let mut target = new();
        assert_eq!(target.functions(&function(Function::AbortTask, 3, 2)), []);
        assert_eq!(answers(&target), [(903, Answer::Complete)]);
        let first = [&header(2, 512)[..], &[2; 512]].concat();
        let mut rest = data_out(RESERVED_TAG, 0, 512, LEN - 512, true);
        rest[16..20].copy_from_slice(&tag(2).to_be_bytes());
        let late = [&first[..], &rest, &[2; LEN - 512]].concat();
        for step in 0..3 {
            if step == place {
                on_the_other(&mut target, &late);
            }
            match step {
                0 => assert_eq!(target.functions(&write(1)), []),
                1 => assert_eq!(target.functions(&write(3)), []),
                _ => {}
            }
        }
        assert_eq!(written(&target), [1, 3], "in place {place}");
        assert_eq!(responses(&target), 2);
        assert_eq!(target.in_flight(), 0);
        // A second copy is a duplicate like any other.
        on_the_other(&mut target, &late);
        assert_eq!(target.functions(&write(4)), []);
        assert_eq!(written(&target), [1, 3, 4]);
    }
}

#[test]
fn the_one_that_is_due_may_be_what_is_aborted() {
    let mut target = new();
    on_the_other(&mut target, &[write(2), write(3)].concat());
    assert_eq!(target.functions(&function(Function::AbortTask, 4, 1)), []);
    assert_eq!(answers(&target), [(904, Answer::Complete)]);
    assert_eq!(written(&target), [2, 3], "nothing waits for it any more");
    assert_eq!(target.functions(&write(1)), []);
    assert_eq!(target.functions(&write(4)), []);
    assert_eq!(written(&target), [2, 3, 4]);
}

#[test]
fn what_is_outside_the_window_or_behind_the_function_does_not_exist() {
    let mut target = new();
    assert_eq!(target.functions(&write(1)), []);
    // The runtime is asked, and finds no task: it is over, behind the function itself, or beyond
    // the window.
    for (cmd_sn, means) in [(3, 1), (3, 3), (3, 4), (3, 40)] {
        let asked = target.functions(&function(Function::AbortTask, cmd_sn, means));
        assert_eq!(asked, [(Function::AbortTask, 1)], "CmdSN {means}");
    }
    // The function is of another LUN, or has the CmdSN of another command.
    on_the_other(&mut target, &write(3));
    let mut other_lun = function(Function::AbortTask, 4, 3);
    other_lun[9] = 1;
    let mut other_command = function(Function::AbortTask, 4, 7);
    other_command[32..36].copy_from_slice(&3_u32.to_be_bytes());
    for bhs in [other_lun, other_command] {
        assert_eq!(target.functions(&bhs), [(Function::AbortTask, 1)]);
    }
    assert_eq!(answers(&target), []);
    assert_eq!(target.functions(&write(2)), []);
    assert_eq!(written(&target), [1, 2, 3]);
}

#[test]
fn the_abort_may_come_at_any_byte_of_the_command() {
    for due_first in [false, true] {
        for at in (0..=BHS_LENGTH + LEN).step_by(4) {
            let mut target = new();
            let stream = write(2);
            if due_first {
                assert_eq!(target.functions(&write(1)), []);
            }
            on_the_other(&mut target, &stream[..at]);
            let has_ended = due_first && at == stream.len();
            let asked = target.functions(&function(Function::AbortTask, 3, 2));
            let begun = due_first && at >= BHS_LENGTH;
            assert_eq!(asked.len(), usize::from(begun), "at byte {at}");
            assert_eq!(answers(&target).len(), usize::from(!begun), "at byte {at}");
            on_the_other(&mut target, &stream[at..]);
            if !due_first {
                assert_eq!(target.functions(&write(1)), []);
            }
            assert_eq!(target.functions(&write(3)), []);
            let expected: &[u8] = if has_ended { &[1, 2, 3] } else { &[1, 3] };
            assert_eq!(written(&target), expected, "at byte {at}");
            assert_eq!(target.in_flight(), 0);
        }
    }
}

#[test]
fn a_function_for_all_tasks_of_a_unit_waits_for_what_was_sent_before_it() {
    for asked in [
        Function::AbortTaskSet,
        Function::ClearTaskSet,
        Function::LogicalUnitReset,
    ] {
        let mut target = new();
        on_the_other(&mut target, &write(2));
        assert_eq!(target.functions(&function(asked, 4, 0)), []);
        // One more command was sent after the function, and one before it.
        on_the_other(&mut target, &write(4));
        on_the_other(&mut target, &write(3));
        assert_eq!(written(&target), []);
        let told = target.functions(&[write(1), write(5)].concat());
        assert_eq!(told, [(asked, 3)], "after the third and before the fourth");
        assert_eq!(written(&target), [1, 2, 3, 4, 5]);
        // If nothing is missing, the function does not wait.
        assert_eq!(target.functions(&function(asked, 6, 0)), [(asked, 5)]);
    }
}

#[test]
fn what_comes_on_one_connection_in_one_piece_keeps_its_order_too() {
    let mut target = new();
    assert_eq!(
        target.functions(&function(Function::LogicalUnitReset, 3, 0)),
        []
    );
    let stream = [write(1), write(2), write(3), write(4)].concat();
    let told = target.functions(&stream);
    assert_eq!(told, [(Function::LogicalUnitReset, 2)]);
    assert_eq!(written(&target), [1, 2, 3, 4]);
}

#[test]
fn without_another_connection_nothing_is_waited_for() {
    let reset = function(Function::LogicalUnitReset, 3, 0);
    let mut target = new();
    assert_eq!(target.functions(&reset), []);
    target.lose_the_other();
    // The function is due with the next request that arrives.
    assert_eq!(
        target.functions(&ping(3, true)),
        [(Function::LogicalUnitReset, 0)]
    );
    assert_eq!(target.functions(&reset), [(Function::LogicalUnitReset, 0)]);
    // A function far from the window does not wait either. Some initiators number their functions
    // in this way.
    let mut target = new();
    let far = function(Function::LogicalUnitReset, 1000, 0);
    assert_eq!(target.functions(&far), [(Function::LogicalUnitReset, 0)]);
}

#[test]
fn functions_of_a_connection_that_is_gone_do_not_wait() {
    let mut target = new();
    on_the_other(&mut target, &function(Function::LogicalUnitReset, 3, 0));
    target.lose_the_other();
    assert_eq!(target.functions(&[write(1), write(2)].concat()), []);
    assert_eq!(written(&target), [1, 2]);
}

/// Tests an initiator that waits for its answer, and so sends nothing more that could trigger it.
#[test]
fn a_function_waits_no_more_when_the_connection_that_it_waited_for_is_gone() {
    let mut target = new();
    assert_eq!(
        target.functions(&function(Function::LogicalUnitReset, 3, 0)),
        []
    );
    assert_eq!(target.due_functions(), []);
    target.lose_the_other();
    assert_eq!(target.due_functions(), [Function::LogicalUnitReset]);
    assert_eq!(target.due_functions(), []);
}

#[test]
fn so_many_wait_and_no_more() {
    let mut target = new();
    for number in 0..=MAX_WAITING {
        let mut bhs = function(Function::AbortTaskSet, 2, 0);
        bhs[16..20].copy_from_slice(&number.to_be_bytes());
        assert_eq!(target.functions(&bhs), []);
    }
    assert_eq!(answers(&target), [(MAX_WAITING, Answer::Rejected)]);
    let told = target.functions(&write(1));
    assert_eq!(told, [(Function::AbortTaskSet, 1); MAX_WAITING as usize]);
}

#[test]
fn a_function_for_the_target_counts_everything_before_it_as_received() {
    for asked in [Function::TargetWarmReset, Function::TargetColdReset] {
        let mut target = new();
        on_the_other(&mut target, &[&write(2)[..], &ping(3, false)].concat());
        // CmdSN 5 was sent after the function.
        on_the_other(&mut target, &write(5));
        assert_eq!(target.functions(&function(asked, 5, 0)), [(asked, 0)]);
        assert_eq!(written(&target), [5]);
        assert_eq!(target.in_flight(), 0);
        let pings = target.sent.iter();
        let pings = pings.filter(|(bhs, _)| Bhs::new(bhs).itt() == tag(3));
        assert_eq!(pings.count(), 1, "what is no command has its turn");
        // The requests under way arrive late.
        assert_eq!(target.functions(&[write(1), write(4)].concat()), []);
        assert_eq!(target.functions(&write(6)), []);
        assert_eq!(written(&target), [5, 6]);
    }
}

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

const EACH_ONCE: [Function; 3] = [
    Function::AbortTaskSet,
    Function::ClearTaskSet,
    Function::LogicalUnitReset,
];

/// Requests of one history: commands in the order of their CmdSNs, and functions among them. Each
/// is sent on one of two connections. The bytes of the two then arrive in any order.
struct History {
    streams: [Vec<u8>; 2],
    /// Commands that ABORT TASK names, by the tag of the function.
    aborts: Vec<(u32, u32)>,
    /// Functions for a whole unit, with the CmdSN of the command after each.
    resets: Vec<(Function, u32)>,
    commands: u32,
}

impl History {
    fn new(random: &mut Random) -> Self {
        let mut history = Self {
            streams: [Vec::new(), Vec::new()],
            aborts: Vec::new(),
            resets: Vec::new(),
            commands: 0,
        };
        // All commands are within the window, because nothing is answered before all is sent.
        while history.commands < 8 {
            let next = history.commands + 1;
            let stream = random.below(2);
            let bytes = match random.below(8) {
                0 if next > 1 && history.resets.len() < EACH_ONCE.len() => {
                    let asked = EACH_ONCE[history.resets.len()];
                    history.resets.push((asked, next));
                    function(asked, next, 0).to_vec()
                }
                1 | 2 if next > 1 => {
                    let means = 1 + random.below(history.commands as usize) as u32;
                    let mut bhs = function(Function::AbortTask, next, means);
                    let itt = 2000 + history.aborts.len() as u32;
                    bhs[16..20].copy_from_slice(&itt.to_be_bytes());
                    history.aborts.push((itt, means));
                    bhs.to_vec()
                }
                _ => {
                    history.commands = next;
                    write(next)
                }
            };
            history.streams[stream].extend(bytes);
        }
        history
    }
}

fn one_history(seed: u64) {
    let random = &mut Random(seed * 2 + 1);
    for _ in 0..8 {
        random.below(2);
    }
    let history = History::new(random);
    let mut target = new();
    let mut at = [0; 2];
    let mut using = 0;
    let mut asked = Vec::new();
    while (0..2).any(|stream| at[stream] < history.streams[stream].len()) {
        let stream = random.below(2);
        let left = &history.streams[stream][at[stream]..];
        let take = left.len().min(1 + random.below(2 * LEN));
        if stream != using {
            target.change_connection();
            using = stream;
        }
        asked.extend(target.functions(&left[..take]));
        at[stream] += take;
    }
    let (begun, written) = (&target.router.begun, written(&target));
    assert!(begun.is_sorted(), "seed {seed}: {begun:?}");
    assert_eq!(target.in_flight(), 0, "seed {seed}");
    // A command that the session answers itself has not begun, and never does.
    for (itt, answer) in answers(&target) {
        assert_eq!(answer, Answer::Complete, "seed {seed}");
        let mut aborts = history.aborts.iter();
        let (_, means) = aborts.find(|(own, _)| *own == itt).unwrap();
        assert!(!begun.contains(&(*means as u8)), "seed {seed}: {means} ran");
    }
    let aborted = |cmd_sn: u32| history.aborts.iter().any(|(_, means)| *means == cmd_sn);
    for cmd_sn in 1..=history.commands {
        let count = written
            .iter()
            .filter(|it| u32::from(**it) == cmd_sn)
            .count();
        let expected = count == 1 || count == 0 && aborted(cmd_sn);
        assert!(expected, "seed {seed}: {cmd_sn} was written {count} times");
    }
    let resets = asked.iter().filter(|told| told.0 != Function::AbortTask);
    let resets: Vec<_> = resets.copied().collect();
    assert_eq!(resets.len(), history.resets.len(), "seed {seed}");
    for (function, before) in &history.resets {
        // Every command that was sent before the function has begun. The function may itself have
        // been overtaken.
        let told = resets.iter().find(|told| told.0 == *function).unwrap();
        let late = &begun[told.1..];
        let is_behind = |it: &u8| u32::from(*it) >= *before;
        assert!(
            late.iter().all(is_behind),
            "seed {seed}: {function:?} before {before}, then {late:?}"
        );
    }
}

#[test]
fn whatever_overtakes_what_each_is_found() {
    for seed in 0..3000 {
        one_history(seed);
    }
}
