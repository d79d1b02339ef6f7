//! START STOP UNIT (SBC-4 clause 5).

use std::sync::Arc;

use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::sense::Sense;
use crate::{Input, Response, Start, Step, Task};

/// Starts START STOP UNIT, which starts or stops the unit. Other power conditions than START_VALID
/// are refused, and so is loading or ejecting a medium that is not removable.
///
/// IMMED is ignored: GOOD of a STOP always means that cached data is durable. Otherwise a flush
/// that failed after the status would be reported to no one.
pub(crate) fn start(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    request.unit.state().readiness.check_but_stop()?;
    if cdb.u8(4) >> 4 != 0 {
        return Err(Sense::invalid_bit_in_cdb(4, 7));
    }
    cdb.refuse_bit(4, 1)?;
    let wanted = cdb.bit(4, 0);
    if wanted {
        let mut state = request.unit.state();
        state.readiness.stopped = None;
        request.unit.publish(&state);
        return Ok(Start::good());
    }
    // Cached data becomes durable before the unit stops, unless NO_FLUSH says that it need not.
    let no_flush = cdb.bit(4, 2);
    let nexus = Arc::clone(request.nexus);
    Ok(Start::Task(Box::new(Stop { nexus, no_flush })))
}

/// Stop of a unit: flush, then refuse medium access.
#[derive(Debug)]
struct Stop {
    nexus: Arc<ItlNexus>,
    no_flush: bool,
}

impl Task for Stop {
    fn data_out_len(&self) -> u32 {
        0
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        let unit = self.nexus.unit();
        match input {
            Input::Begin { .. } if !self.no_flush => Step::Flush,
            Input::Failed(error) => Step::Done(unit.sense_for(error)),
            _ => {
                let mut state = unit.state();
                state.readiness.stopped = Some(Arc::clone(&self.nexus.nexus().initiator));
                unit.publish(&state);
                Step::Done(Response::good())
            }
        }
    }
}
