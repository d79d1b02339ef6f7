//! Metrics of the vdevs of pools: errors by kind, reads and writes, and the space of logs and
//! caches.

use std::collections::BTreeMap;

use super::exposition::{Exposition, MetricKind};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

/// A vdev or device with its place in the pool.
struct Placed<'a> {
    pool: &'a str,
    /// Class of the vdev: data, log, cache or spare.
    class: &'static str,
    vdev: &'a VdevView,
}

impl Placed<'_> {
    fn labels(&self) -> [(&str, &str); 3] {
        [
            ("pool", self.pool),
            ("class", self.class),
            ("vdev", &self.vdev.name),
        ]
    }
}

/// Returns all vdevs and devices of open pools, each once. If several leaves without a device once
/// had one path, only the first is returned.
fn placed(pools: &[PoolView]) -> Vec<Placed<'_>> {
    let mut all = BTreeMap::new();
    for pool in pools {
        let classes = [
            ("data", &pool.vdevs),
            ("log", &pool.logs),
            ("cache", &pool.caches),
            ("spare", &pool.spares),
        ];
        for (class, vdevs) in classes {
            for vdev in vdevs.iter().flat_map(VdevView::all) {
                let key = (&*pool.name, class, &*vdev.name);
                all.entry(key).or_insert(Placed {
                    pool: &pool.name,
                    class,
                    vdev,
                });
            }
        }
    }
    all.into_values().collect()
}

/// Function for a figure of a vdev. It returns `None` if the vdev has no such figure.
type OfVdev = fn(&VdevView) -> Option<u64>;

pub(super) fn tell(out: &mut Exposition, pools: &[PoolView]) {
    let all = placed(pools);
    out.family(
        "sandstone_pool_vdev_errors_total",
        MetricKind::Counter,
        "Errors since the pool was opened or cleared: reads and writes that failed, and wrong checksums.",
    );
    for of in all.iter().filter(|of| of.class != "spare") {
        let kinds = [
            ("read", of.vdev.read),
            ("write", of.vdev.write),
            ("checksum", of.vdev.checksum),
        ];
        for (kind, count) in kinds {
            let [pool, class, vdev] = of.labels();
            out.sample(&[pool, class, vdev, ("kind", kind)], count);
        }
    }
    for (name, kind, help, value) in FAMILIES {
        out.family(name, kind, help);
        for of in &all {
            if let Some(value) = value(of.vdev) {
                out.sample(&of.labels(), value);
            }
        }
    }
}

const FAMILIES: [(&str, MetricKind, &str, OfVdev); 16] = [
    (
        "sandstone_pool_vdev_online",
        MetricKind::Gauge,
        "Whether the vdev or device is online; for a spare, whether it is available or in use.",
        |of| Some(matches!(&*of.state, "ONLINE" | "AVAIL" | "INUSE").into()),
    ),
    (
        "sandstone_pool_vdev_size_bytes",
        MetricKind::Gauge,
        "Bytes of a top-level vdev, parity included; for a log or cache, its capacity.",
        |of| Some(of.allocated? + of.free?),
    ),
    (
        "sandstone_pool_vdev_allocated_bytes",
        MetricKind::Gauge,
        "Bytes in use of a top-level vdev, log or cache.",
        |of| of.allocated,
    ),
    (
        "sandstone_pool_vdev_reads_total",
        MetricKind::Counter,
        "Reads since the pool was opened: requests of a device, blocks of a mirror or raidz.",
        |of| Some(of.io?.read.operations),
    ),
    (
        "sandstone_pool_vdev_read_bytes_total",
        MetricKind::Counter,
        "Bytes of the reads since the pool was opened.",
        |of| Some(of.io?.read.bytes),
    ),
    (
        "sandstone_pool_vdev_writes_total",
        MetricKind::Counter,
        "Writes since the pool was opened: requests of a device, blocks of a mirror or raidz.",
        |of| Some(of.io?.write.operations),
    ),
    (
        "sandstone_pool_vdev_written_bytes_total",
        MetricKind::Counter,
        "Bytes of the writes since the pool was opened.",
        |of| Some(of.io?.write.bytes),
    ),
    (
        "sandstone_pool_log_in_use",
        MetricKind::Gauge,
        "Whether durable writes are answered from the log vdev.",
        |of| Some(of.log.as_ref()?.is_in_use.into()),
    ),
    (
        "sandstone_pool_log_records_total",
        MetricKind::Counter,
        "Groups of writes on the log vdev since the pool was opened.",
        |of| Some(of.log.as_ref()?.records),
    ),
    (
        "sandstone_pool_log_written_bytes_total",
        MetricKind::Counter,
        "Bytes of the groups of writes on the log vdev since the pool was opened.",
        |of| Some(of.log.as_ref()?.bytes),
    ),
    (
        "sandstone_pool_log_failures_total",
        MetricKind::Counter,
        "Times that the log vdev failed since the pool was opened.",
        |of| Some(of.log.as_ref()?.failures),
    ),
    (
        "sandstone_pool_cache_hits_total",
        MetricKind::Counter,
        "Reads that the cache vdev answered since the pool was opened.",
        |of| Some(of.cache.as_ref()?.hits),
    ),
    (
        "sandstone_pool_cache_misses_total",
        MetricKind::Counter,
        "Reads that were neither in memory nor on the cache vdev.",
        |of| Some(of.cache.as_ref()?.misses),
    ),
    (
        "sandstone_pool_cache_rejected_total",
        MetricKind::Counter,
        "Reads of the cache vdev that returned wrong data; the pool answered them.",
        |of| Some(of.cache.as_ref()?.rejected),
    ),
    (
        "sandstone_pool_cache_written_bytes_total",
        MetricKind::Counter,
        "Bytes that were written to the cache vdev.",
        |of| Some(of.cache.as_ref()?.written),
    ),
    (
        "sandstone_pool_vdev_incomplete",
        MetricKind::Gauge,
        "Whether the device lacks data that other devices have.",
        |of| of.guid.as_ref().map(|_| of.is_incomplete.into()),
    ),
];
