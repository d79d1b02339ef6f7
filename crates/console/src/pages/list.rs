//! Lists as pages: the window of a table, or all its rows as a file; and the stream of its figures.

use model::Error;

use crate::answer::Answer;
use crate::frame::Page;
use crate::live;
use crate::table::{Table, View};
use crate::visit::Visit;

/// Answers with the page of a table, or with all its rows as a file.
pub(super) fn answer<T>(table: &Table<'_, T>, visit: &Visit, page: Page) -> Result<Answer, Error> {
    let view = View::read(&visit.query);
    if let Some(answer) = table.exported(visit, &view) {
        return Ok(answer);
    }
    Ok(page.body(table.show(&view)).into())
}

/// Returns the address of the stream for a table's window.
pub(super) fn stream(view_name: &str, view: &View) -> String {
    live::stream::address(view_name, &view.query())
}
