//! POPULATE TOKEN and WRITE USING TOKEN (SBC-4 clause 5): offloaded data transfer, as Windows
//! uses it to copy files without moving their bytes over the network.

use std::sync::Arc;

use super::extended_copy::{BlockCopy, CHUNK, CopyFailure, Progress, Run, Source};
use crate::cdb::Cdb;
use crate::command_descriptor::Request;
use crate::itl_nexus::ItlNexus;
use crate::sense::{Asc, Sense};
use crate::third_party_copy::{CopyStatus, MAX_INACTIVITY_TIMEOUT_S, Running};
use crate::token::{
    self, MAX_RANGES, MAX_TOKEN_BYTES, TOKEN_LEN, TYPE_ANY_POINT_IN_TIME, TYPE_CHANGE_VULNERABLE,
    TYPE_ZERO, TokenUse,
};
use crate::{BlockRange, Input, Response, Start, Step, Task};

/// SERVICE ACTION of POPULATE TOKEN.
pub(crate) const SERVICE_ACTION_POPULATE: u8 = 0x10;
/// SERVICE ACTION of WRITE USING TOKEN.
pub(crate) const SERVICE_ACTION_WRITE_USING: u8 = 0x11;

const RANGE_LEN: usize = 16;
/// Longest list that a data length of two bytes at its beginning can describe. A list with more
/// ranges than are offered is read, so that the answer can say what is wrong with it.
const LONGEST_LIST: usize = 2 + u16::MAX as usize;
/// Offset of the first range descriptor of POPULATE TOKEN.
const POPULATE_HEADER_LEN: usize = 16;
/// Offset of the first range descriptor of WRITE USING TOKEN.
const WRITE_USING_HEADER_LEN: usize = 536;

/// Starts POPULATE TOKEN.
pub(crate) fn populate(request: &Request<'_>) -> Result<Start, Sense> {
    start(request, POPULATE_HEADER_LEN, |common| {
        Box::new(PopulateToken { common })
    })
}

/// Starts WRITE USING TOKEN.
pub(crate) fn write_using(request: &Request<'_>) -> Result<Start, Sense> {
    let reachable = request.view.itl_nexuses();
    start(request, WRITE_USING_HEADER_LEN, |common| {
        Box::new(WriteUsingToken {
            common,
            reachable,
            running: None,
            copy: BlockCopy::new(Vec::new()),
            delete: None,
            is_residual: false,
        })
    })
}

fn start(
    request: &Request<'_>,
    header_len: usize,
    task: impl FnOnce(Common) -> Box<dyn Task>,
) -> Result<Start, Sense> {
    let list_len = request.cdb.u32(10);
    if list_len == 0 {
        return Ok(Start::good());
    }
    if (list_len as usize) < header_len || list_len as usize > LONGEST_LIST {
        return Err(Sense::parameter_list_length_error());
    }
    Ok(Start::Task(task(Common {
        nexus: Arc::clone(request.nexus),
        list_id: request.cdb.u32(6),
        list_len,
    })))
}

/// Fields that both commands have.
#[derive(Debug)]
struct Common {
    nexus: Arc<ItlNexus>,
    list_id: u32,
    list_len: u32,
}

impl Common {
    /// Checks the lengths within the parameter list, and reads the range descriptors. The
    /// descriptors begin at `header_len`, and the two bytes before them hold their length.
    fn ranges(&self, list: &[u8], header_len: usize) -> Result<Vec<BlockRange>, Sense> {
        let fields = Cdb(list);
        let data_len = 2 + usize::from(fields.u16(0));
        if (list.len() as u64) < u64::from(self.list_len) || data_len > list.len() {
            return Err(Sense::parameter_list_length_error());
        }
        if data_len < header_len + RANGE_LEN {
            return Err(Sense::invalid_field_in_parameter_list(0));
        }
        let ranges_len = usize::from(fields.u16(header_len - 2));
        if ranges_len < RANGE_LEN || header_len + ranges_len > data_len {
            return Err(Sense::invalid_field_in_parameter_list(
                header_len as u16 - 2,
            ));
        }
        if ranges_len / RANGE_LEN > usize::from(MAX_RANGES) {
            return Err(Sense::illegal(Asc::TOO_MANY_SEGMENT_DESCRIPTORS));
        }
        let unit = self.nexus.unit();
        let mut ranges = Vec::new();
        for descriptor in list[header_len..header_len + ranges_len].chunks_exact(RANGE_LEN) {
            let fields = Cdb(descriptor);
            let range = BlockRange::new(fields.u64(0), u64::from(fields.u32(8)))
                .filter(|range| range.end() <= unit.blocks())
                .ok_or(Sense::lba_out_of_range())?;
            ranges.push(range);
        }
        self.check_ranges(&ranges, header_len as u16)?;
        Ok(ranges)
    }

