//! Log vdevs: promised changes count, whatever happens to the vdevs for blocks. And no fate of a
//! log vdev costs promised changes.

use crate::engine::Limits;
use crate::engine::tests::world::{DISK, World};
use crate::engine::{LogStatus, OpenErrorKind, RequestId};
use crate::format::DatasetId;
use crate::vdev::{
    Class, DeviceError, DeviceErrorKind, LeafSpec, TopLevelKind, TopLevelSpec, VdevState, VdevTree,
};

const MAIN: usize = 0;
const LOG: usize = 1;

/// Makes a pool on disk 0 with a log vdev on the disks after it, and a volume. Copies are made
/// already.
fn with_log(kind: TopLevelKind, leaves: usize) -> (World, DatasetId) {
    let leaf = |number: usize| LeafSpec::new(100 + number as u64, DISK);
    let tree = VdevTree {
        top_levels: vec![
            TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf(MAIN)]),
            TopLevelSpec::new(kind, Class::Log, (0..leaves).map(|at| leaf(LOG + at))),
        ],
    };
    let limits = Limits {
        checkpoint_us: u64::MAX / 4,
        ..Limits::default()
    };
    let mut world = World::of_tree(tree, 1 + leaves, DISK, limits);
    let volume = world.create_volume("v", 16 << 20, 4096);
    world.write(volume, 0, &[9; 4096], true);
    world.checkpoint();
    world.is_lazy = true;
    (world, volume)
}

fn log(world: &World) -> LogStatus {
    world.pool.status().logs[0]
}

/// Makes durable writes that the disk of the blocks does not do any more.
fn promised(world: &mut World, volume: DatasetId) {
    world.stuck.insert(MAIN);
    for number in 1..=20_u8 {
        world.write(volume, u64::from(number) * 8192, &[number; 8192], true);
    }
    world.clear(volume, 8192, 4096);
}

fn is_there(world: &mut World, volume: DatasetId) {
    assert_eq!(world.read(volume, 0, 4096), [9; 4096]);
    for number in 1..=20_u8 {
        let at = u64::from(number) * 8192;
        let bytes = world.read(volume, at, 8192);
        assert_eq!(bytes[4096..], [number; 4096], "{number}");
        let first = if number == 1 { 0 } else { number };
        assert_eq!(bytes[..4096], [first; 4096], "{number}");
    }
}

#[test]
fn what_a_log_vdev_promised_is_brought_among_the_blocks() {
    for (kind, leaves) in [(TopLevelKind::Leaf, 1), (TopLevelKind::Mirror, 2)] {
        let (mut world, volume) = with_log(kind, leaves);
        promised(&mut world, volume);
        let status = log(&world);
        assert!(status.is_in_use && status.records >= 21, "{status:?}");
        assert!(
            status.bytes >= 21 * 8192 && status.held_sectors >= 42,
            "{status:?}"
        );
        world.crash().expect("opens");
        is_there(&mut world, volume);
        // The data is also there without the log vdev, once it is among the blocks.
        world.crash().expect("opens again");
        is_there(&mut world, volume);
        world.checkpoint();
        assert_eq!(log(&world).held_sectors, 0);
        world.crash().expect("opens from the checkpoint");
        is_there(&mut world, volume);
    }
}

#[test]
fn each_half_of_a_mirrored_log_will_do() {
    for lost in [LOG, LOG + 1] {
        let (mut world, volume) = with_log(TopLevelKind::Mirror, 2);
        promised(&mut world, volume);
        world.disks[lost] = Default::default();
        world.crash().expect("the other half has it");
        is_there(&mut world, volume);
    }
}

#[test]
fn a_torn_copy_is_read_from_the_other_half() {
    let (mut world, volume) = with_log(TopLevelKind::Mirror, 2);
    promised(&mut world, volume);
    for (disk, odd) in [(LOG, 0), (LOG + 1, 1)] {
        let copies = world.disks[disk].range_mut(256..512);
        copies
            .filter(|(sector, _)| *sector % 2 == odd)
            .for_each(|(_, bytes)| bytes[7] ^= 1);
    }
    world.crash().expect("each sector is right on one of them");
    is_there(&mut world, volume);
}

