//! Tests of reads beside the engine: what they find among writers, rollbacks and devices that lie,
//! fail or hang.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use block::{BlockError, Geometry, Usage};
use store::cache::Key;
use store::vdev::LeafId;

use super::*;
use crate::pool_thread::PoolThread;

const SIZE: u64 = 48 << 20;
const BLOCK: usize = 16 << 10;
const BLOCKS: u64 = SIZE / BLOCK as u64;

/// Returns the bytes of a block in a version. They cannot be compressed much.
fn bytes(block: u64, version: u32) -> Vec<u8> {
    let mut state = (block << 32 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..BLOCK / 8).map(|at| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match at {
            0 => block,
            1 => u64::from(version),
            _ => state,
        }
    });
    words.flat_map(u64::to_le_bytes).collect()
}

fn word(data: &[u8], number: usize) -> u64 {
    u64::from_le_bytes(data[number * 8..][..8].try_into().expect("8 bytes"))
}

/// Makes a pool whose volume has version 1 of every block, and of which nothing is in memory.
fn filled(folder: &Path, kind: (VdevKind, usize)) -> (Arc<Pools>, PoolVolume) {
    let mut lane = Lane::standing().expect("a lane");
    let (first, volume) = with_volume(folder, kind, SIZE, 4096);
    for block in 0..BLOCKS {
        let at = block * BLOCK as u64;
        write(&volume, &mut lane, at, &bytes(block, 1), false);
    }
    drop(volume);
    first.close();
    drop(first);
    let pools = pools(folder);
    let volume = pools.open_volume("tank/a", 4096).expect("opens");
    (pools, volume)
}

/// Returns the number of requests that lanes made beside the engine.
fn direct(pools: &Pools) -> u64 {
    let (_, pool) = pools.all().pop().expect("a pool");
    let counts = pool.host.ask(|pool| {
        let copies = pool.whole_copies().into_iter().flatten();
        copies.map(|(_, counts)| counts.requests()).sum()
    });
    counts.expect("it answers")
}

/// Visits numbers below a bound in an order that no read-ahead follows.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |number| number * 1_021 % count)
}

fn read_block(volume: &PoolVolume, lane: &mut Lane, block: u64) -> Vec<u8> {
    read(volume, lane, block * BLOCK as u64, BLOCK as u32)
}

#[test]
fn cold_reads_go_beside_the_engine_and_count() {
    for kind in [(VdevKind::Disk, 1), (VdevKind::Mirror, 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (pools, volume) = filled(folder.path(), kind);
        let mut lane = Lane::standing().expect("a lane");
        let before = pools.view("tank").expect("a pool").vdevs[0]
            .io
            .expect("open");
        for block in scattered(BLOCKS) {
            assert!(
                read_block(&volume, &mut lane, block) == bytes(block, 1),
                "{block}"
            );
        }
        let made = direct(&pools);
        assert!(made > BLOCKS * 9 / 10, "{made} of {BLOCKS}");
        let after = pools.view("tank").expect("a pool").vdevs[0]
            .io
            .expect("open");
        assert!(after.read.operations - before.read.operations >= BLOCKS);
        // Part of a block, and blocks that lie in a row.
        let cache = pools.all().pop().expect("a pool").1;
        cache
            .host
            .cache()
            .invalidate_volume(volume.dataset().0.into());
        let at = 40 * BLOCK as u64 + 4096;
        let right = [bytes(40, 1), bytes(41, 1), bytes(42, 1)].concat();
        assert!(read(&volume, &mut lane, at, 8192) == right[4096..][..8192]);
        assert!(read(&volume, &mut lane, at, 2 * BLOCK as u32) == right[4096..][..2 * BLOCK]);
        assert!(direct(&pools) > made);
        pools.close();
    }
}

/// Device in the place of a leaf's, for readers beside the engine alone.
#[derive(Debug)]
struct Impostor {
    manner: Manner,
    /// Requests without an answer.
    kept: Mutex<Vec<Ticket>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Lies,
    TellsLittle,
    Fails,
    Hangs,
}

impl BlockDevice for Impostor {
    fn geometry(&self) -> Geometry {
        unreachable!("nobody asks")
    }

    fn submit(&self, request: Request, ticket: Ticket, lane: &mut Lane) -> Submitted {
        let Request::Read { len, .. } = request else {
            unreachable!("it is only read")
        };
        let outcome = match self.manner {
            Manner::Lies => Ok(Done::Pages(Pages::from_bytes(&vec![7; len as usize]))),
            Manner::TellsLittle => Ok(Done::Pages(Pages::from_bytes(&[0; 512]))),
            Manner::Fails => Err(BlockError::new(BlockErrorKind::Medium, "on purpose")),
            Manner::Hangs => {
                self.kept.lock().expect("no panic").push(ticket);
                lane.count_pending();
                return Submitted::Pending;
            }
        };
        Submitted::Ready(outcome)
    }

    fn reads_on_any_lane(&self) -> bool {
        true
    }

    fn usage(&self) -> Result<Usage, BlockError> {
        unreachable!("nobody asks")
    }
}

/// Puts impostors in the places of all leaves' devices.
fn deceive(pools: &Pools, manner: Manner) -> Arc<Impostor> {
    let kept = Mutex::new(Vec::new());
    let impostor = Arc::new(Impostor { manner, kept });
    let (_, pool) = pools.all().pop().expect("a pool");
    for leaf in 0..2 {
        let device = Arc::clone(&impostor) as Arc<dyn BlockDevice>;
        pool.host.direct().attach(LeafId(leaf), &device);
    }
    impostor
}

#[test]
fn devices_that_lie_or_fail_are_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Mirror, 2));
    let mut lane = Lane::standing().expect("a lane");
    for manner in [Manner::Lies, Manner::TellsLittle, Manner::Fails] {
        deceive(&pools, manner);
        let (_, pool) = pools.all().pop().expect("a pool");
        pool.host
            .cache()
            .invalidate_volume(volume.dataset().0.into());
        for block in scattered(BLOCKS) {
            let is_right = read_block(&volume, &mut lane, block) == bytes(block, 1);
            assert!(is_right, "{manner:?}, block {block}");
        }
        assert_eq!(direct(&pools), 0);
    }
    pools.close();
}

