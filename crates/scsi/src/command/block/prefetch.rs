//! PRE-FETCH(10) and (16) (SBC-4 clause 5).

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

use super::read_write::Fields;

/// Starts PRE-FETCH.
///
/// CONDITION MET would promise that every block is in the cache and stays there. GOOD promises
/// nothing and is the honest answer. At most one largest transfer is fetched. No one waits for the
/// hint, so status comes as soon with IMMED as without.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let range = Fields::of(request.cdb).check_capacity(request.unit)?;
    let (range, _) = range.split_at_most(u64::from(request.unit.max_transfer()));
    if range.is_empty() {
        return Ok(Start::good());
    }
    Ok(Start::Task(Box::new(Prefetch {
        unit: Arc::clone(request.unit),
        range,
    })))
}

/// Gives the backend one hint.
#[derive(Debug)]
struct Prefetch {
    unit: Arc<LogicalUnit>,
    range: BlockRange,
}

impl Task for Prefetch {
    fn data_out_len(&self) -> u32 {
        0
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { .. } => Step::Prefetch { range: self.range },
            Input::Failed(error) => Step::Done(self.unit.sense_for(error)),
            _ => Step::Done(Response::good()),
        }
    }
}
