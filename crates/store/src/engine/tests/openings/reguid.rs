//! A copy becomes a pool of its own, and the power fails at every moment of that.
//!
//! Each label that is being written is old, new or torn on the disk. All mixtures of these are
//! opened under the old and the new identity, on all disks and on each alone.

use std::collections::BTreeMap;

use pages::Pages;

use crate::engine::devices::label_rounds::ROUNDS;
use crate::engine::open::reguid::{NewIdentity, Reguid};
use crate::engine::tests::world::{World, write};
use crate::engine::{LeafLabels, Limits, OpenErrorKind, examine, torn_identity};
use crate::format::{DatasetId, Label, SECTOR_SIZE};
use crate::vdev::TopLevelKind;

const BLOCK: u32 = 4096;
const OLD: u64 = 77;
const NEW: u64 = 0x1234_5678_9abc_def0;
const OTHER: u64 = 0x0fed_cba9_8765_4321;

fn identity(guid: u64, disks: usize) -> NewIdentity {
    NewIdentity {
        guid,
        name: Some("clone".to_owned()),
        host: "there".to_owned(),
        paths: (0..disks).map(|disk| format!("/copies/{disk}")).collect(),
    }
}

/// Makes a pool with one block in a checkpoint and another only in the log.
fn written(kind: TopLevelKind, disks: usize) -> (World, DatasetId) {
    let mut world = World::new(kind, disks, Limits::default());
    let volume = world.create_volume("a", 1 << 20, BLOCK);
    world.write(volume, 0, &[1; BLOCK as usize], true);
    world.checkpoint();
    world.write(volume, 4096, &[2; BLOCK as usize], true);
    world.settle();
    (world, volume)
}

/// State in which a power cut leaves the write of one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Old,
    Torn,
    New,
}

fn put(world: &mut World, disk: usize, copy: usize, label: &Label, left: Left) {
    let at = world.labels()[disk].offsets()[copy].expect("a leaf");
    let mut bytes = label.encode();
    match left {
        Left::Old => return,
        Left::New => {}
        Left::Torn => {
            // Half of the first sector is still the old one.
            let old =
                crate::engine::tests::world::read(&world.disks[disk], at, SECTOR_SIZE).to_vec();
            bytes.truncate(SECTOR_SIZE);
            bytes[512..].copy_from_slice(&old[512..]);
        }
    }
    write(&mut world.disks[disk], at, &Pages::from_bytes(&bytes));
}

fn put_all(world: &mut World, plan: &Reguid) {
    for (disk, label) in plan.labels.iter().enumerate() {
        for copy in ROUNDS.concat() {
            put(world, disk, copy, label, Left::New);
        }
    }
}

/// Checks that the new pool has all its data, with its leaves on the same disks.
fn require_all_there(world: &mut World, volume: DatasetId) {
    world.reopen().expect("the new pool opens");
    assert_eq!(world.read(volume, 0, BLOCK), [1; BLOCK as usize]);
    assert_eq!(world.read(volume, 4096, BLOCK), [2; BLOCK as usize]);
    world.write(volume, 8192, &[3; BLOCK as usize], true);
    world.checkpoint();
    world.reopen().expect("and again");
    assert_eq!(world.read(volume, 8192, BLOCK), [3; BLOCK as usize]);
}

