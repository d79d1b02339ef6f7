//! What one initiator may do at one target: the answer to a login, from the configuration alone.
//!
//! # How hosts, maps and secrets combine
//! - An initiator belongs to every host one of whose patterns matches its name, but for the names
//!   that the host excepts. It sees the maps of all of them, and the maps for every host. Without
//!   any map there is no access.
//! - [`super::validate`] refuses configurations in which two maps that can meet share a LUN or a
//!   logical unit, so the order of maps means nothing.
//! - If any of its hosts asks for CHAP, the initiator must authenticate, against the host with the
//!   narrowest matching pattern that has a secret. There is exactly one acceptable secret: knowing
//!   the secret of a wide host is no proof of being a member of a narrow one.

use std::net::{IpAddr, SocketAddr};

use model::config::{ChapSecret, Config, HostSpec, MapSpec, PortalGroupSpec, TargetSpec};
use model::pattern;

/// A login that may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The hosts that the initiator belongs to, narrowest first; empty where only maps for every
    /// host let it in.
    pub hosts: Vec<String>,
    /// How it must prove who it is.
    pub authentication: Authentication,
    /// The portal group it came to.
    pub portal_group: PortalGroupSpec,
    /// What it sees, ascending by LUN, never empty.
    pub luns: Vec<LunView>,
}

/// One logical unit in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunView {
    /// The LUN.
    pub lun: u16,
    /// The logical unit's name.
    pub unit: String,
    /// The logical unit's designator: tells a unit from its successor of the same name.
    pub naa: String,
    /// Refuse writes: the map or the unit says so.
    pub read_only: bool,
}

/// How an initiator must prove who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// AuthMethod=None is enough.
    None,
    /// CHAP is demanded.
    Chap {
        /// What the initiator must know.
        initiator: ChapSecret,
        /// What the target answers when asked to authenticate itself.
        target: Option<ChapSecret>,
    },
}

/// A login that must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No target of that name.
    UnknownTarget,
    /// The target does not listen at that portal.
    WrongPortal,
    /// No map gives the initiator anything here.
    NotMapped,
    /// Discovery is for those who can see something.
    UnknownInitiator,
    /// The administrator took the target offline.
    TargetOffline,
    /// Go elsewhere.
    Redirect {
        /// TargetAddress.
        address: String,
        /// For good.
        permanent: bool,
    },
}

impl Refusal {
    /// Status-Class and Status-Detail of the Login Response (RFC 7143 11.13.5).
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
            Self::UnknownTarget => f.write_str("there is no target of that name"),
            Self::WrongPortal => f.write_str("the target does not listen at that address"),
            Self::NotMapped => f.write_str("nothing is mapped to this initiator at this target"),
            Self::UnknownInitiator => f.write_str(
                "discovery is for known initiators (discovery_auth), and this one belongs to no host",
            ),
            Self::TargetOffline => f.write_str("the target is offline"),
            Self::Redirect { address, .. } => write!(f, "the target redirects to {address}"),
        }
    }
}

/// What `initiator` may do at `target` when it logs in, having connected to the local address
/// `portal` (`None`: as if it had come to the first portal group).
///
/// Both names may be as the initiator sent them: [`iscsi::name`] says when two are one.
///
/// # Errors
/// The login must not go on.
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

/// The same once it is logged in: a target that is offline, or sends initiators elsewhere, keeps
/// the sessions that it has.
///
/// # Errors
/// The session must not go on.
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

/// How `initiator` must prove who it is in a discovery session. A secret of discovery's own takes
/// the place of the hosts' secrets. With `discovery_auth` and no such secret, it proves what it
/// must prove at a target. With `discovery_auth`, an initiator of no host discovers only where
/// there is a map for every host.
///
/// # Errors
/// The login must not go on.
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

/// The hosts that `initiator` belongs to, narrowest matching pattern first.
pub fn hosts<'a>(config: &'a Config, initiator: &str) -> Vec<&'a HostSpec> {
    let narrowest = |host: &HostSpec| host.membership(initiator).map(pattern::narrowness);
    let mut hosts: Vec<_> = config
        .hosts
        .iter()
        .filter_map(|host| narrowest(host).map(|rank| (rank, host)))
        .collect();
    hosts.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.name.cmp(&y.name)));
    hosts.into_iter().map(|(_, host)| host).collect()
}

/// Whether a map applies to an initiator that belongs to `hosts`, at the target of that IQN.
pub(super) fn applies(config: &Config, map: &MapSpec, hosts: &[&HostSpec], iqn: &str) -> bool {
    map.leads_to(config, iqn)
        && map
            .host
            .as_ref()
            .is_none_or(|name| hosts.iter().any(|host| host.name == *name))
}

/// The view of `initiator` at the target `iqn`, ascending by LUN.
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

/// The portal group of `target` that listens at the local address `at`.
pub fn portal_group(target: &TargetSpec, at: SocketAddr) -> Option<&PortalGroupSpec> {
    target
        .portal_groups
        .iter()
        .find(|group| group.portals.iter().any(|&portal| listens(portal, at)))
}

/// Whether a listener on `portal` accepts connections to `at`.
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
