//! Logical units: the list with live figures.

use control::answer::UnitView;
use control::endpoint::lu;
use maud::html;
use model::Error;
use model::health::Health;
use model::hindrance::Stops;

use super::figures;
use crate::answer::Answer;
use crate::format::at;
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::routes::Routes;
use crate::table::{Cell, Column, State, Table, View, stream};
use crate::visit::Visit;

/// Adds the routes of this file.
pub(super) fn routes(routes: Routes) -> Routes {
    routes.page("/units", &lu::LIST, list)
}

/// Unit of the list, with its present figures.
pub(super) struct Row {
    view: UnitView,
    rates: Option<Rates>,
}

fn list(visit: &Visit) -> Result<Answer, Error> {
    let stream = stream("units", &View::read(&visit.query));
    table(visit)?.answer(visit, Page::new("Units").live(stream))
}

/// Returns the table of all units.
pub(super) fn table(visit: &Visit) -> Result<Table<'static, Row>, Error> {
    let moment = visit.console.live.now();
    let rows = visit.call(&lu::LIST, &[])?.into_iter().map(|view| Row {
        rates: moment.unit(&view.spec.name),
        view,
    });
    let mut columns = vec![
        Column::text("name", "Name", |row: &Row| {
            let name = row.view.spec.name.as_str();
            Cell::text(name).link(at("/units", &[name]))
        }),
        Column::text("state", "State", |row: &Row| {
            let (state, word) = state(&row.view);
            Cell::state(state, word)
        }),
        Column::figure("size", "Size", |row: &Row| Cell::size(row.view.status.size)),
        Column::figure("maps", "Maps", |row: &Row| {
            Cell::count(row.view.maps.len() as u64)
        }),
    ];
    columns.extend(figures::with_quantiles(|row: &Row| row.rates));
    columns.push(Column::text("backend", "Data on", |row: &Row| {
        Cell::text(place(&row.view))
    }));
    Ok(Table {
        word: "unit",
        columns,
        rows: rows.collect(),
        id: |row| format!("u:{}", row.view.spec.name),
        empty: html! {
            p { strong { "No unit yet." } " A unit is a disk that hosts see. To make one on a pool:" }
            pre { "sandstone share NAME --size 100G --host IQN" }
        },
    })
}

/// Returns the state of a unit and the word for it.
pub(crate) fn state(view: &UnitView) -> (State, String) {
    let status = &view.status;
    if view.spec.offline {
        return (State::Quiet, "offline".to_owned());
    }
    if status.fault.is_some() {
        return (State::Bad, "faulted".to_owned());
    }
    let worst = status
        .hindrances
        .iter()
        .max_by_key(|it| (it.kind.health(), it.stops != Stops::Nothing));
    match worst {
        None if status.online => (State::Good, "online".to_owned()),
        None => (State::Warn, "not ready".to_owned()),
        Some(hindrance) => {
            let state = match hindrance.kind.health() {
                Health::Impaired => State::Bad,
                Health::Attention => State::Warn,
                Health::Healthy => State::Quiet,
            };
            (state, hindrance.kind.word().replace('-', " "))
        }
    }
}

/// Returns the place of a unit's data.
pub(crate) fn place(view: &UnitView) -> String {
    let backend = &view.spec.backend;
    let place = || backend.place().map(|path| path.display().to_string());
    let named = backend
        .volume()
        .or(backend.disk_of_initiator())
        .map(str::to_owned);
    named.or_else(place).unwrap_or_else(|| "memory".to_owned())
}
