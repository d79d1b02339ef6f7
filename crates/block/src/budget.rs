//! The bound on memory held by requests in flight, over all sessions and loops.
//!
//! A loop reserves memory before it lets an initiator send data, and before it reads data for an
//! initiator. It gives the memory back once the data has gone. Without free memory it answers TASK
//! SET FULL, and closes command windows (back-pressure), so no number of sessions can exhaust
//! memory. Reservations count in whole pages: a block of 512 bytes takes one.
//!
//! # What does not count here
//! Memory that a pool takes for a request beside the request's own bytes. All of it is bounded:
//! - a read or write of a part of a block brings the whole block, packed and then unpacked: at most
//!   twice the blocks that the requests in flight touch;
//! - a write that waits for the pool's thread has its packed blocks beside its data. They are
//!   smaller than the data, or are not kept. Writes that wait for room have no more of them than
//!   the pool's bound on changes (`crates/store/src/engine/io/stalled.rs`), which the cache is
//!   charged;
//! - bytes ahead of a reader come into the cache, or wait for it outside
//!   (`crates/pools/src/direct/ahead.rs`): at most an eighth of the cache's cap, and 32 MiB. The
//!   cache is not charged for them: they come and go with each read, and each time others would
//!   lose blocks for good. Those on their way from the devices are at most 8 MiB, or a 64th of the
//!   cache, for each of the 8 readers that are followed in a volume.
//!
//! # Fairness
//! A quarter of the budget is set apart. Every session has an equal small part of it, its *floor*,
//! to itself. Beyond its floor a session takes from the common pool, but never more than it leaves
//! to all others. A single session gets half. A session that finishes no request cannot keep others
//! from going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pages::PAGE_SIZE;

/// Default of the bytes in flight.
pub const DEFAULT_MEMORY_CAP: u64 = 1 << 30;

/// Divisor of the budget that yields the part which is divided among the sessions.
const FLOORS: u64 = 4;
/// Least floor: a session can always have one small command, even if the command straddles two
/// pages.
const LEAST_FLOOR: u64 = 2 * PAGE_SIZE as u64;

/// Bound on the bytes that may be in flight at once.
#[derive(Debug)]
pub struct Budget {
    /// Bytes of the common pool.
    pool: u64,
    /// Bytes that each session has to itself.
    floor: u64,
    used: AtomicU64,
}

/// One session's part of a [`Budget`].
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    used: AtomicU64,
}

impl Budget {
    /// Creates a budget of `cap` bytes for at most `max_sessions` sessions, all free.
    pub fn new(cap: u64, max_sessions: usize) -> Arc<Self> {
        let sessions = max_sessions.max(1) as u64;
        let floor = (cap / FLOORS / sessions).max(LEAST_FLOOR);
        Arc::new(Self {
            pool: cap.saturating_sub(floor.saturating_mul(sessions)),
            floor,
            used: AtomicU64::new(0),
        })
    }

    /// Returns the most sessions that a budget of `cap` bytes can serve: the floors of more would
    /// exceed half of the budget.
    pub fn most_sessions(cap: u64) -> usize {
        usize::try_from(cap / 2 / LEAST_FLOOR)
            .unwrap_or(usize::MAX)
            .max(1)
    }

    /// Returns the share of a new session.
    pub fn share(self: &Arc<Self>) -> Arc<Share> {
        Arc::new(Share {
            budget: Arc::clone(self),
            used: AtomicU64::new(0),
        })
    }

    /// Returns the bytes taken from the common pool.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reports whether more than half of the common pool is taken.
    pub fn is_under_pressure(&self) -> bool {
        self.used() > self.pool / 2
    }

    /// Returns the pool's part of the bytes that a session uses.
    fn charge(&self, used: u64) -> u64 {
        used.saturating_sub(self.floor)
    }
}

