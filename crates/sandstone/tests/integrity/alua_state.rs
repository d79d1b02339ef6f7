//! An administrator sets the state of a target port group: sessions stay, are told, and obey.

use std::sync::Arc;

use block::BlockDevice;
use block::memory::MemoryDevice;
use model::config::{AluaState, BackendSpec, Config};
use model::data_plane::{ApplyError, DataPlane};
use testing::wait;

use crate::losses::kill::settings;
use crate::losses::late_write::{BLOCK, FirstWriteWaits, write_cdb};
use crate::losses::volatile_disk::VolatileDisk;
use crate::rig::process::{file_unit, free_portal};
use crate::rig::random::Random;
use crate::rig::served::{self, Served, limits};
use crate::rig::session::{Ended, PipelinedSession, wait_for_traffic};

/// Sends READ(16) of the first block.
fn read(session: &mut PipelinedSession) -> Ended {
    let mut read = write_cdb();
    read[0] = 0x88;
    session.run(0, read, BLOCK, Vec::new())
}

/// Puts the first target port group in this state.
fn set(served: &mut Served, state: AluaState) -> Result<(), ApplyError> {
    served.try_change(|config| config.targets[0].portal_groups[0].alua_state = state)
}

/// Starts a target whose device holds up a write of the first of two sessions.
fn with_a_held_write() -> (Arc<FirstWriteWaits>, Served, [PipelinedSession; 2]) {
    let portal = free_portal();
    let device = Arc::new(FirstWriteWaits::new());
    let units = vec![served::unit(0, 8, BLOCK as u32, true)];
    let served = Served::start(&[portal], units, vec![device.clone()], limits());
    let mut sessions = [0, 1].map(|port| {
        let mut session = PipelinedSession::new(portal, settings(port));
        session.log_in();
        session.wait_until_ready(0);
        session
    });
    sessions[0].write(1, 0, write_cdb(), vec![b'a'; BLOCK]);
    sessions[0].pump(&mut Vec::new()).unwrap();
    device.wait_until_held();
    (device, served, sessions)
}

/// Returns the descriptor of the first target port group.
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

#[test]
fn a_group_is_between_two_states_until_what_began_before_is_over() {
    let (device, mut served, [mut writer, mut other]) = with_a_held_write();
    let service = served.service();
    std::thread::scope(|scope| {
        let change = scope.spawn(|| set(&mut served, AluaState::Standby));
        // New commands end at once; nobody is told before the transition is over.
        let told = || read(&mut other).asc();
        wait::until_seen("it begins", told, |asc| *asc == Some((0x04, 0x0a)));
        let group = report_target_port_groups(&mut other);
        // Transitioning, by the target itself (STATUS CODE).
        assert_eq!((group[0], group[5]), (0x0f, 2));
        for _ in 0..1000 {
            assert_eq!(read(&mut other).asc(), Some((0x04, 0x0a)));
        }
        // Queries of the configuration do not wait for it.
        assert_eq!((service.units().len(), service.portals().len()), (1, 1));
        assert_eq!(service.sessions().len(), 2);
        assert!(!change.is_finished(), "the write is still under way");
        device.let_go();
        change.join().unwrap().unwrap();
    });
    let mut ended = Vec::new();
    while ended.is_empty() {
        wait_for_traffic(std::slice::from_ref(&writer));
        writer.pump(&mut ended).unwrap();
    }
    assert_eq!(ended[0].status, 0, "{ended:?}");
    for session in [&mut writer, &mut other] {
        assert_eq!(read(session).asc(), Some((0x2a, 0x06)));
        assert_eq!(read(session).asc(), Some((0x04, 0x0b)));
    }
    served.stop();
}

#[test]
fn a_group_whose_commands_do_not_end_stays_in_service_and_between_two_states_waits_for_none() {
    let (device, mut served, [_writer, mut other]) = with_a_held_write();
    let refused = set(&mut served, AluaState::Unavailable).unwrap_err();
    assert!(refused.message.contains("still under way"), "{refused}");
    assert!(
        refused.next.contains("target alua-state 1 transitioning"),
        "{refused:?}"
    );
    // The unit serves as before, and nothing has changed that could be told.
    assert_eq!(read(&mut other).status, 0);
    set(&mut served, AluaState::Transitioning).unwrap();
    assert_eq!(read(&mut other).asc(), Some((0x2a, 0x06)));
    assert_eq!(read(&mut other).asc(), Some((0x04, 0x0a)));
    device.let_go();
    set(&mut served, AluaState::Unavailable).unwrap();
    assert_eq!(read(&mut other).asc(), Some((0x2a, 0x06)));
    assert_eq!(read(&mut other).asc(), Some((0x04, 0x0c)));
    served.stop();
}

