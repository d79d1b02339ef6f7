//! Maps that are changed while a session is logged in.
//!
//! The session loses access at once, also in a copy under way, and is told of changes of a unit
//! that stays.

use std::sync::Arc;

use block::memory::MemoryDevice;
use model::config::TargetGroupSpec;
use testing::wait;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::rig::process::free_portal;
use crate::rig::served::{Served, limits, unit};
use crate::rig::session::{PipelinedSession, wait_for_traffic};
use iscsi::pdu::AsyncEvent;

const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const COPY: u64 = 7;
/// COPY TARGET DEVICE NOT REACHABLE.
const NOT_REACHABLE: (u8, u8) = (0x0d, 0x02);
const REPORTED_LUNS_DATA_HAS_CHANGED: (u8, u8) = (0x3f, 0x0e);
const MODE_PARAMETERS_CHANGED: (u8, u8) = (0x2a, 0x01);
const LOGICAL_UNIT_NOT_SUPPORTED: (u8, u8) = (0x25, 0x00);

/// Asks until this is told: a changed configuration reaches the session a moment after it is in
/// force.
fn wait_until_told(session: &mut PipelinedSession, expected: (u8, u8)) {
    let told = wait::until_some("it tells something", || {
        session.run(0, [0; 16], 0, Vec::new()).asc()
    });
    assert_eq!(told, expected);
}

/// Returns EXTENDED COPY from unit 0 to unit 1: block after block, each with a segment of its own.
pub(crate) fn copy(blocks: u8) -> ([u8; 16], Vec<u8>) {
    let mut list = vec![1, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 28 * blocks, 0, 0, 0, 0];
    for lun in [0, 1] {
        let mut cscd = vec![0xe4, 0, 0, 0, 1, 3, 0, 16];
        cscd.extend_from_slice(&[0x6e, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, lun]);
        cscd.resize(32, 0);
        list.extend(cscd);
    }
    for block in 0..blocks {
        list.extend_from_slice(&[0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0, 0, 1]);
        list.extend_from_slice(&u64::from(block).to_be_bytes());
        list.extend_from_slice(&u64::from(block).to_be_bytes());
    }
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    (cdb, list)
}

