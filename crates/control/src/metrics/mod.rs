//! The text of `/metrics`, in Prometheus' text format and by its conventions: base units, `_total`
//! for counters, and a help text for each family. Its source is the views behind the listings, so
//! that metrics and listings agree.

mod exposition;
mod pools;
mod stages;
mod vdevs;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::exposition::{Exposition, MetricKind};
use super::answer::Status;
use model::data_plane::UnitStatus;
use model::figures::Snapshot;
use model::hindrance::HindranceKind;
use model::pool::status::PoolView;

/// Data from which the metrics are made.
pub(super) struct Daemon {
    pub(super) status: Status,
    pub(super) units: Vec<UnitStatus>,
    pub(super) pools: Vec<PoolView>,
    pub(super) snapshot: Arc<Snapshot>,
}

/// Returns the text of all metrics.
pub(super) fn text(daemon: &Daemon) -> String {
    let mut out = Exposition::default();
    whole(&mut out, &daemon.status);
    units(&mut out, &daemon.units);
    hindrances(&mut out, &daemon.units);
    stages::tell(&mut out, &daemon.snapshot);
    pools::tell(&mut out, &daemon.pools);
    vdevs::tell(&mut out, &daemon.pools);
    out.into_text()
}

/// Adds the metrics of the daemon as a whole.
fn whole(out: &mut Exposition, status: &Status) {
    out.family(
        "sandstone_build_info",
        MetricKind::Gauge,
        "Version of the running daemon; the value is always 1.",
    );
    out.sample(&[("version", &status.version)], 1);
    let failed = status.portals.iter().filter(|of| of.error.is_some());
    let failed = failed.count() as u64;
    let figures = [
        (
            "sandstone_uptime_seconds",
            "Time since the daemon started.",
            status.uptime_s,
        ),
        (
            "sandstone_health",
            "Health of the daemon: 0 healthy, 1 needs attention, 2 impaired.",
            status.health as u64,
        ),
        (
            "sandstone_config_generation",
            "The generation of the configuration in force.",
            status.generation,
        ),
        (
            "sandstone_sessions",
            "Sessions logged in.",
            status.sessions as u64,
        ),
        (
            "sandstone_portals_bound",
            "Portals that listen.",
            status.portals.len() as u64 - failed,
        ),
        (
            "sandstone_portals_failed",
            "Portals that cannot be bound.",
            failed,
        ),
        (
            "sandstone_notices",
            "Notices of `sandstone status`, such as damage to files of the state folder.",
            status.notices.len() as u64,
        ),
    ];
    for (name, help, value) in figures {
        out.family(name, MetricKind::Gauge, help);
        out.sample(&[], value);
    }
}

/// Function for a figure of a logical unit. It returns `None` if the figure is unknown.
type OfUnit = fn(&UnitStatus) -> Option<u64>;

fn units(out: &mut Exposition, units: &[UnitStatus]) {
    use MetricKind::{Counter, Gauge};
    let families: [(&str, MetricKind, &str, OfUnit); 10] = [
        (
            "sandstone_lu_online",
            Gauge,
            "Whether the logical unit serves commands.",
            |of| Some(of.online.into()),
        ),
        (
            "sandstone_lu_faulted",
            Gauge,
            "Whether the logical unit cannot be served although it should be.",
            |of| Some(of.fault.is_some().into()),
        ),
        ("sandstone_lu_size_bytes", Gauge, "Capacity.", |of| {
            Some(of.size)
        }),
        (
            "sandstone_lu_allocated_bytes",
            Gauge,
            "Space allocated.",
            |of| of.allocated,
        ),
        (
            "sandstone_lu_available_bytes",
            Gauge,
            "Free space of the backend.",
            |of| of.available,
        ),
        (
            "sandstone_lu_reads_total",
            Counter,
            "READs completed.",
            |of| Some(of.reads),
        ),
        (
            "sandstone_lu_writes_total",
            Counter,
            "WRITEs completed.",
            |of| Some(of.writes),
        ),
        (
            "sandstone_lu_read_bytes_total",
            Counter,
            "Bytes read.",
            |of| Some(of.read_bytes),
        ),
        (
            "sandstone_lu_written_bytes_total",
            Counter,
            "Bytes written.",
            |of| Some(of.written_bytes),
        ),
        (
            "sandstone_lu_errors_total",
            Counter,
            "Commands that failed at the backend.",
            |of| Some(of.errors),
        ),
    ];
    for (name, kind, help, value) in families {
        out.family(name, kind, help);
        for unit in units {
            if let Some(value) = value(unit) {
                out.sample(&[("lu", &unit.name)], value);
            }
        }
    }
}

/// Adds one sample for each kind of hindrance.
fn hindrances(out: &mut Exposition, units: &[UnitStatus]) {
    out.family(
        "sandstone_lu_hindrances",
        MetricKind::Gauge,
        "Number of states of each kind that stop or refuse I/O of a logical unit, or soon will.",
    );
    for unit in units {
        let mut counts: BTreeMap<HindranceKind, usize> = BTreeMap::new();
        for hindrance in &unit.hindrances {
            *counts.entry(hindrance.kind).or_default() += 1;
        }
        for (kind, count) in counts {
            out.sample(&[("lu", &unit.name), ("kind", kind.word())], count);
        }
    }
}