    /// Refuses ranges that overlap, or that name more blocks than one token stands for.
    fn check_ranges(&self, ranges: &[BlockRange], at: u16) -> Result<(), Sense> {
        let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| range.start);
        if sorted.windows(2).any(|pair| pair[0].overlaps(*pair[1])) {
            return Err(Sense::invalid_field_in_parameter_list(at));
        }
        let most = MAX_TOKEN_BYTES / u64::from(self.nexus.unit().block_len());
        if total(ranges) > most {
            return Err(Sense::invalid_field_in_parameter_list(at + 8));
        }
        Ok(())
    }

    /// Enters the operation under its list identifier.
    fn begin(&self, service_action: u8) -> Result<Running, Response> {
        let unit = self.nexus.unit();
        let id = self.nexus.nexus().id;
        unit.copy_operations()
            .begin(id, Some(self.list_id), service_action)
            .map_err(|error| match error.sense() {
                Some(sense) => unit.check_condition(&sense),
                None => Response::busy(),
            })
    }
}

fn total(ranges: &[BlockRange]) -> u64 {
    ranges.iter().map(|range| range.count.0).sum()
}

/// POPULATE TOKEN after its parameter list has come.
///
/// Nothing is copied: the token is a promise to notice changes. So the operation is done when its
/// status comes, with IMMED as without.
#[derive(Debug)]
struct PopulateToken {
    common: Common,
}

impl Task for PopulateToken {
    fn data_out_len(&self) -> u32 {
        self.common.list_len
    }

    /// Returns the whole unit, for an instant. Writes under way to blocks of the token must have
    /// ended when the token is made. Those blocks are not known before the parameter list has come.
    fn exclusive(&self) -> Option<BlockRange> {
        BlockRange::new(0, self.common.nexus.unit().blocks())
    }

    fn step(&mut self, input: Input<'_>) -> Step {
        let Input::Begin { data_out } = input else {
            return Step::Done(Response::good());
        };
        let unit = Arc::clone(self.common.nexus.unit());
        Step::Done(match self.parse(data_out) {
            Err(sense) => unit.check_condition(&sense),
            Ok(ranges) => match self.common.begin(SERVICE_ACTION_POPULATE) {
                Err(response) => response,
                Ok(running) => self.make(running, ranges),
            },
        })
    }
}

impl PopulateToken {
    fn parse(&self, list: &[u8]) -> Result<Vec<BlockRange>, Sense> {
        let fields = Cdb(list);
        let ranges = self.common.ranges(list, POPULATE_HEADER_LEN)?;
        if fields.u32(4) > MAX_INACTIVITY_TIMEOUT_S {
            return Err(Sense::invalid_field_in_parameter_list(4));
        }
        // Without RTV the copy manager chooses the type.
        let offered = [TYPE_CHANGE_VULNERABLE, TYPE_ANY_POINT_IN_TIME];
        if fields.bit(2, 1) && !offered.contains(&fields.u32(8)) {
            return Err(Sense::invalid_field_in_parameter_list(8));
        }
        if total(&ranges) == 0 {
            return Err(Sense::invalid_field_in_parameter_list(24));
        }
        Ok(ranges)
    }

    fn make(&self, mut running: Running, ranges: Vec<BlockRange>) -> Response {
        let unit = self.common.nexus.unit();
        let blocks = total(&ranges);
        let segments = ranges.len() as u16;
        let Some(token) = unit.make_token(ranges) else {
            return unit.check_condition(&Sense::illegal(Asc::INSUFFICIENT_RESOURCES));
        };
        running.progress(segments, blocks);
        running.finish(CopyStatus::Completed, Some(token));
        Response::good()
    }
}

/// WRITE USING TOKEN after its parameter list has come.
#[derive(Debug)]
struct WriteUsingToken {
    common: Common,
    /// All units in the initiator's view when the command came. A unit that has left the view since
    /// says so itself.
    reachable: Vec<Arc<ItlNexus>>,
    running: Option<Running>,
    copy: BlockCopy,
    /// Token to delete at the end (DEL_TKN), and the unit that made it.
    delete: Option<(Arc<ItlNexus>, TokenUse)>,
    /// Whether the ranges name more blocks than the token stands for.
    is_residual: bool,
}

