//! What was written and unmapped since a checkpoint or snapshot, in memory.
//!
//! Written blocks are kept in chunks of neighbours: an ordered directory of the chunks' first block
//! numbers, small enough for the processor's nearest caches, and in each chunk a hash table of a
//! thousand places. An insertion so waits for main memory once; a tree, or a table of all blocks
//! with buckets behind it, would do so three times and more. A merge takes the chunks in order and
//! sorts each by itself. No operation does more than a bounded piece of work: there is no large table
//! that is rebuilt as it grows.
//!
//! Unmapped ranges are a set beside; a written block counts before a range.

mod places;

use std::ops::Range;

use places::Places;

use super::range_set::RangeSet;
use super::touched::{leaves_over, nodes_over};
use crate::format::Pointer;

/// What a layer says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// It was written: it lies there.
    Block(Pointer),
    /// It was unmapped or written with zeros.
    Zero,
    /// Nothing: whatever is below holds.
    Absent,
}

impl Hit {
    /// The hit for a block that was written.
    #[inline]
    fn of(pointer: [u8; Pointer::SIZE]) -> Self {
        match unpack(pointer) {
            pointer if pointer.is_hole() => Self::Zero,
            pointer => Self::Block(pointer),
        }
    }
}

/// Places in the hash table of a full-grown chunk.
const PLACES: usize = 1024;
/// Places in the table of a new chunk.
const FIRST_PLACES: usize = 16;
/// A place without a block; no block has this number.
const FREE: u64 = u64::MAX;
/// About the memory of a range in the set.
const RANGE_FOOTPRINT: usize = 24;

/// Changes of a volume's map.
#[derive(Debug, Default)]
pub struct Layer {
    /// The lowest block number that may be in each chunk, in order; the first chunk takes all below.
    firsts: Vec<u64>,
    chunks: Vec<Chunk>,
    cleared: RangeSet,
    len: usize,
    updates: u64,
    /// Places of all chunks.
    places: usize,
    /// Leaves of a tree that all chunks touch, at most.
    leaves: u64,
}

/// Neighbours: a hash table with linear probing, at most seven eighths full, from which single blocks
/// are never removed.
#[derive(Debug)]
struct Chunk {
    places: Places,
    len: usize,
    /// The lowest block number.
    first: u64,
    /// The highest.
    last: u64,
}

impl Layer {
    /// Block numbers are below this, as in trees.
    pub const BLOCKS: u64 = 1 << 63;

    /// About the memory of a written block: its number and its pointer, in tables of which between half and seven eighths
    /// are taken.
    pub const CHANGE_BYTES: usize = (size_of::<u64>() + Pointer::SIZE) * 3 / 2;

    /// Without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Block `index` was written; with [`Pointer::HOLE`]: with zeros. Returns what the layer said of it before: nobody
    /// finds a block that only this layer had from now on.
    ///
    /// # Panics
    /// Where `index` is not below [`Layer::BLOCKS`].
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

    /// Block `index` is about to be written: asks for its place to be brought near the processor while it goes on. Most of
    /// what an insertion costs is waiting for memory.
    #[inline]
    pub fn prefetch(&self, index: u64) {
        if let Some(chunk) = self.chunks.get(self.position(index)) {
            chunk.places.prefetch(chunk.home(index));
        }
    }

    /// Blocks `range` were unmapped. Each block that only this layer had, and that nobody finds from
    /// now on, is given to `drop`. Takes time for what was written in the range, not for its size.
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
        // What remains as zeros is at most in the first and the last of these chunks.
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

    /// What the layer says of block `index`.
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

    /// The hit for a block that no chunk has.
    #[inline]
    fn hit_of_unwritten(&self, index: u64) -> Hit {
        match self.cleared.contains(index) {
            true => Hit::Zero,
            false => Hit::Absent,
        }
    }

    /// The same for the blocks from `first` on, into those of `hits` that are [`Hit::Absent`].
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

