//! Addresses of this machine's network interfaces.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface.
    pub interface: String,
    /// Address itself.
    pub address: IpAddr,
    /// Whether the interface is up.
    pub is_up: bool,
}

/// Returns the addresses of all interfaces, in the kernel's order. The list is empty if the kernel
/// does not tell them.
pub fn addresses() -> Vec<InterfaceAddress> {
    let address = |of: nix::ifaddrs::InterfaceAddress| {
        let storage = of.address?;
        let v4 = storage.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        let v6 = || storage.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip()));
        Some(InterfaceAddress {
            interface: of.interface_name,
            address: v4.or_else(v6)?,
            is_up: of.flags.contains(InterfaceFlags::IFF_UP),
        })
    };
    let all = getifaddrs().into_iter().flatten();
    all.filter_map(address).collect()
}

/// Reports whether other machines can reach this one at an address of its own. They cannot at the
/// loopback. A link-local address means nothing without the name of an interface.
pub fn leads_here(address: &IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !address.is_loopback() && !is_link_local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_its_address_and_its_interface() {
        let all = addresses();
        let loopback = all.iter().find(|it| it.address.is_loopback());
        let loopback = loopback.expect("each machine has a loopback");
        assert_eq!(loopback.interface, "lo");
    }

    #[test]
    fn the_loopback_and_link_local_addresses_lead_from_nowhere() {
        for address in ["127.0.0.1", "::1", "169.254.1.1", "fe80::1"] {
            assert!(!leads_here(&address.parse().expect("an address")));
        }
        for address in ["10.0.0.5", "2001:db8::5"] {
            assert!(leads_here(&address.parse().expect("an address")));
        }
    }
}
