//! Maintenance of a port group: its ports go out of service after a look at who keeps a path and
//! who would lose the last one, and come back by the same way.

use std::collections::{BTreeMap, BTreeSet};

use config::access::{self, HostIndex};
use config::change::SetAluaState;
use control::endpoint::{session, target};
use control::transaction::Commit;
use maud::{Markup, html};
use model::config::{AluaMode, AluaState, Config, PortalGroupSpec, TargetSpec};
use model::data_plane::SessionInfo;
use model::{Error, ErrorKind};

use super::parts::{Choice, danger, one_of, warning};
use super::walk::{Preview, Step, Wizard, facts_of, generation};
use crate::answer::Answer;
use crate::form::check as check_box;
use crate::format::number_of;
use crate::preview::effects;
use crate::visit::Visit;

/// The wizard.
pub(super) static WIZARD: Wizard = Wizard {
    path: "/wizards/maintenance",
    title: "Maintenance of a port group",
    back: "/targets",
    steps: &[
        Step {
            name: "group",
            title: "Port group",
            fields: &["group"],
            show: show_groups,
            check: check_group,
        },
        Step {
            name: "hosts",
            title: "Hosts",
            fields: &["state", "accept"],
            show: show_hosts,
            check: check_hosts,
        },
    ],
    label: "Set the state",
    preview,
    commit,
};

/// State of ports that are out of service. Hosts that know ALUA move to other paths at once.
const OUT: AluaState = AluaState::Unavailable;

fn is_serving(state: AluaState) -> bool {
    matches!(
        state,
        AluaState::ActiveOptimized | AluaState::ActiveNonOptimized
    )
}

/// Portal groups with their targets, by target port group.
type Groups<'a> = BTreeMap<u16, Vec<(&'a TargetSpec, &'a PortalGroupSpec)>>;

fn groups(config: &Config) -> Groups<'_> {
    let mut all = Groups::new();
    for target in &config.targets {
        for group in &target.portal_groups {
            let members = all.entry(group.target_port_group).or_default();
            members.push((target, group));
        }
    }
    all
}

/// Returns the target port group through which a session came in.
fn group_of(config: &Config, session: &SessionInfo) -> Option<u16> {
    let target = config.target(session.target.as_deref()?)?;
    let groups = target.portal_groups.iter();
    let mut groups = groups.filter(|group| group.tag == session.portal_group);
    groups.next().map(|group| group.target_port_group)
}

fn show_groups(visit: &Visit) -> Result<Markup, Error> {
    let config = visit.console.door.plane().transactions.config();
    let sessions = visit.call(&session::LIST, &[])?;
    let groups = groups(&config);
    let values: Vec<String> = groups.keys().map(ToString::to_string).collect();
    let choices = groups.iter().zip(&values).map(|((number, members), value)| {
        let here = sessions.iter().filter(|it| group_of(&config, it) == Some(*number));
        let is_out = members.iter().any(|(_, group)| !is_serving(group.alua_state));
        let states: BTreeSet<&str> = members.iter().map(|(_, it)| it.alua_state.as_str()).collect();
        let states: Vec<&str> = states.into_iter().collect();
        let words = html! {
            "Target port group " (number) ": " (states.join(", "))
            @if is_out { " (put it back into service)" }
        };
        let hint = html! {
            @for (target, group) in members {
                @let portals: Vec<String> = group.portals.iter().map(ToString::to_string).collect();
                (portals.join(", ")) " of " span.name { (target.iqn) } ". "
            }
            (number_of(here.count(), "session")) "."
        };
        Choice::new(value, words).hint(hint)
    });
    let choices: Vec<Choice<'_>> = choices.collect();
    let chosen = match (visit.form.some("group"), values.as_slice()) {
        (Some(group), _) => group,
        (None, [only]) => only.as_str(),
        (None, _) => "",
    };
    Ok(html! {
        @if choices.is_empty() { p { "No target yet, so there is no port group. " a href="/wizards/volume" { "Give a host a volume" } " first." } }
        @else { (one_of("group", "Which ports do you want to work on?", chosen, &choices)) }
    })
}

