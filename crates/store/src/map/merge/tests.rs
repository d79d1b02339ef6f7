//! Tests of changes, snapshots and checkpoints in sequence against a model, however the merges are
//! run.

use proptest::prelude::*;

use super::super::world::{Event, Op, SIMPLE, World, manners, ops};
use super::*;
use crate::format::DatasetId;

const BLOCKS: u64 = 1200;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn merges_keep_every_map_and_drop_what_nothing_reaches(ops in ops(BLOCKS), manner in manners()) {
        let mut world = World::new(manner);
        for op in &ops {
            world.perform(op);
        }
        world.check_maps(BLOCKS);
        world.checkpoint();
        world.check_maps(BLOCKS);
        let reached = world.reach(&world.live.tree);
        prop_assert_eq!(&reached.blocks, &world.model);
        for snapshot in &world.snapshots {
            prop_assert!(snapshot.map.layers.is_empty());
            let reached = world.reach(&snapshot.map.tree);
            prop_assert_eq!(&reached.blocks, &snapshot.model);
            // Otherwise nodes of a snapshot that a later merge drops would count as the volume's
            // own.
            prop_assert!(reached.nodes.iter().all(|(_, node)| node.birth <= snapshot.epoch));
        }
    }

    #[test]
    fn neither_pauses_nor_misses_nor_full_disks_change_what_a_merge_does(
        ops in ops(BLOCKS),
        manner in manners(),
    ) {
        let run = |manner| {
            let mut world = World::new(manner);
            ops.iter().for_each(|op| world.perform(op));
            world.checkpoint();
            (world.disk.events, world.live.tree)
        };
        prop_assert_eq!(run(manner), run(SIMPLE));
    }
}

fn world_of(ops: &[Op]) -> World {
    let mut world = World::new(SIMPLE);
    ops.iter().for_each(|op| world.perform(op));
    world.checkpoint();
    world.disk.events.clear();
    world
}

#[test]
fn a_volume_that_grew_has_its_old_root_below_a_new_one() {
    let mut world = world_of(&[Op::Write(1)]);
    let old = world.live.tree;
    assert_eq!(old.height, 1);
    world.perform(&Op::Write(1000));
    world.checkpoint();
    let tree = world.live.tree;
    assert_eq!(tree.height, 5);
    let nodes = world.reach(&tree).nodes;
    assert!(
        nodes.contains(&(old.root_id(), old.root)),
        "the leaf of the old tree stays where it is"
    );
    // There is a path up from each of the two leaves, four levels and a common root.
    assert_eq!(nodes.len(), 1 + 3 + 4 + 1);
    assert!(
        !world
            .disk
            .events
            .iter()
            .any(|event| matches!(event, Event::Node(_)))
    );
}

#[test]
fn unmapping_all_leaves_a_hole_and_drops_all() {
    let ops: Vec<_> = (0..300).map(Op::Write).collect();
    let mut world = world_of(&ops);
    let reached = world.reach(&world.live.tree);
    world.perform(&Op::Clear(0..u64::MAX));
    world.checkpoint();
    assert!(world.live.tree.root.is_hole());
    assert_eq!(
        world.disk.events.len(),
        reached.nodes.len() + reached.blocks.len()
    );
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let mut world = world_of(&[Op::Write(100)]);
    let tree = world.live.tree;
    for op in [
        Op::Zero(5),
        Op::Zero(102),
        Op::Clear(200..1000),
        Op::Clear(0..90),
    ] {
        world.perform(&op);
    }
    world.checkpoint();
    assert_eq!(
        (world.live.tree, world.disk.events.as_slice()),
        (tree, [].as_slice())
    );
}

#[test]
fn a_small_budget_is_kept_in_a_large_unmapping() {
    let mut world = World::new(SIMPLE);
    world.cache = NodeCache::new(1 << 20);
    (0..1000).for_each(|index| world.perform(&Op::Write(index)));
    world.checkpoint();
    world.live.layers.clear(0..2000, |_| ());
    world.live.layers.close(world.epoch);
    let closed = Arc::clone(&world.live.layers.closed()[0]);
    let mut merge = Merge::new(world.live.tree, closed);
    let mut calls = 0;
    loop {
        let before = world.disk.events.len();
        let mut budget = 3;
        match merge.step(&mut world.cache, &mut world.disk, &mut budget) {
            Ok(Progress::Done) => break,
            Ok(Progress::More) => calls += 1,
            Err(Stop::Missing(missing)) => world.read(&missing),
            Err(Stop::NoSpace) => unreachable!("this disk is never full"),
        }
        assert!(
            world.disk.events.len() - before <= 3 * 10,
            "three nodes, and what is in them"
        );
    }
    assert!(calls > 100, "{calls}");
}

