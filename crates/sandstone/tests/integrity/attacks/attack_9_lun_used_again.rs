//! Attack 9 against the real daemon: a LUN that led to one unit leads to another.
//!
//! A logged-in initiator is told before its first command reaches the new unit. No write for the
//! old unit lands on the new one.

use crate::losses::kill::settings;
use crate::rig::process::{Process, file_unit, free_portal, target};
use crate::rig::session::PipelinedSession;

const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const REPORTED_LUNS_DATA_HAS_CHANGED: (u8, u8) = (0x3f, 0x0e);
const LOGICAL_UNIT_NOT_SUPPORTED: (u8, u8) = (0x25, 0x00);

fn write_cdb(opcode: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (opcode, 1);
    cdb
}

/// Returns the last byte of the NAA designator in VPD page 83h: the number of the unit.
fn who(session: &mut PipelinedSession, lun: u8) -> u8 {
    let mut cdb = [0; 16];
    cdb[..5].copy_from_slice(&[0x12, 1, 0x83, 0, 255]);
    let page = session.run(lun, cdb, 255, Vec::new()).data_in;
    let naa = page
        .windows(5)
        .position(|bytes| bytes[0] & 0xf == 1 && bytes[1] & 0xf == 3 && bytes[3] == 16);
    page[naa.expect("an NAA designator of 16 bytes") + 4 + 15]
}

#[test]
fn a_lun_that_leads_elsewhere_is_announced_before_it_is_used() {
    let portal = free_portal();
    let process = Process::start(&["--threads", "2"], |config| {
        config.targets.push(target(&[portal]));
        for lun in [1, 2, 3] {
            let (unit, map) = file_unit(lun, 64, 512, true);
            config.units.push(unit);
            if lun != 2 {
                config.maps.push(map);
            }
        }
    });
    let mut session = PipelinedSession::new(portal, settings(0));
    session.log_in();
    session.wait_until_ready(1);
    session.wait_until_ready(3);
    assert_eq!(who(&mut session, 1), 1);
    assert_eq!(
        session.run(1, write_cdb(0x8a), 0, vec![b'1'; 512]).status,
        GOOD
    );
    process.run("map remove unit-1 --all --yes");
    // The LUN that stays tells that the inventory changed; the other leads nowhere.
    let told = session.run(3, [0; 16], 0, Vec::new());
    assert_eq!(told.asc(), Some(REPORTED_LUNS_DATA_HAS_CHANGED));
    let gone = session.run(1, write_cdb(0x8a), 0, vec![b'x'; 512]);
    assert_eq!(
        (gone.status, gone.asc()),
        (CHECK_CONDITION, Some(LOGICAL_UNIT_NOT_SUPPORTED))
    );
    process.run("map add unit-2 --every-host --lun 1");
    // An initiator that does not ask first is stopped, and told.
    let stopped = session.run(1, write_cdb(0x8a), 0, vec![b'x'; 512]);
    assert_eq!(stopped.status, CHECK_CONDITION);
    let mut told = vec![stopped.asc()];
    while told.len() < 8 {
        let next = session.run(1, [0; 16], 0, Vec::new());
        if next.status == GOOD {
            break;
        }
        told.push(next.asc());
    }
    assert!(
        told.contains(&Some(REPORTED_LUNS_DATA_HAS_CHANGED)),
        "{told:02x?}"
    );
    assert_eq!(who(&mut session, 1), 2);
    let read = session.run(1, write_cdb(0x88), 512, Vec::new());
    assert_eq!(
        read.data_in, [0; 512],
        "no write for the old unit is on the new one"
    );
    // The old unit has its written data, at its new place.
    process.run("map add unit-1 --every-host --lun 9");
    session.wait_until_ready(9);
    assert_eq!(
        session.run(9, write_cdb(0x88), 512, Vec::new()).data_in,
        [b'1'; 512]
    );
}
