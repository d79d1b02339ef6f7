//! One part of the cache, behind one lock. It decides which blocks stay and which go (S3-FIFO).
//!
//! A new block enters the *small* queue, a tenth of the memory. If it was used again by the time it
//! has come through, it goes on into the *main* queue. Otherwise it is thrown out, and a ghost of
//! it stays (`ghosts.rs`). A block whose ghost is found enters the main queue at once. In the main
//! queue, each use gives a block another round, up to three. So the blocks of a scan leave by the
//! small queue, and a hit costs one counter.
//!
//! Two things differ from the paper (Yang et al., SOSP 2023):
//!
//! - Uses shortly after a block came do not count, since our blocks are read in parts. A client
//!   that reads 128 KiB blocks in requests of 4 KiB uses each block 32 times, and would carry the
//!   whole scan into the main queue.
//! - A scan that is longer than the small queue does not pass through all of the queue. Nothing of
//!   the scan would be found again there. And memory that was not touched for long makes the device
//!   slower. Measured, with nothing between program and file: 2.7 GB/s into the same 4 MiB, 2.0
//!   into 32 MiB and 1.5 into 256 MiB in turn.
//!
//! A block that enters the main queue is copied out of the memory that it came in. So the memory of
//! the small queue comes back in the order in which it was taken, in long runs. Readers of the
//! devices find long runs of memory: a device takes much longer for memory here and there.

use std::ops::RangeInclusive;

use pages::{PAGE_SIZE, Pages};

use super::ghosts::Ghosts;
use super::statistics::{Statistics, VolumeCounts, VolumeStatistics};
use super::table::{Entry, NONE, Queue, Table};
use super::{Evicted, EvictedBlocks, Key};

/// The small queue's share of the memory: one part in this number.
const SMALL_SHARE: usize = 10;
/// Share of the way through the small queue after which uses count: one part in this number.
const EARLY_SHARE: usize = 4;
/// Share of the memory that must come after a block before uses of the block count: one part in
/// this number.
pub const UNCOUNTED_SHARE: usize = SMALL_SHARE * EARLY_SHARE;
/// Most uses that an entry remembers.
const MAX_USES: u8 = 3;
/// Share of the cap below which free memory means that the part is full: one part in this number.
const FREE_SHARE: usize = 16;
/// Most entries that may get another round before one must go, so that no call takes long.
const MAX_SECOND_CHANCES: u32 = 128;
/// Share of the former cap below which chains and ghosts are made anew: one part in this number.
/// They take 1 % of the cap that they were made for, and would be all of a much smaller cap.
const REBUILT_BELOW: usize = 4;
/// Number of places among which changes are counted.
const CHANGE_COUNTS: usize = 256;

/// Steps of a look-up that wait for memory, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The beginning of the chain.
    Place,
    /// The entry of the block.
    Entry,
    /// The bytes of the block, or the list of its pages if it has several.
    Data,
    /// The right one of several pages.
    Page,
}

/// A byte of a block that will probably be asked for soon.
#[derive(Debug)]
pub(super) struct Foreseen {
    key: Key,
    pub(super) hash: u64,
    at: usize,
    /// Number of the entry, once it was found.
    number: u32,
}

impl Foreseen {
    pub(super) fn new(key: Key, hash: u64, at: usize) -> Self {
        Self {
            key,
            hash,
            at,
            number: NONE,
        }
    }
}

/// One part of the cache.
#[derive(Debug)]
pub(super) struct Part {
    table: Table,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// Bytes that the part may take in all.
    cap: usize,
    /// Cap that chains and ghosts were made for.
    made_for: usize,
    /// Bytes taken from the start: chains, ghosts, counts of changes.
    fixed: usize,
    /// Amount that entered the small queue, in pages. The clock wraps.
    clock: u32,
    /// Distance of the clock since a block came after which uses of the block count.
    early: u32,
    changes: Box<[u32; CHANGE_COUNTS]>,
    volumes: VolumeCounts,
    evictions: u64,
    hits: u64,
    misses: u64,
}

