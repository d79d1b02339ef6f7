//! Rates and average times of everything that has figures, between two snapshots.
//!
//! `iostat`, `top` and `top -b` all print these rates, so they cannot disagree.

use std::collections::HashMap;

use serde::Serialize;

use model::Error;
use model::figures::latency::Latencies;
use model::figures::rare::{DiscardSums, FailureSums, FlushSums};
use model::figures::{
    CommandSums, KindSums, LunSnapshot, PortGroupSnapshot, SessionSnapshot, Snapshot, UnderWay,
    UnitSnapshot,
};

pub(crate) mod disks;
pub(crate) mod fetch;
pub(crate) mod hosts;
pub(crate) mod initiator;
pub(crate) mod network;

/// Commands of one object between two snapshots: of a unit, a session, a port group, a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Activity {
    /// Name of the object.
    pub(crate) name: String,
    /// Session that used the unit, if its commands alone are told.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<OfSession>,
    /// Seconds between the snapshots.
    pub(crate) interval_s: f64,
    /// READ commands.
    pub(crate) reads: Rates,
    /// WRITE commands.
    pub(crate) writes: Rates,
    /// READ and WRITE commands together.
    pub(crate) both: Rates,
    /// Number of other commands in a second.
    pub(crate) others_per_s: f64,
    /// Commands that free blocks. They are among the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) discards: Option<RareRates>,
    /// Commands that make earlier writes durable. They are among the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flushes: Option<RareRates>,
    /// All commands together. Latencies of the others have no histogram, so there are no quantiles.
    #[serde(skip)]
    pub(crate) all: Rates,
    /// Queue of the object; `None` if it has none.
    #[serde(skip)]
    pub(crate) queue: Option<Queue>,
    /// Commands that failed; `None` if the object does not count them.
    #[serde(skip)]
    pub(crate) failures: Option<FailureRates>,
}

/// Session whose commands are told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OfSession {
    /// Number of the session in `session list`.
    #[serde(rename = "session")]
    pub(crate) tsih: u16,
    /// iSCSI name of the initiator.
    pub(crate) initiator: String,
    /// LUN under which the session sees the unit.
    pub(crate) lun: u16,
}

/// Commands of one kind between two snapshots. Times are nanoseconds of a command on average;
/// `None` if there was no command, or if nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// Commands in a second.
    pub(crate) per_s: f64,
    /// Bytes in a second.
    pub(crate) bytes_per_s: f64,
    /// Whole time, from the arrival to the last byte of the answer.
    pub(crate) latency_ns: Option<f64>,
    /// Arrival of data-out.
    pub(crate) wire_in_ns: Option<f64>,
    /// Wait in the queue.
    pub(crate) queue_ns: Option<f64>,
    /// Work of the device.
    pub(crate) device_ns: Option<f64>,
    /// Departure of the answer.
    pub(crate) reply_ns: Option<f64>,
    /// Latency that half of the commands did not exceed.
    pub(crate) p50_ns: Option<f64>,
    /// Latency that 99 of 100 commands did not exceed.
    pub(crate) p99_ns: Option<f64>,
    /// Number of commands, on average, whose data arrived or that waited in the queue.
    pub(crate) waiting: f64,
    /// Number of commands, on average, at the device or with an answer on its way.
    pub(crate) active: f64,
}

/// Commands of a kind that is rare, between two snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RareRates {
    /// Commands in a second.
    pub(crate) per_s: f64,
    /// Bytes in a second.
    pub(crate) bytes_per_s: f64,
    /// Nanoseconds of a command on average; `None` if there was no command.
    pub(crate) latency_ns: Option<f64>,
}

/// Queue of an object at the later snapshot, in esxtop's words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Queue {
    /// Most commands that may be under way; 0 if there is no bound.
    pub(crate) depth: u32,
    /// Commands that run (ACTV).
    pub(crate) active: u32,
    /// Commands that wait (QUED).
    pub(crate) queued: u32,
}

