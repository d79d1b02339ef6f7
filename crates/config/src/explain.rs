//! Answers "Why can't host X see LUN Y?" step by step, from the configuration. The data plane adds
//! the reasons that stop I/O on visible units.
//!
//! The steps follow the way of a login: the name, its hosts, the logical unit, its maps, and the
//! targets of the maps. A step that fails names the command that corrects it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{applies, hosts};
use super::validate::describe;
use model::config::{Config, HostSpec, MapSpec, UnitSpec};
use model::data_plane::UnitStatus;
use model::hindrance::{Hindrance, HindranceKind, Stops};
use model::{name, pattern};

/// Whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// Initiator in question.
    pub initiator: String,
    /// Logical unit in question, if one was named.
    pub unit: Option<String>,
    /// Whether the initiator sees the unit (or any unit, if none was named).
    pub visible: bool,
    /// Conclusion in one sentence.
    pub conclusion: String,
    /// Steps that led to the conclusion.
    pub steps: Vec<Step>,
    /// Units that the initiator sees, at every target.
    pub sees: Vec<Sight>,
}

/// Step of the explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Outcome of the step.
    pub outcome: Outcome,
    /// Finding of the step.
    pub finding: String,
    /// Command or action that corrects the problem, if there is one.
    pub next: Option<String>,
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing is in the way.
    Ok,
    /// Access works, but something may surprise.
    Note,
    /// Access fails here.
    Blocked,
}

/// Logical unit that the initiator sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sight {
    /// Target to which the initiator logs in.
    pub target: String,
    /// LUN of the unit at the target.
    pub lun: u16,
    /// The logical unit.
    pub unit: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Map that gives access.
    pub by: String,
}

/// Explains which units `initiator` sees, or why it does not see `unit`.
pub fn explain(config: &Config, initiator: &str, unit: Option<&str>) -> Explanation {
    let initiator = initiator.trim().to_owned();
    let name_step = check_name(&initiator);
    if name_step.outcome == Outcome::Blocked {
        return Explanation {
            conclusion: format!(
                "{initiator:?} does not see {}: {}",
                unit.unwrap_or("anything"),
                name_step.finding
            ),
            initiator,
            unit: unit.map(str::to_owned),
            visible: false,
            steps: vec![name_step],
            sees: Vec::new(),
        };
    }
    let mut steps = vec![name_step];
    let hosts = hosts(config, &initiator);
    steps.push(check_hosts(config, &initiator, &hosts));
    steps.extend(check_secret(&hosts));
    let found = unit.map(|name| (name, config.unit(name)));
    match found {
        Some((name, None)) => steps.push(Step {
            outcome: Outcome::Blocked,
            finding: format!("Logical unit {name} does not exist."),
            next: Some("sandstone lu list".into()),
        }),
        Some((_, Some(unit))) => {
            steps.push(check_unit(unit));
            steps.extend(check_maps(config, &initiator, &hosts, unit));
        }
        None if !config.maps.iter().any(|map| names_hosts(map, &hosts)) => {
            steps.push(nothing_mapped(config, &hosts, &initiator))
        }
        None => {}
    }
    let sees = sights(config, &hosts, unit);
    if !sees.is_empty() {
        steps.extend(check_targets(config, &sees));
    }
    let open = |sight: &Sight| {
        config
            .target(&sight.target)
            .is_some_and(|t| !t.offline && t.redirect.is_none())
    };
    let offline = matches!(found, Some((_, Some(unit))) if unit.offline);
    let visible = sees.iter().any(open) && !offline;
    let conclusion = conclude(&initiator, unit, visible, &sees, &steps);
    Explanation {
        initiator,
        unit: unit.map(str::to_owned),
        visible,
        conclusion,
        steps,
        sees,
    }
}

