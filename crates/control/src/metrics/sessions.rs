//! Metrics of sessions at this machine's targets, and of the hosts that they belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use super::Metrics;
use super::family::{Exposition, Family, Figure, counter, gauge, info};
use config::access::HostIndex;
use model::data_plane::SessionInfo;

const INFO: Family = info(
    "sandstone_session_info",
    &[
        "tsih",
        "initiator",
        "alias",
        "host",
        "target",
        "tag",
        "portal",
        "peer",
    ],
    "Describes a session; the first connection gives portal and peer.",
);

const FIGURES: [Figure<SessionInfo>; 3] = [
    Figure {
        family: gauge(
            "sandstone_session_connections",
            &["tsih"],
            "Connections of the session.",
        ),
        of: |session| Some(session.connections.len().into()),
    },
    Figure {
        family: gauge(
            "sandstone_session_active_commands",
            &["tsih"],
            "Commands of the session in flight now.",
        ),
        of: |session| Some(session.in_flight.into()),
    },
    Figure {
        family: counter(
            "sandstone_session_digest_errors_total",
            &["tsih"],
            "Data segments of the session that arrived with a wrong data digest.",
        ),
        of: |session| Some(session.digest_errors.into()),
    },
];

const HOST_SESSIONS: Family = gauge(
    "sandstone_host_sessions",
    &["host"],
    "Sessions of the host's initiators.",
);
const HOST_INITIATORS: Family = gauge(
    "sandstone_host_initiators",
    &["host"],
    "Initiators of the host that are logged in.",
);
const HOST_PORTALS: Family = gauge(
    "sandstone_host_portals",
    &["host"],
    "Addresses of this machine that the host's sessions use: its paths.",
);

/// Sessions of one host.
#[derive(Default)]
struct Host<'a> {
    sessions: usize,
    initiators: BTreeSet<&'a str>,
    portals: BTreeSet<SocketAddr>,
}

pub(super) fn tell(out: &mut Exposition<'_>, metrics: &Metrics) -> fmt::Result {
    let reading = &metrics.reading;
    let config = &reading.config;
    let mut hosts: BTreeMap<&str, Host<'_>> = config
        .hosts
        .iter()
        .map(|host| (&*host.name, Host::default()))
        .collect();
    let index = HostIndex::new(config);
    let mut hosts_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for session in &reading.sessions {
        let of = hosts_of.entry(&session.initiator).or_insert_with(|| {
            let hosts = index.hosts(&session.initiator);
            hosts.into_iter().map(|host| &*host.name).collect()
        });
        for name in of {
            let host = hosts.entry(name).or_default();
            host.sessions += 1;
            host.initiators.insert(&session.initiator);
            let portals = session.connections.iter().map(|of| of.local);
            host.portals.extend(portals);
        }
    }
    let numbers: Vec<String> = (reading.sessions.iter())
        .map(|session| session.tsih.to_string())
        .collect();
    let labelled: Vec<_> = numbers
        .iter()
        .zip(&reading.sessions)
        .map(|(tsih, session)| (vec![tsih.as_str()], session))
        .collect();
    out.family(&INFO, &mut |to| {
        labelled.iter().try_for_each(|(tsih, session)| {
            let host = hosts_of[&*session.initiator].first();
            let connection = session.connections.first();
            to.describe(&[
                tsih[0],
                &session.initiator,
                session.alias.as_deref().unwrap_or_default(),
                host.copied().unwrap_or_default(),
                session.target.as_deref().unwrap_or_default(),
                &session.portal_group.to_string(),
                &connection
                    .map(|of| of.local.to_string())
                    .unwrap_or_default(),
                &connection
                    .map(|of| of.peer.ip().to_string())
                    .unwrap_or_default(),
            ])
        })
    })?;
    out.figures(&FIGURES, &labelled)?;
    for (family, count) in [
        (
            &HOST_SESSIONS,
            (|host| host.sessions) as fn(&Host<'_>) -> usize,
        ),
        (&HOST_INITIATORS, |host| host.initiators.len()),
        (&HOST_PORTALS, |host| host.portals.len()),
    ] {
        out.family(family, &mut |to| {
            hosts
                .iter()
                .try_for_each(|(name, host)| to.put(&[name], count(host)))
        })?;
    }
    Ok(())
}
