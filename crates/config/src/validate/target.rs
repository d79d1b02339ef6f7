//! Rules of targets: names, portal groups, portals, limits.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::{chap, iscsi_name, taken};
use model::config::{Config, MAX_TARGET_PORTS, TargetParameters, TargetSpec};
use model::error::Error;
use model::name;

pub(super) fn targets(config: &Config) -> Result<(), Error> {
    let (mut names, mut relative_ids) = (HashSet::new(), HashMap::new());
    let (mut states, mut ports) = (HashMap::new(), HashMap::new());
    for target in &config.targets {
        let iqn = target.iqn.as_str();
        iscsi_name("target", iqn)?;
        // A login names its target without regard to case.
        if !names.insert(name::folded(iqn)) {
            return Err(taken("target", &target.iqn, "sandstone target list"));
        }
        if let Some(mutual) = &target.mutual_chap {
            chap(&format!("target {iqn}"), mutual)?;
        }
        parameters(iqn, &target.parameters)?;
        portal_groups(target)?;
        for group in &target.portal_groups {
            if let Some(other) = relative_ids.insert(group.relative_port_id, iqn) {
                return Err(Error::invalid(
                    format!(
                        "relative port id {} is used by {other} and {iqn}",
                        group.relative_port_id
                    ),
                    "omit relative_port_id: the daemon then chooses a number that was never used",
                ));
            }
            let ports: &mut usize = ports.entry(group.target_port_group).or_default();
            *ports += 1;
            if *ports > MAX_TARGET_PORTS {
                return Err(Error::invalid(
                    format!(
                        "target port group {} would have more than {MAX_TARGET_PORTS} portal groups: {iqn} has one too many",
                        group.target_port_group
                    ),
                    "give the portal group another target_port_group, of the same ALUA state",
                ));
            }
            let state = *states
                .entry(group.target_port_group)
                .or_insert(group.alua_state);
            if state != group.alua_state {
                return Err(Error::invalid(
                    format!(
                        "target port group {} would have the ALUA states {} and {} at once",
                        group.target_port_group,
                        state.as_str(),
                        group.alua_state.as_str()
                    ),
                    "give the portal group another target_port_group: all ports of a target port group share \
                     its ALUA state",
                ));
            }
        }
    }
    Ok(())
}

fn portal_groups(target: &TargetSpec) -> Result<(), Error> {
    let iqn = &name::shown(&target.iqn);
    if target.portal_groups.is_empty() {
        return Err(Error::invalid(
            format!("target {iqn} has no portal group, so no host could reach it"),
            format!("sandstone target portal add {iqn} 0.0.0.0:3260"),
        ));
    }
    if target.alias.len() > 255 || target.alias.chars().any(char::is_control) {
        return Err(Error::invalid(
            format!("target {iqn}: the alias is longer than 255 bytes or holds control characters"),
            "choose a shorter, printable alias",
        ));
    }
    let mut tags = HashSet::new();
    for group in &target.portal_groups {
        if group.tag == 0 || !tags.insert(group.tag) {
            return Err(Error::invalid(
                format!(
                    "target {iqn}: portal group tag {} is zero or used twice",
                    group.tag
                ),
                "number the portal groups 1, 2, 3 …",
            ));
        }
        if group.relative_port_id == 0 || group.target_port_group == 0 {
            return Err(Error::invalid(
                format!("target {iqn}: relative port id and target port group must be 1 to 65535"),
                "omit relative_port_id, and use 1 as target_port_group",
            ));
        }
        if group.portals.is_empty() {
            return Err(Error::invalid(
                format!("target {iqn}: portal group {} has no address", group.tag),
                format!(
                    "sandstone target portal add {iqn} 0.0.0.0:3260 --tag {}",
                    group.tag
                ),
            ));
        }
    }
    if let Some(redirect) = &target.redirect {
        redirect_address(iqn, &redirect.address)?;
    }
    Ok(())
}

fn redirect_address(iqn: &str, address: &str) -> Result<(), Error> {
    let wrong = || {
        Error::invalid(
            format!("target {iqn}: {address:?} is not an address to redirect to"),
            "write host:port, as in 10.0.0.2:3260 or [fd00::2]:3260",
        )
    };
    let (endpoint, tag) = address.split_once(',').unwrap_or((address, "1"));
    let (host, port) = endpoint.rsplit_once(':').ok_or_else(wrong)?;
    let host_ok = match host.strip_prefix('[').map(|h| h.strip_suffix(']')) {
        Some(Some(v6)) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        Some(None) => false,
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        }
    };
    let port_ok = matches!(port.parse::<u16>(), Ok(1..));
    if host_ok && port_ok && matches!(tag.parse::<u16>(), Ok(1..)) {
        Ok(())
    } else {
        Err(wrong())
    }
}

