//! Old copies: the contents of a disk at an earlier moment come back on it.
//!
//! The disk does not count before it is rebuilt, and no operation may leave a pool with old disks
//! only.

use crate::engine::tests::disks::vdevs::{SIZE, is_whole};
use crate::engine::tests::world::{DISK, Disk, World, read, write};
use crate::engine::{Event, LeafLabels, Limits, OpenErrorKind};
use crate::format::label::{LABEL_SIZE, RING_OFFSET, RING_SLOTS};
use crate::format::{DatasetId, SECTOR_SIZE};
use crate::vdev::layout::label_offset;
use crate::vdev::{
    Class, LeafId, LeafSpec, ShapeErrorKind, TopLevelKind, TopLevelSpec, VdevState, VdevTree,
};
use pages::Pages;

const RAIDZ: [TopLevelKind; 3] = [
    TopLevelKind::Raidz { parity: 1 },
    TopLevelKind::Raidz { parity: 2 },
    TopLevelKind::Raidz { parity: 3 },
];
/// Layouts with redundancy, and the number of disks of each.
const LAYOUTS: [(TopLevelKind, usize); 6] = [
    (TopLevelKind::Mirror, 2),
    (TopLevelKind::Mirror, 3),
    (RAIDZ[0], 3),
    (RAIDZ[0], 4),
    (RAIDZ[1], 4),
    (RAIDZ[2], 5),
];
const BLOCK: usize = 4096;

/// Pool with a volume, and the volume's expected contents.
struct Story {
    world: World,
    volume: DatasetId,
    model: Vec<u8>,
    round: u8,
}

impl Story {
    fn new(kind: TopLevelKind, disks: usize) -> Self {
        Self::of(World::new(kind, disks, Limits::default()))
    }

    fn of(mut world: World) -> Self {
        let volume = world.create_volume("v", SIZE, BLOCK as u32);
        let model = vec![0; SIZE as usize];
        let mut story = Self {
            world,
            volume,
            model,
            round: 0,
        };
        story.sync(3);
        story
    }

    /// Writes durably in several places.
    fn write(&mut self) {
        self.round += 1;
        for number in 0..12_usize {
            let block = (number * 37 + usize::from(self.round) * 5) % (SIZE as usize / BLOCK);
            let bytes = vec![self.round; BLOCK];
            self.world
                .write(self.volume, (block * BLOCK) as u64, &bytes, true);
            self.model[block * BLOCK..(block + 1) * BLOCK].copy_from_slice(&bytes);
        }
    }

    /// Writes, and makes checkpoints.
    fn sync(&mut self, times: usize) {
        for _ in 0..times {
            self.write();
            self.world.checkpoint();
        }
    }

    fn proves_all(&mut self) {
        assert!(self.world.read(self.volume, 0, SIZE as u32) == self.model);
    }

    fn old_copies(&mut self) -> Vec<u64> {
        let events = std::mem::take(&mut self.world.events).into_iter();
        let behind = events.filter_map(|event| match event {
            Event::Behind { behind } => Some(behind.leaf),
            _ => None,
        });
        behind.collect()
    }

    /// Loses as many other disks as redundancy covers, and reads everything.
    fn survives_without(&mut self, kind: TopLevelKind, disk: usize) {
        let disks = self.world.disks.len();
        let spare = kind.redundancy(disks);
        let others = (0..disks).filter(|other| *other != disk).take(spare);
        self.world.dead.extend(others);
        self.world.forget_cache();
        self.proves_all();
        self.world.dead.clear();
    }
}

fn leaf_of(world: &World, disk: usize) -> LeafId {
    world.pool.leaf(100 + disk as u64).expect("a leaf")
}

fn is_incomplete(world: &World, disk: usize) -> bool {
    let leaf = leaf_of(world, disk);
    let mut leaves = world.pool.disks.array().leaves();
    leaves.any(|of| of.leaf == leaf && of.is_incomplete)
}

/// Checks that each verb is refused for lack of redundancy if it would leave too few current disks.
fn refuses_every_verb(world: &mut World, kind: TopLevelKind, old: usize) {
    let others: Vec<usize> = (0..world.disks.len()).filter(|disk| *disk != old).collect();
    let spare = kind.redundancy(world.disks.len()) - 1;
    let now = world.now_us;
    // This many disks may go, as redundancy covers beside the old one.
    for disk in &others[..spare] {
        let leaf = leaf_of(world, *disk);
        world.pool.offline(leaf, now).expect("is covered");
    }
    for disk in &others[spare..] {
        let leaf = leaf_of(world, *disk);
        let offline = world.pool.offline(leaf, now).expect_err("the last one");
        assert_eq!(offline.kind, ShapeErrorKind::NotRedundant);
        let fault = world.pool.disks.fault(leaf, "by hand");
        assert_eq!(
            fault.expect_err("the last one").kind,
            ShapeErrorKind::NotRedundant
        );
        if kind == TopLevelKind::Mirror {
            let detach = world.pool.detach(leaf, now).expect_err("the last one");
            assert_eq!(detach.kind, ShapeErrorKind::NotRedundant);
        }
    }
    for disk in &others[..spare] {
        let leaf = leaf_of(world, *disk);
        world.pool.online(leaf, now).expect("is used again");
    }
}

