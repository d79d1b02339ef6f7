//! Handlers of requests about the history of figures.

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::history::{self as at, Period};
use model::Error;
use model::history::{HistoryKind, HistoryObject, HistoryView};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes.serve(&at::LIST, list).serve(&at::SHOW, show)
}

pub(super) fn list(call: Call) -> Result<Vec<HistoryObject>, Error> {
    let Call { plane, at, .. } = call;
    let [kind] = at.names();
    plane.history.objects(kind_of(&kind)?)
}

pub(super) fn show(call: Call<Period>) -> Result<HistoryView, Error> {
    let Call {
        plane,
        at,
        query: period,
        ..
    } = call;
    let [kind, name] = at.names();
    plane.history.view(kind_of(&kind)?, &name, period.span)
}

fn kind_of(word: &str) -> Result<HistoryKind, Error> {
    HistoryKind::of_word(word).ok_or_else(|| {
        let kinds = HistoryKind::ALL.map(HistoryKind::as_str).join(", ");
        Error::not_found(
            format!("{word:?} is not a kind of object that has a history"),
            format!("use one of these: {kinds}"),
        )
    })
}
