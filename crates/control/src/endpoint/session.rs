//! Endpoints for sessions at this machine's targets.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::description::queries;
use super::endpoints;
use model::data_plane::SessionInfo;

endpoints! {
    "session":
    /// Lists all sessions.
    LIST = Viewer GET "/v1/sessions" "session_list" ((), ()) -> Vec<SessionInfo>;
    /// Ends a session. The initiator may log in again at once. To keep it out, remove its map.
    KILL = Operator DELETE "/v1/sessions/{tsih}" "session_kill" ((), ()) -> ();
    /// Asks the initiator to log out when its commands are answered. If the initiator does not, the
    /// session is ended.
    LOGOUT = Operator POST "/v1/sessions/{tsih}/logout" "session_logout" (Logout, ()) -> ();
}

queries!(Logout);

/// Options for asking an initiator to log out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Logout {
    /// Seconds after which the session is ended, if the initiator has not logged out.
    pub within_s: u16,
}
