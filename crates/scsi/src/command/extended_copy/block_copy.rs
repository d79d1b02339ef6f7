//! Copier of runs of blocks from unit to unit, one bounded chunk at a time: the engine of EXTENDED
//! COPY and WRITE USING TOKEN.
//!
//! A chunk is read, then written. Between the two, the copy holds nothing but the chunk's bytes.
//! Parts of a thin source that are not allocated are written as zeros that allocate nothing. So the
//! clone of a thin unit stays thin.

use std::sync::Arc;

use crate::itl_nexus::ItlNexus;
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;
use crate::token::TokenUse;
use crate::{BlockError, BlockRange, Input, Status, Step};

/// Bytes that are read and written at once: a multiple of every block length.
pub(crate) const CHUNK: u64 = 1 << 20;
/// Bytes that are asked about, or zeroed, at once.
const EXTENT_CHUNK: u64 = 64 << 20;

/// Origin of the bytes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Blocks of a unit, from `lba` on.
    Unit {
        /// The nexus to the unit.
        itl: Arc<ItlNexus>,
        /// The first block.
        lba: u64,
    },
    /// Zeros without an origin.
    Zeros,
}

/// Consecutive blocks to copy.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) source: Source,
    /// Nexus to the unit that is written.
    pub(crate) destination: Arc<ItlNexus>,
    /// First block that is written.
    pub(crate) lba: u64,
    /// Bytes of the run: whole blocks of both units.
    pub(crate) bytes: u64,
}

/// Next action that a copy needs.
#[derive(Debug)]
pub(crate) enum Progress {
    Step(Step),
    Finished,
    Failed(CopyFailure),
}

/// Reasons why a copy stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFailure {
    /// A block action failed.
    Block(BlockError),
    /// A reservation, access state or write protection came in between. The status is that of an
    /// ordinary command.
    Refused(Status),
    /// A unit left the initiator's view meanwhile.
    NotReachable,
    /// A unit shrank meanwhile.
    OutOfRange,
    /// The token for the source blocks is no longer valid.
    Token(Sense),
}

#[derive(Clone, Copy, Debug)]
enum Waiting {
    Nothing,
    Extents,
    Blocks { offset: u64, bytes: u64 },
    Write { bytes: u64 },
}

/// Copy in progress.
#[derive(Debug)]
pub(crate) struct BlockCopy {
    runs: Vec<Run>,
    /// Number of the run that is being copied.
    current: usize,
    /// Bytes of the current run that are done.
    done_in_run: u64,
    bytes_done: u64,
    /// Bytes of the current run, from `done_in_run` on, that are known to be allocated.
    mapped: u64,
    waiting: Waiting,
    /// Token that must still be valid after every read (WRITE USING TOKEN).
    token: Option<TokenUse>,
}

impl BlockCopy {
    pub(crate) fn new(runs: Vec<Run>) -> Self {
        Self {
            runs,
            current: 0,
            done_in_run: 0,
            bytes_done: 0,
            mapped: 0,
            waiting: Waiting::Nothing,
            token: None,
        }
    }

    /// Makes a copy of the blocks for which a token stands.
    pub(crate) fn with_token(runs: Vec<Run>, token: Option<TokenUse>) -> Self {
        Self {
            token,
            ..Self::new(runs)
        }
    }

    /// Returns the number of runs that are completely copied.
    pub(crate) fn runs_done(&self) -> u16 {
        u16::try_from(self.current).unwrap_or(u16::MAX)
    }

