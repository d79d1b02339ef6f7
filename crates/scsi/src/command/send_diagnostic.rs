//! SEND DIAGNOSTIC (SPC-4 6.42): the default self-test and nothing else.

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

/// Starts SEND DIAGNOSTIC. SELFTEST = 1 reads the first block. Diagnostic pages and other
/// self-tests are not offered.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    if cdb.u8(1) & 0xe0 != 0 {
        return Err(Sense::invalid_bit_in_cdb(1, 7));
    }
    if cdb.u16(3) != 0 {
        return Err(Sense::invalid_field_in_cdb(3));
    }
    if !cdb.bit(1, 2) {
        return Ok(Start::good());
    }
    request.unit.check_ready()?;
    Ok(Start::Task(Box::new(SelfTest {
        unit: Arc::clone(request.unit),
    })))
}

/// Default self-test.
#[derive(Debug)]
struct SelfTest {
    unit: Arc<LogicalUnit>,
}

impl Task for SelfTest {
    fn data_out_len(&self) -> u32 {
        0
    }

    fn working_len(&self) -> u64 {
        self.unit.block_len().into()
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        let (range, _) = BlockRange::new(0, self.unit.blocks())
            .unwrap_or_default()
            .split_at_most(1);
        match input {
            Input::Begin { .. } if !range.is_empty() => Step::Read { range },
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}
