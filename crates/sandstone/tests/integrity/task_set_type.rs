//! TST of the control mode page over real sessions (SPC-4 7.5.8).
//!
//! With one task set for all I_T nexuses, ORDERED commands and CLEAR TASK SETs of one nexus concern
//! all. With a set for each nexus, they concern their own nexus alone. A change while commands are
//! under way lets no ORDERED command overtake.

use std::sync::Arc;
use std::time::Duration;

use iscsi::pdu::{TaskManagementFunction, TaskManagementResult};
use testing::wait;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const SHARED: u8 = 0b000;
const PER_NEXUS: u8 = 0b001;
/// Cookie of the write that the device holds up.
const HELD: u64 = 1;
const GOOD: u8 = 0x00;
const TASK_ABORTED: u8 = 0x40;

/// Unit whose device holds up the first write, and two sessions.
struct Bench {
    device: Arc<FirstWriteWaits>,
    served: Served,
    one: PipelinedSession,
    two: PipelinedSession,
}

impl Bench {
    fn new(task_set_type: u8, task_aborted_status: bool) -> Self {
        let portal = free_portal();
        let device = Arc::new(FirstWriteWaits::new());
        let units = vec![unit(0, 8, BLOCK as u32, true)];
        let served = Served::start(&[portal], units, vec![device.clone()], limits());
        let [mut one, mut two] = [0, 1].map(|number| {
            let mut session = PipelinedSession::new(portal, settings(number));
            session.log_in();
            session.wait_until_ready(0);
            session
        });
        let (cdb, list) = control(&mut two, task_set_type, task_aborted_status);
        assert_eq!(two.run(0, cdb, 0, list).status, GOOD);
        one.wait_until_ready(0);
        Self {
            device,
            served,
            one,
            two,
        }
    }

    /// Has the first session send the write that the device holds up.
    fn hold_up(&mut self) {
        self.one.write(HELD, 0, write_cdb(), vec![1; BLOCK]);
        self.one.pump(&mut Vec::new()).unwrap();
        while self.one.sent() < BLOCK as u64 {
            wait_for_traffic(std::slice::from_ref(&self.one));
            self.one.pump(&mut Vec::new()).unwrap();
        }
        self.device.wait_until_held();
    }

    fn stop(mut self) {
        self.one.cut();
        self.two.cut();
        self.served.stop();
    }
}

/// Returns a MODE SELECT that sets TST and TAS.
fn control(session: &mut PipelinedSession, tst: u8, tas: bool) -> ([u8; 16], Vec<u8>) {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x1a, 0x08, 0x0a, 0, 255, 0]);
    let mut list = session.run(0, cdb, 255, Vec::new()).data_in;
    list[0] = 0;
    list[4] &= 0x3f;
    list[4 + 2] = list[4 + 2] & 0x1f | tst << 5;
    list[4 + 5] = u8::from(tas) << 6;
    cdb[..6].copy_from_slice(&[0x15, 0x10, 0, 0, list.len() as u8, 0]);
    (cdb, list)
}

/// Waits until this many commands of a session have ended well; returns their cookies in order.
fn ends(session: &mut PipelinedSession, count: usize) -> Vec<u64> {
    let mut ended = Vec::new();
    loop {
        session.pump(&mut ended).unwrap();
        assert!(ended.iter().all(|end| end.status == GOOD), "{ended:?}");
        if ended.len() >= count {
            return ended.iter().map(|end| end.cookie).collect();
        }
        wait_for_traffic(std::slice::from_ref(session));
    }
}

/// Checks that nothing of these sessions ends while the write is held up, though there is time for
/// it.
fn nothing_ends(sessions: &mut [&mut PipelinedSession]) {
    let mut ended = Vec::new();
    wait::throughout(Duration::from_millis(300), || {
        for session in &mut *sessions {
            session.pump(&mut ended).unwrap();
        }
        assert!(ended.is_empty(), "it did not wait: {ended:?}");
    });
}