#[test]
fn a_new_node_is_in_the_cache_and_read_by_nobody() {
    let mut world = world_of(&[]);
    world.perform(&Op::Write(7));
    world.checkpoint();
    let tree = world.live.tree;
    assert!(
        tree.look_up(&mut world.cache, 7)
            .is_ok_and(|pointer| !pointer.is_hole())
    );
}

#[test]
#[should_panic(expected = "layer of epoch 5")]
fn a_layer_that_is_not_younger_than_the_tree_is_refused() {
    let root = Pointer {
        birth: Epoch(5),
        sectors: 1,
        ..Pointer::HOLE
    };
    let tree = Tree::<512>::open(DatasetId(1), root, 2).expect("a height");
    let closed = Closed::new(Layer::new(), Epoch(5), crate::map::Tally::default());
    let _ = Merge::new(tree, Arc::new(closed));
}

/// Loses the node `id`, changes block 101, and checks which blocks are known after the merge.
fn lose(id: NodeId) {
    let ops: Vec<_> = (0..300).map(Op::Write).collect();
    let mut world = world_of(&ops);
    let reached = world.reach(&world.live.tree);
    let lost = *reached
        .nodes
        .iter()
        .find(|node| node.0 == id)
        .expect("it is in the tree");
    let blocks = Tree::<4>::blocks_of(id);
    assert!(blocks.contains(&101));

    world.cache = NodeCache::new(0);
    world.perform(&Op::Write(101));
    world.perform(&Op::Clear(102..103));
    world.live.layers.close(world.epoch);
    let closed = Arc::clone(&world.live.layers.closed()[0]);
    let mut merge = Merge::new(world.live.tree, Arc::clone(&closed));
    loop {
        match merge.step(&mut world.cache, &mut world.disk, &mut usize::MAX.clone()) {
            Ok(progress) => break assert_eq!(progress, Progress::Done),
            Err(Stop::Missing(missing)) if missing.pointer == lost.1 => {
                world.cache.fill_lost(&missing)
            }
            Err(Stop::Missing(missing)) => world.read(&missing),
            Err(Stop::NoSpace) => unreachable!("this disk is never full"),
        }
    }
    let tree = merge.tree().expect("it is done");
    world.cache = NodeCache::new(0);
    for index in 0..310 {
        let found = world.retry(|cache| tree.look_up(cache, index));
        match world.model.get(&index) {
            Some(_) if index != 101 && blocks.contains(&index) => {
                assert!(found.is_lost(), "{index}")
            }
            Some(block) => assert_eq!(found, *block),
            // Nobody knows which blocks below a lost node were never written.
            None => assert_eq!(
                found.is_lost(),
                blocks.contains(&index) && index != 102,
                "{index}"
            ),
        }
    }
    let dropped = world
        .disk
        .events
        .iter()
        .filter(|event| !matches!(event, Event::Written(..)));
    assert!(dropped.clone().count() > 0);
    assert!(dropped.clone().all(|event| match event {
        Event::Block(pointer) | Event::Node(pointer) => !pointer.is_lost(),
        Event::Written(..) => true,
    }));

    let mut walk = Walk::new(&tree, 0, None);
    let mut visited = 0;
    loop {
        let step = walk.step(&mut world.cache, &mut usize::MAX.clone(), |visit| {
            let (Visit::Block { pointer, .. } | Visit::Node { pointer, .. }) = visit;
            visited += usize::from(!pointer.is_lost());
        });
        match step {
            Ok(progress) => break assert_eq!(progress, Progress::Done),
            Err(missing) => world.read(&missing),
        }
    }
    assert!(visited > 200, "{visited}");
}

#[test]
fn a_lost_leaf_leaves_its_blocks_lost_and_takes_new_ones() {
    lose(NodeId {
        volume: DatasetId(1),
        level: 0,
        index: 101 / 4,
    });
}

#[test]
fn a_lost_inner_node_leaves_all_below_lost_and_takes_new_ones() {
    lose(NodeId {
        volume: DatasetId(1),
        level: 1,
        index: 101 / 16,
    });
    lose(NodeId {
        volume: DatasetId(1),
        level: 2,
        index: 101 / 64,
    });
}
