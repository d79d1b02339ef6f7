//! Reading ahead: blocks come into the cache without a waiting request, and are never older than
//! the last write.

use super::super::{Limits, Plan, Request};
use super::world::World;
use crate::catalog::request::SetProperties;
use crate::format::{DatasetId, FAN_OUT};
use crate::vdev::TopLevelKind;
use std::collections::BTreeMap;

const BLOCK: u64 = 4096;

/// Makes a volume with 64 blocks of different bytes, none of them in memory.
fn world() -> (World, DatasetId) {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK as u32);
    for block in 0..64 {
        world.write(volume, block * BLOCK, &of(block, 0), false);
    }
    world.checkpoint();
    world.reopen().expect("opens");
    (world, volume)
}

fn of(block: u64, round: u8) -> [u8; BLOCK as usize] {
    [block as u8 + 64 * round + 1; BLOCK as usize]
}

fn is_in_memory(world: &mut World, dataset: DatasetId, block: u64) -> bool {
    let (offset, len) = (block * BLOCK, BLOCK as u32);
    world.is_answered_at_once(Request::Read {
        dataset,
        offset,
        len,
    })
}

fn read_ahead(world: &mut World, volume: DatasetId, bytes: std::ops::Range<u64>) {
    let now = world.now_us;
    world.pool.read_ahead(volume, bytes, now);
}

#[test]
fn what_is_read_ahead_is_in_memory_and_nothing_else() {
    let (mut world, volume) = world();
    read_ahead(&mut world, volume, 8 * BLOCK..24 * BLOCK);
    world.settle();
    let found: Vec<u64> = (0..64)
        .filter(|block| is_in_memory(&mut world, volume, *block))
        .collect();
    assert_eq!(found, (8..24).collect::<Vec<_>>());
    assert_eq!(world.read(volume, 9 * BLOCK, BLOCK as u32), of(9, 0));
    // Beyond the volume's end there is nothing.
    read_ahead(&mut world, volume, (1 << 20) - BLOCK..1 << 30);
    world.settle();
}

#[test]
fn however_many_readers_there_are_only_so_much_is_read_ahead_at_a_time() {
    let (mut world, volume) = world();
    let most = 16;
    let cap = world.pool.cache.cap();
    world.pool.cache.resize(most * BLOCK as usize * 8);
    world.holds_reads = true;
    for reader in 0..8 {
        read_ahead(
            &mut world,
            volume,
            8 * reader * BLOCK..8 * (reader + 1) * BLOCK,
        );
        world.settle();
    }
    assert_eq!(world.pool.reads.bytes_ahead(), most * BLOCK as usize);
    // Blocks that have arrived make room for others, and a waiting request gets its block whatever
    // is read ahead.
    world.pool.cache.resize(cap);
    assert_eq!(world.held(), most);
    world.answer_held(true);
    world.settle();
    assert_eq!(world.pool.reads.bytes_ahead(), 0);
    assert!((0..most as u64).all(|block| is_in_memory(&mut world, volume, block)));
    assert_eq!(world.read(volume, 63 * BLOCK, BLOCK as u32), of(63, 0));
    read_ahead(&mut world, volume, 16 * BLOCK..24 * BLOCK);
    world.settle();
    assert!((16..24).all(|block| is_in_memory(&mut world, volume, block)));
}

#[test]
fn what_is_written_meanwhile_is_what_is_read() {
    let (mut world, volume) = world();
    world.write(volume, 0, &of(0, 1), false);
    read_ahead(&mut world, volume, 0..4 * BLOCK);
    let request = Request::Write {
        dataset: volume,
        offset: BLOCK,
        data: pages::Pages::from_bytes(&of(1, 1)),
        durable: false,
    };
    world.ask(request).expect("written");
    world.settle();
    for (block, round) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
        let bytes = world.read(volume, block * BLOCK, BLOCK as u32);
        assert_eq!(bytes, of(block, round), "{block}");
    }
}

#[test]
fn what_is_not_to_be_cached_is_not_read_ahead() {
    let (mut world, volume) = world();
    let request = SetProperties {
        name: "a".into(),
        properties: BTreeMap::from([("primarycache".into(), "metadata".into())]),
        ..SetProperties::default()
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
    world.administer(plan).expect("set");
    read_ahead(&mut world, volume, 0..16 * BLOCK);
    world.settle();
    assert!((0..16).all(|block| !is_in_memory(&mut world, volume, block)));
}

#[test]
fn all_leaves_that_a_reader_will_need_are_published() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let leaf = FAN_OUT as u64;
    let volume = world.create_volume("a", 4 * leaf * BLOCK, BLOCK as u32);
    for number in 0..4 {
        world.write(volume, number * leaf * BLOCK, &of(number, 0), false);
    }
    world.checkpoint();
    world.reopen().expect("opens");
    let published = |world: &World| {
        let all = world.pool.published.all().into_iter();
        let mut leaves: Vec<u64> = all.map(|(_, block)| block / leaf).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    };
    assert!(published(&world).is_empty());
    let now = world.now_us;
    world.pool.publish_ahead(volume, leaf + 1..3 * leaf, now);
    world.settle();
    assert_eq!(published(&world), [1, 2]);
    // With bytes that are read ahead, the leaves behind them. Beyond the volume's end are none.
    read_ahead(&mut world, volume, 0..BLOCK);
    world.settle();
    assert_eq!(published(&world), [0, 1, 2, 3]);
    let (now, far) = (world.now_us, 1 << 40);
    world.pool.publish_ahead(volume, far..2 * far, now);
    world.settle();
}
