//! The merge of a closed layer into a tree: the heart of a checkpoint.
//!
//! Nodes are never changed in place. Each leaf that the layer touches is read once, changed in
//! memory and written elsewhere, then the nodes above it, in the order of block numbers. So nodes
//! lie on the device in the order in which they are written. Blocks and nodes that the new tree no
//! longer has are given to the [`Sink`], each exactly once. If a whole subtree was unmapped, it is
//! walked for that. Nodes that the layer does not touch are shared with the old tree. The old tree
//! stays as it is: if the merge is given up, only free space was written.
//!
//! The merge assumes two things of its caller. The layer was closed in a later epoch than every
//! node of the tree was born in (epochs count up with each checkpoint and snapshot). And no block
//! in the layer was born after that epoch. The new nodes are born in that epoch. So a snapshot that
//! sees the new tree is not older than its nodes. And nodes of the tree that a later merge drops
//! count as the snapshot's.

use std::ops::Range;
use std::sync::Arc;

use crate::format::node::FAN_OUT;
use crate::format::{Epoch, Node, NodeId, Pointer};

use super::walk::{Progress, Visit, Walk};
use super::{Closed, Layer, Missing, NodeCache, Tree};

/// A sink of a merge: it gives new nodes a place, and takes dropped blocks and nodes.
pub trait Sink<const N: usize = FAN_OUT> {
    /// Finds a place for `node`, and has [`Node::to_block`] written there. The pointer's birth is
    /// [`Node::birth`]. The sink keeps the `Arc` until the device has the node. Then the cache
    /// keeps the node, and nobody reads it from the device too early.
    ///
    /// # Errors
    /// No place is free. The merge can go on later where it was.
    fn write_node(&mut self, node: &Arc<Node<N>>) -> Result<Pointer, NoSpace>;

    /// Takes a block of the volume that is not in the new tree any more.
    fn drop_block(&mut self, pointer: Pointer);

    /// Takes a node of the old tree that is not in the new one.
    fn drop_node(&mut self, pointer: Pointer);
}

/// Error that no place is free for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;

/// Reason why a merge cannot go on. When the reason is removed, the caller calls the merge again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The node has to be read first.
    Missing(Missing),
    /// No place is free for a new node.
    NoSpace,
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl From<NoSpace> for Stop {
    fn from(_: NoSpace) -> Self {
        Self::NoSpace
    }
}

/// Counts of a merge's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Nodes of the new tree that the old one does not have.
    pub nodes_written: u64,
    /// Sectors of the nodes written.
    pub node_sectors_written: u64,
    /// Nodes of the old tree that the new one does not have.
    pub nodes_dropped: u64,
    /// Sectors of the nodes dropped.
    pub node_sectors_dropped: u64,
    /// Blocks of the new tree that the old one does not have.
    pub blocks_added: u64,
    /// Sectors of the blocks added.
    pub block_sectors_added: u64,
    /// Blocks added that are not packed.
    pub whole_added: u64,
    /// Blocks of the old tree that the new one does not have.
    pub blocks_dropped: u64,
    /// Sectors of the blocks dropped.
    pub block_sectors_dropped: u64,
    /// Blocks dropped that are not packed.
    pub whole_dropped: u64,
}

/// A merge under way.
#[derive(Debug)]
pub struct Merge<const N: usize = FAN_OUT> {
    closed: Arc<Closed>,
    /// New tree. Its root counts when all is done.
    tree: Tree<N>,
    /// Node to change next, and the pointer to its old self: a hole if there is none.
    next: Option<(NodeId, Pointer)>,
    /// Nodes being changed, the topmost first. Each is in `slot` of the one before.
    open: Vec<Open<N>>,
    /// Walk of a subtree that was unmapped as a whole.
    dropping: Option<Walk<N>>,
    /// Written blocks of the layer about the leaf that is changed.
    written: Written,
    statistics: Statistics,
}

#[derive(Debug)]
struct Open<const N: usize> {
    /// Pointer to the node's old self: a hole if there is none.
    old: Pointer,
    node: Arc<Node<N>>,
    /// Slot of the child that is being changed, or to look at next.
    slot: usize,
    is_changed: bool,
}

