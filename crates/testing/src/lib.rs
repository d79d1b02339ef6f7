//! Helpers that tests of several crates share. No product code depends on this crate.

// A helper that fails ends the test that called it.
#![allow(clippy::unwrap_used)]

pub mod exposition;
pub mod loop_device;
pub mod skipped;
pub mod user;
pub mod wait;
