//! Handlers of requests about sessions at this machine's targets.

use super::routes::Routes;
use crate::call::Call;
use crate::endpoint::session::{self as at, Logout};
use model::Error;
use model::data_plane::SessionInfo;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::KILL, kill)
        .serve(&at::LOGOUT, logout)
}

pub(super) fn list(call: Call) -> Result<Vec<SessionInfo>, Error> {
    let Call { plane, .. } = call;
    Ok(plane.transactions.data_plane().sessions())
}

pub(super) fn kill(call: Call) -> Result<(), Error> {
    let Call { plane, at, .. } = call;
    let [tsih] = at.names();
    on_session(&tsih, |number| {
        plane.transactions.data_plane().kill_session(number)
    })
}

pub(super) fn logout(call: Call<Logout>) -> Result<(), Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [tsih] = at.names();
    if how.within_s == 0 {
        let next = "allow at least one second, or end the session (sandstone session kill)";
        return Err(Error::invalid(
            "an initiator cannot log out within 0 seconds",
            next,
        ));
    }
    on_session(&tsih, |number| {
        let data_plane = plane.transactions.data_plane();
        data_plane.ask_to_log_out(number, how.within_s)
    })
}

/// Applies `act` to the session of number `tsih`, and returns an error if no session has that
/// number.
fn on_session(tsih: &str, act: impl FnOnce(u16) -> bool) -> Result<(), Error> {
    let next = "sandstone session list shows the sessions";
    let number: u16 = tsih
        .parse()
        .map_err(|_| Error::invalid(format!("{tsih:?} is not a session number"), next))?;
    match act(number) {
        true => Ok(()),
        false => Err(Error::not_found(
            format!("session {number} does not exist"),
            next,
        )),
    }
}
