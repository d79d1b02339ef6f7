//! Tests of persistent reservations. A model written from SPC-4's tables alone runs against random
//! commands. One test each covers the rules that the model's three nexuses cannot reach.

mod model;

use super::*;

fn port(name: &str, isid: u8) -> InitiatorPort {
    InitiatorPort {
        name: name.into(),
        isid: [0, 2, 0x3d, 0, 0, isid],
    }
}

fn nexus(index: u8) -> Registrant {
    Registrant {
        initiator: port(&format!("iqn.2026-01.test:{index}"), 1),
        relative_port_id: 1,
    }
}

const ALONE: Surroundings<'static> = Surroundings {
    ports: &[1, 2],
    initiators: &[],
};

fn register(key: u64, new_key: u64) -> Request {
    Request::Register {
        key,
        new_key,
        activate_through_power_loss: false,
        all_target_ports: false,
        others: None,
    }
}

/// Registers nexuses 0, 1, 2 under 0xA0, 0xA1, 0xA2.
fn three() -> PersistentReservations {
    let mut state = PersistentReservations::default();
    for index in 0..3 {
        let request = register(0, 0xA0 + u64::from(index));
        state.execute(&nexus(index), &request, ALONE).unwrap();
    }
    state
}

fn reserve(state: &mut PersistentReservations, index: u8, kind: ReservationType) {
    let request = Request::Reserve {
        key: 0xA0 + u64::from(index),
        scope_and_type: kind as u8,
    };
    state.execute(&nexus(index), &request, ALONE).unwrap();
}

fn parameter_error(byte: u16) -> Refusal {
    Refusal::Sense(Sense::invalid_field_in_parameter_list(byte))
}

fn id(name: &str, isid: Option<u8>) -> TransportId {
    TransportId {
        name: name.into(),
        isid: isid.map(|isid| port(name, isid).isid),
    }
}

fn register_others(others: Vec<TransportId>, all_target_ports: bool) -> Request {
    Request::Register {
        key: 0,
        new_key: 7,
        activate_through_power_loss: true,
        all_target_ports,
        others: Some(others),
    }
}

#[test]
fn others_are_registered_by_transport_id() {
    let mut state = PersistentReservations::default();
    let request = register_others(vec![id("iqn.b", Some(1)), id("iqn.c", Some(2))], false);
    state.execute(&nexus(0), &request, ALONE).unwrap();
    assert_eq!(state.registrations.len(), 3);
    assert!(state.registrations.values().all(|&key| key == 7));
    assert_eq!(state.generation, 1);
}

