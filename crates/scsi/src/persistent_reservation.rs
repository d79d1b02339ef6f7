//! Persistent reservations (SPC-4 5.13): who registered, who holds, who may therefore do what.
//!
//! A pure state machine without locks: the logical unit keeps one behind its mutex, and a PERSISTENT
//! RESERVE OUT works on a copy that replaces it once the change is durable where it must be.
//!
//! A registration belongs to an I_T nexus ([`Registrant`]): initiator port (iSCSI name *and* ISID)
//! plus relative target port. An initiator that logs in again with another ISID — open-iscsi numbers
//! its sessions, so this happens when sessions come up in another order after a reboot — is another
//! initiator port by RFC 7143 and finds itself unregistered, while its old registration stays until
//! another registrant preempts it or the initiator returns with the old ISID. That is what the
//! standards ask; binding to the name alone would let one path of a host release what another path
//! holds.
//!
//! # Invariants
//! - Every key is non-zero; every holder is registered.
//! - At most one nexus holds, unless the type is an all-registrants type: then every registrant does.
//! - A refused request changes nothing.

mod image;
mod register;
mod report;
mod transport_id;

use std::collections::BTreeMap;

use crate::nexus::{InitiatorPort, Nexus};
use crate::{Asc, Sense, UnitAttention};

pub use image::DamagedImage;
pub use transport_id::TransportId;

/// More registrations than this on one unit are refused (05/55/04), so that a hostile initiator
/// cannot fill memory by logging in under ever new ISIDs.
pub const MAX_REGISTRATIONS: usize = 1024;

/// The type of a persistent reservation (SPC-4 table 197).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes; everyone reads.
    WriteExclusive = 0x1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 0x3,
    /// Registrants write; everyone reads.
    WriteExclusiveRegistrantsOnly = 0x5,
    /// Registrants read and write.
    ExclusiveAccessRegistrantsOnly = 0x6,
    /// Registrants hold and write; everyone reads.
    WriteExclusiveAllRegistrants = 0x7,
    /// Registrants hold, read and write.
    ExclusiveAccessAllRegistrants = 0x8,
}

impl ReservationType {
    /// The name in SPC-4's words.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteExclusive => "Write Exclusive",
            Self::ExclusiveAccess => "Exclusive Access",
            Self::WriteExclusiveRegistrantsOnly => "Write Exclusive – Registrants Only",
            Self::ExclusiveAccessRegistrantsOnly => "Exclusive Access – Registrants Only",
            Self::WriteExclusiveAllRegistrants => "Write Exclusive – All Registrants",
            Self::ExclusiveAccessAllRegistrants => "Exclusive Access – All Registrants",
        }
    }

    /// The type with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        [
            Self::WriteExclusive,
            Self::ExclusiveAccess,
            Self::WriteExclusiveRegistrantsOnly,
            Self::ExclusiveAccessRegistrantsOnly,
            Self::WriteExclusiveAllRegistrants,
            Self::ExclusiveAccessAllRegistrants,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == code)
    }

    /// Whether every registrant is a holder.
    pub fn is_all_registrants(self) -> bool {
        matches!(
            self,
            Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants
        )
    }

    /// Whether registrants have the holder's access.
    fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Whether nexuses without any right may still read.
    fn admits_readers(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive
                | Self::WriteExclusiveRegistrantsOnly
                | Self::WriteExclusiveAllRegistrants
        )
    }
}

/// What a command does, as far as reservations care (SPC-4 table 65, SBC-4 table 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessClass {
    /// Never conflicts: INQUIRY, REPORT LUNS, TEST UNIT READY, READ CAPACITY, PERSISTENT RESERVE…
    Always,
    /// Conflicts with exclusive access: READ, VERIFY, PRE-FETCH, GET LBA STATUS…
    Read,
    /// Conflicts with every reservation: WRITE, UNMAP, MODE SELECT, SYNCHRONIZE CACHE…
    Write,
}

/// The I_T nexus a registration belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registrant {
    /// The initiator port.
    pub initiator: InitiatorPort,
    /// The relative identifier of the target port.
    pub relative_port_id: u16,
}

impl Registrant {
    /// The registrant that this nexus is.
    pub fn of(nexus: &Nexus) -> Self {
        Self {
            initiator: (*nexus.initiator).clone(),
            relative_port_id: nexus.target_port.relative_port_id,
        }
    }

