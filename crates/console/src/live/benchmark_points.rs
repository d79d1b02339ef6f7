//! Points of a benchmark's charts: accesses per second and their latency, one a second while the
//! benchmark runs.

use ::bench::measure::window::Second;
use ::benchmarks::{BenchmarkView, MEASURING};

use super::points::Point;

/// Numbers of the values of a point.
pub(crate) mod value {
    /// Accesses per second.
    pub(crate) const ACCESSES: usize = 0;
    /// 99th percentile of their latency in milliseconds.
    pub(crate) const P99: usize = 1;
}

/// Point of the charts of a benchmark.
pub(crate) type BenchmarkPoint = Point<2>;

/// Returns the points of the measurement under way, whose last second ends now.
pub(crate) fn so_far(seconds: &[Second], now_ms: u64) -> Vec<BenchmarkPoint> {
    let ages = (0..seconds.len() as u64).rev();
    let points = seconds.iter().zip(ages).map(|(second, age)| {
        let accesses = second.reads + second.writes;
        let p99_ms = second.p99_ns as f64 / 1e6;
        point(now_ms.saturating_sub(age * 1000), accesses, p99_ms)
    });
    points.collect()
}

/// Returns the point of the last second. It has no values while nothing is measured. There is none
/// once the benchmark is over.
pub(crate) fn latest(view: &BenchmarkView, now_ms: u64) -> Option<BenchmarkPoint> {
    let progress = view.progress.as_ref()?;
    match progress.phase == MEASURING && progress.seconds > 0 {
        true => Some(point(now_ms, progress.iops, progress.p99_ms)),
        false => Some(Point {
            at_ms: now_ms,
            ..Point::default()
        }),
    }
}

fn point(at_ms: u64, accesses: u64, p99_ms: f64) -> BenchmarkPoint {
    let mut point = Point {
        at_ms,
        ..Point::default()
    };
    point.values[value::ACCESSES] = Some(accesses as f64);
    point.values[value::P99] = (accesses > 0).then_some(p99_ms);
    point
}

#[cfg(test)]
mod tests {
    use ::benchmarks::ProgressView;

    use super::*;

    fn running(phase: &str, seconds: u64) -> BenchmarkView {
        BenchmarkView {
            progress: Some(ProgressView {
                phase: phase.to_owned(),
                seconds,
                iops: 20,
                p99_ms: 0.5,
                ..ProgressView::default()
            }),
            ..BenchmarkView::default()
        }
    }

    #[test]
    fn the_last_second_ends_now_and_one_without_accesses_has_no_latency() {
        let busy = Second {
            reads: 3,
            writes: 4,
            p99_ns: 2_000_000,
            ..Second::default()
        };
        let points = so_far(&[busy, Second::default()], 10_000);
        let told: Vec<_> = points.iter().map(|it| (it.at_ms, it.values)).collect();
        assert_eq!(
            told,
            [(9_000, [Some(7.0), Some(2.0)]), (10_000, [Some(0.0), None])]
        );
    }

    #[test]
    fn what_is_not_measured_is_a_gap_and_a_benchmark_that_is_over_has_no_point() {
        let values = |view| latest(&view, 1).map(|it| it.values);
        assert_eq!(values(running(MEASURING, 1)), Some([Some(20.0), Some(0.5)]));
        // The figures are those of the measurement before.
        assert_eq!(values(running(MEASURING, 0)), Some([None, None]));
        assert_eq!(values(running("ramping up", 9)), Some([None, None]));
        assert_eq!(values(BenchmarkView::default()), None);
    }
}
