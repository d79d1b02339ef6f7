//! Reads under way, by lane. A read whose device does not answer in time goes to the engine, which
//! asks another device, and gives up the one that hangs. Bytes that were read ahead in vain go,
//! too.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use block::Lane;
use block::lane::Alarm;
use slab::Slab;

use super::read::DirectRead;
use crate::pool_thread::PoolThread;

/// Time after which the engine gets a read. Another device is then asked at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of locks. Lanes with different numbers seldom share one.
const LOCKS: usize = 16;

/// Reads under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    lanes: [Mutex<HashMap<usize, OfLane>>; LOCKS],
}

/// Reads of a lane that are under way.
#[derive(Debug, Default)]
struct OfLane {
    reads: Slab<Arc<DirectRead>>,
    /// Time of the alarm that is set.
    alarm: Option<Instant>,
}

impl OfLane {
    /// Reports whether the lane has ended, or will not be missed: its alarm did not ring.
    fn is_idle(&self, now: Instant) -> bool {
        self.reads.is_empty() && self.alarm.is_none_or(|at| now > at + PATIENCE)
    }
}

impl UnderWay {
    /// Notes a read that begins. Returns its place.
    pub(super) fn add(
        &self,
        read: &Arc<DirectRead>,
        host: &Arc<PoolThread>,
        lane: &mut Lane,
    ) -> usize {
        let mut lanes = self.lock(lane.number());
        if !lanes.contains_key(&lane.number()) {
            // Lanes come and go.
            lanes.retain(|_, of| !of.is_idle(read.began));
        }
        let of_lane = lanes.entry(lane.number()).or_default();
        let slot = of_lane.reads.insert(Arc::clone(read));
        if of_lane.alarm.is_none() {
            let at = read.began + PATIENCE / 2;
            of_lane.alarm = Some(at);
            drop(lanes);
            watch(host, at, lane);
        }
        slot
    }

    /// Notes that a read ended.
    pub(super) fn remove(&self, slot: usize, lane: &Lane) {
        let mut lanes = self.lock(lane.number());
        let reads = lanes.get_mut(&lane.number()).map(|of| &mut of.reads);
        drop(reads.and_then(|reads| reads.try_remove(slot)));
    }

    /// Reports whether no read is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lanes| {
            let lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.values().all(|of| of.reads.is_empty())
        })
    }

    /// Waits until the reads that are under way now have ended.
    pub(super) fn let_end(&self, within: Duration) {
        let now = Instant::now();
        let is_under_way = |lanes: &Mutex<HashMap<usize, OfLane>>| {
            let lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            let mut reads = lanes.values().flat_map(|of| &of.reads);
            reads.any(|(_, read)| read.began <= now)
        };
        while self.lanes.iter().any(is_under_way) && now.elapsed() < within {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Returns the reads of a lane that take long, and the time at which to look again. The watch
    /// ends if there is nothing to look at.
    fn late(&self, lane: &Lane, goes_on: bool) -> Option<(Vec<Arc<DirectRead>>, Instant)> {
        let mut lanes = self.lock(lane.number());
        let of_lane = lanes.get_mut(&lane.number())?;
        if of_lane.reads.is_empty() && !goes_on {
            lanes.remove(&lane.number());
            return None;
        }
        let now = Instant::now();
        let is_late = |read: &&Arc<DirectRead>| now.duration_since(read.began) >= PATIENCE;
        let reads = of_lane.reads.iter().map(|(_, read)| read);
        let late = reads.filter(is_late).cloned().collect();
        let again = now + PATIENCE / 2;
        of_lane.alarm = Some(again);
        Some((late, again))
    }

    fn lock(&self, lane: usize) -> MutexGuard<'_, HashMap<usize, OfLane>> {
        // Every change is an insertion or a removal: a panic leaves nothing half done.
        self.lanes[lane % LOCKS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(host: &Arc<PoolThread>, at: Instant, lane: &mut Lane) {
    lane.set_alarm(at, Arc::new(Watch(Arc::downgrade(host))));
}

/// Watch over the reads of a lane.
struct Watch(Weak<PoolThread>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").finish()
    }
}

impl Alarm for Watch {
    fn ring(self: Arc<Self>, lane: &mut Lane) {
        let Some(host) = self.0.upgrade() else {
            return;
        };
        let direct = host.direct();
        direct.ahead.expire_late(Instant::now());
        if let Some((late, again)) = direct.under_way.late(lane, !direct.ahead.is_empty()) {
            late.iter().for_each(|read| read.give_up(&host, lane));
            watch(&host, again, lane);
        }
    }
}
