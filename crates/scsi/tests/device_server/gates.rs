//! Tests of conditions that keep a command from running: unit attentions, write protection,
//! readiness, access states.

use scsi::alua::{AccessState, GroupLayout, SupportedStates, TargetPortGroup, TpgsMode};
use scsi::logical_unit::Reset;
use scsi::{Asc, Status, UnitAttention};

use crate::harness::*;

const TEST_UNIT_READY: [u8; 6] = [0; 6];

#[test]
fn the_first_command_hears_of_power_on_once() {
    let bench = Harness::new(config());
    let nexus = bench.login_fresh(1, 1);
    assert!(nexus.ua_pending());
    assert_good(bench.run(&nexus, &[0x12, 0, 0, 0, 96, 0], &[]));
    assert_good(bench.run(&nexus, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]));
    assert!(
        nexus.ua_pending(),
        "INQUIRY and REPORT LUNS leave it pending"
    );
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]),
        6,
        0x29,
        0x00,
    );
    assert!(!nexus.ua_pending());
    assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]));
}

#[test]
fn request_sense_reports_and_clears_a_unit_attention() {
    let bench = Harness::new(config());
    let nexus = bench.login_fresh(1, 1);
    let sense = assert_good(bench.run(&nexus, &[0x03, 0, 0, 0, 252, 0], &[]));
    assert_eq!(
        (sense[0], sense[2], sense[12], sense[13]),
        (0x70, 6, 0x29, 0x00)
    );
    let sense = assert_good(bench.run(&nexus, &[0x03, 1, 0, 0, 252, 0], &[]));
    assert_eq!(sense[..4], [0x72, 0, 0, 0]);
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
}

#[test]
fn unit_attentions_queue_once_each_resets_first() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench.unit().raise(
        UnitAttention::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
        None,
    );
    bench
        .unit()
        .raise(UnitAttention::MODE_PARAMETERS_CHANGED, None);
    bench.unit().raise(
        UnitAttention::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
        None,
    );
    let _ = bench.unit().reset(Reset::LogicalUnit);
    for (asc, ascq) in [(0x29, 0x03), (0x38, 0x07), (0x2a, 0x01)] {
        assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, asc, ascq);
    }
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
}

#[test]
fn each_nexus_has_its_own_queue_and_one_may_be_spared() {
    let bench = Harness::new(config());
    let (one, two) = (bench.login(1), bench.login(2));
    bench
        .unit()
        .raise(UnitAttention::MODE_PARAMETERS_CHANGED, Some(one.nexus().id));
    assert_good(bench.run(&one, &TEST_UNIT_READY, &[]));
    assert_sense(&bench.run(&two, &TEST_UNIT_READY, &[]), 6, 0x2a, 0x01);
}

#[test]
fn report_luns_answers_reported_luns_data_has_changed() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    nexus.raise(UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED);
    assert_good(bench.run(&nexus, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]));
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    nexus.raise(UnitAttention::REPORTED_LUNS_DATA_HAS_CHANGED);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x3f, 0x0e);
}

#[test]
fn an_unknown_opcode_still_hears_of_unit_attentions() {
    let bench = Harness::new(config());
    let nexus = bench.login_fresh(1, 1);
    assert_sense(&bench.run(&nexus, &[0xff; 6], &[]), 6, 0x29, 0x00);
    assert_sense(&bench.run(&nexus, &[0xff; 6], &[]), 5, 0x20, 0x00);
}

#[test]
fn each_reset_has_its_own_unit_attention() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for (cause, ascq) in [
        (Reset::LogicalUnit, 3),
        (Reset::TargetWarm, 2),
        (Reset::TargetCold, 1),
    ] {
        let _ = bench.unit().reset(cause);
        assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x29, ascq);
    }
}

#[test]
fn resize_tells_everyone_once() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench.unit().resize(2048);
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
    bench.unit().resize(1024);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x2a, 0x09);
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x28, 0, 1024, 1), &[]),
        5,
        0x21,
        0x00,
    );
    assert_eq!(bench.unit().config().blocks, 1024);
}

