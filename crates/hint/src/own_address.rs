//! The address under which other machines reach this one, where the routing table does not choose
//! it: a machine that has storage networks only, and no default route.

use std::net::IpAddr;

use interfaces::leads_here;

/// Returns an address of an interface that is up, for a listener at an unspecified address.
pub(crate) fn of_interfaces(unspecified: IpAddr) -> Option<IpAddr> {
    let up = interfaces::addresses().into_iter().filter(|it| it.is_up);
    chosen(up.map(|it| it.address), unspecified)
}

/// Chooses the first address of the listener's kind that leads here from other machines. A portal
/// of IPv6 does not take IPv4.
fn chosen(addresses: impl IntoIterator<Item = IpAddr>, unspecified: IpAddr) -> Option<IpAddr> {
    let is_alike = |it: &IpAddr| it.is_ipv4() == unspecified.is_ipv4();
    let mut addresses = addresses.into_iter();
    addresses.find(|it| leads_here(it) && is_alike(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(addresses: &[&str], unspecified: &str) -> Option<String> {
        let parsed = |text: &&str| text.parse::<IpAddr>().expect(text);
        let addresses: Vec<IpAddr> = addresses.iter().map(parsed).collect();
        chosen(addresses, parsed(&unspecified)).map(|it| it.to_string())
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
