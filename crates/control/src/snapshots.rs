//! One snapshot of the figures a second, shared by everything that shows figures: metrics, `top`,
//! `iostat`, the console. They can therefore never disagree.
//!
//! A thread of its own takes the snapshots. It waits for no device and no pool.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::interfaces;
use tokio::sync::watch;

use model::data_plane::DataPlane;
use model::figures::initiator::DeviceFigures;
use model::figures::latency::{Latencies, LatencyCounts};
use model::figures::rare::RareSums;
use model::figures::{
    self, CommandsRead, Figures, LatencyByStage, LunFigures, LunSnapshot, PortGroupFigures,
    PortGroupSnapshot, SessionSnapshot, Snapshot, StageTotals, UnderWay, UnitFigures, UnitSnapshot,
    WITH_HISTOGRAM,
};

/// Time from one snapshot to the next.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Keeper of the latest snapshot. Dropping it stops the thread.
#[derive(Debug)]
pub struct Snapshots {
    /// The latest snapshot; `None` once the daemon ends.
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Snapshots {
    /// Starts to take snapshots of a data plane.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(data_plane: Arc<dyn DataPlane>) -> io::Result<Self> {
        let latest = watch::Sender::new(Some(Arc::default()));
        let (stop, stopped) = channel::<()>();
        let place = latest.clone();
        let take = move || {
            let begun = Instant::now();
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let mut history = Accumulator {
                began: since_1970.unwrap_or_default(),
                ..Accumulator::default()
            };
            let mut due = begun;
            loop {
                let at = begun.elapsed();
                let figures = data_plane.figures(&history.commands_read());
                let mut snapshot = history.add(at, figures);
                snapshot.interfaces = interfaces::figures(&listening(&*data_plane));
                let snapshot = Arc::new(snapshot);
                place.send_if_modified(|latest| match latest {
                    Some(latest) => {
                        *latest = snapshot;
                        true
                    }
                    None => false,
                });
                // A late snapshot does not make the next one early.
                due = (due + INTERVAL).max(Instant::now());
                let wait = due.saturating_duration_since(Instant::now());
                if let Err(RecvTimeoutError::Disconnected) = stopped.recv_timeout(wait) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("snapshots".into())
            .spawn(take)?;
        Ok(Self {
            latest,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the latest snapshot.
    pub fn latest(&self) -> Arc<Snapshot> {
        self.latest.borrow().clone().unwrap_or_default()
    }

    /// Returns a view of the latest snapshot that can wait for the next one.
    pub fn feed(&self) -> Feed {
        Feed(self.latest.subscribe())
    }

    /// Ends all feeds, so that no stream of figures delays the end of the daemon.
    pub fn end_feeds(&self) {
        self.latest.send_replace(None);
    }
}

/// View of the latest snapshot. A slow reader misses snapshots, and always gets the newest.
#[derive(Clone, Debug)]
pub struct Feed(watch::Receiver<Option<Arc<Snapshot>>>);

impl Feed {
    /// Waits for a snapshot that was not returned yet. `None` means that the daemon ends.
    pub async fn next(&mut self) -> Option<Arc<Snapshot>> {
        self.0.changed().await.ok()?;
        self.0.borrow_and_update().clone()
    }
}

/// Returns the addresses at which targets listen.
fn listening(data_plane: &dyn DataPlane) -> Vec<SocketAddr> {
    let portals = data_plane.portals().into_iter();
    let bound = portals.filter(|portal| portal.error.is_none());
    bound.map(|portal| portal.address).collect()
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has already said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Sums of figures over readings. Counters of the data plane wrap, and begin anew when a unit is
/// opened anew; the sums do not.
#[derive(Debug, Default)]
struct Accumulator {
    /// Time since 1970 at which counting began.
    began: Duration,
    /// Sums of units, by name. Their histograms take kilobytes, and stay where they are.
    units: HashMap<String, Box<UnitSums>>,
    port_groups: HashMap<(String, u16), PortGroupSums>,
    /// Devices behind the initiator at the last reading that told them.
    devices: Vec<DeviceFigures>,
}

/// Sums of one unit, and its counters at the last reading.
#[derive(Debug, Default)]
struct UnitSums {
    name: String,
    naa: String,
    under_way: UnderWay,
    number: u64,
    read: StageTotals,
    errors_read: u64,
    latency_read: [LatencyCounts; WITH_HISTOGRAM],
    totals: StageTotals,
    errors: u64,
    rare_read: RareSums,
    rare: RareSums,
    latency: [Latencies; WITH_HISTOGRAM],
}

/// Sums of one port group, and its counters at the last reading.
#[derive(Debug, Default)]
struct PortGroupSums {
    read: PortGroupFigures,
    latency: [LatencyByStage; WITH_HISTOGRAM],
}

impl Accumulator {
    /// Returns the commands of units at the last reading.
    fn commands_read(&self) -> CommandsRead {
        let units = self.units.values();
        units
            .map(|unit| (unit.number, figures::commands(&unit.read)))
            .collect()
    }

    /// Adds what was counted since the last reading. Objects that are gone are forgotten.
    fn add(&mut self, at: Duration, figures: Figures) -> Snapshot {
        let mut before = std::mem::take(&mut self.units);
        self.units.reserve(figures.units.len());
        let mut units = Vec::with_capacity(figures.units.len());
        for read in figures.units {
            let known = before.remove_entry(&read.name);
            let (name, mut sums) = known.unwrap_or_else(|| (read.name.clone(), Box::default()));
            sums.add(read);
            units.push(sums.snapshot());
            self.units.insert(name, sums);
        }
        let mut before = std::mem::take(&mut self.port_groups);
        let mut port_groups = Vec::with_capacity(figures.port_groups.len());
        for read in figures.port_groups {
            let key = (read.target.clone(), read.portal_group);
            let mut sums = before.remove(&key).unwrap_or_default();
            sums.add(read);
            port_groups.push(sums.snapshot());
            self.port_groups.insert(key, sums);
        }
        let sessions = figures.sessions.into_iter().map(|session| SessionSnapshot {
            tsih: session.tsih,
            key: session.number,
            initiator: session.initiator,
            host: session.host,
            target: session.target,
            portal_group: session.portal_group,
            queue_depth: session.queue_depth,
            sums: session.totals.into(),
            luns: luns(session.luns),
        });
        if let Some(devices) = figures.devices {
            self.devices = devices;
        }
        let mut snapshot = Snapshot {
            began_unix_ms: u64::try_from(self.began.as_millis()).unwrap_or(u64::MAX),
            at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
            units,
            sessions: sessions.collect(),
            port_groups,
            devices: self.devices.clone(),
            interfaces: Vec::new(),
        };
        snapshot.units.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.sessions.sort_by_key(|session| session.tsih);
        snapshot
    }
}

impl UnitSums {
    fn add(&mut self, read: UnitFigures) {
        if read.number != self.number {
            self.number = read.number;
            self.read = StageTotals::default();
            self.errors_read = 0;
            self.latency_read = Default::default();
            self.rare_read = RareSums::default();
        }
        let totals = self.totals.iter_mut().zip(&self.read);
        for ((sum, earlier), now) in totals.zip(&read.totals) {
            sum.add(&now.since(earlier));
        }
        self.read = read.totals;
        self.errors += read.errors.saturating_sub(self.errors_read);
        self.errors_read = read.errors;
        self.rare = self.rare.plus(&read.rare.since(&self.rare_read));
        self.rare_read = read.rare;
        (self.naa, self.under_way) = (read.naa, read.under_way);
        if let Some(latency) = read.latency {
            add_between(&mut self.latency, &self.latency_read, &latency);
            self.latency_read = *latency;
        }
        self.name = read.name;
    }

    fn snapshot(&self) -> UnitSnapshot {
        let [read_latency, write_latency] = self.latency.clone();
        UnitSnapshot {
            name: self.name.clone(),
            naa: self.naa.clone(),
            under_way: self.under_way,
            sums: self.totals.into(),
            errors: self.errors,
            discards: self.rare.discards,
            flushes: self.rare.flushes,
            failures: self.rare.failures,
            read_latency,
            write_latency,
        }
    }
}

impl PortGroupSums {
    fn add(&mut self, read: PortGroupFigures) {
        for (kind, sums) in self.latency.iter_mut().enumerate() {
            let (earlier, now) = (&self.read.latency[kind], &read.latency[kind]);
            let whole = [(&mut sums.whole, &earlier.whole, &now.whole)];
            let [wire_in, queue, device, reply] = [
                &mut sums.wire_in,
                &mut sums.queue,
                &mut sums.device,
                &mut sums.reply,
            ];
            let stages = [wire_in, queue, device, reply].into_iter();
            let stages = stages.zip(earlier.stages.iter().zip(&now.stages));
            let stages = stages.map(|(sum, (earlier, now))| (sum, earlier, now));
            for (sum, earlier, now) in whole.into_iter().chain(stages) {
                sum.add_between(earlier, now);
            }
        }
        self.read = read;
    }

    fn snapshot(&self) -> PortGroupSnapshot {
        let [reads_by_stage, writes_by_stage] = self.latency.clone();
        PortGroupSnapshot {
            target: self.read.target.clone(),
            portal_group: self.read.portal_group,
            sums: self.read.totals.into(),
            failures: self.read.failures,
            reads_by_stage,
            writes_by_stage,
        }
    }
}

fn luns(figures: Vec<LunFigures>) -> Vec<LunSnapshot> {
    let mut luns: Vec<LunSnapshot> = figures
        .into_iter()
        .map(|figures| LunSnapshot {
            lun: figures.lun,
            unit: figures.unit,
            under_way: figures.under_way,
            sums: figures.totals.into(),
        })
        .collect();
    luns.sort_by_key(|lun| lun.lun);
    luns
}

fn add_between<const N: usize>(
    sums: &mut [Latencies; N],
    earlier: &[LatencyCounts; N],
    now: &[LatencyCounts; N],
) {
    for (sum, (earlier, now)) in sums.iter_mut().zip(earlier.iter().zip(now)) {
        sum.add_between(earlier, now);
    }
}

#[cfg(test)]
mod tests {
    use model::figures::latency::bucket;
    use model::figures::rare::FlushSums;
    use model::figures::{KindTotals, SessionFigures, StageLatency};

    use super::*;

    /// Returns the figures of a unit that had this many reads of 10 µs each.
    fn unit(number: u64, reads: u32) -> UnitFigures {
        let mut latency = <[LatencyCounts; WITH_HISTOGRAM]>::default();
        latency[0].add_buckets(counts(reads));
        let reads = KindTotals {
            commands: reads.into(),
            bytes: u64::from(reads) * 4096,
            stages_ns: [0, 0, u64::from(reads) * 10_000, 0],
        };
        UnitFigures {
            name: "lu".into(),
            number,
            totals: [reads, KindTotals::default(), KindTotals::default()],
            errors: reads.commands,
            rare: RareSums {
                flushes: FlushSums {
                    commands: reads.commands,
                    time_ns: reads.commands * 7,
                },
                ..RareSums::default()
            },
            latency: Some(Box::new(latency)),
            ..UnitFigures::default()
        }
    }

    fn counts(commands: u32) -> impl Iterator<Item = u32> {
        let at = bucket(10_000);
        (0..=at).map(move |bucket| if bucket == at { commands } else { 0 })
    }

    fn read(units: impl IntoIterator<Item = UnitFigures>) -> Figures {
        Figures {
            units: units.into_iter().collect(),
            ..Figures::default()
        }
    }

    #[test]
    fn sums_go_on_when_a_unit_is_opened_anew() {
        let mut history = Accumulator::default();
        for (number, reads, expected) in [(1, 5, 5), (1, 9, 9), (2, 3, 12), (2, 4, 13)] {
            let snapshot = history.add(INTERVAL, read([unit(number, reads)]));
            let unit = &snapshot.units[0];
            assert_eq!(unit.sums.reads.commands, expected);
            assert_eq!(unit.flushes.commands, expected);
            assert_eq!(unit.flushes.time_ns, expected * 7);
            assert_eq!(unit.sums.reads.device_ns, expected * 10_000);
            assert_eq!(unit.errors, expected);
            assert_eq!(unit.read_latency.commands(), expected);
            assert_eq!(unit.write_latency.commands(), 0);
        }
        assert!(history.add(INTERVAL, read([])).units.is_empty());
        let again = history.add(INTERVAL, read([unit(3, 2)]));
        assert_eq!(again.units[0].sums.reads.commands, 2);
    }

    #[test]
    fn a_unit_that_rests_keeps_its_latencies() {
        let mut history = Accumulator::default();
        history.add(INTERVAL, read([unit(1, 5)]));
        assert_eq!(history.commands_read(), CommandsRead::from([(1, 5)]));
        let rests = UnitFigures {
            latency: None,
            ..unit(1, 5)
        };
        for (figures, expected) in [(rests, 5), (unit(1, 7), 7)] {
            let told = history.add(INTERVAL, read([figures]));
            assert_eq!(told.units[0].read_latency.commands(), expected);
        }
    }

    #[test]
    fn port_groups_tell_their_stages_apart() {
        let mut history = Accumulator::default();
        let group = |commands| {
            let mut latency = <[StageLatency; WITH_HISTOGRAM]>::default();
            latency[1].whole.add_buckets(counts(commands));
            latency[1].stages[3].add_buckets(counts(commands));
            PortGroupFigures {
                target: "iqn.2026-01.io.sandstone:a".into(),
                portal_group: 1,
                latency,
                ..PortGroupFigures::default()
            }
        };
        let mut told = Snapshot::default();
        for commands in [u32::MAX, 4] {
            // The counter wraps between the two.
            let figures = Figures {
                port_groups: vec![group(commands)],
                ..Figures::default()
            };
            told = history.add(INTERVAL, figures);
        }
        let writes = &told.port_groups[0].writes_by_stage;
        let expected = u64::from(u32::MAX) + 5;
        assert_eq!(writes.whole.commands(), expected);
        assert_eq!(writes.reply.commands(), expected);
        assert_eq!(writes.device.commands(), 0);
        assert_eq!(told.port_groups[0].reads_by_stage.whole.commands(), 0);
    }

    #[test]
    fn a_busy_initiator_keeps_its_last_figures() {
        let mut history = Accumulator::default();
        let device = DeviceFigures {
            name: "naa.1".into(),
            ..DeviceFigures::default()
        };
        for (devices, expected) in [(Some(vec![device]), 1), (None, 1), (Some(Vec::new()), 0)] {
            let figures = Figures {
                devices,
                ..Figures::default()
            };
            assert_eq!(history.add(INTERVAL, figures).devices.len(), expected);
        }
    }

    #[test]
    fn sessions_are_told_by_number() {
        let session = |tsih| SessionFigures {
            tsih,
            ..SessionFigures::default()
        };
        let figures = Figures {
            sessions: vec![session(3), session(1)],
            ..Figures::default()
        };
        let told = Accumulator::default().add(INTERVAL, figures);
        let numbers: Vec<u16> = told.sessions.iter().map(|session| session.tsih).collect();
        assert_eq!(numbers, [1, 3]);
    }
}
