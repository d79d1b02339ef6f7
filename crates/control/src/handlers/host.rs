//! Routes for hosts: groups of initiators and their secrets.

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Plane, Shared};
use crate::answer::{Body, HostView, Params, Problem};
use crate::endpoint::host as at;
use crate::transaction::{Commit, Committed};
use config::access;
use config::change::{Change, CreateHost, SetChap};
use config::redact::redacted_host;
use model::Error;
use model::config::{Config, HostSpec};

/// Lists all hosts.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<HostView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<HostView>> {
    let config = plane.config();
    Json(
        config
            .hosts
            .iter()
            .map(|host| view(&plane, &config, host))
            .collect(),
    )
}

/// Returns one host.
#[utoipa::path(get, path = at::SHOW.path, tag = at::SHOW.tag, operation_id = at::SHOW.id,
    responses((status = 200, body = HostView), (status = "4XX", body = Problem)))]
pub(super) async fn show(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<HostView> {
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("host {name} does not exist"),
            "sandstone host list shows the hosts",
        )
    };
    let host = config.host(&name).ok_or_else(missing)?;
    Ok(Json(view(&plane, &config, host)))
}

/// Makes a host.
#[utoipa::path(post, path = at::CREATE.path, tag = at::CREATE.tag, operation_id = at::CREATE.id, params(Commit), request_body = CreateHost,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn create(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<CreateHost>,
) -> Answer<Committed> {
    plane.commit(Change::CreateHost(request), how).await
}

/// Removes a host.
#[utoipa::path(delete, path = at::DELETE.path, tag = at::DELETE.tag, operation_id = at::DELETE.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn delete(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::DeleteHost(name), how).await
}

/// Adds an initiator name or pattern.
#[utoipa::path(put, path = at::ADD_INITIATOR.path, tag = at::ADD_INITIATOR.tag, operation_id = at::ADD_INITIATOR.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn add_initiator(
    State(plane): State<Shared>,
    Path((name, initiator)): Path<(String, String)>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane
        .commit(Change::AddInitiator(name, initiator), how)
        .await
}

/// Removes an initiator name or pattern.
#[utoipa::path(delete, path = at::REMOVE_INITIATOR.path, tag = at::REMOVE_INITIATOR.tag, operation_id = at::REMOVE_INITIATOR.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn remove_initiator(
    State(plane): State<Shared>,
    Path((name, initiator)): Path<(String, String)>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane
        .commit(Change::RemoveInitiator(name, initiator), how)
        .await
}

/// Sets the user and secret that the host must prove to log in.
#[utoipa::path(put, path = at::SET_CHAP.path, tag = at::SET_CHAP.tag, operation_id = at::SET_CHAP.id, params(Commit), request_body = SetChap,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn set_chap(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
    Body(request): Body<SetChap>,
) -> Answer<Committed> {
    plane
        .commit(Change::SetHostChap(name, Some(request)), how)
        .await
}

/// Lets the host log in without a secret.
#[utoipa::path(delete, path = at::REMOVE_CHAP.path, tag = at::REMOVE_CHAP.tag, operation_id = at::REMOVE_CHAP.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn remove_chap(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::SetHostChap(name, None), how).await
}

fn view(plane: &Plane, config: &Config, host: &HostSpec) -> HostView {
    let sessions = plane.transactions.data_plane().sessions();
    let ours = |initiator: &str| {
        access::hosts(config, initiator)
            .iter()
            .any(|other| other.name == host.name)
    };
    HostView {
        spec: redacted_host(host),
        sessions: sessions
            .iter()
            .filter(|session| ours(&session.initiator))
            .count(),
        maps: config
            .maps
            .iter()
            .filter(|map| map.host.as_ref() == Some(&host.name))
            .cloned()
            .collect(),
    }
}
