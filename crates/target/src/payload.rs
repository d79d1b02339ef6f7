//! The loop's buffers as the protocol sees them: pages on their way out, pages on their way in.

use std::ops::Range;
use std::sync::Arc;

use iscsi::payload::{DataOutBuffer, Payload};
use iscsi::target::{Completion, TaskId};
use scsi::{BlockRange, Task};

use block::budget::Reservation;
use block::{Pages, PagesMut};
use model::figures::CommandKind;
use unit::command::ended::{Data, Ended};
use unit::command::operation::{TaskKey, Token};
use unit::nexus::TaskEntry;
use unit::timing::Receipt;

/// Data-in: blocks as pages, parameter data as bytes.
#[derive(Debug)]
pub(super) enum DataIn {
    /// Blocks, with the memory that they take until they have left. Blocks that their device keeps
    /// anyway take none.
    Pages(
        Pages,
        #[expect(dead_code, reason = "given back when it is dropped")] Option<Reservation>,
    ),
    /// Parameter data.
    Bytes(Arc<[u8]>),
}

impl From<Vec<u8>> for DataIn {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Data> for DataIn {
    #[inline]
    fn from(data: Data) -> Self {
        match data {
            Data::Pages(pages, memory) => Self::Pages(pages, memory),
            Data::Bytes(bytes) => Self::from(bytes),
        }
    }
}

/// Returns the end of a command as the protocol takes it.
#[inline]
pub(super) fn completion(ended: Ended) -> Completion<DataIn> {
    Completion {
        status: ended.status as u8,
        sense: ended.sense,
        data_in: ended.data_in.map(DataIn::from),
        data_out_wanted: ended.data_out_wanted,
        receipt: ended.receipt,
    }
}

/// Returns a task of a session as units know it.
#[inline]
pub(super) fn key(task: TaskId) -> TaskKey {
    TaskKey(task.to_bits())
}

/// Returns the task that units know by this key, as the inverse of [`key`].
#[inline]
pub(super) fn task(key: TaskKey) -> TaskId {
    TaskId::from_bits(key.0)
}

impl Payload for DataIn {
    type Receipt = Receipt;

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Pages(pages, _) => pages.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    #[inline]
    fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let (pages, bytes) = match self {
            Self::Pages(pages, _) => (Some(pages.chunks_in(range)), None),
            Self::Bytes(bytes) => (None, Some(&bytes[range])),
        };
        pages.into_iter().flatten().chain(bytes)
    }

    fn shared(&self) -> Self {
        match self {
            Self::Pages(pages, _) => Self::Pages(pages.clone(), None),
            Self::Bytes(bytes) => Self::Bytes(Arc::clone(bytes)),
        }
    }
}

/// Use that a command will make of its data-out.
#[derive(Debug)]
pub(super) enum Intent {
    /// Writes the data to these blocks.
    Write {
        /// Blocks to write to.
        range: BlockRange,
        /// Whether force unit access is set.
        fua: bool,
        /// Place of the command in the task set.
        entry: TaskEntry,
    },
    /// Gives the data to a task.
    Task {
        /// Kind of the command.
        kind: CommandKind,
        /// Task that takes the data.
        task: Box<dyn Task>,
        /// Place of the command in the task set.
        entry: TaskEntry,
    },
    /// Keeps the data for the operation that waits for its turn in the task set.
    Queued(Token),
}

/// Data-out on its way in.
#[derive(Debug)]
pub(super) struct DataOut {
    /// Pages for the bytes.
    pub pages: PagesMut,
    /// Use of the bytes.
    pub intent: Intent,
    /// Memory that the bytes may take, if their command has not reserved it already.
    pub memory: Option<Reservation>,
}

impl DataOutBuffer for DataOut {
    #[inline]
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.pages.copy_from(offset, bytes);
    }

    fn room(&mut self, offset: usize, len: usize) -> impl Iterator<Item = &mut [u8]> {
        self.pages.chunks_mut(offset, len)
    }

    fn mark_filled(&mut self, offset: usize, len: usize) {
        self.pages.mark_filled(offset, len);
    }
}
