//! Alerts: what is wrong now, with the way to mend it; who knows of it; what ended lately; and the
//! ways out, by which people are told.

use control::endpoint::alert::{self, AlertDetail, AlertQuery};
use control::endpoint::{alert_way, event};
use maud::{Markup, html};
use model::Error;
use model::alert::AlertView;
use model::way::WayView;

use super::list::stream;
use crate::answer::Answer;
use crate::entry::own_path;
use crate::form::{button, sentence};
use crate::format::{NONE, ago, at, count, duration, time};
use crate::frame::Page;
use crate::mark::State;
use crate::remedy::{self, page_of_alert};
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .page("/alerts", &alert::LIST, list)
        .page("/alerts/{number}", &alert::SHOW, show)
        .act("/alerts/{number}/ack", &alert::ACKNOWLEDGE, acknowledge)
        .act(
            "/alerts/{number}/unack",
            &alert::UNACKNOWLEDGE,
            unacknowledge,
        )
        .act("/alerts/ways/{name}/test", &alert_way::TEST, test)
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    let is_ended = visit.query.is_checked("ended");
    let alerts = visit.ask(&alert::LIST, &[], AlertQuery { ended: is_ended }, ())?;
    let table = table(alerts, is_ended);
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    let ways = visit.call(&alert_way::LIST, &[])?;
    let tab = |path: &str, label: &str, is_here: bool| {
        html! { a.button href=(path) aria-current=[is_here.then_some("page")] { (label) } }
    };
    let page = Page::new("Alerts").live(stream("page", &view));
    let page = page.actions(html! { a.button href="/events" { "Events" } });
    Ok(page
        .body(html! {
            nav.buttons aria-label="Alerts by state" {
                (tab("/alerts", "Open", !is_ended))
                (tab("/alerts?ended=yes", "Ended lately", is_ended))
            }
            @if is_ended { (table.show(&view)) }
            @else { (table.show_by(&view, |alerts| in_short(visit, alerts))) }
            (ways_out(visit, ways))
        })
        .into())
}

fn table(rows: Vec<AlertView>, is_ended: bool) -> Table<'static, AlertView> {
    let mut columns = vec![
        Column::text("condition", "Condition", |alert: &AlertView| {
            let path = at("/alerts", &[&alert.number.to_string()]);
            Cell::text(alert.condition.as_str()).link(path)
        }),
        Column::text("severity", "Severity", severity),
        Column::text("object", "Object", |alert: &AlertView| {
            Cell::text(alert.object.as_str()).link(page_of_alert(alert))
        }),
        Column::text("since", "Since", |alert: &AlertView| {
            Cell::time(alert.since_ms / 1000)
        }),
        Column::text("found", "Found", |alert: &AlertView| {
            Cell::text(alert.text.as_str())
        }),
    ];
    if is_ended {
        columns.push(Column::text("ended", "Ended", |alert: &AlertView| {
            let ended = alert.ended_ms.map(|at| Cell::time(at / 1000));
            ended.unwrap_or_else(|| Cell::text(NONE))
        }));
    } else {
        columns.push(Column::text("next", "What to do", |alert: &AlertView| {
            let next = sentence(&alert.next);
            Cell::text(alert.next.as_str()).markup(html! { (next) })
        }));
        columns.push(Column::text("known", "Known to", |alert: &AlertView| {
            known(alert).map_or_else(Cell::unknown, Cell::text)
        }));
    }
    Table {
        word: "alert",
        columns,
        rows,
        id: |_| String::new(),
        empty: match is_ended {
            true => html! { p { "No alert has ended yet." } },
            false => html! {
                p { (State::Good.show("No alert is open.")) " Each condition that lasts becomes one, and ends by itself." }
            },
        },
    }
}

fn severity(alert: &AlertView) -> Cell {
    Cell::state(remedy::state(alert.severity), alert.severity.as_str())
}

fn known(alert: &AlertView) -> Option<String> {
    let known = alert.acknowledged.as_ref()?;
    Some(format!("{}, {}", known.by, time(known.at_ms / 1000)))
}

/// Shows the button by which the reader says to know of an open alert, or takes that back.
fn knowledge(visit: &Visit, alert: &AlertView) -> Markup {
    let path = at("/alerts", &[&alert.number.to_string()]);
    match &alert.acknowledged {
        None => button(
            visit,
            alert::ACKNOWLEDGE.role,
            &format!("{path}/ack"),
            "Acknowledge",
            &[("back", visit.address.as_str())],
        ),
        Some(_) => button(
            visit,
            alert::UNACKNOWLEDGE.role,
            &format!("{path}/unack"),
            "Take back",
            &[("back", visit.address.as_str())],
        ),
    }
}

/// Shows open alerts with all their texts, what to do, and the buttons that mend them.
pub(super) fn in_short(visit: &Visit, alerts: &[&AlertView]) -> Markup {
    html! {
        ul.tasks {
            @for &alert in alerts {
                li {
                    p { (remedy::state(alert.severity).show(alert.severity.as_str())) " "
                        a href=(at("/alerts", &[&alert.number.to_string()])) {
                            (alert.condition) " of " span.name { (alert.object) } }
                        span.quiet { " since " (time(alert.since_ms / 1000)) }
                        @if let Some(known) = known(alert) { span.quiet { ", known to " (known) } } }
                    p { (alert.text) }
                    p { "What to do: " (sentence(&alert.next)) }
                    div.row-buttons { (remedy::buttons(visit, alert)) (knowledge(visit, alert)) }
                }
            }
        }
    }
}

