//! Volumes: folders, volumes and snapshots of all pools, and one of them with its snapshots.

use control::endpoint::volume::{self, How, Listed};
use control::endpoint::{map, pool as pool_endpoint};
use maud::{Markup, html};
use model::Error;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, DatasetView};

use crate::answer::Answer;
use crate::form::{Field, button, form, lead, submit};
use crate::format::{ago, at, escape, size, time};
use crate::frame::Page;
use crate::preview::{Asking, confirm};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/volumes", &volume::LIST, list)
        .page("/volumes/{name}", &volume::LIST, show)
        .act("/volumes/{name}/snapshot", &volume::SNAPSHOT, snapshot)
        .act("/volumes/{name}/hold", &volume::SNAPSHOT, hold)
        .act("/volumes/{name}/release", &volume::CHANGE, release)
        .act("/volumes/{name}/destroy", &volume::CHANGE, destroy)
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let kinds = match visit.query.get("kind") {
        "snapshot" => "snapshot",
        _ => "folder,volume",
    };
    let listed = Listed {
        pool: visit.query.some("pool").map(str::to_owned),
        kinds: Some(kinds.to_owned()),
        properties: Some("compression,reservation".to_owned()),
        ..Listed::default()
    };
    let all = visit.console.door.datasets(&visit.asker, &listed)?;
    let is_snapshots = kinds == "snapshot";
    let pool = visit
        .query
        .some("pool")
        .map(|pool| format!("pool={}&", escape(pool)))
        .unwrap_or_default();
    let page = Page::new(if is_snapshots { "Snapshots" } else { "Volumes" });
    let page = page.actions(html! {
        @if is_snapshots { a.button href=(format!("/volumes?{}", pool.trim_end_matches('&'))) { "Volumes and folders" } }
        @else { a.button href=(format!("/volumes?{pool}kind=snapshot")) { "Snapshots" } }
    });
    let pools = visit.reader().is_none_or(|it| it.grant.is_some())
        || !visit.call(&pool_endpoint::LIST, &[])?.is_empty();
    super::list::answer(&table(visit, all, pools), visit, page)
}

fn table(visit: &Visit, rows: Vec<DatasetView>, has_pools: bool) -> Table<'static, DatasetView> {
    Table {
        word: "dataset",
        columns: vec![
            Column::text("name", "Name", |it: &DatasetView| {
                Cell::text(it.name.as_str()).link(at("/volumes", &[&it.name]))
            }),
            Column::text("kind", "Kind", |it: &DatasetView| {
                Cell::text(it.kind.as_str())
            }),
            Column::figure("size", "Size", |it: &DatasetView| maybe_size(it.size)),
            Column::figure("used", "Used", |it: &DatasetView| Cell::size(it.used)),
            Column::figure("referenced", "Referenced", |it: &DatasetView| {
                maybe_size(it.referenced)
            }),
            Column::figure("available", "Available", |it: &DatasetView| {
                maybe_size(it.available)
            }),
            Column::figure("block_size", "Block size", |it: &DatasetView| {
                maybe_size(it.block_size.map(u64::from))
            }),
            Column::figure("created", "Created", |it: &DatasetView| {
                Cell::figure(it.created_s as f64, ago(it.created_s))
            }),
            Column::text("holds", "Holds", |it: &DatasetView| {
                let tags: Vec<&str> = it.holds.iter().map(|hold| hold.tag.as_str()).collect();
                Cell::text(tags.join(", "))
            }),
        ],
        rows,
        id: |_| String::new(),
        empty: html! {
            @if has_pools {
                p { strong { "Nothing here yet." } " A volume is the data of a unit." }
                p { (lead(visit, map::SHARE.role, "/wizards/volume", "Make a volume for a host")) }
            } @else {
                p { strong { "No pool yet." } " Volumes lie in pools: see " a href="/pools" { "pools" } "." }
            }
        },
    }
}

fn maybe_size(bytes: Option<u64>) -> Cell {
    bytes.map_or_else(Cell::unknown, Cell::size)
}

