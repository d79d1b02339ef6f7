//! Access of one initiator to one target: the answer to a login, from the configuration alone.
//!
//! # How hosts, maps and secrets combine
//! - An initiator belongs to every host that has a pattern matching its name, unless the host
//!   excepts the name. It sees the maps of all these hosts, and the maps for every host. Without
//!   any map there is no access.
//! - [`super::validate`] refuses configurations in which two maps that can meet share a LUN or a
//!   logical unit. So the order of maps means nothing.
//! - If any of its hosts asks for CHAP, the initiator must authenticate. Its proof is checked
//!   against one host: the one with the narrowest matching pattern that has a secret. So exactly
//!   one secret is acceptable: the secret of a wide host does not prove membership of a narrow one.

mod host_index;

use std::net::{IpAddr, SocketAddr};

use model::config::{ChapSecret, Config, HostSpec, MapSpec, PortalGroupSpec, TargetSpec};
use model::pattern;

pub use host_index::HostIndex;

/// Permission for a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Hosts that the initiator belongs to, narrowest first. Empty if only maps for every host let
    /// the initiator in.
    pub hosts: Vec<String>,
    /// Authentication that the initiator needs.
    pub authentication: Authentication,
    /// Portal group of the login.
    pub portal_group: PortalGroupSpec,
    /// LUNs that the initiator sees, ascending, never empty.
    pub luns: Vec<LunView>,
}

/// Logical unit in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunView {
    /// LUN of the unit.
    pub lun: u16,
    /// Name of the logical unit.
    pub unit: String,
    /// Designator of the logical unit. It tells a unit from its successor of that name.
    pub naa: String,
    /// Whether writes are refused, by the map or by the unit.
    pub read_only: bool,
}

/// Authentication of an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// AuthMethod=None is enough.
    None,
    /// CHAP is required.
    Chap {
        /// Secret that the initiator must prove.
        initiator: ChapSecret,
        /// Secret that the target proves if the initiator asks for mutual authentication.
        target: Option<ChapSecret>,
    },
}

/// Reason for refusing a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The target's name is unknown.
    UnknownTarget,
    /// The target does not listen at the portal.
    WrongPortal,
    /// No map gives the initiator a unit at this target.
    NotMapped,
    /// The initiator sees nothing, and discovery is only for initiators that do.
    UnknownInitiator,
    /// The administrator took the target offline.
    TargetOffline,
    /// The initiator must log in elsewhere.
    Redirect {
        /// Address to log in to (TargetAddress).
        address: String,
        /// Whether the redirection is permanent.
        permanent: bool,
    },
}

impl Refusal {
    /// Returns Status-Class and Status-Detail of the Login Response (RFC 7143 11.13.5).
    pub fn login_status(&self) -> (u8, u8) {
        match self {
            Self::Redirect {
                permanent: false, ..
            } => (0x01, 0x01),
            Self::Redirect {
                permanent: true, ..
            } => (0x01, 0x02),
            Self::NotMapped | Self::UnknownInitiator => (0x02, 0x02),
            Self::UnknownTarget | Self::WrongPortal => (0x02, 0x03),
            Self::TargetOffline => (0x03, 0x01),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownTarget => f.write_str("the target does not exist"),
            Self::WrongPortal => f.write_str("the target does not listen at that address"),
            Self::NotMapped => f.write_str("nothing is mapped to this initiator at this target"),
            Self::UnknownInitiator => f.write_str(
                "discovery is only for known initiators (discovery_auth), and this initiator belongs to no \
                 host",
            ),
            Self::TargetOffline => f.write_str("the target is offline"),
            Self::Redirect { address, .. } => write!(f, "the target redirects to {address}"),
        }
    }
}

/// Decides on a login of `initiator` to `target`, over a connection to the local address `portal`
/// (`None`: as if to the first portal group).
///
/// Both names may be as the initiator sent them: [`iscsi::name`] decides when two names are equal.
///
/// # Errors
/// The login is refused.
pub fn access(
    config: &Config,
    initiator: &str,
    target: &str,
    portal: Option<SocketAddr>,
) -> Result<Access, Refusal> {
    let granted = granted(config, initiator, target, portal)?;
    match config.target(target) {
        Some(target) if target.offline => Err(Refusal::TargetOffline),
        Some(TargetSpec {
            redirect: Some(redirect),
            ..
        }) => Err(Refusal::Redirect {
            address: redirect.address.clone(),
            permanent: redirect.permanent,
        }),
        _ => Ok(granted),
    }
}

