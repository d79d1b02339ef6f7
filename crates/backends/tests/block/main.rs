//! The shared conformance suite of block devices, run over every backend and wrapper, with tests of
//! the promises that each makes beyond it.

mod backends;
mod device;
mod driver;
mod file;
mod suite;
mod wrappers;
