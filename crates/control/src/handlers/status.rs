//! Routes for the daemon itself: a summary of its state, and its metrics for Prometheus.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::{Answer, Plane, Shared, apart};
use crate::answer::{Problem, Status};
use crate::endpoint::status as at;
use crate::metrics::{self, Daemon};
use model::data_plane::UnitStatus;
use model::hindrance::UnitHindrances;
use model::pool::status::PoolView;

/// Returns a summary of the daemon's state.
#[utoipa::path(get, path = at::STATUS.path, tag = at::STATUS.tag, operation_id = at::STATUS.id, responses((status = 200, body = Status)))]
pub(super) async fn status(State(plane): State<Shared>) -> Answer<Status> {
    let short = apart(move || {
        let units = plane.transactions.data_plane().units();
        Ok(in_short(&plane, &units, &plane.pools.views()))
    });
    short.await.map(Json)
}

fn in_short(plane: &Plane, units: &[UnitStatus], pools: &[PoolView]) -> Status {
    let config = plane.config();
    let data_plane = plane.transactions.data_plane();
    let mut notices: Vec<String> = plane.transactions.notice().into_iter().collect();
    notices.extend(plane.pools.notices());
    notices.extend(data_plane.notices());
    let hindered = units.iter().filter(|unit| !unit.hindrances.is_empty());
    let hindrances = hindered.map(|unit| UnitHindrances {
        unit: unit.name.clone(),
        hindrances: unit.hindrances.clone(),
    });
    let status = Status {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime_s: plane.since.elapsed().as_secs(),
        state: plane.state_folder.display().to_string(),
        generation: config.generation,
        units: config.units.len(),
        faulted_units: units.iter().filter(|unit| unit.fault.is_some()).count(),
        hindrances: hindrances.collect(),
        targets: config.targets.len(),
        hosts: config.hosts.len(),
        sessions: data_plane.sessions().len(),
        health: Default::default(),
        pools: pools.iter().map(PoolView::in_short).collect(),
        portals: data_plane.portals(),
        notices,
    };
    Status {
        health: status.worst(),
        ..status
    }
}

/// Returns the metrics in Prometheus' text format.
#[utoipa::path(get, path = at::METRICS.path, tag = at::METRICS.tag, operation_id = at::METRICS.id,
    responses((status = 200, description = "Series with their types.", body = String, content_type = "text/plain"), (status = "5XX", body = Problem)))]
pub(super) async fn metrics(State(plane): State<Shared>) -> Result<impl IntoResponse, Problem> {
    let text = apart(move || {
        let units = plane.transactions.data_plane().units();
        let pools = plane.pools.views();
        let daemon = Daemon {
            status: in_short(&plane, &units, &pools),
            units,
            pools,
        };
        Ok(metrics::text(&daemon))
    });
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text.await?))
}
