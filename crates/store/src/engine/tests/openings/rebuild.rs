//! Devices that lost all their labels get them back from their inner labels.

use pages::Pages;

use crate::engine::features::{Feature, FeatureState};
use crate::engine::tests::world::{DISK, Disk, World, read, write};
use crate::engine::{
    LeafLabels, Limits, OpenError, OpenErrorKind, PoolConfig, Rebuild, Trace, front_labels,
    rear_labels, trace_places,
};
use crate::format::label::LABEL_SIZE;
use crate::format::{DatasetId, Label};
use crate::vdev::layout::{label_offset, sector_offset};
use crate::vdev::{Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};

const BLOCK: usize = 4096;

fn world_of(tops: &[(TopLevelKind, Class, usize)]) -> World {
    let mut first = 0;
    let tops = tops.iter().map(|(kind, class, count)| {
        let leaves = (first..first + count).map(|number| LeafSpec::new(100 + number as u64, DISK));
        first += count;
        TopLevelSpec::new(*kind, *class, leaves).with_inner_labels()
    });
    let tree = VdevTree {
        top_levels: tops.collect(),
    };
    World::of_tree(tree, first, DISK, Limits::default())
}

/// Makes a pool of such vdevs with a volume, a part of which is only in the log.
fn filled(tops: &[(TopLevelKind, Class, usize)]) -> (World, DatasetId) {
    let mut world = world_of(tops);
    let volume = world.create_volume("a", 16 << 20, BLOCK as u32);
    world.write(volume, 0, &[1; 64 * BLOCK], true);
    world.checkpoint();
    world.write(volume, 8 * BLOCK as u64, &[2; 16 * BLOCK], true);
    (world, volume)
}

fn is_there(world: &mut World, volume: DatasetId) {
    assert_eq!(world.read(volume, 0, 8 * BLOCK as u32), [1; 8 * BLOCK]);
    let later = world.read(volume, 8 * BLOCK as u64, 16 * BLOCK as u32);
    assert_eq!(later, [2; 16 * BLOCK]);
}

fn wipe(disk: &mut Disk, at: u64) {
    write(disk, at, &Pages::zeroes(LABEL_SIZE as u32));
}

/// Removes all labels at the ends of a disk.
fn lose_labels(disk: &mut Disk) {
    for copy in 0..4 {
        wipe(disk, label_offset(copy, DISK).expect("a leaf"));
    }
}

fn labels(disk: &Disk) -> LeafLabels {
    let read = |at: Option<u64>| at.map(|at| read(disk, at, LABEL_SIZE)).unwrap_or_default();
    let [first, second] = front_labels(DISK).map(read);
    let [third, fourth] = rear_labels([&first, &second], DISK).map(read);
    LeafLabels {
        size: DISK,
        copies: [first, second, third, fourth],
    }
}

fn traces(disk: &Disk) -> Vec<Trace> {
    let (likely, all) = trace_places(DISK);
    let found = |at: u64| Trace::read(&read(disk, at, LABEL_SIZE), at).expect("known");
    let first: Vec<Trace> = likely.into_iter().filter_map(found).collect();
    match first.is_empty() {
        true => all.filter_map(found).collect(),
        false => first,
    }
}

fn plan(disks: &[Disk], guid: Option<u64>) -> Result<Rebuild, OpenError> {
    let labels: Vec<LeafLabels> = disks.iter().map(labels).collect();
    let traces: Vec<Vec<Trace>> = disks.iter().map(traces).collect();
    Rebuild::plan(&labels, &traces, guid)
}

/// Writes the planned labels, at most `most` writes. Returns the number of writes done.
fn write_some(disks: &mut [Disk], plan: &Rebuild, most: usize) -> usize {
    let mut done = 0;
    for step in 0..2 {
        for (disk, new) in disks.iter_mut().zip(&plan.labels) {
            for (at, bytes) in new.iter().flat_map(|new| new.steps()[step].clone()) {
                if done < most {
                    write(disk, at, &bytes);
                    done += 1;
                }
            }
        }
    }
    done
}

