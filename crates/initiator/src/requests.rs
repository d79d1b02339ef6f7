//! Requests of one device that are under way, and the commands into which each was split.
//!
//! # Lost writes
//! A target may report lost writes once, and report success for every SYNCHRONIZE CACHE after that.
//! A request that ends with a SYNCHRONIZE CACHE promises that its own writes, or those before it,
//! are durable. These writes may be the lost ones. So a loss dooms all such requests at the moment
//! of the report, whether their SYNCHRONIZE CACHE is under way or still to come. A doomed request
//! fails, whatever its commands report later. An acknowledgement therefore need not wait for any
//! request.

use iscsi::initiator::Command;
use scsi::application_client::shape;
use slab::Slab;

use super::commands::{self, CommandLimits, Planned};
use super::device::LOST_WRITES;
use block::lane::{Outcome, Remote};
use block::{BlockError, BlockErrorKind, Done, Pages, PagesMut, Request, Ticket};
use multipath::{self, Failure, IoId, IoShape};
use scsi::application_client::sense::Reaction;

const WRITE_SAME_16: u8 = 0x93;
const SYNCHRONIZE_CACHE_16: u8 = 0x91;
const SENT_LESS: &str = "the target sent fewer bytes than it was asked for";
const TOOK_LESS: &str = "the target took fewer bytes than it was sent";
/// Number of commands that a request for zeros has under way. The request may cover a whole disk,
/// and others want their turn.
const ZEROS_AT_ONCE: u64 = 32;

/// Request whose last command has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) ticket: Ticket,
    /// Handle to the lane that submitted the request; `None` for the adapter's own lane.
    pub(super) origin: Option<Remote>,
    pub(super) outcome: Outcome,
}

/// State of one request.
#[derive(Debug)]
struct Whole {
    ticket: Ticket,
    origin: Option<Remote>,
    payload: Payload,
    /// Number of commands that have not ended.
    left: u32,
    /// Ranges of zeros (offset and length) whose commands are still to be made.
    todo: Vec<(u64, u64)>,
    /// Whether a flush follows the last write, because durability was asked for and FUA cannot
    /// express it.
    then_flush: bool,
    /// Whether the target reported lost writes that a flush of this request was to make durable.
    is_doomed: bool,
    failed: Option<BlockError>,
}

/// Data of a request.
#[derive(Debug)]
enum Payload {
    Nothing,
    Read(PagesMut),
    Write(Pages),
    Zeros {
        unmap: bool,
    },
    /// GET LBA STATUS from `offset` on, for `len` bytes.
    Status {
        offset: u64,
        len: u64,
        data: Vec<u8>,
    },
}

/// Command of a request.
#[derive(Debug)]
struct Part {
    whole: u32,
    at: u32,
    command: Command,
    /// Whether the target moved fewer bytes than the command says and still reported GOOD.
    is_short: bool,
}

/// All requests of a device.
#[derive(Debug, Default)]
pub(super) struct Requests {
    wholes: Slab<Whole>,
    parts: Slab<Part>,
}

/// Next step after a command has ended.
#[derive(Debug)]
pub(super) enum After {
    /// No step: other commands of the request are under way.
    Nothing,
    /// Submit these commands for the request.
    Submit(Vec<(IoId, IoShape)>),
    /// Plan anew without WRITE SAME (16), which the unit does not support.
    WithoutWriteSame,
    /// Deliver the finished request.
    Finished(Box<Finished>),
}

