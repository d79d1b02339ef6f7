//! The whole map of a volume or snapshot: layers above a tree.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::format::node::FAN_OUT;
use crate::format::{Epoch, Pointer};

use super::tree::Peek;
use super::{Closed, Count, Hit, Layer, Layers, Missing, NodeCache, Tally, Tree};

/// Most places covered by a range of zeros whose former blocks are looked at. Each look takes time,
/// so their number is bounded.
const MOST_SEEN: u64 = 4096;

/// Map of a volume or snapshot: where each block lies.
#[derive(Debug)]
pub struct Map<const N: usize = FAN_OUT> {
    /// Tree as the last checkpoint wrote it.
    pub tree: Tree<N>,
    /// Changes since the last checkpoint.
    pub layers: Layers,
}

impl<const N: usize> Map<N> {
    /// Makes the map of a tree without changes.
    pub fn new(tree: Tree<N>) -> Self {
        Self {
            tree,
            layers: Layers::new(),
        }
    }

    /// Returns the map that a snapshot taken at the last [`Layers::close`] sees, and with which its
    /// clones begin.
    pub fn fork(&self) -> Self {
        Self {
            tree: self.tree,
            layers: self.layers.fork(),
        }
    }

    /// Returns the pointer of block `index`.
    ///
    /// # Errors
    /// The node that has to be read first.
    pub fn look_up(&self, cache: &mut NodeCache<N>, index: u64) -> Result<Pointer, Missing> {
        match self.layers.get(index) {
            Hit::Block(pointer) => Ok(pointer),
            Hit::Zero => Ok(Pointer::HOLE),
            Hit::Absent => self.tree.look_up(cache, index),
        }
    }

    /// Writes the pointers of the blocks from `first` on into `found`.
    ///
    /// # Errors
    /// The node that has to be read first. `found` must not be used then.
    pub fn look_up_run(
        &self,
        cache: &mut NodeCache<N>,
        first: u64,
        found: &mut [Pointer],
    ) -> Result<(), Missing> {
        let mut hits = vec![Hit::Absent; found.len()];
        self.layers.get_run(first, &mut hits);
        let mut at = 0;
        while at < hits.len() {
            let run = hits[at..]
                .iter()
                .take_while(|hit| **hit == Hit::Absent)
                .count();
            self.tree
                .look_up_run(cache, first + at as u64, &mut found[at..at + run])?;
            at += run;
            if let Some(hit) = hits.get(at) {
                found[at] = if let Hit::Block(pointer) = hit {
                    *pointer
                } else {
                    Pointer::HOLE
                };
                at += 1;
            }
        }
        Ok(())
    }

    /// Notes that block `index` was written, as [`super::layer::Layer::insert`] does, and counts it
    /// in the tally. `snapshots` are the epochs of all snapshots that the volume builds on,
    /// ascending. They are asked for with the first change of a layer.
    pub fn insert(
        &mut self,
        cache: &NodeCache<N>,
        snapshots: impl FnOnce() -> Vec<Epoch>,
        index: u64,
        pointer: Pointer,
    ) -> Option<Pointer> {
        let (top, tally) = self.counted(snapshots);
        let before = top.insert(index, pointer);
        tally.write(&pointer);
        match before {
            Hit::Block(old) => {
                tally.forget(&old);
                Some(old)
            }
            Hit::Zero => None,
            Hit::Absent => {
                if tally.note(index) {
                    self.count_noted(cache);
                }
                None
            }
        }
    }

