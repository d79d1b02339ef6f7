//! What was run on what, and how to read it: without this, figures are worth nothing.

use maud::{Markup, html};

use super::Source;
use super::subject::Subject;
use super::units;
use crate::bench::parameters::{Pace, Parameters};
use crate::bench::results::Run;
use crate::bench::workload::{Stream, Workload};
use crate::config::quantity::format_size;
use crate::date::utc_minute;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    html! {
        section id="provenance" {
            h2 { "What was run on what" }
            div.scroll { table.facts {
                caption { "Target and machine" }
                @if subject.sources.len() > 1 {
                    thead { tr { td {} @for source in subject.sources { th scope="col" { (source.label) } } } }
                }
                tbody { @for (name, of) in FACTS { tr {
                    th scope="row" { (name) }
                    @for source in subject.sources { td.words { (of(source)) } }
                } } }
            } }
            (workloads(subject))
        }
    }
}

type Fact = (&'static str, fn(&Source) -> String);

const FACTS: &[Fact] = &[
    ("target", |s| s.results.target.name.clone()),
    ("size", |s| match s.results.target.len {
        0 => "not known".to_owned(),
        len => format!("{} ({} bytes)", format_size(len), units::count(len)),
    }),
    ("blocks", |s| {
        match (s.results.target.granularity, s.results.target.physical) {
            (0, _) => "not known".to_owned(),
            (granularity, physical) => format!("{granularity} bytes, {physical} beneath"),
        }
    }),
    ("thin", |s| yes(s.results.target.thin)),
    ("volatile write cache", |s| {
        yes(s.results.target.volatile_cache)
    }),
    ("measured from", |s| or_unknown(&s.results.machine.host)),
    ("processor", |s| match s.results.machine.cores {
        0 => "not known".to_owned(),
        cores => format!("{cores} × {}", or_unknown(&s.results.machine.processor)),
    }),
    ("memory", |s| match s.results.machine.memory {
        0 => "not known".to_owned(),
        memory => format_size(memory),
    }),
    ("system", |s| or_unknown(&s.results.machine.kernel)),
    ("measured with", |s| or_unknown(&s.results.tool)),
    ("begun", |s| match s.results.started_unix_s {
        0 => "not known".to_owned(),
        unix_s => utc_minute(unix_s),
    }),
    ("runs", |s| {
        let rounds = s
            .results
            .runs
            .iter()
            .map(|run| run.round + 1)
            .max()
            .unwrap_or(0);
        format!("{} in {rounds} rounds", s.results.runs.len())
    }),
    ("time", |s| {
        each(s, |p| {
            format!(
                "{} s measured after {} s",
                seconds(p.run_time_ms),
                seconds(p.ramp_up_ms)
            )
        })
    }),
    ("accesses in flight", |s| {
        each(s, |p| format!("{} per worker", p.outstanding))
    }),
    ("workers", |s| each(s, |p| p.workers.to_string())),
    ("working set", |s| each(s, working_set)),
    ("bytes written", |s| each(s, |p| p.data.to_string())),
    ("pace", |s| each(s, pace)),
    ("largest I/O", |s| {
        each(s, |p| {
            p.max_io.map_or("not limited".to_owned(), |size| {
                format_size(u64::from(size))
            })
        })
    }),
    ("filled before", |s| each(s, |p| yes(p.fill))),
    ("verified", |s| each(s, |p| yes(p.verify))),
    ("seed", |s| each(s, |p| p.seed.to_string())),
];

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() {
        "not known".to_owned()
    } else {
        text.to_owned()
    }
}

fn seconds(ms: u64) -> String {
    units::number(ms as f64 / 1000.0)
}

/// A parameter of all runs: its values, each once.
fn each(source: &Source, of: impl Fn(&Parameters) -> String) -> String {
    let mut values: Vec<String> = Vec::new();
    for run in &source.results.runs {
        let value = of(&run.parameters);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    match values.len() {
        0 => "–".to_owned(),
        1..=8 => values.join(", "),
        more => format!("{more} values from {} to {}", values[0], values[more - 1]),
    }
}

fn working_set(parameters: &Parameters) -> String {
    let len = parameters.working_set.map_or("all".to_owned(), format_size);
    match parameters.start {
        0 => len,
        start => format!("{len} from {} on", format_size(start)),
    }
}

fn pace(parameters: &Parameters) -> String {
    match parameters.pace {
        Pace::Closed => "closed loop: the next when one has ended".to_owned(),
        Pace::Limited(iops) => format!("closed loop, at most {} per second", units::number(iops)),
        Pace::Open(iops) => format!("open loop: {} per second", units::number(iops)),
    }
}

fn workloads(subject: &Subject<'_>) -> Markup {
    let mut seen: Vec<&Workload> = Vec::new();
    for (_, Run { workload, .. }) in subject.runs() {
        if !seen.contains(&workload) {
            seen.push(workload);
        }
    }
    html! {
        div.scroll { table {
            caption { "Workloads, in IOmeter's words" }
            thead { tr {
                @for name in ["workload", "stream", "access", "share", "reads", "random", "aligned to", "in flight", "workers"] {
                    th scope="col" { (name) }
                }
            } }
            tbody { @for workload in seen { @for stream in &workload.streams { @for line in &stream.specification.lines { tr {
                th scope="row" { (workload.name) }
                td.words { (stream.specification.name) }
                td { (format_size(u64::from(line.size))) }
                td { (line.of_size_percent) " %" }
                td { (line.reads_percent) " %" }
                td { (line.random_percent) " %" }
                td { @if line.align == 0 { "block" } @else { (format_size(u64::from(line.align))) } }
                (own(stream))
            } } } } }
        } }
    }
}

fn own(stream: &Stream) -> Markup {
    let words = |own: Option<u32>| own.map_or("as above".to_owned(), |own| own.to_string());
    html! { td { (words(stream.outstanding)) } td { (words(stream.workers)) } }
}

/// How the figures were made and what they mean.
pub(super) fn method() -> Markup {
    html! {
        section id="method" {
            h2 { "How to read this" }
            ul.method {
                li {
                    b { "Runs, not seconds, are compared. " }
                    "The seconds of a run depend on each other; whole runs that were repeated nearly do not. What is compared "
                    "are logarithms, so that a change is a ratio: by pairs of one round where settings took turns, else by "
                    "Welch's method."
                }
                li {
                    b { "Intervals. " }
                    "Each is wide enough that the whole table, not each cell, is wrong about equal things as rarely as stated. "
                    "“No difference” means that none was found; the interval says how large one may be all the same."
                }
                li {
                    b { "Latency " } "counts from submission, in an open loop from the appointed time, so that a stall is "
                    "counted by all who would have met it."
                }
                li {
                    b { "Processor time " } "is that of the machine that made the load."
                }
            }
        }
    }
}
