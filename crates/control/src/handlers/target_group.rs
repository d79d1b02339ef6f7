//! Handlers of requests about target groups, with which maps name several targets together.

use super::routes::Routes;
use crate::answer::TargetGroupView;
use crate::call::Call;
use crate::endpoint::target_group as at;
use config::change::Change;
use model::Error;
use model::config::{Config, TargetGroupSpec};

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::LIST, list)
        .change(&at::CREATE, |[], group| Change::CreateTargetGroup(group))
        .serve(&at::SHOW, show)
        .change(&at::DELETE, |[name], ()| Change::DeleteTargetGroup(name))
        .change(&at::ADD_TARGET, |[name, iqn], ()| {
            Change::AddTarget(name, iqn)
        })
        .change(&at::REMOVE_TARGET, |[name, iqn], ()| {
            Change::RemoveTarget(name, iqn)
        })
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

fn view(config: &Config, group: &TargetGroupSpec) -> TargetGroupView {
    let maps = config.maps.iter();
    let ours = maps.filter(|map| map.target.as_ref() == Some(&group.name));
    TargetGroupView {
        spec: group.clone(),
        maps: ours.cloned().collect(),
    }
}