    /// Notes that blocks `range` were unmapped, as [`super::layer::Layer::clear`] does, and counts
    /// them in the tally.
    pub fn clear(
        &mut self,
        cache: &NodeCache<N>,
        snapshots: impl FnOnce() -> Vec<Epoch>,
        range: Range<u64>,
        mut drop: impl FnMut(Pointer),
    ) {
        let len = range.end.saturating_sub(range.start);
        let near = range.start..range.start.saturating_add(len.min(MOST_SEEN));
        let absent = near.filter(|index| self.layers.top().get(*index) == Hit::Absent);
        let mut peek = self.tree.peek(cache);
        let seen: Vec<Option<Pointer>> = absent
            .map(|index| Self::beneath(self.layers.closed(), &mut peek, index))
            .collect();
        let far = range.start.saturating_add(MOST_SEEN)..range.end;
        let unseen = self.layers.top().absent_in(far);
        let (top, tally) = self.counted(snapshots);
        top.clear(range, |pointer| {
            tally.forget(&pointer);
            drop(pointer);
        });
        seen.into_iter().for_each(|beneath| tally.cover(beneath));
        tally.cover_unseen(unseen);
    }

    /// Returns the top and its tally, before a change.
    fn counted(&mut self, snapshots: impl FnOnce() -> Vec<Epoch>) -> (&mut Layer, &mut Tally) {
        let (top, tally) = self.layers.top_mut();
        if top.is_empty() {
            *tally = Tally::new(snapshots());
        }
        (top, tally)
    }

    /// Looks up the places that the tally of the top noted.
    fn count_noted(&mut self, cache: &NodeCache<N>) {
        if self.layers.tally().has_noted() {
            let tally = self.tally(cache).into_owned();
            *self.layers.top_mut().1 = tally;
        }
    }

    /// Returns the tally of the top, with all places counted that are known.
    pub fn tally(&self, cache: &NodeCache<N>) -> Cow<'_, Tally> {
        let tally = self.layers.tally();
        match tally.has_noted() {
            true => Cow::Owned(self.looked_up(cache, tally, self.layers.closed())),
            false => Cow::Borrowed(tally),
        }
    }

    /// Returns the closed layers, the lowest first, each with its tally with all places counted
    /// that are known.
    ///
    /// A layer that closes keeps its notes: a snapshot, which closes one, does not wait for
    /// look-ups. What was beneath the layer still is, whatever is merged below it.
    pub fn closed(&self, cache: &NodeCache<N>) -> impl Iterator<Item = (&Closed, &Tally)> {
        let all = self.layers.closed();
        all.iter().enumerate().map(move |(at, closed)| {
            let look_up = |tally: &Tally| self.looked_up(cache, tally, &all[..at]);
            (&**closed, closed.counted(look_up))
        })
    }

    /// Looks up the noted places of a layer above these closed ones.
    fn looked_up(&self, cache: &NodeCache<N>, tally: &Tally, below: &[Arc<Closed>]) -> Tally {
        let mut tally = tally.clone();
        let mut peek = self.tree.peek(cache);
        for place in tally.take_noted() {
            tally.cover(Self::beneath(below, &mut peek, place));
        }
        tally
    }

    /// Returns the block in these layers or the tree, if it is known without a read.
    fn beneath(closed: &[Arc<Closed>], tree: &mut Peek<'_, N>, index: u64) -> Option<Pointer> {
        let newest_first = closed.iter().rev();
        let mut hits = newest_first.map(|closed| closed.layer.get(index));
        match hits.find(|hit| *hit != Hit::Absent) {
            Some(Hit::Block(pointer)) => Some(pointer),
            Some(_) => Some(Pointer::HOLE),
            None => tree.get(index),
        }
    }

    /// Returns the blocks of the whole map now. `of_tree` are the blocks of the tree. The map has
    /// `places` places.
    pub fn count(&self, cache: &NodeCache<N>, of_tree: Count, places: u64) -> Count {
        let beneath = self
            .closed(cache)
            .fold(of_tree, |beneath, (_, tally)| tally.above(beneath, places));
        self.tally(cache).above(beneath, places)
    }

    /// Replaces the tree by `tree`, which has all changes of `merged` and the layers below it.
    /// Reports whether it did; if `merged` is not among the layers, nothing changes.
    pub fn replace_tree(&mut self, tree: Tree<N>, merged: &Arc<Closed>) -> bool {
        let was_there = self.layers.drop_merged(merged);
        if was_there {
            self.tree = tree;
        }
        was_there
    }
}

#[cfg(test)]
mod tests;
