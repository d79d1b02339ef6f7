//! Pools: the list, and one pool as `pool status` shows it, with the latency of each disk.

use control::endpoint::pool;
use maud::{Markup, html};
use model::Error;
use model::pool::history::Happening;
use model::pool::scan::{Scrub, ScrubAction};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

use super::list::stream;
use crate::answer::Answer;
use crate::form::{button, lead, sentence};
use crate::format::{NONE, at, count, duration, escape, size, time};
use crate::frame::Page;
use crate::live::moment::{io_place, number_of};
use crate::live::stream::address;
use crate::mark::State;
use crate::object_state;
use crate::past;
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Events and entries of the history that the page lists.
const MOST: usize = 50;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/pools", &pool::LIST, list)
        .page("/pools/{name}", &pool::SHOW, show)
        .act("/pools/{name}/scrub", &pool::SCRUB, scrub)
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    super::list::answer(
        &table(visit)?,
        visit,
        Page::new("Pools").live(stream("pools", &view)),
    )
}

/// Returns the table of all pools.
pub(super) fn table(visit: &Visit) -> Result<Table<'_, PoolView>, Error> {
    Ok(table_of(visit, visit.call(&pool::LIST, &[])?))
}

/// Returns the table of given pools.
pub(super) fn table_of(visit: &Visit, pools: Vec<PoolView>) -> Table<'_, PoolView> {
    let figure = move |pool: &PoolView, place: usize| {
        Cell::text(live_text(visit, &format!("p:{}", pool.name), place))
    };
    Table {
        word: "pool",
        columns: vec![
            Column::text("name", "Name", |pool: &PoolView| {
                Cell::text(pool.name.as_str()).link(at("/pools", &[&pool.name]))
            }),
            Column::text("state", "State", |pool: &PoolView| {
                Cell::state(object_state::pool(pool), pool.state.as_str())
            }),
            Column::figure("fill", "Fill", fill),
            Column::figure("size", "Size", |pool: &PoolView| Cell::size(pool.size)),
            Column::figure("free", "Free", |pool: &PoolView| Cell::size(pool.free)),
            Column::figure("fragmentation", "Frag", |pool: &PoolView| {
                let share = pool.fragmentation.map(f64::from);
                Cell::maybe(share, share.map(|it| format!("{it}%")).unwrap_or_default())
            }),
            Column::figure("iops", "IOPS", move |pool: &PoolView| {
                figure(pool, io_place::OPERATIONS)
            })
            .live(io_place::OPERATIONS),
            Column::figure("mib", "MiB/s", move |pool: &PoolView| {
                figure(pool, io_place::BYTES)
            })
            .live(io_place::BYTES),
            Column::figure("disk", "Disk ms", move |pool: &PoolView| {
                figure(pool, io_place::DISK)
            })
            .live(io_place::DISK),
            Column::text("outlook", "Outlook", |pool: &PoolView| {
                let outlook = pool.outlook.as_ref();
                outlook.map_or_else(Cell::unknown, |outlook| Cell::text(outlook.text.as_str()))
            }),
            Column::text("scan", "Scan", |pool: &PoolView| {
                Cell::text(pool.scan.as_str())
            })
            .live(io_place::SCAN),
        ],
        rows: pools,
        id: |pool| format!("p:{}", pool.name),
        empty: html! {
            p { strong { "No pool yet." } " A pool joins disks, and holds volumes." }
            p { (lead(visit, pool::CREATE.role, "/wizards/first-lun", "Make a pool and a first LUN")) }
        },
    }
}

/// Returns the present text of a live figure.
fn live_text(visit: &Visit, id: &str, place: usize) -> String {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let texts = console.live.now().texts(id, &config, &console.live.hosts);
    texts
        .and_then(|texts| texts.get(place).cloned())
        .unwrap_or_else(|| NONE.to_owned())
}

/// Returns the share of a pool in use, with a bar.
fn fill(pool: &PoolView) -> Cell {
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
        span.percent { (text) }
    })
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let pool = visit.call(&pool::SHOW, &[name])?;
    let page = Page::new(name)
        .crumb("Pools", "/pools")
        .actions(scrub_buttons(visit, &pool));
    Ok(page
        .live(address("page", ""))
        .body(html! {
            p { (object_state::pool(&pool).show(&pool.state)) @if pool.is_read_only { " read only" } }
            @if let Some(status) = &pool.status { p { (sentence(status)) } }
            @if let Some(action) = &pool.action { p { strong { "What to do: " } (sentence(action)) } }
            (scan(visit, &pool))
            p { "Errors: " (pool.errors) }
            (damage(&pool))
            section aria-label="Disks" { h2 { "Disks" } (vdevs(visit, &pool).plain()) }
            (past::of_pool(visit, &pool.guid, outlook(&pool)))
            (facts(&pool))
            (happenings("Events", events(visit, name)?, "Nothing has happened since the pool was opened."))
            (history(visit, name)?)
        })
        .into())
}

