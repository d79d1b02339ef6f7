//! One logical unit: its stages, who uses it over which paths, what hinders it, and what to type on
//! each client.

use std::collections::HashMap;

use config::change::ModifyUnit;
use control::answer::UnitView;
use control::endpoint::{benchmark, lu, session, target};
use hint::client_instructions::{Access, Client, reachable};
use maud::{Markup, html};
use model::Error;
use model::config::{Config, MapSpec};
use model::data_plane::SessionInfo;
use model::hindrance::Hindrance;
use model::quantity::parse_size;

use super::figures;
use crate::answer::Answer;
use crate::form::{Field, button, form, lead, sentence, submit};
use crate::format::{at, count, escape, size};
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::live::stream::address;
use crate::object_state::{place_of_unit, unit as state_of};
use crate::past;
use crate::preview::{Asking, change, confirm};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/units/{name}", &lu::SHOW, show)
        .act("/units/{name}/state", &lu::MODIFY, set_state)
        .act("/units/{name}/options", &lu::MODIFY, set_options)
        .act("/units/{name}/clear", &lu::CLEAR, clear)
        .act("/units/{name}/delete", &lu::DELETE, delete)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let view = visit.call(&lu::SHOW, &[name])?;
    let path = at("/units", &[name]);
    let next = if view.spec.offline {
        ("no", "Take online")
    } else {
        ("yes", "Take offline")
    };
    let actions = html! {
        a.button href=(format!("/maps?unit={}", escape(name))) { "Show its paths" }
        (lead(visit, benchmark::START.role, &format!("/bench/new?unit={}", escape(name)), "Benchmark"))
        (button(visit, lu::MODIFY.role, &format!("{path}/state"), next.1, &[("offline", next.0)]))
        (button(visit, lu::DELETE.role, &format!("{path}/delete"), "Delete", &[("cascade", "yes")]))
    };
    let page = Page::new(name).crumb("Units", "/units").actions(actions);
    let page = page.live(address("page", ""));
    Ok(page
        .body(html! {
            (hindrances(visit, &view))
            (now(visit, &view))
            (users(visit, &view)?)
            (past::of_unit(visit, name))
            (maps(visit, &view))
            (facts(&view))
            (what_to_type(visit, &view, None))
            (options(visit, &view))
        })
        .into())
}

fn hindrances(visit: &Visit, view: &UnitView) -> Markup {
    let name = &view.spec.name;
    let path = format!("{}/clear", at("/units", &[name]));
    let (state, word) = state_of(view);
    html! {
        p { (state.show(&word)) @if let Some(fault) = &view.status.fault { ": " (fault) } }
        @if let Some(remedy) = &view.status.remedy { p { (sentence(remedy)) } }
        @if !view.status.hindrances.is_empty() {
            section aria-label="What hinders it" {
                h2 { "What hinders it" }
                ul.tasks {
                    @for hindrance in &view.status.hindrances {
                        li { (hindered(visit, &path, hindrance)) }
                    }
                }
            }
        }
    }
}

fn hindered(visit: &Visit, path: &str, hindrance: &Hindrance) -> Markup {
    let word = hindrance.kind.word();
    html! {
        p { strong { (word.replace('-', " ")) } ": " (sentence(&hindrance.finding))
            @if let Some(by) = &hindrance.by { " By " (by) "." } }
        @if let Some(end) = &hindrance.end { p.quiet { "To end it: " (end) } }
        @if hindrance.kind.clearing().is_some() {
            (button(visit, lu::CLEAR.role, path, "End this state", &[("kind", word)]))
        }
    }
}

