//! Every byte that lies on a disk: structures, their encoding and their bounds. All numbers are
//! little-endian; `docs/format.md` draws them.

pub mod pointer;

pub use pointer::{Address, Algorithm, Compression, Epoch, Pointer};

/// The unit of allocation and of every device request, in bytes.
pub const SECTOR_SIZE: usize = 4096;