impl Requests {
    /// Takes a request, and passes its commands to `each`.
    #[inline]
    pub(super) fn begin(
        &mut self,
        request: Request,
        ticket: Ticket,
        origin: Option<Remote>,
        limits: &CommandLimits,
        mut each: impl FnMut(IoId, IoShape),
    ) {
        let then_flush = match request {
            Request::Write { durable, .. } => durable && !limits.force_unit_access,
            // WRITE SAME has no FUA.
            Request::WriteZeroes { durable, .. } => durable,
            _ => false,
        };
        if let Some((range, unmap)) = range_of_zeros(&request) {
            let whole = self.wholes.insert(Whole {
                ticket,
                origin,
                payload: Payload::Zeros { unmap },
                left: 0,
                todo: vec![range],
                then_flush,
                is_doomed: false,
                failed: None,
            });
            let more = self.plan_zeros(whole, limits);
            return more.into_iter().for_each(|(io, shape)| each(io, shape));
        }
        let whole = self.wholes.vacant_key();
        let mut left = 0;
        limits.plan(&request, |planned| {
            left += 1;
            let io = insert(&mut self.parts, whole, &planned);
            each(io, planned.shape);
        });
        let payload = match request {
            Request::Read { len, .. } => Payload::Read(PagesMut::allocate(len as usize)),
            Request::Write { data, .. } => Payload::Write(data),
            Request::Flush | Request::Discard { .. } | Request::WriteZeroes { .. } => {
                Payload::Nothing
            }
            Request::Extents { offset, len } => Payload::Status {
                offset,
                len,
                data: Vec::new(),
            },
        };
        let whole = Whole {
            ticket,
            origin,
            payload,
            left,
            todo: Vec::new(),
            then_flush,
            is_doomed: false,
            failed: None,
        };
        self.wholes.insert(whole);
    }

    /// Creates the next commands of a request for zeros.
    fn plan_zeros(&mut self, whole: usize, limits: &CommandLimits) -> Vec<(IoId, IoShape)> {
        let Some(request) = self.wholes.get_mut(whole) else {
            return Vec::new();
        };
        let Payload::Zeros { unmap } = request.payload else {
            return Vec::new();
        };
        let Some((offset, len)) = request.todo.pop() else {
            return Vec::new();
        };
        let now = len.min(limits.zeros_per_command().saturating_mul(ZEROS_AT_ONCE));
        if now < len {
            request.todo.push((offset + now, len - now));
        }
        let zeros = Request::WriteZeroes {
            offset,
            len: now,
            unmap,
            durable: false,
        };
        let (mut planned, parts) = (Vec::new(), &mut self.parts);
        limits.plan(&zeros, |one| {
            planned.push((insert(parts, whole, &one), one.shape));
        });
        request.left += planned.len() as u32;
        planned
    }

    /// Returns the command of an I/O.
    #[inline]
    pub(super) fn command(&self, io: IoId) -> Option<&Command> {
        self.parts.get(io.0 as usize).map(|part| &part.command)
    }

    /// Reports whether an I/O is a SYNCHRONIZE CACHE.
    pub(super) fn is_flush(&self, io: IoId) -> bool {
        self.command(io)
            .is_some_and(|command| command.cdb[0] == SYNCHRONIZE_CACHE_16)
    }

    /// Dooms all requests that are being flushed, or will be, because the target reported lost
    /// writes.
    pub(super) fn doom_flushes(&mut self) {
        for (_, whole) in &mut self.wholes {
            whole.is_doomed |= whole.then_flush;
        }
        for (_, part) in &self.parts {
            if part.command.cdb[0] == SYNCHRONIZE_CACHE_16
                && let Some(whole) = self.wholes.get_mut(part.whole as usize)
            {
                whole.is_doomed = true;
            }
        }
    }

    /// Appends a piece of a command's data.
    #[inline]
    pub(super) fn data_out(&self, io: IoId, offset: u32, length: u32, out: &mut Vec<u8>) {
        let end = out.len() + length as usize;
        if let Some(part) = self.parts.get(io.0 as usize)
            && let Some(whole) = self.wholes.get(part.whole as usize)
            && let Payload::Write(data) = &whole.payload
        {
            let start = (part.at + offset) as usize;
            for chunk in data.chunks_in(start..start + length as usize) {
                out.extend_from_slice(chunk);
            }
        }
        // Zeros fill the rest, because the PDU must have as many bytes as its header says.
        out.resize(end, 0);
    }

    /// Stores a piece of a command's data.
    #[inline]
    pub(super) fn data_in(&mut self, io: IoId, offset: u32, bytes: &[u8]) {
        let Some(part) = self.parts.get(io.0 as usize) else {
            return;
        };
        match self
            .wholes
            .get_mut(part.whole as usize)
            .map(|whole| &mut whole.payload)
        {
            // The session has checked that the bytes lie within the command's data.
            Some(Payload::Read(buffer)) => buffer.copy_from((part.at + offset) as usize, bytes),
            Some(Payload::Status { data, .. }) => {
                let end = offset as usize + bytes.len();
                if data.len() < end {
                    data.resize(end, 0);
                }
                data[offset as usize..end].copy_from_slice(bytes);
            }
            _ => {}
        }
    }

