//! Rates of the operations and bytes that were counted between two answers of the control API.

use model::pool::io::{IoCounts, IoView};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;
use serde::Serialize;

/// Figures of a pool in a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PoolFigures {
    /// Length of the span in seconds; `None` if the pool is not open.
    pub(crate) seconds: Option<f64>,
    /// The pool as a whole.
    #[serde(flatten)]
    pub(crate) whole: VdevFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vdevs: Option<Vec<VdevFigures>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logs: Option<Vec<VdevFigures>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) caches: Option<Vec<VdevFigures>>,
}

/// Figures of a pool, a vdev or a device in a report. Unknown figures are `None`: a device has no
/// space of its own, and a pool, vdev or device that is new since the last report has no rate yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct VdevFigures {
    pub(crate) name: String,
    /// Allocated bytes.
    pub(crate) allocated: Option<u64>,
    /// Free bytes.
    pub(crate) free: Option<u64>,
    pub(crate) read: Option<Rates>,
    pub(crate) write: Option<Rates>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<VdevFigures>,
}

/// Rates of one direction: reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// Operations per second.
    pub(crate) operations: f64,
    /// Bytes per second.
    pub(crate) bandwidth: f64,
    /// Average nanoseconds of a device's request, with its time in the queue; `None` without
    /// requests.
    pub(crate) total_wait_ns: Option<u64>,
    /// Average nanoseconds of a device's request, without its time in the queue.
    pub(crate) disk_wait_ns: Option<u64>,
}

impl PoolFigures {
    /// Leaves only the pool as a whole.
    pub(crate) fn leave_out_vdevs(&mut self) {
        (self.vdevs, self.logs, self.caches) = (None, None, None);
    }
}

/// Returns the figures of all pools since an earlier answer. For a pool that was not open then,
/// they count from its opening.
pub(crate) fn figures(pools: &[PoolView], before: &[PoolView]) -> Vec<PoolFigures> {
    let of = |pool: &PoolView| {
        // A pool that was opened again began to count anew.
        let earlier = before.iter().find(|earlier| {
            earlier.guid == pool.guid
                && earlier.open_for_us.is_some()
                && earlier.open_for_us <= pool.open_for_us
        });
        of_pool(pool, earlier)
    };
    pools.iter().map(of).collect()
}

fn of_pool(pool: &PoolView, before: Option<&PoolView>) -> PoolFigures {
    let Some(open_for_us) = pool.open_for_us else {
        let whole = VdevFigures {
            name: pool.name.clone(),
            ..VdevFigures::default()
        };
        return PoolFigures {
            whole,
            ..PoolFigures::default()
        };
    };
    let span_us = open_for_us - before.and_then(|pool| pool.open_for_us).unwrap_or(0);
    let section = |of: fn(&PoolView) -> &Vec<VdevView>| {
        let before = before.map(|pool| &of(pool)[..]);
        Counted::all(of(pool), before)
    };
    let vdevs = section(|pool| &pool.vdevs);
    let logs = section(|pool| &pool.logs);
    let caches = section(|pool| &pool.caches);
    let whole = Counted {
        name: pool.name.clone(),
        allocated: Some(pool.size.saturating_sub(pool.free)),
        free: Some(pool.free),
        // I/O of caches is left out, because their contents were counted at their source.
        io: (vdevs.iter().chain(&logs).filter_map(|vdev| vdev.io)).reduce(IoView::plus),
        children: Vec::new(),
    };
    let rates = |all: Vec<Counted>| all.into_iter().map(|one| one.rates(span_us)).collect();
    PoolFigures {
        seconds: Some(span_us as f64 / 1e6),
        whole: whole.rates(span_us),
        vdevs: Some(rates(vdevs)),
        logs: Some(rates(logs)),
        caches: Some(rates(caches)),
    }
}

/// Counts of a span of time.
struct Counted {
    name: String,
    allocated: Option<u64>,
    free: Option<u64>,
    io: Option<IoView>,
    children: Vec<Counted>,
}

impl Counted {
    /// Returns the counts since `before`, or since the pool was opened.
    fn all(now: &[VdevView], before: Option<&[VdevView]>) -> Vec<Self> {
        let one = |vdev: &VdevView| {
            let earlier = before.map(|all| all.iter().find(|earlier| earlier.name == vdev.name));
            let io = match earlier {
                None => vdev.io,
                Some(None) => None,
                Some(Some(earlier)) => vdev.io.zip(earlier.io).map(|(now, io)| now.since(io)),
            };
            // All vdevs below a new vdev are new, too.
            let below = earlier.map(|earlier| earlier.map_or(&[][..], |vdev| &vdev.children));
            Self {
                name: vdev.name.clone(),
                allocated: vdev.allocated,
                free: vdev.free,
                io,
                children: Self::all(&vdev.children, below),
            }
        };
        now.iter().map(one).collect()
    }

