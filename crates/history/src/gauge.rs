//! Gauge: turns two readings of sums into the figures of the minute between them.
//!
//! Intervals are measured by the clocks of the readings, which never jump. A figure is told only
//! for an interval of about a minute: a longer one would smear what happened over minutes that
//! were not observed, so these are gaps.

use std::collections::HashMap;
use std::sync::Arc;

use model::figures::latency::Latencies;
use model::figures::{CommandSums, KindSums, PortGroupSnapshot, Snapshot, UnitSnapshot};
use model::history::HistoryKind;
use model::pool::io::{IoCounts, IoView};
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

use super::book::Sample;
use super::fields::{Values, commands, encode, pool};

/// Shortest interval that is told, in seconds. The next reading has a longer one.
const SHORTEST_S: f64 = 1.0;
/// Longest interval that is told, in seconds.
const LONGEST_S: f64 = 120.0;
/// Share of commands that the worst latency leaves out.
const QUANTILE: f64 = 0.99;

/// Pool as it was read.
#[derive(Clone, Debug)]
pub struct PoolReading {
    /// State of the pool, with its space and the counts of its devices.
    pub view: PoolView,
    /// Sizes of all its volumes in bytes, thin ones included.
    pub promised: Option<u64>,
}

/// Sums of all objects at one moment.
pub struct Readings<'a> {
    /// Figures of the data plane.
    pub snapshot: Arc<Snapshot>,
    /// Pools. `None` means that they did not answer in time.
    pub pools: Option<Vec<PoolReading>>,
    /// Returns the host to which an initiator belongs, or else its own name.
    pub host_of: &'a dyn Fn(&str) -> String,
}

/// Figures of a minute, by kind of object.
pub(crate) type Samples = HashMap<HistoryKind, Vec<Sample>>;

/// Keeper of the last readings.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    snapshot: Arc<Snapshot>,
    /// Counts of pools and of devices of pools, by number, each with the time since the pool was
    /// opened.
    io: HashMap<String, (u64, IoView)>,
}

impl Gauge {
    /// Returns the figures since the last readings.
    pub(crate) fn samples(&mut self, readings: &Readings<'_>) -> Samples {
        let mut samples = Samples::new();
        self.add_commands(readings, &mut samples);
        if let Some(pools) = &readings.pools {
            self.add_pools(pools, &mut samples);
        }
        samples
    }

    fn add_commands(&mut self, readings: &Readings<'_>, samples: &mut Samples) {
        let now = &readings.snapshot;
        if now.began_unix_ms != self.snapshot.began_unix_ms {
            // Counting has begun with zero.
            self.snapshot = Arc::default();
        }
        let seconds = now.at_us.saturating_sub(self.snapshot.at_us) as f64 / 1e6;
        if seconds < SHORTEST_S {
            return;
        }
        let before = std::mem::replace(&mut self.snapshot, Arc::clone(now));
        if seconds > LONGEST_S {
            return;
        }
        samples.insert(HistoryKind::Unit, units(&before, now, seconds));
        samples.insert(HistoryKind::PortGroup, port_groups(&before, now, seconds));
        let hosts = hosts(&before, now, seconds, readings.host_of);
        samples.insert(HistoryKind::Host, hosts);
    }

    fn add_pools(&mut self, pools: &[PoolReading], samples: &mut Samples) {
        let mut before = std::mem::take(&mut self.io);
        let (mut of_pools, mut of_disks) = (Vec::new(), Vec::new());
        for PoolReading { view, promised } in pools {
            let Some(open_us) = view.open_for_us else {
                continue;
            };
            let mut since = |key: &str, io: IoView| {
                let earlier = before.remove(key).filter(|(at, _)| *at <= open_us);
                let (at, counted) = earlier.unwrap_or_default();
                let seconds = (open_us - at) as f64 / 1e6;
                let is_short = seconds < SHORTEST_S;
                let base = if is_short {
                    (at, counted)
                } else {
                    (open_us, io)
                };
                self.io.insert(key.to_owned(), base);
                let is_told = !is_short && seconds <= LONGEST_S;
                is_told.then(|| (io.since(counted), seconds))
            };
            let io = since(&view.guid, IoView::of_all(&view.vdevs));
            of_pools.push(sample(
                HistoryKind::Pool,
                &view.guid,
                &view.name,
                &of_pool(view, *promised, io),
            ));
            for disk in disks(view) {
                let key = disk.guid.as_ref().unwrap_or(&disk.name);
                let Some((io, seconds)) = disk.io.and_then(|io| since(key, io)) else {
                    continue;
                };
                let values = of_disk(&io, seconds);
                of_disks.push(sample(HistoryKind::Disk, key, &disk.name, &values));
            }
        }
        samples.insert(HistoryKind::Pool, of_pools);
        samples.insert(HistoryKind::Disk, of_disks);
    }
}

