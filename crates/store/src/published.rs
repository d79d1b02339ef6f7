//! Published leaves: places of blocks that readers find without the engine.
//!
//! The engine publishes a leaf of a map when a read led it there. From then on any thread finds the
//! blocks of the leaf by itself, and reads them from the devices on its own core.
//!
//! - The engine notes a change here before it acknowledges the change. So nobody finds the old
//!   place after the acknowledgement.
//! - The engine notes a change here before it changes the cache, and a reader has its ticket of the
//!   cache before it looks here. So the cache refuses bytes that were read too late.
//!
//! A place that was found may be freed, and written anew, before its reader comes there. So places
//! are found only if their pointers prove the bytes: a reader of other bytes asks the engine.
//!
//! The nodes of leaves stay in the [`NodeCache`](crate::map::NodeCache). A leaf is published until
//! its node leaves.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pages::prefetch;
use smallvec::SmallVec;

use crate::format::node::FAN_OUT;
use crate::format::{Algorithm, DatasetId, Node, Pointer};
use crate::map::hash::BuildNumberHasher;

/// Number of leaves that are published together, ahead of a reader in order.
pub const LEAVES_TOGETHER: u64 = 4;

/// Number of parts, each with a lock of its own.
const PARTS: usize = 16;
/// Fewest leaves of a part before those that ended are looked for.
const FEW: usize = 64;
/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Dataset, and number of a leaf in its map.
type LeafKey = (DatasetId, u64);

/// Leaves that readers may look into.
#[derive(Debug, Default)]
pub struct Published {
    parts: [Mutex<Part>; PARTS],
}

#[derive(Debug, Default)]
struct Part {
    leaves: HashMap<LeafKey, Leaf, BuildNumberHasher>,
    /// Number of leaves at which those that ended are removed.
    sweep_at: usize,
}

/// Leaf of a map, as readers see it.
#[derive(Debug)]
pub(crate) struct Leaf {
    node: Weak<Node<FAN_OUT>>,
    /// Flag that keeps a node in memory that is used.
    used: Arc<AtomicBool>,
    changed: Changed,
}

impl Leaf {
    /// Describes a leaf. `changed` has all blocks of which newer bytes are known.
    pub(crate) fn new(node: &Arc<Node<FAN_OUT>>, used: Arc<AtomicBool>, changed: Changed) -> Self {
        Self {
            node: Arc::downgrade(node),
            used,
            changed,
        }
    }

    /// Returns the leaf with its node, which stays in memory since it is used. Returns nothing if
    /// the node has left.
    #[inline]
    fn open(&self) -> Option<(&Self, Arc<Node<FAN_OUT>>)> {
        // Node and flag come from memory at one time.
        prefetch(&*self.used);
        let node = self.node.upgrade()?;
        // A store that changes nothing would take the cache line from other readers.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some((self, node))
    }

    /// Returns where the block in a slot lies, if it did not change and its pointer proves its
    /// bytes.
    #[inline]
    fn pointer(&self, node: &Node<FAN_OUT>, slot: usize) -> Option<Pointer> {
        if self.changed.has(slot) {
            return None;
        }
        Some(node.get(slot)).filter(is_proven)
    }
}

/// Blocks of a leaf that changed since its node was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed([u64; FAN_OUT / WORD]);

impl Changed {
    /// Notes a block by its slot in the leaf.
    pub fn note(&mut self, slot: usize) {
        self.0[slot / WORD] |= 1 << (slot % WORD);
    }

    fn has(&self, slot: usize) -> bool {
        self.0[slot / WORD] & (1 << (slot % WORD)) != 0
    }
}

impl Published {
    /// Returns where these blocks of a dataset lie, if all are known and their pointers prove their
    /// bytes. Some may be holes. The caller has taken the tickets of the cache for them.
    pub fn look_up(
        &self,
        dataset: DatasetId,
        blocks: Range<u64>,
        found: &mut SmallVec<[Pointer; 1]>,
    ) -> bool {
        let mut next = blocks.start;
        while next < blocks.end {
            let (number, slot) = place(next);
            let end = blocks.end.min((number + 1) * FAN_OUT as u64);
            let part = self.part(dataset, number);
            let leaf = part.leaves.get(&(dataset, number));
            let Some((leaf, node)) = leaf.and_then(Leaf::open) else {
                return false;
            };
            for slot in slot..slot + (end - next) as usize {
                let Some(pointer) = leaf.pointer(&node, slot) else {
                    return false;
                };
                found.push(pointer);
            }
            next = end;
        }
        true
    }

