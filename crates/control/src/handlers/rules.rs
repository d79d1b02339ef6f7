//! Routes for SATP claim rules, and for the default path selections of storage array types.

use axum::Json;
use axum::extract::{Path, State};

use super::{Answer, Shared};
use crate::answer::{Body, Params, Problem, SatpView};
use crate::endpoint::rules::{self as at, PspChoice};
use crate::transaction::{Commit, Committed};
use config::change::{Change, SetDefaultPsp};
use multipath::{RuleText, RuleView};

/// Lists all claim rules, the system's first.
#[utoipa::path(get, path = at::LIST.path, tag = at::LIST.tag, operation_id = at::LIST.id, responses((status = 200, body = Vec<RuleView>)))]
pub(super) async fn list(State(plane): State<Shared>) -> Json<Vec<RuleView>> {
    Json(plane.config().initiator.rules.lines())
}

/// Adds a user rule. Devices that it claims follow the rule from now on.
#[utoipa::path(post, path = at::ADD.path, tag = at::ADD.tag, operation_id = at::ADD.id, params(Commit), request_body = RuleText,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn add(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<RuleText>,
) -> Answer<Committed> {
    plane.commit(Change::AddClaimRule(request), how).await
}

/// Removes the user rule with the given array type and criteria.
#[utoipa::path(delete, path = at::REMOVE.path, tag = at::REMOVE.tag, operation_id = at::REMOVE.id, params(Commit), request_body = RuleText,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn remove(
    State(plane): State<Shared>,
    Params(how): Params<Commit>,
    Body(request): Body<RuleText>,
) -> Answer<Committed> {
    plane.commit(Change::RemoveClaimRule(request), how).await
}

/// Lists the storage array types.
#[utoipa::path(get, path = at::SATPS.path, tag = at::SATPS.tag, operation_id = at::SATPS.id, responses((status = 200, body = Vec<SatpView>)))]
pub(super) async fn satps(State(plane): State<Shared>) -> Json<Vec<SatpView>> {
    let lines = plane.config().initiator.rules.satp_lines();
    let views = lines.into_iter().map(|[name, psp, description]| SatpView {
        name: name.to_owned(),
        default_psp: psp.to_owned(),
        description: description.to_owned(),
    });
    Json(views.collect())
}

/// Sets the path selection of an array type, for devices whose rule names none.
#[utoipa::path(put, path = at::SET_SATP.path, tag = at::SET_SATP.tag, operation_id = at::SET_SATP.id, params(Commit), request_body = PspChoice,
    responses((status = 200, body = Committed), (status = "4XX", body = Problem)))]
pub(super) async fn set_satp(
    State(plane): State<Shared>,
    Path(satp): Path<String>,
    Params(how): Params<Commit>,
    Body(request): Body<PspChoice>,
) -> Answer<Committed> {
    let change = SetDefaultPsp {
        satp,
        psp: request.psp,
    };
    plane.commit(Change::SetDefaultPsp(change), how).await
}
