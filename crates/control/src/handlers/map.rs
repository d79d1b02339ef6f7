//! Routes for the map, the explanation of a host's view, and `share`.

use axum::Json;
use axum::extract::State;

use super::{Answer, Shared, apart};
use crate::answer::{Body, Params, Problem, Shared as SharedUnit};
use crate::asker::Asker;
use crate::endpoint::map::{self as at, Question};
use crate::transaction::{Commit, Committed};
use config::access;
use config::change::{AddMap, Change, RemoveMap, Share};
use config::explain::{self, Explanation};
use model::Error;
use model::config::{Config, MapSpec};

/// Lists all lines of the map.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<MapSpec>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<MapSpec>> {
    Json(plane.config().maps.clone())
}

/// Adds a line to the map.
#[utoipa::path(post, path = at::ADD.path, tag = at::ADD.tag, operation_id = at::ADD.id, params(Commit), request_body = AddMap,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn add(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<AddMap>,
) -> Answer<Committed> {
    plane.commit(Change::AddMap(request), how).await
}

/// Removes lines from the map.
#[utoipa::path(delete, path = at::REMOVE.path, tag = at::REMOVE.tag, operation_id = at::REMOVE.id, params(Commit), request_body = RemoveMap,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn remove(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<RemoveMap>,
) -> Answer<Committed> {
    plane.commit(Change::RemoveMap(request), how).await
}

/// Explains why an initiator sees a logical unit, or why not.
#[utoipa::path(get, path = at::EXPLAIN.path, tag = at::EXPLAIN.tag, operation_id = at::EXPLAIN.id, params(Question),
    responses((status = 200, body = Explanation), (status = "4XX", body = Problem)))]
pub(super) async fn explain(
    State(plane): State<Shared>,
    Params(question): Params<Question>,
) -> Answer<Explanation> {
    let config = plane.config();
    let unit = question.unit.as_deref();
    let mut told = explain::explain(&config, &question.initiator, unit);
    let data_plane = plane.transactions.data_plane();
    let units = match unit {
        Some(unit) => data_plane.unit(unit).into_iter().collect(),
        None => data_plane.units(),
    };
    told.add_hindrances(&config, &units);
    Ok(Json(told))
}

/// Makes a logical unit, a target, a host and a map in one step.
#[utoipa::path(post, path = at::SHARE.path, tag = at::SHARE.tag, operation_id = at::SHARE.id, params(Commit), request_body = Share,
    responses((status = 200, body = SharedUnit), (status = "4XX", body = Problem)))]
pub(super) async fn share(
    State(plane): State<Shared>,
    asker: Asker,
    Params(how): Params<Commit>,
    Body(request): Body<Share>,
) -> Answer<SharedUnit> {
    if how.dry_run {
        let change = Change::Share(request.clone(), plane.default_portals.clone());
        // The real change draws new identities, not those of the preview. So only names are
        // reported.
        let (committed, after) = plane.transactions.commit_seen(&change, &how)?;
        return Ok(Json(shared(&after, &request, committed)?));
    }
    apart(move || {
        // The body is left out, because it may hold a secret.
        let (committed, after) = plane.share_unit(&request, &how, &asker.deed(&()))?;
        shared(&after, &request, committed)
    })
    .await
    .map(Json)
}

fn shared(config: &Config, request: &Share, committed: Committed) -> Result<SharedUnit, Error> {
    let gone = || {
        Error::not_found(
            "the shared logical unit, its host, target or map is no longer in the configuration",
            "sandstone map list",
        )
    };
    let named = config.host(&request.host);
    let host = named
        .or_else(|| {
            config
                .hosts
                .iter()
                .find(|host| host.has_pattern(&request.host).is_some())
        })
        .ok_or_else(gone)?;
    let wanted = request.target.as_ref();
    let leads = |map: &MapSpec| match wanted {
        Some(iqn) => map.leads_to(config, iqn),
        None => map.targets(config).is_none_or(|all| !all.is_empty()),
    };
    let fits = |map: &&MapSpec| {
        map.unit == request.unit
            && map.host.as_ref().is_none_or(|name| *name == host.name)
            && leads(map)
    };
    // The newest map is the last one. An older map may lead to the unit at another target.
    let map = config.maps.iter().rev().find(fits).ok_or_else(gone)?;
    let first = || map.targets(config).and_then(|all| all.first());
    let iqn = wanted.or_else(first);
    let target = iqn
        .map_or(config.targets.first(), |iqn| config.target(iqn))
        .ok_or_else(gone)?;
    let unit = config.unit(&request.unit).ok_or_else(gone)?;
    let member = host
        .initiators
        .first()
        .map_or(request.host.as_str(), |first| first.as_str());
    let secret = access::hosts(config, member)
        .into_iter()
        .find_map(|host| host.chap.as_ref());
    Ok(SharedUnit {
        committed,
        unit: unit.clone(),
        host: host.name.clone(),
        target: target.iqn.clone(),
        portals: target
            .portal_groups
            .iter()
            .flat_map(|group| group.portals.clone())
            .collect(),
        lun: map.lun,
        chap_user: secret.map(|chap| chap.user.clone()),
    })
}
