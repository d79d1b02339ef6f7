//! `bench lab`: repeats the field reports on this machine.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use serde::Serialize;

use super::run::interrupt;
use crate::print::table::{Column, ListArgs, left, print};
use crate::{Done, Failure, Terminal};
use lab::LabError;
use lab::experiments::{EXPERIMENTS, Experiment, Figure, find};
use lab::network::missing;
use lab::outcome::{Outcome, VariantOutcome};
use lab::run::{Plan, Step, run as make};
use model::{Error, ErrorKind};

#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// List the experiments
    List(ListArgs),
    /// Run an experiment, or all of them (needs root)
    Run(Args),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of the experiment, or `all`
    name: String,
    /// Measured time of each run
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Rounds; in each, the variants take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Speed of each link, as in 1G or 10G [default: the report's]
    #[arg(long, value_name = "BITS", value_parser = bits_per_s)]
    speed: Option<f64>,
    /// JSON, with every run
    #[arg(long)]
    json: bool,
}

/// Reads bits per second as network people write them: in powers of 1000.
fn bits_per_s(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a speed; write bits per second with M or G, as in 10G");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "m" | "mbit" => 1e6,
        "g" | "gbit" => 1e9,
        _ => return Err(wrong()),
    };
    if !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(wrong());
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Some(number * factor)
        .filter(|bits| (1e6..=1e12).contains(bits))
        .ok_or_else(|| format!("{text} is not between 1M and 1000G"))
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
}

const COLUMNS: &[Column<Row>] = &[
    left("name", |row, _| row.name.to_owned()),
    left("about", |row, _| row.about.to_owned()),
];

pub(super) fn run(verb: LabVerb, t: &mut Terminal<'_>) -> Done {
    match verb {
        LabVerb::List(list) => {
            let row = |one: &Experiment| Row {
                name: one.name,
                about: one.about,
            };
            let rows: Vec<Row> = EXPERIMENTS.iter().map(row).collect();
            print(t, &list, COLUMNS, &rows, "there are no experiments")?;
            Ok(())
        }
        LabVerb::Run(args) => experiment(&args, t),
    }
}

fn experiment(args: &Args, t: &mut Terminal<'_>) -> Done {
    let chosen: Vec<&'static Experiment> = match args.name.as_str() {
        "all" => EXPERIMENTS.iter().collect(),
        name => find(name).into_iter().collect(),
    };
    if chosen.is_empty() {
        return Err(Error::not_found(
            format!("there is no experiment {}", args.name),
            "list the experiments: sandstone bench lab list",
        )
        .into());
    }
    if let Some(lack) = missing() {
        return Err(refused(LabError::Missing(lack)).into());
    }
    let plan = Plan {
        time: Duration::from_secs(u64::from(args.seconds)),
        repeats: args.repeats,
        link_bits_per_s: args.speed,
    };
    let stop = interrupt()?;
    let mut outcomes = Vec::new();
    for one in chosen {
        if !args.json {
            writeln!(t.err, "{}…", one.name)?;
        }
        let err = &mut *t.err;
        let mut watch = |step: Step<'_>| {
            if !args.json {
                // If the steps cannot be shown, the result still is.
                let _ = say(err, step, one.figure);
            }
        };
        let outcome = make(one, &plan, &stop, &mut watch).map_err(refused)?;
        if !args.json {
            show(&outcome, t.out)?;
        }
        outcomes.push(outcome);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if args.json {
        let value = serde_json::json!({ "machine": bench::machine::this_machine(), "experiments": outcomes });
        writeln!(t.out, "{value:#}")?;
    }
    match outcomes.iter().all(Outcome::holds) {
        true => Ok(()),
        false => Err(Failure::Said),
    }
}

