//! Bugs that other engines had, each attacked where it would be in this one.

use super::super::{Answer, Limits, PoolErrorKind, Request, RequestId};
use super::world::World;
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::{DeviceOp, TopLevelKind};
use pages::Pages;

const BLOCK: usize = 4096;

fn world() -> (World, DatasetId) {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("v", 16 << 20, BLOCK as u32);
    world.checkpoint();
    (world, volume)
}

fn write(dataset: DatasetId, offset: u64, byte: u8, len: usize, durable: bool) -> Request {
    let data = Pages::from_bytes(&vec![byte; len]);
    Request::Write {
        dataset,
        offset,
        data,
        durable,
    }
}

/// Submits a request, and lets the disks do nothing.
fn submit(world: &mut World, number: u64, request: Request) -> RequestId {
    let id = RequestId(1 << 40 | number);
    world.pool.submit(id, request, world.now_us);
    id
}

/// OpenZFS #17131 (a guest's synchronous writes were asynchronous) and #17765 (FLUSH went down the
/// path of reads). Here neither is answered before the disk has flushed.
#[test]
fn openzfs_17131_and_17765_a_durable_write_and_a_flush_wait_for_the_disk() {
    let (mut world, volume) = world();
    world.stuck.insert(0);
    let soon = submit(&mut world, 1, write(volume, 0, 1, BLOCK, false));
    let answers = world.settle();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].0 == soon && answers[0].1.is_ok());
    submit(&mut world, 2, write(volume, 8192, 2, BLOCK, true));
    submit(&mut world, 3, Request::Flush { dataset: volume });
    let answers = world.settle();
    assert!(answers.is_empty(), "{answers:?}");
    world.stuck.clear();
    world.answer_stuck();
    let answers = world.settle();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(answers.iter().all(|(_, result)| result.is_ok()));
    world.crash().expect("opens");
    assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK]);
    assert_eq!(world.read(volume, 8192, BLOCK as u32), [2; BLOCK]);
}

/// OpenZFS #17131 again, while the disk is being flushed already: that flush says nothing of a
/// write that came later.
#[test]
fn openzfs_17131_a_flush_that_was_under_way_does_not_make_a_later_write_durable() {
    let (mut world, volume) = world();
    world.write(volume, 0, &[1; BLOCK], false);
    world.stuck.insert(0);
    let flush = submit(&mut world, 1, Request::Flush { dataset: volume });
    let is_flushing = |world: &World| {
        let mut asked = world.unanswered.iter();
        asked.any(|request| matches!(request.op, DeviceOp::Flush))
    };
    for _ in 0..10 {
        assert!(world.settle().is_empty());
        if is_flushing(&world) {
            break;
        }
        world.answer_stuck();
    }
    assert!(is_flushing(&world));
    let late = submit(&mut world, 2, write(volume, 8192, 2, BLOCK, true));
    // The write reaches the disk before the answer of the flush that began before it.
    assert!(world.settle().is_empty());
    world.unanswered.reverse();
    world.answer_stuck();
    let answers = world.settle();
    let answered: Vec<RequestId> = answers.iter().map(|(id, _)| *id).collect();
    assert!(answered.contains(&flush), "{answers:?}");
    // The write needs another flush.
    assert!(!answered.contains(&late), "{answers:?}");
    assert!(is_flushing(&world));
    world.stuck.clear();
    world.answer_stuck();
    let rest = world.settle();
    let mut all = answers.iter().chain(&rest);
    assert!(all.any(|(id, result)| *id == late && result.is_ok()));
}

/// OpenZFS #17065: errors of flushes were ignored.
#[test]
fn openzfs_17065_a_flush_that_fails_is_an_error_and_the_pool_takes_no_changes_any_more() {
    let (mut world, volume) = world();
    world.write(volume, 0, &[1; BLOCK], false);
    world.dead.insert(0);
    let error = world
        .ask(Request::Flush { dataset: volume })
        .expect_err("the disk is gone");
    assert_eq!(error.kind, PoolErrorKind::Suspended, "{error}");
    let error = world
        .ask(write(volume, 0, 2, BLOCK, true))
        .expect_err("nothing is promised any more");
    assert_eq!(error.kind, PoolErrorKind::Suspended, "{error}");
}

