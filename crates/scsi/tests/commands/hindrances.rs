//! Tests that the hindrances an administrator sees are exactly those that refuse a READ or a WRITE.
//! States that an initiator imposed end when the administrator ends them.

use proptest::prelude::*;
use scsi::alua::{AccessState, GroupLayout};
use scsi::medium::thin_provisioning::Space;
use scsi::persistent_reservation::AccessClass;
use scsi::{BlockError, Hindrance, Imposed, Status, UnitAttention};

use crate::harness::*;

const ALL_IMPOSED: [Imposed; 6] = [
    Imposed::Stop,
    Imposed::SanitizeFailure,
    Imposed::SoftwareWriteProtect,
    Imposed::Reservation,
    Imposed::PersistentReservation,
    Imposed::AccessChoices,
];

/// Operation that changes whether a unit serves: a command of an initiator, or a verb of the
/// administrator.
#[derive(Clone, Debug)]
enum Op {
    StartStop { start: bool },
    Reserve6 { reserve: bool },
    Register { key: u8 },
    Reserve { kind: u8, release: bool },
    ClearReservations,
    SoftwareWriteProtect { on: bool, save: bool },
    SetTargetPortGroups { state: u8, group: u16 },
    Sanitize { fails: bool },
    Reset,
    SetOffline(bool),
    SetReadOnly(bool),
    ProtectBeneath(bool),
    SetLayout { group: usize, state: u8 },
    SetThreshold(bool),
    End(usize),
    EndChoices(u16),
}

fn any_op() -> impl Strategy<Value = Op> {
    let group = || 1_u16..3;
    let state = || prop_oneof![0_u8..4, Just(0xF)];
    let on = any::<bool>;
    prop_oneof![
        on().prop_map(|start| Op::StartStop { start }),
        on().prop_map(|reserve| Op::Reserve6 { reserve }),
        (0_u8..3).prop_map(|key| Op::Register { key }),
        (prop_oneof![Just(1_u8), Just(3), 5_u8..9], on())
            .prop_map(|(kind, release)| Op::Reserve { kind, release }),
        Just(Op::ClearReservations),
        (on(), on()).prop_map(|(on, save)| Op::SoftwareWriteProtect { on, save }),
        (state(), group()).prop_map(|(state, group)| Op::SetTargetPortGroups { state, group }),
        on().prop_map(|fails| Op::Sanitize { fails }),
        Just(Op::Reset),
        on().prop_map(Op::SetOffline),
        on().prop_map(Op::SetReadOnly),
        on().prop_map(Op::ProtectBeneath),
        (0_usize..2, state()).prop_map(|(group, state)| Op::SetLayout { group, state }),
        on().prop_map(Op::SetThreshold),
        (0..ALL_IMPOSED.len()).prop_map(Op::End),
        group().prop_map(Op::EndChoices),
    ]
}

fn reserve_out(who: &Initiator, action: u8, kind: u8, keys: (u8, u8)) {
    let mut list = [0; 24];
    (list[7], list[15]) = keys;
    let cdb = [0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0];
    // The command may be refused. The device server is asked for the state that holds.
    let _ = who.run(&cdb, &list);
}

/// Sends MODE SELECT of the control page with SWP.
fn protect(who: &Initiator, on: bool, save: bool) {
    let sensed = who.run(&[0x1A, 0x08, 0x0A, 0, 255, 0], &[]);
    if sensed.status != Status::Good {
        return;
    }
    let mut list = sensed.data_in;
    list[0] = 0;
    list[2] = 0;
    list[4] &= 0x3F;
    list[8] = list[8] & !8 | u8::from(on) << 3;
    let cdb = [0x15, 0x10 | u8::from(save), 0, 0, list.len() as u8, 0];
    let _ = who.run(&cdb, &list);
}

fn set_layout(device: &Device, group: usize, state: u8) {
    let mut layout: GroupLayout = (*device.groups.layout()).clone();
    layout.groups[group].state = AccessState::from_code(state).unwrap();
    device.groups.replace(layout).unwrap();
    device.units[0].access_states_changed();
}

