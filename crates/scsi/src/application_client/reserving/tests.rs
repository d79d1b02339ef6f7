//! Tests that run the errands of two hosts with two paths each against the device server's own
//! state machine, in every order.

use proptest::prelude::*;

use super::*;
use crate::command::persistent_reserve::parse;
use crate::nexus::InitiatorPort;
use crate::persistent_reservation::{
    AccessClass, PersistentReservations, Refusal, Registrant, Request, Surroundings,
};
use crate::sense::SenseFormat;
use crate::{Asc, Sense, SenseKey};

fn path(host: u8, path: u8) -> Registrant {
    Registrant {
        initiator: InitiatorPort {
            name: format!("iqn.2026-01.test:{host}"),
            isid: [0, 2, 0x3d, 0, host, path],
        },
        relative_port_id: 1 + u16::from(path),
    }
}

fn key(host: u8) -> ReservationKey {
    ReservationKey::new(["a/1", "b/2"][usize::from(host)], 7)
}

#[derive(Default)]
struct Unit(PersistentReservations);

impl Unit {
    fn perform(&mut self, from: &Registrant, command: &Command) -> (u8, Vec<u8>, Vec<u8>) {
        if command.cdb[0] == 0x5e {
            let data = match command.cdb[1] {
                READ_KEYS => self.0.read_keys(),
                _ => self.0.read_reservation(),
            };
            return (0, Vec::new(), data);
        }
        let surroundings = Surroundings {
            ports: &[1, 2],
            initiators: &[],
        };
        let request = parse(command.cdb[1], command.cdb[2], &command.data_out);
        let request = request.expect("a list of the standard");
        match self.0.execute(from, &request, surroundings) {
            Ok(_) => (0, Vec::new(), Vec::new()),
            Err(Refusal::Conflict) => (0x18, Vec::new(), Vec::new()),
            Err(Refusal::Sense(sense)) => (2, sense.encode(SenseFormat::Fixed), Vec::new()),
        }
    }

    /// Runs one command of an errand. Returns the errand's result if the errand ended.
    fn step(&mut self, from: &Registrant, errand: &mut Reserving, is_owner: bool) -> Option<End> {
        let (status, sense, data) = self.perform(from, &errand.command());
        match errand.answer(status, &sense, &data, is_owner) {
            Progress::Over(end) => Some(end),
            Progress::Go { .. } => None,
        }
    }

    fn run(&mut self, from: &Registrant, key: ReservationKey, goal: Goal) -> End {
        let mut errand = Reserving::new(key, goal);
        loop {
            if let Some(end) = self.step(from, &mut errand, true) {
                return end;
            }
        }
    }

    fn may_write(&self, from: &Registrant) -> bool {
        let class = AccessClass::Write;
        !(self.0).conflicts(&from.initiator, from.relative_port_id, class)
    }

    fn keys(&self) -> Vec<u64> {
        keys(&self.0.read_keys()).expect("a list")
    }

    fn reserve(&mut self, from: &Registrant, key: u64, kind: ReservationType) {
        let register = Request::RegisterAndIgnoreExistingKey {
            new_key: key,
            activate_through_power_loss: false,
            all_target_ports: false,
        };
        let reserve = Request::Reserve {
            key,
            scope_and_type: kind as u8,
        };
        for request in [register, reserve] {
            let surroundings = Surroundings {
                ports: &[1],
                initiators: &[],
            };
            let done = self.0.execute(from, &request, surroundings);
            done.expect("it is free");
        }
    }
}

const FORCE: Goal = Goal::Take { force: true };
const GENTLE: Goal = Goal::Take { force: false };

#[test]
fn all_paths_of_the_host_write_and_no_other_does() {
    let mut unit = Unit::default();
    assert_eq!(unit.run(&path(0, 0), key(0), GENTLE), End::Done);
    assert!(!unit.may_write(&path(0, 1)));
    assert_eq!(unit.run(&path(0, 1), key(0), Goal::Join), End::Done);
    assert!(unit.may_write(&path(0, 0)) && unit.may_write(&path(0, 1)));
    assert!(!unit.may_write(&path(1, 0)));
    assert_eq!(
        holder(&unit.0.read_reservation()),
        Some(Some((key(0).get(), 5)))
    );
    // After a release by any path, nothing is left.
    assert_eq!(unit.run(&path(0, 1), key(0), Goal::Release), End::Done);
    assert_eq!(unit.keys(), []);
    assert!(unit.may_write(&path(1, 0)));
}

