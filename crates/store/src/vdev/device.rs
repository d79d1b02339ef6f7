//! Requests to a leaf's device, and its answers.

use std::fmt;

use pages::Pages;

/// Position of a leaf in its array. It is stable while the array lives, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u32);

/// Number of one device request, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// Work of a device. Offsets and lengths are in bytes, multiples of 4096.
#[derive(Clone, Debug)]
pub enum DeviceOp {
    /// The device answers with exactly `len` bytes.
    Read {
        /// Byte of the leaf at which the range begins.
        offset: u64,
        /// Number of bytes.
        len: u32,
    },
    /// The device writes all of `data`.
    Write {
        /// Byte of the leaf at which the range begins.
        offset: u64,
        /// Data to write, in whole pages wherever the array was given whole pages.
        data: Pages,
        /// Whether the device answers only when the write outlives a power cut, whatever happens to
        /// other writes (FUA).
        durable: bool,
    },
    /// The device makes durable all requests that it answered before this one was asked.
    Flush,
    /// The range is free: its bytes no longer matter.
    Trim {
        /// Byte of the leaf at which the range begins.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

/// A request for a device. Requests of a leaf may be done in any order.
#[derive(Clone, Debug)]
pub struct DeviceRequest {
    /// Number of the request, to be named in [`Array::completed`](super::Array::completed).
    pub io: IoId,
    /// Leaf whose device is asked.
    pub leaf: LeafId,
    /// Work to do.
    pub op: DeviceOp,
}

/// Kind of failure of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceErrorKind {
    /// The device cannot read or write this range. The rest of the device may be well.
    Medium,
    /// The device works no more.
    Failed,
    /// The device is not there any more.
    Gone,
    /// The device did not answer within [`Limits::give_up_us`](super::Limits::give_up_us).
    TimedOut,
    /// The device has no room for the written data (a sparse file, a thin volume).
    NoSpace,
    /// The device does not support the request (a trim).
    Unsupported,
    /// The device is reserved by another host.
    Reserved,
}

/// Error with which a device failed a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// Kind of the error, which decides what is done about it.
    pub kind: DeviceErrorKind,
    /// Message of the system.
    pub context: String,
}

impl DeviceError {
    /// Makes an error of this kind.
    pub fn new(kind: DeviceErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DeviceErrorKind::Medium => "medium error",
            DeviceErrorKind::Failed => "device failed",
            DeviceErrorKind::Gone => "device is gone",
            DeviceErrorKind::TimedOut => "device did not answer in time",
            DeviceErrorKind::NoSpace => {
                "device has no room there: it has shrunk, or what it lies on is full"
            }
            DeviceErrorKind::Unsupported => "device does not support this",
            DeviceErrorKind::Reserved => "another host has reserved the device",
        };
        write!(f, "{kind}: {}", self.context)
    }
}

impl std::error::Error for DeviceError {}

/// Answer of a device. A read returns exactly the bytes asked for; all other requests return no
/// bytes.
pub type DeviceOutcome = Result<Pages, DeviceError>;
