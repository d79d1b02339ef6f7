//! The dead list of a volume or snapshot D: the blocks that the snapshot before D has and D has no
//! more. With it, deleting a snapshot is a matter of lists, without a look at any map.
//!
//! A block that D drops goes on the list if it was born up to the epoch of the snapshot before D.
//! Any other dropped block belongs to nobody else and is free. Let S be the snapshot before D. When
//! S is deleted, the blocks of D's list that were born after the snapshot before S are free
//! ([`Deadlist::split_after`]). The rest of D's list and all of S's list are D's list from then on
//! ([`Deadlist::merge`]).
//!
//! A list is kept in parts, one for each time between two snapshots in which its blocks were born.
//! So splitting moves whole parts and reads nothing. Each part knows its size, which is what
//! deleting a snapshot would free. On disk a part is a chain of [`Chunk`]s, newest first. Merged
//! parts have several chains, until a chunk of chunks makes them one.
//!
//! Blocks that came since the last full chunk stay in memory until they fill a chunk. Every
//! checkpoint writes them, and its chunk replaces the one that the checkpoint before wrote.

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

/// A store of chunks.
pub trait Store {
    /// Reason why a chunk could not be written.
    type Error;

    /// Finds a place for a chunk and ensures that the chunk is written there before the checkpoint
    /// is durable.
    ///
    /// # Errors
    /// There is no place for the chunk.
    fn write(&mut self, chunk: &Chunk) -> Result<Pointer, Self::Error>;

    /// Drops a chunk that an older checkpoint may still reach.
    fn drop_later(&mut self, chunk: Pointer);
}

/// Reason why a list cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The caller must read the chunk before it can go on, and call again with it.
    Missing(Pointer),
    /// The chunk is not the one that belongs here, though its checksum may be right.
    Damaged(Pointer),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(pointer) => {
                write!(f, "the chunk at {} was not read yet", pointer.address)
            }
            Self::Damaged(pointer) => write!(
                f,
                "the chunk at {} does not belong to this dead list",
                pointer.address
            ),
        }
    }
}

impl std::error::Error for Unread {}

/// Content that was taken out of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Blocks that were on the list.
    pub blocks: Vec<Pointer>,
    /// Chunks in which the blocks lay. They are to be dropped in any case.
    pub chunks: Vec<Pointer>,
}

/// Kind of content that a dead pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// A block of a volume.
    Block,
    /// A node of a volume's map.
    Node,
}

/// Blocks that only a snapshot still has. A walk that must leave the list as it is takes from a
/// clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlist {
    /// Parts by the epoch of the snapshot after which their blocks were born, 0 if there is no such
    /// snapshot.
    parts: BTreeMap<Epoch, Part>,
}

/// Blocks born between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    /// First chunks of the chains on disk.
    chains: Vec<Pointer>,
    /// Blocks that are in no chain.
    tail: Vec<Pointer>,
    /// A chunk of exactly the tail, in front of the only chain.
    written: Option<Pointer>,
    /// Chunks that hold earlier states of the tail, to be dropped.
    outdated: Vec<Pointer>,
    has: Figure,
}

impl Deadlist {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports whether no block is on the list.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the number of blocks on the list.
    pub fn blocks(&self) -> u64 {
        self.parts.values().map(|part| part.has.blocks).sum()
    }

    /// Returns the number of parts of the list.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the number of parts whose time no snapshot begins or ends any more. `snapshots` are
    /// the epochs of the snapshots that the list's owner builds on, ascending. When a snapshot
    /// goes, only the list of its successor has its parts joined.
    pub fn stale_parts(&self, snapshots: &[Epoch]) -> usize {
        let keys = self.parts.keys();
        let is_stale =
            |after: &&Epoch| **after != Epoch(0) && snapshots.binary_search(after).is_err();
        keys.filter(is_stale).count()
    }

    /// Returns the sectors of all blocks on the list, parity not counted.
    pub fn sectors(&self) -> u64 {
        self.after(Epoch(0)).sectors
    }

    /// Counts the blocks that were born after the snapshot of epoch `after`, 0 for all blocks. This
    /// is the space that only one snapshot holds, if the list belongs to that snapshot's successor
    /// and `after` is its predecessor.
    pub fn after(&self, after: Epoch) -> Figure {
        let parts = self.parts.range(after..);
        parts.fold(Figure::default(), |sum, (_, part)| sum.and(part.has))
    }

    /// Returns the figures of the list's blocks at this moment.
    pub fn figures(&self) -> Figures {
        let parts = self.parts.iter();
        Figures(parts.map(|(after, part)| (*after, part.has)).collect())
    }

    /// Adds a block. `snapshots` are the epochs of all snapshots that the list's owner builds on,
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

    /// Takes out the blocks that were born after the snapshot of epoch `after`, 0 for all. The
    /// list's owner must build on that snapshot.
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

    /// Joins the parts between which there is no snapshot any more. It is called after a deletion,
    /// with the epochs of the remaining snapshots, ascending.
    pub fn join_parts(&mut self, snapshots: &[Epoch]) {
        for (after, part) in std::mem::take(&mut self.parts) {
            let older = snapshots.partition_point(|epoch| *epoch <= after);
            let after = older
                .checked_sub(1)
                .map_or(Epoch(0), |last| snapshots[last]);
            self.parts.entry(after).or_default().merge(part);
        }
    }

    /// Writes the blocks that fill whole chunks. It may be called at any time while a checkpoint is
    /// made, so that a list that grows fast takes little memory.
    ///
    /// # Errors
    /// The store failed. Blocks that were written until then are on the list as it is on disk.
    pub fn spill<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut parts = self.parts.values_mut();
        parts.try_for_each(|part| part.spill(store))
    }

    /// Returns the number of blocks in memory: blocks that [`Deadlist::spill`] would write, and
    /// blocks that wait for more.
    pub fn blocks_in_memory(&self) -> usize {
        self.parts.values().map(|part| part.tail.len()).sum()
    }

    /// Writes all blocks, so that [`Deadlist::encode`] covers the whole list.
    ///
    /// # Errors
    /// The store failed. Blocks that were written until then are on the list as it is on disk.
    pub fn persist<S: Store>(&mut self, store: &mut S) -> Result<(), S::Error> {
        let mut parts = self.parts.values_mut();
        parts.try_for_each(|part| part.persist(store))
    }

    /// Drops all blocks from memory that lie on disk as well. It suits lists that do not grow any
    /// more.
    pub fn seal(&mut self) {
        self.parts.values_mut().for_each(Part::seal);
    }

    /// Takes the next blocks off the list, at most a chunk of them. Returns `None` when the list is
    /// empty. A chunk of chunks may yield no blocks. `read` is asked for at most one chunk.
    ///
    /// # Errors
    /// The chunk is not read yet, or is damaged. The list stays as it was.
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

    /// Notes that the tail, or the chain behind it, is going to differ from the written chunk.
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

    /// Takes the newest blocks that are in memory.
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

    /// Takes the first chunk of the last chain. On the way, the chunk proves that the part's own
    /// figures are right: no chunk has more blocks than are left, and the last chunk has all of
    /// them.
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

/// Makes a chunk in front of the last of these chains.
fn chunk(chains: &[Pointer], blocks: &[Pointer]) -> Chunk {
    Chunk {
        next: chains.last().copied().unwrap_or(Pointer::HOLE),
        entries: Entries::Blocks(blocks.to_vec()),
    }
}

fn sectors(blocks: &[Pointer]) -> u64 {
    blocks.iter().map(Pointer::stored_sectors).sum()
}
