//! Work that waits for late devices is bounded, and a checkpoint that changes wait for is made at
//! once.

use super::super::checkpoint::making::NODES_IN_FLIGHT;
use super::super::{Limits, Request};
use super::world::World;
use crate::format::node::FAN_OUT;
use crate::vdev::TopLevelKind;

const BLOCK: u64 = 4096;
const LEAF: u64 = FAN_OUT as u64 * BLOCK;

#[test]
fn a_checkpoint_has_few_nodes_in_memory_however_long_devices_take_for_them() {
    // Each call may do all its work.
    let limits = Limits {
        budget: usize::MAX,
        ..Limits::default()
    };
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 64 << 20, limits);
    let leaves = 4 * NODES_IN_FLIGHT as u64;
    let volume = world.create_volume("v", leaves * LEAF, BLOCK as u32);
    for leaf in 0..leaves {
        world.write(volume, leaf * LEAF, &[7; BLOCK as usize], false);
    }
    world.settle();
    let before = world.pool.persisted.epoch;
    world.stuck.insert(0);
    world.pool.schedule.want();
    let mut most = 0;
    while world.pool.persisted.epoch == before {
        world.settle();
        let making = world.pool.checkpoint.as_ref();
        most = most.max(making.map_or(0, |making| making.nodes_in_flight()));
        assert!(!world.unanswered.is_empty(), "it waits for nothing");
        world.answer_stuck();
    }
    assert_eq!(most, NODES_IN_FLIGHT, "of {leaves} leaves");
    world.stuck.clear();
    world.answer_stuck();
    world.settle();
    world.check();
}

/// Writes over all of a large volume change so many nodes that they wait for checkpoints. These are
/// no background work, of which a little is done now and then.
#[test]
fn a_checkpoint_that_writes_wait_for_is_made_at_once() {
    let limits = Limits {
        updates: 4,
        ..Limits::default()
    };
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 64 << 20, limits);
    let volume = world.create_volume("v", 64 * LEAF, BLOCK as u32);
    let (before_us, first) = (world.now_us, world.pool.persisted.epoch);
    let mut outstanding = Vec::new();
    for leaf in 0..64 {
        outstanding.push(world.begin(Request::Write {
            dataset: volume,
            offset: leaf * LEAF,
            data: pages::Pages::from_bytes(&[7; BLOCK as usize]),
            durable: true,
        }));
        while outstanding.len() > 8 {
            assert!(world.do_one(), "a write is never answered");
            outstanding.retain(|id| !world.is_answered(*id));
        }
    }
    let made = world.pool.persisted.epoch.0 - first.0;
    assert!(made > 3, "they waited for {made} checkpoints");
    // The disks take no time.
    let took_us = world.now_us - before_us;
    assert!(took_us < 2_000, "{took_us} us for {made} checkpoints");
    world.settle();
    world.check();
}
