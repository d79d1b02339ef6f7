//! Devices are told which space is free, and of no other space. In these tests a trimmed range
//! reads as garbage.

use crate::engine::tests::world::{DISK, World};
use crate::engine::trim::{TrimRefused, TrimState};
use crate::engine::{Limits, PoolProperty};
use crate::format::SECTOR_SIZE;
use crate::vdev::{Class, LeafId, LeafSpec, TopLevelKind, TopLevelSpec, layout};

const BLOCK: u32 = 16384;
const SIZE: u64 = 8 << 20;
const SHAPES: [(TopLevelKind, usize); 4] = [
    (TopLevelKind::Leaf, 1),
    (TopLevelKind::Mirror, 2),
    (TopLevelKind::Raidz { parity: 1 }, 3),
    (TopLevelKind::Raidz { parity: 2 }, 5),
];

/// Makes bytes that cannot be compressed.
fn pattern(tag: u64) -> Vec<u8> {
    let words = (0..SIZE / 8).map(|at| (at << 8 | tag).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words
        .flat_map(|word| (word ^ word >> 29).to_le_bytes())
        .collect()
}

/// Returns the bytes that a disk was told are free.
fn told(world: &World, disk: usize) -> u64 {
    let own = world.trimmed.iter().filter(|(of, ..)| *of == disk);
    own.map(|(.., len)| len).sum()
}

/// Returns about how many bytes of each disk are free.
fn free_of_each(world: &World, disks: usize, kind: TopLevelKind) -> u64 {
    let free = world.pool.space.counts().available * SECTOR_SIZE as u64;
    match kind {
        TopLevelKind::Raidz { .. } => free / disks as u64,
        _ => free,
    }
}

#[test]
fn a_trim_tells_of_all_free_space_and_of_nothing_else_in_every_layout() {
    for (kind, disks) in SHAPES {
        let mut world = World::new(kind, disks, Limits::default());
        let volume = world.create_volume("a", SIZE, BLOCK);
        world.write(volume, 0, &pattern(1), true);
        world.checkpoint();
        // This space is freed, but not free yet.
        world.write(volume, 0, &pattern(2), true);
        let leaves: Vec<LeafId> = (0..disks as u32).map(LeafId).collect();
        for leaf in &leaves {
            world
                .pool
                .start_trim(*leaf, None, world.now_us)
                .expect("begins");
        }
        world.settle();
        for (leaf, trim) in leaves.iter().zip(world.pool.trims()) {
            assert_eq!(
                (trim.state, trim.position),
                (TrimState::Finished, trim.total),
                "{kind:?}"
            );
            let told = told(&world, leaf.0 as usize);
            // At the ends of runs, some disks of a row have one sector more.
            assert!(
                told.abs_diff(trim.bytes) < 1 << 20,
                "{kind:?}: {told}, {trim:?}"
            );
            let free = free_of_each(&world, disks, kind);
            // Overwritten blocks may have become free after the trim, by the checkpoints that keep
            // its state.
            assert!(
                told > free - SIZE - (4 << 20) && told < free + (4 << 20),
                "{kind:?}: {told} of {free}"
            );
        }
        let labels = layout::sector_offset(0)..DISK - (512 << 10);
        let is_data = |(_, offset, len): &(usize, u64, u64)| {
            labels.contains(offset) && offset + len <= labels.end
        };
        assert!(world.trimmed.iter().all(is_data));
        world.check();
        assert!(world.read(volume, 0, SIZE as u32) == pattern(2), "{kind:?}");
        world.reopen().expect("opens");
        let volume = world.id("a");
        assert!(world.read(volume, 0, SIZE as u32) == pattern(2), "{kind:?}");
        // The previous checkpoint is whole, too.
        world.rewind(1).expect("goes back");
    }
}

#[test]
fn what_was_freed_is_told_by_itself_when_two_more_checkpoints_are_durable_and_not_before() {
    for (kind, disks) in SHAPES {
        let mut world = World::new(kind, disks, Limits::default());
        world.pool.set_property(PoolProperty::Autotrim, Some(true));
        let volume = world.create_volume("a", SIZE, BLOCK);
        world.write(volume, 0, &pattern(1), true);
        world.advance();
        world.advance();
        world.advance();
        world.trimmed.clear();
        world.clear(volume, 0, SIZE);
        world.advance();
        let early: u64 = (0..disks).map(|disk| told(&world, disk)).sum();
        assert!(
            early < SIZE / 4,
            "{kind:?}: {early} bytes after one checkpoint"
        );
        world.advance();
        world.advance();
        let (parity, columns) = match kind {
            TopLevelKind::Raidz { parity } => (u64::from(parity), disks as u64),
            _ => (0, 1),
        };
        let each = SIZE / (columns - parity);
        for disk in 0..disks {
            let told = told(&world, disk);
            assert!(told >= each - each / 8, "{kind:?}: {told} of {each}");
        }
        assert!(world.pool.auto_trimmed() >= each, "{kind:?}");
        world.check();
        world.reopen().expect("opens");
    }
}

#[test]
fn nothing_is_told_by_itself_where_the_property_is_off() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", SIZE, BLOCK);
    world.write(volume, 0, &pattern(1), true);
    world.clear(volume, 0, SIZE);
    (0..4).for_each(|_| world.advance());
    assert_eq!((world.trimmed.len(), world.pool.auto_trimmed()), (0, 0));
}

