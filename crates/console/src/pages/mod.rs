//! Pages: a file for each object.

mod figures;
mod overview;
mod sessions;
mod units;

use model::Error;

use super::routes::Routes;
use super::table::View;
use super::visit::Visit;

/// Adds the routes of all pages.
pub(crate) fn routes(routes: Routes) -> Routes {
    let each = [overview::routes, units::routes, sessions::routes];
    each.into_iter().fold(routes, |routes, add| add(routes))
}

/// Returns the numbers of the objects in the window of a list, for a stream that names a view in
/// place of objects.
///
/// # Errors
/// There is no such view, or the reader may not see the list.
pub(crate) fn window(view: &str, visit: &Visit) -> Result<Vec<String>, Error> {
    let window = View::read(&visit.query);
    match view {
        "overview" | "page" => Ok(Vec::new()),
        "units" => Ok(units::table(visit)?.ids(&window)),
        "sessions" => Ok(sessions::table(visit)?.ids(&window)),
        other => Err(Error::invalid(
            format!("there is no view {other:?}"),
            "choose overview, units or sessions",
        )),
    }
}
