//! Metrics of whole pools: their state, their space, their caches, and their scrubs and resilvers.

use std::fmt;

use super::daemon::states_of_health;
use super::family::{Exposition, Family, Figure, Labelled, counter, gauge, info};
use model::pool::scan::ScanView;
use model::pool::status::PoolView;

const STATES: [&str; 4] = ["ONLINE", "DEGRADED", "SUSPENDED", "UNAVAIL"];
const SCAN_STATES: [&str; 4] = ["running", "paused", "finished", "canceled"];

const INFO: Family = info(
    "sandstone_pool_info",
    &["pool", "guid"],
    "Describes a pool.",
);
const STATE: Family = gauge(
    "sandstone_pool_state",
    &["pool", "state"],
    "Whether the pool is in this state.",
);
const HEALTH: Family = gauge(
    "sandstone_pool_health",
    &["pool", "state"],
    "Whether the pool is in this state of health: healthy, attention or impaired.",
);
const SCAN_STATE: Family = gauge(
    "sandstone_pool_scan_state",
    &["pool", "scan", "state"],
    "Whether the last scrub or resilver is in this state.",
);
const CACHE_HITS: Family = counter(
    "sandstone_pool_cache_hits_total",
    &["pool", "tier"],
    "Blocks that reads found in this tier since the pool was opened: memory or device.",
);
const CACHE_MISSES: Family = counter(
    "sandstone_pool_cache_misses_total",
    &["pool", "tier"],
    "Blocks that reads did not find in this tier since the pool was opened: memory or device.",
);

