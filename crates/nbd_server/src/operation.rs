//! A request on its way to the device, and its outcome on the way back to the client.

use std::sync::Arc;

use nbd::reply::{Extent, Replies};
use nbd::request::{Asked, Command};
use nbd::wire::ErrorCode;

use super::output::Output;
use block::budget::Reservation;
use block::{BlockError, BlockErrorKind, Done, Pages, Request};
use scsi::Refusal;
use unit::execution::{Outcome, Timed};
use unit::timing::CommandKind;
use unit::timing::rare::Failure;
use unit::timing::tally::NexusTally;
use unit::timing::{Moment, Receipt, Stopwatch};

/// Bytes of the pieces in which trims and zeros reach the device, one piece a turn. Memory devices
/// free their pages on the loop, and other clients want their turn too.
const PIECE: u64 = 256 << 20;
/// Longest range, in bytes, whose extents are looked up at once. Clients ask again for the rest.
const STATUS_RANGE: u64 = 1 << 30;

/// Request at the device.
#[derive(Debug)]
pub(super) struct Operation {
    /// Connection of the request.
    pub(super) slot: usize,
    pub(super) asked: Asked,
    pub(super) command: Command,
    /// Number of bytes of a trim or of zeros that are done.
    done: u64,
    /// Whether the flush that follows a durable discard is under way. A discard has no FUA of its
    /// own.
    flushing: bool,
    /// Memory of the request's data.
    pub(super) reservation: Option<Reservation>,
    /// Time that the request has spent so far.
    stopwatch: Stopwatch,
}

impl Timed for Operation {
    fn stopwatch(&mut self) -> &mut Stopwatch {
        &mut self.stopwatch
    }
}

/// Reports whether a command changes the device.
pub(super) fn changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. }
    )
}

/// Reports whether a command has no effect but its answer.
pub(super) fn only_answers(command: &Command) -> bool {
    matches!(
        command,
        Command::Read { .. } | Command::Cache { .. } | Command::BlockStatus { .. }
    )
}

/// Returns the bytes of memory that a command takes while it is under way, in whole pages.
pub(super) fn memory(command: &Command) -> u64 {
    const PAGE: u64 = pages::PAGE_SIZE as u64;
    match command {
        Command::Read { offset, len }
        | Command::Cache { offset, len }
        | Command::Write { offset, len, .. } => {
            (offset % PAGE + u64::from(*len)).next_multiple_of(PAGE)
        }
        Command::Flush
        | Command::Trim { .. }
        | Command::WriteZeroes { .. }
        | Command::BlockStatus { .. } => 0,
    }
}

impl Operation {
    /// Creates the operation of a request from the connection in `slot`.
    pub(super) fn new(
        slot: usize,
        wanted: nbd::request::Request,
        reservation: Option<Reservation>,
        stopwatch: Stopwatch,
    ) -> Self {
        Self {
            slot,
            asked: wanted.asked,
            command: wanted.command,
            done: 0,
            flushing: false,
            reservation,
            stopwatch,
        }
    }

    /// Returns the receipt of the request, whose work has ended now.
    pub(super) fn receipt(&self, nexus: &Arc<NexusTally>, now: Moment) -> Receipt {
        let (kind, bytes) = self.kind();
        Receipt::new(nexus, kind, bytes, self.stopwatch, now)
    }

    /// Returns the failure of the request, for the figures.
    pub(super) fn failure(&self, refusal: Option<&Refusal>) -> Failure {
        let (kind, bytes) = self.kind();
        Failure {
            kind,
            bytes,
            met_reservation: matches!(refusal, Some(Refusal::ReservationConflict)),
        }
    }

    /// Returns the kind of the request, with the bytes that it reads, writes or frees.
    fn kind(&self) -> (CommandKind, u64) {
        match self.command {
            Command::Read { len, .. } => (CommandKind::Read, len.into()),
            Command::Write { len, .. } => (CommandKind::Write, len.into()),
            Command::Trim { len, .. } => (CommandKind::Discard, len),
            Command::Flush => (CommandKind::Flush, 0),
            _ => (CommandKind::Other, 0),
        }
    }

    /// Returns the next request to the device. `data` belongs to a write.
    pub(super) fn request(&self, data: Pages) -> Request {
        if self.flushing {
            return Request::Flush;
        }
        let done = self.done;
        match self.command {
            // A read makes the layers beneath cache the data.
            Command::Read { offset, len } | Command::Cache { offset, len } => {
                Request::Read { offset, len }
            }
            Command::Write { offset, fua, .. } => Request::Write {
                offset,
                data,
                durable: fua,
            },
            Command::Flush => Request::Flush,
            Command::Trim { offset, len, .. } => Request::Discard {
                offset: offset + done,
                len: (len - done).min(PIECE),
            },
            Command::WriteZeroes {
                offset,
                len,
                may_unmap,
                fua,
            } => Request::WriteZeroes {
                offset: offset + done,
                len: (len - done).min(PIECE),
                unmap: may_unmap,
                durable: fua,
            },
            Command::BlockStatus { offset, len, .. } => Request::Extents {
                offset,
                len: len.min(STATUS_RANGE),
            },
        }
    }