impl<const N: usize> Merge<N> {
    /// Starts a merge of `closed` into `tree`.
    ///
    /// # Panics
    /// The layer was not closed after the tree's epoch.
    pub fn new(tree: Tree<N>, closed: Arc<Closed>) -> Self {
        // No node is younger than the root; the decoding of nodes checks this.
        assert!(
            tree.root.birth < closed.epoch,
            "{tree:?}, layer of epoch {}",
            closed.epoch.0
        );
        let needed = closed.layer.last_written().map_or(1, Tree::<N>::height_for);
        let height = tree.height.max(needed);
        let mut open = Vec::new();
        let mut next = None;
        if tree.root.is_hole() || height == tree.height {
            next = Some((
                NodeId {
                    level: height - 1,
                    ..tree.root_id()
                },
                tree.root,
            ));
        } else {
            // The old root becomes the first child of a new one, or of its first child...
            for level in (tree.height..height).rev() {
                let id = NodeId {
                    level,
                    ..tree.root_id()
                };
                let mut node = Node::new(id, closed.epoch);
                if level == tree.height {
                    node.set(0, tree.root);
                }
                let node = Arc::new(node);
                open.push(Open {
                    old: Pointer::HOLE,
                    node,
                    slot: 0,
                    is_changed: true,
                });
            }
        }
        let tree = Tree { height, ..tree };
        Self {
            closed,
            tree,
            next,
            open,
            dropping: None,
            written: Written::default(),
            statistics: Statistics::default(),
        }
    }

    /// Returns the layer that is merged.
    pub fn closed(&self) -> &Arc<Closed> {
        &self.closed
    }

    /// Returns the new tree; `None` until [`Merge::step`] says that all is done.
    pub fn tree(&self) -> Option<Tree<N>> {
        self.is_done().then_some(self.tree)
    }

    /// Returns the counts of the work done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Goes on. `budget` counts nodes down, those changed and those visited to drop them. At 0 the
    /// merge pauses.
    ///
    /// # Errors
    /// The condition that the merge needs first.
    pub fn step(
        &mut self,
        cache: &mut NodeCache<N>,
        sink: &mut impl Sink<N>,
        budget: &mut usize,
    ) -> Result<Progress, Stop> {
        while !self.is_done() {
            if *budget == 0 {
                return Ok(Progress::More);
            }
            if let Some(walk) = &mut self.dropping {
                let mut count = Counted {
                    statistics: &mut self.statistics,
                    sink: &mut *sink,
                };
                let progress = walk.step(cache, budget, |visit| match visit {
                    Visit::Block { pointer, .. } => count.drop_block(pointer),
                    Visit::Node { pointer, .. } => count.drop_node(pointer),
                })?;
                if progress == Progress::Done {
                    self.dropping = None;
                }
            } else if let Some((id, old)) = self.next {
                let node = self.load(cache, id, &old)?;
                if id.level == 0 {
                    let pointer = self.change_leaf(cache, sink, old, node)?;
                    *budget -= 1;
                    self.settle(pointer);
                } else {
                    self.open.push(Open {
                        old,
                        node,
                        slot: 0,
                        is_changed: false,
                    });
                }
                self.next = None;
            } else if !self.find_child() {
                let pointer = self.close_node(cache, sink)?;
                *budget -= 1;
                self.settle(pointer);
            }
        }
        Ok(Progress::Done)
    }

    /// Returns the nodes that the merge will ask for next and that are not in memory. It returns
    /// `most` at most, which must be far fewer than a tenth of the cache. Reading these nodes early
    /// and together makes the merge quicker.
    pub fn upcoming(&self, cache: &NodeCache<N>, most: usize) -> Vec<Missing> {
        let mut found = Vec::new();
        if let Some(walk) = &self.dropping {
            found = walk.upcoming(cache, most);
        } else if let Some((id, pointer)) = self.next {
            found.push(Missing { pointer, id });
        }
        if let Some(open) = self.open.last() {
            // The child in `open.slot` may be the next one already.
            let mut slot = open.slot + usize::from(self.next.is_some());
            let layer = &self.closed.layer;
            while let Some(touched) =
                touched_child(layer, |index| layer.next(index), &open.node, slot)
            {
                if found.len() >= most {
                    break;
                }
                let (pointer, id) = (
                    open.node.get(touched),
                    Tree::<N>::child(open.node.id(), touched),
                );
                if !self.closed.layer.is_cleared(&Tree::<N>::blocks_of(id)) {
                    found.push(Missing { pointer, id });
                }
                slot = touched + 1;
            }
        }
        found.retain(|missing| missing.is_worth_reading(cache));
        found.truncate(most);
        found
    }

