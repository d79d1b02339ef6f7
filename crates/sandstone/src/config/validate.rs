//! Every rule a configuration must keep, each with an error that says what to do about it.
//!
//! A configuration that passes [`validate`] is one that the data plane can apply without asking
//! further questions about names, numbers or views; what only the machine can tell (a file that
//! does not exist, an address that cannot be bound) is found when it is applied.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::error::Error;
use super::model::{
    BackendSpec, ChapSecret, Config, HostSpec, MapSpec, TargetParameters, TargetSpec, UnitSpec,
};
use super::{name, pattern};

/// The highest LUN (SAM-5 4.7.7.2, flat space addressing).
pub const MAX_LUN: u16 = 16383;

/// Where a secret is not shown; in a file to apply it means "keep the secret that is there".
pub const SECRET_NOT_SHOWN: &str = "<unchanged>";

/// Checks every rule and reports the first that is broken.
pub fn validate(config: &Config) -> Result<(), Error> {
    installation(&config.identity.installation)?;
    units(config)?;
    targets(config)?;
    portals(config)?;
    hosts(config)?;
    maps(config)
}

fn installation(installation: &str) -> Result<(), Error> {
    let hex = installation
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if hex && matches!(installation.len(), 0 | 9) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("identity.installation {installation:?} is not 9 hexadecimal digits"),
        "leave it out: the daemon keeps its own",
    ))
}

fn units(config: &Config) -> Result<(), Error> {
    let (mut names, mut naas, mut serials) = (HashSet::new(), HashMap::new(), HashMap::new());
    let mut backings = HashMap::new();
    for unit in &config.units {
        object_name("logical unit", &unit.name)?;
        if !names.insert(unit.name.as_str()) {
            return Err(taken("logical unit", &unit.name, "sandstone lu list"));
        }
        unit_rules(unit)?;
        if let Some(other) = naas.insert(unit.naa.as_str(), &unit.name) {
            return Err(Error::invalid(
                format!(
                    "logical units {other} and {} have the same NAA {}",
                    unit.name, unit.naa
                ),
                "leave naa out to have a new one made: two disks with one NAA look like two paths to one disk",
            ));
        }
        if let Some(other) = serials.insert(unit.serial.as_str(), &unit.name) {
            return Err(Error::invalid(
                format!(
                    "logical units {other} and {} have the same serial number {}",
                    unit.name, unit.serial
                ),
                "leave serial out to have a new one made",
            ));
        }
        let path = match &unit.backend {
            BackendSpec::Memory { .. } => continue,
            BackendSpec::File { path, .. } | BackendSpec::Device { path } => path,
        };
        if let Some(other) = backings.insert(path, &unit.name) {
            return Err(Error::invalid(
                format!(
                    "logical units {other} and {} both keep their data in {}",
                    unit.name,
                    path.display()
                ),
                "give each unit its own file or device: two units over one would destroy each other's data",
            ));
        }
    }
    Ok(())
}

fn unit_rules(unit: &UnitSpec) -> Result<(), Error> {
    let who = format!("logical unit {}", unit.name);
    let hex = |s: &str| s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if unit.naa.len() != 32 || !unit.naa.starts_with('6') || !hex(&unit.naa) {
        return Err(Error::invalid(
            format!("{who}: {:?} is not an NAA type 6 designator", unit.naa),
            "write 32 lower-case hexadecimal digits that begin with 6, or leave naa out to have one made",
        ));
    }
    let printable = unit.serial.bytes().all(|b| b.is_ascii_graphic());
    if unit.serial.is_empty() || unit.serial.len() > 64 || !printable {
        return Err(Error::invalid(
            format!(
                "{who}: the serial number {:?} is not 1 to 64 printable characters",
                unit.serial
            ),
            "leave serial out to have one made",
        ));
    }
    if !matches!(unit.block_size, 512 | 4096) {
        return Err(Error::invalid(
            format!("{who}: a block size of {} is not offered", unit.block_size),
            "use 512, which every client accepts, or 4096, which ESXi does not",
        ));
    }
    let ratio = unit.physical_block_size / unit.block_size;
    if !unit.physical_block_size.is_multiple_of(unit.block_size)
        || !ratio.is_power_of_two()
        || ratio > 1 << 15
    {
        return Err(Error::invalid(
            format!(
                "{who}: the physical block size {} is not a power of two times the block size {}",
                unit.physical_block_size, unit.block_size
            ),
            "use 4096, or the volblocksize or stripe width of what lies beneath",
        ));
    }
    if let Some(percent) = unit.threshold_percent
        && !(1..=99).contains(&percent)
    {
        return Err(Error::invalid(
            format!("{who}: a threshold of {percent} percent would be crossed never or always"),
            "use 1 to 99; 80 is common",
        ));
    }
    backend_rules(&who, unit)
}

