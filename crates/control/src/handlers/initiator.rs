//! Routes for this machine as an initiator: the adapter, logins, sessions, devices and their paths.

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Shared};
use crate::answer::{AdapterView, Body, DeviceView, Params, Problem};
use crate::endpoint::initiator::{self as at, Rescan};
use crate::transaction::{Commit, Committed};
use config::change::{Change, LogIn, ModifyLogin, SetDevice, SetInitiator};
use config::redact::redacted_login;
use initiator::own_name::initiator_name;
use model::Error;
use model::config::Config;
use model::initiator::LoginSpec;
use model::initiator::configured::times_in_force;
use model::initiator::view::{InitiatorDevice, InitiatorSession, SessionState};

/// Returns a summary of the host adapter.
#[utoipa::path(get, path = at::ADAPTER.path, tag = at::ADAPTER.tag, operation_id = at::ADAPTER.id, responses((status = 200, body = AdapterView)))]
pub(super) async fn adapter(State(plane): State<Shared>) -> Json<AdapterView> {
    let config = plane.config();
    let data_plane = plane.transactions.data_plane();
    let (sessions, devices) = (
        data_plane.initiator_sessions(),
        data_plane.initiator_devices(),
    );
    let up = |session: &&InitiatorSession| {
        matches!(session.state, SessionState::LoggedIn | SessionState::Silent)
    };
    let ways = || devices.iter().flat_map(|device| &device.ways);
    let chosen = &config.initiator.name;
    Json(AdapterView {
        adapter: "vmhba64".into(),
        name: match chosen.as_str() {
            "" => initiator_name(),
            name => name.to_owned(),
        },
        is_chosen: !chosen.is_empty(),
        times: times_in_force(&config.initiator.times),
        chosen_times: config.initiator.times.clone(),
        targets: config.initiator.targets.len(),
        sessions: sessions.len(),
        sessions_up: sessions.iter().filter(up).count(),
        devices: devices.len(),
        paths: ways().count(),
        dead_paths: ways().filter(|way| way.reason.is_some()).count(),
    })
}

/// Changes the initiator's name or times. For a new name, sessions are made anew, one after
/// another. New times leave the sessions alone.
#[utoipa::path(patch, path = at::SET_ADAPTER.path, tag = at::SET_ADAPTER.tag, operation_id = at::SET_ADAPTER.id, params(Commit), request_body = SetInitiator,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn set_adapter(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<SetInitiator>,
) -> Answer<Committed> {
    plane.commit(Change::SetInitiator(request), how).await
}

/// Lists the targets to log in to. Secrets are not shown.
#[utoipa::path(get, path = at::LOGINS.path, tag = at::LOGINS.tag, operation_id = at::LOGINS.id, responses((status = 200, body = Vec<LoginSpec>)))]
pub(super) async fn logins(State(plane): State<Shared>) -> Json<Vec<LoginSpec>> {
    let config = plane.config();
    Json(
        config
            .initiator
            .targets
            .iter()
            .map(redacted_login)
            .collect(),
    )
}

/// Logs in to a target, now and after each start of the daemon. The answer comes before a session
/// exists. See the list of sessions.
#[utoipa::path(post, path = at::LOG_IN.path, tag = at::LOG_IN.tag, operation_id = at::LOG_IN.id, params(Commit), request_body = LogIn,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn log_in(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<LogIn>,
) -> Answer<Committed> {
    plane.commit(Change::LogIn(request), how).await
}

/// Changes the login to a target. Absent fields keep their values. If sessions must be made anew,
/// this happens one after another.
#[utoipa::path(patch, path = at::MODIFY_LOGIN.path, tag = at::MODIFY_LOGIN.tag, operation_id = at::MODIFY_LOGIN.id, params(Commit), request_body = ModifyLogin,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn modify_login(
    State(plane): State<Shared>,
    Path(iqn): Path<String>,
    Params(how): Params<Commit>,
    Body(request): Body<ModifyLogin>,
) -> Answer<Committed> {
    plane.commit(Change::ModifyLogin(iqn, request), how).await
}