    /// Returns the number of bytes copied.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.bytes_done
    }

    /// Takes the result of the last step and names the next. `own` is the unit whose task this is:
    /// steps on it are not wrapped in [`Step::On`].
    pub(crate) fn advance(&mut self, own: &Arc<LogicalUnit>, input: Input<'_>) -> Progress {
        match self.take_outcome(own, input) {
            Ok(Some(step)) => Progress::Step(step),
            Ok(None) => self.next(own),
            Err(failure) => Progress::Failed(failure),
        }
    }

    /// Checks the last named step again, because it may have waited since.
    pub(crate) fn check_step(&self) -> Result<(), CopyFailure> {
        let Some(run) = self.runs.get(self.current) else {
            return Ok(());
        };
        match self.waiting {
            Waiting::Nothing => Ok(()),
            Waiting::Extents | Waiting::Blocks { .. } => run.may_read(),
            Waiting::Write { .. } => run.may_write(),
        }
    }

    /// Accounts for the last step. The write of a chunk follows its read at once.
    fn take_outcome(
        &mut self,
        own: &Arc<LogicalUnit>,
        input: Input<'_>,
    ) -> Result<Option<Step>, CopyFailure> {
        match (
            std::mem::replace(&mut self.waiting, Waiting::Nothing),
            input,
        ) {
            // If the extents are unknown, all blocks count as allocated.
            (Waiting::Extents, Input::Extents([]) | Input::Failed(_) | Input::Done) => {
                self.mapped = EXTENT_CHUNK;
                Ok(None)
            }
            (Waiting::Extents, Input::Extents([first, ..])) => {
                self.check_token()?;
                let run = &self.runs[self.current];
                run.may_read()?;
                let bytes = first.range.count.0 * run.source_block();
                let bytes = bytes.min(run.bytes - self.done_in_run);
                let whole = bytes - bytes % run.destination_block();
                if first.mapped || whole == 0 {
                    self.mapped = bytes.max(run.destination_block());
                    return Ok(None);
                }
                self.write_zeroes(own, whole).map(Some)
            }
            (_, Input::Failed(error)) => Err(CopyFailure::Block(error)),
            (Waiting::Blocks { offset, bytes }, Input::Blocks(data)) => {
                self.check_token()?;
                let run = &self.runs[self.current];
                // Data that was read is dropped if its unit left the view meanwhile.
                run.may_read()?;
                let range = run.destination_range(offset, bytes)?;
                run.may_write()?;
                self.waiting = Waiting::Write { bytes };
                let unit = run.destination.unit();
                let step = Step::Write {
                    range,
                    data: data.to_vec(),
                    fua: !unit.write_cache_enabled(),
                };
                Ok(Some(on(own, unit, step)))
            }
            (Waiting::Write { bytes }, _) => {
                self.done_in_run += bytes;
                self.bytes_done += bytes;
                self.mapped = self.mapped.saturating_sub(bytes);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Returns the first step of the next chunk.
    fn next(&mut self, own: &Arc<LogicalUnit>) -> Progress {
        while self
            .runs
            .get(self.current)
            .is_some_and(|run| run.bytes == self.done_in_run)
        {
            self.current += 1;
            self.done_in_run = 0;
            self.mapped = 0;
        }
        if self.current == self.runs.len() {
            return Progress::Finished;
        }
        match self.next_in_run(own) {
            Ok(step) => Progress::Step(step),
            Err(failure) => Progress::Failed(failure),
        }
    }

    fn next_in_run(&mut self, own: &Arc<LogicalUnit>) -> Result<Step, CopyFailure> {
        self.check_token()?;
        let run = &self.runs[self.current];
        let left = run.bytes - self.done_in_run;
        let Source::Unit { itl, .. } = &run.source else {
            return self.write_zeroes(own, left.min(EXTENT_CHUNK));
        };
        run.may_read()?;
        let backwards = run.overlaps_forwards();
        if self.mapped == 0 && itl.unit().fixed_config().thin && !backwards {
            let range = run.source_range(self.done_in_run, left.min(EXTENT_CHUNK))?;
            self.waiting = Waiting::Extents;
            return Ok(on(own, itl.unit(), Step::Extents { range }));
        }
        let allowed = if self.mapped == 0 {
            left
        } else {
            left.min(self.mapped)
        };
        let bytes = allowed.min(CHUNK);
        // Only whole blocks of the destination are copied: an extent of the source may end within
        // one.
        let bytes = match bytes - bytes % run.destination_block() {
            0 => run.destination_block().min(left),
            whole => whole,
        };
        let offset = if backwards {
            left - bytes
        } else {
            self.done_in_run
        };
        let range = run.source_range(offset, bytes)?;
        self.waiting = Waiting::Blocks { offset, bytes };
        Ok(on(own, itl.unit(), Step::Read { range }))
    }

    fn write_zeroes(&mut self, own: &Arc<LogicalUnit>, bytes: u64) -> Result<Step, CopyFailure> {
        let run = &self.runs[self.current];
        let range = run.destination_range(self.done_in_run, bytes)?;
        run.may_write()?;
        self.waiting = Waiting::Write { bytes };
        let unit = run.destination.unit();
        let step = Step::WriteZeroes {
            range,
            unmap: unit.fixed_config().thin,
            fua: !unit.write_cache_enabled(),
        };
        Ok(on(own, unit, step))
    }

    fn check_token(&self) -> Result<(), CopyFailure> {
        match &self.token {
            Some(token) => token.check().map_err(CopyFailure::Token),
            None => Ok(()),
        }
    }
}

/// Wraps the step if it is for another unit.
fn on(own: &Arc<LogicalUnit>, unit: &Arc<LogicalUnit>, step: Step) -> Step {
    if Arc::ptr_eq(own, unit) {
        return step;
    }
    Step::On {
        unit: Arc::clone(unit),
        step: Box::new(step),
    }
}

impl Run {
    /// Reports whether all blocks exist, on both units.
    pub(crate) fn fits(&self) -> bool {
        self.source_range(0, self.bytes).is_ok() && self.destination_range(0, self.bytes).is_ok()
    }

    fn source_block(&self) -> u64 {
        match &self.source {
            Source::Unit { itl, .. } => u64::from(itl.unit().block_len()),
            Source::Zeros => 1,
        }
    }

    fn destination_block(&self) -> u64 {
        u64::from(self.destination.unit().block_len())
    }

    fn source_range(&self, offset: u64, bytes: u64) -> Result<BlockRange, CopyFailure> {
        match &self.source {
            Source::Unit { itl, lba } => range_in(itl.unit(), *lba, offset, bytes),
            Source::Zeros => Ok(BlockRange::default()),
        }
    }

    fn destination_range(&self, offset: u64, bytes: u64) -> Result<BlockRange, CopyFailure> {
        range_in(self.destination.unit(), self.lba, offset, bytes)
    }

    /// Reports whether a copy from front to back would read its own writes. The copy then goes from
    /// back to front, as memmove does.
    fn overlaps_forwards(&self) -> bool {
        let Source::Unit { itl, lba } = &self.source else {
            return false;
        };
        Arc::ptr_eq(itl.unit(), self.destination.unit())
            && self.lba > *lba
            && self.lba - lba < self.bytes / self.source_block()
    }

    fn may_read(&self) -> Result<(), CopyFailure> {
        match &self.source {
            Source::Unit { itl, .. } => allowed(itl, false),
            Source::Zeros => Ok(()),
        }
    }

    fn may_write(&self) -> Result<(), CopyFailure> {
        allowed(&self.destination, true)
    }
}

fn allowed(itl: &ItlNexus, writes: bool) -> Result<(), CopyFailure> {
    if !itl.is_attached() {
        return Err(CopyFailure::NotReachable);
    }
    itl.may_still_run(writes)
        .map_err(|response| CopyFailure::Refused(response.status))
}

fn range_in(
    unit: &LogicalUnit,
    lba: u64,
    offset: u64,
    bytes: u64,
) -> Result<BlockRange, CopyFailure> {
    let block = u64::from(unit.block_len());
    lba.checked_add(offset / block)
        .and_then(|start| BlockRange::new(start, bytes / block))
        .filter(|range| range.end() <= unit.blocks())
        .ok_or(CopyFailure::OutOfRange)
}
