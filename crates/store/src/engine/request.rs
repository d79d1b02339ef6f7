//! Requests that a pool takes, and its answers.

use std::fmt;
use std::ops::Range;

use pages::Pages;

use super::trim::record::TrimState;
use crate::catalog::CatalogError;
use crate::engine::io::prepared::Prepared;
use crate::format::{Compression, DatasetId};
use crate::map::Change;
use crate::vdev::{ArrayError, DeviceRequest, LeafId, VdevEvent};

/// Caller's number for a request, which comes back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Request for a volume; a snapshot only takes requests that read. Offsets and lengths are in
/// bytes. Any are served, whole blocks fastest.
#[derive(Clone, Debug)]
pub enum Request {
    /// Answers with `len` bytes.
    Read {
        /// Volume or snapshot to read.
        dataset: DatasetId,
        /// First byte to read.
        offset: u64,
        /// Bytes to read, not 0.
        len: u32,
    },
    /// Writes `data`.
    Write {
        /// Volume to write.
        dataset: DatasetId,
        /// First byte to write.
        offset: u64,
        /// Bytes to write, not empty.
        data: Pages,
        /// Whether to answer only when the write outlives a power cut.
        durable: bool,
    },
    /// Writes blocks that were prepared in advance.
    WritePrepared {
        /// Volume to write.
        dataset: DatasetId,
        /// First byte to write. If a block does not begin here, the blocks are prepared again.
        offset: u64,
        /// Blocks to write.
        prepared: Prepared,
        /// Whether to answer only when the write outlives a power cut.
        durable: bool,
    },
    /// Frees bytes, which then read as zeros. The range may cover a block in part, and the pool may
    /// be too full to write the rest of that block. Then the covered part stays as it is (SBC-4,
    /// UNMAP: mapped, and unchanged).
    Unmap {
        /// Volume to change.
        dataset: DatasetId,
        /// First byte to free.
        offset: u64,
        /// Bytes to free, not 0.
        len: u64,
        /// Whether to answer only when the change outlives a power cut.
        durable: bool,
    },
    /// Writes zeros; whole blocks of them become free.
    Clear {
        /// Volume to change.
        dataset: DatasetId,
        /// First byte to write.
        offset: u64,
        /// Bytes to write, not 0.
        len: u64,
        /// Whether to answer only when the change outlives a power cut.
        durable: bool,
    },
    /// Answers when everything that was answered before outlives a power cut; at once if the
    /// volume's `sync` is `disabled`.
    Flush {
        /// Volume to flush.
        dataset: DatasetId,
    },
    /// Reports which parts of a range hold data.
    Extents {
        /// Volume or snapshot that is asked about.
        dataset: DatasetId,
        /// First byte of the range.
        offset: u64,
        /// Bytes of the range, not 0.
        len: u64,
    },
    /// Changes blocks of a volume into which a stream is received.
    Receive {
        /// Volume to change.
        dataset: DatasetId,
        /// Number of the attempt. If another one took over, or this one was given up, nothing is
        /// changed.
        attempt: u64,
        /// First byte to change, the beginning of a block.
        offset: u64,
        /// New contents.
        content: Received,
    },
    /// Reports which blocks of a snapshot differ from those of an older one.
    Changes(WantedChanges),
    /// Answers with a block as it lies on the devices.
    Stored {
        /// Snapshot that has the block.
        dataset: DatasetId,
        /// Number of the block.
        block: u64,
    },
}

/// Contents that a stream brings.
#[derive(Clone, Debug)]
pub enum Received {
    /// Data of whole blocks.
    Data(Pages),
    /// Holes; the number of their bytes.
    Holes(u64),
}

/// Question about differences between snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedChanges {
    /// Older snapshot; without one, all blocks differ that are no holes.
    pub from: Option<DatasetId>,
    /// Newer snapshot.
    pub to: DatasetId,
    /// First block to compare.
    pub start: u64,
}

/// Differences, in the order of block numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Differences found; there are none after the snapshot's end.
    pub changes: Vec<Change>,
    /// Block from which there may be more differences; `None` if these are all.
    pub next: Option<u64>,
}

/// Block as it lies on the devices.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Method by which the block is compressed.
    pub compression: Compression,
    /// Stored bytes of the block, whole sectors.
    pub payload: Pages,
}

/// Result of a request that succeeded.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The request is done.
    Done,
    /// Bytes that were read.
    Data(Pages),
    /// Runs of a non-empty part of the range, from its start on: length in bytes, and whether the
    /// run holds data.
    Extents(Vec<(u64, bool)>),
    /// Differences between snapshots.
    Changes(Changes),
    /// Stored block.
    Stored(Stored),
}

/// Kind of a [`PoolError`], which decides what the caller does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolErrorKind {
    /// The request makes no sense for the dataset.
    Invalid,
    /// Part of the range lies beyond the dataset's end, which may have been moved meanwhile.
    OutOfRange,
    /// The dataset does not exist.
    NotFound,
    /// The dataset cannot be written.
    ReadOnly,
    /// The volume is receiving a stream.
    Receiving,
    /// The volume differs from its newest snapshot, which the stream builds on.
    Modified,
    /// The pool has no space left for the request.
    NoSpace,
    /// The data cannot be read: no copy of it is right. Trying again does not help.
    Damaged,
    /// Devices failed, or are away. The request may work when they come back.
    Device,
    /// The pool takes no changes since some were lost; its status says more.
    Suspended,
    /// The catalogue refused the request.
    Refused,
}