    /// Returns all blocks of the leaves that are published.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<(DatasetId, u64)> {
        let parts = self.parts.iter().map(lock);
        let leaves = parts.flat_map(|part| part.leaves.keys().copied().collect::<Vec<_>>());
        let blocks = leaves.flat_map(|(dataset, number)| {
            let first = number * FAN_OUT as u64;
            (first..first + FAN_OUT as u64).map(move |block| (dataset, block))
        });
        blocks.collect()
    }

    /// Reports whether the leaf of a block is published from this node.
    pub(crate) fn has(&self, dataset: DatasetId, number: u64, node: &Arc<Node<FAN_OUT>>) -> bool {
        let part = self.part(dataset, number);
        let leaf = part.leaves.get(&(dataset, number));
        leaf.is_some_and(|leaf| std::ptr::eq(leaf.node.as_ptr(), Arc::as_ptr(node)))
    }

    /// Publishes a leaf.
    pub(crate) fn publish(&self, dataset: DatasetId, number: u64, leaf: Leaf) {
        let mut part = self.part(dataset, number);
        if part.leaves.len() >= part.sweep_at.max(FEW) {
            part.leaves.retain(|_, leaf| leaf.node.strong_count() > 0);
            part.sweep_at = 2 * part.leaves.len();
        }
        part.leaves.insert((dataset, number), leaf);
    }

    /// Notes that blocks of a dataset change. Readers ask the engine for them from here on.
    pub(crate) fn note_change(&self, dataset: DatasetId, blocks: Range<u64>) {
        let leaves = blocks
            .end
            .div_ceil(FAN_OUT as u64)
            .saturating_sub(blocks.start / FAN_OUT as u64);
        // A long range costs no more than all that is published.
        if leaves > FEW as u64 {
            let is_in = |number: u64| {
                let start = number * FAN_OUT as u64;
                start < blocks.end && start + FAN_OUT as u64 > blocks.start
            };
            return self.retain(|(of, number)| *of != dataset || !is_in(*number));
        }
        let mut next = blocks.start;
        while next < blocks.end {
            let (number, slot) = place(next);
            let end = blocks.end.min((number + 1) * FAN_OUT as u64);
            if let Some(leaf) = self
                .part(dataset, number)
                .leaves
                .get_mut(&(dataset, number))
            {
                (slot..slot + (end - next) as usize).for_each(|slot| leaf.changed.note(slot));
            }
            next = end;
        }
    }

    /// Notes that a dataset changes as a whole, or goes.
    pub(crate) fn forget(&self, dataset: DatasetId) {
        self.retain(|(of, _)| *of != dataset);
    }

    fn retain(&self, is_kept: impl Fn(&LeafKey) -> bool) {
        for part in &self.parts {
            lock(part).leaves.retain(|key, _| is_kept(key));
        }
    }

    fn part(&self, dataset: DatasetId, number: u64) -> MutexGuard<'_, Part> {
        lock(&self.parts[(number as usize ^ dataset.0 as usize) % PARTS])
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // Every change is one insertion or removal, or sets bits that send readers to the engine.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the leaf of a block, and the block's slot in it.
fn place(block: u64) -> (u64, usize) {
    let fan_out = FAN_OUT as u64;
    (block / fan_out, (block % fan_out) as usize)
}

/// Reports whether a block is a hole, or lies in one place on the devices where other bytes would
/// be noticed.
fn is_proven(pointer: &Pointer) -> bool {
    let is_noticed = !pointer.is_double() && pointer.algorithm != Algorithm::Off;
    !pointer.is_lost() && (pointer.is_hole() || is_noticed)
}

#[cfg(test)]
mod tests;
