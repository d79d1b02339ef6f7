//! A moment: the newest snapshot beside an older one, and the rates between them.
//!
//! Objects have numbers of their own in streams: `u:NAME` is a unit, `s:TSIH` a session,
//! `l:TSIH:LUN` a unit as a session uses it, `h:NAME` a host, `g:TAG:IQN` a port group, `p:POOL` a
//! pool, and `d:POOL:GUID` a disk of a pool. `b:NUMBER` is a benchmark, which no moment has: the
//! stream asks for it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use model::Config;
use model::figures::latency::Latencies;
use model::figures::{KindSums, SessionSnapshot, Snapshot};
use model::pool::io::IoView;
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

use super::host_names::HostNames;
use super::points::Point;
use super::rates::Rates;
use super::row_events::RowEvents;
use crate::format::{mib, ms, rate};

/// Views of pools beside older ones.
#[derive(Clone, Debug)]
pub(crate) struct PoolMoment {
    pub(crate) now: Arc<Vec<PoolView>>,
    pub(crate) before: Arc<Vec<PoolView>>,
    /// Seconds between the two.
    pub(crate) seconds: f64,
}

/// Figures of one second.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// Number of the moment, from 1 on; 0 before the first.
    pub(crate) number: u64,
    /// Point of the charts.
    pub(crate) point: Point,
    /// Whether the daemon ends, so that streams end too.
    pub(crate) is_last: bool,
    before: Arc<Snapshot>,
    newest: Arc<Snapshot>,
    pools: Option<PoolMoment>,
    hosts: OnceLock<HashMap<Arc<str>, Rates>>,
    /// Events with rows, shared by viewers.
    pub(super) row_events: RowEvents,
}

impl Moment {
    pub(super) fn new(
        number: u64,
        point: Point,
        before: Arc<Snapshot>,
        newest: Arc<Snapshot>,
        pools: Option<PoolMoment>,
    ) -> Self {
        Self {
            number,
            point,
            is_last: false,
            before,
            newest,
            pools,
            hosts: OnceLock::new(),
            row_events: RowEvents::default(),
        }
    }

    /// Returns the moment that ends streams.
    pub(super) fn end() -> Self {
        Self {
            is_last: true,
            ..Self::default()
        }
    }

    /// Returns the time of the moment in milliseconds since 1970.
    pub(crate) fn at_ms(&self) -> u64 {
        self.newest.began_unix_ms + self.newest.at_us / 1000
    }

    /// Returns the newest snapshot.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.newest
    }

    /// Returns the seconds between the two snapshots.
    fn seconds(&self) -> f64 {
        self.newest.at_us.saturating_sub(self.before.at_us) as f64 / 1e6
    }

    fn rates(&self, before: Option<&KindSums>, now: &KindSums) -> Rates {
        // An object that was not there before has no rate yet.
        Rates::between(before.unwrap_or(now), now, self.seconds())
    }

    /// Returns the rates of a unit.
    pub(crate) fn unit(&self, name: &str) -> Option<Rates> {
        let find = |snapshot: &Snapshot| {
            let units = &snapshot.units;
            units
                .binary_search_by(|unit| unit.name.as_str().cmp(name))
                .ok()
        };
        let now = &self.newest.units[find(&self.newest)?];
        let before = find(&self.before).map(|at| &self.before.units[at]);
        let rates = self.rates(before.map(|unit| &unit.sums), &now.sums);
        let before = before.unwrap_or(now);
        let mut latencies = now.read_latency.since(&before.read_latency);
        latencies.add(&now.write_latency.since(&before.write_latency));
        Some(rates.with_quantiles(&latencies))
    }

    fn session_of(snapshot: &Snapshot, tsih: u16) -> Option<&SessionSnapshot> {
        let sessions = &snapshot.sessions;
        let at = sessions
            .binary_search_by_key(&tsih, |session| session.tsih)
            .ok()?;
        sessions.get(at)
    }

    /// Returns a session, and the same session before.
    fn session_pair(&self, tsih: u16) -> Option<(Option<&SessionSnapshot>, &SessionSnapshot)> {
        let now = Self::session_of(&self.newest, tsih)?;
        let before = Self::session_of(&self.before, tsih).filter(|it| it.key == now.key);
        Some((before, now))
    }

    /// Returns the rates of a session.
    pub(crate) fn session(&self, tsih: u16) -> Option<Rates> {
        let (before, now) = self.session_pair(tsih)?;
        Some(self.rates(before.map(|it| &it.sums), &now.sums))
    }

    /// Returns the rates of a unit as a session uses it.
    pub(crate) fn lun(&self, tsih: u16, lun: u16) -> Option<Rates> {
        let (before, now) = self.session_pair(tsih)?;
        let find = |of: &SessionSnapshot| of.luns.iter().find(|it| it.lun == lun).map(|it| it.sums);
        // A unit that the session had not used before counts from zero.
        let before = before.map(|before| find(before).unwrap_or_default());
        Some(self.rates(before.as_ref(), &find(now)?))
    }

    /// Returns the rates of a host: the sum of its sessions.
    pub(crate) fn host(&self, name: &str, config: &Config, names: &HostNames) -> Rates {
        let all = self.hosts.get_or_init(|| {
            let mut sums: HashMap<Arc<str>, (KindSums, KindSums)> = HashMap::new();
            for now in &self.newest.sessions {
                let Some(host) = names.of(config, &now.initiator) else {
                    continue;
                };
                let before =
                    Self::session_of(&self.before, now.tsih).filter(|it| it.key == now.key);
                let entry = sums.entry(host).or_default();
                entry.0 = plus(&entry.0, before.map_or(&now.sums, |it| &it.sums));
                entry.1 = plus(&entry.1, &now.sums);
            }
            let rates = sums
                .into_iter()
                .map(|(host, (before, now))| (host, Rates::between(&before, &now, self.seconds())));
            rates.collect()
        });
        all.get(name).copied().unwrap_or_default()
    }

    /// Returns the rates of a port group.
    pub(crate) fn port_group(&self, target: &str, tag: u16) -> Option<Rates> {
        let find = |snapshot: &'_ Snapshot| {
            let mut groups = snapshot.port_groups.iter();
            groups.position(|it| it.portal_group == tag && it.target == target)
        };
        let now = &self.newest.port_groups[find(&self.newest)?];
        let before = find(&self.before).map(|at| &self.before.port_groups[at]);
        let rates = self.rates(before.map(|it| &it.sums), &now.sums);
        let before = before.unwrap_or(now);
        let mut whole = Latencies::default();
        for (now, before) in [
            (&now.reads_by_stage, &before.reads_by_stage),
            (&now.writes_by_stage, &before.writes_by_stage),
        ] {
            whole.add(&now.whole.since(&before.whole));
        }
        Some(rates.with_quantiles(&whole))
    }

    /// Returns the texts of an object's live figures. `None` means that the object is gone, or has
    /// no figures.
    pub(crate) fn texts(
        &self,
        id: &str,
        config: &Config,
        names: &HostNames,
    ) -> Option<Vec<String>> {
        let (kind, rest) = id.split_once(':')?;
        let rates = match kind {
            "u" => self.unit(rest)?,
            "s" => self.session(rest.parse().ok()?)?,
            "l" => {
                let (tsih, lun) = rest.split_once(':')?;
                self.lun(tsih.parse().ok()?, lun.parse().ok()?)?
            }
            "h" => self.host(rest, config, names),
            "g" => {
                let (tag, target) = rest.split_once(':')?;
                self.port_group(target, tag.parse().ok()?)?
            }
            "p" => return self.pools.as_ref()?.pool(rest),
            "d" => {
                let (pool, guid) = rest.split_once(':')?;
                return self.pools.as_ref()?.disk(pool, guid);
            }
            _ => return None,
        };
        Some(rates.figures().into_iter().map(|(_, text)| text).collect())
    }
}

