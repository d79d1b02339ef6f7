//! Tests of the benchmark on real lanes. Devices that lie are found out, devices that are slow show
//! how slow they are, and the command line destroys nothing.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod command_line;
mod fio;
mod hangs;
mod lies;
mod panics;
mod slow;
