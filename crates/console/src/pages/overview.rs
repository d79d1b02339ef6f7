//! Overview: whether all is well, what to do, and how fast everything is now.

use std::cmp::Reverse;

use control::answer::Status;
use control::endpoint::{map, pool, status};
use maud::{Markup, html};
use model::Error;
use model::alert::AlertView;

use super::{alerts, figures, pools};
use crate::answer::Answer;
use crate::chart::Chart;
use crate::form::{lead, sentence};
use crate::format::{at, number_of};
use crate::frame::Page;
use crate::live::health::shown;
use crate::live::points::{KEPT, value};
use crate::live::rates::Rates;
use crate::live::stream::address;
use crate::past;
use crate::routes::Routes;
use crate::table::{Cell, Column, Table};
use crate::visit::Visit;

/// Talkers that the page lists.
const TALKERS: usize = 8;

/// Alerts that the page shows.
const ALERTS: usize = 10;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes.page("/", &status::STATUS, show)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let status = visit.call(&status::STATUS, &[])?;
    let all = visit.call(&pool::LIST, &[])?;
    let page = Page::new("Overview").live(address("overview", ""));
    Ok(page
        .body(html! {
            (to_do(visit, &status))
            @if status.units == 0 { (first_steps(visit, all.is_empty())) }
            (charts(visit))
            (past::of_machine(visit))
            section aria-label="Top talkers" { h2 { "Top talkers" } (talkers(visit).plain()) }
            section aria-label="Pools" { h2 { "Pools" } (pools::table_of(visit, all).plain()) }
        })
        .into())
}

fn to_do(visit: &Visit, status: &Status) -> Markup {
    let shown = shown(status);
    let (known, new): (Vec<&AlertView>, Vec<&AlertView>) = status
        .alerts
        .iter()
        .partition(|alert| alert.acknowledged.is_some());
    html! {
        section #to-do aria-label="What to do" {
            @if new.is_empty() {
                p.state.(shown.class()) { span aria-hidden="true" { (shown.mark()) " " } (shown.sentence) }
            } @else {
                h2 { "What to do" }
                (alerts::in_short(visit, &new[..new.len().min(ALERTS)]))
                @if new.len() > ALERTS {
                    p { a.button href="/alerts" { "All " (number_of(new.len(), "alert")) } }
                }
            }
            @if !known.is_empty() {
                details {
                    summary { (number_of(known.len(), "alert")) " acknowledged" }
                    (alerts::in_short(visit, &known[..known.len().min(ALERTS)]))
                }
            }
            @if !status.notices.is_empty() {
                details {
                    summary { "Damage to files of the state folder" }
                    ul { @for notice in &status.notices { li { (sentence(notice)) } } }
                }
            }
            @for job in &status.jobs {
                p { a href=(at("/pools", &[&job.pool])) { (job.pool) } ": " (job.text) }
            }
            p.quiet { (number_of(status.units, "unit")) ", " (number_of(status.hosts, "host")) ", "
                (number_of(status.targets, "target")) ", "
                span data-text="sessions" { (status.sessions) } " sessions, generation "
                span data-text="generation" { (status.generation) } ", version " (status.version) ", up "
                (crate::format::duration(status.uptime_s)) }
        }
    }
}

/// Shows the way to a first unit, where there is none.
fn first_steps(visit: &Visit, has_no_pool: bool) -> Markup {
    html! {
        section.empty aria-label="First steps" {
            @if has_no_pool {
                p { strong { "Nothing is served yet." } " From bare disks to a LUN that a host uses, in five steps:" }
                (lead(visit, pool::CREATE.role, "/wizards/first-lun", "Make the first LUN"))
            } @else {
                p { strong { "No host has a unit yet." } " Make a volume in a pool, and give it to a host:" }
                (lead(visit, map::SHARE.role, "/wizards/volume", "Give a host a volume"))
            }
        }
    }
}

fn charts(visit: &Visit) -> Markup {
    let points = visit.console.live.points();
    let stages = ["whole", "wire in", "queue", "device", "reply"];
    let seconds = KEPT as u64;
    let charts = [
        Chart {
            title: "Throughput",
            unit: "MiB/s",
            first: value::BYTES,
            lines: &["read", "written"],
            decimals: 1,
            seconds,
        },
        Chart {
            title: "Commands",
            unit: "per second",
            first: value::COMMANDS,
            lines: &["reads", "writes"],
            decimals: 0,
            seconds,
        },
        Chart {
            title: "Median latency",
            unit: "ms",
            first: value::P50,
            lines: &stages,
            decimals: 3,
            seconds,
        },
        Chart {
            title: "99th percentile",
            unit: "ms",
            first: value::P99,
            lines: &stages,
            decimals: 3,
            seconds,
        },
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
            let Some(rates) = moment
                .lun(session.tsih, lun.lun)
                .filter(|it| it.commands > 0.0)
            else {
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
