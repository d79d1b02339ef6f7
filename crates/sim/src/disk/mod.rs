//! A simulated disk for the store: everything a real one may do to data, decided by a seed.
//!
//! | what | where |
//! |---|---|
//! | the disk itself: requests in, answers out | [`drive`] |
//! | sectors, and what cannot be read of them | [`medium`] |
//! | what a power cut may leave behind | [`cut`] |
//! | which lies it tells, how often, and on demand | [`fault`] |
//!
//! # What it promises, and nothing beyond
//! - A write is safe once it was answered and a flush that was submitted after that answer was answered
//!   as well. Until then a power cut may leave all of it, nothing, or any of its 512-byte slices.
//! - Writes that are in flight together take effect in any order. A read that overlaps a write in flight
//!   may see either content of each sector.
//! - Latency, and so the order of answers, is the seed's.

pub mod cut;
pub mod drive;
pub mod fault;
pub mod medium;

pub use cut::{Cut, Image, LooseWrite, Tearing};
pub use drive::{Completion, Disk, Return};
pub use fault::{Behaviour, Chances, Dirty, Fault, Struck};
pub use medium::{Medium, SECTOR_SIZE, SLICE_SIZE};
pub use store::vdev::{DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome};

#[cfg(test)]
mod tests;
