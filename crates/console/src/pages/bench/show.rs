//! One benchmark: live while it runs, and its figures, charts and files once it is over.

use ::bench::measure::window::Second;
use ::bench::report::{Network, Source, html as report};
use ::bench::results::{Results, Run};
use ::benchmarks::{BenchmarkDetail, BenchmarkKind, BenchmarkView, RowView};
use control::endpoint::benchmark;
use maud::{Markup, html};
use model::Error;

use super::fields::of_order;
use super::{path, sweep};
use crate::answer::Answer;
use crate::benchmark_figures::{page, place, state, stream_id, texts};
use crate::chart::Chart;
use crate::form::{button, lead, sentence};
use crate::format::{at, duration, escape, mib, now, now_ms, rate, time};
use crate::frame::Page;
use crate::line_chart::{Axis, Line, LineChart, MOST_LINES};
use crate::live::benchmark_points::{so_far, value};
use crate::live::stream::{address, address_of_benchmark};
use crate::preview::{Asking, confirm};
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Most workloads whose seconds are drawn.
const MOST_DRAWN: usize = 8;

/// Shows a benchmark, or gives its results as a file.
pub(super) fn show(visit: &Visit) -> Result<Answer, Error> {
    let detail = visit.call(&benchmark::SHOW, &[visit.name(0)])?;
    let view = View::read(&visit.query);
    let table = table(detail.rows.clone());
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    if let (Some(results), Some(file)) = (&detail.results, visit.query.some("format")) {
        return file_of(&detail.benchmark, results, file);
    }
    let of = &detail.benchmark;
    let is_running = of.progress.is_some();
    let shown = Page::new(format!("Benchmark {} of {}", of.id, of.unit))
        .crumb("Benchmarks", "/bench")
        .actions(actions(visit, &detail))
        .live(match is_running {
            true => address_of_benchmark(of.id),
            false => address("page", ""),
        });
    Ok(shown
        .body(html! {
            @if is_running { (running(of, &detail.seconds)) } @else { (over(of)) }
            @if let Some(sweep) = &detail.sweep { (sweep::draw(visit, sweep, !is_running)) }
            @if !detail.rows.is_empty() {
                section aria-label="Results" { h2 { "Results" } (table.show(&view)) }
            }
            @if let Some(results) = detail.results.as_ref().filter(|_| of.kind == BenchmarkKind::Run) {
                (seconds_of(results))
            }
            (remarks(&detail))
            (facts(&detail))
            (path::whole_path(visit, &detail.order, of.writes))
        })
        .into())
}

fn actions(visit: &Visit, detail: &BenchmarkDetail) -> Markup {
    let of = &detail.benchmark;
    let path = page(of.id);
    if of.progress.is_some() {
        let role = benchmark::STOP.role;
        return html! { (button(visit, role, &format!("{path}/stop"), "Stop", &[])) };
    }
    let fields = of_order(&detail.order).into_iter();
    let fields = fields.map(|(name, value)| format!("{name}={}", escape(&value)));
    let again = format!("/bench/new?{}", fields.collect::<Vec<_>>().join("&"));
    html! {
        (lead(visit, benchmark::START.role, &again, "Run it again"))
        @if of.runs > 0 { a.button href=(format!("/bench/compare?b={}", of.id)) { "Compare" } }
        (button(visit, benchmark::DELETE.role, &format!("{path}/delete"), "Delete", &[]))
    }
}

/// Widths of the charts of a benchmark under way, in seconds.
const WIDTHS: [u64; 4] = [30, 60, 120, 300];

/// Shows a benchmark under way: the last second and the seconds so far, both live.
fn running(of: &BenchmarkView, seconds: &[Second]) -> Markup {
    let now = texts(of);
    let figure = |number: usize, words: &str| {
        html! { dt { (words) } dd data-v=(number) { (now[number]) } }
    };
    html! {
        section aria-label="Now" data-id=(stream_id(of.id)) {
            p { span.state.(state(of).class()) data-v=(place::STATE) { (now[place::STATE]) } }
            dl.facts {
                (figure(place::NOW, "Now"))
                (figure(place::IOPS, "IOPS"))
                (figure(place::BYTES, "MiB/s"))
                (figure(place::MEAN, "Mean ms"))
                (figure(place::P99, "p99 ms"))
                (figure(place::LEFT, "Left, at most"))
            }
            p { a data-v=(place::RESULTS) { (now[place::RESULTS]) } ". "
                a href=(page(of.id)) { "Look again" } }
        }
        (live_charts(of, seconds))
    }
}