/// Logs out of a target. This is refused while a logical unit serves a device that has no other
/// paths.
#[utoipa::path(delete, path = at::LOG_OUT.path, tag = at::LOG_OUT.tag, operation_id = at::LOG_OUT.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn log_out(
    State(plane): State<Shared>,
    Path(iqn): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::LogOut(iqn), how).await
}

/// Lists the sessions at targets of other machines.
#[utoipa::path(get, path = at::SESSIONS.path, tag = at::SESSIONS.tag, operation_id = at::SESSIONS.id, responses((status = 200, body = Vec<InitiatorSession>)))]
pub(super) async fn sessions(State(plane): State<Shared>) -> Json<Vec<InitiatorSession>> {
    Json(plane.transactions.data_plane().initiator_sessions())
}

/// Rescans the logical units that targets show.
#[utoipa::path(post, path = at::RESCAN.path, tag = at::RESCAN.tag, operation_id = at::RESCAN.id, params(Rescan),
    responses((status = 204), (status = "4XX", body = Problem)))]
pub(super) async fn rescan(
    State(plane): State<Shared>,
    Params(what): Params<Rescan>,
) -> Result<axum::http::StatusCode, Problem> {
    let target = what.target;
    if plane
        .transactions
        .data_plane()
        .initiator_rescan(target.as_deref())
    {
        return Ok(axum::http::StatusCode::NO_CONTENT);
    }
    Err(Error::not_found(
        format!(
            "the initiator is not logged in to {}",
            target.unwrap_or_default()
        ),
        "sandstone initiator session list shows the sessions",
    )
    .into())
}

/// Lists the devices behind the sessions, with all their paths.
#[utoipa::path(get, path = at::DEVICES.path, tag = at::DEVICES.tag, operation_id = at::DEVICES.id, responses((status = 200, body = Vec<DeviceView>)))]
pub(super) async fn devices(State(plane): State<Shared>) -> Json<Vec<DeviceView>> {
    let config = plane.config();
    let devices = plane.transactions.data_plane().initiator_devices();
    Json(
        devices
            .into_iter()
            .map(|device| view(&config, device))
            .collect(),
    )
}

/// Returns one device.
#[utoipa::path(get, path = at::DEVICE.path, tag = at::DEVICE.tag, operation_id = at::DEVICE.id,
    responses((status = 200, body = DeviceView), (status = "4XX", body = Problem)))]
pub(super) async fn device(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<DeviceView> {
    let devices = plane.transactions.data_plane().initiator_devices();
    let found = devices.into_iter().find(|device| device.nmp.name == name);
    let missing = || {
        Error::not_found(
            format!("device {name} does not exist"),
            "sandstone initiator device list shows the devices; sandstone initiator rescan looks again",
        )
    };
    Ok(Json(view(&plane.config(), found.ok_or_else(missing)?)))
}

/// Chooses path selection, queue depth and similar settings of a device. They hold for I/O from now
/// on.
#[utoipa::path(patch, path = at::SET_DEVICE.path, tag = at::SET_DEVICE.tag, operation_id = at::SET_DEVICE.id, params(Commit), request_body = SetDevice,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn set_device(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
    Body(request): Body<SetDevice>,
) -> Answer<Committed> {
    plane.commit(Change::SetDevice(name, request), how).await
}

/// Removes the choices for a device, so that claim rules and defaults decide again.
#[utoipa::path(delete, path = at::RESET_DEVICE.path, tag = at::RESET_DEVICE.tag, operation_id = at::RESET_DEVICE.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn reset_device(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::ResetDevice(name), how).await
}

fn view(config: &Config, device: InitiatorDevice) -> DeviceView {
    let name = device.nmp.name.clone();
    let units = config.units.iter();
    let units = units.filter(|unit| unit.backend.disk_of_initiator() == Some(&*name));
    let mut chosen = config.initiator.devices.iter();
    DeviceView {
        units: units.map(|unit| unit.name.clone()).collect(),
        chosen: chosen.find(|chosen| chosen.name == name).cloned(),
        state: device,
    }
}