/// Lets the devices hang once the volume's leaf is known. Returns a lane, and what hangs.
fn hanging(pools: &Pools, volume: &PoolVolume) -> (Lane, Arc<Impostor>) {
    let mut lane = Lane::standing().expect("a lane");
    read_block(volume, &mut lane, 0);
    read_block(volume, &mut lane, 9);
    (lane, deceive(pools, Manner::Hangs))
}

#[test]
fn a_device_that_hangs_holds_no_read_for_long() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Mirror, 2));
    let (mut lane, impostor) = hanging(&pools, &volume);
    for block in [100, 200] {
        assert!(
            read_block(&volume, &mut lane, block) == bytes(block, 1),
            "{block}"
        );
    }
    let kept = std::mem::take(&mut *impostor.kept.lock().expect("no panic"));
    assert_eq!(kept.len(), 2);
    // Late answers go to nobody.
    for ticket in kept {
        lane.complete(ticket, Ok(Done::Pages(Pages::from_bytes(&bytes(100, 1)))));
    }
    let mut finished = Vec::new();
    lane.take_completions(&mut finished);
    assert!(finished.is_empty() && lane.in_flight() == 0);
    pools.close();
}

#[test]
fn a_lane_that_ends_waits_for_its_callers_and_not_for_the_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Mirror, 2));
    let (mut lane, impostor) = hanging(&pools, &volume);
    for (token, block) in [(1, 100), (2, 200)] {
        let request = Request::Read {
            offset: block * BLOCK as u64,
            len: BLOCK as u32,
        };
        let submitted = volume.submit(request, Ticket::new(token), &mut lane);
        assert!(matches!(submitted, Submitted::Pending));
    }
    drop(lane);
    assert_eq!(impostor.kept.lock().expect("no panic").len(), 2);
    // The engine has answered both, so the pool comes to rest.
    pools.close();
}

#[test]
fn lanes_that_have_read_keep_no_device_that_is_taken_out_of_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let mut lane = Lane::standing().expect("a lane");
    // The engine publishes the leaf with the first read.
    read_block(&volume, &mut lane, 0);
    let impostor = deceive(&pools, Manner::Lies);
    read_block(&volume, &mut lane, 100);
    let of_the_table = 2;
    assert!(
        Arc::strong_count(&impostor) > of_the_table + 1,
        "the lane has it"
    );
    let host = handle(&pools);
    host.direct().detach(LeafId(1));
    assert_eq!(Arc::strong_count(&impostor), of_the_table);
    // The next read looks for the device anew.
    deceive(&pools, Manner::Fails);
    assert_eq!(Arc::strong_count(&impostor), 1);
    assert!(read_block(&volume, &mut lane, 200) == bytes(200, 1));
    host.direct().stop();
    let made = direct(&pools);
    assert!(read_block(&volume, &mut lane, 300) == bytes(300, 1));
    assert_eq!(direct(&pools), made);
    pools.close();
}