    fn rates(self, span_us: u64) -> VdevFigures {
        let children = self.children.into_iter();
        VdevFigures {
            name: self.name,
            allocated: self.allocated,
            free: self.free,
            read: self.io.map(|io| Rates::of(&io.read, span_us)),
            write: self.io.map(|io| Rates::of(&io.write, span_us)),
            children: children.map(|child| child.rates(span_us)).collect(),
        }
    }
}

impl Rates {
    fn of(counts: &IoCounts, span_us: u64) -> Self {
        let per_second = |count: u64| match span_us {
            0 => 0.0,
            span_us => count as f64 * 1e6 / span_us as f64,
        };
        let mean_ns = |sum_us: u64| {
            let sum_ns = u128::from(sum_us) * 1000;
            let mean = sum_ns.checked_div(u128::from(counts.requests))?;
            u64::try_from(mean).ok()
        };
        Self {
            operations: per_second(counts.operations),
            bandwidth: per_second(counts.bytes),
            total_wait_ns: mean_ns(counts.total_wait_us),
            disk_wait_ns: mean_ns(counts.disk_wait_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64) -> IoCounts {
        IoCounts {
            operations: requests,
            bytes: requests * 4096,
            requests,
            disk_wait_us: requests * 100,
            total_wait_us: requests * 150,
        }
    }

    fn vdev(name: &str, reads: u64, writes: u64) -> VdevView {
        VdevView {
            name: name.to_owned(),
            io: Some(IoView {
                read: counts(reads),
                write: counts(writes),
            }),
            ..VdevView::default()
        }
    }

    fn pool(open_for_us: Option<u64>, vdevs: Vec<VdevView>) -> PoolView {
        PoolView {
            name: "tank".to_owned(),
            guid: "1".to_owned(),
            size: 1000,
            allocated: 500,
            freeing: 100,
            free: 400,
            open_for_us,
            vdevs,
            ..PoolView::default()
        }
    }

    fn rate(rates: Option<Rates>) -> (f64, f64) {
        let rates = rates.expect("a rate");
        (rates.operations, rates.bandwidth)
    }

    #[test]
    fn the_first_report_is_since_the_opening_and_the_next_since_the_last() {
        let before = pool(Some(10_000_000), vec![vdev("/a", 20, 40), vdev("/b", 0, 0)]);
        let first = figures(std::slice::from_ref(&before), &[]);
        assert_eq!(first[0].seconds, Some(10.0));
        assert_eq!(rate(first[0].whole.read), (2.0, 8192.0));
        assert_eq!(rate(first[0].whole.write), (4.0, 16_384.0));
        let now = pool(Some(12_000_000), vec![vdev("/a", 20, 50), vdev("/b", 6, 0)]);
        let next = &figures(&[now], &[before])[0];
        assert_eq!(next.seconds, Some(2.0));
        assert_eq!(rate(next.whole.read), (3.0, 12_288.0));
        assert_eq!(rate(next.whole.write), (5.0, 20_480.0));
        let waits = next
            .whole
            .write
            .map(|of| (of.total_wait_ns, of.disk_wait_ns));
        assert_eq!(waits, Some((Some(150_000), Some(100_000))));
        // Space that was freed and is not free yet is in use.
        assert_eq!(
            (next.whole.allocated, next.whole.free),
            (Some(600), Some(400))
        );
        let vdevs = next.vdevs.as_ref().expect("vdevs");
        assert_eq!(rate(vdevs[0].read), (0.0, 0.0));
        // Nothing was read, so there is no mean.
        assert_eq!(vdevs[0].read.and_then(|of| of.total_wait_ns), None);
    }

    #[test]
    fn what_is_new_has_no_rate_and_spoils_no_sum() {
        let before = pool(Some(10_000_000), vec![vdev("/a", 20, 40)]);
        let mirror = VdevView {
            children: vec![vdev("/a", 20, 40)],
            ..vdev("mirror-0", 1000, 1000)
        };
        let now = pool(Some(11_000_000), vec![mirror, vdev("/b", 5, 5)]);
        let next = &figures(&[now], &[before])[0];
        assert_eq!((next.whole.read, next.whole.write), (None, None));
        let vdevs = next.vdevs.as_ref().expect("vdevs");
        assert!(vdevs.iter().all(|vdev| vdev.read.is_none()));
        assert_eq!(vdevs[0].children[0].read, None);
    }

    #[test]
    fn a_pool_that_was_opened_again_counts_anew_and_one_that_is_closed_does_not() {
        let before = pool(Some(10_000_000), vec![vdev("/a", 20, 40)]);
        let again = pool(Some(1_000_000), vec![vdev("/a", 3, 0)]);
        let next = &figures(&[again], std::slice::from_ref(&before))[0];
        assert_eq!((next.seconds, rate(next.whole.read).0), (Some(1.0), 3.0));
        let closed = pool(None, vec![VdevView::default()]);
        let next = &figures(&[closed], &[before])[0];
        assert_eq!(next.whole.name, "tank");
        assert_eq!(
            (next.seconds, next.whole.free, next.whole.read),
            (None, None, None)
        );
    }
}
