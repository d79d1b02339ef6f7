//! The order between clients that leave and clients that come.
//!
//! A client that loses its connection sends again on a new one what was not answered, and then writes
//! newer data. Of what it sent on the old one some is at the device, some waits for memory and some is
//! still unread in the socket: none of it may be performed after a request of the new connection.
//!
//! So the first request of a connection waits at a fence until
//! - each loop has looked once, since that request came, which of its sockets the poller calls closed:
//!   a client closes the old socket before it uses the new one, but the old one's loop may be late;
//! - of the connections found closed none that is past its own fence has anything left to perform, nor
//!   one that still waits and came earlier. Places in a line keep those who wait for each other in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;

/// A fence all loops share.
#[derive(Debug)]
pub(super) struct Fence {
    next_place: AtomicU64,
    /// Counts the looks asked for.
    asked: AtomicU64,
    /// Per loop: up to where it has answered [`Fence::asked`].
    looked: Box<[AtomicU64]>,
    wakers: Box<[Arc<Waker>]>,
    /// Connections without a client that may have something left to perform, by place; `true` where
    /// they are past the fence.
    leaving: Mutex<BTreeMap<u64, bool>>,
}

impl Fence {
    /// For loops that are woken so.
    pub(super) fn new(wakers: impl Iterator<Item = Arc<Waker>>) -> Self {
        let wakers: Box<[_]> = wakers.collect();
        Self {
            next_place: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            looked: wakers.iter().map(|_| AtomicU64::new(0)).collect(),
            wakers,
            leaving: Mutex::default(),
        }
    }

    /// The last place in the line.
    pub(super) fn take_place(&self) -> u64 {
        self.next_place.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks every loop for a look; the answer to [`Fence::have_looked`].
    pub(super) fn ask(&self) -> u64 {
        let look = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        for waker in self.wakers.iter() {
            let _ = waker.wake();
        }
        look
    }

    /// The latest look asked for: to be read before polling.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// A loop has polled since that look was asked for, and told of all who left.
    pub(super) fn looked(&self, index: usize, look: u64) {
        self.looked[index].store(look, Ordering::Release);
    }

    /// A loop has ended: nobody needs to wait for it.
    pub(super) fn looks_no_more(&self, index: usize) {
        self.looked(index, u64::MAX);
    }

    /// Whether every loop has looked.
    pub(super) fn have_looked(&self, look: u64) -> bool {
        let mut all = self.looked.iter();
        all.all(|looked| looked.load(Ordering::Acquire) >= look)
    }

    /// The client of this place is gone; `passed` where its connection is past the fence.
    pub(super) fn leave(&self, place: u64, passed: bool) {
        self.line().insert(place, passed);
    }

    /// Nothing of this place will be performed any more.
    pub(super) fn is_over(&self, place: u64) {
        self.line().remove(&place);
    }

    /// Each change is a single step: it is whole even after a panic elsewhere.
    fn line(&self) -> MutexGuard<'_, BTreeMap<u64, bool>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether whoever has this place may pass.
    pub(super) fn is_open(&self, place: u64) -> bool {
        let leaving = self.line();
        !leaving
            .iter()
            .any(|(other, passed)| *passed || *other < place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(loops: usize) -> Fence {
        let poll = mio::Poll::new().expect("a poller");
        let waker = Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let waker = Arc::new(waker);
        Fence::new((0..loops).map(|_| Arc::clone(&waker)))
    }

    #[test]
    fn a_look_is_one_that_began_after_it_was_asked_for() {
        let fence = fence(2);
        let early = fence.asked();
        let look = fence.ask();
        fence.looked(0, early);
        fence.looked(1, fence.asked());
        assert!(!fence.have_looked(look));
        fence.looked(0, fence.asked());
        assert!(fence.have_looked(look));
        let next = fence.ask();
        fence.looks_no_more(0);
        assert!(!fence.have_looked(next));
        fence.looked(1, next);
        assert!(fence.have_looked(next));
    }

    #[test]
    fn those_who_wait_pass_in_order_and_after_all_who_have_passed() {
        let fence = fence(1);
        let places: Vec<u64> = (0..4).map(|_| fence.take_place()).collect();
        assert!(fence.is_open(places[3]));
        // Past the fence and gone: everybody waits, also who came before.
        fence.leave(places[1], true);
        assert!(places.iter().all(|place| !fence.is_open(*place)));
        // One who left before the fence waits for none behind it.
        fence.leave(places[2], false);
        fence.is_over(places[1]);
        assert!(fence.is_open(places[0]) && fence.is_open(places[2]));
        assert!(!fence.is_open(places[3]));
        fence.leave(places[2], true);
        assert!(!fence.is_open(places[0]));
        fence.is_over(places[2]);
        assert!(fence.is_open(places[3]));
    }
}