/// Lets a lane read a block from an impostor, which the lane then knows. The block and the one
/// before were not read yet.
fn known_to_a_lane(pools: &Pools, volume: &PoolVolume, block: u64) -> (Lane, Arc<Impostor>) {
    let mut lane = Lane::standing().expect("a lane");
    // The engine publishes the leaf with the first read.
    read_block(volume, &mut lane, block - 1);
    let impostor = deceive(pools, Manner::Fails);
    read_block(volume, &mut lane, block);
    assert_eq!(Arc::strong_count(&impostor), OF_THE_TABLE + 1 + 1);
    (lane, impostor)
}

/// References to an impostor from the table, which has it for two leaves.
const OF_THE_TABLE: usize = 2;

#[test]
fn lanes_that_have_read_look_anew_after_each_change_of_the_devices() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let host = handle(&pools);
    // Another device in the place of the one that the lane knows.
    let (mut lane, first) = known_to_a_lane(&pools, &volume, 100);
    let second = deceive(&pools, Manner::Hangs);
    assert_eq!(Arc::strong_count(&first), 1);
    let request = Request::Read {
        offset: 200 * BLOCK as u64,
        len: BLOCK as u32,
    };
    let submitted = volume.submit(request, Ticket::new(1), &mut lane);
    assert!(matches!(submitted, Submitted::Pending));
    assert_eq!(
        second.kept.lock().expect("no panic").len(),
        1,
        "it is asked"
    );
    drop(lane);
    // A pool that is served anew, which may lie on other leaves.
    let (lane, impostor) = known_to_a_lane(&pools, &volume, 120);
    let served = Arc::clone(&host);
    host.ask(move |pool| served.direct().serve(pool))
        .expect("it answers");
    assert_eq!(Arc::strong_count(&impostor), OF_THE_TABLE + 1);
    drop(lane);
    // A pool that is let go.
    let (lane, impostor) = known_to_a_lane(&pools, &volume, 140);
    host.direct().let_go();
    assert_eq!(Arc::strong_count(&impostor), 1);
    drop(lane);
    pools.close();
}

#[test]
fn reads_whose_device_hangs_end_with_their_pool_and_keep_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let (mut lane, impostor) = hanging(&pools, &volume);
    for (token, blocks) in [(1, 1), (2, 2)] {
        let request = Request::Read {
            offset: token * 100 * BLOCK as u64,
            len: blocks * BLOCK as u32,
        };
        let submitted = volume.submit(request, Ticket::new(token), &mut lane);
        assert!(matches!(submitted, Submitted::Pending));
    }
    let cache = Arc::clone(handle(&pools).cache());
    drop(volume);
    pools.close();
    drop(pools);
    let mut finished = Vec::new();
    while finished.len() < 2 {
        lane.wait(None).expect("it waits");
        lane.take_completions(&mut finished);
    }
    finished.sort_by_key(|(token, _)| *token);
    let told = finished.drain(..).map(|(token, outcome)| {
        let error = outcome.expect_err("the pool is gone");
        (token, error.kind())
    });
    let expected = [1, 2].map(|token| (token, BlockErrorKind::Gone));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(Arc::strong_count(&cache), 1);
    // Late answers go to nobody.
    let kept = std::mem::take(&mut *impostor.kept.lock().expect("no panic"));
    assert!(kept.len() >= 2);
    for ticket in kept {
        lane.complete(ticket, Ok(Done::Pages(Pages::from_bytes(&bytes(100, 1)))));
    }
    lane.take_completions(&mut finished);
    assert!(finished.is_empty() && lane.in_flight() == 0);
}

