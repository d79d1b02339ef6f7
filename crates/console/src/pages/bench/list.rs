//! The list of benchmarks: the one under way, live, and those that are kept.

use ::benchmarks::{BenchmarkState, BenchmarkView};
use control::endpoint::benchmark;
use maud::{Markup, html};
use model::Error;

use crate::answer::Answer;
use crate::benchmark_figures::{page, place, state, stream_id, texts};
use crate::form::lead;
use crate::format::{at, mib, rate};
use crate::frame::Page;
use crate::pages::list::stream;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Shows the list.
pub(super) fn list(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let all = visit.call(&benchmark::LIST, &[])?;
    let compared = two_newest(&all);
    let table = Table {
        word: "benchmark",
        columns: columns(),
        rows: all,
        id: |row: &BenchmarkView| match row.progress {
            Some(_) => stream_id(row.id),
            None => String::new(),
        },
        empty: empty(visit),
    };
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let role = benchmark::START.role;
    let actions = html! {
        (lead(visit, role, "/bench/new", "New benchmark"))
        (lead(visit, role, "/bench/new?kind=sweep", "New sweep"))
        @if let Some((a, b)) = compared {
            a.button href=(format!("/bench/compare?a={a}&b={b}")) { "Compare" }
        }
    };
    let page = Page::new("Benchmarks").actions(actions);
    let page = page.live(stream("page", &view));
    Ok(page.body(html! { (table.show(&view)) (about()) }).into())
}

/// Returns the newest benchmark that is over, and the newest before it that is like it: of the same
/// kind and on the same unit, if there is one.
fn two_newest(all: &[BenchmarkView]) -> Option<(u64, u64)> {
    let mut over = all.iter().filter(|it| it.progress.is_none() && it.runs > 0);
    let newest = over.next()?;
    let before: Vec<&BenchmarkView> = over.collect();
    let is_like = |it: &&&BenchmarkView| it.naa == newest.naa && it.about == newest.about;
    let other = before.iter().find(is_like).or(before.first())?;
    Some((other.id, newest.id))
}

fn columns() -> Vec<Column<'static, BenchmarkView>> {
    let figure = |key, title, number: usize, of: fn(&BenchmarkView) -> Option<(f64, String)>| {
        let make = move |row: &BenchmarkView| match (&row.progress, of(row)) {
            (Some(_), _) => Cell::text(texts(row)[number].as_str()),
            (None, Some((value, text))) => Cell::figure(value, text),
            (None, None) => Cell::unknown(),
        };
        Column::figure(key, title, make).live(number)
    };
    vec![
        Column::figure("id", "Number", |row: &BenchmarkView| {
            Cell::figure(row.id as f64, row.id.to_string()).link(page(row.id))
        }),
        Column::text("unit", "Unit", |row: &BenchmarkView| {
            Cell::text(row.unit.as_str()).link(at("/units", &[&row.unit]))
        }),
        Column::text("about", "What", |row: &BenchmarkView| {
            let writes = if row.writes { ", writes" } else { "" };
            Cell::text(format!("{}{writes}", row.about))
        }),
        Column::text("state", "State", |row: &BenchmarkView| {
            let text = texts(row)[place::STATE].clone();
            let class = state(row).class();
            let shown = html! { span.state.(class) data-v=(place::STATE) { (text) } };
            Cell::text(row.state.as_str()).markup(shown)
        }),
        figure("iops", "IOPS", place::IOPS, |row| {
            let most = row.most.as_ref()?;
            Some((most.iops, rate(most.iops)))
        }),
        figure("mib", "MiB/s", place::BYTES, |row| {
            let most = row.most.as_ref()?;
            Some((most.bytes_per_s, mib(most.bytes_per_s)))
        }),
        figure("mean", "Mean ms", place::MEAN, |row| {
            let most = row.most.as_ref()?;
            Some((most.mean_ms, format!("{:.3}", most.mean_ms)))
        }),
        figure("p99", "p99 ms", place::P99, |row| {
            let p99 = row.most.as_ref()?.p99_ms?;
            Some((p99, format!("{p99:.3}")))
        }),
        Column::text("comment", "Comment", |row: &BenchmarkView| {
            Cell::text(row.comment.clone().unwrap_or_default())
        }),
        Column::text("started", "Started", |row: &BenchmarkView| {
            Cell::time(row.started_unix_s)
        }),
        Column::text("by", "By", |row: &BenchmarkView| {
            Cell::text(row.by.as_str())
        }),
    ]
}

fn empty(visit: &Visit) -> Markup {
    html! {
        p { "No benchmark was run yet. One tells what a unit can do, and whether a change made it faster." }
        p { (lead(visit, benchmark::START.role, "/bench/new", "Run the first benchmark")) }
    }
}

fn about() -> Markup {
    html! {
        p.quiet { "Figures are those of the fastest workload of each benchmark, and of the last second while one runs. "
            "One benchmark runs at a time. The latest 50 are kept." }
    }
}

/// Returns the benchmarks that are over and have figures, for a choice.
pub(super) fn with_figures(visit: &Visit) -> Result<Vec<BenchmarkView>, Error> {
    let mut all = visit.call(&benchmark::LIST, &[])?;
    all.retain(|it| it.runs > 0 && it.state != BenchmarkState::Running);
    Ok(all)
}
