//! Histograms of latencies: four steps for each power of two, from a microsecond to half a minute.
//!
//! A quantile is known to an eighth of its value. Counters have 32 bits and may wrap, so a reader
//! looks at their differences, at least once an hour.

use std::sync::atomic::{AtomicU32, Ordering};

/// Linear steps for each power of two.
const STEPS: u32 = 4;
/// Exponent of the smallest latency, in nanoseconds, that is told from smaller ones.
const SMALLEST: u32 = 10;
/// Exponent of the latency, in nanoseconds, from which all latencies share the last bucket.
const LARGEST: u32 = 35;
/// Number of buckets.
pub const BUCKETS: usize = ((LARGEST - SMALLEST) * STEPS) as usize + 1;

/// Histogram that one thread counts in and any thread reads.
#[derive(Debug)]
pub struct Histogram([AtomicU32; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; BUCKETS])
    }
}

impl Histogram {
    /// Counts a latency. Only one thread may call this.
    #[inline]
    pub fn add(&self, latency_ns: u64) {
        let bucket = &self.0[bucket(latency_ns)];
        // With one writer, a plain store loses nothing, and costs less than an atomic addition.
        bucket.store(
            bucket.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    /// Adds the counters to `counts`, with wrapping.
    pub fn add_to(&self, counts: &mut LatencyCounts) {
        for (sum, bucket) in counts.0.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(bucket.load(Ordering::Relaxed));
        }
    }
}

/// Counters of latencies at one moment, or between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCounts([u32; BUCKETS]);

impl Default for LatencyCounts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl LatencyCounts {
    /// Returns the counters since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[at].wrapping_sub(earlier.0[at])
        }))
    }

    /// Adds counters.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum = sum.wrapping_add(*more);
        }
    }

    /// Returns the number of commands.
    pub fn commands(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the number of commands that took less than this many nanoseconds. Commands of the
    /// bucket in which the limit lies count in proportion.
    pub fn below(&self, limit_ns: u64) -> u64 {
        let at = bucket(limit_ns);
        let whole: u64 = self.0[..at].iter().map(|count| u64::from(*count)).sum();
        let (from, to) = bounds(at);
        let part = u128::from(limit_ns.saturating_sub(from)) * u128::from(self.0[at]);
        whole + (part / u128::from((to - from).max(1))).min(u128::from(self.0[at])) as u64
    }

    /// Returns the latency in nanoseconds that this share of the commands did not exceed. The value
    /// lies within its bucket, in proportion. Returns `None` if there were no commands.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let commands = self.commands();
        if commands == 0 {
            return None;
        }
        let wanted = (share.clamp(0.0, 1.0) * commands as f64).max(1.0);
        let mut before = 0.0;
        for (at, count) in self.0.iter().enumerate() {
            let count = f64::from(*count);
            if count > 0.0 && before + count >= wanted {
                let (from, to) = bounds(at);
                let within = (wanted - before) / count;
                return Some(from + ((to - from) as f64 * within) as u64);
            }
            before += count;
        }
        None
    }
}

/// Returns the number of a latency's bucket.
#[inline]
fn bucket(latency_ns: u64) -> usize {
    let exponent = latency_ns.max(1).ilog2();
    if exponent < SMALLEST {
        return 0;
    }
    let step = (latency_ns >> (exponent - STEPS.ilog2())) as u32 - STEPS;
    let bucket = (exponent - SMALLEST) * STEPS + step;
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the bounds of a bucket in nanoseconds. The last bucket has no upper bound, and is given
/// the width of the one before.
fn bounds(bucket: usize) -> (u64, u64) {
    let lower = |bucket: usize| {
        let (exponent, step) = (bucket as u32 / STEPS + SMALLEST, bucket as u32 % STEPS);
        u64::from(STEPS + step) << (exponent - STEPS.ilog2())
    };
    let from = if bucket == 0 { 0 } else { lower(bucket) };
    (from, lower(bucket + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts_of(latencies: &[u64]) -> LatencyCounts {
        let histogram = Histogram::default();
        latencies.iter().for_each(|ns| histogram.add(*ns));
        let mut counts = LatencyCounts::default();
        histogram.add_to(&mut counts);
        counts
    }

    proptest! {
        #[test]
        fn a_latency_lies_within_the_bounds_of_its_bucket(latency_ns in 0u64..1 << 35) {
            let (from, to) = bounds(bucket(latency_ns));
            prop_assert!((from..to).contains(&latency_ns), "{latency_ns}: {from} to {to}");
            prop_assert!(from == 0 || (to - from) * 4 <= from, "{from} to {to}");
        }

        #[test]
        fn a_quantile_lies_in_the_bucket_of_the_true_one(
            mut latencies in prop::collection::vec(0u64..1 << 34, 1..200),
            share in 0.0f64..=1.0,
        ) {
            let counts = counts_of(&latencies);
            latencies.sort_unstable();
            let rank = ((share * latencies.len() as f64).max(1.0).ceil() as usize).min(latencies.len());
            let (from, to) = bounds(bucket(latencies[rank - 1]));
            let quantile = counts.quantile_ns(share).expect("commands");
            prop_assert!((from..=to).contains(&quantile), "{quantile}: {from} to {to}");
        }
    }

    #[test]
    fn buckets_are_as_many_as_they_need_to_be() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket((1 << 35) - 1), BUCKETS - 2);
        let all: std::collections::BTreeSet<usize> =
            (0..BUCKETS).map(|at| bucket(bounds(at).0)).collect();
        assert_eq!(all.len(), BUCKETS);
    }

    #[test]
    fn differences_hold_when_counters_wrap() {
        let mut before = LatencyCounts::default();
        before.0[3] = u32::MAX - 1;
        let mut after = before.clone();
        after.0[3] = after.0[3].wrapping_add(5);
        assert_eq!(after.since(&before).commands(), 5);
    }

    #[test]
    fn commands_below_a_limit_are_counted_in_proportion() {
        let counts = counts_of(&[500, 5_000, 50_000, 500_000]);
        assert_eq!(counts.below(0), 0);
        assert_eq!(counts.below(10_000), 2);
        assert_eq!(counts.below(u64::MAX), 4);
    }
}
