//! Sessions: who is logged in, from where, over which connections; and how to end one.

use control::endpoint::session::{self, Logout};
use maud::{Markup, html};
use model::Error;
use model::data_plane::SessionInfo;

use super::figures;
use super::list::stream;
use crate::answer::Answer;
use crate::form::button;
use crate::format::{at, count, duration, size};
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::preview::{Asking, confirm};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Seconds that an initiator has to log out when it is asked to.
const PATIENCE_S: u16 = 30;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/sessions", &session::LIST, list)
        .page("/sessions/{tsih}", &session::LIST, show)
        .act("/sessions/{tsih}/logout", &session::LOGOUT, log_out)
        .act("/sessions/{tsih}/end", &session::KILL, end)
}

/// Session of the list, with its host and present figures.
pub(super) struct Row {
    info: SessionInfo,
    host: Option<String>,
    rates: Option<Rates>,
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let stream = stream("sessions", &View::read(&visit.query));
    super::list::answer(&table(visit)?, visit, Page::new("Sessions").live(stream))
}

/// Returns the table of all sessions.
pub(super) fn table(visit: &Visit) -> Result<Table<'static, Row>, Error> {
    let console = &visit.console;
    let moment = console.live.now();
    let config = console.door.plane().transactions.config();
    let rows = visit
        .call(&session::LIST, &[])?
        .into_iter()
        .map(|info| Row {
            host: console
                .live
                .hosts
                .of(&config, &info.initiator)
                .map(|name| name.to_string()),
            rates: moment.session(info.tsih),
            info,
        });
    let mut columns = vec![
        Column::text("initiator", "Initiator", |row: &Row| {
            let path = at("/sessions", &[&row.info.tsih.to_string()]);
            Cell::text(row.info.initiator.as_str()).link(path)
        }),
        Column::text("host", "Host", |row: &Row| match &row.host {
            Some(host) => Cell::text(host.as_str()).link(at("/hosts", &[host])),
            None => Cell::unknown(),
        }),
        Column::text("target", "Target", |row: &Row| {
            Cell::text(row.info.target.as_deref().unwrap_or("discovery"))
        }),
        Column::text("from", "From", |row: &Row| Cell::text(peers(&row.info))),
        Column::figure("connections", "Conns", |row: &Row| {
            Cell::count(row.info.connections.len() as u64)
        }),
        Column::figure("luns", "LUNs", |row: &Row| {
            Cell::count(row.info.luns.len() as u64)
        }),
        Column::figure("in_flight", "In flight", |row: &Row| {
            Cell::count(row.info.in_flight.into())
        }),
    ];
    columns.extend(figures::with_means(|row: &Row| row.rates));
    columns.push(Column::figure("age", "Age", |row: &Row| {
        Cell::figure(row.info.age_s as f64, duration(row.info.age_s))
    }));
    Ok(Table {
        word: "session",
        columns,
        rows: rows.collect(),
        id: |row| format!("s:{}", row.info.tsih),
        empty: html! {
            p { strong { "No host is logged in." } " The page of a unit says what to type on each host: "
                a href="/units" { "units" } ". A host that cannot log in: " a href="/maps#explain" { "ask why" } "." }
        },
    })
}

fn peers(info: &SessionInfo) -> String {
    let mut peers: Vec<String> = info
        .connections
        .iter()
        .map(|of| of.peer.ip().to_canonical().to_string())
        .collect();
    peers.dedup();
    peers.join(", ")
}

fn find(visit: &Visit) -> Result<SessionInfo, Error> {
    let number = visit.name(0);
    let sessions = visit.call(&session::LIST, &[])?;
    let found = sessions
        .into_iter()
        .find(|it| it.tsih.to_string() == number);
    found.ok_or_else(|| {
        Error::not_found(
            format!("session {number} does not exist"),
            "it may have ended: see the list of sessions",
        )
    })
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let info = find(visit)?;
    let tsih = info.tsih.to_string();
    let path = at("/sessions", &[&tsih]);
    let page = Page::new(format!("Session {tsih}")).crumb("Sessions", "/sessions");
    let page = page.live(crate::live::stream::address("page", ""));
    let actions = html! {
        (button(visit, session::LOGOUT.role, &format!("{path}/logout"), "Ask to log out", &[]))
        (button(visit, session::KILL.role, &format!("{path}/end"), "End the session", &[]))
    };
    Ok(page
        .actions(actions)
        .body(html! { (facts(visit, &info)) (parts(visit, &info)) })
        .into())
}

