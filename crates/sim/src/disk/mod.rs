//! A simulated disk for the store. A seed decides everything that a real disk may do to data.
//!
//! | part | module |
//! |---|---|
//! | the disk itself: requests in, answers out | [`drive`] |
//! | sectors, and whether they can be read | [`medium`] |
//! | possible results of a power cut | [`cut`] |
//! | lies that the disk tells, how often, and on demand | [`fault`] |
//!
//! # Promises of the disk, and nothing beyond
//! - A write is safe once it was answered and a flush that was submitted after that answer was
//!   answered as well. Until then, a power cut may leave all of it, nothing, or any of its 512-byte
//!   slices.
//! - Writes that are in flight together take effect in any order. A read that overlaps a write in
//!   flight may see either content of each sector.
//! - The seed decides latency, and so the order of answers.

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
