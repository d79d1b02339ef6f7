//! Disks rot, fail and are replaced while the pool is in use.

use crate::catalog::request::{Destroy, TakeSnapshots};
use crate::engine::tests::world::{DISK, World};
use crate::engine::{Answer, Limits, Plan, Request, ScanKind, ScanState, ScanStatus};
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::{
    Class, LeafId, LeafSpec, ShapeErrorKind, TopLevelKind, TopLevelSpec, VdevState, VdevTree,
};

pub(in crate::engine::tests) const SIZE: u64 = 8 << 20;

/// Makes a pool whose volume is partly filled, before a checkpoint and after it.
pub(in crate::engine::tests) fn filled(
    kind: TopLevelKind,
    disks: usize,
    block_size: u32,
) -> (World, DatasetId, Vec<u8>) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("v", SIZE, block_size);
    let mut model = vec![0; SIZE as usize];
    for number in 0..48_u64 {
        if number == 30 {
            world.checkpoint();
        }
        let at = number.wrapping_mul(2_654_435_761) % (SIZE / 4096 - 16) * 4096;
        let bytes: Vec<u8> = (0..65_536_u64)
            .map(|byte| (byte.wrapping_mul(number * 2 + 1) >> 5) as u8)
            .collect();
        world.write(volume, at, &bytes, true);
        model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    }
    world.checkpoint();
    (world, volume, model)
}

pub(in crate::engine::tests) fn run_scrub(world: &mut World) -> ScanStatus {
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    let status = world.pool.scan_status().expect("a scan");
    assert_eq!(
        (status.kind, status.state),
        (ScanKind::Scrub, ScanState::Finished)
    );
    status
}

pub(in crate::engine::tests) fn resilvered(world: &World) -> ScanStatus {
    let scan = world.pool.scan_status().expect("a resilver");
    let is = (scan.kind, scan.state, scan.unrecoverable);
    assert_eq!(is, (ScanKind::Resilver, ScanState::Finished, 0));
    scan
}

pub(in crate::engine::tests) fn is_whole(world: &World) -> bool {
    let status = world.pool.status();
    status.state == VdevState::Online && status.suspended.is_none()
}

/// Damages every `nth` sector that was ever written after the front labels. Returns their number.
fn rot(world: &mut World, disk: usize, nth: usize) -> usize {
    let first = (1 << 20) / SECTOR_SIZE as u64;
    let last = (DISK - (1 << 20)) / SECTOR_SIZE as u64;
    let mut count = 0;
    for (_, sector) in world.disks[disk].range_mut(first..last).step_by(nth) {
        sector[100] ^= 0x40;
        count += 1;
    }
    count
}

#[test]
fn a_mirror_half_rotted_is_healed_and_every_repair_counted() {
    let (mut world, volume, model) = filled(TopLevelKind::Mirror, 2, 4096);
    assert!(rot(&mut world, 1, 2) > 100);
    let scrub = run_scrub(&mut world);
    assert!(scrub.bad > 100, "{scrub:?}");
    assert_eq!((scrub.repaired, scrub.unrecoverable), (scrub.bad, 0));
    let again = run_scrub(&mut world);
    assert_eq!((again.bad, again.unrecoverable), (0, 0));
    assert!(world.read(volume, 0, SIZE as u32) == model);
    world.reopen().expect("opens");
    assert!(world.read(volume, 0, SIZE as u32) == model);
}

