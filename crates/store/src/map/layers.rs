//! The layers above a volume's tree: one that takes changes, and closed ones below it.
//!
//! A snapshot closes the top layer. The snapshot sees the closed layers of that moment. So does a
//! clone of it, with a top of its own. A closed layer never changes, so all of them share it.

use std::sync::{Arc, OnceLock};

use crate::format::Epoch;

use super::{Hit, Layer, Tally};

/// A layer that takes no more changes.
#[derive(Debug)]
pub struct Closed {
    /// Changes of the layer.
    pub layer: Layer,
    /// Epoch that ended with the layer: no block in it was born later. The tree that it is merged
    /// into is born in this epoch.
    pub epoch: Epoch,
    /// Changes of the layer to the count of blocks, as the layer was closed.
    tally: Tally,
    /// Changes to the count after the noted places are looked up.
    counted: OnceLock<Tally>,
}

impl Closed {
    /// Closes a layer.
    pub fn new(layer: Layer, epoch: Epoch, tally: Tally) -> Self {
        Self {
            layer,
            epoch,
            tally,
            counted: OnceLock::new(),
        }
    }

    /// Returns the changes to the count of blocks, as far as they are known by now.
    pub fn tally(&self) -> &Tally {
        self.counted.get().unwrap_or(&self.tally)
    }

    /// Returns the changes after `look_up` has counted the noted places, at the first call.
    pub(super) fn counted(&self, look_up: impl FnOnce(&Tally) -> Tally) -> &Tally {
        match self.tally.has_noted() {
            true => self.counted.get_or_init(|| look_up(&self.tally)),
            false => &self.tally,
        }
    }
}

/// A stack of layers.
#[derive(Debug, Default)]
pub struct Layers {
    /// Closed layers. The lowest, which is the oldest, comes first.
    closed: Vec<Arc<Closed>>,
    top: Layer,
    /// Tally of the top.
    tally: Tally,
}

impl Layers {
    /// Makes a stack without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a stack on these closed layers, with a top of its own. A snapshot taken at the last
    /// [`Layers::close`] sees this stack, and its clones begin with it.
    pub fn fork(&self) -> Self {
        Self {
            closed: self.closed.clone(),
            ..Self::default()
        }
    }

    /// Returns the state of block `index` in the newest layer that changes it.
    pub fn get(&self, index: u64) -> Hit {
        let newest_first = self.closed.iter().rev().map(|closed| &closed.layer);
        std::iter::once(&self.top)
            .chain(newest_first)
            .map(|layer| layer.get(index))
            .find(|hit| *hit != Hit::Absent)
            .unwrap_or(Hit::Absent)
    }

    /// Writes the states of the blocks from `first` on into `hits`.
    pub fn get_run(&self, first: u64, hits: &mut [Hit]) {
        hits.fill(Hit::Absent);
        self.top.get_run(first, hits);
        for closed in self.closed.iter().rev() {
            closed.layer.get_run(first, hits);
        }
    }

    /// Closes the top with the epoch that ends now, and opens a new one. If the top has no changes,
    /// nothing happens.
    pub fn close(&mut self, epoch: Epoch) {
        if !self.top.is_empty() {
            let layer = std::mem::take(&mut self.top);
            let tally = std::mem::take(&mut self.tally);
            self.closed.push(Arc::new(Closed::new(layer, epoch, tally)));
        }
    }

    /// Returns the closed layers, the lowest first: the order in which to merge them.
    pub fn closed(&self) -> &[Arc<Closed>] {
        &self.closed
    }

    /// Returns the layer that takes changes.
    pub fn top(&self) -> &Layer {
        &self.top
    }

    /// Returns the top's changes of the count of blocks.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the top and its tally, for changes that are counted.
    pub(super) fn top_mut(&mut self) -> (&mut Layer, &mut Tally) {
        (&mut self.top, &mut self.tally)
    }

    /// Drops `merged` and the layers below it, since a tree has all their changes. Reports whether
    /// `merged` was in the stack; if not, nothing changes.
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

    /// Reports whether no layer changes a block.
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.top.is_empty()
    }

    /// Returns the number of blocks that all layers hold as written. A block in several layers
    /// counts in each.
    pub fn written(&self) -> u64 {
        let closed = self.closed.iter().map(|closed| closed.layer.len());
        (closed.sum::<usize>() + self.top.len()) as u64
    }

    /// Returns the approximate bytes of memory that all layers take, shared ones too.
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
    /// Notes that block `index` was written, without a tally. Volumes use
    /// [`super::view::Map::insert`].
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

    /// Notes that blocks `range` were unmapped, without a tally. Volumes use
    /// [`super::view::Map::clear`].
    pub fn clear(&mut self, range: std::ops::Range<u64>, drop: impl FnMut(crate::format::Pointer)) {
        self.top.clear(range, drop);
    }
}

#[cfg(test)]
mod tests;
