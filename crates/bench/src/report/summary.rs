//! Summary: the figures in sentences, and the reservations about them.

use maud::{Markup, html};

use super::path;
use super::subject::{Contrast, Subject};
use super::units;
use crate::compare::{Figure, Verdict};
use crate::remarks::remarks;
use crate::results::Run;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    let minded = minded(subject);
    html! {
        section id="summary" {
            ul.summary {
                @for sentence in findings(subject) { li { (sentence) } }
            }
            @if !minded.is_empty() {
                aside {
                    h2 { "Notes and warnings" }
                    ul { @for (words, is_wrong) in minded { li class=[is_wrong.then_some("wrong")] { (words) } } }
                }
            }
        }
    }
}

fn findings(subject: &Subject<'_>) -> Vec<Markup> {
    let mut findings = Vec::new();
    for (source, best) in &subject.best {
        let several = (subject.sources.len() > 1).then(|| subject.sources[*source].label.clone());
        for best in best {
            let Some(index) = subject.find(*source, &best.settings) else {
                continue;
            };
            let of_it = |contrast: &&Contrast| contrast.series == index;
            let interval = subject.contrasts.iter().find(of_it).and_then(|contrast| {
                let rows = &mut contrast.comparison.rows.iter();
                let row =
                    rows.find(|row| row.workload == best.workload && row.figure == Figure::Iops)?;
                row.ratio
            });
            let base = subject
                .series
                .iter()
                .find(|series| series.source == *source);
            let base = base.map_or("", |series| &series.label);
            findings.push(html! {
                @if let Some(label) = &several { (label) ", " }
                b { (best.workload) } ": "
                @match interval {
                    Some(ratio) => {
                        b.good { (subject.series[index].label) } " gives " b { (units::number(ratio.estimate)) "×" }
                        " the accesses per second of " (base)
                        " (" (units::number(ratio.low)) " to " (units::number(ratio.high)) ")"
                        @if best.slower_each { ", but each access takes longer" }
                        "."
                    },
                    None => { "no other setting is certainly better than " (base) "." },
                }
            });
        }
    }
    if subject.sources.len() > 1 {
        let apart = subject.contrasts.iter().filter(|contrast| {
            subject.series[contrast.base].source != subject.series[contrast.series].source
        });
        findings.extend(apart.map(|contrast| counted(subject, contrast)));
    }
    if findings.is_empty() {
        findings.extend(
            subject
                .workloads
                .iter()
                .map(|workload| plain(subject, workload)),
        );
    }
    findings
}

/// Counts the figures that are better and worse.
fn counted(subject: &Subject<'_>, contrast: &Contrast) -> Markup {
    let count = |verdict| {
        let rows = contrast.comparison.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    };
    let (better, worse) = (count(Verdict::Better), count(Verdict::Worse));
    let (same, unknown) = (count(Verdict::NoDifference), count(Verdict::CannotTell));
    html! {
        b { (subject.series[contrast.series].label) } " against " b { (subject.series[contrast.base].label) } ": of "
        (contrast.comparison.rows.len()) " figures " (better) " better, " (worse) " worse, " (same) " without a difference"
        @if unknown > 0 { ", " (unknown) " undecided without more runs (" code { "--repeat" } ")" }
        "."
    }
}

fn plain(subject: &Subject<'_>, workload: &str) -> Markup {
    let runs: Vec<&Run> = subject
        .runs()
        .map(|(_, run)| run)
        .filter(|run| run.workload.name == workload)
        .collect();
    let mean = |of: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let iops = mean(&|run| Some(run.measurement.iops())).unwrap_or(0.0);
    let bytes = mean(&|run| Some(run.measurement.bytes_per_s())).unwrap_or(0.0);
    let latency = mean(&|run| Some(run.measurement.latency.mean_ns)).unwrap_or(0.0);
    let p99 = mean(&|run| Some(run.measurement.latency.distribution.as_ref()?.p99_ns as f64));
    html! {
        b { (workload) } ": " b { (units::number(iops)) } " IOPS, " (units::megabytes(bytes)) " at "
        (units::time(latency)) " on average"
        @if let Some(p99) = p99 { ", 99 of 100 within " (units::time(p99)) }
        "."
    }
}

/// Lists reservations about the figures, and whether each is a failure.
fn minded(subject: &Subject<'_>) -> Vec<(String, bool)> {
    let mut minded: Vec<(String, bool)> = Vec::new();
    for (series, run) in subject.runs() {
        let is_wrong = run.measurement.is_unproven() || run.measurement.errors() > 0;
        for remark in remarks(run) {
            let of = match subject.is_single() {
                true => run.workload.name.clone(),
                false => format!("{}, {}", series.label, run.workload.name),
            };
            minded.push((format!("{of}, run {}: {remark}", run.round + 1), is_wrong));
        }
    }
    minded.extend(path::minded(subject).map(|words| (words, false)));
    for source in subject.sources {
        let target = &source.results.target;
        let reads = source
            .results
            .runs
            .iter()
            .any(|run| run.measurement.read.accesses > 0);
        let filled = source.results.runs.iter().all(|run| run.parameters.fill);
        if target.thin && reads && !filled {
            minded.push((
                format!(
                    "{} is thin: parts that were never written take no space, and reading them measures no disk (--fill \
                     writes all of it first)",
                    target.name
                ),
                false,
            ));
        }
    }
    minded.dedup();
    minded
}