fn rebuild(world: &mut World) -> Rebuild {
    let plan = plan(&world.disks, None).expect("a plan");
    write_some(&mut world.disks, &plan, usize::MAX);
    plan
}

const SHAPES: [&[(TopLevelKind, Class, usize)]; 5] = [
    &[(TopLevelKind::Leaf, Class::Normal, 1)],
    &[
        (TopLevelKind::Leaf, Class::Normal, 1),
        (TopLevelKind::Leaf, Class::Normal, 1),
    ],
    &[(TopLevelKind::Mirror, Class::Normal, 2)],
    &[(TopLevelKind::Raidz { parity: 1 }, Class::Normal, 3)],
    &[
        (TopLevelKind::Mirror, Class::Normal, 2),
        (TopLevelKind::Raidz { parity: 2 }, Class::Normal, 5),
    ],
];

#[test]
fn a_pool_whose_disks_lost_all_their_labels_is_found_again_with_all_that_was_acknowledged() {
    for shape in SHAPES {
        let (mut world, volume) = filled(shape);
        world.disks.iter_mut().for_each(lose_labels);
        assert!(world.examine().is_err());
        let plan = rebuild(&mut world);
        assert!(plan.labels.iter().all(Option::is_some));
        assert!(
            plan.examined.behind.is_empty(),
            "{:?}",
            plan.examined.behind
        );
        world.reopen_now().expect("opens");
        is_there(&mut world, volume);
        // This tries again with labels of its own.
        world.reopen().expect("opens");
        is_there(&mut world, volume);
    }
}

/// One of the two inner labels is enough, and the pool proves it.
#[test]
fn one_inner_label_is_enough() {
    for lost in [0, 1] {
        let (mut world, volume) = filled(SHAPES[0]);
        let inner = world.pool.config().inner_offsets(100).expect("it has them");
        lose_labels(&mut world.disks[0]);
        wipe(&mut world.disks[0], inner[lost]);
        let plan = rebuild(&mut world);
        assert!(plan.examined.is_lone_label);
        world.reopen_now().expect("opens");
        is_there(&mut world, volume);
    }
}

/// The labels say which leaf the device is, even if other leaves hold halves and columns of the
/// same data.
#[test]
fn a_leaf_beside_others_gets_its_own_labels_back() {
    for shape in [SHAPES[2], SHAPES[3], SHAPES[4]] {
        for lost in 0..shape.iter().map(|(.., count)| count).sum() {
            let (mut world, volume) = filled(shape);
            lose_labels(&mut world.disks[lost]);
            let plan = rebuild(&mut world);
            let written: Vec<usize> = (0..)
                .zip(&plan.labels)
                .filter_map(|(number, new)| new.as_ref().map(|_| number))
                .collect();
            assert_eq!(written, [lost]);
            assert_eq!(
                plan.labels[lost].as_ref().map(|new| new.leaf),
                Some(100 + lost as u64)
            );
            world.reopen_now().expect("opens");
            assert!(world.pool.status().behind.is_empty());
            is_there(&mut world, volume);
        }
    }
}

/// The pool went on without the leaf: the data that it missed is rebuilt before it counts.
#[test]
fn a_leaf_that_was_away_is_behind_when_its_labels_are_back() {
    let (mut world, volume) = filled(SHAPES[2]);
    let old = world.disks[1].clone();
    for _ in 0..3 {
        world.write(volume, 8 * BLOCK as u64, &[2; 16 * BLOCK], true);
        world.checkpoint();
    }
    world.disks[1] = old;
    lose_labels(&mut world.disks[1]);
    let plan = rebuild(&mut world);
    assert_eq!(plan.examined.behind.len(), 1);
    assert_eq!(plan.examined.behind[0].leaf, 101);
    assert!(plan.examined.behind[0].root < Some(plan.examined.behind[0].newest));
    world.reopen_now().expect("opens");
    world.settle();
    // The other leaf is no longer needed.
    lose_labels(&mut world.disks[0]);
    world.disks[0].clear();
    world.reopen_now().expect("opens");
    is_there(&mut world, volume);
}

