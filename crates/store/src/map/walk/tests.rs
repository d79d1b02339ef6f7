//! Tests of walks against the blocks and nodes that a tree reaches.

use proptest::prelude::*;

use super::super::world::{Op, SIMPLE, World, ops};
use super::*;

const BLOCKS: u64 = 1200;

/// Returns all visits of a walk from `start` to its end, or until `stop_after` steps, and its
/// position then.
fn visits(
    world: &mut World,
    tree: &Tree<4>,
    (start, stop_after): (u64, usize),
    newer_than: Option<Epoch>,
) -> (Vec<Visit>, u64) {
    let mut walk = Walk::new(tree, start, newer_than);
    let mut found = Vec::new();
    for step in 0.. {
        let mut budget = 1 + step % 3;
        if step == stop_after {
            break;
        }
        if step % 5 == 0 {
            for missing in walk.upcoming(&world.cache, 3) {
                world.read(&missing);
            }
        }
        match walk.step(&mut world.cache, &mut budget, |visit| found.push(visit)) {
            Ok(Progress::Done) => break,
            Ok(Progress::More) => {}
            Err(missing) => world.read(&missing),
        }
    }
    (found, walk.position())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_walk_visits_each_block_and_node_once_also_when_it_goes_on_later(
        ops in ops(BLOCKS),
        stops in prop::collection::vec(1..30_usize, 0..6),
        newer in prop::option::of(0..6_u64),
    ) {
        let mut world = World::new(SIMPLE);
        ops.iter().for_each(|op| world.perform(op));
        world.checkpoint();
        world.cache = NodeCache::new(0);
        let tree = world.live.tree;
        let newer = newer.map(Epoch);
        let mut found = Vec::new();
        let mut position = 0;
        for stop in stops.into_iter().chain([usize::MAX]) {
            let (more, at) = visits(&mut world, &tree, (position, stop), newer);
            prop_assert!(at >= position);
            found.extend(more);
            position = at;
        }
        let is_wanted = |pointer: &Pointer| newer.is_none_or(|epoch| pointer.birth > epoch);
        let reached = world.reach(&tree);
        let blocks: Vec<_> = reached.blocks.into_iter().filter(|(_, at)| is_wanted(at)).collect();
        let nodes: Vec<_> = reached.nodes.into_iter().filter(|(_, at)| is_wanted(at)).collect();
        let mut found_blocks = Vec::new();
        let mut found_nodes = Vec::new();
        for visit in found {
            match visit {
                Visit::Block { index, pointer } => found_blocks.push((index, pointer)),
                Visit::Node { id, pointer } => found_nodes.push((id, pointer)),
            }
        }
        prop_assert_eq!(found_blocks, blocks);
        prop_assert_eq!(found_nodes, nodes);
        prop_assert_eq!(position, tree.end());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_walk_goes_on_behind_nodes_that_cannot_be_read(
        ops in ops(BLOCKS),
        unreadable in prop::collection::btree_set((0..4_u8, 0..40_u64), 0..8),
    ) {
        let mut world = World::new(SIMPLE);
        ops.iter().for_each(|op| world.perform(op));
        world.checkpoint();
        world.cache = NodeCache::new(0);
        let tree = world.live.tree;
        let is_unreadable = |id: NodeId| unreadable.contains(&(id.level, id.index));
        let mut walk = Walk::new(&tree, 0, None);
        let (mut blocks, mut nodes) = (Vec::new(), Vec::new());
        let mut note = |visit| match visit {
            Visit::Block { index, pointer } => blocks.push((index, pointer)),
            Visit::Node { id, pointer } => nodes.push((id, pointer)),
        };
        loop {
            match walk.step(&mut world.cache, &mut 100, &mut note) {
                Ok(Progress::Done) => break,
                Ok(Progress::More) => {}
                Err(missing) if is_unreadable(missing.id) => walk.pass_over(&mut note),
                Err(missing) => world.read(&missing),
            }
        }
        // The nodes above it are visited as well, each when everything that can be found below was
        // visited.
        let is_hidden = |level: u8, index: u64| {
            (level..tree.height).any(|above| {
                let index = index / 4_u64.pow((above - level).into());
                is_unreadable(NodeId { volume: tree.volume, level: above, index })
            })
        };
        let reached = world.reach(&tree);
        let reached_blocks = reached.blocks.into_iter();
        let expected: Vec<_> = reached_blocks.filter(|(index, _)| !is_hidden(0, index / 4)).collect();
        prop_assert_eq!(blocks, expected);
        let reached_nodes = reached.nodes.into_iter();
        let expected: Vec<_> =
            reached_nodes.filter(|(id, _)| !is_hidden(id.level, id.index)).collect();
        prop_assert_eq!(nodes, expected);
    }
}

#[test]
fn a_walk_over_what_is_old_reads_nothing() {
    let mut world = World::new(SIMPLE);
    (0..100).for_each(|index| world.perform(&Op::Write(index)));
    world.checkpoint();
    let tree = world.live.tree;
    let mut walk = Walk::new(&tree, 0, Some(tree.root.birth));
    let mut empty = NodeCache::new(0);
    let step = walk.step(&mut empty, &mut 1, |visit| unreachable!("{visit:?}"));
    assert_eq!(step, Ok(Progress::Done));
}
