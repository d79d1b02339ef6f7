//! Answer to SendTargets (RFC 7143 appendix C): the targets that an initiator may know of, and
//! their addresses.

use std::net::{IpAddr, SocketAddr};

use super::access::{listens, luns};
use model::config::{Config, TargetSpec};

/// Target in a SendTargets answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// TargetName of the target.
    pub iqn: String,
    /// TargetAddress values: address and portal group tag.
    pub addresses: Vec<(SocketAddr, u16)>,
}

/// Answers SendTargets=All in a discovery session that arrived at the local address `at`. Lists the
/// targets that listen there and have a unit for `initiator`, with all of their portals, so that
/// the initiator finds every path.
///
/// A portal on the unspecified address is listed with the address to which the initiator connected.
/// The configuration does not know the other addresses behind it.
pub fn send_targets(config: &Config, initiator: &str, at: SocketAddr) -> Vec<Listing> {
    let here = |target: &&TargetSpec| {
        let mut portals = target.portal_groups.iter().flat_map(|group| &group.portals);
        portals.any(|&portal| listens(portal, at))
    };
    let targets = config
        .targets
        .iter()
        .filter(|target| !target.offline)
        .filter(here);
    targets
        .filter(|target| !luns(config, initiator, &target.iqn).is_empty())
        .map(|target| list(target, at))
        .collect()
}

/// Answers SendTargets for one named target, or for the target of the session that asks. The answer
/// is empty if `initiator` may not know of the target.
pub fn send_target(config: &Config, initiator: &str, iqn: &str, at: SocketAddr) -> Option<Listing> {
    let target = config.target(iqn)?;
    let visible = !target.offline && !luns(config, initiator, &target.iqn).is_empty();
    visible.then(|| list(target, at))
}

fn list(target: &TargetSpec, at: SocketAddr) -> Listing {
    let mut addresses = Vec::new();
    for group in &target.portal_groups {
        for &portal in &group.portals {
            let address = match (portal.ip(), at.ip().to_canonical()) {
                (IpAddr::V4(ip), IpAddr::V4(local)) if ip.is_unspecified() => local.into(),
                (IpAddr::V6(ip), IpAddr::V6(local)) if ip.is_unspecified() => local.into(),
                (ip, _) if ip.is_unspecified() => continue,
                (ip, _) => ip,
            };
            let entry = (SocketAddr::new(address, portal.port()), group.tag);
            if !addresses.contains(&entry) {
                addresses.push(entry);
            }
        }
    }
    Listing {
        iqn: target.iqn.clone(),
        addresses,
    }
}