/// Commands that failed, in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FailureRates {
    /// Commands of all kinds.
    pub(crate) commands: f64,
    /// READ commands.
    pub(crate) reads: f64,
    /// WRITE commands.
    pub(crate) writes: f64,
    /// Bytes that the READ commands were to move.
    pub(crate) read_bytes: f64,
    /// Bytes that the WRITE commands were to move.
    pub(crate) written_bytes: f64,
    /// Commands that met another host's reservation.
    pub(crate) reserves: f64,
    /// Commands that were aborted.
    pub(crate) aborts: f64,
    /// Commands that a reset ended.
    pub(crate) resets: f64,
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

    /// Returns the time of a command that is not the device's (KAVG): all stages but one.
    pub(crate) fn kernel_ns(&self) -> Option<f64> {
        let (whole, device) = (self.latency_ns?, self.device_ns?);
        Some((whole - device).max(0.0))
    }
}

impl RareRates {
    fn new(commands: u64, bytes: u64, time_ns: u64, seconds: f64) -> Self {
        Self {
            per_s: commands as f64 / seconds,
            bytes_per_s: bytes as f64 / seconds,
            latency_ns: (commands > 0).then(|| time_ns as f64 / commands as f64),
        }
    }

    fn of_discards(sums: &DiscardSums, seconds: f64) -> Self {
        Self::new(sums.commands, sums.bytes, sums.time_ns, seconds)
    }

    fn of_flushes(sums: &FlushSums, seconds: f64) -> Self {
        Self::new(sums.commands, 0, sums.time_ns, seconds)
    }
}

impl FailureRates {
    fn new(sums: &FailureSums, seconds: f64) -> Self {
        let rate = |sum: u64| sum as f64 / seconds;
        Self {
            commands: rate(sums.commands),
            reads: rate(sums.reads),
            writes: rate(sums.writes),
            read_bytes: rate(sums.read_bytes),
            written_bytes: rate(sums.written_bytes),
            reserves: rate(sums.reserves),
            aborts: rate(sums.aborts),
            resets: rate(sums.resets),
        }
    }
}

impl Queue {
    fn new(depth: u32, under_way: UnderWay) -> Self {
        Self {
            depth,
            active: under_way.active,
            queued: under_way.queued,
        }
    }

    /// Returns both queues together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            depth: self.depth.saturating_add(other.depth),
            active: self.active.saturating_add(other.active),
            queued: self.queued.saturating_add(other.queued),
        }
    }

    /// Returns %USD: the share of the depth that commands take; `None` without a depth.
    pub(crate) fn used_percent(self) -> Option<f64> {
        (self.depth > 0).then(|| multipath::used_percent(self.active.into(), self.depth))
    }

    /// Returns LOAD: commands under way over the depth; `None` without a depth.
    pub(crate) fn load(self) -> Option<f64> {
        let load = || multipath::load(self.active.into(), self.queued.into(), self.depth);
        (self.depth > 0).then(load)
    }
}

/// Returns the rates of the units of these names, or of all units if there are no names.
///
/// # Errors
/// A name belongs to no unit.
pub(crate) fn of_units(
    before: &Snapshot,
    now: &Snapshot,
    names: &[String],
) -> Result<Vec<Activity>, Error> {
    check(now, names)?;
    let seconds = seconds(before, now);
    let earlier: HashMap<&str, &UnitSnapshot> = before
        .units
        .iter()
        .map(|unit| (unit.name.as_str(), unit))
        .collect();
    let depths = depths(now);
    let wanted = now.units.iter();
    let wanted = wanted.filter(|unit| names.is_empty() || names.contains(&unit.name));
    let none = UnitSnapshot::default();
    let rates = wanted.map(|unit| {
        let earlier = earlier.get(unit.name.as_str()).copied().unwrap_or(&none);
        let depth = depths.get(unit.name.as_str()).copied().unwrap_or(0);
        of_unit(earlier, unit, depth, seconds)
    });
    Ok(rates.collect())
}

/// Returns the queue depth of each unit: that of all sessions together that have used it.
fn depths(now: &Snapshot) -> HashMap<&str, u32> {
    let mut depths: HashMap<&str, u32> = HashMap::new();
    for session in &now.sessions {
        let mut units: Vec<&str> = session.luns.iter().map(|lun| lun.unit.as_str()).collect();
        units.sort_unstable();
        units.dedup();
        for unit in units {
            let depth = depths.entry(unit).or_default();
            *depth = depth.saturating_add(session.queue_depth);
        }
    }
    depths
}