#[test]
fn a_unit_that_is_deleted_with_the_change_leaves_service_like_the_others() {
    let portal = free_portal();
    let held = Arc::new(FirstWriteWaits::new());
    let disk = Arc::new(VolatileDisk::new(Random::new(7), 8, BLOCK));
    let units = [0, 1].map(|lun| served::unit(lun, 8, BLOCK as u32, true));
    let devices: Vec<Arc<dyn BlockDevice>> = vec![held.clone(), disk.clone()];
    let mut served = Served::start(&[portal], units.into(), devices, limits());
    let [mut writer, mut other] = [0, 1].map(|port| {
        let mut session = PipelinedSession::new(portal, settings(port));
        session.log_in();
        session.wait_until_ready(0);
        session.wait_until_ready(1);
        session
    });
    let written = other.run(1, write_cdb(), 0, vec![b'a'; BLOCK]);
    assert_eq!(written.status, 0, "{written:?}");
    writer.write(1, 0, write_cdb(), vec![b'a'; BLOCK]);
    writer.pump(&mut Vec::new()).unwrap();
    held.wait_until_held();
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            served.try_change(|config| {
                config.targets[0].portal_groups[0].alua_state = AluaState::Standby;
                config.units.remove(1);
                config.maps.remove(1);
            })
        });
        // New commands to this unit end like those of the unit that stays.
        let told = || other.run(1, [0; 16], 0, Vec::new()).asc();
        wait::until_seen("it serves no more", told, |asc| *asc == Some((0x04, 0x0a)));
        held.let_go();
        change.join().unwrap().unwrap();
    });
    // From here on another machine may serve the disk.
    disk.cut();
    disk.power_on();
    assert_eq!(disk.bytes(0, BLOCK), [b'a'; BLOCK]);
    served.stop();
}

#[test]
fn a_refused_change_of_state_leaves_units_as_large_as_they_were() {
    let (device, mut served, [_writer, mut other]) = with_a_held_write();
    served.change(|config| {
        let (mut unit, map) = file_unit(1, 8, BLOCK as u32, true);
        unit.backend = BackendSpec::File {
            path: "grows.img".into(),
            size: 8 * BLOCK as u64,
            preallocate: false,
        };
        config.units.push(unit);
        config.maps.push(map);
    });
    let ready = |other: &mut PipelinedSession| other.run(1, [0; 16], 0, Vec::new()).asc();
    // The loops take a change over a moment later.
    wait::until_seen(
        "the unit is ready",
        || ready(&mut other),
        |asc| asc.is_none(),
    );
    let blocks = |other: &mut PipelinedSession| {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        let told = other.run(1, cdb, 32, Vec::new());
        assert_eq!(told.status, 0, "{told:?}");
        u64::from_be_bytes(told.data_in[..8].try_into().unwrap()) + 1
    };
    assert_eq!(blocks(&mut other), 8);
    let larger = |config: &mut Config| {
        config.targets[0].portal_groups[0].alua_state = AluaState::Standby;
        if let BackendSpec::File { size, .. } = &mut config.units[1].backend {
            *size *= 2;
        }
    };
    let refused = served.try_change(larger).unwrap_err();
    assert!(refused.message.contains("still under way"), "{refused}");
    assert_eq!(blocks(&mut other), 8, "nothing of it is done");
    device.let_go();
    served.change(larger);
    assert_eq!(ready(&mut other), Some((0x2a, 0x09)));
    assert_eq!(ready(&mut other), Some((0x2a, 0x06)));
    assert_eq!(blocks(&mut other), 16);
    served.stop();
}

#[test]
fn what_was_acknowledged_from_a_cache_is_durable_when_a_group_is_in_standby() {
    let portal = free_portal();
    let disk = Arc::new(VolatileDisk::new(Random::new(7), 8, BLOCK));
    let units = vec![served::unit(0, 8, BLOCK as u32, true)];
    let mut served = Served::start(&[portal], units, vec![disk.clone()], limits());
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(0);
    let written = session.run(0, write_cdb(), 0, vec![b'a'; BLOCK]);
    assert_eq!(written.status, 0, "{written:?}");
    set(&mut served, AluaState::Standby).unwrap();
    // From here on another machine may serve the disk: nobody misses the writes that this one
    // loses.
    disk.cut();
    disk.power_on();
    set(&mut served, AluaState::ActiveOptimized).unwrap();
    assert_eq!(read(&mut session).asc(), Some((0x2a, 0x06)));
    assert_eq!(read(&mut session).data_in, [b'a'; BLOCK]);
    served.stop();
}
