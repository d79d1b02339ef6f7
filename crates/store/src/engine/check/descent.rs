//! Walks a dataset's tree beside that of the snapshot that it builds on, both from the root down,
//! only where they differ. It finds the blocks that only the dataset has, and the blocks that the
//! dataset has lost.
//!
//! All shared blocks of a dataset belong to that snapshot, which shares them with the one before,
//! and so on. So when each dataset claims the blocks of its own, every block of the pool is claimed
//! exactly once.
//!
//! If a node of the snapshot cannot be read, the blocks below it are unknown. The dataset's blocks
//! there that are no younger than the node are the snapshot's, too. They may also belong to other
//! datasets that build on the snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::format::node::FAN_OUT;
use crate::format::{DatasetId, Epoch, Node, NodeId, Pointer};
use crate::map::{Missing, NodeCache, Tree};

/// Difference that is reported.
#[derive(Clone, Copy, Debug)]
pub(super) enum Difference {
    /// Node that only the dataset has.
    OwnNode(NodeId, Pointer),
    /// Block that only the dataset has.
    OwnBlock(u64, Pointer),
    /// Node that the snapshot must have, too, in a part that cannot be read.
    SharedNode(NodeId, Pointer),
    /// Block that the snapshot must have, too, in a part that cannot be read.
    SharedBlock(u64, Pointer),
    /// Node that only the snapshot has.
    DeadNode(Pointer),
    /// Block that only the snapshot has.
    DeadBlock(Pointer),
}

/// Descent under way.
#[derive(Debug)]
pub(super) struct Descent {
    pub(super) dataset: DatasetId,
    /// Snapshot that the dataset builds on; the next field is its epoch.
    before: Option<DatasetId>,
    pub(super) after: Epoch,
    own: Tree,
    old: Tree,
    /// Places still to be looked at.
    stack: Vec<Pair>,
    /// Sectors of own blocks.
    pub(super) own_sectors: u64,
    /// Sectors of dead blocks.
    pub(super) dead_sectors: u64,
    /// Number of own blocks.
    pub(super) own_blocks: u64,
    /// Number of dead blocks.
    pub(super) dead_blocks: u64,
    /// Number of own blocks that are not compressed; the next field is for dead blocks.
    pub(super) own_whole: u64,
    pub(super) dead_whole: u64,
}

/// Place in both trees.
#[derive(Clone, Copy, Debug)]
struct Pair {
    level: u8,
    index: u64,
    old: Side,
    own: Side,
}

/// Contents of a tree in a place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    At(Pointer),
    /// Nothing in this place: the tree is not that high, and all of it lies below the first child.
    Above,
    /// Unknown contents, below an unreadable node that was born in this epoch.
    Unknown(Epoch),
}

/// Knowledge of a place's children.
enum Children {
    None,
    Node(Arc<Node>),
    /// First child only.
    First(Side),
    /// Unknown children of an unreadable node that was born in this epoch.
    Unknown(Epoch),
}

impl Descent {
    /// Begins a descent. `old` is the tree of the snapshot before, or an empty one if there is
    /// none, and `after` is the snapshot's epoch.
    pub(super) fn new(
        (dataset, own): (DatasetId, Tree),
        (before, old): (Option<DatasetId>, Tree),
        after: Epoch,
    ) -> Self {
        let level = own.height.max(old.height) - 1;
        let side = |tree: &Tree| match tree.height - 1 == level {
            true => Side::At(tree.root),
            false => Side::Above,
        };
        let pair = Pair {
            level,
            index: 0,
            old: side(&old),
            own: side(&own),
        };
        Self {
            dataset,
            before,
            after,
            own,
            old,
            stack: vec![pair],
            own_sectors: 0,
            dead_sectors: 0,
            own_blocks: 0,
            dead_blocks: 0,
            own_whole: 0,
            dead_whole: 0,
        }
    }

