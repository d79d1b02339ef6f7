//! Handlers of requests about ways out for alerts.

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::alert_way as at;
use config::change::Change;
use config::redact::redacted_way;
use model::Error;
use model::way::{WayTested, WayView};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .change(&at::ADD, |[], way| Change::AddWay(way))
        .change(&at::MODIFY, |[name], change| {
            Change::ModifyWay(name, change)
        })
        .change(&at::REMOVE, |[name], ()| Change::RemoveWay(name))
        .serve(&at::TEST, test)
}

pub(super) fn list(call: Call) -> Result<Vec<WayView>, Error> {
    let plane = &call.plane;
    // A change may have been made a moment ago.
    plane.alerts.ways().configure(&plane.config().alert_ways);
    let views = plane.alerts.ways().views().into_iter();
    let shown = views.map(|view| WayView {
        spec: redacted_way(&view.spec),
        ..view
    });
    Ok(shown.collect())
}

pub(super) fn test(call: Call) -> Result<WayTested, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    plane.alerts.ways().configure(&plane.config().alert_ways);
    plane.alerts.ways().test(&name)
}
