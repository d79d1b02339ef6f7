//! Paths and maps: the picture from host to disk, the table behind it, the lines of the map, and
//! why an initiator sees a unit or not.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use config::change::{AddMap, RemoveMap, Share};
use config::explain::{Explanation, Outcome};
use control::answer::{HostView, UnitView};
use control::endpoint::map::{self, Question};
use control::endpoint::{host, lu, pool, session};
use maud::{Markup, html};
use model::Error;
use model::config::MapSpec;
use model::data_plane::SessionInfo;

use super::figures;
use super::list::stream;
use super::mend;
use crate::answer::Answer;
use crate::form::{Field, button, check, form, hidden, sentence, submit, suggestions_of};
use crate::format::{at, escape};
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::mark::State;
use crate::picture::{Source, chain, draw};
use crate::preview::{Asking, change, change_and};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/maps", &map::LIST, show)
        .act("/maps/add", &map::ADD, add)
        .act("/maps/remove", &map::REMOVE, remove)
        .act("/maps/share", &map::SHARE, share)
}

/// Objects that the reader sees. All parts of the page show these, and they are listed once.
struct Seen {
    units: Vec<UnitView>,
    /// Sessions. A reader of one folder sees neither sessions nor pools nor targets.
    sessions: Vec<SessionInfo>,
}

impl Seen {
    fn by(visit: &Visit) -> Result<Self, Error> {
        Ok(Self {
            units: visit.call(&lu::LIST, &[])?,
            sessions: match sees_all(visit) {
                true => visit.call(&session::LIST, &[])?,
                false => Vec::new(),
            },
        })
    }
}

/// Reports whether the reader is not limited to a folder.
fn sees_all(visit: &Visit) -> bool {
    visit.reader().is_some_and(|reader| reader.grant.is_none())
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let seen = Seen::by(visit)?;
    let table = table(visit, &seen);
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let page = Page::new("Paths").live(stream("paths", &view));
    let maps = visit.call(&map::LIST, &[])?;
    let hosts = visit.call(&host::LIST, &[])?;
    Ok(page.body(html! {
        (choose(visit, &seen, &hosts))
        (picture(visit, &seen)?)
        section aria-label="The same as a table" { h2 { "The same as a table" } (table.show(&view)) }
        (explain(visit, &hosts)?)
        section #maps aria-label="Maps" {
            h2 { "Maps" }
            p.quiet { "A map lets a host see a unit. Without a map there is no access." }
            (map_table(visit, chosen(visit, maps)).plain())
            (add_form(visit)?)
        }
    })
    .into())
}

/// Returns the maps of the chosen unit and host.
fn chosen(visit: &Visit, mut maps: Vec<MapSpec>) -> Vec<MapSpec> {
    let (unit, host) = (visit.query.some("unit"), visit.query.some("host"));
    maps.retain(|map| {
        unit.is_none_or(|unit| map.unit == unit)
            && host.is_none_or(|host| map.host.as_deref().is_none_or(|of| of == host))
    });
    maps
}

/// Lists of suggestions, which all forms of the page share.
const UNITS: &str = "all-units";
const HOSTS: &str = "all-hosts";

/// Shows the form that limits the page to a unit or a host.
fn choose(visit: &Visit, seen: &Seen, hosts: &[HostView]) -> Markup {
    let units = seen.units.iter().map(|view| view.spec.name.clone());
    let units: Vec<String> = units.collect();
    let hosts = hosts.iter().map(|view| view.spec.name.clone());
    let hosts: Vec<String> = hosts.collect();
    let query = &visit.query;
    let is_chosen = query.some("unit").is_some() || query.some("host").is_some();
    html! {
        form.filter method="get" action="/maps" {
            label for="unit" { "Unit" }
            input #unit name="unit" list=(UNITS) value=(query.get("unit")) autocomplete="off";
            label for="host" { "Host" }
            input #host name="host" list=(HOSTS) value=(query.get("host")) autocomplete="off";
            button type="submit" { "Show" }
            @if is_chosen { a.button href="/maps" { "All" } }
        }
        (suggestions_of(UNITS, &units))
        (suggestions_of(HOSTS, &hosts))
    }
}

