//! ORWRITE(16) (SBC-4 clause 5): the new content of the blocks is their old content OR the data
//! sent.

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

use super::read_write::Fields;

/// Starts ORWRITE(16).
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    request.cdb.refuse_protection(1)?;
    let range = Fields::of(request.cdb).check(request.unit)?;
    if range.is_empty() {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(OrWrite {
        unit: Arc::clone(request.unit),
        range,
        fua: request.cdb.bit(1, 3),
        sent: Vec::new(),
    })))
}

/// Reads, ORs and writes. No other command touches the range meanwhile.
#[derive(Debug)]
struct OrWrite {
    unit: Arc<LogicalUnit>,
    range: BlockRange,
    fua: bool,
    sent: Vec<u8>,
}

impl Task for OrWrite {
    fn data_out_len(&self) -> u32 {
        // `Fields::check` bounds the range by the largest transfer.
        self.range.count.0 as u32 * self.unit.block_len()
    }

    /// Returns the bytes of the data sent and of the data found.
    fn working_len(&self) -> u64 {
        2 * u64::from(self.data_out_len())
    }

    fn exclusive(&self) -> Option<BlockRange> {
        Some(self.range)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } => {
                self.sent = data_out.to_vec();
                Step::Read { range: self.range }
            }
            Input::Blocks(found) => {
                let mut data = std::mem::take(&mut self.sent);
                for (byte, old) in data.iter_mut().zip(found) {
                    *byte |= old;
                }
                Step::Write {
                    range: self.range,
                    data,
                    fua: self.fua,
                }
            }
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}
