//! The layers above a volume's tree: one that takes changes, below it closed ones.
//!
//! A snapshot closes the top; it sees the closed layers of that moment, and so does a clone of it,
//! with a top of its own. A closed layer never changes, so all of them share it.

use std::sync::Arc;

use crate::format::Epoch;

use super::{Hit, Layer, Tally};

/// A layer that takes no more changes.
#[derive(Debug)]
pub struct Closed {
    /// What it says.
    pub layer: Layer,
    /// The epoch that ended with it: no block in it was born later. The tree that it is merged into
    /// is born in it.
    pub epoch: Epoch,
    /// Its changes of the count of blocks.
    pub tally: Tally,
}

/// A stack of layers.
#[derive(Debug, Default)]
pub struct Layers {
    /// The lowest, which is the oldest, first.
    closed: Vec<Arc<Closed>>,
    top: Layer,
    /// Of the top.
    tally: Tally,
}

impl Layers {
    /// Without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// A stack on the same closed layers, with a top of its own: what a snapshot taken at the last
    /// [`Layers::close`] sees, and where its clones begin.
    pub fn fork(&self) -> Self {
        Self {
            closed: self.closed.clone(),
            ..Self::default()
        }
    }

    /// What the newest layer that knows block `index` says of it.
    pub fn get(&self, index: u64) -> Hit {
        let newest_first = self.closed.iter().rev().map(|closed| &closed.layer);
        std::iter::once(&self.top)
            .chain(newest_first)
            .map(|layer| layer.get(index))
            .find(|hit| *hit != Hit::Absent)
            .unwrap_or(Hit::Absent)
    }

    /// The same for the blocks from `first` on.
    pub fn get_run(&self, first: u64, hits: &mut [Hit]) {
        hits.fill(Hit::Absent);
        self.top.get_run(first, hits);
        for closed in self.closed.iter().rev() {
            closed.layer.get_run(first, hits);
        }
    }

    /// Closes the top with the epoch that ends now, and opens a new one. Without changes in it
    /// nothing happens.
    pub fn close(&mut self, epoch: Epoch) {
        if !self.top.is_empty() {
            let layer = std::mem::take(&mut self.top);
            let tally = std::mem::take(&mut self.tally);
            self.closed.push(Arc::new(Closed {
                layer,
                epoch,
                tally,
            }));
        }
    }

    /// The closed layers, the lowest first: the order to merge them in.
    pub fn closed(&self) -> &[Arc<Closed>] {
        &self.closed
    }

    /// The layer that takes changes.
    pub fn top(&self) -> &Layer {
        &self.top
    }

    /// Its changes of the count of blocks.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The top and its tally, for changes that are counted.
    pub(super) fn top_mut(&mut self) -> (&mut Layer, &mut Tally) {
        (&mut self.top, &mut self.tally)
    }

    /// A tree has all that `merged` and the layers below it say: they go. Says whether `merged` was
    /// in the stack; where it was not, nothing changes.
    pub fn drop_merged(&mut self, merged: &Arc<Closed>) -> bool {
        let at = self
            .closed
            .iter()
            .position(|closed| Arc::ptr_eq(closed, merged));
        if let Some(at) = at {
            self.closed.drain(..=at);
        }
        at.is_some()
    }

    /// Whether it says nothing of any block.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.top.is_empty()
    }

    /// How many blocks all layers hold as written; one that several hold counts in each.
    pub fn written(&self) -> u64 {
        let closed = self.closed.iter().map(|closed| closed.layer.len());
        (closed.sum::<usize>() + self.top.len()) as u64
    }

    /// About how many bytes of memory all layers take, shared ones too.
    pub fn bytes(&self) -> usize {
        self.top.bytes()
            + self
                .closed
                .iter()
                .map(|closed| closed.layer.bytes())
                .sum::<usize>()
    }
}

#[cfg(test)]
impl Layers {
    /// Block `index` was written, and no tally knows: volumes go by [`super::view::Map::insert`].
    pub fn insert(
        &mut self,
        index: u64,
        pointer: crate::format::Pointer,
    ) -> Option<crate::format::Pointer> {
        match self.top.insert(index, pointer) {
            Hit::Block(old) => Some(old),
            Hit::Zero | Hit::Absent => None,
        }
    }

    /// Blocks `range` were unmapped, and no tally knows: volumes go by [`super::view::Map::clear`].
    pub fn clear(&mut self, range: std::ops::Range<u64>, drop: impl FnMut(crate::format::Pointer)) {
        self.top.clear(range, drop);
    }
}

#[cfg(test)]
mod tests;
