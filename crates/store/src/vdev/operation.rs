//! What an array is asked for and what it answers: the types around [`Array`](super::Array), and the
//! operations under way in it.

use std::fmt;
use std::sync::Arc;

use pages::Pages;

use super::device::{DeviceError, DeviceErrorKind, DeviceOutcome, DeviceRequest, LeafId};
use super::double::DoubleOperation;
use super::flush::FlushOperation;
use super::labels::LabelOperation;
use super::read::ReadOperation;
use super::status::State;
use super::trim::TrimOperation;
use super::write::WriteOperation;
use crate::checksum;
use crate::format::{Address, Algorithm, Epoch, Pointer};
use crate::vdev::heal::repair::RepairOperation;

/// How a block's bytes prove that they are the right ones.
#[derive(Clone)]
pub enum Verify {
    /// They do not: what a device returns is believed.
    None,
    /// They hash to this.
    Checksum {
        /// With what.
        algorithm: Algorithm,
        /// To what.
        checksum: u128,
        /// Only the low 64 bits of it are known: the block lies twice.
        is_half: bool,
    },
    /// They carry their own proof (records of the log), which this checks. In which epoch they were written is
    /// not known before they are found: in [`Block::birth`] or later.
    Record(Arc<dyn Fn(&Pages) -> bool + Send + Sync>),
}

impl Verify {
    /// Whether wrong bytes are told from right ones.
    pub fn is_proof(&self) -> bool {
        !matches!(
            self,
            Self::None
                | Self::Checksum {
                    algorithm: Algorithm::Off,
                    ..
                }
        )
    }

    pub(super) fn accepts(&self, payload: &Pages) -> bool {
        match self {
            Self::Checksum {
                algorithm,
                checksum,
                is_half,
            } if self.is_proof() => {
                let made = checksum::of(*algorithm, payload);
                made == *checksum || *is_half && made as u64 == *checksum as u64
            }
            Self::None | Self::Checksum { .. } => true,
            Self::Record(proof) => proof(payload),
        }
    }
}

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Checksum {
                algorithm,
                checksum,
                ..
            } => {
                write!(f, "{algorithm:?}({checksum:032x})")
            }
            Self::Record(_) => f.write_str("Record"),
        }
    }
}

/// A block to be read.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its first sector.
    pub address: Address,
    /// Where it lies once more.
    pub second: Option<Address>,
    /// How many sectors of payload.
    pub sectors: u16,
    /// When it was written: leaves that missed that epoch are not asked, except where nothing else
    /// is left and `verify` proves what they return.
    pub birth: Epoch,
    /// What its bytes must be.
    pub verify: Verify,
}

impl From<&Pointer> for Block {
    fn from(pointer: &Pointer) -> Self {
        Self {
            address: pointer.address,
            second: pointer.second(),
            sectors: pointer.sectors,
            birth: pointer.birth,
            verify: Verify::Checksum {
                algorithm: pointer.algorithm,
                checksum: pointer.checksum,
                is_half: pointer.is_double(),
            },
        }
    }
}

impl Block {
    /// A block that must be there, also where its readers would not ask whether it is right.
    pub fn verified(pointer: &Pointer) -> Self {
        let algorithm = match pointer.algorithm {
            Algorithm::Off => Algorithm::Xxh3,
            algorithm => algorithm,
        };
        Self::from(&Pointer {
            algorithm,
            ..*pointer
        })
    }

    /// One of its copies, by itself.
    pub(super) fn copy_at(&self, address: Address) -> Self {
        Self {
            address,
            second: None,
            ..self.clone()
        }
    }
}

/// Who waits for it. Earlier ones go first, and each class has its own bound in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A read that somebody waits for.
    SyncRead,
    /// A write that somebody waits for.
    SyncWrite,
    /// Data of a group or a checkpoint.
    AsyncWrite,
    /// Scrub, resilver, repair, prefetch, trim.
    Background,
}

/// What a call produced.
#[derive(Debug, Default)]
pub struct Output {
    /// For the devices.
    pub requests: Vec<DeviceRequest>,
    /// Operations that are done, by their tags.
    pub done: Vec<(u64, ArrayDone)>,
    /// What an administrator, or the pool, must know.
    pub events: Vec<VdevEvent>,
}

/// How an operation ended.
#[derive(Debug)]
pub enum ArrayDone {
    /// A read of a block or of a leaf: its bytes, verified.
    Read(Result<Pages, ArrayError>),
    /// A write of blocks, or to a leaf.
    Written(Result<(), ArrayError>),
    /// A flush: all writes done before it was asked for are durable.
    Flushed(Result<(), ArrayError>),
    /// A trim, and which leaves' devices did not do it.
    Trimmed(Result<Vec<(LeafId, DeviceError)>, ArrayError>),
    /// A scrub of one block.
    Scrubbed(Result<Scrubbed, ArrayError>),
    /// A block was rebuilt on a leaf.
    Rebuilt(Result<(), ArrayError>),
}

