//! The second level of the cache: the content of a cache device, and the choice of the blocks to
//! write to it.
//!
//! Blocks that memory had to give up, and that were used more than once, are gathered into batches
//! of 1 MiB. The device is a ring: one large write follows the other around it. An index in memory
//! says where each block is. The index is forgotten at a restart, so only bytes that this program
//! wrote are ever believed.
//!
//! Nothing depends on the device. A look-up names the block's pointer, so an overwritten block is
//! not found even if nobody invalidated it. Data that was read is checked before it is used
//! ([`SecondLevel::accept`]). So a device that lies, or a ring that came around while the read was
//! under way, costs a miss. A device that fails is dropped with the whole level.
//!
//! Memory is bounded. The index has a given size. No more than [`BATCHES_IN_FLIGHT`] batches and
//! the open one hold data. All of this memory belongs to the cache's cap: its owner makes the first
//! level smaller by [`SecondLevel::memory`].

use std::collections::VecDeque;

use pages::{PAGE_SIZE, Page, Pages};

use super::{Evicted, Key, mix};
use crate::checksum;
use crate::format::{Algorithm, Pointer, SECTOR_SIZE};
use index::{Index, Mark};

mod index;
#[cfg(test)]
mod tests;

/// Bytes of one write.
pub const BATCH_BYTES: usize = 1 << 20;
/// Most writes that may be under way. Blocks that are offered meanwhile are not taken.
pub const BATCHES_IN_FLIGHT: usize = 4;

/// A write to the cache device.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Identifier of the batch, for [`SecondLevel::written`].
    pub id: u64,
    /// Byte of the leaf at which the batch goes.
    pub offset: u64,
    /// Data of the batch: at most [`BATCH_BYTES`], in whole sectors.
    pub data: Pages,
}

/// Place of a block's bytes.
#[derive(Clone, Debug)]
pub enum CachedBlock {
    /// The bytes are still in memory, on their way to the device.
    Memory(Pages),
    /// The bytes are on the device. Data that is read there goes through [`SecondLevel::accept`].
    Device(Place),
}

/// A place on the device, and the identity of the bytes that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte of the leaf at which the block begins.
    pub offset: u64,
    /// Length of the block in bytes.
    pub len: usize,
    checksum: u64,
}

/// Counts since the level was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondLevelStatistics {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not find their block.
    pub misses: u64,
    /// Blocks read from the device whose bytes were wrong.
    pub rejected: u64,
    /// Bytes given out to be written.
    pub written_bytes: u64,
    /// Blocks offered that were not taken, since too much was to be written.
    pub not_taken: u64,
    /// Blocks that can be found now.
    pub blocks: u64,
    /// Bytes of the blocks that can be found now.
    pub held_bytes: u64,
}

/// Limits of the level's use of device and memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the leaf, from its byte 0 on.
    pub leaf_bytes: u64,
    /// Bytes of memory of the index. If a block has no place in it, it displaces the oldest.
    pub index_bytes: usize,
    /// Bytes per second that may be written in the long run. The limit keeps filling the level from
    /// wearing the device out and from slowing its reads down.
    pub write_bytes_per_s: u64,
}

/// The second level of the cache.
#[derive(Debug)]
pub struct SecondLevel {
    limits: Limits,
    seed: u64,
    index: Index,
    /// Position up to which the ring was written, counted on through all rounds. The open batch
    /// lies before it.
    head: u64,
    open: Gathered,
    in_flight: VecDeque<Gathered>,
    next_id: u64,
    /// Bytes that may be written now.
    allowance: u64,
    allowance_us: u64,
    statistics: SecondLevelStatistics,
}

/// Blocks of one write, one after the other from `start` on.
#[derive(Debug, Default)]
struct Gathered {
    id: u64,
    /// Position in the ring.
    start: u64,
    len: usize,
    /// Blocks, each with its distance from `start`.
    blocks: Vec<(usize, Pages)>,
}

impl SecondLevel {
    /// Makes an empty level; `seed` is as for the first level. A leaf smaller than two batches
    /// holds nothing.
    pub fn new(limits: Limits, seed: u64) -> Self {
        let leaf_bytes = limits.leaf_bytes / SECTOR_SIZE as u64 * SECTOR_SIZE as u64;
        let limits = Limits {
            leaf_bytes,
            ..limits
        };
        let most_blocks = usize::try_from(leaf_bytes / SECTOR_SIZE as u64).unwrap_or(usize::MAX);
        Self {
            limits,
            seed,
            index: Index::new(limits.index_bytes, most_blocks),
            head: 0,
            open: Gathered::default(),
            in_flight: VecDeque::new(),
            next_id: 0,
            allowance: BATCH_BYTES as u64,
            allowance_us: 0,
            statistics: SecondLevelStatistics::default(),
        }
    }