#[test]
fn a_half_that_missed_copies_says_nothing_of_what_the_other_has() {
    let (mut world, volume) = with_log(TopLevelKind::Mirror, 2);
    world.dead.insert(LOG);
    world.write(volume, 16 << 16, &[3; 4096], true);
    world.settle();
    promised(&mut world, volume);
    // The leaf is back, and lacks data that cannot be read from the other now.
    world.dead.clear();
    for sector in 256..512 {
        world.unreadable.insert((LOG + 1, sector));
    }
    let error = world.crash().expect_err("it may be there only");
    assert_eq!(error.kind, OpenErrorKind::LogMissing, "{error}");
    world.unreadable.clear();
    world.crash().expect("opens");
    is_there(&mut world, volume);
}

#[test]
fn a_log_vdev_that_is_away_is_not_passed_over_in_silence() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    promised(&mut world, volume);
    world.disks[LOG] = Default::default();
    let error = world.crash().expect_err("the log is away");
    assert_eq!(error.kind, OpenErrorKind::LogMissing);
    assert!(error.context.contains("may be lost"), "{error}");
    let mut examined = world.examine().expect("labels");
    assert_eq!(examined.drop_missing_logs()[0].leaves, [101]);
    world.crash_to(examined).expect("opens without it");
    assert_eq!(world.read(volume, 0, 4096), [9; 4096]);
    // Data promised only there is lost, as was reported.
    assert_eq!(world.read(volume, 8192 * 5, 4096), [0; 4096]);
    world.write(volume, 4096, &[7; 4096], true);
    world.checkpoint();
    world.crash().expect("the labels do not know it any more");
    assert_eq!(world.read(volume, 4096, 4096), [7; 4096]);
    assert!(world.pool.status().logs.is_empty());
}

#[test]
fn a_promise_that_cannot_be_kept_is_damage() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    promised(&mut world, volume);
    // This hits the first copies, but not those that prove them.
    for (_, bytes) in world.disks[LOG].range_mut(258..264) {
        bytes.fill(0x55);
    }
    let error = world.crash().expect_err("what was durable is gone");
    assert_eq!(error.kind, OpenErrorKind::LogDamaged, "{error}");
}

#[test]
fn a_log_vdev_that_fails_is_left_at_once_and_nothing_is_lost() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    world.write(volume, 4096, &[1; 4096], true);
    assert!(log(&world).is_in_use);
    world.dead.insert(LOG);
    for number in 1..=5_u8 {
        let at = u64::from(number) * 65_536;
        world.write(volume, at, &[number; 65_536], true);
    }
    let status = log(&world);
    assert!(!status.is_in_use, "{status:?}");
    world.settle();
    let pool = world.pool.status();
    assert_eq!((pool.state, pool.suspended), (VdevState::Degraded, None));
    // The labels say that the log vdev is out of use, so nobody has to be asked.
    world.disks[LOG] = Default::default();
    world.dead.clear();
    world.crash().expect("opens without it");
    assert_eq!(world.read(volume, 4096, 4096), [1; 4096]);
    for number in 1..=5_u8 {
        let at = u64::from(number) * 65_536;
        assert_eq!(world.read(volume, at, 65_536), [number; 65_536]);
    }
}

#[test]
fn a_log_vdev_that_failed_is_used_again_when_it_is_believed() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    world.dead.insert(LOG);
    world.write(volume, 4096, &[1; 4096], true);
    world.settle();
    world.dead.clear();
    let (leaf, now) = (world.pool.leaf(101).expect("a leaf"), world.now_us);
    world.pool.clear(leaf).expect("cleared");
    world.pool.online(leaf, now).expect("it is there again");
    for number in 2..=4 {
        world.write(volume, number * 4096, &[number as u8; 4096], true);
    }
    world
        .crash()
        .expect("opens, whatever it is believed to have");
    for number in 1..=4 {
        let bytes = world.read(volume, number * 4096, 4096);
        assert_eq!(bytes, [number as u8; 4096], "{number}");
    }
    world.checkpoint();
    world.settle();
    world.write(volume, 0, &[9; 4096], true);
    promised(&mut world, volume);
    assert!(log(&world).is_in_use && log(&world).records >= 21);
    world.crash().expect("opens");
    is_there(&mut world, volume);
}

#[test]
fn a_log_vdev_that_hangs_is_not_waited_for() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    world.stuck.insert(LOG);
    let begun = world.now_us;
    world.write(volume, 4096, &[1; 4096], true);
    let took = world.now_us - begun;
    assert!(took < 200_000, "{took}");
    world.write(volume, 8192, &[2; 4096], true);
    assert!(world.now_us - begun < 200_000);
}