impl Part {
    pub(super) fn new(cap: usize) -> Self {
        let room = Room::of(cap);
        Self {
            table: Table::new(room.bytes),
            small: Queue::default(),
            main: Queue::default(),
            ghosts: Ghosts::new(room.bytes),
            cap,
            made_for: cap,
            fixed: room.fixed,
            clock: 0,
            early: room.early(),
            changes: Box::new([0; CHANGE_COUNTS]),
            volumes: VolumeCounts::default(),
            evictions: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Reports whether the block is here. This does not count as a use.
    pub(super) fn holds(&self, key: Key, hash: u64) -> bool {
        self.table.find(key, hash).is_some()
    }

    /// Prefetches the memory that the next step towards this byte of a block needs. If another
    /// block takes the entry between two steps, its bytes are prefetched in vain.
    #[inline]
    pub(super) fn prefetch(&self, step: Step, access: &mut Foreseen) {
        match step {
            Step::Place => self.table.prefetch_place(access.hash),
            Step::Entry => self.table.prefetch_entry(access.hash),
            Step::Data => {
                if let Some(number) = self.table.find(access.key, access.hash) {
                    self.table.entry(number).data.prefetch(access.at);
                    access.number = number;
                }
            }
            Step::Page => {
                if access.number != NONE && access.number < self.table.end() {
                    self.table
                        .entry(access.number)
                        .data
                        .prefetch_page(access.at);
                }
            }
        }
    }

    /// Returns the block, and counts the use.
    #[inline]
    pub(super) fn get(&mut self, key: Key, hash: u64) -> Option<&Pages> {
        let Some(number) = self.table.find(key, hash) else {
            self.note_miss(key.volume);
            return None;
        };
        self.hits += 1;
        self.note_use(number);
        let entry = self.table.entry(number);
        self.volumes.of(entry.volume).hits += 1;
        Some(&entry.data)
    }

    /// Counts a miss. If the volume has no counts yet, and counts would not fit, the miss is not
    /// counted.
    fn note_miss(&mut self, volume: u64) {
        self.misses += 1;
        if self.volumes.is_counted(volume) || self.bytes() + VolumeCounts::PER_VOLUME <= self.cap {
            let number = self.volumes.number(volume);
            self.volumes.of(number).misses += 1;
        }
    }

    #[inline]
    fn note_use(&mut self, number: u32) {
        let (clock, early) = (self.clock, self.early);
        let entry = self.table.entry_mut(number);
        if entry.is_main || clock.wrapping_sub(entry.born) >= early {
            entry.uses = (entry.uses + 1).min(MAX_USES);
            entry.was_used_again = true;
        }
    }

    /// Puts the block in or replaces it, after others have made room; those go to `gone`. If the
    /// block does not fit, neither its new bytes nor its old ones are kept.
    pub(super) fn put(
        &mut self,
        key: Key,
        hash: u64,
        data: Pages,
        hash_of: &dyn Fn(Key) -> u64,
        gone: &mut EvictedBlocks,
    ) {
        let mut entry = Entry::new(key, data);
        if let Some(number) = self.table.find(key, hash) {
            self.note_use(number);
            let old = self.take(number, hash);
            entry.born = old.born;
            entry.uses = old.uses;
            entry.is_main = old.is_main;
            entry.was_used_again = old.was_used_again;
        } else {
            entry.is_main = self.ghosts.take(hash);
            entry.was_used_again = entry.is_main;
            self.clock = self.clock.wrapping_add((entry.charge() / PAGE_SIZE) as u32);
            entry.born = self.clock;
        }
        // A block that takes half of the memory would throw out everything else.
        let charge = entry.charge();
        if charge > self.cap.saturating_sub(self.fixed) / 2 {
            return;
        }
        entry.volume = self.volumes.number(key.volume);
        if self.make_room(charge, hash_of, gone) {
            if entry.is_main {
                entry.data = entry.data.settled();
            }
            self.admit(hash, entry);
        }
    }

    /// Notes that a run of reads has gone past the block; `run` of its bytes were of this part. If
    /// `run` exceeds the small queue's share, the block goes at once, and the reader gets memory
    /// that is still near the processor. The block stays if it was used besides, or if there is
    /// room for all. It goes even if nobody else needs the memory at present. By the time the
    /// reader comes back, other blocks will have needed it; if the reader comes back soon, the
    /// ghosts know the block.
    pub(super) fn pass(&mut self, key: Key, hash: u64, run: usize) -> Option<Evicted> {
        let is_full = self.bytes() + self.cap / FREE_SHARE > self.cap;
        if !is_full || run < self.small.bytes.min(self.cap / SMALL_SHARE) {
            return None;
        }
        let number = self.table.find(key, hash)?;
        let entry = self.table.entry(number);
        let goes = !entry.is_main && entry.uses == 0;
        goes.then(|| self.evict(number, hash))
    }

    /// Throws the block out, and returns its data.
    pub(super) fn remove(&mut self, key: Key, hash: u64) -> Option<Pages> {
        let number = self.table.find(key, hash)?;
        Some(self.take(number, hash).data)
    }

    /// Throws these blocks of a volume out. It looks at every entry.
    pub(super) fn remove_range(
        &mut self,
        volume: u64,
        blocks: &RangeInclusive<u64>,
        hash_of: &dyn Fn(Key) -> u64,
    ) {
        for number in 1..self.table.end() {
            let key = self.table.entry(number).key;
            if key.volume == volume && blocks.contains(&key.block) && self.table.is_live(number) {
                drop(self.take(number, hash_of(key)));
            }
        }
    }

    /// Forgets the counts of a volume that has no blocks here.
    pub(super) fn forget_volume(&mut self, volume: u64) {
        if self.volumes.get(volume).blocks == 0 {
            self.volumes.forget(volume);
        }
    }

    /// Returns the number of changes in the block's neighbourhood. The count wraps.
    pub(super) fn changes(&self, hash: u64) -> u32 {
        self.changes[change_place(hash)]
    }

    /// Notes that the block is changed now.
    pub(super) fn note_change(&mut self, hash: u64) {
        let count = &mut self.changes[change_place(hash)];
        *count = count.wrapping_add(1);
    }

    /// Notes that any block may be changed now.
    pub(super) fn note_change_of_all(&mut self) {
        for count in self.changes.iter_mut() {
            *count = count.wrapping_add(1);
        }
    }

    /// Changes the most memory that the part takes, and drops the blocks that do not fit any more.
    /// `whole` is the most that it may become without [`Part::rebuild`].
    ///
    /// Chains and ghosts stay as they are unless they were made for a far different cap. The limit
    /// changes with each megabyte that others use, and moving all blocks would stop everybody
    /// meanwhile.
    pub(super) fn limit(&mut self, cap: usize, whole: usize, hash_of: &dyn Fn(Key) -> u64) {
        if cap > self.made_for || cap < self.made_for / REBUILT_BELOW {
            self.rebuild(cap.saturating_mul(2).min(whole), hash_of);
        }
        self.cap = cap;
        self.shrink(hash_of);
    }

    /// Limits the part to `cap` bytes from now on, with chains and ghosts for that cap. Blocks that
    /// do not fit any more are dropped.
    pub(super) fn rebuild(&mut self, cap: usize, hash_of: &dyn Fn(Key) -> u64) {
        // First the blocks that will not fit go, by the usual rules.
        self.cap = self.cap.min(cap);
        self.shrink(hash_of);
        // Then the rest moves into tables of the new size, in the old order.
        let room = Room::of(cap);
        self.cap = cap;
        self.made_for = cap;
        self.fixed = room.fixed;
        self.early = room.early();
        self.ghosts = Ghosts::new(room.bytes);
        let mut old = std::mem::replace(&mut self.table, Table::new(room.bytes));
        for mut queue in [
            std::mem::take(&mut self.small),
            std::mem::take(&mut self.main),
        ] {
            while let Some(number) = queue.oldest() {
                old.unqueue(&mut queue, number);
                let hash = hash_of(old.entry(number).key);
                let entry = old.remove(number, hash);
                let counts = self.volumes.of(entry.volume);
                counts.blocks -= 1;
                counts.block_bytes -= entry.charge() as u64;
                self.admit(hash, entry);
            }
        }
    }

    /// Throws out the blocks beyond the cap.
    fn shrink(&mut self, hash_of: &dyn Fn(Key) -> u64) {
        let mut gone = EvictedBlocks::new();
        while self.bytes() > self.cap && self.evict_one(hash_of, &mut gone) {
            gone.clear();
        }
    }

    /// Returns the number of blocks here.
    pub(super) fn blocks(&self) -> u64 {
        u64::from(self.table.live())
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
            blocks: self.blocks(),
            block_bytes: (self.small.bytes + self.main.bytes) as u64,
            bytes: self.bytes() as u64,
        }
    }

    pub(super) fn volume_statistics(&self, volume: u64) -> VolumeStatistics {
        self.volumes.get(volume)
    }

    /// Returns the bytes of all memory that counts.
    fn bytes(&self) -> usize {
        self.fixed
            + self.table.entry_memory()
            + self.volumes.memory()
            + self.small.bytes
            + self.main.bytes
    }

    /// Takes an entry in, if there is room for it.
    fn admit(&mut self, hash: u64, entry: Entry) {
        let (volume, is_main, charge) = (entry.volume, entry.is_main, entry.charge());
        if !self.has_room(charge) {
            return;
        }
        let Some(number) = self.table.add(hash, entry) else {
            return;
        };
        let queue = if is_main {
            &mut self.main
        } else {
            &mut self.small
        };
        self.table.enqueue(queue, number);
        let counts = self.volumes.of(volume);
        counts.blocks += 1;
        counts.block_bytes += charge as u64;
    }

    fn has_room(&self, charge: usize) -> bool {
        self.bytes() + self.table.next_entry_memory() + charge <= self.cap
    }

    /// Makes room for one more entry of `charge`, and reports whether there is room.
    fn make_room(
        &mut self,
        charge: usize,
        hash_of: &dyn Fn(Key) -> u64,
        gone: &mut EvictedBlocks,
    ) -> bool {
        while !self.has_room(charge) {
            if !self.evict_one(hash_of, gone) {
                return false;
            }
        }
        true
    }

    /// Throws one block out, and reports whether there was one.
    fn evict_one(&mut self, hash_of: &dyn Fn(Key) -> u64, gone: &mut EvictedBlocks) -> bool {
        let mut chances = MAX_SECOND_CHANCES;
        loop {
            let held = self.small.bytes + self.main.bytes;
            let from_small = self.small.bytes > held / SMALL_SHARE || self.main.bytes == 0;
            let queue = if from_small { &self.small } else { &self.main };
            let Some(number) = queue.oldest() else {
                return false;
            };
            if self.table.entry(number).uses > 0 && chances > 0 {
                chances -= 1;
                self.give_another_round(number);
                continue;
            }
            let hash = hash_of(self.table.entry(number).key);
            gone.push(self.evict(number, hash));
            return true;
        }
    }

    /// Throws an entry out. A block that leaves the small queue leaves a ghost.
    fn evict(&mut self, number: u32, hash: u64) -> Evicted {
        let entry = self.take(number, hash);
        if !entry.is_main {
            self.ghosts.add(hash, entry.charge());
        }
        self.evictions += 1;
        self.volumes.of(entry.volume).evictions += 1;
        Evicted {
            key: entry.key,
            data: entry.data,
            was_used_again: entry.was_used_again,
        }
    }

    /// Moves an entry from the small queue into the main one, or once more through the main one.
    fn give_another_round(&mut self, number: u32) {
        let entry = self.table.entry_mut(number);
        let was_main = std::mem::replace(&mut entry.is_main, true);
        if !was_main {
            entry.data = std::mem::take(&mut entry.data).settled();
        }
        entry.uses = if was_main { entry.uses - 1 } else { 0 };
        let queue = if was_main {
            &mut self.main
        } else {
            &mut self.small
        };
        self.table.unqueue(queue, number);
        self.table.enqueue(&mut self.main, number);
    }

    /// Takes an entry out of all structures.
    fn take(&mut self, number: u32, hash: u64) -> Entry {
        let queue = if self.table.entry(number).is_main {
            &mut self.main
        } else {
            &mut self.small
        };
        self.table.unqueue(queue, number);
        let entry = self.table.remove(number, hash);
        let counts = self.volumes.of(entry.volume);
        counts.blocks -= 1;
        counts.block_bytes -= entry.charge() as u64;
        entry
    }
}

/// Division of a part's cap.
struct Room {
    /// Bytes taken from the start.
    fixed: usize,
    /// Most bytes for blocks and their entries.
    bytes: usize,
}

impl Room {
    fn of(cap: usize) -> Self {
        let start = size_of::<Part>() + CHANGE_COUNTS * size_of::<u32>();
        let bytes = cap.saturating_sub(start);
        let fixed = start + Table::chain_memory(bytes) + Ghosts::memory(bytes);
        Self { fixed, bytes }
    }

    fn early(&self) -> u32 {
        (self.bytes / SMALL_SHARE / EARLY_SHARE / PAGE_SIZE) as u32
    }
}

fn change_place(hash: u64) -> usize {
    (hash >> 40) as usize % CHANGE_COUNTS
}
