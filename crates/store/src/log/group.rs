//! The open group: changes that will become durable together, each block in its last version only.

use std::collections::BTreeMap;

use pages::Pages;

use crate::format::record::{MAX_OPERATION, ROOM};
use crate::format::{DatasetId, SECTOR_SIZE};

/// The most data in a group, in bytes: one device write of a good size.
pub const MAX_DATA: usize = 1 << 20;
/// What the entry of a block or a stored operation takes in a record.
const MAP_SIZE: usize = 48;
const CLEAR_SIZE: usize = 24;

/// One change of a group.
#[derive(Clone, Debug)]
pub enum Change {
    /// A block has these bytes (all of it, not compressed).
    Block {
        /// The volume.
        dataset: DatasetId,
        /// In units of volblocksize.
        block: u64,
        /// Its bytes.
        data: Pages,
    },
    /// Blocks are zeros.
    Clear {
        /// The volume.
        dataset: DatasetId,
        /// The first one.
        block: u64,
        /// How many.
        count: u64,
    },
    /// Something happened to datasets.
    Operation(Vec<u8>),
}

/// The group that is being gathered.
#[derive(Debug, Default)]
pub struct OpenGroup {
    /// `None` where a later change of the group made it void.
    changes: Vec<Option<Change>>,
    /// Where each block's change stands.
    blocks: BTreeMap<(DatasetId, u64), usize>,
    entry_bytes: usize,
    data_bytes: usize,
    /// When the first change came.
    pub since_us: u64,
}

impl OpenGroup {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entry_bytes == 0
    }

    /// Bytes of data in it.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Whether so many blocks of `block_size` bytes and so many clearings fit in besides. An empty
    /// group takes one block of any size.
    pub fn has_room(&self, blocks: usize, block_size: usize, clears: usize) -> bool {
        let entries = self.entry_bytes + blocks * MAP_SIZE + clears * CLEAR_SIZE;
        entries <= ROOM && self.data_bytes + blocks * block_size <= MAX_DATA
    }

    /// The most blocks that any group takes at once.
    pub const fn most_blocks(block_size: usize) -> usize {
        let by_data = MAX_DATA / block_size;
        let by_entries = (ROOM - CLEAR_SIZE) / MAP_SIZE;
        if by_data < by_entries {
            by_data
        } else {
            by_entries
        }
    }

    /// A block has new bytes. A version of it in this group is forgotten.
    pub fn write(&mut self, dataset: DatasetId, block: u64, data: Pages) {
        let change = Change::Block {
            dataset,
            block,
            data,
        };
        if let Some(at) = self.blocks.get(&(dataset, block)) {
            self.changes[*at] = Some(change);
            return;
        }
        if let Change::Block { data, .. } = &change {
            self.data_bytes += data.len().next_multiple_of(SECTOR_SIZE);
        }
        self.entry_bytes += MAP_SIZE;
        self.blocks.insert((dataset, block), self.changes.len());
        self.changes.push(Some(change));
    }

    /// Blocks are zeros from now on.
    pub fn clear(&mut self, dataset: DatasetId, block: u64, count: u64) {
        let range = (dataset, block)..(dataset, block.saturating_add(count));
        let void: Vec<_> = self
            .blocks
            .range(range)
            .map(|(key, at)| (*key, *at))
            .collect();
        for (key, at) in void {
            self.blocks.remove(&key);
            if let Some(Change::Block { data, .. }) = self.changes[at].take() {
                self.data_bytes -= data.len().next_multiple_of(SECTOR_SIZE);
                self.entry_bytes -= MAP_SIZE;
            }
        }
        self.entry_bytes += CLEAR_SIZE;
        self.changes.push(Some(Change::Clear {
            dataset,
            block,
            count,
        }));
    }

    /// Something happened to datasets. The caller sees to it that nothing else is in the group.
    pub fn operate(&mut self, operation: Vec<u8>) {
        debug_assert!(self.is_empty(), "an operation has a group of its own");
        self.entry_bytes += if operation.len() > MAX_OPERATION {
            self.data_bytes += operation.len().next_multiple_of(SECTOR_SIZE);
            MAP_SIZE
        } else {
            16 + operation.len().next_multiple_of(8)
        };
        self.changes.push(Some(Change::Operation(operation)));
    }

    /// What a block holds by this group: its bytes, or `None` where the group says nothing of it.
    /// Clearings are looked at by the caller's layers as soon as the group is sealed; here they
    /// answer with nothing but zeros.
    pub fn look_up(&self, dataset: DatasetId, block: u64) -> Option<Held<'_>> {
        if let Some(at) = self.blocks.get(&(dataset, block)) {
            if let Some(Some(Change::Block { data, .. })) = self.changes.get(*at) {
                return Some(Held::Data(data));
            }
        }
        let clears = |change: &Option<Change>| {
            matches!(change, Some(Change::Clear { dataset: of, block: first, count })
                if *of == dataset && (*first..first.saturating_add(*count)).contains(&block))
        };
        self.changes.iter().any(clears).then_some(Held::Zeros)
    }

    /// Whether it holds data of a volume's blocks.
    pub fn holds_any(&self, dataset: DatasetId) -> bool {
        self.blocks
            .range((dataset, 0)..=(dataset, u64::MAX))
            .next()
            .is_some()
    }

    /// Takes everything out, in order.
    pub fn take(&mut self) -> impl Iterator<Item = Change> {
        self.blocks.clear();
        (self.entry_bytes, self.data_bytes) = (0, 0);
        std::mem::take(&mut self.changes).into_iter().flatten()
    }
}