/// Shows the figures of now: of the whole unit.
fn now(visit: &Visit, view: &UnitView) -> Markup {
    let rates = visit.console.live.now().unit(&view.spec.name);
    let mut columns = vec![Column::text(
        "unit",
        "Unit",
        |row: &(String, Option<Rates>)| Cell::text(row.0.as_str()),
    )];
    columns.extend(figures::with_quantiles(|row: &(String, Option<Rates>)| {
        row.1
    }));
    let table = Table {
        word: "unit",
        columns,
        rows: vec![(view.spec.name.clone(), rates)],
        id: |row| format!("u:{}", row.0),
        empty: html! {},
    };
    let status = &view.status;
    let mean = |bytes: u64, of: u64| bytes.checked_div(of).map_or("–".to_owned(), size);
    html! {
        section aria-label="Now" {
            h2 { "Now" }
            (table.plain())
            p.quiet { "Since it was opened: " (count(status.reads)) " reads of " (mean(status.read_bytes, status.reads))
                " on average, " (count(status.writes)) " writes of " (mean(status.written_bytes, status.writes))
                ", " (count(status.errors)) " errors." }
        }
    }
}

/// Session that sees the unit.
struct User {
    info: SessionInfo,
    lun: u16,
    host: Option<String>,
    rates: Option<Rates>,
}

/// Shows the sessions that see a unit.
///
/// # Errors
/// The sessions cannot be listed.
pub(crate) fn users(visit: &Visit, view: &UnitView) -> Result<Markup, Error> {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let moment = console.live.now();
    let name = &view.spec.name;
    let used: HashMap<u16, u16> = moment
        .snapshot()
        .sessions
        .iter()
        .filter_map(|of| Some((of.tsih, of.luns.iter().find(|lun| lun.unit == *name)?.lun)))
        .collect();
    // A reader of one folder does not see sessions.
    let sessions = match visit.reader().is_some_and(|reader| reader.grant.is_none()) {
        true => visit.call(&session::LIST, &[])?,
        false => Vec::new(),
    };
    let rows = sessions.into_iter().filter_map(|info| {
        let lun = used
            .get(&info.tsih)
            .copied()
            .or_else(|| mapped_lun(&config, &info, view))?;
        Some(User {
            host: console
                .live
                .hosts
                .of(&config, &info.initiator)
                .map(|it| it.to_string()),
            rates: moment.lun(info.tsih, lun),
            lun,
            info,
        })
    });
    let mut columns = vec![
        Column::text("host", "Host", |row: &User| {
            let name = row.host.as_ref().unwrap_or(&row.info.initiator);
            Cell::text(name.as_str()).link(at("/sessions", &[&row.info.tsih.to_string()]))
        }),
        Column::text("path", "Path", |row: &User| Cell::text(path_of(&row.info))),
        Column::figure("lun", "LUN", |row: &User| Cell::count(row.lun.into())),
    ];
    columns.extend(figures::with_means(|row: &User| row.rates));
    let table = Table {
        word: "path",
        columns,
        rows: rows.collect(),
        id: |row| format!("l:{}:{}", row.info.tsih, row.lun),
        empty: html! { p { "No session sees this unit. " a href="/maps#explain" { "Ask why a host does not see it" } "." } },
    };
    Ok(html! { section aria-label="Who uses it" { h2 { "Who uses it" } (table.plain()) } })
}

/// Returns the LUN under which a session may see the unit, by the configuration.
fn mapped_lun(config: &Config, info: &SessionInfo, view: &UnitView) -> Option<u16> {
    let target = info.target.as_ref()?;
    let fits = |map: &&MapSpec| {
        let is_of = |name: &String| {
            let host = config.host(name);
            host.is_some_and(|host| host.membership(&info.initiator).is_some())
        };
        map.host.as_ref().is_none_or(is_of) && map.leads_to(config, target)
    };
    let map = view.maps.iter().find(fits)?;
    info.luns.contains(&map.lun).then_some(map.lun)
}

fn path_of(info: &SessionInfo) -> String {
    let mut ends: Vec<String> = info
        .connections
        .iter()
        .map(|of| format!("{} → {}", of.peer.ip().to_canonical(), of.local))
        .collect();
    ends.dedup();
    ends.join(", ")
}

fn maps(visit: &Visit, view: &UnitView) -> Markup {
    html! {
        section aria-label="Maps" {
            h2 { "Maps" }
            (super::maps::map_table(visit, view.maps.clone()).plain())
        }
    }
}

