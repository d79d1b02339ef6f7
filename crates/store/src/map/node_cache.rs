//! Nodes in memory, by address: a bounded cache that a scan does not empty.
//!
//! The policy is S3-FIFO (Yang et al., SOSP 2023). New nodes pass through a small queue. Only nodes
//! that are asked for again there, or soon after they fell out of it, come into the main queue.
//! Both are queues with second chances, so a hit is one counter and no list is relinked.
//!
//! A node that has another holder is never evicted. The writer of a node holds its `Arc` until the
//! device has it, so that nobody reads it from the device too early.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::format::node::FAN_OUT;
use crate::format::{Address, Node, NodeError, NodeId, Pointer};
use pages::Pages;

use super::hash::BuildNumberHasher;

/// Request for a node that has to be read before the caller can go on. The caller reads the block
/// that `pointer` names, gives it to [`NodeCache::fill`], and calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Missing {
    /// Pointer to the block.
    pub pointer: Pointer,
    /// Node that the block must be.
    pub id: NodeId,
}

impl Missing {
    /// Reports whether there is a block to read that is not in memory.
    pub(super) fn is_worth_reading<const N: usize>(&self, cache: &NodeCache<N>) -> bool {
        !self.pointer.is_hole() && !self.pointer.is_lost() && !cache.has(&self.pointer)
    }
}

/// Nodes in memory.
#[derive(Debug)]
pub struct NodeCache<const N: usize = FAN_OUT> {
    /// Number of nodes that may stay.
    limit: usize,
    /// Place in `entries` of the node at each address.
    places: HashMap<u64, u32, BuildNumberHasher>,
    entries: Vec<Option<Entry<N>>>,
    free: Vec<u32>,
    /// Number of places in the queues whose node was discarded.
    discarded: usize,
    /// Queue of new nodes, about a tenth.
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    /// Addresses that fell out of `small` lately, with the number of their fall.
    ghosts: HashMap<u64, u64, BuildNumberHasher>,
    falls: VecDeque<(u64, u64)>,
    fallen: u64,
    hits: u64,
    misses: u64,
}

#[derive(Debug)]
struct Entry<const N: usize> {
    /// Whole pointer of the node, since an address is written anew with another node some time.
    pointer: Pointer,
    node: Arc<Node<N>>,
    /// Hits since the node entered its queue, 3 at most.
    hits: u8,
    /// Whether readers beside the engine used the node since it was last looked at. `None` until
    /// they know it.
    used: Option<Arc<AtomicBool>>,
}

impl<const N: usize> Entry<N> {
    fn take_hits(&mut self) -> u8 {
        let used = self.used.as_ref();
        let was_used = used.is_some_and(|used| used.swap(false, Ordering::Relaxed));
        self.hits.max(u8::from(was_used))
    }
}

/// Number of held nodes that an eviction passes before it gives up for this time.
const HELD_TO_PASS: usize = 64;

impl<const N: usize> NodeCache<N> {
    /// Fewest nodes that a cache keeps. Look-ups need a node per level at once. Several look-ups
    /// are under way, and each must find the nodes that it had read when it comes back.
    pub const MIN_NODES: usize = 64;

    /// Makes a cache of about `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            limit: (capacity / Node::<N>::FOOTPRINT).max(Self::MIN_NODES),
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            discarded: 0,
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: HashMap::default(),
            falls: VecDeque::new(),
            fallen: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Changes the size of the cache.
    pub fn resize(&mut self, capacity: usize) {
        self.limit = (capacity / Node::<N>::FOOTPRINT).max(Self::MIN_NODES);
        self.evict();
    }

    /// Returns the node `id` that `pointer` names.
    ///
    /// # Errors
    /// The node is not here.
    #[inline]
    pub fn get(&mut self, pointer: &Pointer, id: NodeId) -> Result<&Arc<Node<N>>, Missing> {
        let found = match self.places.get(&pointer.address.to_bits()) {
            Some(&place) => self.entries[place as usize].as_mut(),
            None => None,
        };
        match found {
            Some(entry) if entry.pointer == *pointer && entry.node.id() == id => {
                self.hits += 1;
                entry.hits = (entry.hits + 1).min(3);
                Ok(&entry.node)
            }
            _ => {
                self.misses += 1;
                Err(Missing {
                    pointer: *pointer,
                    id,
                })
            }
        }
    }

    /// Returns the node `id` that `pointer` names, if it is here. This does not count as a use.
    #[inline]
    pub fn peek(&self, pointer: &Pointer, id: NodeId) -> Option<&Arc<Node<N>>> {
        let place = self.places.get(&pointer.address.to_bits())?;
        let entry = self.entries[*place as usize].as_ref()?;
        (entry.pointer == *pointer && entry.node.id() == id).then_some(&entry.node)
    }

    /// Reports whether the node that `pointer` names is here. This does not count as a use.
    pub fn has(&self, pointer: &Pointer) -> bool {
        self.places
            .get(&pointer.address.to_bits())
            .and_then(|&place| self.entries[place as usize].as_ref())
            .is_some_and(|entry| entry.pointer == *pointer)
    }