    /// Whether this nexus is the registrant.
    pub(crate) fn is(&self, nexus: &Nexus) -> bool {
        self.relative_port_id == nexus.target_port.relative_port_id
            && self.initiator == *nexus.initiator
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reservation {
    kind: ReservationType,
    /// The holder; `None` where all registrants hold.
    holder: Option<Registrant>,
}

/// The persistent reservation state of one logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentReservations {
    generation: u32,
    registrations: BTreeMap<Registrant, u64>,
    reservation: Option<Reservation>,
    /// APTPL of the last registration that carried it: whether all this survives a power loss.
    activate_through_power_loss: bool,
}

/// A PERSISTENT RESERVE OUT, its parameter list parsed (SPC-4 6.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// REGISTER.
    Register {
        /// RESERVATION KEY.
        key: u64,
        /// SERVICE ACTION RESERVATION KEY; 0 unregisters.
        new_key: u64,
        /// APTPL.
        activate_through_power_loss: bool,
        /// ALL_TG_PT.
        all_target_ports: bool,
        /// SPEC_I_PT and the initiator ports it brings.
        others: Option<Vec<TransportId>>,
    },
    /// REGISTER AND IGNORE EXISTING KEY.
    RegisterAndIgnoreExistingKey {
        /// SERVICE ACTION RESERVATION KEY; 0 unregisters.
        new_key: u64,
        /// APTPL.
        activate_through_power_loss: bool,
        /// ALL_TG_PT.
        all_target_ports: bool,
    },
    /// RESERVE.
    Reserve {
        /// RESERVATION KEY.
        key: u64,
        /// CDB byte 2: scope and type.
        scope_and_type: u8,
    },
    /// RELEASE.
    Release {
        /// RESERVATION KEY.
        key: u64,
        /// CDB byte 2: scope and type.
        scope_and_type: u8,
    },
    /// CLEAR.
    Clear {
        /// RESERVATION KEY.
        key: u64,
    },
    /// PREEMPT and PREEMPT AND ABORT.
    Preempt {
        /// RESERVATION KEY.
        key: u64,
        /// SERVICE ACTION RESERVATION KEY: whose registrations go.
        victim_key: u64,
        /// CDB byte 2: scope and type of the new reservation.
        scope_and_type: u8,
        /// Whether the commands of those preempted are aborted.
        abort: bool,
    },
    /// REGISTER AND MOVE.
    RegisterAndMove {
        /// RESERVATION KEY.
        key: u64,
        /// SERVICE ACTION RESERVATION KEY: the destination's.
        new_key: u64,
        /// APTPL.
        activate_through_power_loss: bool,
        /// UNREG: the source loses its registration.
        unregister: bool,
        /// RELATIVE TARGET PORT IDENTIFIER of the destination.
        relative_port_id: u16,
        /// The destination's initiator port.
        destination: TransportId,
    },
}

/// What the state machine must be told about the world to register others.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The relative identifiers of all target ports of the device.
    pub ports: &'a [u16],
    /// The initiator ports logged in now, for a TransportID that names a whole initiator.
    pub initiators: &'a [InitiatorPort],
}

/// What a request that was carried out asks of the logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Unit attentions owed to other nexuses.
    pub attentions: Vec<(Registrant, UnitAttention)>,
    /// Whose commands must be aborted before the command ends (PREEMPT AND ABORT).
    pub abort: Vec<Registrant>,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION with this sense data.
    Sense(Sense),
}

/// What RESERVE(6) and RELEASE(6) come to beside persistent reservations (SPC-4 5.13.3, CRH = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatibleReservation {
    /// No registration exists: the command means what SPC-2 says.
    Proceed,
    /// GOOD, and nothing changes.
    NoEffect,
    /// RESERVATION CONFLICT.
    Conflict,
}

impl PersistentReservations {
    /// Whether a reservation exists: while none does nothing conflicts.
    pub fn is_active(&self) -> bool {
        self.reservation.is_some()
    }

    /// The reservation in words, for an administrator: its type and who holds it.
    pub fn describe(&self) -> Option<String> {
        let reservation = self.reservation.as_ref()?;
        let kind = reservation.kind.name();
        Some(match &reservation.holder {
            Some(holder) => format!("{kind}, held by {}", holder.initiator.name),
            None => format!("{kind}, held by {} registrants", self.registrations.len()),
        })
    }

    /// The name of the initiator that holds it; `None` where all registrants do, or none.
    pub fn holder_name(&self) -> Option<&str> {
        let holder = self.reservation.as_ref()?.holder.as_ref()?;
        Some(&holder.initiator.name)
    }