fn picture(visit: &Visit, seen: &Seen) -> Result<Markup, Error> {
    let console = &visit.console;
    let plane = console.door.plane();
    let config = plane.transactions.config();
    let moment = console.live.now();
    let (pools, portals) = match sees_all(visit) {
        true => (
            visit.call(&pool::LIST, &[])?,
            plane.transactions.data_plane().portals(),
        ),
        false => Default::default(),
    };
    let chain = chain(&Source {
        config: &config,
        live: &console.live,
        moment: &moment,
        sessions: &seen.sessions,
        units: &seen.units,
        pools: &pools,
        portals: &portals,
        unit: visit.query.some("unit"),
        host: visit.query.some("host"),
    });
    Ok(html! {
        section aria-label="Picture" {
            @if chain.is_empty() {
                div.empty { p { strong { "Nothing to draw." } " There is no unit here yet. To give a host its first one:" }
                    pre { "sandstone share NAME --size 100G --host IQN" } }
            } @else {
                (draw(&chain))
                p.quiet { "Each box leads to the page that says why. Figures are those of the last five seconds." }
            }
        }
    })
}

/// A path: a session and a unit that it uses; or a mapped host without a session.
pub(super) struct Path {
    session: Option<Rc<SessionInfo>>,
    host: String,
    unit: String,
    lun: u16,
    rates: Option<Rates>,
    place: String,
}

/// Returns the table of all paths.
fn table(visit: &Visit, seen: &Seen) -> Table<'static, Path> {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let moment = console.live.now();
    let places: HashMap<&str, String> = seen
        .units
        .iter()
        .map(|view| {
            (
                view.spec.name.as_str(),
                crate::object_state::place_of_unit(view),
            )
        })
        .collect();
    let place = |name: &str| places.get(name).cloned().unwrap_or_default();
    let mut paths = Vec::new();
    let used = &moment.snapshot().sessions;
    for info in &seen.sessions {
        let Ok(found) = used.binary_search_by_key(&info.tsih, |it| it.tsih) else {
            continue;
        };
        let host = console.live.hosts.of(&config, &info.initiator);
        let host = host.map_or_else(|| info.initiator.clone(), |host| host.to_string());
        let info = Rc::new(info.clone());
        for lun in &used[found].luns {
            paths.push(Path {
                host: host.clone(),
                unit: lun.unit.clone(),
                lun: lun.lun,
                rates: moment.lun(info.tsih, lun.lun),
                place: place(&lun.unit),
                session: Some(Rc::clone(&info)),
            });
        }
    }
    let logged_in: HashSet<String> = paths.iter().map(|path: &Path| path.host.clone()).collect();
    for map in &config.maps {
        let Some(host) = &map.host else { continue };
        if places.contains_key(map.unit.as_str()) && !logged_in.contains(host) {
            paths.push(Path {
                session: None,
                host: host.clone(),
                unit: map.unit.clone(),
                lun: map.lun,
                rates: None,
                place: place(&map.unit),
            });
        }
    }
    let (unit, host) = (visit.query.some("unit"), visit.query.some("host"));
    paths.retain(|path| {
        unit.is_none_or(|unit| path.unit == unit) && host.is_none_or(|host| path.host == host)
    });
    path_table(paths)
}

fn path_table(rows: Vec<Path>) -> Table<'static, Path> {
    let mut columns = vec![
        Column::text("host", "Host", |row: &Path| {
            Cell::text(row.host.as_str()).link(at("/hosts", &[&row.host]))
        }),
        Column::text("session", "Session", |row: &Path| match &row.session {
            Some(info) => {
                let peer = info
                    .connections
                    .first()
                    .map(|of| of.peer.ip().to_canonical().to_string());
                let path = at("/sessions", &[&info.tsih.to_string()]);
                Cell::text(peer.unwrap_or_else(|| info.tsih.to_string())).link(path)
            }
            None => Cell::state(State::Warn, "not logged in"),
        }),
        Column::text("unit", "Unit", |row: &Path| {
            Cell::text(row.unit.as_str()).link(at("/units", &[&row.unit]))
        }),
        Column::figure("lun", "LUN", |row: &Path| Cell::count(row.lun.into())),
    ];
    columns.extend(figures::with_means(|row: &Path| row.rates));
    columns.push(Column::text(
        "group",
        "Port group",
        |row: &Path| match &row.session {
            Some(info) => Cell::text(format!(
                "{} · {}",
                info.target.as_deref().unwrap_or_default(),
                info.portal_group
            )),
            None => Cell::unknown(),
        },
    ));
    columns.push(Column::text("place", "Data on", |row: &Path| {
        Cell::text(row.place.as_str())
    }));
    Table {
        word: "path",
        columns,
        rows,
        id: |row| match &row.session {
            Some(info) => format!("l:{}:{}", info.tsih, row.lun),
            None => String::new(),
        },
        empty: html! { p { "No host uses a unit here." } },
    }
}

