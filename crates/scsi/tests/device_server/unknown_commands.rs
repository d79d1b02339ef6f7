//! Tests of operation codes that are not offered. Whatever follows them, they are refused as
//! unknown, take no data and leave no trace. Among them are READ BUFFER and WRITE BUFFER, through
//! which other targets leaked memory or let it be written.

use std::collections::BTreeSet;
use std::sync::Arc;

use scsi::alua::AccessState;
use scsi::cdb::Cdb;
use scsi::command_table::TABLE;
use scsi::itl_nexus::ItlNexus;
use scsi::logical_unit::UnitConfig;

use super::gates::two_groups;
use crate::harness::*;

const WRITE_BUFFER: u8 = 0x3b;
const READ_BUFFER_10: u8 = 0x3c;
const READ_BUFFER_16: u8 = 0x9b;

/// Returns all operation codes that the table does not list.
fn unlisted() -> Vec<u8> {
    let listed: BTreeSet<u8> = TABLE.iter().map(|command| command.opcode).collect();
    (0..=u8::MAX)
        .filter(|opcode| !listed.contains(opcode))
        .collect()
}

/// Returns CDBs of this operation code, as long as its group says. One has nothing set but the
/// code. Others have each of the modes of READ BUFFER and WRITE BUFFER, and a length. One has all
/// bits except NACA.
fn cdbs(opcode: u8) -> Vec<Vec<u8>> {
    let len = Cdb(&[opcode]).expected_len().unwrap_or(32);
    let empty = |second| {
        let mut cdb = vec![0; len];
        (cdb[0], cdb[1]) = (opcode, second);
        cdb
    };
    let mut cdbs = vec![empty(0)];
    cdbs.extend((0..0x20).map(|mode| {
        let mut cdb = empty(mode);
        cdb[len - 3] = 2;
        cdb
    }));
    let mut full = vec![0xff; len];
    full[0] = opcode;
    full[len - 1] = !0x04;
    cdbs.push(full);
    cdbs
}

fn refuses_all(bench: &Harness, nexus: &Arc<ItlNexus>) {
    for opcode in unlisted() {
        for cdb in cdbs(opcode) {
            let answer = bench.run_offering(nexus, &cdb, &[0xa5; 512], 4096);
            assert_sense(&answer.response, 5, 0x20, 0x00);
            assert!(answer.response.data_in.is_empty(), "{cdb:02x?}");
        }
    }
}

#[test]
fn read_buffer_and_write_buffer_are_not_offered() {
    let unlisted = unlisted();
    for opcode in [WRITE_BUFFER, READ_BUFFER_10, READ_BUFFER_16] {
        assert!(unlisted.contains(&opcode), "{opcode:02x}");
    }
}

#[test]
fn every_operation_code_that_is_not_listed_is_refused_as_unknown() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    refuses_all(&bench, &nexus);
    assert!(bench.disk().bytes.borrow().iter().all(|byte| *byte == 0));
    assert!(bench.disk().mapped.borrow().iter().all(|mapped| !mapped));
    assert_eq!(bench.disk().flushes.get(), 0);
    assert!(bench.saved.borrow().is_none());
    assert!(bench.aborted.borrow().is_empty());
}

/// Tests that no state and no setting brings an unknown command any further.
#[test]
fn so_they_are_on_a_path_in_standby_and_on_a_unit_that_offers_little() {
    let bench = Harness::with_groups(vec![config()], two_groups(AccessState::Standby));
    let nexus = bench.login_fresh(1, 2);
    // The power-on unit attention comes first.
    bench.run(&nexus, &[0; 6], &[]);
    refuses_all(&bench, &nexus);
    let bench = Harness::new(UnitConfig {
        thin: false,
        sanitize: false,
        read_only: true,
        max_atomic_write: 0,
        ..config()
    });
    let nexus = bench.login(1);
    refuses_all(&bench, &nexus);
}

/// Tests that all commands that a path in standby lets through are offered: the list of the states
/// names no missing command.
#[test]
fn a_path_in_standby_lets_nothing_through_that_is_not_offered() {
    for opcode in unlisted() {
        for action in 0..0x20 {
            let permitted = AccessState::Standby.permits(&[opcode, action]);
            assert!(!permitted, "{opcode:02x} {action:02x}");
        }
    }
}