#[test]
fn a_name_alone_registers_every_port_of_it_that_is_known() {
    let mut state = PersistentReservations::default();
    let known = [port("iqn.b", 1), port("iqn.b", 2), port("iqn.c", 1)];
    let surroundings = Surroundings {
        ports: &[1, 2],
        initiators: &known,
    };
    let request = register_others(vec![id("iqn.b", None)], true);
    state.execute(&nexus(0), &request, surroundings).unwrap();
    let mut expected: Vec<_> = [nexus(0).initiator, known[0].clone(), known[1].clone()]
        .into_iter()
        .flat_map(|initiator| {
            [1, 2].map(|relative_port_id| Registrant {
                initiator: initiator.clone(),
                relative_port_id,
            })
        })
        .collect();
    expected.sort();
    assert_eq!(
        state.registrations.keys().cloned().collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn nobody_overwrites_another_s_key_by_transport_id() {
    let mut state = three();
    let request = Request::Register {
        key: 0xA0,
        new_key: 0,
        activate_through_power_loss: false,
        all_target_ports: false,
        others: None,
    };
    state.execute(&nexus(0), &request, ALONE).unwrap();
    let before = state.clone();
    let request = register_others(vec![id("iqn.2026-01.test:1", Some(1))], false);
    assert_eq!(
        state.execute(&nexus(0), &request, ALONE),
        Err(Refusal::Conflict)
    );
    assert_eq!(state, before);
}

#[test]
fn a_registered_nexus_cannot_specify_others() {
    let mut state = three();
    let request = Request::Register {
        key: 0xA0,
        new_key: 7,
        activate_through_power_loss: false,
        all_target_ports: false,
        others: Some(vec![id("iqn.b", Some(1))]),
    };
    assert_eq!(
        state.execute(&nexus(0), &request, ALONE),
        Err(parameter_error(20))
    );
}

#[test]
fn all_target_ports_registers_and_unregisters_them() {
    let mut state = PersistentReservations::default();
    let all = |key, new_key| Request::Register {
        key,
        new_key,
        activate_through_power_loss: false,
        all_target_ports: true,
        others: None,
    };
    state.execute(&nexus(0), &all(0, 5), ALONE).unwrap();
    assert_eq!(state.registrations.len(), 2);
    state.execute(&nexus(0), &all(5, 6), ALONE).unwrap();
    assert!(state.registrations.values().all(|&key| key == 6));
    state.execute(&nexus(0), &all(6, 0), ALONE).unwrap();
    assert!(!state.has_registrations());
}

#[test]
fn registrations_are_bounded() {
    let mut state = PersistentReservations::default();
    let full = Refusal::Sense(Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES));
    for index in 0..MAX_REGISTRATIONS {
        let from = Registrant {
            initiator: port(&format!("iqn.{index}"), 1),
            relative_port_id: 1,
        };
        state.execute(&from, &register(0, 1), ALONE).unwrap();
    }
    let before = state.clone();
    assert_eq!(state.execute(&nexus(0), &register(0, 1), ALONE), Err(full));
    assert_eq!(state, before);
}

fn register_and_move(key: u64, new_key: u64, destination: TransportId) -> Request {
    Request::RegisterAndMove {
        key,
        new_key,
        activate_through_power_loss: false,
        unregister: true,
        relative_port_id: 2,
        destination,
    }
}

#[test]
fn register_and_move_hands_the_reservation_over() {
    let mut state = three();
    reserve(&mut state, 0, ReservationType::WriteExclusive);
    let request = register_and_move(0xA0, 0xB0, id("iqn.b", Some(3)));
    let outcome = state.execute(&nexus(0), &request, ALONE).unwrap();
    assert_eq!(outcome, Outcome::default());
    let to = Registrant {
        initiator: port("iqn.b", 3),
        relative_port_id: 2,
    };
    assert!(state.holds(&to));
    assert_eq!(state.registrations.get(&to), Some(&0xB0));
    assert!(!state.registrations.contains_key(&nexus(0)));
    assert_eq!(state.generation, 4);
}

#[test]
fn register_and_move_is_refused_where_spc_4_says_so() {
    let to = || id("iqn.b", Some(3));
    let not_now = Refusal::Sense(Sense::invalid_bit_in_cdb(1, 4));
    let unreserved = three();
    let mut held = three();
    reserve(&mut held, 0, ReservationType::ExclusiveAccess);
    let mut shared = three();
    reserve(
        &mut shared,
        0,
        ReservationType::ExclusiveAccessAllRegistrants,
    );
    let mut request_to_unknown_port = register_and_move(0xA0, 1, to());
    if let Request::RegisterAndMove {
        relative_port_id, ..
    } = &mut request_to_unknown_port
    {
        *relative_port_id = 9;
    }
    let mut request_to_self = register_and_move(0xA0, 1, id("iqn.2026-01.test:0", Some(1)));
    if let Request::RegisterAndMove {
        relative_port_id, ..
    } = &mut request_to_self
    {
        *relative_port_id = 1;
    }
    for (state, from, request, refusal) in [
        (&unreserved, 0, register_and_move(0xA0, 1, to()), not_now),
        (&held, 1, register_and_move(0xA1, 1, to()), not_now),
        (
            &held,
            0,
            register_and_move(0xA9, 1, to()),
            Refusal::Conflict,
        ),
        (
            &shared,
            0,
            register_and_move(0xA0, 1, to()),
            Refusal::Conflict,
        ),
        (
            &held,
            0,
            register_and_move(0xA0, 0, to()),
            parameter_error(8),
        ),
        (&held, 0, request_to_unknown_port, parameter_error(18)),
        (&held, 0, request_to_self, parameter_error(24)),
        (
            &held,
            0,
            register_and_move(0xA0, 1, id("iqn.b", None)),
            parameter_error(24),
        ),
    ] {
        let mut after = state.clone();
        assert_eq!(after.execute(&nexus(from), &request, ALONE), Err(refusal));
        assert_eq!(after, *state);
    }
}

#[test]
fn access_follows_the_table_of_types() {
    use ReservationType::*;
    // Each entry: (registrant reads, registrant writes, stranger reads, stranger writes).
    let table = [
        (WriteExclusive, [true, false, true, false]),
        (ExclusiveAccess, [false, false, false, false]),
        (WriteExclusiveRegistrantsOnly, [true, true, true, false]),
        (ExclusiveAccessRegistrantsOnly, [true, true, false, false]),
        (WriteExclusiveAllRegistrants, [true, true, true, false]),
        (ExclusiveAccessAllRegistrants, [true, true, false, false]),
    ];
    for (kind, allowed) in table {
        let mut state = three();
        reserve(&mut state, 0, kind);
        let may = |index: u8, class| {
            let it = nexus(index);
            !state.conflicts(&it.initiator, it.relative_port_id, class)
        };
        assert!(may(0, AccessClass::Read) && may(0, AccessClass::Write));
        for (index, at) in [(1, 0), (9, 2)] {
            assert!(may(index, AccessClass::Always));
            assert_eq!(may(index, AccessClass::Read), allowed[at], "{kind:?}");
            assert_eq!(may(index, AccessClass::Write), allowed[at + 1], "{kind:?}");
        }
        // The holder's initiator is another nexus through another port.
        let stranger = nexus(0);
        assert!(state.conflicts(&stranger.initiator, 2, AccessClass::Write));
    }
}

#[test]
fn spc_2_reservations_beside_persistent_ones() {
    let mut state = PersistentReservations::default();
    assert_eq!(
        state.compatible_reservation(&nexus(0)),
        CompatibleReservation::Proceed
    );
    state = three();
    assert_eq!(
        state.compatible_reservation(&nexus(0)),
        CompatibleReservation::Conflict
    );
    reserve(&mut state, 0, ReservationType::WriteExclusive);
    assert_eq!(
        state.compatible_reservation(&nexus(0)),
        CompatibleReservation::NoEffect
    );
    assert_eq!(
        state.compatible_reservation(&nexus(1)),
        CompatibleReservation::Conflict
    );
    let mut state = three();
    reserve(
        &mut state,
        0,
        ReservationType::WriteExclusiveRegistrantsOnly,
    );
    assert_eq!(
        state.compatible_reservation(&nexus(1)),
        CompatibleReservation::NoEffect
    );
    assert_eq!(
        state.compatible_reservation(&nexus(9)),
        CompatibleReservation::Conflict
    );
}

#[test]
fn preempt_and_abort_names_whose_commands_end() {
    let mut state = three();
    let request = Request::Preempt {
        key: 0xA1,
        victim_key: 0xA2,
        scope_and_type: 1,
        abort: true,
    };
    let outcome = state.execute(&nexus(1), &request, ALONE).unwrap();
    assert_eq!(outcome.abort, [nexus(2)]);
    assert_eq!(
        outcome.attentions,
        [(nexus(2), UnitAttention::REGISTRATIONS_PREEMPTED)]
    );
}

#[test]
fn reports_have_the_bytes_of_spc_4() {
    let mut state = three();
    assert_eq!(state.read_reservation(), [0, 0, 0, 3, 0, 0, 0, 0]);
    reserve(&mut state, 1, ReservationType::ExclusiveAccess);
    let keys = state.read_keys();
    assert_eq!(keys[..8], [0, 0, 0, 3, 0, 0, 0, 24]);
    assert_eq!(keys[8..16], 0xA0u64.to_be_bytes());
    assert_eq!(
        state.read_reservation(),
        [
            0, 0, 0, 3, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xA1, 0, 0, 0, 0, 0, 3, 0, 0
        ]
    );
    assert_eq!(
        state.report_capabilities(),
        [0, 8, 0x1D, 0x80, 0xEA, 1, 0, 0]
    );

    let full = state.read_full_status();
    let len = u32::from_be_bytes(full[4..8].try_into().unwrap()) as usize;
    assert_eq!(len, full.len() - 8);
    let mut rest = &full[8..];
    for index in 0..3u8 {
        let holder = index == 1;
        assert_eq!(rest[..8], (0xA0 + u64::from(index)).to_be_bytes());
        assert_eq!(rest[12..14], if holder { [1, 3] } else { [0, 0] });
        assert_eq!(rest[18..20], [0, 1]);
        let id_len = u32::from_be_bytes(rest[20..24].try_into().unwrap()) as usize;
        let (id, taken) = TransportId::parse(&rest[24..24 + id_len]).unwrap();
        assert_eq!(taken, id_len);
        assert_eq!(id.initiator_port(), Some(nexus(index).initiator));
        rest = &rest[24 + id_len..];
    }
    assert!(rest.is_empty());

    let mut state = three();
    reserve(&mut state, 1, ReservationType::WriteExclusiveAllRegistrants);
    assert_eq!(
        state.read_reservation()[8..16],
        [0; 8],
        "no single holder's key"
    );
}

#[test]
fn only_aptpl_survives_and_damage_is_told() {
    let mut state = three();
    assert!(state.to_bytes().is_empty());
    let request = Request::RegisterAndIgnoreExistingKey {
        new_key: 0xA0,
        activate_through_power_loss: true,
        all_target_ports: false,
    };
    state.execute(&nexus(0), &request, ALONE).unwrap();
    reserve(
        &mut state,
        2,
        ReservationType::ExclusiveAccessRegistrantsOnly,
    );
    let image = state.to_bytes();
    let restored = PersistentReservations::from_bytes(&image).unwrap();
    assert_eq!(restored.generation, 0);
    assert_eq!(restored.registrations, state.registrations);
    assert_eq!(restored.reservation, state.reservation);
    assert_eq!(restored.to_bytes(), image);
    for len in 1..image.len() {
        assert_eq!(
            PersistentReservations::from_bytes(&image[..len]),
            Err(DamagedImage)
        );
    }
    for (at, value) in [
        (0, 2),
        (1, 0),
        (1, 2),
        (1, 7),
        (2, 9),
        (5, 3),
        (9, 0),
        (9, 4),
        (17, 0),
    ] {
        let mut damaged = image.clone();
        damaged[at] = value;
        assert_eq!(
            PersistentReservations::from_bytes(&damaged),
            Err(DamagedImage),
            "byte {at} = {value}"
        );
    }
}
