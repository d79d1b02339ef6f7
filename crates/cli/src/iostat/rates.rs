//! Rates and average times of logical units between two snapshots.

use std::collections::HashMap;

use serde::Serialize;

use model::Error;
use model::figures::latency::Latencies;
use model::figures::{CommandSums, Snapshot, UnitSnapshot};

/// Commands of one unit between two snapshots.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct UnitRates {
    /// Name of the unit.
    pub(super) name: String,
    /// Seconds between the snapshots.
    pub(super) interval_s: f64,
    /// READ commands.
    pub(super) reads: Rates,
    /// WRITE commands.
    pub(super) writes: Rates,
    /// READ and WRITE commands together.
    pub(super) both: Rates,
    /// Number of other commands in a second.
    pub(super) others_per_s: f64,
}

/// Commands of one kind between two snapshots. Times are nanoseconds of a command on average;
/// `None` if there was no command.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    /// Commands in a second.
    pub(super) per_s: f64,
    /// Bytes in a second.
    pub(super) bytes_per_s: f64,
    /// Whole time, from the arrival to the last byte of the answer.
    pub(super) latency_ns: Option<f64>,
    /// Arrival of data-out.
    pub(super) wire_in_ns: Option<f64>,
    /// Wait in the queue.
    pub(super) queue_ns: Option<f64>,
    /// Work of the device.
    pub(super) device_ns: Option<f64>,
    /// Departure of the answer.
    pub(super) reply_ns: Option<f64>,
    /// Latency that half of the commands did not exceed.
    pub(super) p50_ns: Option<f64>,
    /// Latency that 99 of 100 commands did not exceed.
    pub(super) p99_ns: Option<f64>,
    /// Number of commands, on average, whose data arrived or that waited in the queue.
    pub(super) waiting: f64,
    /// Number of commands, on average, at the device or with an answer on its way.
    pub(super) active: f64,
}

impl Rates {
    fn new(sums: &CommandSums, latencies: &Latencies, seconds: f64) -> Self {
        let commands = sums.commands as f64;
        let each = |ns: u64| (sums.commands > 0).then(|| ns as f64 / commands);
        let quantile = |share| latencies.quantile_ns(share).map(|ns| ns as f64);
        let busy = |ns: u64| ns as f64 / 1e9 / seconds;
        Self {
            per_s: commands / seconds,
            bytes_per_s: sums.bytes as f64 / seconds,
            latency_ns: each(sums.latency_ns()),
            wire_in_ns: each(sums.wire_in_ns),
            queue_ns: each(sums.queue_ns),
            device_ns: each(sums.device_ns),
            reply_ns: each(sums.reply_ns),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            waiting: busy(sums.wire_in_ns + sums.queue_ns),
            active: busy(sums.device_ns + sums.reply_ns),
        }
    }
}

/// Returns the rates of the units of these names, or of all units if there are no names.
///
/// # Errors
/// A name belongs to no unit.
pub(super) fn between(
    before: &Snapshot,
    now: &Snapshot,
    names: &[String],
) -> Result<Vec<UnitRates>, Error> {
    let unknown = |name: &&String| !now.units.iter().any(|unit| unit.name == **name);
    if let Some(name) = names.iter().find(unknown) {
        return Err(Error::not_found(
            format!("no lu {name} is served"),
            "sandstone lu list shows all logical units",
        ));
    }
    let seconds = (now.at_us - before.at_us) as f64 / 1e6;
    let earlier: HashMap<&str, &UnitSnapshot> = before
        .units
        .iter()
        .map(|unit| (unit.name.as_str(), unit))
        .collect();
    let wanted = now.units.iter();
    let wanted = wanted.filter(|unit| names.is_empty() || names.contains(&unit.name));
    let none = UnitSnapshot::default();
    let rates = wanted.map(|unit| {
        let earlier = earlier.get(unit.name.as_str()).copied().unwrap_or(&none);
        of_unit(earlier, unit, seconds)
    });
    Ok(rates.collect())
}

fn of_unit(before: &UnitSnapshot, now: &UnitSnapshot, seconds: f64) -> UnitRates {
    let reads = now.sums.reads.since(&before.sums.reads);
    let writes = now.sums.writes.since(&before.sums.writes);
    let others = now.sums.others.since(&before.sums.others);
    let read_latency = now.read_latency.since(&before.read_latency);
    let write_latency = now.write_latency.since(&before.write_latency);
    let mut latencies = read_latency.clone();
    latencies.add(&write_latency);
    UnitRates {
        name: now.name.clone(),
        interval_s: seconds,
        reads: Rates::new(&reads, &read_latency, seconds),
        writes: Rates::new(&writes, &write_latency, seconds),
        both: Rates::new(&reads.plus(&writes), &latencies, seconds),
        others_per_s: others.commands as f64 / seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::figures::KindSums;
    use model::figures::latency::bucket;

    fn snapshot(at_s: u64, reads: u64, writes: u64) -> Snapshot {
        let sums = |commands: u64| CommandSums {
            commands,
            bytes: commands * 4096,
            wire_in_ns: commands * 1_000,
            queue_ns: commands * 2_000,
            device_ns: commands * 30_000,
            reply_ns: commands * 7_000,
        };
        let latency = |commands| Latencies::of_buckets([(bucket(40_000), commands)]);
        let unit = UnitSnapshot {
            name: "vm1".into(),
            sums: KindSums {
                reads: sums(reads),
                writes: sums(writes),
                others: sums(1),
            },
            read_latency: latency(reads),
            write_latency: latency(writes),
        };
        Snapshot {
            at_us: at_s * 1_000_000,
            units: vec![unit],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_hold_for_the_time_between_two_snapshots() {
        let (before, now) = (snapshot(10, 100, 50), snapshot(14, 500, 50));
        let told = between(&before, &now, &[]).expect("rates");
        let [unit] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(unit.interval_s, 4.0);
        assert_eq!(
            (unit.reads.per_s, unit.reads.bytes_per_s),
            (100.0, 409_600.0)
        );
        assert_eq!(unit.reads.latency_ns, Some(40_000.0));
        let stages = [
            unit.reads.wire_in_ns,
            unit.reads.queue_ns,
            unit.reads.device_ns,
            unit.reads.reply_ns,
        ];
        assert_eq!(stages, [1_000.0, 2_000.0, 30_000.0, 7_000.0].map(Some));
        // 400 reads for 37 µs each, in 4 s.
        assert_eq!(unit.reads.active, 0.0037);
        assert_eq!(unit.writes, Rates::default());
        assert_eq!(unit.both, unit.reads);
        let p99 = unit.both.p99_ns.expect("reads");
        assert!((32_000.0..=48_000.0).contains(&p99), "{p99}");
        assert_eq!(unit.others_per_s, 0.0);
    }

    #[test]
    fn names_that_are_not_served_are_refused() {
        let now = snapshot(1, 0, 0);
        let none = Snapshot::default();
        let error = between(&none, &now, &["vm2".to_owned()]).expect_err("it is not there");
        assert!(error.message.contains("vm2"), "{error}");
        assert_eq!(
            between(&none, &now, &["vm1".to_owned()]).map(|all| all.len()),
            Ok(1)
        );
    }
}
