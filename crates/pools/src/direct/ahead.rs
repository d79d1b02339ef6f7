//! Reads ahead of readers: those under way, and bytes that wait for the reader that will pass them.
//!
//! Reads of the same bytes join a read that is under way on their lane. Other lanes do not depend
//! on it. The bytes of a reader that has read more than the cache holds never come into the cache:
//! they wait here for the reader, whatever its lane. The cache would forget them before anyone
//! reads them again, and each block would pass through it for nothing.
//!
//! Bytes that wait are bounded. If they fill the bound, nothing more is read ahead for readers that
//! pass, unless some have waited for long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::Lane;
use smallvec::SmallVec;

use super::read::{DirectRead, Wanted};

/// Most bytes that wait for their readers.
const MOST: usize = 32 << 20;
/// Divisor of the cache's cap that gives the most bytes that wait.
const SHARE: usize = 8;
/// Time that bytes wait at least. Others may need their memory then.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// Time that bytes wait at most. A slow reader of 8 MiB ahead comes to them in time.
const MOST_WAIT: Duration = Duration::from_secs(30);

/// Reads ahead of readers, oldest first.
#[derive(Debug, Default)]
pub(super) struct AheadReads {
    reads: Mutex<Vec<AheadRead>>,
    /// Number of reads. It spares the lock where nobody reads in order.
    count: AtomicUsize,
}

#[derive(Debug)]
struct AheadRead {
    lane: usize,
    read: Arc<DirectRead>,
}

impl AheadReads {
    /// Reports whether `bytes` more may be read to wait for a reader. At most a share of `cap`
    /// bytes wait.
    pub(super) fn has_room(&self, bytes: usize, cap: usize, now: Instant) -> bool {
        let most = MOST.min(cap / SHARE);
        let is_full = || {
            let reads = self.lock();
            let passed = reads.iter().map(|of| of.read.passed_bytes());
            bytes + passed.sum::<usize>() > most
        };
        if !self.is_empty() && is_full() {
            self.expire(now, LEAST_WAIT);
            return !is_full();
        }
        true
    }

    /// Adds a read that begins.
    pub(super) fn add(&self, read: &Arc<DirectRead>, lane: &Lane) {
        let mut reads = self.lock();
        reads.push(AheadRead {
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
        let found = of.find(|of| of.lane == lane.number() || of.read.is_waiting());
        found.map(|of| Arc::clone(&of.read))
    }

    /// Removes a read that brought nothing, or whose bytes do not wait here.
    pub(super) fn remove(&self, read: &Arc<DirectRead>) {
        if !self.is_empty() {
            self.retain(|of| !Arc::ptr_eq(of, read));
        }
    }

    /// Removes bytes that wait in vain.
    pub(super) fn expire_late(&self, now: Instant) {
        self.expire(now, MOST_WAIT);
    }

    fn expire(&self, now: Instant, patience: Duration) {
        self.retain(|read| !read.is_waiting() || now < read.began + patience);
    }

    /// Removes all bytes that wait.
    pub(super) fn clear(&self) {
        self.retain(|read| !read.is_waiting());
    }

    /// Returns the first byte of each read whose bytes wait, and their number.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<(u64, usize)> {
        let reads = self.lock();
        let waiting = reads.iter().filter(|of| of.read.is_waiting());
        let waiting = waiting.map(|of| (of.read.wanted.offset, of.read.passed_bytes()));
        waiting.collect()
    }

    /// Reports whether nothing is read ahead, and no bytes wait.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn retain(&self, is_kept: impl Fn(&Arc<DirectRead>) -> bool) {
        let mut reads = self.lock();
        let removed = reads.extract_if(.., |of| !is_kept(&of.read));
        let removed: SmallVec<[AheadRead; 4]> = removed.collect();
        self.count.store(reads.len(), Ordering::Release);
        // Their pages are freed outside the lock.
        drop(reads);
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<AheadRead>> {
        // Every change is a push or a removal: a panic leaves nothing half done.
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use block::Lane;
    use store::format::DatasetId;

    use super::super::read::Use;
    use super::*;

    const LEN: usize = 1 << 20;
    const CAP: usize = 4 * SHARE * LEN;

    fn add(reads: &AheadReads, number: u64, use_of: Use, lane: &Lane) -> Arc<DirectRead> {
        let wanted = Wanted {
            dataset: DatasetId(1),
            block_size: 4096,
            offset: number * LEN as u64,
            len: LEN as u32,
        };
        let read = DirectRead::that_landed(wanted, use_of);
        reads.add(&read, lane);
        read
    }

    #[test]
    fn bytes_that_wait_are_bounded_and_those_that_waited_long_make_room() {
        let (reads, lane) = (AheadReads::default(), Lane::new(Arc::new(|| {})));
        let now = Instant::now();
        for number in 0..4 {
            assert!(reads.has_room(LEN, CAP, now), "{number}");
            add(&reads, number, Use::Passed, &lane);
            // Blocks that come into the cache are not counted here.
            add(&reads, 100 + number, Use::Kept, &lane);
        }
        assert!(!reads.has_room(LEN, CAP, now));
        assert!(!reads.has_room(1, CAP, now));
        assert_eq!(reads.waiting().len(), 4);
        let later = now + LEAST_WAIT + Duration::from_secs(1);
        assert!(reads.has_room(LEN, CAP, later));
        assert!(reads.waiting().is_empty());
        assert_eq!(reads.lock().len(), 4, "reads for the cache stay");
    }

    #[test]
    fn bytes_that_wait_are_found_by_any_lane_until_they_go() {
        let (reads, lane) = (AheadReads::default(), Lane::new(Arc::new(|| {})));
        let [first, _] = [0, 1].map(|number| add(&reads, number, Use::Passed, &lane));
        let kept = add(&reads, 2, Use::Kept, &lane);
        let other = Lane::new(Arc::new(|| {}));
        let is_found = |read: &DirectRead, lane: &Lane| reads.find(read.wanted, lane).is_some();
        assert!(is_found(&first, &lane) && is_found(&first, &other));
        assert!(is_found(&kept, &lane) && !is_found(&kept, &other));
        let across = Wanted {
            offset: first.wanted.offset + 4096,
            ..first.wanted
        };
        assert!(reads.find(across, &lane).is_none(), "no read has all of it");
        reads.expire_late(Instant::now() + MOST_WAIT / 2);
        assert!(is_found(&first, &other));
        reads.remove(&first);
        assert!(!is_found(&first, &lane));
        reads.expire_late(Instant::now() + MOST_WAIT);
        assert!(reads.waiting().is_empty() && !reads.is_empty());
        reads.remove(&kept);
        assert!(reads.is_empty());
    }
}
