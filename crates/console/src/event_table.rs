//! The table of events, the newest first. Each row is a place, and the stream of live figures says
//! what stands in it.

use std::collections::HashMap;

use control::endpoint::event::{self, EventQuery};
use maud::html;
use model::Error;
use model::event::{Event, Severity};
use serde_json::{Value, json};

use crate::format::{NONE, now, time};
use crate::mark::State;
use crate::remedy::{self, page_of_event};
use crate::table::{Cell, Column, Table, View, WINDOW};
use crate::visit::Visit;

/// Events that are read at once. The table has windows of them.
pub(crate) const READ: usize = 1000;
/// Times to choose from, in hours.
const TIMES: [(&str, u64); 4] = [("1h", 1), ("24h", 24), ("7d", 168), ("30d", 720)];

/// Event with its place in the table.
pub(crate) struct Row {
    place: usize,
    event: Event,
}

/// Returns the table of all events that the query asks for, the newest first.
pub(crate) fn table(visit: &Visit) -> Result<Table<'static, Row>, Error> {
    let hours = TIMES
        .iter()
        .find(|(word, _)| *word == visit.query.get("since"))
        .map(|(_, hours)| *hours);
    let query = EventQuery {
        limit: Some(READ),
        severity: Severity::of_word(visit.query.get("severity")),
        since_ms: hours.map(|hours| (now() * 1000).saturating_sub(hours * 3_600_000)),
        ..EventQuery::default()
    };
    let events = visit.ask(&event::LIST, &[], query, ())?.events;
    let newest_first = events.into_iter().rev();
    let mut table = Table {
        word: "event",
        columns: columns(),
        rows: newest_first.map(|event| Row { place: 0, event }).collect(),
        id: |row: &Row| format!("e:{}", row.place),
        empty: html! { p { "No event of this kind. " a href="/events" { "Show all events" } "." } },
    };
    // Rows that the filter takes stand in the first places.
    let shown = table.matching(&View::read(&visit.query)).into_iter();
    let places = shown.enumerate().map(|(at, row)| (row.event.number, at));
    let places: HashMap<u64, usize> = places.collect();
    for row in &mut table.rows {
        row.place = places.get(&row.event.number).copied().unwrap_or(READ);
    }
    Ok(table)
}

fn columns() -> Vec<Column<'static, Row>> {
    vec![
        Column::text("time", "Time", |row: &Row| {
            let text = time(row.event.time_ms / 1000);
            Cell::text(text.as_str()).markup(html! { span.when data-v="0" { (text) } })
        }),
        Column::text("severity", "Severity", |row: &Row| {
            let (class, text) = severity(&row.event);
            let shown = html! { span.state.(class) data-v="1" { (text) } };
            Cell::text(row.event.severity.as_str()).markup(shown)
        }),
        Column::text("topic", "Topic", |row: &Row| {
            let topic = row.event.topic.as_str();
            Cell::text(topic).markup(html! { span data-v="2" { (topic) } })
        }),
        Column::text("object", "Object", |row: &Row| {
            let object = row.event.object.as_str();
            let page = page_of_event(row.event.topic, object);
            Cell::text(object).markup(html! { a.name data-v="3" href=[page] { (object) } })
        }),
        Column::text("event", "Event", |row: &Row| {
            let text = row.event.text.as_str();
            Cell::text(text).markup(html! { span.prose data-v="4" { (text) } })
        }),
        Column::text("next", "What to do", |row: &Row| {
            let next = row.event.next.as_deref().unwrap_or(NONE);
            Cell::text(next).markup(html! { span.prose data-v="5" { (next) } })
        }),
    ]
}

/// Returns the class of the colour of an event's severity, and the shape with the word.
fn severity(event: &Event) -> (&'static str, String) {
    let state: State = remedy::state(event.severity);
    let text = format!("{} {}", state.mark(), event.severity.as_str());
    (state.class(), text)
}

/// Returns what stands in the places of the table now: the names of the places and their values.
/// A value is a text, or an object with a text and a class or the address of a link.
///
/// # Errors
/// The reader may not see the events.
pub(crate) fn places(visit: &Visit) -> Result<(Vec<String>, Vec<Value>), Error> {
    let view = View::read(&visit.query);
    let table = table(visit)?;
    let rows = table.matching(&view).into_iter().take(WINDOW).map(|row| {
        let event = &row.event;
        let (class, word) = severity(event);
        let page = page_of_event(event.topic, &event.object);
        let values = json!([
            time(event.time_ms / 1000),
            { "text": word, "class": class },
            event.topic.as_str(),
            { "text": event.object, "href": page },
            event.text,
            event.next.as_deref().unwrap_or(NONE),
        ]);
        ((table.id)(row), values)
    });
    Ok(rows.unzip())
}
