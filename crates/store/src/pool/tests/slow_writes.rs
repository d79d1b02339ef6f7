//! Devices that take what they are given late: what waits for them is bounded.

use super::super::Limits;
use super::super::checkpoint::NODES_IN_FLIGHT;
use super::world::World;
use crate::format::node::FAN_OUT;
use crate::vdev::Kind;

const BLOCK: u64 = 4096;
const LEAF: u64 = FAN_OUT as u64 * BLOCK;

#[test]
fn a_checkpoint_has_few_nodes_in_memory_however_long_devices_take_for_them() {
    // All that may be done is done in each call.
    let limits = Limits {
        budget: usize::MAX,
        ..Limits::default()
    };
    let mut world = World::of_size(Kind::Leaf, 1, 64 << 20, limits);
    let leaves = 4 * NODES_IN_FLIGHT as u64;
    let volume = world.create_volume("v", leaves * LEAF, BLOCK as u32);
    for leaf in 0..leaves {
        world.write(volume, leaf * LEAF, &[7; BLOCK as usize], false);
    }
    world.settle();
    let before = world.pool.persisted.epoch;
    world.stuck.insert(0);
    world.pool.is_checkpoint_wanted = true;
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
