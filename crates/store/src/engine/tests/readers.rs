//! Readers beside the engine of volumes that are destroyed or rolled back while they are read.

use pages::Pages;

use super::super::Limits;
use super::world::{self, World};
use crate::beside::{Located, Tickets, Verified};
use crate::cache::Key;
use crate::catalog::request::{Rollback, TakeSnapshots};
use crate::format::DatasetId;
use crate::vdev::{TopLevelKind, sector_offset};

const BLOCK: u64 = 4096;
/// Blocks of the volume that is read.
const BLOCKS: u64 = 8;
/// Size of the disk. A few rounds of writes use all of its places.
const DISK: u64 = 16 << 20;

/// Returns blocks that cannot be compressed, and differ by their numbers and the round.
fn bytes(first: u64, count: u64, round: u64) -> Vec<u8> {
    let words = (first * BLOCK / 8..(first + count) * BLOCK / 8).map(|at| {
        let mixed = (at << 8 | round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// Makes a pool with a volume whose leaf of the map is published, and whose blocks are on the disk
/// alone.
fn world() -> (World, DatasetId) {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, DISK, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    world.write(volume, 0, &bytes(0, BLOCKS, 0), false);
    world.checkpoint();
    publish(&mut world, volume);
    (world, volume)
}

fn publish(world: &mut World, volume: DatasetId) {
    world.read(volume, 0, (BLOCKS * BLOCK) as u32);
    world.forget_cache();
}

/// Begins to read the volume, up to the places of its blocks.
fn locate(world: &World, volume: DatasetId) -> Option<Located> {
    let tickets = Tickets::take(&world.pool.cache, volume, 0..BLOCKS, None);
    tickets.locate(world.pool.published())
}

/// Reads the blocks from the disk as it is now.
fn finish(world: &World, located: &Located) -> Option<Verified> {
    let mut all = located.holes(BLOCK as usize);
    for row in located.rows().expect("few pieces") {
        let len = (row.sectors.end - row.sectors.start) * BLOCK;
        let offset = sector_offset(row.sectors.start);
        let device = world::read(&world.disks[0], offset, len as usize);
        all.add(located.verify(row.blocks, &device, BLOCK as usize)?);
    }
    located.fill(&world.pool.cache, &all, BLOCK as usize);
    Some(all)
}

fn all_of(read: &Verified) -> Pages {
    read.part(0..(BLOCKS * BLOCK) as usize, BLOCK as usize)
}

fn is_in_cache(world: &World, volume: DatasetId) -> bool {
    let volume = volume.0.into();
    (0..BLOCKS).any(|block| world.pool.cache.holds(Key { volume, block }))
}

#[test]
fn a_volume_that_is_destroyed_while_it_is_read_shows_nothing_of_a_new_one() {
    let (mut world, volume) = world();
    let [early, late] = [0, 1].map(|_| locate(&world, volume).expect("it is published"));
    world.destroy("a");
    // Nobody finds a place of the volume any more.
    assert!(locate(&world, volume).is_none());
    assert!(!early.still_lie(world.pool.published(), 0..BLOCKS));
    // The bytes still lie there. A read that began before may return them, and keeps nothing.
    let read = finish(&world, &early).expect("nothing was written over them");
    assert!(all_of(&read).to_vec() == bytes(0, BLOCKS, 0));
    assert!(!is_in_cache(&world, volume), "a volume that is gone");
    // The new volume has the old one's name, and soon its places.
    let new = world.create_volume("a", 1 << 20, BLOCK as u32);
    assert_ne!(new, volume, "a number is never used again");
    let is_reused = (1..200).any(|round| {
        world.write(new, 0, &bytes(0, 64, round), false);
        world.advance();
        finish(&world, &late).is_none()
    });
    assert!(is_reused, "places of the old volume are never used again");
    assert!(!is_in_cache(&world, volume));
    publish(&mut world, new);
    assert!(locate(&world, volume).is_none() && locate(&world, new).is_some());
}

#[test]
fn a_volume_that_is_rolled_back_while_it_is_read_shows_nothing_that_it_lost() {
    let (mut world, volume) = world();
    let request = TakeSnapshots {
        names: vec!["a@1".to_owned()],
        ..TakeSnapshots::default()
    };
    let taken = world.administer(Box::new(move |catalog, stamp| {
        catalog.plan_snapshot(&request, stamp)
    }));
    taken.expect("a snapshot");
    world.write(volume, 0, &bytes(0, BLOCKS, 1), false);
    world.checkpoint();
    publish(&mut world, volume);
    let located = locate(&world, volume).expect("it is published");
    let request = Rollback {
        snapshot: "a@1".to_owned(),
        ..Rollback::default()
    };
    let rolled = world.administer(Box::new(move |catalog, _| catalog.plan_rollback(&request)));
    rolled.expect("a rollback");
    // The volume keeps its number, and what was known by it is forgotten.
    assert!(locate(&world, volume).is_none());
    assert!(!located.still_lie(world.pool.published(), 0..BLOCKS));
    let read = finish(&world, &located).expect("nothing was written over them");
    assert!(
        all_of(&read).to_vec() == bytes(0, BLOCKS, 1),
        "a read that began before"
    );
    assert!(!is_in_cache(&world, volume), "bytes that the volume lost");
    assert!(world.read(volume, 0, (BLOCKS * BLOCK) as u32) == bytes(0, BLOCKS, 0));
    world.forget_cache();
    let again = locate(&world, volume).expect("it is published again");
    let read = finish(&world, &again).expect("they are right");
    assert!(all_of(&read).to_vec() == bytes(0, BLOCKS, 0));
    assert!(!located.still_lie(world.pool.published(), 0..BLOCKS));
}