/// Returns the rates of each unit in each session that has used it. Histograms of latencies are not
/// kept for sessions.
///
/// # Errors
/// A name belongs to no unit.
pub(crate) fn of_sessions(
    before: &Snapshot,
    now: &Snapshot,
    names: &[String],
) -> Result<Vec<Activity>, Error> {
    check(now, names)?;
    let uses = uses(before, now).into_iter();
    let uses = uses.filter(|of| names.is_empty() || names.contains(&of.lun.unit));
    Ok(uses.map(|of| of.activity).collect())
}

/// A unit as one session uses it.
#[derive(Clone, Debug)]
pub(crate) struct Use<'a> {
    /// The session.
    pub(crate) session: &'a SessionSnapshot,
    /// The unit, with its LUN.
    pub(crate) lun: &'a LunSnapshot,
    /// Commands of the session for the unit.
    pub(crate) activity: Activity,
}

/// Returns each unit in each session that has used it.
pub(crate) fn uses<'a>(before: &Snapshot, now: &'a Snapshot) -> Vec<Use<'a>> {
    let seconds = seconds(before, now);
    let earlier: HashMap<(u64, u16, &str), &LunSnapshot> = before
        .sessions
        .iter()
        .flat_map(|session| session.luns.iter().map(move |lun| (session, lun)))
        .map(|(session, lun)| ((session.key, lun.lun, lun.unit.as_str()), lun))
        .collect();
    let none = LunSnapshot::default();
    let all = now.sessions.iter();
    let all = all.flat_map(|session| session.luns.iter().map(move |lun| (session, lun)));
    let uses = all.map(|(session, lun)| {
        let key = (session.key, lun.lun, lun.unit.as_str());
        let earlier = earlier.get(&key).copied().unwrap_or(&none);
        let latencies = <[Latencies; 2]>::default();
        let activity = Activity {
            name: lun.unit.clone(),
            session: Some(OfSession {
                tsih: session.tsih,
                initiator: session.initiator.clone(),
                lun: lun.lun,
            }),
            queue: Some(Queue::new(session.queue_depth, lun.under_way)),
            ..of_sums(
                &earlier.sums,
                &lun.sums,
                [&latencies[0], &latencies[1]],
                seconds,
            )
        };
        Use {
            session,
            lun,
            activity,
        }
    });
    uses.collect()
}

/// Returns the rates of each session, with its queue.
pub(crate) fn of_whole_sessions<'a>(
    before: &Snapshot,
    now: &'a Snapshot,
) -> Vec<(&'a SessionSnapshot, Activity)> {
    let seconds = seconds(before, now);
    let earlier: HashMap<u64, &SessionSnapshot> = before
        .sessions
        .iter()
        .map(|session| (session.key, session))
        .collect();
    let none = SessionSnapshot::default();
    let rates = now.sessions.iter().map(|session| {
        let earlier = earlier.get(&session.key).copied().unwrap_or(&none);
        let latencies = <[Latencies; 2]>::default();
        let under_way = session.luns.iter().map(|lun| lun.under_way);
        let under_way = under_way.fold(UnderWay::default(), |sum, of| UnderWay {
            active: sum.active + of.active,
            queued: sum.queued + of.queued,
        });
        let activity = Activity {
            name: session.initiator.clone(),
            queue: Some(Queue::new(session.queue_depth, under_way)),
            ..of_sums(
                &earlier.sums,
                &session.sums,
                [&latencies[0], &latencies[1]],
                seconds,
            )
        };
        (session, activity)
    });
    rates.collect()
}