/// Returns ASC and ASCQ of the news for a session.
fn told(session: &mut PipelinedSession) -> Option<(u8, u8)> {
    session.run(0, [0; 16], 0, Vec::new()).asc()
}

/// Starts a write that is ORDERED.
fn ordered(session: &mut PipelinedSession, cookie: u64) {
    session.write_ordered(cookie, 0, write_cdb(), vec![2; BLOCK]);
}

/// Starts a TEST UNIT READY that is SIMPLE.
fn simple(session: &mut PipelinedSession, cookie: u64) {
    session.write(cookie, 0, [0; 16], Vec::new());
}

#[test]
fn in_a_set_for_all_an_ordered_command_waits_for_every_nexus_and_holds_every_nexus() {
    let mut bench = Bench::new(SHARED, false);
    bench.hold_up();
    ordered(&mut bench.two, 2);
    bench.two.pump(&mut Vec::new()).unwrap();
    let unit = bench.served.service().unit_at_work("unit-0").unwrap();
    wait::until("it is queued", || unit.under_way().queued == 1);
    simple(&mut bench.one, 3);
    nothing_ends(&mut [&mut bench.one, &mut bench.two]);
    bench.device.let_go();
    assert_eq!(ends(&mut bench.two, 1), [2]);
    assert_eq!(ends(&mut bench.one, 2), [HELD, 3]);
    bench.stop();
}

#[test]
fn in_a_set_for_each_an_ordered_command_concerns_its_own_nexus_alone() {
    let mut bench = Bench::new(PER_NEXUS, false);
    bench.hold_up();
    ordered(&mut bench.two, 2);
    assert_eq!(ends(&mut bench.two, 1), [2]);
    ordered(&mut bench.one, 3);
    simple(&mut bench.one, 4);
    nothing_ends(&mut [&mut bench.one]);
    simple(&mut bench.two, 5);
    assert_eq!(ends(&mut bench.two, 1), [5]);
    bench.device.let_go();
    assert_eq!(ends(&mut bench.one, 3), [HELD, 3, 4]);
    bench.stop();
}

#[test]
fn after_a_change_to_a_set_for_each_ordered_waits_for_older_commands_of_its_own_nexus() {
    let mut bench = Bench::new(SHARED, false);
    bench.hold_up();
    let (cdb, list) = control(&mut bench.two, PER_NEXUS, false);
    assert_eq!(bench.two.run(0, cdb, 0, list).status, GOOD);
    ordered(&mut bench.one, 2);
    nothing_ends(&mut [&mut bench.one]);
    ordered(&mut bench.two, 3);
    assert_eq!(ends(&mut bench.two, 1), [3]);
    bench.device.let_go();
    // The command had entered before the change was told: MODE PARAMETERS CHANGED goes to the next
    // command.
    let mut ended = Vec::new();
    while ended.len() < 2 {
        wait_for_traffic(std::slice::from_ref(&bench.one));
        bench.one.pump(&mut ended).unwrap();
    }
    let order: Vec<_> = ended.iter().map(|end| (end.cookie, end.asc())).collect();
    assert_eq!(order, [(HELD, None), (2, Some((0x2a, 0x01)))]);
    bench.stop();
}

#[test]
fn after_a_change_to_a_set_for_all_ordered_waits_for_older_commands_of_every_nexus() {
    let mut bench = Bench::new(PER_NEXUS, false);
    bench.hold_up();
    let (cdb, list) = control(&mut bench.two, SHARED, false);
    assert_eq!(bench.two.run(0, cdb, 0, list).status, GOOD);
    ordered(&mut bench.two, 2);
    nothing_ends(&mut [&mut bench.two]);
    bench.device.let_go();
    assert_eq!(ends(&mut bench.one, 1), [HELD]);
    assert_eq!(ends(&mut bench.two, 1), [2]);
    bench.stop();
}