/// The power fails after each write. Then the same rebuild is done again, or the pool opens.
#[test]
fn a_rebuild_that_was_interrupted_is_repeated_or_has_done_enough() {
    for shape in SHAPES {
        let (world, volume) = filled(shape);
        let whole = world.disks.clone();
        let mut most = 0;
        loop {
            let mut again = world.clone_disks();
            again.disks.clone_from(&whole);
            again.disks.iter_mut().for_each(lose_labels);
            let first = plan(&again.disks, None).expect("a plan");
            let done = write_some(&mut again.disks, &first, most);
            if let Ok(second) = plan(&again.disks, None) {
                write_some(&mut again.disks, &second, usize::MAX);
            }
            again.reopen_now().expect("opens");
            is_there(&mut again, volume);
            if done < most {
                break;
            }
            most += 1;
        }
        assert_eq!(most, 4 * whole.len() + 1);
    }
}

#[test]
fn devices_with_labels_are_left_alone() {
    let (world, _) = filled(SHAPES[0]);
    let error = plan(&world.disks, None).expect_err("it has labels");
    assert!(error.context.contains("nothing to rebuild"), "{error}");
}

/// The rings are lost, but the part of the label that names the leaf is left.
#[test]
fn rings_that_are_lost_come_back_as_well() {
    let (mut world, volume) = filled(SHAPES[0]);
    for copy in 0..4 {
        let at = label_offset(copy, DISK).expect("a leaf") + LABEL_SIZE as u64 / 2;
        write(
            &mut world.disks[0],
            at,
            &Pages::zeroes(LABEL_SIZE as u32 / 2),
        );
    }
    assert!(world.examine().is_err());
    rebuild(&mut world);
    world.reopen_now().expect("opens");
    is_there(&mut world, volume);
}

#[test]
fn traces_of_two_pools_are_not_chosen_between() {
    let (mut world, volume) = filled(SHAPES[0]);
    let mut other = world_of(SHAPES[0]).disks.remove(0);
    // Another pool was there before, and its inner labels lay elsewhere.
    let inner = world.pool.config().inner_offsets(100).expect("it has them");
    let mut config = world.pool.config().clone();
    (config.name, config.guid) = ("old".to_owned(), 1234);
    config.tree.top_levels[0].inner_labels = Some([256, 512]);
    let label = Label {
        pool: 1234,
        leaf: 100,
        generation: 5,
        config: config.encode(),
    };
    lose_labels(&mut other);
    lose_labels(&mut world.disks[0]);
    let encoded = Pages::from_bytes(&label.encode());
    write(&mut world.disks[0], sector_offset(256), &encoded);
    let labels = [labels(&world.disks[0])];
    let all: Vec<Trace> = trace_places(DISK)
        .1
        .filter_map(|at| Trace::read(&read(&world.disks[0], at, LABEL_SIZE), at).expect("known"))
        .collect();
    assert_eq!(
        all.iter().map(|of| of.offset).collect::<Vec<_>>(),
        [sector_offset(256), inner[0], inner[1]]
    );
    let error = Rebuild::plan(&labels, std::slice::from_ref(&all), None).expect_err("which?");
    assert_eq!(error.kind, OpenErrorKind::Twins);
    let plan = Rebuild::plan(&labels, &[all], Some(77)).expect("said which");
    write_some(&mut world.disks, &plan, usize::MAX);
    world.reopen_now().expect("opens");
    is_there(&mut world, volume);
}

#[test]
fn copies_of_one_device_without_labels_are_twins() {
    let (mut world, _) = filled(SHAPES[0]);
    lose_labels(&mut world.disks[0]);
    let error = plan(&[world.disks[0].clone(), world.disks[0].clone()], None).expect_err("twins");
    assert_eq!(error.kind, OpenErrorKind::Twins);
}

#[test]
fn a_device_of_nobody_is_named() {
    let (mut world, _) = filled(SHAPES[0]);
    let nothing = plan(&[Disk::new()], None).expect_err("nothing");
    assert_eq!(nothing.kind, OpenErrorKind::NoPool);
    world.disks.push(Disk::new());
    let error = plan(&world.disks, None).expect_err("nothing on the second");
    assert!(error.context.contains("device 1 has neither"), "{error}");
}

