//! Metrics of the daemon as a whole, its portals, and their TCP connections.

use std::fmt;

use super::Metrics;
use super::family::{Exposition, Family, counter, gauge, info};
use model::health::Health;

const BUILD: Family = info(
    "sandstone_build_info",
    &["version"],
    "Version of the running daemon.",
);
const START: Family = gauge(
    "sandstone_daemon_start_timestamp_seconds",
    &[],
    "Time at which the daemon started, in seconds since 1970.",
);
const AGE: Family = gauge(
    "sandstone_daemon_readings_age_seconds",
    &[],
    "Age of the states in this answer; it grows while a pool or device does not answer.",
);
const HEALTH: Family = gauge(
    "sandstone_daemon_health",
    &["state"],
    "Whether the daemon is in this state of health: healthy, attention or impaired.",
);
const GENERATION: Family = gauge(
    "sandstone_daemon_config_generation",
    &[],
    "Generation of the configuration in force.",
);
const SESSIONS: Family = gauge(
    "sandstone_daemon_sessions",
    &[],
    "Sessions logged in, discovery sessions included.",
);
const NOTICES: Family = gauge(
    "sandstone_daemon_notices",
    &[],
    "Notices of sandstone status, such as damage to files of the state folder.",
);
const ALERT: Family = gauge(
    "sandstone_alert_active",
    &["alert", "severity", "object"],
    "An open alert of the daemon: 1, or 0 once it is acknowledged.",
);
const LISTENING: Family = gauge(
    "sandstone_portal_listening",
    &["portal", "target", "tag"],
    "Whether the portal is bound, so that initiators can connect.",
);
const RETRANSMITS: Family = counter(
    "sandstone_tcp_retransmits_total",
    &["portal"],
    "TCP segments that were sent again to initiators at this address.",
);
const SEGMENTS: Family = counter(
    "sandstone_tcp_segments_total",
    &["portal"],
    "TCP segments with data that were sent to initiators at this address, retransmits included.",
);

/// States of health, in the words of `status --json`.
pub(super) fn states_of_health() -> [&'static str; 3] {
    [Health::Healthy, Health::Attention, Health::Impaired].map(Health::as_str)
}

pub(super) fn tell(out: &mut Exposition<'_>, metrics: &Metrics) -> fmt::Result {
    out.family(&BUILD, &mut |to| to.describe(&[env!("CARGO_PKG_VERSION")]))?;
    let began_ms = metrics.snapshot.began_unix_ms;
    out.family(&START, &mut |to| match began_ms {
        // The first snapshot is still to be taken.
        0 => Ok(()),
        began_ms => to.put(&[], began_ms as f64 / 1e3),
    })?;
    out.family(&AGE, &mut |to| to.put(&[], metrics.age.as_secs_f64()))?;
    let reading = &metrics.reading;
    // Without a reading nothing is known, and no sample may claim that all is well.
    out.family(&HEALTH, &mut |to| match reading.health {
        Some(health) => to.put_states(&[], &states_of_health(), health.as_str()),
        None => Ok(()),
    })?;
    for (family, value) in [
        (&GENERATION, reading.config.generation),
        (&SESSIONS, reading.sessions.len() as u64),
        (&NOTICES, reading.notices as u64),
    ] {
        out.family(family, &mut |to| match reading.health {
            Some(_) => to.put(&[], value),
            None => Ok(()),
        })?;
    }
    out.family(&ALERT, &mut |to| {
        reading.alerts.iter().try_for_each(|alert| {
            let labels = [&*alert.condition, alert.severity.as_str(), &*alert.object];
            to.put(&labels, alert.acknowledged.is_none())
        })
    })?;
    out.family(&LISTENING, &mut |to| {
        reading.portals.iter().try_for_each(|portal| {
            let (address, tag) = (portal.address.to_string(), portal.tag.to_string());
            to.put(&[&address, &portal.target, &tag], portal.error.is_none())
        })
    })?;
    let tcp = &reading.portal_tcp;
    out.family(&RETRANSMITS, &mut |to| {
        tcp.iter()
            .try_for_each(|of| to.put(&[&of.address.to_string()], of.retransmits))
    })?;
    out.family(&SEGMENTS, &mut |to| {
        tcp.iter()
            .try_for_each(|of| to.put(&[&of.address.to_string()], of.segments))
    })
}
