//! Sessions.

use axum::Json;
use axum::extract::{Path, State};

use super::Shared;
use crate::config::Error;
use crate::control::answer::Problem;
use crate::control::data_plane::SessionInfo;

/// All sessions.
#[utoipa::path(get, path = "/v1/sessions", tag = "session", operation_id = "session_list", responses((status = 200, body = Vec<SessionInfo>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<SessionInfo>> {
    Json(plane.transactions.data_plane().sessions())
}

/// Ends a session. The initiator may log in again at once: to keep it out, remove its map.
#[utoipa::path(delete, path = "/v1/sessions/{tsih}", tag = "session", operation_id = "session_kill",
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn kill(
    State(plane): State<Shared>,
    Path(tsih): Path<String>,
) -> Result<axum::http::StatusCode, Problem> {
    let next = "sandstone session list shows those there are";
    let number: u16 = tsih
        .parse()
        .map_err(|_| Error::invalid(format!("{tsih:?} is not a session number"), next))?;
    if plane.transactions.data_plane().kill_session(number) {
        Ok(axum::http::StatusCode::NO_CONTENT)
    } else {
        Err(Error::not_found(format!("there is no session {number}"), next).into())
    }
}
