//! Pages: a file for each object.

mod access;
mod alerts;
mod audit;
mod bench;
mod certificate;
mod chap;
mod config;
pub(crate) mod events;
mod figures;
mod hosts;
mod initiator;
mod list;
mod maps;
mod mend;
mod overview;
mod pools;
mod sessions;
mod targets;
pub(crate) mod unit;
mod units;
mod volumes;

use model::Error;

use super::routes::Routes;
use super::table::View;
use super::visit::Visit;

/// Adds the routes of all pages.
pub(crate) fn routes(routes: Routes) -> Routes {
    let each = [
        overview::routes,
        alerts::routes,
        events::routes,
        units::routes,
        unit::routes,
        sessions::routes,
        hosts::routes,
        targets::routes,
        chap::routes,
        maps::routes,
        pools::routes,
        volumes::routes,
        initiator::routes,
        bench::routes,
        audit::routes,
        access::routes,
        certificate::routes,
        config::routes,
    ];
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
        "hosts" => Ok(hosts::table(visit)?.ids(&window)),
        "targets" => Ok(targets::table(visit)?.ids(&window)),
        "events" => Ok(crate::event_table::table(visit)?.ids(&window)),
        "pools" => Ok(pools::table(visit)?.ids(&window)),
        "paths" => maps::ids(visit, &window),
        other => Err(Error::invalid(
            format!("there is no view {other:?}"),
            "choose overview, units, sessions, hosts, targets, pools, events or paths",
        )),
    }
}