#[test]
fn a_leaf_six_syncs_behind_is_told_rebuilt_and_does_not_count_before() {
    for (kind, disks) in LAYOUTS {
        for old in 0..disks {
            let mut story = Story::new(kind, disks);
            let copy = story.world.disks[old].clone();
            story.sync(6);
            story.world.disks[old] = copy;
            story.world.reopen_unchecked().expect("the others have all");
            assert!(is_incomplete(&story.world, old), "{kind:?} {old}");
            refuses_every_verb(&mut story.world, kind, old);
            story.world.settle();
            assert_eq!(story.old_copies(), [100 + old as u64], "{kind:?}");
            assert!(is_whole(&story.world), "{:?}", story.world.pool.status());
            story.world.check();
            story.survives_without(kind, old);
            story.world.reopen().expect("opens");
            assert!(story.old_copies().is_empty());
            story.survives_without(kind, old);
        }
    }
}

#[test]
fn a_leaf_more_syncs_behind_than_the_ring_is_long_is_rebuilt() {
    let mut story = Story::new(TopLevelKind::Mirror, 2);
    let copy = story.world.disks[1].clone();
    story.sync(40);
    story.world.disks[1] = copy;
    story.world.reopen_unchecked().expect("opens");
    assert!(is_incomplete(&story.world, 1));
    story.world.settle();
    story.world.check();
    story.survives_without(TopLevelKind::Mirror, 1);
}

/// The leaf's labels reveal nothing, since it has the newest root. Later groups of the log are on
/// the other leaves.
#[test]
fn a_leaf_as_old_as_the_newest_checkpoint_gets_what_the_log_has_since() {
    for (kind, disks) in LAYOUTS {
        for old in 0..disks {
            let mut story = Story::new(kind, disks);
            let copy = story.world.disks[old].clone();
            story.write();
            story.write();
            story.world.disks[old] = copy;
            story.world.reopen_unchecked().expect("the others have all");
            story.world.settle();
            let events = std::mem::take(&mut story.world.events);
            let leaf = leaf_of(&story.world, old);
            let has_caught_up =
                |event: &Event| matches!(event, Event::CaughtUp { leaf: of, .. } if *of == leaf);
            assert!(events.iter().any(has_caught_up), "{kind:?} {old}");
            story.world.check();
            story.survives_without(kind, old);
        }
    }
}

/// The power fails after the other leaves are gone. The log must not end early on the old leaf.
#[test]
fn a_leaf_that_caught_up_opens_alone_with_all_that_the_log_had() {
    let mut story = Story::new(TopLevelKind::Mirror, 2);
    let copy = story.world.disks[1].clone();
    story.write();
    story.world.disks[1] = copy;
    story.world.reopen_unchecked().expect("opens");
    story.world.absent.insert(0);
    story.world.crash().expect("it has all");
    story.proves_all();
}

/// Keeps the newest root only in labels of the first round of some disks.
fn tear_newest_root(world: &mut World, kept: &[usize]) {
    let epoch = world.pool.persisted.epoch;
    for disk in 0..world.disks.len() {
        let copies = (0..4).filter(|copy| copy % 2 == 1 || !kept.contains(&disk));
        for copy in copies {
            let label = label_offset(copy, DISK).expect("a leaf");
            let at = label + RING_OFFSET as u64 + epoch.0 % RING_SLOTS * SECTOR_SIZE as u64;
            write(
                &mut world.disks[disk],
                at,
                &Pages::zeroes(SECTOR_SIZE as u32),
            );
        }
    }
}

#[test]
fn power_that_fails_while_roots_are_written_rebuilds_nothing() {
    for (kind, disks) in LAYOUTS {
        for kept in 0..=disks {
            let mut story = Story::new(kind, disks);
            story.write();
            story.world.begin_checkpoint_up_to_roots();
            let kept: Vec<usize> = (0..kept).collect();
            tear_newest_root(&mut story.world, &kept);
            story.world.reopen_unchecked().expect("opens");
            for disk in 0..disks {
                assert!(!is_incomplete(&story.world, disk), "{kind:?} {kept:?}");
            }
            story.world.check();
            story.world.settle();
            assert!(story.old_copies().is_empty());
            story.proves_all();
        }
    }
}

