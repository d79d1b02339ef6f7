//! Gates for protocols that have no CDBs: kinds of access to the medium, and reasons to refuse
//! them.
//!
//! The reasons are neutral. Each protocol has words of its own for them.

use std::fmt;

use crate::alua::AccessState;

/// Kind of access to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads blocks, or asks which blocks hold data.
    Read,
    /// Makes writes durable (SYNCHRONIZE CACHE). Write protection does not forbid it.
    Flush,
    /// Changes blocks.
    Write,
}

/// Reason for which a unit does not carry out an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The unit left the initiator's view.
    Gone,
    /// A reservation of another nexus forbids the access.
    ReservationConflict,
    /// The access state of the target port group forbids I/O.
    NoAccess(AccessState),
    /// The medium cannot be accessed now: the unit is offline, stopped, away or being sanitized.
    NotReady,
    /// The unit, or the nexus alone, is write protected.
    WriteProtected,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "the unit is gone",
            Self::ReservationConflict => "another initiator has reserved the unit",
            Self::NoAccess(_) => "the access state of the path forbids I/O",
            Self::NotReady => "the unit is not ready",
            Self::WriteProtected => "the unit is write protected",
        })
    }
}
