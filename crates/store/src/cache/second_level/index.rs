//! The index of the blocks on the cache device: marks in the order of their writing, found by hash.
//!
//! The marks are a ring like the device itself. The oldest mark goes if a new one has no place, or
//! if the device is about to be overwritten there. All memory is laid out at the start.

use std::ops::Range;

const NONE: u32 = u32::MAX;

/// One block on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Hash of the key.
    pub(super) hash: u64,
    /// Hash of the key and the pointer.
    pub(super) identity: u64,
    /// Checksum of the bytes.
    pub(super) checksum: u64,
    /// Position in the ring, counted on through all rounds. It only grows.
    pub(super) position: u64,
    /// Length in bytes; 0 if the mark was forgotten.
    pub(super) len: u32,
}

#[derive(Debug)]
struct Slot {
    mark: Mark,
    /// Next mark in the chain.
    chain: u32,
}

/// The marks, in a ring.
#[derive(Debug)]
pub(super) struct Index {
    /// Slots of the ring. Mark number `n` is at `n % most`.
    slots: Vec<Slot>,
    chains: Box<[u32]>,
    most: usize,
    /// Number of the oldest mark, followed by the number of the next mark to come.
    oldest: u64,
    next: u64,
    blocks: u64,
    bytes: u64,
}

impl Index {
    /// Makes an index in `bytes` of memory, for at most `most_blocks` blocks.
    pub(super) fn new(bytes: usize, most_blocks: usize) -> Self {
        let most = (bytes / (size_of::<Slot>() + size_of::<u32>()))
            .min(most_blocks)
            .min(NONE as usize);
        Self {
            slots: Vec::with_capacity(most),
            chains: vec![NONE; most].into_boxed_slice(),
            most,
            oldest: 0,
            next: 0,
            blocks: 0,
            bytes: 0,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.most * (size_of::<Slot>() + size_of::<u32>())
    }

    pub(super) fn has_places(&self) -> bool {
        self.most > 0
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the bytes that the blocks of all marks take on the device.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn find(&self, hash: u64, identity: u64) -> Option<Mark> {
        let at = self.slot_of(hash)?;
        let mark = self.slots[at as usize].mark;
        (mark.identity == identity).then_some(mark)
    }

    /// Adds the newest mark. Its hash must not be in the index.
    pub(super) fn add(&mut self, mark: Mark) {
        if !self.has_places() {
            return;
        }
        if (self.next - self.oldest) as usize == self.most {
            self.drop_oldest();
        }
        let at = (self.next % self.most as u64) as u32;
        let place = self.place(mark.hash);
        let chain = std::mem::replace(&mut self.chains[place], at);
        let slot = Slot { mark, chain };
        match self.slots.get_mut(at as usize) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
        self.next += 1;
        self.blocks += 1;
        self.bytes += u64::from(mark.len);
    }

    /// Forgets the mark with this hash, if there is one.
    pub(super) fn forget(&mut self, hash: u64) {
        if let Some(at) = self.slot_of(hash) {
            self.unlink(at);
        }
    }

    /// Forgets all marks of bytes before `position`.
    pub(super) fn forget_before(&mut self, position: u64) {
        while self.oldest < self.next && self.mark(self.oldest).position < position {
            self.drop_oldest();
        }
    }

    /// Forgets all marks of bytes in these positions.
    pub(super) fn forget_positions(&mut self, positions: Range<u64>) {
        let first = self.first_from(positions.start);
        for number in first..self.next {
            if self.mark(number).position >= positions.end {
                break;
            }
            if self.mark(number).len > 0 {
                self.unlink(self.at(number));
            }
        }
    }

    /// Returns the number of the first mark at or after a position. Positions grow with the
    /// numbers.
    fn first_from(&self, position: u64) -> u64 {
        let (mut low, mut high) = (self.oldest, self.next);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.mark(middle).position < position {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn drop_oldest(&mut self) {
        let number = self.oldest;
        if self.mark(number).len > 0 {
            self.unlink(self.at(number));
        }
        self.oldest += 1;
    }

    /// Takes a mark out of its chain. Its place in the ring stays until it is the oldest.
    fn unlink(&mut self, at: u32) {
        let place = self.place(self.slots[at as usize].mark.hash);
        let after = self.slots[at as usize].chain;
        if self.chains[place] == at {
            self.chains[place] = after;
        } else {
            let mut before = self.chains[place];
            while self.slots[before as usize].chain != at {
                before = self.slots[before as usize].chain;
            }
            self.slots[before as usize].chain = after;
        }
        let len = std::mem::take(&mut self.slots[at as usize].mark.len);
        self.blocks -= 1;
        self.bytes -= u64::from(len);
    }

    fn slot_of(&self, hash: u64) -> Option<u32> {
        let mut at = self.chains.get(self.place(hash)).copied()?;
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.mark.hash == hash {
                return Some(at);
            }
            at = slot.chain;
        }
        None
    }

    fn at(&self, number: u64) -> u32 {
        (number % self.most as u64) as u32
    }

    fn mark(&self, number: u64) -> &Mark {
        &self.slots[self.at(number) as usize].mark
    }

    fn place(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.chains.len() as u64) >> 32) as usize
    }
}
