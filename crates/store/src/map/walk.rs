//! A walk: it visits all blocks of a tree, and its nodes, to destroy, scrub or send the tree.
//!
//! The walk goes in the order of block numbers, and visits each node after everything below it. So
//! a walk can go on at any block number, even after a crash, and still visits each node once.

use std::sync::Arc;

use crate::format::node::FAN_OUT;
use crate::format::{Epoch, Node, NodeId, Pointer};

use super::{Missing, NodeCache, Tree};

/// Progress of a walk.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget was used up. The caller calls again.
    More,
    /// All is done.
    Done,
}

/// Visit of a walk. A visited block or node may be lost ([`Pointer::is_lost`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A block of the volume.
    Block {
        /// Number of the block.
        index: u64,
        /// Pointer to the block.
        pointer: Pointer,
    },
    /// A node. All blocks and nodes to be visited below it were visited.
    Node {
        /// Place of the node in the map.
        id: NodeId,
        /// Pointer to the node.
        pointer: Pointer,
    },
}

/// A walk over a tree or a part of it.
#[derive(Debug)]
pub struct Walk<const N: usize = FAN_OUT> {
    /// Epoch up to which blocks and nodes are passed over by their birth.
    newer_than: Option<Epoch>,
    /// Number below which blocks are passed over.
    start: u64,
    /// Number behind the last block.
    end: u64,
    /// Node to read next.
    next: Option<(NodeId, Pointer)>,
    /// Nodes that were entered and not left, the topmost first.
    open: Vec<Open<N>>,
}

#[derive(Debug)]
struct Open<const N: usize> {
    pointer: Pointer,
    node: Arc<Node<N>>,
    /// Next slot to look at.
    slot: usize,
}

impl<const N: usize> Walk<N> {
    /// Starts a walk over all blocks of `tree` from `start` on. `start` is 0, or the
    /// [`Walk::position`] of an earlier walk over this tree. The walk visits only blocks and nodes
    /// that were born after `newer_than`.
    pub fn new(tree: &Tree<N>, start: u64, newer_than: Option<Epoch>) -> Self {
        Self::below(tree.root_id(), tree.root, start, newer_than)
    }

    /// Starts a walk over everything below the node `id`, and the node.
    pub(super) fn below(
        id: NodeId,
        pointer: Pointer,
        start: u64,
        newer_than: Option<Epoch>,
    ) -> Self {
        let end = Tree::<N>::blocks_of(id).end;
        let mut walk = Self {
            newer_than,
            start,
            end,
            next: None,
            open: Vec::new(),
        };
        if start < end && walk.is_wanted(&pointer) {
            walk.next = Some((id, pointer));
        }
        walk
    }

    /// Returns the block below which everything was visited, with the nodes that end there.
    pub fn position(&self) -> u64 {
        match self.next {
            Some((id, _)) => Tree::<N>::blocks_of(id).start.max(self.start),
            None => self.end,
        }
    }

    /// Goes on. `budget` counts nodes down; at 0 the walk pauses.
    ///
    /// # Errors
    /// The node that has to be read first.
    pub fn step(
        &mut self,
        cache: &mut NodeCache<N>,
        budget: &mut usize,
        mut visit: impl FnMut(Visit),
    ) -> Result<Progress, Missing> {
        while let Some((id, pointer)) = self.next {
            if *budget == 0 {
                return Ok(Progress::More);
            }
            if pointer.is_lost() {
                // Nothing is known of the blocks below it.
                self.next = None;
                visit(Visit::Node { id, pointer });
                self.advance(&mut visit);
                continue;
            }
            let node = Arc::clone(cache.get(&pointer, id)?);
            *budget -= 1;
            self.next = None;
            let blocks = Tree::<N>::blocks_of(id);
            let from = self.start.max(blocks.start);
            if id.level == 0 {
                for slot in (from - blocks.start) as usize..N {
                    let pointer = node.get(slot);
                    if self.is_wanted(&pointer) {
                        visit(Visit::Block {
                            index: blocks.start + slot as u64,
                            pointer,
                        });
                    }
                }
                visit(Visit::Node { id, pointer });
            } else {
                self.open.push(Open {
                    pointer,
                    node,
                    slot: Tree::<N>::slot(id.level, from),
                });
            }
            self.advance(&mut visit);
        }
        Ok(Progress::Done)
    }

    /// Goes on behind a node that has to be read first and cannot be. Neither the node nor anything
    /// below it is visited.
    pub fn pass_over(&mut self, mut visit: impl FnMut(Visit)) {
        if self.next.take().is_some() {
            self.advance(&mut visit);
        }
    }

    /// Returns the nodes that the walk will ask for next and that are not in memory. It returns
    /// `most` at most, which must be far fewer than a tenth of the cache. Reading these nodes early
    /// makes the walk quicker.
    pub fn upcoming(&self, cache: &NodeCache<N>, most: usize) -> Vec<Missing> {
        let next = self.next.map(|(id, pointer)| Missing { pointer, id });
        let siblings = self.open.last().into_iter().flat_map(|open| {
            (open.slot..N).map(|slot| {
                let pointer = open.node.get(slot);
                Missing {
                    pointer,
                    id: Tree::<N>::child(open.node.id(), slot),
                }
            })
        });
        next.into_iter()
            .chain(siblings)
            .filter(|missing| self.is_wanted(&missing.pointer) && missing.is_worth_reading(cache))
            .take(most)
            .collect()
    }

    fn is_wanted(&self, pointer: &Pointer) -> bool {
        !pointer.is_hole() && self.newer_than.is_none_or(|epoch| pointer.birth > epoch)
    }

    /// Finds the next node to enter, and leaves the nodes in which there is none. Both are done in
    /// one step: between calls of [`Walk::step`], no node is open whose last block was visited.
    fn advance(&mut self, visit: &mut impl FnMut(Visit)) {
        while let Some(open) = self.open.last() {
            let (id, pointer) = (open.node.id(), open.pointer);
            let found = (open.slot..N).find(|&slot| self.is_wanted(&open.node.get(slot)));
            if let Some(slot) = found {
                self.next = Some((Tree::<N>::child(id, slot), open.node.get(slot)));
                if let Some(open) = self.open.last_mut() {
                    open.slot = slot + 1;
                }
                return;
            }
            self.open.pop();
            visit(Visit::Node { id, pointer });
        }
    }
}

#[cfg(test)]
mod tests;
