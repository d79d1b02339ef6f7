//! Endpoints for the history of figures.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use model::history::{HistoryObject, HistoryView, Span};

endpoints! {
    "history":
    /// Lists the objects of a kind that have a history: `unit`, `pool`, `disk`, `host` or
    /// `port-group`.
    LIST = Viewer GET "/v1/history/{kind}" "history_list" ((), ()) -> Vec<HistoryObject>;
    /// Returns the figures of one object over a span, in equal steps of time. A step in which
    /// nothing was recorded is `null`.
    SHOW = Viewer GET "/v1/history/{kind}/{name}" "history_show" (Period, ()) -> HistoryView;
}

queries!(Period);

/// Time that a history covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Period {
    /// Span that ends now: `6h` in steps of a minute (the default), `14d` in steps of ten minutes,
    /// or `2y` in steps of six hours.
    pub span: Span,
}
