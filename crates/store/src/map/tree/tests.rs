//! Tests of the shapes of trees. Look-ups in deep trees are tested where trees are made: with the
//! merge.

use super::*;
use crate::format::{Address, Epoch, Node};
use std::sync::Arc;

fn pointer(number: u64) -> Pointer {
    Pointer {
        address: Address::new(0, number),
        birth: Epoch(1),
        sectors: 1,
        ..Pointer::HOLE
    }
}

#[test]
fn trees_are_as_high_as_their_last_block_needs() {
    assert_eq!(Tree::<512>::height_for(0), 1);
    assert_eq!(Tree::<512>::height_for(511), 1);
    assert_eq!(Tree::<512>::height_for(512), 2);
    assert_eq!(Tree::<512>::height_for((1 << 27) - 1), 3);
    assert_eq!(Tree::<512>::height_for(1 << 27), 4);
    assert_eq!(Tree::<512>::MAX_HEIGHT, 7);
    assert_eq!(Tree::<512>::height_for((1 << 63) - 1), 7);
    assert_eq!(Tree::<2>::MAX_HEIGHT, 63);
}

#[test]
fn no_other_heights_open() {
    assert!(Tree::<512>::open(DatasetId(1), Pointer::HOLE, 0).is_none());
    assert!(Tree::<512>::open(DatasetId(1), Pointer::HOLE, 7).is_some());
    assert!(Tree::<512>::open(DatasetId(1), Pointer::HOLE, 8).is_none());
}

#[test]
fn children_and_slots_agree() {
    for index in [0, 5, 511, 512, 262_143, 262_144, (1 << 36) + 12_345] {
        let mut id = Tree::<512>::open(DatasetId(1), Pointer::HOLE, 5)
            .expect("a height")
            .root_id();
        while id.level > 0 {
            id = Tree::<512>::child(id, Tree::<512>::slot(id.level, index));
            assert!(
                Tree::<512>::blocks_of(id).contains(&index),
                "{id} for {index}"
            );
        }
        assert_eq!(id.index, index / 512);
    }
}

#[test]
fn a_look_up_asks_for_one_node_after_the_other_and_finds_holes_at_every_level() {
    let mut cache = NodeCache::<512>::new(0);
    let tree = Tree::<512> {
        volume: DatasetId(9),
        root: pointer(100),
        height: 2,
    };
    let root_id = NodeId {
        volume: DatasetId(9),
        level: 1,
        index: 0,
    };
    let leaf_id = NodeId {
        volume: DatasetId(9),
        level: 0,
        index: 3,
    };
    let missing = tree
        .look_up(&mut cache, 3 * 512 + 4)
        .expect_err("nothing was read");
    assert_eq!(
        missing,
        Missing {
            pointer: pointer(100),
            id: root_id
        }
    );

    let mut root = Node::<512>::new(root_id, Epoch(1));
    root.set(3, pointer(101));
    cache.insert(pointer(100), Arc::new(root));
    let missing = tree
        .look_up(&mut cache, 3 * 512 + 4)
        .expect_err("the leaf was not read");
    assert_eq!(
        missing,
        Missing {
            pointer: pointer(101),
            id: leaf_id
        }
    );
    assert_eq!(tree.look_up(&mut cache, 4 * 512), Ok(Pointer::HOLE));

    let mut leaf = Node::<512>::new(leaf_id, Epoch(1));
    leaf.set(4, pointer(4));
    leaf.set(511, pointer(5));
    cache
        .fill(&missing, &leaf.to_block().1)
        .expect("it is the leaf");
    assert_eq!(tree.look_up(&mut cache, 3 * 512 + 4), Ok(pointer(4)));
    let mut run = [pointer(77); 600];
    tree.look_up_run(&mut cache, 3 * 512 - 10, &mut run)
        .expect("all is read");
    for (at, found) in run.iter().enumerate() {
        let expected = match at {
            14 => pointer(4),
            521 => pointer(5),
            _ => Pointer::HOLE,
        };
        assert_eq!(*found, expected, "{at}");
    }
}

#[test]
fn beyond_the_tree_there_are_holes() {
    let mut cache = NodeCache::<512>::new(0);
    let mut leaf = Node::<512>::new(
        NodeId {
            volume: DatasetId(9),
            level: 0,
            index: 0,
        },
        Epoch(1),
    );
    leaf.set(511, pointer(5));
    cache.insert(pointer(100), Arc::new(leaf));
    let tree = Tree::<512> {
        volume: DatasetId(9),
        root: pointer(100),
        height: 1,
    };
    let mut run = [pointer(77); 3];
    tree.look_up_run(&mut cache, 510, &mut run)
        .expect("all is read");
    assert_eq!(run, [Pointer::HOLE, pointer(5), Pointer::HOLE]);
    assert_eq!(tree.look_up(&mut cache, u64::MAX), Ok(Pointer::HOLE));
}