fn sample(kind: HistoryKind, key: &str, name: &str, values: &Values) -> Sample {
    Sample {
        key: key.to_owned(),
        name: name.to_owned(),
        slot: encode(kind, values),
    }
}

/// Returns the devices of a pool that are in use.
fn disks(pool: &PoolView) -> impl Iterator<Item = &VdevView> {
    let vdevs = [&pool.vdevs, &pool.logs, &pool.caches];
    let vdevs = vdevs.into_iter().flatten().flat_map(VdevView::all);
    let leaves = vdevs.filter(|vdev| vdev.children.is_empty());
    leaves.filter(|leaf| matches!(leaf.state.as_str(), "ONLINE" | "DEGRADED"))
}

fn units(before: &Snapshot, now: &Snapshot, seconds: f64) -> Vec<Sample> {
    let earlier: HashMap<&str, &UnitSnapshot> = before
        .units
        .iter()
        .map(|unit| (unit.name.as_str(), unit))
        .collect();
    let none = is_zero(before).then(UnitSnapshot::default);
    let units = now.units.iter().filter_map(|unit| {
        let earlier = earlier.get(unit.name.as_str()).copied();
        let earlier = earlier.or(none.as_ref());
        let earlier = earlier.filter(|of| is_later(&of.sums, &unit.sums))?;
        let mut values = of_commands(&since(&unit.sums, &earlier.sums), seconds);
        let p99 = |now: &Latencies, before| quantile(&now.since(before));
        values[commands::READ_P99] = p99(&unit.read_latency, &earlier.read_latency);
        values[commands::WRITE_P99] = p99(&unit.write_latency, &earlier.write_latency);
        Some(sample(HistoryKind::Unit, &unit.name, &unit.name, &values))
    });
    units.collect()
}

fn port_groups(before: &Snapshot, now: &Snapshot, seconds: f64) -> Vec<Sample> {
    let key = |group: &PortGroupSnapshot| format!("{},{}", group.target, group.portal_group);
    let earlier: HashMap<String, &PortGroupSnapshot> = before
        .port_groups
        .iter()
        .map(|group| (key(group), group))
        .collect();
    let none = is_zero(before).then(PortGroupSnapshot::default);
    let groups = now.port_groups.iter().filter_map(|group| {
        let name = key(group);
        let earlier = earlier.get(&name).copied().or(none.as_ref());
        let earlier = earlier.filter(|of| is_later(&of.sums, &group.sums))?;
        let mut values = of_commands(&since(&group.sums, &earlier.sums), seconds);
        let reads = group
            .reads_by_stage
            .whole
            .since(&earlier.reads_by_stage.whole);
        let writes = group
            .writes_by_stage
            .whole
            .since(&earlier.writes_by_stage.whole);
        values[commands::READ_P99] = quantile(&reads);
        values[commands::WRITE_P99] = quantile(&writes);
        Some(sample(HistoryKind::PortGroup, &name, &name, &values))
    });
    groups.collect()
}

/// Returns the figures of hosts: those of all their sessions. A host without a session has none.
fn hosts(
    before: &Snapshot,
    now: &Snapshot,
    seconds: f64,
    host_of: &dyn Fn(&str) -> String,
) -> Vec<Sample> {
    let earlier: HashMap<u64, &KindSums> = before
        .sessions
        .iter()
        .map(|session| (session.key, &session.sums))
        .collect();
    let mut hosts: HashMap<String, KindSums> = HashMap::new();
    for session in &now.sessions {
        let none = KindSums::default();
        let earlier = earlier.get(&session.key).copied().unwrap_or(&none);
        let more = since(&session.sums, earlier);
        let sums = hosts.entry(host_of(&session.initiator)).or_default();
        sums.reads = sums.reads.plus(&more.reads);
        sums.writes = sums.writes.plus(&more.writes);
    }
    let hosts = hosts.iter().map(|(name, sums)| {
        let values = of_commands(sums, seconds);
        sample(HistoryKind::Host, name, name, &values)
    });
    hosts.collect()
}