fn facts(view: &UnitView) -> Markup {
    let (spec, status) = (&view.spec, &view.status);
    let yes = |is: bool| if is { "yes" } else { "no" };
    html! {
        section aria-label="Properties" {
            h2 { "Properties" }
            dl.facts {
                dt { "Size" } dd { (size(status.size)) " (" (count(status.size)) " bytes)" }
                dt { "Data on" } dd { @match spec.backend.volume() {
                    Some(volume) => a href=(at("/volumes", &[volume])) { (volume) },
                    None => (place_of_unit(view)),
                } }
                @if let Some(allocated) = status.allocated { dt { "Allocated" } dd { (size(allocated)) } }
                @if let Some(available) = status.available { dt { "Room beneath" } dd { (size(available)) } }
                dt { "NAA" } dd { code { "naa." (spec.naa) } }
                dt { "Serial number" } dd { code { (spec.serial) } }
                dt { "Block size" } dd { (spec.block_size) " B, physical "
                    (status.physical_block_size.unwrap_or(spec.physical_block_size)) " B" }
                dt { "Write cache" } dd { (yes(status.write_cache)) }
                dt { "Read only" } dd { (yes(status.read_only)) }
                dt { "Thin" } dd { (yes(spec.thin)) }
                dt { "Reservation" } dd { (status.reservation.as_deref().unwrap_or("none")) }
            }
        }
    }
}

/// Shows the commands for each client, once for each map. Those of one client may be open already.
pub(crate) fn what_to_type(visit: &Visit, view: &UnitView, open: Option<Client>) -> Markup {
    let config = visit.console.door.plane().transactions.config();
    let accesses = view
        .maps
        .iter()
        .take(4)
        .filter_map(|map| access(&config, view, map));
    let accesses: Vec<(String, Access)> = accesses.collect();
    // The client that the reader has comes first.
    let others = Client::ALL
        .into_iter()
        .filter(|client| open != Some(*client));
    let clients: Vec<Client> = open.into_iter().chain(others).collect();
    html! {
        section #clients aria-label="What to type on each client" {
            h2 { "What to type on each client" }
            @if accesses.is_empty() {
                p { "No host may see the unit yet: map it to a host first." }
            }
            @for (host, access) in &accesses {
                h3 { (host) }
                @for client in &clients {
                    details open[open == Some(*client)] {
                        summary { (client.title()) }
                        pre { @for line in client.commands(access) { (line) "\n" } }
                    }
                }
            }
        }
    }
}

/// Returns the host of a map, and how it reaches the unit.
pub(super) fn access(config: &Config, view: &UnitView, map: &MapSpec) -> Option<(String, Access)> {
    let target = match map.targets(config) {
        Some(names) => names.iter().find_map(|iqn| config.target(iqn))?,
        None => config.targets.first()?,
    };
    let host = map.host.as_ref().and_then(|name| config.host(name));
    let portals = target.portal_groups.iter().flat_map(|group| &group.portals);
    let access = Access {
        portals: portals.map(|portal| reachable(*portal)).collect(),
        target: target.iqn.clone(),
        lun: map.lun,
        naa: view.spec.naa.clone(),
        block_size: view.spec.block_size,
        chap_user: host.and_then(|host| Some(host.chap.as_ref()?.user.clone())),
        initiator: host
            .and_then(|host| host.initiators.first().cloned())
            .filter(|it| !it.contains(['*', '?'])),
    };
    Some((
        map.host.clone().unwrap_or_else(|| "Every host".to_owned()),
        access,
    ))
}