#[test]
fn whoever_gives_up_before_it_took_the_unit_harms_nobody() {
    let mut unit = Unit::default();
    unit.run(&path(0, 0), key(0), GENTLE);
    assert_eq!(unit.run(&path(1, 0), key(1), Goal::Register), End::Done);
    assert!(unit.may_write(&path(1, 0)), "a claim can be written");
    assert_eq!(unit.run(&path(1, 0), key(1), Goal::Leave), End::Done);
    assert_eq!(unit.keys(), [key(0).get()]);
    assert!(unit.may_write(&path(0, 0)) && !unit.may_write(&path(1, 0)));
}

#[test]
fn what_others_left_is_taken_by_force_and_what_the_host_left_without() {
    let mut unit = Unit::default();
    unit.run(&path(0, 0), key(0), GENTLE);
    let refused = unit.run(&path(1, 0), key(1), GENTLE);
    assert_eq!(refused, End::Others(key(0).get()));
    assert_eq!(unit.keys(), [key(0).get()], "nothing of it is left");
    assert_eq!(unit.run(&path(1, 0), key(1), FORCE), End::Done);
    assert!(unit.may_write(&path(1, 0)) && !unit.may_write(&path(0, 0)));
    let later = ReservationKey::new("b/2", 8);
    assert_ne!(later, key(1));
    assert_eq!(unit.run(&path(1, 1), later, GENTLE), End::Done);
    assert_eq!(unit.keys(), [later.get()]);
}

#[test]
fn reservations_of_every_type_are_taken() {
    for code in [1, 3, 5, 6, 7, 8] {
        let kind = ReservationType::from_code(code).expect("a type");
        let mut unit = Unit::default();
        unit.reserve(&path(0, 0), 0xabc, kind);
        assert_eq!(unit.run(&path(1, 0), key(1), FORCE), End::Done, "{kind:?}");
        assert_eq!(unit.keys(), [key(1).get()], "{kind:?}");
        assert!(unit.may_write(&path(1, 0)) && !unit.may_write(&path(0, 0)));
    }
}

fn answers(goal: Goal, answers: &[(u8, Option<Sense>)]) -> (Reserving, Progress) {
    let mut errand = Reserving::new(key(0), goal);
    let mut progress = Progress::Go { later: false };
    for (status, sense) in answers {
        let sense = sense.map(|sense| sense.encode(SenseFormat::Descriptor));
        progress = errand.answer(*status, &sense.unwrap_or_default(), &[], true);
    }
    (errand, progress)
}

#[test]
fn a_unit_without_persistent_reservations_is_told() {
    let sense = Sense::illegal(Asc::INVALID_COMMAND_OPERATION_CODE);
    let (_, progress) = answers(GENTLE, &[(2, Some(sense))]);
    assert_eq!(progress, Progress::Over(End::Unsupported));
}

#[test]
fn a_unit_that_forgets_with_its_power_is_registered_with_all_the_same() {
    let refusals = [
        Sense::invalid_field_in_parameter_list(20),
        // Refusal as tgt words it.
        Sense::illegal(Asc::INVALID_FIELD_IN_CDB),
    ];
    for sense in refusals {
        let (errand, progress) = answers(Goal::Register, &[(2, Some(sense))]);
        assert_eq!(progress, Progress::Go { later: false });
        assert_eq!(errand.command().data_out[20], 0, "APTPL");
    }
    // If the target refuses the command without APTPL as well, it does not know the service action.
    let (_, progress) = answers(Goal::Register, &[(2, Some(refusals[1])); 2]);
    assert_eq!(progress, Progress::Over(End::Unsupported));
    let (errand, _) = answers(Goal::Register, &[]);
    assert_eq!(errand.command().data_out[20], 1, "APTPL");
    assert_eq!(errand.command().data_out[8..16], key(0).get().to_be_bytes());
    assert_eq!(errand.command().cdb[..9], [0x5f, 6, 0, 0, 0, 0, 0, 0, 24]);
}

#[test]
fn what_passes_is_waited_for_and_what_does_not_is_told() {
    let attention = Sense::new(SenseKey::UnitAttention, Asc::REGISTRATIONS_PREEMPTED);
    let (_, progress) = answers(Goal::Join, &[(2, Some(attention))]);
    assert_eq!(progress, Progress::Go { later: false });
    for busy in [0x08, 0x28, 0x40] {
        let (_, progress) = answers(Goal::Join, &[(busy, None)]);
        assert_eq!(progress, Progress::Go { later: true });
    }
    let full = Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES);
    let (_, progress) = answers(Goal::Join, &[(2, Some(full))]);
    assert!(matches!(progress, Progress::Over(End::Failed(why)) if why.contains("5/55/04")));
    let (_, progress) = answers(Goal::Join, &[(0x18, None)]);
    assert!(matches!(progress, Progress::Over(End::Failed(why)) if why.contains("RESERVE (6)")));
    let (_, progress) = answers(Goal::Join, &[(0x08, None); 101]);
    assert!(matches!(progress, Progress::Over(End::Failed(_))));
}

