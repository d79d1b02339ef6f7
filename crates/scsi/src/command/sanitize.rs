//! SANITIZE (SBC-4 clause 5 and 4.11): OVERWRITE and EXIT FAILURE MODE.
//!
//! SANITIZE is offered only if the backend writes in place (`UnitConfig::sanitize`). Then
//! OVERWRITE, which writes every block through the backend, keeps its promise. BLOCK ERASE and
//! CRYPTOGRAPHIC ERASE promise that the medium forgets. A punched hole does not forget, so they are
//! not offered.
//!
//! IMMED = 1 is refused: the initiator waits for the end. An operation that has begun goes on, even
//! if its command or its I_T nexus ends (SBC-4 4.11.2). An operation that fails leaves the unit in
//! the failed state, in which nothing is read or written. The state lasts until another SANITIZE
//! succeeds or, if AUSE allowed it, EXIT FAILURE MODE ends it.
//!
//! # Across a restart
//! A record of the operation is stored before its first write, and removed after its last flush. A
//! restart that finds the record does not know how far the operation came, so the unit is in the
//! failed state.

use std::sync::Arc;

use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::logical_unit::LogicalUnit;
use crate::logical_unit::limits;
use crate::medium::readiness::{Readiness, SanitizeFailure, Sanitizing};
use crate::sense::Sense;
use crate::{BlockRange, Input, Response, Start, Step, Task};

/// Starts SANITIZE OVERWRITE.
pub(crate) fn start_overwrite(request: &Request<'_>) -> Result<Start, Sense> {
    let cdb = request.cdb;
    cdb.refuse_bit(1, 7)?;
    refuse_reserved(cdb)?;
    let list_len = cdb.u16(7);
    let longest = request.unit.block_len() + 4;
    if list_len <= 4 || u32::from(list_len) > longest {
        return Err(Sense::invalid_field_in_cdb(7));
    }
    let range = BlockRange::new(0, request.unit.blocks()).ok_or(Sense::lba_out_of_range())?;
    let failure = SanitizeFailure {
        allow_exit: cdb.bit(1, 5),
    };
    request.unit.state().readiness.check_overwrite(failure)?;
    Ok(Start::Task(Box::new(Overwrite {
        unit: Arc::clone(request.unit),
        nexus: Arc::clone(request.nexus),
        list_len,
        range,
        failure,
        stage: SanitizeStage::Asked,
        invert: false,
        pattern: Vec::new(),
        passes: 0,
        passes_left: 0,
        rest: range,
    })))
}

impl Readiness {
    /// Checks that an OVERWRITE may begin whose failed state can be left in this way. The failed
    /// state of one without AUSE must not be left by way of one with AUSE (SBC-4 4.11.4).
    fn check_overwrite(&self, failure: SanitizeFailure) -> Result<(), Sense> {
        self.check_but_sanitize_failure()?;
        match self.sanitize_failed {
            Some(SanitizeFailure { allow_exit: false }) if failure.allow_exit => {
                Err(Sense::invalid_bit_in_cdb(1, 5))
            }
            _ => Ok(()),
        }
    }
}

/// Starts SANITIZE EXIT FAILURE MODE.
pub(crate) fn start_exit_failure_mode(request: &Request<'_>) -> Result<Start, Sense> {
    refuse_reserved(request.cdb)?;
    if request.cdb.u16(7) != 0 {
        return Err(Sense::invalid_field_in_cdb(7));
    }
    let readiness = request.unit.state().readiness.clone();
    readiness.check_but_sanitize_failure()?;
    match readiness.sanitize_failed {
        None => Ok(Start::good()),
        Some(SanitizeFailure { allow_exit: false }) => Err(Sense::invalid_bit_in_cdb(1, 4)),
        Some(failure) => Ok(Start::Task(Box::new(ExitFailureMode {
            unit: Arc::clone(request.unit),
            failure,
        }))),
    }
}

/// Leaves the failed state, also for the next restart.
#[derive(Debug)]
struct ExitFailureMode {
    unit: Arc<LogicalUnit>,
    failure: SanitizeFailure,
}

