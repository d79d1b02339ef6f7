//! Scrubs and resilvers that get into each other's way, or find faults that cannot be repaired.

use super::super::{Limits, Plan, ScanKind, ScanState, Span};
use super::world::{DISK, World};
use crate::catalog::request::TakeSnapshots;
use crate::format::{Address, DatasetId};
use crate::map::walk::{Progress, Visit, Walk};
use crate::snapshot::deadlist::Deadlist;
use crate::vdev::{LeafSpec, TopLevelKind};

/// Makes a pool with a partly filled volume.
fn filled(kind: TopLevelKind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("v", 8 << 20, 4096);
    for number in 0..64_u64 {
        world.write(volume, number * 16_384, &[number as u8 + 1; 16_384], true);
    }
    world.checkpoint();
    (world, volume)
}

/// Replaces the first disk by a new one.
fn replace(world: &mut World) {
    world.disks.push(Default::default());
    let number = world.disks.len() as u64 - 1;
    let old = world.pool.leaf(100).expect("the old one");
    let spec = LeafSpec::new(100 + number, DISK);
    let new = world.pool.replace(old, &spec).expect("takes its place");
    world.leaves.insert(new.0, number as usize);
}

fn last(world: &World) -> (ScanKind, ScanState) {
    world.pool.scan_state().expect("a scan")
}

/// Makes a pool with a scrub at work when a disk is replaced.
fn interrupted() -> World {
    let (mut world, _) = filled(TopLevelKind::Mirror, 2);
    world.holds_reads = true;
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    assert_eq!(last(&world), (ScanKind::Scrub, ScanState::Running));
    replace(&mut world);
    world.settle();
    assert_eq!(last(&world), (ScanKind::Resilver, ScanState::Running));
    world
}

fn go_on(world: &mut World) {
    world.answer_held(true);
    world.settle();
    assert!(
        world.pool.disks.array().find(100).is_none(),
        "it is replaced"
    );
    world.check();
}

#[test]
fn a_scrub_begins_again_after_the_resilver_that_interrupted_it() {
    let mut world = interrupted();
    assert_eq!(world.pool.status().waiting_scrub, Some(ScanState::Running));
    go_on(&mut world);
    let scan = world.pool.scan_status().expect("a scan");
    let is = (scan.kind, scan.state, scan.bad, scan.unrecoverable);
    assert_eq!(is, (ScanKind::Scrub, ScanState::Finished, 0, 0));
    assert_eq!(world.pool.status().waiting_scrub, None);
}

#[test]
fn a_scrub_that_waits_for_a_resilver_can_be_paused_and_stopped() {
    let mut world = interrupted();
    world.pool.stop_scrub();
    go_on(&mut world);
    assert_eq!(last(&world), (ScanKind::Resilver, ScanState::Finished));

    let mut world = interrupted();
    world.pool.pause_scrub();
    go_on(&mut world);
    assert_eq!(last(&world), (ScanKind::Scrub, ScanState::Paused));
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    assert_eq!(last(&world), (ScanKind::Scrub, ScanState::Finished));
}

/// A resilver that cannot rebuild everything is not tried again and again, and blocks no scrub.
#[test]
fn a_scrub_comes_to_its_end_after_a_resilver_that_could_not_rebuild_all() {
    let (mut world, volume) = filled(TopLevelKind::Leaf, 1);
    let place = {
        let pool = &mut world.pool;
        let map = &pool.contents[&volume].map;
        map.look_up(&mut pool.node_cache, 5)
            .expect("in memory")
            .address
    };
    let sector = crate::vdev::layout::sector_offset(place.sector()) / 4096;
    world.disks[0].get_mut(&sector).expect("written")[7] ^= 1;
    replace(&mut world);
    world.settle();
    assert_eq!(last(&world), (ScanKind::Resilver, ScanState::Finished));
    let resilver = world.pool.scan_status().expect("a resilver");
    assert_eq!(resilver.unrecoverable, 1);
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    assert_eq!(last(&world), (ScanKind::Scrub, ScanState::Finished));
    // Once the damaged blocks are not needed any more, the new disk can have everything.
    world.write(volume, 5 * 4096, &[99; 4096], true);
    (0..3).for_each(|_| world.advance());
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    assert!(
        world.pool.disks.array().find(100).is_none(),
        "it is replaced"
    );
    world.check();
}