impl Explanation {
    /// Adds reasons that stop or refuse the initiator's I/O on the units that it sees.
    pub fn add_hindrances(&mut self, config: &Config, units: &[UnitStatus]) {
        let mut stopped = Vec::new();
        for unit in units {
            let mut groups = self.target_port_groups(config, &unit.name);
            if groups.is_empty() {
                continue;
            }
            let is_concerned = |it: &&Hindrance| it.concerns(&self.initiator);
            let all: Vec<_> = unit.hindrances.iter().filter(is_concerned).collect();
            for hindrance in &all {
                if hindrance.stops != Stops::Nothing {
                    let closed = hindrance.target_port_group;
                    groups.retain(|group| closed.is_some_and(|closed| closed != *group));
                }
            }
            if groups.is_empty() {
                stopped.push(unit.name.as_str());
            }
            // The configuration has already shown that the unit is offline.
            let news = all.iter().filter(|it| it.kind != HindranceKind::Offline);
            self.steps.extend(news.map(|hindrance| Step {
                outcome: Outcome::Note,
                finding: format!(
                    "Logical unit {}, {}: {}.",
                    unit.name,
                    hindrance.kind.word(),
                    hindrance.finding
                ),
                next: hindrance.end.clone(),
            }));
        }
        if self.visible && !stopped.is_empty() {
            let units = stopped.join(", ");
            self.conclusion += &format!(" I/O to {units} may be refused: see the notes.");
        }
    }

    /// Returns the target port groups through which the initiator sees a unit.
    fn target_port_groups(&self, config: &Config, unit: &str) -> Vec<u16> {
        let sights = self.sees.iter().filter(|sight| sight.unit == unit);
        let targets = sights.filter_map(|sight| config.target(&sight.target));
        let ports = targets.flat_map(|target| &target.portal_groups);
        ports.map(|port| port.target_port_group).collect()
    }
}

fn ok(finding: String) -> Step {
    Step {
        outcome: Outcome::Ok,
        finding,
        next: None,
    }
}

fn blocked(finding: String, next: impl Into<String>) -> Step {
    Step {
        outcome: Outcome::Blocked,
        finding,
        next: Some(next.into()),
    }
}

fn check_name(initiator: &str) -> Step {
    let compare = "compare with /etc/iscsi/initiatorname.iscsi or the client's adapter settings";
    let shown = name::shown(initiator);
    if let Err(fault) = name::foreign(initiator) {
        let finding =
            format!("{initiator:?} is not a name with which an initiator may log in: {fault}.");
        return blocked(finding, compare);
    }
    match name::own(initiator) {
        Ok(_) => ok(format!("{shown} is a well-formed iSCSI name.")),
        Err(error) => {
            let bends = format!("breaks the naming rules of RFC 7143, but may log in: {error}");
            let finding = match name::begins_as_name(initiator) {
                true => format!("{shown} {bends}."),
                false => format!("{shown} is not a host; as the name of an initiator it {bends}."),
            };
            Step {
                outcome: Outcome::Note,
                finding,
                next: Some(compare.into()),
            }
        }
    }
}

fn check_hosts(config: &Config, initiator: &str, hosts: &[&HostSpec]) -> Step {
    if !hosts.is_empty() {
        let list: Vec<_> = hosts
            .iter()
            .map(|host| membership(host, initiator))
            .collect();
        return ok(format!("The initiator belongs to {}.", list.join(" and ")));
    }
    if config.maps.iter().any(|map| map.host.is_none()) {
        return Step {
            outcome: Outcome::Note,
            finding: "The initiator belongs to no host; only maps for every host apply to it."
                .into(),
            next: Some(format!(
                "sandstone host add-initiator HOST {}",
                name::shown(initiator)
            )),
        };
    }
    let finding = match (excepting(config, initiator), resembling(config, initiator)) {
        (Some(host), _) => {
            format!(
                "The initiator belongs to no host; host {} excepts it.",
                host.name
            )
        }
        (None, Some((host, other))) => {
            format!(
                "The initiator belongs to no host; host {host} has {other}, which resembles it."
            )
        }
        (None, None) => "The initiator belongs to no host.".into(),
    };
    let next = match config.hosts.first() {
        Some(_) => format!(
            "sandstone host add-initiator HOST {}",
            name::shown(initiator)
        ),
        None => format!(
            "sandstone host create HOST --initiator {}",
            name::shown(initiator)
        ),
    };
    blocked(finding, next)
}

