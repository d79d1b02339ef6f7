//! Tests of PERSISTENT RESERVE IN and OUT as initiators send them: bytes in, status, sense and data
//! out.

use crate::harness::*;
use scsi::logical_unit::LogicalUnit;
use scsi::nexus::NexusId;
use scsi::persistent_reservation::Registrant;
use scsi::{AbortScope, Command, Input, Start, Status, Step, TaskAttribute, UnitAttention};

const WRITE_EXCLUSIVE: u8 = 1;
/// Bit APTPL in byte 20 of the parameter list.
const APTPL: u8 = 1;
const EXCLUSIVE_ACCESS_REGISTRANTS_ONLY: u8 = 6;

fn out_cdb(action: u8, scope_and_type: u8, len: u32) -> [u8; 10] {
    let [a, b, c, d] = len.to_be_bytes();
    [0x5F, action, scope_and_type, 0, 0, a, b, c, d, 0]
}

fn list(key: u64, other_key: u64, flags: u8) -> Vec<u8> {
    let mut list = key.to_be_bytes().to_vec();
    list.extend_from_slice(&other_key.to_be_bytes());
    list.extend_from_slice(&[0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

fn out(who: &Initiator, action: u8, kind: u8, key: u64, other_key: u64) -> scsi::Response {
    who.run(&out_cdb(action, kind, 24), &list(key, other_key, 0))
}

fn register(who: &Initiator, key: u64) {
    good(out(who, 6, 0, 0, key));
}

fn reserve_in(who: &Initiator, action: u8) -> Vec<u8> {
    good(who.run(&[0x5E, action, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0], &[]))
}

#[test]
fn a_reservation_fences_others_at_once() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    register(&a, 0xA);
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0));
    good(b.run(&READ, &[]));
    conflicts(b.run(&WRITE, &[0; 512]));
    good(a.run(&WRITE, &[1; 512]));
    // Data-out that was on its way when the reservation came is fenced as well.
    assert!(b.itls[0].may_still_run(false).is_ok());
    conflicts(b.itls[0].may_still_run(true).unwrap_err());
    good(out(&a, 2, WRITE_EXCLUSIVE, 0xA, 0));
    good(b.run(&WRITE, &[2; 512]));
}

#[test]
fn preempt_and_abort_takes_over_and_aborts_the_victim_s_commands() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    register(&a, 0xA);
    register(&b, 0xB);
    good(out(&a, 1, EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, 0xA, 0));
    good(out(&b, 5, EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, 0xB, 0xA));
    assert_eq!(
        *device.aborts.lock().unwrap(),
        [AbortScope::Registrants(vec![Registrant::of(
            a.itls[0].nexus()
        )])]
    );
    conflicts(a.run(&READ, &[]));
    assert_eq!(a.attention(), Some(UnitAttention::REGISTRATIONS_PREEMPTED));
    assert_eq!(a.attention(), None);
    assert_eq!(b.attention(), None);
    let keys = reserve_in(&b, 0);
    assert_eq!(keys[4..], [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0xB]);
}

#[test]
fn preempt_and_abort_reaches_a_victim_whose_nexus_was_lost() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    register(&a, 0xA);
    register(&b, 0xB);
    good(out(&a, 1, EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, 0xA, 0));
    let lost = a.itls[0].nexus();
    device.units[0].detach(lost.id);
    good(out(&b, 5, EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, 0xB, 0xA));
    assert_eq!(
        *device.aborts.lock().unwrap(),
        [AbortScope::Registrants(vec![Registrant::of(lost)])],
        "its writes may still be at the device"
    );
}

#[test]
fn release_and_clear_tell_the_other_registrants() {
    let device = Device::new(&[config(1)]);
    let (a, b, stranger) = (device.login(1, 1), device.login(2, 1), device.login(3, 1));
    register(&a, 0xA);
    register(&b, 0xB);
    good(out(&a, 1, EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, 0xA, 0));
    good(out(&a, 2, EXCLUSIVE_ACCESS_REGISTRANTS_ONLY, 0xA, 0));
    assert_eq!(b.attention(), Some(UnitAttention::RESERVATIONS_RELEASED));
    good(out(&a, 3, 0, 0xA, 0));
    assert_eq!(b.attention(), Some(UnitAttention::RESERVATIONS_PREEMPTED));
    assert_eq!(stranger.attention(), None);
    assert_eq!(a.attention(), None);
}

