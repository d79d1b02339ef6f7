//! Conditions of pace: devices that are slower than their mirror's other half, and units whose
//! commands wait or take long. Pace is judged over a minute, from the growth of sums.

use std::collections::{BTreeMap, HashSet};

use super::{Moment, finding};
use crate::condition as of;
use crate::facts::Finding;
use model::figures::{CommandSums, Snapshot, UnitSnapshot};
use model::pool::io::IoView;
use model::pool::status::PoolView;
use model::pool::vdev::VdevView;

/// Time over which pace is judged, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Fewest commands or requests of a window from which pace is judged.
const ENOUGH: u64 = 60;
/// Factor by which a device must be slower than another of its mirror.
const SLOWER: u64 = 3;
/// Microseconds of a request below which no device counts as slow.
const SLOW_US: u64 = 2000;
/// Nanoseconds that commands may wait before the device begins, on average.
const QUEUE_NS: u64 = 1_000_000;
/// Nanoseconds that the device may take, on average.
const DEVICE_NS: u64 = 20_000_000;

/// Requests of mirrors' devices, and the judgement of the last whole window.
#[derive(Debug, Default)]
pub(super) struct MirrorPace {
    pools: BTreeMap<String, Window>,
}

#[derive(Debug, Default)]
struct Window {
    began_ms: u64,
    counts: BTreeMap<String, IoView>,
    found: Vec<Finding>,
}

impl MirrorPace {
    /// Judges the mirrors of a pool.
    pub(super) fn judge(&mut self, pool: &PoolView, now: Moment, found: &mut Vec<Finding>) {
        let mirrors = || pool.vdevs.iter().filter(|it| it.name.starts_with("mirror"));
        let counts = || {
            let leaves = mirrors().flat_map(|mirror| &mirror.children);
            let counts = leaves.filter_map(|leaf| Some((leaf.name.clone(), leaf.io?)));
            counts.collect::<BTreeMap<_, _>>()
        };
        let window = self
            .pools
            .entry(pool.name.clone())
            .or_insert_with(|| Window {
                began_ms: now.run_ms,
                counts: counts(),
                found: Vec::new(),
            });
        if now.run_ms.saturating_sub(window.began_ms) >= WINDOW_MS {
            let slow = mirrors().flat_map(|mirror| slow_halves(mirror, &window.counts));
            window.found = slow
                .map(|(leaf, us, other_us)| {
                    let text = format!(
                        "{leaf} takes {:.1} ms for a request, the fastest of its mirror {:.1} ms.",
                        us as f64 / 1000.0,
                        other_us as f64 / 1000.0
                    );
                    let object = format!("{} {leaf}", pool.name);
                    let next = format!("sandstone pool iostat -v -l {}", pool.name);
                    finding(&of::SLOWER_THAN_MIRROR, object, text, next)
                })
                .collect();
            window.counts = counts();
            window.began_ms = now.run_ms;
        }
        found.extend(window.found.iter().cloned());
    }

    /// Forgets pools that are gone.
    pub(super) fn forget(&mut self, pools: &[PoolView]) {
        let names: HashSet<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        self.pools.retain(|name, _| names.contains(name.as_str()));
    }
}

/// Returns the slow devices of a mirror, each with its microseconds of a request and those of the
/// fastest device.
fn slow_halves(mirror: &VdevView, before: &BTreeMap<String, IoView>) -> Vec<(String, u64, u64)> {
    let pace = |leaf: &VdevView| {
        let io = leaf.io?.since(*before.get(&leaf.name)?);
        let requests = io.read.requests + io.write.requests;
        let wait_us = io.read.disk_wait_us + io.write.disk_wait_us;
        (requests >= ENOUGH).then(|| (leaf.name.clone(), wait_us / requests))
    };
    let paces: Vec<(String, u64)> = mirror.children.iter().filter_map(pace).collect();
    let Some(fastest) = paces.iter().map(|(_, us)| *us).min() else {
        return Vec::new();
    };
    let is_slow = |us: u64| us >= SLOW_US && us > fastest.saturating_mul(SLOWER);
    let slow = paces.into_iter().filter(|(_, us)| is_slow(*us));
    slow.map(|(leaf, us)| (leaf, us, fastest)).collect()
}

/// Commands of units, and the judgement of the last whole window.
#[derive(Debug, Default)]
pub(super) struct UnitPace {
    began_ms: Option<u64>,
    began_unix_ms: u64,
    sums: BTreeMap<String, CommandSums>,
    found: Vec<Finding>,
}

impl UnitPace {
    /// Judges all units.
    pub(super) fn judge(&mut self, snapshot: &Snapshot, now: Moment, found: &mut Vec<Finding>) {
        let is_anew = self.began_unix_ms != snapshot.began_unix_ms;
        let began_ms = self.began_ms.filter(|_| !is_anew);
        let age_ms = began_ms.map(|began| now.run_ms.saturating_sub(began));
        if age_ms.is_none_or(|age| age >= WINDOW_MS) {
            let units = snapshot.units.iter();
            self.found = match age_ms {
                Some(_) => units.flat_map(|unit| self.of_unit(unit)).collect(),
                None => Vec::new(),
            };
            let units = snapshot.units.iter();
            self.sums = units.map(|unit| (unit.name.clone(), sum(unit))).collect();
            self.began_ms = Some(now.run_ms);
            self.began_unix_ms = snapshot.began_unix_ms;
        }
        found.extend(self.found.iter().cloned());
    }

    fn of_unit(&self, unit: &UnitSnapshot) -> Vec<Finding> {
        let Some(before) = self.sums.get(&unit.name) else {
            return Vec::new();
        };
        let sums = sum(unit).since(before);
        if sums.commands < ENOUGH {
            return Vec::new();
        }
        let next = format!("sandstone iostat {} 5", unit.name);
        let each = [
            (
                &of::KAVG_HIGH,
                sums.queue_ns,
                QUEUE_NS,
                "waited in the queue",
            ),
            (
                &of::DAVG_HIGH,
                sums.device_ns,
                DEVICE_NS,
                "were at the device",
            ),
        ];
        let high = each
            .into_iter()
            .filter(|(_, ns, most, _)| ns / sums.commands > *most);
        high.map(|(condition, ns, _, what)| {
            let average_ms = (ns / sums.commands) as f64 / 1e6;
            let text = format!("Commands {what} for {average_ms:.1} ms on average.");
            finding(condition, &unit.name, text, next.clone())
        })
        .collect()
    }
}

/// Returns the sums of reads and writes: others, such as UNMAP and SANITIZE, may take long.
fn sum(unit: &UnitSnapshot) -> CommandSums {
    unit.sums.reads.plus(&unit.sums.writes)
}
