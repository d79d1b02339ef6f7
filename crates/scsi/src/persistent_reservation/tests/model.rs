//! Model of SPC-4 5.13 for three nexuses, written as plainly as its tables. Random commands run
//! against the model and the implementation.

use proptest::prelude::*;

use super::super::*;
use super::{ALONE, nexus};

#[derive(Clone, Debug, Default)]
struct Model {
    keys: [u64; 3],
    /// Type of the reservation, and its holder for the types that have one.
    reservation: Option<(u8, Option<usize>)>,
    generation: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Good,
    Conflict,
    InvalidType,
    InvalidRelease,
    InvalidKey,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Register {
        key: u64,
        new: u64,
    },
    Ignore {
        new: u64,
    },
    Reserve {
        key: u64,
        kind: u8,
    },
    Release {
        key: u64,
        kind: u8,
    },
    Clear {
        key: u64,
    },
    Preempt {
        key: u64,
        victim: u64,
        kind: u8,
        abort: bool,
    },
}

const RELEASED: UnitAttention = UnitAttention::RESERVATIONS_RELEASED;
const PREEMPTED: UnitAttention = UnitAttention::RESERVATIONS_PREEMPTED;
const UNREGISTERED: UnitAttention = UnitAttention::REGISTRATIONS_PREEMPTED;

fn all_registrants(kind: u8) -> bool {
    kind == 7 || kind == 8
}

impl Model {
    fn registered(&self, who: usize) -> bool {
        self.keys[who] != 0
    }

    fn holder(&self, who: usize) -> bool {
        match self.reservation {
            None => false,
            Some((kind, _)) if all_registrants(kind) => self.registered(who),
            Some((_, holder)) => holder == Some(who),
        }
    }

    fn others(&self, who: usize) -> Vec<usize> {
        (0..3)
            .filter(|&it| it != who && self.registered(it))
            .collect()
    }

    fn run(&mut self, who: usize, op: Op, uas: &mut Vec<(usize, UnitAttention)>) -> End {
        match op {
            Op::Register { key, new } => {
                if key != self.keys[who] {
                    return End::Conflict;
                }
                self.set_key(who, new, uas);
                End::Good
            }
            Op::Ignore { new } => {
                self.set_key(who, new, uas);
                End::Good
            }
            _ => {
                let (Op::Reserve { key, .. }
                | Op::Release { key, .. }
                | Op::Clear { key }
                | Op::Preempt { key, .. }) = op
                else {
                    unreachable!("the two others were handled")
                };
                if !self.registered(who) || key != self.keys[who] {
                    return End::Conflict;
                }
                self.run_keyed(who, op, uas)
            }
        }
    }

    fn set_key(&mut self, who: usize, new: u64, uas: &mut Vec<(usize, UnitAttention)>) {
        if new == 0 && !self.registered(who) {
            return;
        }
        let held = self.holder(who);
        self.keys[who] = new;
        self.generation += 1;
        if new == 0 && held {
            let kind = self.reservation.unwrap().0;
            if all_registrants(kind) {
                if self.keys == [0; 3] {
                    self.reservation = None;
                }
            } else {
                self.reservation = None;
                if kind == 5 || kind == 6 {
                    uas.extend(self.others(who).into_iter().map(|it| (it, RELEASED)));
                }
            }
        }
    }

    fn run_keyed(&mut self, who: usize, op: Op, uas: &mut Vec<(usize, UnitAttention)>) -> End {
        match op {
            Op::Reserve { kind, .. } => {
                if ![1, 3, 5, 6, 7, 8].contains(&kind) {
                    return End::InvalidType;
                }
                match self.reservation {
                    None => {
                        let holder = (!all_registrants(kind)).then_some(who);
                        self.reservation = Some((kind, holder));
                        End::Good
                    }
                    Some((held, _)) if self.holder(who) && held == kind => End::Good,
                    Some(_) => End::Conflict,
                }
            }
            Op::Release { kind, .. } => {
                if !self.holder(who) {
                    return End::Good;
                }
                if self.reservation.unwrap().0 != kind {
                    return End::InvalidRelease;
                }
                self.reservation = None;
                if kind >= 5 {
                    uas.extend(self.others(who).into_iter().map(|it| (it, RELEASED)));
                }
                End::Good
            }
            Op::Clear { .. } => {
                uas.extend(self.others(who).into_iter().map(|it| (it, PREEMPTED)));
                self.keys = [0; 3];
                self.reservation = None;
                self.generation += 1;
                End::Good
            }
            Op::Preempt { victim, kind, .. } => self.preempt(who, victim, kind, uas),
            Op::Register { .. } | Op::Ignore { .. } => unreachable!("handled by the caller"),
        }
    }