/// Returns the table of lines of the map.
pub(super) fn map_table(visit: &Visit, maps: Vec<MapSpec>) -> Table<'_, MapSpec> {
    Table {
        word: "map",
        columns: vec![
            Column::text("unit", "Unit", |map: &MapSpec| {
                Cell::text(map.unit.as_str()).link(at("/units", &[&map.unit]))
            }),
            Column::text("host", "Host", |map: &MapSpec| match &map.host {
                Some(host) => Cell::text(host.as_str()).link(at("/hosts", &[host])),
                None => Cell::text("every host"),
            }),
            Column::text("target", "Target", |map: &MapSpec| {
                Cell::text(map.target.as_deref().unwrap_or("every target"))
            }),
            Column::figure("lun", "LUN", |map: &MapSpec| Cell::count(map.lun.into())),
            Column::text("access", "Access", |map: &MapSpec| {
                Cell::text(if map.read_only {
                    "read only"
                } else {
                    "read and write"
                })
            }),
            Column::buttons("Change", move |map: &MapSpec| {
                let lun = map.lun.to_string();
                let fields = [
                    ("unit", map.unit.as_str()),
                    ("host", map.host.as_deref().unwrap_or_default()),
                    ("target", map.target.as_deref().unwrap_or_default()),
                    ("lun", lun.as_str()),
                ];
                Cell::text("").markup(button(
                    visit,
                    map::REMOVE.role,
                    "/maps/remove",
                    "Remove",
                    &fields,
                ))
            }),
        ],
        rows: maps,
        id: |_| String::new(),
        empty: html! { p { "No map. Without a map, no host sees the unit." } },
    }
}

fn add_form(visit: &Visit) -> Result<Markup, Error> {
    if !visit.may(&map::ADD) {
        return Ok(html! {});
    }
    let query = &visit.query;
    Ok(html! {
        details open[query.some("add").is_some()] {
            summary { "Add a map" }
            (form("/maps/add", html! {
                (Field::new("unit", "Unit").within("map-").value(query.get("unit")).suggested_by(UNITS))
                (Field::new("host", "Host").within("map-").value(query.get("host")).optional()
                    .hint("Without a host, every initiator may see the unit.").suggested_by(HOSTS))
                (Field::new("target", "Target").within("map-").optional().hint("Without a target, the map holds at every target.")
                    .suggesting(&super::unit::target_names(visit)))
                (Field::new("lun", "LUN").within("map-").optional().hint("Without a LUN, the lowest that is free.").number())
                (check("read_only", "Refuse writes", false))
                (submit("Preview"))
            }))
        }
    })
}

fn lun(visit: &Visit) -> Result<Option<u16>, Error> {
    let lun = visit.form.some("lun").map(|text| {
        let number = text.parse().ok();
        number.ok_or_else(|| {
            Error::invalid(
                format!("{text:?} is not a LUN"),
                "enter a number from 0 to 16383",
            )
        })
    });
    lun.transpose()
}

fn text(visit: &Visit, name: &str) -> Option<String> {
    visit.form.some(name).map(str::to_owned)
}

fn back(visit: &Visit) -> String {
    format!("/maps?unit={}#maps", escape(visit.form.get("unit")))
}

fn add(visit: &Visit) -> Result<Answer, Error> {
    let unit = visit.form.get("unit");
    let body = AddMap {
        unit: unit.to_owned(),
        host: text(visit, "host"),
        target: text(visit, "target"),
        lun: lun(visit)?,
        read_only: visit.form.is_checked("read_only"),
    };
    let whom = body.host.clone().unwrap_or_else(|| "every host".to_owned());
    let asking = Asking {
        title: format!("Map {unit} to {whom}"),
        label: "Add the map",
        back: back(visit),
        done: format!("Unit {unit} is mapped to {whom}."),
    };
    change(visit, &map::ADD, &[], body, &asking)
}

