//! The benchmark on real lanes: devices that lie are found out, devices that are slow show how
//! slow, and the command line destroys nothing.

// A test that cannot go on is a test that failed.
#![allow(clippy::unwrap_used)]

mod command_line;
mod fio;
mod hangs;
mod lies;
mod panics;
mod slow;
