//! Reads beside the engine: their steps, without I/O.
//!
//! 1. [`Tickets`] of the cache come first.
//! 2. [`Tickets::locate`] finds the places of the blocks where the engine
//!    [published](crate::published) them.
//! 3. [`Located::rows`] tells what to ask devices for, and the caller asks them.
//! 4. [`Located::verify`] proves each block by its pointer. If a block is wrong, its place was
//!    freed and written anew, or a copy is bad: the engine reads again, tells the two apart, and
//!    mends the copy.
//! 5. [`Located::fill`] puts the blocks into the cache, with the tickets of the first step. So
//!    bytes that were changed meanwhile never come there.
//!
//! Bytes that were read in advance, and did not come into the cache, are for a later reader only if
//! [`Located::still_lie`] says so.
//!
//! No step waits, and the engine may do anything between two of them. The lanes of a pool take
//! these steps on their own threads. The crash laboratory takes the same steps by its scheduler.

mod rows;
mod verified;

use std::ops::Range;

use pages::Pages;
use smallvec::SmallVec;

use crate::cache::{Cache, Key, Ticket};
use crate::format::{DatasetId, Pointer};
use crate::published::Published;

pub use rows::{LONGEST_REQUEST, Row};
pub use verified::Verified;

/// Neighbouring blocks that a reader wants, with the tickets of the cache for them.
#[derive(Debug)]
pub struct Tickets {
    dataset: DatasetId,
    blocks: Range<u64>,
    /// Tickets; `None` for a block that was in the cache. Empty if the blocks do not come into the
    /// cache.
    tickets: SmallVec<[Option<Ticket>; 1]>,
}

/// Blocks whose places are known.
#[derive(Debug)]
pub struct Located {
    wanted: Tickets,
    pointers: SmallVec<[Pointer; 1]>,
}

impl Tickets {
    /// Takes the tickets for blocks that are to come into the cache. The caller may have the ticket
    /// of the first one.
    pub fn take(
        cache: &Cache,
        dataset: DatasetId,
        blocks: Range<u64>,
        mut first: Option<Ticket>,
    ) -> Self {
        let volume = dataset.0.into();
        let keys = blocks.clone().map(|block| Key { volume, block });
        let tickets = keys.map(|key| first.take().or_else(|| cache.ticket_of_absent(key)));
        Self {
            dataset,
            tickets: tickets.collect(),
            blocks,
        }
    }

    /// Returns blocks that do not come into the cache.
    pub fn none(dataset: DatasetId, blocks: Range<u64>) -> Self {
        Self {
            dataset,
            blocks,
            tickets: SmallVec::new(),
        }
    }

    /// Finds the places of the blocks. Returns nothing if the engine must read them.
    pub fn locate(self, published: &Published) -> Option<Located> {
        let mut pointers = SmallVec::new();
        let are_known = published.look_up(self.dataset, self.blocks.clone(), &mut pointers);
        are_known.then_some(Located {
            wanted: self,
            pointers,
        })
    }
}

impl Located {
    /// Returns the dataset of the blocks.
    pub fn dataset(&self) -> DatasetId {
        self.wanted.dataset
    }

    /// Returns the pointers of the blocks, in order.
    pub fn pointers(&self) -> &[Pointer] {
        &self.pointers
    }

    /// Reports whether the cache had all of the blocks already.
    pub fn brings_nothing(&self) -> bool {
        let tickets = &self.wanted.tickets;
        !tickets.is_empty() && tickets.iter().all(Option::is_none)
    }

    /// Returns the sectors that are to be read, in the order of the blocks. Holes need none.
    /// Returns `None` if the blocks lie in too many pieces.
    pub fn rows(&self) -> Option<SmallVec<[Row; 1]>> {
        rows::rows(&self.pointers)
    }

    /// Returns the zeros of the holes among the blocks.
    pub fn holes(&self, block_size: usize) -> Verified {
        Verified::holes(&self.pointers, block_size)
    }

    /// Verifies the blocks of a row by their pointers. `bytes` is what a device has there. Returns
    /// nothing if a block is wrong.
    pub fn verify(
        &self,
        blocks: Range<usize>,
        bytes: &Pages,
        block_size: usize,
    ) -> Option<Verified> {
        Verified::of(&self.pointers, blocks, bytes, block_size)
    }

    /// Verifies the only block of a read as [`Self::verify`] does, and returns its bytes. `bytes`
    /// is what a device has of it.
    pub fn verify_one(&self, bytes: Pages, block_size: usize) -> Option<Pages> {
        let [pointer] = self.pointers() else {
            return None;
        };
        verified::block(pointer, bytes, block_size)
    }

    /// Puts the blocks into the cache, except for those that were there or changed meanwhile.
    pub fn fill(&self, cache: &Cache, all: &Verified, block_size: usize) {
        if self.wanted.tickets.is_empty() {
            return;
        }
        for (number, data) in all.each(block_size) {
            self.fill_block(cache, number, data);
        }
    }

    /// Puts the only block of a read into the cache, as [`Self::fill`] does.
    pub fn fill_one(&self, cache: &Cache, data: &Pages) {
        self.fill_block(cache, 0, data.clone());
    }

    fn fill_block(&self, cache: &Cache, number: usize, data: Pages) {
        let ticket = self.wanted.tickets.get(number).copied().flatten();
        if let Some(ticket) = ticket.filter(|_| !self.pointers[number].is_hole()) {
            let volume = self.wanted.dataset.0.into();
            let block = self.wanted.blocks.start + number as u64;
            let key = Key { volume, block };
            // No cache vdev takes blocks that make room: with one, the engine reads.
            cache.fill(key, ticket, data, drop);
        }
    }

    /// Reports whether some of the blocks still lie where they were found, so that their bytes are
    /// right for a reader that begins now.
    pub fn still_lie(&self, published: &Published, blocks: Range<u64>) -> bool {
        let first = self.wanted.blocks.start;
        let [start, end] = [blocks.start, blocks.end].map(|block| block.checked_sub(first));
        let within = start
            .zip(end)
            .map(|(start, end)| start as usize..end as usize);
        let Some(at) = within.and_then(|within| self.pointers.get(within)) else {
            return false;
        };
        let mut now = SmallVec::new();
        published.look_up(self.wanted.dataset, blocks, &mut now) && now[..] == *at
    }
}

#[cfg(test)]
mod tests;
