//! Tests of dead lists against a plain model, through snapshots, deletions, checkpoints and
//! imports.

use std::collections::BTreeMap;
use std::convert::Infallible;

use pages::Pages;
use proptest::prelude::*;

use super::*;
use crate::checksum;
use crate::format::pointer::Second;
use crate::format::{Address, Algorithm, Compression, SECTOR_SIZE};

/// A disk of chunks, each of which is dropped once.
#[derive(Default)]
struct Disk {
    chunks: BTreeMap<u64, Pages>,
    written: u64,
    room: Option<usize>,
}

#[derive(Debug, PartialEq)]
struct Full;

impl Store for Disk {
    type Error = Full;

    fn write(&mut self, chunk: &Chunk) -> Result<Pointer, Full> {
        if let Some(room) = &mut self.room {
            *room = room.checked_sub(1).ok_or(Full)?;
        }
        let data = chunk.encode();
        self.written += 1;
        let pointer = Pointer {
            address: Address::new(0, self.written),
            second: Second::NONE,
            birth: Epoch(1),
            sectors: (data.len() / SECTOR_SIZE) as u16,
            compression: Compression::Off,
            algorithm: Algorithm::Xxh3,
            checksum: checksum::of(Algorithm::Xxh3, &data),
        };
        self.chunks.insert(self.written, data);
        Ok(pointer)
    }

    fn drop_later(&mut self, chunk: Pointer) {
        let dropped = self.chunks.remove(&chunk.address.sector());
        assert!(dropped.is_some(), "{chunk:?} was dropped twice");
    }
}

impl Disk {
    fn read(&self, pointer: &Pointer) -> Chunk {
        let data = &self.chunks[&pointer.address.sector()];
        assert_eq!(checksum::of(pointer.algorithm, data), pointer.checksum);
        Chunk::decode(data).expect("it was encoded")
    }

    /// Returns all blocks of a list. Each chunk is reported missing once.
    fn drain(&mut self, mut list: Deadlist, drops_chunks: bool) -> Vec<Pointer> {
        let mut blocks = Vec::new();
        let mut at_hand: Option<(Pointer, Chunk)> = None;
        loop {
            let before = list.clone();
            let read = |pointer: &Pointer| {
                let (of, chunk) = at_hand.clone()?;
                (of == *pointer).then_some(chunk)
            };
            match list.take_next(read) {
                Ok(Some(taken)) => {
                    assert!(taken.blocks.len() <= MAX_POINTERS);
                    blocks.extend(taken.blocks);
                    if drops_chunks {
                        taken
                            .chunks
                            .into_iter()
                            .for_each(|chunk| self.drop_later(chunk));
                    }
                    at_hand = None;
                }
                Ok(None) => break,
                Err(Unread::Missing(pointer)) => {
                    assert_eq!(list, before);
                    assert!(at_hand.is_none(), "asked for again");
                    at_hand = Some((pointer, self.read(&pointer)));
                }
                Err(damaged) => panic!("{damaged}"),
            }
        }
        assert_eq!((list.blocks(), list.sectors()), (0, 0));
        sorted(blocks)
    }
}

fn sorted(mut blocks: Vec<Pointer>) -> Vec<Pointer> {
    blocks.sort_by_key(|block| block.address);
    blocks
}

fn block(number: u64, birth: u64) -> Pointer {
    let once = Pointer {
        address: Address::new(1, number),
        second: Second::NONE,
        birth: Epoch(birth),
        sectors: (number % 9 + 1) as u16,
        compression: [Compression::Lz4, Compression::Off][number as usize % 2],
        algorithm: Algorithm::Xxh3,
        checksum: u128::from(number) << 64 | 5,
    };
    match number % 3 {
        0 => once.doubled(Address::new(0, number)),
        _ => once,
    }
}

