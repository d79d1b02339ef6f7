//! Failure of a block action, as the caller that carries the actions out reports it.
//!
//! Sense data is built from it in one place (`sense.rs`), and so a full pool is never reported as a
//! medium error.

/// Reasons why a block action failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The block could not be read back (03/11/00 UNRECOVERED READ ERROR).
    Medium {
        /// First bad block, if known.
        lba: Option<u64>,
    },
    /// A write or flush failed (03/0C/00 WRITE ERROR).
    Write {
        /// First bad block, if known.
        lba: Option<u64>,
    },
    /// The blocks lie behind the end, which moved since the CDB was checked (05/21/00).
    OutOfRange,
    /// No space is left: 07/27/07 SPACE ALLOCATION FAILED WRITE PROTECT.
    NoSpace,
    /// The backend is read-only (07/27/00).
    ReadOnly,
    /// The backend vanished (04/44/00).
    Gone,
    /// The backend is away and will come back by itself. The status is BUSY, so that the initiator
    /// repeats the command.
    Away,
}