#[test]
fn a_copy_becomes_a_pool_of_its_own_and_the_original_stays_what_it_is() {
    for (kind, disks) in [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Mirror, 2),
        (TopLevelKind::Raidz { parity: 1 }, 3),
    ] {
        let (mut world, volume) = written(kind, disks);
        let original = world.disks.clone();
        let plan = Reguid::plan(&world.labels(), OLD, identity(NEW, disks)).expect("a plan");
        assert!(!plan.is_continued);
        assert_eq!((plan.config.guid, plan.config.key_guid), (NEW, Some(OLD)));
        put_all(&mut world, &plan);
        // If both pools are there, both are known, and neither disk is the other's twin.
        let mut both = world.labels();
        let copies = std::mem::replace(&mut world.disks, original);
        both.extend(world.labels());
        for guid in [OLD, NEW] {
            let examined = examine(&both, Some(guid)).expect("no twins");
            let own = examined.leaves.iter().flatten().count();
            assert_eq!((examined.config.guid, own), (guid, disks));
        }
        world.disks = copies;
        require_all_there(&mut world, volume);
        let config = world.pool.config();
        assert_eq!((config.guid, config.key_guid), (NEW, Some(OLD)));
        assert_eq!(config.paths.len(), disks);
        // A copy of this copy keeps its key.
        let plan = Reguid::plan(&world.labels(), NEW, identity(OTHER, disks)).expect("a plan");
        assert_eq!((plan.config.guid, plan.config.key_guid), (OTHER, Some(OLD)));
        put_all(&mut world, &plan);
        world.reopen().expect("the copy of the copy opens");
        assert_eq!(world.read(volume, 8192, BLOCK), [3; BLOCK as usize]);
    }
}

/// Returns all mixtures of states of this many labels.
fn mixtures(labels: usize) -> Vec<Vec<Left>> {
    let all = [Left::Old, Left::Torn, Left::New];
    let of_number = |number: usize| {
        let digit = |place: u32| all[number / 3_usize.pow(place) % 3];
        (0..labels as u32).map(digit).collect()
    };
    (0..3_usize.pow(labels as u32)).map(of_number).collect()
}

#[test]
fn a_power_cut_at_every_moment_leaves_the_old_pool_the_new_one_or_what_the_same_again_completes() {
    for (kind, disks) in [
        (TopLevelKind::Leaf, 1),
        (TopLevelKind::Leaf, 2),
        (TopLevelKind::Mirror, 2),
    ] {
        let (world, volume) = match (kind, disks) {
            (TopLevelKind::Leaf, 2) => striped(),
            (kind, disks) => written(kind, disks),
        };
        let plan = Reguid::plan(&world.labels(), OLD, identity(NEW, disks)).expect("a plan");
        let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
        for round in 0..ROUNDS.len() {
            for (number, left) in mixtures(disks * 2).into_iter().enumerate() {
                let mut cut = world.clone_disks();
                for (disk, label) in plan.labels.iter().enumerate() {
                    for copy in ROUNDS[..round].concat() {
                        put(&mut cut, disk, copy, label, Left::New);
                    }
                    for (place, copy) in ROUNDS[round].into_iter().enumerate() {
                        put(&mut cut, disk, copy, label, left[disk * 2 + place]);
                    }
                }
                let outcome = judge(&cut, disks, (round, &left));
                *outcomes.entry(outcome).or_default() += 1;
                // An opening takes longest, and labels alone decide its result.
                if number % 10 == 0 {
                    complete(&mut cut, disks, volume, outcome);
                }
            }
        }
        println!("{kind:?} of {disks}: {outcomes:?}");
        assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    }
}

/// Makes a pool of two leaves, striped.
fn striped() -> (World, DatasetId) {
    use crate::vdev::{Class, LeafSpec, TopLevelSpec, VdevTree};
    let top = |guid| {
        let leaf = LeafSpec::new(guid, crate::engine::tests::world::DISK);
        TopLevelSpec::new(TopLevelKind::Leaf, Class::Normal, [leaf])
    };
    let tree = VdevTree {
        top_levels: vec![top(100), top(101)],
    };
    let mut world = World::of_tree(
        tree,
        2,
        crate::engine::tests::world::DISK,
        Limits::default(),
    );
    let volume = world.create_volume("a", 1 << 20, BLOCK);
    world.write(volume, 0, &[1; BLOCK as usize], true);
    world.checkpoint();
    world.write(volume, 4096, &[2; BLOCK as usize], true);
    world.settle();
    (world, volume)
}