/// Reason why a request failed.
#[derive(Clone, Debug)]
pub struct PoolError {
    /// Kind of the error.
    pub kind: PoolErrorKind,
    /// Text that says what was wrong.
    pub context: String,
    /// Error of the devices.
    pub source: Option<ArrayError>,
    /// Blocks of the volume or snapshot that cannot be read because of this error. For a node of
    /// its map: all blocks that it may lead to.
    pub lost: Option<Range<u64>>,
}

impl PoolError {
    /// Makes an error of the pool itself.
    pub fn new(kind: PoolErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
            lost: None,
        }
    }

    /// Adds the blocks that the unreadable node leads to.
    pub(super) fn with_lost(self, blocks: Range<u64>) -> Self {
        let is_unread = matches!(self.kind, PoolErrorKind::Damaged | PoolErrorKind::Device);
        let lost = is_unread.then_some(blocks);
        Self { lost, ..self }
    }

    /// Makes the error of a request from an array's error.
    pub(super) fn of_array(error: ArrayError, context: impl Into<String>) -> Self {
        use crate::vdev::ArrayErrorKind as Array;
        let kind = match error.kind {
            Array::OutOfRange
            | Array::Checksum
            | Array::Undecided
            | Array::Medium
            | Array::Overwritten => PoolErrorKind::Damaged,
            Array::Device | Array::Unavailable | Array::NotRebuilt => PoolErrorKind::Device,
            Array::Lost => PoolErrorKind::Suspended,
        };
        Self {
            kind,
            context: context.into(),
            source: Some(error),
            lost: None,
        }
    }
}

impl From<CatalogError> for PoolError {
    fn from(error: CatalogError) -> Self {
        Self::new(PoolErrorKind::Refused, error.to_string())
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        self.source
            .as_ref()
            .map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Results of calls, to be taken by the caller.
#[derive(Debug, Default)]
pub struct Output {
    /// Requests for the devices.
    pub requests: Vec<DeviceRequest>,
    /// Requests that ended, with their answers.
    pub answers: Vec<(RequestId, Result<Answer, PoolError>)>,
    /// Events for the administrator.
    pub events: Vec<Event>,
}

/// Range of bytes of a volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Volume or snapshot that has the bytes.
    pub dataset: DatasetId,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Event that an administrator should know.
#[derive(Clone, Debug)]
pub enum Event {
    /// A device or a vdev has an event.
    Vdev(VdevEvent),
    /// A checkpoint was made.
    Checkpoint {
        /// Epoch of the checkpoint.
        epoch: u64,
    },
    /// The pool takes no changes any more.
    Suspended {
        /// Reason for the suspension.
        reason: String,
    },
    /// A log vdev failed, and is not used any more. Changes become durable among the blocks, as
    /// without a log vdev. No data is lost.
    LogFailed {
        /// Number of the vdev.
        vdev: u16,
        /// Reason for the failure.
        reason: String,
    },
    /// A read, scrub or resilver found no right copy of a block, so these bytes of a volume or
    /// snapshot cannot be read. For a node of its map, they are all bytes that it may lead to.
    Unrecoverable(Span),
    /// A leaf is older than the pool. It does not count until it is rebuilt.
    Behind {
        /// Leaf that is behind, and by how much.
        behind: super::open::leaves_behind::Behind,
    },
    /// The labels were lost except one, which could be read. The data that it leads to is whole,
    /// and all labels were rewritten.
    LabelsLost,
    /// A device is shorter than it was.
    Short {
        /// Device that is too short, and the bytes it lacks.
        short: super::open::sizes::Short,
    },
    /// A leaf lacked a part of the log that the others had. The part was written to the leaf when
    /// the pool was opened.
    CaughtUp {
        /// Position of the leaf in the array.
        leaf: LeafId,
        /// Number of blocks and records written.
        blocks: u64,
    },
    /// A checkpoint found no room for second copies: some metadata is now written once that should
    /// lie twice.
    WrittenOnce {
        /// Blocks of that checkpoint.
        blocks: u64,
    },
    /// A spare stands in for a leaf that failed. Its device is this leaf's from now on.
    SpareInUse {
        /// Position of the leaf in the array.
        leaf: LeafId,
        /// Guid of the spare.
        guid: u64,
    },
    /// A trim that a user asked for begins, pauses or ends.
    Trim {
        /// Guid of the leaf.
        leaf: u64,
        /// State of the trim from now on.
        state: TrimState,
        /// Bytes that the device was told are free.
        bytes: u64,
    },
    /// A device reported that it cannot trim.
    TrimUnsupported {
        /// Guid of the leaf.
        leaf: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdev::ArrayErrorKind;

    #[test]
    fn what_devices_cannot_read_is_damage_and_what_is_away_is_not() {
        let of = |kind| {
            let error = ArrayError {
                kind,
                context: "a block".to_owned(),
                source: None,
            };
            PoolError::of_array(error, "a read").kind
        };
        assert_eq!(of(ArrayErrorKind::Medium), PoolErrorKind::Damaged);
        assert_eq!(of(ArrayErrorKind::Checksum), PoolErrorKind::Damaged);
        assert_eq!(of(ArrayErrorKind::Device), PoolErrorKind::Device);
        assert_eq!(of(ArrayErrorKind::Unavailable), PoolErrorKind::Device);
    }
}