/// A volume and its snapshots, each with its epoch and list. The last list is the volume's.
#[derive(Default)]
struct Volume {
    disk: Disk,
    /// Epochs of the snapshots, ascending.
    snapshots: Vec<Epoch>,
    /// Lists, one more than there are snapshots.
    lists: Vec<(Deadlist, Vec<Pointer>)>,
    epoch: u64,
    blocks: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Drop { count: usize, births: Vec<u64> },
    Snapshot,
    Delete { which: usize },
    Spill,
    Persist { room: Option<usize> },
    Seal,
    Import,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let drops = (
        prop_oneof![1..20_usize, 1..700_usize],
        prop::collection::vec(any::<u64>(), 1..6),
    );
    let step = prop_oneof![
        6 => drops.prop_map(|(count, births)| Step::Drop { count, births }),
        3 => Just(Step::Snapshot),
        2 => any::<usize>().prop_map(|which| Step::Delete { which }),
        1 => Just(Step::Spill),
        3 => prop::option::weighted(0.3, 0..4_usize).prop_map(|room| Step::Persist { room }),
        1 => Just(Step::Seal),
        1 => Just(Step::Import),
    ];
    prop::collection::vec(step, 1..40)
}

/// Makes every third block a node.
fn what(of: &Pointer) -> Dead {
    match of.address.to_bits() % 3 {
        0 => Dead::Node,
        _ => Dead::Block,
    }
}

impl Volume {
    fn new() -> Self {
        Self {
            lists: vec![Default::default()],
            epoch: 1,
            ..Self::default()
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Drop { count, births } => {
                let (list, plain) = self.lists.last_mut().expect("the volume's");
                let Some(last) = self.snapshots.last() else {
                    return;
                };
                for number in 0..*count {
                    self.blocks += 1;
                    let block = block(self.blocks, births[number % births.len()] % last.0 + 1);
                    list.append(block, what(&block), &self.snapshots);
                    plain.push(block);
                }
            }
            Step::Snapshot => {
                self.epoch += 3;
                self.snapshots.push(Epoch(self.epoch));
                self.lists.push(Default::default());
            }
            Step::Delete { which } => {
                if let Some(which) = which.checked_rem(self.snapshots.len()) {
                    self.delete(which);
                }
            }
            Step::Spill => {
                for (list, _) in &mut self.lists {
                    list.spill(&mut self.disk).expect("room");
                    assert!(
                        list.parts
                            .values()
                            .all(|part| part.tail.len() < MAX_POINTERS)
                    );
                }
            }
            Step::Persist { room } => {
                self.disk.room = *room;
                for (list, _) in &mut self.lists {
                    let result = list.persist(&mut self.disk);
                    assert!(result.is_ok() || room.is_some());
                }
                self.disk.room = None;
            }
            Step::Seal => self.lists.iter_mut().for_each(|(list, _)| list.seal()),
            Step::Import => self.import(),
        }
    }

    fn import(&mut self) {
        for (list, _) in &mut self.lists {
            list.persist(&mut self.disk).expect("room");
            let (nodes, whole) = (list.nodes(), list.whole());
            *list = Deadlist::decode(&list.encode()).expect("it was encoded");
            assert_eq!(list.blocks_in_memory(), 0);
            if let Some(nodes) = nodes {
                let unknown = list.after(Epoch(0)).volume_blocks();
                assert_eq!(unknown, None);
                assert!(!list.note_nodes(&nodes[1..]));
                assert!(list.note_nodes(&nodes));
            }
            if let Some(mut whole) = whole {
                assert_eq!(list.after(Epoch(0)).whole_blocks(), None);
                assert!(!list.note_whole(&whole[1..]));
                assert!(list.note_whole(&whole));
                whole[0] += list.blocks() + 1;
                assert!(!list.note_whole(&whole));
            }
        }
    }

    /// Deletes a snapshot as the catalogue says it.
    fn delete(&mut self, which: usize) {
        let after = which
            .checked_sub(1)
            .map_or(Epoch(0), |last| self.snapshots[last]);
        self.snapshots.remove(which);
        let (list, mut plain) = self.lists.remove(which);
        let (next, next_plain) = &mut self.lists[which];
        let expected = next_plain.iter().filter(|block| block.birth > after);
        let expected: Vec<_> = expected.copied().collect();
        assert_eq!(next.after(after).sectors, sectors(&expected));
        let freed = next.split_after(after);
        assert_eq!(freed.blocks(), expected.len() as u64);
        next.merge(list);
        next.join_parts(&self.snapshots[..which]);
        next_plain.retain(|block| block.birth <= after);
        next_plain.append(&mut plain);
        assert_eq!(self.disk.drain(freed, true), sorted(expected));
    }

