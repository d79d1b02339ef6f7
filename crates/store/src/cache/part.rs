//! One part of the cache, behind one lock: what is kept and what goes (S3-FIFO).
//!
//! A new block enters the *small* queue, a tenth of the memory. If it was used again by the time it
//! has come through, it goes on into the *main* queue; else it is thrown out, and a ghost of it stays
//! (`ghosts.rs`). A block whose ghost is found enters the main queue at once. There, who was used gets
//! another round for each use, up to three. So what a scan brings leaves by the small queue, and a hit
//! costs one counter.
//!
//! Two things differ from the paper (Yang et al., SOSP 2023). Our blocks are read in parts, so uses
//! shortly after a block came do not count. A client that reads 128 KiB blocks in requests of
//! 4 KiB uses each one 32 times, and would carry the whole scan into the main queue. And a scan that
//! is longer than the small queue does not pass through all of it: nothing of it would be found again there, and
//! memory that was not touched for so long makes the device slower (measured: 2.7 GB/s into the same 4 MiB, 2.0 into
//! 32 MiB and 1.5 into 256 MiB in turn, with nothing between program and file).
//!
//! What enters the main queue leaves the memory that it came in. So that of the small queue comes back in the order in
//! which it was taken, in long runs, and those who read from devices find some: a device takes much longer
//! for memory here and there.

use std::ops::RangeInclusive;

use pages::{PAGE_SIZE, Pages};

use super::ghosts::Ghosts;
use super::statistics::{Statistics, VolumeCounts, VolumeStatistics};
use super::table::{Entry, NONE, Queue, Table};
use super::{Evicted, EvictedBlocks, Key};

/// The small queue's share of the memory: one part of this many.
const SMALL_SHARE: usize = 10;
/// Uses count after this part of the way through the small queue.
const EARLY_SHARE: usize = 4;
/// Uses of a block do not count while less than one part of this many of the memory came after it.
pub const UNCOUNTED_SHARE: usize = SMALL_SHARE * EARLY_SHARE;
/// Uses that an entry remembers.
const MAX_USES: u8 = 3;
/// A part is full where less than one part of this many of its cap is free.
const FREE_SHARE: usize = 16;
/// How many entries may get another round before one must go, so that no call takes long.
const MAX_SECOND_CHANCES: u32 = 128;
/// Chains and ghosts are made anew where the cap is less than one part of this many of what they were made for: they
/// are 1 % of that, and would be all of it in the end.
const REBUILT_BELOW: usize = 4;
/// Places among which changes are counted.
const CHANGE_COUNTS: usize = 256;

/// What a look-up waits for, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Where the chain begins.
    Place,
    /// The block's entry.
    Entry,
    /// Its bytes; of a block of several pages, the list of these.
    Data,
    /// The one of several pages.
    Page,
}

/// A byte of a block that is about to be asked for.
#[derive(Debug)]
pub(super) struct Foreseen {
    key: Key,
    pub(super) hash: u64,
    at: usize,
    /// Where the entry is, once it was found.
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

/// One part.
#[derive(Debug)]
pub(super) struct Part {
    table: Table,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// Bytes that may be taken in all.
    cap: usize,
    /// The cap that chains and ghosts were made for.
    made_for: usize,
    /// Bytes taken from the start: chains, ghosts, counts of changes.
    fixed: usize,
    /// Counts what entered the small queue, in pages; it wraps.
    clock: u32,
    /// Uses of a block count when the clock has gone on so far since it came.
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

    /// Whether the block is here; that is no use of it.
    pub(super) fn holds(&self, key: Key, hash: u64) -> bool {
        self.table.find(key, hash).is_some()
    }

    /// Brings near what the next step towards this byte of a block needs. Where another block has taken the entry
    /// between two steps, that one's bytes come in vain.
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

    /// The block, used.
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

    /// Counts a miss. A volume that nothing was counted of yet has no counts where they would not fit.
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

    /// Puts the block in or replaces it, after others have made room; these go to `gone`. What does
    /// not fit is not kept, and neither is what was there before.
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
        // What takes half of the memory would throw out everything else.
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

    /// A run of reads, of which `run` bytes were of this part, has gone past the block. Where they are more than the small
    /// queue's share, it goes at once, and those who read on get memory that is still near the processor; unless it was
    /// used besides, or there is room for all. That nobody else needs the memory at present does not matter: until the
    /// reader comes back for so much, others will have been there; and if it does, the ghosts know it.
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

    /// Throws the block out; its data.
    pub(super) fn remove(&mut self, key: Key, hash: u64) -> Option<Pages> {
        let number = self.table.find(key, hash)?;
        Some(self.take(number, hash).data)
    }

    /// Throws these blocks of a volume out, looking at every entry.
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

    /// How often the block's neighbourhood was changed; it wraps.
    pub(super) fn changes(&self, hash: u64) -> u32 {
        self.changes[change_place(hash)]
    }

    /// The block is changed now.
    pub(super) fn note_change(&mut self, hash: u64) {
        let count = &mut self.changes[change_place(hash)];
        *count = count.wrapping_add(1);
    }

    /// Any block may be changed now.
    pub(super) fn note_change_of_all(&mut self) {
        for count in self.changes.iter_mut() {
            *count = count.wrapping_add(1);
        }
    }

    /// Changes how much is taken at most; what does not fit any more is dropped. `whole` is the most that it may
    /// become without [`Part::rebuild`].
    ///
    /// Chains and ghosts stay as they are unless that is far from what they were made for: this happens with each
    /// megabyte that others use, and moving all blocks would stop everybody meanwhile.
    pub(super) fn limit(&mut self, cap: usize, whole: usize, hash_of: &dyn Fn(Key) -> u64) {
        if cap > self.made_for || cap < self.made_for / REBUILT_BELOW {
            self.rebuild(cap.saturating_mul(2).min(whole), hash_of);
        }
        self.cap = cap;
        self.shrink(hash_of);
    }

    /// Takes `cap` bytes at most from now on, with chains and ghosts for that; what does not fit any more is dropped.
    pub(super) fn rebuild(&mut self, cap: usize, hash_of: &dyn Fn(Key) -> u64) {
        // First down to what will fit, by the usual rules.
        self.cap = self.cap.min(cap);
        self.shrink(hash_of);
        // Then over into tables of the new size, in the old order.
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

    /// Throws out what is beyond the cap.
    fn shrink(&mut self, hash_of: &dyn Fn(Key) -> u64) {
        let mut gone = EvictedBlocks::new();
        while self.bytes() > self.cap && self.evict_one(hash_of, &mut gone) {
            gone.clear();
        }
    }

    /// Blocks here.
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

    /// All memory that counts.
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

    /// Makes room for one more entry of `charge`; whether there is.
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

    /// Throws one block out; whether there was one.
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

    /// Throws an entry out; a ghost of what leaves the small queue stays.
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

    /// From the small queue into the main one, or once more through the main one.
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

    /// Takes an entry out of everything.
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

/// How a part's cap is divided.
struct Room {
    /// Taken from the start.
    fixed: usize,
    /// For blocks and their entries, at most.
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