#[test]
fn aptpl_is_saved_before_good_and_survives_a_restart() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    register(&a, 0xA);
    assert!(device.saved.lock().unwrap().is_none(), "nothing to survive");
    good(a.run(&out_cdb(0, 0, 24), &list(0xA, 0xAA, 0x01)));
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xAA, 0));
    let image = device.saved.lock().unwrap().clone().unwrap();

    let restarted = Device::new(&[config(1)]);
    restarted.units[0].restore(&image).unwrap();
    let (a, b) = (restarted.login(1, 1), restarted.login(2, 1));
    conflicts(b.run(&WRITE, &[0; 512]));
    good(a.run(&WRITE, &[0; 512]));
    assert_eq!(
        reserve_in(&a, 1)[..16],
        [0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xAA]
    );
    // PTPL_A is reported, and a registration without APTPL wipes the saved state.
    assert_eq!(reserve_in(&a, 2)[3], 0x81);
    good(a.run(&out_cdb(0, 0, 24), &list(0xAA, 0xAA, 0)));
    let image = restarted.saved.lock().unwrap().clone().unwrap();
    let third: std::sync::Arc<LogicalUnit> = Device::new(&[config(1)]).units[0].clone();
    third.restore(&image).unwrap();
    let device = Device::new(&[config(1)]);
    device.units[0].restore(&image).unwrap();
    good(device.login(2, 1).run(&WRITE, &[0; 512]));
}

#[test]
fn what_cannot_be_saved_does_not_happen() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    good(a.run(&out_cdb(0, 0, 24), &list(0, 0xA, 0x01)));
    *device.fail_save.lock().unwrap() = true;
    fails(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0), (4, 0x44, 0));
    assert_eq!(reserve_in(&a, 1).len(), 8);
    good(b.run(&WRITE, &[0; 512]));
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0));
}

#[test]
fn parameter_lists_of_wrong_length_are_refused() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let twenty_four = list(0, 0xA, 0);
    for (action, len) in [
        (0, 0),
        (0, 23),
        (6, 25),
        (1, 28),
        (3, 20),
        (7, 20),
        (0, 1 << 30),
    ] {
        fails(a.run(&out_cdb(action, 1, len), &[0; 64]), LIST_LENGTH);
    }
    // More than 24 bytes need SPEC_I_PT. Fewer bytes than announced are an error too.
    let mut longer = twenty_four.clone();
    longer.extend_from_slice(&[0; 8]);
    fails(a.run(&out_cdb(0, 0, 32), &longer), LIST_LENGTH);
    fails(a.run(&out_cdb(6, 0, 24), &twenty_four[..20]), MISMATCH);
    assert_eq!(reserve_in(&a, 0).len(), 8);
}

#[test]
fn fields_that_do_not_exist_are_refused() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    register(&a, 0xA);
    for action in 8..32 {
        fails(out(&a, action, 0, 0xA, 0), INVALID_IN_CDB);
    }
    for scope_and_type in [0x00, 0x02, 0x04, 0x09, 0x0F, 0x11, 0x21] {
        fails(out(&a, 1, scope_and_type, 0xA, 0), INVALID_IN_CDB);
    }
    for action in 4..32 {
        fails(
            a.run(&[0x5E, action, 0, 0, 0, 0, 0, 1, 0, 0], &[]),
            INVALID_IN_CDB,
        );
    }
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0));
    fails(out(&a, 2, 3, 0xA, 0), (5, 0x26, 0x04));
    // SPEC_I_PT belongs to REGISTER.
    fails(
        a.run(&out_cdb(6, 0, 24), &list(0, 0xA, 0x08)),
        INVALID_IN_LIST,
    );
    // PREEMPT has key zero, but no all-registrants reservation is held.
    fails(out(&a, 4, 1, 0xA, 0), INVALID_IN_LIST);
}

fn transport_id(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() + 1).next_multiple_of(4).max(20), 0);
    let [high, low] = (bytes.len() as u16).to_be_bytes();
    let format = if text.contains(",i,0x") { 0x45 } else { 0x05 };
    [&[format, 0, high, low][..], &bytes].concat()
}

fn with_ids(mut list: Vec<u8>, announced: u32, ids: &[u8]) -> Vec<u8> {
    list.extend_from_slice(&announced.to_be_bytes());
    list.extend_from_slice(ids);
    list
}

#[test]
fn others_are_registered_by_transport_id_and_lies_are_refused() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    let id = transport_id("iqn.2026-01.test:2,i,0x00023d000002");
    let register = |announced: u32, ids: &[u8]| {
        let list = with_ids(list(0, 0xA, 0x08), announced, ids);
        a.run(&out_cdb(0, 0, list.len() as u32), &list)
    };
    let len = id.len() as u32;
    fails(register(len + 4, &id), LIST_LENGTH);
    fails(register(0, &id), LIST_LENGTH);
    fails(register(u32::MAX, &id), LIST_LENGTH);
    let mut lying = id.clone();
    lying[3] += 4;
    fails(register(len, &lying), INVALID_IN_LIST);
    let unterminated = [&[0x45, 0, 0, 20][..], &[b'x'; 20]].concat();
    fails(register(24, &unterminated), INVALID_IN_LIST);
    fails(
        a.run(
            &out_cdb(0, 0, 26),
            &with_ids(list(0, 0xA, 0x08), 0, &[])[..26],
        ),
        LIST_LENGTH,
    );
    assert_eq!(reserve_in(&a, 0).len(), 8, "nothing was registered");

    good(register(len, &id));
    assert_eq!(reserve_in(&a, 0).len(), 8 + 16);
    good(out(&b, 1, WRITE_EXCLUSIVE, 0xA, 0));
    conflicts(a.run(&WRITE, &[0; 512]));
}