/// Finds out what a cut left, and checks that no two disks open under different identities.
fn judge(cut: &World, disks: usize, told: (usize, &[Left])) -> &'static str {
    let labels = cut.labels();
    let opens = |devices: &[LeafLabels], guid: u64| match examine(devices, Some(guid)) {
        Ok(examined) => examined.leaves.iter().flatten().count() == devices.len(),
        Err(error) => {
            let kinds = [OpenErrorKind::Reguid, OpenErrorKind::NoPool];
            assert!(kinds.contains(&error.kind), "{told:?}: {error}");
            false
        }
    };
    let alone = |guid| (0..disks).any(|disk| opens(&labels[disk..=disk], guid));
    let (old, new) = (opens(&labels, OLD), opens(&labels, NEW));
    match (old, new) {
        (true, false) => {
            assert!(!alone(NEW), "{told:?}");
            "old"
        }
        (false, true) => {
            assert!(!alone(OLD), "{told:?}");
            "new"
        }
        (false, false) => {
            assert!(!alone(OLD) || !alone(NEW), "{told:?}");
            assert!(
                labels.iter().any(|of| torn_identity(of).is_some()),
                "{told:?}"
            );
            "torn"
        }
        (true, true) => panic!("{told:?}: opens as both"),
    }
}

/// Makes the same request again, with another random number.
fn complete(cut: &mut World, disks: usize, volume: DatasetId, outcome: &str) {
    let guid = if outcome == "new" { NEW } else { OLD };
    let again = Reguid::plan(&cut.labels(), guid, identity(OTHER, disks)).expect("the same again");
    assert_eq!(again.is_continued, outcome == "torn");
    let expected = if outcome == "torn" { NEW } else { OTHER };
    assert_eq!(again.config.guid, expected);
    put_all(cut, &again);
    let mut examined = cut.examine_pool(expected).expect("the new pool");
    assert_eq!(examined.leaves.len(), disks);
    assert!(examined.drop_missing_logs().is_empty());
    cut.crash_to(examined).expect("opens");
    cut.settle();
    assert_eq!(cut.read(volume, 4096, BLOCK), [2; BLOCK as usize]);
}

#[test]
fn what_went_on_as_the_old_pool_meanwhile_is_not_made_new_behind_its_back() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    let plan = Reguid::plan(&world.labels(), OLD, identity(NEW, 2)).expect("a plan");
    // The cut came when the first disk had one new label.
    put(&mut world, 0, 0, &plan.labels[0], Left::New);
    assert_eq!(
        world.reopen_unchecked().expect_err("torn").kind,
        OpenErrorKind::Reguid
    );
    // The second disk is opened alone, as the old pool, and written to.
    world.absent.insert(0);
    world.reopen_unchecked().expect("half of the mirror");
    world.write(volume, 0, &[9; BLOCK as usize], true);
    world.checkpoint();
    world.absent.clear();
    let error = Reguid::plan(&world.labels(), OLD, identity(OTHER, 2)).expect_err("it has more");
    assert_eq!(error.kind, OpenErrorKind::Reguid);
    assert!(
        error.context.contains("used under the old number"),
        "{error}"
    );
}

/// The device's labels lie where its end was.
#[test]
fn a_device_that_grew_gets_its_identity_where_its_labels_lie() {
    let (mut world, volume) = written(TopLevelKind::Mirror, 2);
    world.disk_sizes.insert(0, world.disk_size + (64 << 20));
    let plan = Reguid::plan(&world.labels(), OLD, identity(NEW, 2)).expect("a plan");
    put_all(&mut world, &plan);
    assert!(world.labels().iter().all(|of| torn_identity(of).is_none()));
    require_all_there(&mut world, volume);
}

#[test]
fn twins_and_strangers_get_no_identity() {
    let (mut world, _) = written(TopLevelKind::Leaf, 1);
    world.disks.push(world.disks[0].clone());
    let error = Reguid::plan(&world.labels(), OLD, identity(NEW, 2)).expect_err("twins");
    assert_eq!(error.kind, OpenErrorKind::Twins, "{error}");
    world.disks[1].clear();
    let error = Reguid::plan(&world.labels(), OLD, identity(NEW, 2)).expect_err("an empty disk");
    assert!(
        error.context.contains("/copies/1 is not a device"),
        "{error}"
    );
}
