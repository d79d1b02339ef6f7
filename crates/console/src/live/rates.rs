//! Rates: what happened between two snapshots, for each second and for each command.

use model::figures::latency::Latencies;
use model::figures::{CommandSums, KindSums, STAGES};

use crate::format::{mib, ms, rate};

/// Rates of a unit, a session, a host or a port group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Commands per second.
    pub(crate) commands: f64,
    /// Bytes per second, read and written.
    pub(crate) bytes: f64,
    /// READ commands per second.
    pub(crate) reads: f64,
    /// WRITE commands per second.
    pub(crate) writes: f64,
    /// Mean time of a read or write in microseconds; `None` without one.
    pub(crate) mean_us: Option<f64>,
    /// Mean time in each stage in microseconds.
    pub(crate) stages_us: Option<[f64; STAGES]>,
    /// Half of the reads and writes took at most this, in microseconds.
    pub(crate) p50_us: Option<f64>,
    /// Ninety-nine of a hundred reads and writes took at most this, in microseconds.
    pub(crate) p99_us: Option<f64>,
}

impl Rates {
    /// Returns the rates between two sums, `seconds` apart.
    pub(crate) fn between(before: &KindSums, now: &KindSums, seconds: f64) -> Self {
        let (reads, writes) = (
            now.reads.since(&before.reads),
            now.writes.since(&before.writes),
        );
        let others = now.others.since(&before.others);
        let moved = reads.plus(&writes);
        let seconds = seconds.max(f64::MIN_POSITIVE);
        let per_second = |count: u64| count as f64 / seconds;
        Self {
            commands: per_second(moved.commands + others.commands),
            bytes: per_second(moved.bytes),
            reads: per_second(reads.commands),
            writes: per_second(writes.commands),
            mean_us: mean_us(moved.latency_ns(), &moved),
            stages_us: (moved.commands > 0).then(|| {
                let stages = moved.stages_ns();
                stages.map(|ns| ns as f64 / moved.commands as f64 / 1000.0)
            }),
            p50_us: None,
            p99_us: None,
        }
    }

    /// Adds the quantiles of latencies.
    pub(crate) fn with_quantiles(self, latencies: &Latencies) -> Self {
        Self {
            p50_us: quantile_us(latencies, 0.5),
            p99_us: quantile_us(latencies, 0.99),
            ..self
        }
    }

    /// Returns the live figures, each with its text: commands, throughput, mean, p50, p99, and the
    /// stages.
    pub(crate) fn figures(&self) -> [(Option<f64>, String); 9] {
        let of_us = |us: Option<f64>| (us, ms(us));
        let stage = |at: usize| of_us(self.stages_us.map(|stages| stages[at]));
        [
            (Some(self.commands), rate(self.commands)),
            (Some(self.bytes), mib(self.bytes)),
            of_us(self.mean_us),
            of_us(self.p50_us),
            of_us(self.p99_us),
            stage(0),
            stage(1),
            stage(2),
            stage(3),
        ]
    }
}

/// Numbers of the live figures among those of [`Rates::figures`].
pub(crate) mod place {
    /// Commands per second.
    pub(crate) const COMMANDS: usize = 0;
    /// MiB per second.
    pub(crate) const BYTES: usize = 1;
    /// Mean time of a read or write.
    pub(crate) const MEAN: usize = 2;
    /// Median.
    pub(crate) const P50: usize = 3;
    /// 99th percentile.
    pub(crate) const P99: usize = 4;
    /// First of the four stages.
    pub(crate) const STAGES: usize = 5;
}

/// Returns a quantile in microseconds.
pub(crate) fn quantile_us(latencies: &Latencies, share: f64) -> Option<f64> {
    let ns = latencies.quantile_ns(share)?;
    Some(ns as f64 / 1000.0)
}

fn mean_us(ns: u64, of: &CommandSums) -> Option<f64> {
    (of.commands > 0).then(|| ns as f64 / of.commands as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(commands: u64) -> KindSums {
        let reads = CommandSums {
            commands,
            bytes: commands * 4096,
            wire_in_ns: 0,
            queue_ns: commands * 10_000,
            device_ns: commands * 80_000,
            reply_ns: commands * 10_000,
        };
        KindSums {
            reads,
            ..KindSums::default()
        }
    }

    #[test]
    fn rates_are_differences_for_each_second() {
        let rates = Rates::between(&sums(100), &sums(600), 5.0);
        assert_eq!(
            (rates.commands, rates.reads, rates.writes),
            (100.0, 100.0, 0.0)
        );
        assert_eq!(rates.bytes, 409_600.0);
        assert_eq!(rates.mean_us, Some(100.0));
        assert_eq!(rates.stages_us, Some([0.0, 10.0, 80.0, 10.0]));
        let texts = rates.figures().map(|(_, text)| text);
        assert_eq!(
            texts,
            [
                "100", "0.4", "0.100", "–", "–", "0.000", "0.010", "0.080", "0.010"
            ]
        );
    }

    #[test]
    fn rest_has_no_latency() {
        let rates = Rates::between(&sums(5), &sums(5), 0.0);
        assert_eq!(
            (rates.commands, rates.mean_us, rates.stages_us),
            (0.0, None, None)
        );
    }
}
