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
pub(super) enum BenchVerb {
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
    Lab(lab::LabVerb),
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

pub(super) fn run(verb: BenchVerb, connection: &Connection, t: &mut Terminal<'_>) -> Done {
    match verb {
        BenchVerb::Run(args) => run::run(&args, connection, t),
        BenchVerb::Profiles(args) => profiles::run(&args, t),
        BenchVerb::Sweep(args) => sweep::run(&args, connection, t),
        BenchVerb::Knobs(args) => knobs::run(&args, t),
        BenchVerb::Lab(verb) => lab::run(verb, t),
        BenchVerb::Network(args) => network::run(&args, t),
        BenchVerb::Compare(args) => compare::run(&args, t),
        BenchVerb::Report(args) => report::run(&args, t),
        BenchVerb::Import(args) => transfer::import(&args, t),
        BenchVerb::Export(args) => transfer::export(&args, t),
    }
}