fn facts(visit: &Visit, info: &SessionInfo) -> Markup {
    let console = &visit.console;
    let config = console.door.plane().transactions.config();
    let host = console.live.hosts.of(&config, &info.initiator);
    html! {
        dl.facts {
            dt { "Initiator" } dd { (info.initiator) }
            @if let Some(alias) = &info.alias { dt { "Alias" } dd { (alias) } }
            dt { "Host" } dd { @match &host {
                Some(host) => a href=(at("/hosts", &[host])) { (host) },
                None => "no host has this initiator",
            } }
            dt { "Target" } dd { (info.target.as_deref().unwrap_or("discovery session")) }
            dt { "Portal group" } dd { (info.portal_group) }
            dt { "ISID" } dd { code { (info.isid) } }
            dt { "CHAP user" } dd { (info.chap_user.as_deref().unwrap_or("none")) }
            dt { "Age" } dd { (duration(info.age_s)) }
            dt { "Commands" } dd { (count(info.commands)) ", " (info.in_flight) " in flight" }
            dt { "Read, written" } dd { (size(info.read_bytes)) ", " (size(info.written_bytes)) }
        }
    }
}

fn parts(visit: &Visit, info: &SessionInfo) -> Markup {
    let moment = visit.console.live.now();
    let used = moment
        .snapshot()
        .sessions
        .iter()
        .find(|it| it.tsih == info.tsih);
    let luns = used.map(|it| it.luns.clone()).unwrap_or_default();
    let tsih = info.tsih;
    let mut columns = vec![
        Column::text("unit", "Unit", |row: &(u16, u16, String, Option<Rates>)| {
            Cell::text(row.2.as_str()).link(at("/units", &[&row.2]))
        }),
        Column::figure("lun", "LUN", |row: &(u16, u16, String, Option<Rates>)| {
            Cell::count(row.1.into())
        }),
    ];
    columns.extend(figures::with_means(
        |row: &(u16, u16, String, Option<Rates>)| row.3,
    ));
    let rows = luns
        .into_iter()
        .map(|lun| (tsih, lun.lun, lun.unit, moment.lun(tsih, lun.lun)));
    let table = Table {
        word: "unit",
        columns,
        rows: rows.collect(),
        id: |row| format!("l:{}:{}", row.0, row.1),
        empty: html! { p { "The session has not used a unit yet. It sees " (info.luns.len()) " of them." } },
    };
    html! {
        h2 { "Units in use" }
        (table.plain())
        h2 { "Connections" }
        ul {
            @for connection in &info.connections {
                li { "CID " (connection.cid) ": " (connection.peer) " to " (connection.local)
                    @if connection.header_digest { ", header digest" }
                    @if connection.data_digest { ", data digest" } }
            }
        }
        details {
            summary { "Negotiated keys" }
            dl.facts { @for (name, value) in &info.parameters { dt { (name) } dd { (value) } } }
        }
    }
}

fn log_out(visit: &Visit) -> Result<Answer, Error> {
    let info = find(visit)?;
    let tsih = info.tsih.to_string();
    let asking = Asking {
        title: format!("Ask session {tsih} to log out"),
        label: "Ask to log out",
        back: "/sessions".to_owned(),
        done: format!("Session {tsih} was asked to log out."),
    };
    let words = html! {
        p { "The initiator " span.name { (info.initiator) } " is asked to log out when its commands are answered. \
            If it has not done so after " (PATIENCE_S) " s, the session is ended." }
        (what_it_loses(&info))
    };
    let how = Logout {
        within_s: PATIENCE_S,
    };
    confirm(visit, &asking, words, || {
        visit.ask(&session::LOGOUT, &[&tsih], how, ())
    })
}

fn end(visit: &Visit) -> Result<Answer, Error> {
    let info = find(visit)?;
    let tsih = info.tsih.to_string();
    let asking = Asking {
        title: format!("End session {tsih}"),
        label: "End the session",
        back: "/sessions".to_owned(),
        done: format!("Session {tsih} was ended."),
    };
    let words = html! {
        p { "The session of " span.name { (info.initiator) } " ends at once, with " (info.in_flight)
            " commands in flight. The initiator may log in again at once; to keep it out, remove its map." }
        (what_it_loses(&info))
    };
    confirm(visit, &asking, words, || {
        visit.call(&session::KILL, &[&tsih])
    })
}

fn what_it_loses(info: &SessionInfo) -> Markup {
    let luns: Vec<String> = info.luns.iter().take(20).map(ToString::to_string).collect();
    html! {
        @if luns.is_empty() { p { "It sees no LUN." } }
        @else { p { "Until it logs in again, it loses the LUNs " (luns.join(", "))
            @if info.luns.len() > luns.len() { " and more" } "." } }
    }
}
