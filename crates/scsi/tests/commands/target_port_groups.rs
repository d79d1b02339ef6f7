//! Tests of REPORT and SET TARGET PORT GROUPS, and of the effect of each access state on commands.

use crate::harness::*;
use scsi::alua::{AccessState, GroupLayout, SupportedStates, TpgsMode};
use scsi::{Hindrance, Imposed, UnitAttention};

fn report(who: &Initiator, format: u8) -> Vec<u8> {
    good(who.run(
        &[0xA3, format << 5 | 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        &[],
    ))
}

fn set(who: &Initiator, states: &[(u8, u16)]) -> scsi::Response {
    let mut list = vec![0; 4];
    for (state, group) in states {
        let [high, low] = group.to_be_bytes();
        list.extend_from_slice(&[*state, 0, high, low]);
    }
    who.run(&set_cdb(list.len() as u8), &list)
}

fn set_cdb(len: u8) -> [u8; 12] {
    [0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, len, 0, 0]
}

#[test]
fn both_formats_are_reported() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let groups = [
        0x80, 0x8F, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, //
        0x01, 0x8F, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2,
    ];
    assert_eq!(report(&a, 0), [&[0, 0, 0, 24][..], &groups].concat());
    assert_eq!(
        report(&a, 1),
        [&[0, 0, 0, 28, 0x10, 30, 0, 0][..], &groups].concat()
    );
    let other_format = [0xA3, 0x4A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    fails(a.run(&other_format, &[]), INVALID_IN_CDB);
    let cut = good(a.run(&[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0], &[]));
    assert_eq!(cut, [0, 0, 0, 24]);
}

#[test]
fn an_initiator_moves_one_unit_only_for_itself_and_its_other_sessions_are_told() {
    let device = Device::new(&[config(1), config(2)]);
    let (a, its_other, b) = (device.login(1, 1), device.login(1, 2), device.login(2, 2));
    good(set(&a, &[(2, 2)]));
    assert_eq!(a.attention(), None);
    assert_eq!(
        its_other.attention(),
        Some(UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED)
    );
    for own in [&a, &its_other] {
        assert_eq!(report(own, 0)[16..22], [0x02, 0x8F, 0, 2, 0, 1]);
    }
    fails(its_other.run(&READ, &[]), (2, 0x04, 0x0B));
    fails(its_other.run(&[0; 6], &[]), (2, 0x04, 0x0B));
    good(its_other.to(1, &READ, &[]));
    good(a.run(&READ, &[]));
    // Nothing has changed for another host.
    assert_eq!(b.attention(), None);
    assert_eq!(report(&b, 0)[16..22], [0x01, 0x8F, 0, 2, 0, 0]);
    good(b.run(&READ, &[]));
    // The path itself can bring the unit back.
    good(set(&its_other, &[(0, 2)]));
    good(its_other.run(&READ, &[]));
}

/// Tests that SPC-4 lets an initiator ask for every state, so one that is mad or malicious may ask
/// for the worst.
#[test]
fn no_initiator_makes_a_unit_unavailable_to_others() {
    for state in [1, 2, 3] {
        let device = Device::new(&[config(1)]);
        let (a, b) = (device.login(1, 1), device.login(2, 2));
        good(set(&a, &[(state, 1), (state, 2)]));
        assert_eq!(b.attention(), None);
        good(b.run(&READ, &[]));
        good(b.run(&WRITE, &[7; 512]));
        let _ = device.units[0].reset(scsi::logical_unit::Reset::LogicalUnit);
        device.units[0].set_offline(true);
        device.units[0].set_offline(false);
        assert!(b.attention().is_some(), "the reset is told");
        good(b.run(&READ, &[]));
    }
}

#[test]
fn the_administrator_sees_choices_and_ends_them() {
    let device = Device::new(&[config(1)]);
    let (a, b) = (device.login(1, 1), device.login(2, 2));
    good(set(&a, &[(3, 1), (3, 2)]));
    good(set(&b, &[(0, 2)]));
    let told = |unit: &scsi::logical_unit::LogicalUnit| {
        let all = unit.hindrances().into_iter();
        let all = all.map(|it| match it {
            Hindrance::AccessState {
                group,
                state,
                chosen_by: Some(by),
            } => (by, group, state as u8),
            other => panic!("{other:?}"),
        });
        all.collect::<Vec<_>>()
    };
    let name = |number| format!("iqn.2026-01.test:{number}");
    let unit = &device.units[0];
    assert_eq!(
        told(unit),
        [(name(1), 1, 3), (name(1), 2, 3), (name(2), 2, 0)]
    );
    assert_eq!(unit.end_access_choices(Some(2)).len(), 2);
    assert_eq!(told(unit), [(name(1), 1, 3)]);
    let changed = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
    assert_eq!(b.attention(), Some(changed));
    fails(a.run(&READ, &[]), (6, 0x2A, 0x06));
    fails(a.run(&READ, &[]), (2, 0x04, 0x0C));
    assert_eq!(unit.end(Imposed::AccessChoices).len(), 1);
    assert_eq!(a.attention(), Some(changed));
    good(a.run(&READ, &[]));
    assert!(told(unit).is_empty());
    // A restart finds none of these choices.
    let restarted = Device::new(&[config(1)]);
    restarted.units[0].restore(&unit.image_to_save()).unwrap();
    assert!(told(&restarted.units[0]).is_empty());
}

#[test]
fn each_state_has_its_sense() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    for (state, qualifier, inquiry_only) in [
        (AccessState::Standby, 0x0B, false),
        (AccessState::Unavailable, 0x0C, true),
        (AccessState::Transitioning, 0x0A, true),
    ] {
        let layout = GroupLayout {
            mode: TpgsMode::Both,
            groups: vec![group(1, state, &[1])],
            implicit_transition_s: 0,
        };
        device.groups.replace(layout).unwrap();
        device.units[0].access_states_changed();
        let told = a.run(&[0; 6], &[]);
        assert_eq!(sense(&told), Some((6, 0x2A, 0x06)));
        fails(a.run(&[0; 6], &[]), (2, 0x04, qualifier));
        fails(a.run(&WRITE, &[0; 512]), (2, 0x04, qualifier));
        fails(
            a.itls[0].may_still_run(false).unwrap_err(),
            (2, 0x04, qualifier),
        );
        good(a.run(&[0x12, 0, 0, 0, 36, 0], &[]));
        assert_eq!(report(&a, 0)[4] & 0x0F, state as u8);
        let mode_sense = a.run(&[0x1A, 0, 0x3F, 0, 255, 0], &[]);
        if inquiry_only {
            fails(mode_sense, (2, 0x04, qualifier));
        } else {
            good(mode_sense);
        }
    }
}