fn scrub_buttons(visit: &Visit, pool: &PoolView) -> Markup {
    let path = format!("{}/scrub", at("/pools", &[&pool.name]));
    let act = |label: &str, action: &str| {
        button(visit, pool::SCRUB.role, &path, label, &[("action", action)])
    };
    let scan = pool
        .scan_status
        .as_ref()
        .filter(|scan| scan.kind == "scrub");
    html! {
        a.button href=(format!("/volumes?pool={}", escape(&pool.name))) { "Its volumes" }
        (lead(visit, pool::CHANGE_VDEVS.role, &format!("/wizards/replace?pool={}", escape(&pool.name)), "Replace a disk"))
        @match scan.map(|scan| scan.state.as_str()) {
            Some("running") => { (act("Pause the scrub", "pause")) (act("Stop the scrub", "stop")) }
            Some("paused") => { (act("Go on with the scrub", "start")) (act("Stop the scrub", "stop")) }
            _ => (act("Scrub", "start")),
        }
    }
}

/// Shows how far a scrub or resilver is, and what proves its result.
fn scan(visit: &Visit, pool: &PoolView) -> Markup {
    let resilvered = pool.scan_status.as_ref();
    let resilvered = resilvered.filter(|scan| scan.kind == "resilver" && scan.state == "finished");
    let path = format!("{}/scrub", at("/pools", &[&pool.name]));
    html! {
        p #scan data-id=(format!("p:{}", pool.name)) { "Scan: " span data-v=(io_place::SCAN) { (pool.scan) } }
        @if let Some(scan) = resilvered {
            @if scan.errors == 0 {
                p { "The resilver has checked each block that it wrote. A scrub reads everything once more, and proves all copies: "
                    (button(visit, pool::SCRUB.role, &path, "Verify by a scrub", &[("action", "start")])) }
            } @else {
                p.state.bad { span aria-hidden="true" { "■ " } (count(scan.errors)) " blocks had no right copy left." }
            }
        }
    }
}

fn damage(pool: &PoolView) -> Markup {
    html! {
        @if !pool.damaged.is_empty() || !pool.lost.is_empty() {
            h2 { "Damaged data" }
            ul {
                @for damaged in pool.damaged.iter().take(MOST) {
                    li { (damaged.dataset) ": " (size(damaged.len)) " at " (count(damaged.offset)) }
                }
                @for lost in pool.lost.iter().take(MOST) {
                    li { (lost.dataset) ": " (size(lost.bytes)) " in " (lost.ranges) " places" }
                }
            }
        }
    }
}

/// Vdev with its depth in the tree.
struct Row<'a> {
    vdev: &'a VdevView,
    depth: usize,
    use_of: &'static str,
}

fn rows<'a>(vdevs: &'a [VdevView], depth: usize, use_of: &'static str, out: &mut Vec<Row<'a>>) {
    for vdev in vdevs {
        out.push(Row {
            vdev,
            depth,
            use_of,
        });
        rows(&vdev.children, depth + 1, use_of, out);
    }
}

fn vdevs<'a>(visit: &'a Visit, pool: &'a PoolView) -> Table<'a, (String, Row<'a>)> {
    let mut all = Vec::new();
    rows(&pool.vdevs, 0, "data", &mut all);
    rows(&pool.logs, 0, "log", &mut all);
    rows(&pool.caches, 0, "cache", &mut all);
    rows(&pool.spares, 0, "spare", &mut all);
    let id = |row: &Row<'_>| format!("d:{}:{}", pool.name, number_of(row.vdev));
    let has_serial = all.iter().any(|row| row.vdev.serial.is_some());
    let rows = all.into_iter().map(|row| (id(&row), row)).collect();
    let serial = Column::text("", "Serial number", |(_, row): &(String, Row<'a>)| {
        Cell::text(row.vdev.serial.as_deref().unwrap_or_default())
    });
    let figure = |title: &'static str, place: usize| {
        Column::figure("", title, move |(id, _): &(String, Row<'a>)| {
            Cell::text(live_text(visit, id, place))
        })
        .live(place)
    };
    let errors = |title: &'static str, of: fn(&VdevView) -> u64| {
        Column::figure("", title, move |(_, row): &(String, Row<'a>)| {
            Cell::count(of(row.vdev))
        })
    };
    let mut columns = vec![
        Column::text("", "Name", |(_, row): &(String, Row<'a>)| {
            Cell::text(row.vdev.name.as_str()).indented(row.depth)
        }),
        Column::text("", "Use", |(_, row): &(String, Row<'a>)| {
            Cell::text(row.use_of)
        }),
        Column::text("", "State", |(_, row): &(String, Row<'a>)| {
            vdev_state(row.vdev)
        }),
        errors("Read errors", |vdev| vdev.read),
        errors("Write errors", |vdev| vdev.write),
        errors("Checksum errors", |vdev| vdev.checksum),
        figure("IOPS", io_place::OPERATIONS),
        figure("MiB/s", io_place::BYTES),
        figure("Disk ms", io_place::DISK),
        figure("With queue ms", io_place::TOTAL),
        Column::text("", "Note", |(_, row): &(String, Row<'a>)| {
            Cell::text(row.vdev.note.as_deref().unwrap_or_default())
        }),
    ];
    // Files and many virtual disks have none.
    if has_serial {
        columns.insert(3, serial);
    }
    Table {
        word: "vdev",
        columns,
        rows,
        id: |(id, _)| id.clone(),
        empty: html! { p { "The pool is not open, so its disks are not known." } },
    }
}