    fn is_done(&self) -> bool {
        self.next.is_none() && self.open.is_empty() && self.dropping.is_none()
    }

    fn epoch(&self) -> Epoch {
        self.closed.epoch
    }

    /// Loads the old node `id`, to be changed.
    fn load(
        &self,
        cache: &mut NodeCache<N>,
        id: NodeId,
        old: &Pointer,
    ) -> Result<Arc<Node<N>>, Missing> {
        if old.is_hole() {
            return Ok(Arc::new(Node::new(id, self.epoch())));
        }
        if old.is_lost() {
            return Ok(Arc::new(Node::lost(id, old.birth).reborn(self.epoch())));
        }
        Ok(Arc::new(cache.get(old, id)?.reborn(self.epoch())))
    }

    /// Brings the layer's changes into the leaf `old`. Returns the new leaf's pointer.
    fn change_leaf(
        &mut self,
        cache: &mut NodeCache<N>,
        sink: &mut impl Sink<N>,
        old: Pointer,
        mut node: Arc<Node<N>>,
    ) -> Result<Pointer, Stop> {
        let changed = Arc::make_mut(&mut node);
        let blocks = Tree::<N>::blocks_of(changed.id());
        // Slots that change, each with its pointer before.
        let mut before: Vec<(usize, Pointer)> = Vec::new();
        let mut is_noted = [false; FAN_OUT];
        let mut change = |index: u64, pointer| {
            let slot = (index - blocks.start) as usize;
            let old = changed.replace(slot, pointer);
            if !std::mem::replace(&mut is_noted[slot], true) {
                before.push((slot, old));
            }
        };
        let cleared = self.closed.layer.cleared(blocks.clone()).flatten();
        cleared.for_each(|index| change(index, Pointer::HOLE));
        self.written.move_to(&self.closed.layer, &blocks);
        let written = self.written.within(&blocks);
        written.for_each(|(index, pointer)| change(index, pointer));
        before.retain(|(slot, old)| node.get(*slot) != *old);
        if before.is_empty() {
            return Ok(old);
        }
        before.sort_unstable_by_key(|(slot, _)| *slot);
        let pointer = self.write(cache, sink, old, &node)?;
        // Blocks are dropped only now, since a write that found no place is tried again.
        let mut count = Counted {
            statistics: &mut self.statistics,
            sink,
        };
        for (slot, before) in before {
            let after = node.get(slot);
            if !before.is_hole() {
                count.drop_block(before);
            }
            if !after.is_hole() {
                count.statistics.blocks_added += 1;
                count.statistics.block_sectors_added += after.stored_sectors();
                count.statistics.whole_added += u64::from(after.is_whole());
            }
        }
        Ok(pointer)
    }

    /// Goes to the next child of the lowest open node that the layer touches. Reports whether there
    /// is one.
    fn find_child(&mut self) -> bool {
        let Some(open) = self.open.last_mut() else {
            return false;
        };
        let layer = &self.closed.layer;
        let next = |index| self.written.next(layer, index);
        let Some(slot) = touched_child(layer, next, &open.node, open.slot) else {
            return false;
        };
        open.slot = slot;
        let (id, old) = (Tree::<N>::child(open.node.id(), slot), open.node.get(slot));
        if layer.is_cleared(&Tree::<N>::blocks_of(id)) {
            self.dropping = Some(Walk::below(id, old, 0, None));
            self.settle(Pointer::HOLE);
        } else {
            self.next = Some((id, old));
        }
        true
    }

    /// Writes the lowest open node, all of whose children are done. Returns its pointer.
    fn close_node(
        &mut self,
        cache: &mut NodeCache<N>,
        sink: &mut impl Sink<N>,
    ) -> Result<Pointer, Stop> {
        let Some(open) = self.open.pop() else {
            return Ok(self.tree.root);
        };
        if !open.is_changed {
            return Ok(open.old);
        }
        match self.write(cache, sink, open.old, &open.node) {
            Ok(pointer) => Ok(pointer),
            Err(stop) => {
                self.open.push(open);
                Err(stop)
            }
        }
    }

