//! Pools whose volumes are overwritten again and again: free space lies in single sectors, and
//! still a block costs little work beside its write.

use pages::Pages;

use crate::engine::tests::room::full::noise;
use crate::engine::tests::world::World;
use crate::engine::{Limits, Request};
use crate::format::DatasetId;
use crate::vdev::TopLevelKind;

const BLOCK: u64 = 4096;
/// Writes that are outstanding at once.
const TOGETHER: u64 = 16;
const SIZE: u64 = 256 << 20;

/// Returns a number below a limit, and changes the seed.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed % below
}

/// Makes a pool of one disk and a volume of small blocks that fills `percent` per cent of it.
fn filled(percent: u64) -> (World, DatasetId, u64) {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, SIZE, Limits::default());
    let blocks = SIZE / BLOCK * percent / 100;
    let volume = world.create_volume("v", blocks * BLOCK, BLOCK as u32);
    let step = 64;
    for at in (0..blocks).step_by(step as usize) {
        let len = step.min(blocks - at) * BLOCK;
        world.write(volume, at * BLOCK, &noise(len, at + 1), false);
    }
    world.checkpoint();
    (world, volume, blocks)
}

#[test]
fn checkpoints_stay_rare_where_all_of_a_volume_is_written_over_in_any_order() {
    for percent in [50, 70, 85] {
        let (mut world, volume, blocks) = filled(percent);
        let data = Pages::from_bytes(&noise(BLOCK, 7));
        let mut seed = 11;
        let mut each = Vec::new();
        for _ in 0..3 {
            let before = world.pool.schedule.made();
            for _ in 0..blocks / 2 / TOGETHER {
                for _ in 0..TOGETHER {
                    world.begin(Request::Write {
                        dataset: volume,
                        offset: random(&mut seed, blocks) * BLOCK,
                        data: data.clone(),
                        durable: true,
                    });
                }
                world.settle();
            }
            let made = (world.pool.schedule.made() - before).max(1);
            each.push(blocks / 2 / made);
        }
        println!("{percent} %: writes for each checkpoint: {each:?}");
        // A quarter of the space left may be taken before a checkpoint begins; the rest waits to
        // become free.
        let left = SIZE / BLOCK * (96 - percent) / 100;
        let last = each.last().copied().unwrap_or(0);
        assert!(last >= left / 10, "{last} writes of {left} free sectors");
        world.check();
    }
}