fn remove(visit: &Visit) -> Result<Answer, Error> {
    let unit = visit.form.get("unit");
    let body = RemoveMap {
        unit: unit.to_owned(),
        host: text(visit, "host"),
        target: text(visit, "target"),
        lun: lun(visit)?,
        all: false,
    };
    let asking = Asking {
        title: format!("Remove a map of {unit}"),
        label: "Remove the map",
        back: back(visit),
        done: format!("The map of {unit} is removed."),
    };
    change(visit, &map::REMOVE, &[], body, &asking)
}

/// Gives a unit that exists to a host, which is made if it does not exist.
fn share(visit: &Visit) -> Result<Answer, Error> {
    let (unit, host) = (visit.form.get("unit"), visit.form.get("host"));
    let body = Share {
        unit: unit.to_owned(),
        host: host.to_owned(),
        create: None,
        target: text(visit, "target"),
        portals: Vec::new(),
        lun: lun(visit)?,
        read_only: false,
    };
    let asking = Asking {
        title: format!("Give {unit} to {host}"),
        label: "Give it",
        back: format!("{}#clients", at("/units", &[unit])),
        done: format!("Unit {unit} is given to {host}. Below is what to type there."),
    };
    change_and(visit, &map::SHARE, &[], body, &asking, |shared| {
        &shared.committed
    })
}

/// Shows the question why an initiator sees a unit, and its answer.
fn explain(visit: &Visit, hosts: &[HostView]) -> Result<Markup, Error> {
    let query = &visit.query;
    let asked = query.some("initiator");
    let told = match asked {
        Some(initiator) => {
            let question = Question {
                initiator: initiator.to_owned(),
                unit: query.some("unit").map(str::to_owned),
            };
            Some(visit.ask(&map::EXPLAIN, &[], question, ())?)
        }
        None => None,
    };
    let initiators = initiators(visit, hosts);
    Ok(html! {
        section #explain aria-label="Why" {
            h2 { "Why does a host see a unit, or not?" }
            form.form method="get" action="/maps#explain" {
                (Field::new("initiator", "Initiator").value(asked.unwrap_or_default())
                    .hint("The iSCSI name, such as iqn.1998-01.com.vmware:esx1.").suggesting(&initiators))
                (Field::new("unit", "Unit").value(query.get("unit")).optional()
                    .hint("Without a unit, all units that the initiator sees.").suggested_by(UNITS))
                @if let Some(host) = query.some("host") { (hidden("host", host)) }
                (submit("Explain"))
            }
            @if let Some(told) = &told { (explanation(visit, told)) }
        }
    })
}

/// Returns the initiators that are known, from hosts and sessions.
fn initiators(visit: &Visit, hosts: &[HostView]) -> Vec<String> {
    let named = hosts.iter().flat_map(|view| &view.spec.initiators);
    let named = named.filter(|name| !name.contains(['*', '?']));
    let mut all: Vec<String> = named.cloned().collect();
    let moment = visit.console.live.now();
    if sees_all(visit) {
        all.extend(
            moment
                .snapshot()
                .sessions
                .iter()
                .map(|it| it.initiator.clone()),
        );
    }
    all.sort();
    all.dedup();
    all.truncate(500);
    all
}

fn explanation(visit: &Visit, told: &Explanation) -> Markup {
    let (state, word) = if told.visible {
        (State::Good, "seen")
    } else {
        (State::Bad, "not seen")
    };
    html! {
        p { (state.show(word)) ": " (sentence(&told.conclusion)) }
        ol {
            @for step in &told.steps {
                @let (class, word) = match step.outcome {
                    Outcome::Ok => ("step-ok", "in order"),
                    Outcome::Note => ("step-note", "note"),
                    Outcome::Blocked => ("step-blocked", "blocked"),
                };
                li class=(class) {
                    span.quiet { (word) ": " } (step.finding)
                    @if let Some(next) = &step.next { br; code { (next) } }
                }
            }
        }
        (mend::buttons(visit, told))
        @if !told.sees.is_empty() {
            ul {
                @for sight in &told.sees {
                    li { a href=(at("/units", &[&sight.unit])) { (sight.unit) } " as LUN " (sight.lun) " of " (sight.target)
                        @if sight.read_only { ", read only" } ", by " (sight.by) }
                }
            }
        }
    }
}

/// Returns the numbers of the objects of the page, for a stream without them.
pub(super) fn ids(visit: &Visit, view: &View) -> Result<Vec<String>, Error> {
    let ids = table(visit, &Seen::by(visit)?).ids(view);
    Ok(ids.into_iter().filter(|id| !id.is_empty()).collect())
}
