//! The checked answer of a portal. Anybody may be listening there, so each target or address that
//! cannot be used is left out and named.

use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};

use iscsi::send_targets::{self, Answer, DiscoveredPortal, DiscoveredTarget};

use model::initiator::url::with_port;
use model::name;

/// Most lines of notes about one answer.
const MAX_NOTES: usize = 100;

/// Answer of a portal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Targets that can be used, under the names in the answer.
    pub targets: Vec<DiscoveredTarget>,
    /// Whether something was left out.
    pub has_left_out: bool,
    /// Notes for the user, one line each: parts that were left out and why, and names that bend the
    /// standard.
    pub notes: Vec<String>,
}

impl Found {
    /// Limits the notes, so that a portal cannot cause endless output.
    fn limit_notes(&mut self) {
        let more = self.notes.len().saturating_sub(MAX_NOTES);
        if more > 0 {
            self.notes.truncate(MAX_NOTES);
            self.notes.push(format!("and {more} more such lines"));
        }
    }
}

/// Reads the answer of the portal at this address.
pub(super) fn found(text: &[u8], asked: SocketAddr) -> Found {
    let Answer { targets, left_out } = send_targets::parse(text);
    let mut found = Found {
        targets: Vec::new(),
        has_left_out: !left_out.is_empty(),
        notes: left_out
            .iter()
            .map(|what| format!("left out: {what}"))
            .collect(),
    };
    let mut places = HashMap::new();
    for DiscoveredTarget { name, portals } in targets {
        let told = portals.len();
        let mut usable = Vec::new();
        for portal in portals {
            match checked(portal, asked) {
                Ok(portal) => usable.push(portal),
                Err(why) => found.notes.push(format!("left out: {why} (of {name})")),
            }
        }
        if told > 0 && usable.is_empty() {
            let why = "none of its addresses can be used";
            found.has_left_out = true;
            found.notes.push(format!("left out: target {name}: {why}"));
            continue;
        }
        let at = *places.entry(name.clone()).or_insert(found.targets.len());
        if at == found.targets.len() {
            found.notes.extend(name::oddity(&name));
            let portals = Vec::new();
            found.targets.push(DiscoveredTarget { name, portals });
        }
        found.targets[at].portals.extend(usable);
    }
    for target in &mut found.targets {
        if target.portals.is_empty() {
            target.portals.push(DiscoveredPortal {
                address: asked.to_string(),
                portal_group_tag: 1,
            });
        }
    }
    found.limit_notes();
    found
}

/// Returns an address that can be connected to from here, or the reason why there is none. A zone
/// in the target's answer is one of the target's own interfaces. The right zone here is the one
/// through which the portal was asked.
fn checked(portal: DiscoveredPortal, asked: SocketAddr) -> Result<DiscoveredPortal, String> {
    let broken = || format!("{:?} is no portal", portal.address);
    let address = with_port(&portal.address).map_err(|_| broken())?;
    if address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(broken());
    }
    let Some((host, port)) = address
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"))
    else {
        return Ok(DiscoveredPortal { address, ..portal });
    };
    let bare = host.split_once('%').map_or(host, |(bare, _)| bare);
    let bare: Ipv6Addr = bare.parse().map_err(|_| broken())?;
    let address = match asked {
        _ if !bare.is_unicast_link_local() => format!("[{bare}]:{port}"),
        SocketAddr::V6(asked) if asked.scope_id() != 0 => {
            format!("[{bare}%{}]:{port}", asked.scope_id())
        }
        _ => {
            return Err(format!(
                "{} is a link-local address, which is reached only by a portal on the same link",
                portal.address
            ));
        }
    };
    Ok(DiscoveredPortal { address, ..portal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Found {
        found(text.as_bytes(), SocketAddr::from(([10, 0, 0, 1], 3260)))
    }

    fn rows(found: &Found) -> Vec<(&str, &str, u16)> {
        let targets = found.targets.iter();
        targets
            .flat_map(|t| t.portals.iter().map(move |p| (t, p)))
            .map(|(t, p)| (t.name.as_str(), p.address.as_str(), p.portal_group_tag))
            .collect()
    }

    #[test]
    fn every_usable_target_is_found_under_its_own_name() {
        let found = read(
            "TargetName=iqn.2026-01.org.A:b\0TargetName=iqn.2026-01.org.a:b\0TargetAddress=[::1],3\0TargetName=Target-911data\0\
TargetAddress=nas.lan:3261,1\0TargetName=iqn.2026-01.org.a:ok\0TargetName=a disk\0",
        );
        assert_eq!(
            rows(&found),
            [
                ("iqn.2026-01.org.A:b", "10.0.0.1:3260", 1),
                ("iqn.2026-01.org.a:b", "[::1]:3260", 3),
                ("Target-911data", "nas.lan:3261", 1),
                ("iqn.2026-01.org.a:ok", "10.0.0.1:3260", 1),
                ("a disk", "10.0.0.1:3260", 1),
            ]
        );
        let told: Vec<&str> = found.notes.iter().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "iqn.2026-01.org.A:b bends RFC 7143 (it holds capitals); it is used as it is told",
                "Target-911data bends RFC 7143 (it begins with none of iqn., eui. and naa.); it is used as it is told",
                "\"a disk\" bends RFC 7143 (it holds ' '; only a-z, 0-9, '-', '.' and ':' are allowed); it is used as it is told",
            ]
        );
    }

    #[test]
    fn what_cannot_be_used_is_named_and_costs_nothing_else() {
        for (text, what) in [
            ("TargetName=\x1b[2J\0", "malformed text value"),
            ("TargetName=a,b\0", "holds a comma"),
            (
                "TargetName=bad\0TargetAddress=a b,1\0",
                "\"a b\" is no portal",
            ),
            ("TargetName=bad\0TargetAddress=h:99999,1\0", "is no portal"),
            ("TargetName=bad\0TargetAddress=h,x\0", "tag is not a number"),
            (
                "TargetName=bad\0TargetAddress=[fe80::1]:3260,1\0",
                "link-local",
            ),
            (
                "TargetName=bad\0TargetAddress=[fe80::1%eth7]:3260,1\0",
                "link-local",
            ),
            ("TargetName=bad\0TargetAddress=[x]:3260,1\0", "is no portal"),
        ] {
            let found = read(&format!("TargetName=iqn.2026-01.org.a:b\0{text}"));
            assert_eq!(
                rows(&found),
                [("iqn.2026-01.org.a:b", "10.0.0.1:3260", 1)],
                "{text:?}"
            );
            assert!(
                found.notes.concat().contains(what),
                "{text:?}: {:?}",
                found.notes
            );
        }
    }

    #[test]
    fn a_zone_of_the_target_is_replaced_by_our_way_to_it() {
        let text = "TargetName=a\0TargetAddress=[fe80::2%enp6s0f2]:3260,1\0TargetAddress=[fd00::2%em1]:3260,1\0";
        let asked = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 3260, 0, 7);
        let found = found(text.as_bytes(), asked.into());
        assert_eq!(
            rows(&found),
            [("a", "[fe80::2%7]:3260", 1), ("a", "[fd00::2]:3260", 1)]
        );
    }

    #[test]
    fn a_flood_of_oddities_is_limited() {
        let found = read(&"TargetName=,\0".repeat(5000));
        assert_eq!(found.notes.len(), MAX_NOTES + 1);
        assert_eq!(
            found.notes.last().map(String::as_str),
            Some("and 4900 more such lines")
        );
    }
}
