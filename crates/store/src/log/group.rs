//! The open group: changes that become durable together. Each block is in the group in its last
//! version only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pages::Pages;

use crate::format::record::ROOM;
use crate::format::{DatasetId, Pointer};
use crate::map::hash::BuildNumberHasher;

/// Most payload that a group may have, in bytes: one device write of a good size.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// Bytes that the entry of a block or a stored operation takes in a record.
const MAP_SIZE: usize = 48;
const CLEAR_SIZE: usize = 24;

/// A block that already has its place. So the writer of the block cannot be told later that there
/// is no space.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Pointer to the block's place.
    pub pointer: Pointer,
    /// Bytes that will lie at the place: whole sectors, perhaps compressed.
    pub payload: Pages,
    /// Bytes of the block.
    pub data: Pages,
}

/// One change of a group.
#[derive(Clone, Debug)]
pub enum Change {
    /// A block has new bytes.
    Block {
        /// Volume of the block.
        dataset: DatasetId,
        /// Number of the block, in units of volblocksize.
        block: u64,
        /// New bytes of the block.
        placed: Placed,
    },
    /// Blocks become zeros.
    Clear {
        /// Volume of the blocks.
        dataset: DatasetId,
        /// First block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// An operation changed the datasets.
    Operation(Vec<u8>),
    /// An operation that is too long for a record changed the datasets.
    StoredOperation {
        /// Pointer to the operation's place.
        pointer: Pointer,
        /// Bytes of the operation, filled up to whole sectors.
        payload: Pages,
        /// Bytes of the payload that belong to the operation.
        len: u64,
    },
}

/// The group that is being gathered.
#[derive(Debug, Default)]
pub struct OpenGroup {
    /// Changes in order; `None` if a later change of the group made one void.
    changes: Vec<Option<Change>>,
    /// Index of each block's change.
    blocks: HashMap<(DatasetId, u64), usize, BuildNumberHasher>,
    clears: usize,
    entry_bytes: usize,
    payload_bytes: usize,
    /// Time at which the first change came.
    pub since_us: u64,
}

impl OpenGroup {
    /// Reports whether the group has no change.
    pub fn is_empty(&self) -> bool {
        self.entry_bytes == 0
    }

    /// Returns the bytes that the group will write besides its record.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the number of blocks of a dataset that the group writes.
    pub fn blocks_of(&self, dataset: DatasetId) -> u64 {
        self.blocks.keys().filter(|(of, _)| *of == dataset).count() as u64
    }

    /// Reports whether one more change with `payload` bytes fits into the group.
    pub fn has_room(&self, payload: usize) -> bool {
        self.entry_bytes + MAP_SIZE <= ROOM && self.payload_bytes + payload <= MAX_PAYLOAD
    }

    /// Reports whether one group can hold `blocks` blocks of `block_size` bytes, and two clearings.
    /// If so, a change of `blocks` blocks outlives a power cut as a whole or not at all.
    pub const fn holds(blocks: usize, block_size: usize) -> bool {
        blocks * MAP_SIZE + 2 * CLEAR_SIZE <= ROOM && blocks * block_size <= MAX_PAYLOAD
    }

    /// Reports whether the group has room for `blocks` blocks besides its changes so far.
    pub fn has_room_for(&self, blocks: usize, block_size: usize) -> bool {
        self.entry_bytes + blocks * MAP_SIZE + 2 * CLEAR_SIZE <= ROOM
            && self.payload_bytes + blocks * block_size <= MAX_PAYLOAD
    }

    /// Gives a block new bytes. If an earlier version of the block was in this group, returns the
    /// pointer to its place: nobody will ever look there.
    pub fn write(&mut self, dataset: DatasetId, block: u64, placed: Placed) -> Option<Pointer> {
        self.payload_bytes += placed.payload.len();
        let change = Some(Change::Block {
            dataset,
            block,
            placed,
        });
        match self.blocks.entry((dataset, block)) {
            Entry::Occupied(at) => {
                let void = std::mem::replace(&mut self.changes[*at.get()], change);
                self.forget_payload(void)
            }
            Entry::Vacant(place) => {
                place.insert(self.changes.len());
                self.entry_bytes += MAP_SIZE;
                self.changes.push(change);
                None
            }
        }
    }

    /// Makes blocks zeros. Returns the places of the blocks that had bytes in this group.
    pub fn clear(&mut self, dataset: DatasetId, block: u64, count: u64) -> Vec<Pointer> {
        let range = block..block.saturating_add(count);
        let is_void = |of: DatasetId, block| of == dataset && range.contains(&block);
        let mut places = Vec::new();
        for at in 0..self.changes.len() {
            if let Some(Change::Block { dataset, block, .. }) = self.changes[at]
                && is_void(dataset, block)
            {
                self.blocks.remove(&(dataset, block));
                self.entry_bytes -= MAP_SIZE;
                let change = self.changes[at].take();
                places.extend(self.forget_payload(change));
            }
        }
        self.entry_bytes += CLEAR_SIZE;
        self.clears += 1;
        self.changes.push(Some(Change::Clear {
            dataset,
            block,
            count,
        }));
        places
    }