/// Each reader knows which version was acknowledged before it asked, and gets that one or a newer
/// one, whole.
#[test]
fn readers_among_writers_get_what_was_acknowledged_or_newer() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Mirror, 2));
    let acknowledged: Vec<AtomicU32> = (0..BLOCKS).map(|_| AtomicU32::new(1)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The first reads here and there, the others in order, with bytes read ahead of them.
        let readers = [(331_u64, 1_u64), (4, 4), (16, 16)].map(|(step, count)| {
            let (volume, acknowledged, is_over) = (&volume, &acknowledged, &is_over);
            scope.spawn(move || {
                let mut lane = Lane::standing().expect("a lane");
                let mut reads = 0;
                while !is_over.load(Ordering::Acquire) {
                    let first = reads * step % (BLOCKS - BLOCKS % count);
                    let blocks = first..first + count;
                    let least: Vec<u32> = blocks
                        .clone()
                        .map(|block| acknowledged[block as usize].load(Ordering::Acquire))
                        .collect();
                    let len = count as u32 * BLOCK as u32;
                    let data = read(volume, &mut lane, first * BLOCK as u64, len);
                    for ((block, least), data) in blocks.zip(least).zip(data.chunks(BLOCK)) {
                        let version = word(data, 1) as u32;
                        assert!(version >= least, "block {block}: {version}, not {least}");
                        assert!(data == bytes(block, version), "block {block} is torn");
                    }
                    reads += 1;
                }
                reads
            })
        });
        let mut lane = Lane::standing().expect("a lane");
        for number in 0..6_000_u64 {
            let block = number * 577 % BLOCKS;
            let version = 2 + (number / BLOCKS) as u32;
            let (at, is_durable) = (block * BLOCK as u64, number % 50 == 0);
            write(&volume, &mut lane, at, &bytes(block, version), is_durable);
            acknowledged[block as usize].store(version, Ordering::Release);
        }
        is_over.store(true, Ordering::Release);
        let reads = readers.map(|reader| reader.join().expect("a reader"));
        assert!(reads.iter().all(|reads| *reads > 100), "{reads:?}");
    });
    assert!(direct(&pools) > 0);
    pools.close();
}

/// Bytes of a request of a reader in order.
const STEP: u64 = 64 << 10;

fn handle(pools: &Pools) -> Arc<PoolThread> {
    Arc::clone(&pools.all().pop().expect("a pool").1.host)
}

fn waiting_bytes(pools: &Pools) -> usize {
    let waiting = handle(pools).direct().waiting();
    waiting.iter().map(|(_, bytes)| bytes).sum()
}

/// Reads a volume in order, beyond what the cache holds, until bytes wait for the reader. Returns
/// the first of them.
fn read_until_bytes_wait(pools: &Pools, volume: &PoolVolume, lane: &mut Lane) -> u64 {
    let host = handle(pools);
    let mut at = 0;
    while host.direct().waiting().is_empty() {
        let first = at / BLOCK as u64;
        let right: Vec<u8> = (first..first + STEP / BLOCK as u64)
            .flat_map(|block| bytes(block, 1))
            .collect();
        assert!(read(volume, lane, at, STEP as u32) == right, "at {at}");
        at += STEP;
        while lane.wait(Some(Instant::now())).is_ok() && !host.direct().is_idle() {
            lane.take_completions(&mut Vec::new());
        }
    }
    assert!(at > host.cache().cap() as u64, "{at}");
    host.direct().waiting()[0].0
}

#[test]
fn bytes_ahead_of_a_long_reader_wait_for_it_outside_the_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let mut lane = Lane::standing().expect("a lane");
    let at = read_until_bytes_wait(&pools, &volume, &mut lane);
    let host = handle(&pools);
    let block = at / BLOCK as u64;
    let key = Key {
        volume: volume.dataset().0.into(),
        block,
    };
    assert!(!host.cache().holds(key));
    let (made, waiting) = (direct(&pools), waiting_bytes(&pools));
    // Whatever its lane, and without a device.
    let mut other = Lane::standing().expect("a lane");
    assert!(read_block(&volume, &mut other, block) == bytes(block, 1));
    assert_eq!(direct(&pools), made);
    // Memory is kept for whole reads.
    assert_eq!(waiting_bytes(&pools), waiting);
    assert!(!host.cache().holds(key));
    pools.close();
}

#[test]
fn a_writer_in_order_passes_the_cache_once_it_has_written_more_than_that_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = with_volume(folder.path(), (VdevKind::Disk, 1), SIZE, 4096);
    let mut lane = Lane::standing().expect("a lane");
    let host = handle(&pools);
    let mut passed = Vec::new();
    for at in (0..SIZE).step_by(STEP as usize) {
        let first = at / BLOCK as u64;
        let data: Vec<u8> = (first..first + STEP / BLOCK as u64)
            .flat_map(|block| bytes(block, 1))
            .collect();
        write(&volume, &mut lane, at, &data, false);
        let key = Key {
            volume: volume.dataset().0.into(),
            block: first,
        };
        passed.push(!host.cache().holds(key));
    }
    let held = (host.cache().cap() as u64 / STEP) as usize;
    assert!(passed[..held].iter().all(|is_passed| !is_passed));
    assert!(passed[held + 8..].iter().all(|is_passed| *is_passed));
    for block in scattered(BLOCKS) {
        assert!(
            read_block(&volume, &mut lane, block) == bytes(block, 1),
            "{block}"
        );
    }
    pools.close();
}

