//! Attack 7 against the real daemon: EXTENDED COPY and ODX tokens towards a unit outside the
//! initiator's view.

use model::config::HostSpec;

use crate::losses::kill::settings;
use crate::rig::process::{Process, file_unit, free_portal, target};
use crate::rig::session::{Ended, PipelinedSession};

const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
/// COPY TARGET DEVICE NOT REACHABLE.
const NOT_REACHABLE: (u8, u8) = (0x0d, 0x02);

/// Returns a CSCD descriptor that names a unit of [`file_unit`] by its NAA.
fn cscd(lun: u8) -> Vec<u8> {
    let mut bytes = vec![0xe4, 0, 0, 0, 1, 3, 0, 16];
    bytes.extend_from_slice(&[0x6e, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, lun]);
    bytes.resize(28, 0);
    bytes.extend_from_slice(&512_u32.to_be_bytes());
    bytes
}

/// Copies eight blocks from unit `from` to unit `to`.
fn copy(session: &mut PipelinedSession, lun: u8, from: u8, to: u8) -> Ended {
    let mut segment = vec![0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0, 0, 8];
    segment.extend_from_slice(&[0; 16]);
    let mut list = vec![
        1,
        0,
        0,
        64,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        segment.len() as u8,
        0,
        0,
        0,
        0,
    ];
    list.extend(cscd(from));
    list.extend(cscd(to));
    list.extend(segment);
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    session.run(lun, cdb, 0, list)
}

fn cdb16(opcode: u8, blocks: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (opcode, blocks);
    cdb
}

#[test]
fn a_copy_reaches_only_what_its_initiator_sees() {
    let portal = free_portal();
    let _process = Process::start(&["--threads", "2"], |config| {
        config.targets.push(target(&[portal]));
        for (lun, host) in [(0, 0), (1, 1), (2, 0)] {
            let (unit, mut map) = file_unit(lun, 64, 512, true);
            map.host = Some(format!("host-{host}"));
            config.units.push(unit);
            config.maps.push(map);
        }
        for number in 0..2 {
            config.hosts.push(HostSpec {
                except: Vec::new(),
                name: format!("host-{number}"),
                initiators: vec![settings(number).initiator_name],
                chap: None,
            });
        }
    });
    let [mut thief, mut victim] = [0, 1].map(|number| {
        let mut session = PipelinedSession::new(portal, settings(number));
        session.log_in();
        session.wait_until_ready(number);
        session
    });
    thief.wait_until_ready(2);
    let secret = vec![b's'; 8 * 512];
    let mine = vec![b'm'; 8 * 512];
    assert_eq!(
        victim.run(1, cdb16(0x8a, 8), 0, secret.clone()).status,
        GOOD
    );
    assert_eq!(thief.run(0, cdb16(0x8a, 8), 0, mine.clone()).status, GOOD);
    // Within the view a copy works: the next copies are refused for the view alone.
    assert_eq!(copy(&mut thief, 0, 0, 2).status, GOOD);
    assert_eq!(
        thief.run(2, cdb16(0x88, 8), 8 * 512, Vec::new()).data_in,
        mine
    );
    for (from, to) in [(1, 0), (0, 1), (1, 1), (1, 2)] {
        let refused = copy(&mut thief, 0, from, to);
        assert_eq!(refused.status, CHECK_CONDITION);
        assert_eq!(refused.asc(), Some(NOT_REACHABLE), "{from} to {to}");
    }
    assert_eq!(
        victim.run(1, cdb16(0x88, 8), 8 * 512, Vec::new()).data_in,
        secret
    );
    for lun in [0, 2] {
        let found = thief.run(lun, cdb16(0x88, 8), 8 * 512, Vec::new());
        assert_eq!(found.data_in, mine);
    }
}
