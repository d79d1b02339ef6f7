//! The entries of one part, found by key through chains, and strung into queues.
//!
//! All memory is laid out when the table is made. Its size follows from the number of the smallest
//! blocks that fit into the cap. So nothing is ever moved or made larger under a lock. The system
//! provides the memory only as far as it is used. Entry 0 stands for none.

use pages::{PAGE_SIZE, Pages, prefetch};

use super::Key;

/// Number that stands for no entry.
pub(super) const NONE: u32 = 0;

/// A block and its standing: one cache line, all that a hit touches here.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) data: Pages,
    /// Next entry in the chain of its place in the table. In a free entry, the next free one.
    chain: u32,
    /// The part's clock when the block came.
    pub(super) born: u32,
    /// Number of its volume's counts.
    pub(super) volume: u32,
    /// Uses since the block came or was last given another chance, up to a small bound.
    pub(super) uses: u8,
    pub(super) is_main: bool,
    pub(super) was_used_again: bool,
    is_live: bool,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// Neighbours of an entry in its queue. They lie apart from the entry, since a hit does not need
/// them.
#[derive(Clone, Copy, Debug)]
struct Links {
    newer: u32,
    older: u32,
}

impl Entry {
    pub(super) fn new(key: Key, data: Pages) -> Self {
        Self {
            key,
            data,
            chain: NONE,
            born: 0,
            volume: 0,
            uses: 0,
            is_main: false,
            was_used_again: false,
            is_live: true,
        }
    }

    /// Returns the bytes that the block counts: its memory, at least a page.
    #[inline]
    pub(super) fn charge(&self) -> usize {
        self.data.memory().max(PAGE_SIZE)
    }

    fn free(next: u32) -> Self {
        let nowhere = Key {
            volume: u64::MAX,
            block: u64::MAX,
        };
        Self {
            is_live: false,
            chain: next,
            ..Self::new(nowhere, Pages::new())
        }
    }
}

impl Links {
    const NOWHERE: Self = Self {
        newer: NONE,
        older: NONE,
    };
}

/// A queue of entries by age.
#[derive(Debug, Default)]
pub(super) struct Queue {
    oldest: u32,
    newest: u32,
    /// Sum of the charges of the queue's entries.
    pub(super) bytes: usize,
}

impl Queue {
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

/// Entries by key.
#[derive(Debug)]
pub(super) struct Table {
    /// Entries by number. The list is never longer than it was laid out for.
    entries: Vec<Entry>,
    links: Vec<Links>,
    free: u32,
    live: u32,
    chains: Box<[u32]>,
}

impl Table {
    /// Bytes of memory of each entry.
    pub(super) const ENTRY: usize = size_of::<Entry>() + size_of::<Links>();

    /// Makes a table for at most `bytes` of blocks and entries together.
    pub(super) fn new(bytes: usize) -> Self {
        let most = Self::most(bytes);
        let mut entries = Vec::with_capacity(most + 1);
        entries.push(Entry::free(NONE));
        let mut links = Vec::with_capacity(most + 1);
        links.push(Links::NOWHERE);
        Self {
            entries,
            links,
            free: NONE,
            live: 0,
            chains: vec![NONE; most].into_boxed_slice(),
        }
    }

    /// Returns the bytes of memory that the chains take from the start, for a table of `bytes`.
    pub(super) const fn chain_memory(bytes: usize) -> usize {
        Self::most(bytes) * size_of::<u32>()
    }

    const fn most(bytes: usize) -> usize {
        bytes / (PAGE_SIZE + Self::ENTRY)
    }

    /// Returns the bytes of memory of all entries ever used.
    pub(super) fn entry_memory(&self) -> usize {
        self.entries.len() * Self::ENTRY
    }

    /// Returns the bytes by which the memory grows with the next entry.
    pub(super) fn next_entry_memory(&self) -> usize {
        if self.free == NONE { Self::ENTRY } else { 0 }
    }

    /// Returns the number of entries.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Returns the highest number of an entry, plus one.
    pub(super) fn end(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Reports whether an entry has this number.
    pub(super) fn is_live(&self, number: u32) -> bool {
        self.entry(number).is_live
    }

    #[inline]
    pub(super) fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.entries[number as usize]
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.chains.len() as u64) >> 32) as usize
    }

    #[inline]
    pub(super) fn find(&self, key: Key, hash: u64) -> Option<u32> {
        let mut number = self.chains.get(self.place(hash)).copied()?;
        while number != NONE {
            let entry = self.entry(number);
            if entry.key == key {
                return Some(number);
            }
            number = entry.chain;
        }
        None
    }

    /// Prefetches the beginning of this hash's chain.
    #[inline]
    pub(super) fn prefetch_place(&self, hash: u64) {
        if let Some(first) = self.chains.get(self.place(hash)) {
            prefetch(first);
        }
    }

    /// Prefetches the first entry of the chain. The chain seldom has another one.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u64) {
        if let Some(first) = self.chains.get(self.place(hash)) {
            prefetch(self.entry(*first));
        }
    }

    /// Adds an entry whose key is not there yet, and returns its number. Returns `None` if the
    /// table is full.
    pub(super) fn add(&mut self, hash: u64, mut entry: Entry) -> Option<u32> {
        let place = self.place(hash);
        let chain = self.chains.get_mut(place)?;
        entry.chain = *chain;
        let number = if self.free != NONE {
            let number = self.free;
            let slot = &mut self.entries[number as usize];
            self.free = slot.chain;
            *slot = entry;
            number
        } else if self.entries.len() < self.entries.capacity() {
            self.entries.push(entry);
            self.links.push(Links::NOWHERE);
            (self.entries.len() - 1) as u32
        } else {
            return None;
        };
        self.chains[place] = number;
        self.live += 1;
        Some(number)
    }

    /// Takes out an entry that is in no queue.
    pub(super) fn remove(&mut self, number: u32, hash: u64) -> Entry {
        let place = self.place(hash);
        let after = self.entry(number).chain;
        if self.chains[place] == number {
            self.chains[place] = after;
        } else {
            let mut before = self.chains[place];
            while self.entry(before).chain != number {
                before = self.entry(before).chain;
            }
            self.entry_mut(before).chain = after;
        }
        let free = std::mem::replace(&mut self.free, number);
        self.live -= 1;
        std::mem::replace(self.entry_mut(number), Entry::free(free))
    }

    /// Puts an entry that is in no queue at the new end of a queue.
    pub(super) fn enqueue(&mut self, queue: &mut Queue, number: u32) {
        let older = std::mem::replace(&mut queue.newest, number);
        queue.bytes += self.entry(number).charge();
        self.links[number as usize] = Links { newer: NONE, older };
        if older == NONE {
            queue.oldest = number;
        } else {
            self.links[older as usize].newer = number;
        }
    }

    /// Takes an entry out of its queue.
    pub(super) fn unqueue(&mut self, queue: &mut Queue, number: u32) {
        queue.bytes -= self.entry(number).charge();
        let Links { newer, older } = self.links[number as usize];
        if newer == NONE {
            queue.newest = older;
        } else {
            self.links[newer as usize].older = older;
        }
        if older == NONE {
            queue.oldest = newer;
        } else {
            self.links[older as usize].newer = newer;
        }
    }
}
