//! Cache vdevs give the data that they got, and never anything else. Whatever happens to them, the
//! pool answers.

use std::sync::Arc;

use crate::cache::Cache;
use crate::engine::CacheStatus;
use crate::engine::tests::world::World;
use crate::engine::{Answer, Limits, Request, RequestId};
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::{LeafSpec, TopLevelKind, VdevState};

pub(in crate::engine::tests) const BLOCK: usize = 128 << 10;
pub(in crate::engine::tests) const BLOCKS: usize = 384;
const SIZE: u64 = 256 << 20;
/// Bytes of memory: room for two thirds of the volume, beside the second level.
const MEMORY: usize = 44 << 20;

pub(in crate::engine::tests) fn content(block: usize, version: u64) -> Vec<u8> {
    let mut state = block as u64 ^ version << 32 | 1;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695);
        state.to_le_bytes()
    };
    (0..BLOCK / 8).flat_map(|_| word()).collect()
}

/// Makes a pool with a cache vdev, and a volume that is larger than memory.
pub(in crate::engine::tests) fn with_cache() -> (World, DatasetId) {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SIZE, Limits::default());
    world.cache_bytes = MEMORY;
    world.pool.cache = Arc::new(Cache::new(MEMORY, 7));
    world.disks.push(Default::default());
    let leaf = world
        .pool
        .add_cache(&LeafSpec::new(101, SIZE))
        .expect("a cache");
    world.leaves.insert(leaf.0, 1);
    let volume = world.create_volume("v", (BLOCK * BLOCKS) as u64, BLOCK as u32);
    for block in 0..BLOCKS {
        world.write(volume, (block * BLOCK) as u64, &content(block, 1), false);
    }
    world.checkpoint();
    (world, volume)
}

fn is_block(world: &mut World, volume: DatasetId, block: usize, version: u64) {
    let bytes = world.read(volume, (block * BLOCK) as u64, BLOCK as u32);
    assert!(bytes == content(block, version), "block {block}");
}

/// Reads everything twice, in time.
pub(in crate::engine::tests) fn read_all(world: &mut World, volume: DatasetId, version: u64) {
    for block in 0..BLOCKS {
        world.now_us += 10_000;
        is_block(world, volume, block, version);
        is_block(world, volume, block, version);
    }
}

pub(in crate::engine::tests) fn cache(world: &World) -> CacheStatus {
    world.pool.status().caches[0].clone()
}

#[test]
fn what_memory_gave_up_is_read_from_the_cache_vdev() {
    let (mut world, volume) = with_cache();
    for _ in 0..4 {
        read_all(&mut world, volume, 1);
    }
    let status = cache(&world);
    assert_eq!(
        (status.state, status.errors),
        (VdevState::Online, Default::default())
    );
    assert!(status.hits > 100 && status.rejected == 0, "{status:?}");
    assert!(
        status.used > 0 && status.used <= status.written_bytes + (1 << 20),
        "{status:?}"
    );
    assert!(status.written_bytes <= status.size, "{status:?}");
    let io = status.io;
    assert!(
        io.read.requests > 100 && io.read.requests <= status.hits,
        "{status:?}"
    );
    assert_eq!(io.read.bytes % io.read.requests, 0, "{status:?}");
    assert!(io.write.bytes >= status.written_bytes, "{status:?}");
    // Both levels together stay within the cap of the cache.
    let (first, second) = (
        world.pool.cache.statistics().bytes as usize,
        world.pool.cache.reserved(),
    );
    assert!(
        second > 5 << 20 && first + second <= MEMORY,
        "{first} + {second}"
    );
    // Rewritten blocks read as their new data, on whichever level the old data was.
    for block in (0..BLOCKS).step_by(3) {
        world.write(volume, (block * BLOCK) as u64, &content(block, 2), false);
    }
    for round in 0..3 {
        for block in 0..BLOCKS {
            world.now_us += 10_000;
            let version = 1 + u64::from(block % 3 == 0);
            is_block(&mut world, volume, block, version);
            assert!(round < 3);
        }
    }
}

#[test]
fn a_cache_vdev_that_rots_costs_reads_of_the_pool() {
    let (mut world, volume) = with_cache();
    for _ in 0..3 {
        read_all(&mut world, volume, 1);
    }
    let first = (1 << 20) / SECTOR_SIZE as u64;
    for (_, sector) in world.disks[1].range_mut(first..) {
        sector[11] ^= 4;
    }
    let before = cache(&world).rejected;
    read_all(&mut world, volume, 1);
    let status = cache(&world);
    assert!(status.rejected > before, "{status:?}");
    assert!(status.errors.checksum > 0, "{status:?}");
}

#[test]
fn a_cache_vdev_that_is_pulled_or_hangs_is_not_missed() {
    for hangs in [false, true] {
        let (mut world, volume) = with_cache();
        for _ in 0..3 {
            read_all(&mut world, volume, 1);
        }
        assert!(cache(&world).hits > 0);
        match hangs {
            false => world.dead.insert(1),
            true => world.stuck.insert(1),
        };
        world.is_lazy = true;
        read_all(&mut world, volume, 1);
        read_all(&mut world, volume, 1);
        let (pool, status) = (world.pool.status(), cache(&world));
        assert_eq!((pool.state, pool.suspended), (VdevState::Online, None));
        let expected = if hangs {
            VdevState::Faulted
        } else {
            VdevState::Removed
        };
        assert_eq!(status.state, expected);
        // The cache vdev is used again, and begins empty.
        world.dead.clear();
        world.stuck.clear();
        world.is_lazy = false;
        let now = world.now_us;
        world.pool.online_cache(101, now).expect("there is one");
        assert!(world.pool.online_cache(5, now).is_err());
        assert_eq!(
            (cache(&world).state, cache(&world).hits),
            (VdevState::Online, 0)
        );
        for _ in 0..3 {
            read_all(&mut world, volume, 1);
        }
        let status = cache(&world);
        assert!(
            status.hits > 0 && status.errors == Default::default(),
            "{status:?}"
        );
    }
}

