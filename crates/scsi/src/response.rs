//! End of a command: status, sense data and data-in (SAM-5 5.3).

/// SCSI status code (SAM-5 table 33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The command completed without an error.
    Good = 0x00,
    /// The sense data gives the reason.
    CheckCondition = 0x02,
    /// PRE-FETCH: the blocks all fit in the cache.
    ConditionMet = 0x04,
    /// The logical unit cannot accept the command now: retry.
    Busy = 0x08,
    /// A reservation of another nexus forbids the command.
    ReservationConflict = 0x18,
    /// The task set is full: retry after a task ends.
    TaskSetFull = 0x28,
    /// An ACA condition blocks the command.
    AcaActive = 0x30,
    /// Abort of the task by another nexus (TAS = 1).
    TaskAborted = 0x40,
}

/// End of a command. The transport computes residuals: it compares `data_in.len()` with the length
/// that the initiator expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: Status,
    /// Encoded sense data, in fixed or descriptor format as the control mode page asks. Empty
    /// unless the status carries any.
    pub sense: Vec<u8>,
    /// Parameter data for the initiator, already cut to the CDB's allocation length. It may
    /// accompany CHECK CONDITION.
    pub data_in: Vec<u8>,
    /// Bytes of data-out that the command takes by its CDB, if it was refused because its initiator
    /// announced fewer. The transport reports the difference as residual overflow.
    pub would_move: Option<u32>,
}

impl Response {
    /// Makes a GOOD without data.
    pub fn good() -> Self {
        Self {
            status: Status::Good,
            sense: Vec::new(),
            data_in: Vec::new(),
            would_move: None,
        }
    }

    /// Makes a GOOD with parameter data.
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
    /// Makes a CHECK CONDITION with encoded sense data.
    pub fn check_condition(sense: Vec<u8>) -> Self {
        Self {
            status: Status::CheckCondition,
            sense,
            data_in: Vec::new(),
            would_move: None,
        }
    }

    /// Makes a BUSY: the command may succeed later.
    pub fn busy() -> Self {
        Self {
            status: Status::Busy,
            sense: Vec::new(),
            data_in: Vec::new(),
            would_move: None,
        }
    }

    /// Makes a RESERVATION CONFLICT, which carries no sense data.
    pub fn reservation_conflict() -> Self {
        Self {
            status: Status::ReservationConflict,
            sense: Vec::new(),
            data_in: Vec::new(),
            would_move: None,
        }
    }
}