fn refused(error: LabError) -> Error {
    let next = match &error {
        LabError::Missing(_) => "install or load what is missing, then run it again",
        LabError::Interrupted => "run it again; nothing is left behind",
        _ => "run it again, and report this if it happens again; nothing is left behind",
    };
    Error::new(ErrorKind::Refused, error.to_string(), next).caused_by(error)
}

fn say(err: &mut dyn Write, step: Step<'_>, figure: Figure) -> std::io::Result<()> {
    match step {
        Step::Calibrate => writeln!(err, "  measuring what the cores of this machine reach…"),
        Step::Begin(name, round) => {
            write!(err, "  round {}: {name}: ", round + 1)?;
            err.flush()
        }
        Step::End(found) => match figure {
            Figure::Throughput => writeln!(err, "{:.1} MB/s", found.bytes_per_s / 1e6),
            Figure::Iops => writeln!(err, "{:.0} IOPS", found.iops),
            Figure::Gap => writeln!(err, "longest gap {:.1} ms", found.gap_ms),
        },
    }
}

fn show(outcome: &Outcome, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}: {}", outcome.experiment, outcome.about)?;
    let links = if outcome.links == 1 { "link" } else { "links" };
    writeln!(
        out,
        "  {} {links} of {:.2} Gb/s, {} rounds of {:.0} s",
        outcome.links,
        outcome.link_bits_per_s / 1e9,
        outcome.repeats,
        outcome.seconds
    )?;
    if let Some(scaled) = &outcome.scaled {
        writeln!(out, "  scaled: {scaled}")?;
    }
    writeln!(
        out,
        "  {:<26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>6}  the report",
        "", "MB/s", "IOPS", "mean ms", "KAVG ms", "DAVG ms", "p99 ms", "gap ms", "wire"
    )?;
    for variant in &outcome.variants {
        row(variant, out)?;
    }
    for variant in &outcome.variants {
        if let Some(other) = variant.against {
            writeln!(
                out,
                "  {} against {other}: {}",
                variant.name, variant.verdict
            )?;
        }
    }
    for check in &outcome.checks {
        let word = if check.holds { "met" } else { "NOT MET" };
        writeln!(out, "  {word}: {}", check.text)?;
    }
    if !outcome.remark.is_empty() {
        writeln!(out, "  here: {}", outcome.remark)?;
    }
    for quote in outcome.quotes {
        writeln!(out, "  \"{}\" ({})", quote.text, quote.report)?;
    }
    writeln!(out)
}

fn row(variant: &VariantOutcome, out: &mut dyn Write) -> std::io::Result<()> {
    let mean = &variant.mean;
    let figure = |value: f64, digits: usize| match value {
        0.0 => "-".to_owned(),
        value => format!("{value:.digits$}"),
    };
    // A command that nothing delays has a KAVG of 0; a TCP stream has none.
    let split = |value: f64| match mean.davg_ms {
        0.0 => "-".to_owned(),
        _ => format!("{value:.2}"),
    };
    writeln!(
        out,
        "  {:<26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>5.0}%  {}",
        variant.name,
        figure(mean.bytes_per_s / 1e6, 1),
        figure(mean.iops, 0),
        figure(mean.mean_ms, 2),
        split(mean.kavg_ms),
        split(mean.davg_ms),
        figure(mean.p99_ms, 2),
        figure(mean.gap_ms, 1),
        variant.wire_share * 100.0,
        if variant.reported.is_empty() {
            "-"
        } else {
            variant.reported
        }
    )
}

#[cfg(test)]
mod tests {
    use super::bits_per_s;

    #[test]
    fn speeds_are_read_as_network_people_write_them() {
        assert_eq!(bits_per_s("10G"), Ok(1e10));
        assert_eq!(bits_per_s("2.5g"), Ok(2.5e9));
        assert_eq!(bits_per_s("100Mbit"), Ok(1e8));
        for text in ["", "G", "10", "10K", "0G", "-1G", "1e3G", "9999G"] {
            assert!(bits_per_s(text).is_err(), "{text}");
        }
    }
}
