//! Selects the targets and portals for an iSNS server: targets that are online and listened on, at
//! addresses that other machines can reach.

use std::net::{IpAddr, SocketAddr};

use interfaces::leads_here;
use iscsi::isns::{Node, Registration};

use model::Config;
use model::data_plane::PortalStatus;

/// Data to register, before the addresses of this machine are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Entity Identifier.
    pub entity: String,
    /// Targets that are online.
    pub targets: Vec<AnnouncedTarget>,
}

/// A target that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedTarget {
    /// iSCSI name of the target.
    pub iqn: String,
    /// Alias of the target.
    pub alias: String,
    /// Addresses on which the target listens, each with its portal group tag. An address may be the
    /// unspecified one.
    pub portals: Vec<(SocketAddr, u16)>,
}

impl Announcement {
    /// Collects the targets in `config` that are online, at those of `portals` that are bound.
    pub fn of(config: &Config, portals: &[PortalStatus]) -> Self {
        let online = config.targets.iter().filter(|target| !target.offline);
        let targets = online.map(|target| AnnouncedTarget {
            iqn: target.iqn.clone(),
            alias: target.alias.clone(),
            portals: portals
                .iter()
                .filter(|portal| portal.target == target.iqn && portal.error.is_none())
                .map(|portal| (portal.address, portal.tag))
                .collect(),
        });
        Self {
            // The entity identifier never changes, so a restarted daemon replaces its old
            // registration.
            entity: format!("sandstone-{}", config.identity.installation),
            targets: targets
                .filter(|target| !target.portals.is_empty())
                .collect(),
        }
    }

    /// Builds the registration for one server. `local` is the source address of the connection to
    /// the server; `interfaces` are all addresses of this machine.
    ///
    /// A portal on the unspecified address stands for every address of its family that other
    /// machines can reach. Loopback addresses are given only to a server on this machine: elsewhere
    /// they lead to another machine.
    pub fn registration(
        &self,
        local: IpAddr,
        interfaces: &[IpAddr],
        period_s: u32,
    ) -> Registration {
        let local = local.to_canonical();
        let mut registration = Registration {
            entity: self.entity.clone(),
            period_s,
            ..Registration::default()
        };
        for target in &self.targets {
            let mut portal_groups: Vec<(SocketAddr, u16)> = Vec::new();
            for &(portal, tag) in &target.portals {
                for ip in addresses(portal.ip().to_canonical(), local, interfaces) {
                    let address = SocketAddr::new(ip, portal.port());
                    if !portal_groups.iter().any(|(known, _)| *known == address) {
                        portal_groups.push((address, tag));
                    }
                    if !registration.portals.contains(&address) {
                        registration.portals.push(address);
                    }
                }
            }
            if !portal_groups.is_empty() {
                registration.nodes.push(Node {
                    name: target.iqn.clone(),
                    alias: target.alias.clone(),
                    portal_groups,
                });
            }
        }
        registration
    }
}

/// Returns the addresses to give for a portal that listens on `ip`.
fn addresses(ip: IpAddr, local: IpAddr, interfaces: &[IpAddr]) -> Vec<IpAddr> {
    if !ip.is_unspecified() {
        let reachable = !ip.is_loopback() || local.is_loopback();
        return if reachable { vec![ip] } else { Vec::new() };
    }
    // The local address comes first: it is known to reach the server's network.
    let mut addresses: Vec<IpAddr> = std::iter::once(local)
        .chain(interfaces.iter().copied().filter(leads_here))
        .filter(|other| other.is_ipv4() == ip.is_ipv4())
        .collect();
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|ip| seen.insert(*ip));
    addresses
}

