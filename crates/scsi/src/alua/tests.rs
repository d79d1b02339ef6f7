//! Tests of the parties that decide a path's state, and of the commands that each state serves.

use super::*;

fn group(id: u16, state: AccessState, ports: &[u16]) -> TargetPortGroup {
    TargetPortGroup {
        id,
        preferred: false,
        supported: SupportedStates::ALL,
        state,
        ports: ports.to_vec(),
    }
}

fn layout(groups: Vec<TargetPortGroup>) -> GroupLayout {
    GroupLayout {
        mode: TpgsMode::Both,
        groups,
        implicit_transition_s: 0,
    }
}

fn two_groups() -> Arc<TargetPortGroups> {
    let groups = vec![
        group(2, AccessState::ActiveNonOptimized, &[2]),
        group(1, AccessState::ActiveOptimized, &[1]),
    ];
    Arc::new(TargetPortGroups::new(layout(groups)).unwrap())
}

#[test]
fn contradictory_layouts_are_refused_and_change_nothing() {
    let groups = two_groups();
    let before = groups.layout();
    let active = AccessState::ActiveOptimized;
    for (bad, error) in [
        (
            vec![group(1, active, &[]), group(1, active, &[])],
            LayoutError::DuplicateGroup(1),
        ),
        (
            vec![group(1, active, &[5]), group(2, active, &[5])],
            LayoutError::DuplicatePort(5),
        ),
        (
            vec![TargetPortGroup {
                supported: SupportedStates::ACTIVE_ONLY,
                ..group(3, AccessState::Standby, &[])
            }],
            LayoutError::UnsupportedState(3),
        ),
        (
            vec![group(4, active, &(0..256).collect::<Vec<_>>())],
            LayoutError::TooManyPorts(4),
        ),
    ] {
        assert_eq!(groups.replace(layout(bad)), Err(error));
        assert_eq!(groups.layout(), before);
    }
}

const A: &str = "iqn.2026-01.test:a";
const B: &str = "iqn.2026-01.test:b";

#[test]
fn a_choice_is_the_unit_s_and_the_initiator_s_own() {
    let groups = two_groups();
    let (one, two) = (
        UnitAccess::new(Arc::clone(&groups)),
        UnitAccess::new(Arc::clone(&groups)),
    );
    let standby = [(2, AccessState::Standby)];
    assert_eq!(one.choose(A, &standby), Ok(true));
    assert_eq!(one.state(A, 2), AccessState::Standby);
    assert_eq!(one.state(B, 2), AccessState::ActiveNonOptimized);
    assert_eq!(two.state(A, 2), AccessState::ActiveNonOptimized);
    assert_eq!(one.choose(A, &standby), Ok(false), "nothing changed");
    // The administrator's own state does not count as a choice.
    let same = [(2, AccessState::ActiveNonOptimized)];
    assert_eq!(one.choose(A, &same), Ok(true));
    assert!(one.choices().is_empty());
}

#[test]
fn the_administrator_closes_what_an_initiator_opened_and_it_stays_so() {
    let groups = two_groups();
    let unit = UnitAccess::new(Arc::clone(&groups));
    unit.choose(A, &[(2, AccessState::ActiveOptimized)])
        .unwrap();
    let chosen = (AccessState::ActiveOptimized, StatusCode::Explicit);
    assert_eq!(unit.state_and_reason(A, 2), chosen);
    let word = |state| {
        let groups_of = vec![group(2, state, &[2])];
        groups.replace(layout(groups_of)).unwrap();
    };
    // A change that is taken back ends no choice.
    word(AccessState::Transitioning);
    let closed = (AccessState::Transitioning, StatusCode::Implicit);
    assert_eq!(unit.state_and_reason(A, 2), closed);
    word(AccessState::ActiveNonOptimized);
    assert_eq!(unit.state_and_reason(A, 2), chosen);
    // A change that holds ends the choice.
    word(AccessState::Unavailable);
    assert!(unit.drop_void_choices());
    word(AccessState::ActiveNonOptimized);
    let open = (AccessState::ActiveNonOptimized, StatusCode::None);
    assert_eq!(unit.state_and_reason(A, 2), open);
    assert!(!unit.drop_void_choices());
}

#[test]
fn choices_have_a_bound_that_no_initiator_can_use_up_for_those_who_have_chosen() {
    let groups = two_groups();
    let unit = UnitAccess::new(groups);
    let standby = [(2, AccessState::Standby)];
    for number in 0..MAX_CHOICES {
        assert_eq!(unit.choose(&format!("{A}{number}"), &standby), Ok(true));
    }
    assert_eq!(unit.choose(B, &standby), Err(TooManyChoices));
    assert_eq!(unit.state(B, 2), AccessState::ActiveNonOptimized);
    let first = format!("{A}0");
    let unavailable = [(2, AccessState::Unavailable)];
    assert_eq!(unit.choose(&first, &unavailable), Ok(true));
    assert_eq!(unit.end_choices(Some(1)), []);
    assert_eq!(unit.end_choices(Some(2)).len(), MAX_CHOICES);
    assert_eq!(unit.choose(B, &standby), Ok(true));
}

#[test]
fn choices_survive_a_restart_and_damage_is_told() {
    let groups = two_groups();
    let before = UnitAccess::new(Arc::clone(&groups));
    let choice = [(1, AccessState::Standby), (2, AccessState::ActiveOptimized)];
    before.choose(A, &choice).unwrap();
    before.choose(B, &choice[..1]).unwrap();
    let image = before.to_bytes();

    let after = UnitAccess::new(groups);
    after.restore(&image).unwrap();
    assert_eq!(after.choices(), before.choices());
    assert_eq!(after.state(A, 1), AccessState::Standby);
    assert_eq!(after.state(B, 2), AccessState::ActiveNonOptimized);
    let mut bad_state = image.clone();
    let at = bad_state.len() - 2;
    bad_state[at] = 0x0F;
    let mut bad_name = image.clone();
    bad_name[2] = 0xFF;
    for damaged in [
        &image[1..],
        &image[..image.len() - 1],
        &bad_state,
        &bad_name,
    ] {
        assert_eq!(after.restore(damaged), Err(DamagedChoices));
        assert_eq!(after.to_bytes(), image);
    }
}

#[test]
fn each_state_lets_through_what_spc_4_says() {
    let test_unit_ready = [0u8; 6];
    let inquiry = [0x12, 0, 0, 0, 36, 0];
    let report_groups = [0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let set_groups = [0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let reserve_out = [0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0];
    let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let table = [
        (AccessState::ActiveOptimized, [true; 6], None),
        (AccessState::ActiveNonOptimized, [true; 6], None),
        (
            AccessState::Standby,
            [false, true, true, true, true, false],
            Some(0x0B),
        ),
        (
            AccessState::Unavailable,
            [false, true, true, true, false, false],
            Some(0x0C),
        ),
        (
            AccessState::Transitioning,
            [false, true, true, false, false, false],
            Some(0x0A),
        ),
    ];
    for (state, permitted, qualifier) in table {
        let cdbs: [&[u8]; 6] = [
            &test_unit_ready,
            &inquiry,
            &report_groups,
            &set_groups,
            &reserve_out,
            &read,
        ];
        for (cdb, permitted) in cdbs.iter().zip(permitted) {
            assert_eq!(state.permits(cdb), permitted, "{state:?} {cdb:02x?}");
        }
        assert_eq!(state.not_ready_qualifier(), qualifier);
        assert_eq!(AccessState::from_code(state as u8), Some(state));
    }
    assert_eq!(AccessState::from_code(0x4), None);
    assert_eq!(AccessState::from_code(0xE), None);
}
