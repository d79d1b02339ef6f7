//! The block cache: blocks of volumes in memory, under a hard cap, for all threads.
//!
//! Event loops look blocks up; the engine's thread puts them in and throws them out. The blocks are
//! spread over up to 64 parts by a hash of their key, each behind a lock of its own that is held for
//! some tens of nanoseconds. A hit clones a reference: it copies no data and allocates nothing.
//!
//! **What is kept** is decided by S3-FIFO (`part.rs`): a hit sets a counter and moves nothing, and a
//! scan passes through a tenth of the memory without disturbing the rest. Beside LRU it hits more on
//! skewed access, and does not collapse under a scan; `tests/hit_rates.rs` shows both.
//!
//! **The cap is hard.** Each part has an equal share of it and makes room before it takes a block.
//! Counted are the pages of the blocks, the lists of them, the entries, the table that finds them,
//! the memory of what was thrown out, and the counts of volumes. Not counted are blocks that were
//! thrown out while somebody still sends them: these are bounded by what is in flight.
//!
//! **What a caller can rely on**: once [`Cache::insert`] or an invalidation has returned, no
//! [`Cache::get`] of any thread returns what was there before. What was read from a disk goes in with
//! [`Cache::fill`], which refuses it if the block was changed since the read began. A block may be
//! thrown out at any time.
//!
//! The policy of a volume (`primarycache`) is its caller's: what must not be cached is not put in.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pages::Pages;
use smallvec::SmallVec;

mod charge;
mod ghosts;
mod part;
pub mod second_level;
mod statistics;
mod table;
#[cfg(test)]
mod tests;

pub use charge::Charge;
pub use part::UNCOUNTED_SHARE;
use part::{Foreseen, Part, Step};
pub use statistics::{Statistics, VolumeStatistics};

/// More would only cost memory: a lock is held for tens of nanoseconds.
const MAX_PARTS: usize = 64;
/// A part below this could hold too few large blocks to choose well among them.
const MIN_PART_BYTES: usize = 4 << 20;
/// Accesses that are foreseen together without memory of their own.
const FORESEEN: usize = 64;
/// Up to so many blocks are invalidated one by one; for more it is worth asking how many there are.
const FEW_BLOCKS: u64 = 1024;

/// Which block: the volume's number and the block's index in it, counted in volblocksize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The volume, never used again for another one.
    pub volume: u64,
    /// The block's index.
    pub block: u64,
}

/// A block that had to make room.
#[derive(Clone, Debug)]
pub struct Evicted {
    /// Which block.
    pub key: Key,
    /// Its bytes, as they were put in.
    pub data: Pages,
    /// Whether it was used again after it came: such a block may be worth a place on a cache device.
    pub was_used_again: bool,
}

/// Blocks that had to make room: mostly one, for one that came.
pub(crate) type EvictedBlocks = SmallVec<[Evicted; 1]>;

/// How often the neighbourhood of a block was changed when the reading of it began. A block's
/// [`Cache::fill`] wants it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The cache; share it by reference or `Arc`.
#[derive(Debug)]
pub struct Cache {
    parts: Box<[Lane]>,
    seed: u64,
    cap: AtomicUsize,
    /// What others keep of it.
    reserved: AtomicUsize,
    /// Bytes of it that [`Charge`]s take.
    charged: AtomicUsize,
}

/// A part on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Lane(Mutex<Part>);

impl Lane {
    /// A panic elsewhere leaves the part usable: every operation restores it before anything that
    /// could panic.
    fn lock(&self) -> MutexGuard<'_, Part> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// An empty cache that never takes more than `cap` bytes; one so small that nothing fits beside
    /// its own 2 KiB (for each lock) keeps nothing. `seed` should be
    /// random, so that nobody can choose blocks that all fall on one place of the table; the same
    /// seed and calls give the same results.
    pub fn new(cap: usize, seed: u64) -> Self {
        let parts = (cap / MIN_PART_BYTES).clamp(1, MAX_PARTS);
        Self {
            parts: (0..parts)
                .map(|_| Lane(Mutex::new(Part::new(cap / parts))))
                .collect(),
            seed,
            cap: AtomicUsize::new(cap),
            reserved: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
        }
    }