#[test]
fn a_leaf_that_left_the_pool_does_not_come_back() {
    let (mut world, _) = filled(SHAPES[2]);
    let gone = world.disks[1].clone();
    let leaf = world.pool.leaf(101).expect("there");
    world.pool.detach(leaf, world.now_us).expect("detached");
    world.settle();
    world.disks[1] = gone;
    lose_labels(&mut world.disks[1]);
    let error = plan(&world.disks, None).expect_err("it is not the pool's");
    assert!(error.context.contains("no longer"), "{error}");
}

/// A guest's disk may hold a pool of its own.
#[test]
fn a_label_that_lies_elsewhere_than_it_says_is_none() {
    let (world, _) = filled(SHAPES[0]);
    let inner = world.pool.config().inner_offsets(100).expect("it has them");
    let copy = read(&world.disks[0], inner[0], LABEL_SIZE);
    assert!(Trace::read(&copy, inner[0]).expect("known").is_some());
    assert!(
        Trace::read(&copy, inner[0] + (1 << 20))
            .expect("known")
            .is_none()
    );
    let ordinary = read(&world.disks[0], 0, LABEL_SIZE);
    assert!(Trace::read(&ordinary, 0).expect("known").is_none());
}

/// Inner labels always have the contents of the other labels, whatever changes.
#[test]
fn inner_labels_are_written_with_the_others() {
    let (mut world, _) = filled(SHAPES[2]);
    let new = LeafSpec::new(102, DISK);
    world.disks.push(Disk::new());
    let beside = world.pool.leaf(100).expect("there");
    let leaf = world.pool.attach(beside, &new).expect("attached");
    world.leaves.insert(leaf.0, 2);
    world.settle();
    world.checkpoint();
    for (number, disk) in world.disks.iter().enumerate() {
        let guid = 100 + number as u64;
        let inner = world
            .pool
            .config()
            .inner_offsets(guid)
            .expect("it has them");
        for (round, at) in inner.into_iter().enumerate() {
            let own = read(disk, at, LABEL_SIZE);
            let label = Label::read(&own).expect("a label");
            let other = read(
                disk,
                label_offset(round as u64, DISK).expect("a leaf"),
                LABEL_SIZE,
            );
            assert_eq!(Label::read(&other), Ok(label));
            let slot = Label::slot_offset(world.pool.epoch.0 - 1) as usize;
            let newest = |copy: &Pages| copy.slice(slot..slot + BLOCK).to_vec();
            assert!(
                newest(&own) == newest(&other),
                "disk {number}, round {round}"
            );
        }
    }
    let config = world.pool.config();
    assert_eq!(
        config.features.state(Feature::InnerLabels),
        FeatureState::Active
    );
    assert!(
        PoolConfig::decode(&config.encode())
            .expect("its own")
            .inner_offsets(102)
            .is_some()
    );
}

/// An added vdev gets inner labels if the pool may have them, and no block ever lies there.
#[test]
fn inner_labels_keep_their_sectors_for_ever() {
    let mut world = World::new(TopLevelKind::Leaf, 1, Limits::default());
    assert_eq!(world.pool.config().inner_offsets(100), None);
    world.disks.push(Disk::new());
    let leaf = LeafSpec::new(101, DISK);
    let top = TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf]).with_inner_labels();
    let vdev = world.pool.add(&top).expect("added");
    world.leaves.insert(1, 1);
    world.settle();
    assert_eq!(vdev, 1);
    let volume = world.create_volume("a", 90 << 20, 65_536);
    for block in 0..1440 {
        world.write(volume, block * 65_536, &[3; 65_536], false);
    }
    world.checkpoint();
    for at in world.pool.config().inner_offsets(101).expect("it has them") {
        assert!(Label::read(&read(&world.disks[1], at, LABEL_SIZE)).is_ok());
    }
    world.reopen().expect("opens");
}
