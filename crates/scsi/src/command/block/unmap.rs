//! UNMAP (SBC-4 clause 5): it frees the storage of blocks, which then read as zeros.

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::logical_unit::limits;
use crate::sense::{Asc, Sense};
use crate::{BlockRange, Input, Response, Start, Step, Task};

use super::read_write::range_in_capacity;

/// Starts UNMAP. ANCHOR is not offered.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    request.cdb.refuse_bit(1, 0)?;
    let list_len = request.cdb.u16(7);
    if list_len == 0 {
        return Ok(Start::good());
    }
    if list_len < 8 {
        return Err(Sense::parameter_list_length_error());
    }
    Ok(Start::Task(Box::new(Unmap {
        unit: Arc::clone(request.unit),
        list_len,
    })))
}

/// UNMAP after its parameter list has come.
#[derive(Debug)]
struct Unmap {
    unit: Arc<LogicalUnit>,
    list_len: u16,
}

impl Task for Unmap {
    fn data_out_len(&self) -> u32 {
        u32::from(self.list_len)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { data_out } => match self.ranges(data_out) {
                Ok(ranges) if ranges.is_empty() => Step::Done(Response::good()),
                Ok(ranges) => Step::Unmap { ranges },
                Err(sense) => Step::Done(self.unit.check_condition(&sense)),
            },
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}

impl Unmap {
    /// Returns the runs of the parameter list, after checking every one. An incomplete last
    /// descriptor is ignored (SBC-4 clause 5, UNMAP parameter list).
    fn ranges(&self, list: &[u8]) -> Result<Vec<BlockRange>, Sense> {
        if list.len() < usize::from(self.list_len) {
            return Err(Sense::parameter_list_length_error());
        }
        let (header, body) = list.split_at(8);
        let descriptors_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let descriptors = body
            .get(..descriptors_len)
            .ok_or(Sense::parameter_list_length_error())?
            .chunks_exact(16);
        if descriptors.len() > limits::MAX_UNMAP_DESCRIPTORS as usize {
            return Err(Sense::invalid_field_in_parameter_list(2));
        }
        let mut ranges = Vec::with_capacity(descriptors.len());
        let mut total = 0_u64;
        for descriptor in descriptors {
            let (lba, rest) = descriptor.split_at(8);
            let lba = lba
                .iter()
                .fold(0, |value, &byte| value << 8 | u64::from(byte));
            let count = u64::from(u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]));
            let range = range_in_capacity(&self.unit, lba, count)?;
            total += count;
            if !range.is_empty() {
                ranges.push(range);
            }
        }
        if total > u64::from(limits::MAX_UNMAP_BLOCKS) {
            return Err(Sense::illegal(Asc::INVALID_FIELD_IN_PARAMETER_LIST));
        }
        Ok(ranges)
    }
}