/// What a scrub found in one block that it could read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Copies or columns that were wrong or unreadable; where they may be rewritten, also when they were read again.
    pub bad: u32,
    /// Those that were rewritten. Less than `bad` where a leaf does not take the write.
    pub repaired: u32,
}

/// Why an operation could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArrayErrorKind {
    /// The address or the leaf is not in the array, or the bytes do not fit.
    OutOfRange,
    /// Devices answered, enough of those that should have the block, and no choice of their bytes is it:
    /// it is not there.
    Checksum,
    /// Devices answered, and none of the choices of their bytes that were tried is the block; there are more.
    Undecided,
    /// Devices are there and say that they cannot read it, and nobody who should have it was not asked.
    Medium,
    /// Too many devices failed it.
    Device,
    /// Too many leaves are away.
    Unavailable,
    /// A flush failed where there was no redundancy: writes answered as done are lost.
    Lost,
    /// The leaf on which a block was to be rebuilt did not take it. The block itself was found.
    NotRebuilt,
    /// Something else was written in the block's place while it was read: it was freed meanwhile, so this says nothing
    /// about the devices. Who still wants it looks again where it lies.
    Overwritten,
}

/// Why an operation could not be done, and where.
#[derive(Clone, Debug)]
pub struct ArrayError {
    /// What the caller does about it.
    pub kind: ArrayErrorKind,
    /// Which block or leaf.
    pub context: String,
    /// The last error of a device, where one had to do with it.
    pub source: Option<DeviceError>,
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ArrayErrorKind::OutOfRange => "outside of the vdevs",
            ArrayErrorKind::Checksum => "no copy has the right checksum",
            ArrayErrorKind::Undecided => {
                "no choice of columns that was tried has the right checksum"
            }
            ArrayErrorKind::Medium => "the devices cannot read it",
            ArrayErrorKind::Device => "too many devices failed",
            ArrayErrorKind::Unavailable => "too many leaves are away",
            ArrayErrorKind::Lost => "unflushed writes are lost",
            ArrayErrorKind::NotRebuilt => "the leaf that is rebuilt did not take it",
            ArrayErrorKind::Overwritten => "something else was written there meanwhile",
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
        Self::new(
            ArrayErrorKind::OutOfRange,
            format!("{sectors} sectors at {address}"),
        )
    }
}

/// Something happened to a leaf or a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VdevEvent {
    /// A leaf's state changed. Where it missed writes ([`Array::missing`](super::Array::missing)),
    /// that must be made durable in the labels of the others.
    LeafState {
        /// Which.
        leaf: LeafId,
        /// From now on.
        state: State,
        /// Why.
        reason: String,
    },
    /// A leaf that was waited for answers again: what needs it may be tried once more.
    Answers {
        /// Which.
        leaf: LeafId,
    },
    /// A device failed a request.
    DeviceError {
        /// Whose.
        leaf: LeafId,
        /// Where on it, in bytes.
        offset: u64,
        /// What kind of failure.
        kind: DeviceErrorKind,
    },
    /// A device returned wrong bytes without an error.
    ChecksumError {
        /// Whose.
        leaf: LeafId,
        /// Where on it, in bytes.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Right bytes were written over bad ones.
    Repaired {
        /// Where.
        leaf: LeafId,
        /// Where on it, in bytes.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// A scrub did not bring a block onto a leaf: what was bad there could not be written anew, or the leaf does not tell
    /// what is there.
    Unrepaired {
        /// Where.
        leaf: LeafId,
        /// Where on it, in bytes.
        offset: u64,
        /// How many.
        len: u64,
        /// The epoch of the block.
        birth: Epoch,
    },
    /// A device is slow: its read was also asked of others.
    Slow {
        /// Which.
        leaf: LeafId,
    },
    /// Writes answered as done are lost in this top-level vdev: all its flushes fail until
    /// [`Array::clear`](super::Array::clear).
    Lost {
        /// Its number.
        vdev: u16,
    },
}

/// An operation under way.
#[derive(Debug)]
pub(super) enum Operation {
    /// In a place of its own: it is taken out and put back at each answer.
    Read(Box<ReadOperation>),
    /// A block that lies twice, each copy of which is read by an operation of its own.
    Double(Box<DoubleOperation>),
    Write(WriteOperation),
    Repair(RepairOperation),
    Flush(FlushOperation),
    Trim(TrimOperation),
    Label(LabelOperation),
}

/// Whom an operation on a block answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The caller, by its tag.
    Caller(u64),
    /// The operation on a block that lies twice, of one of whose copies this is.
    Double { id: u64, copy: usize },
    /// Nobody waits for it.
    Nobody,
}

/// Whom the answer of a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) operation: u64,
    /// Which of its requests, where it has several to tell apart.
    pub(super) column: u16,
    pub(super) copy: u16,
}

impl Waiter {
    pub(super) fn new(operation: u64) -> Self {
        Self {
            operation,
            column: 0,
            copy: 0,
        }
    }
}

/// The answer of a device on its way to an operation.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) waiter: Waiter,
    pub(super) leaf: LeafId,
    /// The range on the leaf, in bytes.
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) outcome: DeviceOutcome,
}
