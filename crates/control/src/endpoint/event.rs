//! Events of the whole daemon.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use model::event::{EventPage, Severity};

endpoints! {
    "event":
    /// Returns events of the whole daemon, oldest first. A follower gives the answer's `next` as
    /// `after` of its next request, and a `wait_s`: the answer then comes with the next event.
    LIST = Viewer GET "/v1/events" "event_list" (EventQuery, ()) -> EventPage;
}

queries!(EventQuery);

/// Events that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Number behind which events are wanted. Without it, the newest events are returned.
    #[serde(default)]
    pub after: Option<u64>,
    /// Most events, 1 to 1000. The default is 100.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Seconds to wait for an event if there is none yet, at most 30.
    #[serde(default)]
    pub wait_s: Option<u16>,
    /// Least severity.
    #[serde(default)]
    pub severity: Option<Severity>,
    /// Earliest time, in milliseconds since 1970.
    #[serde(default)]
    pub since_ms: Option<u64>,
}
