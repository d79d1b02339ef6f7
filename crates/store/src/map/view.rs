//! A volume's or snapshot's whole map: layers above a tree.

use std::sync::Arc;

use crate::format::Pointer;
use crate::format::node::FAN_OUT;

use super::{Closed, Hit, Layers, Missing, NodeCache, Tree};

/// Which block lies where.
#[derive(Debug)]
pub struct Map<const N: usize = FAN_OUT> {
    /// As the last checkpoint wrote it.
    pub tree: Tree<N>,
    /// What changed since.
    pub layers: Layers,
}

impl<const N: usize> Map<N> {
    /// A tree without changes.
    pub fn new(tree: Tree<N>) -> Self {
        Self {
            tree,
            layers: Layers::new(),
        }
    }

    /// What a snapshot taken at the last [`Layers::close`] sees, and where its clones begin.
    pub fn fork(&self) -> Self {
        Self {
            tree: self.tree,
            layers: self.layers.fork(),
        }
    }

    /// The pointer of block `index`.
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

    /// The pointers of the blocks from `first` on into `found`.
    ///
    /// # Errors
    /// The node that has to be read first. `found` is of no use then.
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

    /// `tree` has all that `merged` and the layers below it say. Says whether that was so; where
    /// `merged` is not among the layers, nothing changes.
    pub fn replace_tree(&mut self, tree: Tree<N>, merged: &Arc<Closed>) -> bool {
        let was_there = self.layers.drop_merged(merged);
        if was_there {
            self.tree = tree;
        }
        was_there
    }
}
