//! The second level of the cache: what is on a cache device, and what is worth writing to it.
//!
//! Blocks that memory had to give up, and that were used more than once, are gathered into batches of
//! 1 MiB and written around the device as around a ring, one large write after the other. An index
//! in memory says where each block is; it is forgotten at a restart, so nothing on the device is ever
//! believed that this program did not write.
//!
//! Nothing depends on the device. What is looked up names the block's pointer, so a block that was
//! overwritten is not found even if nobody invalidated it; what was read is checked before it is
//! used ([`SecondLevel::accept`]), so a device that lies, or a ring that came around while the read was
//! under way, costs a miss. A device that fails is dropped with the whole level.
//!
//! Memory is bounded: the index has the size that it was given, and no more than
//! [`BATCHES_IN_FLIGHT`] batches and the open one hold data. All of it belongs to the cache's cap: its
//! owner makes the first level that much smaller ([`SecondLevel::memory`]).

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
/// Writes that may be under way; what is offered meanwhile is not taken.
pub const BATCHES_IN_FLIGHT: usize = 4;

/// What a write to the cache device needs.
#[derive(Clone, Debug)]
pub struct Batch {
    /// To be said to [`SecondLevel::written`].
    pub id: u64,
    /// The byte on the leaf.
    pub offset: u64,
    /// At most [`BATCH_BYTES`], and whole sectors.
    pub data: Pages,
}

/// Where a block's bytes are.
#[derive(Clone, Debug)]
pub enum Found {
    /// Still in memory, on their way to the device.
    Memory(Pages),
    /// On the device. What is read goes through [`SecondLevel::accept`].
    Device(Place),
}

/// Where on the device, and what must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The byte on the leaf.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
    checksum: u64,
}

/// Counts since the level was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondLevelStatistics {
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Blocks read from the device that were not what they should be.
    pub rejected: u64,
    /// Bytes given out to be written.
    pub written_bytes: u64,
    /// Blocks offered that were not taken: there was too much to write.
    pub not_taken: u64,
    /// Blocks that can be found now.
    pub blocks: u64,
    /// Their bytes.
    pub held_bytes: u64,
}

/// How the level may use its device and memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the leaf, from its byte 0 on.
    pub leaf_bytes: u64,
    /// Bytes of memory of the index. Blocks that it has no place for displace the oldest.
    pub index_bytes: usize,
    /// Bytes per second that may be written in the long run, so that filling the level neither
    /// wears the device out nor slows its reads down.
    pub write_bytes_per_s: u64,
}

/// The second level.
#[derive(Debug)]
pub struct SecondLevel {
    limits: Limits,
    seed: u64,
    index: Index,
    /// How far the ring was written, counted on through all rounds; the open batch lies before it.
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
    /// The position in the ring.
    start: u64,
    len: usize,
    /// Each with its distance from `start`.
    blocks: Vec<(usize, Pages)>,
}

impl SecondLevel {
    /// An empty level; `seed` as for the first one. A leaf smaller than two batches holds nothing.
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
    /// Returns a batch where one is full. Blocks are whole sectors, at most [`BATCH_BYTES`].
    ///
    /// `pointer` must be that of these very bytes: whoever puts blocks into the first level looks
    /// the pointer up at once, while no other write of the block can come between. A block whose newest
    /// contents have no pointer yet must not be offered.
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

    /// A batch's write ended. Where it failed, its blocks are forgotten.
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

    /// Where the block is that `pointer` points to.
    pub fn where_is(&mut self, key: Key, pointer: &Pointer) -> Option<Found> {
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
            Some(data) => Found::Memory(data.clone()),
            None => Found::Device(Place {
                offset: mark.position % self.limits.leaf_bytes,
                len: mark.len as usize,
                checksum: mark.checksum,
            }),
        })
    }

    /// What was read from `place` (`None` where the read failed), if it is what was written there.
    /// If not, the block is forgotten here, and is to be read from the pool.
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

    /// Forgets the block: it was overwritten or unmapped. Not needed for right answers (see above),
    /// but its place in the index is free earlier.
    pub fn invalidate(&mut self, key: Key) {
        let hash = self.hash(key);
        self.index.forget(hash);
    }

    /// Bytes of memory that it takes at most.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.index.memory() + (BATCHES_IN_FLIGHT + 1) * BATCH_BYTES
    }

    /// Counts.
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

    /// A batch starts where the last one ended, or at the leaf's start if it might not fit before
    /// the end. What it will overwrite is forgotten now.
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
        // The room that was not used is the next batch's.
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

    /// Up to what may be written in a second is saved up, and always room for one batch.
    fn grow_allowance(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.allowance_us);
        let rate = self.limits.write_bytes_per_s;
        let grown = u128::from(rate) * u128::from(passed_us) / 1_000_000;
        // Too short a time adds nothing: it is left to count together with what follows.
        if grown > 0 {
            let most = u128::from(rate.max(BATCH_BYTES as u64));
            self.allowance = (u128::from(self.allowance) + grown).min(most) as u64;
            self.allowance_us = now_us;
        }
    }

    /// The key's hash, and the hash of key and pointer together: address and birth are in it, so no
    /// two writes of a block have the same.
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

/// Of the bytes on the device, which may be another block's of this level: so it says whose.
fn checksum_of(identity: u64, data: &Pages) -> u64 {
    checksum::of(Algorithm::Xxh3, data) as u64 ^ identity
}

/// The blocks one after the other. Only what does not lie in whole pages is copied.
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
