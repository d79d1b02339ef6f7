//! A layer: the blocks that were written and unmapped since a checkpoint or snapshot, in memory.
//!
//! Written blocks are kept in chunks of neighbours. An ordered directory holds the chunks' first
//! block numbers, small enough for the processor's nearest caches. Each chunk is a hash table of a
//! thousand places. So an insertion waits for main memory once. A tree, or a table of all blocks
//! with buckets behind it, would wait three times and more. A merge takes the chunks in order and
//! sorts each by itself. No operation does more than a bounded piece of work: there is no large
//! table that is rebuilt as it grows.
//!
//! Unmapped ranges are a set beside the chunks. A written block counts before a range.

mod places;

use std::ops::Range;

use places::Places;

use super::range_set::RangeSet;
use super::touched::{leaves_over, nodes_over};
use crate::format::Pointer;

/// State of a block in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// The block was written and lies there.
    Block(Pointer),
    /// The block was unmapped or written with zeros.
    Zero,
    /// The layer does not change the block: the state below holds.
    Absent,
}

impl Hit {
    /// Returns the hit for a block that was written.
    #[inline]
    fn of(pointer: [u8; Pointer::SIZE]) -> Self {
        match unpack(pointer) {
            pointer if pointer.is_hole() => Self::Zero,
            pointer => Self::Block(pointer),
        }
    }
}

/// Number of places in the hash table of a full-grown chunk.
const PLACES: usize = 1024;
/// Number of places in the table of a new chunk.
const FIRST_PLACES: usize = 16;
/// Number that marks a place without a block. No block has it.
const FREE: u64 = u64::MAX;
/// Approximate bytes of memory of a range in the set.
const RANGE_FOOTPRINT: usize = 24;

/// Changes of a volume's map.
#[derive(Debug, Default)]
pub struct Layer {
    /// Lowest block number that may be in each chunk, in order. The first chunk takes all blocks
    /// below.
    firsts: Vec<u64>,
    chunks: Vec<Chunk>,
    cleared: RangeSet,
    len: usize,
    updates: u64,
    /// Number of places of all chunks.
    places: usize,
    /// Most leaves of a tree that all chunks touch.
    leaves: u64,
}

/// A chunk of neighbours: a hash table with linear probing, at most seven eighths full. Single
/// blocks are never removed from it.
#[derive(Debug)]
struct Chunk {
    places: Places,
    len: usize,
    /// Lowest block number.
    first: u64,
    /// Highest block number.
    last: u64,
}

impl Layer {
    /// Bound of block numbers, as in trees.
    pub const BLOCKS: u64 = 1 << 63;

    /// Approximate bytes of memory of a written block: its number and its pointer, in tables that
    /// are between half and seven eighths full.
    pub const CHANGE_BYTES: usize = (size_of::<u64>() + Pointer::SIZE) * 3 / 2;

    /// Makes a layer without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that block `index` was written; with [`Pointer::HOLE`], with zeros. Returns the
    /// block's former state in the layer. If only this layer had the former block, nobody finds
    /// that block from now on.
    ///
    /// # Panics
    /// `index` is not below [`Layer::BLOCKS`].
    pub fn insert(&mut self, index: u64, pointer: Pointer) -> Hit {
        assert!(index < Self::BLOCKS, "block {index}");
        self.updates += 1;
        if self.chunks.is_empty() {
            self.add_chunk(0, index, Chunk::new(FIRST_PLACES));
        }
        let mut position = self.position(index);
        let mut place = self.chunks[position].find(index);
        if self.chunks[position].places.index(place) == index {
            let held = self.chunks[position].places.pointer_mut(place);
            return Hit::of(std::mem::replace(held, pointer.encode()));
        }
        self.len += 1;
        if self.chunks[position].is_full() {
            position = self.make_room(position, index);
            place = self.chunks[position].find(index);
        }
        let chunk = &mut self.chunks[position];
        self.leaves -= chunk.leaves();
        chunk.put(place, index, pointer.encode());
        self.leaves += chunk.leaves();
        self.hit_of_unwritten(index)
    }

