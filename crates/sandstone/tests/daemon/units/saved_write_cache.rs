//! An administrator's setting of the write cache outlives older settings of initiators.
//!
//! After a restart, the unit must not acknowledge from a cache that was switched off.

use initiator::connection::Connection;

use crate::process::Process;
use crate::served::{TARGET, free_portal, log_in, sense, settings};

/// Starts a daemon with one unit, and returns it with its portal.
fn serve(lu: &str) -> (Process, std::net::SocketAddr) {
    let process = Process::start();
    let portal = free_portal();
    process.done(&format!("lu create disk --file disk.img --size 1M {lu}"));
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done(&format!(
        "map add disk --every-host --target {TARGET} --lun 0"
    ));
    (process, portal)
}

/// Returns the caching page of MODE SENSE(6), as a list for MODE SELECT(6).
fn caching_page(connection: &mut Connection) -> Vec<u8> {
    loop {
        let told = connection
            .read(0, &[0x1a, 0x08, 0x08, 0, 255, 0], 255)
            .unwrap();
        match sense(&told) {
            None => return told.data_in,
            // A unit attention of a change comes first.
            Some([6, 0x2a, 0x01]) => {}
            other => panic!("{other:x?}"),
        }
    }
}

fn write_cache(connection: &mut Connection) -> bool {
    caching_page(connection)[4 + 2] & 0x04 != 0
}

/// Sends REGISTER with APTPL: the whole state of the unit is stored.
fn register(connection: &mut Connection) {
    let mut list = vec![0; 24];
    (list[15], list[20]) = (7, 1);
    let registered = connection
        .write(0, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], list)
        .unwrap();
    assert_eq!(sense(&registered), None);
}

#[test]
fn a_write_cache_that_was_switched_off_stays_off_after_a_restart() {
    let (mut process, portal) = serve("--write-cache");
    let mut session = log_in(portal, settings(1));
    assert!(write_cache(&mut session));
    register(&mut session);
    process.done("lu modify disk --write-cache no");
    assert!(!write_cache(&mut session));
    process.kill();
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert!(!write_cache(&mut session));
}

#[test]
fn nor_does_one_come_back_that_an_initiator_had_saved() {
    let (mut process, portal) = serve("");
    let mut session = log_in(portal, settings(1));
    let mut list = caching_page(&mut session);
    list[0] = 0;
    // PS is reserved in MODE SELECT; WCE.
    list[4] &= 0x7f;
    list[4 + 2] |= 0x04;
    let select = [0x15, 0x11, 0, 0, list.len() as u8, 0];
    assert_eq!(sense(&session.write(0, &select, list).unwrap()), None);
    // It is saved, and the administrator's setting has not changed.
    process.kill();
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert!(write_cache(&mut session));
    // Now it has: on, and off again.
    process.done("lu modify disk --write-cache yes");
    process.done("lu modify disk --write-cache no");
    assert!(!write_cache(&mut session));
    process.kill();
    process.restart();
    let mut session = log_in(portal, settings(1));
    assert!(!write_cache(&mut session));
}
