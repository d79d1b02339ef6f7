//! The map of a volume as a checkpoint wrote it: a radix tree over block numbers.
//!
//! A leaf holds the pointers of 512 consecutive blocks. A node above it holds the pointers of 512
//! nodes. A hole may stand for a whole subtree. The tree is as high as the highest block ever
//! written needs, and does not become lower. So a volume may be made larger or smaller without a
//! change of the tree.

use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, NodeId, Pointer};

use super::{Missing, NodeCache};

pub use peek::Peek;

mod peek;

/// A tree that lies on the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree<const N: usize = FAN_OUT> {
    /// Volume number that its nodes carry. A clone goes on with its origin's number.
    pub volume: DatasetId,
    /// Pointer to the topmost node, or a hole.
    pub root: Pointer,
    /// Number of levels of nodes, at least 1. The root's level is one less.
    pub height: u8,
}

impl<const N: usize> Tree<N> {
    /// Bits of a block number that a level resolves.
    const BITS: u32 = N.trailing_zeros();
    /// Largest height. Block numbers stay below 2^63.
    pub const MAX_HEIGHT: u8 = (63 / Self::BITS) as u8;

    /// Makes a tree of holes.
    pub fn new(volume: DatasetId) -> Self {
        Self {
            volume,
            root: Pointer::HOLE,
            height: 1,
        }
    }

    /// Opens a tree that a checkpoint noted. Returns `None` if no tree has this height.
    pub fn open(volume: DatasetId, root: Pointer, height: u8) -> Option<Self> {
        (1..=Self::MAX_HEIGHT).contains(&height).then_some(Self {
            volume,
            root,
            height,
        })
    }

    /// Returns the number of blocks that a node of `level` stands for.
    pub fn span(level: u8) -> u64 {
        1_u64
            .checked_shl(Self::BITS * (u32::from(level) + 1))
            .unwrap_or(u64::MAX)
    }

    /// Returns the height of the lowest tree that has block `index`.
    pub fn height_for(index: u64) -> u8 {
        (1..Self::MAX_HEIGHT)
            .find(|&height| index < Self::span(height - 1))
            .unwrap_or(Self::MAX_HEIGHT)
    }

    /// Returns the blocks that a node stands for.
    pub fn blocks_of(id: NodeId) -> std::ops::Range<u64> {
        let start = id.index.saturating_mul(Self::span(id.level));
        start..start.saturating_add(Self::span(id.level))
    }

    /// Returns the child of `id` in `slot`. A leaf has no child.
    pub fn child(id: NodeId, slot: usize) -> NodeId {
        NodeId {
            level: id.level - 1,
            index: (id.index << Self::BITS) + slot as u64,
            ..id
        }
    }

    /// Returns the slot of block `index` in a node of `level`.
    pub fn slot(level: u8, index: u64) -> usize {
        let shifted = index
            .checked_shr(Self::BITS * u32::from(level))
            .unwrap_or(0);
        shifted as usize & (N - 1)
    }

    /// Returns the first block that has no place in the tree. All blocks behind it have none
    /// either.
    pub fn end(&self) -> u64 {
        Self::span(self.height - 1)
    }

    /// Returns the root's place.
    pub fn root_id(&self) -> NodeId {
        NodeId {
            volume: self.volume,
            level: self.height - 1,
            index: 0,
        }
    }

    /// Returns the pointer of block `index`. Beyond the tree there are holes.
    ///
    /// # Errors
    /// The node that has to be read first.
    pub fn look_up(&self, cache: &mut NodeCache<N>, index: u64) -> Result<Pointer, Missing> {
        let mut found = [Pointer::HOLE];
        self.look_up_run(cache, index, &mut found)?;
        Ok(found[0])
    }

    /// Writes the pointers of the blocks from `first` on into `found`, with one descent per leaf.
    /// All leaves have to be in memory at once. So a run is not meant to go over more than a few
    /// leaves.
    ///
    /// # Errors
    /// The node that has to be read first. `found` must not be used then.
    pub fn look_up_run(
        &self,
        cache: &mut NodeCache<N>,
        first: u64,
        found: &mut [Pointer],
    ) -> Result<(), Missing> {
        let mut index = first;
        let mut rest = found;
        while !rest.is_empty() {
            let until_end = self.end().saturating_sub(index);
            if until_end == 0 {
                rest.fill(Pointer::HOLE);
                break;
            }
            let (level, pointer) = self.descend(cache, index)?;
            let span = Self::span(level);
            let here = (span - index % span).min(rest.len() as u64) as usize;
            let (run, behind) = rest.split_at_mut(here);
            if pointer.is_hole() || pointer.is_lost() {
                run.fill(pointer);
            } else {
                let id = NodeId {
                    volume: self.volume,
                    level: 0,
                    index: index >> Self::BITS,
                };
                let leaf = cache.get(&pointer, id)?;
                let slot = Self::slot(0, index);
                for (at, found) in run.iter_mut().enumerate() {
                    *found = leaf.get(slot + at);
                }
            }
            index += here as u64;
            rest = behind;
        }
        Ok(())
    }

    /// Prepares look-ups of blocks whose nodes are in memory. No node counts this as a use.
    pub fn peek<'a>(&self, cache: &'a NodeCache<N>) -> Peek<'a, N> {
        Peek {
            tree: *self,
            cache,
            last: None,
        }
    }

    /// Drops the leaf of block `index` from memory, if it is there.
    pub fn forget_leaf(&self, cache: &mut NodeCache<N>, index: u64) {
        if index < self.end()
            && let Ok((0, pointer)) = self.descend(cache, index)
        {
            cache.discard(&pointer);
        }
    }

    /// Returns the leaf of block `index`, or the hole that stands for it with the hole's level.
    /// Nodes below a lost node are lost too.
    fn descend(&self, cache: &mut NodeCache<N>, index: u64) -> Result<(u8, Pointer), Missing> {
        let mut level = self.height - 1;
        let mut pointer = self.root;
        while level > 0 && !pointer.is_hole() && !pointer.is_lost() {
            let id = NodeId {
                volume: self.volume,
                level,
                index: index
                    .checked_shr(Self::BITS * (u32::from(level) + 1))
                    .unwrap_or(0),
            };
            pointer = cache.get(&pointer, id)?.get(Self::slot(level, index));
            level -= 1;
        }
        Ok((level, pointer))
    }
}

#[cfg(test)]
mod tests;