    /// The blocks of `range` that were written, in order; a hole is one written with zeros, or
    /// written and unmapped.
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

    /// The parts of `range` that were unmapped, in order. Blocks in them that were written since are
    /// also in [`Layer::written`], which counts.
    pub fn cleared(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.cleared.within(range)
    }

    /// Whether all of `range` was unmapped, and nothing but zeros was written there since.
    pub fn is_cleared(&self, range: &Range<u64>) -> bool {
        self.cleared.covers(range)
            && self
                .written(range.clone())
                .all(|(_, pointer)| pointer.is_hole())
    }

    /// How many blocks of `range` it says nothing of. Takes time for what it says in the range, not for its size.
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

    /// The first block from `index` on that the layer says something of.
    pub fn next(&self, index: u64) -> Option<u64> {
        let written = self.next_written(index);
        let cleared = self.cleared.next(index);
        match (written, cleared) {
            (Some(written), Some(cleared)) => Some(written.min(cleared)),
            (written, cleared) => written.or(cleared),
        }
    }

    /// The last block that was written.
    pub fn last_written(&self) -> Option<u64> {
        self.chunks.last().map(|chunk| chunk.last)
    }

    /// How many blocks are held as written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nodes of a tree with so many levels that it changes at most.
    pub fn touched_nodes(&self, height: u8) -> u64 {
        let written = self.chunks.first().zip(self.chunks.last());
        let written = written.map(|(first, last)| first.first..=last.last);
        let written = written.map(|blocks| nodes_over(&blocks, self.leaves, height));
        // What lies wholly in a range is dropped; only nodes at its two ends are written anew.
        let ends = 2 * self.cleared.len() as u64;
        let cleared = self.cleared.span().map(|range| range.start..=range.end - 1);
        let cleared = cleared.map(|blocks| nodes_over(&blocks, ends, height));
        written.unwrap_or(0) + cleared.unwrap_or(0)
    }

    /// Whether it says nothing of any block.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.cleared.is_empty()
    }

    /// How many insertions and clearances there were.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// About how many bytes of memory it takes.
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

    /// The position of the chunk that block `index` belongs to.
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

    /// Makes room for block `index` in the full chunk at `position`; says in which chunk it has its
    /// place now. A chunk grows, and is then cut in two; but behind its last block a new one begins,
    /// so that who writes in ascending order fills every chunk.
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

    /// The place at which the search for block `index` begins.
    #[inline]
    fn home(&self, index: u64) -> usize {
        let mask = self.places.len() - 1;
        // By the golden ratio neighbours come to lie far apart, and so do equal strides.
        (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
    }

    /// Where block `index` is, or the free place where it belongs.
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

    /// Takes a block that is not in it to the free place where it belongs.
    #[inline]
    fn put(&mut self, place: usize, index: u64, pointer: [u8; Pointer::SIZE]) {
        self.places.set(place, index, pointer);
        self.first = self.first.min(index);
        self.last = self.last.max(index);
        self.len += 1;
    }

    /// Where the blocks of `range` are, in no order.
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

    /// The first block from `index` on. A free place counts as the last number there is.
    fn next(&self, index: u64) -> Option<u64> {
        let next = self.places.indices().fold(FREE, |next, other| {
            next.min(if other >= index { other } else { FREE })
        });
        (next != FREE).then_some(next)
    }

    /// Leaves that its blocks lie in, at most.
    fn leaves(&self) -> u64 {
        match self.len {
            0 => 0,
            len => leaves_over(&(self.first..=self.last)).min(len as u64),
        }
    }

    /// The block that half of the others are below.
    fn middle(&self) -> u64 {
        let mut indices: Vec<_> = self.places.indices().filter(|&at| at != FREE).collect();
        let half = indices.len() / 2;
        *indices.select_nth_unstable(half).1
    }

    /// A chunk with as many places and the blocks of `range`.
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
