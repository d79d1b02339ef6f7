//! Handlers of requests about the daemon itself: a summary of its state, and its metrics for
//! Prometheus.

use super::Plane;
use super::routes::Routes;
use super::summary;
use crate::answer::Status;
use crate::call::Call;
use crate::endpoint::status as at;
use crate::metrics::{self, Daemon};
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
        .serve(&at::METRICS, metrics)
}

pub(super) fn status(call: Call) -> Result<Status, Error> {
    let Call { plane, .. } = call;
    let units = plane.transactions.data_plane().units();
    Ok(in_short(&plane, &units, &plane.pools.views()))
}

pub(super) fn figures(call: Call) -> Result<Snapshot, Error> {
    Ok((*call.plane.snapshots.latest()).clone())
}

fn in_short(plane: &Plane, units: &[UnitStatus], pools: &[PoolView]) -> Status {
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
        sessions: data_plane.sessions().len(),
        health: Default::default(),
        pools: pools.iter().map(PoolView::in_short).collect(),
        portals: data_plane.portals(),
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

pub(super) fn metrics(call: Call) -> Result<String, Error> {
    let Call { plane, .. } = call;
    let units = plane.transactions.data_plane().units();
    let pools = plane.pools.views();
    let daemon = Daemon {
        status: in_short(&plane, &units, &pools),
        units,
        pools,
        snapshot: plane.snapshots.latest(),
    };
    Ok(metrics::text(&daemon))
}
