//! Tests of counts: however many writes wait to be looked up, the figures are those of the model.

use super::super::world::{SIMPLE, World};
use super::*;
use crate::map::tally::MOST_NOTED;

/// Number of blocks of the volume. It is more than are ever noted.
const BLOCKS: u64 = 3 * MOST_NOTED as u64;

fn count(blocks: impl Iterator<Item = Pointer>) -> Count {
    blocks.fold(Count::default(), |sum, pointer| Count {
        blocks: sum.blocks + 1,
        sectors: sum.sectors + u64::from(pointer.sectors),
        whole: sum.whole + 1,
    })
}

/// Makes a volume whose tree has two thirds of the blocks, and counts them. All nodes are in memory
/// if `is_cached`.
fn volume(is_cached: bool) -> (World, Count) {
    let mut world = World::new(SIMPLE);
    world.cache = NodeCache::new(usize::MAX);
    for index in (0..BLOCKS).filter(|index| index % 3 > 0) {
        let pointer = world.disk.pointer(world.epoch);
        world.live.layers.insert(index, pointer);
        world.model.insert(index, pointer);
    }
    world.checkpoint();
    if !is_cached {
        world.cache = NodeCache::new(usize::MAX);
    }
    let of_tree = count(world.model.values().copied());
    (world, of_tree)
}

/// Writes a block through the map, which counts it.
fn write(world: &mut World, index: u64) {
    let pointer = world.disk.pointer(world.epoch);
    world.live.insert(&world.cache, Vec::new, index, pointer);
    world.model.insert(index, pointer);
}

/// Returns the block number of the `nth` write. Each comes once, far from the last one.
fn scattered(nth: u64) -> u64 {
    nth * 5 % BLOCKS
}

#[test]
fn figures_are_exact_before_and_after_the_noted_places_are_looked_up() {
    let (mut world, of_tree) = volume(true);
    for nth in 0..2 * MOST_NOTED as u64 + 100 {
        write(&mut world, scattered(nth));
        let waits = world.live.layers.tally().has_noted();
        assert_eq!(waits, (nth + 1) % MOST_NOTED as u64 != 0, "write {nth}");
        if nth % 500 == 0 || !waits {
            assert!(world.live.tally(&world.cache).is_exact());
            let now = world.live.count(&world.cache, of_tree, BLOCKS);
            assert_eq!(now, count(world.model.values().copied()), "write {nth}");
        }
    }
}

#[test]
fn a_block_that_is_written_twice_replaces_one_block() {
    let (mut world, of_tree) = volume(true);
    for index in [1, 1, 2, 1, 0, 0] {
        write(&mut world, index);
    }
    let now = world.live.count(&world.cache, of_tree, BLOCKS);
    assert_eq!(now, count(world.model.values().copied()));
}

/// A snapshot closes a layer, and looks nothing up: with 4095 noted places it would take
/// milliseconds longer.
#[test]
fn a_layer_that_closes_keeps_its_notes_until_somebody_asks() {
    let (mut world, of_tree) = volume(true);
    for round in 0..3 {
        // A place whose block lies in a closed layer replaces that block, not the tree's.
        (0..100 << round).for_each(|nth| write(&mut world, scattered(nth)));
        world.live.layers.close(world.epoch);
        let closed = Arc::clone(&world.live.layers.closed()[round]);
        assert!(!closed.tally().is_exact(), "the places are only noted");
        if round == 1 {
            let now = world.live.count(&world.cache, of_tree, BLOCKS);
            assert_eq!(now, count(world.model.values().copied()));
            assert!(closed.tally().is_exact(), "the places were looked up");
        }
    }
    let now = world.live.count(&world.cache, of_tree, BLOCKS);
    assert_eq!(now, count(world.model.values().copied()));
    let mut closed = world.live.closed(&world.cache);
    assert!(closed.all(|(_, tally)| tally.is_exact()));
}

/// The layers below a closed one may be in the tree by the time that somebody asks.
#[test]
fn notes_that_outlast_a_merge_below_them_count_the_blocks_that_were_there() {
    let (mut world, _) = volume(true);
    let mut models = Vec::new();
    for round in 0..3 {
        (0..100 << round).for_each(|nth| write(&mut world, scattered(nth)));
        world.live.layers.close(world.epoch);
        world.epoch = world.epoch.next();
        models.push(count(world.model.values().copied()));
    }
    assert!(world.merge_lowest());
    let mut closed = world.live.layers.closed().iter();
    assert!(closed.all(|closed| !closed.tally().is_exact()));
    let now = world.live.count(&world.cache, models[0], BLOCKS);
    assert_eq!(now, models[2]);
    let mut closed = world.live.closed(&world.cache);
    assert!(closed.all(|(_, tally)| tally.is_exact()));
}

#[test]
fn places_below_nodes_that_are_not_in_memory_stay_unknown() {
    let (mut world, of_tree) = volume(false);
    (0..100).for_each(|nth| write(&mut world, scattered(nth)));
    assert!(!world.live.tally(&world.cache).is_exact());
    // Two thirds of the places have blocks, so about 67 of 100 writes replace one.
    let now = world.live.count(&world.cache, of_tree, BLOCKS);
    assert_eq!(now.blocks, of_tree.blocks + 100 - 67);
    // The map is still right.
    let index = scattered(7);
    let found = world.live.look_up(&mut world.cache, index);
    assert_eq!(found, Ok(world.model[&index]));
}