    /// Handles the device's answer. Reports whether there is a further piece.
    pub(super) fn goes_on(&mut self) -> bool {
        match self.command {
            Command::Trim { len, fua, .. } => {
                self.done += (len - self.done).min(PIECE);
                let was_flushing = std::mem::replace(&mut self.flushing, self.done == len && fua);
                self.done < len || (self.flushing && !was_flushing)
            }
            Command::WriteZeroes { len, .. } => {
                self.done += (len - self.done).min(PIECE);
                self.done < len
            }
            _ => false,
        }
    }

    /// Answers the client.
    pub(super) fn answer(self, outcome: Outcome, replies: &Replies, output: &mut Output) {
        let asked = &self.asked;
        let done = match outcome {
            Outcome::Done(done) => done,
            Outcome::Refused(refusal) => {
                return refuse(asked, &self.command, refusal, replies, output);
            }
            Outcome::Failed(error) => {
                return fail(asked, &self.command, &error, replies, output);
            }
        };
        match (self.command, done) {
            (Command::Read { len, .. }, Done::Pages(pages)) if pages.len() == len as usize => {
                output.put(|out| replies.data(asked, len, out));
                output.put_data(pages, self.reservation);
            }
            (Command::BlockStatus { len, one, .. }, Done::Extents(extents)) => {
                let runs = extents
                    .iter()
                    .filter(|(len, _)| *len > 0)
                    .map(|&(len, data)| Extent { len, data });
                let mut told = false;
                output.put(|out| {
                    told = replies.block_status(asked, runs, one.then_some(len), out);
                });
                if !told {
                    failed(asked, replies, output);
                }
            }
            (Command::Read { .. } | Command::BlockStatus { .. }, _) => {
                failed(asked, replies, output);
            }
            _ => output.put(|out| replies.done(asked, out)),
        }
    }
}

/// Answers with an error, because the device's answer does not fit the request.
fn failed(asked: &Asked, replies: &Replies, output: &mut Output) {
    let message = "the device answered only part of the request";
    output.put(|out| replies.error(asked, ErrorCode::Io, message, None, out));
}

/// Answers a request that a gate of the unit forbids. EPERM says that another client may do what
/// this one may not; EIO says that nobody can, now.
fn refuse(
    asked: &Asked,
    command: &Command,
    refusal: Refusal,
    replies: &Replies,
    output: &mut Output,
) {
    tracing::info!(%refusal, ?command, "a request was refused");
    let code = match refusal {
        Refusal::ReservationConflict | Refusal::WriteProtected => ErrorCode::Perm,
        Refusal::Gone | Refusal::NoAccess(_) | Refusal::NotReady => ErrorCode::Io,
    };
    let message = refusal.to_string();
    output.put(|out| replies.error(asked, code, &message, None, out));
}

/// Answers a request that failed at the device.
fn fail(
    asked: &Asked,
    command: &Command,
    error: &BlockError,
    replies: &Replies,
    output: &mut Output,
) {
    tracing::debug!(%error, ?command, "a request failed");
    // The details go to the log, because they may name files of this machine.
    let (code, message) = match error.kind() {
        BlockErrorKind::NoSpace => (ErrorCode::NoSpc, "no space left on the device"),
        BlockErrorKind::ReadOnly => (ErrorCode::Perm, "the device is read-only"),
        BlockErrorKind::Reserved => (ErrorCode::Perm, "another host has reserved the device"),
        BlockErrorKind::Invalid | BlockErrorKind::OutOfRange => {
            (ErrorCode::Inval, "the device does not accept this request")
        }
        BlockErrorKind::Medium => (ErrorCode::Io, "the device cannot read this data"),
        BlockErrorKind::Write => (ErrorCode::Io, "the device cannot write this data"),
        BlockErrorKind::Gone => (ErrorCode::Io, "the device is gone"),
        BlockErrorKind::Away => (ErrorCode::Io, "the device is temporarily away"),
    };
    let range = match *command {
        Command::Read { offset, len }
        | Command::Cache { offset, len }
        | Command::Write { offset, len, .. } => offset..offset + u64::from(len),
        Command::Trim { offset, len, .. }
        | Command::WriteZeroes { offset, len, .. }
        | Command::BlockStatus { offset, len, .. } => offset..offset + len,
        Command::Flush => 0..0,
    };
    let at = error.offset().filter(|offset| range.contains(offset));
    output.put(|out| replies.error(asked, code, message, at, out));
}