#[test]
fn a_full_log_vdev_costs_a_flush_and_no_write() {
    let leaf = |guid, size| LeafSpec::new(guid, size);
    let tree = VdevTree {
        top_levels: vec![
            TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf(100, DISK)]),
            TopLevelSpec::new(TopLevelKind::Leaf, Class::Log, [leaf(101, 5 << 19)]),
        ],
    };
    // The log has one MiB: 256 sectors.
    let mut world = World::of_tree(tree, 2, DISK, Limits::default());
    world.disk_sizes.insert(1, 5 << 19);
    let volume = world.create_volume("v", 32 << 20, 4096);
    world.checkpoint();
    world.is_lazy = true;
    for number in 0..300_u64 {
        let bytes = vec![(number % 200) as u8 + 1; 16_384 * (1 + number as usize % 4)];
        world.write(volume, number * 65_536, &bytes, true);
    }
    let status = log(&world);
    assert!(status.is_in_use && status.ring_sectors == 256, "{status:?}");
    assert!(status.bytes > 4 << 20, "it went round: {status:?}");
    world.crash().expect("opens");
    for number in 0..300_u64 {
        let bytes = world.read(volume, number * 65_536, 16_384);
        assert_eq!(bytes, [(number % 200) as u8 + 1; 16_384], "{number}");
    }
}

#[test]
fn a_log_vdev_comes_and_goes_while_the_pool_is_in_use() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("v", 16 << 20, 4096);
    world.write(volume, 0, &[9; 4096], true);
    world.checkpoint();
    world.disks.push(Default::default());
    world.leaves.insert(1, 1);
    let spec = TopLevelSpec::new(TopLevelKind::Leaf, Class::Log, [LeafSpec::new(101, DISK)]);
    let vdev = world.pool.add(&spec).expect("a log vdev");
    assert!(!log(&world).is_in_use, "no label knows it");
    world.checkpoint();
    assert!(log(&world).is_in_use);
    world.is_lazy = true;
    promised(&mut world, volume);
    world.crash().expect("opens");
    is_there(&mut world, volume);
    world.write(volume, 4096, &[4; 4096], true);
    let (id, now) = (RequestId(999), world.now_us);
    world.pool.remove_log(id, vdev, now);
    let answers = world.settle();
    let own = answers.iter().find(|(of, _)| *of == id).expect("an answer");
    assert!(own.1.is_ok(), "{own:?}");
    assert!(world.pool.status().logs.is_empty());
    world.disks[1] = Default::default();
    world.crash().expect("nobody misses it");
    is_there(&mut world, volume);
    assert_eq!(world.read(volume, 4096, 4096), [4; 4096]);
    let now = world.now_us;
    world.pool.remove_log(RequestId(1000), 0, now);
    let refused = world.settle();
    assert!(
        refused
            .iter()
            .any(|(id, result)| id.0 == 1000 && result.is_err())
    );
}

/// The flush that makes all its promises durable is the last thing that happens.
#[test]
fn a_log_vdev_goes_as_soon_as_nothing_needs_it() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    promised(&mut world, volume);
    let (id, now) = (RequestId(999), world.now_us);
    world.pool.remove_log(id, 1, now);
    world.settle();
    world.stuck.clear();
    world.answer_stuck();
    let answers = world.settle();
    let own = answers.iter().find(|(of, _)| *of == id).expect("an answer");
    assert!(own.1.is_ok(), "{own:?}");
    is_there(&mut world, volume);
}

#[test]
fn who_waits_for_a_log_vdev_to_go_is_told_when_the_pool_takes_no_changes_any_more() {
    let (mut world, volume) = with_log(TopLevelKind::Leaf, 1);
    promised(&mut world, volume);
    let (id, now) = (RequestId(999), world.now_us);
    world.pool.remove_log(id, 1, now);
    assert!(
        world.settle().iter().all(|(of, _)| *of != id),
        "what it promised is nowhere else"
    );
    world.stuck.clear();
    world.dead.insert(MAIN);
    for request in std::mem::take(&mut world.unanswered) {
        let error = DeviceError::new(DeviceErrorKind::Gone, "pulled");
        world.pool.completed(request.io, Err(error), world.now_us);
    }
    let answers = world.settle();
    let own = answers.iter().find(|(of, _)| *of == id).expect("an answer");
    assert!(own.1.is_err(), "{own:?}");
}
