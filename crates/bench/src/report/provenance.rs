//! Provenance of the figures: what was run on what, and how to read it. Without provenance, figures
//! are worth nothing.

use maud::{Markup, html};

use super::subject::Subject;
use crate::facts::FACTS;
use crate::results::Run;
use crate::workload::{Stream, Workload};
use model::quantity::format_size;

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    html! {
        section id="provenance" {
            h2 { "Target, machine and workloads" }
            div.scroll { table.facts {
                caption { "Target and machine" }
                @if subject.sources.len() > 1 {
                    thead { tr { td {} @for source in subject.sources { th scope="col" { (source.label) } } } }
                }
                tbody { @for (name, of) in FACTS { tr {
                    th scope="row" { (name) }
                    @for source in subject.sources { td.words data-label=(source.label) { (of(&source.results)) } }
                } } }
            } }
            (workloads(subject))
        }
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
            caption { "Workloads, in IOmeter's terms" }
            thead { tr {
                @for name in ["workload", "stream", "access", "share", "reads", "random", "aligned to", "in flight", "workers"] {
                    th scope="col" { (name) }
                }
            } }
            tbody { @for workload in seen { @for stream in &workload.streams { @for line in &stream.specification.lines { tr {
                th scope="row" { (workload.name) }
                td.words data-label="stream" { (stream.specification.name) }
                td data-label="access" { (format_size(u64::from(line.size))) }
                td data-label="share" { (line.of_size_percent) " %" }
                td data-label="reads" { (line.reads_percent) " %" }
                td data-label="random" { (line.random_percent) " %" }
                td data-label="aligned to" { @if line.align == 0 { "block" } @else { (format_size(u64::from(line.align))) } }
                (own(stream))
            } } } } }
        } }
    }
}

fn own(stream: &Stream) -> Markup {
    let words = |own: Option<u32>| own.map_or("as above".to_owned(), |own| own.to_string());
    html! { td data-label="in flight" { (words(stream.outstanding)) } td data-label="workers" { (words(stream.workers)) } }
}

/// Explains how the figures were made and what they mean.
pub(super) fn method() -> Markup {
    html! {
        section id="method" {
            h2 { "How to read this" }
            ul.method {
                li {
                    b { "Runs, not seconds, are compared. " }
                    "The seconds of a run depend on each other; repeated whole runs hardly do. The comparison uses "
                    "logarithms, so that a change is a ratio: by pairs of one round if the settings took "
                    "turns, otherwise by Welch's method."
                }
                li {
                    b { "Intervals. " }
                    "Each is wide enough for the whole table, not only for each cell, to keep the stated "
                    "chance of a false difference. "
                    "“No difference” means that no difference was found; the interval shows how large one "
                    "could still be."
                }
                li {
                    b { "Latency " } "counts from submission, or in an open loop from the appointed time, so "
                    "that a stall counts for every access that would have met it."
                }
                li {
                    b { "Processor time " } "is that of the machine that generated the load."
                }
            }
        }
    }
}
