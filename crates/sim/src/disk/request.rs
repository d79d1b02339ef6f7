//! What is asked of a disk, and what it answers: the shapes of the store's vdevs.

use pages::Pages;

/// What a device is to do; offsets and lengths in bytes, multiples of 4096.
#[derive(Clone, Debug)]
pub enum DeviceOp {
    /// Answer with exactly `len` bytes.
    Read {
        /// From this byte on.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Write all of `data`.
    Write {
        /// From this byte on.
        offset: u64,
        /// What.
        data: Pages,
    },
    /// Make durable all that was answered before this was asked.
    Flush,
    /// The range is free: its bytes no longer matter.
    Trim {
        /// From this byte on.
        offset: u64,
        /// How many.
        len: u64,
    },
}

/// How a device failed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceErrorKind {
    /// This range cannot be read or written; the rest may be well.
    Medium,
    /// The device works no more.
    Failed,
    /// The device is not there any more.
    Gone,
}

/// Why a device failed a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// What is to be done about it.
    pub kind: DeviceErrorKind,
    /// What the system said.
    pub context: String,
}

impl DeviceError {
    /// An error of this kind.
    pub fn new(kind: DeviceErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
        }
    }
}

/// A device's answer. Reads: exactly the bytes asked for; all others: nothing.
pub type DeviceOutcome = Result<Pages, DeviceError>;