#[test]
fn a_copy_under_way_ends_when_its_unit_leaves_the_view() {
    const BLOCKS: u8 = 4;
    let portal = free_portal();
    let source = Arc::new(MemoryDevice::new(8 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap());
    let destination = Arc::new(FirstWriteWaits::new());
    let units = [0, 1].map(|lun| unit(lun, 8, BLOCK as u32, true)).to_vec();
    let devices: Vec<Arc<dyn block::BlockDevice>> = vec![source, destination.clone()];
    let mut served = Served::start(&[portal], units, devices, limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    session.wait_until_ready(1);
    let (mut all, data) = (write_cdb(), vec![b's'; 8 * BLOCK]);
    all[13] = 8;
    assert_eq!(session.run(0, all, 0, data).status, GOOD);
    let (cdb, list) = copy(BLOCKS);
    session.write(COPY, 0, cdb, list);
    let mut ended = Vec::new();
    session.pump(&mut ended).unwrap();
    while session.sent() < 8 * BLOCK as u64 + 1 {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    destination.wait_until_held();
    let mut other = PipelinedSession::new(portal, settings(1));
    other.log_in();
    other.wait_until_ready(0);
    served.change(|config| config.maps.retain(|map| map.lun == 0));
    // Every loop takes the change over at once. Each session hears of it on a unit that it still
    // sees.
    let mut told = false;
    while !told {
        session.write(COPY + 1, 0, [0; 16], Vec::new());
        let before = ended.len();
        while ended.len() == before {
            wait_for_traffic(std::slice::from_ref(&session));
            session.pump(&mut ended).unwrap();
        }
        let asked = ended.pop().unwrap();
        assert_eq!(asked.cookie, COPY + 1, "the copy is held up");
        told = asked.asc() == Some(REPORTED_LUNS_DATA_HAS_CHANGED);
    }
    destination.let_go();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(&session));
        session.pump(&mut ended).unwrap();
    }
    assert_eq!((ended[0].cookie, ended[0].status), (COPY, CHECK_CONDITION));
    assert_eq!(ended[0].asc(), Some(NOT_REACHABLE));
    // Only the blocks that the device had when the map went have arrived.
    served.change(|config| config.maps.push(unit(1, 8, BLOCK as u32, true).1));
    session.wait_until_ready(0);
    let ready = || session.run(1, [0; 16], 0, Vec::new()).status;
    wait::until_seen("the unit is ready", ready, |status| *status == GOOD);
    let (mut read, len) = (write_cdb(), usize::from(BLOCKS) * BLOCK);
    (read[0], read[13]) = (0x88, BLOCKS);
    let found = session.run(1, read, len, Vec::new()).data_in;
    assert!(found == [&[b's'; BLOCK][..], &vec![0; len - BLOCK]].concat());
    session.cut();
    other.cut();
    served.stop();
}

#[test]
fn a_map_that_becomes_read_only_is_told() {
    let portal = free_portal();
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let mut served = Served::start(&[portal], units, Vec::new(), limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    for read_only in [true, false] {
        served.change(|config| config.maps[0].read_only = read_only);
        wait_until_told(&mut session, MODE_PARAMETERS_CHANGED);
        let mut sense = [0; 16];
        sense[..6].copy_from_slice(&[0x1a, 0, 0x3f, 0, 255, 0]);
        let told = session.run(0, sense, 255, Vec::new());
        assert_eq!(told.data_in[2] & 0x80 != 0, read_only, "WP");
        let written = session.run(0, write_cdb(), 0, vec![1; BLOCK]);
        assert_eq!(written.status == GOOD, !read_only);
    }
    session.cut();
    served.stop();
}

#[test]
fn a_target_that_leaves_its_group_loses_the_groups_maps() {
    let portal = free_portal();
    let units = [0, 1].map(|lun| unit(lun, 8, BLOCK as u32, true)).to_vec();
    let mut served = Served::start(&[portal], units, Vec::new(), limits());
    served.change(|config| {
        config.target_groups.push(TargetGroupSpec {
            name: "site-a".into(),
            targets: vec![config.targets[0].iqn.clone()],
        });
        config.maps[1].target = Some("site-a".into());
    });
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    session.wait_until_ready(1);
    served.change(|config| config.target_groups[0].targets.clear());
    wait_until_told(&mut session, REPORTED_LUNS_DATA_HAS_CHANGED);
    let gone = session.run(1, [0; 16], 0, Vec::new());
    assert_eq!(gone.asc(), Some(LOGICAL_UNIT_NOT_SUPPORTED));
    session.cut();
    served.stop();
}

/// A nexus belongs to one target port: another portal group is another port.
///
/// It has other access states and other designators.
#[test]
fn a_portal_that_moves_to_another_group_ends_the_sessions_that_came_by_it() {
    let portals = [free_portal(), free_portal()];
    let units = vec![unit(0, 8, BLOCK as u32, true)];
    let mut served = Served::start(&portals, units, Vec::new(), limits());
    let mut sessions = [0, 1].map(|at| {
        let mut session = PipelinedSession::new(portals[at], settings(at as u8));
        session.log_in();
        session.wait_until_ready(0);
        session
    });
    served.change(|config| {
        let groups = &mut config.targets[0].portal_groups;
        groups.remove(1);
        groups[0].portals.push(portals[1]);
    });
    assert_eq!(sessions[1].wait_for_end(), [AsyncEvent::DropAllConnections]);
    // The initiator may come back, to the group that the portal belongs to now. The session through
    // the other portal has stayed.
    sessions[1].log_in();
    sessions[1].wait_until_ready(0);
    sessions[0].pump(&mut Vec::new()).unwrap();
    sessions[0].wait_until_ready(0);
    // The group as another target port: here, in another target port group.
    served.change(|config| {
        config.targets[0].portal_groups[0].target_port_group = 7;
    });
    for session in &mut sessions {
        assert_eq!(session.wait_for_end(), [AsyncEvent::DropAllConnections]);
    }
    served.stop();
}