    /// Takes a block that memory gave up, if it was used again there and is not here already.
    /// Returns a batch if one is full. Blocks are whole sectors, at most [`BATCH_BYTES`].
    ///
    /// `pointer` must be the pointer of exactly these bytes. So a caller that puts blocks into the
    /// first level looks the pointer up at once, while no other write of the block can come
    /// between. A block whose newest contents have no pointer yet must not be offered.
    pub fn offer(&mut self, evicted: Evicted, pointer: &Pointer, now_us: u64) -> Option<Batch> {
        let Evicted { key, data, .. } = evicted;
        let (hash, identity) = self.identify(key, pointer);
        let is_fit = !data.is_empty()
            && data.len() <= BATCH_BYTES
            && data.len().is_multiple_of(SECTOR_SIZE)
            && self.limits.leaf_bytes >= 2 * BATCH_BYTES as u64
            && self.index.has_places();
        if !evicted.was_used_again || !is_fit || self.index.find(hash, identity).is_some() {
            return None;
        }
        self.grow_allowance(now_us);
        let is_too_much = self.allowance < (self.open.len + data.len()) as u64
            || self.in_flight.len() >= BATCHES_IN_FLIGHT;
        if is_too_much {
            self.statistics.not_taken += 1;
            return None;
        }
        let full = (self.open.len + data.len() > BATCH_BYTES)
            .then(|| self.close())
            .flatten();
        self.gather(hash, identity, data);
        full
    }

    /// Closes the open batch though it is not full, so that it does not hold memory for long.
    pub fn flush(&mut self) -> Option<Batch> {
        if self.in_flight.len() >= BATCHES_IN_FLIGHT {
            return None;
        }
        self.close()
    }

    /// Notes that a batch's write ended. If the write failed, its blocks are forgotten.
    pub fn written(&mut self, id: u64, is_ok: bool) {
        let Some(at) = self.in_flight.iter().position(|batch| batch.id == id) else {
            return;
        };
        let Some(batch) = self.in_flight.remove(at) else {
            return;
        };
        if !is_ok {
            self.index
                .forget_positions(batch.start..batch.start + batch.len as u64);
        }
    }

    /// Returns the place of the block that `pointer` points to.
    pub fn where_is(&mut self, key: Key, pointer: &Pointer) -> Option<CachedBlock> {
        let (hash, identity) = self.identify(key, pointer);
        let Some(mark) = self.index.find(hash, identity) else {
            self.statistics.misses += 1;
            return None;
        };
        self.statistics.hits += 1;
        let in_memory = std::iter::once(&self.open)
            .chain(&self.in_flight)
            .find_map(|batch| batch.block_at(mark.position));
        Some(match in_memory {
            Some(data) => CachedBlock::Memory(data.clone()),
            None => CachedBlock::Device(Place {
                offset: mark.position % self.limits.leaf_bytes,
                len: mark.len as usize,
                checksum: mark.checksum,
            }),
        })
    }

    /// Returns the bytes that were read from `place`, if they are the bytes that were written
    /// there. `data` is `None` if the read failed. If the bytes are wrong, the block is forgotten
    /// here, and the caller reads it from the pool.
    pub fn accept(
        &mut self,
        key: Key,
        pointer: &Pointer,
        place: Place,
        data: Option<Pages>,
    ) -> Option<Pages> {
        let (hash, identity) = self.identify(key, pointer);
        let data = data.filter(|data| {
            data.len() == place.len && checksum_of(identity, data) == place.checksum
        });
        if data.is_none() {
            self.statistics.rejected += 1;
            self.index.forget(hash);
        }
        data
    }

    /// Forgets the block, which was overwritten or unmapped. Right answers do not need this (see
    /// above), but the block's place in the index is free earlier.
    pub fn invalidate(&mut self, key: Key) {
        let hash = self.hash(key);
        self.index.forget(hash);
    }