/// Reports whether all sums were zero at this reading, because counting began there.
fn is_zero(before: &Snapshot) -> bool {
    before.at_us == 0
}

/// Reports whether sums may be later ones of the same object. Sums begin again if the object was
/// away for a moment; nobody knows then what belongs to the minute.
fn is_later(before: &KindSums, now: &KindSums) -> bool {
    let both = [(&before.reads, &now.reads), (&before.writes, &now.writes)];
    both.into_iter()
        .all(|(before, now)| before.commands <= now.commands)
}

fn since(now: &KindSums, before: &KindSums) -> KindSums {
    KindSums {
        reads: now.reads.since(&before.reads),
        writes: now.writes.since(&before.writes),
        others: CommandSums::default(),
    }
}

fn quantile(latencies: &Latencies) -> Option<f64> {
    latencies.quantile_ns(QUANTILE).map(|ns| ns as f64)
}

/// Returns a sum for each of a number of commands, if there were any.
fn each(sum: u64, commands: u64) -> Option<f64> {
    (commands > 0).then(|| sum as f64 / commands as f64)
}

fn of_commands(sums: &KindSums, seconds: f64) -> Values {
    let (reads, writes) = (&sums.reads, &sums.writes);
    let both = reads.plus(writes);
    let mut values = Values::default();
    let per_s = |count: u64| Some(count as f64 / seconds);
    values[commands::READS] = per_s(reads.commands);
    values[commands::WRITES] = per_s(writes.commands);
    values[commands::READ_BYTES] = per_s(reads.bytes);
    values[commands::WRITTEN_BYTES] = per_s(writes.bytes);
    values[commands::READ_LATENCY] = each(reads.latency_ns(), reads.commands);
    values[commands::WRITE_LATENCY] = each(writes.latency_ns(), writes.commands);
    values[commands::WIRE_IN] = each(both.wire_in_ns, both.commands);
    values[commands::QUEUE] = each(both.queue_ns, both.commands);
    values[commands::DEVICE] = each(both.device_ns, both.commands);
    values[commands::REPLY] = each(both.reply_ns, both.commands);
    values
}

fn of_disk(io: &IoView, seconds: f64) -> Values {
    let IoView { read, write } = io;
    let mut values = Values::default();
    let per_s = |count: u64| Some(count as f64 / seconds);
    let each_ns = |us: u64, requests| each(us.saturating_mul(1000), requests);
    let latency = |of: &IoCounts| each_ns(of.total_wait_us, of.requests);
    values[commands::READS] = per_s(read.operations);
    values[commands::WRITES] = per_s(write.operations);
    values[commands::READ_BYTES] = per_s(read.bytes);
    values[commands::WRITTEN_BYTES] = per_s(write.bytes);
    values[commands::READ_LATENCY] = latency(read);
    values[commands::WRITE_LATENCY] = latency(write);
    let requests = read.requests + write.requests;
    let device = read.disk_wait_us + write.disk_wait_us;
    let whole = read.total_wait_us + write.total_wait_us;
    values[commands::QUEUE] = each_ns(whole.saturating_sub(device), requests);
    values[commands::DEVICE] = each_ns(device, requests);
    values
}

fn of_pool(view: &PoolView, promised: Option<u64>, io: Option<(IoView, f64)>) -> Values {
    let mut values = Values::default();
    if let Some((io, seconds)) = io {
        values[pool::READS] = Some(io.read.operations as f64 / seconds);
        values[pool::WRITES] = Some(io.write.operations as f64 / seconds);
    }
    values[pool::SIZE] = Some(view.size as f64);
    values[pool::AVAILABLE] = Some(view.available as f64);
    values[pool::ALLOCATED] = Some(view.allocated as f64);
    values[pool::PROMISED] = promised.map(|bytes| bytes as f64);
    values
}

#[cfg(test)]
mod tests {
    use model::figures::SessionSnapshot;
    use model::figures::latency::bucket;