/// Returns one of each command that changes the medium.
fn writers() -> Vec<(Vec<u8>, usize)> {
    let mut compare_and_write = cdb_16(0x89, 0, 0, 0);
    compare_and_write[13] = 1;
    vec![
        (vec![0x0a, 0, 0, 0, 1, 0], 512),
        (cdb_10(0x2a, 0, 0, 1), 512),
        (cdb_12(0xaa, 0, 0, 1), 512),
        (cdb_16(0x8a, 0, 0, 1), 512),
        (cdb_10(0x2e, 0, 0, 1), 512),
        (cdb_12(0xae, 0, 0, 1), 512),
        (cdb_16(0x8e, 0, 0, 1), 512),
        (cdb_10(0x41, 0, 0, 1), 512),
        (cdb_16(0x93, 8, 0, 1), 0),
        (cdb_10(0x42, 0, 0, 8), 8),
        (compare_and_write, 1024),
        (cdb_16(0x8b, 0, 0, 1), 512),
        (cdb_16(0x9c, 0, 0, 1), 512),
        (cdb_10(0x48, 1, 0, 8), 8),
    ]
}

#[test]
fn a_read_only_unit_refuses_every_write() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench.unit().set_read_only(true);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x2a, 0x01);
    for (cdb, len) in writers() {
        assert_sense(&bench.run(&nexus, &cdb, &vec![0; len]), 7, 0x27, 0x00);
    }
    assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]));
    let mode = assert_good(bench.run(&nexus, &[0x1a, 8, 0x08, 0, 255, 0], &[]));
    assert_eq!(mode[2] & 0x80, 0x80);
    assert!(bench.unit().config().read_only);
    bench.unit().set_read_only(false);
    bench.run(&nexus, &TEST_UNIT_READY, &[]);
    assert_good(bench.run(&nexus, &cdb_10(0x2a, 0, 0, 1), &[0; 512]));
}

#[test]
fn a_read_only_map_protects_through_itself_alone() {
    let bench = Harness::new(config());
    let (reader, writer) = (bench.login(1), bench.login(2));
    reader.set_read_only(true);
    for (cdb, len) in writers() {
        assert_sense(&bench.run(&reader, &cdb, &vec![0; len]), 7, 0x27, 0x00);
    }
    let mode = assert_good(bench.run(&reader, &[0x1a, 8, 0x08, 0, 255, 0], &[]));
    assert_eq!(mode[2] & 0x80, 0x80);
    assert_good(bench.run(&writer, &cdb_10(0x2a, 0, 0, 1), &[0; 512]));
    assert!(reader.may_still_run(true).is_err());
    assert!(reader.may_still_run(false).is_ok());
}

#[test]
fn a_map_that_becomes_read_only_is_told_to_its_nexus_alone() {
    let bench = Harness::new(config());
    let (mapped, other) = (bench.login(1), bench.login(2));
    let told = |nexus: &_| {
        let response = bench.run(nexus, &TEST_UNIT_READY, &[]);
        (response.status == Status::CheckCondition).then(|| sense_of(&response))
    };
    let changed = Some((6, Asc(0x2a, 0x01)));
    mapped.change_read_only(true);
    assert_eq!(told(&mapped), changed);
    assert_eq!(told(&mapped), None, "once");
    mapped.change_read_only(true);
    assert_eq!(told(&mapped), None, "nothing changed");
    // WP is set in any case, so the map makes no difference to it.
    bench.unit().set_read_only(true);
    assert_eq!((told(&mapped), told(&other)), (changed, changed));
    mapped.change_read_only(false);
    mapped.change_read_only(true);
    assert_eq!(told(&mapped), None);
    bench.unit().set_read_only(false);
    assert_eq!((told(&mapped), told(&other)), (changed, changed));
    mapped.change_read_only(false);
    assert_eq!((told(&mapped), told(&other)), (changed, None));
}