#[test]
fn what_nobody_can_mend_is_an_error_and_never_wrong_bytes() {
    let (mut world, volume, model) = filled(TopLevelKind::Leaf, 1, 4096);
    rot(&mut world, 0, 5);
    // The cache has blocks that were read and written before.
    world.pool.cache.invalidate_volume(volume.0.into());
    let mut errors = 0;
    for block in 0..SIZE / 4096 {
        let request = Request::Read {
            dataset: volume,
            offset: block * 4096,
            len: 4096,
        };
        match world.ask(request) {
            Ok(Answer::Data(data)) => {
                let at = (block * 4096) as usize;
                assert!(data.to_vec() == model[at..at + 4096], "block {block}");
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 50, "{errors}");
}

#[test]
fn a_raidz2_survives_two_and_is_rebuilt() {
    let (mut world, volume, mut model) = filled(TopLevelKind::Raidz { parity: 2 }, 5, 16384);
    world.dead.extend([1, 3]);
    let bytes = vec![0xab; 40_000];
    world.write(volume, 12_288, &bytes, true);
    model[12_288..52_288].copy_from_slice(&bytes);
    assert!(world.read(volume, 0, SIZE as u32) == model);
    assert_eq!(world.pool.status().state, VdevState::Degraded);
    // New, empty disks take their places.
    for (old, new) in [(1_usize, 5_u64), (3, 6)] {
        world.disks.push(Default::default());
        let leaf = world.pool.leaf(100 + old as u64).expect("the old one");
        let spec = LeafSpec::new(100 + new, DISK);
        let leaf = world.pool.replace(leaf, &spec).expect("takes its place");
        world.leaves.insert(leaf.0, new as usize);
    }
    let now = world.now_us;
    world.pool.tick(now, 2_000);
    world.settle();
    resilvered(&world);
    assert!(is_whole(&world), "{:?}", world.pool.status());
    let scrub = run_scrub(&mut world);
    assert_eq!((scrub.bad, scrub.unrecoverable), (0, 0));
    assert!(world.read(volume, 0, SIZE as u32) == model);
}

#[test]
fn a_disk_that_was_away_gets_what_it_missed_and_no_more() {
    let (mut world, volume, mut model) = filled(TopLevelKind::Mirror, 2, 4096);
    let leaf = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.offline(leaf, now).expect("the other has all");
    let bytes = vec![0x77; 200_000];
    world.write(volume, 65_536, &bytes, true);
    model[65_536..265_536].copy_from_slice(&bytes);
    world.checkpoint();
    let now = world.now_us;
    world.pool.online(leaf, now).expect("comes back");
    world.pool.tick(now, 3_000);
    world.settle();
    let scan = resilvered(&world);
    assert!(scan.repaired >= 48 && scan.repaired < 400, "{scan:?}");
    assert!(is_whole(&world));
    assert_eq!(run_scrub(&mut world).bad, 0);
    world.dead.insert(0);
    assert!(world.read(volume, 0, SIZE as u32) == model);
}

#[test]
fn a_spare_takes_the_place_of_a_disk_that_rots_without_a_word() {
    let (mut world, volume, model) = filled(TopLevelKind::Mirror, 2, 4096);
    assert!(rot(&mut world, 1, 2) > 100);
    run_scrub(&mut world);
    let status = world.pool.status();
    let rotten = world.pool.leaf(101).expect("the second");
    assert_eq!(
        (status.state, &status.failing[..]),
        (VdevState::Degraded, &[rotten][..])
    );
    // The disk is used as before: its data is good if its checksums say so.
    world.dead.insert(0);
    assert!(world.read(volume, 0, SIZE as u32) == model);
    let (mut world, volume, model) = filled(TopLevelKind::Mirror, 2, 4096);
    world.disks.push(Default::default());
    world.pool.add_spares(vec![LeafSpec::new(102, DISK)]);
    world.checkpoint();
    assert!(rot(&mut world, 1, 2) > 100);
    run_scrub(&mut world);
    let status = world.pool.status();
    assert_eq!(
        (status.state, status.spares_in_use),
        (VdevState::Degraded, vec![102])
    );
    let rotten = world.pool.leaf(101).expect("the second");
    assert!(!world.pool.uses(rotten), "the spare has all that it had");
    world.dead.insert(0);
    assert!(world.read(volume, 0, SIZE as u32) == model);
}

/// A single disk rots, and its good data is nowhere else. So it stays in use beside the spare.
#[test]
fn a_rotten_disk_stays_in_use_where_nobody_has_what_it_has() {
    let (mut world, volume, _) = filled(TopLevelKind::Leaf, 1, 4096);
    world.disks.push(Default::default());
    world.pool.add_spares(vec![LeafSpec::new(101, DISK)]);
    world.checkpoint();
    let place = {
        let pool = &mut world.pool;
        let map = &pool.contents[&volume].map;
        let found =
            (0..SIZE / 4096).map(|at| map.look_up(&mut pool.node_cache, at).expect("in memory"));
        let used: Vec<u64> = found
            .filter(|of| !of.is_hole())
            .map(|of| of.address.sector())
            .collect();
        used
    };
    for sector in place.iter().take(20) {
        let sector = crate::vdev::layout::sector_offset(*sector) / SECTOR_SIZE as u64;
        world.disks[0].get_mut(&sector).expect("written")[9] ^= 1;
    }
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    let status = world.pool.status();
    assert_eq!(status.spares_in_use, [101]);
    let rotten = world.pool.leaf(100).expect("the first");
    assert!(world.pool.uses(rotten), "{status:?}");
    assert!(
        status.scan.is_some_and(|scan| scan.unrecoverable >= 20),
        "{:?}",
        status.scan
    );
}

/// Returns the status as a checkpoint keeps it: the outcome without the progress.
fn kept(status: ScanStatus) -> ScanStatus {
    ScanStatus {
        began_us: 0,
        ..status
    }
}

#[test]
fn how_the_last_scan_ended_is_known_when_the_pool_is_opened_again() {
    let (mut world, _, _) = filled(TopLevelKind::Mirror, 2, 4096);
    assert!(world.pool.scan_status().is_none());
    assert!(rot(&mut world, 1, 2) > 100);
    let scrub = kept(run_scrub(&mut world));
    assert!(scrub.repaired_bytes > 0, "{scrub:?}");
    world.crash().expect("opens");
    assert_eq!(world.pool.scan_status(), Some(scrub));
    // The scan is over: nothing continues, and no event reports it as news.
    assert_eq!(world.pool.scan_state(), None);
    world.settle();
    // If the next scan does not end, the outcome of the last one stays.
    let now = world.now_us;
    world.pool.scrub(now);
    world.crash().expect("opens");
    assert_eq!(world.pool.scan_status(), Some(scrub));
    // A scan that is stopped has ended.
    let now = world.now_us;
    world.pool.scrub(now);
    world.pool.stop_scrub();
    world.settle();
    let stopped = kept(world.pool.scan_status().expect("a scan"));
    assert_eq!(stopped.state, ScanState::Canceled);
    let now = world.now_us;
    world.pool.begin_closing(true, now);
    world.settle();
    assert!(world.pool.is_settled());
    world.crash().expect("imports");
    assert_eq!(world.pool.scan_status(), Some(stopped));
}

#[test]
fn how_a_resilver_ended_is_known_when_the_pool_is_opened_again() {
    let (mut world, volume, _) = filled(TopLevelKind::Mirror, 2, 4096);
    let leaf = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.offline(leaf, now).expect("the other has all");
    world.write(volume, 65_536, &[0x77; 200_000], true);
    world.checkpoint();
    let now = world.now_us;
    world.pool.online(leaf, now).expect("comes back");
    world.settle();
    let scan = kept(resilvered(&world));
    world.crash().expect("opens");
    assert_eq!(world.pool.scan_status(), Some(scan));
}

/// No block is lost: another disk may be tried.
#[test]
fn a_resilver_whose_disk_goes_away_tells_of_no_lost_block() {
    let (mut world, volume, model) = filled(TopLevelKind::Mirror, 2, 4096);
    let replace = |world: &mut World, disk: usize| {
        world.disks.push(Default::default());
        let old = world.pool.leaf(101).expect("the second");
        let spec = LeafSpec::new(100 + disk as u64, DISK);
        let new = world.pool.replace(old, &spec).expect("it is replaced");
        world.leaves.insert(new.0, disk);
        new
    };
    let new = replace(&mut world, 2);
    let resilvering = Some((ScanKind::Resilver, ScanState::Running));
    while world.pool.scan_state() != resilvering
        || world
            .pool
            .scan_status()
            .is_none_or(|scan| scan.examined_sectors == 0)
    {
        assert!(world.do_one(), "no resilver");
    }
    world.dead.insert(2);
    world.settle();
    let scan = world.pool.scan_status().expect("a resilver");
    assert_eq!((scan.state, scan.unrecoverable), (ScanState::Canceled, 0));
    assert_eq!(world.unrecoverable, []);
    assert!(world.read(volume, 0, SIZE as u32) == model);
    let now = world.now_us;
    world.pool.detach(new, now).expect("given up");
    replace(&mut world, 3);
    world.settle();
    resilvered(&world);
    assert!(is_whole(&world), "{:?}", world.pool.status());
}

/// A resilver without a disk reads nothing more, so another resilver, or the waiting scrub, can
/// begin.
#[test]
fn a_resilver_ends_with_the_only_disk_that_it_is_for() {
    let (mut world, _, _) = filled(TopLevelKind::Mirror, 2, 4096);
    let now = world.now_us;
    world.pool.scrub(now);
    world.disks.push(Default::default());
    let old = world.pool.leaf(101).expect("the second");
    let new = world.pool.replace(old, &LeafSpec::new(102, DISK));
    let new = new.expect("it is replaced");
    world.leaves.insert(new.0, 2);
    while world
        .pool
        .scan_state()
        .is_none_or(|(kind, _)| kind == ScanKind::Scrub)
    {
        assert!(world.do_one(), "no resilver");
    }
    let now = world.now_us;
    world.pool.removed(new, now).expect("it is gone");
    world.pool.tick(now, 1_000);
    let ended = world.pool.last_ended_scan().expect("a resilver").status();
    let is = (ended.kind, ended.state, ended.examined_sectors);
    assert_eq!(is, (ScanKind::Resilver, ScanState::Canceled, 0));
    assert_eq!(
        world.pool.scan_state(),
        Some((ScanKind::Scrub, ScanState::Running))
    );
    world.settle();
    let scrub = world.pool.scan_status().expect("the scrub");
    assert_eq!(
        (scrub.kind, scrub.state),
        (ScanKind::Scrub, ScanState::Finished)
    );
}

/// Each of two disks has data that the other lacks. One takes no writes any more, and the other is
/// rebuilt all the same.
#[test]
fn a_disk_that_does_not_take_what_is_rebuilt_keeps_no_other_from_it() {
    let (mut world, volume, mut model) = filled(TopLevelKind::Mirror, 2, 4096);
    let [first, second] = [100, 101].map(|guid| world.pool.leaf(guid).expect("a leaf"));
    let now = world.now_us;
    world.pool.offline(second, now).expect("the other has all");
    world.write(volume, 65_536, &[0x77; 200_000], true);
    model[65_536..265_536].fill(0x77);
    world.checkpoint();
    let now = world.now_us;
    world.pool.online(second, now).expect("comes back");
    world.unwritable.insert(0);
    world.write(volume, 0, &[0x78; 8192], true);
    model[..8192].fill(0x78);
    world.settle();
    let scan = world.pool.scan_status().expect("a resilver");
    assert_eq!((scan.state, scan.unrecoverable), (ScanState::Canceled, 0));
    let mut leaves = world.pool.disks.array().leaves();
    let rebuilt = leaves.find(|leaf| leaf.leaf == second).expect("there");
    assert!(!rebuilt.is_incomplete);
    assert!(!world.pool.uses(first), "the other has all that it has");
    drop(leaves);
    assert!(world.read(volume, 0, SIZE as u32) == model);
}

/// One disk missed blocks that have no right copy. Another disk goes, and is back before the
/// resilver of both is over.
#[test]
fn a_disk_that_goes_and_comes_back_in_a_resilver_is_rebuilt_after_it() {
    let mirror = |disks: [u64; 2]| {
        let leaves = disks.map(|disk| LeafSpec::new(100 + disk, DISK));
        TopLevelSpec::new(TopLevelKind::Mirror, Class::Normal, leaves)
    };
    let tree = VdevTree {
        top_levels: vec![mirror([0, 1]), mirror([2, 3])],
    };
    let mut world = World::of_tree(tree, 4, DISK, Limits::default());
    let volume = world.create_volume("v", SIZE, 4096);
    world.checkpoint();
    let away = [101, 103].map(|guid| world.pool.leaf(guid).expect("a leaf"));
    for leaf in away {
        let now = world.now_us;
        world.pool.offline(leaf, now).expect("the others have all");
    }
    let before = world.disks[0].clone();
    world.write(volume, 0, &[0x79; 2_000_000], true);
    let new = world.disks[0].iter_mut();
    new.filter(|(at, sector)| before.get(at) != Some(*sector))
        .for_each(|(_, sector)| sector[100] ^= 0x40);
    for leaf in away {
        let now = world.now_us;
        world.pool.online(leaf, now).expect("comes back");
    }
    while world
        .pool
        .scan_status()
        .is_none_or(|scan| scan.examined_sectors == 0)
    {
        assert!(world.do_one(), "no resilver");
    }
    let now = world.now_us;
    world.pool.removed(away[1], now).expect("it goes");
    while world.pool.online(away[1], now).is_err() {
        assert!(world.do_one(), "it owes no answer");
    }
    world.settle();
    let leaves = world.pool.disks.array().leaves();
    let incomplete: Vec<LeafId> = leaves
        .filter(|leaf| leaf.is_incomplete)
        .map(|leaf| leaf.leaf)
        .collect();
    assert_eq!(incomplete, [away[0]]);
    let scan = world.pool.scan_status().expect("a resilver");
    assert_eq!(
        (scan.kind, scan.state),
        (ScanKind::Resilver, ScanState::Finished)
    );
    assert!(scan.unrecoverable > 0, "{scan:?}");
    // Blocks that the first disk lacks are looked for twice, and not again and again.
    let lost = world.unrecoverable.len() as u64;
    assert!(lost <= 2 * scan.unrecoverable, "{lost}");
}

/// Data that could not be read from a hanging disk can be read when the disk answers.
#[test]
fn what_a_resilver_lacked_is_rebuilt_when_a_disk_answers_again() {
    let (mut world, volume, _) = filled(TopLevelKind::Mirror, 2, 4096);
    let second = world.pool.leaf(101).expect("the second");
    let now = world.now_us;
    world.pool.offline(second, now).expect("the other has all");
    world.write(volume, 65_536, &[0x77; 400_000], true);
    world.checkpoint();
    let now = world.now_us;
    world.pool.online(second, now).expect("comes back");
    while world
        .pool
        .scan_status()
        .is_none_or(|scan| scan.examined_sectors == 0)
    {
        assert!(world.do_one(), "no resilver");
    }
    world.stuck.insert(0);
    let is_running = |world: &World| {
        let state = world.pool.scan_status().map(|scan| scan.state);
        state == Some(ScanState::Running)
    };
    while is_running(&world) {
        if !world.do_one() {
            let given_up = world.pool.deadline_us().expect("nobody waits for it");
            world.now_us = world.now_us.max(given_up);
            world.pool.tick(world.now_us, 1_000);
        }
    }
    let ended = world.pool.scan_status().expect("a resilver");
    assert!(ended.unrecoverable > 0, "{ended:?}");
    world.stuck.clear();
    world.answer_stuck();
    world.settle();
    assert!(is_whole(&world), "{:?}", world.pool.status());
    assert_eq!(run_scrub(&mut world).bad, 0);
}

/// A volume is destroyed, and then the only disk with the nodes of its map is replaced. The nodes
/// are read until all is free.
#[test]
fn what_is_being_freed_can_be_read_when_the_disk_was_replaced() {
    let limits = Limits {
        freed_blocks: 2,
        node_bytes: 0,
        ..Limits::default()
    };
    let mut world = World::new(TopLevelKind::Leaf, 1, limits);
    let volume = world.create_volume("v", 300 << 20, 4096);
    // Each block is below a node of its own, more nodes than are kept in memory.
    for place in 0..150 {
        world.write(volume, place * (2 << 20), &[7; 4096], true);
    }
    world.checkpoint();
    world.reopen().expect("opens");
    world.is_lazy = true;
    let names = vec!["v".to_owned()];
    let request = Destroy {
        names,
        ..Destroy::default()
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_destroy(&request));
    world.administer(plan).expect("destroyed");
    world.disks.push(Default::default());
    let old = world.pool.leaf(100).expect("the old one");
    let new = world
        .pool
        .replace(old, &LeafSpec::new(101, DISK))
        .expect("takes its place");
    world.leaves.insert(new.0, 1);
    while world.pool.disks.array().find(100).is_some() {
        assert!(world.do_one(), "it is not replaced");
    }
    world.disks[0].clear();
    world.settle();
    assert_eq!(world.pool.status().suspended, None);
    world.checkpoint();
    world.reopen().expect("opens");
}

/// A disk being rebuilt lacks data of the disk that it is rebuilt from. Without that disk the pool
/// does not open.
#[test]
fn a_pool_does_not_open_from_a_disk_that_is_only_half_rebuilt() {
    let (mut world, _, _) = filled(TopLevelKind::Leaf, 1, 4096);
    world.disks.push(Default::default());
    let old = world.pool.leaf(100).expect("the old one");
    let new = world
        .pool
        .replace(old, &LeafSpec::new(101, DISK))
        .expect("takes its place");
    world.leaves.insert(new.0, 1);
    let is_labelled = |world: &World| world.examine().expect("a pool").leaves[1].is_some();
    while !is_labelled(&world) || world.pool.scan_state().is_none() {
        assert!(world.do_one(), "it has no labels");
    }
    for _ in 0..40 {
        world.do_one();
    }
    assert!(world.pool.disks.array().find(100).is_some());
    world.absent.insert(0);
    let error = world.crash().expect_err("the other one has what it lacks");
    assert_eq!(error.kind, crate::engine::OpenErrorKind::Missing, "{error}");
    let mut examined = world.examine().expect("a pool");
    assert_eq!(examined.needed, [100]);
    examined.go_without_needed();
    world
        .crash_to(examined)
        .expect("somebody has decided on it");
}

/// The next checkpoint begins when the one before ends, under load, and snapshots come and go all
/// the time.
#[test]
fn a_resilver_ends_also_where_one_checkpoint_follows_the_other() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("v", 8 << 20, 4096);
    let mut taken = 0;
    let mut rotate = |world: &mut World| {
        taken += 1;
        let request = TakeSnapshots {
            names: vec![format!("v@{taken}")],
            ..TakeSnapshots::default()
        };
        let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
        world.administer(plan).expect("taken");
        if taken > 4 {
            let names = vec![format!("v@{}", taken - 4)];
            let request = Destroy {
                names,
                ..Destroy::default()
            };
            let plan: Plan = Box::new(move |catalog, _| catalog.plan_destroy(&request));
            world.administer(plan).expect("destroyed");
        }
    };
    for round in 0..4_u8 {
        for block in 0..200 {
            let at = block * 4096 + u64::from(round % 2) * 4096;
            world.write(volume, at, &[round + 1; 4096], false);
        }
        world.checkpoint();
        rotate(&mut world);
    }
    world.checkpoint();
    world.disks.push(Default::default());
    let old = world.pool.leaf(100).expect("the old one");
    let new = world
        .pool
        .replace(old, &LeafSpec::new(101, DISK))
        .expect("takes its place");
    world.leaves.insert(new.0, 1);
    world.is_lazy = true;
    for step in 1..30_000 {
        world.pool.schedule.want();
        world.do_one();
        if step % 100 == 0 {
            world.write(volume, step % 256 * 4096, &[9; 4096], true);
            rotate(&mut world);
        }
        if world.pool.disks.array().find(100).is_none() {
            world.disks[0].clear();
            world.pool.schedule.unwant();
            world.checkpoint();
            world.reopen().expect("opens");
            return;
        }
    }
    panic!("it does not end: {:?}", world.pool.scan_status());
}

#[test]
fn vdevs_are_added_all_or_none() {
    let mut world = World::new(TopLevelKind::Mirror, 2, Limits::default());
    let leaf = |guid, size| {
        let leaves = vec![LeafSpec::new(guid, size)];
        TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, leaves)
    };
    let (good, small, cache) = (leaf(200, DISK), leaf(201, 4096), LeafSpec::new(202, DISK));
    let refused = world.pool.add_all(&[good.clone(), small], &[]);
    assert_eq!(
        refused.expect_err("too small").kind,
        ShapeErrorKind::TooSmall
    );
    let used = world
        .pool
        .add_all(std::slice::from_ref(&good), &[LeafSpec::new(100, DISK)]);
    assert_eq!(used.expect_err("there already").kind, ShapeErrorKind::InUse);
    let status = world.pool.status();
    assert_eq!((status.top_levels.len(), status.caches.len()), (1, 0));
    world.pool.add_all(&[good], &[cache]).expect("added");
    let status = world.pool.status();
    assert_eq!((status.top_levels.len(), status.caches.len()), (2, 1));
}
