//! Hosts: groups of initiators and their secrets.

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Plane, Shared};
use crate::answer::{Body, HostView, Params, Problem};
use crate::transaction::{Commit, Committed};
use config::access;
use config::change::{Change, CreateHost, SetChap};
use config::redact::redacted_host;
use model::Error;
use model::config::{Config, HostSpec};

/// All hosts.
#[utoipa::path(get, path = "/v1/hosts", tag = "host", operation_id = "host_list", responses((status = 200, body = Vec<HostView>)))]
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

/// One host.
#[utoipa::path(get, path = "/v1/hosts/{name}", tag = "host", operation_id = "host_show",
    responses((status = 200, body = HostView), (status = "4XX", body = Problem)))]
pub(super) async fn show(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<HostView> {
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("there is no host {name}"),
            "sandstone host list shows those there are",
        )
    };
    let host = config.host(&name).ok_or_else(missing)?;
    Ok(Json(view(&plane, &config, host)))
}

/// Makes a host.
#[utoipa::path(post, path = "/v1/hosts", tag = "host", operation_id = "host_create", params(Commit), request_body = CreateHost,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn create(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<CreateHost>,
) -> Answer<Committed> {
    plane.commit(Change::CreateHost(request), how).await
}

/// Removes a host.
#[utoipa::path(delete, path = "/v1/hosts/{name}", tag = "host", operation_id = "host_delete", params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn delete(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::DeleteHost(name), how).await
}

/// Adds an initiator name or pattern.
#[utoipa::path(put, path = "/v1/hosts/{name}/initiators/{initiator}", tag = "host", operation_id = "host_add_initiator", params(Commit),
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
#[utoipa::path(delete, path = "/v1/hosts/{name}/initiators/{initiator}", tag = "host", operation_id = "host_remove_initiator", params(Commit),
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

/// Sets what the host must know to log in.
#[utoipa::path(put, path = "/v1/hosts/{name}/chap", tag = "host", operation_id = "host_set_chap", params(Commit), request_body = SetChap,
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

/// Lets the host in without a secret.
#[utoipa::path(delete, path = "/v1/hosts/{name}/chap", tag = "host", operation_id = "host_remove_chap", params(Commit),
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
