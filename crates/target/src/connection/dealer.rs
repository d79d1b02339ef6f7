//! The choice of the event loop for a new connection: the loop with the fewest open connections,
//! and of several such loops the next in order.
//!
//! Dealing connections out in turn alone is not enough. A client that looks for targets before each
//! login (open-iscsi) would have all its discovery sessions on one loop and all its disks on the
//! other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Dealer of connections, which counts the connections of each loop.
#[derive(Debug)]
pub(crate) struct Dealer {
    open: Box<[AtomicUsize]>,
    /// Loop at which the next search begins.
    next: AtomicUsize,
}

impl Dealer {
    /// Returns a dealer for this number of loops, at least one.
    pub(crate) fn new(loops: usize) -> Arc<Self> {
        Arc::new(Self {
            open: (0..loops.max(1)).map(|_| AtomicUsize::new(0)).collect(),
            next: AtomicUsize::new(0),
        })
    }

    /// Returns a loop for a new connection.
    pub(crate) fn deal(self: &Arc<Self>) -> Dealt {
        let loops = self.open.len();
        let first = self.next.load(Ordering::Relaxed);
        let in_order = (first..first + loops).map(|index| index % loops);
        // From equal loops, `min_by_key` takes the first.
        let fewest = in_order.min_by_key(|index| self.open[*index].load(Ordering::Relaxed));
        let loop_index = fewest.unwrap_or_default();
        self.next.store((loop_index + 1) % loops, Ordering::Relaxed);
        self.count(loop_index)
    }

    fn count(self: &Arc<Self>, loop_index: usize) -> Dealt {
        self.open[loop_index].fetch_add(1, Ordering::Relaxed);
        Dealt {
            dealer: Arc::clone(self),
            loop_index,
        }
    }
}

/// Count of a connection at its loop, until this is dropped, however the connection ends.
#[derive(Debug)]
pub(crate) struct Dealt {
    dealer: Arc<Dealer>,
    loop_index: usize,
}

impl Dealt {
    /// Returns the loop that has the connection.
    pub(crate) fn loop_index(&self) -> usize {
        self.loop_index
    }

    /// Moves the connection to another loop, that of its session.
    pub(crate) fn moved_to(self, loop_index: usize) -> Self {
        self.dealer.count(loop_index)
    }
}

impl Drop for Dealt {
    fn drop(&mut self) {
        self.dealer.open[self.loop_index].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dealer: &Dealer) -> Vec<usize> {
        let open = dealer.open.iter();
        open.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn equal_loops_take_turns() {
        let dealer = Dealer::new(3);
        let dealt: Vec<Dealt> = (0..7).map(|_| dealer.deal()).collect();
        let loops: Vec<usize> = dealt.iter().map(Dealt::loop_index).collect();
        assert_eq!(loops, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(open(&dealer), [3, 2, 2]);
    }

    #[test]
    fn what_stays_is_spread_whatever_comes_and_goes_between() {
        let dealer = Dealer::new(2);
        let mut stay = Vec::new();
        for _ in 0..10 {
            drop(dealer.deal());
            stay.push(dealer.deal());
        }
        assert_eq!(open(&dealer), [5, 5]);
        // A single connection that is slow to go changes the count by one.
        let mut gone = dealer.deal();
        for _ in 0..10 {
            let next = dealer.deal();
            stay.push(dealer.deal());
            gone = next;
        }
        drop(gone);
        let counts = open(&dealer);
        assert_eq!(counts[0] + counts[1], 20);
        assert!(counts[0].abs_diff(counts[1]) <= 2, "{counts:?}");
    }

    #[test]
    fn a_loop_that_was_left_is_filled_first() {
        let dealer = Dealer::new(2);
        let mut dealt: Vec<Dealt> = (0..8).map(|_| dealer.deal()).collect();
        dealt.retain(|dealt| dealt.loop_index() == 1);
        assert_eq!(open(&dealer), [0, 4]);
        dealt.extend((0..4).map(|_| dealer.deal()));
        assert_eq!(open(&dealer), [4, 4]);
    }

    #[test]
    fn a_connection_that_moves_counts_where_it_went() {
        let dealer = Dealer::new(2);
        let dealt = dealer.deal().moved_to(1);
        assert_eq!((dealt.loop_index(), open(&dealer)), (1, vec![0, 1]));
        let dealt = dealt.moved_to(1);
        assert_eq!(open(&dealer), [0, 1]);
        drop(dealt);
        assert_eq!(open(&dealer), [0, 0]);
    }
}