/// Returns every address of this machine. The list is empty if the kernel does not tell; the source
/// address of a connection is known without it.
pub(super) fn interface_addresses() -> Vec<IpAddr> {
    let all = interfaces::addresses().into_iter();
    let mut addresses: Vec<IpAddr> = all.map(|it| it.address).collect();
    // The kernel's order may change from call to call, which is no reason to register anew.
    addresses.sort();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(portals: &[(&str, u16)]) -> Announcement {
        let portals = portals.iter().map(|&(at, tag)| (at.parse().unwrap(), tag));
        Announcement {
            entity: "sandstone-012345678".into(),
            targets: vec![AnnouncedTarget {
                iqn: "iqn.2026-01.io.sandstone:disk".into(),
                alias: String::new(),
                portals: portals.collect(),
            }],
        }
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn portals(announcement: &Announcement, local: &str, interfaces: &[&str]) -> Vec<String> {
        let registration = announcement.registration(local.parse().unwrap(), &ips(interfaces), 60);
        registration
            .portals
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn an_unspecified_portal_is_every_reachable_address_of_its_family() {
        let interfaces = [
            "10.0.0.1",
            "10.0.1.1",
            "127.0.0.1",
            "169.254.3.4",
            "::1",
            "fe80::1",
            "2001:db8::1",
        ];
        let v4 = announcement(&[("0.0.0.0:3260", 1)]);
        assert_eq!(
            portals(&v4, "10.0.1.1", &interfaces),
            ["10.0.1.1:3260", "10.0.0.1:3260"]
        );
        let v6 = announcement(&[("[::]:3260", 1)]);
        assert_eq!(
            portals(&v6, "2001:db8::1", &interfaces),
            ["[2001:db8::1]:3260"]
        );
        assert_eq!(
            portals(&v6, "10.0.1.1", &interfaces),
            ["[2001:db8::1]:3260"]
        );
    }

    #[test]
    fn loopback_is_told_to_a_server_on_this_machine_only() {
        let fixed = announcement(&[("127.0.0.1:3260", 1), ("10.0.0.1:3260", 2)]);
        assert_eq!(portals(&fixed, "10.0.0.1", &[]), ["10.0.0.1:3260"]);
        assert_eq!(
            portals(&fixed, "127.0.0.1", &[]),
            ["127.0.0.1:3260", "10.0.0.1:3260"]
        );
        let only_loopback = announcement(&[("127.0.0.1:3260", 1)]);
        let registration = only_loopback.registration("10.0.0.1".parse().unwrap(), &[], 60);
        assert!(registration.is_empty(), "{registration:?}");
    }

    #[test]
    fn offline_targets_and_unbound_portals_are_not_told() {
        let mut config = Config::default();
        let target = |iqn: &str, offline| model::config::TargetSpec {
            iqn: iqn.into(),
            alias: "a".into(),
            portal_groups: Vec::new(),
            alua: Default::default(),
            redirect: None,
            mutual_chap: None,
            parameters: Default::default(),
            offline,
        };
        config.targets = vec![
            target("iqn.2026-01.x:on", false),
            target("iqn.2026-01.x:off", true),
            target("iqn.2026-01.x:unbound", false),
        ];
        let portal = |target: &str, error: Option<&str>| PortalStatus {
            address: "10.0.0.1:3260".parse().unwrap(),
            target: target.into(),
            tag: 7,
            error: error.map(str::to_owned),
        };
        let portals = [
            portal("iqn.2026-01.x:on", None),
            portal("iqn.2026-01.x:off", None),
            portal("iqn.2026-01.x:unbound", Some("taken")),
        ];
        let announcement = Announcement::of(&config, &portals);
        let names: Vec<&str> = announcement
            .targets
            .iter()
            .map(|target| &*target.iqn)
            .collect();
        assert_eq!(names, ["iqn.2026-01.x:on"]);
        assert_eq!(
            announcement.targets[0].portals,
            [("10.0.0.1:3260".parse().unwrap(), 7)]
        );
    }

    #[test]
    fn the_machine_knows_its_own_addresses() {
        assert!(interface_addresses().contains(&"127.0.0.1".parse().unwrap()));
    }
}