impl Task for ExitFailureMode {
    fn data_out_len(&self) -> u32 {
        0
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin { .. } => {
                let mut state = match self.unit.state_to_save() {
                    Ok(state) => state,
                    Err(busy) => return Step::Done(busy),
                };
                // Another SANITIZE may have begun, and failed, meanwhile.
                if state.readiness.sanitize_failed == Some(self.failure) {
                    state.readiness.sanitize_failed = None;
                }
                self.unit.publish(&state);
                Step::Save {
                    image: self.unit.image(&mut state),
                }
            }
            Input::Failed(error) => {
                let mut state = self.unit.state();
                state.readiness.sanitize_failed = Some(self.failure);
                self.unit.publish(&state);
                Step::Done(self.unit.sense_for(error))
            }
            _ => Step::Done(Response::good()),
        }
    }
}

/// Refuses ZNR, which is for zoned media, and the reserved bytes 2 to 6. A set bit asks for
/// something that this unit would not do. A command that destroys everything must not be guessed
/// at.
fn refuse_reserved(cdb: Cdb<'_>) -> Result<(), Sense> {
    cdb.refuse_bit(1, 6)?;
    match (2..=6).find(|&at| cdb.u8(at) != 0) {
        Some(at) => Err(Sense::invalid_field_in_cdb(at as u16)),
        None => Ok(()),
    }
}

/// Writes the pattern over everything, once per pass, and makes each pass durable.
#[derive(Debug)]
struct Overwrite {
    unit: Arc<LogicalUnit>,
    /// Nexus through which the command came. It is asked before the operation begins, and never
    /// again.
    nexus: Arc<ItlNexus>,
    list_len: u16,
    range: BlockRange,
    /// Exit from the failed state that is allowed if the operation fails.
    failure: SanitizeFailure,
    stage: SanitizeStage,
    invert: bool,
    /// Pattern of one logical block.
    pattern: Vec<u8>,
    passes: u64,
    passes_left: u64,
    rest: BlockRange,
}

/// Progress of an OVERWRITE. Between the first stage and the last the unit shows SANITIZE IN
/// PROGRESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SanitizeStage {
    /// The command waits for its parameter list or its turn.
    Asked,
    /// The start is being stored. Nothing has been overwritten: `before` holds again if storing
    /// fails.
    Beginning { before: Option<SanitizeFailure> },
    /// A pass is under way.
    Writing,
    /// A pass is being made durable.
    Flushing,
    /// The end is being stored.
    Ending,
    /// The operation is over.
    Over,
}

impl Task for Overwrite {
    fn data_out_len(&self) -> u32 {
        u32::from(self.list_len)
    }

    /// Returns the bytes of a piece filled with the pattern.
    fn working_len(&self) -> u64 {
        limits::bytes_per_step(&self.unit, self.range)
    }

    /// Returns the whole unit: commands before the operation end first, and later ones meet
    /// SANITIZE IN PROGRESS.
    fn exclusive(&self) -> Option<BlockRange> {
        Some(self.range)
    }

    fn outlives_its_command(&self) -> bool {
        self.is_under_way()
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        match (self.stage, input) {
            (_, Input::Begin { data_out }) => {
                // The list and the turn may have taken long, and from here on nothing stops the
                // operation.
                let may_begin = self.nexus.may_still_sanitize();
                match may_begin.and_then(|()| self.begin(data_out)) {
                    Ok(image) => Step::Save { image },
                    Err(response) => Step::Done(response),
                }
            }
            (SanitizeStage::Beginning { before }, Input::Failed(error)) => {
                self.leave(before);
                Step::Done(self.unit.sense_for(error))
            }
            (_, Input::Failed(error)) => Step::Done(self.unit.sense_for(error)),
            (SanitizeStage::Flushing, _) => self.end_pass(),
            (SanitizeStage::Ending, _) => {
                self.leave(None);
                Step::Done(Response::good())
            }
            (SanitizeStage::Asked | SanitizeStage::Over, _) => Step::Done(Response::good()),
            (SanitizeStage::Beginning { .. } | SanitizeStage::Writing, _) => self.next_piece(),
        }
    }
}

impl Overwrite {
    fn is_under_way(&self) -> bool {
        !matches!(self.stage, SanitizeStage::Asked | SanitizeStage::Over)
    }

