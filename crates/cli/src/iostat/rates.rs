//! Rates and average times of logical units between two snapshots.

use std::collections::HashMap;

use serde::Serialize;

use model::Error;
use model::figures::latency::Latencies;
use model::figures::{CommandSums, KindSums, LunSnapshot, Snapshot, UnitSnapshot};

/// Commands of one unit between two snapshots.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct UnitRates {
    /// Name of the unit.
    pub(super) name: String,
    /// Session that used the unit, if its commands alone are told.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<OfSession>,
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

/// Session whose commands are told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct OfSession {
    /// Number of the session in `session list`.
    #[serde(rename = "session")]
    pub(super) tsih: u16,
    /// iSCSI name of the initiator.
    pub(super) initiator: String,
    /// LUN under which the session sees the unit.
    pub(super) lun: u16,
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
pub(super) fn of_units(
    before: &Snapshot,
    now: &Snapshot,
    names: &[String],
) -> Result<Vec<UnitRates>, Error> {
    check(now, names)?;
    let seconds = seconds(before, now);
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

/// Returns the rates of each unit in each session that has used it. Histograms of latencies are not
/// kept for sessions.
///
/// # Errors
/// A name belongs to no unit.
pub(super) fn of_sessions(
    before: &Snapshot,
    now: &Snapshot,
    names: &[String],
) -> Result<Vec<UnitRates>, Error> {
    check(now, names)?;
    let seconds = seconds(before, now);
    let earlier: HashMap<(u64, u16, &str), &LunSnapshot> = before
        .sessions
        .iter()
        .flat_map(|session| session.luns.iter().map(move |lun| (session, lun)))
        .map(|(session, lun)| ((session.key, lun.lun, lun.unit.as_str()), lun))
        .collect();
    let none = (LunSnapshot::default(), Latencies::default());
    let mut rates = Vec::new();
    for session in &now.sessions {
        for lun in &session.luns {
            if !names.is_empty() && !names.contains(&lun.unit) {
                continue;
            }
            let key = (session.key, lun.lun, lun.unit.as_str());
            let earlier = earlier.get(&key).copied().unwrap_or(&none.0);
            let mut told = of_sums(&earlier.sums, &lun.sums, [&none.1, &none.1], seconds);
            told.name.clone_from(&lun.unit);
            told.session = Some(OfSession {
                tsih: session.tsih,
                initiator: session.initiator.clone(),
                lun: lun.lun,
            });
            rates.push(told);
        }
    }
    Ok(rates)
}

/// Checks that each name belongs to a unit.
fn check(now: &Snapshot, names: &[String]) -> Result<(), Error> {
    let unknown = |name: &&String| !now.units.iter().any(|unit| unit.name == **name);
    match names.iter().find(unknown) {
        None => Ok(()),
        Some(name) => Err(Error::not_found(
            format!("no lu {name} is served"),
            "sandstone lu list shows all logical units",
        )),
    }
}

fn seconds(before: &Snapshot, now: &Snapshot) -> f64 {
    (now.at_us - before.at_us) as f64 / 1e6
}

fn of_unit(before: &UnitSnapshot, now: &UnitSnapshot, seconds: f64) -> UnitRates {
    let read_latency = now.read_latency.since(&before.read_latency);
    let write_latency = now.write_latency.since(&before.write_latency);
    UnitRates {
        name: now.name.clone(),
        ..of_sums(
            &before.sums,
            &now.sums,
            [&read_latency, &write_latency],
            seconds,
        )
    }
}

/// Returns the rates of an object without a name.
fn of_sums(
    before: &KindSums,
    now: &KindSums,
    [read_latency, write_latency]: [&Latencies; 2],
    seconds: f64,
) -> UnitRates {
    let reads = now.reads.since(&before.reads);
    let writes = now.writes.since(&before.writes);
    let others = now.others.since(&before.others);
    let mut latencies = read_latency.clone();
    latencies.add(write_latency);
    UnitRates {
        name: String::new(),
        session: None,
        interval_s: seconds,
        reads: Rates::new(&reads, read_latency, seconds),
        writes: Rates::new(&writes, write_latency, seconds),
        both: Rates::new(&reads.plus(&writes), &latencies, seconds),
        others_per_s: others.commands as f64 / seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::figures::SessionSnapshot;
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
            errors: 0,
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
        let told = of_units(&before, &now, &[]).expect("rates");
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
    fn sessions_are_told_by_unit_and_never_mixed_up_with_earlier_ones() {
        let with_session = |at_s, key, reads| {
            let mut snapshot = snapshot(at_s, reads, 0);
            let unit = &snapshot.units[0];
            let lun = LunSnapshot {
                lun: 3,
                unit: unit.name.clone(),
                sums: unit.sums,
            };
            snapshot.sessions.push(SessionSnapshot {
                tsih: 7,
                key,
                initiator: "iqn.x:a".into(),
                luns: vec![lun],
                ..SessionSnapshot::default()
            });
            snapshot
        };
        let before = with_session(10, 1, 100);
        for (key, expected) in [(1, 10.0), (2, 30.0)] {
            let now = with_session(20, key, if key == 1 { 200 } else { 300 });
            let told = of_sessions(&before, &now, &[]).expect("rates");
            let [row] = &told[..] else {
                panic!("{told:?}");
            };
            assert_eq!((row.name.as_str(), row.reads.per_s), ("vm1", expected));
            let session = row.session.as_ref().expect("a session");
            assert_eq!((session.tsih, session.lun), (7, 3));
            assert_eq!(
                (row.both.latency_ns, row.both.p99_ns),
                (Some(40_000.0), None)
            );
        }
        assert!(of_sessions(&before, &before, &["vm2".into()]).is_err());
    }

    #[test]
    fn names_that_are_not_served_are_refused() {
        let now = snapshot(1, 0, 0);
        let none = Snapshot::default();
        let error = of_units(&none, &now, &["vm2".to_owned()]).expect_err("it is not there");
        assert!(error.message.contains("vm2"), "{error}");
        assert_eq!(
            of_units(&none, &now, &["vm1".to_owned()]).map(|all| all.len()),
            Ok(1)
        );
    }
}