    /// Looks at the next place. Returns whether there was one. `lost` are addresses of nodes that
    /// cannot be read.
    ///
    /// # Errors
    /// The error is the node that has to be read first.
    pub(super) fn step(
        &mut self,
        nodes: &mut NodeCache,
        lost: &BTreeSet<u64>,
        tell: &mut Vec<Difference>,
    ) -> Result<bool, Missing> {
        let Some(pair) = self.stack.last().copied() else {
            return Ok(false);
        };
        if pair.old == pair.own {
            self.stack.pop();
            return Ok(true);
        }
        let (level, index) = (pair.level, pair.index);
        let id = |tree: &Tree| NodeId {
            volume: tree.volume,
            level,
            index,
        };
        let (own_id, old_id) = (id(&self.own), id(&self.old));
        let own = children(&self.own, pair.own, own_id, nodes, lost)?;
        let old = children(&self.old, pair.old, old_id, nodes, lost)?;
        self.stack.pop();
        if let Some(pointer) = placed(pair.own) {
            tell.push(match Self::is_shared(&pointer, pair.old) {
                true => Difference::SharedNode(own_id, pointer),
                false => Difference::OwnNode(own_id, pointer),
            });
        }
        if let Some(pointer) = placed(pair.old) {
            tell.push(Difference::DeadNode(pointer));
        }
        for slot in (0..FAN_OUT).rev() {
            let (own, old) = (child(&own, slot), child(&old, slot));
            // Nothing can be reported if the dataset's contents are unknown, or if only the
            // snapshot may have something.
            let is_untold = match (own, old) {
                (Side::Unknown(_), _) => true,
                (Side::At(pointer), Side::Unknown(_)) => pointer.is_hole(),
                _ => own == old,
            };
            if is_untold {
                continue;
            }
            let index = index * FAN_OUT as u64 + slot as u64;
            if level > 0 {
                self.stack.push(Pair {
                    level: level - 1,
                    index,
                    old,
                    own,
                });
                continue;
            }
            let own_pointer = placed(own);
            if let Some(pointer) = own_pointer.filter(|pointer| Self::is_shared(pointer, old)) {
                tell.push(Difference::SharedBlock(index, pointer));
            } else if let Some(pointer) = own_pointer {
                self.own_sectors += pointer.stored_sectors();
                self.own_blocks += 1;
                self.own_whole += u64::from(pointer.is_whole());
                tell.push(Difference::OwnBlock(index, pointer));
            }
            if let Some(pointer) = placed(old) {
                self.dead_sectors += pointer.stored_sectors();
                self.dead_blocks += 1;
                self.dead_whole += u64::from(pointer.is_whole());
                tell.push(Difference::DeadBlock(pointer));
            }
        }
        Ok(true)
    }

    /// Returns the dataset, of the two, that has a node which must be read.
    pub(super) fn owner_of(&self, missing: &Missing) -> DatasetId {
        let is_own = |pair: &Pair| pair.own == Side::At(missing.pointer);
        let before = self
            .before
            .filter(|_| !self.stack.last().is_some_and(is_own));
        before.unwrap_or(self.dataset)
    }

    /// Reports whether the snapshot must have the dataset's block there too.
    fn is_shared(own: &Pointer, old: Side) -> bool {
        matches!(old, Side::Unknown(born) if own.birth <= born)
    }
}

/// Returns the pointer to a place's block; `None` if there is no readable block.
fn placed(side: Side) -> Option<Pointer> {
    match side {
        Side::At(pointer) if !pointer.is_hole() && !pointer.is_lost() => Some(pointer),
        _ => None,
    }
}

fn children(
    tree: &Tree,
    side: Side,
    id: NodeId,
    nodes: &mut NodeCache,
    lost: &BTreeSet<u64>,
) -> Result<Children, Missing> {
    match side {
        Side::Above if id.index > 0 => Ok(Children::None),
        Side::Above if id.level == tree.height => Ok(Children::First(Side::At(tree.root))),
        Side::Above => Ok(Children::First(Side::Above)),
        Side::At(pointer) if pointer.is_hole() => Ok(Children::None),
        Side::At(pointer) if pointer.is_lost() || lost.contains(&pointer.address.to_bits()) => {
            Ok(Children::Unknown(pointer.birth))
        }
        Side::At(pointer) => Ok(Children::Node(Arc::clone(nodes.get(&pointer, id)?))),
        Side::Unknown(born) => Ok(Children::Unknown(born)),
    }
}

fn child(children: &Children, slot: usize) -> Side {
    match children {
        Children::Node(node) => Side::At(node.get(slot)),
        Children::First(side) if slot == 0 => *side,
        Children::Unknown(born) => Side::Unknown(*born),
        _ => Side::At(Pointer::HOLE),
    }
}
