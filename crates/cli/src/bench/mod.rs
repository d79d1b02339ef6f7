//! `bench`: measures storage, and compares results.

use clap::Subcommand;

use super::{Connection, Done, Terminal};

mod compare;
mod knobs;
mod lab;
mod network;
mod options;
mod profiles;
mod progress;
mod report;
mod results;
mod run;
mod saved;
mod sweep;
mod target;
mod transfer;

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Measure a file, a block device, memory or a logical unit (iscsi://…)
    Run(run::Args),
    /// List the built-in profiles and their parts
    Profiles(profiles::Args),
    /// Measure under many settings in turns, and report which of them matter
    Sweep(sweep::Args),
    /// List the knobs that a sweep can turn, and the values worth trying
    Knobs(knobs::Args),
    /// Measure a network path: throughput, round trip, and whether jumbo frames pass whole
    Network(network::Args),
    /// Repeat the field reports on a network inside this machine
    #[command(subcommand)]
    Lab(lab::Verb),
    /// Show what differs between two saved results, and what does not
    Compare(compare::Args),
    /// Make one page of HTML from saved results: pictures, every figure, differences, and commands
    /// to type
    Report(report::Args),
    /// Read a profile or results of another tool (IOmeter .icf, IOmeter .csv)
    Import(transfer::ImportArgs),
    /// Write a profile or results for another tool (IOmeter .icf and .csv, fio JSON)
    Export(transfer::ExportArgs),
}

pub(super) fn run(verb: Verb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    match verb {
        Verb::Run(args) => run::run(&args, connection, t),
        Verb::Profiles(args) => profiles::run(&args, t),
        Verb::Sweep(args) => sweep::run(&args, connection, t),
        Verb::Knobs(args) => knobs::run(&args, t),
        Verb::Lab(verb) => lab::run(verb, t),
        Verb::Network(args) => network::run(&args, t),
        Verb::Compare(args) => compare::run(&args, t),
        Verb::Report(args) => report::run(&args, t),
        Verb::Import(args) => transfer::import(&args, t),
        Verb::Export(args) => transfer::export(&args, t),
    }
}
