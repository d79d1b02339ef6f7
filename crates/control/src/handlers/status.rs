//! Handlers of requests about the daemon itself: a summary of its state, and its metrics for
//! Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use super::apart;
use super::routes::Routes;
use super::summary;
use crate::answer::{Problem, Status};
use crate::call::Call;
use crate::endpoint::status as at;
use crate::metrics::{Format, Metrics, Reading};
use crate::plane::{Plane, Shared};
use model::Error;
use model::data_plane::UnitStatus;
use model::figures::Snapshot;
use model::hindrance::UnitHindrances;
use model::pool::status::PoolView;

/// Adds the endpoints of this file to the routes.
pub(super) fn serve(routes: Routes) -> Routes {
    routes
        .serve(&at::STATUS, status)
        .serve(&at::FIGURES, figures)
        .stream(&at::METRICS, metrics)
}

pub(super) fn status(call: Call) -> Result<Status, Error> {
    let Call { plane, .. } = call;
    let units = plane.transactions.data_plane().units();
    let sessions = plane.transactions.data_plane().count_sessions();
    Ok(in_short(&plane, &units, &plane.pools.views(), sessions))
}

pub(super) fn figures(call: Call) -> Result<Snapshot, Error> {
    Ok((*call.plane.snapshots.latest()).clone())
}

fn in_short(plane: &Plane, units: &[UnitStatus], pools: &[PoolView], sessions: usize) -> Status {
    let config = plane.config();
    let data_plane = plane.transactions.data_plane();
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
        sessions,
        health: Default::default(),
        pools: pools.iter().map(PoolView::in_short).collect(),
        portals: data_plane.portals(),
        console: plane.console.get().map(|told| told()),
        notices: plane.notices(),
        alerts: plane.alerts.open(),
        jobs: summary::jobs(pools),
        disks: summary::disks(pools),
        paths: summary::paths(&data_plane.initiator_devices()),
    };
    Status {
        health: status.worst(),
        ..status
    }
}

async fn metrics(State(plane): State<Shared>, headers: HeaderMap) -> Result<Response, Problem> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::preferred(accept);
    let text = apart(move || Ok(plane.metrics(format))).await?;
    Ok(([(CONTENT_TYPE, format.content_type())], text).into_response())
}

impl Plane {
    /// Returns the metrics. Blocks, but not for long: what does not answer is left out, or told
    /// as it was.
    pub(crate) fn metrics(self: &Arc<Self>, format: Format) -> String {
        let plane = Arc::clone(self);
        let reading = self.readings.take(move || read(&plane));
        Metrics::new(reading, self.snapshots.latest(), self.since).encode(format)
    }
}

/// Reads all states.
fn read(plane: &Plane) -> Reading {
    let data_plane = plane.transactions.data_plane();
    let mut units = data_plane.units();
    let views = plane.pools.views().into_iter();
    let mut pools: Vec<_> = views.map(|view| plane.with_outlook(view)).collect();
    // Collectors refuse an answer in which a series appears twice. Both lists are sorted by name.
    units.dedup_by(|later, first| later.name == first.name);
    pools.dedup_by(|later, first| later.name == first.name);
    let sessions = data_plane.sessions();
    let status = in_short(plane, &units, &pools, sessions.len());
    Reading {
        health: Some(status.health),
        notices: status.notices.len(),
        alerts: plane.alerts.open(),
        config: plane.config(),
        units,
        pools,
        sessions,
        portals: status.portals,
        portal_tcp: data_plane.portal_tcp(),
        initiator_sessions: data_plane.initiator_sessions(),
        initiator_devices: data_plane.initiator_devices(),
    }
}
