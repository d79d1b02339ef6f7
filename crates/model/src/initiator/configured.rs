//! Conversion of the administrator's configuration into the settings of the adapter.

use std::time::Duration;

use iscsi::chap::{ChapAlgorithm, ChapCredential};
use iscsi::negotiation::DigestPolicy;

use super::settings::{
    BackOff, DeviceChoice, DeviceSettings, KeepAlive, Route, SessionSettings, TargetSettings,
};
use super::url;
use crate::config::ChapSecret;
use crate::initiator::{AdapterTimes, FenceTimeout, InitiatorSpec, LoginParameters, LoginSpec};
use multipath;

/// Reports whether both logins use the same routes, with the same number of sessions on each.
pub fn same_ways(old: &LoginSpec, new: &LoginSpec) -> bool {
    let ways = |spec: &LoginSpec| (spec.portals.clone(), spec.binds.clone(), spec.sessions);
    ways(old) == ways(new)
}

/// Reports whether a login would offer different values, so that new sessions are needed.
pub fn needs_new_sessions(old: &LoginSpec, new: &LoginSpec) -> bool {
    let offered = |spec: &LoginSpec| {
        let parameters = LoginParameters {
            ping_after_ms: None,
            dead_after_ms: None,
            login_timeout_s: None,
            command_timeout_s: None,
            ..spec.parameters.clone()
        };
        (parameters, spec.chap.clone(), spec.mutual_chap.clone())
    };
    offered(old) != offered(new)
}

/// Returns the adapter's settings for a target.
pub fn target_settings(name: &str, times: &AdapterTimes, spec: &LoginSpec) -> TargetSettings {
    let mut session = SessionSettings::new(name);
    session.keep_alive = keep_alive(times);
    session.back_off = back_off(times);
    session.credential = spec.chap.as_ref().map(credential);
    session.target_credential = spec.mutual_chap.as_ref().map(credential);
    let given = &spec.parameters;
    let algorithms = given.chap_algorithms.as_deref().and_then(named_algorithms);
    set(&mut session.chap_algorithms, algorithms);
    let limits = &mut session.limits;
    let digest = |wanted: Option<bool>| match wanted {
        None => DigestPolicy::Allow,
        Some(true) => DigestPolicy::Require,
        Some(false) => DigestPolicy::Forbid,
    };
    limits.header_digest = digest(given.header_digest);
    limits.data_digest = digest(given.data_digest);
    set(&mut limits.max_outstanding_r2t, given.max_outstanding_r2t);
    set(&mut limits.first_burst_length, given.first_burst_length);
    set(&mut limits.max_burst_length, given.max_burst_length);
    set(
        &mut limits.max_recv_data_segment_length,
        given.max_recv_data_segment_length,
    );
    set(&mut limits.immediate_data, given.immediate_data);
    set(&mut limits.initial_r2t, given.initial_r2t);
    session.tcp.quick_ack = given.quick_ack.unwrap_or(false);
    session.tcp.window = given.tcp_window;
    set(&mut session.keep_alive.quiet, given.ping_after_ms.map(ms));
    set(&mut session.keep_alive.timeout, given.dead_after_ms.map(ms));
    session.keep_alive.patience = session.keep_alive.patience.max(session.keep_alive.timeout);
    let seconds = |s: u16| Duration::from_secs(s.into());
    set(
        &mut session.login_timeout,
        given.login_timeout_s.map(seconds),
    );
    set(
        &mut session.command_timeout,
        given.command_timeout_s.map(seconds),
    );
    let binds: Vec<_> = match spec.binds.as_slice() {
        [] => vec![None],
        binds => binds.iter().map(|bind| Some(url::bind(bind))).collect(),
    };
    let routes = spec.portals.iter().flat_map(|portal| {
        binds.iter().map(|bind| Route {
            portal: portal.clone(),
            bind: bind.clone(),
        })
    });
    TargetSettings {
        name: spec.iqn.clone(),
        routes: routes.collect(),
        sessions: spec.sessions,
        lun: None,
        session,
    }
}

/// Returns the CHAP_A values for names of a configuration, or `None` if a name is unknown.
pub fn named_algorithms(names: &[String]) -> Option<Vec<ChapAlgorithm>> {
    ChapAlgorithm::named(names.iter().map(String::as_str))
}

fn keep_alive(times: &AdapterTimes) -> KeepAlive {
    let mut alive = KeepAlive::default();
    set(&mut alive.quiet, times.ping_after_ms.map(ms));
    set(&mut alive.idle, times.idle_ping_after_ms.map(ms));
    set(&mut alive.timeout, times.dead_after_ms.map(ms));
    set(&mut alive.patience, times.dead_after_alone_ms.map(ms));
    alive.patience = alive.patience.max(alive.timeout);
    alive
}

fn back_off(times: &AdapterTimes) -> BackOff {
    let mut back_off = BackOff::default();
    set(&mut back_off.first, times.retry_first_ms.map(ms));
    set(&mut back_off.most, times.retry_most_ms.map(ms));
    back_off
}

/// Returns the settings of devices that follow from the times.
fn device_times(times: &AdapterTimes) -> multipath::Settings {
    let mut settings = multipath::Settings::default();
    let apd_us = times.apd_timeout_s.map(|s| u64::from(s) * 1_000_000);
    set(&mut settings.apd_timeout_us, apd_us);
    let fence = times.fence_timeout_ms.map(FenceTimeout::milliseconds);
    let fence_us = fence.map(|ms| ms.map(|ms| u64::from(ms) * 1000));
    set(&mut settings.fence_timeout_us, fence_us);
    settings
}

/// Returns every time with the value in force. A time is `None` if it differs between devices.
pub fn times_in_force(times: &AdapterTimes) -> AdapterTimes {
    let (alive, back_off) = (keep_alive(times), back_off(times));
    let devices = device_times(times);
    let ms = |time: Duration| Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    let whole = |us: u64, unit: u64| u32::try_from(us / unit).unwrap_or(u32::MAX);
    let fence = devices.fence_timeout_us.map(|us| whole(us, 1000));
    AdapterTimes {
        apd_timeout_s: Some(whole(devices.apd_timeout_us, 1_000_000)),
        fence_timeout_ms: Some(fence.map_or(FenceTimeout::NEVER, FenceTimeout::After)),
        // Each device has the value of its vendor.
        fence_settle_ms: times.fence_settle_ms,
        ping_after_ms: ms(alive.quiet),
        dead_after_ms: ms(alive.timeout),
        idle_ping_after_ms: ms(alive.idle),
        dead_after_alone_ms: ms(alive.patience),
        retry_first_ms: ms(back_off.first),
        retry_most_ms: ms(back_off.most),
    }
}

fn ms(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn credential(chap: &ChapSecret) -> ChapCredential {
    ChapCredential {
        name: chap.user.clone(),
        secret: chap.secret.clone().into_bytes(),
    }
}

/// Returns the adapter's settings for devices.
pub fn device_settings(spec: &InitiatorSpec) -> DeviceSettings {
    let chosen = spec.devices.iter().map(|device| {
        let choice = DeviceChoice {
            psp: device.psp,
            round_robin: device.round_robin,
            preferred_path: device.preferred_path.clone(),
            queue_depth: device.queue_depth,
            max_io: device.max_io,
        };
        (device.name.clone(), choice)
    });
    DeviceSettings {
        rules: spec.rules.clone(),
        base: device_times(&spec.times),
        fence_settle_us: spec.times.fence_settle_ms.map(|ms| u64::from(ms) * 1000),
        chosen: chosen.collect(),
        ..DeviceSettings::default()
    }
}