/// What the open group says of a block.
#[derive(Debug)]
pub enum Held<'a> {
    /// These bytes.
    Data(&'a Pages),
    /// Zeros.
    Zeros,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const VOLUME: DatasetId = DatasetId(3);

    fn bytes(tag: u8) -> Pages {
        Pages::from_bytes(&[tag; SECTOR_SIZE])
    }

    proptest! {
        /// Whatever comes in, in its order, is what a reader of the group and a replay of it see.
        #[test]
        fn the_last_version_counts(steps in prop::collection::vec((0..12_u64, 0..4_u64, 0..4_u8), 0..60)) {
            let mut group = OpenGroup::default();
            let mut model = BTreeMap::new();
            for (number, (block, count, kind)) in steps.iter().enumerate() {
                if *kind == 0 {
                    group.clear(VOLUME, *block, *count);
                    (*block..block + count).for_each(|block| drop(model.insert(block, 0)));
                } else {
                    group.write(VOLUME, *block, bytes(number as u8 + 1));
                    model.insert(*block, number as u8 + 1);
                }
            }
            let (entries, data) = (group.entry_bytes, group.data_bytes);
            for block in 0..16 {
                let held = group.look_up(VOLUME, block).map(|held| match held {
                    Held::Data(data) => data.to_vec()[0],
                    Held::Zeros => 0,
                });
                prop_assert_eq!(held, model.get(&block).copied());
            }
            let mut replayed = BTreeMap::new();
            let (mut entry_bytes, mut data_bytes) = (0, 0);
            for change in group.take() {
                match change {
                    Change::Block { block, data, .. } => {
                        replayed.insert(block, data.to_vec()[0]);
                        (entry_bytes, data_bytes) = (entry_bytes + 48, data_bytes + data.len());
                    }
                    Change::Clear { block, count, .. } => {
                        (block..block + count).for_each(|block| drop(replayed.insert(block, 0)));
                        entry_bytes += 24;
                    }
                    Change::Operation(_) => unreachable!("none went in"),
                }
            }
            prop_assert_eq!(replayed, model);
            prop_assert_eq!((entries, data), (entry_bytes, data_bytes));
            prop_assert!(group.is_empty());
        }
    }

    #[test]
    fn room_is_what_a_record_has() {
        let mut group = OpenGroup::default();
        for block in 0..83 {
            assert!(group.has_room(1, SECTOR_SIZE, 0), "{block}");
            group.write(VOLUME, block, bytes(1));
        }
        assert!(!group.has_room(1, SECTOR_SIZE, 0));
        assert!(!group.has_room(0, 0, 1));
        assert_eq!(OpenGroup::most_blocks(128 << 10), 8);
    }
}