#[test]
fn an_opening_needs_no_cache_vdev_and_believes_nothing_that_lies_there() {
    let (mut world, volume) = with_cache();
    read_all(&mut world, volume, 1);
    world.checkpoint();
    world.reopen().expect("opens");
    let status = cache(&world);
    assert_eq!((status.state, status.used), (VdevState::Online, 0));
    read_all(&mut world, volume, 1);
    let gone = std::mem::take(&mut world.disks[1]);
    world.reopen().expect("opens without it");
    assert_eq!(cache(&world).state, VdevState::Unavailable);
    assert_eq!(world.pool.status().state, VdevState::Online);
    read_all(&mut world, volume, 1);
    // The device comes back with its former data.
    world.disks[1] = gone;
    world.reopen().expect("opens");
    assert_eq!(cache(&world).state, VdevState::Online);
    read_all(&mut world, volume, 1);
    let now = world.now_us;
    world.pool.remove_cache(101, now).expect("there is one");
    assert!(world.pool.remove_cache(101, now).is_err());
    world.checkpoint();
    assert!(world.pool.status().caches.is_empty());
    world.reopen().expect("opens");
    assert!(world.pool.status().caches.is_empty());
    read_all(&mut world, volume, 1);
}

#[test]
fn a_cache_vdev_that_was_put_aside_gives_nothing_until_it_is_used_again() {
    let (mut world, volume) = with_cache();
    for _ in 0..3 {
        read_all(&mut world, volume, 1);
    }
    assert!(cache(&world).hits > 0 && world.pool.cache.reserved() > 0);
    let now = world.now_us;
    world.pool.offline_cache(101, now).expect("there is one");
    world.pool.offline_cache(101, now).expect("it is");
    assert!(world.pool.offline_cache(5, now).is_err());
    let leaf = cache(&world).leaf;
    assert!(!world.pool.uses(leaf) && world.pool.cache.reserved() == 0);
    // Its device may do anything now.
    world.dead.insert(1);
    read_all(&mut world, volume, 1);
    world.dead.clear();
    assert_eq!(cache(&world).state, VdevState::Offline);
    world.checkpoint();
    for _ in 0..2 {
        world.reopen().expect("opens");
        let status = cache(&world);
        assert_eq!(
            (status.state, status.is_in_use),
            (VdevState::Offline, false)
        );
    }
    let now = world.now_us;
    world.pool.online_cache(101, now).expect("there is one");
    for _ in 0..3 {
        read_all(&mut world, volume, 1);
    }
    assert!(cache(&world).hits > 0);
    world.checkpoint();
    world.reopen().expect("opens");
    assert_eq!(cache(&world).state, VdevState::Online);
}

#[test]
fn a_cache_vdev_that_grew_begins_empty_and_is_as_large_as_its_device() {
    let (mut world, volume) = with_cache();
    for _ in 0..3 {
        read_all(&mut world, volume, 1);
    }
    let (before, now) = (cache(&world), world.now_us);
    let reserved = world.pool.cache.reserved();
    assert!(before.hits > 0 && before.used > 0, "{before:?}");
    // With its former size it keeps its data; an impossible size changes nothing.
    world.pool.expand_cache(101, SIZE, now).expect("as before");
    assert!(world.pool.expand_cache(101, SIZE / 2, now).is_err());
    assert!(world.pool.expand_cache(5, 2 * SIZE, now).is_err());
    assert_eq!(cache(&world), before);
    // Reads wait for blocks of it meanwhile: the pool serves them.
    let waiting: Vec<RequestId> = (0..BLOCKS)
        .map(|block| {
            world.begin(Request::Read {
                dataset: volume,
                offset: (block * BLOCK) as u64,
                len: BLOCK as u32,
            })
        })
        .collect();
    assert!(cache(&world).hits > before.hits);
    world.resize_disk(1, 2 * SIZE);
    world.pool.expand_cache(101, 2 * SIZE, now).expect("larger");
    let answers = world.settle();
    for (block, id) in waiting.iter().enumerate() {
        let answer = answers.iter().find(|(of, _)| of == id);
        match answer {
            Some((_, Ok(Answer::Data(data)))) => assert!(data.to_vec() == content(block, 1)),
            other => panic!("block {block}: {other:?}"),
        }
    }
    let status = cache(&world);
    assert_eq!(
        (status.state, status.rejected, status.size),
        (VdevState::Online, 0, before.size + SIZE)
    );
    assert!(status.written_bytes < before.written_bytes, "{status:?}");
    assert!(world.pool.cache.reserved() >= reserved);
    for _ in 0..3 {
        read_all(&mut world, volume, 1);
    }
    let status = cache(&world);
    assert!(status.hits > 0 && status.rejected == 0, "{status:?}");
    // Later openings find the larger size.
    world.checkpoint();
    world.reopen().expect("opens");
    let status = cache(&world);
    assert_eq!(
        (status.state, status.size),
        (VdevState::Online, before.size + SIZE)
    );
    read_all(&mut world, volume, 1);
    // An offline cache vdev grows too, and stays unused.
    let now = world.now_us;
    world.pool.offline_cache(101, now).expect("there is one");
    world.pool.expand_cache(101, 3 * SIZE, now).expect("larger");
    let status = cache(&world);
    assert_eq!(
        (status.state, status.is_in_use, status.size),
        (VdevState::Offline, false, before.size + 2 * SIZE)
    );
}
