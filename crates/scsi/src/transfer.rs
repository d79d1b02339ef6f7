//! What a command moves by its CDB, held against what its initiator announced.
//!
//! SAM leaves open what a device server does where the two differ; FCP-4 9.4.2 and RFC 7143 11.4.5 leave it
//! two ways. Every command passes here, so that one rule holds for all:
//!
//! | by the CDB | announced | becomes |
//! |---|---|---|
//! | data-out | no data-out at all | refused |
//! | data-out | as much or more | carried out; the transport drops the rest |
//! | data-out of blocks that stand alone | fewer, in whole blocks, or none | carried out with those |
//! | data-out | fewer | refused |
//! | data-in | no data-in at all | refused |
//! | data-in | fewer or more | carried out; the transport sends the first bytes |
//!
//! A refusal is INVALID FIELD IN COMMAND INFORMATION UNIT, and nothing was written. GOOD never hides data that
//! came and was dropped: a torn block is neither written nor passed over.

use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{Command, Response, Start};

impl Start {
    /// This start, or the refusal that the announced lengths demand.
    #[inline]
    pub(crate) fn checked(self, command: &Command<'_>, unit: &LogicalUnit) -> Self {
        let refuse = |sense: &Sense| unit.check_condition(sense);
        match self {
            Self::Read { range, .. } => {
                let bytes = range.count.0 as u32 * unit.block_len();
                self.checked_data_in(bytes, command, refuse)
            }
            Self::Respond(ref response) => {
                let bytes = response.data_in.len() as u32;
                self.checked_data_in(bytes, command, refuse)
            }
            Self::Task(ref task) => {
                let (wanted, gives) = (task.data_out_len(), task.data_in_len());
                let block_len = task.takes_fewer_blocks().then_some(unit.block_len());
                match carried_out(wanted, block_len, command) {
                    Some(_) => self.checked_data_in(gives, command, refuse),
                    None => refusal_of_data_out(wanted, command, refuse),
                }
            }
            Self::Write { range, fua, wanted } => {
                match carried_out(wanted, Some(unit.block_len()), command) {
                    Some(bytes) => Self::Write {
                        range: range.filled_by(bytes.into(), unit.block_len()),
                        fua,
                        wanted,
                    },
                    None => refusal_of_data_out(wanted, command, refuse),
                }
            }
        }
    }

    /// This start of a command that gives `bytes` bytes of data-in, or the refusal where none was announced.
    pub(crate) fn checked_data_in(
        self,
        bytes: u32,
        command: &Command<'_>,
        refuse: impl FnOnce(&Sense) -> Response,
    ) -> Self {
        if bytes == 0 || command.data_in_len.is_some() {
            return self;
        }
        let mut response = refuse(&Sense::transfer_mismatch());
        // The announced data-out, if any, stays where it is: nothing of it moved.
        response.would_move = command.data_out_len.is_none().then_some(bytes);
        Self::Respond(response)
    }
}

/// How many of the `wanted` bytes of data-out a command is carried out with; `None` where it is refused.
/// `block_len` is given where whole blocks stand alone.
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
fn refusal_of_data_out(
    wanted: u32,
    command: &Command<'_>,
    refuse: impl FnOnce(&Sense) -> Response,
) -> Start {
    let mut response = refuse(&Sense::transfer_mismatch());
    let expects_only_data_in = command.data_out_len.is_none() && command.data_in_len.is_some();
    response.would_move = (!expects_only_data_in).then_some(wanted);
    Start::Respond(response)
}
