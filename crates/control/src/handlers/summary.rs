//! Summaries for the status: work under way, disks, and paths to other machines.

use crate::answer::{DiskSummary, Job, PathSummary};
use model::initiator::view::InitiatorDevice;
use model::pool::scan::ScanView;
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

/// Returns the work of pools that is under way: scrubs, resilvers and trims.
pub(super) fn jobs(pools: &[PoolView]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for pool in pools {
        let scan = pool.scan_status.iter().filter_map(scan);
        let trimmed = leaves(pool).into_iter().filter(|leaf| {
            let trim = leaf.trim.as_ref();
            trim.is_some_and(|trim| trim.state == "running")
        });
        let trims = match trimmed.count() {
            0 => None,
            1 => Some("trim of 1 device".to_owned()),
            count => Some(format!("trim of {count} devices")),
        };
        jobs.extend(scan.chain(trims).map(|text| Job {
            pool: pool.name.clone(),
            text,
        }));
    }
    jobs
}

fn scan(scan: &ScanView) -> Option<String> {
    let percent = scan.issued.saturating_mul(100) / scan.total.max(1);
    let done = format!("{}, {} % done", scan.kind, percent.min(100));
    match scan.state.as_str() {
        "running" => Some(match scan.left_s {
            Some(left_s) => format!("{done}, about {} min left", left_s.div_ceil(60)),
            None => done,
        }),
        "paused" => Some(format!("{done}, paused")),
        _ => None,
    }
}

/// Counts the disks of pools.
pub(super) fn disks(pools: &[PoolView]) -> DiskSummary {
    let mut summary = DiskSummary::default();
    for leaf in pools.iter().flat_map(leaves) {
        summary.all += 1;
        if !matches!(leaf.state.as_str(), "ONLINE" | "AVAIL" | "INUSE") {
            summary.unwell += 1;
        }
    }
    summary
}

fn leaves(pool: &PoolView) -> Vec<&VdevView> {
    let tops = pool.vdevs.iter().chain(&pool.logs);
    let tops = tops.chain(&pool.caches).chain(&pool.spares);
    let all = tops.flat_map(VdevView::all);
    let mut leaves: Vec<&VdevView> = all.filter(|it| it.children.is_empty()).collect();
    // A spare in use also stands at the place of the device that failed.
    let mut names = std::collections::HashSet::new();
    leaves.retain(|leaf| names.insert(&leaf.name));
    leaves
}

/// Counts the paths to disks of other machines.
pub(super) fn paths(devices: &[InitiatorDevice]) -> PathSummary {
    let ways = || devices.iter().flat_map(|device| &device.ways);
    PathSummary {
        devices: devices.len(),
        paths: ways().count(),
        dead: ways().filter(|way| way.reason.is_some()).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &str, state: &str) -> VdevView {
        VdevView {
            name: name.to_owned(),
            state: state.to_owned(),
            ..VdevView::default()
        }
    }

    #[test]
    fn disks_are_counted_once() {
        let pool = PoolView {
            vdevs: vec![VdevView {
                children: vec![
                    leaf("a", "ONLINE"),
                    leaf("b", "FAULTED"),
                    leaf("s", "ONLINE"),
                ],
                ..leaf("mirror-0", "DEGRADED")
            }],
            spares: vec![leaf("s", "INUSE"), leaf("t", "UNAVAIL")],
            ..PoolView::default()
        };
        let expected = DiskSummary { all: 4, unwell: 2 };
        assert_eq!(disks(&[pool]), expected);
    }

    #[test]
    fn a_scan_under_way_is_a_job() {
        let view = |state: &str, left_s| ScanView {
            kind: "scrub".to_owned(),
            state: state.to_owned(),
            issued: 30,
            total: 60,
            left_s,
            ..ScanView::default()
        };
        let told = |state, left_s| scan(&view(state, left_s));
        let running = told("running", Some(61));
        assert_eq!(
            running.as_deref(),
            Some("scrub, 50 % done, about 2 min left")
        );
        assert_eq!(
            told("paused", None).as_deref(),
            Some("scrub, 50 % done, paused")
        );
        assert_eq!(told("finished", None), None);
    }
}
