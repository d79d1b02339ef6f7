//! The address under which other machines reach this one, where the routing table does not choose
//! it: a machine that has storage networks only, and no default route.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Returns an address of an interface that is up, for a listener at an unspecified address.
pub(crate) fn of_interfaces(unspecified: IpAddr) -> Option<IpAddr> {
    let all = getifaddrs().ok()?;
    let up = all.filter(|it| it.flags.contains(InterfaceFlags::IFF_UP));
    let addresses = up.filter_map(|it| {
        let address = it.address?;
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        let v6 = || address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip()));
        v4.or_else(v6)
    });
    chosen(&addresses.collect::<Vec<_>>(), unspecified)
}

/// Chooses the first address of the listener's kind that leads here from other machines. A portal
/// of IPv6 does not take IPv4.
fn chosen(addresses: &[IpAddr], unspecified: IpAddr) -> Option<IpAddr> {
    let leads_here = |it: &&IpAddr| match it {
        IpAddr::V4(it) => !it.is_loopback() && !it.is_link_local(),
        // The zone of a link-local address is one of this machine's.
        IpAddr::V6(it) => !it.is_loopback() && !it.is_unicast_link_local(),
    };
    let mut usable = addresses.iter().filter(leads_here);
    usable
        .find(|it| it.is_ipv4() == unspecified.is_ipv4())
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addresses: &[&str], unspecified: &str) -> Option<String> {
        let parsed = |text: &&str| text.parse::<IpAddr>().expect(text);
        let addresses: Vec<IpAddr> = addresses.iter().map(parsed).collect();
        chosen(&addresses, parsed(&unspecified)).map(|it| it.to_string())
    }

    #[test]
    fn an_address_that_leads_here_from_elsewhere_is_chosen() {
        let none = ["127.0.0.1", "::1", "169.254.1.1", "fe80::1"];
        let all = [&none[..], &["10.0.0.5", "10.0.1.5", "2001:db8::5"]].concat();
        assert_eq!(of(&all, "0.0.0.0").as_deref(), Some("10.0.0.5"));
        assert_eq!(of(&all, "::").as_deref(), Some("2001:db8::5"));
        for unspecified in ["0.0.0.0", "::"] {
            assert_eq!(of(&none, unspecified), None);
        }
        assert_eq!(of(&["2001:db8::5"], "0.0.0.0"), None);
        assert_eq!(of(&["10.0.0.5"], "::"), None);
        assert_eq!(of(&[], "0.0.0.0"), None);
    }

    #[test]
    fn the_interfaces_of_this_machine_can_be_asked() {
        // A machine may have the loopback alone.
        let address = of_interfaces("0.0.0.0".parse().expect("an address"));
        assert!(address.is_none_or(|it| it.is_ipv4() && !it.is_loopback()));
    }
}
