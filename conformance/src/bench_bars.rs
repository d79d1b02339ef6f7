//! What experiments of `bench lab` must reach on this machine: ratios of figures that were measured in turns over the
//! same shaped links, and gaps. Links are slow enough for the cores not to be the bound. That of a silent link is
//! in the lab `bench-lab`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::bench_network::lacking;
use crate::lab::{Bench, Lab, Outcome};
use crate::process;
use crate::server::Kind;

/// Some tens of runs of a second, each with a login before it.
const LIMIT: Duration = Duration::from_secs(300);

/// One experiment each, so that they run beside other labs.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "bench-bar-round-robin",
        about: "round robin over two shaped links carries 1.9 times what one does; iops=1 beats 1000, shallow and deep",
        guest: false,
        run: |bench| ratios(bench, "round-robin", "200M", ROUND_ROBIN),
    },
    Lab {
        name: "bench-bar-one-gigabit",
        about: "one 1 Gb/s link carries 0.98 of a bare TCP stream, writes and reads",
        guest: false,
        run: |bench| ratios(bench, "one-gigabit", "1G", ONE_GIGABIT),
    },
    Lab {
        name: "bench-bar-failover-reset",
        about: "no completion is missing for 100 ms when connections are reset",
        guest: false,
        run: |bench| gaps(bench, "failover-reset", "reset", 100.0),
    },
];

/// What one variant must reach of another.
struct Bar {
    variant: &'static str,
    of: &'static str,
    at_least: f64,
}

impl Bar {
    /// The median of the rounds: the two of one were measured one after the other, and what the machine did in
    /// another is not theirs.
    fn reached(&self, outcome: &Value) -> Result<f64> {
        let values = runs(outcome, self.variant, "bytes_per_s")?;
        let of = runs(outcome, self.of, "bytes_per_s")?;
        Ok(median(
            values
                .iter()
                .zip(&of)
                .map(|(value, of)| value / of)
                .collect(),
        ))
    }
}

const fn bar(variant: &'static str, of: &'static str, at_least: f64) -> Bar {
    Bar {
        variant,
        of,
        at_least,
    }
}

/// Two commands at once are few enough for one path to have both of them for 1000 I/Os; with 64 the other path
/// runs dry for a part of the time only.
const ROUND_ROBIN: &[Bar] = &[
    bar("iops=1, 64 deep", "one path, 64 deep", 1.9),
    bar("iops=1, 64 deep", "iops=1000, 64 deep", 1.05),
    bar("iops=1, 2 deep", "iops=1000, 2 deep", 1.5),
];
const ONE_GIGABIT: &[Bar] = &[
    bar("256K writes", "TCP to the target", 0.98),
    bar("256K reads", "TCP from the target", 0.98),
];

fn ratios(bench: &Bench, experiment: &str, speed: &str, bars: &[Bar]) -> Result<Outcome> {
    within_tries(TRIES, || {
        let outcome = match make(bench, experiment, speed, "1", "3")? {
            Made::Outcome(outcome) => outcome,
            Made::Skipped(reason) => return Ok(Try::Skipped(reason)),
        };
        let ratios = bars.iter().map(|bar| Ok((bar, bar.reached(&outcome)?)));
        let ratios: Vec<(&Bar, f64)> = ratios.collect::<Result<_>>()?;
        let figures = ratios
            .iter()
            .map(|(bar, ratio)| format!("{} {ratio:.3} of {}", bar.variant, bar.of));
        let figures = figures.collect::<Vec<_>>().join(", ");
        let short = ratios.iter().find(|(bar, ratio)| *ratio < bar.at_least);
        Ok(match short {
            Some((bar, _)) => Try::Short(format!(
                "{figures}, where \"{}\" has to be {}",
                bar.variant, bar.at_least
            )),
            None => Try::Reached(format!("{figures}; {}", links(&outcome))),
        })
    })
}

/// The median of the rounds, for what else a busy machine does for a while is in a gap as well.
fn gaps(bench: &Bench, experiment: &str, variant: &str, below_ms: f64) -> Result<Outcome> {
    within_tries(TRIES, || {
        let outcome = match make(bench, experiment, "200M", "1", "3")? {
            Made::Outcome(outcome) => outcome,
            Made::Skipped(reason) => return Ok(Try::Skipped(reason)),
        };
        let all = runs(&outcome, variant, "gap_ms")?;
        let figures = format!("{variant}: longest gaps {all:.0?} ms");
        Ok(if median(all) < below_ms {
            Try::Reached(format!("{figures}; {}", links(&outcome)))
        } else {
            Try::Short(format!(
                "{figures}, where the one in the middle has to be below {below_ms}"
            ))
        })
    })
}

