//! Reads under way, by lane. A read whose device does not answer in time goes to the engine, which
//! asks another device, and gives up the one that hangs. Bytes that were read ahead in vain go,
//! too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use block::Lane;
use block::lane::Alarm;
use slab::Slab;
use store::map::hash::BuildNumberHasher;

use super::read::{Caller, DirectRead, Wanted, gone, hand_over};
use super::single::SingleReads;
use crate::pool_thread::PoolThread;

/// Time after which the engine gets a read. Another device is then asked at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of locks. Lanes with different numbers seldom share one.
const LOCKS: usize = 16;

/// Reads under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    lanes: [Mutex<Lanes>; LOCKS],
}

/// Lanes by their numbers.
type Lanes = HashMap<usize, OfLane, BuildNumberHasher>;

/// Reads of several blocks that a lane has under way. The lane's alarm has them, too: if the pool
/// ends before a device answers, nobody else can answer their callers.
type SeveralReads = Mutex<Slab<Arc<DirectRead>>>;

/// Reads of a lane that are under way.
#[derive(Debug)]
struct OfLane {
    reads: Arc<SeveralReads>,
    singles: Arc<SingleReads>,
    /// Time of the alarm that is set.
    alarm: Option<Instant>,
}

impl OfLane {
    /// Reports whether the lane has ended, or will not be missed: its alarm did not ring.
    fn is_idle(&self, now: Instant) -> bool {
        // The lane may be about to begin a read. It takes its reads under the lock that is held.
        let is_in_use = Arc::strong_count(&self.singles) > 1;
        self.has_none() && !is_in_use && self.alarm.is_none_or(|at| now > at + PATIENCE)
    }

    /// Reports whether no read is under way.
    fn has_none(&self) -> bool {
        locked(&self.reads).is_empty() && self.singles.is_empty()
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
        let insert = |of: &mut OfLane| locked(&of.reads).insert(Arc::clone(read));
        self.with_lane(host, read.began, lane, insert)
    }

    /// Returns the reads of single blocks of a lane that begins one now.
    pub(super) fn singles(
        &self,
        host: &Arc<PoolThread>,
        now: Instant,
        lane: &mut Lane,
    ) -> Arc<SingleReads> {
        self.with_lane(host, now, lane, |of| Arc::clone(&of.singles))
    }

    /// Calls `with` with the reads of a lane that begins one now, and sees to its alarm.
    fn with_lane<T>(
        &self,
        host: &Arc<PoolThread>,
        now: Instant,
        lane: &mut Lane,
        with: impl FnOnce(&mut OfLane) -> T,
    ) -> T {
        let mut lanes = self.lock(lane.number());
        let of_lane = match lanes.entry(lane.number()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) => {
                // Lanes come and go.
                lanes.retain(|_, of| !of.is_idle(now));
                lanes.entry(lane.number()).or_insert_with(|| OfLane {
                    reads: Arc::default(),
                    singles: Arc::new(SingleReads::new(host, lane)),
                    alarm: None,
                })
            }
        };
        let result = with(of_lane);
        if of_lane.alarm.is_none() {
            let at = now + PATIENCE / 2;
            of_lane.alarm = Some(at);
            let watch = Watch {
                host: Arc::downgrade(host),
                reads: Arc::clone(&of_lane.reads),
                singles: Arc::downgrade(&of_lane.singles),
            };
            drop(lanes);
            lane.set_alarm(at, Arc::new(watch));
        }
        result
    }

    /// Notes that a read ended.
    pub(super) fn remove(&self, slot: usize, lane: &Lane) {
        let lanes = self.lock(lane.number());
        let of_lane = lanes.get(&lane.number());
        drop(of_lane.and_then(|of| locked(&of.reads).try_remove(slot)));
    }

    /// Reports whether no read is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lanes| {
            let lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.values().all(OfLane::has_none)
        })
    }

    /// Lets all lanes look for devices and maps anew with their next reads.
    pub(super) fn forget(&self) {
        for lanes in &self.lanes {
            let lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            let known: Vec<_> = lanes.values().map(|of| of.singles.forget()).collect();
            drop(lanes);
            // Devices are closed outside of the locks.
            drop(known);
        }
    }

    /// Waits until the reads that are under way now have ended.
    pub(super) fn let_end(&self, within: Duration) {
        let now = Instant::now();
        let is_under_way = |lanes: &Mutex<Lanes>| {
            let lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.values().any(|of| {
                let reads = locked(&of.reads);
                let mut reads = reads.iter();
                reads.any(|(_, read)| read.began <= now) || of.singles.has_begun_by(now)
            })
        };
        while self.lanes.iter().any(is_under_way) && now.elapsed() < within {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Returns the reads of a lane that take long. The watch ends if there is nothing to look at.
    fn late(&self, now: Instant, lane: &Lane, goes_on: bool) -> Option<Late> {
        let mut lanes = self.lock(lane.number());
        let of_lane = lanes.get_mut(&lane.number())?;
        if of_lane.has_none() && !goes_on {
            lanes.remove(&lane.number());
            return None;
        }
        let is_late = |read: &&Arc<DirectRead>| now.duration_since(read.began) >= PATIENCE;
        let reads = locked(&of_lane.reads);
        let late = reads.iter().map(|(_, read)| read).filter(is_late);
        let late = late.cloned().collect();
        drop(reads);
        let singles = now.checked_sub(PATIENCE);
        let singles = singles.map(|by| of_lane.singles.give_up(by));
        of_lane.alarm = Some(now + PATIENCE / 2);
        Some(Late {
            reads: late,
            singles: singles.unwrap_or_default(),
        })
    }

    fn lock(&self, lane: usize) -> MutexGuard<'_, Lanes> {
        // Every change is an insertion or a removal: a panic leaves nothing half done.
        self.lanes[lane % LOCKS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn locked(reads: &SeveralReads) -> MutexGuard<'_, Slab<Arc<DirectRead>>> {
    // As above.
    reads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads that take long.
struct Late {
    reads: Vec<Arc<DirectRead>>,
    /// Callers of reads of single blocks.
    singles: Vec<(Wanted, Caller)>,
}

/// Watch over the reads of a lane.
struct Watch {
    host: Weak<PoolThread>,
    reads: Arc<SeveralReads>,
    singles: Weak<SingleReads>,
}

impl Watch {
    /// Answers all callers of reads whose pool is gone. Nobody reads from a device that answers
    /// late.
    fn end(&self, lane: &mut Lane) {
        let reads = std::mem::take(&mut *locked(&self.reads));
        for (_, read) in &reads {
            read.end(lane);
        }
        let Some(singles) = self.singles.upgrade() else {
            return;
        };
        drop(singles.forget());
        for (_, caller) in singles.give_up(Instant::now()) {
            lane.complete(caller.ticket, Err(gone()));
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").finish()
    }
}

impl Alarm for Watch {
    fn ring(self: Arc<Self>, lane: &mut Lane) {
        let now = Instant::now();
        let Some(host) = self.host.upgrade() else {
            return self.end(lane);
        };
        let direct = host.direct();
        direct.ahead.expire_late(now);
        if let Some(late) = direct.under_way.late(now, lane, !direct.ahead.is_empty()) {
            late.reads.iter().for_each(|read| read.give_up(&host, lane));
            for (wanted, caller) in late.singles {
                hand_over(&host, wanted, caller, lane);
            }
            lane.set_alarm(now + PATIENCE / 2, self);
        }
    }
}