/// Returns the chosen target port group.
fn chosen(visit: &Visit, config: &Config) -> Result<u16, Error> {
    let number = visit.form.get("group").parse().ok();
    let number = number.filter(|number| groups(config).contains_key(number));
    number.ok_or_else(|| Error::invalid("no port group is chosen", "choose one of the list"))
}

fn check_group(visit: &Visit) -> Result<(), Error> {
    let config = visit.console.door.plane().transactions.config();
    chosen(visit, &config).map(drop)
}

/// An initiator with sessions through the port group.
#[derive(Debug, PartialEq, Eq)]
struct Affected {
    /// iSCSI name of the initiator. A host of several machines has several, and each needs a path.
    initiator: String,
    /// Name of the host; `None` for an initiator that belongs to none.
    host: Option<String>,
    /// Number of its sessions through the group.
    here: usize,
    /// Number of its sessions through other groups that serve.
    elsewhere: usize,
    /// Units that it reaches through this group alone.
    losing: Vec<String>,
}

impl Affected {
    /// Returns the host with its initiator.
    fn told(&self) -> String {
        match &self.host {
            Some(host) => format!("{host} ({})", self.initiator),
            None => self.initiator.clone(),
        }
    }
}

/// Returns the initiators that have sessions through a target port group.
fn affected(config: &Config, number: u16, sessions: &[SessionInfo]) -> Vec<Affected> {
    let serves = |session: &SessionInfo| {
        let target = session.target.as_deref().and_then(|iqn| config.target(iqn));
        target.is_some_and(|target| {
            let mut groups = target.portal_groups.iter();
            groups.any(|group| group.tag == session.portal_group && is_serving(group.alua_state))
        })
    };
    let units = |session: &SessionInfo| -> Vec<String> {
        let iqn = session.target.as_deref().unwrap_or_default();
        let views = access::luns(config, &session.initiator, iqn);
        views.into_iter().map(|view| view.unit).collect()
    };
    let index = HostIndex::new(config);
    let mut found: BTreeMap<String, (Affected, BTreeSet<String>, BTreeSet<String>)> =
        BTreeMap::new();
    for session in sessions.iter().filter(|it| serves(it)) {
        let initiator = &session.initiator;
        let (host, here, elsewhere) = found.entry(initiator.clone()).or_insert_with(|| {
            let hosts = index.hosts(initiator);
            let host = Affected {
                initiator: initiator.clone(),
                host: hosts.first().map(|host| host.name.clone()),
                here: 0,
                elsewhere: 0,
                losing: Vec::new(),
            };
            (host, BTreeSet::new(), BTreeSet::new())
        });
        match group_of(config, session) == Some(number) {
            true => {
                host.here += 1;
                here.extend(units(session));
            }
            false => {
                host.elsewhere += 1;
                elsewhere.extend(units(session));
            }
        }
    }
    let hosts = found.into_values().filter(|(host, ..)| host.here > 0);
    hosts
        .map(|(host, here, elsewhere)| Affected {
            losing: here.difference(&elsewhere).cloned().collect(),
            ..host
        })
        .collect()
}

/// Reports whether the group is out of service, so that it comes back.
fn comes_back(config: &Config, number: u16) -> bool {
    let groups = groups(config);
    let members = groups.get(&number).into_iter().flatten();
    members
        .clone()
        .any(|(_, group)| !is_serving(group.alua_state))
}

