//! Comparison of two benchmarks: each figure, by how much it changed, and whether that is larger
//! than the noise.

use ::benchmarks::{BenchmarkComparison, BenchmarkView, ComparisonRow, ComparisonVerdict};
use control::endpoint::benchmark;
use maud::{Markup, html};
use model::Error;

use super::list::with_figures;
use crate::answer::Answer;
use crate::benchmark_figures::page;
use crate::form::Field;
use crate::format::{NONE, rate, time};
use crate::frame::Page;
use crate::mark::State;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Shows the choice of two benchmarks, and their comparison once two are chosen.
pub(super) fn compare(visit: &Visit) -> Result<Answer, Error> {
    let all = with_figures(visit)?;
    let page = Page::new("Compare two benchmarks").crumb("Benchmarks", "/bench");
    let (a, b) = (visit.query.some("a"), visit.query.some("b"));
    let (Some(a), Some(b)) = (a, b) else {
        return Ok(page.body(choice(visit, &all)).into());
    };
    let found = visit.call(&benchmark::COMPARE, &[a, b])?;
    let view = View::read(&visit.query);
    let table = table(&found);
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let swapped = format!("/bench/compare?a={}&b={}", found.b.id, found.a.id);
    let page = page.actions(html! { a.button href=(swapped) { "The other way round" } });
    Ok(page
        .body(html! {
            (choice(visit, &all))
            p { (sentence(&found)) }
            @if let Some(advice) = &found.advice { p.state.warn { span aria-hidden="true" { "▲ " } (advice) } }
            (table.show(&view))
            (only("first", &found.only_a))
            (only("second", &found.only_b))
            (facts(&found))
        })
        .into())
}

/// Shows the choice of two benchmarks.
fn choice(visit: &Visit, all: &[BenchmarkView]) -> Markup {
    if all.len() < 2 {
        return html! { div.empty { p { "Two benchmarks that are over are needed for a comparison. "
        a href="/bench" { "Show the benchmarks" } "." } } };
    }
    let options: Vec<(String, String)> = all
        .iter()
        .map(|it| (it.id.to_string(), label(it)))
        .collect();
    let usual = |name: &str, at: usize| match visit.query.some(name) {
        Some(given) => given.to_owned(),
        None => all[at].id.to_string(),
    };
    html! {
        form.form method="get" action="/bench/compare" {
            (Field::new("a", "Compare with").value(&usual("a", 1)).choice(&options))
            (Field::new("b", "Judged").value(&usual("b", 0)).choice(&options))
            div.buttons { button.primary type="submit" { "Compare" } }
        }
    }
}

fn label(view: &BenchmarkView) -> String {
    let comment = view.comment.as_ref().map(|it| format!(", {it}"));
    format!(
        "{}: {}, {}, {}{}",
        view.id,
        view.unit,
        view.about,
        time(view.started_unix_s),
        comment.unwrap_or_default()
    )
}

/// Returns the comparison in one sentence.
fn sentence(found: &BenchmarkComparison) -> String {
    let number = |verdict| {
        found
            .rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    };
    let (a, b) = (found.a.id, found.b.id);
    if found.rows.is_empty() {
        return format!("Benchmarks {a} and {b} have no workload in common.");
    }
    let of = format!("of {} figures", found.rows.len());
    let better = number(ComparisonVerdict::Better);
    let worse = number(ComparisonVerdict::Worse);
    match (better, worse) {
        (0, 0) => format!("Benchmark {b} differs from {a} in none {of} by more than the noise."),
        (better, 0) => {
            format!("Benchmark {b} is better than {a} in {better} {of}, and worse in none.")
        }
        (0, worse) => {
            format!("Benchmark {b} is worse than {a} in {worse} {of}, and better in none.")
        }
        (better, worse) => {
            format!("Benchmark {b} is better than {a} in {better} {of}, and worse in {worse}.")
        }
    }
}

fn verdict(verdict: ComparisonVerdict) -> State {
    match verdict {
        ComparisonVerdict::Better => State::Good,
        ComparisonVerdict::Worse => State::Bad,
        ComparisonVerdict::NoDifference => State::Quiet,
        ComparisonVerdict::CannotTell => State::Warn,
    }
}

fn figure(row: &ComparisonRow, value: f64) -> String {
    match row.figure.as_str() {
        "iops" => rate(value),
        _ => format!("{value:.3}"),
    }
}

