//! Requests for a leaf's device on their way from an operation, and the answers on their way back.
//!
//! Neighbouring requests may become one. Its spans then lead back to the operations that wait.

use pages::{Page, Pages};
use smallvec::{SmallVec, smallvec};

use super::device::{DeviceOutcome, LeafId};
use super::page_runs;
use crate::format::Epoch;

/// Priority of a request. Earlier ones go first, and each class has its own bound in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A read that a caller waits for.
    SyncRead,
    /// A write that a caller waits for.
    SyncWrite,
    /// A write of data of a group or a checkpoint.
    AsyncWrite,
    /// A request of a scrub, resilver, repair, prefetch or trim.
    Background,
}

/// An operation that waits for devices, by its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationId {
    Read(u64),
    Write(u64),
    Repair(u64),
    Flush(u64),
    Trim(u64),
    Label(u64),
}

/// Receiver of a device's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) operation: OperationId,
    /// Number of the request, if the operation has several to tell apart.
    pub(super) column: u16,
    pub(super) copy: u16,
}

impl Waiter {
    pub(super) fn new(operation: OperationId) -> Self {
        Self {
            operation,
            column: 0,
            copy: 0,
        }
    }
}

/// Part of a request that one waiter has. The spans of a request lie in a row and make up all of
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) waiter: Waiter,
    /// Length in bytes.
    pub(super) len: u64,
}

/// A request for a device that waits for its turn.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) priority: Priority,
    /// Offset on the leaf, in bytes.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) spans: SmallVec<[Span; 1]>,
    /// Time at which the request was asked for.
    pub(super) asked_us: u64,
    pub(super) work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    Read,
    Write {
        parts: SmallVec<[Pages; 1]>,
        epoch: Epoch,
        /// Whether the request is answered only when it outlives a power cut.
        is_durable: bool,
    },
    Trim,
    Flush,
}

impl Job {
    /// Makes a request that one waiter has.
    pub(super) fn new(
        priority: Priority,
        (offset, len): (u64, u64),
        waiter: Waiter,
        work: Work,
        now_us: u64,
    ) -> Self {
        Self {
            priority,
            offset,
            len,
            spans: smallvec![Span { waiter, len }],
            asked_us: now_us,
            work,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Reports whether the request changes the content of its range.
    pub(super) fn is_change(&self) -> bool {
        matches!(self.work, Work::Write { .. } | Work::Trim)
    }

    /// Appends the request that follows this one. Both are reads, or both are writes.
    pub(super) fn append(&mut self, next: Self) {
        if let (
            Work::Write {
                parts,
                epoch,
                is_durable,
            },
            Work::Write {
                parts: more,
                epoch: other,
                is_durable: other_is_durable,
            },
        ) = (&mut self.work, next.work)
        {
            parts.extend(more);
            *epoch = other.min(*epoch);
            *is_durable |= other_is_durable;
        }
        self.len += next.len;
        self.asked_us = self.asked_us.min(next.asked_us);
        self.spans.extend(next.spans);
    }
}

/// The answer of a device on its way to an operation.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) waiter: Waiter,
    pub(super) leaf: LeafId,
    /// Offset of the range on the leaf, in bytes.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) outcome: DeviceOutcome,
}

/// Returns the range and the waiter of each span of a request at `offset`.
pub(super) fn ranges(
    offset: u64,
    spans: SmallVec<[Span; 1]>,
) -> impl Iterator<Item = (u64, u64, Waiter)> {
    let mut at = offset;
    spans.into_iter().map(move |span| {
        let offset = at;
        at += span.len;
        (offset, span.len, span.waiter)
    })
}

/// Joins all parts of a write into one run, without copying whole pages.
pub(super) fn join(parts: &mut SmallVec<[Pages; 1]>) -> Pages {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let len: usize = parts.iter().map(Pages::len).sum();
    let pages: Vec<Page> = parts.iter().flat_map(page_runs::sectors_of).collect();
    Pages::from_pages(pages.into_iter(), 0, len as u32)
}
