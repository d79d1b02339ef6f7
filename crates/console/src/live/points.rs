//! Points of the charts: one a second, for five minutes.

use std::collections::VecDeque;
use std::fmt::Write as _;

use model::figures::latency::Latencies;
use model::figures::{KindSums, LatencyByStage, PortGroupSnapshot, Snapshot};

use super::rates::{Rates, quantile_us};

/// Points that are kept, one for each second.
pub(crate) const KEPT: usize = 300;
/// Number of values of a point of the overview.
pub(crate) const VALUES: usize = 14;

/// Point of the charts. Values that are not known are `None`: without commands there is no latency.
///
/// The values of the overview are: reads and writes per second, MiB read and written per second;
/// then in milliseconds the medians and the 99th percentiles, each whole and of the four stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point<const N: usize = VALUES> {
    /// Time in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Values in their order.
    pub(crate) values: [Option<f64>; N],
}

impl<const N: usize> Default for Point<N> {
    fn default() -> Self {
        Self {
            at_ms: 0,
            values: [None; N],
        }
    }
}

/// Numbers of the first values.
pub(crate) mod value {
    /// Reads and writes per second.
    pub(crate) const COMMANDS: usize = 0;
    /// MiB per second, read and written.
    pub(crate) const BYTES: usize = 2;
    /// Medians.
    pub(crate) const P50: usize = 4;
    /// 99th percentiles.
    pub(crate) const P99: usize = 9;
}

impl Point {
    /// Returns the point of the time between two snapshots.
    pub(crate) fn between(before: &Snapshot, now: &Snapshot) -> Self {
        let at_ms = now.began_unix_ms + now.at_us / 1000;
        let seconds = now.at_us.saturating_sub(before.at_us) as f64 / 1e6;
        if seconds <= 0.0 {
            return Self {
                at_ms,
                values: [None; VALUES],
            };
        }
        let mut sums = (KindSums::default(), KindSums::default());
        let mut stages: [Latencies; 5] = Default::default();
        for group in &now.port_groups {
            let is_same = |it: &&PortGroupSnapshot| {
                it.portal_group == group.portal_group && it.target == group.target
            };
            let Some(earlier) = before.port_groups.iter().find(is_same) else {
                continue;
            };
            add(&mut sums.0, &earlier.sums);
            add(&mut sums.1, &group.sums);
            for (now, earlier) in [
                (&group.reads_by_stage, &earlier.reads_by_stage),
                (&group.writes_by_stage, &earlier.writes_by_stage),
            ] {
                let pairs = all(now).into_iter().zip(all(earlier));
                for (sum, (now, earlier)) in stages.iter_mut().zip(pairs) {
                    sum.add(&now.since(earlier));
                }
            }
        }
        let rates = Rates::between(&sums.0, &sums.1, seconds);
        let mib = |bytes: u64, before: u64| {
            Some(bytes.saturating_sub(before) as f64 / seconds / f64::from(1 << 20))
        };
        let mut values = [None; VALUES];
        values[value::COMMANDS] = Some(rates.reads);
        values[value::COMMANDS + 1] = Some(rates.writes);
        values[value::BYTES] = mib(sums.1.reads.bytes, sums.0.reads.bytes);
        values[value::BYTES + 1] = mib(sums.1.writes.bytes, sums.0.writes.bytes);
        for (at, latencies) in stages.iter().enumerate() {
            let ms = |share| quantile_us(latencies, share).map(|us| us / 1000.0);
            values[value::P50 + at] = ms(0.5);
            values[value::P99 + at] = ms(0.99);
        }
        Self { at_ms, values }
    }
}

impl<const N: usize> Point<N> {
    /// Writes the values as JSON, with four significant digits.
    fn json(&self) -> String {
        let values = self.values.iter().map(|value| match value {
            None => "null".to_owned(),
            Some(value) if *value >= 1000.0 => format!("{value:.0}"),
            Some(value) if *value >= 10.0 => format!("{value:.1}"),
            Some(value) => format!("{value:.3}"),
        });
        format!("[{}]", values.collect::<Vec<_>>().join(","))
    }
}

/// Writes points as an event of a stream.
pub(crate) fn write_event<const N: usize>(points: &[Point<N>], out: &mut String) {
    let times: Vec<String> = points.iter().map(|it| it.at_ms.to_string()).collect();
    let values: Vec<String> = points.iter().map(Point::json).collect();
    // Writing to a text cannot fail.
    let _ = write!(
        out,
        "event: points\ndata: {{\"t\":[{}],\"v\":[{}]}}\n\n",
        times.join(","),
        values.join(",")
    );
}

fn all(by_stage: &LatencyByStage) -> [&Latencies; 5] {
    let LatencyByStage {
        whole,
        wire_in,
        queue,
        device,
        reply,
    } = by_stage;
    [whole, wire_in, queue, device, reply]
}

fn add(sum: &mut KindSums, more: &KindSums) {
    sum.reads = sum.reads.plus(&more.reads);
    sum.writes = sum.writes.plus(&more.writes);
}

/// The latest points.
#[derive(Debug, Default)]
pub(crate) struct Points(VecDeque<Point>);

impl Points {
    /// Adds a point, and forgets the oldest beyond the limit.
    pub(crate) fn add(&mut self, point: Point) {
        self.0.push_back(point);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// Returns the points, the oldest first.
    pub(crate) fn all(&self) -> Vec<Point> {
        self.0.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(reads: u64) -> PortGroupSnapshot {
        let mut group = PortGroupSnapshot {
            target: "iqn.a".to_owned(),
            portal_group: 1,
            ..Default::default()
        };
        group.sums.reads.commands = reads;
        group.sums.reads.bytes = reads << 20;
        // Bucket 28 holds latencies of about a quarter of a millisecond.
        group.reads_by_stage.device = Latencies::of_buckets([(28, reads)]);
        group
    }

    fn snapshot(at_us: u64, reads: Option<u64>) -> Snapshot {
        Snapshot {
            began_unix_ms: 1_000,
            at_us,
            port_groups: reads.map(group).into_iter().collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_point_is_what_one_second_brought() {
        let point = Point::between(
            &snapshot(1_000_000, Some(10)),
            &snapshot(3_000_000, Some(30)),
        );
        assert_eq!(point.at_ms, 4_000);
        assert_eq!(point.values[value::COMMANDS], Some(10.0));
        assert_eq!(point.values[value::BYTES], Some(10.0));
        let device = point.values[value::P50 + 3].expect("a latency");
        assert!((0.2..0.3).contains(&device), "{device}");
        assert_eq!(point.values[value::P99 + 4], None, "no reply was counted");
    }

    #[test]
    fn a_group_that_is_new_and_a_standing_clock_have_no_rate() {
        let new = Point::between(&snapshot(0, None), &snapshot(1_000_000, Some(30)));
        assert_eq!(new.values[value::COMMANDS], Some(0.0));
        let standing = Point::between(&snapshot(5, Some(1)), &snapshot(5, Some(9)));
        assert_eq!(standing.values, [None; VALUES]);
        assert!(standing.json().starts_with("[null,null,"));
    }

    #[test]
    fn only_the_latest_points_are_kept() {
        let mut points = Points::default();
        for at_ms in 0..1000 {
            points.add(Point {
                at_ms,
                ..Point::default()
            });
        }
        let all = points.all();
        assert_eq!((all.len(), all[0].at_ms), (KEPT, 700));
    }
}
