//! Edits of target groups.

use super::*;

/// Parameters of `target-group create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTargetGroup {
    /// Name of the target group.
    pub name: String,
    /// IQNs of its members.
    #[serde(default)]
    pub targets: Vec<String>,
}

impl Edit {
    pub(super) fn create_target_group(&mut self, request: &CreateTargetGroup) -> Result<(), Error> {
        let targets = request.targets.iter();
        let targets = targets.map(|iqn| target_named(&self.config, iqn));
        let targets = targets.collect::<Result<_, _>>()?;
        self.config.target_groups.push(TargetGroupSpec {
            name: request.name.clone(),
            targets,
        });
        Ok(())
    }

    pub(super) fn add_target(&mut self, group: &str, iqn: &str) -> Result<(), Error> {
        let iqn = target_named(&self.config, iqn)?;
        let group = self.target_group_mut(group)?;
        if group.targets.contains(&iqn) {
            return Err(Error::exists(
                format!("target group {} already has target {iqn}", group.name),
                format!("sandstone target-group list {}", group.name),
            ));
        }
        group.targets.push(iqn);
        Ok(())
    }

    pub(super) fn remove_target(&mut self, group: &str, iqn: &str) -> Result<(), Error> {
        let group = self.target_group_mut(group)?;
        if !group.targets.iter().any(|it| name::is_same(it, iqn)) {
            return Err(Error::not_found(
                format!("target group {} has no target {iqn}", group.name),
                format!(
                    "sandstone target-group list {} shows its targets",
                    group.name
                ),
            ));
        }
        group.targets.retain(|it| !name::is_same(it, iqn));
        Ok(())
    }

    pub(super) fn delete_target_group(&mut self, name: &str) -> Result<(), Error> {
        self.target_group_mut(name)?;
        let what = format!("target group {name}");
        let command = format!("sandstone target-group delete {name}");
        let dependents = self.maps_that_name(name);
        self.refuse_if_used(&what, &dependents, &command)?;
        let ours = |map: &MapSpec| map.target.as_deref() == Some(name);
        self.config.maps.retain(|map| !ours(map));
        self.config.target_groups.retain(|group| group.name != name);
        Ok(())
    }

    /// Describes the maps whose `target` is this name.
    pub(super) fn maps_that_name(&self, target: &str) -> Vec<String> {
        self.told_maps(|map| map.target.as_deref() == Some(target))
    }

    /// Describes the maps that satisfy `is_meant`.
    pub(super) fn told_maps(&self, is_meant: impl Fn(&MapSpec) -> bool) -> Vec<String> {
        let maps = self.config.maps.iter().filter(|map| is_meant(map));
        maps.map(|m| {
            let description = validate::describe(&self.config, m);
            format!("{} as LUN {} ({description})", m.unit, m.lun)
        })
        .collect()
    }

    fn target_group_mut(&mut self, name: &str) -> Result<&mut TargetGroupSpec, Error> {
        let mut groups = self.config.target_groups.iter_mut();
        groups.find(|group| group.name == name).ok_or_else(|| {
            Error::not_found(
                format!("target group {name} does not exist"),
                "sandstone target-group list shows the target groups",
            )
        })
    }
}