    /// Takes a node that was read. `block` is the block that `missing.pointer` names, and its
    /// checksum is right.
    ///
    /// # Errors
    /// The block is not that node.
    pub fn fill(&mut self, missing: &Missing, block: &Pages) -> Result<(), NodeError> {
        let node = Node::from_block(missing.id, &missing.pointer, block)?;
        self.insert(missing.pointer, Arc::new(node));
        Ok(())
    }

    /// Puts a lost node in the place of a node of which no copy can be read any more. Until it is
    /// evicted, it says that all below it is lost ([`Pointer::lost`]). Look-ups return the lost
    /// pointer and never zeros, walks go on behind it, and a merge would write it into the new
    /// tree.
    ///
    /// Only a check of the pool does this, and a check changes nothing. A pool in use must not: a
    /// checkpoint would give up for good blocks that may be readable once their device is back.
    /// Instead, a checkpoint that needs the node fails, and the pool is suspended.
    pub fn fill_lost(&mut self, missing: &Missing) {
        let node = Node::lost(missing.id, missing.pointer.birth);
        self.insert(missing.pointer, Arc::new(node));
    }

    /// Takes a node that was read or made; `pointer` names it. A former node at that address is
    /// replaced.
    pub fn insert(&mut self, pointer: Pointer, node: Arc<Node<N>>) {
        let address = pointer.address.to_bits();
        let entry = Entry {
            pointer,
            node,
            hits: 0,
            used: None,
        };
        if let Some(&place) = self.places.get(&address) {
            self.entries[place as usize] = Some(entry);
            return;
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as u32
            }
        };
        self.places.insert(address, place);
        if self.ghosts.remove(&address).is_some() {
            self.main.push_back(place);
        } else {
            self.small.push_back(place);
        }
        self.evict();
    }

    /// Returns the flag by which readers beside the engine tell that they used a node, if it is
    /// here.
    pub(crate) fn used_flag(&mut self, pointer: &Pointer) -> Option<Arc<AtomicBool>> {
        let place = self.places.get(&pointer.address.to_bits())?;
        let entry = self.entries[*place as usize].as_mut()?;
        Some(Arc::clone(entry.used.get_or_insert_default()))
    }

    /// Drops a node to which nothing leads any more. A cache that is not full would keep it for
    /// ever. If the node has another holder, it stays for now.
    pub fn discard(&mut self, pointer: &Pointer) {
        let address = pointer.address.to_bits();
        let Some(&place) = self.places.get(&address) else {
            return;
        };
        let entry = &mut self.entries[place as usize];
        let is_idle =
            |of: &mut Entry<N>| of.pointer == *pointer && Arc::strong_count(&of.node) == 1;
        if entry.take_if(is_idle).is_some() {
            self.places.remove(&address);
            // The node's place becomes free when its queue comes to it.
            self.discarded += 1;
            if self.discarded > self.len() + Self::MIN_NODES {
                self.sweep();
            }
        }
    }

    /// Frees the places of all discarded nodes.
    fn sweep(&mut self) {
        let (entries, free) = (&self.entries, &mut self.free);
        for queue in [&mut self.small, &mut self.main] {
            queue.retain(|place| {
                let is_kept = entries[*place as usize].is_some();
                if !is_kept {
                    free.push(*place);
                }
                is_kept
            });
        }
        self.discarded = 0;
    }

    /// Returns the number of nodes in memory.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Reports whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the approximate bytes of memory that the nodes take.
    pub fn bytes(&self) -> usize {
        self.len() * Node::<N>::FOOTPRINT
    }

    /// Returns how many look-ups found their node, and how many did not, since the start.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Evicts nodes down to the limit, except for nodes that are held.
    fn evict(&mut self) {
        let mut held = 0;
        while self.len() > self.limit && held < HELD_TO_PASS {
            let is_small = self.main.is_empty() || self.small.len() > self.limit / 10;
            let queue = if is_small {
                &mut self.small
            } else {
                &mut self.main
            };
            let Some(place) = queue.pop_front() else {
                return;
            };
            let Some(entry) = self.entries[place as usize].as_mut() else {
                self.discarded -= 1;
                self.free.push(place);
                continue;
            };
            if Arc::strong_count(&entry.node) > 1 {
                held += 1;
                queue.push_back(place);
                continue;
            }
            match entry.take_hits() {
                0 => {
                    let address = entry.pointer.address;
                    self.forget(place, address, is_small);
                }
                hits => {
                    entry.hits = if is_small { 0 } else { hits - 1 };
                    self.main.push_back(place);
                }
            }
        }
    }

    /// Removes the entry at `place`, which is in no queue any more.
    fn forget(&mut self, place: u32, address: Address, as_ghost: bool) {
        let address = address.to_bits();
        self.entries[place as usize] = None;
        self.free.push(place);
        self.places.remove(&address);
        if !as_ghost {
            return;
        }
        self.fallen += 1;
        self.ghosts.insert(address, self.fallen);
        self.falls.push_back((address, self.fallen));
        while self.falls.len() > self.limit {
            if let Some((address, fall)) = self.falls.pop_front()
                && self.ghosts.get(&address) == Some(&fall)
            {
                self.ghosts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