    fn preempt(
        &mut self,
        who: usize,
        victim: u64,
        kind: u8,
        uas: &mut Vec<(usize, UnitAttention)>,
    ) -> End {
        let takes = match self.reservation {
            None => false,
            Some((held, _)) if all_registrants(held) => victim == 0,
            Some((_, holder)) => self.keys[holder.unwrap()] == victim,
        };
        if !takes {
            if victim == 0 {
                return End::InvalidKey;
            }
            if !self.keys.contains(&victim) {
                return End::Conflict;
            }
            for it in 0..3 {
                if self.keys[it] == victim {
                    self.keys[it] = 0;
                    if it != who {
                        uas.push((it, UNREGISTERED));
                    }
                }
            }
            if self.keys == [0; 3] {
                self.reservation = None;
            }
            self.generation += 1;
            return End::Good;
        }
        if ![1, 3, 5, 6, 7, 8].contains(&kind) {
            return End::InvalidType;
        }
        for it in (0..3).filter(|&it| it != who) {
            if self.registered(it) && (victim == 0 || self.keys[it] == victim) {
                self.keys[it] = 0;
                uas.push((it, UNREGISTERED));
            }
        }
        if self.reservation.unwrap().0 != kind {
            uas.extend(self.others(who).into_iter().map(|it| (it, RELEASED)));
        }
        self.reservation = Some((kind, (!all_registrants(kind)).then_some(who)));
        self.generation += 1;
        End::Good
    }

    /// Reports whether a nexus may read or write, by the cases of SPC-4 table 48.
    fn may(&self, who: usize, writes: bool) -> bool {
        let Some((kind, _)) = self.reservation else {
            return true;
        };
        if self.holder(who) {
            return true;
        }
        match kind {
            1 => !writes,
            3 => false,
            5 | 7 => !writes || self.registered(who),
            _ => self.registered(who),
        }
    }
}

fn request(op: Op) -> Request {
    match op {
        Op::Register { key, new } => super::register(key, new),
        Op::Ignore { new } => Request::RegisterAndIgnoreExistingKey {
            new_key: new,
            activate_through_power_loss: true,
            all_target_ports: false,
        },
        Op::Reserve { key, kind } => Request::Reserve {
            key,
            scope_and_type: kind,
        },
        Op::Release { key, kind } => Request::Release {
            key,
            scope_and_type: kind,
        },
        Op::Clear { key } => Request::Clear { key },
        Op::Preempt {
            key,
            victim,
            kind,
            abort,
        } => Request::Preempt {
            key,
            victim_key: victim,
            scope_and_type: kind,
            abort,
        },
    }
}

fn end(result: &Result<Outcome, Refusal>) -> End {
    match result {
        Ok(_) => End::Good,
        Err(Refusal::Conflict) => End::Conflict,
        Err(Refusal::Sense(sense)) => match (sense.asc, sense.field.map(|field| field.byte)) {
            (Asc::INVALID_FIELD_IN_CDB, Some(2)) => End::InvalidType,
            (Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION, None) => End::InvalidRelease,
            (Asc::INVALID_FIELD_IN_PARAMETER_LIST, Some(8)) => End::InvalidKey,
            other => panic!("unexpected sense {other:?}"),
        },
    }
}

/// Generates keys. Two of them collide with likely ones, so that wrong keys, shared keys and
/// self-preemption all occur.
fn keys() -> impl Strategy<Value = u64> {
    0..4u64
}