    /// These bytes of blocks are about to be asked for, it seems: brings near what finding them waits for. That is
    /// no use of them.
    pub fn foresee(&self, accesses: impl Iterator<Item = (Key, usize)>) {
        let mut accesses: SmallVec<[Foreseen; FORESEEN]> = accesses
            .map(|(key, at)| Foreseen::new(key, self.hash(key), at))
            .collect();
        for step in [Step::Place, Step::Entry, Step::Data, Step::Page] {
            for access in &mut accesses {
                self.part(access.hash).prefetch(step, access);
            }
        }
    }

    /// The block, where it is here.
    pub fn get(&self, key: Key) -> Option<Pages> {
        let hash = self.hash(key);
        self.part(hash).get(key, hash).cloned()
    }

    /// The block, where it is here; else what [`Cache::fill`] wants of who reads it from a disk.
    ///
    /// # Errors
    /// It is not here.
    pub fn get_or_ticket(&self, key: Key) -> Result<Pages, Ticket> {
        let hash = self.hash(key);
        let mut part = self.part(hash);
        let found = part.get(key, hash).cloned();
        found.ok_or_else(|| Ticket(part.changes(hash)))
    }

    /// What [`Cache::fill`] wants of who reads the block from a disk, unless it is here. That is no use of it.
    pub fn ticket_of_absent(&self, key: Key) -> Option<Ticket> {
        let hash = self.hash(key);
        let part = self.part(hash);
        (!part.holds(key, hash)).then(|| Ticket(part.changes(hash)))
    }

    /// Whether the block is here. That is no use of it.
    pub fn holds(&self, key: Key) -> bool {
        let hash = self.hash(key);
        self.part(hash).holds(key, hash)
    }

    /// These bytes of the block, where it is here (and not shorter).
    pub fn get_range(&self, key: Key, range: Range<usize>) -> Option<Pages> {
        let hash = self.hash(key);
        let mut part = self.part(hash);
        let data = part.get(key, hash)?;
        (range.start <= range.end && range.end <= data.len()).then(|| data.slice(range))
    }

    /// Puts in what the block is from now on: a write. Blocks that had to make room are handed to
    /// `evicted` after the lock is released. A block that is too large for the cache is not kept,
    /// and neither is what was there before.
    pub fn insert(&self, key: Key, data: Pages, evicted: impl FnMut(Evicted)) {
        let data = data.trimmed();
        let hash = self.hash(key);
        let mut gone = EvictedBlocks::new();
        {
            let mut part = self.part(hash);
            part.note_change(hash);
            part.put(key, hash, data, &|key| self.hash(key), &mut gone);
        }
        gone.into_iter().for_each(evicted);
    }

    /// To be taken before the block is read from a disk, for [`Cache::fill`].
    pub fn ticket(&self, key: Key) -> Ticket {
        let hash = self.hash(key);
        Ticket(self.part(hash).changes(hash))
    }

    /// Puts in what was read from a disk, unless the block was (or, rarely, another one near it in
    /// the table) written or invalidated since `ticket` was taken; whether it did. So an old read
    /// cannot cover a newer write.
    pub fn fill(
        &self,
        key: Key,
        ticket: Ticket,
        data: Pages,
        evicted: impl FnMut(Evicted),
    ) -> bool {
        let data = data.trimmed();
        let hash = self.hash(key);
        let mut gone = EvictedBlocks::new();
        {
            let mut part = self.part(hash);
            if part.changes(hash) != ticket.0 {
                return false;
            }
            part.put(key, hash, data, &|key| self.hash(key), &mut gone);
        }
        gone.into_iter().for_each(evicted);
        true
    }

    /// Reads that follow one another, of `run` bytes up to now, have gone past the block. Where so many find no room, it is
    /// thrown out before others are, unless it was used besides.
    pub fn pass(&self, key: Key, run: u64) {
        let hash = self.hash(key);
        let share = usize::try_from(run / self.parts.len() as u64).unwrap_or(usize::MAX);
        let evicted = self.part(hash).pass(key, hash, share);
        // Not under the lock; and whoever keeps what was thrown out keeps only what was used again.
        drop(evicted);
    }

    /// Throws the block out.
    pub fn invalidate(&self, key: Key) {
        let hash = self.hash(key);
        let data = {
            let mut part = self.part(hash);
            part.note_change(hash);
            part.remove(key, hash)
        };
        drop(data);
    }