#[test]
fn a_write_under_way_is_fenced_by_a_protection_that_comes_meanwhile() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_eq!(nexus.may_still_run(true), Ok(()));
    bench.unit().set_read_only(true);
    assert_sense(&nexus.may_still_run(true).unwrap_err(), 7, 0x27, 0x00);
    bench.unit().set_read_only(false);
    assert_eq!(
        nexus.may_still_run(true),
        Ok(()),
        "a unit attention does not fence"
    );
}

#[test]
fn start_stop_unit_stops_and_starts() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    assert_good(bench.run(&nexus, &[0x1b, 0, 0, 0, 0, 0], &[]));
    assert_eq!(bench.disk().flushes.get(), 1);
    for cdb in [
        TEST_UNIT_READY.to_vec(),
        cdb_10(0x28, 0, 0, 1),
        cdb_10(0x2a, 0, 0, 1),
    ] {
        assert_sense(&bench.run(&nexus, &cdb, &[0; 512]), 2, 0x04, 0x02);
    }
    assert_good(bench.run(&nexus, &[0x12, 0, 0, 0, 96, 0], &[]));
    let sense = assert_good(bench.run(&nexus, &[0x03, 0, 0, 0, 252, 0], &[]));
    assert_eq!((sense[2], sense[12], sense[13]), (2, 0x04, 0x02));
    assert_good(bench.run(&nexus, &[0x1b, 0, 0, 0, 1, 0], &[]));
    assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]));
    assert_good(bench.run(&nexus, &[0x1b, 0, 0, 0, 4, 0], &[]));
    assert_eq!(bench.disk().flushes.get(), 1, "NO_FLUSH");
}

#[test]
fn start_stop_unit_refuses_power_conditions_and_ejection() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    for flags in [0x10, 0x11, 0xf0, 0x02, 0x03] {
        assert_sense(
            &bench.run(&nexus, &[0x1b, 0, 0, 0, flags, 0], &[]),
            5,
            0x24,
            0x00,
        );
    }
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
}

#[test]
fn a_failed_flush_does_not_stop() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench
        .disk()
        .fail
        .set(Some(scsi::BlockError::Write { lba: None }));
    assert_sense(
        &bench.run(&nexus, &[0x1b, 0, 0, 0, 0, 0], &[]),
        3,
        0x0c,
        0x00,
    );
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
}

#[test]
fn offline_units_say_so_and_come_back() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    bench.unit().set_offline(true);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 2, 0x04, 0x12);
    assert_sense(
        &bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]),
        2,
        0x04,
        0x12,
    );
    assert_good(bench.run(&nexus, &[0x1a, 8, 0x3f, 0, 255, 0], &[]));
    bench.unit().set_offline(false);
    assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
}

pub(crate) fn two_groups(second: AccessState) -> GroupLayout {
    let group = |id, state| TargetPortGroup {
        id,
        preferred: false,
        supported: SupportedStates::ALL,
        state,
        ports: vec![id],
    };
    GroupLayout {
        mode: TpgsMode::Implicit,
        groups: vec![group(1, AccessState::ActiveOptimized), group(2, second)],
        implicit_transition_s: 0,
    }
}

#[test]
fn access_states_gate_only_their_own_group() {
    for (state, ascq) in [
        (AccessState::Standby, 0x0b),
        (AccessState::Unavailable, 0x0c),
        (AccessState::Transitioning, 0x0a),
    ] {
        let bench = Harness::with_groups(vec![config()], two_groups(state));
        let active = bench.login(1);
        let passive = bench.login_fresh(2, 2);
        assert_sense(&bench.run(&passive, &TEST_UNIT_READY, &[]), 6, 0x29, 0x00);
        for cdb in [
            TEST_UNIT_READY.to_vec(),
            cdb_10(0x28, 0, 0, 1),
            cdb_10(0x2a, 0, 0, 1),
        ] {
            assert_sense(&bench.run(&passive, &cdb, &[0; 512]), 2, 0x04, ascq);
        }
        assert_sense(&passive.may_still_run(true).unwrap_err(), 2, 0x04, ascq);
        assert_good(bench.run(&passive, &[0x12, 0, 0, 0, 96, 0], &[]));
        assert_good(bench.run(&active, &cdb_10(0x28, 0, 0, 1), &[]));
    }
}

