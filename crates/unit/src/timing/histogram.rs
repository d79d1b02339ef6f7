//! Histogram of latencies that one thread counts in and any thread reads.

use std::sync::atomic::{AtomicU32, Ordering};

use model::figures::latency::{BUCKETS, LatencyCounts, bucket};

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
        let buckets = self.0.iter();
        counts.add_buckets(buckets.map(|bucket| bucket.load(Ordering::Relaxed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::figures::latency::Latencies;

    #[test]
    fn readers_add_histograms_up() {
        let (one, other) = (Histogram::default(), Histogram::default());
        [5_000, 5_000, 80_000].iter().for_each(|ns| one.add(*ns));
        other.add(90_000);
        let mut counts = LatencyCounts::default();
        one.add_to(&mut counts);
        other.add_to(&mut counts);
        let mut latencies = Latencies::default();
        latencies.add_between(&LatencyCounts::default(), &counts);
        assert_eq!((latencies.commands(), latencies.below(10_000)), (4, 2));
    }
}
