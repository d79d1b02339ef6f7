//! Everything that stops or refuses medium access to a unit, as one type.
//!
//! The gates that refuse commands and the views of an administrator both use it. So neither can
//! know of a state that the other does not. `docs/operations.md` lists the initiators that each
//! state may bind, and its end.

use crate::alua::AccessState;
use crate::nexus::{Nexus, NexusId};
use crate::persistent_reservation::{AccessClass, PersistentReservations};
use crate::sense::{Asc, Sense, SenseKey};

/// State of a unit in which medium access is stopped or refused, or soon will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// The administrator took the unit offline.
    Offline,
    /// The disk, file or pool beneath is away.
    Away,
    /// SANITIZE is under way, with its progress in 65 536ths.
    Sanitizing {
        /// PROGRESS INDICATION.
        progress: u16,
    },
    /// START STOP UNIT stopped it.
    Stopped {
        /// Initiator that sent the command.
        by: String,
    },
    /// SANITIZE failed, or did not end before a restart.
    SanitizeFailed {
        /// AUSE: whether EXIT FAILURE MODE ends the state.
        allow_exit: bool,
    },
    /// The administrator made the unit read-only.
    ReadOnly,
    /// The volume, file or disk beneath takes no writes.
    ReadOnlyBeneath,
    /// An initiator set SWP of the control mode page.
    SoftwareWriteProtected {
        /// The initiator, or `None` if there was a restart since.
        by: Option<String>,
    },
    /// RESERVE(6) or RESERVE(10) is held.
    Reserved {
        /// I_T nexus that holds the reservation.
        holder: NexusId,
        /// Initiator of the nexus.
        by: Option<String>,
    },
    /// A persistent reservation is held.
    PersistentlyReserved(Box<PersistentReservations>),
    /// A target port group is not active/optimized by the administrator's decision, or an initiator
    /// chose another state for itself.
    AccessState {
        /// TARGET PORT GROUP.
        group: u16,
        /// State in force.
        state: AccessState,
        /// Initiator that chose the state for itself. `None` is the administrator, for all
        /// initiators.
        chosen_by: Option<String>,
    },
    /// The soft threshold of thin provisioning is reached. Nothing is refused yet.
    ThresholdReached,
}

/// Kinds of state that initiators impose by a command, and that an administrator may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imposed {
    /// [`Hindrance::Stopped`]
    Stop,
    /// [`Hindrance::SanitizeFailed`]
    SanitizeFailure,
    /// [`Hindrance::SoftwareWriteProtected`]
    SoftwareWriteProtect,
    /// [`Hindrance::Reserved`]
    Reservation,
    /// [`Hindrance::PersistentlyReserved`]
    PersistentReservation,
    /// [`Hindrance::AccessState`] that initiators chose.
    AccessChoices,
}

impl Hindrance {
    /// Returns the argument by which [`crate::logical_unit::LogicalUnit::end`] ends this state.
    /// Returns `None` if no initiator imposed it, or if only time ends it.
    pub fn imposed(&self) -> Option<Imposed> {
        match self {
            Self::Stopped { .. } => Some(Imposed::Stop),
            Self::SanitizeFailed { .. } => Some(Imposed::SanitizeFailure),
            Self::SoftwareWriteProtected { .. } => Some(Imposed::SoftwareWriteProtect),
            Self::Reserved { .. } => Some(Imposed::Reservation),
            Self::PersistentlyReserved(_) => Some(Imposed::PersistentReservation),
            Self::AccessState { chosen_by, .. } => {
                chosen_by.as_ref().map(|_| Imposed::AccessChoices)
            }
            Self::Offline
            | Self::Away
            | Self::Sanitizing { .. }
            | Self::ReadOnly
            | Self::ReadOnlyBeneath
            | Self::ThresholdReached => None,
        }
    }

    /// Returns the sense data of refused commands. Returns `None` if the state refuses nothing, or
    /// refuses by RESERVATION CONFLICT.
    pub fn sense(&self) -> Option<Sense> {
        let protected = |asc| Some(Sense::new(SenseKey::DataProtect, asc));
        match self {
            Self::Offline => Some(Sense::not_ready(Asc::OFFLINE)),
            Self::Away => Some(Sense::not_ready(Asc::IN_PROCESS_OF_BECOMING_READY)),
            Self::Sanitizing { progress } => {
                Some(Sense::not_ready(Asc::SANITIZE_IN_PROGRESS).with_progress(*progress))
            }
            Self::Stopped { .. } => Some(Sense::not_ready(Asc::INITIALIZING_COMMAND_REQUIRED)),
            Self::SanitizeFailed { .. } => Some(Sense::new(
                SenseKey::MediumError,
                Asc::SANITIZE_COMMAND_FAILED,
            )),
            Self::ReadOnly | Self::ReadOnlyBeneath => protected(Asc::WRITE_PROTECTED),
            Self::SoftwareWriteProtected { .. } => {
                protected(Asc::LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED)
            }
            Self::AccessState { state, .. } => {
                let qualifier = state.not_ready_qualifier()?;
                Some(Sense::not_ready(Asc(0x04, qualifier)))
            }
            Self::Reserved { .. } | Self::PersistentlyReserved(_) | Self::ThresholdReached => None,
        }
    }

    /// Reports whether the state refuses a medium access of this class through this nexus.
    pub fn stops(&self, nexus: &Nexus, class: AccessClass) -> bool {
        match self {
            Self::Offline
            | Self::Away
            | Self::Sanitizing { .. }
            | Self::Stopped { .. }
            | Self::SanitizeFailed { .. } => true,
            Self::ReadOnly | Self::ReadOnlyBeneath | Self::SoftwareWriteProtected { .. } => {
                class == AccessClass::Write
            }
            Self::Reserved { holder, .. } => *holder != nexus.id,
            Self::PersistentlyReserved(reservations) => {
                let port = nexus.target_port.relative_port_id;
                reservations.conflicts(&nexus.initiator, port, class)
            }
            Self::AccessState {
                group,
                state,
                chosen_by,
            } => {
                let name = &nexus.initiator.name;
                !state.is_active()
                    && *group == nexus.target_port.target_port_group
                    && chosen_by.as_ref().is_none_or(|chosen_by| chosen_by == name)
            }
            Self::ThresholdReached => false,
        }
    }
}
