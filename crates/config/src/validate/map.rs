//! Rules of the map: it names existing objects, and no initiator sees two units at one LUN.

use std::collections::HashMap;

use super::MAX_LUN;
use model::config::{Config, MapSpec, UnitSpec};
use model::error::Error;
use model::name;

pub(super) fn maps(config: &Config) -> Result<(), Error> {
    let units = config.units_by_name();
    // Only maps with a common LUN or unit can conflict.
    let (mut by_lun, mut by_unit) = (HashMap::new(), HashMap::new());
    for map in &config.maps {
        references(config, &units, map)?;
        if map.lun > MAX_LUN {
            return Err(Error::invalid(
                format!("LUN {} of {} is above {MAX_LUN}", map.lun, map.unit),
                "use 0 to 255: some clients look no further",
            ));
        }
        let same_lun: &mut Vec<&MapSpec> = by_lun.entry(map.lun).or_default();
        if let Some(other) = same_lun.iter().find(|other| meet(config, map, other)) {
            return Err(lun_taken(config, map, other));
        }
        same_lun.push(map);
        let same_unit: &mut Vec<&MapSpec> = by_unit.entry(map.unit.as_str()).or_default();
        if let Some(other) = same_unit.iter().find(|other| meet(config, map, other)) {
            return Err(seen_twice(config, map, other));
        }
        same_unit.push(map);
    }
    Ok(())
}

fn lun_taken(config: &Config, map: &MapSpec, other: &MapSpec) -> Error {
    Error::invalid(
        format!(
            "LUN {} would show both {} ({}) and {} ({})",
            map.lun,
            other.unit,
            describe(config, other),
            map.unit,
            describe(config, map)
        ),
        "choose another LUN with --lun, or omit --lun to take the next free one",
    )
}

fn seen_twice(config: &Config, map: &MapSpec, other: &MapSpec) -> Error {
    Error::invalid(
        format!(
            "{} would be seen twice, as LUN {} ({}) and LUN {} ({})",
            map.unit,
            other.lun,
            describe(config, other),
            map.lun,
            describe(config, map)
        ),
        format!(
            "remove the older map first: sandstone map remove {} --lun {}",
            other.unit, other.lun
        ),
    )
}

fn references(
    config: &Config,
    units: &HashMap<&str, &UnitSpec>,
    map: &MapSpec,
) -> Result<(), Error> {
    if !units.contains_key(map.unit.as_str()) {
        return Err(Error::not_found(
            format!(
                "the map of LUN {} names the logical unit {:?}, which does not exist",
                map.lun, map.unit
            ),
            "see `sandstone lu list`, or make it with `sandstone lu create`",
        ));
    }
    if let Some(host) = &map.host
        && config.host(host).is_none()
    {
        return Err(Error::not_found(
            format!(
                "the map of {} names the host {host:?}, which does not exist",
                map.unit
            ),
            format!(
                "see `sandstone host list`, or make it with `sandstone host create {host} --initiator IQN`"
            ),
        ));
    }
    if let Some(target) = &map.target
        && config.target(target).is_none()
        && config.target_group(target).is_none()
    {
        let (kind, verb) = kind_of(config, target);
        return Err(Error::not_found(
            format!(
                "the map of {} names the {kind} {target:?}, which does not exist",
                map.unit
            ),
            format!(
                "see `sandstone {verb} list`, or make it with `sandstone {verb} create {target}`"
            ),
        ));
    }
    Ok(())
}

/// Reports whether some initiator could see both maps through one target.
pub(crate) fn meet(config: &Config, a: &MapSpec, b: &MapSpec) -> bool {
    let (x, y) = (a.targets(config), b.targets(config));
    let at_one_target = match (x, y) {
        (None, None) => true,
        // Both maps name one group that has no targets yet, but may get some.
        _ if a.target == b.target => true,
        // A map that leads nowhere meets no other.
        (Some(some), None) | (None, Some(some)) => !some.is_empty(),
        (Some(x), Some(y)) => x.iter().any(|target| y.contains(target)),
    };
    at_one_target
        && match (&a.host, &b.host) {
            (Some(x), Some(y)) if x != y => match (config.host(x), config.host(y)) {
                (Some(x), Some(y)) => x.may_share_a_member(y),
                _ => false,
            },
            _ => true,
        }
}

/// Describes a map in words: `host esx1, every target`.
pub(crate) fn describe(config: &Config, map: &MapSpec) -> String {
    let host = map
        .host
        .as_ref()
        .map_or("every host".to_owned(), |host| format!("host {host}"));
    let target = map
        .target
        .as_ref()
        .map_or("every target".to_owned(), |target| {
            format!("{} {target}", kind_of(config, target).0)
        });
    format!("{host}, {target}")
}

/// Returns the kind of a map's `target`, and the verb that lists and makes this kind. If the name
/// does not exist yet, its form decides.
fn kind_of(config: &Config, target: &str) -> (&'static str, &'static str) {
    if name::begins_as_name(target) || config.target(target).is_some() {
        ("target", "target")
    } else {
        ("target group", "target-group")
    }
}