#[test]
fn small_pieces_are_left_to_a_full_trim() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", SIZE, 4096);
    world.write(volume, 0, &pattern(1), true);
    (0..3).for_each(|_| world.advance());
    world.pool.set_property(PoolProperty::Autotrim, Some(true));
    // Every second block of a part is overwritten, so single sectors between others become free.
    for block in (0..200).step_by(2) {
        world.clear(volume, block * 4096, 4096);
    }
    (0..4).for_each(|_| world.advance());
    let is_short = |(.., len): &(usize, u64, u64)| *len < 32 << 10;
    assert!(!world.trimmed.iter().any(is_short), "{:?}", world.trimmed);
    world.trimmed.clear();
    world
        .pool
        .start_trim(LeafId(0), None, world.now_us)
        .expect("begins");
    world.settle();
    let singles = world
        .trimmed
        .iter()
        .filter(|(.., len)| *len == 4096)
        .count();
    assert!(singles >= 90, "{singles}");
    world.check();
}

#[test]
fn a_trim_that_rests_goes_on_where_it_was_also_after_an_opening() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", SIZE, BLOCK);
    world.write(volume, 0, &pattern(1), true);
    world.advance();
    // The trim is slow enough to be seen under way.
    world
        .pool
        .start_trim(LeafId(0), Some(4 << 20), world.now_us)
        .expect("begins");
    for _ in 0..40 {
        world.do_one();
    }
    let before = world.pool.trims()[0];
    assert_eq!(before.state, TrimState::Running);
    world
        .pool
        .pause_trim(LeafId(0), world.now_us)
        .expect("rests");
    let refused = world.pool.pause_trim(LeafId(0), world.now_us);
    assert_eq!(refused, Err(TrimRefused::NotRunning));
    world.advance();
    let paused = world.pool.trims()[0];
    assert_eq!(paused.state, TrimState::Suspended);
    assert!(
        paused.position >= before.position && paused.position < paused.total,
        "{paused:?}"
    );
    world.reopen().expect("opens");
    assert_eq!(world.pool.trims(), [paused]);
    world.trimmed.clear();
    world
        .pool
        .start_trim(LeafId(0), None, world.now_us)
        .expect("goes on");
    let refused = world.pool.start_trim(LeafId(0), None, world.now_us);
    assert_eq!(refused, Err(TrimRefused::Running));
    world.settle();
    let first = world.trimmed.iter().map(|(_, offset, _)| *offset).min();
    let from = layout::sector_offset(paused.position);
    assert!(first >= Some(from), "{first:?}, {from}");
    assert_eq!(world.pool.trims()[0].state, TrimState::Finished);
    // Running trims continue by themselves.
    world
        .pool
        .start_trim(LeafId(0), Some(1 << 20), world.now_us)
        .expect("begins");
    for _ in 0..40 {
        world.do_one();
    }
    world.reopen_unchecked().expect("opens");
    assert_eq!(world.pool.trims()[0].state, TrimState::Running);
    world
        .pool
        .cancel_trim(LeafId(0), world.now_us)
        .expect("ends");
    assert_eq!(world.pool.trims()[0].state, TrimState::Canceled);
}

