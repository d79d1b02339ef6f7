//! Metrics of whole pools: their state, their space, and their scrubs and resilvers.

use super::exposition::{Exposition, MetricKind};
use model::pool::scan::ScanView;
use model::pool::status::PoolView;

/// States of pools. Each is a sample, and exactly one of them is 1.
const STATES: [&str; 4] = ["ONLINE", "DEGRADED", "SUSPENDED", "UNAVAIL"];

pub(super) fn tell(out: &mut Exposition, pools: &[PoolView]) {
    out.family(
        "sandstone_pool_state",
        MetricKind::Gauge,
        "Whether the pool is in this state.",
    );
    for pool in pools {
        for state in STATES {
            let labels = [("pool", &*pool.name), ("state", state)];
            out.sample(&labels, u64::from(pool.state == state));
        }
    }
    figures(out, pools);
    out.family(
        "sandstone_pool_lost_bytes",
        MetricKind::Gauge,
        "Bytes of volumes and snapshots without a correct copy, found since the pool was opened or cleared; \
         a lower bound.",
    );
    for pool in pools.iter().filter(|pool| pool.open_for_us.is_some()) {
        let lost: u64 = pool.lost.iter().map(|lost| lost.bytes).sum();
        out.sample(&[("pool", &pool.name)], lost);
    }
    scans(out, pools);
}

/// Function for a figure of a pool. It returns `None` if the figure is unknown, as for a pool that
/// is not open.
type OfPool = fn(&PoolView) -> Option<f64>;

fn figures(out: &mut Exposition, pools: &[PoolView]) {
    fn open(pool: &PoolView, value: u64) -> Option<f64> {
        pool.open_for_us.map(|_| value as f64)
    }
    let families: [(&str, &str, OfPool); 9] = [
        (
            "sandstone_pool_health",
            "Health of the pool: 0 healthy, 1 needs attention, 2 impaired.",
            |of| Some(f64::from(of.health() as u8)),
        ),
        (
            "sandstone_pool_read_only",
            "Whether the pool was imported read-only.",
            |of| open(of, of.is_read_only.into()),
        ),
        (
            "sandstone_pool_size_bytes",
            "Bytes of all vdevs, parity included.",
            |of| open(of, of.size),
        ),
        (
            "sandstone_pool_allocated_bytes",
            "Bytes in use, parity included.",
            |of| open(of, of.allocated),
        ),
        ("sandstone_pool_free_bytes", "Bytes that are free.", |of| {
            open(of, of.free)
        }),
        (
            "sandstone_pool_available_bytes",
            "Free bytes that data may take, parity included.",
            |of| open(of, of.available),
        ),
        (
            "sandstone_pool_freeing_bytes",
            "Freed bytes that become free after two checkpoints.",
            |of| open(of, of.freeing),
        ),
        (
            "sandstone_pool_fragmentation_ratio",
            "Share of the free space that lies in small pieces, from 0 to 1.",
            |of| of.fragmentation.map(|percent| f64::from(percent) / 100.0),
        ),
        (
            "sandstone_pool_single_copies",
            "Blocks of metadata written without a second copy since the pool was opened, because space was \
             short.",
            |of| open(of, of.written_once),
        ),
    ];
    for (name, help, value) in families {
        out.family(name, MetricKind::Gauge, help);
        for pool in pools {
            if let Some(value) = value(pool) {
                out.sample(&[("pool", &pool.name)], value);
            }
        }
    }
}

/// Function for a figure of a pool's last scrub or resilver.
type OfScan = fn(&ScanView) -> Option<f64>;

fn scans(out: &mut Exposition, pools: &[PoolView]) {
    let families: [(&str, &str, OfScan); 7] = [
        (
            "sandstone_pool_scan_running",
            "Whether the scrub or resilver is running.",
            |of| Some(f64::from(u8::from(of.state == "running"))),
        ),
        (
            "sandstone_pool_scan_progress_ratio",
            "Finished share of the scrub or resilver, from 0 to 1.",
            |of| Some(progress(of)),
        ),
        (
            "sandstone_pool_scan_start_timestamp_seconds",
            "Start of the scrub or resilver.",
            |of| Some(of.started_s as f64),
        ),
        (
            "sandstone_pool_scan_end_timestamp_seconds",
            "End of the scrub or resilver; absent before its end.",
            |of| Some(of.ended_s as f64).filter(|_| of.ended_s > 0),
        ),
        (
            "sandstone_pool_scan_examined_bytes",
            "Bytes on devices that the scrub or resilver has processed.",
            |of| Some(of.issued as f64),
        ),
        (
            "sandstone_pool_scan_repaired_bytes",
            "Bytes that the scrub or resilver rewrote because they were bad or missing.",
            |of| Some(of.repaired as f64),
        ),
        (
            "sandstone_pool_scan_unrecoverable_blocks",
            "Blocks of which the scrub or resilver found no correct copy.",
            |of| Some(of.errors as f64),
        ),
    ];
    for (name, help, value) in families {
        out.family(name, MetricKind::Gauge, help);
        for pool in pools {
            let Some(scan) = &pool.scan_status else {
                continue;
            };
            if let Some(value) = value(scan) {
                out.sample(&[("pool", &pool.name), ("scan", &scan.kind)], value);
            }
        }
    }
}

/// Returns the finished share of a scan. A finished scan counts as 1, whatever happened to blocks
/// meanwhile.
fn progress(scan: &ScanView) -> f64 {
    match (scan.state.as_str(), scan.total) {
        ("finished", _) => 1.0,
        (_, 0) => 0.0,
        (_, total) => scan.issued.min(total) as f64 / total as f64,
    }
}
