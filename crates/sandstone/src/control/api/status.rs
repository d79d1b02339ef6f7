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
    })
}

/// Counters in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "status", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(plane): State<Shared>) -> impl IntoResponse {
    let data_plane = plane.transactions.data_plane();
    let (units, sessions, portals) = (
        data_plane.units(),
        data_plane.sessions(),
        data_plane.portals(),
    );
    let mut text = String::new();
    let bound = portals
        .iter()
        .filter(|portal| portal.error.is_none())
        .count();
    single(
        &mut text,
        "sandstone_uptime_seconds",
        "gauge",
        "Seconds since the daemon started.",
        plane.since.elapsed().as_secs(),
    );
    single(
        &mut text,
        "sandstone_config_generation",
        "gauge",
        "Generation of the configuration in force.",
        plane.config().generation,
    );
    single(
        &mut text,
        "sandstone_sessions",
        "gauge",
        "iSCSI sessions logged in.",
        sessions.len() as u64,
    );
    single(
        &mut text,
        "sandstone_portals_bound",
        "gauge",
        "Portals that listen.",
        bound as u64,
    );
    single(
        &mut text,
        "sandstone_portals_failed",
        "gauge",
        "Portals that could not be bound.",
        (portals.len() - bound) as u64,
    );
    type Metric = (
        &'static str,
        &'static str,
        &'static str,
        fn(&UnitStatus) -> Option<u64>,
    );
    let metrics: [Metric; 9] = [
        (
            "sandstone_lu_online",
            "gauge",
            "Whether the logical unit serves commands.",
            |u| Some(u.online.into()),
        ),
        ("sandstone_lu_size_bytes", "gauge", "Capacity.", |u| {
            Some(u.size)
        }),
        (
            "sandstone_lu_allocated_bytes",
            "gauge",
            "Space allocated.",
            |u| u.allocated,
        ),
        (
            "sandstone_lu_available_bytes",
            "gauge",
            "Space that can still be allocated.",
            |u| u.available,
        ),
        (
            "sandstone_lu_reads_total",
            "counter",
            "READ commands completed.",
            |u| Some(u.reads),
        ),
        (
            "sandstone_lu_writes_total",
            "counter",
            "WRITE commands completed.",
            |u| Some(u.writes),
        ),
        (
            "sandstone_lu_read_bytes_total",
            "counter",
            "Bytes read.",
            |u| Some(u.read_bytes),
        ),
        (
            "sandstone_lu_written_bytes_total",
            "counter",
            "Bytes written.",
            |u| Some(u.written_bytes),
        ),
        (
            "sandstone_lu_errors_total",
            "counter",
            "Commands that ended with an error of the medium or backend.",
            |u| Some(u.errors),
        ),
    ];
    for (name, kind, help, value) in metrics {
        head(&mut text, name, kind, help);
        for unit in &units {
            if let Some(value) = value(unit) {
                // Names of logical units hold nothing that would need quoting.
                let _ = writeln!(text, "{name}{{lu=\"{}\"}} {value}", unit.name);
            }
        }
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn single(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}
