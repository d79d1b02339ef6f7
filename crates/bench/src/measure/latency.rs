//! Counted latencies: exact count, sum, least and greatest, and an HDR histogram for everything
//! between.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Highest latency of the histogram, in nanoseconds: an hour. Longer ones count as this one; the
/// greatest is exact all the same.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Logarithm of the buckets of a power of two in saved results. Percentiles are taken before, from
/// a histogram 32 times as fine.
const SAVED_PER_OCTAVE_LOG2: u32 = 5;

/// Latencies of one kind of access. Recording a latency costs a few nanoseconds and no memory.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u128,
    square_sum: f64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, 3);
        Self {
            histogram: histogram.expect("bounds in ascending order and three digits are allowed"),
            sum_ns: 0,
            square_sum: 0.0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Latencies {
    /// Counts one access.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns);
        self.sum_ns += u128::from(latency_ns);
        self.square_sum += latency_ns as f64 * latency_ns as f64;
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Adds all latencies of another set.
    pub fn add(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        self.histogram
            .add(&other.histogram)
            .expect("both histograms have the same bounds");
        self.sum_ns += other.sum_ns;
        self.square_sum += other.square_sum;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets everything, keeping the memory.
    pub fn reset(&mut self) {
        if self.count() > 0 {
            self.histogram.reset();
        }
        (self.sum_ns, self.square_sum) = (0, 0.0);
        (self.min_ns, self.max_ns) = (u64::MAX, 0);
    }

    /// Returns the least latency that this share (0 to 100) of the accesses did not exceed, to
    /// within 0.1 %. Returns 0 if nothing was counted.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        // The histogram returns the end of a bucket, which may exceed the greatest latency.
        self.histogram.value_at_percentile(percent).min(self.max_ns)
    }

    /// Returns the mean; 0 if nothing was counted.
    pub fn mean_ns(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum_ns as f64 / count as f64,
        }
    }

    /// Returns the greatest latency; 0 if nothing was counted.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the part of the latencies that is saved.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count(),
            mean_ns: self.mean_ns(),
            max_ns: self.max_ns,
            distribution: (self.count() > 0).then(|| self.distribution()),
        }
    }

    fn distribution(&self) -> Distribution {
        let mean_ns = self.mean_ns();
        let variance = self.square_sum / self.count() as f64 - mean_ns * mean_ns;
        Distribution {
            min_ns: self.min_ns,
            stddev_ns: variance.max(0.0).sqrt(),
            p50_ns: self.percentile_ns(50.0),
            p90_ns: self.percentile_ns(90.0),
            p99_ns: self.percentile_ns(99.0),
            p99_9_ns: self.percentile_ns(99.9),
            p99_99_ns: self.percentile_ns(99.99),
            buckets: self.buckets(),
        }
    }

    fn buckets(&self) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            let end = bucket_end_ns(step.value_iterated_to());
            match buckets.last_mut() {
                Some((last, count)) if *last == end => *count += step.count_at_value(),
                _ => buckets.push((end, step.count_at_value())),
            }
        }
        buckets
    }
}

/// Returns the greatest latency of the saved bucket of a latency.
fn bucket_end_ns(latency_ns: u64) -> u64 {
    let octave = latency_ns.max(1).ilog2();
    let unit = octave.saturating_sub(SAVED_PER_OCTAVE_LOG2);
    (latency_ns >> unit << unit) + ((1 << unit) - 1)
}

/// Latencies as they are shown, saved and compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of accesses.
    pub count: u64,
    /// Mean; 0 if nothing was counted.
    pub mean_ns: f64,
    /// Greatest latency; 0 if nothing was counted.
    pub max_ns: u64,
    /// Distribution; `None` if nothing was counted, or if the measuring tool did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
}

/// Distribution of latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Least latency.
    pub min_ns: u64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Latency that half of all accesses did not exceed.
    pub p50_ns: u64,
    /// Latency that nine of ten accesses did not exceed.
    pub p90_ns: u64,
    /// Latency that 99 of 100 accesses did not exceed.
    pub p99_ns: u64,
    /// Latency that 999 of 1,000 accesses did not exceed.
    pub p99_9_ns: u64,
    /// Latency that 9,999 of 10,000 accesses did not exceed.
    pub p99_99_ns: u64,
    /// Buckets `(greatest latency of the bucket, accesses)`, ascending, without empty ones; 32
    /// buckets for each power of two.
    pub buckets: Vec<(u64, u64)>,
}

impl Distribution {
    /// Reads a percentile (0 to 100) from the saved buckets; the result is at most 1/32 too high.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let total: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        let wanted = (percent / 100.0 * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reaches = |(_, count): &&(u64, u64)| {
            seen += count;
            seen >= wanted
        };
        let found = self.buckets.iter().find(reaches).or(self.buckets.last());
        found.map_or(0, |(end, _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn latencies(of: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        of.iter().for_each(|latency| latencies.record(*latency));
        latencies
    }

    #[test]
    fn nothing_counted_is_all_zeros() {
        assert_eq!(latencies(&[]).summary(), LatencySummary::default());
    }

    #[test]
    fn one_slow_access_in_a_thousand_is_seen() {
        let mut all = vec![1_000_000; 999];
        all.push(500_000_000);
        let summary = latencies(&all).summary();
        let spread = summary.distribution.expect("something was counted");
        assert_eq!((summary.max_ns, spread.min_ns), (500_000_000, 1_000_000));
        assert!(
            (999_000..=1_001_000).contains(&spread.p99_ns),
            "{}",
            spread.p99_ns
        );
        assert!(spread.p99_99_ns > 499_000_000);
        assert_eq!(summary.mean_ns, 1_499_000.0);
        assert_eq!(
            spread.buckets.iter().map(|(_, count)| count).sum::<u64>(),
            1000
        );
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(mut values in prop::collection::vec(1u64..10_000_000_000, 1..300)) {
            let summary = latencies(&values).summary();
            let spread = summary.distribution.as_ref().expect("something was counted");
            values.sort_unstable();
            for (percent, found) in [(50.0, spread.p50_ns), (90.0, spread.p90_ns), (99.0, spread.p99_ns)] {
                let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
                let exact = values[rank.max(1) - 1];
                prop_assert!(found.abs_diff(exact) <= exact / 1000 + 1, "{found} for {exact}");
                let saved = spread.percentile_ns(percent);
                prop_assert!(saved >= exact && saved <= exact + exact / 32 + 1, "{saved} for {exact}");
            }
            prop_assert_eq!(summary.max_ns, values[values.len() - 1]);
            prop_assert_eq!(spread.min_ns, values[0]);
        }

        #[test]
        fn adding_is_recording_all(one in prop::collection::vec(1u64..1_000_000, 0..50), other in prop::collection::vec(1u64..1_000_000, 0..50)) {
            let mut added = latencies(&one);
            added.add(&latencies(&other));
            let both = latencies(&[one, other].concat());
            prop_assert_eq!(added.summary(), both.summary());
            added.reset();
            prop_assert_eq!(added.summary(), LatencySummary::default());
        }
    }
}
