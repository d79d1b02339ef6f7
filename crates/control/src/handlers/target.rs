//! Routes for targets and their portals.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Plane, Shared, apart};
use crate::answer::{Body, Params, Problem, TargetView};
use crate::author;
use crate::endpoint::target as at;
use crate::transaction::{Commit, Committed};
use config::change::{AddPortal, Change, CreateTarget, ModifyTarget, SetAluaState};
use config::diff::{Action, Difference, FieldChange};
use config::redact::redacted_target;
use model::Error;
use model::config::{AluaState, TargetSpec};
use model::hindrance::AluaChoice;

/// Lists all targets.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<TargetView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<TargetView>> {
    Json(
        plane
            .config()
            .targets
            .iter()
            .map(|target| view(&plane, target))
            .collect(),
    )
}

/// Returns one target.
#[utoipa::path(get, path = at::SHOW.path, tag = at::SHOW.tag, operation_id = at::SHOW.id,
    responses((status = 200, body = TargetView), (status = "4XX", body = Problem)))]
pub(super) async fn show(
    State(plane): State<Shared>,
    Path(iqn): Path<String>,
) -> Answer<TargetView> {
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("target {iqn} does not exist"),
            "sandstone target list shows the targets",
        )
    };
    let target = config.target(&iqn).ok_or_else(missing)?;
    Ok(Json(view(&plane, target)))
}

/// Makes a target.
#[utoipa::path(post, path = at::CREATE.path, tag = at::CREATE.tag, operation_id = at::CREATE.id, params(Commit), request_body = CreateTarget,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn create(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(mut request): Body<CreateTarget>,
) -> Answer<Committed> {
    if request.portals.is_empty() {
        request.portals.clone_from(&plane.default_portals);
    }
    plane.commit(Change::CreateTarget(request), how).await
}

/// Changes a target. Absent fields keep their values.
#[utoipa::path(patch, path = at::MODIFY.path, tag = at::MODIFY.tag, operation_id = at::MODIFY.id, params(Commit), request_body = ModifyTarget,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn modify(
    State(plane): State<Shared>,
    Path(iqn): Path<String>,
    Params(how): Params<Commit>,
    Body(request): Body<ModifyTarget>,
) -> Answer<Committed> {
    plane.commit(Change::ModifyTarget(iqn, request), how).await
}

/// Removes a target.
#[utoipa::path(delete, path = at::DELETE.path, tag = at::DELETE.tag, operation_id = at::DELETE.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn delete(
    State(plane): State<Shared>,
    Path(iqn): Path<String>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    plane.commit(Change::DeleteTarget(iqn), how).await
}

/// Adds a listening address. If no portal group has the given tag, the group is made too.
#[utoipa::path(post, path = at::ADD_PORTAL.path, tag = at::ADD_PORTAL.tag, operation_id = at::ADD_PORTAL.id, params(Commit), request_body = AddPortal,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn add_portal(
    State(plane): State<Shared>,
    Path(iqn): Path<String>,
    Params(how): Params<Commit>,
    Body(request): Body<AddPortal>,
) -> Answer<Committed> {
    plane.commit(Change::AddPortal(iqn, request), how).await
}

/// Removes a listening address. With its last address, a portal group is removed too.
#[utoipa::path(delete, path = at::REMOVE_PORTAL.path, tag = at::REMOVE_PORTAL.tag, operation_id = at::REMOVE_PORTAL.id, params(Commit),
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn remove_portal(
    State(plane): State<Shared>,
    Path((iqn, portal)): Path<(String, String)>,
    Params(how): Params<Commit>,
) -> Answer<Committed> {
    let portal: SocketAddr = portal.parse().map_err(|_| {
        Error::invalid(
            format!("{portal:?} is not an address with a port"),
            "write it as in 10.0.0.1:3260",
        )
    })?;
    plane.commit(Change::RemovePortal(iqn, portal), how).await
}

/// Sets the ALUA state of a target port group, and tells the initiators (06/2A/06). The initiators'
/// own choices in this group end, even if the state does not change.
#[utoipa::path(put, path = at::SET_ALUA_STATE.path, tag = at::SET_ALUA_STATE.tag, operation_id = at::SET_ALUA_STATE.id, params(Commit), request_body = SetAluaState,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn set_alua_state(
    State(plane): State<Shared>,
    Path(group): Path<u16>,
    Params(how): Params<Commit>,
    Body(request): Body<SetAluaState>,
) -> Answer<Committed> {
    apart(move || {
        let data_plane = plane.transactions.data_plane();
        let mut choices = data_plane.alua_choices();
        choices.retain(|choice| choice.target_port_group == group);
        let state = request.state;
        let change = Change::SetAluaState(group, request);
        let mut committed = plane.transactions.commit(&change, &how)?;
        let ended = choices.iter().map(|choice| ends(choice, state));
        let ended: Vec<Difference> = ended.collect();
        if !how.dry_run {
            data_plane.end_alua_choices(group)?;
            author::note_differences(&ended, committed.generation);
        }
        committed.differences.extend(ended);
        Ok(committed)
    })
    .await
    .map(Json)
}

/// Describes the end of a state that an initiator chose for itself.
fn ends(choice: &AluaChoice, state: AluaState) -> Difference {
    Difference {
        action: Action::Modify,
        object: "lu".into(),
        name: choice.unit.clone(),
        fields: vec![FieldChange {
            field: format!(
                "alua of group {} for {}",
                choice.target_port_group, choice.initiator
            ),
            old: Some(choice.chosen.as_str().to_owned()),
            new: Some(state.as_str().to_owned()),
        }],
    }
}

fn view(plane: &Plane, target: &TargetSpec) -> TargetView {
    let data_plane = plane.transactions.data_plane();
    let sessions = data_plane.sessions();
    let mut alua_choices = data_plane.alua_choices();
    let groups = &target.portal_groups;
    alua_choices.retain(|choice| {
        let group = choice.target_port_group;
        groups.iter().any(|of| of.target_port_group == group)
    });
    TargetView {
        alua_choices,
        spec: redacted_target(target),
        portals: data_plane
            .portals()
            .into_iter()
            .filter(|portal| portal.target == target.iqn)
            .collect(),
        sessions: sessions
            .iter()
            .filter(|session| session.target.as_ref() == Some(&target.iqn))
            .count(),
    }
}
