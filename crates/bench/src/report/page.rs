//! The page: its head, and its parts in the order in which people ask.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::subject::Subject;
use super::{
    figures, latency, path, provenance, settings, summary, throughput, time_series, time_split,
    verdicts,
};
use model::date::utc_minute;

/// Style of the page.
const STYLE: &str = include_str!("page.css");

/// Script that sorts a table by the column whose heading is clicked. The page is complete without
/// it.
pub(super) const SCRIPT: &str = include_str!("sort.js");

/// Policy for the browser: it may use the included style and the one script, and request nothing.
const POLICY: &str = concat!(
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; script-src '",
    include_str!("sort.js.sha256"),
    "'"
);

pub(super) fn page(subject: &Subject<'_>) -> Markup {
    let title = title(subject);
    let parts = parts(subject);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("sandstone ", env!("CARGO_PKG_VERSION")));
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.kicker { "Storage benchmark" @if let Some(date) = date(subject) { " · " (date) } }
                    h1 { (title) }
                    p.standfirst { (standfirst(subject)) }
                    nav aria-label="Parts" { @for (id, name, _) in &parts { a href={ "#" (id) } { (name) } " " } }
                }
                main {
                    @if subject.workloads.is_empty() {
                        p { "These results contain no run." }
                    } @else {
                        (summary::section(subject))
                        (legend(subject))
                        @for (.., part) in &parts { (part) }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// Lists the parts that have content: identifier, name and content.
fn parts(subject: &Subject<'_>) -> Vec<(&'static str, &'static str, Markup)> {
    if subject.workloads.is_empty() {
        return Vec::new();
    }
    let all = [
        ("settings", "Settings", settings::section(subject)),
        ("verdicts", "Better or worse", verdicts::section(subject)),
        ("path", "The path", path::section(subject)),
        ("throughput", "Throughput", throughput::section(subject)),
        ("latency", "Latency", latency::section(subject)),
        ("split", "Where time goes", time_split::section(subject)),
        ("time", "By second", time_series::section(subject)),
        ("figures", "Every figure", figures::section(subject)),
        ("provenance", "Setup", provenance::section(subject)),
        ("method", "How to read", provenance::method()),
    ];
    all.into_iter()
        .filter(|(.., part)| !part.0.is_empty())
        .collect()
}

fn title(subject: &Subject<'_>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for source in subject.sources {
        let name = source.results.target.name.as_str();
        let name = if name.is_empty() {
            source.label.as_str()
        } else {
            name
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.len() {
        0..=3 => names.join(" and "),
        more => format!("{} and {} others", names[0], more - 1),
    }
}

fn date(subject: &Subject<'_>) -> Option<String> {
    let begun = subject
        .sources
        .iter()
        .map(|source| source.results.started_unix_s);
    begun.filter(|unix_s| *unix_s > 0).max().map(utc_minute)
}

fn standfirst(subject: &Subject<'_>) -> Markup {
    let runs = subject.runs().count();
    let machine = subject
        .sources
        .first()
        .map(|source| &source.results.machine);
    let host = machine.map_or("", |machine| machine.host.as_str());
    html! {
        (runs) @if runs == 1 { " run of " } @else { " runs of " }
        (subject.workloads.len()) @if subject.workloads.len() == 1 { " workload" } @else { " workloads" }
        @if subject.series.len() > 1 { " under " (subject.series.len()) " settings" }
        @if !host.is_empty() { ", measured from " (host) }
        "."
    }
}

/// Builds the legend of colours and series for all pictures.
fn legend(subject: &Subject<'_>) -> Markup {
    if subject.is_single() {
        return html! {};
    }
    let coloured = subject.series.iter().filter(|series| series.class != "sx");
    html! {
        p.legend.series {
            @for series in coloured { span.entry { span class={ "key " (series.class) } {} (series.label) } }
            @if subject.series.iter().any(|series| series.class == "sx") { span.entry { span.key.sx {} "all others" } }
        }
    }
}
