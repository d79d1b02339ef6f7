//! Every figure of every run, as tables that people can copy. The exact values stand beside the
//! rounded ones.

use maud::{Markup, html};

use super::subject::{Series, Subject};
use super::units;
use crate::measure::latency::LatencySummary;
use crate::results::{DirectionResult, Measurement, Run};

/// Exact value and its display; `None` if it is not known.
type Value = Option<(f64, String)>;

/// Column: its heading, and the function that reads its value.
type Column<Of> = (&'static str, fn(&Of) -> Value);

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    html! {
        section id="figures" {
            h2 { "Every figure" }
            p.note {
                "MB/s are millions of bytes. Latencies include the accesses that were still in flight at the "
                "end; rates do not. The exact values are in the page (" code { "<data value>" } ")."
            }
            (table(subject, "Throughput", RATES, |m| m))
            (table(subject, "Latency of reads and writes together", LATENCIES, |m| &m.latency))
            @if subject.runs().any(|(_, run)| is_mixed(&run.measurement)) {
                (table(subject, "Latency of reads", LATENCIES, |m| &m.read.latency))
                (table(subject, "Latency of writes", LATENCIES, |m| &m.write.latency))
            }
            (table(subject, "Cost and behaviour", CONDUCT, |m| m))
            (streams(subject))
        }
    }
}

fn is_mixed(measurement: &Measurement) -> bool {
    measurement.read.accesses > 0 && measurement.write.accesses > 0
}

fn rate(value: f64) -> Value {
    Some((value, units::number(value)))
}

fn mb(bytes_per_s: f64) -> Value {
    Some((bytes_per_s, units::number(bytes_per_s / 1e6)))
}

fn ns(value: f64) -> Value {
    Some((value, units::time(value)))
}

fn whole(value: u64) -> Value {
    Some((value as f64, units::count(value)))
}

const RATES: &[Column<Measurement>] = &[
    ("IOPS", |m| rate(m.iops())),
    ("read IOPS", |m| rate(m.read_iops())),
    ("write IOPS", |m| rate(m.write_iops())),
    ("MB/s", |m| mb(m.bytes_per_s())),
    ("read MB/s", |m| mb(m.read_bytes_per_s())),
    ("write MB/s", |m| mb(m.write_bytes_per_s())),
    ("reads", |m| whole(m.read.accesses)),
    ("writes", |m| whole(m.write.accesses)),
    ("bytes read", |m| whole(m.read.bytes)),
    ("bytes written", |m| whole(m.write.bytes)),
];

const LATENCIES: &[Column<LatencySummary>] = &[
    ("mean", |l| ns(known(l)?.mean_ns)),
    ("std. dev.", |l| ns(l.distribution.as_ref()?.stddev_ns)),
    ("least", |l| ns(l.distribution.as_ref()?.min_ns as f64)),
    ("p50", |l| ns(l.distribution.as_ref()?.p50_ns as f64)),
    ("p90", |l| ns(l.distribution.as_ref()?.p90_ns as f64)),
    ("p99", |l| ns(l.distribution.as_ref()?.p99_ns as f64)),
    ("p99.9", |l| ns(l.distribution.as_ref()?.p99_9_ns as f64)),
    ("p99.99", |l| ns(l.distribution.as_ref()?.p99_99_ns as f64)),
    ("greatest", |l| ns(known(l)?.max_ns as f64)),
    ("counted", |l| whole(l.count)),
];

/// Returns a summary only if something was counted: nothing counted is not zero.
fn known(latency: &LatencySummary) -> Option<&LatencySummary> {
    (latency.count > 0).then_some(latency)
}