    /// Writes `node`, unless it is empty, and drops its old self.
    fn write(
        &mut self,
        cache: &mut NodeCache<N>,
        sink: &mut impl Sink<N>,
        old: Pointer,
        node: &Arc<Node<N>>,
    ) -> Result<Pointer, Stop> {
        let mut pointer = Pointer::HOLE;
        if !node.is_empty() {
            pointer = sink.write_node(node)?;
            assert_eq!(
                pointer.birth,
                node.birth(),
                "a node's pointer is born with it"
            );
            cache.insert(pointer, Arc::clone(node));
            self.statistics.nodes_written += 1;
            self.statistics.node_sectors_written += pointer.stored_sectors();
        }
        if !old.is_hole() {
            Counted {
                statistics: &mut self.statistics,
                sink,
            }
            .drop_node(old);
        }
        Ok(pointer)
    }

    /// Notes that the child that was being changed lies at `pointer` now.
    fn settle(&mut self, pointer: Pointer) {
        let Some(open) = self.open.last_mut() else {
            self.tree.root = pointer;
            return;
        };
        if open.node.get(open.slot) != pointer {
            Arc::make_mut(&mut open.node).set(open.slot, pointer);
            open.is_changed = true;
        }
        open.slot += 1;
    }
}

/// Returns the first slot of `node` from `slot` on below which the layer changes a block.
/// `next` returns the first block from a number on that the layer changes.
fn touched_child<const N: usize>(
    layer: &Layer,
    next: impl Fn(u64) -> Option<u64>,
    node: &Node<N>,
    slot: usize,
) -> Option<usize> {
    let blocks = Tree::<N>::blocks_of(node.id());
    let span = Tree::<N>::span(node.id().level - 1);
    let mut slot = slot;
    while slot < N {
        let start = blocks.start + slot as u64 * span;
        let touched = next(start).filter(|&index| index < blocks.end)?;
        slot = ((touched - blocks.start) / span) as usize;
        let start = blocks.start + slot as u64 * span;
        // Holes that were unmapped stay holes.
        if !node.get(slot).is_hole() || !layer.is_cleared(&(start..start.saturating_add(span))) {
            return Some(slot);
        }
        slot += 1;
    }
    None
}

/// Written blocks of a part of a layer, in order. Leaves that lie side by side are changed from one
/// sorted chunk of the layer, which is not searched for each of them.
#[derive(Debug, Default)]
struct Written {
    /// Block numbers of the part.
    part: Range<u64>,
    blocks: Vec<(u64, Pointer)>,
}

impl Written {
    /// Moves on to a part that has all of `blocks`, unless it is there.
    fn move_to(&mut self, layer: &Layer, blocks: &Range<u64>) {
        if self.part.start <= blocks.start && blocks.end <= self.part.end {
            return;
        }
        let part = layer.chunks_over(blocks);
        self.blocks.clear();
        self.blocks.extend(layer.written(part.clone()));
        self.part = part;
    }

    /// Returns the written blocks of these numbers, which the part has.
    fn within(&self, blocks: &Range<u64>) -> impl Iterator<Item = (u64, Pointer)> + '_ {
        let [first, end] = [blocks.start, blocks.end].map(|index| self.position(index));
        self.blocks[first..end].iter().copied()
    }

    /// Returns the first block from `index` on that the layer changes.
    fn next(&self, layer: &Layer, index: u64) -> Option<u64> {
        let found = self.blocks.get(self.position(index));
        match found.filter(|_| self.part.contains(&index)) {
            Some((written, _)) => layer.next_of(index, Some(*written)),
            None => layer.next(index),
        }
    }

    fn position(&self, index: u64) -> usize {
        self.blocks.partition_point(|(block, _)| *block < index)
    }
}

/// Counter of the calls to the sink. A lost block has no place that could be given back.
struct Counted<'a, S> {
    statistics: &'a mut Statistics,
    sink: &'a mut S,
}

impl<S> Counted<'_, S> {
    fn drop_block<const N: usize>(&mut self, pointer: Pointer)
    where
        S: Sink<N>,
    {
        if pointer.is_lost() {
            return;
        }
        self.statistics.blocks_dropped += 1;
        self.statistics.block_sectors_dropped += pointer.stored_sectors();
        self.statistics.whole_dropped += u64::from(pointer.is_whole());
        self.sink.drop_block(pointer);
    }

    fn drop_node<const N: usize>(&mut self, pointer: Pointer)
    where
        S: Sink<N>,
    {
        if pointer.is_lost() {
            return;
        }
        self.statistics.nodes_dropped += 1;
        self.statistics.node_sectors_dropped += pointer.stored_sectors();
        self.sink.drop_node(pointer);
    }
}

#[cfg(test)]
mod tests;