    /// Throws these blocks of the volume out. Takes time for each block of the range or for each
    /// in the cache, whichever are fewer.
    pub fn invalidate_range(&self, volume: u64, blocks: Range<u64>) {
        let count = blocks.end.saturating_sub(blocks.start);
        let is_walk = count > FEW_BLOCKS && {
            let cached: u64 = self.locked().map(|part| part.blocks()).sum();
            count > cached
        };
        if is_walk {
            self.remove_range(volume, blocks.start..=blocks.end - 1);
        } else {
            blocks.for_each(|block| self.invalidate(Key { volume, block }));
        }
    }

    /// Throws all blocks of the volume out, and forgets its counts. To be called when a volume is
    /// destroyed; where its contents changed as a whole (a rollback), too.
    pub fn invalidate_volume(&self, volume: u64) {
        self.remove_range(volume, 0..=u64::MAX);
        self.locked()
            .for_each(|mut part| part.forget_volume(volume));
    }

    /// Changes the cap while the cache is in use. Blocks beyond it are dropped before this returns.
    /// How many locks there are stays: a cache that was made small and is to be much larger is
    /// better made anew.
    pub fn resize(&self, cap: usize) {
        self.cap.store(cap, Ordering::Relaxed);
        let whole = cap / self.parts.len();
        self.locked()
            .for_each(|mut part| part.rebuild(whole, &|key| self.hash(key)));
        self.share_out();
    }

    /// Gives each part its share of what others leave of the cap. Blocks beyond it are dropped.
    fn share_out(&self) {
        let cap = self.cap();
        let beside = [&self.reserved, &self.charged].map(|bytes| bytes.load(Ordering::Relaxed));
        let left = cap.saturating_sub(beside.iter().sum());
        let [share, whole] = [left, cap].map(|bytes| bytes / self.parts.len());
        self.locked()
            .for_each(|mut part| part.limit(share, whole, &|key| self.hash(key)));
    }

    /// Keeps bytes of the cap for a second level, so that both together stay within it; not where all that
    /// is kept so would be more than `most`. Whether it was done.
    pub fn reserve(&self, bytes: usize, most: usize) -> bool {
        let add = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= most);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_done = self.reserved.fetch_update(set, get, add).is_ok();
        if is_done {
            self.share_out();
        }
        is_done
    }

    /// Gives back what [`Cache::reserve`] kept.
    pub fn release(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        self.share_out();
    }

    /// Bytes of the cap that [`Cache::reserve`] keeps.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// The cap in bytes.
    pub fn cap(&self) -> usize {
        self.cap.load(Ordering::Relaxed)
    }

    /// Counts over all volumes, since the cache was made.
    pub fn statistics(&self) -> Statistics {
        self.locked()
            .map(|part| part.statistics())
            .fold(Statistics::default(), Statistics::plus)
    }

    /// Counts of one volume, since it was first asked for.
    pub fn volume_statistics(&self, volume: u64) -> VolumeStatistics {
        self.locked()
            .map(|part| part.volume_statistics(volume))
            .fold(VolumeStatistics::default(), VolumeStatistics::plus)
    }

    fn remove_range(&self, volume: u64, blocks: RangeInclusive<u64>) {
        self.locked().for_each(|mut part| {
            part.note_change_of_all();
            part.remove_range(volume, &blocks, &|key| self.hash(key));
        });
    }

    fn locked(&self) -> impl Iterator<Item = MutexGuard<'_, Part>> {
        self.parts.iter().map(Lane::lock)
    }

    #[inline]
    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        let part = (u128::from(hash) * self.parts.len() as u128) >> 64;
        self.parts[part as usize].lock()
    }

    /// Every bit depends on every bit of the key and the seed (the finalizer of MurmurHash3, twice).
    /// The highest bits choose the part, the lowest the place in its table.
    #[inline]
    fn hash(&self, key: Key) -> u64 {
        mix(mix(key.block ^ self.seed).wrapping_add(key.volume))
    }
}

#[inline]
fn mix(mut value: u64) -> u64 {
    value ^= value >> 33;
    value = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
    value ^= value >> 33;
    value = value.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}