fn show_hosts(visit: &Visit) -> Result<Markup, Error> {
    let config = visit.console.door.plane().transactions.config();
    let number = chosen(visit, &config)?;
    if comes_back(&config, number) {
        let states = [
            Choice::new(
                AluaState::ActiveOptimized.as_str(),
                html! { "active-optimized: hosts use these ports first" },
            ),
            Choice::new(
                AluaState::ActiveNonOptimized.as_str(),
                html! { "active-non-optimized: hosts use them where no better path is there" },
            ),
        ];
        let first = AluaState::ActiveOptimized.as_str();
        let state = visit.form.some("state").unwrap_or(first);
        return Ok(html! {
            p { "The ports are out of service. No host loses anything when they come back." }
            (one_of("state", "In which state do they come back?", state, &states))
        });
    }
    let all = affected(&config, number, &visit.call(&session::LIST, &[])?);
    let is_losing = all.iter().any(|host| !host.losing.is_empty());
    Ok(html! {
        (hosts(&all))
        @if is_losing {
            (check_box("accept", "Take the ports out of service although hosts lose their last path", visit.form.is_checked("accept")))
        }
    })
}

/// Shows the hosts with the paths that they keep.
fn hosts(all: &[Affected]) -> Markup {
    html! {
        @if all.is_empty() { p { "No host is logged in through these ports." } }
        ul.tasks {
            @for host in all {
                li {
                    @if host.losing.is_empty() {
                        p { span.name { (host.told()) } " keeps "
                            (number_of(host.elsewhere, "session")) " through other ports, of "
                            (number_of(host.here + host.elsewhere, "session")) "." }
                    } @else {
                        (danger(html! { span.name { (host.told()) } " loses its last path to " (host.losing.join(", ")) "." }))
                    }
                }
            }
        }
    }
}

fn check_hosts(visit: &Visit) -> Result<(), Error> {
    let config = visit.console.door.plane().transactions.config();
    let number = chosen(visit, &config)?;
    if comes_back(&config, number) {
        return wanted(visit, &config, number).map(drop);
    }
    let all = affected(&config, number, &visit.call(&session::LIST, &[])?);
    let losing = all.iter().filter(|host| !host.losing.is_empty());
    let losing: Vec<String> = losing.map(Affected::told).collect();
    match losing.is_empty() || visit.form.is_checked("accept") {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InUse,
            format!("{} would lose the last path", losing.join(", ")),
            "give these hosts a path through other ports first, or check the box to do it all the same",
        )),
    }
}

/// Returns the state that the ports are to have.
fn wanted(visit: &Visit, config: &Config, number: u16) -> Result<AluaState, Error> {
    if !comes_back(config, number) {
        return Ok(OUT);
    }
    let word = visit.form.get("state");
    let mut states = AluaState::ALL
        .into_iter()
        .filter(|state| is_serving(*state));
    states.find(|state| state.as_str() == word).ok_or_else(|| {
        Error::invalid(
            format!("{word:?} is no state in which ports serve"),
            "choose one of the list",
        )
    })
}

fn preview(visit: &Visit) -> Result<Preview, Error> {
    let config = visit.console.door.plane().transactions.config();
    let number = chosen(visit, &config)?;
    let state = wanted(visit, &config, number)?;
    let how = Commit {
        dry_run: true,
        ..Commit::default()
    };
    let place = number.to_string();
    let committed = visit.ask(
        &target::SET_ALUA_STATE,
        &[&place],
        how,
        SetAluaState { state },
    )?;
    let all = affected(&config, number, &visit.call(&session::LIST, &[])?);
    let is_out = state == OUT;
    let groups = groups(&config);
    let members = groups.get(&number).into_iter().flatten();
    let silent = members.filter(|(target, _)| target.alua == AluaMode::None);
    let silent: Vec<&str> = silent.map(|(target, _)| target.iqn.as_str()).collect();
    Ok(Preview {
        shown: html! {
            h2 { "Paths" }
            @if is_out {
                p { "The ports of target port group " (number) " stop serving. Sessions stay, and hosts move their I/O to other ports. "
                    "Commands that are under way are finished first." }
                (hosts(&all))
                @for iqn in &silent {
                    (warning(html! { span.name { (iqn) } " offers no ALUA, so its hosts get errors before they change the path." }))
                }
            } @else {
                p { "The ports of target port group " (number) " serve again. Hosts find them by themselves." }
            }
            (effects(&committed))
        },
        facts: format!("{number} {state:?} {all:?} {}", facts_of(&committed)),
    })
}

