//! Tests of the differences between snapshots against those of their models.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::world::{FAN_OUT, Op, SIMPLE, World, ops};
use super::*;
use crate::format::DatasetId;

const BLOCKS: u64 = 1200;
type Blocks = BTreeMap<u64, Pointer>;

/// Returns all changes from `start` to the end, or until `stop_after` steps, and the position of
/// the comparison then.
fn changes(
    world: &mut World,
    trees: (Tree<FAN_OUT>, Tree<FAN_OUT>),
    (start, stop_after): (u64, usize),
) -> (Vec<Change>, u64) {
    let mut diff = Diff::new(trees.0, trees.1, start);
    let mut found = Vec::new();
    for step in 0..stop_after {
        if step % 5 == 0 {
            for missing in diff.upcoming(&world.cache, 4) {
                world.read(&missing);
            }
        }
        let mut budget = 1 + step % 3;
        match diff.step(&mut world.cache, &mut budget, |change| found.push(change)) {
            Ok(Progress::Done) => break,
            Ok(Progress::More) => {}
            Err(missing) => world.read(&missing),
        }
    }
    (found, diff.position())
}

fn check(older: &Blocks, newer: &Blocks, changes: &[Change]) {
    let mut result = older.clone();
    let mut end = 0;
    let mut told = BTreeSet::new();
    for change in changes {
        let range = match change {
            Change::Block { index, pointer } => {
                assert_ne!(
                    result.insert(*index, *pointer),
                    Some(*pointer),
                    "no difference"
                );
                *index..*index + 1
            }
            Change::Holes(range) => {
                let dropped: Vec<_> = result.range(range.clone()).map(|(&at, _)| at).collect();
                assert!(!dropped.is_empty(), "no difference in {range:?}");
                dropped
                    .iter()
                    .for_each(|at| assert!(result.remove(at).is_some()));
                range.clone()
            }
        };
        assert!(end <= range.start && !range.is_empty(), "{changes:?}");
        end = range.end;
        assert!(told.insert(range.start));
    }
    assert_eq!(result, *newer);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_differences_make_the_older_snapshot_the_newer(
        ops in ops(BLOCKS),
        stops in prop::collection::vec(1..30_usize, 0..5),
        (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let mut world = World::new(SIMPLE);
        world.perform(&Op::Snapshot);
        ops.iter().for_each(|op| world.perform(op));
        world.perform(&Op::Snapshot);
        world.checkpoint();
        world.cache = NodeCache::new(0);
        let (from, to) = (from.get(&world.snapshots), to.get(&world.snapshots));
        let (older, newer) = (from.model.clone(), to.model.clone());
        let trees = (from.map.tree, to.map.tree);
        let empty = Tree::new(DatasetId(1));
        let (all, _) = changes(&mut world, (empty, trees.1), (0, usize::MAX));
        check(&Blocks::new(), &newer, &all);
        let (all, position) = changes(&mut world, trees, (0, usize::MAX));
        check(&older, &newer, &all);
        prop_assert!(position >= trees.0.end().max(trees.1.end()));

        let mut model = older.clone();
        let mut at = 0;
        for stop in stops.into_iter().chain([usize::MAX]) {
            let (more, position) = changes(&mut world, trees, (at, stop));
            prop_assert!(position >= at);
            // Everything that was reported below the position is true.
            let known = newer.range(..position).chain(model.range(position..));
            let known: Blocks = known.map(|(&index, &pointer)| (index, pointer)).collect();
            check(&model, &known, &more);
            (model, at) = (known, position);
        }
        prop_assert_eq!(model, newer);
    }
}

#[test]
fn what_two_trees_share_is_not_read() {
    let mut world = World::new(SIMPLE);
    (0..256).for_each(|index| world.perform(&Op::Write(index)));
    world.perform(&Op::Snapshot);
    world.perform(&Op::Write(77));
    world.perform(&Op::Snapshot);
    world.checkpoint();
    world.cache = NodeCache::new(0);
    let trees = (world.snapshots[0].map.tree, world.snapshots[1].map.tree);
    let (all, _) = changes(&mut world, trees, (0, usize::MAX));
    let pointer = world.snapshots[1].model[&77];
    assert_eq!(all, [Change::Block { index: 77, pointer }]);
    assert_eq!(world.cache.len(), 2 * usize::from(trees.1.height));
}

#[test]
fn an_unmapped_subtree_is_told_in_one_range_and_not_read() {
    let mut world = World::new(SIMPLE);
    for index in [0, 1, 5000, 90_000, 200_000] {
        world.perform(&Op::Write(index));
    }
    world.perform(&Op::Snapshot);
    world.perform(&Op::Clear(1..1 << 40));
    world.perform(&Op::Snapshot);
    world.checkpoint();
    world.cache = NodeCache::new(0);
    let trees = (world.snapshots[0].map.tree, world.snapshots[1].map.tree);
    let (all, _) = changes(&mut world, trees, (0, usize::MAX));
    let ranges = [1..2, 4096..8192, 65_536..131_072, 196_608..262_144];
    assert_eq!(all, ranges.map(Change::Holes));
    assert_eq!(
        world.cache.len(),
        2 * usize::from(trees.0.height),
        "the way to block 0"
    );
}
