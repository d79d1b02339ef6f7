//! The table that people colour by hand: green better, red worse, yellow equal; here with its
//! intervals. Colour never stands alone: an arrow and a word say the same.

use maud::{Markup, html};

use super::subject::{Contrast, Subject};
use super::units;
use crate::compare::{Figure, Made, Row, Verdict};

/// Number of comparisons above which the tables of single figures are closed at first.
const FEW: usize = 3;

/// Figures that have a table of all settings: rate, latency, and the side of the wire on which the
/// time went.
const AT_A_GLANCE: [Figure; 4] = [Figure::Iops, Figure::MeanMs, Figure::KavgMs, Figure::DavgMs];

pub(super) fn section(subject: &Subject<'_>) -> Markup {
    if subject
        .contrasts
        .iter()
        .all(|contrast| contrast.comparison.rows.is_empty())
    {
        return html! {};
    }
    html! {
        section id="verdicts" {
            h2 { "Better, worse or no different" }
            p.note {
                "A difference is reported only if its interval excludes “no difference”. If nothing differs, "
                "a whole family of tables still reports a difference with a chance of " (units::tick(subject.alpha * 100.0)) " %" "."
            }
            p.legend {
                span.entry { span.key.better {} "▲▼ better" } span.entry { span.key.worse {} "▲▼ worse" }
                span.entry { span.key.same {} "= no difference" }
                span.entry { span.key.unknown {} "? cannot tell: more runs are needed" }
            }
            @if subject.contrasts.len() > 1 {
                @for base in bases(subject) {
                    @for figure in AT_A_GLANCE { (matrix(subject, base, figure)) }
                }
            }
            @for contrast in &subject.contrasts {
                @if !contrast.comparison.rows.is_empty() { (table(subject, contrast)) }
            }
        }
    }
}

fn title(figure: Figure) -> &'static str {
    match figure {
        Figure::Iops => "Accesses per second",
        Figure::MeanMs => "Mean latency",
        Figure::P99Ms => "p99 latency",
        Figure::KavgMs => "KAVG (this side of the wire)",
        Figure::DavgMs => "DAVG (from the wire to the answer)",
        Figure::CpuUs => "Processor time per access",
    }
}

fn value(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Iops => units::number(value),
        Figure::MeanMs | Figure::P99Ms | Figure::KavgMs | Figure::DavgMs => {
            units::time(value * 1e6)
        }
        Figure::CpuUs => units::time(value * 1e3),
    }
}

/// Returns the class of a cell with this verdict.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "same",
        Verdict::CannotTell => "unknown",
    }
}

/// Returns the arrow up or down, if there is a difference.
pub(super) fn sign(row: &Row) -> &'static str {
    match (row.verdict, row.ratio) {
        (Verdict::Better | Verdict::Worse, Some(ratio)) if ratio.estimate > 1.0 => "▲",
        (Verdict::Better | Verdict::Worse, _) => "▼",
        (Verdict::NoDifference, _) => "=",
        (Verdict::CannotTell, _) => "?",
    }
}

/// Lists every series that is a base of comparisons, once.
fn bases(subject: &Subject<'_>) -> Vec<usize> {
    let mut bases: Vec<usize> = subject
        .contrasts
        .iter()
        .map(|contrast| contrast.base)
        .collect();
    bases.dedup();
    bases
}

/// Columns of one table beside the one that names the row. A page 1,280 pixels wide shows all of
/// them.
const COLUMNS: usize = 5;

/// Builds the table of one figure, for all workloads and all series that are compared with one
/// base.
fn matrix(subject: &Subject<'_>, base: usize, figure: Figure) -> Markup {
    let contrasts = || {
        subject
            .contrasts
            .iter()
            .filter(|contrast| contrast.base == base)
    };
    let workloads: Vec<&String> = subject
        .workloads
        .iter()
        .filter(|workload| contrasts().any(|contrast| row(contrast, workload, figure).is_some()))
        .collect();
    if workloads.is_empty() {
        return html! {};
    }
    html! {
        @for (number, workloads) in workloads.chunks(units::columns(workloads.len(), COLUMNS)).enumerate() {
            div.scroll { table.sortable {
                caption {
                    (title(figure)) " against " (subject.series[base].label) @if number > 0 { ", continued" }
                }
                thead { tr {
                    th scope="col" { "setting" }
                    @for workload in workloads { th scope="col" { (workload) } }
                } }
                tbody { @for contrast in contrasts() { tr {
                    th scope="row" { (subject.series[contrast.series].label) }
                    @for workload in workloads { (short_cell(contrast, workload, figure)) }
                } } }
            } }
        }
    }
}