/// Figures of pools. Those of a pool that is not open are unknown.
const FIGURES: [Figure<PoolView>; 13] = [
    Figure {
        family: gauge(
            "sandstone_pool_read_only",
            &["pool"],
            "Whether the pool was imported read-only.",
        ),
        of: |pool| Some(pool.is_read_only.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_size_bytes",
            &["pool"],
            "Bytes of all vdevs, parity included.",
        ),
        of: |pool| Some(pool.size.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_allocated_bytes",
            &["pool"],
            "Bytes in use, parity included.",
        ),
        of: |pool| Some(pool.allocated.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_free_bytes",
            &["pool"],
            "Bytes that are free.",
        ),
        of: |pool| Some(pool.free.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_available_bytes",
            &["pool"],
            "Free bytes that data may take, parity included.",
        ),
        of: |pool| Some(pool.available.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_freeing_bytes",
            &["pool"],
            "Freed bytes that become free after two checkpoints.",
        ),
        of: |pool| Some(pool.freeing.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_promised_bytes",
            &["pool"],
            "Sizes of all volumes together: the space that was promised to hosts.",
        ),
        of: |pool| Some(pool.promised.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: gauge(
            "sandstone_pool_full_earliest_seconds",
            &["pool"],
            "Time until the pool is full at the pace of its fast days; absent if it does not fill.",
        ),
        of: |pool| Some(pool.outlook.as_ref()?.earliest_s?.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_full_latest_seconds",
            &["pool"],
            "Time until the pool is full at the pace of its slow days; absent if it does not fill then.",
        ),
        of: |pool| Some(pool.outlook.as_ref()?.latest_s?.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_fragmentation_ratio",
            &["pool"],
            "Share of the free space that lies in small pieces, from 0 to 1.",
        ),
        of: |pool| Some((f64::from(pool.fragmentation?) / 100.0).into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_lost_bytes",
            &["pool"],
            "Bytes of volumes and snapshots without a correct copy, found since the pool was opened or \
             cleared; a lower bound.",
        ),
        of: |pool| {
            let lost: u64 = pool.lost.iter().map(|lost| lost.bytes).sum();
            Some(lost.into()).filter(|_| is_open(pool))
        },
    },
    Figure {
        family: counter(
            "sandstone_pool_single_copies_total",
            &["pool"],
            "Blocks of metadata written without a second copy since the pool was opened, because space \
             was short.",
        ),
        of: |pool| Some(pool.written_once.into()).filter(|_| is_open(pool)),
    },
    Figure {
        family: counter(
            "sandstone_pool_trimmed_bytes_total",
            &["pool"],
            "Bytes that autotrim has trimmed on devices since the pool was opened.",
        ),
        of: |pool| Some(pool.auto_trimmed.into()).filter(|_| is_open(pool)),
    },
];

/// Figures of the last scrub or resilver of a pool.
const SCAN_FIGURES: [Figure<ScanView>; 6] = [
    Figure {
        family: gauge(
            "sandstone_pool_scan_progress_ratio",
            &["pool", "scan"],
            "Finished share of the scrub or resilver, from 0 to 1.",
        ),
        of: |scan| Some(progress(scan).into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_scan_start_timestamp_seconds",
            &["pool", "scan"],
            "Start of the scrub or resilver, in seconds since 1970.",
        ),
        of: |scan| Some(scan.started_s.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_scan_end_timestamp_seconds",
            &["pool", "scan"],
            "End of the scrub or resilver, in seconds since 1970; absent before its end.",
        ),
        of: |scan| Some(scan.ended_s.into()).filter(|_| scan.ended_s > 0),
    },
    Figure {
        family: gauge(
            "sandstone_pool_scan_examined_bytes",
            &["pool", "scan"],
            "Bytes on devices that the scrub or resilver has processed.",
        ),
        of: |scan| Some(scan.issued.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_scan_repaired_bytes",
            &["pool", "scan"],
            "Bytes that the scrub or resilver rewrote because they were bad or missing.",
        ),
        of: |scan| Some(scan.repaired.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_scan_unrecoverable_blocks",
            &["pool", "scan"],
            "Blocks of which the scrub or resilver found no correct copy.",
        ),
        of: |scan| Some(scan.errors.into()),
    },
];

fn is_open(pool: &PoolView) -> bool {
    pool.open_for_us.is_some()
}

pub(super) fn tell(out: &mut Exposition<'_>, pools: &[PoolView]) -> fmt::Result {
    out.family(&INFO, &mut |to| {
        pools
            .iter()
            .try_for_each(|pool| to.describe(&[&pool.name, &pool.guid]))
    })?;
    out.family(&STATE, &mut |to| {
        pools
            .iter()
            .try_for_each(|pool| to.put_states(&[&pool.name], &STATES, &pool.state))
    })?;
    out.family(&HEALTH, &mut |to| {
        pools.iter().try_for_each(|pool| {
            to.put_states(&[&pool.name], &states_of_health(), pool.health().as_str())
        })
    })?;
    let labelled: Vec<_> = pools.iter().map(|pool| (vec![&*pool.name], pool)).collect();
    out.figures(&FIGURES, &labelled)?;
    tell_caches(out, pools)?;
    tell_scans(out, pools)
}

/// Function for hits or misses of a pool in memory, and of one cache vdev.
type OfTiers = (
    fn(&PoolView) -> u64,
    fn(&model::pool::vdev::CacheView) -> u64,
);

fn tell_caches(out: &mut Exposition<'_>, pools: &[PoolView]) -> fmt::Result {
    let hits: OfTiers = (|pool| pool.memory_hits, |cache| cache.hits);
    let misses: OfTiers = (|pool| pool.memory_misses, |cache| cache.misses);
    for (family, (in_memory, on_device)) in [(&CACHE_HITS, hits), (&CACHE_MISSES, misses)] {
        out.family(family, &mut |to| {
            for pool in pools.iter().filter(|pool| is_open(pool)) {
                to.put(&[&pool.name, "memory"], in_memory(pool))?;
                if !pool.caches.is_empty() {
                    let caches = pool.caches.iter().filter_map(|vdev| vdev.cache.as_ref());
                    let count: u64 = caches.map(on_device).sum();
                    to.put(&[&pool.name, "device"], count)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn tell_scans(out: &mut Exposition<'_>, pools: &[PoolView]) -> fmt::Result {
    let scans: Vec<_> = pools
        .iter()
        .filter_map(|pool| {
            let scan = pool.scan_status.as_ref()?;
            Some((vec![&*pool.name, &*scan.kind], scan))
        })
        .collect();
    let scans: &Labelled<'_, ScanView> = &scans;
    out.family(&SCAN_STATE, &mut |to| {
        scans
            .iter()
            .try_for_each(|(labels, scan)| to.put_states(labels, &SCAN_STATES, &scan.state))
    })?;
    out.figures(&SCAN_FIGURES, scans)
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
