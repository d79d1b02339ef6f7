//! Latencies of commands, counted in buckets: four steps for each power of two, from two
//! microseconds to half a minute.
//!
//! A quantile is known to an eighth of its value. Counters have 32 bits and may wrap, so a reader
//! looks at their differences, at least once an hour.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Linear steps for each power of two.
const STEPS: u32 = 4;
/// Exponent of the smallest latency, in nanoseconds, that is told from smaller ones.
const SMALLEST: u32 = 11;
/// Exponent of the latency, in nanoseconds, from which all latencies share the last bucket.
const LARGEST: u32 = 35;
/// Number of buckets.
pub const BUCKETS: usize = ((LARGEST - SMALLEST) * STEPS) as usize + 1;

/// Counters of latencies as they stand in the data plane. They wrap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCounts([u32; BUCKETS]);

impl Default for LatencyCounts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl LatencyCounts {
    /// Adds to the counter of each bucket, in their order, with wrapping.
    pub fn add_buckets(&mut self, more: impl Iterator<Item = u32>) {
        for (sum, more) in self.0.iter_mut().zip(more) {
            *sum = sum.wrapping_add(more);
        }
    }
}

/// Latencies of many commands: a list of pairs, each of a bucket and its number of commands.
///
/// Bucket 0 holds latencies below 2.56 µs. Bucket `4 × e + s` holds those from
/// `(4 + s) × 2^(e + 9)` nanoseconds on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(from = "Vec<(usize, u64)>", into = "Vec<(usize, u64)>")]
#[schema(value_type = Vec<Vec<u64>>)]
pub struct Latencies([u64; BUCKETS]);

impl From<Vec<(usize, u64)>> for Latencies {
    fn from(buckets: Vec<(usize, u64)>) -> Self {
        Self::of_buckets(buckets)
    }
}

impl From<Latencies> for Vec<(usize, u64)> {
    fn from(latencies: Latencies) -> Self {
        latencies.buckets().collect()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Latencies {
    /// Adds the commands that were counted between two readings of the same counters.
    pub fn add_between(&mut self, earlier: &LatencyCounts, now: &LatencyCounts) {
        for (at, sum) in self.0.iter_mut().enumerate() {
            *sum += u64::from(now.0[at].wrapping_sub(earlier.0[at]));
        }
    }

    /// Adds latencies.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// Returns the latencies that came after an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[at].saturating_sub(earlier.0[at])
        }))
    }

    /// Returns the number of commands.
    pub fn commands(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of commands that took less than this many nanoseconds. Commands of the
    /// bucket in which the limit lies count in proportion.
    pub fn below(&self, limit_ns: u64) -> u64 {
        let at = bucket(limit_ns);
        let whole: u64 = self.0[..at].iter().sum();
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
            let count = *count as f64;
            if count > 0.0 && before + count >= wanted {
                let (from, to) = bounds(at);
                let within = (wanted - before) / count;
                return Some(from + ((to - from) as f64 * within) as u64);
            }
            before += count;
        }
        None
    }

    /// Returns the buckets that are not empty, each with its number and its commands.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.0.iter().copied().enumerate();
        all.filter(|(_, commands)| *commands > 0)
    }

    /// Makes latencies of buckets, as the inverse of [`Self::buckets`]. Numbers of no bucket are
    /// left out.
    pub fn of_buckets(buckets: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let mut latencies = Self::default();
        for (at, commands) in buckets {
            if let Some(sum) = latencies.0.get_mut(at) {
                *sum += commands;
            }
        }
        latencies
    }
}

/// Returns the number of a latency's bucket.
#[inline]
pub fn bucket(latency_ns: u64) -> usize {
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

    fn latencies_of(latencies: &[u64]) -> Latencies {
        Latencies::of_buckets(latencies.iter().map(|ns| (bucket(*ns), 1)))
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
            let counts = latencies_of(&latencies);
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
        let mut latencies = Latencies::default();
        latencies.add_between(&before, &after);
        assert_eq!(latencies.buckets().collect::<Vec<_>>(), [(3, 5)]);
        assert_eq!(Latencies::of_buckets([(3, 5), (BUCKETS, 1)]), latencies);
        let mut more = latencies.clone();
        more.add(&latencies);
        assert_eq!(more.since(&latencies), latencies);
    }

    #[test]
    fn commands_below_a_limit_are_counted_in_proportion() {
        let counts = latencies_of(&[500, 5_000, 50_000, 500_000]);
        assert_eq!(counts.below(0), 0);
        assert_eq!(counts.below(10_000), 2);
        assert_eq!(counts.below(u64::MAX), 4);
    }
}
