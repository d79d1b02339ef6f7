//! An administrator sets the state of a target port group: sessions stay, are told, and obey.

use std::sync::Arc;

use sandstone::block::memory::MemoryDevice;
use sandstone::config::model::AluaState;

use super::kill::settings;
use super::late_write::{BLOCK, write_cdb};
use super::process::free_portal;
use super::served::{self, Served, limits};
use super::session::{Ended, PipelinedSession};

/// The descriptor of the first target port group.
fn report_target_port_groups(session: &mut PipelinedSession) -> Vec<u8> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[9]) = (0xa3, 0x0a, 64);
    let told = session.run(0, cdb, 64, Vec::new());
    assert_eq!(told.status, 0, "{told:?}");
    told.data_in[4..].to_vec()
}

#[test]
fn the_state_of_a_target_port_group_changes_under_a_session() {
    let portal = free_portal();
    let disk = Arc::new(MemoryDevice::new(64 * BLOCK as u64, BLOCK as u32, 1 << 20).unwrap());
    let units = vec![served::unit(0, 64, BLOCK as u32, true)];
    let mut served = Served::start(&[portal], units, vec![disk], limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    let read = |session: &mut PipelinedSession| {
        let mut read = write_cdb();
        read[0] = 0x88;
        session.run(0, read, BLOCK, Vec::new())
    };
    let asc = |ended: &Ended| ended.asc();
    for (state, asc_when_read) in [
        (AluaState::Standby, Some((0x04, 0x0b))),
        (AluaState::Unavailable, Some((0x04, 0x0c))),
        (AluaState::Transitioning, Some((0x04, 0x0a))),
        (AluaState::ActiveNonOptimized, None),
        (AluaState::ActiveOptimized, None),
    ] {
        served.change(|config| config.targets[0].portal_groups[0].alua_state = state);
        let told = read(&mut session);
        // ASYMMETRIC ACCESS STATE CHANGED
        assert_eq!(asc(&told), Some((0x2a, 0x06)), "{state:?}: {told:?}");
        let after = read(&mut session);
        assert_eq!(asc(&after), asc_when_read, "{state:?}: {after:?}");
        // REPORT TARGET PORT GROUPS: the state; T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP.
        let group = report_target_port_groups(&mut session);
        let code = match state {
            AluaState::ActiveOptimized => 0x0,
            AluaState::ActiveNonOptimized => 0x1,
            AluaState::Standby => 0x2,
            AluaState::Unavailable => 0x3,
            AluaState::Transitioning => 0xf,
        };
        assert_eq!(group[..2], [code, 0x8f], "{state:?}");
    }
    session.cut();
    served.stop();
}
