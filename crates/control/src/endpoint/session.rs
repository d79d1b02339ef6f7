//! Sessions.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::endpoints;
use model::data_plane::SessionInfo;

endpoints! {
    "session":
    LIST = GET "/v1/sessions" "session_list" ((), ()) -> Vec<SessionInfo>;
    KILL = DELETE "/v1/sessions/{tsih}" "session_kill" ((), ()) -> ();
    LOGOUT = POST "/v1/sessions/{tsih}/logout" "session_logout" (Logout, ()) -> ();
}

/// How an initiator is asked to log out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Logout {
    /// After so many seconds the session is ended where the initiator has not logged out.
    pub within_s: u16,
}
