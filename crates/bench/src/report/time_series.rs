//! Course of a run second by second: accesses, bytes and latency, a line for each run.

use maud::{Markup, html};

use super::lines::{self, Line, Lines};
use super::scale::Scale;
use super::subject::{Series, Subject};
use super::units;
use crate::measure::window::Second;
use crate::results::Run;

/// Least measured share of a second; less says nothing about a rate.
const LEAST_SHARE: f64 = 0.5;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    let measured = |workload: &&String| {
        subject
            .runs()
            .any(|(_, run)| run.workload.name == **workload && run.measurement.series.len() > 1)
    };
    let workloads: Vec<&String> = subject.workloads.iter().filter(measured).collect();
    if workloads.is_empty() {
        return html! {};
    }
    html! {
        section id="time" {
            h2 { "Second by second" }
            p.note {
                "One line per run. A rate that falls with time points to a cache that fills or a device that gets "
                "hot; a gap is a second in which no access ended."
            }
            @for workload in workloads {
                h3 { (workload) }
                div.panels {
                    (rate(subject, workload, "Accesses per second", "IOPS", |second| (second.reads + second.writes) as f64))
                    (rate(subject, workload, "Throughput", "MB/s", |second| (second.read_bytes + second.written_bytes) as f64 / 1e6))
                    (latency(subject, workload))
                }
            }
        }
    }
}

/// Lists every run of a workload with its series, those without a colour first, and whether its
/// line has a name.
fn runs<'s, 'a>(
    subject: &'s Subject<'a>,
    workload: &'s str,
) -> Vec<(&'s Series<'a>, &'a Run, bool)> {
    let mut series: Vec<&Series<'a>> = subject.series.iter().collect();
    series.sort_by_key(|series| series.class != "sx");
    let of_series = series.into_iter().flat_map(|series| {
        let runs = series.of(workload).enumerate();
        let is_named = !subject.is_single() && series.class != "sx";
        runs.map(move |(index, run)| (series, run, is_named && index == 0))
    });
    of_series.collect()
}

fn name(series: &Series<'_>, is_named: bool) -> String {
    match is_named {
        false => String::new(),
        true if series.short.is_empty() => series.label.clone(),
        true => series.short.clone(),
    }
}

fn class(series: &Series<'_>, is_thin: bool) -> String {
    format!("{}{}", series.class, if is_thin { " thin" } else { "" })
}

/// Returns `(middle of the second, its share that was measured)` and the second; `None` for seconds
/// in which nothing ended.
fn seconds(run: &Run) -> Vec<Option<(f64, f64, &Second)>> {
    let elapsed_s = run.measurement.elapsed_ns as f64 / 1e9;
    let mut seconds = Vec::new();
    for second in &run.measurement.series {
        let begin = f64::from(second.second);
        let share = (elapsed_s - begin).min(1.0);
        let gap = seconds.len() < second.second as usize;
        if gap {
            seconds.resize(second.second as usize, None);
        }
        if share >= LEAST_SHARE {
            seconds.push(Some((begin + share / 2.0, share, second)));
        }
    }
    seconds
}

fn longest_s(subject: &Subject<'_>, workload: &str) -> f64 {
    let runs = runs(subject, workload);
    let elapsed = runs
        .iter()
        .map(|(_, run, _)| run.measurement.elapsed_ns as f64 / 1e9);
    elapsed.fold(1.0, f64::max)
}

fn rate(
    subject: &Subject<'_>,
    workload: &str,
    title: &str,
    unit: &str,
    of: fn(&Second) -> f64,
) -> Markup {
    let all = runs(subject, workload);
    let is_thin = all.len() > subject.series.len();
    let lines: Vec<Line> = all
        .iter()
        .map(|(series, run, is_named)| Line {
            label: name(series, *is_named),
            class: class(series, is_thin),
            points: seconds(run)
                .into_iter()
                .map(|second| second.map(|(at, share, second)| (at, of(second) / share)))
                .collect(),
        })
        .collect();
    let greatest = greatest(&lines);
    lines::draw(&Lines {
        title,
        unit,
        below: "seconds",
        across: (Scale::linear_to(longest_s(subject, workload)), &units::tick),
        upward: (Scale::linear(greatest), &units::tick),
        lines,
        filled: false,
    })
}

fn greatest(lines: &[Line]) -> f64 {
    let values = lines.iter().flat_map(|line| line.points.iter().flatten());
    values.map(|(_, value)| *value).fold(0.0, f64::max)
}

/// Draws median and p99 of a single series, or the medians of several.
fn latency(subject: &Subject<'_>, workload: &str) -> Markup {
    let all = runs(subject, workload);
    let is_thin = all.len() > subject.series.len();
    let line = |run: &Run, label: String, class: String, of: fn(&Second) -> u64| {
        let points = seconds(run).into_iter().map(|second| {
            let (at, _, second) = second?;
            let ns = of(second);
            (ns > 0).then_some((at, ns as f64))
        });
        Line {
            label,
            class,
            points: points.collect(),
        }
    };
    let mut lines = Vec::new();
    for (index, (series, run, is_named)) in all.iter().enumerate() {
        let label = |word: &str| match (subject.is_single(), index) {
            (true, 0) => word.to_owned(),
            (true, _) => String::new(),
            (false, _) => name(series, *is_named),
        };
        if subject.is_single() {
            let pale = format!("{} pale", class(series, is_thin));
            lines.push(line(run, label("p99"), pale, |second| second.p99_ns));
        }
        lines.push(line(
            run,
            label("median"),
            class(series, is_thin),
            |second| second.p50_ns,
        ));
    }
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().flatten())
            .map(|(_, value)| *value)
    };
    let (least, greatest) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    if greatest == 0.0 {
        return html! {};
    }
    lines::draw(&Lines {
        title: if subject.is_single() {
            "Latency"
        } else {
            "Median latency"
        },
        unit: "logarithmic",
        below: "seconds",
        across: (Scale::linear_to(longest_s(subject, workload)), &units::tick),
        upward: (Scale::logarithmic(least, greatest), &units::time_tick),
        lines,
        filled: false,
    })
}