    /// Prefetches the place of block `index`, which is about to be written. The processor goes on
    /// meanwhile. Most of the cost of an insertion is waiting for memory.
    #[inline]
    pub fn prefetch(&self, index: u64) {
        if let Some(chunk) = self.chunks.get(self.position(index)) {
            chunk.places.prefetch(chunk.home(index));
        }
    }

    /// Notes that blocks `range` were unmapped. Each block that only this layer had, and that
    /// nobody finds from now on, is given to `drop`. The call takes time for the blocks written in
    /// the range, not for its size.
    pub fn clear(&mut self, range: Range<u64>, mut drop: impl FnMut(Pointer)) {
        if range.is_empty() {
            return;
        }
        self.updates += 1;
        let first = self.position(range.start);
        let mut behind = first;
        while behind < self.chunks.len() && (behind == first || self.firsts[behind] < range.end) {
            for place in self.chunks[behind].places_in(&range) {
                let held = self.chunks[behind].places.pointer_mut(place);
                let old = unpack(std::mem::replace(held, [0; Pointer::SIZE]));
                if !old.is_hole() {
                    drop(old);
                }
            }
            behind += 1;
        }
        // Blocks that remain as zeros are only in the first and the last of these chunks.
        let len = range.end - range.start;
        let is_inside = |chunk: &Chunk| {
            len >= chunk.len as u64 && chunk.last < range.end && chunk.first >= range.start
        };
        let emptied = (first..behind).filter(|&position| is_inside(&self.chunks[position]));
        let emptied = emptied.fold(first..first, |emptied, position| {
            if emptied.is_empty() {
                position..position + 1
            } else {
                emptied.start..position + 1
            }
        });
        for chunk in self.chunks.drain(emptied.clone()) {
            self.len -= chunk.len;
            self.places -= chunk.places.len();
            self.leaves -= chunk.leaves();
        }
        self.firsts.drain(emptied);
        self.cleared.insert(range);
    }

    /// Returns the state of block `index`.
    #[inline]
    pub fn get(&self, index: u64) -> Hit {
        if !self.chunks.is_empty() {
            let chunk = &self.chunks[self.position(index)];
            let place = chunk.find(index);
            if chunk.places.index(place) == index {
                return Hit::of(*chunk.places.pointer(place));
            }
        }
        self.hit_of_unwritten(index)
    }

    /// Returns the hit for a block that no chunk has.
    #[inline]
    fn hit_of_unwritten(&self, index: u64) -> Hit {
        match self.cleared.contains(index) {
            true => Hit::Zero,
            false => Hit::Absent,
        }
    }

    /// Writes the states of the blocks from `first` on into those of `hits` that are
    /// [`Hit::Absent`].
    pub fn get_run(&self, first: u64, hits: &mut [Hit]) {
        let range = first..first.saturating_add(hits.len() as u64);
        let mut fill = |index: u64, hit: Hit| {
            let held = &mut hits[(index - first) as usize];
            if *held == Hit::Absent {
                *held = hit;
            }
        };
        for (index, pointer) in self.written(range.clone()) {
            fill(
                index,
                if pointer.is_hole() {
                    Hit::Zero
                } else {
                    Hit::Block(pointer)
                },
            );
        }
        for index in self.cleared(range).flatten() {
            fill(index, Hit::Zero);
        }
    }

