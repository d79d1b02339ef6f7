//! How a command ends: status, sense data and data-in (SAM-5 5.3).

/// A SCSI status code (SAM-5 table 33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The command completed without an error.
    Good = 0x00,
    /// The sense data says what happened.
    CheckCondition = 0x02,
    /// PRE-FETCH: the blocks all fit in the cache.
    ConditionMet = 0x04,
    /// The logical unit cannot accept the command now; retry.
    Busy = 0x08,
    /// A reservation of another nexus forbids the command.
    ReservationConflict = 0x18,
    /// The task set has no room; retry after a task ends.
    TaskSetFull = 0x28,
    /// An ACA condition blocks the command.
    AcaActive = 0x30,
    /// Another nexus aborted the task (TAS = 1).
    TaskAborted = 0x40,
}

/// The end of a command. Residuals are the transport's business: it compares `data_in.len()` with
/// what the initiator expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: Status,
    /// Encoded sense data (fixed or descriptor format as the control mode page asks), empty unless
    /// the status carries any.
    pub sense: Vec<u8>,
    /// Parameter data for the initiator, already cut to the CDB's allocation length. May accompany
    /// CHECK CONDITION.
    pub data_in: Vec<u8>,
    /// Bytes of data-out that the command takes by its CDB, where it was refused because its initiator
    /// announced fewer: the transport tells the difference as residual overflow.
    pub would_move: Option<u32>,
}

impl Response {
    /// GOOD without data.
    pub fn good() -> Self {
        Self {
            status: Status::Good,
            sense: Vec::new(),
            data_in: Vec::new(),
            would_move: None,
        }
    }

    /// GOOD with parameter data.
    pub fn data(data_in: Vec<u8>) -> Self {
        Self {
            status: Status::Good,
            sense: Vec::new(),
            data_in,
            would_move: None,
        }
    }
}

impl Response {
    /// CHECK CONDITION with encoded sense data.
    pub fn check_condition(sense: Vec<u8>) -> Self {
        Self {
            status: Status::CheckCondition,
            sense,
            data_in: Vec::new(),
            would_move: None,
        }
    }

    /// BUSY: the same command may succeed later.
    pub fn busy() -> Self {
        Self {
            status: Status::Busy,
            sense: Vec::new(),
            data_in: Vec::new(),
            would_move: None,
        }
    }

    /// RESERVATION CONFLICT, which carries no sense data.
    pub fn reservation_conflict() -> Self {
        Self {
            status: Status::ReservationConflict,
            sense: Vec::new(),
            data_in: Vec::new(),
            would_move: None,
        }
    }
}

impl crate::Start {
    /// GOOD with parameter data cut to the CDB's allocation length.
    pub(crate) fn data(mut data_in: Vec<u8>, allocation_length: usize) -> Self {
        data_in.truncate(allocation_length);
        Self::Respond(Response::data(data_in))
    }

    /// GOOD without data.
    pub(crate) fn good() -> Self {
        Self::Respond(Response::good())
    }
}