    fn check(&mut self) {
        for (list, plain) in &self.lists {
            assert_eq!(list.blocks(), plain.len() as u64);
            assert_eq!(list.sectors(), sectors(plain));
            let blocks = plain.iter().filter(|of| what(of) == Dead::Block);
            let blocks: Vec<Pointer> = blocks.copied().collect();
            let count = BlockCount {
                blocks: blocks.len() as u64,
                sectors: sectors(&blocks),
            };
            assert_eq!(list.after(Epoch(0)).volume_blocks(), Some(count));
            let whole = blocks.iter().filter(|of| of.is_whole()).count();
            assert_eq!(list.after(Epoch(0)).whole_blocks(), Some(whole as u64));
            assert_eq!(self.disk.drain(list.clone(), false), sorted(plain.clone()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn lists_free_what_plain_lists_free_and_leave_no_chunk_behind(steps in steps()) {
        let mut volume = Volume::new();
        steps.iter().for_each(|step| volume.apply(step));
        volume.check();
        volume.import();
        volume.check();
        for (list, plain) in std::mem::take(&mut volume.lists) {
            assert_eq!(volume.disk.drain(list, true), sorted(plain));
        }
        prop_assert!(volume.disk.chunks.is_empty());
    }

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(
        records in prop::collection::vec((1..9_u64, 0..3_u64, 0..5_u64), 0..5), cut in 0..3_usize,
    ) {
        let mut bytes = Vec::new();
        for (after, blocks, sectors) in records {
            for number in [after, blocks, sectors] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&block(after, 1).encode());
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        if let Some(list) = Deadlist::decode(&bytes) {
            prop_assert_eq!(list.encode(), bytes);
        }
    }

    #[test]
    fn a_list_that_is_not_what_its_record_says_is_damaged(
        blocks in 1..1_200_u64, more in -3..3_i64, more_sectors in -9..9_i64,
    ) {
        let mut disk = Disk::default();
        let mut list = Deadlist::new();
        (0..blocks).for_each(|number| list.append(block(number, 1), Dead::Block, &[]));
        list.persist(&mut disk).expect("room");
        let mut bytes = list.encode();
        for (at, more) in [(8, more), (16, more_sectors)] {
            let number = u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
            let number = number.saturating_add_signed(more);
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        if let Some(mut list) = Deadlist::decode(&bytes) {
            let result = loop {
                match list.take_next(|pointer| Some(disk.read(pointer))) {
                    Ok(Some(_)) => {}
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            prop_assert_eq!(result.is_ok(), (more, more_sectors) == (0, 0));
        }
    }
}

#[test]
fn splitting_and_merging_read_and_write_nothing() {
    struct Never;
    impl Store for Never {
        type Error = Infallible;
        fn write(&mut self, _: &Chunk) -> Result<Pointer, Infallible> {
            panic!("nothing has changed")
        }
        fn drop_later(&mut self, _: Pointer) {
            panic!("nothing has changed")
        }
    }
    let mut disk = Disk::default();
    let snapshots = [Epoch(10), Epoch(20)];
    let mut list = Deadlist::new();
    for number in 0..3_000 {
        list.append(block(number, number % 30 + 1), Dead::Block, &snapshots);
    }
    list.persist(&mut disk).expect("room");
    list.persist(&mut Never).expect("nothing fails here");
    let freed = list.split_after(Epoch(10));
    assert_eq!((list.blocks(), freed.blocks()), (1_000, 2_000));
    let mut other = Deadlist::decode(&freed.encode()).expect("it was encoded");
    other.merge(list);
    other.persist(&mut Never).expect("nothing fails here");
    assert_eq!(disk.drain(other, true).len(), 3_000);
}

#[test]
fn extents_do_not_belong_here() {
    let mut list = Deadlist::new();
    list.append(block(1, 1), Dead::Block, &[]);
    let mut disk = Disk::default();
    list.persist(&mut disk).expect("room");
    list.seal();
    let extent = crate::format::Extent {
        vdev: 0,
        sector: 0,
        sectors: 1,
    };
    let chunk = Chunk {
        next: Pointer::HOLE,
        entries: Entries::Extents(vec![extent]),
    };
    let damaged = list.take_next(|_| Some(chunk)).expect_err("extents");
    assert!(matches!(damaged, Unread::Damaged(_)));
    assert_eq!(
        damaged.to_string(),
        "the chunk at 0:1 does not belong to this dead list"
    );
}
