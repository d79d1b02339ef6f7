//! A check finds faults, names them, and changes nothing.

use super::super::Limits;
use super::super::check::{FindingKind, Owner};
use super::world::{World, write};
use crate::catalog::request::{CloneSnapshot, TakeSnapshots};
use crate::format::{DatasetId, Pointer, SECTOR_SIZE};
use crate::map::Hit;
use crate::space::{Purpose, Stream};
use crate::vdev::{TopLevelKind, layout};

/// Makes a pool with a volume of 16 blocks in a tree and 4 in the log.
fn world(kind: TopLevelKind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("a", 8 << 20, 4096);
    world.write(volume, 0, &[7; 16 * 4096], true);
    world.checkpoint();
    world.write(volume, 32 * 4096, &[8; 4 * 4096], true);
    world.reopen().expect("opens");
    (world, volume)
}

fn in_log(world: &World, volume: DatasetId, block: u64) -> Pointer {
    match world.pool.contents[&volume].map.layers.get(block) {
        Hit::Block(pointer) => pointer,
        other => panic!("{other:?}"),
    }
}

fn kinds(world: &mut World) -> Vec<FindingKind> {
    let report = world.report();
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_sound_pool_is_proven() {
    let (mut world, _) = world(TopLevelKind::Mirror, 2);
    let report = world.report();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.datasets, report.blocks, report.nodes), (1, 16, 1));
    let counts = world.pool.space.counts();
    assert_eq!(report.reached_sectors, counts.allocated + counts.deferred);
}

#[test]
fn a_rotten_copy_is_found_and_left_as_it_is() {
    let (mut world, volume) = world(TopLevelKind::Mirror, 2);
    let pointer = in_log(&world, volume, 33);
    let offset = layout::sector_offset(pointer.address.sector());
    let rot = pages::Pages::from_bytes(&[9; SECTOR_SIZE]);
    write(&mut world.disks[1], offset, &rot);
    let report = world.report();
    let [finding] = &report.findings[..] else {
        panic!("{report:?}");
    };
    assert_eq!(finding.kind, FindingKind::BadCopy);
    let owner = Owner::Block {
        dataset: volume,
        block: 33,
    };
    assert_eq!(finding.owners, [owner]);
    assert_eq!(kinds(&mut world), [FindingKind::BadCopy], "it was repaired");
    write(&mut world.disks[0], offset, &rot);
    assert_eq!(kinds(&mut world), [FindingKind::Unreadable]);
}

#[test]
fn lost_space_is_found() {
    let (mut world, _) = world(TopLevelKind::Leaf, 1);
    let space = &mut world.pool.space;
    let extent = space.allocate(Stream::Data, 0, 3, Purpose::Young);
    let report = world.report();
    let leak = &report.findings[0];
    assert_eq!((leak.kind, leak.extent), (FindingKind::Leak, extent));
}

#[test]
fn sectors_with_two_owners_are_found_with_both() {
    let (mut world, volume) = world(TopLevelKind::Leaf, 1);
    let pointer = in_log(&world, volume, 34);
    let other = world.create_volume("b", 8 << 20, 4096);
    let contents = world.pool.contents.get_mut(&other).expect("it is there");
    contents.map.layers.insert(5, pointer);
    let report = world.report();
    let doubles: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::DoubleAllocation)
        .collect();
    let owners = [(volume, 34), (other, 5)].map(|(dataset, block)| Owner::Block { dataset, block });
    assert_eq!((doubles.len(), &doubles[0].owners[..]), (1, &owners[..]));
}

#[test]
fn sectors_that_are_free_and_needed_are_found() {
    let (mut world, volume) = world(TopLevelKind::Leaf, 1);
    let pointer = in_log(&world, volume, 35);
    let [extent] = world.pool.extents_of(&pointer)[..] else {
        panic!("{pointer:?} lies once");
    };
    world.pool.space.give_back(extent);
    let report = world.report();
    let owner = Owner::Block {
        dataset: volume,
        block: 35,
    };
    let finding = report
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::NotAllocated);
    let finding = finding.expect("it is found");
    assert_eq!(
        (finding.extent, &finding.owners[..]),
        (Some(extent), &[owner][..])
    );
}

