//! The dead list of a volume or snapshot D: the blocks that the snapshot before it has and D has no
//! more. It makes deleting a snapshot a matter of lists, without a look at any map.
//!
//! What D drops goes there if it was born up to the epoch of that snapshot; nobody else has it
//! otherwise, and it is free. When that snapshot S is deleted, of D's list the blocks that were born
//! after the snapshot before S are free ([`Deadlist::split_after`]); what is left and all of S's list
//! are D's list from then on ([`Deadlist::merge`]).
//!
//! A list is kept in parts, one for each time between two snapshots in which its blocks were born, so
//! that splitting moves whole parts and reads nothing, and that a part knows its size: what deleting
//! a snapshot would free. On disk a part is a chain of [`Chunk`]s, newest first. Merged parts have
//! several chains, until a chunk of chunks makes them one.
//!
//! Blocks that came since the last full chunk stay in memory and are written with every checkpoint,
//! in place of what was written of them before, until they fill a chunk.

use std::collections::BTreeMap;
use std::fmt;

use crate::format::list::{Chunk, Entries, MAX_POINTERS};
use crate::format::{Epoch, Pointer};

mod figures;
mod record;
pub use figures::{BlockCount, Figure, Figures};
use figures::{Nodes, Whole};
pub use record::RECORD;
#[cfg(test)]
mod tests;

/// Where chunks are kept.
pub trait Store {
    /// Why a chunk could not be written.
    type Error;

    /// Finds a place for a chunk and sees to it that it is written there before the checkpoint is
    /// durable.
    ///
    /// # Errors
    /// There is no place.
    fn write(&mut self, chunk: &Chunk) -> Result<Pointer, Self::Error>;

    /// Drops a chunk that an older checkpoint may still reach.
    fn drop_later(&mut self, chunk: Pointer);
}

/// Why a list cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// This chunk has to be read before the caller can go on: call again with it.
    Missing(Pointer),
    /// This chunk is not what belongs here, though its checksum may be right.
    Damaged(Pointer),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(pointer) => write!(f, "the chunk at {} is not read yet", pointer.address),
            Self::Damaged(pointer) => write!(
                f,
                "the chunk at {} does not belong to this dead list",
                pointer.address
            ),
        }
    }
}

impl std::error::Error for Unread {}

/// What was taken out of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Blocks that were on the list.
    pub blocks: Vec<Pointer>,
    /// The chunks in which they lay, which are to be dropped in any case.
    pub chunks: Vec<Pointer>,
}

/// What a dead pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// A block of a volume.
    Block,
    /// A node of its map.
    Node,
}

/// Blocks that only a snapshot still has. A walk that leaves the list as it is takes from a clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlist {
    /// By the epoch of the snapshot after which the blocks were born; 0 where there is none.
    parts: BTreeMap<Epoch, Part>,
}

/// Blocks born between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    /// Chains on disk.
    chains: Vec<Pointer>,
    /// Blocks that are in none of them.
    tail: Vec<Pointer>,
    /// A chunk of exactly the tail, in front of the only chain.
    written: Option<Pointer>,
    /// Chunks of what the tail was once, to be dropped.
    outdated: Vec<Pointer>,
    has: Figure,
}

impl Deadlist {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no block on it.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many blocks are on it.
    pub fn blocks(&self) -> u64 {
        self.parts.values().map(|part| part.has.blocks).sum()
    }

    /// In how many parts they are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// How many of them are of times that no snapshot ends or begins any more, of these that the list's owner builds on,
    /// ascending: it is only the list of who comes next whose parts are joined when a snapshot goes.
    pub fn stale_parts(&self, snapshots: &[Epoch]) -> usize {
        let keys = self.parts.keys();
        let is_stale =
            |after: &&Epoch| **after != Epoch(0) && snapshots.binary_search(after).is_err();
        keys.filter(is_stale).count()
    }

    /// Sectors of all its blocks, parity not counted.
    pub fn sectors(&self) -> u64 {
        self.after(Epoch(0)).sectors
    }