fn kinds() -> impl Strategy<Value = u8> {
    prop_oneof![9 => prop::sample::select(vec![1, 3, 5, 6, 7, 8]), 1 => Just(2u8)]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (keys(), keys()).prop_map(|(key, new)| Op::Register { key, new }),
        2 => keys().prop_map(|new| Op::Ignore { new }),
        3 => (keys(), kinds()).prop_map(|(key, kind)| Op::Reserve { key, kind }),
        1 => (keys(), kinds()).prop_map(|(key, kind)| Op::Release { key, kind }),
        1 => keys().prop_map(|key| Op::Clear { key }),
        3 => (keys(), keys(), kinds(), any::<bool>())
            .prop_map(|(key, victim, kind, abort)| Op::Preempt { key, victim, kind, abort }),
    ]
}

/// Gives most commands the right key, because most commands of real initiators carry it.
fn with_own_key(op: Op, own: u64) -> Op {
    match op {
        Op::Register { new, .. } => Op::Register { key: own, new },
        Op::Reserve { kind, .. } => Op::Reserve { key: own, kind },
        Op::Release { kind, .. } => Op::Release { key: own, kind },
        Op::Clear { .. } => Op::Clear { key: own },
        Op::Preempt {
            victim,
            kind,
            abort,
            ..
        } => Op::Preempt {
            key: own,
            victim,
            kind,
            abort,
        },
        Op::Ignore { .. } => op,
    }
}

fn check_invariants(state: &PersistentReservations) {
    assert!(state.registrations.values().all(|&key| key != 0));
    if let Some(reservation) = &state.reservation {
        assert!(state.has_registrations());
        assert_eq!(
            reservation.kind.is_all_registrants(),
            reservation.holder.is_none()
        );
        if let Some(holder) = &reservation.holder {
            assert!(state.registrations.contains_key(holder));
        }
    }
    let restored = PersistentReservations::from_bytes(&state.to_bytes()).unwrap();
    if state.activate_through_power_loss {
        assert_eq!(restored.registrations, state.registrations);
        assert_eq!(restored.reservation, state.reservation);
    } else {
        assert_eq!(restored, PersistentReservations::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn behaves_as_the_model(
        script in prop::collection::vec((0..3usize, ops(), prop::bool::weighted(0.85)), 1..40),
    ) {
        let mut model = Model::default();
        let mut state = PersistentReservations::default();
        for (who, op, right_key) in script {
            let op = if right_key { with_own_key(op, model.keys[who]) } else { op };
            let before = state.clone();
            let keys_before = model.keys;
            let mut uas = Vec::new();
            let expected = model.run(who, op, &mut uas);
            let result = state.execute(&nexus(who as u8), &request(op), ALONE);
            prop_assert_eq!(end(&result), expected, "{:?} by {}", op, who);
            match result {
                Ok(outcome) => {
                    let mut expected: Vec<_> = uas
                        .into_iter()
                        .map(|(it, ua)| (nexus(it as u8), ua))
                        .collect();
                    let mut told = outcome.attentions;
                    let order = |it: &(Registrant, UnitAttention)| {
                        (it.0.clone(), it.1.asc().0, it.1.asc().1)
                    };
                    expected.sort_by_key(order);
                    told.sort_by_key(order);
                    prop_assert_eq!(told, expected, "{:?} by {}", op, who);
                    let gone: Vec<_> = (0..3)
                        .filter(|&it| keys_before[it] != 0 && model.keys[it] == 0)
                        .map(|it| nexus(it as u8))
                        .collect();
                    if let Op::Preempt { abort, .. } = op {
                        prop_assert_eq!(outcome.abort, if abort { gone } else { Vec::new() });
                    } else {
                        prop_assert!(outcome.abort.is_empty());
                    }
                }
                Err(_) => prop_assert_eq!(&state, &before),
            }
            check_invariants(&state);
            prop_assert_eq!(state.generation, model.generation);
            prop_assert_eq!(state.is_active(), model.reservation.is_some());
            for it in 0..3 {
                let registrant = nexus(it as u8);
                let key = state.registrations.get(&registrant).copied().unwrap_or(0);
                prop_assert_eq!(key, model.keys[it]);
                prop_assert_eq!(state.holds(&registrant), model.holder(it));
                for (class, writes) in [(AccessClass::Read, false), (AccessClass::Write, true)] {
                    let conflicts = state.conflicts(
                        &registrant.initiator,
                        registrant.relative_port_id,
                        class,
                    );
                    prop_assert_eq!(conflicts, !model.may(it, writes));
                }
            }
        }
    }
}