/// Draws the seconds so far. The charts are as wide as the benchmark is long, up to a bound.
fn live_charts(of: &BenchmarkView, measured: &[Second]) -> Markup {
    let left = of.progress.as_ref().map_or(0, |progress| progress.left_s);
    let whole = now().saturating_sub(of.started_unix_s) + left;
    let seconds = WIDTHS.into_iter().find(|width| *width >= whole);
    let seconds = seconds.unwrap_or(WIDTHS[WIDTHS.len() - 1]);
    let charts = [
        Chart {
            title: "Accesses",
            unit: "per second",
            first: value::ACCESSES,
            lines: &["all"],
            decimals: 0,
            seconds,
        },
        Chart {
            title: "Latency, 99th percentile",
            unit: "ms",
            first: value::P99,
            lines: &["all"],
            decimals: 3,
            seconds,
        },
    ];
    let points = so_far(measured, now_ms());
    html! {
        div.charts { @for chart in &charts { (chart.draw(&points)) } }
    }
}

fn over(of: &BenchmarkView) -> Markup {
    let took = of
        .ended_unix_s
        .map(|end| end.saturating_sub(of.started_unix_s));
    html! {
        p {
            (state(of).show(of.state.as_str()))
            @if let Some(took) = took { " after " (duration(took)) }
            ", " (of.runs) " of " (of.of_runs) " measurements"
            @if let Some(reason) = &of.reason { ": " (reason) }
            "."
        }
        @if of.runs > 0 {
            p { "Files: "
                a href=(format!("{}?format=report", page(of.id))) { "report as one page" } ", "
                a href=(format!("{}?format=results", page(of.id))) { "results for sandstone bench" } "." }
        }
    }
}

/// Returns the results as a file to keep.
fn file_of(of: &BenchmarkView, results: &Results, file: &str) -> Result<Answer, Error> {
    let name = format!("benchmark-{}", of.id);
    match file {
        "report" => {
            let source = Source {
                label: format!("benchmark {} of lu {}", of.id, of.unit),
                results: results.clone(),
            };
            let text = report(&[source], &Network::measured(Vec::new()), 0.05);
            Ok(Answer::File {
                name: format!("{name}.html"),
                content_type: "text/html; charset=utf-8",
                content: text.into_bytes(),
            })
        }
        "results" => {
            let text = serde_json::to_vec_pretty(results).map_err(|error| {
                let message = format!("the results cannot be written as JSON: {error}");
                Error::invalid(message, "report this as a defect")
            })?;
            Ok(Answer::File {
                name: format!("{name}.json"),
                content_type: "application/json",
                content: text,
            })
        }
        other => Err(Error::invalid(
            format!("there is no file {other:?} of a benchmark"),
            "choose report or results",
        )),
    }
}

/// Returns the table of the figures, over all rounds.
fn table(rows: Vec<RowView>) -> Table<'static, RowView> {
    let ms = |key, title, of: fn(&RowView) -> Option<f64>| {
        Column::figure(key, title, move |row: &RowView| {
            let value = of(row);
            Cell::maybe(value, value.map_or(String::new(), |ms| format!("{ms:.3}")))
        })
    };
    Table {
        word: "workload",
        columns: vec![
            Column::text("workload", "Workload", |row: &RowView| {
                Cell::text(row.name())
            }),
            Column::figure("iops", "IOPS", |row: &RowView| {
                Cell::figure(row.iops, rate(row.iops))
            }),
            Column::figure("spread", "± rounds", |row: &RowView| {
                let spread = row.spread_percent;
                Cell::maybe(
                    spread,
                    spread.map_or(String::new(), |it| format!("{it:.1} %")),
                )
            }),
            Column::figure("mib", "MiB/s", |row: &RowView| {
                Cell::figure(row.bytes_per_s, mib(row.bytes_per_s))
            }),
            ms("mean", "Mean ms", |row| Some(row.mean_ms)),
            ms("p50", "p50 ms", |row| row.p50_ms),
            ms("p99", "p99 ms", |row| row.p99_ms),
            ms("max", "Max ms", |row| Some(row.max_ms)),
            Column::figure("read_iops", "Reads/s", |row: &RowView| {
                Cell::figure(row.read_iops, rate(row.read_iops))
            }),
            Column::figure("write_iops", "Writes/s", |row: &RowView| {
                Cell::figure(row.write_iops, rate(row.write_iops))
            }),
            Column::figure("errors", "Errors", |row: &RowView| Cell::count(row.errors)),
            Column::figure("rounds", "Rounds", |row: &RowView| {
                Cell::count(row.rounds.into())
            }),
        ],
        rows,
        id: |_| String::new(),
        empty: html! { p { "Nothing was measured." } },
    }
}