/// Returns every command that a unit has (REPORT SUPPORTED OPERATION CODES), as a CDB without
/// parameters.
fn every_command(who: &Initiator) -> Vec<Vec<u8>> {
    let all = [0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0];
    let data = good(who.run(&all, &[]));
    let commands = data[4..].chunks(8).map(|descriptor| {
        let mut cdb = vec![0; usize::from(descriptor[7])];
        cdb[0] = descriptor[0];
        if cdb[0] == 0xA0 {
            // REPORT LUNS needs an allocation length for an answer.
            cdb[9] = 16;
        }
        // The bit is SERVACTV.
        if descriptor[5] & 1 != 0 {
            if descriptor[0] == 0x7F {
                cdb[8..10].copy_from_slice(&descriptor[2..4]);
            } else {
                cdb[1] = descriptor[3];
            }
        }
        cdb
    });
    commands.collect()
}

#[test]
fn between_two_states_only_what_asks_about_the_path_is_answered() {
    let device = Device::new(&[config(1)]);
    let (active, between) = (device.login(1, 1), device.login(2, 2));
    let mut layout: GroupLayout = (*device.groups.layout()).clone();
    layout.groups[1].state = AccessState::Transitioning;
    device.groups.replace(layout.clone()).unwrap();
    device.units[0].access_states_changed();
    for who in [&active, &between] {
        let changed = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
        assert_eq!(who.attention(), Some(changed));
    }
    let commands = every_command(&active);
    assert!(commands.len() > 40, "{}", commands.len());
    let mut answered = Vec::new();
    for cdb in &commands {
        match sense(&between.run(cdb, &[])) {
            Some((2, 0x04, 0x0A)) => {}
            None => answered.push((cdb[0], cdb[1])),
            other => panic!("{cdb:02x?}: {other:02x?}"),
        }
    }
    // The answered commands are REQUEST SENSE, INQUIRY, REPORT LUNS and REPORT TARGET PORT GROUPS.
    assert_eq!(answered, [(0x03, 0), (0x12, 0), (0xA0, 0), (0xA3, 0x0A)]);
    // Both paths report to each initiator: T_SUP, the state, and that the target set it (STATUS
    // CODE).
    for who in [&active, &between] {
        assert_eq!(report(who, 0)[16..22], [0x0F, 0x8F, 0, 2, 0, 2]);
    }
    // The other path is unchanged. No initiator ends the transition from there.
    good(active.run(&READ, &[]));
    fails(set(&active, &[(0, 2)]), (4, 0x67, 0x0A));
    // The transition ends in its first state, and initiators are told.
    layout.groups[1].state = AccessState::ActiveOptimized;
    device.groups.replace(layout).unwrap();
    device.units[0].access_states_changed();
    let changed = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
    assert_eq!(between.attention(), Some(changed));
    good(between.run(&READ, &[]));
}