/// The newest root is only in labels of the first round, and a leaf without it may be an old copy.
/// The log tells.
#[test]
fn a_leaf_one_sync_behind_is_brought_up_to_date_where_roots_were_torn() {
    for (kind, disks) in LAYOUTS {
        let mut story = Story::new(kind, disks);
        let copy = story.world.disks[0].clone();
        story.write();
        story.world.begin_checkpoint_up_to_roots();
        let others: Vec<usize> = (1..disks).collect();
        tear_newest_root(&mut story.world, &others);
        story.world.disks[0] = copy;
        story.world.reopen_unchecked().expect("opens");
        story.world.settle();
        story.world.check();
        story.survives_without(kind, 0);
    }
}

#[test]
fn an_old_copy_is_not_current_after_a_power_cut_during_its_opening() {
    for cut in 0..60 {
        let mut story = Story::new(TopLevelKind::Mirror, 2);
        let copy = story.world.disks[1].clone();
        story.sync(4);
        story.world.disks[1] = copy;
        story.world.open_in_part(cut);
        story.world.reopen_unchecked().expect("opens");
        assert!(is_incomplete(&story.world, 1), "{cut}");
        story.world.settle();
        story.world.check();
        story.survives_without(TopLevelKind::Mirror, 1);
    }
}

/// One disk of a stripe is old, and no other has the data that it lacks.
#[test]
fn a_pool_does_not_open_where_nothing_makes_up_for_an_old_copy() {
    let top = |guid| {
        TopLevelSpec::new(
            TopLevelKind::Leaf,
            Class::Normal,
            [LeafSpec::new(guid, DISK)],
        )
    };
    let tree = VdevTree {
        top_levels: vec![top(100), top(101)],
    };
    let mut story = Story::of(World::of_tree(tree, 2, DISK, Limits::default()));
    let copy = story.world.disks[1].clone();
    story.sync(3);
    story.world.disks[1] = copy;
    let error = story.world.reopen_unchecked().expect_err("it is old");
    assert_eq!(error.kind, OpenErrorKind::Old);
    assert!(error.context.contains("old copy") && error.context.contains("0000000000000065"));
    let mut examined = story.world.examine().expect("labels");
    assert!(examined.behind[0].is_needed);
    examined.go_without_needed();
    assert!(examined.behind.is_empty());
    // The missing data is damage from now on, and no bytes are wrong.
    let _ = story.world.crash_to(examined);
}

#[test]
fn a_raidz_with_more_old_copies_than_parity_does_not_open() {
    let mut story = Story::new(RAIDZ[0], 4);
    let copies: Vec<Disk> = story.world.disks[..2].to_vec();
    story.sync(3);
    story.world.disks[..2].clone_from_slice(&copies);
    let error = story.world.reopen_unchecked().expect_err("two are old");
    assert_eq!(error.kind, OpenErrorKind::Old, "{error}");
    story.world.disks[1] = Disk::new();
    let error = story
        .world
        .reopen_unchecked()
        .expect_err("one is gone, one old");
    assert_eq!(error.kind, OpenErrorKind::Old, "{error}");
}

fn labels(disk: &Disk) -> LeafLabels {
    let copies = [0, 1, 2, 3].map(|copy| {
        let at = label_offset(copy, DISK).expect("a leaf");
        read(disk, at, LABEL_SIZE)
    });
    LeafLabels { size: DISK, copies }
}

/// A disk is taken offline, and comes back as an image of a much earlier time.
#[test]
fn a_disk_that_is_used_again_is_judged_by_its_labels() {
    for is_older in [false, true] {
        let mut story = Story::new(TopLevelKind::Mirror, 2);
        let old = story.world.disks[1].clone();
        story.sync(4);
        let (leaf, now) = (leaf_of(&story.world, 1), story.world.now_us);
        story
            .world
            .pool
            .offline(leaf, now)
            .expect("the other has all");
        story.world.settle();
        if is_older {
            story.world.disks[1] = old;
        }
        story.sync(3);
        let labels = labels(&story.world.disks[1]);
        story.world.pool.take_back(leaf, &labels);
        let now = story.world.now_us;
        story.world.pool.online(leaf, now).expect("is used again");
        story.world.settle();
        let told: &[u64] = if is_older { &[101] } else { &[] };
        assert_eq!(story.old_copies(), told);
        assert!(is_whole(&story.world));
        assert_eq!(story.world.pool.status().state, VdevState::Online);
        story.world.check();
        story.survives_without(TopLevelKind::Mirror, 1);
    }
}

