//! Tests of who decides a path's state and what each state lets through.

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

#[test]
fn a_choice_is_the_unit_s_own() {
    let groups = two_groups();
    let (a, b) = (
        UnitAccess::new(Arc::clone(&groups)),
        UnitAccess::new(Arc::clone(&groups)),
    );
    assert!(a.choose(&[(2, AccessState::Standby)]));
    assert_eq!(a.state(2), AccessState::Standby);
    assert_eq!(b.state(2), AccessState::ActiveNonOptimized);
    assert!(!a.all_active());
    assert!(b.all_active());
    assert!(!a.choose(&[(2, AccessState::Standby)]), "nothing changed");
}

#[test]
fn the_administrator_closes_what_an_initiator_opened() {
    let groups = two_groups();
    let unit = UnitAccess::new(Arc::clone(&groups));
    unit.choose(&[(2, AccessState::ActiveOptimized)]);
    groups
        .replace(layout(vec![group(2, AccessState::Unavailable, &[2])]))
        .unwrap();
    unit.refresh();
    assert_eq!(
        unit.state_and_reason(2),
        (AccessState::Unavailable, StatusCode::Implicit)
    );
    assert!(!unit.all_active());
    groups
        .replace(layout(vec![group(
            2,
            AccessState::ActiveNonOptimized,
            &[2],
        )]))
        .unwrap();
    unit.refresh();
    assert_eq!(
        unit.state_and_reason(2),
        (AccessState::ActiveOptimized, StatusCode::Explicit)
    );
    assert!(unit.all_active());
}

#[test]
fn choices_survive_a_restart_and_damage_is_told() {
    let groups = two_groups();
    let before = UnitAccess::new(Arc::clone(&groups));
    let choice = [(1, AccessState::Standby), (2, AccessState::ActiveOptimized)];
    before.choose(&choice);
    let image = before.to_bytes();

    let after = UnitAccess::new(groups);
    after.restore(&image).unwrap();
    assert_eq!(after.state(1), AccessState::Standby);
    assert!(!after.all_active());
    for damaged in [&image[1..], &[0, 1, 9][..], &[0, 1, 0xF][..]] {
        assert_eq!(after.restore(damaged), Err(DamagedAccessImage));
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