#[test]
fn a_trim_of_a_vdev_that_no_label_knows_yet_begins_when_they_do() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    world.settle();
    world.disks.push(Default::default());
    world.leaves.insert(1, 1);
    let spec = TopLevelSpec::new(
        TopLevelKind::Leaf,
        Class::Normal,
        [LeafSpec::new(101, DISK)],
    );
    world.pool.add(&spec).expect("a vdev");
    let now_us = world.now_us;
    let begun = world.pool.start_trim(LeafId(1), None, now_us);
    begun.expect("begins");
    let waiting = &world.pool.trims()[0];
    assert_eq!((waiting.state, waiting.total), (TrimState::Running, 0));
    while world.pool.trims()[0].state == TrimState::Running {
        if !world.do_one() {
            world.now_us += 100_000;
            world.pool.tick(world.now_us, 1_000);
        }
    }
    let done = &world.pool.trims()[0];
    assert_eq!(done.state, TrimState::Finished);
    assert!(done.bytes > DISK / 2, "{done:?}");
}

#[test]
fn a_trim_is_not_faster_than_it_may_be() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    world.settle();
    let begun_us = world.now_us;
    world
        .pool
        .start_trim(LeafId(0), Some(16 << 20), world.now_us)
        .expect("begins");
    while world.pool.trims()[0].state == TrimState::Running {
        if !world.do_one() {
            world.now_us += 100_000;
            world.pool.tick(world.now_us, 1_000);
        }
    }
    let bytes = world.pool.trims()[0].bytes;
    // The rest after the last step is not waited for.
    let least_us = (bytes - (16 << 20)) * 1_000_000 / (16 << 20);
    assert!(
        world.now_us - begun_us >= least_us,
        "{bytes} bytes in {} us",
        world.now_us - begun_us
    );
}

#[test]
fn one_device_of_a_mirror_is_trimmed_alone_and_one_that_cannot_is_told_once() {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    world.untrimmable.insert(1);
    world
        .pool
        .start_trim(LeafId(0), None, world.now_us)
        .expect("begins");
    world
        .pool
        .start_trim(LeafId(1), None, world.now_us)
        .expect("nobody knows yet");
    world.settle();
    assert!(told(&world, 0) > DISK / 2);
    assert_eq!(
        (told(&world, 1), world.pool.leaves_without_trim()),
        (0, vec![101])
    );
    let refused = world.pool.start_trim(LeafId(1), None, world.now_us);
    assert_eq!(refused, Err(TrimRefused::Unable));
    let trims = world.pool.trims();
    assert_eq!((trims.len(), trims[0].leaf), (1, 100));
    // The pool is used as before.
    world.check();
    let status = world.pool.status();
    assert!(
        status.top_levels[0]
            .slots
            .iter()
            .all(|slot| slot.leaves[0].errors == Default::default())
    );
}

/// Allocation takes held sectors as soon as it finds no others. The device is still trimming them
/// then, and the write waits.
#[test]
fn space_that_is_being_trimmed_is_there_for_whoever_needs_it() {
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 16 << 20, Limits::default());
    let volume = world.create_volume("a", 64 << 20, 4096);
    world.advance();
    world
        .pool
        .start_trim(LeafId(0), None, world.now_us)
        .expect("begins");
    world.is_lazy = true;
    // The pool is filled while steps of the trim are under way.
    let mut written = 0;
    loop {
        let data = pages::Pages::from_bytes(&vec![written as u8 | 1; 4096]);
        let request = crate::engine::Request::Write {
            dataset: volume,
            offset: written * 4096,
            data,
            durable: true,
        };
        if world.ask(request).is_err() {
            break;
        }
        written += 1;
        if world.pool.trims()[0].state == TrimState::Finished {
            world
                .pool
                .start_trim(LeafId(0), None, world.now_us)
                .expect("again");
        }
    }
    world.is_lazy = false;
    world.settle();
    let free = world.pool.status().available;
    assert!(
        written > 2000 && free < 200,
        "{written} blocks, {free} sectors left"
    );
    for block in 0..written {
        let expected = vec![block as u8 | 1; 4096];
        assert!(
            world.read(volume, block * 4096, 4096) == expected,
            "block {block}"
        );
    }
    world.check();
}