impl Share {
    /// Reserves `bytes`, or nothing if fewer are left for this session. A request beyond the
    /// session's limit is granted while the pool is untouched, so that it cannot wait for ever.
    #[inline]
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let budget = &*self.budget;
        let before = self.used.load(Ordering::Relaxed);
        let after = before.checked_add(bytes)?;
        let (old, new) = (budget.charge(before), budget.charge(after));
        if new > old {
            let take = |used: u64| {
                let sum = used.checked_add(new - old)?;
                let fair = new <= budget.pool.saturating_sub(sum);
                (fair || used == 0).then_some(sum)
            };
            budget
                .used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .ok()?;
        }
        self.used.store(after, Ordering::Relaxed);
        Some(Reservation {
            share: Arc::clone(self),
            bytes,
        })
    }

    /// Returns the bytes that the session holds.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Bytes taken out of a [`Budget`], given back on drop. The reservation stays on the event loop of
/// its session, like everything of a session.
#[derive(Debug)]
pub struct Reservation {
    share: Arc<Share>,
    bytes: u64,
}

impl Drop for Reservation {
    #[inline]
    fn drop(&mut self) {
        let budget = &*self.share.budget;
        let before = self.share.used.load(Ordering::Relaxed);
        let after = before - self.bytes;
        self.share.used.store(after, Ordering::Relaxed);
        let (old, new) = (budget.charge(before), budget.charge(after));
        if old > new {
            budget.used.fetch_sub(old - new, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a budget with a pool of 96 KiB and four floors of 8 KiB.
    fn budget() -> Arc<Budget> {
        Budget::new(128 << 10, 4)
    }

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn gives_no_more_than_the_cap() {
        let budget = budget();
        let shares: Vec<_> = (0..4).map(|_| budget.share()).collect();
        let mut taken = Vec::new();
        while let Some(more) = shares.iter().find_map(|share| share.try_take(KIB)) {
            taken.push(more);
        }
        let used: u64 = shares.iter().map(|share| share.used()).sum();
        assert!(used <= 128 * KIB, "{used}");
        assert!(budget.is_under_pressure());
        drop(taken);
        assert_eq!(budget.used(), 0);
        assert!(shares.iter().all(|share| share.used() == 0));
    }

    #[test]
    fn the_floors_of_all_sessions_stay_within_the_cap() {
        for cap in [16 * KIB, MIB, 10 * MIB, 64 * MIB] {
            let sessions = Budget::most_sessions(cap);
            let budget = Budget::new(cap, sessions);
            assert!(budget.floor * sessions as u64 + budget.pool <= cap);
            assert!(budget.pool >= cap / 2, "{cap}");
        }
        assert_eq!(Budget::most_sessions(64 * MIB), 4096);
        assert_eq!(Budget::most_sessions(0), 1);
    }

    #[test]
    fn whoever_takes_all_it_can_leaves_as_much_to_others() {
        let budget = budget();
        let greedy = budget.share();
        let taken: Vec<_> = std::iter::from_fn(|| greedy.try_take(KIB)).collect();
        assert_eq!(taken.len() as u64, 8 + 48, "its floor and half of the pool");
        let other = budget.share();
        let large = other.try_take(8 * KIB + 24 * KIB);
        assert!(large.is_some());
        // The floor is always there.
        let third = budget.share();
        let fill: Vec<_> = std::iter::from_fn(|| third.try_take(KIB)).collect();
        assert!(fill.len() >= 8);
        let last = budget.share();
        assert!(last.try_take(8 * KIB).is_some());
    }

    #[test]
    fn lets_one_oversized_request_through_alone() {
        let budget = budget();
        let (a, b) = (budget.share(), budget.share());
        let small = a.try_take(9 * KIB).expect("free");
        assert!(b.try_take(1 << 20).is_none());
        drop(small);
        let large = b.try_take(1 << 20).expect("alone");
        assert!(a.try_take(9 * KIB).is_none());
        assert!(a.try_take(8 * KIB).is_some(), "its floor");
        drop(large);
        assert!(a.try_take(9 * KIB).is_some());
    }
}