/// oxidecomputer/crucible #1788: the log recorded the buffer as it was at the time of the write,
/// not as it was submitted. Also, overlapping writes were replayed in another order than they took
/// effect. Here each prefix of the log is a prefix of the writes.
#[test]
fn crucible_1788_overlapping_writes_are_replayed_as_they_were_submitted_in_their_order() {
    let len = 4 * BLOCK;
    // These are the states of the volume after each write, oldest first.
    let mut states = vec![vec![0; 8 * BLOCK]];
    let (mut world, volume) = world();
    world.stuck.insert(0);
    for number in 1..=20_u8 {
        let offset = u64::from(number) * 7 % 9 * 512;
        let durable = number % 3 == 0;
        submit(
            &mut world,
            number.into(),
            write(volume, offset, number, len, durable),
        );
        let mut state = states.last().expect("one").clone();
        state[offset as usize..offset as usize + len].fill(number);
        states.push(state);
    }
    world.stuck.clear();
    world.answer_stuck();
    // The power fails after each request of the disk.
    let mut after = 0;
    for done in 0.. {
        let mut copy = world.clone_disks();
        copy.reopen_unchecked().expect("opens");
        let found = copy.read(volume, 0, 8 * BLOCK as u32);
        let state = states.iter().position(|state| *state == found);
        let state = state.unwrap_or_else(|| panic!("after {done} requests: no prefix"));
        assert!(
            state >= after,
            "after {done} requests {state}, before {after}"
        );
        after = state;
        if !world.do_one() {
            break;
        }
    }
    world
        .ask(Request::Flush { dataset: volume })
        .expect("flushed");
    world.crash().expect("opens");
    assert_eq!(world.read(volume, 0, 8 * BLOCK as u32), states[20]);
}

/// Index and data were written at once, and recovery went by lengths, so a record without its data
/// gave wrong bytes. Here each group counts with all its blocks or not at all.
#[test]
fn a_record_whose_data_did_not_reach_the_disk_is_never_believed() {
    let (mut world, volume) = world();
    world.write(volume, 0, &[1; BLOCK], true);
    let record = world.end_of_log();
    let before = world.disks[0].clone();
    world.is_lazy = true;
    world.write(volume, 0, &[2; BLOCK], true);
    let after = world.disks[0].clone();
    let is_label = |sector: &u64| sector * (SECTOR_SIZE as u64) < 1 << 20;
    let changed = after
        .iter()
        .filter(|(at, data)| before.get(*at) != Some(*data));
    let data: Vec<u64> = changed
        .map(|(at, _)| *at)
        .filter(|at| *at != record && !is_label(at))
        .collect();
    assert!(!data.is_empty());
    for sector in data {
        let mut torn = world.clone_disks();
        match before.get(&sector) {
            Some(old) => drop(torn.disks[0].insert(sector, old.clone())),
            None => drop(torn.disks[0].remove(&sector)),
        }
        match torn.reopen_unchecked() {
            Ok(()) => {
                let found = torn.read(volume, 0, BLOCK as u32);
                assert!(found == [1; BLOCK] || found == [2; BLOCK], "{}", found[0]);
            }
            // Durable data is missing, and the error says so.
            Err(error) => assert!(error.context.contains("damaged"), "{error}"),
        }
    }
}