const CONDUCT: &[Column<Measurement>] = &[
    ("CPU per access", |m| ns(m.cpu_ns_per_access()?)),
    ("of a core", |m| {
        m.cpu_cores().map(|cores| (cores, units::share(cores)))
    }),
    ("in the program", |m| ns(m.cpu?.user_ns as f64)),
    ("in the kernel", |m| ns(m.cpu?.system_ns as f64)),
    ("GAVG", |m| ns(m.esxtop?.gavg_us * 1e3)),
    ("KAVG", |m| ns(m.esxtop?.kavg_us * 1e3)),
    ("DAVG", |m| ns(m.esxtop?.davg_us * 1e3)),
    ("QAVG", |m| ns(m.esxtop?.qavg_us * 1e3)),
    ("commands", |m| whole(m.esxtop?.commands)),
    ("%USD", |m| rate(m.queue?.used_percent)),
    ("LOAD", |m| rate(m.queue?.load)),
    ("errors", |m| whole(m.errors())),
    ("longest gap", |m| ns(m.longest_gap_ns as f64)),
    ("late", |m| whole(m.late)),
    ("not started", |m| whole(m.unstarted)),
    ("in flight", |m| whole(u64::from(m.outstanding))),
    ("workers", |m| whole(u64::from(m.workers))),
    ("measured", |m| ns(m.elapsed_ns as f64)),
];

/// Columns of one table beside those that name the run. A page 1,280 pixels wide shows all of them.
const COLUMNS: usize = 9;

/// Builds a table with a row for every run. The columns show the part of the run that `part`
/// returns.
fn table<Of>(
    subject: &Subject<'_>,
    title: &str,
    columns: &[Column<Of>],
    part: fn(&Measurement) -> &Of,
) -> Markup {
    // A column that no run has takes no room.
    let is_there = |column: &&Column<Of>| {
        subject
            .runs()
            .any(|(_, run)| (column.1)(part(&run.measurement)).is_some())
    };
    let columns: Vec<&Column<Of>> = columns.iter().filter(is_there).collect();
    html! {
        @for (number, columns) in columns.chunks(units::columns(columns.len(), COLUMNS)).enumerate() {
            div.scroll { table.sortable {
                caption { (title) @if number > 0 { ", continued" } }
                thead { tr {
                    (heads(subject))
                    @for (name, _) in columns { th scope="col" { (name) } }
                } }
                tbody { @for (series, run) in subject.runs() { tr {
                    (names(subject, series, run))
                    @for (name, of) in columns {
                        @match of(part(&run.measurement)) {
                            Some((exact, shown)) => td data-label=(name) { data value=(exact) { (shown) } },
                            None => td data-label=(name) { "–" },
                        }
                    }
                } } }
            } }
        }
    }
}

fn heads(subject: &Subject<'_>) -> Markup {
    html! {
        th scope="col" { "workload" }
        @if !subject.is_single() { th.words scope="col" { "setting" } }
        th scope="col" { "run" }
    }
}

fn names(subject: &Subject<'_>, series: &Series<'_>, run: &Run) -> Markup {
    html! {
        th scope="row" { (run.workload.name) }
        @if !subject.is_single() { td.words data-label="setting" { (series.label) } }
        td data-label="run" { (run.round + 1) }
    }
}

/// Builds the table of the streams of workloads that have several.
fn streams(subject: &Subject<'_>) -> Markup {
    if subject
        .runs()
        .all(|(_, run)| run.measurement.streams.is_empty())
    {
        return html! {};
    }
    let per_second =
        |run: &Run, count: u64| count as f64 * 1e9 / run.measurement.elapsed_ns.max(1) as f64;
    let direction = |run: &Run, of: &DirectionResult, [rate, bytes, mean]: [&str; 3]| {
        html! {
            td data-label=(rate) { data value=(of.accesses) { (units::number(per_second(run, of.accesses))) } }
            td data-label=(bytes) { data value=(of.bytes) { (units::number(per_second(run, of.bytes) / 1e6)) } }
            td data-label=(mean) { data value=(of.latency.mean_ns) { (units::time(of.latency.mean_ns)) } }
        }
    };
    let [reads, writes] = [
        ["read IOPS", "read MB/s", "read mean"],
        ["write IOPS", "write MB/s", "write mean"],
    ];
    html! {
        div.scroll { table.sortable {
            caption { "Streams that ran beside each other" }
            thead { tr {
                (heads(subject))
                th scope="col" { "stream" }
                @for name in reads.iter().chain(&writes) {
                    th scope="col" { (name) }
                }
            } }
            tbody { @for (series, run) in subject.runs() { @for stream in &run.measurement.streams { tr {
                (names(subject, series, run))
                td.words data-label="stream" { (stream.name) }
                (direction(run, &stream.read, reads))
                (direction(run, &stream.write, writes))
            } } } }
        } }
    }
}