fn parameters(iqn: &str, p: &TargetParameters) -> Result<(), Error> {
    let range = |name: &str, value: Option<u64>, low: u64, high: u64| match value {
        Some(v) if !(low..=high).contains(&v) => Err(Error::invalid(
            format!("target {iqn}: {name} = {v} is outside {low} to {high}"),
            format!("choose a value in that range, or omit {name} for the default"),
        )),
        _ => Ok(()),
    };
    // The upper end of the lengths is RFC 7143's, 2^24 - 1.
    let burst = (1 << 24) - 1;
    range("queue_depth", p.queue_depth.map(u64::from), 1, 4096)?;
    range("max_connections", p.max_connections.map(u64::from), 1, 64)?;
    range("max_sessions", p.max_sessions.map(u64::from), 1, 65535)?;
    range(
        "max_outstanding_r2t",
        p.max_outstanding_r2t.map(u64::from),
        1,
        65535,
    )?;
    range(
        "first_burst_length",
        p.first_burst_length.map(u64::from),
        512,
        burst,
    )?;
    range(
        "max_burst_length",
        p.max_burst_length.map(u64::from),
        512,
        burst,
    )?;
    range(
        "max_recv_data_segment_length",
        p.max_recv_data_segment_length.map(u64::from),
        512,
        burst,
    )?;
    range(
        "nop_in_interval_s",
        p.nop_in_interval_s.map(u64::from),
        0,
        3600,
    )?;
    let first = p.first_burst_length.unwrap_or(262_144);
    let max = p.max_burst_length.unwrap_or(1_048_576);
    if first > max {
        return Err(Error::invalid(
            format!(
                "target {iqn}: first_burst_length {first} is greater than max_burst_length {max}"
            ),
            "make first_burst_length at most max_burst_length (RFC 7143 13.14)",
        ));
    }
    Ok(())
}

/// Checks the portals. An address may serve several targets (one listener), but only one portal
/// group of each. An unspecified address takes its port from every other address of its family.
pub(super) fn portals(config: &Config) -> Result<(), Error> {
    let mut all: Vec<(SocketAddr, &str, u16)> = Vec::new();
    for target in &config.targets {
        for group in &target.portal_groups {
            for &portal in &group.portals {
                if portal.port() == 0 {
                    return Err(Error::invalid(
                        format!("target {}: portal {portal} has no port", target.iqn),
                        format!("use {}", SocketAddr::new(portal.ip(), 3260)),
                    ));
                }
                if portal.ip().is_multicast() {
                    return Err(Error::invalid(
                        format!(
                            "target {}: portal {portal} is a multicast address",
                            target.iqn
                        ),
                        "use an address of this machine, 0.0.0.0 or [::]",
                    ));
                }
                for &(other, iqn, tag) in &all {
                    clash(&target.iqn, group.tag, portal, other, iqn, tag)?;
                }
                all.push((portal, &target.iqn, group.tag));
            }
        }
    }
    Ok(())
}

fn clash(
    iqn: &str,
    tag: u16,
    portal: SocketAddr,
    other: SocketAddr,
    other_iqn: &str,
    other_tag: u16,
) -> Result<(), Error> {
    if portal == other && iqn == other_iqn {
        return Err(Error::invalid(
            format!(
                "target {iqn}: portal {portal} is listed twice, in portal group {other_tag} and in portal \
                 group {tag}"
            ),
            "list each address once per target: a login must lead to one portal group",
        ));
    }
    let same_family = portal.is_ipv4() == other.is_ipv4();
    let covers = portal.ip().is_unspecified() || other.ip().is_unspecified();
    if portal != other && same_family && portal.port() == other.port() && covers {
        let wide = if portal.ip().is_unspecified() {
            portal
        } else {
            other
        };
        return Err(Error::invalid(
            format!(
                "portals {other} of {other_iqn} and {portal} of {iqn} clash: {wide} takes its port on every address"
            ),
            "use the unspecified address everywhere or list single addresses everywhere, or use another port",
        ));
    }
    Ok(())
}
