//! Tests of what readers find: each block that was published, until it changes or its node goes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::format::pointer::Second;
use crate::format::{Address, Compression, Epoch, NodeId};

const VOLUME: DatasetId = DatasetId(7);
const LEAF: u64 = FAN_OUT as u64;

/// Returns the pointer of a block that was written in an epoch.
fn pointer(block: u64, epoch: u64) -> Pointer {
    Pointer {
        address: Address::new(0, 100 + block),
        second: Second::NONE,
        birth: Epoch(epoch),
        sectors: 1,
        compression: Compression::Off,
        algorithm: Algorithm::Xxh3,
        checksum: u128::from(block) << 64 | u128::from(epoch),
    }
}

/// Makes the leaf of this number, with every block written in `epoch`.
fn leaf(number: u64, epoch: u64) -> Arc<Node<FAN_OUT>> {
    let id = NodeId {
        volume: VOLUME,
        level: 0,
        index: number,
    };
    let mut node = Node::new(id, Epoch(epoch));
    for slot in 0..FAN_OUT {
        node.set(slot, pointer(number * LEAF + slot as u64, epoch));
    }
    Arc::new(node)
}

fn publish(published: &Published, number: u64, node: &Arc<Node<FAN_OUT>>, changed: Changed) {
    let leaf = Leaf::new(node, Arc::default(), changed);
    published.publish(VOLUME, number, leaf);
}

fn find(published: &Published, blocks: Range<u64>) -> Option<Vec<Pointer>> {
    let mut found = SmallVec::new();
    let is_found = published.look_up(VOLUME, blocks, &mut found);
    is_found.then(|| found.to_vec())
}

#[test]
fn blocks_are_found_until_they_change() {
    let published = Published::default();
    assert_eq!(find(&published, 0..1), None);
    let nodes = [leaf(0, 1), leaf(1, 1)];
    for (number, node) in (0..).zip(&nodes) {
        publish(&published, number, node, Changed::default());
    }
    let near = LEAF - 2..LEAF + 2;
    let expected: Vec<Pointer> = near.clone().map(|block| pointer(block, 1)).collect();
    assert_eq!(find(&published, near.clone()), Some(expected));
    assert_eq!(
        find(&published, 2 * LEAF - 1..2 * LEAF + 1),
        None,
        "one leaf is unknown"
    );
    assert!(!published.look_up(DatasetId(8), 0..1, &mut SmallVec::new()));
    published.note_change(VOLUME, LEAF - 1..LEAF + 1);
    for block in near {
        let is_found = find(&published, block..block + 1).is_some();
        assert_eq!(is_found, !(LEAF - 1..LEAF + 1).contains(&block), "{block}");
    }
    // Changes that are longer than all that is published.
    published.note_change(VOLUME, LEAF + 5..u64::MAX);
    assert_eq!(
        find(&published, LEAF + 4..LEAF + 5),
        None,
        "its leaf was forgotten"
    );
    assert!(find(&published, 0..LEAF - 1).is_some());
    published.forget(VOLUME);
    assert_eq!(find(&published, 0..1), None);
}

#[test]
fn a_leaf_is_published_with_its_changes_and_ends_with_its_node() {
    let published = Published::default();
    let node = leaf(0, 1);
    let mut changed = Changed::default();
    [0, 63, 64, 511]
        .into_iter()
        .for_each(|slot| changed.note(slot));
    publish(&published, 0, &node, changed);
    assert!(published.has(VOLUME, 0, &node));
    let lost: Vec<u64> = (0..LEAF)
        .filter(|block| find(&published, *block..*block + 1).is_none())
        .collect();
    assert_eq!(lost, [0, 63, 64, 511]);
    let newer = leaf(0, 2);
    assert!(!published.has(VOLUME, 0, &newer));
    publish(&published, 0, &newer, Changed::default());
    assert_eq!(find(&published, 0..1), Some(vec![pointer(0, 2)]));
    drop((node, newer));
    assert_eq!(find(&published, 0..1), None);
    // Leaves whose nodes ended are not kept for ever.
    for number in 0..10_000 {
        publish(&published, number, &leaf(number, 1), Changed::default());
    }
    assert!(
        published.all().len() < 2 * PARTS * FEW * FAN_OUT,
        "{}",
        published.all().len()
    );
}

#[test]
fn blocks_that_prove_nothing_are_the_engines() {
    let published = Published::default();
    let id = NodeId {
        volume: VOLUME,
        level: 0,
        index: 0,
    };
    let mut node = Node::new(id, Epoch(1));
    let unproven = Pointer {
        algorithm: Algorithm::Off,
        ..pointer(1, 1)
    };
    node.set(0, pointer(0, 1));
    node.set(1, unproven);
    node.set(2, pointer(2, 1).doubled(Address::new(0, 900)));
    node.set(3, Pointer::lost(Epoch(1)));
    let node = Arc::new(node);
    publish(&published, 0, &node, Changed::default());
    assert!(find(&published, 0..1).is_some());
    for block in 1..4 {
        assert_eq!(find(&published, block..block + 1), None, "{block}");
    }
    // The node itself proves that there is a hole.
    assert_eq!(find(&published, 4..5), Some(vec![Pointer::HOLE]));
}

/// A change that was noted is never overlooked, however readers and the engine interleave.
#[test]
fn no_reader_finds_a_block_after_its_change_was_noted() {
    let published = Published::default();
    let node = leaf(0, 1);
    let noted: Vec<AtomicBool> = (0..FAN_OUT).map(|_| AtomicBool::new(false)).collect();
    publish(&published, 0, &node, Changed::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..20_000_usize {
                    let block = round * 7 % FAN_OUT;
                    let was_noted = noted[block].load(Ordering::Acquire);
                    let found = find(&published, block as u64..block as u64 + 1);
                    assert!(!(was_noted && found.is_some()), "{block}");
                }
            });
        }
        scope.spawn(|| {
            for (block, noted) in noted.iter().enumerate() {
                published.note_change(VOLUME, block as u64..block as u64 + 1);
                noted.store(true, Ordering::Release);
            }
        });
    });
    assert_eq!(find(&published, 0..1), None);
}
