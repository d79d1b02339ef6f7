//! Sandstone: a storage area network in one program.
//!
//! This crate is the composition root. It starts the daemon from the parts. It gives the command
//! line its daemons and the work on this machine.

use std::process::ExitCode;

use cli::Program;

mod attach;
pub mod console;
pub mod daemon;
mod demo;
mod serve;

/// Whole program.
pub const PROGRAM: Program = Program {
    serve: serve::run,
    demo: demo::run,
    attach: attach::run,
    check_pool: pools::administer::check::check,
    rebuild_labels: pools::administer::rebuild_labels::rebuild_labels,
    pool_members: pools::members,
    isns_targets: |server, initiator, limit| {
        isns::find_targets(server, initiator, limit).map_err(|error| error.to_string())
    },
};

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    cli::run(&PROGRAM)
}
