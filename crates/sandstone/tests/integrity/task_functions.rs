//! Task management functions by their answers and effects (RFC 7143 sections 11.5 and 11.6).
//!
//! The tests cover each function that is offered, and each that is not.

use std::net::SocketAddr;
use std::sync::Arc;

use iscsi::pdu::{TaskManagementFunction as Function, TaskManagementResult as Answer};
use testing::wait;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{Ended, PipelinedSession, wait_for_traffic};

/// Cookie of the write that the device holds up.
const HELD: u64 = 1;
const ASKED: u64 = 99;
const SCSI_BUS_RESET_OCCURRED: Option<(u8, u8)> = Some((0x29, 0x02));
const POWER_ON: Option<(u8, u8)> = Some((0x29, 0x00));

fn told(session: &mut PipelinedSession) -> Option<(u8, u8)> {
    session.run(0, [0; 16], 0, Vec::new()).asc()
}

/// Asks for a function and waits for its answer; other commands may end meanwhile.
fn answer(session: &mut PipelinedSession, function: Function, ended: &mut Vec<Ended>) -> Answer {
    session.manage(ASKED, function, 0, None);
    loop {
        session.pump(ended).unwrap();
        if let Some((cookie, answer)) = session.take_managed().pop() {
            assert_eq!(cookie, ASKED);
            return answer;
        }
        wait_for_traffic(std::slice::from_ref(session));
    }
}

fn start() -> (Arc<FirstWriteWaits>, Served, [PipelinedSession; 2]) {
    let portal = free_portal();
    let device = Arc::new(FirstWriteWaits::new());
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], limits());
    let sessions = [0, 1].map(|number| {
        let mut session = PipelinedSession::new(portal, settings(number));
        session.log_in();
        session.wait_until_ready(0);
        session
    });
    (device, served, sessions)
}

/// Has a session send the write that the device holds up.
fn hold_up(session: &mut PipelinedSession, device: &FirstWriteWaits) {
    session.write(HELD, 0, write_cdb(), vec![b'h'; BLOCK]);
    session.pump(&mut Vec::new()).unwrap();
    while session.sent() < BLOCK as u64 {
        wait_for_traffic(std::slice::from_ref(session));
        session.pump(&mut Vec::new()).unwrap();
    }
    device.wait_until_held();
}

#[test]
fn functions_that_are_not_offered_are_answered_so() {
    let (_device, served, [mut one, mut two]) = start();
    let mut ended = Vec::new();
    // iSCSIProtocolLevel is 1: the functions of RFC 7144 are not in use. REPORT SUPPORTED TASK
    // MANAGEMENT FUNCTIONS names none of these either.
    for function in [
        Function::ClearAca,
        Function::QueryTask,
        Function::QueryTaskSet,
        Function::ITNexusReset,
        Function::QueryAsynchronousEvent,
        Function::Other(13),
        Function::Other(0x7f),
    ] {
        let answered = answer(&mut one, function, &mut ended);
        assert_eq!(answered, Answer::NotSupported, "{function:?}");
    }
    let answered = answer(&mut one, Function::TaskReassign, &mut ended);
    assert_eq!(answered, Answer::ReassignmentNotSupported);
    let mut report = [0; 16];
    report[..10].copy_from_slice(&[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 4]);
    // ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, TARGET RESET.
    assert_eq!(one.run(0, report, 4, Vec::new()).data_in, [0xda, 0, 0, 0]);
    assert_eq!(told(&mut one), None, "nothing happened");
    assert_eq!(told(&mut two), None);
    one.cut();
    two.cut();
    served.stop();
}

#[test]
fn functions_that_have_nothing_to_do_are_answered_at_once() {
    let (_device, served, [mut one, mut two]) = start();
    let mut ended = Vec::new();
    for function in [Function::AbortTaskSet, Function::ClearTaskSet] {
        assert_eq!(answer(&mut one, function, &mut ended), Answer::Complete);
        assert_eq!(told(&mut one), None);
        assert_eq!(told(&mut two), None);
    }
    // A task that was never there, and a LUN without a unit.
    let answered = answer(&mut one, Function::AbortTask, &mut ended);
    assert_eq!(answered, Answer::TaskDoesNotExist);
    for function in [
        Function::AbortTaskSet,
        Function::ClearTaskSet,
        Function::LogicalUnitReset,
    ] {
        one.manage(ASKED, function, 5, None);
        let mut managed = Vec::new();
        while managed.is_empty() {
            wait_for_traffic(std::slice::from_ref(&one));
            one.pump(&mut ended).unwrap();
            managed = one.take_managed();
        }
        assert_eq!(managed, [(ASKED, Answer::LunDoesNotExist)], "{function:?}");
    }
    one.cut();
    two.cut();
    served.stop();
}

#[test]
fn a_warm_reset_aborts_the_tasks_of_all_and_sessions_stay() {
    let (device, served, [mut one, mut two]) = start();
    hold_up(&mut one, &device);
    let mut ended = Vec::new();
    two.manage(ASKED, Function::TargetWarmReset, 0, None);
    two.pump(&mut ended).unwrap();
    // The function is heard at once and answered when the write is over.
    while told(&mut one) != SCSI_BUS_RESET_OCCURRED {}
    two.pump(&mut ended).unwrap();
    assert_eq!(two.take_managed(), []);
    device.let_go();
    let mut managed = Vec::new();
    while managed.is_empty() {
        wait_for_traffic(std::slice::from_ref(&two));
        two.pump(&mut ended).unwrap();
        managed = two.take_managed();
    }
    assert_eq!(managed, [(ASKED, Answer::Complete)]);
    assert_eq!(told(&mut two), SCSI_BUS_RESET_OCCURRED);
    // The write was aborted: TAS is 0, so nobody is told of its end.
    assert_eq!(told(&mut one), None);
    one.pump(&mut ended).unwrap();
    assert!(ended.is_empty(), "{ended:?}");
    one.cut();
    two.cut();
    served.stop();
}