fn options(visit: &Visit, view: &UnitView) -> Markup {
    if !visit.may(&lu::MODIFY) {
        return html! {};
    }
    let spec = &view.spec;
    let yes_or_no = [
        ("yes".to_owned(), "yes".to_owned()),
        ("no".to_owned(), "no".to_owned()),
    ];
    let word = |is: bool| if is { "yes" } else { "no" };
    let percent = spec
        .threshold_percent
        .map(|it| it.to_string())
        .unwrap_or_default();
    html! {
        details {
            summary { "Change its options" }
            (form(&format!("{}/options", at("/units", &[&spec.name])), html! {
                (Field::new("write_cache", "Write cache").value(word(spec.write_cache))
                    .hint("Writes are acknowledged before they are durable, until the host flushes.").choice(&yes_or_no))
                (Field::new("read_only", "Read only").value(word(spec.read_only)).choice(&yes_or_no))
                (Field::new("size", "New size").optional()
                    .hint("Only a larger size, such as 200G. The size of a volume is changed on the volume's page.").text())
                (Field::new("threshold", "Warn at percent used").optional().value(&percent)
                    .hint("Hosts are told when so much of the space is in use; 0 turns it off.").number())
                (submit("Preview"))
            }))
        }
    }
}

fn set_state(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let offline = visit.form.get("offline") == "yes";
    let word = if offline { "offline" } else { "online" };
    let asking = Asking {
        title: format!("Take unit {name} {word}"),
        label: if offline {
            "Take offline"
        } else {
            "Take online"
        },
        back: at("/units", &[name]),
        done: format!("Unit {name} is {word}."),
    };
    let body = ModifyUnit {
        offline: Some(offline),
        ..ModifyUnit::default()
    };
    change(visit, &lu::MODIFY, &[name], body, &asking)
}

fn set_options(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let form = &visit.form;
    let flag = |name: &str| form.some(name).map(|value| value == "yes");
    let size = form.some("size").map(|text| {
        parse_size(text).map_err(|error| Error::invalid(error, "enter a size such as 200G"))
    });
    let threshold = form.some("threshold").map(|text| {
        let number = text.parse::<u8>().ok().filter(|percent| *percent <= 100);
        number.ok_or_else(|| {
            Error::invalid(
                format!("{text:?} is not a percentage"),
                "enter a number from 0 to 100",
            )
        })
    });
    let body = ModifyUnit {
        size: size.transpose()?,
        write_cache: flag("write_cache"),
        read_only: flag("read_only"),
        threshold_percent: threshold.transpose()?,
        ..ModifyUnit::default()
    };
    let asking = Asking {
        title: format!("Change unit {name}"),
        label: "Change it",
        back: at("/units", &[name]),
        done: format!("Unit {name} was changed."),
    };
    change(visit, &lu::MODIFY, &[name], body, &asking)
}

fn delete(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let asking = Asking {
        title: format!("Delete unit {name}"),
        label: "Delete the unit",
        back: "/units".to_owned(),
        done: format!("Unit {name} was deleted. Its data stays where it lay."),
    };
    change(visit, &lu::DELETE, &[name], (), &asking)
}

/// Ends a state that stops I/O, after the reader has seen what it protects.
fn clear(visit: &Visit) -> Result<Answer, Error> {
    let (name, kind) = (visit.name(0), visit.form.get("kind"));
    let how = |dry_run| lu::Clear { dry_run };
    let found = visit.ask(&lu::CLEAR, &[name, kind], how(true), ())?;
    let asking = Asking {
        title: format!("End {kind} of unit {name}"),
        label: "End this state",
        back: at("/units", &[name]),
        done: format!("Unit {name}: {kind} was ended."),
    };
    let words = html! {
        @if found.ended.is_empty() { p { "The unit is not in this state." } }
        @for hindrance in &found.ended {
            p { (sentence(&hindrance.finding)) }
            @if let Some(danger) = hindrance.kind.danger() {
                p.state.warn { span aria-hidden="true" { "▲ " } (danger) }
            }
        }
    };
    confirm(visit, &asking, words, || {
        visit
            .ask(&lu::CLEAR, &[name, kind], how(false), ())
            .map(drop)
    })
}

/// Returns the names of targets, for suggestions.
pub(super) fn target_names(visit: &Visit) -> Vec<String> {
    let targets = visit.call(&target::LIST, &[]).unwrap_or_default();
    targets.into_iter().map(|view| view.spec.iqn).collect()
}
