//! Overview: whether all is well, what to do, and how fast everything is now.

use std::cmp::Reverse;

use control::answer::Status;
use control::endpoint::{pool, status};
use maud::{Markup, html};
use model::Error;
use model::pool::status::PoolView;

use super::figures;
use crate::answer::Answer;
use crate::chart::Chart;
use crate::format::{at, number_of, size};
use crate::frame::Page;
use crate::live::health::{shown, tasks};
use crate::live::moment::io_place;
use crate::live::points::value;
use crate::live::rates::Rates;
use crate::live::stream::address;
use crate::routes::Routes;
use crate::table::{Cell, Column, State, Table};
use crate::visit::Visit;

/// Talkers that the page lists.
const TALKERS: usize = 8;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes.page("/", &status::STATUS, show)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let status = visit.call(&status::STATUS, &[])?;
    let pools = visit.call(&pool::LIST, &[])?;
    let page = Page::new("Overview").live(address("overview", ""));
    Ok(page.body(html! {
        (to_do(&status))
        (charts(visit))
        section aria-label="Top talkers" { h2 { "Top talkers" } (talkers(visit).plain()) }
        section aria-label="Pools" { h2 { "Pools" } (pool_table(pools).plain()) }
    })
    .into())
}

fn to_do(status: &Status) -> Markup {
    let tasks = tasks(status);
    let shown = shown(status);
    html! {
        section #to-do aria-label="What to do" {
            @if tasks.is_empty() {
                p.state.(shown.class()) { span aria-hidden="true" { (shown.mark()) " " } (shown.sentence) }
            } @else {
                h2 { "What to do" }
                ul.tasks {
                    @for task in &tasks {
                        li {
                            p.state.(task.state.class()) { span aria-hidden="true" { (task.state.mark()) " " }
                                a href=(task.path) { (task.what) } }
                            @if let Some(next) = &task.next { p { (next) } }
                        }
                    }
                }
            }
            p.quiet { (number_of(status.units, "unit")) ", " (number_of(status.hosts, "host")) ", "
                (number_of(status.targets, "target")) ", "
                span data-text="sessions" { (status.sessions) } " sessions, generation "
                span data-text="generation" { (status.generation) } ", version " (status.version) ", up "
                (crate::format::duration(status.uptime_s)) }
        }
    }
}

fn charts(visit: &Visit) -> Markup {
    let points = visit.console.live.points();
    let stages = ["whole", "wire in", "queue", "device", "reply"];
    let charts = [
        Chart { title: "Throughput", unit: "MiB/s", first: value::BYTES, lines: &["read", "written"], decimals: 1 },
        Chart { title: "Commands", unit: "per second", first: value::COMMANDS, lines: &["reads", "writes"], decimals: 0 },
        Chart { title: "Median latency", unit: "ms", first: value::P50, lines: &stages, decimals: 3 },
        Chart { title: "99th percentile", unit: "ms", first: value::P99, lines: &stages, decimals: 3 },
    ];
    html! {
        section aria-label="Last five minutes" {
            h2 { "Last five minutes" }
            div.charts { @for chart in &charts { (chart.draw(&points)) } }
        }
    }
}

/// A unit as one session uses it.
struct Talker {
    tsih: u16,
    lun: u16,
    host: String,
    unit: String,
    rates: Rates,
}

fn talkers(visit: &Visit) -> Table<'static, Talker> {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let moment = console.live.now();
    let mut rows = Vec::new();
    for session in &moment.snapshot().sessions {
        for lun in &session.luns {
            let Some(rates) = moment.lun(session.tsih, lun.lun).filter(|it| it.commands > 0.0) else {
                continue;
            };
            let host = console.live.hosts.of(&config, &session.initiator);
            rows.push(Talker {
                tsih: session.tsih,
                lun: lun.lun,
                host: host.map_or_else(|| session.initiator.clone(), |host| host.to_string()),
                unit: lun.unit.clone(),
                rates,
            });
        }
    }
    rows.sort_by_key(|row| Reverse(row.rates.bytes as u64));
    rows.truncate(TALKERS);
    let mut columns = vec![
        Column::text("host", "Host", |row: &Talker| {
            Cell::text(row.host.as_str()).link(at("/sessions", &[&row.tsih.to_string()]))
        }),
        Column::text("unit", "Unit", |row: &Talker| {
            Cell::text(row.unit.as_str()).link(at("/units", &[&row.unit]))
        }),
    ];
    columns.extend(figures::with_means(|row: &Talker| Some(row.rates)));
    Table {
        word: "talker",
        columns,
        rows,
        id: |row| format!("l:{}:{}", row.tsih, row.lun),
        empty: html! { p { "No host reads or writes now." } },
    }
}

/// Returns the table of pools in short.
fn pool_table(pools: Vec<PoolView>) -> Table<'static, PoolView> {
    Table {
        word: "pool",
        columns: vec![
            Column::text("name", "Name", |pool: &PoolView| {
                Cell::text(pool.name.as_str()).link(at("/pools", &[&pool.name]))
            }),
            Column::text("state", "State", |pool: &PoolView| {
                Cell::state(pool_state(pool), pool.state.as_str())
            }),
            Column::figure("fill", "Fill", fill),
            Column::figure("size", "Size", |pool: &PoolView| Cell::size(pool.size)),
            Column::figure("free", "Free", |pool: &PoolView| Cell::size(pool.free)),
            Column::figure("iops", "IOPS", |_: &PoolView| Cell::unknown()).live(io_place::OPERATIONS),
            Column::figure("mib", "MiB/s", |_: &PoolView| Cell::unknown()).live(io_place::BYTES),
            Column::figure("disk", "Disk ms", |_: &PoolView| Cell::unknown()).live(io_place::DISK),
            Column::text("scan", "Scan", |pool: &PoolView| Cell::text(pool.scan.as_str())),
        ],
        rows: pools,
        id: |pool| format!("p:{}", pool.name),
        empty: html! {
            p { strong { "No pool yet." } " A pool joins disks, and holds volumes. To make one:" }
            pre { "sandstone pool create NAME mirror DISK DISK" }
        },
    }
}

/// Returns the state of a pool.
pub(super) fn pool_state(pool: &PoolView) -> State {
    match pool.health() {
        model::health::Health::Healthy => State::Good,
        model::health::Health::Attention => State::Warn,
        model::health::Health::Impaired => State::Bad,
    }
}

/// Returns the share of a pool in use, with a bar.
pub(super) fn fill(pool: &PoolView) -> Cell {
    let Some(percent) = pool.capacity else {
        return Cell::unknown();
    };
    let class = match percent {
        90.. => "part bad",
        80.. => "part warn",
        _ => "part",
    };
    let text = format!("{percent}%");
    Cell::figure(percent as f64, text.as_str()).markup(html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.whole width="100" height="10" {}
            rect class=(class) width=(percent.min(100)) height="10" {}
        }
        " " (text) span.quiet { " of " (size(pool.size)) }
    })
}
