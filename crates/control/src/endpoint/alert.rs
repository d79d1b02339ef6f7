//! Alerts.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::description::queries;
use super::endpoints;
use model::alert::AlertView;

const ONE: &str = "/v1/alerts/{number}";
const KNOWN: &str = "/v1/alerts/{number}/ack";

endpoints! {
    "alert":
    /// Lists the open alerts, the gravest first; or those that ended, the latest first.
    LIST = Viewer GET "/v1/alerts" "alert_list" (AlertQuery, ()) -> Vec<AlertView>;
    /// Returns an alert that is open or ended lately, with the meaning of its condition.
    SHOW = Viewer GET ONE "alert_show" ((), ()) -> AlertDetail;
    /// Notes that the user knows of the alert. It is not told again each day. Its end is told.
    ACKNOWLEDGE = Operator POST KNOWN "alert_acknowledge" ((), ()) -> AlertView;
    /// Takes back that somebody knows of the alert. It is told each day again.
    UNACKNOWLEDGE = Operator DELETE KNOWN "alert_unacknowledge" ((), ()) -> AlertView;
}

queries!(AlertQuery);

/// Alerts that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AlertQuery {
    /// Whether alerts that ended are wanted, instead of those that are open.
    #[serde(default)]
    pub ended: bool,
}

/// An alert, and what its condition means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertDetail {
    /// The alert.
    #[serde(flatten)]
    pub alert: AlertView,
    /// Meaning of the condition.
    pub meaning: String,
    /// Place to look at.
    pub look: String,
    /// Remedy in general.
    pub remedy: String,
}