#[test]
fn keys_tell_their_host_and_are_never_zero() {
    let one = ReservationKey::new("a/1", 1);
    assert!(one.is_of_same_host(ReservationKey::new("a/1", 2).get()));
    assert!(!one.is_of_same_host(ReservationKey::new("b/1", 1).get()));
    assert_ne!(one, ReservationKey::new("a/1", 2 << 32));
    assert!((0..1000).all(|opening| ReservationKey::new("", opening).get() != 0));
}

/// Progress of one path of a host.
struct Path {
    of: Registrant,
    host: u8,
    errand: Option<Reserving>,
    /// Whether the path carries commands.
    is_up: bool,
}

/// World of the test: host 0 has the unit with both paths, and host 1 takes it. Anything may happen
/// in between.
struct World {
    unit: Unit,
    paths: Vec<Path>,
    /// Whether host 1 has proven by other means that host 0 is over.
    has_won: bool,
    has_taken: bool,
}

impl World {
    fn new() -> Self {
        let mut unit = Unit::default();
        unit.run(&path(0, 0), key(0), GENTLE);
        unit.run(&path(0, 1), key(0), Goal::Join);
        let paths = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(host, number)| Path {
            of: path(host, number),
            host,
            errand: None,
            is_up: host == 0,
        });
        Self {
            unit,
            paths: paths.into(),
            has_won: false,
            has_taken: false,
        }
    }

    /// Loses a session, which comes up again.
    fn lose(&mut self, at: usize) {
        let path = &mut self.paths[at];
        path.is_up = false;
        let goal = match (path.host, self.has_won, self.has_taken) {
            (0, ..) | (_, _, true) => Goal::Join,
            (_, false, _) => Goal::Register,
            (_, true, false) if at == 2 => FORCE,
            (_, true, false) => Goal::Register,
        };
        path.errand = Some(Reserving::new(key(path.host), goal));
    }

    fn step(&mut self, at: usize) {
        let is_owner = match self.paths[at].host {
            0 => !self.has_won,
            _ => self.has_won,
        };
        let path = &mut self.paths[at];
        let Some(errand) = &mut path.errand else {
            return;
        };
        if let Some(end) = self.unit.step(&path.of, errand, is_owner) {
            path.is_up = end == End::Done && errand.goal() != Goal::Register;
            self.has_taken |= end == End::Done && errand.goal() == FORCE;
            path.errand = None;
        }
    }

    fn check(&self) {
        if !self.has_taken {
            return;
        }
        for old in self
            .paths
            .iter()
            .filter(|path| path.host == 0 && path.is_up)
        {
            assert!(
                !self.unit.may_write(&old.of),
                "a write of the old host lands"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_host_that_lost_the_unit_writes_no_more_in_whatever_order(
        events in proptest::collection::vec(0_u8..16, 0..120),
        power_fails in any::<bool>(),
    ) {
        let mut world = World::new();
        for event in events {
            match event {
                0..=11 => world.step(usize::from(event % 4)),
                12 | 13 => world.lose(usize::from(event % 4)),
                14 if world.has_won && power_fails => {
                    // The target forgets everything, and its sessions end.
                    world.unit = Unit::default();
                    (0..4).for_each(|at| world.lose(at));
                }
                14 => {
                    world.has_won = true;
                    (2..4).for_each(|at| world.lose(at));
                }
                _ => world.lose(2),
            }
            world.check();
        }
        // In the end the new host has the unit on all of its paths, and the old host on none.
        world.has_won = true;
        world.lose(2);
        for round in 0..200 {
            if round == 20 && !world.has_taken {
                world.lose(2);
            }
            (0..4).for_each(|at| world.step(at));
            world.check();
        }
        prop_assert!(world.has_taken);
        world.lose(3);
        (0..50).for_each(|_| world.step(3));
        for path in world.paths.iter().filter(|path| path.host == 1) {
            prop_assert!(path.is_up && world.unit.may_write(&path.of));
        }
    }
}