/// Finds a dataset with all its properties, and what the page shows below it: the snapshots of a
/// volume, or the folders and volumes in a folder.
fn find(visit: &Visit) -> Result<(DatasetView, Vec<DatasetView>), Error> {
    let name = visit.name(0);
    let door = &visit.console.door;
    let alone = Listed {
        below: Some(name.to_owned()),
        depth: Some(0),
        ..Listed::default()
    };
    let found = door.datasets(&visit.asker, &alone)?.pop();
    let found = found.ok_or_else(|| {
        Error::not_found(
            format!("there is no dataset {name}"),
            "see the list of volumes",
        )
    })?;
    let kinds = match found.kind.as_str() {
        "volume" => "snapshot",
        "folder" => "folder,volume",
        _ => return Ok((found, Vec::new())),
    };
    let below = Listed {
        below: Some(name.to_owned()),
        kinds: Some(kinds.to_owned()),
        ..Listed::names_only()
    };
    let mut below = door.datasets(&visit.asker, &below)?;
    below.retain(|it| it.name != *name);
    Ok((found, below))
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let (dataset, below) = find(visit)?;
    let name = &dataset.name;
    let page = Page::new(name.as_str()).crumb("Volumes", "/volumes");
    let page = match name.split_once('@') {
        Some((volume, _)) => page.crumb(volume, at("/volumes", &[volume])),
        None => page,
    };
    let page = page.actions(actions(visit, &dataset));
    Ok(page
        .body(html! {
            (facts(visit, &dataset))
            @if dataset.kind == "volume" { (snapshots(visit, &dataset, below)) }
            @else if dataset.kind == "folder" {
                h2 { "In this folder" }
                (table(visit, below, true).plain())
            }
            (properties(&dataset))
        })
        .into())
}

fn actions(visit: &Visit, dataset: &DatasetView) -> Markup {
    let path = at("/volumes", &[&dataset.name]);
    html! {
        @if dataset.kind == "snapshot" && dataset.holds.is_empty() {
            (button(visit, volume::SNAPSHOT.role, &format!("{path}/hold"), "Hold it", &[("tag", "console")]))
        }
        @if dataset.kind == "snapshot" {
            (lead(visit, volume::SNAPSHOT.role, &format!("/wizards/restore?snapshot={}", escape(&dataset.name)), "Restore"))
        }
        @if dataset.kind == "volume" {
            (lead(visit, volume::SNAPSHOT.role, &format!("/wizards/restore?volume={}", escape(&dataset.name)), "Restore"))
        }
        @if dataset.holds.is_empty() {
            (button(visit, volume::CHANGE.role, &format!("{path}/destroy"), "Destroy", &[]))
        }
    }
}

fn facts(visit: &Visit, dataset: &DatasetView) -> Markup {
    let config = visit.console.door.plane().transactions.config();
    let units: Vec<&str> = config
        .units
        .iter()
        .filter(|unit| unit.backend.volume() == Some(dataset.name.as_str()))
        .map(|unit| unit.name.as_str())
        .collect();
    let clones = dataset.properties.iter().find(|it| it.name == "clones");
    let clones = clones.map_or("", |it| it.value.as_str()).split(',');
    let clones = clones.filter(|name| !matches!(*name, "" | "-"));
    let path = at("/volumes", &[&dataset.name]);
    html! {
        dl.facts {
            dt { "Kind" } dd { (dataset.kind) }
            @if let Some(bytes) = dataset.size { dt { "Size" } dd { (size(bytes)) } }
            dt { "Used" } dd { (size(dataset.used)) }
            @if let Some(bytes) = dataset.referenced { dt { "Referenced" } dd { (size(bytes)) } }
            @if let Some(bytes) = dataset.available { dt { "Available" } dd { (size(bytes)) } }
            dt { "Created" } dd { (time(dataset.created_s)) " (" (ago(dataset.created_s)) ")" }
            @if let Some(origin) = &dataset.origin { dt { "Cloned from" } dd { a href=(at("/volumes", &[origin])) { (origin) } } }
            @if dataset.kind != "folder" {
                dt { "Served by" } dd {
                    @if units.is_empty() { "no unit" }
                    @for unit in &units { a href=(at("/units", &[unit])) { (unit) } " " }
                }
            }
            @for clone in clones { dt { "Clone" } dd { a href=(at("/volumes", &[clone])) { (clone) } } }
            @for hold in &dataset.holds {
                dt { "Held by" } dd { (hold.tag) ", " (ago(hold.created_s)) " "
                    (button(visit, volume::CHANGE.role, &format!("{path}/release"), "Release", &[("tag", &hold.tag)])) }
            }
        }
    }
}

