//! What is asked of a leaf's device, and what it answers.

use std::fmt;

use pages::Pages;

/// A leaf's position in its array: stable while the array lives, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u32);

/// One device request; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// What a device is to do; offsets and lengths in bytes, multiples of 4096.
#[derive(Clone, Debug)]
pub enum DeviceOp {
    /// Answer with exactly `len` bytes.
    Read {
        /// From this byte of the leaf on.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// Write all of `data`.
    Write {
        /// From this byte of the leaf on.
        offset: u64,
        /// What; whole pages wherever the array was given whole pages.
        data: Pages,
        /// Answer only when it outlives a power cut, whatever happens to other writes (FUA).
        durable: bool,
    },
    /// Make durable all that was answered before this was asked.
    Flush,
    /// The range is free: its bytes no longer matter.
    Trim {
        /// From this byte of the leaf on.
        offset: u64,
        /// How many.
        len: u64,
    },
}

/// A request for a device. Requests of a leaf may be done in any order.
#[derive(Clone, Debug)]
pub struct DeviceRequest {
    /// To be named in [`Array::completed`](super::Array::completed).
    pub io: IoId,
    /// Whose device.
    pub leaf: LeafId,
    /// What to do.
    pub op: DeviceOp,
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
    /// No answer within [`Limits::give_up_us`](super::Limits::give_up_us).
    TimedOut,
    /// The device has no room for what was written (a sparse file, a thin volume).
    NoSpace,
    /// The device does not do this (a trim).
    Unsupported,
    /// Another host has reserved the device for itself.
    Reserved,
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

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DeviceErrorKind::Medium => "medium error",
            DeviceErrorKind::Failed => "device failed",
            DeviceErrorKind::Gone => "device is gone",
            DeviceErrorKind::TimedOut => "device did not answer in time",
            DeviceErrorKind::NoSpace => "device has no space left",
            DeviceErrorKind::Unsupported => "device does not support this",
            DeviceErrorKind::Reserved => "another host has reserved the device",
        };
        write!(f, "{kind}: {}", self.context)
    }
}

impl std::error::Error for DeviceError {}

/// A device's answer. Reads: exactly the bytes asked for; all others: nothing.
pub type DeviceOutcome = Result<Pages, DeviceError>;
