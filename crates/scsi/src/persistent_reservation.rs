//! Persistent reservations (SPC-4 5.13): the registrants, the holder, and the rights that follow.
//!
//! This is a pure state machine without locks. The logical unit keeps one behind its mutex. A
//! PERSISTENT RESERVE OUT works on a copy, which replaces the original once the change is durable
//! where it must be.
//!
//! A registration belongs to an I_T nexus ([`Registrant`]): initiator port (iSCSI name *and* ISID)
//! plus relative target port. An initiator that logs in again with another ISID is another
//! initiator port by RFC 7143, and finds itself unregistered. This happens after a reboot, because
//! open-iscsi numbers its sessions and they may come up in another order. The old registration
//! stays until another registrant preempts it, or until the initiator returns with the old ISID.
//! The standards ask for this: binding to the name alone would let one path of a host release the
//! reservation of another path.
//!
//! # Invariants
//! - Every key is non-zero, and every holder is registered.
//! - At most one nexus holds, unless the type is an all-registrants type, in which every registrant
//!   holds.
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

/// Most registrations on one unit. More are refused (05/55/04), so that a hostile initiator cannot
/// fill memory by logging in under ever new ISIDs.
pub const MAX_REGISTRATIONS: usize = 1024;

/// Type of a persistent reservation (SPC-4 table 197).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReservationType {
    /// The holder alone writes, and everyone reads.
    WriteExclusive = 0x1,
    /// The holder alone reads and writes.
    ExclusiveAccess = 0x3,
    /// Registrants write, and everyone reads.
    WriteExclusiveRegistrantsOnly = 0x5,
    /// Registrants read and write.
    ExclusiveAccessRegistrantsOnly = 0x6,
    /// Registrants hold and write, and everyone reads.
    WriteExclusiveAllRegistrants = 0x7,
    /// Registrants hold, read and write.
    ExclusiveAccessAllRegistrants = 0x8,
}

impl ReservationType {
    /// Returns the name in SPC-4's words.
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

    /// Returns the type with this code.
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

    /// Reports whether every registrant is a holder.
    pub fn is_all_registrants(self) -> bool {
        matches!(
            self,
            Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants
        )
    }

    /// Reports whether registrants have the holder's access.
    fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Reports whether nexuses without any right may still read.
    fn admits_readers(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive
                | Self::WriteExclusiveRegistrantsOnly
                | Self::WriteExclusiveAllRegistrants
        )
    }
}

/// Class of a command for reservations (SPC-4 table 65, SBC-4 table 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessClass {
    /// No conflict ever: INQUIRY, REPORT LUNS, TEST UNIT READY, READ CAPACITY, PERSISTENT RESERVE…
    Always,
    /// Conflict with exclusive access: READ, VERIFY, PRE-FETCH, GET LBA STATUS…
    Read,
    /// Conflict with every reservation: WRITE, UNMAP, MODE SELECT, SYNCHRONIZE CACHE…
    Write,
}

/// I_T nexus to which a registration belongs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registrant {
    /// The initiator port.
    pub initiator: InitiatorPort,
    /// The relative identifier of the target port.
    pub relative_port_id: u16,
}

impl Registrant {
    /// Returns the registrant that this nexus is.
    pub fn of(nexus: &Nexus) -> Self {
        Self {
            initiator: (*nexus.initiator).clone(),
            relative_port_id: nexus.target_port.relative_port_id,
        }
    }

    /// Reports whether this nexus is the registrant.
    pub(crate) fn is(&self, nexus: &Nexus) -> bool {
        self.relative_port_id == nexus.target_port.relative_port_id
            && self.initiator == *nexus.initiator
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reservation {
    kind: ReservationType,
    /// The holder, or `None` if all registrants hold.
    holder: Option<Registrant>,
}

/// Persistent reservation state of one logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentReservations {
    generation: u32,
    registrations: BTreeMap<Registrant, u64>,
    reservation: Option<Reservation>,
    /// APTPL of the last registration that carried it: whether this state survives a power loss.
    activate_through_power_loss: bool,
}

/// PERSISTENT RESERVE OUT with its parameter list parsed (SPC-4 6.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// REGISTER.
    Register {
        /// RESERVATION KEY.
        key: u64,
        /// SERVICE ACTION RESERVATION KEY, 0 to unregister.
        new_key: u64,
        /// APTPL.
        activate_through_power_loss: bool,
        /// ALL_TG_PT.
        all_target_ports: bool,
        /// Initiator ports of SPEC_I_PT, if it is set.
        others: Option<Vec<TransportId>>,
    },
    /// REGISTER AND IGNORE EXISTING KEY.
    RegisterAndIgnoreExistingKey {
        /// SERVICE ACTION RESERVATION KEY, 0 to unregister.
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
        /// SERVICE ACTION RESERVATION KEY: the key whose registrations are removed.
        victim_key: u64,
        /// CDB byte 2: scope and type of the new reservation.
        scope_and_type: u8,
        /// Whether the commands of preempted nexuses are aborted.
        abort: bool,
    },
    /// REGISTER AND MOVE.
    RegisterAndMove {
        /// RESERVATION KEY.
        key: u64,
        /// SERVICE ACTION RESERVATION KEY: the key of the destination.
        new_key: u64,
        /// APTPL.
        activate_through_power_loss: bool,
        /// UNREG: whether the source loses its registration.
        unregister: bool,
        /// RELATIVE TARGET PORT IDENTIFIER of the destination.
        relative_port_id: u16,
        /// Initiator port of the destination.
        destination: TransportId,
    },
}