    fn forget_payload(&mut self, change: Option<Change>) -> Option<Pointer> {
        let Some(Change::Block { placed, .. }) = change else {
            return None;
        };
        self.payload_bytes -= placed.payload.len();
        Some(placed.pointer)
    }

    /// Adds an operation on datasets. The caller ensures that nothing else is in the group.
    pub fn operate(&mut self, change: Change) {
        debug_assert!(self.is_empty(), "an operation has a group of its own");
        self.entry_bytes += match &change {
            Change::Operation(operation) => 16 + operation.len().next_multiple_of(8),
            _ => MAP_SIZE,
        };
        self.changes.push(Some(change));
    }

    /// Returns the group's state of a block; `None` if the group does not change the block.
    pub fn look_up(&self, dataset: DatasetId, block: u64) -> Option<Held<'_>> {
        if let Some(at) = self.blocks.get(&(dataset, block))
            && let Some(Some(Change::Block { placed, .. })) = self.changes.get(*at)
        {
            return Some(Held::Data(placed));
        }
        let clears = |change: &Option<Change>| {
            matches!(change, Some(Change::Clear { dataset: of, block: first, count })
                if *of == dataset && (*first..first.saturating_add(*count)).contains(&block))
        };
        let is_cleared = self.clears > 0 && self.changes.iter().any(clears);
        is_cleared.then_some(Held::Zeros)
    }

    /// Takes all changes out, in order.
    pub fn take(&mut self) -> impl Iterator<Item = Change> + use<> {
        std::mem::take(self).changes.into_iter().flatten()
    }
}

/// State of a block in the open group.
#[derive(Debug)]
pub enum Held<'a> {
    /// The block has these bytes.
    Data(&'a Placed),
    /// The block is zeros.
    Zeros,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::format::{Address, SECTOR_SIZE};

    const VOLUME: DatasetId = DatasetId(3);

    fn placed(tag: u8) -> Placed {
        let data = Pages::from_bytes(&[tag; SECTOR_SIZE]);
        Placed {
            pointer: Pointer {
                address: Address::new(0, tag.into()),
                sectors: 1,
                ..Pointer::HOLE
            },
            payload: data.clone(),
            data,
        }
    }

    proptest! {
        /// A reader of the group and a replay of it see all changes in their order. Every place
        /// that was given is in the group or was returned.
        #[test]
        fn the_last_version_counts(steps in prop::collection::vec((0..12_u64, 0..4_u64, 0..4_u8), 0..60)) {
            let mut group = OpenGroup::default();
            let mut model = BTreeMap::new();
            let mut places = BTreeSet::new();
            for (number, (block, count, kind)) in steps.iter().enumerate() {
                let tag = number as u8 + 1;
                if *kind == 0 {
                    for void in group.clear(VOLUME, *block, *count) {
                        prop_assert!(places.remove(&void.address));
                    }
                    (*block..block + count).for_each(|block| {
                        model.insert(block, 0);
                    });
                } else {
                    places.insert(placed(tag).pointer.address);
                    if let Some(void) = group.write(VOLUME, *block, placed(tag)) {
                        prop_assert!(places.remove(&void.address));
                    }
                    model.insert(*block, tag);
                }
            }
            let sizes = (group.entry_bytes, group.payload_bytes);
            for block in 0..16 {
                let held = group.look_up(VOLUME, block).map(|held| match held {
                    Held::Data(placed) => placed.data.to_vec()[0],
                    Held::Zeros => 0,
                });
                prop_assert_eq!(held, model.get(&block).copied());
            }
            let mut replayed = BTreeMap::new();
            let mut counted = (0, 0);
            for change in group.take() {
                match change {
                    Change::Block { block, placed, .. } => {
                        replayed.insert(block, placed.data.to_vec()[0]);
                        prop_assert!(places.remove(&placed.pointer.address));
                        counted = (counted.0 + 48, counted.1 + placed.payload.len());
                    }
                    Change::Clear { block, count, .. } => {
                        (block..block + count).for_each(|block| {
                            replayed.insert(block, 0);
                        });
                        counted.0 += 24;
                    }
                    _ => unreachable!("none went in"),
                }
            }
            prop_assert_eq!(replayed, model);
            prop_assert_eq!(sizes, counted);
            prop_assert!(group.is_empty() && places.is_empty());
        }
    }

    #[test]
    fn room_is_what_a_record_has() {
        let mut group = OpenGroup::default();
        for block in 0..83 {
            assert!(group.has_room(SECTOR_SIZE), "{block}");
            group.write(VOLUME, block, placed(1));
        }
        assert!(!group.has_room(SECTOR_SIZE));
        assert!(OpenGroup::holds(82, SECTOR_SIZE) && !OpenGroup::holds(83, SECTOR_SIZE));
        assert!(OpenGroup::holds(8, 128 << 10) && !OpenGroup::holds(9, 128 << 10));
    }
}