#[test]
fn a_change_breaks_no_barrier_that_waits() {
    let mut bench = Bench::new(SHARED, false);
    let (cdb, list) = control(&mut bench.two, PER_NEXUS, false);
    bench.hold_up();
    ordered(&mut bench.two, 2);
    // Past the barrier.
    bench.two.write_first(3, 0, cdb, list);
    assert_eq!(ends(&mut bench.two, 1), [3]);
    simple(&mut bench.two, 4);
    ordered(&mut bench.two, 5);
    nothing_ends(&mut [&mut bench.one, &mut bench.two]);
    bench.device.let_go();
    assert_eq!(ends(&mut bench.two, 3), [2, 4, 5]);
    assert_eq!(ends(&mut bench.one, 1), [HELD]);
    bench.stop();
}

/// Has the second session carry out a function while a write of the first is held up.
///
/// Returns how that write ends, if it is answered, and the news for its session then.
fn managed(function: TaskManagementFunction, tst: u8, tas: bool) -> (Option<u8>, Option<(u8, u8)>) {
    let mut bench = Bench::new(tst, tas);
    bench.hold_up();
    bench.two.manage(9, function, 0, None);
    let waits = tst == SHARED || function == TaskManagementFunction::LogicalUnitReset;
    if waits {
        nothing_ends(&mut [&mut bench.two]);
        assert_eq!(bench.two.take_managed(), [], "the write is not quiet yet");
        bench.device.let_go();
    }
    let answer = loop {
        bench.two.pump(&mut Vec::new()).unwrap();
        if let Some(answer) = bench.two.take_managed().pop() {
            break answer;
        }
        wait_for_traffic(std::slice::from_ref(&bench.two));
    };
    assert_eq!(answer, (9, TaskManagementResult::Complete));
    bench.device.let_go();
    let mut ended = Vec::new();
    wait::throughout(Duration::from_millis(300), || {
        bench.one.pump(&mut ended).unwrap();
        assert!(ended.iter().all(|end| end.cookie == HELD), "{ended:?}");
    });
    let told = told(&mut bench.one);
    bench.stop();
    (ended.pop().map(|end| end.status), told)
}

#[test]
fn clear_task_set_clears_a_set_for_all() {
    use TaskManagementFunction::ClearTaskSet;
    let by_another = Some((0x2f, 0x00));
    assert_eq!(managed(ClearTaskSet, SHARED, false), (None, by_another));
    let aborted = (Some(TASK_ABORTED), None);
    assert_eq!(managed(ClearTaskSet, SHARED, true), aborted);
}

#[test]
fn clear_task_set_leaves_the_sets_of_other_nexuses_alone() {
    use TaskManagementFunction::ClearTaskSet;
    for tas in [false, true] {
        assert_eq!(managed(ClearTaskSet, PER_NEXUS, tas), (Some(GOOD), None));
    }
}

#[test]
fn clear_task_set_clears_the_own_set() {
    let mut bench = Bench::new(PER_NEXUS, true);
    bench.hold_up();
    ordered(&mut bench.one, 2);
    let clear = TaskManagementFunction::ClearTaskSet;
    bench.one.manage(9, clear, 0, None);
    nothing_ends(&mut [&mut bench.one]);
    assert_eq!(bench.one.take_managed(), [], "the write is not quiet yet");
    bench.device.let_go();
    let mut ended = Vec::new();
    let answer = loop {
        bench.one.pump(&mut ended).unwrap();
        if let Some(answer) = bench.one.take_managed().pop() {
            break answer;
        }
        wait_for_traffic(std::slice::from_ref(&bench.one));
    };
    assert_eq!(answer, (9, TaskManagementResult::Complete));
    assert!(ended.is_empty(), "{ended:?}");
    // Its place is free.
    ordered(&mut bench.one, 3);
    assert_eq!(ends(&mut bench.one, 1), [3]);
    bench.stop();
}

#[test]
fn logical_unit_reset_reaches_every_set() {
    use TaskManagementFunction::LogicalUnitReset;
    let reset = Some((0x29, 0x03));
    for tst in [SHARED, PER_NEXUS] {
        assert_eq!(managed(LogicalUnitReset, tst, false), (None, reset));
    }
}
