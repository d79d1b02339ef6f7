//! Hosts: groups of initiators, what they see, and how they are logged in.

use config::change::CreateHost;
use control::answer::HostView;
use control::endpoint::{host, session};
use maud::{Markup, html};
use model::Error;
use model::data_plane::SessionInfo;

use super::list::stream;
use super::maps::map_table;
use super::{chap, figures};
use crate::answer::Answer;
use crate::form::{Field, button, form, hidden, submit};
use crate::format::{at, duration, escape, listed, number_of};
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::live::stream::address;
use crate::mark::State;
use crate::preview::{Asking, change};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Initiators that a row of the list tells.
const TOLD_INITIATORS: usize = 2;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/hosts", &host::LIST, list)
        .act("/hosts/create", &host::CREATE, create)
        .act("/hosts/initiators/add", &host::ADD_INITIATOR, add_initiator)
        .act(
            "/hosts/initiators/remove",
            &host::REMOVE_INITIATOR,
            remove_initiator,
        )
        .page("/hosts/{name}", &host::SHOW, show)
        .act("/hosts/{name}/delete", &host::DELETE, delete)
}

/// Host of the list, with its present figures.
pub(super) struct Row {
    view: HostView,
    rates: Rates,
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let table = table(visit)?;
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let page = Page::new("Hosts").live(stream("hosts", &view));
    Ok(page
        .body(html! { (table.show(&view)) (create_form(visit)) })
        .into())
}

/// Returns the table of all hosts.
pub(super) fn table(visit: &Visit) -> Result<Table<'static, Row>, Error> {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let moment = console.live.now();
    let rows = visit.call(&host::LIST, &[])?.into_iter().map(|view| Row {
        rates: moment.host(&view.spec.name, &config, &console.live.hosts),
        view,
    });
    let mut columns = vec![
        Column::text("name", "Name", |row: &Row| {
            let name = row.view.spec.name.as_str();
            Cell::text(name).link(at("/hosts", &[name]))
        }),
        Column::text("state", "State", |row: &Row| {
            match (row.view.sessions, row.view.maps.len()) {
                (0, 0) => Cell::state(State::Quiet, "no unit"),
                (0, _) => Cell::state(State::Warn, "not logged in"),
                _ => Cell::state(State::Good, "logged in"),
            }
        }),
        Column::text("initiators", "Initiators", |row: &Row| {
            let all = &row.view.spec.initiators;
            let told = listed(all, TOLD_INITIATORS);
            Cell::text(all.join(", ")).markup(html! { span.t { (told) } })
        }),
        Column::text("chap", "CHAP", |row: &Row| match &row.view.spec.chap {
            Some(chap) => Cell::text(format!("as {}", chap.user)),
            None => Cell::text("none"),
        }),
        Column::figure("units", "Units", |row: &Row| {
            Cell::count(row.view.maps.len() as u64)
        }),
        Column::figure("sessions", "Sessions", |row: &Row| {
            Cell::count(row.view.sessions as u64)
        }),
    ];
    columns.extend(figures::with_means(|row: &Row| Some(row.rates)));
    Ok(Table {
        word: "host",
        columns,
        rows: rows.collect(),
        id: |row| format!("h:{}", row.view.spec.name),
        empty: html! { p { strong { "No host yet." } " A host is a machine that uses units, known by its initiator's name." } },
    })
}

fn create_form(visit: &Visit) -> Markup {
    if !visit.may(&host::CREATE) {
        return html! {};
    }
    html! {
        details {
            summary { "Add a host" }
            (form("/hosts/create", html! {
                (Field::new("name", "Name").text())
                (Field::new("initiators", "Initiators").hint("One iSCSI name in each line; * and ? are wildcards.").area(3))
                (submit("Preview"))
            }))
        }
    }
}

fn create(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.form.get("name");
    let initiators = visit
        .form
        .get("initiators")
        .split_whitespace()
        .map(str::to_owned);
    let body = CreateHost {
        name: name.to_owned(),
        initiators: initiators.collect(),
        except: Vec::new(),
        chap: None,
    };
    let asking = Asking {
        title: format!("Add host {name}"),
        label: "Add the host",
        back: "/hosts".to_owned(),
        done: format!("Host {name} is added. Map a unit to it next."),
    };
    change(visit, &host::CREATE, &[], body, &asking)
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let view = visit.call(&host::SHOW, &[name])?;
    let actions = html! {
        a.button href=(format!("/maps?host={}", escape(name))) { "Show its paths" }
        (button(visit, host::DELETE.role, &format!("{}/delete", at("/hosts", &[name])), "Delete", &[("cascade", "yes")]))
    };
    let page = Page::new(name)
        .crumb("Hosts", "/hosts")
        .actions(actions)
        .live(address("page", ""));
    Ok(page.body(html! {
        (initiators(visit, &view))
        (chap::of_host(visit, &view.spec))
        section aria-label="Sessions" { h2 { "Sessions" } (sessions(visit, name)?.plain()) }
        section aria-label="Units" {
            h2 { "Units" }
            (map_table(visit, view.maps.clone()).plain())
            p { a.button href=(format!("/maps?host={}&add=1#maps", escape(name))) { "Map a unit to it" } }
        }
    })
    .into())
}