/// Shows the snapshots of a volume, as a line in time with its table.
fn snapshots(visit: &Visit, dataset: &DatasetView, mut own: Vec<DatasetView>) -> Markup {
    own.sort_by_key(|it| std::cmp::Reverse(it.created_s));
    let path = at("/volumes", &[&dataset.name]);
    html! {
        section aria-label="Snapshots" {
            h2 { "Snapshots" }
            @if own.len() > 1 { (timeline(&own)) }
            @if own.is_empty() { p { "No snapshot yet." } } @else { (table(visit, own, true).plain()) }
            @if visit.may(&volume::SNAPSHOT) {
                (form(&format!("{path}/snapshot"), html! {
                    (Field::new("snapshot", "New snapshot").hint("A name such as before-upgrade.").text())
                    (submit("Take it"))
                }))
            }
        }
    }
}

/// Draws snapshots as marks on a line from the oldest to now.
fn timeline(newest_first: &[DatasetView]) -> Markup {
    let now = crate::format::now();
    let first = newest_first.last().map_or(now, |it| it.created_s);
    let span = now.saturating_sub(first).max(1) as f64;
    let x = |at: u64| 10.0 + 580.0 * at.saturating_sub(first) as f64 / span;
    html! {
        figure.chart {
            svg role="img" aria-label="Snapshots as a line in time" viewBox="0 0 600 46" {
                line.grid x1="10" x2="590" y1="16" y2="16" {}
                @for it in newest_first.iter().take(400) {
                    rect x=(format!("{:.1}", x(it.created_s) - 2.0)) y="8" width="4" height="16" fill="currentColor" {
                        title { (it.name) ", " (time(it.created_s)) }
                    }
                }
                text x="10" y="40" { (time(first)) }
                text x="590" y="40" text-anchor="end" { "now" }
            }
        }
    }
}

fn properties(dataset: &DatasetView) -> Markup {
    html! {
        details {
            summary { "Properties" }
            dl.facts {
                @for property in &dataset.properties {
                    dt { (property.name) } dd { (property.rounded) " " span.quiet { (property.source) } }
                }
            }
        }
    }
}

fn snapshot(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let snapshot = visit.form.get("snapshot").trim_start_matches('@');
    let change = DatasetChange::Snapshot {
        names: vec![format!("{name}@{snapshot}")],
        recursive: false,
        properties: Default::default(),
    };
    visit.ask(&volume::SNAPSHOT, &[], How::default(), change)?;
    Ok(Answer::done(
        at("/volumes", &[name]),
        format!("Snapshot {snapshot} is taken."),
    ))
}

fn hold(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let tag = visit.form.get("tag").to_owned();
    let change = DatasetChange::Hold {
        tag,
        names: vec![name.to_owned()],
        recursive: false,
    };
    visit.ask(&volume::SNAPSHOT, &[], How::default(), change)?;
    Ok(Answer::done(
        at("/volumes", &[name]),
        "It is held: nothing destroys it until it is released.",
    ))
}

fn release(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let tag = visit.form.get("tag").to_owned();
    let asking = Asking {
        title: format!("Release {name}"),
        label: "Release it",
        back: at("/volumes", &[name]),
        done: format!("{name} is released."),
    };
    let words = html! { p { "Without the hold " code { (tag) } ", the snapshot may be destroyed by its schedule or by hand." } };
    confirm(visit, &asking, words, || {
        let change = DatasetChange::Release {
            tag: tag.clone(),
            names: vec![name.to_owned()],
            recursive: false,
        };
        visit
            .ask(&volume::CHANGE, &[], How::default(), change)
            .map(drop)
    })
}

fn destroy(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let recursive = visit.form.is_checked("recursive");
    let change = || DatasetChange::Destroy {
        names: vec![name.to_owned()],
        recursive,
        clones: false,
    };
    let seen = visit.ask(&volume::CHANGE, &[], How { dry_run: true }, change())?;
    let asking = Asking {
        title: format!("Destroy {name}"),
        label: "Destroy for ever",
        back: "/volumes".to_owned(),
        done: format!("{name} is destroyed."),
    };
    confirm(visit, &asking, doomed(&seen), || {
        visit
            .ask(&volume::CHANGE, &[], How::default(), change())
            .map(drop)
    })
}

fn doomed(seen: &Changed) -> Markup {
    html! {
        p.state.bad { span aria-hidden="true" { "■ " } "This cannot be taken back. At least " (size(seen.freed)) " would be freed." }
        ul {
            @for it in seen.destroyed.iter().take(100) {
                li { (it.kind) " " span.name { (it.name) }
                    @if !it.units.is_empty() { ": served by " (it.units.join(", ")) ", so it is refused" } }
            }
        }
        @for notice in &seen.notices { p { (notice) } }
    }
}
