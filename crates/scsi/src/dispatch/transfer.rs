//! Comparison of the data that a command moves by its CDB with the lengths that its initiator
//! announced.
//!
//! SAM does not say what a device server does if the two differ. FCP-4 9.4.2 and RFC 7143 11.4.5
//! leave it two ways. Every command passes here, so that one rule holds for all:
//!
//! | by the CDB | announced | result |
//! |---|---|---|
//! | data-out | no data-out at all | refused |
//! | data-out | as much or more | carried out, and the transport drops the rest |
//! | data-out of independent blocks | fewer, in whole blocks, or none | carried out with those |
//! | data-out of a plain WRITE | fewer, up to within a block | done, rest of the block stays |
//! | data-out | fewer | refused |
//! | data-in | any length | carried out, and the transport sends the announced part |
//!
//! A refusal is INVALID FIELD IN COMMAND INFORMATION UNIT, and nothing was written. GOOD never
//! hides data that came and was dropped. Data-in that is not sent is lost only to its initiator,
//! and the residual reports it.

use std::sync::Arc;

use crate::command::block::part_write::PartWrite;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{Command, Response, Start};

impl Start {
    /// Returns this start, or the refusal that the announced length of data-out demands.
    #[inline]
    pub(crate) fn checked(self, command: &Command<'_>, unit: &Arc<LogicalUnit>) -> Self {
        let block_len = unit.block_len();
        match self {
            Self::Read { .. } | Self::Respond(_) => self,
            Self::Task(ref task) => {
                let wanted = task.data_out_len();
                let blocks = task.takes_fewer_blocks().then_some(block_len);
                match carried_out(wanted, blocks, command) {
                    Some(_) => self,
                    None => refusal(wanted, unit),
                }
            }
            Self::Write { range, fua, wanted } => {
                match carried_out(wanted, Some(block_len), command) {
                    Some(bytes) => Self::Write {
                        range: range.filled_by(bytes.into(), block_len),
                        fua,
                        wanted,
                    },
                    None => match command.data_out_len {
                        Some(offered) => {
                            Self::Task(Box::new(PartWrite::new(unit, range, offered, wanted, fua)))
                        }
                        None => refusal(wanted, unit),
                    },
                }
            }
        }
    }
}

/// Returns the bytes of data-out, out of `wanted`, with which a command is carried out. Returns
/// `None` if it is refused. `block_len` is given if whole blocks stand alone.
#[inline]
fn carried_out(wanted: u32, block_len: Option<u32>, command: &Command<'_>) -> Option<u32> {
    if wanted == 0 {
        return Some(0);
    }
    let offered = command.data_out_len?;
    let whole = block_len.is_some_and(|block_len| offered.is_multiple_of(block_len));
    (offered >= wanted || whole).then_some(offered.min(wanted))
}

#[cold]
fn refusal(wanted: u32, unit: &LogicalUnit) -> Start {
    Start::Respond(Response {
        would_move: Some(wanted),
        ..unit.check_condition(&Sense::transfer_mismatch())
    })
}
