//! SCSI command as its caller gives it to a session, and its end.

use crate::pdu::{RejectReason, ServiceResponse, TaskAttribute};

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No data moves.
    None,
    /// Data moves from the target.
    Read,
    /// Data moves to the target.
    Write,
}

/// SCSI command of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Logical unit, as on the wire (SAM-5 4.6).
    pub lun: u64,
    /// The CDB, padded with zeros.
    pub cdb: [u8; 16],
    /// Task attribute, for the order of commands.
    pub attribute: TaskAttribute,
    /// Direction of the data.
    pub direction: Direction,
    /// Length of the data in bytes.
    pub length: u32,
}

/// Amount of data that did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// All the expected data moved.
    None,
    /// Bytes that moved less than expected.
    Underflow(u32),
    /// Bytes that the target had more than expected.
    Overflow(u32),
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd<'a> {
    /// The device server answered.
    Status {
        /// SCSI status (SAM-5 5.3.1).
        status: u8,
        /// Sense data, without its length.
        sense: &'a [u8],
        /// Amount of data that did not move.
        residual: Residual,
    },
    /// The target failed below the device server.
    TargetFailure(ServiceResponse),
    /// The target rejected the command's PDU.
    Rejected(RejectReason),
}