    /// Its blocks that were born after the snapshot of this epoch, 0 for all: what only one snapshot has, if this is the
    /// list of what comes after it, and `after` comes before it.
    pub fn after(&self, after: Epoch) -> Figure {
        let parts = self.parts.range(after..);
        parts.fold(Figure::default(), |sum, (_, part)| sum.and(part.has))
    }

    /// What it says of its blocks now.
    pub fn figures(&self) -> Figures {
        let parts = self.parts.iter();
        Figures(parts.map(|(after, part)| (*after, part.has)).collect())
    }

    /// Adds a block. `snapshots`: the epochs of all snapshots that the list's owner builds on,
    /// ascending.
    pub fn append(&mut self, block: Pointer, what: Dead, snapshots: &[Epoch]) {
        debug_assert!(!block.is_hole(), "a hole is nowhere");
        let older = snapshots.partition_point(|epoch| *epoch < block.birth);
        let after = older
            .checked_sub(1)
            .map_or(Epoch(0), |last| snapshots[last]);
        let part = self.parts.entry(after).or_default();
        part.change();
        part.tail.push(block);
        part.has.count(&block, what);
    }

    /// Takes out the blocks that were born after the snapshot of this epoch, 0 for all. It must be
    /// one that the list's owner builds on.
    pub fn split_after(&mut self, after: Epoch) -> Self {
        let parts = self.parts.split_off(&after);
        Self { parts }
    }

    /// Adds all blocks of another list.
    pub fn merge(&mut self, other: Self) {
        for (after, part) in other.parts {
            self.parts.entry(after).or_default().merge(part);
        }
    }

    /// Makes one part of those between which there is no snapshot any more: after a deletion, with
    /// the epochs of those that are left, ascending.
    pub fn join_parts(&mut self, snapshots: &[Epoch]) {
        for (after, part) in std::mem::take(&mut self.parts) {
            let older = snapshots.partition_point(|epoch| *epoch <= after);
            let after = older
                .checked_sub(1)
                .map_or(Epoch(0), |last| snapshots[last]);
            self.parts.entry(after).or_default().merge(part);
        }
    }

    /// Writes what fills whole chunks: at any time while a checkpoint is made, so that a list that
    /// grows fast takes little memory.
    ///
    /// # Errors
    /// Those of the store; what was written until then is on the list as it is on disk.
    pub fn spill<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut parts = self.parts.values_mut();
        parts.try_for_each(|part| part.spill(store))
    }

    /// Blocks in memory that [`Deadlist::spill`] would write or that wait for more.
    pub fn blocks_in_memory(&self) -> usize {
        self.parts.values().map(|part| part.tail.len()).sum()
    }

    /// Writes everything, so that [`Deadlist::encode`] says all.
    ///
    /// # Errors
    /// Those of the store; what was written until then is on the list as it is on disk.
    pub fn persist<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut parts = self.parts.values_mut();
        parts.try_for_each(|part| part.persist(store))
    }

    /// Keeps no block in memory that lies on disk as well: for lists that do not grow any more.
    pub fn seal(&mut self) {
        self.parts.values_mut().for_each(Part::seal);
    }

    /// Takes the next blocks off the list, at most a chunk of them; `None` when it is empty. There
    /// may be none in a chunk of chunks. `read` is asked for at most one chunk.
    ///
    /// # Errors
    /// The chunk is not there yet, or is damaged; the list is as it was.
    pub fn take_next(
        &mut self,
        read: impl FnOnce(&Pointer) -> Option<Chunk>,
    ) -> Result<Option<Taken>, Unread> {
        let Some(mut first) = self.parts.first_entry() else {
            return Ok(None);
        };
        let part = first.get_mut();
        let taken = match part.take_tail() {
            Some(taken) => taken,
            None => part.take_chunk(read)?,
        };
        if part.is_empty() {
            first.remove();
        }
        Ok(Some(taken))
    }
}