    use super::super::fields::decode;
    use super::*;

    fn sums(reads: u64) -> KindSums {
        let reads = CommandSums {
            commands: reads,
            bytes: reads * 4096,
            queue_ns: reads * 1000,
            device_ns: reads * 3000,
            ..CommandSums::default()
        };
        KindSums {
            reads,
            ..KindSums::default()
        }
    }

    fn snapshot(at_s: u64, reads: u64) -> Arc<Snapshot> {
        let latencies = Latencies::of_buckets([(bucket(4000), reads)]);
        let unit = UnitSnapshot {
            name: "vm1".into(),
            sums: sums(reads),
            read_latency: latencies.clone(),
            ..UnitSnapshot::default()
        };
        let session = |key: u64, initiator: &str| SessionSnapshot {
            key,
            initiator: initiator.into(),
            sums: sums(reads / 2),
            ..SessionSnapshot::default()
        };
        let mut group = PortGroupSnapshot {
            target: "iqn.x:a".into(),
            portal_group: 2,
            sums: sums(reads),
            ..PortGroupSnapshot::default()
        };
        group.reads_by_stage.whole = latencies;
        Arc::new(Snapshot {
            began_unix_ms: 7,
            at_us: at_s * 1_000_000,
            units: vec![unit],
            sessions: vec![session(1, "iqn.i:a"), session(2, "iqn.i:b")],
            port_groups: vec![group],
            ..Snapshot::default()
        })
    }