    /// Returns the blocks of `range` that were written, in order. A hole is a block that was
    /// written with zeros, or written and unmapped.
    pub fn written(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Pointer)> + '_ {
        let first = self.position(range.start);
        let reaching = self.firsts.partition_point(|&first| first < range.end);
        let behind = reaching.max(first + 1).min(self.chunks.len());
        self.chunks
            .get(first..behind)
            .unwrap_or(&[])
            .iter()
            .flat_map(move |chunk| {
                let mut places = chunk.places_in(&range);
                places.sort_unstable_by_key(|&place| chunk.places.index(place));
                places
                    .into_iter()
                    .map(|place| (place, &chunk.places))
                    .map(|(place, of)| (of.index(place), unpack(*of.pointer(place))))
            })
    }

    /// Returns the numbers of all blocks that belong to the chunks over a range: more than the
    /// range, and nothing of other chunks.
    pub(super) fn chunks_over(&self, range: &Range<u64>) -> Range<u64> {
        let first = self.position(range.start);
        let behind = self.firsts.partition_point(|&first| first < range.end);
        let start = self.firsts.get(first).copied().unwrap_or(0);
        let end = self.firsts.get(behind).copied().unwrap_or(Self::BLOCKS);
        start.min(range.start)..end.max(range.end)
    }

    /// Returns the parts of `range` that were unmapped, in order. Blocks in them that were written
    /// since are also in [`Layer::written`], which counts.
    pub fn cleared(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.cleared.within(range)
    }

    /// Reports whether all of `range` was unmapped, and only zeros were written there since.
    pub fn is_cleared(&self, range: &Range<u64>) -> bool {
        self.cleared.covers(range)
            && self
                .written(range.clone())
                .all(|(_, pointer)| pointer.is_hole())
    }

    /// Returns the number of blocks of `range` that the layer does not change. The call takes time
    /// for the layer's changes in the range, not for the range's size.
    pub fn absent_in(&self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let cleared = self.cleared(range.clone()).map(|of| of.end - of.start);
        let cleared: u64 = cleared.sum();
        let written = self.written(range.clone());
        let written = written.filter(|(index, _)| !self.cleared.contains(*index));
        (range.end - range.start).saturating_sub(cleared + written.count() as u64)
    }

    /// Returns the first block from `index` on that the layer changes.
    pub fn next(&self, index: u64) -> Option<u64> {
        self.next_of(index, self.next_written(index))
    }

    /// Returns the first block from `index` on that the layer changes. `written` is the first one
    /// that was written.
    pub(super) fn next_of(&self, index: u64, written: Option<u64>) -> Option<u64> {
        let cleared = self.cleared.next(index);
        match (written, cleared) {
            (Some(written), Some(cleared)) => Some(written.min(cleared)),
            (written, cleared) => written.or(cleared),
        }
    }

    /// Returns the last block that was written.
    pub fn last_written(&self) -> Option<u64> {
        self.chunks.last().map(|chunk| chunk.last)
    }

    /// Returns the number of blocks that the layer holds as written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the most nodes that the layer changes in a tree of `height` levels.
    pub fn touched_nodes(&self, height: u8) -> u64 {
        let written = self.chunks.first().zip(self.chunks.last());
        let written = written.map(|(first, last)| first.first..=last.last);
        let written = written.map(|blocks| nodes_over(&blocks, self.leaves, height));
        // A node that lies wholly in a range is dropped. Only nodes at the two ends of the range
        // are written anew.
        let ends = 2 * self.cleared.len() as u64;
        let cleared = self.cleared.span().map(|range| range.start..=range.end - 1);
        let cleared = cleared.map(|blocks| nodes_over(&blocks, ends, height));
        written.unwrap_or(0) + cleared.unwrap_or(0)
    }

    /// Reports whether the layer changes no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.cleared.is_empty()
    }

    /// Returns the number of insertions and clearances.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Returns the approximate bytes of memory that the layer takes.
    pub fn bytes(&self) -> usize {
        self.places * (size_of::<u64>() + Pointer::SIZE)
            + self.chunks.len() * (size_of::<Chunk>() + size_of::<u64>())
            + self.cleared.len() * RANGE_FOOTPRINT
    }

    fn next_written(&self, index: u64) -> Option<u64> {
        let position = self.position(index);
        let here = self.chunks.get(position)?.next(index);
        here.or_else(|| self.chunks.get(position + 1).map(|chunk| chunk.first))
    }

    /// Returns the position of the chunk that block `index` belongs to.
    #[inline]
    fn position(&self, index: u64) -> usize {
        self.firsts
            .partition_point(|&first| first <= index)
            .saturating_sub(1)
    }

    fn add_chunk(&mut self, position: usize, first: u64, chunk: Chunk) {
        self.places += chunk.places.len();
        self.leaves += chunk.leaves();
        self.firsts.insert(position, first);
        self.chunks.insert(position, chunk);
    }

    /// Makes room for block `index` in the full chunk at `position`. Returns the chunk in which the
    /// block has its place now. A chunk grows, and is then cut in two. But a block behind the
    /// chunk's last one begins a new chunk, so that a writer in ascending order fills every chunk.
    #[cold]
    fn make_room(&mut self, position: usize, index: u64) -> usize {
        let chunk = &mut self.chunks[position];
        if chunk.places.len() < PLACES {
            self.places += chunk.places.len();
            *chunk = chunk.rebuilt(chunk.places.len() * 2, 0..FREE);
            position
        } else if index > chunk.last {
            self.add_chunk(position + 1, index, Chunk::new(FIRST_PLACES));
            position + 1
        } else {
            let middle = chunk.middle();
            let upper = chunk.rebuilt(PLACES, middle..FREE);
            self.leaves -= chunk.leaves();
            *chunk = chunk.rebuilt(PLACES, 0..middle);
            self.leaves += chunk.leaves();
            self.add_chunk(position + 1, middle, upper);
            position + usize::from(index >= middle)
        }
    }
}

