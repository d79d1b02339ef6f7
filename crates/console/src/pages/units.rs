//! Logical units: the list with live figures.

use control::answer::UnitView;
use control::endpoint::{lu, map};
use maud::html;
use model::Error;

use super::figures;
use super::list::stream;
use crate::answer::Answer;
use crate::form::lead;
use crate::format::at;
use crate::frame::Page;
use crate::live::rates::Rates;
use crate::object_state;
use crate::routes::Routes;
use crate::table::{Cell, Column, Table, View};
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
    let action = lead(
        visit,
        map::SHARE.role,
        "/wizards/volume",
        "A volume for a host",
    );
    let page = Page::new("Units").live(stream).actions(action);
    super::list::answer(&table(visit)?, visit, page)
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
            let (state, word) = object_state::unit(&row.view);
            Cell::state(state, word)
        }),
        Column::figure("size", "Size", |row: &Row| Cell::size(row.view.status.size)),
        Column::figure("maps", "Maps", |row: &Row| {
            Cell::count(row.view.maps.len() as u64)
        }),
    ];
    columns.extend(figures::with_quantiles(|row: &Row| row.rates));
    columns.push(Column::text("backend", "Data on", |row: &Row| {
        Cell::text(object_state::place_of_unit(&row.view))
    }));
    Ok(Table {
        word: "unit",
        columns,
        rows: rows.collect(),
        id: |row| format!("u:{}", row.view.spec.name),
        empty: html! {
            p { strong { "No unit yet." } " A unit is a disk that hosts see." }
            p { (lead(visit, map::SHARE.role, "/wizards/volume", "Make a volume for a host")) }
        },
    })
}
