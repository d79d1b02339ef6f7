//! Handlers of requests about alerts.

use super::routes::Routes;
use crate::author::Author;
use crate::call::Call;
use crate::endpoint::alert::{self as at, AlertDetail, AlertQuery};
use ::alert::condition::condition;
use model::Error;
use model::alert::AlertView;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::SHOW, show)
        .serve(&at::ACKNOWLEDGE, acknowledge)
        .serve(&at::UNACKNOWLEDGE, unacknowledge)
}

pub(super) fn list(call: Call<AlertQuery>) -> Result<Vec<AlertView>, Error> {
    let alerts = &call.plane.alerts;
    Ok(match call.query.ended {
        true => alerts.ended(),
        false => alerts.open(),
    })
}

pub(super) fn show(call: Call) -> Result<AlertDetail, Error> {
    let Call { plane, at, .. } = call;
    let [number] = at.names();
    let number = parsed(&number)?;
    let mut all = plane.alerts.open().into_iter().chain(plane.alerts.ended());
    let found = all.find(|alert| alert.number == number);
    let known = found.and_then(|alert| Some((condition(&alert.condition)?, alert)));
    let (condition, alert) = known.ok_or_else(|| {
        Error::not_found(
            format!("there is no alert {number}"),
            "sandstone alert list shows the open alerts, and with --ended the latest that ended",
        )
    })?;
    Ok(AlertDetail {
        meaning: condition.meaning.to_owned(),
        look: condition.look_at(&alert.object),
        remedy: condition.remedy_for(&alert.object),
        alert,
    })
}

pub(super) fn acknowledge(call: Call) -> Result<AlertView, Error> {
    let Call { plane, at, .. } = call;
    let [number] = at.names();
    let by = Author::current().to_string();
    plane.alerts.acknowledge(parsed(&number)?, &by)
}

pub(super) fn unacknowledge(call: Call) -> Result<AlertView, Error> {
    let Call { plane, at, .. } = call;
    let [number] = at.names();
    let by = Author::current().to_string();
    plane.alerts.unacknowledge(parsed(&number)?, &by)
}

fn parsed(number: &str) -> Result<u64, Error> {
    number.parse().map_err(|_| {
        Error::invalid(
            format!("{number:?} is not the number of an alert"),
            "sandstone alert list shows the numbers",
        )
    })
}
