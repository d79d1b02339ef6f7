//! Look-ups in a tree that read nothing: they use the nodes that happen to be in memory.

use std::sync::Arc;

use crate::format::node::FAN_OUT;
use crate::format::{Node, NodeId, Pointer};
use crate::map::NodeCache;

use super::Tree;

/// Look-ups of blocks whose nodes are in memory. Blocks of one leaf, asked for one after the other,
/// cost one descent together.
#[derive(Debug)]
pub struct Peek<'a, const N: usize = FAN_OUT> {
    pub(super) tree: Tree<N>,
    pub(super) cache: &'a NodeCache<N>,
    /// Number of the leaf that was asked for last, and its blocks.
    pub(super) last: Option<(u64, Leaf<'a, N>)>,
}

/// Blocks of a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaf<'a, const N: usize> {
    /// The leaf, and the pointer to it.
    Node(Pointer, &'a Arc<Node<N>>),
    /// The leaf is below a hole or a lost node, so all its blocks are this one.
    Each(Pointer),
    /// A node on the way is not in memory.
    Unknown,
}

impl<'a, const N: usize> Peek<'a, N> {
    /// Returns the pointer of block `index`, if all nodes that lead to it are in memory.
    pub fn get(&mut self, index: u64) -> Option<Pointer> {
        let number = index >> Tree::<N>::BITS;
        let leaf = match self.last {
            Some((last, leaf)) if last == number => leaf,
            _ => {
                let leaf = self.leaf(number);
                self.last = Some((number, leaf));
                leaf
            }
        };
        match leaf {
            Leaf::Node(_, node) => Some(node.get(Tree::<N>::slot(0, index))),
            Leaf::Each(pointer) => Some(pointer),
            Leaf::Unknown => None,
        }
    }

    /// Returns the leaf of this number and the pointer to it, if there is one and all nodes on the
    /// way are in memory.
    pub fn node(&self, number: u64) -> Option<(Pointer, &'a Arc<Node<N>>)> {
        match self.leaf(number) {
            Leaf::Node(pointer, node) => Some((pointer, node)),
            Leaf::Each(_) | Leaf::Unknown => None,
        }
    }
}

impl<'a, const N: usize> Peek<'a, N> {
    fn leaf(&self, number: u64) -> Leaf<'a, N> {
        let tree = &self.tree;
        let first = number << Tree::<N>::BITS;
        if first >= tree.end() {
            return Leaf::Each(Pointer::HOLE);
        }
        let mut pointer = tree.root;
        for level in (0..tree.height).rev() {
            if pointer.is_hole() || pointer.is_lost() {
                return Leaf::Each(pointer);
            }
            let id = NodeId {
                volume: tree.volume,
                level,
                index: first / Tree::<N>::span(level),
            };
            match self.cache.peek(&pointer, id) {
                None => return Leaf::Unknown,
                Some(node) if level == 0 => return Leaf::Node(pointer, node),
                Some(node) => pointer = node.get(Tree::<N>::slot(level, first)),
            }
        }
        Leaf::Unknown
    }
}
