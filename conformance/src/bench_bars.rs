//! Bars that experiments of `bench lab` must reach on this machine. They are ratios of figures that
//! were measured in turns over the same shaped links, and gaps. Links are slow enough for the cores
//! not to be the bound. The bar of a silent link is in the lab `bench-lab`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::bench_network::lacking;
use crate::lab::{Bench, Lab, Outcome, Room};
use crate::machine::process;
use crate::servers::server::ServerKind;

/// Time limit of an experiment: some tens of runs of a second, each with a login before it.
const LIMIT: Duration = Duration::from_secs(300);

/// Labs with one experiment each. Ratios are measured alone: load of other labs would affect one of
/// the two compared figures, and not the other. A gap is far from its bound.
pub(crate) const LABS: &[Lab] = &[
    Lab {
        name: "bench-bar-round-robin",
        about: "round robin over two shaped links carries 1.9 times what one does; iops=1 beats 1000, shallow and deep",
        room: Room::Alone,
        run: |bench| ratios(bench, "round-robin", "200M", ROUND_ROBIN),
    },
    Lab {
        name: "bench-bar-one-gigabit",
        about: "one 1 Gb/s link carries 0.98 of a bare TCP stream, writes and reads",
        room: Room::Alone,
        run: |bench| ratios(bench, "one-gigabit", "1G", ONE_GIGABIT),
    },
    Lab {
        name: "bench-bar-failover-reset",
        about: "no completion is missing for 100 ms when connections are reset",
        room: Room::Shared,
        run: |bench| gaps(bench, "failover-reset", "reset", 100.0),
    },
];

/// Ratio that one variant must reach of another.
struct Bar {
    variant: &'static str,
    of: &'static str,
    at_least: f64,
}

const fn bar(variant: &'static str, of: &'static str, at_least: f64) -> Bar {
    Bar {
        variant,
        of,
        at_least,
    }
}

/// Bars of round robin. Two commands at once are few enough for one path to have both of them for
/// 1000 I/Os. With 64 the other path runs dry for a part of the time only.
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
    let outcome = match make(bench, experiment, speed, "1", "3")? {
        Made::Outcome(outcome) => outcome,
        Made::Skipped(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let mut figures = Vec::new();
    for bar in bars {
        let (values, of) = (
            runs(&outcome, bar.variant, "bytes_per_s")?,
            runs(&outcome, bar.of, "bytes_per_s")?,
        );
        // The two figures of a round were measured one after the other. Load of the machine in
        // another round does not affect them.
        let rounds = values.iter().zip(&of).map(|(value, of)| value / of);
        let ratio = median(rounds.collect());
        ensure!(
            ratio >= bar.at_least,
            "\"{}\" is {ratio:.3} of \"{}\", less than {}: {values:.0?} against {of:.0?} bytes/s over {}",
            bar.variant,
            bar.of,
            bar.at_least,
            links(&outcome)
        );
        figures.push(format!("{} {ratio:.3} of {}", bar.variant, bar.of));
    }
    Ok(Outcome::passed(format!(
        "{}; {}",
        figures.join(", "),
        links(&outcome)
    )))
}

/// Checks the median gap of the rounds, because other load of a busy machine adds to a gap as well.
fn gaps(bench: &Bench, experiment: &str, variant: &str, below_ms: f64) -> Result<Outcome> {
    let outcome = match make(bench, experiment, "200M", "1", "3")? {
        Made::Outcome(outcome) => outcome,
        Made::Skipped(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let all = runs(&outcome, variant, "gap_ms")?;
    let gap = median(all.clone());
    ensure!(
        gap < below_ms,
        "\"{variant}\": nothing ended for {gap:.0} ms, {below_ms} or more: {all:.0?} ms"
    );
    Ok(Outcome::passed(format!(
        "{variant}: longest gaps {all:.0?} ms; {}",
        links(&outcome)
    )))
}

enum Made {
    Outcome(Value),
    /// Reason why no outcome was made.
    Skipped(String),
}

fn make(bench: &Bench, name: &str, speed: &str, seconds: &str, rounds: &str) -> Result<Made> {
    let ServerKind::Sandstone(sandstone) = &bench.kind else {
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

/// Returns a figure of a variant, round by round.
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

/// Describes the links of the experiment. They have fewer bits per second than asked for if the
/// cores cannot do more.
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