fn plus(a: &KindSums, b: &KindSums) -> KindSums {
    KindSums {
        reads: a.reads.plus(&b.reads),
        writes: a.writes.plus(&b.writes),
        others: a.others.plus(&b.others),
    }
}

impl PoolMoment {
    fn pair(&self, name: &str) -> Option<(&PoolView, Option<&PoolView>)> {
        let of = |all: &'_ Vec<PoolView>| all.iter().position(|pool| pool.name == name);
        let now = &self.now[of(&self.now)?];
        Some((now, of(&self.before).map(|at| &self.before[at])))
    }

    /// Returns the live figures of a pool: those of all its top-level vdevs together, and its scan.
    fn pool(&self, name: &str) -> Option<Vec<String>> {
        let (now, before) = self.pair(name)?;
        let sum = |pool: &PoolView| IoView::of_all(&pool.vdevs);
        let io = sum(now);
        let mut texts = io_texts(io.since(before.map_or(io, sum)), self.seconds);
        texts.push(now.scan.clone());
        Some(texts)
    }

    /// Returns the live figures of a disk, by its number.
    fn disk(&self, pool: &str, guid: &str) -> Option<Vec<String>> {
        let (now, before) = self.pair(pool)?;
        let find = |pool: &PoolView| leaf(pool, guid).and_then(|vdev| vdev.io);
        let now = find(now)?;
        Some(io_texts(
            now.since(before.and_then(find).unwrap_or(now)),
            self.seconds,
        ))
    }
}

/// Returns a vdev of a pool by its number, or by its name where it has none.
fn leaf<'a>(pool: &'a PoolView, number: &str) -> Option<&'a VdevView> {
    let groups = [&pool.vdevs, &pool.logs, &pool.caches, &pool.spares];
    let mut all = groups.into_iter().flatten().flat_map(VdevView::all);
    all.find(|vdev| number_of(vdev) == number)
}

/// Returns the number of a vdev in streams.
pub(crate) fn number_of(vdev: &VdevView) -> &str {
    vdev.guid.as_deref().unwrap_or(&vdev.name)
}

/// Numbers of the live figures of a disk or pool.
pub(crate) mod io_place {
    /// Requests per second.
    pub(crate) const OPERATIONS: usize = 0;
    /// MiB per second.
    pub(crate) const BYTES: usize = 1;
    /// Mean time of a request at the disk.
    pub(crate) const DISK: usize = 2;
    /// Mean time of a request, with the queue before the disk.
    pub(crate) const TOTAL: usize = 3;
    /// State of a scrub or resilver. Pools have it, and disks do not.
    pub(crate) const SCAN: usize = 4;
}

fn io_texts(io: IoView, seconds: f64) -> Vec<String> {
    let seconds = seconds.max(f64::MIN_POSITIVE);
    let (read, write) = (io.read, io.write);
    let requests = read.requests + write.requests;
    let mean = |us: u64| (requests > 0).then(|| us as f64 / requests as f64);
    vec![
        rate((read.operations + write.operations) as f64 / seconds),
        mib((read.bytes + write.bytes) as f64 / seconds),
        ms(mean(read.disk_wait_us + write.disk_wait_us)),
        ms(mean(read.total_wait_us + write.total_wait_us)),
    ]
}