fn sanitize(who: &Initiator, fails: bool) {
    let device = &who.device;
    let failure = fails.then(|| (device.units[0].config().naa, BlockError::Gone));
    *device.fail_writes.lock().unwrap() = failure;
    let mut cdb = [0; 10];
    (cdb[0], cdb[1], cdb[8]) = (0x48, 0x01, 5);
    let _ = who.run(&cdb, &[1, 0, 0, 1, b's']);
    *device.fail_writes.lock().unwrap() = None;
}

fn apply(who: &Initiator, op: &Op) {
    let (device, unit) = (&who.device, &who.device.units[0]);
    match *op {
        Op::StartStop { start } => drop(who.run(&[0x1B, 0, 0, 0, start.into(), 0], &[])),
        Op::Reserve6 { reserve } => {
            drop(who.run(&[if reserve { 0x16 } else { 0x17 }, 0, 0, 0, 0, 0], &[]));
        }
        Op::Register { key } => reserve_out(who, 0x06, 0, (0, key)),
        Op::Reserve { kind, release } => {
            // The initiator may have registered either key, or none.
            for key in 1..3 {
                reserve_out(who, if release { 0x02 } else { 0x01 }, kind, (key, 0));
            }
        }
        Op::ClearReservations => (1..3).for_each(|key| reserve_out(who, 0x03, 0, (key, 0))),
        Op::SoftwareWriteProtect { on, save } => protect(who, on, save),
        Op::SetTargetPortGroups { state, group } => {
            let list = [0, 0, 0, 0, state, 0, 0, group as u8];
            let _ = who.run(&[0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0], &list);
        }
        Op::Sanitize { fails } => sanitize(who, fails),
        Op::Reset => drop(unit.reset(scsi::logical_unit::Reset::LogicalUnit)),
        Op::SetOffline(on) => unit.set_offline(on),
        Op::SetReadOnly(on) => unit.set_read_only(on),
        Op::ProtectBeneath(on) => unit.set_protected_beneath(on),
        Op::SetLayout { group, state } => set_layout(device, group, state),
        Op::SetThreshold(reached) => {
            unit.set_soft_threshold(Some(50));
            let _ = unit.note_space(Space {
                available: if reached { 1 } else { 900 },
                used: 1,
                capacity: 1000,
            });
        }
        Op::End(which) => {
            let imposed = ALL_IMPOSED[which];
            let _ = unit.end(imposed);
            let left = unit.hindrances();
            assert!(
                left.iter().all(|it| it.imposed() != Some(imposed)),
                "{left:?}"
            );
        }
        Op::EndChoices(group) => drop(unit.end_access_choices(Some(group))),
    }
}

/// Reports whether a medium access is served, after the initiator has heard of all that it must
/// hear first.
fn is_served(who: &Initiator, cdb: &[u8], data: &[u8]) -> bool {
    loop {
        let response = who.run(cdb, data);
        match (response.status, sense(&response)) {
            (Status::Good, _) => return true,
            (Status::ReservationConflict, _) => return false,
            (_, Some((6, ..))) => {}
            (_, Some((2 | 3 | 7, ..))) => return false,
            other => panic!("{cdb:02x?}: {other:?}"),
        }
    }
}

fn check(initiators: &[Initiator], after: &dyn std::fmt::Debug) {
    let unit = &initiators[0].device.units[0];
    for who in initiators {
        for (cdb, data, class) in [
            (&READ, &[][..], AccessClass::Read),
            (&WRITE, &[7; 512][..], AccessClass::Write),
        ] {
            let all = unit.hindrances();
            let nexus = who.itls[0].nexus();
            let is_stopped = all.iter().any(|it| it.stops(nexus, class));
            let served = is_served(who, cdb, data);
            assert_eq!(
                served, !is_stopped,
                "{class:?} of {nexus:?} after {after:?}: {all:?}"
            );
        }
    }
}

