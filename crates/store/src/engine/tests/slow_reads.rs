//! Reads that take so long that their blocks are freed and other blocks written in their places.

use super::super::{Answer, Limits, Plan, PoolError, Request, RequestId, ScanKind, ScanState};
use super::world::World;
use crate::catalog::request::CreateVolume;
use crate::engine::io::wanted::NodeWaiter;
use crate::format::{Address, DatasetId, Epoch};
use crate::map::{Missing, NodeCache};
use crate::vdev::{TopLevelKind, VdevState};

const BLOCK: u64 = 4096;
/// Bytes of a disk: few, so that places are soon used again.
const DISK: u64 = 32 << 20;
const SIZE: u64 = 4 << 20;
/// Bytes that a test overwrites.
const PART: u64 = 256 << 10;

type Answers = Vec<(RequestId, Result<Answer, PoolError>)>;

/// Makes unique bytes for a seed, which cannot be compressed.
fn content(seed: u64, len: u64) -> Vec<u8> {
    let words = (0..len / 8).map(|at| (seed << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Makes a volume, and another one to fill places with.
fn world(kind: TopLevelKind, disks: usize, checksum: &str) -> (World, DatasetId, DatasetId) {
    let mut world = World::of_size(kind, disks, DISK, Limits::default());
    let volumes = ["v", "w"].map(|name| {
        let request = CreateVolume {
            name: name.to_owned(),
            size: SIZE,
            block_size: BLOCK as u32,
            properties: [("checksum".to_owned(), checksum.to_owned())].into(),
            ..CreateVolume::default()
        };
        let plan: Plan =
            Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
        world.administer(plan).expect("a volume");
        world.id(name)
    });
    world.write(volumes[0], 0, &content(1, SIZE / 2), true);
    world.checkpoint();
    forget(&world, volumes[0]);
    (world, volumes[0], volumes[1])
}

/// Removes all data of a volume from memory.
fn forget(world: &World, volume: DatasetId) {
    world.pool.cache.invalidate_volume(volume.0.into());
}

fn read_of(dataset: DatasetId, offset: u64) -> Request {
    Request::Read {
        dataset,
        offset,
        len: BLOCK as u32,
    }
}

fn place(world: &mut World, volume: DatasetId, block: u64) -> Address {
    let pool = &mut world.pool;
    let map = &pool.contents[&volume].map;
    let pointer = map.look_up(&mut pool.node_cache, block);
    pointer.expect("it is in memory").address
}

/// Writes until `is_done`, with checkpoints.
fn fill(world: &mut World, volume: DatasetId, mut is_done: impl FnMut(&mut World) -> bool) {
    for number in 0..1000 {
        let offset = number * PART % SIZE;
        world.write(volume, offset, &content(1000 + number, PART), true);
        world.advance();
        if is_done(world) {
            return;
        }
    }
    panic!("its place is not used again");
}

fn data_of(answers: &mut Answers, id: RequestId) -> Vec<u8> {
    let at = answers.iter().position(|(of, _)| *of == id);
    match answers.swap_remove(at.expect("an answer")).1 {
        Ok(Answer::Data(data)) => data.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn assert_no_errors(world: &World) {
    let status = world.pool.status();
    assert_eq!(status.state, VdevState::Online);
    for top in &status.top_levels {
        assert_eq!(top.unreadable, 0);
        for leaf in top.slots.iter().flat_map(|slot| &slot.leaves) {
            assert_eq!(leaf.errors.checksum, 0, "{leaf:?}");
        }
    }
}

/// Begins a read of the first block. The read is held back while its block is overwritten and its
/// place reused.
fn read_late(world: &mut World, volume: DatasetId, other: DatasetId) -> (RequestId, u64) {
    let before = place(world, volume, 0);
    world.holds_reads = true;
    let late = world.begin(read_of(volume, 0));
    world.settle();
    world.holds_reads = false;
    assert_eq!(world.held(), 1);
    world.write(volume, 0, &content(2, PART), true);
    (0..3).for_each(|_| world.advance());
    let mut block = 0;
    fill(world, other, |world| {
        let found = (0..SIZE / BLOCK).find(|at| place(world, other, *at) == before);
        block = found.unwrap_or(0);
        found.is_some()
    });
    (late, block)
}

#[test]
fn two_reads_of_one_place_are_both_answered_each_with_its_own_block() {
    for is_as_then in [true, false] {
        let (mut world, volume, other) = world(TopLevelKind::Leaf, 1, "on");
        let (late, block) = read_late(&mut world, volume, other);
        let expected = world.read(other, block * BLOCK, BLOCK as u32);
        forget(&world, other);
        let new = world.begin(read_of(other, block * BLOCK));
        world.answer_held(is_as_then);
        let mut answers = world.settle();
        assert!(data_of(&mut answers, new) == expected, "another block's");
        let late = data_of(&mut answers, late);
        let may_be = [1, 2].map(|seed| content(seed, BLOCK));
        assert!(may_be.contains(&late), "another block's");
        // No wrong data was cached, either.
        assert!(world.read(other, block * BLOCK, BLOCK as u32) == expected);
        assert!(world.read(volume, 0, BLOCK as u32) == may_be[1]);
        assert_no_errors(&world);
    }
}

/// Blocks without checksums: only the later write to the place tells that the bytes are another
/// block's.
#[test]
fn a_late_read_without_a_checksum_never_gets_another_blocks_bytes() {
    let (mut world, volume, other) = world(TopLevelKind::Leaf, 1, "off");
    let (late, _) = read_late(&mut world, volume, other);
    world.answer_held(false);
    let mut answers = world.settle();
    assert!(data_of(&mut answers, late) == content(2, BLOCK));
    assert!(world.read(volume, 0, BLOCK as u32) == content(2, BLOCK));
}

#[test]
fn a_late_read_that_finds_another_block_counts_no_error() {
    let (mut world, volume, other) = world(TopLevelKind::Leaf, 1, "on");
    let (late, _) = read_late(&mut world, volume, other);
    world.answer_held(false);
    let mut answers = world.settle();
    assert!(data_of(&mut answers, late) == content(2, BLOCK));
    assert_no_errors(&world);
}

#[test]
fn whoever_waits_for_a_node_is_answered_when_another_is_read_in_its_place() {
    let (mut world, volume, _) = world(TopLevelKind::Leaf, 1, "on");
    world.pool.node_cache = NodeCache::new(world.limits.node_bytes);
    world.holds_reads = true;
    let extents = world.begin(Request::Extents {
        dataset: volume,
        offset: 0,
        len: SIZE,
    });
    world.settle();
    assert_eq!(world.held(), 1);
    let tree = &world.pool.contents[&volume].map.tree;
    let mut pointer = tree.root;
    let level = tree.height - 1;
    pointer.birth = Epoch(pointer.birth.0 + 1);
    let id = crate::format::NodeId {
        volume: tree.volume,
        level,
        index: 0,
    };
    let other = Missing { pointer, id };
    world.pool.read_node(other, NodeWaiter::Nobody);
    world.answer_held(true);
    let mut answers = world.settle();
    answers.retain(|(id, _)| *id == extents);
    assert!(
        matches!(&answers[..], [(_, Ok(Answer::Extents(_)))]),
        "{answers:?}"
    );
}

/// Begins a scan. All that it reads is overwritten, and other blocks lie there before the disks
/// answer.
fn scan_late(world: &mut World, volume: DatasetId, other: DatasetId) {
    world.settle();
    world.holds_reads = false;
    let held = world.held();
    assert!(held > 0);
    world.write(volume, 0, &content(3, SIZE / 2), true);
    (0..3).for_each(|_| world.advance());
    fill(world, other, |world| world.held_elsewhere(held) >= held / 2);
    world.answer_held(false);
    world.settle();
    assert_no_errors(world);
    world.checkpoint();
}

#[test]
fn a_resilver_does_not_miss_what_was_overwritten_before_it_was_read() {
    let (mut world, volume, other) = world(TopLevelKind::Mirror, 2, "on");
    let leaf = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.offline(leaf, now).expect("the other has all");
    world.write(volume, 0, &content(2, PART), true);
    world.checkpoint();
    world.holds_reads = true;
    let now = world.now_us;
    world.pool.online(leaf, now).expect("comes back");
    world.pool.tick(now, 3_000);
    scan_late(&mut world, volume, other);
    let scan = world.pool.scan_status().expect("a resilver");
    let is = (scan.kind, scan.state, scan.unrecoverable);
    assert_eq!(is, (ScanKind::Resilver, ScanState::Finished, 0));
    assert_eq!(
        world
            .pool
            .leaf_statuses()
            .filter(|leaf| leaf.is_incomplete)
            .count(),
        0
    );
}

#[test]
fn a_scrub_takes_nothing_for_damage_that_was_overwritten_before_it_was_read() {
    for (kind, disks) in [
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ] {
        let (mut world, volume, other) = world(kind, disks, "on");
        world.holds_reads = true;
        let now = world.now_us;
        world.pool.scrub(now);
        scan_late(&mut world, volume, other);
        let scan = world.pool.scan_status().expect("a scrub");
        let is = (scan.kind, scan.state, scan.bad, scan.unrecoverable);
        assert_eq!(is, (ScanKind::Scrub, ScanState::Finished, 0, 0));
    }
}
