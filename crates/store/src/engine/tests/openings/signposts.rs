//! A record of the log becomes unreadable, and no copy has it. Acknowledged groups after it are
//! missed, even if the log went on far away.

use crate::engine::tests::room::full::noise;
use crate::engine::tests::world::{World, write};
use crate::engine::{Limits, OpenErrorKind};
use crate::format::{Address, DatasetId, SECTOR_SIZE};
use crate::log::replay;
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree, layout};
use pages::Pages;

const SIZE: u64 = 128 << 20;

/// Makes a pool of top-level vdevs without redundancy, and a volume that may fill three quarters of
/// them.
fn world(vdevs: u64, block_size: u64) -> (World, DatasetId, u64) {
    let top_level = |number| {
        let leaves = [LeafSpec::new(100 + number, SIZE)];
        TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, leaves)
    };
    let tree = VdevTree {
        top_levels: (0..vdevs).map(top_level).collect(),
    };
    let mut world = World::of_tree(tree, vdevs as usize, SIZE, Limits::default());
    let size = vdevs * SIZE / 4 * 3;
    let volume = world.create_volume("v", size, block_size as u32);
    (world, volume, size / block_size)
}

/// Opens the pool after the power failed, without the sector at a place. Returns the result.
fn open_without(world: &World, place: Address) -> Result<(), OpenErrorKind> {
    let mut other = world.clone_disks();
    let offset = layout::sector_offset(place.sector());
    let gone = Pages::from_bytes(&[0xee; SECTOR_SIZE]);
    write(&mut other.disks[usize::from(place.vdev())], offset, &gone);
    other.reopen_unchecked().map_err(|error| error.kind)
}

/// Writes durable blocks one after the other. If the log continues far away, and sometimes if it
/// does not, the record before is removed as soon as another group is durable. Returns how often
/// the log went far.
fn attack(
    world: &mut World,
    volume: DatasetId,
    block_size: u64,
    blocks: impl Iterator<Item = u64>,
) -> u32 {
    let mut far = 0;
    let mut attacked: Option<Address> = None;
    for (number, block) in blocks.enumerate() {
        let record = world.pool.commit.chain.next;
        let data = noise(block_size, number as u64 + 1);
        world.write(volume, block * block_size, &data, true);
        let chain = &world.pool.commit.chain;
        let is_behind = world.pool.persisted.seq + 2 < chain.next_seq;
        if let Some(place) = attacked.take().filter(|_| is_behind) {
            let opened = open_without(world, place);
            assert_eq!(
                opened,
                Err(OpenErrorKind::LogDamaged),
                "{place}, block {block}"
            );
        }
        let is_far = !replay::is_near(record, world.pool.commit.chain.next);
        far += u32::from(is_far);
        let is_attacked = is_far || number % 64 == 0;
        attacked = is_attacked.then_some(record);
    }
    world.check();
    far
}

#[test]
fn acknowledged_groups_far_behind_a_rotten_record_are_missed() {
    let block_size = 128 << 10;
    let (mut world, volume, blocks) = world(1, block_size);
    for block in 0..blocks {
        let data = noise(block_size, block + 1);
        world.write(volume, block * block_size, &data, false);
    }
    // Free space lies in four places far from one another.
    let far_blocks = blocks / 4;
    let freed = far_blocks / 4;
    for first in (0..blocks).step_by(far_blocks as usize) {
        world.clear(volume, first * block_size, freed * block_size);
    }
    (0..3).for_each(|_| world.checkpoint());
    let anew = (0..blocks).filter(|block| block % far_blocks < freed);
    let far = attack(&mut world, volume, block_size, anew);
    assert!(far >= 2, "the log went far {far} times");
}

#[test]
fn they_are_where_each_group_lies_on_another_vdev() {
    let block_size = 128 << 10;
    let (mut world, volume, blocks) = world(2, block_size);
    let far = attack(&mut world, volume, block_size, 0..blocks / 4);
    assert!(far >= 100, "the log went far {far} times");
    // An opening knows no place of the log on the other vdev if the first record after a checkpoint
    // is missing.
    for round in 0..8 {
        world.advance();
        attack(&mut world, volume, block_size, round * 3..(round + 1) * 3);
    }
}

#[test]
fn they_are_where_what_is_free_lies_in_single_sectors() {
    let block_size = 4 << 10;
    let (mut world, volume, blocks) = world(1, block_size);
    for first in (0..blocks).step_by(64) {
        let data = noise(64 * block_size, first + 1);
        world.write(volume, first * block_size, &data, false);
    }
    let mut seed = 3;
    let mut any = |_| {
        seed = u64::wrapping_mul(seed, 6_364_136_223_846_793_005) + 1;
        (seed >> 33) % blocks
    };
    for number in 0..blocks {
        let data = noise(block_size, number + 1);
        world.write(volume, any(number) * block_size, &data, false);
    }
    let far = attack(&mut world, volume, block_size, (0..1000).map(any));
    assert!(far >= 3, "the log went far {far} times");
}