/// OpenZFS #15526: dirty data was reported as holes, by look-ups that missed a block between two
/// states. Here blocks were written, and others cleared, in every state: in a checkpoint, after it,
/// and while the next one is being made.
#[test]
fn openzfs_15526_a_block_is_never_a_hole_while_it_is_on_its_way() {
    const BLOCKS: u64 = 16;
    let at = |block: u64| block * BLOCK as u64;
    for steps in 0..60 {
        let (mut world, volume) = world();
        for block in [0, 2, 4, 6] {
            world.write(volume, at(block), &[1; BLOCK], false);
        }
        world.checkpoint();
        world.write(volume, at(8), &[1; BLOCK], false);
        world.clear(volume, at(2), BLOCK as u64);
        world.begin_checkpoint(steps);
        submit(&mut world, 1, write(volume, at(10), 1, BLOCK, false));
        let clear = Request::Clear {
            dataset: volume,
            offset: at(4),
            len: BLOCK as u64,
            durable: false,
        };
        submit(&mut world, 2, clear);
        let mut found = Vec::new();
        while (found.len() as u64) < BLOCKS {
            let from = found.len() as u64;
            // Facts in memory are reported at once, whatever the disks do.
            let extents = Request::Extents {
                dataset: volume,
                offset: at(from),
                len: at(BLOCKS - from),
            };
            let Ok(Answer::Extents(runs)) = world.ask(extents) else {
                panic!("{steps}: no extents");
            };
            for (len, is_data) in runs {
                found.extend((0..len / BLOCK as u64).map(|_| is_data));
            }
        }
        for block in 0..BLOCKS {
            let is_data = [0, 6, 8, 10].contains(&block);
            assert_eq!(found[block as usize], is_data, "{steps}: block {block}");
            let byte = u8::from(is_data);
            let read = world.read(volume, at(block), BLOCK as u32);
            assert_eq!(read, [byte; BLOCK], "{steps}: block {block}");
        }
    }
}

/// spdk #359: 147,000 writes a second became 5 while clusters of 4 MiB were being allocated. Here a
/// first write takes the space that it needs, and no more than a later one.
#[test]
fn spdk_359_a_first_write_allocates_its_blocks_and_nothing_around_them() {
    let (mut world, volume) = world();
    let mut taken = Vec::new();
    for _ in 0..2 {
        let before = world.pool.status().counts.allocated;
        for block in 0..64_u64 {
            world.write(
                volume,
                block * 37 % 64 * 64 * BLOCK as u64,
                &[7; BLOCK],
                false,
            );
        }
        world
            .ask(Request::Flush { dataset: volume })
            .expect("flushed");
        taken.push(world.pool.status().counts.allocated.saturating_sub(before));
    }
    assert!(taken.iter().all(|sectors| *sectors < 64 * 3), "{taken:?}");
}

/// OpenZFS #10095: reads fell to 1 MB/s beside writes.
#[test]
fn openzfs_10095_a_read_does_not_wait_behind_writes_that_wait() {
    /// Bytes that are written: four times the bytes that a disk has at once, in requests of at most
    /// 1 MiB.
    const WRITTEN: u64 = 64 << 20;
    const WRITE: usize = 128 << 10;
    let mut world = World::of_size(TopLevelKind::Leaf, 1, 256 << 20, Limits::default());
    let volume = world.create_volume("hot", WRITTEN, BLOCK as u32);
    let cold = world.create_volume("cold", 1 << 20, BLOCK as u32);
    world.write(cold, 0, &[9; BLOCK], true);
    world.checkpoint();
    world.reopen().expect("with nothing in memory");
    for number in 0..WRITTEN / WRITE as u64 {
        submit(
            &mut world,
            number,
            write(volume, number * WRITE as u64, 1, WRITE, false),
        );
    }
    let id = submit(
        &mut world,
        1000,
        Request::Read {
            dataset: cold,
            offset: 0,
            len: BLOCK as u32,
        },
    );
    let mut done = 0;
    while !world.is_answered(id) {
        assert!(world.do_one(), "no answer");
        done += 1;
    }
    let mut left = 0;
    while world.do_one() {
        left += 1;
    }
    // The read needs nodes of its map and the block itself. The first waits for the writes that the
    // disk has at once, the others for the few writes that it has beside reads.
    let most = crate::vdev::Limits::default().async_writes + 8;
    assert!(
        done <= most,
        "{done} requests of the disk before it, {left} after it"
    );
    assert!(
        left > most,
        "only {left} requests of the disk after it, {done} before it"
    );
}