fn membership(host: &HostSpec, initiator: &str) -> String {
    match host.membership(initiator) {
        Some(exact) if name::is_same(exact, initiator) => format!("host {}", host.name),
        Some(wild) => format!("host {} (by {wild})", host.name),
        None => format!("host {}", host.name),
    }
}

/// Finds a host that would have this initiator if it did not except it.
fn excepting<'a>(config: &'a Config, initiator: &str) -> Option<&'a HostSpec> {
    let matched = |list: &[String]| list.iter().any(|p| pattern::matches(p, initiator));
    let mut hosts = config.hosts.iter();
    hosts.find(|host| matched(&host.initiators) && matched(&host.except))
}

/// Finds a configured initiator that differs by at most two characters, most likely because of a
/// typing error.
fn resembling<'a>(config: &'a Config, initiator: &str) -> Option<(&'a str, &'a str)> {
    let all = config.hosts.iter().flat_map(|host| {
        host.initiators
            .iter()
            .map(|i| (host.name.as_str(), i.as_str()))
    });
    all.filter(|(_, other)| distance(other, initiator) <= 2)
        .min_by_key(|(_, other)| distance(other, initiator))
}

/// Computes the Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn check_secret(hosts: &[&HostSpec]) -> Option<Step> {
    let host = hosts.iter().find(|host| host.chap.is_some())?;
    let user = host
        .chap
        .as_ref()
        .map(|chap| chap.user.as_str())
        .unwrap_or_default();
    Some(Step {
        outcome: Outcome::Note,
        finding: format!(
            "The initiator must authenticate with CHAP as {user}, with the secret of host {}.",
            host.name
        ),
        next: Some(format!(
            "if the login is refused with status 0201: sandstone host auth {} --user {user}",
            host.name
        )),
    })
}

fn check_unit(unit: &UnitSpec) -> Step {
    if unit.offline {
        let finding = format!("Logical unit {} is offline.", unit.name);
        return blocked(finding, format!("sandstone lu online {}", unit.name));
    }
    let read_only = if unit.read_only { ", read-only" } else { "" };
    ok(format!(
        "Logical unit {} exists and is online{read_only} (naa.{}).",
        unit.name, unit.naa
    ))
}

fn names_hosts(map: &MapSpec, hosts: &[&HostSpec]) -> bool {
    map.host
        .as_ref()
        .is_none_or(|name| hosts.iter().any(|host| host.name == *name))
}

fn nothing_mapped(config: &Config, hosts: &[&HostSpec], initiator: &str) -> Step {
    let unit = config.units.first().map_or("LU", |unit| unit.name.as_str());
    blocked(
        "No logical unit is mapped to the initiator.".into(),
        map_command(unit, hosts, initiator),
    )
}

fn map_command(unit: &str, hosts: &[&HostSpec], initiator: &str) -> String {
    match hosts.first() {
        Some(host) => format!("sandstone map add {unit} --host {}", host.name),
        None => format!("sandstone share {unit} --host {}", name::shown(initiator)),
    }
}

fn check_maps(config: &Config, initiator: &str, hosts: &[&HostSpec], unit: &UnitSpec) -> Vec<Step> {
    let maps: Vec<_> = config
        .maps
        .iter()
        .filter(|map| map.unit == unit.name)
        .collect();
    if maps.is_empty() {
        let next = map_command(&unit.name, hosts, initiator);
        return vec![blocked(
            format!("Logical unit {} has no map.", unit.name),
            next,
        )];
    }
    let mut steps = Vec::new();
    let any = maps.iter().any(|map| names_hosts(map, hosts));
    for map in maps {
        if names_hosts(map, hosts) {
            steps.push(ok(format!(
                "Logical unit {} is mapped as LUN {} ({}).",
                unit.name,
                map.lun,
                describe(config, map)
            )));
            steps.extend(empty_group(config, map));
        } else if !any {
            let host = map.host.as_deref().unwrap_or_default();
            steps.push(Step {
                outcome: Outcome::Note,
                finding: format!(
                    "Logical unit {} is mapped as LUN {}, but to host {host}.",
                    unit.name, map.lun
                ),
                next: None,
            });
        }
    }
    if !any {
        let next = map_command(&unit.name, hosts, initiator);
        steps.push(blocked(
            format!("No map of {} includes this initiator.", unit.name),
            next,
        ));
    }
    steps
}

