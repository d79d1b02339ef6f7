//! Rates of the disks of pools, from the same figures as `pool iostat`.

use super::{Activity, Rates};
use crate::pool::iostat::figures::{self, VdevFigures};
use model::pool::status::PoolView;

/// Returns the rates of all disks of pools that are open. A disk that is new since the earlier
/// answer has none yet, and is left out.
pub(crate) fn of_disks(pools: &[PoolView], before: &[PoolView]) -> Vec<Activity> {
    let mut disks = Vec::new();
    for pool in figures::figures(pools, before) {
        let seconds = pool.seconds.unwrap_or_default();
        let sections = [pool.vdevs, pool.logs, pool.caches];
        for vdev in sections.into_iter().flatten().flatten() {
            add_disks(&vdev, seconds, &mut disks);
        }
    }
    disks
}

fn add_disks(vdev: &VdevFigures, seconds: f64, disks: &mut Vec<Activity>) {
    if !vdev.children.is_empty() {
        return vdev
            .children
            .iter()
            .for_each(|child| add_disks(child, seconds, disks));
    }
    let (Some(read), Some(write)) = (vdev.read, vdev.write) else {
        return;
    };
    disks.push(activity(&vdev.name, seconds, read, write));
}

/// Returns the activity of a disk: the device's time is the disk's, the rest is the queue's.
fn activity(name: &str, seconds: f64, read: figures::Rates, write: figures::Rates) -> Activity {
    let (reads, writes) = (rates(read), rates(write));
    let one = |rates: &Rates| Activity {
        reads: rates.clone(),
        ..Activity::default()
    };
    let both = super::hosts::together([&one(&reads), &one(&writes)].into_iter()).reads;
    Activity {
        name: name.to_owned(),
        interval_s: seconds,
        all: both.clone(),
        reads,
        writes,
        both,
        ..Activity::default()
    }
}

fn rates(of: figures::Rates) -> Rates {
    let (total, disk) = (
        of.total_wait_ns.map(|ns| ns as f64),
        of.disk_wait_ns.map(|ns| ns as f64),
    );
    let queue = total.zip(disk).map(|(total, disk)| (total - disk).max(0.0));
    let busy = |ns: Option<f64>| ns.unwrap_or(0.0) * of.operations / 1e9;
    Rates {
        per_s: of.operations,
        bytes_per_s: of.bandwidth,
        latency_ns: total,
        queue_ns: queue,
        device_ns: disk,
        waiting: busy(queue),
        active: busy(disk),
        ..Rates::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::pool::io::{IoCounts, IoView};
    use model::pool::vdev::VdevView;

    #[test]
    fn disks_are_told_without_the_vdevs_that_they_make() {
        let counts = |requests: u64| IoCounts {
            operations: requests,
            bytes: requests * 4096,
            requests,
            disk_wait_us: requests * 100,
            total_wait_us: requests * 150,
        };
        let disk = |name: &str, reads| VdevView {
            name: name.into(),
            io: Some(IoView {
                read: counts(reads),
                write: IoCounts::default(),
            }),
            ..VdevView::default()
        };
        let pool = |open_for_us, reads| PoolView {
            name: "tank".into(),
            open_for_us: Some(open_for_us),
            vdevs: vec![VdevView {
                children: vec![disk("/a", reads), disk("/b", 0)],
                ..disk("mirror-0", reads)
            }],
            ..PoolView::default()
        };
        let told = of_disks(&[pool(3_000_000, 1000)], &[pool(1_000_000, 0)]);
        let names: Vec<&str> = told.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["/a", "/b"]);
        let reads = &told[0].reads;
        assert_eq!((reads.per_s, reads.bytes_per_s), (500.0, 2_048_000.0));
        assert_eq!(reads.latency_ns, Some(150_000.0));
        assert!((reads.active - 0.05).abs() < 1e-9, "{reads:?}");
        assert_eq!(told[1].reads.latency_ns, None);
    }
}
