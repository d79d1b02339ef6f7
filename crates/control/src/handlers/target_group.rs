//! Handlers of requests about target groups, with which maps name several targets together.

use super::routes::Routes;
use crate::answer::TargetGroupView;
use crate::call::Call;
use crate::endpoint::target_group as at;
use crate::transaction::{Commit, Committed};
use config::change::{Change, CreateTargetGroup};
use model::Error;
use model::config::{Config, TargetGroupSpec};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .serve(&at::CREATE, create)
        .serve(&at::SHOW, show)
        .serve(&at::DELETE, delete)
        .serve(&at::ADD_TARGET, add_target)
        .serve(&at::REMOVE_TARGET, remove_target)
}

pub(super) fn list(call: Call) -> Result<Vec<TargetGroupView>, Error> {
    let Call { plane, .. } = call;
    let config = plane.config();
    let groups = config.target_groups.iter();
    Ok(groups.map(|group| view(&config, group)).collect())
}

pub(super) fn show(call: Call) -> Result<TargetGroupView, Error> {
    let Call { plane, at, .. } = call;
    let [name] = at.names();
    let config = plane.config();
    let missing = || {
        Error::not_found(
            format!("target group {name} does not exist"),
            "sandstone target-group list shows the target groups",
        )
    };
    let group = config.target_group(&name).ok_or_else(missing)?;
    Ok(view(&config, group))
}

pub(super) fn create(call: Call<Commit, CreateTargetGroup>) -> Result<Committed, Error> {
    let Call {
        plane,
        query: how,
        body: request,
        ..
    } = call;
    plane.commit(Change::CreateTargetGroup(request), how)
}

pub(super) fn delete(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name] = at.names();
    plane.commit(Change::DeleteTargetGroup(name), how)
}

pub(super) fn add_target(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name, iqn] = at.names();
    plane.commit(Change::AddTarget(name, iqn), how)
}

pub(super) fn remove_target(call: Call<Commit>) -> Result<Committed, Error> {
    let Call {
        plane,
        at,
        query: how,
        ..
    } = call;
    let [name, iqn] = at.names();
    plane.commit(Change::RemoveTarget(name, iqn), how)
}

fn view(config: &Config, group: &TargetGroupSpec) -> TargetGroupView {
    let maps = config.maps.iter();
    let ours = maps.filter(|map| map.target.as_ref() == Some(&group.name));
    TargetGroupView {
        spec: group.clone(),
        maps: ours.cloned().collect(),
    }
}
