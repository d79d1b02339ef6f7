//! Persistent reservations by which a host keeps a logical unit for itself over several paths
//! (SPC-4 5.13).
//!
//! Each path registers the host's key, and one of them reserves: Write Exclusive – Registrants
//! Only. So all paths of the host write, no path of another host writes, and everybody reads. Other
//! hosts have to read whether the unit is in use.
//!
//! Under Write Exclusive – All Registrants the paths would write as well. But there every
//! registrant holds the reservation, and READ RESERVATION returns no key. Here its key names the
//! host that has the unit, and a path that comes up later relies on that.
//!
//! # Why a host that lost the unit writes no more, whenever its commands arrive
//! 1. PREEMPT AND ABORT of the host's key removes the registrations of all its paths and the
//!    reservation in one step. The command ends when the commands under way are over. Later
//!    commands meet RESERVATION CONFLICT.
//! 2. A path that comes up registers first, and only then reads the reservation. It carries no
//!    command until the reservation names its host's key. If the path registered before the
//!    preemption, it lost its registration again. If it registered later, it finds another key.
//! 3. If the path finds no reservation, the target forgot it with its power. Then the path reserves
//!    only if its host still has the unit by other proof. The answer about that proof is good for
//!    as long as the session lives. A target that forgets loses its sessions. A host that takes the
//!    unit later preempts the registration, which is there already.
//!
//! [`Reserving`] is one errand of one path: CDBs out, status and data in.

use super::cdb::{self, Cdb};
use super::sense::{Reaction, SenseCode};
use crate::persistent_reservation::ReservationType;

/// Scope LU_SCOPE, and the type of all reservations that this module makes.
pub const TYPE: u8 = ReservationType::WriteExclusiveRegistrantsOnly as u8;

/// Service actions of PERSISTENT RESERVE IN.
const READ_KEYS: u8 = 0x00;
const READ_RESERVATION: u8 = 0x01;
/// Service actions of PERSISTENT RESERVE OUT.
const RESERVE: u8 = 0x01;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_AND_IGNORE_EXISTING_KEY: u8 = 0x06;

/// Space for two thousand keys.
const KEYS_LEN: u16 = 8 + 8 * 2000;
const RESERVATION_LEN: u16 = 8 + 24;
/// Length of the parameter list of PERSISTENT RESERVE OUT without TransportIDs.
const LIST_LEN: u32 = 24;
/// Most commands of one errand. Others may change the state between two commands, but not for ever.
const MOST_COMMANDS: u32 = 100;

/// Key that a host registers, never zero and different for each host. The upper half is derived
/// from the host, the lower half from its opening of the pool on the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReservationKey(u64);

impl ReservationKey {
    /// Makes the key of one opening by a host.
    pub fn new(host: &str, opening: u64) -> Self {
        // FNV-1a.
        let host = host.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let opening = (opening ^ opening >> 32) & u64::from(u32::MAX);
        Self((u64::from(host) << 32 | opening).max(1))
    }

    /// Returns the key as it lies in parameter lists.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Reports whether a key belongs to an opening by this key's host.
    pub fn is_of_same_host(self, other: u64) -> bool {
        self.0 >> 32 == other >> 32
    }
}

/// Goals of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The path is registered, whichever host holds the unit.
    Register,
    /// The path takes part in the reservation of its host.
    Join,
    /// The host holds the unit, and no other host is registered. Without `force` only keys of this
    /// host are preempted.
    Take {
        /// Whether keys of every host are preempted.
        force: bool,
    },
    /// The registrations of all the host's paths are gone, and so is the reservation.
    Release,
    /// The path is not registered.
    Leave,
}

/// Results of an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The goal is reached.
    Done,
    /// Key under which another host holds the unit, or is registered. The key is 0 if it is
    /// unknown. The path is not registered.
    Others(u64),
    /// The unit knows no persistent reservations.
    Unsupported,
    /// The goal is not reached, for the reason in this clause.
    Failed(String),
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send [`Reserving::command`], or with `later` send it in a moment.
    Go {
        /// Whether the target was busy.
        later: bool,
    },
    /// The errand is over.
    Over(End),
}

/// Command of an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// CDB of the command.
    pub cdb: Cdb,
    /// Parameter list of the command, empty if it has none.
    pub data_out: Vec<u8>,
    /// Bytes of data that the command may return.
    pub data_in: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Register,
    /// The registration of this path is removed, and the errand ends with this result.
    Unregister(End),
    ReadKeys,
    /// Preempts these keys, the last one first.
    Preempt(Vec<u64>),
    ReadReservation,
    Reserve,
    Clear,
}

