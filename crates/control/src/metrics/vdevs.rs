//! Metrics of the vdevs of pools: states, errors by kind, reads and writes with their times, and
//! the work of logs and caches.

use std::collections::BTreeMap;
use std::fmt;

use super::family::{Exposition, Family, Figure, Samples, counter, gauge, info};
use model::pool::io::IoCounts;
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

/// States of vdevs and devices.
const STATES: [&str; 6] = [
    "ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED",
];
/// States of spares.
const SPARE_STATES: [&str; 3] = ["AVAIL", "INUSE", "UNAVAIL"];

const LABELS: &[&str] = &["pool", "class", "vdev"];
const BY_OP: &[&str] = &["pool", "class", "vdev", "op"];

const INFO: Family = info(
    "sandstone_pool_vdev_info",
    &["pool", "class", "vdev", "parent", "guid"],
    "Describes a vdev or device; its parent is the vdev that it is a part of.",
);
const STATE: Family = gauge(
    "sandstone_pool_vdev_state",
    &["pool", "class", "vdev", "state"],
    "Whether the vdev or device is in this state.",
);
const ERRORS: Family = counter(
    "sandstone_pool_vdev_errors_total",
    &["pool", "class", "vdev", "kind"],
    "Errors since the pool was opened or cleared: reads and writes that failed, and wrong checksums.",
);
const OPERATIONS: Family = counter(
    "sandstone_pool_vdev_operations_total",
    BY_OP,
    "Reads and writes since the pool was opened: requests of a device, blocks of a mirror or raidz.",
);
const BYTES: Family = counter(
    "sandstone_pool_vdev_bytes_total",
    BY_OP,
    "Bytes of the reads and writes since the pool was opened.",
);
const REQUESTS: Family = counter(
    "sandstone_pool_vdev_requests_total",
    BY_OP,
    "Requests of the vdev's devices since the pool was opened, to which the waits belong.",
);
const DISK_WAIT: Family = counter(
    "sandstone_pool_vdev_disk_wait_seconds_total",
    BY_OP,
    "Time from handing requests to devices until the devices answered.",
);
const WAIT: Family = counter(
    "sandstone_pool_vdev_wait_seconds_total",
    BY_OP,
    "Time of the requests, including their time in queues before the devices.",
);

const FIGURES: [Figure<VdevView>; 9] = [
    Figure {
        family: gauge(
            "sandstone_pool_vdev_size_bytes",
            LABELS,
            "Bytes of a top-level vdev, parity included; for a log or cache, its capacity.",
        ),
        of: |vdev| Some((vdev.allocated? + vdev.free?).into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_vdev_allocated_bytes",
            LABELS,
            "Bytes in use of a top-level vdev, log or cache.",
        ),
        of: |vdev| Some(vdev.allocated?.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_vdev_incomplete",
            LABELS,
            "Whether the device lacks data that other devices have.",
        ),
        of: |vdev| vdev.guid.as_ref().map(|_| vdev.is_incomplete.into()),
    },
    Figure {
        family: gauge(
            "sandstone_pool_log_in_use",
            LABELS,
            "Whether durable writes are answered from the log vdev.",
        ),
        of: |vdev| Some(vdev.log.as_ref()?.is_in_use.into()),
    },
    Figure {
        family: counter(
            "sandstone_pool_log_records_total",
            LABELS,
            "Groups of writes on the log vdev since the pool was opened.",
        ),
        of: |vdev| Some(vdev.log.as_ref()?.records.into()),
    },
    Figure {
        family: counter(
            "sandstone_pool_log_bytes_total",
            LABELS,
            "Bytes of the groups of writes on the log vdev since the pool was opened.",
        ),
        of: |vdev| Some(vdev.log.as_ref()?.bytes.into()),
    },
    Figure {
        family: counter(
            "sandstone_pool_log_failures_total",
            LABELS,
            "Times that the log vdev failed since the pool was opened.",
        ),
        of: |vdev| Some(vdev.log.as_ref()?.failures.into()),
    },
    Figure {
        family: counter(
            "sandstone_pool_cache_rejected_total",
            LABELS,
            "Reads of the cache vdev that returned wrong data; the pool answered them.",
        ),
        of: |vdev| Some(vdev.cache.as_ref()?.rejected.into()),
    },
    Figure {
        family: counter(
            "sandstone_pool_cache_written_bytes_total",
            LABELS,
            "Bytes that were written to the cache vdev.",
        ),
        of: |vdev| Some(vdev.cache.as_ref()?.written.into()),
    },
];

