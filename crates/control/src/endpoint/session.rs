//! Routes for sessions at this machine's targets.

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

/// Options for asking an initiator to log out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Logout {
    /// Seconds after which the session is ended, if the initiator has not logged out.
    pub within_s: u16,
}