/// Draws the seconds of each workload, a line for each round.
fn seconds_of(results: &Results) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for run in &results.runs {
        if !names.contains(&run.workload.name.as_str()) {
            names.push(&run.workload.name);
        }
    }
    let rounds = |name: &str| -> Vec<(String, &[Second])> {
        let of_name = |run: &&Run| run.workload.name == name && run.measurement.series.len() > 1;
        let runs = results.runs.iter().filter(of_name).take(MOST_LINES);
        runs.map(|run| {
            let series = run.measurement.series.as_slice();
            (format!("round {}", run.round + 1), series)
        })
        .collect()
    };
    html! {
        section aria-label="Second by second" {
            @let drawn = names.iter().take(MOST_DRAWN).map(|name| (*name, rounds(name)));
            @let drawn = drawn.filter(|(_, rounds)| !rounds.is_empty()).collect::<Vec<_>>();
            @if !drawn.is_empty() { h2 { "Second by second" } }
            @for (name, rounds) in &drawn {
                @if drawn.len() > 1 { h3 { (name) } }
                div.charts { (charts_of(rounds)) }
            }
        }
    }
}

/// Draws accesses and latency of some measurements over their seconds.
fn charts_of(measured: &[(String, &[Second])]) -> Markup {
    let longest = measured.iter().map(|(_, all)| all.len()).max().unwrap_or(0);
    let places: Vec<String> = (1..=longest).map(|second| second.to_string()).collect();
    let axis = Axis::of_places("Second", &places);
    let chart = |title, unit, decimals, of: fn(&Second) -> Option<f64>| {
        let lines = measured.iter().map(|(name, seconds)| Line {
            name: name.clone(),
            values: seconds.iter().map(of).collect(),
        });
        LineChart {
            title,
            unit,
            lines: lines.collect(),
            decimals,
            limit: None,
        }
        .draw(&axis)
    };
    html! {
        (chart("Accesses", "per second", 0, |second| Some((second.reads + second.writes) as f64)))
        (chart("Latency, 99th percentile", "ms", 3, |second| {
            (second.reads + second.writes > 0).then_some(second.p99_ns as f64 / 1e6)
        }))
    }
}

fn remarks(detail: &BenchmarkDetail) -> Markup {
    html! {
        @if !detail.remarks.is_empty() {
            section aria-label="Remarks" {
                h2 { "Remarks" }
                ul { @for remark in detail.remarks.iter().take(100) { li { (sentence(remark)) } } }
            }
        }
    }
}

fn facts(detail: &BenchmarkDetail) -> Markup {
    let (of, order) = (&detail.benchmark, &detail.order);
    let target = detail.results.as_ref().map(|it| &it.target);
    html! {
        section aria-label="What was measured" {
            h2 { "What was measured" }
            dl.facts {
                dt { "Unit" } dd { a href=(at("/units", &[&of.unit])) { (of.unit) } }
                dt { "What" } dd { (of.about) @if of.writes { ", with writes" } @else { ", reads only" } }
                @for (name, value) in of_order(order) {
                    @if let Some(word) = word_for(name) { dt { (word) } dd { (value) } }
                }
                @if let Some(target) = target {
                    dt { "Size of the unit" } dd { (crate::format::size(target.len)) }
                    dt { "Write cache" } dd { @if target.volatile_cache { "yes" } @else { "no" } }
                }
                dt { "Started" } dd { (time(of.started_unix_s)) " by " (of.by) }
                @if let Some(comment) = &of.comment { dt { "Comment" } dd { (comment) } }
            }
        }
    }
}

/// Returns the word for a field of an order, for those that other words do not say already.
fn word_for(field: &str) -> Option<&'static str> {
    Some(match field {
        "outstanding" => "Accesses in flight",
        "workers" => "Workers",
        "rate" => "Accesses per second",
        "time" => "Measured time of each",
        "rounds" => "Rounds",
        "working_set" => "Part of the unit",
        _ => return None,
    })
}

/// Stops a benchmark.
pub(super) fn stop(visit: &Visit) -> Result<Answer, Error> {
    let of = visit.call(&benchmark::STOP, &[visit.name(0)])?;
    let told = format!(
        "Benchmark {} stops. The measurements until now are kept.",
        of.id
    );
    Ok(Answer::done(page(of.id), told))
}

/// Removes a benchmark, after the reader has confirmed it.
pub(super) fn delete(visit: &Visit) -> Result<Answer, Error> {
    let id = visit.name(0);
    let of = visit.call(&benchmark::SHOW, &[id])?.benchmark;
    let asking = Asking {
        title: format!("Delete benchmark {}", of.id),
        label: "Delete the benchmark",
        back: "/bench".to_owned(),
        done: format!("Benchmark {} was deleted.", of.id),
    };
    let words = html! {
        p { "Its results are lost: " (of.about) " on " (of.unit) ", " (time(of.started_unix_s)) "." }
    };
    confirm(visit, &asking, words, || {
        visit.call(&benchmark::DELETE, &[id])
    })
}
