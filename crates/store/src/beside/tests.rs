//! Tests of the steps of a reader, with changes between them.

mod interleavings;

use std::sync::Arc;

use super::*;
use crate::checksum;
use crate::format::node::FAN_OUT;
use crate::format::pointer::Second;
use crate::format::{Address, Algorithm, Compression, Epoch, Node, NodeId};
use crate::published::{Changed, Leaf};

const VOLUME: DatasetId = DatasetId(7);
const SIZE: usize = 4096;
const FIRST: u64 = 20;

/// Pool's side of a reader: the published leaf of a volume, and the cache.
struct Rig {
    published: Published,
    cache: Cache,
    /// Node of the leaf, which is published as long as it is here.
    _node: Arc<Node<FAN_OUT>>,
}

/// Returns the bytes of a block.
fn bytes(block: u64) -> Pages {
    Pages::from_bytes(&[block as u8; SIZE])
}

fn pointer(block: u64) -> Pointer {
    Pointer {
        address: Address::new(0, 100 + block),
        second: Second::NONE,
        birth: Epoch(1),
        sectors: 1,
        compression: Compression::Off,
        algorithm: Algorithm::Xxh3,
        checksum: checksum::of(Algorithm::Xxh3, &bytes(block)),
    }
}

fn rig() -> Rig {
    let id = NodeId {
        volume: VOLUME,
        level: 0,
        index: 0,
    };
    let mut node = Node::new(id, Epoch(1));
    for slot in 0..FAN_OUT {
        node.set(slot, pointer(slot as u64));
    }
    let (node, published) = (Arc::new(node), Published::default());
    let leaf = Leaf::new(&node, Arc::default(), Changed::default());
    published.publish(VOLUME, 0, leaf);
    Rig {
        published,
        cache: Cache::new(4 << 20, 1),
        _node: node,
    }
}

impl Rig {
    fn take(&self) -> Tickets {
        Tickets::take(&self.cache, VOLUME, FIRST..FIRST + 4, None)
    }

    /// Notes a change as the engine does.
    fn change(&self, block: u64) {
        self.published.note_change(VOLUME, block..block + 1);
        self.cache.insert(key(block), bytes(99), drop);
    }

    /// Reads the blocks from a device, verifies them and puts them into the cache.
    fn finish(&self, located: &Located) -> Option<Verified> {
        let rows = located.rows().expect("one piece");
        assert_eq!((rows.len(), rows[0].sectors.clone()), (1, 120..124));
        let device: Vec<u8> = (FIRST..FIRST + 4)
            .flat_map(|block| bytes(block).to_vec())
            .collect();
        let blocks = rows[0].blocks.clone();
        let read = located.verify(blocks, &Pages::from_bytes(&device), SIZE)?;
        let mut all = located.holes(SIZE);
        all.add(read);
        located.fill(&self.cache, &all, SIZE);
        Some(all)
    }

    fn cached(&self, block: u64) -> Option<u8> {
        Some(self.cache.get(key(block))?.to_vec()[0])
    }
}

fn key(block: u64) -> Key {
    let volume = VOLUME.0.into();
    Key { volume, block }
}

#[test]
fn blocks_come_into_the_cache_unless_they_changed_after_the_tickets() {
    let rig = rig();
    let located = rig.take().locate(&rig.published).expect("all are known");
    rig.change(FIRST + 1);
    let all = rig.finish(&located).expect("all are right");
    assert_eq!(all.part(0..4 * SIZE, SIZE).to_vec()[SIZE], 21);
    let cached: Vec<_> = (FIRST..FIRST + 4).map(|block| rig.cached(block)).collect();
    assert_eq!(cached, [Some(20), Some(99), Some(22), Some(23)]);
}

#[test]
fn one_block_alone_is_verified_and_kept_as_many_are() {
    let rig = rig();
    let locate = |tickets: Tickets| tickets.locate(&rig.published).expect("it is known");
    let of_one = || Tickets::take(&rig.cache, VOLUME, FIRST..FIRST + 1, None);
    let passed = locate(Tickets::none(VOLUME, FIRST..FIRST + 1));
    let (early, late) = (locate(of_one()), locate(of_one()));
    let mut wrong = bytes(FIRST).to_vec();
    wrong[SIZE - 1] ^= 1;
    assert!(early.verify_one(Pages::from_bytes(&wrong), SIZE).is_none());
    let short = bytes(FIRST).slice(0..SIZE / 2);
    assert!(early.verify_one(short, SIZE).is_none());
    let data = early.verify_one(bytes(FIRST), SIZE).expect("it is right");
    passed.fill_one(&rig.cache, &data);
    assert_eq!(rig.cached(FIRST), None);
    early.fill_one(&rig.cache, &data);
    assert_eq!(rig.cached(FIRST), Some(20));
    rig.change(FIRST);
    late.fill_one(&rig.cache, &data);
    assert_eq!(rig.cached(FIRST), Some(99));
    let many = locate(Tickets::take(
        &rig.cache,
        VOLUME,
        FIRST + 1..FIRST + 3,
        None,
    ));
    assert!(many.verify_one(bytes(FIRST + 1), SIZE).is_none());
}

#[test]
fn a_block_that_changed_before_the_look_up_is_the_engines() {
    let rig = rig();
    let tickets = rig.take();
    rig.change(FIRST + 3);
    assert!(tickets.locate(&rig.published).is_none());
}

#[test]
fn bytes_that_wait_are_good_until_one_of_their_blocks_changes() {
    let rig = rig();
    let wanted = Tickets::none(VOLUME, FIRST..FIRST + 4);
    let located = wanted.locate(&rig.published).expect("all are known");
    rig.finish(&located).expect("all are right");
    assert_eq!(rig.cached(FIRST), None, "they pass the cache by");
    rig.change(FIRST + 2);
    let lie = |blocks: Range<u64>| located.still_lie(&rig.published, blocks);
    assert!(lie(FIRST..FIRST + 2) && lie(FIRST + 3..FIRST + 4));
    assert!(!lie(FIRST + 1..FIRST + 3));
    assert!(!lie(FIRST - 1..FIRST + 1), "a block that was not read");
    assert!(!lie(FIRST + 3..FIRST + 5), "a block that was not read");
    rig.published.forget(VOLUME);
    assert!(!lie(FIRST..FIRST + 1));
}

#[test]
fn a_place_that_was_written_anew_proves_nothing() {
    let rig = rig();
    let located = rig.take().locate(&rig.published).expect("all are known");
    let others = Pages::from_bytes(&[1; 4 * SIZE]);
    assert!(located.verify(0..4, &others, SIZE).is_none());
}