fn commit(visit: &Visit) -> Result<Answer, Error> {
    let config = visit.console.door.plane().transactions.config();
    let number = chosen(visit, &config)?;
    let state = wanted(visit, &config, number)?;
    let how = Commit {
        if_generation: generation(visit),
        ..Commit::default()
    };
    let place = number.to_string();
    visit.ask(
        &target::SET_ALUA_STATE,
        &[&place],
        how,
        SetAluaState { state },
    )?;
    let told = match state == OUT {
        true => format!(
            "Target port group {number} is out of service. When its figures stand at 0, you can work on it. \
             This wizard puts it back."
        ),
        false => format!(
            "Target port group {number} is in service again, {}.",
            state.as_str()
        ),
    };
    Ok(Answer::done("/targets", told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::{HostSpec, MapSpec, UnitSpec};

    fn group(tag: u16, alua_state: AluaState) -> PortalGroupSpec {
        PortalGroupSpec {
            tag,
            relative_port_id: tag,
            target_port_group: tag,
            portals: Vec::new(),
            alua_state,
        }
    }

    fn session(initiator: &str, portal_group: u16) -> SessionInfo {
        SessionInfo {
            initiator: initiator.to_owned(),
            target: Some("iqn.2026-01.t:a".to_owned()),
            portal_group,
            ..SessionInfo::default()
        }
    }

    /// Returns a configuration with three port groups, of which the last one is out of service.
    fn config() -> Config {
        let target = TargetSpec {
            iqn: "iqn.2026-01.t:a".to_owned(),
            alias: String::new(),
            portal_groups: vec![
                group(1, AluaState::ActiveOptimized),
                group(2, AluaState::ActiveNonOptimized),
                group(3, AluaState::Standby),
            ],
            alua: AluaMode::default(),
            redirect: None,
            mutual_chap: None,
            parameters: Default::default(),
            offline: false,
        };
        let unit = UnitSpec {
            name: "db".to_owned(),
            naa: "6e000000000000010000000000000001".to_owned(),
            serial: "1".to_owned(),
            backend: model::config::BackendSpec::memory(1 << 20),
            block_size: 512,
            physical_block_size: 4096,
            write_cache: false,
            read_only: false,
            thin: true,
            threshold_percent: None,
            offline: false,
        };
        let host = HostSpec {
            name: "esx".to_owned(),
            initiators: vec!["iqn.1998-01.com.vmware:esx*".to_owned()],
            except: Vec::new(),
            chap: None,
        };
        let map = MapSpec {
            unit: "db".to_owned(),
            host: Some("esx".to_owned()),
            target: None,
            lun: 0,
            read_only: false,
        };
        Config {
            targets: vec![target],
            units: vec![unit],
            hosts: vec![host],
            maps: vec![map],
            ..Config::default()
        }
    }

    #[test]
    fn a_host_keeps_a_unit_that_another_serving_port_leads_to() {
        let config = config();
        let esx = "iqn.1998-01.com.vmware:esx1";
        let both = [session(esx, 1), session(esx, 2)];
        let told = affected(&config, 1, &both);
        assert_eq!((told[0].here, told[0].elsewhere), (1, 1));
        assert!(told[0].losing.is_empty(), "{told:?}");
        assert_eq!(told[0].told(), format!("esx ({esx})"));
    }

    #[test]
    fn each_machine_of_a_host_needs_a_path_of_its_own() {
        let config = config();
        let [one, two] = ["iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"];
        let told = affected(&config, 1, &[session(one, 1), session(two, 2)]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].initiator.as_str(), told[0].losing.len()), (one, 1));
    }

    #[test]
    fn a_port_that_does_not_serve_is_no_other_path() {
        let config = config();
        let esx = "iqn.1998-01.com.vmware:esx1";
        let told = affected(&config, 1, &[session(esx, 1), session(esx, 3)]);
        assert_eq!(told[0].losing, ["db"]);
        assert!(affected(&config, 2, &[session(esx, 1)]).is_empty());
        assert!(comes_back(&config, 3) && !comes_back(&config, 1));
    }
}
