//! Tests of RESERVE and RELEASE of 6 and 10 bytes.

use std::sync::Arc;

use scsi::Status;
use scsi::itl_nexus::ItlNexus;
use scsi::logical_unit::Reset;

use crate::harness::*;

const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const RESERVE_10: [u8; 10] = [0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const RELEASE_10: [u8; 10] = [0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const START_STOP: [u8; 6] = [0x1b, 0, 0, 0, 0, 0];
const LOG_SENSE: [u8; 10] = [0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0];
const PERSISTENT_RESERVE_IN: [u8; 10] = [0x5e, 0, 0, 0, 0, 0, 0, 0, 255, 0];
const READ_CAPACITY_16: [u8; 16] = [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
const MODE_SENSE: [u8; 6] = [0x1a, 0, 0x3f, 0, 255, 0];

#[track_caller]
fn assert_conflict(bench: &Harness, nexus: &Arc<ItlNexus>, cdb: &[u8]) {
    let response = bench.run(nexus, cdb, &[0; 512]);
    assert_eq!(response.status, Status::ReservationConflict, "{cdb:x?}");
}

#[test]
fn reserve_excludes_others_until_released() {
    let bench = Harness::new(config());
    let (holder, other) = (bench.login(1), bench.login(2));
    for (reserve, release) in [(&RESERVE_6[..], &RELEASE_6[..]), (&RESERVE_10, &RELEASE_10)] {
        assert_good(bench.run(&holder, reserve, &[]));
        assert_good(bench.run(&holder, reserve, &[]));
        assert_conflict(&bench, &other, reserve);
        assert_good(bench.run(&other, release, &[]));
        for cdb in [
            &MODE_SENSE[..],
            &[0; 6],
            &cdb_10(0x28, 0, 0, 1),
            &cdb_10(0x2a, 0, 0, 1),
            &START_STOP,
            &PERSISTENT_RESERVE_IN,
        ] {
            assert_conflict(&bench, &other, cdb);
        }
        // Tables 9 and B.1 of SPC-2 allow these under any reservation.
        for cdb in [
            &cdb_10(0x25, 0, 0, 0)[..],
            &READ_CAPACITY_16,
            &LOG_SENSE,
            &[0x1b, 0, 0, 0, 1, 0],
        ] {
            assert_good(bench.run(&other, cdb, &[]));
        }
        assert_good(bench.run(&other, &[0x12, 0, 0, 0, 96, 0], &[]));
        assert_good(bench.run(&other, &[0x03, 0, 0, 0, 18, 0], &[]));
        assert_good(bench.run(&other, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]));
        assert_good(bench.run(&holder, &MODE_SENSE, &[]));
        assert_good(bench.run(&holder, &cdb_10(0x2a, 0, 0, 1), &[1; 512]));
        assert_good(bench.run(&holder, release, &[]));
        assert_good(bench.run(&other, &cdb_10(0x28, 0, 0, 1), &[]));
    }
}

#[test]
fn a_write_whose_data_came_late_is_fenced() {
    let bench = Harness::new(config());
    let (late, holder) = (bench.login(1), bench.login(2));
    assert_eq!(late.may_still_run(true), Ok(()));
    assert_good(bench.run(&holder, &RESERVE_6, &[]));
    assert_eq!(
        late.may_still_run(true).unwrap_err().status,
        Status::ReservationConflict
    );
    assert_eq!(holder.may_still_run(true), Ok(()));
}

#[test]
fn a_nexus_that_comes_later_is_excluded_too() {
    let bench = Harness::new(config());
    let holder = bench.login(1);
    assert_good(bench.run(&holder, &RESERVE_6, &[]));
    let newcomer = bench.login(2);
    assert_conflict(&bench, &newcomer, &cdb_10(0x28, 0, 0, 1));
}

#[test]
fn the_reservation_ends_with_its_nexus_or_a_reset() {
    let bench = Harness::new(config());
    let (holder, other) = (bench.login(1), bench.login(2));
    assert_good(bench.run(&holder, &RESERVE_6, &[]));
    bench.unit().detach(holder.nexus().id);
    assert_good(bench.run(&other, &RESERVE_6, &[]));
    for cause in [Reset::LogicalUnit, Reset::TargetWarm, Reset::TargetCold] {
        let third = bench.login(3);
        let _ = bench.unit().reset(cause);
        bench.run(&third, &[0; 6], &[]);
        bench.run(&other, &[0; 6], &[]);
        assert_good(bench.run(&third, &RESERVE_6, &[]));
        assert_good(bench.run(&third, &RELEASE_6, &[]));
        assert_good(bench.run(&other, &RESERVE_6, &[]));
    }
}

#[test]
fn third_parties_and_extents_are_refused() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for flags in [0x10, 0x01] {
        for opcode in [0x16, 0x17] {
            assert_sense(
                &bench.run(&nexus, &[opcode, flags, 0, 0, 0, 0], &[]),
                5,
                0x24,
                0x00,
            );
        }
    }
}

#[test]
fn registrants_meet_a_conflict_as_spc_4_says() {
    let bench = Harness::new(config());
    let (registrant, other) = (bench.login(1), bench.login(2));
    let mut list = [0; 24];
    list[15] = 1;
    let register = [0x5f, 0x00, 0, 0, 0, 0, 0, 0, 24, 0];
    assert_good(bench.run(&registrant, &register, &list));
    assert_conflict(&bench, &other, &RESERVE_6);
}