/// The command that a function ends counts for its unit, and is under way until it has ended.
#[test]
fn what_functions_end_is_counted() {
    for (function, task, aborts, resets) in [
        (Function::AbortTask, Some(HELD), 1, 0),
        (Function::ClearTaskSet, None, 1, 0),
        (Function::LogicalUnitReset, None, 0, 1),
    ] {
        let (device, served, [mut one, mut two]) = start();
        let unit = served.service().unit_at_work("unit-0").unwrap();
        assert_eq!(unit.under_way().active, 0);
        let before = unit.tally.rare().failures;
        hold_up(&mut one, &device);
        assert_eq!(unit.under_way().active, 1);
        one.manage(ASKED, function, 0, task);
        let mut ended = Vec::new();
        one.pump(&mut ended).unwrap();
        // The function must be heard before the write ends by itself.
        wait::until(&format!("{function:?} is heard"), || {
            one.pump(&mut ended).unwrap();
            unit.tally.rare().failures != before
        });
        device.let_go();
        let mut managed = one.take_managed();
        while managed.is_empty() {
            wait_for_traffic(std::slice::from_ref(&one));
            one.pump(&mut ended).unwrap();
            managed = one.take_managed();
        }
        assert_eq!(managed, [(ASKED, Answer::Complete)], "{function:?}");
        let failures = unit.tally.rare().failures.since(&before);
        let counted = (failures.aborts, failures.resets);
        assert_eq!(counted, (aborts, resets), "{function:?}");
        assert_eq!(failures.commands, 0, "{function:?}");
        assert_eq!(unit.under_way().active, 0, "{function:?}");
        one.cut();
        two.cut();
        served.stop();
    }
}

#[test]
fn a_cold_reset_ends_every_session_of_the_target() {
    let (device, served, [mut one, mut two]) = start();
    hold_up(&mut one, &device);
    two.manage(ASKED, Function::TargetColdReset, 0, None);
    for session in [&mut two, &mut one] {
        let mut ended = Vec::new();
        while session.pump(&mut ended).is_ok() {
            wait_for_traffic(std::slice::from_ref(session));
        }
        assert!(ended.is_empty(), "{ended:?}");
    }
    device.let_go();
    // An initiator that comes back hears of a power on, not of a lost nexus (RFC 7143 section
    // 11.5.1).
    for session in [&mut one, &mut two] {
        session.log_in();
        assert_eq!(told(session), POWER_ON);
        assert_eq!(told(session), None);
        session.cut();
    }
    served.stop();
}

/// Returns two connections of one session: the second is ahead of the first by one command.
fn two_connections(portal: SocketAddr) -> [PipelinedSession; 2] {
    let mut first = PipelinedSession::new(portal, settings(0));
    first.settings.limits.max_connections = 2;
    first.log_in();
    first.wait_until_ready(0);
    let mut second = first.second_connection(1);
    second.log_in();
    [first, second]
}

fn first_byte(session: &mut PipelinedSession) -> u8 {
    let mut read = write_cdb();
    read[0] = 0x88;
    session.run(0, read, BLOCK, Vec::new()).data_in[0]
}

#[test]
fn an_abort_finds_a_write_that_waits_for_the_other_connection() {
    let portal = free_portal();
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, Vec::new(), limits());
    let [mut first, mut second] = two_connections(portal);
    second.write(HELD, 0, write_cdb(), vec![b'w'; BLOCK]);
    second.manage(ASKED, Function::AbortTask, 0, Some(HELD));
    let mut ended = Vec::new();
    let mut managed = Vec::new();
    while managed.is_empty() {
        second.pump(&mut ended).unwrap();
        managed = second.take_managed();
        if managed.is_empty() {
            wait_for_traffic(std::slice::from_ref(&second));
        }
    }
    assert_eq!(managed, [(ASKED, Answer::Complete)]);
    // The command that it waited for, and more behind: the order goes on without it.
    assert_eq!(told(&mut first), None);
    assert_eq!(first_byte(&mut second), 0, "it was never written");
    assert!(ended.is_empty(), "{ended:?}");
    first.cut();
    second.cut();
    served.stop();
}

#[test]
fn a_reset_waits_for_a_write_that_waits_for_the_other_connection() {
    let portal = free_portal();
    let device = Arc::new(FirstWriteWaits::new());
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], limits());
    let [mut first, mut second] = two_connections(portal);
    second.write(HELD, 0, write_cdb(), vec![b'w'; BLOCK]);
    second.manage(ASKED, Function::LogicalUnitReset, 0, None);
    let mut ended = Vec::new();
    second.pump(&mut ended).unwrap();
    // Both wait for this command: the write begins, and then the function is due, which finds it.
    assert_eq!(told(&mut first), None);
    device.wait_until_held();
    assert_eq!(second.take_managed(), []);
    device.let_go();
    let mut managed = Vec::new();
    while managed.is_empty() {
        wait_for_traffic(std::slice::from_ref(&second));
        second.pump(&mut ended).unwrap();
        managed = second.take_managed();
    }
    assert_eq!(managed, [(ASKED, Answer::Complete)]);
    assert!(ended.is_empty(), "{ended:?}");
    first.cut();
    second.cut();
    served.stop();
}
