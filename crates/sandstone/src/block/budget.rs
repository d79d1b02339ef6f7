//! The bound on memory held by requests in flight, over all sessions and loops.
//!
//! A loop takes a reservation before it lets an initiator send data; where there is none it closes
//! the command window instead (back-pressure), so that no number of sessions can exhaust memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes that may be in flight at once.
#[derive(Debug)]
pub struct Budget {
    cap: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of `cap` bytes, all free.
    pub fn new(cap: u64) -> Arc<Self> {
        Arc::new(Self {
            cap,
            used: AtomicU64::new(0),
        })
    }

    /// Reserves `bytes`, or nothing where fewer are left. A request larger than the whole budget
    /// is granted while nothing else is in flight, so that it cannot wait for ever.
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let take = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.cap || used == 0).then_some(sum)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        Some(Reservation {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Bytes reserved at present.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may be reserved in all.
    pub fn cap(&self) -> u64 {
        self.cap
    }
}

/// Bytes taken out of a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_no_more_than_the_cap() {
        let budget = Budget::new(100);
        let first = budget.try_take(60).expect("free");
        assert!(budget.try_take(41).is_none());
        let second = budget.try_take(40).expect("exactly the rest");
        assert_eq!((budget.used(), first.bytes()), (100, 60));
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn lets_one_oversized_request_through_alone() {
        let budget = Budget::new(100);
        let small = budget.try_take(1).expect("free");
        assert!(budget.try_take(101).is_none());
        drop(small);
        let large = budget.try_take(101).expect("alone");
        assert!(budget.try_take(1).is_none());
        drop(large);
        assert!(budget.try_take(1).is_some());
    }
}
