//! Results of calls to an array: requests for devices, ends of operations, and events.

use std::fmt;

use pages::Pages;

use super::device::{DeviceError, DeviceErrorKind, DeviceRequest, LeafId};
use super::status::VdevState;
use crate::format::{Address, Epoch};

/// Results of a call.
#[derive(Debug, Default)]
pub struct Output {
    /// Requests for the devices.
    pub requests: Vec<DeviceRequest>,
    /// Operations that are done, with their tags.
    pub done: Vec<(u64, ArrayDone)>,
    /// Events that an administrator, or the pool, must know.
    pub events: Vec<VdevEvent>,
}

/// Result of an operation.
#[derive(Debug)]
pub enum ArrayDone {
    /// A read of a block or of a leaf ended: its bytes, verified.
    Read(Result<Pages, ArrayError>),
    /// A write of blocks, or to a leaf, ended.
    Written(Result<(), ArrayError>),
    /// A flush ended: all writes that were done before it was asked for are durable.
    Flushed(Result<(), ArrayError>),
    /// A trim ended, with the leaves whose devices did not do it.
    Trimmed(Result<Vec<(LeafId, DeviceError)>, ArrayError>),
    /// A scrub of one block ended.
    Scrubbed(Result<Scrubbed, ArrayError>),
    /// The rebuild of a block on a leaf ended.
    Rebuilt(Result<(), ArrayError>),
}

/// Findings of a scrub in one block that it could read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Number of copies or columns that were wrong or unreadable. If they may be rewritten, they
    /// also were so when they were read again.
    pub bad: u32,
    /// Number of bad copies that were rewritten. It is less than `bad` if a leaf does not take the
    /// write.
    pub repaired: u32,
}

/// Kind of reason why an operation could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArrayErrorKind {
    /// The address or the leaf is not in the array, or the bytes do not fit.
    OutOfRange,
    /// Enough devices that should have the block answered, and no choice of their bytes is the
    /// block: it does not exist.
    Checksum,
    /// Devices answered, and none of the choices that were tried is the block. There are more
    /// choices.
    Undecided,
    /// Devices answered that they cannot read the block, and every leaf that should have it was
    /// asked.
    Medium,
    /// The operation failed on too many devices.
    Device,
    /// The operation needs leaves of which too many are away.
    Unavailable,
    /// A flush failed without redundancy: writes that were answered as done are lost.
    Lost,
    /// The leaf on which a block was to be rebuilt did not take it. The block itself was found.
    NotRebuilt,
    /// The block's place was written while the block was read. So the block was freed meanwhile,
    /// and the read says nothing about the devices. A caller that still wants the block looks again
    /// where it lies.
    Overwritten,
}

/// Reason why an operation could not be done, and its place.
#[derive(Clone, Debug)]
pub struct ArrayError {
    /// Kind of the reason, which decides what the caller does.
    pub kind: ArrayErrorKind,
    /// Block or leaf of the operation.
    pub context: String,
    /// Last error of a device, if a device was involved.
    pub source: Option<DeviceError>,
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ArrayErrorKind::OutOfRange => "outside the vdevs",
            ArrayErrorKind::Checksum => "no copy has the right checksum",
            ArrayErrorKind::Undecided => {
                "no combination of columns that was tried has the right checksum"
            }
            ArrayErrorKind::Medium => "the devices cannot read it",
            ArrayErrorKind::Device => "too many devices failed",
            ArrayErrorKind::Unavailable => "too many devices are missing",
            ArrayErrorKind::Lost => "unflushed writes are lost",
            ArrayErrorKind::NotRebuilt => "the device that is rebuilt did not take it",
            ArrayErrorKind::Overwritten => "it was overwritten meanwhile",
        };
        write!(f, "{}: {kind}", self.context)?;
        self.source
            .as_ref()
            .map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

impl std::error::Error for ArrayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl ArrayError {
    pub(super) fn new(kind: ArrayErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
        }
    }

    pub(super) fn because(self, source: Option<DeviceError>) -> Self {
        Self { source, ..self }
    }

    pub(super) fn outside(address: Address, sectors: u16) -> Self {
        let context = sectors_at(sectors.into(), address);
        Self::new(ArrayErrorKind::OutOfRange, context)
    }
}

/// Words a place for an error.
pub(super) fn sectors_at(sectors: usize, address: Address) -> String {
    match sectors {
        1 => format!("the sector at {address}"),
        _ => format!("the {sectors} sectors at {address}"),
    }
}

/// An event of a leaf or a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VdevEvent {
    /// A leaf's state changed. If the leaf missed writes
    /// ([`Array::missing`](super::Array::missing)), that must be made durable in the labels of the
    /// others.
    LeafState {
        /// Leaf that changed.
        leaf: LeafId,
        /// State from now on.
        state: VdevState,
        /// Reason of the change.
        reason: String,
    },
    /// A leaf that was waited for answers again. Operations that need the leaf may be tried once
    /// more.
    Answers {
        /// Leaf that answers.
        leaf: LeafId,
    },
    /// A device failed a request.
    DeviceError {
        /// Leaf of the device.
        leaf: LeafId,
        /// Offset on the leaf, in bytes.
        offset: u64,
        /// Kind of failure.
        kind: DeviceErrorKind,
    },
    /// A device returned wrong bytes without an error.
    ChecksumError {
        /// Leaf of the device.
        leaf: LeafId,
        /// Offset on the leaf, in bytes.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Right bytes were written over bad ones.
    Repaired {
        /// Leaf that was repaired.
        leaf: LeafId,
        /// Offset on the leaf, in bytes.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A scrub did not bring a block onto a leaf. Bad bytes there could not be rewritten, or the
    /// leaf does not tell its content.
    Unrepaired {
        /// Leaf that was not repaired.
        leaf: LeafId,
        /// Offset on the leaf, in bytes.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Epoch of the block.
        birth: Epoch,
    },
    /// A device is slow. Its read was also asked of other leaves.
    Slow {
        /// Leaf of the device.
        leaf: LeafId,
    },
    /// Writes that were answered as done are lost in this top-level vdev. All its flushes fail
    /// until [`Array::clear`](super::Array::clear).
    Lost {
        /// Number of the top-level vdev.
        vdev: u16,
    },
}