fn percent(value: f64) -> String {
    match value {
        // The interval of two rounds can end here, and says nothing.
        value if value >= 1000.0 => "over +1000 %".to_owned(),
        value if value.abs() < 0.05 => "0.0 %".to_owned(),
        value if value < 0.0 => format!("−{:.1} %", -value),
        value => format!("+{value:.1} %"),
    }
}

/// Returns the change with the room that the noise leaves.
fn noise(row: &ComparisonRow) -> String {
    match (row.least_percent, row.most_percent) {
        (Some(least), Some(most)) => format!("{} to {}", percent(least), percent(most)),
        _ => NONE.to_owned(),
    }
}

fn table(found: &BenchmarkComparison) -> Table<'static, ComparisonRow> {
    Table {
        word: "figure",
        columns: vec![
            Column::text("workload", "Workload", |row: &ComparisonRow| {
                Cell::text(row.workload.as_str())
            }),
            Column::text("figure", "Figure", |row: &ComparisonRow| {
                Cell::text(match row.figure.as_str() {
                    "iops" => "IOPS",
                    "mean-ms" => "mean ms",
                    "p99-ms" => "p99 ms",
                    other => other,
                })
            }),
            Column::figure("a", "First", |row: &ComparisonRow| {
                Cell::figure(row.a, figure(row, row.a))
            }),
            Column::figure("b", "Second", |row: &ComparisonRow| {
                Cell::figure(row.b, figure(row, row.b))
            }),
            Column::figure("change", "Change", |row: &ComparisonRow| {
                Cell::figure(row.change_percent, percent(row.change_percent))
            }),
            Column::figure("noise", "Within the noise", |row: &ComparisonRow| {
                Cell::text(noise(row))
            }),
            Column::text("verdict", "Second is", |row: &ComparisonRow| {
                Cell::state(verdict(row.verdict), row.verdict.as_str())
            }),
        ],
        rows: found.rows.clone(),
        id: |_| String::new(),
        empty: html! { p { "The two have no workload in common. Compare benchmarks of the same load." } },
    }
}

fn only(which: &str, names: &[String]) -> Markup {
    html! {
        @if !names.is_empty() { p.quiet { "Only the " (which) " one has: " (names.join("; ")) "." } }
    }
}

/// Shows the two benchmarks, and what was measured differently.
fn facts(found: &BenchmarkComparison) -> Markup {
    html! {
        section aria-label="Measured differently" {
            h2 { "Measured differently" }
            @if found.differences.is_empty() { p { "Nothing: both were measured in the same way." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Table of differences" {
                    table {
                        thead { tr {
                            th scope="col" { "Fact" }
                            th scope="col" { a href=(page(found.a.id)) { "Benchmark " (found.a.id) } }
                            th scope="col" { a href=(page(found.b.id)) { "Benchmark " (found.b.id) } }
                        } }
                        tbody {
                            @for fact in &found.differences {
                                tr { th scope="row" { (fact.fact) } td { (fact.a) } td { (fact.b) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verdicts: &[ComparisonVerdict]) -> BenchmarkComparison {
        let mut found = BenchmarkComparison::default();
        (found.a.id, found.b.id) = (1, 2);
        let row = |verdict: &ComparisonVerdict| ComparisonRow {
            verdict: *verdict,
            ..ComparisonRow::default()
        };
        found.rows = verdicts.iter().map(row).collect();
        found
    }

    #[test]
    fn the_sentence_counts_what_differs_for_certain() {
        use ComparisonVerdict::{Better, CannotTell, NoDifference, Worse};
        for (verdicts, told) in [
            (&[][..], "Benchmarks 1 and 2 have no workload in common."),
            (
                &[NoDifference, CannotTell],
                "Benchmark 2 differs from 1 in none of 2 figures by more than the noise.",
            ),
            (
                &[Better, NoDifference],
                "Benchmark 2 is better than 1 in 1 of 2 figures, and worse in none.",
            ),
            (
                &[Worse, Worse],
                "Benchmark 2 is worse than 1 in 2 of 2 figures, and better in none.",
            ),
            (
                &[Better, Worse],
                "Benchmark 2 is better than 1 in 1 of 2 figures, and worse in 1.",
            ),
        ] {
            assert_eq!(sentence(&found(verdicts)), told);
        }
    }

    #[test]
    fn changes_have_their_sign() {
        let told = [3.51, -12.0, 0.01, 5000.0].map(percent);
        assert_eq!(told, ["+3.5 %", "−12.0 %", "0.0 %", "over +1000 %"]);
    }
}
