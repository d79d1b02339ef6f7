//! A SCSI command as its caller gives it to a session, and how it ends.

use crate::pdu::{RejectReason, ServiceResponse, TaskAttribute};

/// Which way a command's data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No data.
    None,
    /// From the target.
    Read,
    /// To the target.
    Write,
}

/// A SCSI command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Logical unit, as on the wire (SAM-5 4.6).
    pub lun: u64,
    /// The CDB, padded with zeros.
    pub cdb: [u8; 16],
    /// Ordering.
    pub attribute: TaskAttribute,
    /// Which way the data goes.
    pub direction: Direction,
    /// Length of the data in bytes.
    pub length: u32,
}

/// How much data did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// As much as expected was moved.
    None,
    /// So many bytes fewer than expected.
    Underflow(u32),
    /// The target had so many bytes more.
    Overflow(u32),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd<'a> {
    /// The device server answered.
    Status {
        /// SCSI status (SAM-5 5.3.1).
        status: u8,
        /// Sense data, without its length.
        sense: &'a [u8],
        /// How much data did not move.
        residual: Residual,
    },
    /// The target failed below the device server.
    TargetFailure(ServiceResponse),
    /// The target rejected the command's PDU.
    Rejected(RejectReason),
}