impl Task for WriteUsingToken {
    fn data_out_len(&self) -> u32 {
        self.common.list_len
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

impl WriteUsingToken {
    fn begin(&mut self, list: &[u8]) -> Result<(), Response> {
        let unit = Arc::clone(self.common.nexus.unit());
        let refuse = |sense: Sense| unit.check_condition(&sense);
        let ranges = self
            .common
            .ranges(list, WRITE_USING_HEADER_LEN)
            .map_err(refuse)?;
        // IMMED asks for a copy in the background, which is not offered.
        if Cdb(list).bit(2, 0) {
            return Err(refuse(Sense::invalid_field_in_parameter_list(2)));
        }
        let mut running = self.common.begin(SERVICE_ACTION_WRITE_USING)?;
        match self.plan(list, &ranges) {
            Ok(copy) => {
                self.copy = copy;
                self.running = Some(running);
                Ok(())
            }
            Err(sense) => {
                running.finish(CopyStatus::Failed(sense), None);
                Err(refuse(sense))
            }
        }
    }

    /// Finds the blocks for which the token stands, and matches them with the ranges.
    fn plan(&mut self, list: &[u8], ranges: &[BlockRange]) -> Result<BlockCopy, Sense> {
        let fields = Cdb(list);
        let offset = fields.u64(8);
        let token = list
            .get(16..)
            .and_then(|tail| tail.first_chunk::<TOKEN_LEN>())
            .ok_or(Sense::parameter_list_length_error())?;
        if token[6..8] != [0x01, 0xF8] {
            return Err(Sense::illegal(Asc::INVALID_TOKEN_LENGTH));
        }
        match Cdb(token).u32(0) {
            TYPE_ZERO => Ok(BlockCopy::new(self.zero_runs(ranges))),
            TYPE_CHANGE_VULNERABLE => {
                let (maker, token) = self.find(token)?;
                let copy = self.runs(&maker, token.ranges(), offset, ranges)?;
                if fields.bit(2, 1) {
                    let same = maker.unit().tokens().find(&token_bytes(list));
                    self.delete = same.ok().map(|token| (Arc::clone(&maker), token));
                }
                Ok(BlockCopy::with_token(copy, Some(token)))
            }
            _ => Err(Sense::illegal(Asc::UNSUPPORTED_TOKEN_TYPE)),
        }
    }

    fn find(&self, token: &[u8; TOKEN_LEN]) -> Result<(Arc<ItlNexus>, TokenUse), Sense> {
        let naa = token::creator_naa(token).ok_or(Sense::illegal(Asc::TOKEN_CORRUPT))?;
        let maker = self
            .reachable
            .iter()
            .find(|itl| itl.is_attached() && itl.unit().has_naa(naa))
            .ok_or(Sense::illegal(Asc::TOKEN_UNKNOWN))?;
        let token = maker.unit().tokens().find(token)?;
        Ok((Arc::clone(maker), token))
    }

    fn zero_runs(&self, ranges: &[BlockRange]) -> Vec<Run> {
        let destination = &self.common.nexus;
        let block_len = u64::from(destination.unit().block_len());
        ranges
            .iter()
            .map(|range| Run {
                source: Source::Zeros,
                destination: Arc::clone(destination),
                lba: range.start.0,
                bytes: range.count.0 * block_len,
            })
            .collect()
    }

    fn runs(
        &mut self,
        maker: &Arc<ItlNexus>,
        held: &[BlockRange],
        offset: u64,
        ranges: &[BlockRange],
    ) -> Result<Vec<Run>, Sense> {
        let destination = &self.common.nexus;
        let block_len = destination.unit().block_len();
        if maker.unit().block_len() != block_len {
            return Err(Sense::illegal(
                Asc::INVALID_TOKEN_OPERATION_CAUSE_NOT_REPORTABLE,
            ));
        }
        if offset >= total(held) {
            return Err(Sense::invalid_field_in_parameter_list(8));
        }
        let blocks = total(ranges).min(total(held) - offset);
        self.is_residual = blocks < total(ranges);
        let sources = token::cut(held, offset, blocks);
        let targets = token::cut(ranges, 0, blocks);
        Ok(token::pair(&sources, &targets)
            .into_iter()
            .map(|(from, to, count)| Run {
                source: Source::Unit {
                    itl: Arc::clone(maker),
                    lba: from.0,
                },
                destination: Arc::clone(destination),
                lba: to.0,
                bytes: count * u64::from(block_len),
            })
            .collect())
    }

    fn advance(&mut self, input: Input<'_>) -> Step {
        let unit = Arc::clone(self.common.nexus.unit());
        let Some(running) = &mut self.running else {
            return Step::Done(Response::good());
        };
        let progress = if running.is_aborted() {
            running.finish(CopyStatus::Aborted, None);
            return Step::Done(unit.check_condition(&Sense::new(
                crate::SenseKey::CopyAborted,
                Asc::NO_ADDITIONAL_SENSE_INFORMATION,
            )));
        } else {
            self.copy.advance(&unit, input)
        };
        let blocks = self.copy.bytes_done() / u64::from(unit.block_len());
        running.progress(self.copy.runs_done(), blocks);
        match progress {
            Progress::Step(step) => step,
            Progress::Finished => {
                if let Some((maker, token)) = self.delete.take() {
                    maker.unit().tokens().delete(&token);
                }
                let status = if self.is_residual {
                    CopyStatus::CompletedWithResidual
                } else {
                    CopyStatus::Completed
                };
                running.finish(status, None);
                Step::Done(Response::good())
            }
            Progress::Failed(failure) => Step::Done(self.fail(failure)),
        }
    }

    fn fail(&mut self, failure: CopyFailure) -> Response {
        let (response, sense) = failure.response(self.common.nexus.unit());
        if let Some(running) = &mut self.running {
            running.finish(CopyStatus::Failed(sense), None);
        }
        response
    }
}

fn token_bytes(list: &[u8]) -> [u8; TOKEN_LEN] {
    list.get(16..)
        .and_then(|tail| tail.first_chunk::<TOKEN_LEN>())
        .copied()
        .unwrap_or([0; TOKEN_LEN])
}