fn initiators(visit: &Visit, view: &HostView) -> Markup {
    let name = &view.spec.name;
    let may = visit.may(&host::ADD_INITIATOR);
    html! {
        section aria-label="Initiators" {
            h2 { "Initiators" }
            ul.tasks {
                @for initiator in &view.spec.initiators {
                    li.row-buttons {
                        span.name { (initiator) }
                        a.button href=(format!("/maps?host={}&initiator={}#explain", escape(name), escape(initiator))) { "What it sees" }
                        (button(visit, host::REMOVE_INITIATOR.role, "/hosts/initiators/remove", "Remove",
                            &[("host", name), ("initiator", initiator)]))
                    }
                }
                @for initiator in &view.spec.except { li { "except " span.name { (initiator) } } }
            }
            @if may {
                details {
                    summary { "Add an initiator" }
                    (form("/hosts/initiators/add", html! {
                        (hidden("host", name))
                        (Field::new("initiator", "Initiator").hint("The iSCSI name; * and ? are wildcards.").text())
                        (submit("Preview"))
                    }))
                }
            }
        }
    }
}

fn sessions(
    visit: &Visit,
    name: &str,
) -> Result<Table<'static, (SessionInfo, Option<Rates>)>, Error> {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let moment = console.live.now();
    let sees_all = visit.reader().is_some_and(|reader| reader.grant.is_none());
    let all = if sees_all {
        visit.call(&session::LIST, &[])?
    } else {
        Vec::new()
    };
    let own = |info: &SessionInfo| {
        console
            .live
            .hosts
            .of(&config, &info.initiator)
            .is_some_and(|host| *host == *name)
    };
    let rows = all
        .into_iter()
        .filter(own)
        .map(|info| (moment.session(info.tsih), info));
    let mut columns = vec![
        Column::text(
            "session",
            "Session",
            |row: &(SessionInfo, Option<Rates>)| {
                let tsih = row.0.tsih.to_string();
                Cell::text(tsih.as_str()).link(at("/sessions", &[&tsih]))
            },
        ),
        Column::text("from", "From", |row: &(SessionInfo, Option<Rates>)| {
            let peer = row
                .0
                .connections
                .first()
                .map(|of| of.peer.ip().to_canonical().to_string());
            Cell::text(peer.unwrap_or_default())
        }),
        Column::text("target", "Target", |row: &(SessionInfo, Option<Rates>)| {
            Cell::text(row.0.target.as_deref().unwrap_or("discovery"))
        }),
        Column::text("age", "Age", |row: &(SessionInfo, Option<Rates>)| {
            Cell::text(duration(row.0.age_s))
        }),
    ];
    columns.extend(figures::with_means(|row: &(SessionInfo, Option<Rates>)| {
        row.1
    }));
    Ok(Table {
        word: "session",
        columns,
        rows: rows.map(|(rates, info)| (info, rates)).collect(),
        id: |row| format!("s:{}", row.0.tsih),
        empty: html! { p { "It is not logged in. The page of each unit says what to type on the host." } },
    })
}

fn add_initiator(visit: &Visit) -> Result<Answer, Error> {
    let (host, initiator) = (visit.form.get("host"), visit.form.get("initiator"));
    let asking = Asking {
        title: format!("Add an initiator to {host}"),
        label: "Add the initiator",
        back: at("/hosts", &[host]),
        done: format!("{initiator} belongs to {host}."),
    };
    change(visit, &host::ADD_INITIATOR, &[host, initiator], (), &asking)
}

fn remove_initiator(visit: &Visit) -> Result<Answer, Error> {
    let (host, initiator) = (visit.form.get("host"), visit.form.get("initiator"));
    let asking = Asking {
        title: format!("Remove an initiator from {host}"),
        label: "Remove the initiator",
        back: at("/hosts", &[host]),
        done: format!("{initiator} no longer belongs to {host}."),
    };
    change(
        visit,
        &host::REMOVE_INITIATOR,
        &[host, initiator],
        (),
        &asking,
    )
}

fn delete(visit: &Visit) -> Result<Answer, Error> {
    let name = visit.name(0);
    let view = visit.call(&host::SHOW, &[name])?;
    let asking = Asking {
        title: format!(
            "Delete host {name} and its {}",
            number_of(view.maps.len(), "map")
        ),
        label: "Delete the host",
        back: "/hosts".to_owned(),
        done: format!("Host {name} was deleted."),
    };
    change(visit, &host::DELETE, &[name], (), &asking)
}
