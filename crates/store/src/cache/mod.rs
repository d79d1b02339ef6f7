//! The block cache: blocks of volumes in memory, under a hard cap, for all threads.
//!
//! Event loops look blocks up. The engine's thread puts them in and throws them out. A hash of the
//! key spreads the blocks over up to 64 parts. Each part has a lock of its own, which is held for
//! some tens of nanoseconds. A hit clones a reference: it copies no data and allocates nothing.
//!
//! **The blocks to keep** are chosen by S3-FIFO (`part.rs`). A hit sets a counter and moves
//! nothing. A scan passes through a tenth of the memory without disturbing the rest. Compared with
//! LRU, S3-FIFO hits more on skewed access, and does not collapse under a scan.
//! `tests/hit_rates.rs` shows both.
//!
//! **The cap is hard.** Each part has an equal share of the cap and makes room before it takes a
//! block. These count: the pages of the blocks, the lists of the pages, the entries, the table that
//! finds them, the ghosts, and the counts of volumes. Blocks that were thrown out while they are
//! still being sent do not count: the requests in flight bound them.
//!
//! **A caller can rely on this:** once [`Cache::insert`] or an invalidation has returned, no
//! [`Cache::get`] of any thread returns the old data. Data that was read from a disk goes in with
//! [`Cache::fill`]. It is refused if the block was changed since the read began. A block may be
//! thrown out at any time.
//!
//! The caller applies the policy of a volume (`primarycache`): it does not put in blocks that must
//! not be cached.

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

/// Most parts. More would only cost memory: a lock is held for tens of nanoseconds.
const MAX_PARTS: usize = 64;
/// Smallest part, in bytes. A smaller part could hold too few large blocks to choose well among
/// them.
const MIN_PART_BYTES: usize = 4 << 20;
/// Accesses that are foreseen together without memory of their own.
const FORESEEN: usize = 64;
/// Most blocks that are invalidated one by one. For more, it is worth asking how many blocks the
/// cache has.
const FEW_BLOCKS: u64 = 1024;

/// A block's place: the volume's number and the block's index in the volume, counted in
/// volblocksize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Number of the volume, never used again for another one.
    pub volume: u64,
    /// Index of the block.
    pub block: u64,
}

/// A block that had to make room.
#[derive(Clone, Debug)]
pub struct Evicted {
    /// Key of the block.
    pub key: Key,
    /// Bytes of the block, as they were put in.
    pub data: Pages,
    /// Whether the block was used again after it came. If so, it may be worth a place on a cache
    /// device.
    pub was_used_again: bool,
}

/// Blocks that had to make room: mostly one for each new block.
pub(crate) type EvictedBlocks = SmallVec<[Evicted; 1]>;

/// Number of changes in a block's neighbourhood when the block's read began. [`Cache::fill`] wants
/// the ticket back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The cache. Threads share it by reference or `Arc`.
#[derive(Debug)]
pub struct Cache {
    parts: Box<[Lane]>,
    seed: u64,
    cap: AtomicUsize,
    /// Bytes of the cap that others keep.
    reserved: AtomicUsize,
    /// Bytes of the cap that [`Charge`]s take.
    charged: AtomicUsize,
}

/// A part on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Lane(Mutex<Part>);

impl Lane {
    /// Locks the part. A panic elsewhere leaves the part usable: every operation restores it before
    /// anything that could panic.
    fn lock(&self) -> MutexGuard<'_, Part> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Makes an empty cache that never takes more than `cap` bytes. A cache so small that nothing
    /// fits beside its own 2 KiB (for each lock) keeps nothing. `seed` should be random, so that
    /// nobody can choose blocks that all fall on one place of the table. Equal seeds and calls give
    /// equal results.
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

    /// Prefetches the memory that finding these blocks will need, since they will probably be asked
    /// for soon. This does not count as a use.
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

    /// Returns the block, if it is here.
    pub fn get(&self, key: Key) -> Option<Pages> {
        let hash = self.hash(key);
        self.part(hash).get(key, hash).cloned()
    }

    /// Returns the block, if it is here. Otherwise returns the ticket that [`Cache::fill`] wants
    /// from the reader of the disk.
    ///
    /// # Errors
    /// The block is not here.
    pub fn get_or_ticket(&self, key: Key) -> Result<Pages, Ticket> {
        let hash = self.hash(key);
        let mut part = self.part(hash);
        let found = part.get(key, hash).cloned();
        found.ok_or_else(|| Ticket(part.changes(hash)))
    }

    /// Returns the ticket that [`Cache::fill`] wants from the reader of the disk, unless the block
    /// is here. This does not count as a use.
    pub fn ticket_of_absent(&self, key: Key) -> Option<Ticket> {
        let hash = self.hash(key);
        let part = self.part(hash);
        (!part.holds(key, hash)).then(|| Ticket(part.changes(hash)))
    }

    /// Reports whether the block is here. This does not count as a use.
    pub fn holds(&self, key: Key) -> bool {
        let hash = self.hash(key);
        self.part(hash).holds(key, hash)
    }

