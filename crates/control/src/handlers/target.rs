//! Handlers of requests about targets and their portals.

use std::net::SocketAddr;

use super::routes::Routes;
use crate::answer::TargetView;
use crate::author;
use crate::call::Call;
use crate::endpoint::target as at;
use crate::plane::Plane;
use crate::transaction::{Commit, Committed};
use config::change::{Change, CreateTarget, SetAluaState};
use config::diff::{Action, Difference, FieldChange};
use config::redact::redacted_target;
use model::Error;
use model::config::{AluaState, TargetSpec};
use model::data_plane::Login;
use model::hindrance::AluaChoice;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::CREATE, create)
        .serve(&at::SHOW, show)
        .change(&at::MODIFY, |[iqn], wanted| {
            Change::ModifyTarget(iqn, wanted)
        })
        .change(&at::DELETE, |[iqn], ()| Change::DeleteTarget(iqn))
        .change(&at::ADD_PORTAL, |[iqn], portal| {
            Change::AddPortal(iqn, portal)
        })
        .serve(&at::REMOVE_PORTAL, remove_portal)
        .serve(&at::SET_ALUA_STATE, set_alua_state)
}

pub(super) fn list(call: Call) -> Result<Vec<TargetView>, Error> {
    let Call { plane, .. } = call;
    let logins = plane.transactions.data_plane().logins();
    let choices = plane.transactions.data_plane().alua_choices();
    Ok(plane
        .config()
        .targets
        .iter()
        .map(|target| view(&plane, target, &logins, &choices))
        .collect())
}

pub(super) fn show(call: Call) -> Result<TargetView, Error> {
    let Call { plane, at, .. } = call;
    let [iqn] = at.names();
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("target {iqn} does not exist"),
            "sandstone target list shows the targets",
        )
    };
    let target = config.target(&iqn).ok_or_else(missing)?;
    let logins = plane.transactions.data_plane().logins();
    let choices = plane.transactions.data_plane().alua_choices();
    Ok(view(&plane, target, &logins, &choices))
}

pub(super) fn create(call: Call<Commit, CreateTarget>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: mut request,
        ..
    } = call;
    if request.portals.is_empty() {
        request.portals.clone_from(&plane.default_portals);
    }
    plane.commit(Change::CreateTarget(request), how)
}

pub(super) fn remove_portal(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [iqn, portal] = at.names();
    let portal: SocketAddr = portal.parse().map_err(|_| {
        Error::invalid(
            format!("{portal:?} is not an address with a port"),
            "write it as in 10.0.0.1:3260",
        )
    })?;
    plane.commit(Change::RemovePortal(iqn, portal), how)
}

pub(super) fn set_alua_state(call: Call<Commit, SetAluaState>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        body: request,
        ..
    } = call;
    let [group] = at.names();
    let group: u16 = group.parse().map_err(|_| {
        Error::invalid(
            format!("{group:?} is not the number of a target port group"),
            "sandstone target list shows the target port groups",
        )
    })?;
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

fn view(
    plane: &Plane,
    target: &TargetSpec,
    logins: &[Login],
    choices: &[AluaChoice],
) -> TargetView {
    let data_plane = plane.transactions.data_plane();
    let is_of = |choice: &&AluaChoice| {
        let group = choice.target_port_group;
        let mut groups = target.portal_groups.iter();
        groups.any(|of| of.target_port_group == group)
    };
    TargetView {
        alua_choices: choices.iter().filter(is_of).cloned().collect(),
        spec: redacted_target(target),
        portals: data_plane
            .portals()
            .into_iter()
            .filter(|portal| portal.target == target.iqn)
            .collect(),
        sessions: logins
            .iter()
            .filter(|login| login.target == target.iqn)
            .count(),
    }
}