    /// Whether everybody may read in spite of it.
    pub fn admits_readers(&self) -> bool {
        let kind = self.reservation.as_ref().map(|held| held.kind);
        kind.is_none_or(ReservationType::admits_readers)
    }

    /// Whether any nexus is registered.
    pub fn has_registrations(&self) -> bool {
        !self.registrations.is_empty()
    }

    /// Whether a command of this class from this nexus meets RESERVATION CONFLICT.
    pub fn conflicts(
        &self,
        initiator: &InitiatorPort,
        relative_port_id: u16,
        class: AccessClass,
    ) -> bool {
        let Some(reservation) = &self.reservation else {
            return false;
        };
        if class == AccessClass::Always
            || (class == AccessClass::Read && reservation.kind.admits_readers())
        {
            return false;
        }
        let is_holder = reservation.holder.as_ref().is_some_and(|holder| {
            holder.relative_port_id == relative_port_id && holder.initiator == *initiator
        });
        if is_holder {
            return false;
        }
        !(reservation.kind.admits_registrants()
            && self.registrations.keys().any(|registrant| {
                registrant.relative_port_id == relative_port_id
                    && registrant.initiator == *initiator
            }))
    }

    /// What RESERVE(6) or RELEASE(6) from this nexus comes to. The opposite direction is the logical
    /// unit's: while RESERVE(6) reserves it, PERSISTENT RESERVE IN and OUT conflict for everyone.
    pub fn compatible_reservation(&self, from: &Registrant) -> CompatibleReservation {
        if self.registrations.is_empty() {
            return CompatibleReservation::Proceed;
        }
        let tolerated = self.reservation.as_ref().is_some_and(|reservation| {
            self.holds(from)
                || (reservation.kind.admits_registrants() && self.registrations.contains_key(from))
        });
        if tolerated {
            CompatibleReservation::NoEffect
        } else {
            CompatibleReservation::Conflict
        }
    }

    /// Whether this nexus holds the reservation.
    pub fn holds(&self, registrant: &Registrant) -> bool {
        self.reservation
            .as_ref()
            .is_some_and(|reservation| match &reservation.holder {
                Some(holder) => holder == registrant,
                None => self.registrations.contains_key(registrant),
            })
    }

