//! The blocks that differ between two trees of one volume or its clones. They are what an
//! incremental stream carries from one snapshot to the next. A whole stream is the difference from
//! a tree of holes.
//!
//! Both trees are descended side by side. If they share a node, nothing below it is read. So the
//! cost is that of the blocks written in between.

use std::ops::Range;
use std::sync::Arc;

use crate::format::node::FAN_OUT;
use crate::format::{Node, NodeId, Pointer};

use super::walk::Progress;
use super::{Missing, NodeCache, Tree};

/// A difference. Differences come in the order of block numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The newer tree has another block here.
    Block {
        /// Number of the block.
        index: u64,
        /// Pointer to the block.
        pointer: Pointer,
    },
    /// The newer tree has holes here; the older one has at least one block. The range may go on
    /// beyond the volume's size.
    Holes(Range<u64>),
}

/// A comparison under way.
#[derive(Debug)]
pub struct Diff<const N: usize = FAN_OUT> {
    older: Tree<N>,
    newer: Tree<N>,
    /// Number below which blocks are passed over.
    start: u64,
    /// Two different nodes to read next, at one place of both trees.
    next: Option<(NodeId, Below, Below)>,
    /// Nodes that were entered and not left, the topmost first.
    open: Vec<Open<N>>,
    /// Range of holes that may go on.
    holes: Range<u64>,
}

/// Content of a tree at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// The tree has a node, a block, or a hole.
    Pointer(Pointer),
    /// The tree has only its root here, further below: the other tree is higher.
    Root,
}

/// A node of one of the trees, if there is one.
#[derive(Debug)]
enum Side<const N: usize> {
    Hole,
    Node(Arc<Node<N>>),
    /// The tree has only its root here, as in [`Below::Root`].
    Root,
}

#[derive(Debug)]
struct Open<const N: usize> {
    id: NodeId,
    older: Side<N>,
    newer: Side<N>,
    /// Next slot to look at.
    slot: usize,
}

impl<const N: usize> Diff<N> {
    /// Compares from `older` to `newer`, blocks from `start` on. `start` is 0, or the
    /// [`Diff::position`] of an earlier comparison of these trees.
    pub fn new(older: Tree<N>, newer: Tree<N>, start: u64) -> Self {
        let level = older.height.max(newer.height) - 1;
        let id = NodeId {
            level,
            ..newer.root_id()
        };
        let mut diff = Self {
            older,
            newer,
            start,
            next: None,
            open: Vec::new(),
            holes: 0..0,
        };
        let top = |tree: &Tree<N>| match tree.root {
            root if root.is_hole() || tree.height - 1 == level => Below::Pointer(root),
            _ => Below::Root,
        };
        let (older, newer) = (top(&older), top(&newer));
        if older != newer && Tree::<N>::blocks_of(id).end > start {
            // No difference can be reported yet.
            let _ = diff.enter(id, older, newer);
        }
        diff
    }

    /// Returns the block below which all differences were reported.
    pub fn position(&self) -> u64 {
        if !self.holes.is_empty() {
            return self.holes.start;
        }
        match &self.next {
            Some((id, ..)) => Tree::<N>::blocks_of(*id).start.max(self.start),
            None => self.newer.end().max(self.older.end()),
        }
    }

    /// Goes on. `budget` counts pairs of nodes down; at 0 the comparison pauses.
    ///
    /// # Errors
    /// The node that has to be read first.
    pub fn step(
        &mut self,
        cache: &mut NodeCache<N>,
        budget: &mut usize,
        mut tell: impl FnMut(Change),
    ) -> Result<Progress, Missing> {
        while let Some((id, older, newer)) = self.next {
            if *budget == 0 {
                return Ok(Progress::More);
            }
            let (older, newer) = (Side::load(cache, id, older)?, Side::load(cache, id, newer)?);
            *budget -= 1;
            self.next = None;
            let from = self.start.max(Tree::<N>::blocks_of(id).start);
            let slot = Tree::<N>::slot(id.level, from);
            self.open.push(Open {
                id,
                older,
                newer,
                slot,
            });
            self.advance(&mut tell);
        }
        self.take_holes().into_iter().for_each(tell);
        Ok(Progress::Done)
    }

