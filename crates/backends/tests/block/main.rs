//! The shared conformance suite of block devices, run over every backend and wrapper, and what
//! each of them promises beyond it.

mod backends;
mod device;
mod driver;
mod file;
mod suite;
mod wrappers;
