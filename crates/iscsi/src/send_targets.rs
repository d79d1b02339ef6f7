//! SendTargets' answer as data: what a target shows and an initiator learns (RFC 7143 Appendix C).

use crate::text_keys::{TextError, TextOutput, TextPairs};

/// A target as SendTargets shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its iSCSI name.
    pub name: String,
    /// Where it can be reached; empty means the address that was asked.
    pub portals: Vec<DiscoveredPortal>,
}

/// A portal as SendTargets shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredPortal {
    /// `host:port`; IPv6 addresses in brackets.
    pub address: String,
    /// Target portal group tag.
    pub portal_group_tag: u16,
}

/// Writes one target.
pub fn push(target: &DiscoveredTarget, out: &mut TextOutput) {
    out.push("TargetName", &target.name);
    for portal in &target.portals {
        out.push(
            "TargetAddress",
            format_args!("{},{}", portal.address, portal.portal_group_tag),
        );
    }
}

/// Reads a whole answer. Addresses before any name and keys of other kinds are skipped.
///
/// # Errors
/// Malformed text.
pub fn parse(text: &[u8]) -> Result<Vec<DiscoveredTarget>, TextError> {
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for pair in TextPairs::new(text) {
        let (key, value) = pair?;
        match key {
            "TargetName" => targets.push(DiscoveredTarget {
                name: value.to_owned(),
                portals: Vec::new(),
            }),
            "TargetAddress" => {
                // The tag is optional in a redirect only; a target that omits it here has one group.
                let (address, tag) = value.rsplit_once(',').unwrap_or((value, "1"));
                let portal_group_tag = tag.parse().map_err(|_| TextError::BadValue)?;
                if let Some(target) = targets.last_mut() {
                    target.portals.push(DiscoveredPortal {
                        address: address.to_owned(),
                        portal_group_tag,
                    });
                }
            }
            _ => {}
        }
    }
    Ok(targets)
}
