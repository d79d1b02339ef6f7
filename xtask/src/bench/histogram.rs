//! Latency histogram: 32 linear steps in each power of two of nanoseconds, so within 3 %.

const STEPS_LOG2: u32 = 5;
const STEPS: u64 = 1 << STEPS_LOG2;
const BUCKETS: usize = 64 << STEPS_LOG2;

/// Counts of transfers by latency.
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    /// Counts one transfer.
    pub(crate) fn record(&mut self, latency_ns: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(latency_ns)) {
            *count += 1;
        }
        self.total += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the latency that `share` (0 to 1) of the transfers did not exceed, in microseconds,
    /// or 0 if nothing was counted.
    pub(crate) fn percentile_us(&self, share: f64) -> f64 {
        let wanted = (share * self.total as f64) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen > wanted {
                return floor_ns(bucket) as f64 / 1000.0;
            }
        }
        0.0
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let top = ns.ilog2();
    let octave = (top - STEPS_LOG2 + 1) as usize;
    (octave << STEPS_LOG2) + ((ns >> (top - STEPS_LOG2)) - STEPS) as usize
}

/// Returns the smallest latency that falls into the bucket.
fn floor_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    ((bucket & (STEPS - 1)) + STEPS) << ((bucket >> STEPS_LOG2) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_within_three_percent() {
        let mut last = 0;
        for ns in 0..200_000_u64 {
            let bucket = bucket_of(ns);
            assert!(bucket == last || bucket == last + 1, "{ns}");
            last = bucket;
            let floor = floor_ns(bucket);
            assert!(
                floor <= ns && (ns - floor) as f64 <= ns as f64 * 0.032,
                "{ns} {floor}"
            );
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentiles_come_from_the_counts() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile_us(0.5), 0.0);
        for us in 1..=100 {
            histogram.record(us * 1000);
        }
        assert_eq!(histogram.total(), 100);
        let p50 = histogram.percentile_us(0.5);
        assert!((49.0..=51.5).contains(&p50), "{p50}");
        let p99 = histogram.percentile_us(0.99);
        assert!((96.0..=100.0).contains(&p99), "{p99}");
    }
}