/// A vdev or device with its place in the pool.
struct Placed<'a> {
    pool: &'a str,
    /// Class of the vdev: data, log, cache or spare.
    class: &'static str,
    /// Name of the vdev that it is a part of; empty for a top-level vdev.
    parent: &'a str,
    vdev: &'a VdevView,
}

impl<'a> Placed<'a> {
    fn labels(&self) -> [&'a str; 3] {
        [self.pool, self.class, &self.vdev.name]
    }
}

/// Returns all vdevs and devices of pools, each once. If several leaves without a device once had
/// one path, only the first is returned.
fn placed(pools: &[PoolView]) -> Vec<Placed<'_>> {
    let mut all = BTreeMap::new();
    for pool in pools {
        for (class, vdevs) in [
            ("data", &pool.vdevs),
            ("log", &pool.logs),
            ("cache", &pool.caches),
            ("spare", &pool.spares),
        ] {
            let mut to_place: Vec<(&str, &VdevView)> =
                vdevs.iter().map(|vdev| ("", vdev)).collect();
            while let Some((parent, vdev)) = to_place.pop() {
                let key = (&*pool.name, class, &*vdev.name);
                all.entry(key).or_insert(Placed {
                    pool: &pool.name,
                    class,
                    parent,
                    vdev,
                });
                let children = vdev.children.iter().rev();
                to_place.extend(children.map(|child| (&*vdev.name, child)));
            }
        }
    }
    all.into_values().collect()
}

pub(super) fn tell(out: &mut Exposition<'_>, pools: &[PoolView]) -> fmt::Result {
    let all = placed(pools);
    out.family(&INFO, &mut |to| {
        all.iter().try_for_each(|of| {
            let guid = of.vdev.guid.as_deref().unwrap_or_default();
            to.describe(&[of.pool, of.class, &of.vdev.name, of.parent, guid])
        })
    })?;
    out.family(&STATE, &mut |to| {
        all.iter().try_for_each(|of| {
            let states: &[&str] = match of.class {
                "spare" => &SPARE_STATES,
                _ => &STATES,
            };
            to.put_states(&of.labels(), states, &of.vdev.state)
        })
    })?;
    out.family(&ERRORS, &mut |to| {
        // A spare that works has a leaf of its own elsewhere, which counts.
        all.iter()
            .filter(|of| of.class != "spare")
            .try_for_each(|of| {
                for (kind, count) in [
                    ("read", of.vdev.read),
                    ("write", of.vdev.write),
                    ("checksum", of.vdev.checksum),
                ] {
                    put(to, of, kind, count)?;
                }
                Ok(())
            })
    })?;
    tell_io(out, &all)?;
    let labelled: Vec<_> = all
        .iter()
        .map(|of| (of.labels().to_vec(), of.vdev))
        .collect();
    out.figures(&FIGURES, &labelled)
}

/// Function for a count of reads or writes.
type OfCounts = fn(&IoCounts) -> u64;

fn tell_io(out: &mut Exposition<'_>, all: &[Placed<'_>]) -> fmt::Result {
    let counts: [(&'static Family, OfCounts); 3] = [
        (&OPERATIONS, |io| io.operations),
        (&BYTES, |io| io.bytes),
        (&REQUESTS, |io| io.requests),
    ];
    for (family, count) in counts {
        out.family(family, &mut |to| {
            directions(all).try_for_each(|(of, op, io)| put(to, of, op, count(io)))
        })?;
    }
    let waits: [(&'static Family, OfCounts); 2] = [
        (&DISK_WAIT, |io| io.disk_wait_us),
        (&WAIT, |io| io.total_wait_us),
    ];
    for (family, wait_us) in waits {
        out.family(family, &mut |to| {
            directions(all).try_for_each(|(of, op, io)| put(to, of, op, wait_us(io) as f64 / 1e6))
        })?;
    }
    Ok(())
}

fn put(
    to: &mut Samples<'_>,
    of: &Placed<'_>,
    last_label: &str,
    value: impl Into<super::family::Number>,
) -> fmt::Result {
    let [pool, class, vdev] = of.labels();
    to.put(&[pool, class, vdev, last_label], value)
}

/// Returns reads and writes of all vdevs that have counts.
fn directions<'a>(
    all: &'a [Placed<'a>],
) -> impl Iterator<Item = (&'a Placed<'a>, &'static str, &'a IoCounts)> {
    let with_io = all.iter().filter_map(|of| Some((of, of.vdev.io.as_ref()?)));
    with_io.flat_map(|(of, io)| [(of, "read", &io.read), (of, "write", &io.write)])
}