fn show(visit: &Visit) -> Result<Answer, Error> {
    let AlertDetail {
        alert,
        meaning,
        look,
        remedy,
    } = visit.call(&alert::SHOW, &[visit.name(0)])?;
    let is_open = alert.ended_ms.is_none();
    let events = format!("/events?q={}", crate::format::escape(&alert.object));
    let page = Page::new(format!("{} of {}", alert.condition, alert.object))
        .crumb("Alerts", "/alerts")
        .actions(html! {
            @if is_open { (knowledge(visit, &alert)) (remedy::buttons(visit, &alert)) }
            @else { a.button href=(page_of_alert(&alert)) { "Show the object" } }
        })
        .live(stream("page", &View::first()));
    let end = alert.ended_ms.unwrap_or(crate::format::now() * 1000);
    Ok(page
        .body(html! {
            p { (remedy::state(alert.severity).show(alert.severity.as_str())) " " (alert.text) }
            @if is_open { p { strong { "What to do: " } (sentence(&alert.next)) } }
            dl.facts {
                dt { "Number" } dd { (alert.number) }
                dt { "Since" } dd { (time(alert.since_ms / 1000)) }
                @if let Some(ended) = alert.ended_ms { dt { "Ended" } dd { (time(ended / 1000)) } }
                dt { @if is_open { "Open for" } @else { "Was open for" } }
                dd { (duration(end.saturating_sub(alert.since_ms) / 1000)) }
                dt { "Known to" } dd { (known(&alert).unwrap_or_else(|| "no one yet".to_owned())) }
            }
            h2 { "What the condition means" }
            dl.facts {
                dt { "Meaning" } dd { (commands(&meaning)) }
                dt { "Look at" } dd { (commands(&look)) }
                dt { "Remedy" } dd { (commands(&remedy)) }
            }
            @if visit.may(&event::LIST) { p { a.button href=(events) { "Its events" } } }
        })
        .into())
}

/// Shows a text in which commands stand between grave accents.
fn commands(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn ways_out(visit: &Visit, ways: Vec<WayView>) -> Markup {
    let table = Table {
        word: "way out",
        columns: vec![
            Column::text("", "Name", |way: &WayView| {
                Cell::text(way.spec.name.as_str())
            }),
            Column::text("", "Kind", |way: &WayView| match &way.spec.webhook {
                Some(webhook) => Cell::text(format!("webhook {}", webhook.format.as_str())),
                None => Cell::text(way.kind.as_str()),
            }),
            Column::text("", "From severity", |way: &WayView| {
                match way.spec.heartbeat {
                    Some(_) => Cell::unknown(),
                    None => Cell::text(way.spec.least.as_str()),
                }
            }),
            Column::text("", "To", |way: &WayView| Cell::text(way.place.as_str())),
            Column::figure("", "Waiting", |way: &WayView| {
                Cell::count(way.queued as u64)
            }),
            Column::text("", "State", |way: &WayView| {
                match (&way.error, way.reached_ms) {
                    (Some(error), _) => Cell::state(State::Bad, error.as_str()),
                    (None, Some(at)) => {
                        Cell::state(State::Good, format!("reached {}", ago(at / 1000)))
                    }
                    (None, None) => Cell::state(State::Quiet, "nothing sent yet"),
                }
            }),
            Column::buttons("Test", |way: &WayView| {
                let path = format!("{}/test", at("/alerts/ways", &[&way.spec.name]));
                let label = "Send a test message";
                Cell::text("").markup(button(visit, alert_way::TEST.role, &path, label, &[]))
            }),
        ],
        rows: ways,
        id: |_| String::new(),
        empty: html! {
            p { strong { "No one is told." } " Alerts are only shown here. To send mail, for example:" }
            pre tabindex="0" { "sandstone alert way add ops --to ops@example.org --from san@example.org --server mail.example.org" }
        },
    };
    html! {
        section #ways aria-label="Who is told" { h2 { "Who is told" } (table.plain()) }
    }
}

fn acknowledge(visit: &Visit) -> Result<Answer, Error> {
    let alert = visit.call(&alert::ACKNOWLEDGE, &[visit.name(0)])?;
    let told = format!(
        "You know of {} of {}. It is not told each day any more; its end is told.",
        alert.condition, alert.object
    );
    back(visit, told)
}

fn unacknowledge(visit: &Visit) -> Result<Answer, Error> {
    let alert = visit.call(&alert::UNACKNOWLEDGE, &[visit.name(0)])?;
    let told = format!(
        "{} of {} is told each day again.",
        alert.condition, alert.object
    );
    back(visit, told)
}

/// Leads back to the page of the button, whose header then shows what was changed.
fn back(visit: &Visit, told: String) -> Result<Answer, Error> {
    visit.console.live.health.forget();
    Ok(Answer::done(own_path(visit.form.get("back")), told))
}

fn test(visit: &Visit) -> Result<Answer, Error> {
    let tested = visit.call(&alert_way::TEST, &[visit.name(0)])?;
    let told = format!(
        "{} took a test message within {} ms.",
        tested.place,
        count(tested.took_ms)
    );
    Ok(Answer::done("/alerts#ways", told))
}
