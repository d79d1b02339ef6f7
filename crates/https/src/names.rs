//! Names and addresses of this machine: a certificate holds them, and requests may name them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::HOST;

/// Names and addresses of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) names: BTreeSet<String>,
    pub(crate) addresses: BTreeSet<IpAddr>,
}

impl Names {
    /// Returns the names and addresses that this machine has now, and those that an administrator
    /// added.
    pub(crate) fn of_this_machine(added: &[String]) -> Self {
        let mut all = Self::default();
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let short = host.split('.').next().unwrap_or_default();
        for name in ["localhost", &host, short] {
            all.add(name);
        }
        for name in added {
            all.add(name);
        }
        let own = interfaces::addresses().into_iter();
        all.addresses.extend(own.map(|it| it.address));
        all
    }

    fn add(&mut self, name: &str) {
        if let Ok(address) = name.parse() {
            self.addresses.insert(address);
        } else if !name.is_empty() && name.is_ascii() {
            self.names.insert(name.to_ascii_lowercase());
        }
    }

    /// Reports whether a certificate with `other` serves all of these too.
    pub(crate) fn are_in(&self, other: &Self) -> bool {
        self.names.is_subset(&other.names) && self.addresses.is_subset(&other.addresses)
    }

    /// Reports whether a request may name this host: an address, or one of the names. A web page
    /// could make a browser resolve the page's own name to an address of this machine.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || self.names.contains(&name)
    }

    /// Lists the names, then the addresses.
    pub(crate) fn list(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.names.iter().cloned().chain(addresses).collect()
    }
}

/// Returns an address at which other machines reach a listener: the first of this machine's, if it
/// listens at all of them.
pub fn address_for_people(listening: SocketAddr) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let all = Names::of_this_machine(&[]).addresses;
    let is_plain = |ip: &&IpAddr| ip.is_ipv4() && !ip.is_loopback();
    let ip = all.iter().find(is_plain).copied();
    let ip = ip.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    SocketAddr::new(ip, listening.port())
}

/// A request that names more than one host, which nobody sends by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeveralHosts;

/// Returns the host that a request names, in HTTP/1.1 or HTTP/2.
///
/// # Errors
/// The request has several headers, or its header differs from its address.
pub(crate) fn host_of<'a>(
    uri: &'a hyper::Uri,
    headers: &'a HeaderMap,
) -> Result<&'a str, SeveralHosts> {
    let mut named = headers.get_all(HOST).iter().map(|host| host.to_str().ok());
    let first = named.next();
    if named.next().is_some() {
        return Err(SeveralHosts);
    }
    let named = first.flatten();
    match (uri.authority().map(|it| it.as_str()), named) {
        (Some(authority), Some(named)) if !authority.eq_ignore_ascii_case(named) => {
            Err(SeveralHosts)
        }
        (authority, named) => Ok(authority.or(named).unwrap_or_default()),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_hosts_of_this_machine() {
        let mut names = Names::default();
        for name in ["san1", "San1.lan"] {
            names.add(name);
        }
        let own = [
            "san1",
            "SAN1:8443",
            "san1.lan:8443",
            "192.0.2.1:8443",
            "[2001:db8::1]:8443",
        ];
        for own in own {
            assert!(names.is_own_host(own), "{own}");
        }
        for foreign in [
            "",
            "evil.example",
            "san1.evil",
            "san1.lan.:8443",
            "192.0.2.1.evil",
            ":1",
        ] {
            assert!(!names.is_own_host(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let of = |uri: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().expect("a value"));
            }
            host_of(&uri.parse().expect("a URI"), &headers).map(str::to_owned)
        };
        assert_eq!(of("/", &["san1:8443"]), Ok("san1:8443".to_owned()));
        assert_eq!(of("https://san1/", &[]), Ok("san1".to_owned()));
        assert_eq!(of("https://san1/", &["SAN1"]), Ok("san1".to_owned()));
        assert_eq!(of("/", &[]), Ok(String::new()));
        assert_eq!(of("/", &["san1", "evil"]), Err(SeveralHosts));
        assert_eq!(of("https://san1/", &["evil"]), Err(SeveralHosts));
    }

    #[test]
    fn people_are_told_an_address_that_they_can_type() {
        let told = |text: &str| address_for_people(text.parse().expect("an address"));
        assert_eq!(told("192.0.2.1:8443").to_string(), "192.0.2.1:8443");
        let any = told("[::]:8443");
        assert!(!any.ip().is_unspecified() && any.port() == 8443, "{any}");
    }

    #[test]
    fn this_machine_has_the_loopback_and_what_was_added() {
        let names = Names::of_this_machine(&["SAN.example".to_owned(), "198.51.100.7".to_owned()]);
        let listed = names.list();
        for expected in ["localhost", "san.example", "127.0.0.1", "198.51.100.7"] {
            assert!(
                listed.iter().any(|it| it == expected),
                "{expected}: {listed:?}"
            );
        }
        assert!(names.are_in(&names));
        let without = Names::of_this_machine(&[]);
        assert!(without.are_in(&names) && !names.are_in(&without));
    }
}
