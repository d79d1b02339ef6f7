//! Throughput and its cost: accesses and bytes per second, the share of the wire, processor time.

use maud::{Markup, html};

use super::bars::{Bar, Mark, draw};
use super::subject::{Series, Subject};
use super::units;
use super::wire::Wire;
use crate::results::{Measurement, Run};

/// Function that reads a figure for bars.
type Of = fn(&Measurement) -> f64;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    html! {
        section id="throughput" {
            h2 { "Throughput and its cost" }
            p.note {
                "Bars are means of whole runs"
                @if subject.runs().any(|(_, run)| run.round > 0) { "; each dot is one run" }
                "."
                @if let Some(wire) = &subject.network.wire {
                    @if wire.values().len() == 1 { " The line is what one direction" } @else { " The lines are what each direction" }
                    " of the wire carries: " (wire.words()) ", " (wire.known_from) "."
                }
            }
            @for group in groups(subject) {
                @if let Some(name) = &group.name { h3 { (name) } }
                div.panels {
                    (rates("Accesses per second", "IOPS", &group, Measurement::iops, units::number))
                    (throughput(subject, &group))
                    (cpu(&group))
                }
            }
        }
    }
}

/// Bars that stand together: the workloads of the only series, or the series of a workload.
struct Group<'a> {
    name: Option<String>,
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    label: String,
    class: &'static str,
    runs: Vec<&'a Run>,
}

fn groups<'a>(subject: &Subject<'a>) -> Vec<Group<'a>> {
    let entry = |label: &str, series: &Series<'a>, workload: &str| Entry {
        label: label.to_owned(),
        class: series.class,
        runs: series.of(workload).collect(),
    };
    if let [series] = &subject.series[..] {
        let entries = subject
            .workloads
            .iter()
            .map(|workload| entry(workload, series, workload));
        return vec![Group {
            name: None,
            entries: entries.collect(),
        }];
    }
    let groups = subject.workloads.iter().map(|workload| {
        let entries = subject
            .series
            .iter()
            .map(|series| entry(&series.label, series, workload));
        Group {
            name: Some(workload.clone()),
            entries: entries.filter(|entry| !entry.runs.is_empty()).collect(),
        }
    });
    groups.collect()
}

fn values(entry: &Entry<'_>, of: Of) -> Vec<f64> {
    entry.runs.iter().map(|run| of(&run.measurement)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn rates(title: &str, unit: &str, group: &Group<'_>, of: Of, words: fn(f64) -> String) -> Markup {
    let bars = group.entries.iter().map(|entry| {
        let dots = values(entry, of);
        Bar {
            label: entry.label.clone(),
            parts: vec![(entry.class.to_owned(), mean(&dots))],
            value: words(mean(&dots)),
            dots,
        }
    });
    draw(title, unit, &bars.collect::<Vec<_>>(), None)
}

fn throughput(subject: &Subject<'_>, group: &Group<'_>) -> Markup {
    let Some(wire) = &subject.network.wire else {
        let words = |value: f64| units::number(value / 1e6);
        return rates("Throughput", "MB/s", group, Measurement::bytes_per_s, words);
    };
    let bars = group.entries.iter().map(|entry| {
        let runs = entry.runs.iter();
        let (dots, shares): (Vec<f64>, Vec<Option<f64>>) = runs
            .map(|run| busier_direction(wire, &run.measurement))
            .unzip();
        let shares: Option<Vec<f64>> = shares.into_iter().collect();
        let value = units::number(mean(&dots) / 1e6);
        Bar {
            label: entry.label.clone(),
            parts: vec![(entry.class.to_owned(), mean(&dots))],
            value: match shares {
                Some(shares) => format!("{value} · {} of the wire", units::share(mean(&shares))),
                None => value,
            },
            dots,
        }
    });
    let mark = Mark {
        at: wire.values(),
        label: format!("wire: {}", wire.words()),
    };
    draw(
        "Throughput of the busier direction",
        "MB/s",
        &bars.collect::<Vec<_>>(),
        Some(&mark),
    )
}

/// Returns the bytes per second and the share of the wire of the busier direction. A wire carries
/// reads one way and writes the other way, at the same time. The busier direction is the one with
/// the greater share. If a share is not known, it is the one that carries more.
fn busier_direction(wire: &Wire, measurement: &Measurement) -> (f64, Option<f64>) {
    let way = |rate: f64, carries: Option<f64>| (rate, carries.map(|carries| rate / carries));
    let read = way(measurement.read_bytes_per_s(), wire.to_here);
    let written = way(measurement.write_bytes_per_s(), wire.from_here);
    let reads_are_busier = match (read.1, written.1) {
        (Some(read), Some(written)) => read >= written,
        _ => read.0 >= written.0,
    };
    if reads_are_busier { read } else { written }
}

fn cpu(group: &Group<'_>) -> Markup {
    let bars = group.entries.iter().filter_map(|entry| {
        let dots: Vec<f64> = entry
            .runs
            .iter()
            .filter_map(|run| Some(run.measurement.cpu_ns_per_access()? / 1e3))
            .collect();
        if dots.is_empty() {
            return None;
        }
        let (user, system) = entry
            .runs
            .iter()
            .filter_map(|run| run.measurement.cpu)
            .fold((0.0, 0.0), |(user, system), cpu| {
                (user + cpu.user_ns as f64, system + cpu.system_ns as f64)
            });
        let all = mean(&dots);
        let in_program = all * user / (user + system).max(1.0);
        let cores: Vec<f64> = entry
            .runs
            .iter()
            .filter_map(|run| run.measurement.cpu_cores())
            .collect();
        Some(Bar {
            label: entry.label.clone(),
            parts: vec![
                (entry.class.to_owned(), in_program),
                (format!("{} pale", entry.class), all - in_program),
            ],
            value: format!(
                "{} · {} of a core",
                units::number(all),
                units::share(mean(&cores))
            ),
            dots,
        })
    });
    let bars: Vec<Bar> = bars.collect();
    if bars.is_empty() {
        return html! {};
    }
    draw(
        "Processor time per access",
        "µs; the kernel's part is paler",
        &bars,
        None,
    )
}
