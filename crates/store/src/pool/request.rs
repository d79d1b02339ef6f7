//! What a pool is asked for, and what it answers.

use std::fmt;
use std::ops::Range;

use pages::Pages;

use super::prepared::Prepared;
use super::trim::TrimState;
use crate::catalog::CatalogError;
use crate::format::{Compression, DatasetId};
use crate::map::Change;
use crate::vdev::{ArrayError, DeviceRequest, LeafId, VdevEvent};

/// What the caller calls a request; comes back with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What may be asked of a volume, or, reading only, of a snapshot. Offsets and lengths in bytes;
/// any are served, whole blocks fastest.
#[derive(Clone, Debug)]
pub enum Request {
    /// Answer with `len` bytes.
    Read {
        /// Of whom.
        dataset: DatasetId,
        /// From here on.
        offset: u64,
        /// How many, not 0.
        len: u32,
    },
    /// Write these bytes.
    Write {
        /// To whom.
        dataset: DatasetId,
        /// From here on.
        offset: u64,
        /// Not empty.
        data: Pages,
        /// Answer only when they outlive a power cut.
        durable: bool,
    },
    /// The same with blocks that were made ready.
    WritePrepared {
        /// To whom.
        dataset: DatasetId,
        /// From here on; the beginning of a block, else they are made ready again.
        offset: u64,
        /// They.
        prepared: Prepared,
        /// Answer only when they outlive a power cut.
        durable: bool,
    },
    /// Free these bytes; they read as zeros. Where the pool is too full to write the rest of a
    /// block that the range covers in part, what it covers of that stays as it is (SBC-4, UNMAP:
    /// mapped, and unchanged).
    Unmap {
        /// Of whom.
        dataset: DatasetId,
        /// From here on.
        offset: u64,
        /// How many, not 0.
        len: u64,
        /// Answer only when that outlives a power cut.
        durable: bool,
    },
    /// Write zeros; whole blocks of them are free.
    Clear {
        /// Of whom.
        dataset: DatasetId,
        /// From here on.
        offset: u64,
        /// How many, not 0.
        len: u64,
        /// Answer only when that outlives a power cut.
        durable: bool,
    },
    /// Answer when everything that was answered before outlives a power cut; at once where the
    /// volume's `sync` is `disabled`.
    Flush {
        /// Of whom.
        dataset: DatasetId,
    },
    /// Tell which parts of a range hold data.
    Extents {
        /// Of whom.
        dataset: DatasetId,
        /// From here on.
        offset: u64,
        /// How many bytes, not 0.
        len: u64,
    },
    /// Change blocks of a volume into which a stream is received.
    Receive {
        /// Of whom.
        dataset: DatasetId,
        /// Which try: where another one took over, or it was given up, nothing is changed.
        attempt: u64,
        /// From here on; the beginning of a block.
        offset: u64,
        /// What.
        content: Received,
    },
    /// Tell which blocks of a snapshot differ from those of an older one.
    Changes(WantedChanges),
    /// Answer with a block as it lies on the devices.
    Stored {
        /// Of which snapshot.
        dataset: DatasetId,
        /// Its number.
        block: u64,
    },
}

/// What a stream brings.
#[derive(Clone, Debug)]
pub enum Received {
    /// Whole blocks.
    Data(Pages),
    /// As many bytes of holes.
    Holes(u64),
}

/// Which differences are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedChanges {
    /// The older snapshot; without one all blocks differ that are no holes.
    pub from: Option<DatasetId>,
    /// The snapshot.
    pub to: DatasetId,
    /// From this block on.
    pub start: u64,
}

/// Some differences, in the order of block numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// They; none behind the snapshot's end.
    pub changes: Vec<Change>,
    /// Where there may be more; `None`: these are all.
    pub next: Option<u64>,
}

/// A block as it lies on the devices.
#[derive(Clone, Debug)]
pub struct Stored {
    /// How it is packed.
    pub compression: Compression,
    /// What of; whole sectors.
    pub payload: Pages,
}

/// How a request ended well.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// The bytes.
    Data(Pages),
    /// Runs of a non-empty part of the range, from its start on: length in bytes, and whether it
    /// holds data.
    Extents(Vec<(u64, bool)>),
    /// Differences.
    Changes(Changes),
    /// The block.
    Stored(Stored),
}