#[test]
fn wrong_figures_and_lists_are_found() {
    let (mut world, volume) = world(TopLevelKind::Leaf, 1);
    world.checkpoint();
    world.snapshot("a@1");
    world.write(volume, 0, &[5; 4096], true);
    world.checkpoint();
    let contents = world.pool.contents.get_mut(&volume).expect("it is there");
    assert!(!contents.dead.is_empty());
    contents.referenced.sectors += 1;
    assert_eq!(kinds(&mut world), [FindingKind::WrongReferenced]);
    let contents = world.pool.contents.get_mut(&volume).expect("it is there");
    contents.referenced.sectors -= 1;
    contents.referenced.blocks = contents.referenced.blocks.map(|blocks| blocks + 1);
    assert_eq!(kinds(&mut world), [FindingKind::WrongReferenced]);
    let contents = world.pool.contents.get_mut(&volume).expect("it is there");
    contents.referenced.blocks = contents.referenced.blocks.map(|blocks| blocks - 1);
    contents.dead = Default::default();
    assert!(kinds(&mut world).contains(&FindingKind::WrongDeadList));
}

/// A snapshot has an unreadable node. What the datasets that build on it share is unknown, and that
/// is no contradiction.
#[test]
fn what_an_unreadable_snapshot_shares_is_neither_wrong_nor_doubly_allocated() {
    let (mut world, volume) = world(TopLevelKind::Leaf, 1);
    world.checkpoint();
    world.snapshot("a@1");
    world.clone_of("a@1", "b");
    let clone = world.id("b");
    // Only the snapshot has block 1.
    world.write(volume, 0, &[5; 2 * 4096], true);
    world.write(clone, 4096, &[6; 2 * 4096], true);
    world.checkpoint();
    world.reopen_unchecked().expect("opens");
    let shared = world.report();
    let snapshot = world.id("a@1");
    let node = world.pool.contents[&snapshot].map.tree.root;
    let rot = pages::Pages::from_bytes(&[9; SECTOR_SIZE]);
    for place in node.places() {
        let offset = layout::sector_offset(place.sector());
        write(&mut world.disks[0], offset, &rot);
    }
    world.reopen_unchecked().expect("opens");
    let report = world.report();
    let told: Vec<_> = (report.findings.iter())
        .map(|finding| (finding.kind, finding.owners.clone()))
        .collect();
    let (level, index) = (0, 0);
    let owner = Owner::Node {
        dataset: snapshot,
        level,
        index,
    };
    let [
        (FindingKind::Unreadable, owners),
        (FindingKind::Unproven, _),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(owners[..], [owner]);
    // The blocks of the volume or its clone are examined all the same, and so is the record of one
    // more opening.
    assert_eq!(report.verified + 2, shared.verified + 1);
}

/// Places without a block now, and with unknown contents in the snapshot, are not searched: that
/// would take for ever.
#[test]
fn what_is_empty_beside_an_unreadable_root_is_passed_over() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    let volume = world.create_volume("a", 4 << 40, 4096);
    let last = (4 << 40) - 4096;
    world.write(volume, last, &[7; 4096], true);
    world.checkpoint();
    world.snapshot("a@1");
    world.write(volume, last, &[8; 4096], true);
    world.checkpoint();
    let root = world.pool.contents[&world.id("a@1")].map.tree.root;
    let rot = pages::Pages::from_bytes(&[9; SECTOR_SIZE]);
    for place in root.places() {
        let offset = layout::sector_offset(place.sector());
        write(&mut world.disks[0], offset, &rot);
    }
    world.reopen_unchecked().expect("opens");
    assert!(kinds(&mut world).contains(&FindingKind::Unreadable));
}

impl World {
    fn clone_of(&mut self, snapshot: &str, name: &str) {
        let request = CloneSnapshot {
            snapshot: snapshot.to_owned(),
            name: name.to_owned(),
            ..CloneSnapshot::default()
        };
        self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_clone(&request, stamp)
        }))
        .expect("a clone");
    }

    fn snapshot(&mut self, name: &str) {
        let request = TakeSnapshots {
            names: vec![name.to_owned()],
            ..TakeSnapshots::default()
        };
        self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_snapshot(&request, stamp)
        }))
        .expect("a snapshot");
    }
}