fn vdev_state(vdev: &VdevView) -> Cell {
    let has_errors = vdev.read + vdev.write + vdev.checksum > 0;
    let state = match vdev.state.as_str() {
        "ONLINE" | "AVAIL" if !has_errors && !vdev.is_incomplete => State::Good,
        "ONLINE" | "AVAIL" | "DEGRADED" => State::Warn,
        "OFFLINE" | "INUSE" => State::Quiet,
        _ => State::Bad,
    };
    Cell::state(state, vdev.state.as_str())
}

/// Shows when the pool is full, as a range.
fn outlook(pool: &PoolView) -> Markup {
    html! {
        @match &pool.outlook {
            None => p.quiet { "When the pool is full can be told after two days of figures." },
            Some(outlook) => p {
                strong { (sentence(&outlook.text)) }
                span.quiet {
                    @let grown = outlook.bytes_per_day.unsigned_abs();
                    @if outlook.bytes_per_day >= 0 { " It takes " (size(grown)) " more each day, " }
                    @else { " It takes " (size(grown)) " less each day, " }
                    "by the figures of the last " (duration(outlook.data_s)) "."
                }
            },
        }
    }
}

fn facts(pool: &PoolView) -> Markup {
    html! {
        section aria-label="Properties" {
            h2 { "Properties" }
            dl.facts {
                dt { "Size" } dd { (size(pool.size)) }
                dt { "Allocated" } dd { (size(pool.allocated)) }
                dt { "Free" } dd { (size(pool.free)) }
                dt { "Available to volumes" } dd { (size(pool.available)) }
                dt { "Number" } dd { code { (pool.guid) } }
                @if let Some(open) = pool.open_for_us { dt { "Open for" } dd { (duration(open / 1_000_000)) } }
                @for property in &pool.properties { dt { (property.name) } dd { (property.value) " " span.quiet { (property.source) } } }
            }
        }
    }
}

fn events(visit: &Visit, name: &str) -> Result<Vec<Happening>, Error> {
    let mut events = visit.call(&pool::EVENTS, &[name])?;
    events.reverse();
    events.truncate(MOST);
    Ok(events)
}

fn happenings(title: &str, all: Vec<Happening>, empty: &str) -> Markup {
    html! {
        section aria-label=(title) {
            h2 { (title) }
            @if all.is_empty() { p.quiet { (empty) } }
            ul.tasks { @for event in &all { li { span.quiet { (time(event.time_s)) } " " (event.text) } } }
        }
    }
}

fn history(visit: &Visit, name: &str) -> Result<Markup, Error> {
    let mut entries = visit.call(&pool::HISTORY, &[name])?.entries;
    entries.reverse();
    entries.truncate(MOST);
    Ok(html! {
        section aria-label="History" {
            h2 { "History" }
            ul.tasks {
                @for entry in &entries {
                    li {
                        span.quiet { (time(entry.time_s)) " "
                            @if entry.is_internal { "the pool itself" } @else if entry.user.is_empty() { "unknown user" } @else { (entry.user) }
                            " " }
                        code { (entry.text) }
                    }
                }
            }
        }
    })
}

/// Begins, pauses or stops a scrub. It takes nothing away, so nothing is asked again.
fn scrub(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let (action, done) = match visit.form.get("action") {
        "start" => (ScrubAction::Start, "The scrub runs."),
        "pause" => (ScrubAction::Pause, "The scrub is paused."),
        "stop" => (ScrubAction::Stop, "The scrub is stopped."),
        other => {
            return Err(Error::invalid(
                format!("{other:?} is no action of a scrub"),
                "start, pause or stop it",
            ));
        }
    };
    visit.ask(&pool::SCRUB, &[name], (), Scrub { action })?;
    Ok(Answer::done(at("/pools", &[name]), done))
}