#[test]
fn bytes_that_wait_are_not_taken_for_newer_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let mut lane = Lane::standing().expect("a lane");
    let at = read_until_bytes_wait(&pools, &volume, &mut lane);
    let host = handle(&pools);
    let (block, waiting) = (at / BLOCK as u64, waiting_bytes(&pools));
    write(&volume, &mut lane, at, &bytes(block, 2), false);
    let right = [bytes(block, 2), bytes(block + 1, 1)].concat();
    for _ in 0..2 {
        assert!(read(&volume, &mut lane, at, 2 * BLOCK as u32) == right);
        host.cache().invalidate_volume(volume.dataset().0.into());
    }
    assert!(waiting_bytes(&pools) >= waiting, "they were passed over");
    pools.close();
}

#[test]
fn bytes_that_wait_in_vain_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let mut lane = Lane::standing().expect("a lane");
    read_until_bytes_wait(&pools, &volume, &mut lane);
    let host = handle(&pools);
    // The lane has an alarm for it.
    assert!(lane.next_deadline().is_some());
    host.direct()
        .expire_late(Instant::now() + Duration::from_secs(60));
    assert_eq!(waiting_bytes(&pools), 0);
    read_until_bytes_wait(&pools, &volume, &mut lane);
    host.direct().stop();
    assert_eq!(waiting_bytes(&pools), 0);
    pools.close();
}

#[test]
fn rollbacks_and_discards_leave_no_old_block_to_readers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pools, volume) = filled(folder.path(), (VdevKind::Disk, 1));
    let mut lane = Lane::standing().expect("a lane");
    let expect = |volume: &PoolVolume, lane: &mut Lane, version: &dyn Fn(u64) -> Option<u32>| {
        for block in scattered(64) {
            let right = version(block).map_or(vec![0; BLOCK], |version| bytes(block, version));
            assert!(read_block(volume, lane, block) == right, "block {block}");
        }
    };
    let forget = |pools: &Pools, volume: &PoolVolume| {
        let (_, pool) = pools.all().pop().expect("a pool");
        pool.host
            .cache()
            .invalidate_volume(volume.dataset().0.into());
    };
    let changed = |block| match block {
        8..24 => None,
        0..32 => Some(2),
        _ => Some(1),
    };
    expect(&volume, &mut lane, &|_| Some(1));
    let snapshot = DatasetChange::Snapshot {
        names: vec!["tank/a@one".to_owned()],
        recursive: false,
        properties: [].into(),
    };
    pools.change(&snapshot).expect("a snapshot");
    for block in 0..32 {
        write(
            &volume,
            &mut lane,
            block * BLOCK as u64,
            &bytes(block, 2),
            true,
        );
    }
    let discard = Request::Discard {
        offset: 8 * BLOCK as u64,
        len: 16 * BLOCK as u64,
    };
    ask(&volume, &mut lane, discard).expect("discarded");
    for _ in 0..2 {
        forget(&pools, &volume);
        expect(&volume, &mut lane, &changed);
    }
    // The changes come into the tree, and their leaf is published.
    drop(volume);
    pools.close();
    drop(pools);
    let pools = super::pools(folder.path());
    let volume = pools.open_volume("tank/a", 4096).expect("opens");
    for _ in 0..2 {
        forget(&pools, &volume);
        expect(&volume, &mut lane, &changed);
    }
    assert!(direct(&pools) > 0);
    // From the snapshot too, which shares the leaf.
    let then = pools.open_volume("tank/a@one", 4096).expect("opens");
    for block in scattered(64) {
        assert!(
            read_block(&then, &mut lane, block) == bytes(block, 1),
            "block {block}"
        );
    }
    drop(then);
    let rollback = DatasetChange::Rollback {
        snapshot: "tank/a@one".to_owned(),
        recursive: false,
        clones: false,
    };
    pools.change(&rollback).expect("rolled back");
    for _ in 0..2 {
        forget(&pools, &volume);
        expect(&volume, &mut lane, &|_| Some(1));
    }
    pools.close();
}
