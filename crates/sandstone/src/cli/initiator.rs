//! `initiator`: the other end of the wire, and what this machine can do with it.

use std::process::ExitCode;

use clap::Subcommand;

mod attach;

/// The verbs of the noun.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Offer a device over NBD, to QEMU, fio, libnbd tools and the kernel
    Attach(attach::Args),
}

/// Runs until it is done, or told to end.
pub(super) fn run(verb: &Verb) -> ExitCode {
    match verb {
        Verb::Attach(args) => attach::run(args),
    }
}