    /// Begins the operation, which shows from here on and goes on to its end. Returns the image
    /// that must be stored first.
    fn begin(&mut self, list: &[u8]) -> Result<Vec<u8>, Response> {
        self.read(list)
            .map_err(|sense| self.unit.check_condition(&sense))?;
        let mut state = self.unit.state_to_save()?;
        let may_begin = state.readiness.check_overwrite(self.failure);
        may_begin.map_err(|sense| self.unit.check_condition(&sense))?;
        let before = state.readiness.sanitize_failed.take();
        state.readiness.sanitizing = Some(self.at(0));
        self.unit.publish(&state);
        self.stage = SanitizeStage::Beginning { before };
        Ok(self.unit.image(&mut state))
    }

    /// Reads the list of SBC-4 table 86: OVERWRITE COUNT, INVERT and the pattern, which starts anew
    /// in every block.
    fn read(&mut self, list: &[u8]) -> Result<(), Sense> {
        if list.len() < usize::from(self.list_len) {
            return Err(Sense::parameter_list_length_error());
        }
        let passes = u64::from(list[0] & 0x1f);
        if passes == 0 {
            return Err(Sense::invalid_field_in_parameter_list(0));
        }
        let pattern_len = usize::from(u16::from_be_bytes([list[2], list[3]]));
        let pattern = list.get(4..4 + pattern_len).unwrap_or(&[]);
        if pattern.is_empty() {
            return Err(Sense::invalid_field_in_parameter_list(2));
        }
        let block_len = self.unit.block_len() as usize;
        self.pattern = pattern.iter().copied().cycle().take(block_len).collect();
        self.invert = list[0] & 0x80 != 0;
        self.passes = passes;
        self.passes_left = passes;
        // The last pass leaves the pattern as it was given.
        if passes % 2 == 0 {
            self.invert_pattern();
        }
        Ok(())
    }

    /// Inverts the pattern between two passes if INVERT asks for it.
    fn invert_pattern(&mut self) {
        if self.invert {
            self.pattern.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    fn next_piece(&mut self) -> Step {
        if self.rest.is_empty() {
            self.stage = SanitizeStage::Flushing;
            return Step::Flush;
        }
        self.stage = SanitizeStage::Writing;
        self.tell_progress();
        let (range, rest) = self.rest.split_at_most(limits::blocks_per_step(&self.unit));
        self.rest = rest;
        Step::WritePattern {
            range,
            pattern: self.pattern.clone(),
            fua: false,
        }
    }

    /// Ends a pass, which is durable now.
    fn end_pass(&mut self) -> Step {
        self.passes_left -= 1;
        if self.passes_left > 0 {
            self.rest = self.range;
            self.invert_pattern();
            return self.next_piece();
        }
        self.stage = SanitizeStage::Ending;
        // A unit does not retire while a SANITIZE is under way.
        let mut state = self.unit.state();
        if let Some(sanitizing) = &mut state.readiness.sanitizing {
            sanitizing.is_complete = true;
        }
        Step::Save {
            image: self.unit.image(&mut state),
        }
    }

    /// Reports progress in 65 536ths over all passes.
    fn tell_progress(&self) {
        let total = u128::from(self.passes) * u128::from(self.range.count.0.max(1));
        let passes_before = u128::from(self.passes - self.passes_left);
        let in_this_pass = u128::from(self.range.count.0 - self.rest.count.0);
        let done = passes_before * u128::from(self.range.count.0) + in_this_pass;
        let progress = (done * 65_536 / total).min(65_535) as u16;
        self.unit.state().readiness.sanitizing = Some(self.at(progress));
    }

    fn at(&self, progress: u16) -> Sanitizing {
        Sanitizing {
            progress,
            target_port_group: self.nexus.nexus().target_port.target_port_group,
            on_failure: self.failure,
            is_complete: false,
        }
    }

    /// Ends the operation, with this failure or none.
    fn leave(&mut self, failed: Option<SanitizeFailure>) {
        self.stage = SanitizeStage::Over;
        let mut state = self.unit.state();
        state.readiness.sanitizing = None;
        state.readiness.sanitize_failed = failed;
        self.unit.publish(&state);
    }
}

impl Drop for Overwrite {
    /// Handles an operation that failed or was dropped with its unit. The content of the blocks is
    /// unknown, so nothing may read them.
    fn drop(&mut self) {
        if self.is_under_way() {
            self.leave(Some(self.failure));
        }
    }
}