impl Part {
    fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.tail.is_empty()
    }

    /// Notes that the tail, or what is behind it, is going to differ from what was written.
    fn change(&mut self) {
        self.outdated.extend(self.written.take());
    }

    fn seal(&mut self) {
        if let Some(written) = self.written.take() {
            self.chains = vec![written];
            self.tail = Vec::new();
        }
    }

    fn merge(&mut self, mut other: Self) {
        self.seal();
        other.seal();
        self.chains.append(&mut other.chains);
        self.tail.append(&mut other.tail);
        self.outdated.append(&mut other.outdated);
        self.has = self.has.and(other.has);
    }

    fn spill<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut spilled = 0;
        let mut result = Ok(());
        for blocks in self.tail.chunks_exact(MAX_POINTERS) {
            match store.write(&chunk(&self.chains, blocks)) {
                Ok(chain) => {
                    self.chains.pop();
                    self.chains.push(chain);
                    spilled += blocks.len();
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // A tail that was written is shorter than a chunk.
        debug_assert!(spilled == 0 || self.written.is_none());
        self.tail.drain(..spilled);
        result
    }

    fn persist<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        self.spill(store)?;
        while self.chains.len() > 1 {
            let first = self.chains.len().saturating_sub(MAX_POINTERS);
            let chain = store.write(&Chunk {
                next: Pointer::HOLE,
                entries: Entries::Chunks(self.chains[first..].to_vec()),
            })?;
            self.chains.truncate(first);
            self.chains.push(chain);
        }
        if !self.tail.is_empty() && self.written.is_none() {
            self.written = Some(store.write(&chunk(&self.chains, &self.tail))?);
        }
        (self.outdated.drain(..)).for_each(|outdated| store.drop_later(outdated));
        Ok(())
    }

    /// The newest blocks that are in memory.
    fn take_tail(&mut self) -> Option<Taken> {
        if self.tail.is_empty() {
            return None;
        }
        self.change();
        let kept = self.tail.len().saturating_sub(MAX_POINTERS);
        let blocks = self.tail.split_off(kept);
        self.has.blocks = self.has.blocks.saturating_sub(blocks.len() as u64);
        self.has.sectors = self.has.sectors.saturating_sub(sectors(&blocks));
        let chunks = std::mem::take(&mut self.outdated);
        Some(Taken { blocks, chunks })
    }

    /// The first chunk of the last chain. That the part's own figures are right by it is proven on
    /// the way: no chunk has more than is left, and the last one has all of it.
    fn take_chunk(
        &mut self,
        read: impl FnOnce(&Pointer) -> Option<Chunk>,
    ) -> Result<Taken, Unread> {
        let place = *self.chains.last().expect("an empty part is removed");
        let chunk = read(&place).ok_or(Unread::Missing(place))?;
        let next = Some(chunk.next).filter(|next| !next.is_hole());
        let (blocks, chains) = match chunk.entries {
            Entries::Blocks(blocks) => (blocks, Vec::new()),
            Entries::Chunks(chains) => (Vec::new(), chains),
            Entries::Extents(_) => return Err(Unread::Damaged(place)),
        };
        let left = self.has.blocks.checked_sub(blocks.len() as u64);
        let left_sectors = self.has.sectors.checked_sub(sectors(&blocks));
        let (Some(left), Some(left_sectors)) = (left, left_sectors) else {
            return Err(Unread::Damaged(place));
        };
        let count = self.chains.len() - 1 + usize::from(next.is_some()) + chains.len();
        if count as u64 > left || (count == 0) != (left == 0) || (left == 0) != (left_sectors == 0)
        {
            return Err(Unread::Damaged(place));
        }
        self.chains.pop();
        self.chains.extend(next);
        self.chains.extend(chains);
        (self.has.blocks, self.has.sectors) = (left, left_sectors);
        let mut chunks = std::mem::take(&mut self.outdated);
        chunks.push(place);
        Ok(Taken { blocks, chunks })
    }
}

/// A chunk in front of the last of these chains.
fn chunk(chains: &[Pointer], blocks: &[Pointer]) -> Chunk {
    Chunk {
        next: chains.last().copied().unwrap_or(Pointer::HOLE),
        entries: Entries::Blocks(blocks.to_vec()),
    }
}

fn sectors(blocks: &[Pointer]) -> u64 {
    blocks.iter().map(Pointer::stored_sectors).sum()
}