/// Decides on a session that is logged in already. A target that is offline, or redirects
/// initiators, keeps its sessions.
///
/// # Errors
/// The session must end.
pub fn granted(
    config: &Config,
    initiator: &str,
    target: &str,
    portal: Option<SocketAddr>,
) -> Result<Access, Refusal> {
    let target = config.target(target).ok_or(Refusal::UnknownTarget)?;
    let portal_group = match portal {
        Some(portal) => portal_group(target, portal),
        None => target.portal_groups.first(),
    };
    let portal_group = portal_group.ok_or(Refusal::WrongPortal)?;
    let luns = luns(config, initiator, &target.iqn);
    if luns.is_empty() {
        return Err(Refusal::NotMapped);
    }
    let hosts = hosts(config, initiator);
    Ok(Access {
        authentication: authentication(&hosts, target.mutual_chap.as_ref()),
        hosts: hosts.iter().map(|host| host.name.clone()).collect(),
        portal_group: portal_group.clone(),
        luns,
    })
}

/// Returns the authentication of `initiator` in a discovery session. If discovery has a secret of
/// its own, it replaces the hosts' secrets. With `discovery_auth` and no such secret, the initiator
/// proves what it must prove at a target. With `discovery_auth`, an initiator of no host discovers
/// only if there is a map for every host.
///
/// # Errors
/// The login is refused.
pub fn discovery(config: &Config, initiator: &str) -> Result<Authentication, Refusal> {
    let target = config.discovery_mutual_chap.as_ref();
    let hosts = hosts(config, initiator);
    let sees_nothing = hosts.is_empty() && config.maps.iter().all(|map| map.host.is_some());
    if config.discovery_auth && sees_nothing {
        return Err(Refusal::UnknownInitiator);
    }
    Ok(match &config.discovery_chap {
        Some(secret) => Authentication::Chap {
            initiator: secret.clone(),
            target: target.cloned(),
        },
        None if config.discovery_auth => authentication(&hosts, target),
        None => Authentication::None,
    })
}

/// Returns the hosts that `initiator` belongs to, narrowest matching pattern first. A
/// [`HostIndex`] answers for many initiators.
pub fn hosts<'a>(config: &'a Config, initiator: &str) -> Vec<&'a HostSpec> {
    ranked(config.hosts.iter(), initiator)
}

/// Returns those of the hosts that `initiator` belongs to, narrowest matching pattern first.
fn ranked<'a>(hosts: impl Iterator<Item = &'a HostSpec>, initiator: &str) -> Vec<&'a HostSpec> {
    let narrowest = |host: &HostSpec| host.membership(initiator).map(pattern::narrowness);
    let mut hosts: Vec<_> = hosts
        .filter_map(|host| narrowest(host).map(|rank| (rank, host)))
        .collect();
    hosts.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.name.cmp(&y.name)));
    hosts.into_iter().map(|(_, host)| host).collect()
}

/// Reports whether a map applies to an initiator that belongs to `hosts`, at the target with this
/// IQN.
pub(super) fn applies(config: &Config, map: &MapSpec, hosts: &[&HostSpec], iqn: &str) -> bool {
    map.leads_to(config, iqn)
        && map
            .host
            .as_ref()
            .is_none_or(|name| hosts.iter().any(|host| host.name == *name))
}

/// Returns the view of `initiator` at the target `iqn`, ascending by LUN.
pub fn luns(config: &Config, initiator: &str, iqn: &str) -> Vec<LunView> {
    let hosts = hosts(config, initiator);
    let all = config.maps.iter();
    let maps = all.filter(|map| applies(config, map, &hosts, iqn));
    let units = config.units_by_name();
    let mut luns: Vec<_> = maps
        .filter_map(|map| {
            let unit = units.get(map.unit.as_str())?;
            Some(LunView {
                lun: map.lun,
                unit: unit.name.clone(),
                naa: unit.naa.clone(),
                read_only: map.read_only || unit.read_only,
            })
        })
        .collect();
    luns.sort_by_key(|view| view.lun);
    luns
}

/// Returns the portal group of `target` that listens at the local address `at`.
pub fn portal_group(target: &TargetSpec, at: SocketAddr) -> Option<&PortalGroupSpec> {
    target
        .portal_groups
        .iter()
        .find(|group| group.portals.iter().any(|&portal| listens(portal, at)))
}

/// Reports whether a listener on `portal` accepts connections to `at`.
pub fn listens(portal: SocketAddr, at: SocketAddr) -> bool {
    let (listening, at_ip) = (portal.ip().to_canonical(), at.ip().to_canonical());
    portal.port() == at.port()
        && match listening {
            IpAddr::V4(ip) if ip.is_unspecified() => at_ip.is_ipv4(),
            IpAddr::V6(ip) if ip.is_unspecified() => at_ip.is_ipv6(),
            ip => ip == at_ip,
        }
}

fn authentication(hosts: &[&HostSpec], target: Option<&ChapSecret>) -> Authentication {
    match hosts.iter().find_map(|host| host.chap.as_ref()) {
        Some(secret) => Authentication::Chap {
            initiator: secret.clone(),
            target: target.cloned(),
        },
        None => Authentication::None,
    }
}

#[cfg(test)]
mod tests;
