//! The daemon itself: its state in short, and its counters for Prometheus.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::Shared;
use crate::control::answer::Status;
use crate::control::data_plane::UnitStatus;

/// The daemon in short.
#[utoipa::path(get, path = "/v1/status", tag = "status", operation_id = "status", responses((status = 200, body = Status)))]
pub(super) async fn status(State(plane): State<Shared>) -> Json<Status> {
    let config = plane.config();
    let data_plane = plane.transactions.data_plane();
    let mut notices: Vec<String> = plane.transactions.notice().into_iter().collect();
    notices.extend(plane.pools.notices());
    notices.extend(data_plane.notices());
    Json(Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime_s: plane.since.elapsed().as_secs(),
        state: plane.state_folder.display().to_string(),
        generation: config.generation,
        units: config.units.len(),
        faulted_units: data_plane
            .units()
            .iter()
            .filter(|unit| unit.fault.is_some())
            .count(),
        targets: config.targets.len(),
        hosts: config.hosts.len(),
        sessions: data_plane.sessions().len(),
        portals: data_plane.portals(),
        notices,
    })
}

/// Counters in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "status", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(plane): State<Shared>) -> impl IntoResponse {
    let data_plane = plane.transactions.data_plane();
    let portals = data_plane.portals();
    let bound = portals.iter().filter(|p| p.error.is_none()).count();
    let whole = [
        ("sandstone_uptime_seconds", plane.since.elapsed().as_secs()),
        ("sandstone_config_generation", plane.config().generation),
        ("sandstone_sessions", data_plane.sessions().len() as u64),
        ("sandstone_portals_bound", bound as u64),
        ("sandstone_portals_failed", (portals.len() - bound) as u64),
    ];
    let mut text = String::new();
    for (name, value) in whole {
        let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
    }
    let units = data_plane.units();
    for Metric {
        name,
        kind,
        help,
        value,
    } in &UNIT_METRICS
    {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for unit in &units {
            if let Some(value) = value(unit) {
                // Names of logical units hold nothing that would need quoting.
                let _ = writeln!(text, "{name}{{lu=\"{}\"}} {value}", unit.name);
            }
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: Value,
}

type Value = fn(&UnitStatus) -> Option<u64>;

const fn gauge(name: &'static str, help: &'static str, value: Value) -> Metric {
    Metric {
        name,
        kind: "gauge",
        help,
        value,
    }
}

const fn counter(name: &'static str, help: &'static str, value: Value) -> Metric {
    Metric {
        name,
        kind: "counter",
        help,
        value,
    }
}

const UNIT_METRICS: [Metric; 9] = [
    gauge("sandstone_lu_online", "Whether it serves commands.", |u| {
        Some(u.online.into())
    }),
    gauge("sandstone_lu_size_bytes", "Capacity.", |u| Some(u.size)),
    gauge("sandstone_lu_allocated_bytes", "Space allocated.", |u| {
        u.allocated
    }),
    gauge("sandstone_lu_available_bytes", "Space left beneath.", |u| {
        u.available
    }),
    counter("sandstone_lu_reads_total", "READs completed.", |u| {
        Some(u.reads)
    }),
    counter("sandstone_lu_writes_total", "WRITEs completed.", |u| {
        Some(u.writes)
    }),
    counter("sandstone_lu_read_bytes_total", "Bytes read.", |u| {
        Some(u.read_bytes)
    }),
    counter("sandstone_lu_written_bytes_total", "Bytes written.", |u| {
        Some(u.written_bytes)
    }),
    counter(
        "sandstone_lu_errors_total",
        "Commands that failed beneath.",
        |u| Some(u.errors),
    ),
];