fn backend_rules(who: &str, unit: &UnitSpec) -> Result<(), Error> {
    match &unit.backend {
        BackendSpec::Memory { size } | BackendSpec::File { size, .. } => {
            let block = u64::from(unit.block_size);
            if *size == 0 || !size.is_multiple_of(block) {
                return Err(Error::invalid(
                    format!(
                        "{who}: a size of {size} bytes is not a positive multiple of its {block}-byte blocks"
                    ),
                    "write the size with a unit, as in 10G",
                ));
            }
            if *size > i64::MAX as u64 {
                return Err(Error::invalid(
                    format!("{who}: no file system holds {size} bytes in one file"),
                    "ask for less than 8E",
                ));
            }
        }
        BackendSpec::Device { path } => {
            if !path.is_absolute() {
                return Err(Error::invalid(
                    format!(
                        "{who}: the device {} is not an absolute path",
                        path.display()
                    ),
                    "write it in full, as in /dev/zvol/tank/vol1 or /dev/disk/by-id/…",
                ));
            }
        }
    }
    if let BackendSpec::File { path, .. } = &unit.backend
        && (path.as_os_str().is_empty() || path.components().any(|c| c.as_os_str() == ".."))
    {
        return Err(Error::invalid(
            format!(
                "{who}: {:?} is not a path for its data",
                path.display().to_string()
            ),
            "name a file; relative paths are below the state folder and may not hold ..",
        ));
    }
    Ok(())
}

fn targets(config: &Config) -> Result<(), Error> {
    let (mut names, mut relative_ids) = (HashSet::new(), HashMap::new());
    let mut states = HashMap::new();
    for target in &config.targets {
        let iqn = iscsi_name("target", &target.iqn)?;
        if !names.insert(iqn) {
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
                    "leave relative_port_id out to have one made; it is never used twice",
                ));
            }
            let state = *states
                .entry(group.target_port_group)
                .or_insert(group.alua_state);
            if state != group.alua_state {
                return Err(Error::invalid(
                    format!(
                        "target port group {} would be {} and {} at once",
                        group.target_port_group,
                        state.as_str(),
                        group.alua_state.as_str()
                    ),
                    "give the portal group another target_port_group: all ports of one share its ALUA state",
                ));
            }
        }
    }
    Ok(())
}

fn portal_groups(target: &TargetSpec) -> Result<(), Error> {
    let iqn = &target.iqn;
    if target.portal_groups.is_empty() {
        return Err(Error::invalid(
            format!("target {iqn} has no portal group, so nobody could reach it"),
            format!("sandstone target portal add {iqn} 0.0.0.0:3260"),
        ));
    }
    if target.alias.len() > 255 || target.alias.chars().any(char::is_control) {
        return Err(Error::invalid(
            format!("target {iqn}: the alias is longer than 255 bytes or holds control characters"),
            "choose a shorter alias",
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
                "leave relative_port_id out to have one made, and use 1 as target_port_group",
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
            "write host:port or host:port,tag, as in 10.0.0.2:3260,1 or [fd00::2]:3260",
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
            format!("choose a value in that range, or leave {name} out for the default"),
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
            "RFC 7143 13.14: make it at most max_burst_length",
        ));
    }
    Ok(())
}