fn initiators() -> Vec<Initiator> {
    let device = Device::new(&[config(1)]);
    let ports = [(1, 1), (1, 2), (2, 1), (2, 2)];
    ports
        .map(|(number, port)| device.login(number, port))
        .into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_access_is_refused_exactly_where_a_hindrance_is_seen_that_stops_it(
        ops in proptest::collection::vec((0_usize..4, any_op()), 1..40),
    ) {
        let initiators = initiators();
        for (who, op) in &ops {
            apply(&initiators[*who], op);
            check(&initiators, op);
        }
        // The administrator ends all states, and everybody is served.
        let device = &initiators[0].device;
        for imposed in ALL_IMPOSED {
            let _ = device.units[0].end(imposed);
        }
        for (at, state) in [0, 1].into_iter().enumerate() {
            set_layout(device, at, state);
        }
        device.units[0].set_offline(false);
        device.units[0].set_read_only(false);
        device.units[0].set_protected_beneath(false);
        let left = device.units[0].hindrances();
        prop_assert!(left.iter().all(|it| *it == Hindrance::ThresholdReached), "{left:?}");
        for who in &initiators {
            prop_assert!(is_served(who, &WRITE, &[1; 512]));
        }
        // A restart finds none of these states.
        let restarted = Device::new(&[config(1)]);
        restarted.units[0].restore(&device.units[0].image_to_save()).unwrap();
        prop_assert_eq!(restarted.units[0].hindrances(), []);
    }
}

#[test]
fn each_is_told_with_its_author() {
    let initiators = initiators();
    let (a, b) = (&initiators[0], &initiators[2]);
    let unit = &a.device.units[0];
    let name = || a.itls[0].nexus().initiator.name.clone();
    good(a.run(&[0x1B, 0, 0, 0, 0, 0], &[]));
    assert_eq!(unit.hindrances(), [Hindrance::Stopped { by: name() }]);
    assert_eq!(unit.end(Imposed::Stop), [Hindrance::Stopped { by: name() }]);
    protect(a, true, true);
    let protected = Hindrance::SoftwareWriteProtected { by: Some(name()) };
    assert_eq!(unit.hindrances(), [protected]);
    // The state was saved, but its initiator was not.
    let restarted = Device::new(&[config(1)]);
    restarted.units[0].restore(&unit.image_to_save()).unwrap();
    let protected = Hindrance::SoftwareWriteProtected { by: None };
    assert_eq!(restarted.units[0].hindrances(), [protected]);
    assert_eq!(unit.end(Imposed::SoftwareWriteProtect).len(), 1);
    let changed = UnitAttention::MODE_PARAMETERS_CHANGED;
    assert_eq!([a.attention(), b.attention()], [Some(changed); 2]);
    good(a.run(&[0x16, 0, 0, 0, 0, 0], &[]));
    let [Hindrance::Reserved { by, .. }] = &unit.hindrances()[..] else {
        panic!("{:?}", unit.hindrances());
    };
    assert_eq!(*by, Some(name()));
    unit.end(Imposed::Reservation);
    fails(a.run(&READ, &[]), (6, 0x2A, 0x03));
    assert!(is_served(b, &WRITE, &[0; 512]));
}

/// Tests ACA, PREVENT ALLOW MEDIUM REMOVAL and FORMAT UNIT, which could stop others too. They are
/// not offered.
#[test]
fn what_is_not_offered_stops_nobody() {
    let initiators = initiators();
    let (a, b) = (&initiators[0], &initiators[2]);
    for refused in [[0x1E, 0, 0, 0, 3, 0], [0x04, 0, 0, 0, 0, 0]] {
        fails(a.run(&refused, &[]), INVALID_OPCODE);
    }
    // NACA asks for an ACA condition.
    fails(a.run(&[0, 0, 0, 0, 0, 4], &[]), INVALID_IN_CDB);
    assert!(is_served(b, &WRITE, &[0; 512]));
    assert_eq!(a.device.units[0].hindrances(), []);
}
