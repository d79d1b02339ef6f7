//! Routes for target groups, with which maps name several targets together.

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Shared};
use crate::answer::{Body, Params, Problem, TargetGroupView};
use crate::endpoint::target_group as at;
use crate::transaction::{Commit, Committed};
use config::change::{Change, CreateTargetGroup};
use model::Error;
use model::config::{Config, TargetGroupSpec};

/// Lists all target groups.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<TargetGroupView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<TargetGroupView>> {
    let config = plane.config();
    let groups = config.target_groups.iter();
    Json(groups.map(|group| view(&config, group)).collect())
}

/// Returns one target group.
#[utoipa::path(get, path = at::SHOW.path, tag = at::SHOW.tag, operation_id = at::SHOW.id,
    responses((status = 200, body = TargetGroupView), (status = "4XX", body = Problem)))]
pub(super) async fn show(
    State(plane): State<Shared>,
    Path(name): Path<String>,
) -> Answer<TargetGroupView> {
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("target group {name} does not exist"),
            "sandstone target-group list shows the target groups",
        )
    };
    let group = config.target_group(&name).ok_or_else(missing)?;
    Ok(Json(view(&config, group)))
}

/// Makes a target group.
#[utoipa::path(post, path = at::CREATE.path, tag = at::CREATE.tag, operation_id = at::CREATE.id, params(Commit), request_body = CreateTargetGroup,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn create(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<CreateTargetGroup>,
) -> Answer<Committed> {
    plane.commit(Change::CreateTargetGroup(request), how).await
}

/// Removes a target group. Its targets stay.
#[utoipa::path(delete, path = at::DELETE.path, tag = at::DELETE.tag, operation_id = at::DELETE.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn delete(
    State(plane): State<Shared>,
    Path(name): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::DeleteTargetGroup(name), how).await
}

/// Adds a target. The group's maps then lead to it too.
#[utoipa::path(put, path = at::ADD_TARGET.path, tag = at::ADD_TARGET.tag, operation_id = at::ADD_TARGET.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn add_target(
    State(plane): State<Shared>,
    Path((name, iqn)): Path<(String, String)>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::AddTarget(name, iqn), how).await
}

/// Removes a target. The group's maps no longer lead to it.
#[utoipa::path(delete, path = at::REMOVE_TARGET.path, tag = at::REMOVE_TARGET.tag, operation_id = at::REMOVE_TARGET.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn remove_target(
    State(plane): State<Shared>,
    Path((name, iqn)): Path<(String, String)>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::RemoveTarget(name, iqn), how).await
}

fn view(config: &Config, group: &TargetGroupSpec) -> TargetGroupView {
    let maps = config.maps.iter();
    let ours = maps.filter(|map| map.target.as_ref() == Some(&group.name));
    TargetGroupView {
        spec: group.clone(),
        maps: ours.cloned().collect(),
    }
}