/// Notes that a map of a target group without members leads nowhere.
fn empty_group(config: &Config, map: &MapSpec) -> Option<Step> {
    let group = config.target_group(map.target.as_deref()?)?;
    group.targets.is_empty().then(|| {
        blocked(
            format!("Target group {} has no targets.", group.name),
            format!("sandstone target-group add-target {} IQN", group.name),
        )
    })
}

fn sights(config: &Config, hosts: &[&HostSpec], unit: Option<&str>) -> Vec<Sight> {
    let mut sees = Vec::new();
    for target in &config.targets {
        for map in config
            .maps
            .iter()
            .filter(|map| applies(config, map, hosts, &target.iqn))
        {
            let Some(spec) = config.unit(&map.unit) else {
                continue;
            };
            if unit.is_none_or(|name| name == map.unit) {
                sees.push(Sight {
                    target: target.iqn.clone(),
                    lun: map.lun,
                    unit: map.unit.clone(),
                    read_only: map.read_only || spec.read_only,
                    by: describe(config, map),
                });
            }
        }
    }
    sees.sort_by(|a, b| (&a.target, a.lun).cmp(&(&b.target, b.lun)));
    sees
}

fn check_targets(config: &Config, sees: &[Sight]) -> Vec<Step> {
    let mut steps = Vec::new();
    for target in config
        .targets
        .iter()
        .filter(|target| sees.iter().any(|sight| sight.target == target.iqn))
    {
        let portals: Vec<_> = target
            .portal_groups
            .iter()
            .flat_map(|g| &g.portals)
            .map(ToString::to_string)
            .collect();
        let iqn = name::shown(&target.iqn);
        if target.offline {
            let finding = format!("Target {iqn} is offline: it refuses logins with status 0301.");
            steps.push(blocked(finding, format!("sandstone target online {iqn}")));
        } else if let Some(redirect) = &target.redirect {
            let finding = format!(
                "Target {iqn} redirects every login to {}.",
                redirect.address
            );
            steps.push(blocked(
                finding,
                format!("log in at that address, or: sandstone target redirect {iqn} --none"),
            ));
        } else {
            steps.push(ok(format!(
                "Target {iqn} listens at {}.",
                portals.join(", ")
            )));
        }
        let states = target
            .portal_groups
            .iter()
            .filter(|group| group.alua_state.as_str() != "active-optimized");
        for group in states {
            steps.push(Step {
                outcome: Outcome::Note,
                finding: format!(
                    "Portal group {} of {iqn} is {}.",
                    group.tag,
                    group.alua_state.as_str()
                ),
                next: None,
            });
        }
    }
    steps
}

fn conclude(
    initiator: &str,
    unit: Option<&str>,
    visible: bool,
    sees: &[Sight],
    steps: &[Step],
) -> String {
    let what = unit.unwrap_or("anything");
    if visible {
        return match unit {
            Some(unit) => {
                let at: Vec<_> = sees
                    .iter()
                    .map(|s| format!("LUN {} of {}", s.lun, s.target))
                    .collect();
                format!("{initiator} sees {unit} as {}.", at.join(" and as "))
            }
            None => format!("{initiator} sees {}.", count(sees.len(), "logical unit")),
        };
    }
    let reason = steps
        .iter()
        .rev()
        .find(|step| step.outcome == Outcome::Blocked);
    match reason {
        Some(step) => format!("{initiator} does not see {what}: {}", step.finding),
        None if sees.is_empty() => {
            format!(
                "{initiator} does not see {what}: no target offers it. Create a target with `sandstone \
                 target create`."
            )
        }
        None => format!("{initiator} does not see {what}."),
    }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 {
        format!("{n} {what}")
    } else {
        format!("{n} {what}s")
    }
}
