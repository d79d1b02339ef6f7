//! Rules of this machine as an initiator.

use std::collections::HashSet;

use super::{chap, iscsi_name};
use model::config::Config;
use model::error::Error;
use model::initiator::configured::{named_algorithms, times_in_force};
use model::initiator::options::{
    APD_TIMEOUT_S, COMMAND_TIMEOUT_S, FENCE_SETTLE_MS, FENCE_TIMEOUT_MS,
};
use model::initiator::url::with_port;
use model::initiator::{AdapterTimes, DeviceSpec, FenceTimeout, LoginSpec};
use model::quantity::format_time;

/// Most sessions of one login: far more than useful paths.
const MAX_SESSIONS: usize = 64;
/// Range of the lengths of RFC 7143 §13.
const LENGTHS: std::ops::RangeInclusive<u32> = 512..=16_777_215;
/// Range of the keep-alive and of the times between logins, in milliseconds.
const WAITS_MS: std::ops::RangeInclusive<u32> = 10..=600_000;
/// Least time for which a lost session's writes are waited for, in milliseconds. Less is possible
/// only for trials, by a URL. Targets have been seen to perform writes a good while after their
/// connection was gone.
const LEAST_FENCE_MS: u32 = 5_000;

pub(super) fn initiator(config: &Config) -> Result<(), Error> {
    let initiator = &config.initiator;
    if !initiator.name.is_empty() {
        iscsi_name("initiator", &initiator.name)?;
    }
    adapter_times(&initiator.times)?;
    let mut seen = HashSet::new();
    for login in &initiator.targets {
        if !seen.insert(login.iqn.as_str()) {
            return Err(Error::exists(
                format!("target {} has two logins", login.iqn),
                "name each target once, with all its portals",
            ));
        }
        login_rules(login)?;
    }
    let mut seen = HashSet::new();
    for device in &initiator.devices {
        if !seen.insert(device.name.as_str()) {
            return Err(Error::exists(
                format!("device {} is listed twice", device.name),
                "name each device once",
            ));
        }
        device_rules(device)?;
    }
    Ok(())
}

fn adapter_times(times: &AdapterTimes) -> Result<(), Error> {
    let wrong = |what: String, next: &str| Err(Error::invalid(format!("initiator: {what}"), next));
    let waits = [
        ("ping_after_ms", times.ping_after_ms),
        ("dead_after_ms", times.dead_after_ms),
        ("idle_ping_after_ms", times.idle_ping_after_ms),
        ("dead_after_alone_ms", times.dead_after_alone_ms),
        ("retry_first_ms", times.retry_first_ms),
        ("retry_most_ms", times.retry_most_ms),
    ];
    for (name, value) in waits {
        if let Some(value) = value.filter(|value| !WAITS_MS.contains(value)) {
            return wrong(
                format!("{name} cannot be {value}"),
                "use 10 to 600000 milliseconds",
            );
        }
    }
    if let Some(seconds) = times.apd_timeout_s.filter(|s| !APD_TIMEOUT_S.contains(s)) {
        return wrong(
            format!("apd_timeout_s cannot be {seconds}"),
            "use 0 to 99999 seconds",
        );
    }
    let fence = times.fence_timeout_ms.and_then(FenceTimeout::milliseconds);
    let fits = |ms: &u32| *ms >= LEAST_FENCE_MS && FENCE_TIMEOUT_MS.contains(ms);
    if let Some(ms) = fence.filter(|ms| !fits(ms)) {
        return wrong(
            format!("fence_timeout_ms cannot be {ms}"),
            "use 5000 to 99999000 milliseconds, or never: after a shorter time, a write of the lost session \
             may still overwrite newer data",
        );
    }
    let settle = times.fence_settle_ms;
    if let Some(ms) = settle.filter(|ms| !FENCE_SETTLE_MS.contains(ms)) {
        return wrong(
            format!("fence_settle_ms cannot be {ms}"),
            "use 0 to 600000 milliseconds",
        );
    }
    let all = times_in_force(times);
    let shown = |ms: Option<u32>| format_time(ms.unwrap_or_default().into());
    if all.retry_first_ms > all.retry_most_ms {
        let (first, most) = (shown(all.retry_first_ms), shown(all.retry_most_ms));
        return wrong(
            format!("the first retry, after {first}, comes later than the longest wait, {most}"),
            "make retry_first_ms smaller or retry_most_ms larger",
        );
    }
    if times
        .dead_after_alone_ms
        .is_some_and(|ms| Some(ms) < all.dead_after_ms)
    {
        return wrong(
            format!(
                "a session without another path would be given up after {}, other sessions only after {}",
                shown(times.dead_after_alone_ms),
                shown(all.dead_after_ms)
            ),
            "make dead_after_alone_ms at least as large as dead_after_ms",
        );
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
            "name a portal with --portal; sandstone initiator discover shows the portals",
        );
    }
    for portal in &login.portals {
        if with_port(portal).ok().as_ref() != Some(portal) {
            return wrong(
                format!("{portal:?} is not a portal"),
                "write host:port, with IPv6 addresses in brackets",
            );
        }
    }
    for bind in &login.binds {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
        if bind.is_empty() || bind.len() > 45 || !bind.chars().all(plain) {
            return wrong(
                format!("{bind:?} is neither an address nor a network interface"),
                "`ip addr` shows the addresses and interfaces of this machine",
            );
        }
    }
    let ways = login.portals.len() * login.binds.len().max(1) * login.sessions as usize;
    if !(1..=MAX_SESSIONS).contains(&ways) {
        return wrong(
            format!("it asks for {ways} sessions"),
            "portals times binds times sessions must be 1 to 64",
        );
    }
    for secret in login.chap.iter().chain(&login.mutual_chap) {
        chap(&who, secret)?;
    }
    match (&login.chap, &login.mutual_chap) {
        (None, Some(_)) => {
            return wrong(
                "the target must authenticate, but the initiator does not (mutual CHAP without CHAP)"
                    .to_owned(),
                "give --user too",
            );
        }
        (Some(ours), Some(theirs)) if ours.secret == theirs.secret => {
            return wrong(
                "both sides have the same CHAP secret".to_owned(),
                "choose two different secrets: with one secret for both directions, an impostor can reflect \
                 the challenge (RFC 7143 9.2.1)",
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
    let algorithms = given.chap_algorithms.as_deref();
    if let Some(names) = algorithms.filter(|names| named_algorithms(names).is_none()) {
        return wrong(
            format!("{names:?} is not a list of known CHAP algorithms"),
            "list any of sha3-256, sha256, sha1 and md5, each once, with the preferred one first",
        );
    }
    if let (Some(first), Some(max)) = (given.first_burst_length, given.max_burst_length)
        && first > max
    {
        return wrong(
            format!("FirstBurstLength {first} is above MaxBurstLength {max}"),
            "make FirstBurstLength smaller",
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
        if let Some(value) = value.filter(|value| !WAITS_MS.contains(value)) {
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
    if given
        .command_timeout_s
        .is_some_and(|s| !COMMAND_TIMEOUT_S.contains(&s.into()))
    {
        return wrong(
            "the command timeout is out of range".to_owned(),
            "use 1 to 3600 seconds",
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
            "the name is not a device name".to_owned(),
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