    /// Returns the most bytes of memory that the level takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.index.memory() + (BATCHES_IN_FLIGHT + 1) * BATCH_BYTES
    }

    /// Returns the counts of the level.
    pub fn statistics(&self) -> SecondLevelStatistics {
        SecondLevelStatistics {
            blocks: self.index.blocks(),
            held_bytes: self.index.bytes(),
            ..self.statistics
        }
    }

    fn gather(&mut self, hash: u64, identity: u64, data: Pages) {
        if self.open.blocks.is_empty() {
            self.open_batch();
        }
        // An older version of the block is of no use any more.
        self.index.forget(hash);
        self.index.add(Mark {
            hash,
            identity,
            checksum: checksum_of(identity, &data),
            position: self.open.start + self.open.len as u64,
            len: data.len() as u32,
        });
        let data = data.trimmed();
        let distance = self.open.len;
        self.open.len += data.len();
        self.open.blocks.push((distance, data));
    }

    /// Opens a batch where the last one ended, or at the leaf's start if it might not fit before
    /// the end. Blocks that it will overwrite are forgotten now.
    fn open_batch(&mut self) {
        let leaf = self.limits.leaf_bytes;
        if self.head % leaf + BATCH_BYTES as u64 > leaf {
            self.head = self.head.next_multiple_of(leaf);
        }
        self.open.start = self.head;
        self.head += BATCH_BYTES as u64;
        self.index.forget_before(self.head.saturating_sub(leaf));
    }

    fn close(&mut self) -> Option<Batch> {
        if self.open.blocks.is_empty() {
            return None;
        }
        let mut batch = std::mem::take(&mut self.open);
        batch.id = self.next_id;
        self.next_id += 1;
        // The next batch takes the unused room.
        self.head = batch.start + batch.len as u64;
        self.allowance = self.allowance.saturating_sub(batch.len as u64);
        self.statistics.written_bytes += batch.len as u64;
        let write = Batch {
            id: batch.id,
            offset: batch.start % self.limits.leaf_bytes,
            data: join(&batch.blocks, batch.len),
        };
        self.in_flight.push_back(batch);
        Some(write)
    }

    /// Adds to the allowance. It saves up at most the bytes of one second, and always room for one
    /// batch.
    fn grow_allowance(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.allowance_us);
        let rate = self.limits.write_bytes_per_s;
        let grown = u128::from(rate) * u128::from(passed_us) / 1_000_000;
        // Too short a time adds nothing. It is left to count together with the time behind it.
        if grown > 0 {
            let most = u128::from(rate.max(BATCH_BYTES as u64));
            self.allowance = (u128::from(self.allowance) + grown).min(most) as u64;
            self.allowance_us = now_us;
        }
    }

    /// Returns the key's hash, and the hash of key and pointer together. Address and birth are in
    /// the second hash, so no two writes of a block share it.
    fn identify(&self, key: Key, pointer: &Pointer) -> (u64, u64) {
        let hash = self.hash(key);
        (hash, checksum::keyed(hash, &pointer.encode()) as u64)
    }

    fn hash(&self, key: Key) -> u64 {
        mix(mix(key.block ^ self.seed).wrapping_add(key.volume))
    }
}

impl Gathered {
    fn block_at(&self, position: u64) -> Option<&Pages> {
        let distance = usize::try_from(position.checked_sub(self.start)?).ok()?;
        let at = self
            .blocks
            .binary_search_by_key(&distance, |(distance, _)| *distance)
            .ok()?;
        Some(&self.blocks[at].1)
    }
}

/// Returns the checksum of the bytes on the device. The bytes may be another block's of this level,
/// so the checksum says whose they are.
fn checksum_of(identity: u64, data: &Pages) -> u64 {
    checksum::of(Algorithm::Xxh3, data) as u64 ^ identity
}

/// Joins the blocks one after the other. Only bytes that do not lie in whole pages are copied.
fn join(blocks: &[(usize, Pages)], len: usize) -> Pages {
    let mut all: Vec<Page> = Vec::with_capacity(len / PAGE_SIZE);
    for (_, block) in blocks {
        for at in (0..block.len()).step_by(PAGE_SIZE) {
            let page = match block.whole_page(at) {
                Some(page) => page.clone(),
                None => {
                    let copy = Pages::from_bytes(&block.slice(at..at + PAGE_SIZE).to_vec());
                    copy.whole_page(0).cloned().unwrap_or_else(Page::zero)
                }
            };
            all.push(page);
        }
    }
    Pages::from_pages(all.into_iter(), 0, len as u32)
}
