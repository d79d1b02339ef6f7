//! A long command on a device that answers at once must not keep its event loop from others.
//!
//! The others are its own session, other sessions, and an initiator that aborts it.

use iscsi::pdu::{TaskManagementFunction, TaskManagementResult};
use testing::wait;

use crate::losses::fencing::logged_in;
use crate::losses::kill;
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const BLOCK: u32 = 512;
const BLOCKS: u32 = (2 << 30) / BLOCK;
const VERIFY: u64 = 1;
const MANY: u64 = 16;

/// Returns VERIFY(16) of the whole unit.
fn verify() -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x8f;
    cdb[10..14].copy_from_slice(&BLOCKS.to_be_bytes());
    cdb
}

/// Starts a unit in memory and sessions on all loops.
fn served() -> (Served, Vec<PipelinedSession>) {
    let portal = free_portal();
    let units = vec![unit(0, BLOCKS.into(), BLOCK, true)];
    let served = Served::start(&[portal], units, Vec::new(), limits());
    let sessions = (1..=4).map(|number| logged_in(portal, number)).collect();
    (served, sessions)
}

/// Returns the cookies of the first commands of a session that end.
fn first_to_end(session: &mut PipelinedSession) -> Vec<u64> {
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(session));
        session.pump(&mut ended).unwrap();
    }
    assert!(ended.iter().all(|ended| ended.status == 0), "{ended:?}");
    ended.iter().map(|ended| ended.cookie).collect()
}

/// Returns the result of a session's first task management function that is answered.
fn first_managed(session: &mut PipelinedSession) -> TaskManagementResult {
    let mut ended = Vec::new();
    loop {
        session.pump(&mut ended).unwrap();
        assert!(ended.is_empty(), "it was to be aborted: {ended:?}");
        if let Some((_, result)) = session.take_managed().pop() {
            return result;
        }
        wait_for_traffic(std::slice::from_ref(session));
    }
}

#[test]
fn a_long_command_lets_its_own_session_and_all_others_go_on() {
    let (served, mut sessions) = served();
    let (first, others) = sessions.split_first_mut().unwrap();
    // Enough of them to be at work still when a busy machine lets this test look.
    for cookie in 0..MANY {
        first.write(cookie, 0, verify(), Vec::new());
    }
    first.write(MANY, 0, [0; 16], Vec::new());
    assert_eq!(first_to_end(first), [MANY]);
    let mut ended = Vec::new();
    for other in others {
        let ready = other.run(0, [0; 16], 0, Vec::new());
        assert_eq!(ready.status, 0);
        first.pump(&mut ended).unwrap();
        assert!(ended.is_empty(), "the others were kept waiting: {ended:?}");
    }
    while ended.len() < MANY as usize {
        wait_for_traffic(std::slice::from_ref(first));
        first.pump(&mut ended).unwrap();
    }
    assert!(ended.iter().all(|ended| ended.status == 0), "{ended:?}");
    drop(sessions);
    served.stop();
}

#[test]
fn so_does_a_long_unmap() {
    let (served, _) = served();
    // Its parameter list comes with the command.
    let mut session = PipelinedSession::new(served.portal, kill::settings(0));
    session.log_in();
    session.wait_until_ready(0);
    let mut unmap = [0; 16];
    (unmap[0], unmap[8]) = (0x42, 24);
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend(7_u64.to_be_bytes());
    list.extend((1_u32 << 20).to_be_bytes());
    list.extend([0; 4]);
    session.write(1, 0, unmap, list);
    session.write(2, 0, [0; 16], Vec::new());
    let mut ended = Vec::new();
    while ended.len() < 2 {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    let order: Vec<_> = ended.iter().map(|end| (end.cookie, end.status)).collect();
    assert_eq!(order, [(2, 0), (1, 0)]);
    session.cut();
    served.stop();
}

#[test]
fn a_long_command_is_aborted_between_two_turns() {
    use TaskManagementFunction as Function;
    for (function, task) in [
        (Function::AbortTask, Some(VERIFY)),
        (Function::AbortTaskSet, None),
        (Function::ClearTaskSet, None),
        (Function::LogicalUnitReset, None),
    ] {
        let (served, mut sessions) = served();
        let (first, others) = sessions.split_first_mut().unwrap();
        first.write(VERIFY, 0, verify(), Vec::new());
        first.manage(9, function, 0, task);
        assert_eq!(
            first_managed(first),
            TaskManagementResult::Complete,
            "{function:?}"
        );
        // Its place in the task set is free: a command that waits for all before it runs.
        others[0].wait_until_ready(0);
        let mut write = [0; 16];
        (write[0], write[13]) = (0x8a, 1);
        others[0].write_ordered(3, 0, write, vec![1; BLOCK as usize]);
        assert_eq!(first_to_end(&mut others[0]), [3]);
        let mut ended = Vec::new();
        first.pump(&mut ended).unwrap();
        assert!(ended.is_empty(), "{function:?}: {ended:?}");
        drop(sessions);
        served.stop();
    }
}

#[test]
fn a_long_command_ends_with_its_session() {
    let (served, mut sessions) = served();
    let unit = served.service().unit_at_work("unit-0").unwrap();
    let commands = || {
        let ended = unit.tally.totals();
        ended.iter().map(|kind| kind.commands).sum::<u64>()
    };
    let (first, others) = sessions.split_first_mut().unwrap();
    let before = commands();
    first.write(VERIFY, 0, verify(), Vec::new());
    first.send_only();
    wait::until("it has begun", || {
        let ended = commands() > before;
        ended || unit.under_way().active == 1
    });
    first.cut();
    let mut write = [0; 16];
    (write[0], write[13]) = (0x8a, 1);
    others[0].write_ordered(3, 0, write, vec![1; BLOCK as usize]);
    assert_eq!(first_to_end(&mut others[0]), [3]);
    // Its initiator comes back and finds nothing in its way.
    first.log_in();
    first.wait_until_ready(0);
    drop(sessions);
    served.stop();
}