    /// Returns the nodes that the comparison will ask for next and that are not in memory, `most`
    /// at most.
    pub fn upcoming(&self, cache: &NodeCache<N>, most: usize) -> Vec<Missing> {
        let siblings = self.open.last().into_iter().flat_map(|open| {
            let slots = if open.id.level == 0 {
                N..N
            } else {
                open.slot..N
            };
            slots.map(|slot| {
                let id = Tree::<N>::child(open.id, slot);
                (
                    id,
                    open.older.child(&self.older, open.id, slot),
                    open.newer.child(&self.newer, open.id, slot),
                )
            })
        });
        let is_read = |newer: &Below| *newer != Below::Pointer(Pointer::HOLE);
        let wanted = siblings.filter(|(_, older, newer)| older != newer && is_read(newer));
        let nodes = self
            .next
            .into_iter()
            .chain(wanted)
            .flat_map(|(id, older, newer)| {
                [older, newer]
                    .into_iter()
                    .filter_map(move |below| match below {
                        Below::Pointer(pointer) => Some(Missing { pointer, id }),
                        Below::Root => None,
                    })
            });
        nodes
            .filter(|missing| missing.is_worth_reading(cache))
            .take(most)
            .collect()
    }

    /// Reports the differences in the open nodes until there is a pair to enter. Leaves the nodes
    /// in which there is nothing more.
    fn advance(&mut self, tell: &mut impl FnMut(Change)) {
        while self.next.is_none()
            && let Some(open) = self.open.last_mut()
        {
            let slot = open.slot;
            if slot == N {
                self.open.pop();
                continue;
            }
            open.slot += 1;
            let id = open.id;
            let (older, newer) = (
                open.older.child(&self.older, id, slot),
                open.newer.child(&self.newer, id, slot),
            );
            if older == newer {
                continue;
            }
            if id.level > 0 {
                self.enter(Tree::<N>::child(id, slot), older, newer)
                    .into_iter()
                    .for_each(&mut *tell);
                continue;
            }
            let index = Tree::<N>::blocks_of(id).start + slot as u64;
            match newer {
                Below::Pointer(pointer) if !pointer.is_hole() => {
                    self.take_holes().into_iter().for_each(&mut *tell);
                    tell(Change::Block { index, pointer });
                }
                _ => self
                    .add_holes(index..index + 1)
                    .into_iter()
                    .for_each(&mut *tell),
            }
        }
    }

    /// Goes into two different nodes next, if the newer one is a node. Returns the change to report
    /// first.
    fn enter(&mut self, id: NodeId, older: Below, newer: Below) -> Option<Change> {
        if newer == Below::Pointer(Pointer::HOLE) {
            let blocks = Tree::<N>::blocks_of(id);
            return self.add_holes(blocks.start.max(self.start)..blocks.end);
        }
        self.next = Some((id, older, newer));
        None
    }

    /// Notes holes behind all reported changes. Returns earlier holes that do not touch them.
    fn add_holes(&mut self, range: Range<u64>) -> Option<Change> {
        if self.holes.end == range.start && !self.holes.is_empty() {
            self.holes.end = range.end;
            return None;
        }
        let others = self.take_holes();
        self.holes = range;
        others
    }

    fn take_holes(&mut self) -> Option<Change> {
        let holes = std::mem::replace(&mut self.holes, 0..0);
        (!holes.is_empty()).then_some(Change::Holes(holes))
    }
}

impl<const N: usize> Side<N> {
    fn load(cache: &mut NodeCache<N>, id: NodeId, below: Below) -> Result<Self, Missing> {
        Ok(match below {
            Below::Root => Self::Root,
            Below::Pointer(pointer) if pointer.is_hole() => Self::Hole,
            Below::Pointer(pointer) if pointer.is_lost() => {
                Self::Node(Arc::new(Node::lost(id, pointer.birth)))
            }
            Below::Pointer(pointer) => Self::Node(Arc::clone(cache.get(&pointer, id)?)),
        })
    }

    /// Returns the content of `slot` in `tree`. This side is the tree's node at `id`.
    fn child(&self, tree: &Tree<N>, id: NodeId, slot: usize) -> Below {
        match self {
            Self::Node(node) => Below::Pointer(node.get(slot)),
            Self::Root if slot == 0 && tree.height == id.level => Below::Pointer(tree.root),
            Self::Root if slot == 0 => Below::Root,
            Self::Root | Self::Hole => Below::Pointer(Pointer::HOLE),
        }
    }
}

#[cfg(test)]
mod tests;