#[test]
fn a_changed_layout_moves_the_gates_and_is_told() {
    let bench = Harness::with_groups(vec![config()], two_groups(AccessState::Standby));
    let nexus = bench.login_fresh(1, 2);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x29, 0x00);
    let groups = bench.unit().access().groups();
    groups
        .replace(two_groups(AccessState::ActiveNonOptimized))
        .unwrap();
    bench.unit().access_states_changed();
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x2a, 0x06);
    assert_good(bench.run(&nexus, &cdb_10(0x28, 0, 0, 1), &[]));
    let inquiry = assert_good(bench.run(&nexus, &[0x12, 0, 0, 0, 96, 0], &[]));
    assert_eq!(inquiry[5] & 0x30, 0x10, "TPGS");
}

#[test]
fn a_reservation_conflict_goes_before_other_unit_attentions_but_after_resets() {
    let bench = Harness::new(config());
    let (holder, other) = (bench.login(1), bench.login(2));
    assert_good(bench.run(&holder, &[0x16, 0, 0, 0, 0, 0], &[]));
    other.raise(UnitAttention::MODE_PARAMETERS_CHANGED);
    let response = bench.run(&other, &cdb_10(0x28, 0, 0, 1), &[]);
    assert_eq!(response.status, Status::ReservationConflict);
    assert!(response.sense.is_empty());
    other.raise(UnitAttention::POWER_ON_OCCURRED);
    assert_sense(
        &bench.run(&other, &cdb_10(0x28, 0, 0, 1), &[]),
        6,
        0x29,
        0x01,
    );
}

#[test]
fn who_may_read_but_not_write_still_reads() {
    let bench = Harness::new(config());
    let (holder, reader) = (bench.login(1), bench.login(2));
    let mut list = [0; 24];
    list[15] = 1;
    assert_good(bench.run(&holder, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list));
    let mut reserve_list = [0; 24];
    reserve_list[7] = 1;
    let write_exclusive = [0x5f, 1, 0x01, 0, 0, 0, 0, 0, 24, 0];
    assert_good(bench.run(&holder, &write_exclusive, &reserve_list));
    assert_good(bench.run(&reader, &cdb_10(0x28, 0, 0, 1), &[]));
    let response = bench.run(&reader, &cdb_10(0x2a, 0, 0, 1), &[0; 512]);
    assert_eq!(response.status, Status::ReservationConflict);
    assert_good(bench.run(&holder, &cdb_10(0x2a, 0, 0, 1), &[0; 512]));
    assert!(reader.may_still_run(false).is_ok());
    assert_eq!(
        reader.may_still_run(true).unwrap_err().status,
        Status::ReservationConflict
    );
}

#[test]
fn a_nexus_that_was_lost_hears_of_that_and_not_of_a_power_on() {
    let bench = Harness::new(config());
    let hears = |initiator: u8, group: u16, ascq: u8| {
        let nexus = bench.login_fresh(initiator, group);
        assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x29, ascq);
        assert_good(bench.run(&nexus, &TEST_UNIT_READY, &[]));
        nexus
    };
    let lose =
        |nexus: &std::sync::Arc<scsi::itl_nexus::ItlNexus>| bench.unit().detach(nexus.nexus().id);
    let first = hears(1, 1, 0x00);
    lose(&first);
    hears(2, 1, 0x00);
    hears(1, 2, 0x00);
    let again = hears(1, 1, 0x07);
    lose(&again);
    lose(&again);
    let again = hears(1, 1, 0x07);
    lose(&again);
    // A reset while the initiator was away is more than the loss of the nexus.
    let _ = bench.unit().reset(Reset::LogicalUnit);
    hears(1, 1, 0x00);
    // This also holds for a reset of which the initiator had not heard yet when it went.
    let again = hears(1, 1, 0x00);
    let _ = bench.unit().reset(Reset::TargetCold);
    lose(&again);
    let again = hears(1, 1, 0x00);
    lose(&again);
    // The initiator had not heard of the loss either. It is told of the loss, and of nothing else.
    lose(&bench.login_fresh(1, 1));
    hears(1, 1, 0x07);
    // This also holds for a restart: the unit is another one, which knows no initiator.
    let restarted = Harness::new(config());
    let nexus = restarted.login_fresh(1, 1);
    assert_sense(&restarted.run(&nexus, &TEST_UNIT_READY, &[]), 6, 0x29, 0x00);
}