    /// Notes that the target moved fewer bytes than it should have.
    pub(super) fn mark_short(&mut self, io: IoId) {
        if let Some(part) = self.parts.get_mut(io.0 as usize) {
            part.is_short = true;
        }
    }

    /// Handles the final end of a command.
    pub(super) fn ended(
        &mut self,
        io: IoId,
        how: multipath::Outcome,
        limits: &CommandLimits,
    ) -> After {
        let refused = how == multipath::Outcome::Failed(Failure::Sense(Reaction::IllegalRequest));
        if refused
            && self
                .command(io)
                .is_some_and(|command| command.cdb[0] == WRITE_SAME_16)
        {
            return After::WithoutWriteSame;
        }
        let Some(part) = self.parts.try_remove(io.0 as usize) else {
            return After::Nothing;
        };
        let Some(whole) = self.wholes.get_mut(part.whole as usize) else {
            return After::Nothing;
        };
        whole.left -= 1;
        match how {
            multipath::Outcome::Good if part.is_short => {
                if let Some(error) = short(&whole.payload) {
                    whole.failed.get_or_insert(error);
                }
            }
            multipath::Outcome::Good => {}
            multipath::Outcome::Failed(_) if matches!(whole.payload, Payload::Status { .. }) => {
                // A unit that does not tell which blocks are mapped counts as fully mapped.
                if let Payload::Status { data, .. } = &mut whole.payload {
                    data.clear();
                }
            }
            multipath::Outcome::Failed(failure) => {
                whole.failed.get_or_insert(error(failure, &whole.payload));
            }
        }
        if whole.left > 0 {
            return After::Nothing;
        }
        if whole.failed.is_none() && !whole.todo.is_empty() {
            return After::Submit(self.plan_zeros(part.whole as usize, limits));
        }
        if whole.then_flush && whole.failed.is_none() {
            whole.then_flush = false;
            whole.left = 1;
            let flush = commands::flush();
            let io = insert(&mut self.parts, part.whole as usize, &flush);
            return After::Submit(vec![(io, flush.shape)]);
        }
        let whole = self.wholes.remove(part.whole as usize);
        let lost = || BlockError::new(BlockErrorKind::Write, LOST_WRITES);
        let outcome = match whole.failed.or_else(|| whole.is_doomed.then(lost)) {
            Some(error) => Err(error),
            None => outcome(whole.payload, limits),
        };
        After::Finished(Box::new(Finished {
            ticket: whole.ticket,
            origin: whole.origin,
            outcome,
        }))
    }