/// Returns the rates of each port group, with the queues of its sessions together.
pub(crate) fn of_port_groups<'a>(
    before: &Snapshot,
    now: &'a Snapshot,
) -> Vec<(&'a PortGroupSnapshot, Activity)> {
    let seconds = seconds(before, now);
    let sessions = of_whole_sessions(before, now);
    let none = PortGroupSnapshot::default();
    let rates = now.port_groups.iter().map(|group| {
        let is_same = |of: &&PortGroupSnapshot| {
            (&of.target, of.portal_group) == (&group.target, group.portal_group)
        };
        let earlier = before.port_groups.iter().find(is_same).unwrap_or(&none);
        let whole = |now: &Latencies, earlier: &Latencies| now.since(earlier);
        let read = whole(&group.reads_by_stage.whole, &earlier.reads_by_stage.whole);
        let write = whole(&group.writes_by_stage.whole, &earlier.writes_by_stage.whole);
        let own = sessions.iter().filter(|(session, _)| {
            (&session.target, session.portal_group) == (&group.target, group.portal_group)
        });
        let queues = own.filter_map(|(_, activity)| activity.queue);
        let failures = group.failures.since(&earlier.failures);
        let activity = Activity {
            name: format!("{},{}", group.target, group.portal_group),
            queue: Some(queues.fold(Queue::default(), Queue::plus)),
            failures: Some(FailureRates::new(&failures, seconds)),
            ..of_sums(&earlier.sums, &group.sums, [&read, &write], seconds)
        };
        (group, activity)
    });
    rates.collect()
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

/// Returns the seconds between two snapshots.
pub(crate) fn seconds(before: &Snapshot, now: &Snapshot) -> f64 {
    now.at_us.saturating_sub(before.at_us).max(1) as f64 / 1e6
}

fn of_unit(before: &UnitSnapshot, now: &UnitSnapshot, depth: u32, seconds: f64) -> Activity {
    let read_latency = now.read_latency.since(&before.read_latency);
    let write_latency = now.write_latency.since(&before.write_latency);
    let discards = now.discards.since(&before.discards);
    let flushes = now.flushes.since(&before.flushes);
    let failures = now.failures.since(&before.failures);
    Activity {
        name: now.name.clone(),
        discards: Some(RareRates::of_discards(&discards, seconds)),
        flushes: Some(RareRates::of_flushes(&flushes, seconds)),
        queue: Some(Queue::new(depth, now.under_way)),
        failures: Some(FailureRates::new(&failures, seconds)),
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
) -> Activity {
    let reads = now.reads.since(&before.reads);
    let writes = now.writes.since(&before.writes);
    let others = now.others.since(&before.others);
    let both = reads.plus(&writes);
    let mut latencies = read_latency.clone();
    latencies.add(write_latency);
    Activity {
        interval_s: seconds,
        reads: Rates::new(&reads, read_latency, seconds),
        writes: Rates::new(&writes, write_latency, seconds),
        both: Rates::new(&both, &latencies, seconds),
        others_per_s: others.commands as f64 / seconds,
        all: Rates::new(&both.plus(&others), &Latencies::default(), seconds),
        ..Activity::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ..UnitSnapshot::default()
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
        assert_eq!(unit.both.kernel_ns(), Some(10_000.0));
    }

    #[test]
    fn the_depth_of_a_unit_is_that_of_all_sessions_that_use_it() {
        let mut now = snapshot(1, 0, 0);
        let lun = |number| LunSnapshot {
            lun: number,
            unit: "vm1".into(),
            under_way: UnderWay {
                active: 3,
                queued: 1,
            },
            ..LunSnapshot::default()
        };
        // A session that sees the unit twice has one queue all the same.
        for luns in [vec![lun(0)], vec![lun(0), lun(1)]] {
            now.sessions.push(SessionSnapshot {
                queue_depth: 32,
                luns,
                ..SessionSnapshot::default()
            });
        }
        now.units[0].under_way = UnderWay {
            active: 16,
            queued: 16,
        };
        let told = of_units(&Snapshot::default(), &now, &[]).expect("rates");
        let queue = told[0].queue.expect("a queue");
        assert_eq!((queue.depth, queue.active, queue.queued), (64, 16, 16));
        assert_eq!(
            (queue.used_percent(), queue.load()),
            (Some(25.0), Some(0.5))
        );
        assert_eq!(Queue::default().load(), None);
        let uses = uses(&Snapshot::default(), &now);
        assert_eq!(uses.len(), 3);
        assert_eq!(uses[0].activity.queue.map(|it| it.active), Some(3));
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
                ..LunSnapshot::default()
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
