//! SYNCHRONIZE CACHE(10) and (16) (SBC-4 clause 5).

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{Input, Response, Start, Step, Task};

use super::read_write::Fields;

/// Makes all acknowledged writes durable, whatever range the command names.
///
/// GOOD always means durable. IMMED asks for status before that and is not supported, and SBC-4 has
/// it refused then.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    request.cdb.refuse_bit(1, 1)?;
    Fields::of(request.cdb).check_capacity(request.unit)?;
    Ok(Start::Task(Box::new(Flush {
        unit: Arc::clone(request.unit),
    })))
}

/// One flush.
#[derive(Debug)]
struct Flush {
    unit: Arc<LogicalUnit>,
}

impl Task for Flush {
    fn data_out_len(&self) -> u32 {
        0
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { .. } => Step::Flush,
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}