    /// Replaces a refused WRITE SAME by plain writes of zeros.
    pub(super) fn plan_plainly(
        &mut self,
        io: IoId,
        limits: &CommandLimits,
    ) -> Vec<(IoId, IoShape)> {
        let Some(part) = self.parts.try_remove(io.0 as usize) else {
            return Vec::new();
        };
        let cdb = &part.command.cdb;
        let field = |range: std::ops::Range<usize>| {
            cdb[range]
                .iter()
                .fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let (lba, blocks, block) = (field(2..10), field(10..14), u64::from(limits.block));
        let whole = part.whole as usize;
        let Some(request) = self.wholes.get_mut(whole) else {
            return Vec::new();
        };
        request.left -= 1;
        request.todo.push((lba * block, blocks * block));
        // When the other commands end, the remaining ones follow.
        match request.left {
            0 => self.plan_zeros(whole, limits),
            _ => Vec::new(),
        }
    }

    /// Takes all requests; nothing is sent any more.
    pub(super) fn abandon(&mut self, why: &'static str) -> Vec<Finished> {
        self.parts.clear();
        let finished = self.wholes.drain().map(|whole| Finished {
            ticket: whole.ticket,
            origin: whole.origin,
            outcome: Err(BlockError::new(BlockErrorKind::Gone, why)),
        });
        finished.collect()
    }
}

#[inline]
fn insert(parts: &mut Slab<Part>, whole: usize, planned: &Planned) -> IoId {
    IoId(parts.insert(Part {
        whole: whole as u32,
        at: planned.at,
        command: planned.command,
        is_short: false,
    }) as u32)
}

/// Returns the range of a request for zeros, and whether its blocks may be freed.
fn range_of_zeros(request: &Request) -> Option<((u64, u64), bool)> {
    match *request {
        Request::Discard { offset, len } => Some(((offset, len), true)),
        Request::WriteZeroes {
            offset, len, unmap, ..
        } => Some(((offset, len), unmap)),
        _ => None,
    }
}

/// Returns the error for a status GOOD with too few bytes, if it is one.
fn short(payload: &Payload) -> Option<BlockError> {
    let (kind, what) = match payload {
        Payload::Read(_) => (BlockErrorKind::Medium, SENT_LESS),
        Payload::Write(_) | Payload::Zeros { .. } => (BlockErrorKind::Write, TOOK_LESS),
        // An answer about the state of blocks may be short.
        Payload::Status { .. } | Payload::Nothing => return None,
    };
    Some(BlockError::new(kind, what))
}

fn outcome(payload: Payload, limits: &CommandLimits) -> Outcome {
    match payload {
        Payload::Read(buffer) if buffer.is_filled() => Ok(Done::Pages(buffer.freeze())),
        Payload::Read(_) => Err(BlockError::new(BlockErrorKind::Medium, SENT_LESS)),
        Payload::Status { offset, len, data } => {
            Ok(Done::Extents(extents(offset, len, &data, limits)))
        }
        Payload::Nothing | Payload::Write(_) | Payload::Zeros { .. } => Ok(Done::Nothing),
    }
}

/// Extracts runs `(bytes, holds data)` from GET LBA STATUS. Blocks that the answer does not cover
/// count as data.
fn extents(offset: u64, len: u64, data: &[u8], limits: &CommandLimits) -> Vec<(u64, bool)> {
    let block = u64::from(limits.block);
    let mut left = len;
    let mut runs: Vec<(u64, bool)> = Vec::new();
    for (blocks, mapped) in shape::lba_status(data, offset / block) {
        let bytes = blocks.saturating_mul(block).min(left);
        left -= bytes;
        match runs.last_mut() {
            Some(last) if last.1 == mapped => last.0 += bytes,
            _ if bytes > 0 => runs.push((bytes, mapped)),
            _ => {}
        }
    }
    if runs.is_empty() {
        runs.push((len, true));
    }
    runs
}

fn error(failure: Failure, payload: &Payload) -> BlockError {
    let is_read = matches!(payload, Payload::Read(_));
    let plain = if is_read {
        BlockErrorKind::Medium
    } else {
        BlockErrorKind::Write
    };
    let (kind, what) = match failure {
        Failure::Sense(Reaction::NoSpace) => (
            BlockErrorKind::NoSpace,
            "the target's pool is full".to_owned(),
        ),
        Failure::Sense(Reaction::WriteProtected) => (
            BlockErrorKind::ReadOnly,
            "the unit is write-protected".to_owned(),
        ),
        Failure::Sense(Reaction::UnitGone) | Failure::DeviceLost => (
            BlockErrorKind::Gone,
            "the target no longer has this unit".to_owned(),
        ),
        Failure::AllPathsDown => (
            BlockErrorKind::Gone,
            "all paths were down for too long".to_owned(),
        ),
        Failure::NoActivePath => (
            BlockErrorKind::Gone,
            "no path became active in time".to_owned(),
        ),
        Failure::PathsKeepDying => (
            BlockErrorKind::Gone,
            "the sessions of the request were lost again and again".to_owned(),
        ),
        Failure::Sense(reaction) => (plain, format!("the target reports {reaction}")),
        Failure::ReservationConflict => (
            BlockErrorKind::Reserved,
            "another initiator holds a persistent reservation".to_owned(),
        ),
        Failure::Busy => (plain, "the target was busy for too long".to_owned()),
    };
    BlockError::new(kind, what)
}