impl Chunk {
    fn new(places: usize) -> Self {
        Self {
            places: Places::new(places),
            len: 0,
            first: FREE,
            last: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.len >= self.places.len() / 8 * 7
    }

    /// Returns the place at which the search for block `index` begins.
    #[inline]
    fn home(&self, index: u64) -> usize {
        let mask = self.places.len() - 1;
        // The golden ratio spreads neighbours, and blocks at equal strides, far apart.
        (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
    }

    /// Returns the place of block `index`, or the free place where it belongs.
    #[inline]
    fn find(&self, index: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.home(index);
        loop {
            let held = self.places.index(place);
            if held == index || held == FREE {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// Puts a block that is not in the chunk into the free place where it belongs.
    #[inline]
    fn put(&mut self, place: usize, index: u64, pointer: [u8; Pointer::SIZE]) {
        self.places.set(place, index, pointer);
        self.first = self.first.min(index);
        self.last = self.last.max(index);
        self.len += 1;
    }

    /// Returns the places of the blocks of `range`, in no order.
    fn places_in(&self, range: &Range<u64>) -> Vec<usize> {
        let len = range.end.saturating_sub(range.start);
        if len <= self.places.len() as u64 / 16 {
            return range
                .clone()
                .map(|index| (self.find(index), index))
                .filter(|&(place, index)| self.places.index(place) == index)
                .map(|(place, _)| place)
                .collect();
        }
        let is_inside = |index: u64| index != FREE && range.contains(&index);
        let places = self.places.indices().enumerate();
        places
            .filter(|&(_, index)| is_inside(index))
            .map(|(place, _)| place)
            .collect()
    }

    /// Returns the first block from `index` on. A free place counts as the last number there is.
    fn next(&self, index: u64) -> Option<u64> {
        let next = self.places.indices().fold(FREE, |next, other| {
            next.min(if other >= index { other } else { FREE })
        });
        (next != FREE).then_some(next)
    }

    /// Returns the most leaves that the chunk's blocks lie in.
    fn leaves(&self) -> u64 {
        match self.len {
            0 => 0,
            len => leaves_over(&(self.first..=self.last)).min(len as u64),
        }
    }

    /// Returns the median of the chunk's block numbers.
    fn middle(&self) -> u64 {
        let mut indices: Vec<_> = self.places.indices().filter(|&at| at != FREE).collect();
        let half = indices.len() / 2;
        *indices.select_nth_unstable(half).1
    }

    /// Makes a chunk with `places` places and the blocks of `range`.
    fn rebuilt(&self, places: usize, range: Range<u64>) -> Self {
        let mut chunk = Self::new(places);
        for (place, index) in self.places.indices().enumerate() {
            if range.contains(&index) {
                chunk.put(chunk.find(index), index, *self.places.pointer(place));
            }
        }
        chunk
    }
}

#[inline]
fn unpack(pointer: [u8; Pointer::SIZE]) -> Pointer {
    Pointer::decode(&pointer).expect("only what Pointer::encode made is in a layer")
}

#[cfg(test)]
mod tests;
