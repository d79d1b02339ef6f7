//! The shared conformance suite of block devices, run over every backend and wrapper, and what
//! each of them promises beyond it.

mod backends;
mod device;
mod driver;
mod file;
#[path = "../shared/loop_device.rs"]
mod loop_device;
#[path = "../shared/skipped.rs"]
mod skipped;
mod suite;
mod wrappers;
