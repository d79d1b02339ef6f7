//! A request on its way to the device, and its outcome on the way back to the client.

use nbd::reply::{Extent, Replies};
use nbd::request::{Asked, Command};
use nbd::wire::ErrorCode;

use super::output::Output;
use crate::block::budget::Reservation;
use crate::block::lane::Outcome;
use crate::block::{BlockError, BlockErrorKind, Done, Pages, Request};

/// A request at the device.
#[derive(Debug)]
pub(super) struct Operation {
    /// The connection that it came from.
    pub(super) slot: usize,
    pub(super) asked: Asked,
    pub(super) command: Command,
    /// The memory of its data.
    pub(super) reservation: Option<Reservation>,
}

/// Whether something on the device changes.
pub(super) fn changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. }
    )
}

/// Bytes of memory that a command takes while it is under way: whole pages.
pub(super) fn memory(command: &Command) -> u64 {
    const PAGE: u64 = crate::block::page::PAGE_SIZE as u64;
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

/// What the device is asked for; `data` is that of a write.
pub(super) fn request(command: &Command, data: Pages) -> Request {
    match *command {
        // What lies beneath brings the data near when it is read.
        Command::Read { offset, len } | Command::Cache { offset, len } => {
            Request::Read { offset, len }
        }
        Command::Write { offset, fua, .. } => Request::Write {
            offset,
            data,
            durable: fua,
        },
        Command::Flush => Request::Flush,
        Command::Trim { offset, len, .. } => Request::Discard { offset, len },
        Command::WriteZeroes {
            offset,
            len,
            may_unmap,
            fua,
        } => Request::WriteZeroes {
            offset,
            len,
            unmap: may_unmap,
            durable: fua,
        },
        Command::BlockStatus { offset, len, .. } => Request::Extents { offset, len },
    }
}

impl Operation {
    /// What is still to be done after the device succeeded: a discard has no durable form, so FUA is a
    /// flush behind it.
    pub(super) fn follow_up(&self, outcome: &Outcome) -> Option<Command> {
        let flush = matches!(self.command, Command::Trim { fua: true, .. });
        (flush && outcome.is_ok()).then_some(Command::Flush)
    }

    /// Answers the client.
    pub(super) fn answer(self, outcome: Outcome, replies: &Replies, output: &mut Output) {
        let asked = &self.asked;
        match (self.command, outcome) {
            (command, Err(error)) => refuse(asked, &command, &error, replies, output),
            (Command::Read { len, .. }, Ok(Done::Pages(pages))) if pages.len() == len as usize => {
                output.put(|out| replies.data(asked, len, out));
                output.put_data(pages, self.reservation);
            }
            (Command::BlockStatus { len, one, .. }, Ok(Done::Extents(extents))) => {
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
            (Command::Read { .. } | Command::BlockStatus { .. }, Ok(_)) => {
                failed(asked, replies, output);
            }
            (_, Ok(_)) => output.put(|out| replies.done(asked, out)),
        }
    }
}

/// The device answered something else than what it was asked for.
fn failed(asked: &Asked, replies: &Replies, output: &mut Output) {
    let message = "the device answered too little";
    output.put(|out| replies.error(asked, ErrorCode::Io, message, None, out));
}

fn refuse(
    asked: &Asked,
    command: &Command,
    error: &BlockError,
    replies: &Replies,
    output: &mut Output,
) {
    tracing::warn!(%error, ?command, "a request failed");
    // The details are the log's: they may name files of this machine.
    let (code, message) = match error.kind() {
        BlockErrorKind::NoSpace => (ErrorCode::NoSpc, "no space left on the device"),
        BlockErrorKind::ReadOnly => (ErrorCode::Perm, "the device is read-only"),
        BlockErrorKind::Invalid => (ErrorCode::Inval, "the device does not take this"),
        BlockErrorKind::Medium => (ErrorCode::Io, "the device cannot read this"),
        BlockErrorKind::Write => (ErrorCode::Io, "the device cannot write this"),
        BlockErrorKind::Gone => (ErrorCode::Io, "the device is gone"),
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