    fn readings(snapshot: Arc<Snapshot>, pools: Option<Vec<PoolReading>>) -> Readings<'static> {
        Readings {
            snapshot,
            pools,
            host_of: &|_| "esx1".to_owned(),
        }
    }

    /// Returns the figures of the only object of a kind, and its name.
    fn only(samples: &Samples, kind: HistoryKind) -> (String, Values) {
        let [sample] = &samples[&kind][..] else {
            panic!("{samples:?}");
        };
        (sample.name.clone(), decode(kind, &sample.slot))
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("a value");
        assert!((value - expected).abs() <= expected / 1000.0, "{value}");
    }

    #[test]
    fn a_minute_is_the_difference_of_two_readings() {
        let mut gauge = Gauge::default();
        let first = gauge.samples(&readings(snapshot(30, 300), None));
        let (_, unit) = only(&first, HistoryKind::Unit);
        near(unit[commands::READS], 10.0);
        let second = gauge.samples(&readings(snapshot(90, 6300), None));
        for kind in [HistoryKind::Unit, HistoryKind::PortGroup, HistoryKind::Host] {
            let (_, told) = only(&second, kind);
            near(told[commands::READS], 100.0);
            near(told[commands::READ_BYTES], 409_600.0);
            near(told[commands::READ_LATENCY], 4000.0);
            near(told[commands::QUEUE], 1000.0);
            near(told[commands::DEVICE], 3000.0);
            assert_eq!(told[commands::WRITES], Some(0.0));
            assert_eq!(told[commands::WRITE_LATENCY], None);
            let has_quantile = told[commands::READ_P99].is_some();
            assert_eq!(has_quantile, kind != HistoryKind::Host);
        }
        assert_eq!(only(&second, HistoryKind::Host).0, "esx1");
        assert_eq!(only(&second, HistoryKind::PortGroup).0, "iqn.x:a,2");
        assert!(!second.contains_key(&HistoryKind::Pool));
    }

    #[test]
    fn an_object_that_comes_back_is_a_gap_and_a_new_daemon_is_not() {
        let mut gauge = Gauge::default();
        gauge.samples(&readings(snapshot(60, 6000), None));
        // Less than before, not there, and there again.
        let told = gauge.samples(&readings(snapshot(120, 600), None));
        assert!(told[&HistoryKind::Unit].is_empty() && told[&HistoryKind::PortGroup].is_empty());
        let mut empty = (*snapshot(180, 0)).clone();
        empty.units.clear();
        gauge.samples(&readings(Arc::new(empty), None));
        let told = gauge.samples(&readings(snapshot(240, 90_000), None));
        assert!(told[&HistoryKind::Unit].is_empty());
        let told = gauge.samples(&readings(snapshot(300, 90_600), None));
        near(only(&told, HistoryKind::Unit).1[commands::READS], 10.0);
        // Another daemon counts from zero.
        let mut another = (*snapshot(30, 900)).clone();
        another.began_unix_ms = 8;
        let told = gauge.samples(&readings(Arc::new(another), None));
        near(only(&told, HistoryKind::Unit).1[commands::READS], 30.0);
    }

    #[test]
    fn intervals_that_are_no_minute_are_gaps() {
        let mut gauge = Gauge::default();
        gauge.samples(&readings(snapshot(60, 600), None));
        // The snapshots did not move on: the next minute has both.
        assert!(gauge.samples(&readings(snapshot(60, 600), None)).is_empty());
        let told = gauge.samples(&readings(snapshot(121, 1210), None));
        near(only(&told, HistoryKind::Unit).1[commands::READS], 10.0);
        // The machine was asleep.
        assert!(
            gauge
                .samples(&readings(snapshot(700, 9000), None))
                .is_empty()
        );
        let told = gauge.samples(&readings(snapshot(760, 9600), None));
        near(only(&told, HistoryKind::Unit).1[commands::READS], 10.0);
    }

    fn pool(open_s: u64, requests: u64) -> Vec<PoolReading> {
        let counts = IoCounts {
            operations: requests,
            bytes: requests * 8192,
            requests,
            disk_wait_us: requests * 90,
            total_wait_us: requests * 100,
        };
        let leaf = |name: &str, state: &str| VdevView {
            name: name.into(),
            guid: Some(format!("guid-{name}")),
            state: state.into(),
            io: Some(IoView {
                read: IoCounts::default(),
                write: counts,
            }),
            ..VdevView::default()
        };
        let mirror = VdevView {
            name: "mirror-0".into(),
            io: leaf("", "").io,
            children: vec![leaf("/dev/a", "ONLINE"), leaf("/dev/b", "UNAVAIL")],
            ..VdevView::default()
        };
        let view = PoolView {
            name: "tank".into(),
            guid: "f00d".into(),
            size: 1 << 40,
            available: 1 << 39,
            allocated: 1 << 38,
            open_for_us: Some(open_s * 1_000_000),
            vdevs: vec![mirror],
            ..PoolView::default()
        };
        let shut = PoolView {
            name: "shut".into(),
            ..PoolView::default()
        };
        let reading = |view, promised| PoolReading { view, promised };
        vec![reading(view, Some(1 << 41)), reading(shut, None)]
    }

    #[test]
    fn pools_and_disks_count_from_their_opening() {
        let mut gauge = Gauge::default();
        // The first reading counts from the opening; then a minute; then the pool was reopened.
        for (open_s, requests, expected) in [(10, 100, 10.0), (70, 700, 10.0), (5, 200, 40.0)] {
            let told = gauge.samples(&readings(Arc::default(), Some(pool(open_s, requests))));
            let (name, tank) = only(&told, HistoryKind::Pool);
            assert_eq!(name, "tank");
            near(tank[pool::WRITES], expected);
            near(tank[pool::SIZE], 2f64.powi(40));
            near(tank[pool::AVAILABLE], 2f64.powi(39));
            near(tank[pool::ALLOCATED], 2f64.powi(38));
            near(tank[pool::PROMISED], 2f64.powi(41));
            let (name, disk) = only(&told, HistoryKind::Disk);
            assert_eq!(name, "/dev/a");
            near(disk[commands::WRITES], expected);
            near(disk[commands::WRITE_LATENCY], 100_000.0);
            near(disk[commands::DEVICE], 90_000.0);
            near(disk[commands::QUEUE], 10_000.0);
        }
        // Too short: the next minute has both.
        let told = gauge.samples(&readings(Arc::default(), Some(pool(5, 300))));
        assert!(told[&HistoryKind::Disk].is_empty());
        let told = gauge.samples(&readings(Arc::default(), Some(pool(55, 700))));
        near(only(&told, HistoryKind::Disk).1[commands::WRITES], 10.0);
        // Too long: nobody knows when they came.
        let told = gauge.samples(&readings(Arc::default(), Some(pool(900, 700))));
        let (_, tank) = only(&told, HistoryKind::Pool);
        assert_eq!(tank[pool::WRITES], None);
        assert!(tank[pool::SIZE].is_some());
        assert!(told[&HistoryKind::Disk].is_empty());
    }
}