#[test]
fn wrong_parameter_lists_change_nothing() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let mut before = report(&a, 0);
    fails(set(&a, &[(2, 1), (0, 9)]), INVALID_IN_LIST);
    fails(set(&a, &[(0xF, 1)]), INVALID_IN_LIST);
    fails(set(&a, &[(0xE, 1)]), INVALID_IN_LIST);
    fails(set(&a, &[(4, 1)]), INVALID_IN_LIST);
    for len in [1, 3, 5, 7] {
        fails(a.run(&set_cdb(len), &[0; 16]), LIST_LENGTH);
    }
    fails(a.run(&set_cdb(8), &[0; 7]), MISMATCH);
    good(a.run(&set_cdb(0), &[]));
    good(a.run(&set_cdb(4), &[0; 4]));
    assert_eq!(report(&a, 0), before);

    let mut layout: GroupLayout = (*device.groups.layout()).clone();
    layout.groups[1].supported = SupportedStates::ACTIVE_ONLY;
    device.groups.replace(layout.clone()).unwrap();
    fails(set(&a, &[(2, 2)]), INVALID_IN_LIST);
    layout.groups[1].supported = SupportedStates::ALL;
    layout.groups[1].state = AccessState::Unavailable;
    device.groups.replace(layout.clone()).unwrap();
    fails(set(&a, &[(0, 2)]), (4, 0x67, 0x0A));
    layout.groups[1].state = AccessState::ActiveNonOptimized;
    device.groups.replace(layout).unwrap();

    *device.fail_save.lock().unwrap() = true;
    fails(set(&a, &[(2, 2)]), (4, 0x67, 0x0A));
    before = report(&a, 0);
    assert_eq!(before[16] & 0x0F, 1, "what cannot be saved does not happen");
}

#[test]
fn a_choice_survives_a_restart() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    good(set(&a, &[(2, 2), (1, 1)]));
    let image = device.saved.lock().unwrap().clone().unwrap();
    let restarted = Device::new(&[config(1)]);
    restarted.units[0].restore(&image).unwrap();
    let states = |who: &Initiator| {
        let data = report(who, 0);
        (data[4] & 0x0F, data[16] & 0x0F)
    };
    assert_eq!(states(&restarted.login(1, 1)), (1, 2));
    assert_eq!(states(&restarted.login(2, 1)), (0, 1), "nobody else's");
}

/// Tests section 2 of an image, which held states that bound every initiator.
#[test]
fn states_that_an_earlier_version_saved_for_everybody_bind_nobody() {
    let device = Device::new(&[config(1)]);
    let mut image = device.units[0].image_to_save();
    image.extend_from_slice(&[0, 2, 0, 0, 0, 6, 0, 1, 3, 0, 2, 3]);
    let restarted = Device::new(&[config(1)]);
    restarted.units[0].restore(&image).unwrap();
    good(restarted.login(1, 1).run(&READ, &[]));
}

#[test]
fn without_alua_the_commands_do_not_exist() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let mut layout: GroupLayout = (*device.groups.layout()).clone();
    layout.mode = TpgsMode::Implicit;
    device.groups.replace(layout.clone()).unwrap();
    fails(set(&a, &[(0, 1)]), INVALID_OPCODE);
    layout.mode = TpgsMode::None;
    device.groups.replace(layout).unwrap();
    let report = [0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    fails(a.run(&report, &[]), INVALID_IN_CDB);
}

/// Tests SPC-4 6.6.2: TPGS is a field of the standard INQUIRY data, and an initiator that read
/// another value is told. IALUAE of the control extension page says whether states change by
/// themselves (SPC-4 7.5.9).
#[test]
fn another_tpgs_mode_is_told_as_changed_inquiry_data() {
    let device = Device::new(&[config(1)]);
    let a = device.login(1, 1);
    let tpgs = || good(a.run(&[0x12, 0, 0, 0, 96, 0], &[]))[5] >> 4 & 3;
    let implicit = |control: u8| {
        let cdb = [0x1A, 0x08, control << 6 | 0x0A, 0x01, 255, 0];
        good(a.run(&cdb, &[]))[4 + 4] & 1
    };
    let mut layout: GroupLayout = (*device.groups.layout()).clone();
    assert_eq!((tpgs(), implicit(0), implicit(1)), (3, 1, 0));
    for (mode, told, implied) in [
        (TpgsMode::Explicit, 2, 0),
        (TpgsMode::None, 0, 0),
        (TpgsMode::Implicit, 1, 1),
    ] {
        layout.mode = mode;
        device.groups.replace(layout.clone()).unwrap();
        // A group that leaves service does this, if the change may be taken back.
        device.units[0].access_states_are_changing();
        assert_eq!(a.attention(), None);
        device.units[0].access_states_changed();
        let mut heard: Vec<_> = std::iter::from_fn(|| a.attention()).collect();
        assert!(heard.contains(&UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED));
        assert!(heard.contains(&UnitAttention::INQUIRY_DATA_HAS_CHANGED));
        heard.retain(|ua| *ua == UnitAttention::MODE_PARAMETERS_CHANGED);
        assert_eq!(heard.len(), usize::from(mode != TpgsMode::None));
        assert_eq!((tpgs(), implicit(0)), (told, implied));
    }
    layout.groups[0].state = AccessState::ActiveNonOptimized;
    device.groups.replace(layout).unwrap();
    device.units[0].access_states_changed();
    let changed = UnitAttention::ASYMMETRIC_ACCESS_STATE_CHANGED;
    assert_eq!((a.attention(), a.attention()), (Some(changed), None));
}