fn row<'c>(contrast: &'c Contrast, workload: &str, figure: Figure) -> Option<&'c Row> {
    let rows = &mut contrast.comparison.rows.iter();
    rows.find(|row| row.workload == workload && row.figure == figure)
}

fn short_cell(contrast: &Contrast, workload: &str, figure: Figure) -> Markup {
    let Some(row) = row(contrast, workload, figure) else {
        return html! { td.unknown data-label=(workload) { "–" } };
    };
    let ratio = row.ratio.map_or(row.b / row.a, |ratio| ratio.estimate);
    html! {
        td class={ "verdict " (class(row.verdict)) } title=(row.verdict.words()) data-label=(workload) {
            b { data value=(ratio) { (sign(row)) " " (units::change(ratio)) } }
            @if let Some(ratio) = row.ratio {
                small { (units::change(ratio.low)) " to " (units::change(ratio.high)) }
            }
        }
    }
}

/// Builds the table of all figures of one contrast.
fn table(subject: &Subject<'_>, contrast: &Contrast) -> Markup {
    let [base, series] = [contrast.base, contrast.series].map(|index| &subject.series[index].label);
    let runs = contrast
        .comparison
        .rows
        .first()
        .map_or((0, 0), |row| row.runs);
    let open = (subject.contrasts.len() <= FEW).then_some("");
    // Only a device at the end of a wire has KAVG and DAVG.
    let rows = || contrast.comparison.rows.iter();
    let figures =
        Figure::ALL.map(|figure| rows().any(|row| row.figure == figure).then_some(figure));
    let figures: Vec<Figure> = figures.into_iter().flatten().collect();
    html! {
        details open=[open] {
            summary { b { (series) } " against " (base) ": every figure" }
            @for (number, figures) in figures.chunks(units::columns(figures.len(), COLUMNS)).enumerate() {
                div.scroll { table {
                    caption {
                        (series) " against " (base) ", "
                        @match contrast.made { Made::InTurns => "run in turns", Made::Apart => "run apart" }
                        ", " (runs.1) " and " (runs.0) " runs" @if number > 0 { ", continued" }
                    }
                    thead { tr {
                        th scope="col" { "workload" }
                        @for figure in figures { th scope="col" { (title(*figure)) } }
                    } }
                    tbody { @for workload in &subject.workloads { @if row(contrast, workload, Figure::Iops).is_some() { tr {
                        th scope="row" { (workload) }
                        @for figure in figures { (cell(contrast, workload, *figure)) }
                    } } } }
                } }
            }
            @for (only, label) in [(&contrast.comparison.only_a, base), (&contrast.comparison.only_b, series)] {
                @if !only.is_empty() { p.note { "Only in " (label) ": " (only.join(", ")) "." } }
            }
        }
    }
}

fn cell(contrast: &Contrast, workload: &str, figure: Figure) -> Markup {
    let Some(row) = row(contrast, workload, figure) else {
        return html! { td.unknown data-label=(title(figure)) { "–" } };
    };
    html! {
        td class={ "verdict " (class(row.verdict)) } data-label=(title(figure)) {
            b { (sign(row)) " " (units::change(row.ratio.map_or(row.b / row.a, |ratio| ratio.estimate))) }
            span { (row.verdict.words()) }
            @if let Some(ratio) = row.ratio {
                small { (units::change(ratio.low)) " to " (units::change(ratio.high)) }
            }
            small { data value=(row.a) { (value(figure, row.a)) } " → " data value=(row.b) { (value(figure, row.b)) } }
        }
    }
}
