//! Rules of this machine as an initiator.

use std::collections::HashSet;

use super::{chap, iscsi_name};
use crate::config::error::Error;
use crate::config::initiator::{DeviceSpec, LoginSpec};
use crate::config::model::Config;
use crate::initiator::url::with_port;

/// Sessions of one login: far more than paths that help.
const MAX_SESSIONS: usize = 64;
/// What a length of RFC 7143 §13 may be.
const LENGTHS: std::ops::RangeInclusive<u32> = 512..=16_777_215;

pub(super) fn initiator(config: &Config) -> Result<(), Error> {
    let initiator = &config.initiator;
    if !initiator.name.is_empty() {
        iscsi_name("initiator", &initiator.name)?;
    }
    let mut seen = HashSet::new();
    for login in &initiator.targets {
        if !seen.insert(login.iqn.as_str()) {
            return Err(Error::exists(
                format!("{} is logged in to twice", login.iqn),
                "name each target once, with all its portals",
            ));
        }
        login_rules(login)?;
    }
    let mut seen = HashSet::new();
    for device in &initiator.devices {
        if !seen.insert(device.name.as_str()) {
            return Err(Error::exists(
                format!("the device {} is there twice", device.name),
                "name each device once",
            ));
        }
        device_rules(device)?;
    }
    Ok(())
}

fn login_rules(login: &LoginSpec) -> Result<(), Error> {
    iscsi_name("target", &login.iqn)?;
    let who = format!("login to {}", login.iqn);
    let wrong = |what: String, next: &str| Err(Error::invalid(format!("{who}: {what}"), next));
    if login.portals.is_empty() {
        return wrong(
            "no portal is named".to_owned(),
            "name one with --portal; sandstone initiator discover shows them",
        );
    }
    for portal in &login.portals {
        if with_port(portal).ok().as_ref() != Some(portal) {
            return wrong(
                format!("{portal:?} is no portal"),
                "write host:port, IPv6 addresses in brackets",
            );
        }
    }
    for bind in &login.binds {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
        if bind.is_empty() || bind.len() > 45 || !bind.chars().all(plain) {
            return wrong(
                format!("{bind:?} is no address and no network interface"),
                "`ip addr` shows what this machine has",
            );
        }
    }
    let ways = login.portals.len() * login.binds.len().max(1) * login.sessions as usize;
    if !(1..=MAX_SESSIONS).contains(&ways) {
        return wrong(
            format!("{ways} sessions"),
            "portals times binds times sessions must be 1 to 64",
        );
    }
    for secret in login.chap.iter().chain(&login.mutual_chap) {
        chap(&who, secret)?;
    }
    match (&login.chap, &login.mutual_chap) {
        (None, Some(_)) => {
            return wrong(
                "the target is to prove itself, but we do not (mutual CHAP without CHAP)"
                    .to_owned(),
                "give --user too",
            );
        }
        (Some(ours), Some(theirs)) if ours.secret == theirs.secret => {
            return wrong(
                "both sides have the same CHAP secret".to_owned(),
                "choose two: with one secret for both ways an impostor reflects the challenge (RFC 7143 9.2.1)",
            );
        }
        _ => {}
    }
    parameter_rules(login)
}

fn parameter_rules(login: &LoginSpec) -> Result<(), Error> {
    let given = &login.parameters;
    let wrong = |what: String, next: &str| {
        Err(Error::invalid(
            format!("login to {}: {what}", login.iqn),
            next,
        ))
    };
    let lengths = [
        ("FirstBurstLength", given.first_burst_length),
        ("MaxBurstLength", given.max_burst_length),
        (
            "MaxRecvDataSegmentLength",
            given.max_recv_data_segment_length,
        ),
    ];
    for (key, value) in lengths {
        if let Some(value) = value.filter(|value| !LENGTHS.contains(value)) {
            return wrong(
                format!("{key} cannot be {value}"),
                "use 512 to 16777215 bytes",
            );
        }
    }
    if let (Some(first), Some(max)) = (given.first_burst_length, given.max_burst_length)
        && first > max
    {
        return wrong(
            format!("FirstBurstLength {first} is above MaxBurstLength {max}"),
            "make it smaller",
        );
    }
    if given.max_outstanding_r2t == Some(0) {
        return wrong("MaxOutstandingR2T cannot be 0".to_owned(), "use 1 to 65535");
    }
    if given
        .tcp_window
        .is_some_and(|bytes| !(4096..=1 << 30).contains(&bytes))
    {
        return wrong(
            "the TCP window is out of range".to_owned(),
            "use 4K to 1G, or leave it to the kernel",
        );
    }
    let times = [
        ("ping_after_ms", given.ping_after_ms),
        ("dead_after_ms", given.dead_after_ms),
    ];
    for (name, value) in times {
        if let Some(value) = value.filter(|value| !(10..=600_000).contains(value)) {
            return wrong(
                format!("{name} cannot be {value}"),
                "use 10 to 600000 milliseconds",
            );
        }
    }
    if given
        .login_timeout_s
        .is_some_and(|s| !(1..=600).contains(&s))
    {
        return wrong(
            "the login timeout is out of range".to_owned(),
            "use 1 to 600 seconds",
        );
    }
    Ok(())
}

fn device_rules(device: &DeviceSpec) -> Result<(), Error> {
    let wrong = |what: String, next: &str| {
        Err(Error::invalid(
            format!("device {}: {what}", device.name),
            next,
        ))
    };
    let kinds = ["naa.", "eui.", "t10.", "mpx."];
    if !kinds.iter().any(|kind| device.name.starts_with(kind)) || device.name.len() > 256 {
        return wrong(
            "that is not the name of a device".to_owned(),
            "use a name that begins with naa., eui., t10. or mpx., as sandstone initiator device list shows it",
        );
    }
    if device
        .queue_depth
        .is_some_and(|depth| !(1..=4096).contains(&depth))
    {
        return wrong(
            "the queue depth is out of range".to_owned(),
            "use 1 to 4096",
        );
    }
    if device
        .max_io
        .is_some_and(|bytes| !(4096..=8 << 20).contains(&bytes))
    {
        return wrong("the largest I/O is out of range".to_owned(), "use 4K to 8M");
    }
    Ok(())
}
