//! Reads ahead of readers: those under way, and bytes that wait for the reader that will pass them.
//!
//! Reads of the same bytes join a read that is under way on their lane. Other lanes do not depend
//! on it. The bytes of a reader that has read more than the cache holds never come into the cache:
//! they wait here for the reader, whatever its lane. The cache would forget them before anyone
//! reads them again, and each block would pass through it for nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::Lane;

use super::read::{DirectRead, Wanted};

/// Most bytes that wait for their readers. Those that wait longest go first.
const MOST: usize = 32 << 20;
/// Divisor of the cache's cap that gives the most bytes that wait.
const SHARE: usize = 8;

/// Reads ahead of readers, oldest first.
#[derive(Debug, Default)]
pub(super) struct AheadReads {
    reads: Mutex<VecDeque<AheadRead>>,
    /// Number of reads. It spares the lock where nobody reads in order.
    count: AtomicUsize,
}

#[derive(Debug)]
struct AheadRead {
    lane: usize,
    read: Arc<DirectRead>,
}

impl AheadReads {
    /// Adds a read that begins. At most a share of `cap` bytes then waits for readers.
    pub(super) fn add(&self, read: &Arc<DirectRead>, cap: usize, lane: &Lane) {
        let mut reads = self.lock();
        let most = MOST.min(cap / SHARE);
        let mut waiting: usize = reads.iter().map(|of| of.read.waiting_bytes()).sum();
        reads.retain(|of| {
            let bytes = of.read.waiting_bytes();
            let goes = bytes > 0 && waiting > most;
            waiting -= if goes { bytes } else { 0 };
            !goes
        });
        reads.push_back(AheadRead {
            lane: lane.number(),
            read: Arc::clone(read),
        });
        self.count.store(reads.len(), Ordering::Release);
    }

    /// Returns a read that brings these bytes, or brought them.
    pub(super) fn find(&self, wanted: Wanted, lane: &Lane) -> Option<Arc<DirectRead>> {
        if self.is_empty() {
            return None;
        }
        let reads = self.lock();
        let mut of = reads.iter().filter(|of| of.read.wanted.covers(wanted));
        let found = of.find(|of| of.lane == lane.number() || of.read.waiting_bytes() > 0);
        found.map(|of| Arc::clone(&of.read))
    }

    /// Removes a read that brought nothing, or whose bytes do not wait here.
    pub(super) fn remove(&self, read: &Arc<DirectRead>) {
        if !self.is_empty() {
            self.retain(|of| !Arc::ptr_eq(of, read));
        }
    }

    /// Removes bytes that wait in vain.
    pub(super) fn expire(&self, now: Instant, patience: Duration) {
        self.retain(|read| read.waiting_bytes() == 0 || now < read.began + patience);
    }

    /// Removes all bytes that wait.
    pub(super) fn clear(&self) {
        self.retain(|read| read.waiting_bytes() == 0);
    }

    /// Returns the first byte of each read whose bytes wait, and their number.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<(u64, usize)> {
        let reads = self.lock();
        let all = reads.iter().map(|of| &of.read);
        let waiting = all.map(|read| (read.wanted.offset, read.waiting_bytes()));
        waiting.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Reports whether nothing is read ahead, and no bytes wait.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn retain(&self, is_kept: impl Fn(&Arc<DirectRead>) -> bool) {
        let mut reads = self.lock();
        reads.retain(|of| is_kept(&of.read));
        self.count.store(reads.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<AheadRead>> {
        // Every change is a push or a removal: a panic leaves nothing half done.
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