/// The figures of a dead list do not fit the list on the disk, so the rest of the list is not
/// found.
#[test]
fn a_disk_is_not_given_up_for_one_on_which_a_damaged_dead_list_may_lack() {
    let (mut world, volume) = filled(TopLevelKind::Leaf, 1);
    let request = TakeSnapshots {
        names: vec!["v@1".to_owned()],
        ..TakeSnapshots::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
    world.administer(plan).expect("taken");
    world.write(volume, 0, &[77; 65_536], true);
    world.checkpoint();
    world.reopen().expect("opens");
    let contents = world.pool.contents.values_mut();
    let of = contents.into_iter().find(|of| !of.dead.is_empty());
    let dead = &mut of.expect("a dead list").dead;
    let mut record = dead.encode();
    // The record counts one more block than there is, of one sector.
    (record[8], record[16]) = (record[8] + 1, record[16] + 1);
    *dead = Deadlist::decode(&record).expect("a list");
    replace(&mut world);
    world.settle();
    let scan = world.pool.scan_status().expect("a resilver");
    assert_eq!(scan.unrecoverable, 1, "{scan:?}");
    assert!(
        world.pool.disks.array().find(100).is_some(),
        "it has what the new one may lack"
    );
}

/// Damages the block at an address of the only disk.
fn damage(world: &mut World, place: Address) {
    let sector = crate::vdev::layout::sector_offset(place.sector()) / 4096;
    world.disks[0].get_mut(&sector).expect("written")[99] ^= 1;
}

/// Makes a volume on one disk, with two damaged blocks: a node of its second 2 MiB, and the first
/// block of the third.
fn damaged() -> (World, DatasetId, [Address; 2]) {
    let (mut world, volume) = filled(TopLevelKind::Leaf, 1);
    for number in 0..3 {
        world.write(volume, (1 + number) << 21, &[7; 4096], true);
    }
    world.checkpoint();
    let tree = world.pool.contents[&volume].map.tree;
    let mut nodes = Vec::new();
    let mut walk = Walk::new(&tree, 0, None);
    let mut budget = usize::MAX;
    let progress = walk.step(&mut world.pool.node_cache, &mut budget, |visit| {
        if let Visit::Node { id, pointer } = visit {
            nodes.push((id.level, id.index, pointer));
        }
    });
    assert_eq!(progress, Ok(Progress::Done));
    let node = nodes
        .iter()
        .find(|(level, index, _)| (*level, *index) == (0, 1));
    let node = node.expect("the node of the second 2 MiB").2;
    let block = {
        let pool = &mut world.pool;
        let map = &pool.contents[&volume].map;
        map.look_up(&mut pool.node_cache, 1024)
            .expect("in memory")
            .address
    };
    for place in node.places().chain([block]) {
        damage(&mut world, place);
    }
    world.reopen_unchecked().expect("opens");
    (world, volume, [node.address, block])
}

/// Returns the bytes that are lost in [`damaged`].
fn lost(volume: DatasetId) -> [Span; 2] {
    let span = |offset, len| Span {
        dataset: volume,
        offset,
        len,
    };
    [span(2 << 20, 2 << 20), span(4 << 20, 4096)]
}

/// An unreadable node hides the blocks below it, and nothing else.
#[test]
fn a_scrub_tells_which_bytes_are_lost_and_goes_on_behind_a_node_that_cannot_be_read() {
    let (mut world, volume, _) = damaged();
    let now = world.now_us;
    world.pool.scrub(now);
    world.settle();
    assert_eq!(last(&world), (ScanKind::Scrub, ScanState::Finished));
    let scan = world.pool.scan_status().expect("a scrub");
    // A node counts as all the blocks that it may lead to.
    assert_eq!(scan.unrecoverable, 512 + 1, "{scan:?}");
    assert_eq!(world.unrecoverable, lost(volume));
}

/// Each slow error takes more than two checkpoints, so the batch is gathered anew, but not for
/// ever.
#[test]
fn a_scrub_comes_to_its_end_behind_a_node_whose_read_fails_slowly() {
    let (mut world, volume, [node, block]) = damaged();
    let now = world.now_us;
    world.pool.scrub(now);
    let mut slow = 0;
    let mut examined = 0;
    while last(&world).1 == ScanState::Running && slow + examined < 20 {
        world.holds_reads = true;
        world.settle();
        if world.holds_read_of(node) {
            slow += 1;
            (0..3).for_each(|_| world.advance());
        }
        examined += u32::from(world.holds_read_of(block));
        world.answer_held(true);
    }
    assert_eq!(last(&world), (ScanKind::Scrub, ScanState::Finished));
    assert_eq!(slow, 1);
    // Each fault is counted and reported once, though the batch was gathered more than once.
    let scan = world.pool.scan_status().expect("a scrub");
    // A node counts as all the blocks that it may lead to.
    assert_eq!(scan.unrecoverable, 512 + 1, "{scan:?}");
    assert_eq!(world.unrecoverable, lost(volume));
}

#[test]
fn a_scrub_that_has_not_ended_begins_again_where_the_pool_is_opened() {
    for state in [ScanState::Running, ScanState::Paused] {
        let (mut world, _) = filled(TopLevelKind::Mirror, 2);
        world.holds_reads = true;
        let now = world.now_us;
        world.pool.scrub(now);
        world.settle();
        if state == ScanState::Paused {
            world.pool.pause_scrub();
            world.settle();
        }
        world.holds_reads = false;
        world.reopen_unchecked().expect("opens");
        assert_eq!(world.pool.status().waiting_scrub, Some(state));
        world.settle();
        let becomes = match state {
            ScanState::Running => ScanState::Finished,
            state => state,
        };
        assert_eq!(last(&world), (ScanKind::Scrub, becomes));
        world.pool.stop_scrub();
        world.settle();
        world.reopen().expect("opens");
        assert_eq!(world.pool.scan_state(), None, "it has ended");
    }
}