/// How often an experiment is made before it is short. Other labs run beside it on the same cores, and what they
/// take in a bad second is missing here; they can take, never give. What is lost in the code is lost in each.
const TRIES: usize = 3;

/// How one making of an experiment went.
enum Try {
    /// With its figures.
    Reached(String),
    /// With its figures, and what they had to be.
    Short(String),
    /// Why it cannot be made here.
    Skipped(String),
}

/// Passes with the first try that reaches what is asked, and tells of those that were short before it.
fn within_tries(tries: usize, mut make: impl FnMut() -> Result<Try>) -> Result<Outcome> {
    let mut short = Vec::new();
    while short.len() < tries {
        match make()? {
            Try::Skipped(reason) => return Ok(Outcome::Skipped(reason)),
            Try::Short(figures) => short.push(figures),
            Try::Reached(figures) if short.is_empty() => return Ok(Outcome::passed(figures)),
            Try::Reached(figures) => {
                let before = short.join("; ");
                return Ok(Outcome::passed(format!(
                    "{figures}; short before: {before}"
                )));
            }
        }
    }
    bail!("short in each of {tries} tries: {}", short.join("; "))
}

enum Made {
    Outcome(Value),
    /// Why not.
    Skipped(String),
}

fn make(bench: &Bench, name: &str, speed: &str, seconds: &str, rounds: &str) -> Result<Made> {
    let Kind::Sandstone(sandstone) = &bench.kind else {
        return Ok(Made::Skipped(
            "this lab is about Sandstone's initiator".into(),
        ));
    };
    let finished = process::finish(command(sandstone, name, speed, seconds, rounds), LIMIT)?;
    if let Some(reason) = lacking(&finished.stderr) {
        return Ok(Made::Skipped(reason));
    }
    let value: Value = serde_json::from_str(&finished.stdout)
        .with_context(|| format!("{name}: {}", finished.tail()))?;
    Ok(Made::Outcome(value["experiments"][0].clone()))
}

fn command(sandstone: &Path, name: &str, speed: &str, seconds: &str, rounds: &str) -> Command {
    let mut command = Command::new(sandstone);
    command.args(["bench", "lab", "run", name, "--json", "--speed", speed]);
    command.args(["--seconds", seconds, "--repeats", rounds]);
    command
}

/// A figure of a variant, round by round.
fn runs(outcome: &Value, variant: &str, figure: &str) -> Result<Vec<f64>> {
    let variants = outcome["variants"].as_array().context("no variants")?;
    let found = variants.iter().find(|one| one["name"] == variant);
    let found = found.with_context(|| format!("no variant \"{variant}\": {outcome}"))?;
    let values = found["runs"].as_array().context("no runs")?.iter();
    let values: Option<Vec<f64>> = values.map(|run| run[figure].as_f64()).collect();
    values
        .filter(|values| values.iter().any(|value| *value > 0.0))
        .with_context(|| format!("no {figure}: {found}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The links that it had: fewer bits per second than asked for where the cores cannot do more.
fn links(outcome: &Value) -> String {
    let speed = outcome["link_bits_per_s"].as_f64().unwrap_or(0.0) / 1e6;
    format!("links: {}, of {speed:.0} Mb/s each", outcome["links"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![7.0]), 7.0);
    }

    #[test]
    fn what_is_short_in_each_try_fails_and_no_other() {
        let tries = |mut all: Vec<Try>| {
            all.reverse();
            within_tries(2, || Ok(all.pop().expect("no further try")))
        };
        let short = || Try::Short("0.90".into());
        let reached = || Try::Reached("0.99".into());
        let figures = |outcome: Result<Outcome>| match outcome.unwrap() {
            Outcome::Passed { figures, .. } => figures,
            Outcome::Skipped(reason) => panic!("skipped: {reason}"),
        };
        assert_eq!(figures(tries(vec![reached()])), "0.99");
        assert_eq!(
            figures(tries(vec![short(), reached()])),
            "0.99; short before: 0.90"
        );
        let failed = tries(vec![short(), short()]).err().unwrap().to_string();
        assert_eq!(failed, "short in each of 2 tries: 0.90; 0.90");
    }

    #[test]
    fn what_was_not_measured_is_no_figure() {
        let run = |value: f64| serde_json::json!({ "gap_ms": value });
        let outcome = serde_json::json!({ "variants": [
            { "name": "reset", "runs": [run(5.0), run(8.0)] },
            { "name": "none", "runs": [run(0.0)] },
        ] });
        assert_eq!(runs(&outcome, "reset", "gap_ms").unwrap(), [5.0, 8.0]);
        assert!(runs(&outcome, "none", "gap_ms").is_err());
        assert!(runs(&outcome, "reset", "bytes_per_s").is_err());
        assert!(runs(&outcome, "other", "gap_ms").is_err());
    }
}
