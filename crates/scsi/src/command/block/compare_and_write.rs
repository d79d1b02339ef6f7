//! COMPARE AND WRITE (SBC-4 clause 5): the lock that ESXi takes on a datastore (ATS).

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::logical_unit::limits;
use crate::sense::Sense;
use crate::{BlockError, BlockRange, Input, Response, Start, Step, Task};

use super::read_write::range_in_capacity;

/// Starts COMPARE AND WRITE. The data-out must be exactly twice the range: the data to compare,
/// then the data to write.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let unit = request.unit;
    cdb.refuse_protection(1)?;
    let count = u32::from(cdb.u8(13));
    let range = range_in_capacity(unit, cdb.u64(2), u64::from(count))?;
    if count > limits::max_compare_and_write(unit.fixed_config()) {
        return Err(Sense::invalid_field_in_cdb(13));
    }
    // A count of zero is no error. But bytes offered for it show that the count is not the intended
    // one: 256 blocks do not fit in one byte.
    if count == 0 && request.command.data_out_len > Some(0) {
        return Err(Sense::invalid_field_in_cdb(13));
    }
    let half = count * unit.block_len();
    if request.command.data_out_len > Some(2 * half) {
        return Err(Sense::transfer_mismatch());
    }
    if count == 0 {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(CompareAndWrite {
        unit: Arc::clone(unit),
        range,
        half,
        fua: cdb.bit(1, 3),
        expected: Vec::new(),
        compared: false,
    })))
}

/// Reads, compares and writes. No other command touches the range meanwhile.
#[derive(Debug)]
struct CompareAndWrite {
    unit: Arc<LogicalUnit>,
    range: BlockRange,
    /// Bytes of the range.
    half: u32,
    fua: bool,
    expected: Vec<u8>,
    compared: bool,
}

impl Task for CompareAndWrite {
    fn data_out_len(&self) -> u32 {
        2 * self.half
    }

    /// Returns the bytes of the expected data and of the data found.
    fn working_len(&self) -> u64 {
        2 * u64::from(self.half)
    }

    fn exclusive(&self) -> Option<BlockRange> {
        Some(self.range)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } => {
                self.expected = data_out[..self.half as usize].to_vec();
                Step::Read { range: self.range }
            }
            Input::Blocks(found) if !self.compared => {
                self.compared = true;
                match first_difference(&self.expected, found) {
                    // The INFORMATION field is the offset of the first byte that differs.
                    Some(at) => {
                        let sense = Sense::miscompare().with_information(at as u64);
                        Step::Done(self.unit.check_condition(&sense))
                    }
                    None => Step::WriteDataOut {
                        range: self.range,
                        offset: self.half,
                        fua: self.fua,
                    },
                }
            }
            // The write may have been done. If the initiator repeated the command, as it does after
            // BUSY, the comparison would find the command's own write.
            Input::Failed(BlockError::Away) if self.compared => {
                Step::Done(self.unit.sense_for(BlockError::Gone))
            }
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}

/// Returns the offset of the first byte that differs. A missing byte differs.
pub(crate) fn first_difference(expected: &[u8], found: &[u8]) -> Option<usize> {
    if expected == found {
        return None;
    }
    let common = expected.len().min(found.len());
    let at = expected.iter().zip(found).position(|(a, b)| a != b);
    Some(at.unwrap_or(common))
}
