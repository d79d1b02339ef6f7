//! EXTENDED COPY (LID1 and LID4, SPC-4 6.4 and 6.5) and COPY OPERATION ABORT (SPC-4 6.2). They copy
//! between units that the initiator itself sees, so that a clone does not travel over the network.
//!
//! A copy obeys on both units all that a READ and a WRITE of the initiator would obey:
//! reservations, access states, write protection. It asks again before every chunk.

mod block_copy;
mod parameter_list;

use std::sync::Arc;

use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::sense::{Asc, Sense, SenseKey};
use crate::third_party_copy::{CopyStatus, MAX_DESCRIPTOR_LIST_LEN, Running};
use crate::{Input, Response, Start, Status, Step, Task};

pub(crate) use block_copy::{BlockCopy, CHUNK, CopyFailure, Progress, Run, Source};
use parameter_list::Layout;

/// SERVICE ACTION of COPY OPERATION ABORT.
pub(crate) const SERVICE_ACTION_LID1: u8 = 0x00;
const SERVICE_ACTION_LID4: u8 = 0x01;

/// Starts EXTENDED COPY(LID1).
pub(crate) fn lid1(request: &Request<'_>) -> Result<Start, Sense> {
    start(request, Layout::Lid1)
}

/// Starts EXTENDED COPY(LID4).
pub(crate) fn lid4(request: &Request<'_>) -> Result<Start, Sense> {
    start(request, Layout::Lid4)
}

fn start(request: &Request<'_>, layout: Layout) -> Result<Start, Sense> {
    let list_len = request.cdb.u32(10);
    if list_len == 0 {
        return Ok(Start::good());
    }
    // Longer lists are cut. The lengths in their header refuse the rest.
    let wanted = list_len.min(layout.header_len() as u32 + MAX_DESCRIPTOR_LIST_LEN);
    Ok(Start::Task(Box::new(ExtendedCopy {
        nexus: Arc::clone(request.nexus),
        reachable: request.view.itl_nexuses(),
        layout,
        list_len,
        wanted,
        running: None,
        copy: BlockCopy::new(Vec::new()),
    })))
}

/// Starts COPY OPERATION ABORT.
pub(crate) fn abort(request: &Request<'_>) -> Result<Start, Sense> {
    let list_id = request.cdb.u32(2);
    let nexus = request.nexus.nexus().id;
    if request.unit.copy_operations().abort(nexus, list_id) {
        Ok(Start::good())
    } else {
        Err(Sense::invalid_field_in_cdb(2))
    }
}

/// EXTENDED COPY after its parameter list has come.
#[derive(Debug)]
struct ExtendedCopy {
    nexus: Arc<ItlNexus>,
    /// All units in the initiator's view when the command came. A unit that has left the view since
    /// says so itself.
    reachable: Vec<Arc<ItlNexus>>,
    layout: Layout,
    /// PARAMETER LIST LENGTH.
    list_len: u32,
    /// Bytes of the list that are read.
    wanted: u32,
    running: Option<Running>,
    copy: BlockCopy,
}

impl Task for ExtendedCopy {
    fn data_out_len(&self) -> u32 {
        self.wanted
    }

    fn working_len(&self) -> u64 {
        CHUNK
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        if let Input::Begin { data_out } = input {
            return match self.begin(data_out) {
                Ok(()) => self.advance(Input::Done),
                Err(response) => Step::Done(response),
            };
        }
        self.advance(input)
    }

    fn refused(&mut self) -> Option<Response> {
        let failure = self.copy.check_step().err()?;
        Some(self.fail(failure))
    }
}

impl ExtendedCopy {
    fn begin(&mut self, list: &[u8]) -> Result<(), Response> {
        let unit = self.nexus.unit();
        let refuse = |sense: Sense| unit.check_condition(&sense);
        if (list.len() as u32) < self.wanted {
            return Err(refuse(Sense::parameter_list_length_error()));
        }
        let list = parameter_list::parse(self.layout, list, self.list_len).map_err(refuse)?;
        let service_action = match self.layout {
            Layout::Lid1 => SERVICE_ACTION_LID1,
            Layout::Lid4 => SERVICE_ACTION_LID4,
        };
        let id = self.nexus.nexus().id;
        let mut running = unit
            .copy_operations()
            .begin(id, list.list_id, service_action)
            .map_err(|error| error.sense().map_or_else(Response::busy, refuse))?;
        match list.resolve(&self.reachable) {
            Ok(runs) => {
                self.copy = BlockCopy::new(runs);
                self.running = Some(running);
                Ok(())
            }
            Err(sense) => {
                running.finish(CopyStatus::Failed(sense), None);
                Err(refuse(sense))
            }
        }
    }