#[test]
fn register_and_move_moves_the_reservation() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    register(&a, 0xA);
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0));
    let id = transport_id("iqn.2026-01.test:2,i,0x00023d000002");
    let mut list = 0xA_u64.to_be_bytes().to_vec();
    list.extend_from_slice(&0xB_u64.to_be_bytes());
    list.extend_from_slice(&[0, 0x02, 0, 2]);
    list.extend_from_slice(&(id.len() as u32).to_be_bytes());
    list.extend_from_slice(&id);
    let mut wrong = list.clone();
    wrong[23] -= 4;
    fails(
        a.run(&out_cdb(7, 0, wrong.len() as u32), &wrong),
        LIST_LENGTH,
    );
    good(a.run(&out_cdb(7, 0, list.len() as u32), &list));
    good(b.run(&WRITE, &[0; 512]));
    conflicts(a.run(&WRITE, &[0; 512]));
    good(out(&b, 2, WRITE_EXCLUSIVE, 0xB, 0));
}

#[test]
fn reserve_6_and_persistent_reservations_exclude_each_other() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    good(a.run(&[0x16, 0, 0, 0, 0, 0], &[]));
    conflicts(out(&a, 6, 0, 0, 0xA));
    conflicts(a.run(&[0x5E, 0, 0, 0, 0, 0, 0, 0, 8, 0], &[]));
    conflicts(out(&b, 6, 0, 0, 0xB));
    good(a.run(&[0x17, 0, 0, 0, 0, 0], &[]));
    register(&a, 0xA);
    conflicts(a.run(&[0x16, 0, 0, 0, 0, 0], &[]));
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0));
    good(a.run(&[0x16, 0, 0, 0, 0, 0], &[]));
    conflicts(b.run(&[0x16, 0, 0, 0, 0, 0], &[]));
    // The RESERVE(6) of the holder had no effect: only persistent reservations decide what is
    // forbidden.
    good(b.run(&READ, &[]));
}

#[test]
fn a_logout_keeps_registrations_and_a_new_isid_is_a_stranger() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    register(&a, 0xA);
    good(out(&a, 1, WRITE_EXCLUSIVE, 0xA, 0));
    device.units[0].detach(NexusId(11));
    drop(a);
    let again = device.login(1, 1);
    good(again.run(&WRITE, &[0; 512]));
    let other_port = device.login(1, 2);
    conflicts(other_port.run(&WRITE, &[0; 512]));
}

#[test]
fn data_in_is_cut_to_the_allocation_length() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    register(&a, 0xA);
    let cut = good(a.run(&[0x5E, 0, 0, 0, 0, 0, 0, 0, 8, 0], &[]));
    assert_eq!(cut, [0, 0, 0, 1, 0, 0, 0, 8]);
    assert_eq!(good(a.run(&[0x5E, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[])), []);
    assert_eq!(a.run(&[0; 6], &[]).status, Status::Good);
}

/// Tests an abort of the command. Half a change would leave a fenced nexus that was never notified,
/// and whose commands go on.
#[test]
fn what_has_taken_effect_outlives_its_command() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 1));
    for (who, key) in [(&a, 0xA), (&b, 0xB)] {
        good(who.run(&out_cdb(6, 0, 24), &list(0, key, APTPL)));
    }
    let start = |key: u64| {
        let command = Command {
            cdb: &out_cdb(5, WRITE_EXCLUSIVE, 24),
            attribute: TaskAttribute::Simple,
            data_out_len: Some(24),
            data_in_len: 0,
        };
        let Start::Task(mut task) = b.itls[0].start(&command, &b) else {
            panic!("PERSISTENT RESERVE OUT is a task");
        };
        assert!(!task.outlives_its_command(), "nothing has happened yet");
        let data_out = &list(key, 0xA, 0);
        (task.step(Input::Begin { data_out }), task)
    };
    let (refused, task) = start(0xC);
    assert!(matches!(refused, Step::Done(_)), "{refused:?}");
    assert!(!task.outlives_its_command(), "nothing has changed");
    let (saving, mut task) = start(0xB);
    assert!(matches!(saving, Step::Save { .. }), "{saving:?}");
    assert!(task.outlives_its_command());
    let aborting = task.step(Input::Done);
    assert!(matches!(aborting, Step::Abort(_)), "{aborting:?}");
    assert!(task.outlives_its_command());
    assert_eq!(a.attention(), Some(UnitAttention::REGISTRATIONS_PREEMPTED));
}