/// Facts about the device that the state machine needs to register others.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Relative identifiers of all target ports of the device.
    pub ports: &'a [u16],
    /// Initiator ports logged in now, for a TransportID that names a whole initiator.
    pub initiators: &'a [InitiatorPort],
}

/// Demands of a finished request on the logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Unit attentions that other nexuses are owed.
    pub attentions: Vec<(Registrant, UnitAttention)>,
    /// Nexuses whose commands must be aborted before the command ends (PREEMPT AND ABORT).
    pub abort: Vec<Registrant>,
}

/// Reasons why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION with this sense data.
    Sense(Sense),
}

/// Effect of RESERVE(6) and RELEASE(6) beside persistent reservations (SPC-4 5.13.3, CRH = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatibleReservation {
    /// No registration exists, so the command has its meaning in SPC-2.
    Proceed,
    /// The status is GOOD, and nothing changes.
    NoEffect,
    /// The status is RESERVATION CONFLICT.
    Conflict,
}

impl PersistentReservations {
    /// Reports whether a reservation exists. Without one nothing conflicts.
    pub fn is_active(&self) -> bool {
        self.reservation.is_some()
    }

    /// Describes the reservation in words, for an administrator: its type and its holder.
    pub fn describe(&self) -> Option<String> {
        let reservation = self.reservation.as_ref()?;
        let kind = reservation.kind.name();
        Some(match &reservation.holder {
            Some(holder) => format!("{kind}, held by {}", holder.initiator.name),
            None => format!("{kind}, held by {} registrants", self.registrations.len()),
        })
    }

    /// Returns the name of the initiator that holds the reservation, or `None` if all registrants
    /// hold it, or no one.
    pub fn holder_name(&self) -> Option<&str> {
        let holder = self.reservation.as_ref()?.holder.as_ref()?;
        Some(&holder.initiator.name)
    }

    /// Reports whether everybody may read in spite of the reservation.
    pub fn admits_readers(&self) -> bool {
        let kind = self.reservation.as_ref().map(|held| held.kind);
        kind.is_none_or(ReservationType::admits_readers)
    }

    /// Reports whether any nexus is registered.
    pub fn has_registrations(&self) -> bool {
        !self.registrations.is_empty()
    }

    /// Reports whether a command of this class from this nexus meets RESERVATION CONFLICT.
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

    /// Returns the effect of RESERVE(6) or RELEASE(6) from this nexus. The logical unit decides the
    /// opposite direction: while RESERVE(6) reserves it, PERSISTENT RESERVE IN and OUT conflict for
    /// everyone.
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

    /// Reports whether this nexus holds the reservation.
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
    /// [`Refusal`]. Nothing has changed then.
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

    /// Reserves the unit (SPC-4 5.13.9).
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

    /// Releases the reservation (SPC-4 5.13.11.2). A registrant that does not hold it is answered
    /// GOOD.
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

    /// Clears reservation and registrations (SPC-4 5.13.11.6).
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

    /// Clears everything in an administrator's name, as CLEAR does. Returns the former registrants:
    /// each is owed RESERVATIONS PREEMPTED.
    pub(crate) fn end(&mut self) -> Vec<Registrant> {
        let registrations = std::mem::take(&mut self.registrations);
        self.reservation = None;
        self.bump_generation();
        registrations.into_keys().collect()
    }

    /// Preempts registrations (SPC-4 5.13.11.4 and 5.13.11.5).
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
                // The nexus that takes the reservation keeps its own registration.
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

    /// Returns RESERVATION CONFLICT unless `from` is registered under this key.
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

    /// Ends an all-registrants reservation with its last registrant.
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

/// Returns the type for which byte 2 of a CDB asks. Only LU_SCOPE (0h) exists.
fn requested_type(scope_and_type: u8) -> Result<ReservationType, Refusal> {
    if scope_and_type >> 4 != 0 {
        return Err(Refusal::Sense(Sense::invalid_bit_in_cdb(2, 7)));
    }
    ReservationType::from_code(scope_and_type & 0x0F)
        .ok_or(Refusal::Sense(Sense::invalid_bit_in_cdb(2, 3)))
}

#[cfg(test)]
mod tests;