/// Errand of one path.
#[derive(Clone, Debug)]
pub struct Reserving {
    key: ReservationKey,
    goal: Goal,
    step: Step,
    /// Whether the target is to keep the registration over a loss of power (APTPL).
    is_to_persist: bool,
    /// Whether the target knows PREEMPT AND ABORT.
    aborts: bool,
    commands: u32,
}

impl Reserving {
    /// Starts an errand.
    pub fn new(key: ReservationKey, goal: Goal) -> Self {
        let step = match goal {
            Goal::Register | Goal::Join | Goal::Take { .. } => Step::Register,
            Goal::Release => Step::Clear,
            Goal::Leave => Step::Unregister(End::Done),
        };
        Self {
            key,
            goal,
            step,
            is_to_persist: true,
            aborts: true,
            commands: 0,
        }
    }

    /// Returns the goal of the errand.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// Returns the next command.
    pub fn command(&self) -> Command {
        let key = self.key.get();
        match &self.step {
            Step::ReadKeys => read(READ_KEYS, KEYS_LEN),
            Step::ReadReservation => read(READ_RESERVATION, RESERVATION_LEN),
            Step::Register => change(
                REGISTER_AND_IGNORE_EXISTING_KEY,
                0,
                [0, key],
                self.is_to_persist,
            ),
            Step::Unregister(_) => change(
                REGISTER_AND_IGNORE_EXISTING_KEY,
                0,
                [0, 0],
                self.is_to_persist,
            ),
            Step::Preempt(victims) => {
                let action = if self.aborts {
                    PREEMPT_AND_ABORT
                } else {
                    PREEMPT
                };
                let victim = victims.last().copied().unwrap_or_default();
                change(action, TYPE, [key, victim], false)
            }
            Step::Reserve => change(RESERVE, TYPE, [key, 0], false),
            Step::Clear => change(CLEAR, 0, [key, 0], false),
        }
    }

    /// Takes the answer to the command. `is_owner` says that the host still owns the pool on the
    /// unit, by other proof.
    pub fn answer(&mut self, status: u8, sense: &[u8], data: &[u8], is_owner: bool) -> Progress {
        self.commands += 1;
        if self.commands > MOST_COMMANDS {
            return failed(
                "other initiators keep changing its reservations, or it stays busy for too long",
            );
        }
        match status {
            0x00 => self.went_well(data, is_owner),
            0x02 => self.refused(sense),
            // BUSY, TASK SET FULL, TASK ABORTED.
            0x08 | 0x28 | 0x40 => Progress::Go { later: true },
            0x18 => self.conflicted(),
            status => failed(format!("the target returned status {status:02x}h")),
        }
    }

    fn went_well(&mut self, data: &[u8], is_owner: bool) -> Progress {
        self.step = match (&mut self.step, self.goal) {
            (Step::Register, Goal::Join) => Step::ReadReservation,
            (Step::Register, Goal::Take { .. }) => Step::ReadKeys,
            (Step::Unregister(end), _) => return Progress::Over(end.clone()),
            (Step::ReadKeys, _) => match keys(data) {
                Some(keys) => self.after_keys(keys),
                None => return failed("its list of keys cannot be read"),
            },
            // Preemption is repeated until no victims are left.
            (Step::Preempt(victims), _) if victims.len() < 2 => Step::ReadKeys,
            (Step::Preempt(victims), _) => {
                victims.pop();
                return Progress::Go { later: false };
            }
            (Step::ReadReservation, _) => match holder(data) {
                None => return failed("its reservation cannot be read"),
                Some(None) if self.goal == Goal::Join && !is_owner => {
                    Step::Unregister(End::Others(0))
                }
                Some(None) => Step::Reserve,
                Some(Some((key, TYPE))) if key == self.key.get() => {
                    return Progress::Over(End::Done);
                }
                Some(Some((key, _))) => self.preempt_or_leave(key),
            },
            (Step::Register | Step::Reserve | Step::Clear, _) => return Progress::Over(End::Done),
        };
        Progress::Go { later: false }
    }

    fn after_keys(&self, mut keys: Vec<u64>) -> Step {
        keys.retain(|key| *key != self.key.get());
        keys.sort_unstable();
        keys.dedup();
        let is_foreign = |key: &&u64| !self.may_preempt(**key);
        match keys.iter().find(is_foreign) {
            Some(key) => Step::Unregister(End::Others(*key)),
            None if keys.is_empty() => Step::ReadReservation,
            None => Step::Preempt(keys),
        }
    }

    fn preempt_or_leave(&self, key: u64) -> Step {
        match self.may_preempt(key) {
            true => Step::Preempt(vec![key]),
            false => Step::Unregister(End::Others(key)),
        }
    }