/// The kind of a [`PoolError`]: what the caller does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolErrorKind {
    /// The request makes no sense for that dataset.
    Invalid,
    /// Some of it lies behind the dataset's end, which may have been moved meanwhile.
    OutOfRange,
    /// There is no such dataset.
    NotFound,
    /// The dataset cannot be written.
    ReadOnly,
    /// A stream is being received into it.
    Receiving,
    /// It is not what its newest snapshot is, and a stream goes on from that.
    Modified,
    /// The pool has no space left for it.
    NoSpace,
    /// The data cannot be read: no copy of it is right. It will not get better by itself.
    Damaged,
    /// Devices failed, or are away; it may work when they come back.
    Device,
    /// The pool takes no changes since some were lost; see its status.
    Suspended,
    /// The catalogue refused it.
    Refused,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct PoolError {
    /// What to do about it.
    pub kind: PoolErrorKind,
    /// What was wrong.
    pub context: String,
    /// What the devices said.
    pub source: Option<ArrayError>,
    /// Blocks of the volume or snapshot that cannot be read since this cannot: of a node of its map
    /// all that it may lead to.
    pub lost: Option<Range<u64>>,
}

impl PoolError {
    /// An error of the pool itself.
    pub fn new(kind: PoolErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
            lost: None,
        }
    }

    /// The same where that leads to these blocks.
    pub(super) fn with_lost(self, blocks: Range<u64>) -> Self {
        let is_unread = matches!(self.kind, PoolErrorKind::Damaged | PoolErrorKind::Device);
        let lost = is_unread.then_some(blocks);
        Self { lost, ..self }
    }

    /// What came of an array's error.
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

/// What came of calls, to be taken by the caller.
#[derive(Debug, Default)]
pub struct Output {
    /// For the devices.
    pub requests: Vec<DeviceRequest>,
    /// Requests that ended.
    pub answers: Vec<(RequestId, Result<Answer, PoolError>)>,
    /// What an administrator should know.
    pub events: Vec<Event>,
}

/// Bytes of a volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Whose.
    pub dataset: DatasetId,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: u64,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// To a device or a vdev.
    Vdev(VdevEvent),
    /// A checkpoint was made.
    Checkpoint {
        /// Its epoch.
        epoch: u64,
    },
    /// The pool takes no changes any more.
    Suspended {
        /// Why.
        reason: String,
    },
    /// A log vdev failed, and is not used any more: changes become durable among the blocks, as
    /// they do without one. Nothing is lost.
    LogFailed {
        /// Its number.
        vdev: u16,
        /// Why.
        reason: String,
    },
    /// A read, scrub or resilver found no right copy of a block: these bytes of a volume or
    /// snapshot cannot be read. Where it is a node of its map, they are all that it may lead to.
    Unrecoverable(Span),
    /// A leaf is older than the pool. It does not count until it is rebuilt.
    Behind {
        /// Which, and by how much.
        behind: super::open::Behind,
    },
    /// Of all labels only one could be read. What it leads to is whole, and all were written anew.
    LabelsLost,
    /// A device is shorter than it was.
    Short {
        /// Which, and by how much.
        short: super::open::Short,
    },
    /// A leaf lacked something of the log that the others had; it was written to it when the pool
    /// was opened.
    CaughtUp {
        /// Its position in the array.
        leaf: LeafId,
        /// How many blocks and records.
        blocks: u64,
    },
    /// What leads to other blocks is written once only from now on where it was to be written
    /// twice: a checkpoint found no room for second copies.
    WrittenOnce {
        /// Blocks of that checkpoint.
        blocks: u64,
    },
    /// A spare stands in for a leaf that failed: its device is this leaf's from now on.
    SpareInUse {
        /// Its position in the array.
        leaf: LeafId,
        /// The spare.
        guid: u64,
    },
    /// A trim that somebody asked for begins, rests or ends.
    Trim {
        /// The guid of the leaf.
        leaf: u64,
        /// Its state from now on.
        state: TrimState,
        /// Bytes that the device was told of.
        bytes: u64,
    },
    /// A device said that it does not trim.
    TrimUnsupported {
        /// The guid of the leaf.
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
