//! Rules of target groups: names that no target could have, and members that exist.

use std::collections::HashSet;

use super::{object_name, taken};
use model::config::{Config, TargetGroupSpec};
use model::error::Error;
use model::name;

pub(super) fn target_groups(config: &Config) -> Result<(), Error> {
    let mut names = HashSet::new();
    for group in &config.target_groups {
        object_name("target group", &group.name)?;
        // A map tells a target from a group by its name.
        let like = match config.target(&group.name) {
            Some(_) => "it is",
            None if name::begins_as_name(&group.name) => "it begins like",
            None => "",
        };
        if !like.is_empty() {
            return Err(Error::invalid(
                format!(
                    "{:?} is not a valid target group name: {like} the name of a target",
                    group.name
                ),
                "choose another name; a map tells targets and target groups apart by their names",
            ));
        }
        if !names.insert(group.name.as_str()) {
            let list = "sandstone target-group list";
            return Err(taken("target group", &group.name, list));
        }
        members(config, group)?;
    }
    Ok(())
}

fn members(config: &Config, group: &TargetGroupSpec) -> Result<(), Error> {
    let mut known = HashSet::new();
    for target in &group.targets {
        if config.target(target).is_none() {
            let next = format!(
                "see `sandstone target list`, or make it with `sandstone target create {target}`"
            );
            return Err(Error::not_found(
                format!(
                    "target group {} names the target {target:?}, which does not exist",
                    group.name
                ),
                next,
            ));
        }
        if !known.insert(name::folded(target)) {
            return Err(Error::invalid(
                format!("target group {} names {target} twice", group.name),
                "name each target once",
            ));
        }
    }
    Ok(())
}
