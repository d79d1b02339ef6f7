//! The chain of objects from hosts to disks, as far as a person can take it in. Of many objects,
//! those that hurt and those that are busy are shown; the others are counted.

use std::collections::HashMap;
use std::sync::Arc;

use control::answer::UnitView;
use model::config::{AluaState, Config, MapSpec};
use model::data_plane::{PortalStatus, SessionInfo};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

use super::{Chain, Figure, Node};
use crate::format::{at, escape, number_of};
use crate::live::Live;
use crate::live::moment::{Moment, io_place, number_of as number_of_vdev};
use crate::live::rates::{Rates, place};
use crate::mark::State;
use crate::object_state;

/// Hosts and units that are shown of many.
const MOST: usize = 10;
/// Sessions that are shown one by one.
const MOST_SESSIONS: usize = 20;
/// Disks that are shown one by one.
const MOST_DISKS: usize = 16;

/// Objects of which the chain is made.
pub(crate) struct Source<'a> {
    pub(crate) config: &'a Config,
    pub(crate) live: &'a Live,
    pub(crate) moment: &'a Moment,
    pub(crate) sessions: &'a [SessionInfo],
    pub(crate) units: &'a [UnitView],
    pub(crate) pools: &'a [PoolView],
    pub(crate) portals: &'a [PortalStatus],
    /// The only unit to show.
    pub(crate) unit: Option<&'a str>,
    /// The only host to show.
    pub(crate) host: Option<&'a str>,
}

/// Session with the hosts to which its initiator belongs.
struct Logged<'a> {
    info: &'a SessionInfo,
    target: &'a str,
    hosts: Arc<[Arc<str>]>,
}

impl Logged<'_> {
    /// Returns the key of the session's host.
    fn host_key(&self) -> String {
        match self.hosts.first() {
            Some(host) => format!("h:{host}"),
            None => format!("i:{}", self.info.initiator),
        }
    }

    fn group_key(&self) -> String {
        format!("g:{}:{}", self.info.portal_group, self.target)
    }

    /// Reports whether the session may see a unit.
    fn sees(&self, config: &Config, unit: &UnitView) -> bool {
        unit.maps.iter().any(|map| self.is_mapped(config, map))
    }

    fn is_mapped(&self, config: &Config, map: &MapSpec) -> bool {
        let is_of = |name: &String| self.hosts.iter().any(|host| **host == **name);
        map.host.as_ref().is_none_or(is_of) && map.leads_to(config, self.target)
    }
}

/// Makes the chain.
pub(crate) fn chain(source: &Source<'_>) -> Chain {
    let mut chain = Chain::default();
    let logged = logged(source);
    let units = chosen_units(source, &logged);
    let hosts = chosen_hosts(source, &logged, &units);
    for host in &hosts.shown {
        chain.add(0, host_node(source, host, &logged, &units));
    }
    if hosts.others > 0 {
        chain.add(0, counted("h+", hosts.others, "more host", "/hosts"));
    }
    let sessions: Vec<&Logged<'_>> = logged
        .iter()
        .filter(|session| hosts.shown.contains(&session.host_key()))
        .filter(|session| {
            units
                .shown
                .iter()
                .any(|unit| session.sees(source.config, unit))
        })
        .collect();
    let is_grouped = sessions.len() > MOST_SESSIONS;
    for session in &sessions {
        let node = match is_grouped {
            false => session_node(source, session),
            true => session_group(session, &sessions),
        };
        let (host, group, key) = (session.host_key(), session.group_key(), node.key.clone());
        chain.add(1, node);
        chain.add(2, group_node(source, session));
        chain.join(&host, &key, State::Good);
        chain.join(&key, &group, State::Good);
        for unit in units
            .shown
            .iter()
            .filter(|unit| session.sees(source.config, unit))
        {
            chain.join(
                &group,
                &format!("u:{}", unit.spec.name),
                line_state(source, session),
            );
        }
    }
    for unit in &units.shown {
        chain.add(3, unit_node(source, unit));
        add_storage(&mut chain, source, unit);
    }
    if units.others > 0 {
        chain.add(3, counted("u+", units.others, "more unit", "/units"));
    }
    chain
}

/// A few of many, and the number of the others.
struct Chosen<T> {
    shown: Vec<T>,
    others: usize,
}

fn logged<'a>(source: &Source<'a>) -> Vec<Logged<'a>> {
    let sessions = source.sessions.iter().filter_map(|info| {
        Some(Logged {
            info,
            target: info.target.as_deref()?,
            hosts: source.live.hosts.all(source.config, &info.initiator),
        })
    });
    sessions.collect()
}

