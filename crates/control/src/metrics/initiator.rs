//! Metrics of this machine as an initiator: its sessions at other machines' targets, its devices
//! and their paths.

use std::fmt;

use super::Metrics;
use super::family::{Exposition, Family, Figure, counter, gauge, info};
use model::initiator::view::{InitiatorDevice, InitiatorSession};

const SESSION_STATES: [&str; 5] = ["logged-in", "silent", "connecting", "down", "logging-out"];
/// States of paths: those of `initiator path list`, with `-` for a blank.
const PATH_STATES: [&str; 8] = [
    "active",
    "active-unoptimized",
    "standby",
    "unavailable",
    "offline",
    "transitioning",
    "dead",
    "suspect",
];

const SESSION_STATE: Family = gauge(
    "sandstone_initiator_session_state",
    &["target", "channel", "portal", "state"],
    "Whether this machine's session at another target is in this state.",
);
const DEVICE: Family = info(
    "sandstone_initiator_device_info",
    &["device", "vendor", "model", "array_type", "path_selection"],
    "Describes a device that this machine reaches as an initiator.",
);
const PATH: Family = info(
    "sandstone_initiator_path_info",
    &["device", "path", "target", "portal", "lun"],
    "Describes a path of this machine to a device.",
);
const PATH_STATE: Family = gauge(
    "sandstone_initiator_path_state",
    &["device", "path", "state"],
    "Whether the path is in this state.",
);
const PATH_ACTIVE: Family = gauge(
    "sandstone_initiator_path_active_commands",
    &["device", "path"],
    "Commands on the path now.",
);
const PATH_LATENCY: Family = gauge(
    "sandstone_initiator_path_latency_seconds",
    &["device", "path"],
    "Moving average of the time of commands on the path; absent before the first one.",
);

const SESSION_FIGURES: [Figure<InitiatorSession>; 2] = [
    Figure {
        family: counter(
            "sandstone_initiator_session_logins_total",
            &["target", "channel", "portal"],
            "Logins of this machine's session that succeeded.",
        ),
        of: |session| Some(session.logins.into()),
    },
    Figure {
        family: gauge(
            "sandstone_initiator_session_active_commands",
            &["target", "channel", "portal"],
            "Commands of this machine's session in flight now.",
        ),
        of: |session| Some(session.in_flight.into()),
    },
];

const DEVICE_FIGURES: [Figure<InitiatorDevice>; 5] = [
    Figure {
        family: gauge(
            "sandstone_initiator_device_usable",
            &["device"],
            "Whether the device can be used now.",
        ),
        of: |device| Some(device.fault.is_none().into()),
    },
    Figure {
        family: gauge(
            "sandstone_initiator_device_size_bytes",
            &["device"],
            "Capacity of the device.",
        ),
        of: |device| Some(device.size).filter(|size| *size > 0).map(Into::into),
    },
    Figure {
        family: gauge(
            "sandstone_initiator_device_queue_depth",
            &["device"],
            "Most commands that may be at the device at once.",
        ),
        of: |device| Some(device.nmp.queue.dqlen.into()),
    },
    Figure {
        family: gauge(
            "sandstone_initiator_device_active_commands",
            &["device"],
            "Commands at the device now.",
        ),
        of: |device| Some(device.nmp.queue.actv.into()),
    },
    Figure {
        family: gauge(
            "sandstone_initiator_device_queued_commands",
            &["device"],
            "Commands that wait for the device, for any reason.",
        ),
        of: |device| Some(device.nmp.queue.qued.into()),
    },
];

pub(super) fn tell(out: &mut Exposition<'_>, metrics: &Metrics) -> fmt::Result {
    tell_sessions(out, &metrics.reading.initiator_sessions)?;
    let devices = &metrics.reading.initiator_devices;
    out.family(&DEVICE, &mut |to| {
        devices.iter().try_for_each(|device| {
            let nmp = &device.nmp;
            let claim = [nmp.satp.name(), nmp.psp.name()];
            to.describe(&[&nmp.name, &device.vendor, &device.model, claim[0], claim[1]])
        })
    })?;
    let labelled: Vec<_> = devices
        .iter()
        .map(|device| (vec![&*device.nmp.name], device))
        .collect();
    out.figures(&DEVICE_FIGURES, &labelled)?;
    tell_paths(out, devices)
}

fn tell_sessions(out: &mut Exposition<'_>, sessions: &[InitiatorSession]) -> fmt::Result {
    let channels: Vec<String> = (sessions.iter())
        .map(|session| session.channel.to_string())
        .collect();
    let labelled: Vec<_> = sessions
        .iter()
        .zip(&channels)
        .map(|(of, channel)| (vec![&*of.target, channel.as_str(), &*of.portal], of))
        .collect();
    out.family(&SESSION_STATE, &mut |to| {
        labelled.iter().try_for_each(|(labels, session)| {
            to.put_states(labels, &SESSION_STATES, session.state.name())
        })
    })?;
    out.figures(&SESSION_FIGURES, &labelled)
}

fn tell_paths(out: &mut Exposition<'_>, devices: &[InitiatorDevice]) -> fmt::Result {
    let paths = || {
        devices.iter().flat_map(|device| {
            let paths = device.nmp.paths.iter().zip(&device.ways);
            paths.map(|(path, way)| ([&*device.nmp.name, &*path.runtime_name], path, way))
        })
    };
    out.family(&PATH, &mut |to| {
        for ([device, path], _, way) in paths() {
            let lun = way.lun.map(|lun| lun.to_string()).unwrap_or_default();
            to.describe(&[device, path, &way.target, &way.portal, &lun])?;
        }
        Ok(())
    })?;
    out.family(&PATH_STATE, &mut |to| {
        for (labels, path, _) in paths() {
            let state = path.group_state.replace(' ', "-");
            to.put_states(&labels, &PATH_STATES, &state)?;
        }
        Ok(())
    })?;
    out.family(&PATH_ACTIVE, &mut |to| {
        for (labels, path, _) in paths() {
            to.put(&labels, path.active)?;
        }
        Ok(())
    })?;
    out.family(&PATH_LATENCY, &mut |to| {
        for (labels, path, _) in paths() {
            if path.latency_us > 0.0 {
                to.put(&labels, f64::from(path.latency_us) / 1e6)?;
            }
        }
        Ok(())
    })
}
