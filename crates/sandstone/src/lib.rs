//! Sandstone: a storage area network in one program.
//!
//! This crate is the composition root: it starts the daemon from the parts, and brings `serve` and `demo` to the
//! command line.

use std::process::ExitCode;

pub mod daemon;
mod demo;
mod serve;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    cli::run(cli::Daemons {
        serve: serve::run,
        demo: demo::run,
    })
}
