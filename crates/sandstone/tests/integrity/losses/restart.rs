//! The daemon is restarted and reconfigured under load.
//!
//! Clients that retry lose nothing, and a change of the configuration drops nobody's session.

use std::net::SocketAddr;

use testing::wait;

use super::kill::settings;
use crate::rig::model::{Crash, Model};
use crate::rig::process::{Process, file_unit, free_portal, target};
use crate::rig::random::{seeds, with_seed};
use crate::rig::session::PipelinedSession;
use crate::rig::workload::{Unit, Workload};

const BLOCKS: u64 = 512;

fn serve(portal: SocketAddr) -> Process {
    Process::start(&["--threads", "2"], |config| {
        config.targets.push(target(&[portal]));
        for lun in [0, 1] {
            let (unit, map) = file_unit(lun, BLOCKS, 512, lun == 0);
            config.units.push(unit);
            config.maps.push(map);
        }
    })
}

fn workload(seed: u64, portal: SocketAddr) -> Workload {
    let sessions = (0..4).map(|number| PipelinedSession::new(portal, settings(number)));
    let unit = |lun: u8| Unit {
        lun,
        block_len: 512,
        write_cache: lun == 0,
        model: Model::new(BLOCKS),
    };
    Workload::new(seed, sessions.collect(), vec![unit(0), unit(1)])
}

#[test]
fn a_restart_under_load_loses_nothing() {
    for seed in seeds(1..4) {
        with_seed(seed, |seed| {
            let portal = free_portal();
            let mut process = serve(portal);
            let mut workload = workload(seed, portal);
            for _ in 0..4 {
                workload.connect_all();
                workload.run(200, false);
                process.terminate();
                process.restart();
                workload.crash(|_| Crash::Process);
                workload.connect_all();
                workload.verify();
            }
        });
    }
}

#[test]
fn the_configuration_changes_under_load_and_no_session_is_dropped() {
    let portal = free_portal();
    let process = serve(portal);
    let mut workload = workload(1, portal);
    workload.connect_all();
    // Commands may be stopped by REPORTED LUNS DATA HAS CHANGED; a lost connection would be a
    // panic.
    workload.expect_unit_attentions();
    for round in 0..4 {
        workload.run(60, false);
        process.run(&format!("lu create more-{round} --file --size 1M"));
        workload.run(60, false);
        process.run(&format!(
            "map add more-{round} --every-host --lun {}",
            10 + round
        ));
        workload.run(60, false);
        process.run(&format!("map remove more-{round} --all --yes"));
        workload.run(60, false);
        process.run(&format!("lu delete more-{round} --yes"));
    }
    workload.drain();
    workload.verify();
    let told = workload.ended.get("unit attention").copied();
    assert!(told.unwrap_or_default() >= 4 * 2, "{told:?}");
    let sessions = process.run("session list -H");
    assert_eq!(sessions.lines().count(), 4, "{sessions}");
}

#[test]
fn what_was_missing_at_the_start_is_served_once_it_is_there() {
    let portals = [free_portal(), free_portal()];
    let mut process = Process::start(&["--threads", "2"], |config| {
        config.targets.push(target(&portals));
        for lun in [0, 1] {
            let (unit, map) = file_unit(lun, BLOCKS, 512, true);
            config.units.push(unit);
            config.maps.push(map);
        }
    });
    let mut session = PipelinedSession::new(portals[0], settings(0));
    session.log_in();
    session.wait_until_ready(1);
    process.terminate();
    // The disk with one unit is not mounted, and the address of one portal belongs to another
    // program.
    let image = process.state().join("volumes/unit-1.img");
    let away = process.state().join("elsewhere.img");
    std::fs::rename(&image, &away).unwrap();
    let other = std::net::TcpListener::bind(portals[1]).unwrap();
    process.restart();
    session.log_in();
    session.wait_until_ready(0);
    assert_ne!(session.run(1, [0; 16], 0, Vec::new()).status, 0);
    std::fs::rename(&away, &image).unwrap();
    drop(other);
    PipelinedSession::new(portals[1], settings(1)).log_in();
    let ready = || session.run(1, [0; 16], 0, Vec::new());
    wait::until_seen("the unit is served", ready, |told| told.status == 0);
    // The unit was among the LUNs all the time: the others hear of nothing.
    assert_eq!(session.run(0, [0; 16], 0, Vec::new()).status, 0);
}