    /// Returns these bytes of the block, if the block is here (and not shorter). Otherwise returns
    /// the ticket that [`Cache::fill`] wants from the reader of the disk.
    ///
    /// # Errors
    /// The bytes are not here.
    pub fn range_or_ticket(&self, key: Key, range: Range<usize>) -> Result<Pages, Ticket> {
        let hash = self.hash(key);
        let mut part = self.part(hash);
        let has_range = |data: &&Pages| range.start <= range.end && range.end <= data.len();
        let found = part.get(key, hash).filter(has_range);
        let found = found.map(|data| data.slice(range.clone()));
        found.ok_or_else(|| Ticket(part.changes(hash)))
    }

    /// Puts in the block's new bytes: a write. Blocks that had to make room are handed to `evicted`
    /// after the lock is released. If the block is too large for the cache, neither its new bytes
    /// nor its old ones are kept.
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

    /// Returns the ticket for [`Cache::fill`]. The caller takes it before it reads the block from a
    /// disk.
    pub fn ticket(&self, key: Key) -> Ticket {
        let hash = self.hash(key);
        Ticket(self.part(hash).changes(hash))
    }

    /// Revokes all tickets: reads that began before put nothing in.
    pub fn revoke_tickets(&self) {
        self.locked().for_each(|mut part| part.note_change_of_all());
    }

    /// Puts in data that was read from a disk, and reports whether it did. It does not if the block
    /// was written or invalidated since `ticket` was taken. Rarely, a change of another block near
    /// it in the table counts too. So an old read cannot cover a newer write.
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

    /// Notes that sequential reads, of `run` bytes up to now, have gone past the block. If the
    /// cache has no room for a whole run of this length, the block is thrown out before others,
    /// unless it was used besides.
    pub fn pass(&self, key: Key, run: u64) {
        let hash = self.hash(key);
        let share = usize::try_from(run / self.parts.len() as u64).unwrap_or(usize::MAX);
        let evicted = self.part(hash).pass(key, hash, share);
        // Blocks are dropped outside the lock. A second level that takes evicted blocks takes only
        // those that were used again.
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

    /// Throws these blocks of the volume out. The call takes time for each block of the range or
    /// for each block in the cache, whichever are fewer.
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

    /// Throws all blocks of the volume out, and forgets the volume's counts. The caller calls this
    /// when a volume is destroyed, and when its contents changed as a whole (a rollback).
    pub fn invalidate_volume(&self, volume: u64) {
        self.remove_range(volume, 0..=u64::MAX);
        self.locked()
            .for_each(|mut part| part.forget_volume(volume));
    }

    /// Changes the cap while the cache is in use. Blocks beyond it are dropped before this returns.
    /// The number of locks stays. So a small cache that is to become much larger is better made
    /// anew.
    pub fn resize(&self, cap: usize) {
        self.cap.store(cap, Ordering::Relaxed);
        let whole = cap / self.parts.len();
        self.locked()
            .for_each(|mut part| part.rebuild(whole, &|key| self.hash(key)));
        self.share_out();
    }

    /// Gives each part its share of the cap, without the bytes that others keep. Blocks beyond the
    /// share are dropped.
    fn share_out(&self) {
        let cap = self.cap();
        let beside = [&self.reserved, &self.charged].map(|bytes| bytes.load(Ordering::Relaxed));
        let left = cap.saturating_sub(beside.iter().sum());
        let [share, whole] = [left, cap].map(|bytes| bytes / self.parts.len());
        self.locked()
            .for_each(|mut part| part.limit(share, whole, &|key| self.hash(key)));
    }

    /// Reserves bytes of the cap for a second level, so that both levels together stay within the
    /// cap. Reports whether it did: not if the reserved bytes would exceed `most`.
    pub fn reserve(&self, bytes: usize, most: usize) -> bool {
        let add = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= most);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_done = self.reserved.fetch_update(set, get, add).is_ok();
        if is_done {
            self.share_out();
        }
        is_done
    }

    /// Gives back bytes that [`Cache::reserve`] reserved.
    pub fn release(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        self.share_out();
    }

    /// Returns the bytes of the cap that [`Cache::reserve`] reserved.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Returns the cap in bytes.
    pub fn cap(&self) -> usize {
        self.cap.load(Ordering::Relaxed)
    }

    /// Returns the counts over all volumes, since the cache was made.
    pub fn statistics(&self) -> Statistics {
        self.locked()
            .map(|part| part.statistics())
            .fold(Statistics::default(), Statistics::plus)
    }

    /// Returns the counts of one volume, since it was first asked for.
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

    /// Hashes the key. Every bit of the hash depends on every bit of the key and the seed (the
    /// finalizer of MurmurHash3, twice). The highest bits choose the part, the lowest bits the
    /// place in its table.
    #[inline]
    fn hash(&self, key: Key) -> u64 {
        #[cfg(feature = "counted")]
        crate::counted::HASHES.add();
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
