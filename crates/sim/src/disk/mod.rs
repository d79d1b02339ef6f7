//! Simulated disk for the store: it does everything to data that a real one may do, decided by a
//! seed.
//!
//! | part | module |
//! |---|---|
//! | the disk itself: requests in, answers out | [`drive`] |
//! | sectors, and whether they can be read | [`medium`] |
//! | possible states after a power cut | [`cut`] |
//! | lies of the disk, by chance and on demand | [`fault`] |
//!
//! # Promises of the disk, and nothing beyond
//! - A write is safe once it was answered, and a flush that was submitted after that answer was
//!   answered too. Until then a power cut may leave the whole write, nothing, or any of its
//!   512-byte slices.
//! - Writes that are in flight together take effect in any order. A read that overlaps a write in
//!   flight may see either content of each sector.
//! - The seed decides the latency, and therefore the order of answers.

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
