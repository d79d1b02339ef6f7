//! A scrub that is paused for long continues where it was. It does not read verified blocks again,
//! does not mistake changed blocks for them, and reports each loss once.

use super::super::{Limits, ScanState};
use super::world::World;
use crate::engine::tests::disks::vdevs::run_scrub;
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::{TopLevelKind, layout};

const BLOCK: u64 = 64 << 10;
/// Blocks of the volume: 40 MiB, more than twice the sectors that a scrub has under way at once.
const BLOCKS: u64 = 640;

fn write(world: &mut World, volume: DatasetId, block: u64, version: u64) {
    let bytes: Vec<u8> = (0..BLOCK)
        .map(|at| (at.wrapping_mul(block * 2 + version) >> 5) as u8)
        .collect();
    world.write(volume, block * BLOCK, &bytes, false);
}

fn filled(limits: Limits) -> (World, DatasetId) {
    let mut world = World::new(TopLevelKind::Mirror, 2, limits);
    let volume = world.create_volume("v", BLOCKS * BLOCK, BLOCK as u32);
    for block in 0..BLOCKS {
        write(&mut world, volume, block, 1);
    }
    // No freed blocks wait to be free.
    (0..3).for_each(|_| world.advance());
    (world, volume)
}

/// Returns the bytes that were read from the disks.
fn read(world: &World) -> u64 {
    let tops = world.pool.status().top_levels;
    let leaves = tops.iter().flat_map(|top| &top.slots);
    let leaves = leaves.flat_map(|slot| &slot.leaves);
    leaves.map(|leaf| leaf.io.read.bytes).sum()
}

fn examined(world: &World) -> u64 {
    world.pool.scan_status().expect("a scrub").examined_sectors
}

/// Begins a scrub, and pauses it when it has worked off `sectors`.
fn paused(world: &mut World, sectors: u64) {
    let now = world.now_us;
    world.pool.scrub(now);
    while examined(world) < sectors {
        assert!(world.do_one(), "it ended");
    }
    world.pool.pause_scrub();
    world.settle();
    let state = world.pool.scan_status().expect("a scrub").state;
    assert_eq!(state, ScanState::Paused);
}

/// Lets a scrub come to its end. Returns the fewest sectors that it reported on the way.
fn go_on(world: &mut World) -> u64 {
    let mut fewest = examined(world);
    let now = world.now_us;
    world.pool.scrub(now);
    while world.pool.scan_status().expect("a scrub").state == ScanState::Running {
        world.do_one();
        fewest = fewest.min(examined(world));
    }
    let state = world.pool.scan_status().expect("a scrub").state;
    assert_eq!(state, ScanState::Finished);
    fewest
}

#[test]
fn what_was_verified_before_a_pause_is_not_read_again() {
    for batch in [1 << 16, 700, 100] {
        let limits = Limits {
            scan_batch: batch,
            ..Limits::default()
        };
        let (mut world, volume) = filled(limits);
        let before = read(&world);
        let status = run_scrub(&mut world);
        let (whole, total) = (read(&world) - before, status.examined_sectors);

        let before = read(&world);
        paused(&mut world, total * 2 / 3);
        let at_pause = examined(&world);
        // Some blocks are rewritten: verified ones and others.
        for _ in 0..4 {
            for block in [3, 200, BLOCKS - 2] {
                write(&mut world, volume, block, 2);
            }
            world.advance();
        }
        assert_eq!(examined(&world), at_pause, "{batch}");
        assert!(go_on(&mut world) >= at_pause, "{batch}: it fell back");
        let (found, read) = (examined(&world), read(&world) - before);
        let few = total / 20;
        assert!(
            (total - few..total + few).contains(&found),
            "{found} of {total}"
        );
        // The checkpoints read a little, too.
        assert!(read < whole + whole / 8, "{batch}: {read} of {whole}");
    }
}

/// Disks are slow and checkpoints frequent, so a batch is thrown away while much of it is being
/// read.
#[test]
fn what_is_on_its_way_when_a_batch_is_thrown_away_is_not_read_again() {
    let (mut world, _) = filled(Limits::default());
    let before = read(&world);
    let status = run_scrub(&mut world);
    let (whole, total) = (read(&world) - before, status.examined_sectors);

    let before = read(&world);
    let now = world.now_us;
    world.pool.scrub(now);
    while examined(&world) < total / 3 {
        assert!(world.do_one(), "it ended");
    }
    world.holds_reads = true;
    (0..3).for_each(|_| world.advance());
    let held: usize = world.held();
    assert!(held > 10, "{held} reads are on their way");
    world.answer_held(true);
    go_on(&mut world);
    let (found, read) = (examined(&world), read(&world) - before);
    let few = total / 20;
    assert!(
        (total - few..total + few).contains(&found),
        "{found} of {total}"
    );
    assert!(read < whole + whole / 8, "{read} of {whole}");
}

/// Returns the sectors of a block of the volume on each disk.
fn sectors(world: &mut World, volume: DatasetId, block: u64) -> std::ops::Range<u64> {
    let pool = &mut world.pool;
    let map = &pool.contents[&volume].map;
    let pointer = map.look_up(&mut pool.node_cache, block).expect("in memory");
    let first = layout::sector_offset(pointer.address.sector()) / SECTOR_SIZE as u64;
    first..first + u64::from(pointer.sectors)
}

#[test]
fn what_rots_is_counted_once_whenever_a_scrub_is_paused() {
    let (mut world, volume) = filled(Limits::default());
    let total = run_scrub(&mut world).examined_sectors;
    let rot = |world: &mut World, disk: usize, block: u64| {
        let first = sectors(world, volume, block).start;
        world.disks[disk].get_mut(&first).expect("written")[9] ^= 1;
    };
    // Blocks of both kinds lie before and after the pause.
    for block in [5, 300, BLOCKS - 5] {
        rot(&mut world, 1, block);
    }
    for block in [7, BLOCKS - 7] {
        rot(&mut world, 0, block);
        rot(&mut world, 1, block);
    }
    world.unrecoverable.clear();
    paused(&mut world, total * 2 / 3);
    (0..4).for_each(|_| world.advance());
    go_on(&mut world);
    let status = world.pool.scan_status().expect("a scrub");
    // Both copies of the lost blocks are wrong.
    assert_eq!(
        (status.repaired, status.unrecoverable),
        (3, 2),
        "{status:?}"
    );
    let mut lost: Vec<u64> = world
        .unrecoverable
        .iter()
        .map(|of| of.offset / BLOCK)
        .collect();
    lost.sort_unstable();
    assert_eq!(lost, [7, BLOCKS - 7]);
    // No other fault is left.
    let status = run_scrub(&mut world);
    assert_eq!(
        (status.repaired, status.unrecoverable),
        (0, 2),
        "{status:?}"
    );
}