/// An address may serve several targets (one listener), but only one portal group of each, and an
/// unspecified address takes its port from every other address of its family.
fn portals(config: &Config) -> Result<(), Error> {
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
                "target {iqn}: portal {portal} stands in portal groups {other_tag} and {tag} or twice in one"
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

fn hosts(config: &Config) -> Result<(), Error> {
    let (mut names, mut initiators) = (HashSet::new(), HashMap::new());
    for host in &config.hosts {
        object_name("host", &host.name)?;
        if !names.insert(host.name.as_str()) {
            return Err(taken("host", &host.name, "sandstone host list"));
        }
        for initiator in &host.initiators {
            initiator_pattern(host, initiator)?;
            if let Some(other) = initiators.insert(initiator.as_str(), &host.name) {
                return Err(Error::invalid(
                    format!(
                        "{initiator} would belong to the hosts {other} and {}",
                        host.name
                    ),
                    format!("remove it from {other} first: an initiator belongs to one host"),
                ));
            }
        }
        if let Some(secret) = &host.chap {
            chap(&format!("host {}", host.name), secret)?;
            let reused = config.targets.iter().find(|target| {
                target
                    .mutual_chap
                    .as_ref()
                    .is_some_and(|mutual| mutual.secret == secret.secret)
            });
            if let Some(target) = reused {
                return Err(Error::invalid(
                    format!(
                        "host {} and target {} have the same CHAP secret",
                        host.name, target.iqn
                    ),
                    "choose two: with one secret for both ways an impostor reflects the challenge (RFC 7143 9.2.1)",
                ));
            }
        }
    }
    Ok(())
}

fn initiator_pattern(host: &HostSpec, initiator: &str) -> Result<(), Error> {
    let next = "write its name as it is in /etc/iscsi/initiatorname.iscsi or in the client's adapter settings, * and ? are wildcards";
    match name::normalise_pattern(initiator) {
        Ok(normal) if normal == initiator => Ok(()),
        Ok(normal) => Err(Error::invalid(
            format!("host {}: {initiator} is not in lower case", host.name),
            format!("write {normal}"),
        )),
        Err(error) => Err(Error::invalid(
            format!(
                "host {}: {initiator:?} is not an initiator name: {error}",
                host.name
            ),
            next,
        )),
    }
}

fn chap(who: &str, secret: &ChapSecret) -> Result<(), Error> {
    if secret.user.is_empty()
        || secret.user.len() > 255
        || secret.user.chars().any(char::is_control)
    {
        return Err(Error::invalid(
            format!(
                "{who}: the CHAP user name is empty, longer than 255 bytes or holds control characters"
            ),
            "choose a printable name; many clients use the initiator's iSCSI name",
        ));
    }
    if secret.secret == SECRET_NOT_SHOWN {
        return Err(Error::invalid(
            format!(
                "{who}: {SECRET_NOT_SHOWN} stands where the secret belongs, and there is none to keep"
            ),
            "write the secret itself, or set it with `sandstone host auth` or `sandstone target auth`",
        ));
    }
    if !(12..=255).contains(&secret.secret.len()) {
        return Err(Error::invalid(
            format!("{who}: the CHAP secret has {} bytes", secret.secret.len()),
            "use 12 to 255 bytes; Windows takes 12 to 16, so 16 suits every client",
        ));
    }
    Ok(())
}

fn maps(config: &Config) -> Result<(), Error> {
    for (index, map) in config.maps.iter().enumerate() {
        references(config, map)?;
        if map.lun > MAX_LUN {
            return Err(Error::invalid(
                format!("LUN {} of {} is above {MAX_LUN}", map.lun, map.unit),
                "use 0 to 255: some clients look no further",
            ));
        }
        for other in &config.maps[..index] {
            let same = map.lun == other.lun || map.unit == other.unit;
            if !same || !meet(config, map, other) {
                continue;
            }
            if map.lun == other.lun {
                return Err(Error::invalid(
                    format!(
                        "LUN {} would be {} ({}) and {} ({})",
                        map.lun,
                        other.unit,
                        describe(other),
                        map.unit,
                        describe(map)
                    ),
                    "choose another LUN with --lun, or leave --lun out to take the next free one",
                ));
            }
            if map.unit == other.unit {
                return Err(Error::invalid(
                    format!(
                        "{} would be seen twice, as LUN {} ({}) and LUN {} ({})",
                        map.unit,
                        other.lun,
                        describe(other),
                        map.lun,
                        describe(map)
                    ),
                    format!(
                        "remove the older map first: sandstone map remove {} --lun {}",
                        other.unit, other.lun
                    ),
                ));
            }
        }
    }
    Ok(())
}

fn references(config: &Config, map: &MapSpec) -> Result<(), Error> {
    if config.unit(&map.unit).is_none() {
        return Err(Error::not_found(
            format!(
                "the map of LUN {} names the logical unit {:?}, which does not exist",
                map.lun, map.unit
            ),
            "see `sandstone lu list`, or make it with `sandstone lu create`",
        ));
    }
    if let Some(host) = &map.host
        && config.host(host).is_none()
    {
        return Err(Error::not_found(
            format!(
                "the map of {} names the host {host:?}, which does not exist",
                map.unit
            ),
            format!(
                "see `sandstone host list`, or make it with `sandstone host create {host} --initiator IQN`"
            ),
        ));
    }
    if let Some(target) = &map.target
        && config.target(target).is_none()
    {
        return Err(Error::not_found(
            format!(
                "the map of {} names the target {target:?}, which does not exist",
                map.unit
            ),
            format!(
                "see `sandstone target list`, or make it with `sandstone target create {target}`"
            ),
        ));
    }
    Ok(())
}

/// Whether some initiator could see both maps through one target.
pub(super) fn meet(config: &Config, a: &MapSpec, b: &MapSpec) -> bool {
    let targets = match (&a.target, &b.target) {
        (Some(x), Some(y)) => x == y,
        _ => true,
    };
    targets
        && match (&a.host, &b.host) {
            (Some(x), Some(y)) if x != y => {
                let patterns = |host: &str| config.host(host).map_or(&[][..], |h| &h.initiators);
                patterns(x)
                    .iter()
                    .any(|p| patterns(y).iter().any(|q| pattern::overlap(p, q)))
            }
            _ => true,
        }
}

/// A map in words: `host esx1, every target`.
pub(super) fn describe(map: &MapSpec) -> String {
    let host = map
        .host
        .as_ref()
        .map_or("every host".to_owned(), |host| format!("host {host}"));
    let target = map
        .target
        .as_ref()
        .map_or("every target".to_owned(), |target| {
            format!("target {target}")
        });
    format!("{host}, {target}")
}

fn object_name(kind: &str, name: &str) -> Result<(), Error> {
    let start = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
    if start && rest && name.len() <= 128 {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{name:?} is no name for a {kind}"),
        "use letters, digits, '-', '_', '.' and ':', a letter or digit first, at most 128 of them",
    ))
}

fn iscsi_name<'a>(kind: &str, given: &'a str) -> Result<&'a str, Error> {
    match name::normalise(given) {
        Ok(normal) if normal == given => Ok(given),
        Ok(normal) => Err(Error::invalid(
            format!("{kind} {given} is not in lower case"),
            format!("write {normal}"),
        )),
        Err(error) => Err(Error::invalid(
            format!("{given:?} is not the name of a {kind}: {error}"),
            format!(
                "use a name such as {}:disk1",
                super::identity::TARGET_PREFIX
            ),
        )),
    }
}

fn taken(kind: &str, name: &str, list: &str) -> Error {
    Error::exists(
        format!("there is a {kind} {name} already"),
        format!("choose another name; `{list}` shows those in use"),
    )
}

#[cfg(test)]
pub(crate) mod tests;
