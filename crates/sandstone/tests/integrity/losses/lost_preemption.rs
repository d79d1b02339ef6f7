//! An initiator that fences a node off may be lost before it hears that the fence stands.
//!
//! A change that has taken effect is then carried out to the end. It is stored, the commands of the
//! fenced node are aborted, and the node is told.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use testing::wait;

use super::fencing::{logged_in, one_block, persistent_reserve_out};
use crate::rig::process::free_portal;
use crate::rig::served::{self, Served};
use crate::rig::session::{Ended, PipelinedSession, wait_for_traffic};

const GOOD: u8 = 0x00;
pub(crate) const REGISTER: u8 = 0x00;
pub(crate) const RESERVE: u8 = 0x01;
const PREEMPT_AND_ABORT: u8 = 0x05;
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u8 = 5;
const REGISTRATIONS_PREEMPTED: (u8, u8) = (0x2a, 0x05);
const COMMANDS_CLEARED: (u8, u8) = (0x2f, 0x00);

pub(crate) fn reserve_out(
    session: &mut PipelinedSession,
    action: u8,
    key: u64,
    other_key: u64,
) -> Ended {
    let kind = WRITE_EXCLUSIVE_REGISTRANTS_ONLY;
    let (cdb, mut list) = persistent_reserve_out(action, kind, key, other_key);
    // APTPL: it is stored.
    list[20] = u8::from(action == REGISTER);
    session.run(0, cdb, 0, list)
}

/// Puts a pipe in the place of the unit's stored state: a save waits until the test has looked.
pub(crate) fn hold_saves(state_file: &Path) {
    std::fs::remove_file(state_file).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, state_file, FileType::Fifo, mode, 0).unwrap();
}

/// Pumps a session until the unit's state is being saved. The save goes on when the result is
/// dropped.
pub(crate) fn wait_for_the_save(session: &mut PipelinedSession, state_file: &Path) -> OwnedFd {
    let mut ended = Vec::new();
    // Opened for writing without waiting, a pipe shows whether somebody reads.
    let pipe = wait::until_ok("the state is saved", || {
        session.pump(&mut ended).unwrap();
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        open(state_file, flags, Mode::empty())
    });
    assert!(ended.is_empty(), "not before it is saved");
    pipe
}

#[test]
fn a_preemption_whose_initiator_is_lost_is_carried_out_to_the_end() {
    let portal = free_portal();
    let units = vec![served::unit(0, 2048, 512, true)];
    let served = Served::start(&[portal], units, Vec::new(), served::limits());
    let mut fenced = logged_in(portal, 1);
    let mut other_path = logged_in(portal, 2);
    let mut lost = logged_in(portal, 3);
    assert_eq!(reserve_out(&mut fenced, REGISTER, 0, 7).status, GOOD);
    assert_eq!(reserve_out(&mut other_path, REGISTER, 0, 7).status, GOOD);
    assert_eq!(reserve_out(&mut lost, REGISTER, 0, 8).status, GOOD);
    assert_eq!(reserve_out(&mut fenced, RESERVE, 7, 0).status, GOOD);
    // The target has asked for its data.
    fenced.write(7, 0, one_block(0x8a), vec![2; 512]);
    fenced.send_only();
    wait_for_traffic(std::slice::from_ref(&fenced));

    let state_file = served.state_file(0);
    hold_saves(&state_file);
    let kind = WRITE_EXCLUSIVE_REGISTRANTS_ONLY;
    let (cdb, list) = persistent_reserve_out(PREEMPT_AND_ABORT, kind, 8, 7);
    lost.write(1, 0, cdb, list);
    let pipe = wait_for_the_save(&mut lost, &state_file);
    lost.cut();
    wait::until("the cut is noticed", || served.sessions() == 2);
    drop(pipe);

    let told = || other_path.run(0, [0; 16], 0, Vec::new()).asc();
    wait::until_seen("the fenced node is told", told, |asc| {
        *asc == Some(REGISTRATIONS_PREEMPTED)
    });
    // Its command was aborted: nobody answers it any more.
    let mut ended = Vec::new();
    wait::throughout(Duration::from_millis(100), || {
        fenced.pump(&mut ended).unwrap();
        assert!(ended.is_empty(), "{ended:?}");
    });
    let mut told = Vec::new();
    loop {
        let answer = fenced.run(0, [0; 16], 0, Vec::new());
        match answer.asc() {
            Some(asc) => told.push(asc),
            None => break assert_eq!(answer.status, GOOD),
        }
    }
    assert!(told.contains(&REGISTRATIONS_PREEMPTED), "{told:02x?}");
    assert!(told.contains(&COMMANDS_CLEARED), "{told:02x?}");
    // Stored: a regular file has taken the pipe's place.
    assert!(std::fs::metadata(&state_file).unwrap().is_file());
    drop((fenced, other_path));
    served.stop();
}