/// A disk is gone, the pool is opened without it, and an image of a much earlier time comes back on
/// it.
#[test]
fn a_disk_that_was_away_comes_back_older_than_it_went() {
    for (kind, disks) in LAYOUTS {
        let mut story = Story::new(kind, disks);
        let old = story.world.disks[0].clone();
        story.sync(4);
        story.world.absent.insert(0);
        story.world.reopen_unchecked().expect("opens without it");
        story.sync(2);
        story.world.absent.clear();
        story.world.dead.clear();
        story.world.disks[0] = old;
        story.world.reopen_unchecked().expect("opens with it");
        story.world.settle();
        story.world.check();
        story.survives_without(kind, 0);
    }
}

/// Data rebuilt on a leaf after the copy was made is not on the copy, whenever that data was
/// written.
#[test]
fn an_old_copy_of_a_leaf_that_was_being_rebuilt_lacks_what_it_lacked_then() {
    let mut story = Story::new(TopLevelKind::Mirror, 2);
    let (leaf, now) = (leaf_of(&story.world, 1), story.world.now_us);
    story
        .world
        .pool
        .offline(leaf, now)
        .expect("the other has all");
    story.world.settle();
    story.sync(2);
    let now = story.world.now_us;
    story.world.pool.online(leaf, now).expect("is used again");
    while story.world.pool.are_labels_due() {
        assert!(story.world.do_one());
    }
    let copy = story.world.disks[1].clone();
    story.world.settle();
    story.sync(2);
    story.world.disks[1] = copy;
    story.world.reopen_unchecked().expect("opens");
    story.world.settle();
    story.world.check();
    story.survives_without(TopLevelKind::Mirror, 1);
}

#[test]
fn a_new_vdev_without_a_checkpoint_is_no_old_copy() {
    let mut story = Story::new(TopLevelKind::Mirror, 2);
    for _ in 0..2 {
        story.world.disks.push(Disk::new());
    }
    let leaves = [LeafSpec::new(102, DISK), LeafSpec::new(103, DISK)];
    let top = TopLevelSpec::new(TopLevelKind::Mirror, Class::Normal, leaves);
    story.world.pool.add(&top).expect("added");
    for disk in [2, 3] {
        let leaf = leaf_of(&story.world, disk);
        story.world.leaves.insert(leaf.0, disk);
    }
    // The labels say so, and no checkpoint is made.
    story.world.pool.schedule.unwant();
    let now = story.world.now_us;
    story.world.pool.tick(now, 1_000);
    while story.world.pool.is_labelling() {
        story.world.pool.schedule.unwant();
        assert!(story.world.do_one(), "labels are written");
    }
    story.world.reopen_unchecked().expect("opens");
    for disk in 0..4 {
        assert!(!is_incomplete(&story.world, disk), "{disk}");
    }
    assert!(story.old_copies().is_empty());
}

/// A vdev added while a checkpoint is made may hold blocks of that checkpoint, so its leaves must
/// have its root.
#[test]
fn a_new_leaf_joined_in_the_epoch_of_the_first_root_that_it_has() {
    let mut epochs = std::collections::BTreeSet::new();
    for steps in 0..60 {
        let mut story = Story::new(TopLevelKind::Mirror, 2);
        story.write();
        let before = story.world.pool.epoch;
        story.world.begin_checkpoint(steps);
        let top = TopLevelSpec::new(
            TopLevelKind::Leaf,
            Class::Normal,
            [LeafSpec::new(102, DISK)],
        );
        story.world.disks.push(Disk::new());
        story.world.pool.add(&top).expect("added");
        let leaf = leaf_of(&story.world, 2);
        story.world.leaves.insert(leaf.0, 2);
        story.world.settle();
        story.world.advance();
        let key = story.world.pool.key;
        let own = labels(&story.world.disks[2]);
        let sectors = (0..RING_SLOTS as usize).map(|slot| RING_OFFSET + slot * SECTOR_SIZE);
        let roots = sectors.filter_map(|at| {
            // A vdev that joins between the two rounds gets a root in the second, which leads to
            // nothing on it.
            let sector = own.copies[0].slice(at..at + SECTOR_SIZE).to_vec();
            crate::format::Root::decode(&sector, key)
        });
        let first = roots.map(|root| root.epoch).min().expect("a root");
        let config = &story.world.pool.config;
        let joined = config.tree.top_levels[1].slots[0].leaves[0].joined;
        assert_eq!(joined, first, "{steps}");
        epochs.insert(joined.0 - before.0);
        assert!(story.world.examine().expect("labels").behind.is_empty());
    }
    assert!(
        epochs.len() > 1,
        "before roots are written, and then: {epochs:?}"
    );
}
