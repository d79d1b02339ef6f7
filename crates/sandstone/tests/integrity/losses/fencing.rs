//! A granted reservation holds against earlier commands whose data comes later.
//!
//! A cluster's fenced node must not change one more block. A lost connection is fenced off from the
//! remaining ones: the initiator's writes on these come after its writes on the lost one.

use std::sync::Arc;

use iscsi::initiator::LoginSettings;
use iscsi::negotiation::Limits;
use iscsi::pdu::Isid;
use testing::wait;

use super::kill::settings;
use super::late_write::{FirstWriteWaits, write_cdb};
use crate::rig::process::{TARGET, free_portal};
use crate::rig::served::{self, Served};
use crate::rig::session::{PipelinedSession, wait_for_traffic};

const BLOCK: usize = 512;
const GOOD: u8 = 0x00;
const RESERVATION_CONFLICT: u8 = 0x18;

/// Logs in an initiator that sends data only when it is asked for it.
pub(crate) fn logged_in(portal: std::net::SocketAddr, number: u8) -> PipelinedSession {
    let settings = LoginSettings::new(
        format!("iqn.2026-01.io.sandstone:node-{number}"),
        Some(TARGET.into()),
        Isid([0x80, 0, 0, 0, 2, number]),
    );
    let limits = Limits {
        immediate_data: false,
        initial_r2t: true,
        ..settings.limits.clone()
    };
    let mut session = PipelinedSession::new(portal, LoginSettings { limits, ..settings });
    session.log_in();
    session.wait_until_ready(0);
    session
}

pub(crate) fn persistent_reserve_out(
    action: u8,
    kind: u8,
    key: u64,
    new_key: u64,
) -> ([u8; 16], Vec<u8>) {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes()].concat();
    list.resize(24, 0);
    (cdb, list)
}

/// Returns a CDB of 16 bytes for one block, LBA 0.
pub(crate) fn one_block(opcode: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (opcode, 1);
    cdb
}

/// Returns the commands that change a block and are more than a plain write, with their data-out.
fn commands() -> Vec<(&'static str, [u8; 16], Vec<u8>)> {
    let mut unmap = [0; 16];
    (unmap[0], unmap[8]) = (0x42, 24);
    let mut ranges = vec![0, 22, 0, 16, 0, 0, 0, 0];
    ranges.extend([0; 8]);
    ranges.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    vec![
        ("WRITE", one_block(0x8a), vec![2; BLOCK]),
        (
            "COMPARE AND WRITE",
            one_block(0x89),
            [[1; BLOCK], [2; BLOCK]].concat(),
        ),
        ("WRITE SAME", one_block(0x93), vec![2; BLOCK]),
        ("ORWRITE", one_block(0x8b), vec![2; BLOCK]),
        ("WRITE AND VERIFY", one_block(0x8e), vec![2; BLOCK]),
        ("UNMAP", unmap, ranges),
    ]
}

#[test]
fn data_that_comes_after_a_reservation_changes_nothing() {
    for (name, cdb, data) in commands() {
        let portal = free_portal();
        let units = vec![served::unit(0, 2048, BLOCK as u32, true)];
        let served = Served::start(&[portal], units, Vec::new(), served::limits());
        let mut owner = logged_in(portal, 1);
        let mut fenced = logged_in(portal, 2);
        let written = owner.run(0, one_block(0x8a), 0, vec![1; BLOCK]);
        assert_eq!(written.status, GOOD);

        fenced.write(7, 0, cdb, data);
        fenced.send_only();
        // The target has asked for the data: the command passed the gates.
        wait_for_traffic(std::slice::from_ref(&fenced));
        for (action, kind, key, new_key) in [(0, 0, 0, 42), (1, 1, 42, 0)] {
            let (cdb, list) = persistent_reserve_out(action, kind, key, new_key);
            assert_eq!(owner.run(0, cdb, 0, list).status, GOOD, "{name}");
        }
        let mut ended = Vec::new();
        while ended.is_empty() {
            wait_for_traffic(std::slice::from_ref(&fenced));
            fenced.pump(&mut ended).unwrap();
        }
        assert_eq!(ended[0].status, RESERVATION_CONFLICT, "{name}");
        let read = owner.run(0, one_block(0x88), BLOCK, Vec::new());
        assert_eq!(read.status, GOOD, "{name}");
        assert!(read.data_in == [1; BLOCK], "{name} changed the block");
        drop((owner, fenced));
        served.stop();
    }
}

/// Waits until the only session has this number of connections.
fn wait_for_connections(served: &Served, wanted: usize) {
    let what = format!("{wanted} connections");
    wait::until_seen(&what, || served.connections(), |count| *count == wanted);
}

#[test]
fn a_write_of_a_lost_connection_never_overtakes_those_of_the_other_connection() {
    let portal = free_portal();
    let device = Arc::new(FirstWriteWaits::new());
    let units = vec![served::unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], served::limits());
    let mut first = PipelinedSession::new(portal, settings(0));
    first.settings.limits.max_connections = 2;
    first.log_in();
    first.wait_until_ready(0);
    let mut second = first.second_connection(1);
    first.write(1, 0, write_cdb(), vec![b'a'; BLOCK]);
    first.pump(&mut Vec::new()).unwrap();
    device.wait_until_held();
    second.log_in();
    wait_for_connections(&served, 2);
    first.cut();
    wait_for_connections(&served, 1);
    // A target that does not wait answers this write, which comes after it in order, at once.
    second.write(2, 0, write_cdb(), vec![b'b'; BLOCK]);
    let mut test = [0; 16];
    test[0] = 0x12;
    let mut ended = Vec::new();
    second.read(3, 0, test, 36);
    while ended.is_empty() {
        second.pump(&mut ended).unwrap();
        if ended.is_empty() {
            wait_for_traffic(std::slice::from_ref(&second));
        }
    }
    assert_eq!(ended[0].cookie, 3, "the write waits");
    device.let_go();
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(&second));
        second.pump(&mut ended).unwrap();
    }
    assert_eq!((ended[0].cookie, ended[0].status), (2, GOOD));
    let read = second.run(0, one_block(0x88), BLOCK, Vec::new());
    assert!(read.data_in == [b'b'; BLOCK], "the first write came last");
    second.cut();
    served.stop();
}
