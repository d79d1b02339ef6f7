//! WRITE ATOMIC(16) (SBC-4 clause 5): all of the blocks or none, also after a power loss. It is
//! offered only if the backend really gives it.

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

use super::read_write::range_in_capacity;

/// Starts WRITE ATOMIC(16). Atomic boundaries are not offered.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    let unit = request.unit;
    cdb.refuse_protection(1)?;
    let count = u32::from(cdb.u16(12));
    let range = range_in_capacity(unit, cdb.u64(2), u64::from(count))?;
    if cdb.u16(10) != 0 {
        return Err(Sense::invalid_field_in_cdb(10));
    }
    if count
        > unit
            .fixed_config()
            .max_atomic_write
            .min(unit.max_transfer())
    {
        return Err(Sense::invalid_field_in_cdb(12));
    }
    if range.is_empty() {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(WriteAtomic {
        unit: Arc::clone(unit),
        range,
        fua: cdb.bit(1, 3),
    })))
}

/// Write that no other command sees half done.
#[derive(Debug)]
struct WriteAtomic {
    unit: Arc<LogicalUnit>,
    range: BlockRange,
    fua: bool,
}

impl Task for WriteAtomic {
    fn data_out_len(&self) -> u32 {
        self.range.count.0 as u32 * self.unit.block_len()
    }

    fn exclusive(&self) -> Option<BlockRange> {
        Some(self.range)
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { .. } => Step::WriteDataOut {
                range: self.range,
                offset: 0,
                fua: self.fua,
            },
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}