#[test]
fn lost_nexuses_are_remembered_within_bounds() {
    let bench = Harness::new(config());
    let first = bench.login(1);
    bench.unit().detach(first.nexus().id);
    for group in 2..=1025 {
        let other = bench.login_fresh(1, group);
        assert_sense(&bench.run(&other, &TEST_UNIT_READY, &[]), 6, 0x29, 0x00);
        bench.unit().detach(other.nexus().id);
    }
    let first = bench.login_fresh(1, 1);
    assert_sense(&bench.run(&first, &TEST_UNIT_READY, &[]), 6, 0x29, 0x00);
    let last = bench.login_fresh(1, 1025);
    assert_sense(&bench.run(&last, &TEST_UNIT_READY, &[]), 6, 0x29, 0x07);
}

#[test]
fn a_nexus_that_is_over_reaches_nothing() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let other = bench.login(2);
    bench.unit().detach(nexus.nexus().id);
    for cdb in [cdb_10(0x28, 0, 0, 1), cdb_10(0x2a, 0, 0, 1), vec![0; 6]] {
        assert_sense(&bench.run(&nexus, &cdb, &[0; 512]), 5, 0x25, 0x00);
    }
    for writes in [false, true] {
        assert_sense(&nexus.may_still_run(writes).unwrap_err(), 5, 0x25, 0x00);
        assert_eq!(other.may_still_run(writes), Ok(()));
    }
}

#[test]
fn a_unit_that_stands_in_says_who_it_is_and_of_all_else_that_it_becomes_ready() {
    let bench = Harness::new(config());
    let nexus = bench.login(1);
    let before = assert_good(bench.run(&nexus, &[0x12, 1, 0x83, 1, 0, 0], &[]));
    bench.unit().stand_in();
    let after = assert_good(bench.run(&nexus, &[0x12, 1, 0x83, 1, 0, 0], &[]));
    assert_eq!(before, after, "the same designators");
    let inquiry = assert_good(bench.run(&nexus, &[0x12, 0, 0, 0, 96, 0], &[]));
    assert_eq!(inquiry[0], 0, "a disk that is there");
    for opcode in 0..=255_u8 {
        for action in 0..32 {
            let mut cdb = [0; 16];
            (cdb[0], cdb[1], cdb[4]) = (opcode, action, 64);
            // PERSISTENT RESERVE OUT and similar commands take a list.
            cdb[8] = 24;
            let response = bench.run(&nexus, &cdb, &[0; 64]);
            let is_answered = matches!((opcode, action), (0x03 | 0x12 | 0xa0, _) | (0xa3, 0x0a));
            if response.status == Status::Good {
                assert!(is_answered, "{opcode:02x}/{action:02x}");
                continue;
            }
            let (key, asc) = sense_of(&response);
            let is_unknown = key == 5 && matches!(asc.0, 0x20 | 0x24);
            let is_becoming_ready = (key, asc) == (2, Asc(0x04, 0x01));
            assert!(
                is_unknown || is_becoming_ready,
                "{opcode:02x}/{action:02x}: {key:x}/{asc:?}"
            );
        }
    }
    bench.unit().set_offline(true);
    assert_sense(&bench.run(&nexus, &TEST_UNIT_READY, &[]), 2, 0x04, 0x12);
}
