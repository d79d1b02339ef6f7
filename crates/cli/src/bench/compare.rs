//! `bench compare`.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args as ClapArgs;
use serde::Serialize;

use super::saved;
use crate::print::table::{self, Column, ListArgs, Numbers, coloured, extra, left, right};
use crate::{Done, Terminal};
use bench::compare::{Comparison, Made, Row, Verdict, compare};
use bench::facts::{Difference, differences};
use bench::results::Run;
use bench::statistics::Ratio;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Results to compare with, from bench run --save or bench import
    a: PathBuf,
    /// Results that are compared
    b: PathBuf,
    /// Confidence that the whole table needs before it says that something differs, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0, value_parser = confidence)]
    confidence: f64,
    #[command(flatten)]
    list: ListArgs,
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(percent) if (50.0..100.0).contains(&percent) => Ok(percent),
        _ => Err("choose a number from 50 to below 100".into()),
    }
}

pub(super) fn run(args: &Args, t: &mut Terminal<'_>) -> Done {
    let (a, b) = (saved::results(&args.a)?, saved::results(&args.b)?);
    let (runs_a, runs_b): (Vec<&Run>, Vec<&Run>) =
        (a.runs.iter().collect(), b.runs.iter().collect());
    let comparison = compare(&runs_a, &runs_b, Made::Apart, 1.0 - args.confidence / 100.0);
    let differences = differences(&a, &b);
    if args.list.json {
        let answer = Answer {
            comparison: &comparison,
            differences: &differences,
        };
        return table::json(t, &answer);
    }
    print(t, &args.list, &comparison)?;
    for (only, path) in [(&comparison.only_a, &args.a), (&comparison.only_b, &args.b)] {
        if !only.is_empty() {
            writeln!(t.err, "only in {}: {}", path.display(), only.join(", "))?;
        }
    }
    if let Some(advice) = advice(&comparison.rows) {
        writeln!(t.err, "{advice}")?;
    }
    for Difference { fact, a, b } in &differences {
        writeln!(t.err, "measured differently: {fact}: {a} | {b}")?;
    }
    Ok(())
}

/// Returns advice for rows that the comparison cannot decide.
pub(super) fn advice(rows: &[Row]) -> Option<&'static str> {
    let mut unknown = rows
        .iter()
        .filter(|row| row.verdict == Verdict::CannotTell)
        .peekable();
    unknown.peek()?;
    Some(match unknown.any(|row| row.runs.0.min(row.runs.1) < 2) {
        true => {
            "one run each does not show whether a difference is noise: measure again with --repeat 5"
        }
        false => {
            "the runs differ too much among themselves to tell: measure again with a larger --repeat or a \
             longer --time"
        }
    })
}

/// Answer that is printed as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    differences: &'a [Difference],
}

/// Prints a comparison as a table.
fn print(t: &mut Terminal<'_>, list: &ListArgs, comparison: &Comparison) -> Done {
    table::print(
        t,
        list,
        COLUMNS,
        &comparison.rows,
        "the two results have no workload in common",
    )
}

const COLUMNS: &[Column<Row>] = &[
    left("workload", |row, _| row.workload.clone()),
    left("figure", |row, _| row.figure.name().to_owned()),
    right("a", |row, n| figure(row.a, n)),
    right("b", |row, n| figure(row.b, n)),
    right("change", interval),
    extra(right("runs", |row, _| {
        format!("{}/{}", row.runs.0, row.runs.1)
    })),
    coloured(left("verdict", |row, _| verdict_words(row.verdict))),
];

/// Returns the change with its interval.
pub(super) fn interval(row: &Row, numbers: Numbers) -> String {
    let Some(Ratio {
        low,
        estimate,
        high,
    }) = row.ratio
    else {
        return "-".to_owned();
    };
    let [estimate, low, high] = [estimate, low, high].map(|ratio| percent(ratio, numbers));
    format!("{estimate} ({low} to {high})")
}

/// Returns the verdict in green, red or yellow for a terminal, and as a plain word for everything
/// else. It must be the last column of a table, because its colours take no width.
pub(super) fn verdict_words(verdict: Verdict) -> String {
    static COLOURED: OnceLock<bool> = OnceLock::new();
    let coloured = COLOURED
        .get_or_init(|| std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let colour = match verdict {
        Verdict::Better => 32,
        Verdict::Worse => 31,
        Verdict::NoDifference => 33,
        Verdict::CannotTell => 2,
    };
    if *coloured {
        format!("\x1b[{colour}m{}\x1b[0m", verdict.words())
    } else {
        verdict.words().to_owned()
    }
}

/// Returns a figure with at least three significant digits.
pub(super) fn figure(value: f64, numbers: Numbers) -> String {
    match numbers {
        Numbers::Exact => value.to_string(),
        Numbers::Short if value >= 100.0 => format!("{value:.0}"),
        Numbers::Short if value > 0.0 && value < 0.1 => format!("{value:.5}"),
        Numbers::Short => format!("{value:.3}"),
    }
}

fn percent(ratio: f64, numbers: Numbers) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match numbers {
        Numbers::Exact => percent.to_string(),
        // Two runs that differ bound nothing, so digits would mislead.
        Numbers::Short if percent >= 1000.0 => "over +1000%".to_owned(),
        Numbers::Short => format!("{percent:+.1}%"),
    }
}