    fn advance(&mut self, input: Input<'_>) -> Step {
        let unit = Arc::clone(self.nexus.unit());
        let Some(running) = &mut self.running else {
            return Step::Done(Response::good());
        };
        if running.is_aborted() {
            running.finish(CopyStatus::Aborted, None);
            // SPC-4 6.2: the aborted command itself reports the abort.
            let sense = Sense::new(SenseKey::CopyAborted, Asc::NO_ADDITIONAL_SENSE_INFORMATION);
            return Step::Done(unit.check_condition(&sense));
        }
        match self.copy.advance(&unit, input) {
            Progress::Step(step) => {
                running.progress(self.copy.runs_done(), self.copy.bytes_done());
                step
            }
            Progress::Finished => {
                running.progress(self.copy.runs_done(), self.copy.bytes_done());
                running.finish(CopyStatus::Completed, None);
                Step::Done(Response::good())
            }
            Progress::Failed(failure) => Step::Done(self.fail(failure)),
        }
    }

    fn fail(&mut self, failure: CopyFailure) -> Response {
        let sense = failure.copy_aborted(self.copy.runs_done());
        if let Some(running) = &mut self.running {
            running.progress(self.copy.runs_done(), self.copy.bytes_done());
            running.finish(CopyStatus::Failed(sense), None);
        }
        self.nexus.unit().check_condition(&sense)
    }
}

impl CopyFailure {
    /// Returns the sense data of a segment that failed: COPY ABORTED with the segment's number
    /// (SPC-4 5.17.7.2).
    ///
    /// A full pool keeps its own sense in every command that meets it. So ESXi pauses the virtual
    /// machine instead of losing it.
    pub(crate) fn copy_aborted(self, segment: u16) -> Sense {
        let sense = match self {
            Self::Block(crate::BlockError::NoSpace) => {
                return Sense::of_block_error(crate::BlockError::NoSpace);
            }
            Self::Block(_) | Self::Refused(_) => {
                Sense::new(SenseKey::CopyAborted, Asc::THIRD_PARTY_DEVICE_FAILURE)
            }
            Self::NotReachable => {
                Sense::new(SenseKey::CopyAborted, Asc::COPY_TARGET_DEVICE_NOT_REACHABLE)
            }
            Self::OutOfRange => {
                Sense::new(SenseKey::CopyAborted, Asc::NO_ADDITIONAL_SENSE_INFORMATION)
            }
            Self::Token(sense) => return sense,
        };
        sense.with_command_specific(u64::from(segment))
    }

    /// Returns the answer if the failed unit is the addressed one, or if no unit failed. It is the
    /// answer of the ordinary command that would have met the failure.
    pub(crate) fn response(self, unit: &crate::logical_unit::LogicalUnit) -> (Response, Sense) {
        let sense = match self {
            Self::Block(error) => Sense::of_block_error(error),
            Self::NotReachable => {
                Sense::new(SenseKey::CopyAborted, Asc::COPY_TARGET_DEVICE_NOT_REACHABLE)
            }
            Self::OutOfRange => Sense::lba_out_of_range(),
            Self::Token(sense) => sense,
            Self::Refused(status) => {
                let sense = Sense::new(SenseKey::CopyAborted, Asc::THIRD_PARTY_DEVICE_FAILURE);
                if status == Status::ReservationConflict {
                    return (Response::reservation_conflict(), sense);
                }
                sense
            }
        };
        (unit.check_condition(&sense), sense)
    }
}

/// Returns the list identifier in the CDB of a LID1 command.
pub(crate) fn lid1_of(cdb: Cdb<'_>) -> u32 {
    u32::from(cdb.u8(2))
}