fn chosen_units<'a>(source: &Source<'a>, logged: &[Logged<'_>]) -> Chosen<&'a UnitView> {
    let is_wanted = |unit: &&UnitView| {
        let of_unit = source.unit.is_none_or(|name| unit.spec.name == name);
        let of_host = source.host.is_none_or(|name| {
            let is_mapped = |map: &MapSpec| map.host.as_deref().is_none_or(|host| host == name);
            unit.maps.iter().any(is_mapped)
                || logged
                    .iter()
                    .any(|it| it.host_key() == format!("i:{name}") && it.sees(source.config, unit))
        });
        of_unit && of_host
    };
    let mut units: Vec<&UnitView> = source.units.iter().filter(is_wanted).collect();
    let rank = |unit: &UnitView| {
        let busy = source
            .moment
            .unit(&unit.spec.name)
            .map_or(0.0, |rates| rates.commands);
        // Unmapped units are no part of a path.
        (
            object_state::unit(unit).0,
            !unit.maps.is_empty(),
            busy as u64,
        )
    };
    units.sort_by_cached_key(|unit| std::cmp::Reverse(rank(unit)));
    cut(units, MOST)
}

fn cut<T>(mut all: Vec<T>, most: usize) -> Chosen<T> {
    let others = all.len().saturating_sub(most);
    all.truncate(most);
    Chosen { shown: all, others }
}

/// Returns the keys of the hosts of the units: hosts without a session first, then the busy ones.
fn chosen_hosts(
    source: &Source<'_>,
    logged: &[Logged<'_>],
    units: &Chosen<&UnitView>,
) -> Chosen<String> {
    let mut sessions_of: HashMap<String, (usize, u64)> = HashMap::new();
    for session in logged {
        if units
            .shown
            .iter()
            .any(|unit| session.sees(source.config, unit))
        {
            let rates = source.moment.session(session.info.tsih);
            let entry = sessions_of.entry(session.host_key()).or_default();
            entry.0 += 1;
            entry.1 += rates.map_or(0, |rates| rates.commands as u64);
        }
    }
    let maps = units.shown.iter().flat_map(|unit| &unit.maps);
    for host in maps.filter_map(|map| map.host.as_ref()) {
        sessions_of.entry(format!("h:{host}")).or_default();
    }
    let mut hosts: Vec<(String, (usize, u64))> = sessions_of.into_iter().collect();
    if let Some(name) = source.host {
        hosts.retain(|(key, _)| key[2..] == *name);
    }
    hosts.sort_by(|(a, (sessions_a, busy_a)), (b, (sessions_b, busy_b))| {
        let first = (*sessions_a > 0).cmp(&(*sessions_b > 0));
        first.then(busy_b.cmp(busy_a)).then(a.cmp(b))
    });
    cut(hosts.into_iter().map(|(key, _)| key).collect(), MOST)
}

fn figure(name: &'static str, rates: Option<Rates>, place: usize) -> Figure {
    let text = rates.map_or_else(
        || crate::format::NONE.to_owned(),
        |rates| rates.figures()[place].1.clone(),
    );
    Figure { name, place, text }
}

fn host_node(
    source: &Source<'_>,
    key: &str,
    logged: &[Logged<'_>],
    units: &Chosen<&UnitView>,
) -> Node {
    let name = &key[2..];
    let is_known = key.starts_with("h:");
    let has_session = logged.iter().any(|session| session.host_key() == key);
    let first = units
        .shown
        .first()
        .map_or("", |unit| unit.spec.name.as_str());
    let initiator = source
        .config
        .host(name)
        .and_then(|host| host.initiators.first());
    let (state, word, path) = match (has_session, is_known, initiator) {
        (true, true, _) => (State::Good, String::new(), at("/hosts", &[name])),
        (true, false, _) => (
            State::Quiet,
            "no host has this initiator".to_owned(),
            format!("/maps?initiator={}#explain", escape(name)),
        ),
        (false, _, Some(initiator)) => (
            State::Warn,
            "not logged in".to_owned(),
            format!(
                "/maps?unit={}&host={}&initiator={}#explain",
                escape(first),
                escape(name),
                escape(initiator)
            ),
        ),
        (false, _, None) => (
            State::Warn,
            "no initiator".to_owned(),
            at("/hosts", &[name]),
        ),
    };
    let rates = is_known.then(|| source.moment.host(name, source.config, &source.live.hosts));
    Node {
        key: key.to_owned(),
        live: is_known.then(|| key.to_owned()),
        label: name.to_owned(),
        path,
        state,
        word,
        figures: match has_session && is_known {
            true => vec![
                figure("IOPS", rates, place::COMMANDS),
                figure("mean ms", rates, place::MEAN),
            ],
            false => Vec::new(),
        },
    }
}

fn session_node(source: &Source<'_>, session: &Logged<'_>) -> Node {
    let tsih = session.info.tsih;
    let rates = source.moment.session(tsih);
    let peer = session
        .info
        .connections
        .first()
        .map(|of| of.peer.ip().to_canonical().to_string());
    let more = session.info.connections.len().saturating_sub(1);
    let label = peer.unwrap_or_else(|| format!("session {tsih}"));
    Node {
        key: format!("s:{tsih}"),
        live: Some(format!("s:{tsih}")),
        label: if more > 0 {
            format!("{label} +{more}")
        } else {
            label
        },
        path: at("/sessions", &[&tsih.to_string()]),
        state: State::Good,
        word: String::new(),
        figures: vec![
            figure("arrival ms", rates, place::STAGES),
            figure("reply ms", rates, place::STAGES + 3),
        ],
    }
}

/// Returns the node for all sessions of a host at a port group.
fn session_group(session: &Logged<'_>, all: &[&Logged<'_>]) -> Node {
    let (host, group) = (session.host_key(), session.group_key());
    let same = all
        .iter()
        .filter(|it| it.host_key() == host && it.group_key() == group)
        .count();
    Node {
        label: number_of(same, "session"),
        path: format!("/sessions?q={}", escape(&session.info.initiator)),
        ..counted(&format!("s+:{host}:{group}"), same, "session", "")
    }
}

fn group_node(source: &Source<'_>, session: &Logged<'_>) -> Node {
    let tag = session.info.portal_group;
    let rates = source.moment.port_group(session.target, tag);
    let (state, word) = group_state(source, session);
    let alias = source
        .config
        .target(session.target)
        .map(|it| it.alias.as_str());
    let name = alias
        .filter(|alias| !alias.is_empty())
        .unwrap_or(session.target);
    let name = name.rsplit(':').next().unwrap_or(name);
    Node {
        key: session.group_key(),
        live: Some(session.group_key()),
        label: format!("{name} · {tag}"),
        path: format!("/targets?q={}", escape(session.target)),
        state,
        word,
        figures: vec![
            figure("MiB/s", rates, place::BYTES),
            figure("p99 ms", rates, place::P99),
        ],
    }
}

fn group_state(source: &Source<'_>, session: &Logged<'_>) -> (State, String) {
    let tag = session.info.portal_group;
    let mut portals = source
        .portals
        .iter()
        .filter(|it| it.target == session.target && it.tag == tag);
    if let Some(error) = portals.find_map(|portal| portal.error.as_ref()) {
        return (State::Bad, error.clone());
    }
    let target = source.config.target(session.target);
    let group = target.and_then(|it| it.portal_groups.iter().find(|group| group.tag == tag));
    match group.map(|group| group.alua_state) {
        None | Some(AluaState::ActiveOptimized) => (State::Good, String::new()),
        Some(state @ (AluaState::ActiveNonOptimized | AluaState::Standby)) => {
            (State::Quiet, state.as_str().to_owned())
        }
        Some(state) => (State::Warn, state.as_str().to_owned()),
    }
}

fn line_state(source: &Source<'_>, session: &Logged<'_>) -> State {
    match group_state(source, session).0 {
        State::Warn => State::Bad,
        state => state,
    }
}

fn unit_node(source: &Source<'_>, unit: &UnitView) -> Node {
    let name = &unit.spec.name;
    let rates = source.moment.unit(name);
    let (state, word) = object_state::unit(unit);
    Node {
        key: format!("u:{name}"),
        live: Some(format!("u:{name}")),
        label: name.clone(),
        path: at("/units", &[name]),
        word: if state == State::Good {
            String::new()
        } else {
            word
        },
        state,
        figures: vec![
            figure("queue ms", rates, place::STAGES + 1),
            figure("p99 ms", rates, place::P99),
        ],
    }
}

/// Adds the volume of a unit, and the vdevs and disks of its pool.
fn add_storage(chain: &mut Chain, source: &Source<'_>, unit: &UnitView) {
    let unit_key = format!("u:{}", unit.spec.name);
    let rates = source.moment.unit(&unit.spec.name);
    let volume = unit.spec.backend.volume();
    let label = volume.map_or_else(|| object_state::place_of_unit(unit), str::to_owned);
    let key = format!("v:{}", unit.spec.name);
    let pool = volume.and_then(|name| {
        let pool = name.split(['/', '@']).next()?;
        source.pools.iter().find(|it| it.name == pool)
    });
    chain.add(
        4,
        Node {
            key: key.clone(),
            live: Some(unit_key.clone()),
            label,
            path: volume.map_or_else(
                || at("/units", &[&unit.spec.name]),
                |name| at("/volumes", &[name]),
            ),
            state: pool.map_or(State::Good, |pool| {
                object_state::pool(pool).min(State::Warn)
            }),
            word: pool
                .filter(|pool| pool.state != "ONLINE")
                .map(|pool| format!("pool {}", pool.state))
                .unwrap_or_default(),
            figures: vec![figure("device ms", rates, place::STAGES + 2)],
        },
    );
    chain.join(&unit_key, &key, State::Good);
    let Some(pool) = pool else { return };
    let disks: usize = pool.vdevs.iter().map(|vdev| leaves(vdev).len()).sum();
    for vdev in &pool.vdevs {
        let node = vdev_node(source, pool, vdev);
        let vdev_key = node.key.clone();
        chain.add(5, node);
        chain.join(&key, &vdev_key, State::Good);
        if vdev.children.is_empty() {
            continue;
        }
        if disks > MOST_DISKS {
            let worst = leaves(vdev)
                .into_iter()
                .map(vdev_state)
                .max()
                .unwrap_or(State::Good);
            let count = leaves(vdev).len();
            let node = Node {
                state: worst,
                ..counted(
                    &format!("{vdev_key}+"),
                    count,
                    "disk",
                    &at("/pools", &[&pool.name]),
                )
            };
            chain.join(&vdev_key, &node.key, State::Good);
            chain.add(6, node);
            continue;
        }
        for leaf in leaves(vdev) {
            let node = vdev_node(source, pool, leaf);
            chain.join(&vdev_key, &node.key, vdev_state(leaf));
            chain.add(6, node);
        }
    }
}

/// Returns the devices of a vdev.
fn leaves(vdev: &VdevView) -> Vec<&VdevView> {
    let all = vdev.all().into_iter();
    all.filter(|it| it.children.is_empty()).collect()
}

fn vdev_state(vdev: &VdevView) -> State {
    let has_errors = vdev.read + vdev.write + vdev.checksum > 0;
    match vdev.state.as_str() {
        "ONLINE" if has_errors || vdev.is_incomplete => State::Warn,
        "ONLINE" => State::Good,
        "DEGRADED" => State::Warn,
        "OFFLINE" => State::Quiet,
        _ => State::Bad,
    }
}

fn vdev_node(source: &Source<'_>, pool: &PoolView, vdev: &VdevView) -> Node {
    let number = number_of_vdev(vdev);
    let key = format!("d:{}:{number}", pool.name);
    let state = vdev_state(vdev);
    let texts = source
        .moment
        .texts(&key, source.config, &source.live.hosts)
        .unwrap_or_default();
    let text = |place: usize| {
        texts
            .get(place)
            .cloned()
            .unwrap_or_else(|| crate::format::NONE.to_owned())
    };
    let is_disk = vdev.children.is_empty();
    let (name, latency) = match is_disk {
        true => ("disk ms", io_place::DISK),
        false => ("whole ms", io_place::TOTAL),
    };
    Node {
        label: vdev
            .name
            .rsplit('/')
            .next()
            .unwrap_or(&vdev.name)
            .to_owned(),
        live: Some(key.clone()),
        key,
        path: at("/pools", &[&pool.name]),
        word: if state == State::Good {
            String::new()
        } else {
            vdev.state.clone()
        },
        state,
        figures: vec![
            Figure {
                name: "IOPS",
                place: io_place::OPERATIONS,
                text: text(io_place::OPERATIONS),
            },
            Figure {
                name,
                place: latency,
                text: text(latency),
            },
        ],
    }
}

/// Returns the node for objects that are only counted.
fn counted(key: &str, count: usize, word: &str, path: &str) -> Node {
    Node {
        key: key.to_owned(),
        live: None,
        label: number_of(count, word),
        path: path.to_owned(),
        state: State::Good,
        word: String::new(),
        figures: Vec::new(),
    }
}