    fn may_preempt(&self, key: u64) -> bool {
        match self.goal {
            Goal::Take { force } => force || self.key.is_of_same_host(key),
            _ => false,
        }
    }

    fn conflicted(&mut self) -> Progress {
        match self.step {
            // Another host interfered: this registration is gone, or the last answer is out of
            // date.
            Step::Preempt(_) | Step::Reserve => self.step = Step::Register,
            // Nothing of this host is left.
            Step::Clear => return Progress::Over(End::Done),
            // Only RESERVE (6) conflicts with these commands (SPC-2).
            Step::Register | Step::Unregister(_) | Step::ReadKeys | Step::ReadReservation => {
                return failed("another initiator has reserved it by RESERVE (6)");
            }
        }
        Progress::Go { later: false }
    }

    fn refused(&mut self, sense: &[u8]) -> Progress {
        let Some(code) = SenseCode::decode(sense) else {
            return Progress::Go { later: true };
        };
        match (code.reaction(), code.asc, &self.step) {
            // Targets that cannot keep the registration blame the parameter list, or, as tgt does,
            // the CDB.
            (Reaction::IllegalRequest, 0x24 | 0x26, Step::Register | Step::Unregister(_))
                if self.is_to_persist =>
            {
                self.is_to_persist = false;
                Progress::Go { later: false }
            }
            (Reaction::IllegalRequest, 0x20, _)
            | (Reaction::IllegalRequest, 0x24, Step::Register | Step::Unregister(_)) => {
                Progress::Over(End::Unsupported)
            }
            (Reaction::IllegalRequest, 0x24, Step::Preempt(_)) if self.aborts => {
                self.aborts = false;
                Progress::Go { later: false }
            }
            // The reservation that was to be preempted is gone.
            (Reaction::IllegalRequest, 0x26, Step::Preempt(_)) => {
                self.step = Step::Register;
                Progress::Go { later: false }
            }
            (
                Reaction::UnitAttention
                | Reaction::ReservationsChanged
                | Reaction::CapacityChanged
                | Reaction::AccessStateChanged,
                ..,
            ) => Progress::Go { later: false },
            (Reaction::Later | Reaction::Aborted | Reaction::AccessState(_), ..) => {
                Progress::Go { later: true }
            }
            _ => failed(format!("the target reported {code}")),
        }
    }
}

fn failed(why: impl Into<String>) -> Progress {
    Progress::Over(End::Failed(why.into()))
}

fn read(service_action: u8, length: u16) -> Command {
    Command {
        cdb: cdb::persistent_reserve_in(service_action, length),
        data_out: Vec::new(),
        data_in: length.into(),
    }
}

/// Builds a PERSISTENT RESERVE OUT with RESERVATION KEY, SERVICE ACTION RESERVATION KEY, and APTPL.
fn change(service_action: u8, scope_and_type: u8, keys: [u64; 2], persists: bool) -> Command {
    let mut list = Vec::with_capacity(LIST_LEN as usize);
    keys.iter()
        .for_each(|key| list.extend_from_slice(&key.to_be_bytes()));
    list.extend_from_slice(&[0, 0, 0, 0, u8::from(persists), 0, 0, 0]);
    Command {
        cdb: cdb::persistent_reserve_out(service_action, scope_and_type, LIST_LEN),
        data_out: list,
        data_in: 0,
    }
}

/// Returns the list behind PRGENERATION and ADDITIONAL LENGTH, as far as it came.
fn list(data: &[u8]) -> Option<&[u8]> {
    let length = u32::from_be_bytes(*data.get(4..)?.first_chunk()?) as usize;
    let list = &data[8..];
    Some(&list[..length.min(list.len())])
}

/// Reads the keys in the data of READ KEYS (SPC-4 6.15.2).
pub fn keys(data: &[u8]) -> Option<Vec<u64>> {
    let keys = list(data)?.as_chunks::<8>().0.iter();
    Some(keys.map(|key| u64::from_be_bytes(*key)).collect())
}

/// Reads key and type in the data of READ RESERVATION (SPC-4 6.15.3). The inner value is `None` if
/// nobody holds a reservation.
#[allow(
    clippy::option_option,
    reason = "what cannot be read is not the absence of a reservation"
)]
pub fn holder(data: &[u8]) -> Option<Option<(u64, u8)>> {
    let descriptor = list(data)?;
    if descriptor.is_empty() {
        return Some(None);
    }
    let key = u64::from_be_bytes(*descriptor.first_chunk()?);
    Some(Some((key, descriptor.get(13)? & 0x0f)))
}

#[cfg(test)]
mod tests;
