//! Network interfaces of this machine: their packets and bytes, and the portals on them.
//!
//! The counters come from one file of the kernel, which tells those of the daemon's own network
//! namespace. An interface that cannot be read in full is told without the missing part.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use model::figures::network::{InterfaceFigures, InterfaceSums};

/// Counters of all interfaces of the network namespace of the thread that reads.
const COUNTERS: &str = "/proc/thread-self/net/dev";
/// Folder with a folder for each interface.
const INTERFACES: &str = "/sys/class/net";

/// Returns the figures of all interfaces, by number. `portals` are the addresses at which targets
/// listen.
pub(crate) fn figures(portals: &[SocketAddr]) -> Vec<InterfaceFigures> {
    let counters = fs::read_to_string(COUNTERS).unwrap_or_default();
    let addresses = ::interfaces::addresses();
    let interfaces = counters.lines().filter_map(counters_of);
    let figures = interfaces.map(|(name, sums)| {
        let own = addresses.iter().filter(|it| it.interface == name);
        let own: Vec<IpAddr> = own.map(|it| it.address).collect();
        let (team, bridge) = masters(name);
        InterfaceFigures {
            name: name.to_owned(),
            number: number(name),
            team,
            bridge,
            portals: on(&own, portals),
            addresses: own,
            sums,
        }
    });
    let mut figures: Vec<InterfaceFigures> = figures.collect();
    figures.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
    figures
}

/// Reads a line of counters: the name, eight numbers of what was received, eight of what was sent.
fn counters_of(line: &str) -> Option<(&str, InterfaceSums)> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> = numbers
        .split_whitespace()
        .map_while(|number| number.parse().ok())
        .collect();
    let [
        received_bytes,
        received_packets,
        _,
        received_dropped,
        _,
        _,
        _,
        _,
        sent_bytes,
        sent_packets,
        _,
        sent_dropped,
        ..,
    ] = numbers[..]
    else {
        return None;
    };
    let sums = InterfaceSums {
        received_packets,
        received_bytes,
        received_dropped,
        sent_packets,
        sent_bytes,
        sent_dropped,
    };
    Some((name.trim(), sums))
}

/// Returns the number of an interface in the system, or 0 if the system does not tell it.
fn number(name: &str) -> u32 {
    let text = fs::read_to_string(Path::new(INTERFACES).join(name).join("ifindex"));
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Returns the bond or team, and the bridge, to which an interface belongs.
fn masters(name: &str) -> (Option<String>, Option<String>) {
    let folder = Path::new(INTERFACES);
    let Ok(link) = fs::read_link(folder.join(name).join("master")) else {
        return (None, None);
    };
    let Some(master) = link.file_name().and_then(|name| name.to_str()) else {
        return (None, None);
    };
    match folder.join(master).join("bridge").is_dir() {
        true => (None, Some(master.to_owned())),
        false => (Some(master.to_owned()), None),
    }
}

/// Returns the portals that can be reached at one of an interface's addresses.
fn on(own: &[IpAddr], portals: &[SocketAddr]) -> Vec<String> {
    let is_here = |portal: &&SocketAddr| {
        let (ip, is_v4) = (portal.ip(), portal.is_ipv4());
        match ip.is_unspecified() {
            // `[::]` takes connections to addresses of both families.
            true => own.iter().any(|address| !is_v4 || address.is_ipv4()),
            false => own.contains(&ip),
        }
    };
    let mut here: Vec<String> = portals
        .iter()
        .filter(is_here)
        .map(ToString::to_string)
        .collect();
    here.sort();
    here.dedup();
    here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_has_its_numbers_in_their_places() {
        let line = "  eth0: 1500 10 1 2 3 4 5 6 3000 20 7 8 9 10 11 12";
        let expected = InterfaceSums {
            received_packets: 10,
            received_bytes: 1500,
            received_dropped: 2,
            sent_packets: 20,
            sent_bytes: 3000,
            sent_dropped: 8,
        };
        assert_eq!(counters_of(line), Some(("eth0", expected)));
        let header = " face |bytes    packets errs drop fifo frame compressed multicast|bytes";
        assert_eq!(counters_of(header), None);
        assert_eq!(counters_of("eth0: 1 2 3"), None);
    }

    #[test]
    fn a_portal_is_on_the_interface_that_has_its_address() {
        let own = ["10.0.0.1".parse().expect("an address")];
        let portals = ["10.0.0.1:3260", "10.0.0.2:3260", "0.0.0.0:860", "[::]:861"];
        let portals = portals.map(|portal| portal.parse().expect("a portal"));
        assert_eq!(
            on(&own, &portals),
            ["0.0.0.0:860", "10.0.0.1:3260", "[::]:861"]
        );
        assert!(on(&[], &portals).is_empty());
    }

    #[test]
    fn the_loopback_interface_is_told() {
        let figures = figures(&[]);
        let told = figures.iter().map(|it| it.name.as_str());
        let told: Vec<&str> = told.collect();
        assert!(told.contains(&"lo"), "{told:?}");
    }
}