    /// Carries out a PERSISTENT RESERVE OUT from `from`.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn execute(
        &mut self,
        from: &Registrant,
        request: &Request,
        surroundings: Surroundings<'_>,
    ) -> Result<Outcome, Refusal> {
        match request {
            Request::Register { .. }
            | Request::RegisterAndIgnoreExistingKey { .. }
            | Request::RegisterAndMove { .. } => self.execute_register(from, request, surroundings),
            &Request::Reserve {
                key,
                scope_and_type,
            } => self.reserve(from, key, scope_and_type),
            &Request::Release {
                key,
                scope_and_type,
            } => self.release(from, key, scope_and_type),
            &Request::Clear { key } => self.clear(from, key),
            &Request::Preempt {
                key,
                victim_key,
                scope_and_type,
                abort,
            } => self.preempt(from, key, victim_key, scope_and_type, abort),
        }
    }

    /// SPC-4 5.13.9.
    fn reserve(
        &mut self,
        from: &Registrant,
        key: u64,
        scope_and_type: u8,
    ) -> Result<Outcome, Refusal> {
        self.check_key(from, key)?;
        let kind = requested_type(scope_and_type)?;
        match &self.reservation {
            None => self.reservation = Some(Reservation::new(kind, from)),
            Some(existing) if self.holds(from) && existing.kind == kind => {}
            Some(_) => return Err(Refusal::Conflict),
        }
        Ok(Outcome::default())
    }

    /// SPC-4 5.13.11.2: a registrant that does not hold is answered GOOD.
    fn release(
        &mut self,
        from: &Registrant,
        key: u64,
        scope_and_type: u8,
    ) -> Result<Outcome, Refusal> {
        self.check_key(from, key)?;
        let Some(reservation) = &self.reservation else {
            return Ok(Outcome::default());
        };
        if !self.holds(from) {
            return Ok(Outcome::default());
        }
        if requested_type(scope_and_type) != Ok(reservation.kind) {
            return Err(Refusal::Sense(Sense::illegal(
                Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION,
            )));
        }
        let attentions = if reservation.kind.admits_registrants() {
            self.attentions_to_all_but(from, UnitAttention::RESERVATIONS_RELEASED)
        } else {
            Vec::new()
        };
        self.reservation = None;
        Ok(Outcome {
            attentions,
            abort: Vec::new(),
        })
    }

    /// SPC-4 5.13.11.6.
    fn clear(&mut self, from: &Registrant, key: u64) -> Result<Outcome, Refusal> {
        self.check_key(from, key)?;
        let attentions = self.attentions_to_all_but(from, UnitAttention::RESERVATIONS_PREEMPTED);
        self.registrations.clear();
        self.reservation = None;
        self.bump_generation();
        Ok(Outcome {
            attentions,
            abort: Vec::new(),
        })
    }

    /// Clears everything in an administrator's name, as CLEAR does. Returns the registrants that there were: each is owed
    /// RESERVATIONS PREEMPTED.
    pub(crate) fn end(&mut self) -> Vec<Registrant> {
        let registrations = std::mem::take(&mut self.registrations);
        self.reservation = None;
        self.bump_generation();
        registrations.into_keys().collect()
    }

    /// SPC-4 5.13.11.4 and 5.13.11.5.
    fn preempt(
        &mut self,
        from: &Registrant,
        key: u64,
        victim_key: u64,
        scope_and_type: u8,
        abort: bool,
    ) -> Result<Outcome, Refusal> {
        self.check_key(from, key)?;
        let old_kind = self
            .reservation
            .as_ref()
            .map(|reservation| reservation.kind);
        let takes_reservation = match &self.reservation {
            None => false,
            Some(Reservation { holder: None, .. }) => victim_key == 0,
            Some(Reservation {
                holder: Some(holder),
                ..
            }) => self.registrations.get(holder) == Some(&victim_key),
        };
        if victim_key == 0 && !takes_reservation {
            // Byte 8 of the parameter list: SERVICE ACTION RESERVATION KEY.
            return Err(Refusal::Sense(Sense::invalid_field_in_parameter_list(8)));
        }
        let victims: Vec<Registrant> = self
            .registrations
            .iter()
            .filter(|&(registrant, &registered)| {
                // Whoever takes the reservation keeps its own registration.
                (victim_key == 0 || registered == victim_key)
                    && !(takes_reservation && registrant == from)
            })
            .map(|(registrant, _)| registrant.clone())
            .collect();
        let kind = if takes_reservation {
            Some(requested_type(scope_and_type)?)
        } else {
            None
        };
        if victims.is_empty() && !takes_reservation {
            return Err(Refusal::Conflict);
        }

        for victim in &victims {
            self.registrations.remove(victim);
        }
        let mut attentions: Vec<_> = victims
            .iter()
            .filter(|&victim| victim != from)
            .map(|victim| (victim.clone(), UnitAttention::REGISTRATIONS_PREEMPTED))
            .collect();
        if let Some(kind) = kind {
            self.reservation = Some(Reservation::new(kind, from));
            if old_kind != Some(kind) {
                attentions
                    .extend(self.attentions_to_all_but(from, UnitAttention::RESERVATIONS_RELEASED));
            }
        }
        self.drop_reservation_without_registrants();
        self.bump_generation();
        Ok(Outcome {
            attentions,
            abort: if abort { victims } else { Vec::new() },
        })
    }

    /// RESERVATION CONFLICT unless `from` is registered under this key.
    fn check_key(&self, from: &Registrant, key: u64) -> Result<(), Refusal> {
        if self.registrations.get(from) == Some(&key) {
            Ok(())
        } else {
            Err(Refusal::Conflict)
        }
    }

    fn attentions_to_all_but(
        &self,
        from: &Registrant,
        attention: UnitAttention,
    ) -> Vec<(Registrant, UnitAttention)> {
        self.registrations
            .keys()
            .filter(|&registrant| registrant != from)
            .map(|registrant| (registrant.clone(), attention))
            .collect()
    }

    /// An all-registrants reservation ends with its last registrant.
    fn drop_reservation_without_registrants(&mut self) {
        if self.registrations.is_empty() {
            self.reservation = None;
        }
    }

    fn bump_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

impl Reservation {
    fn new(kind: ReservationType, holder: &Registrant) -> Self {
        Self {
            kind,
            holder: (!kind.is_all_registrants()).then(|| holder.clone()),
        }
    }
}

/// The type a CDB's byte 2 asks for; only LU_SCOPE (0h) exists.
fn requested_type(scope_and_type: u8) -> Result<ReservationType, Refusal> {
    if scope_and_type >> 4 != 0 {
        return Err(Refusal::Sense(Sense::invalid_bit_in_cdb(2, 7)));
    }
    ReservationType::from_code(scope_and_type & 0x0F)
        .ok_or(Refusal::Sense(Sense::invalid_bit_in_cdb(2, 3)))
}

#[cfg(test)]
mod tests;
