//! Routes for sessions at this machine's targets.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::Shared;
use crate::answer::{Params, Problem};
use crate::endpoint::session::{self as at, Logout};
use model::Error;
use model::data_plane::SessionInfo;

/// Lists all sessions.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<SessionInfo>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<SessionInfo>> {
    Json(plane.transactions.data_plane().sessions())
}

/// Ends a session. The initiator may log in again at once. To keep it out, remove its map.
#[utoipa::path(delete, path = at::KILL.path, tag = at::KILL.tag, operation_id = at::KILL.id,
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn kill(
    State(plane): State<Shared>,
    Path(tsih): Path<String>,
) -> Result<StatusCode, Problem> {
    on_session(&tsih, |number| {
        plane.transactions.data_plane().kill_session(number)
    })
}

/// Asks the initiator to log out when its commands are answered. If the initiator does not, the
/// session is ended.
#[utoipa::path(post, path = at::LOGOUT.path, tag = at::LOGOUT.tag, operation_id = at::LOGOUT.id, params(Logout),
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn logout(
    State(plane): State<Shared>,
    Path(tsih): Path<String>,
    Params(how): Params<Logout>,
) -> Result<StatusCode, Problem> {
    if how.within_s == 0 {
        let next = "allow at least one second, or end the session (sandstone session kill)";
        return Err(Error::invalid("an initiator cannot log out within 0 seconds", next).into());
    }
    on_session(&tsih, |number| {
        let data_plane = plane.transactions.data_plane();
        data_plane.ask_to_log_out(number, how.within_s)
    })
}

/// Applies `act` to the session of number `tsih`, and returns an error if no session has that
/// number.
fn on_session(tsih: &str, act: impl FnOnce(u16) -> bool) -> Result<StatusCode, Problem> {
    let next = "sandstone session list shows the sessions";
    let number: u16 = tsih
        .parse()
        .map_err(|_| Error::invalid(format!("{tsih:?} is not a session number"), next))?;
    match act(number) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Error::not_found(format!("session {number} does not exist"), next).into()),
    }
}
