//! Tests with random histories: a planned operation can be applied, all rules hold, and replay
//! gives the same result.

use proptest::prelude::*;

use super::blocks::Blocks;
use super::*;
use crate::catalog::request::{Holds, Inherit, Rename, Resize, Rollback, SetProperties};
use crate::catalog::{Dataset, DatasetKind};

/// An operation to try: its kind, and numbers to choose with.
type Try = (u8, u8, u8, u8, bool);

fn tries() -> impl Strategy<Value = Vec<Try>> {
    prop::collection::vec(any::<Try>(), 1..70)
}

/// Returns the name of an existing dataset of a kind.
fn choose(catalog: &Catalog, is_wanted: fn(&Dataset) -> bool, number: u8) -> Option<String> {
    let wanted: Vec<_> = catalog
        .datasets()
        .filter(|dataset| is_wanted(dataset))
        .collect();
    let at = usize::from(number).checked_rem(wanted.len())?;
    Some(catalog.name(wanted[at].id))
}

fn is_volume(dataset: &Dataset) -> bool {
    dataset.as_volume().is_some()
}

fn is_snapshot(dataset: &Dataset) -> bool {
    dataset.as_snapshot().is_some()
}

/// Returns a name that may or may not exist, below a folder that does.
fn place(catalog: &Catalog, a: u8, b: u8) -> String {
    let folder = choose(catalog, Dataset::is_folder, a).unwrap_or_default();
    let name = ["a", "b", "c", "d", "e/f"][usize::from(b % 5)];
    match folder.as_str() {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

fn plan(catalog: &Catalog, stamp: Stamp, tried: Try) -> Option<Result<Operation, CatalogError>> {
    let (kind, a, b, c, flag) = tried;
    let volume_name = || choose(catalog, is_volume, a);
    let snapshot_name = || choose(catalog, is_snapshot, a);
    let any_name = || choose(catalog, |_| true, a);
    let names = |name: String| vec![name];
    let suffix = ["x", "y", "z", "w"][usize::from(b % 4)];
    // The snapshots are of all volumes below a folder.
    let group = || Some(format!("{}@x", choose(catalog, Dataset::is_folder, a)?));
    Some(match kind % 16 {
        0 => catalog.plan_create_folder(
            &CreateFolder {
                name: place(catalog, a, b),
                with_parents: flag,
                properties: texts(&[("snapshot_limit", "9")]),
                ..Default::default()
            },
            stamp,
        ),
        1 | 2 => catalog.plan_create_volume(
            &CreateVolume {
                name: place(catalog, a, b),
                size: 16 << (10 + c % 3),
                block_size: 4096 << (c % 3),
                is_thick: flag,
                with_parents: true,
                received: texts(&[("refreservation", "8K")]),
                ..Default::default()
            },
            stamp,
        ),
        3..=5 => catalog.plan_snapshot(
            &TakeSnapshots {
                names: names(format!(
                    "{}@{suffix}",
                    if flag { any_name()? } else { volume_name()? }
                )),
                is_recursive: flag,
                ..Default::default()
            },
            stamp,
        ),
        6 => catalog.plan_destroy(&Destroy {
            names: match (flag, b % 2) {
                (false, _) => names(any_name()?),
                (true, 0) => names(snapshot_name()?),
                (true, _) => vec![snapshot_name()?, choose(catalog, is_snapshot, c)?],
            },
            is_recursive: c % 4 == 0,
            with_clones: c % 4 == 1,
        }),
        7 => catalog.plan_destroy(&Destroy {
            names: names(match b % 5 {
                0 => format!("{}@x%y", volume_name()?),
                1 => format!("{}@%z", volume_name()?),
                2 => snapshot_name()?,
                3 => group()?,
                _ => format!("{}@%", choose(catalog, Dataset::is_folder, a)?),
            }),
            is_recursive: flag,
            with_clones: c % 4 == 0,
        }),
        8 | 9 => catalog.plan_clone(
            &CloneSnapshot {
                snapshot: snapshot_name()?,
                name: place(catalog, b, c),
                with_parents: flag,
                properties: texts(&[("refreservation", "auto")]),
            },
            stamp,
        ),
        10 => catalog.plan_rollback(&Rollback {
            snapshot: snapshot_name()?,
            destroy_newer: flag,
            with_clones: b % 4 == 0,
        }),
        11 => catalog.plan_promote(&volume_name()?),
        12 => {
            let from = match flag && c % 4 == 0 {
                true => group()?,
                false => any_name()?,
            };
            let to = match from.contains('@') {
                true => format!("@{suffix}"),
                false => place(catalog, b, c),
            };
            let request = Rename {
                from,
                to,
                with_parents: true,
                is_recursive: flag,
            };
            catalog.plan_rename(&request, stamp)
        }
        13 => catalog.plan_resize(&Resize {
            name: volume_name()?,
            size: u64::from(b % 8) * (8 << 10),
            may_shrink: flag,
        }),
        14 => plan_properties(catalog, any_name()?, b, flag),
        _ => {
            let request = Holds {
                tag: "backup".to_owned(),
                snapshots: names(if flag { group()? } else { snapshot_name()? }),
                is_recursive: flag,
            };
            match catalog.plan_hold(&request, stamp) {
                Err(_) => catalog.plan_release(&request),
                held => held,
            }
        }
    })
}

fn plan_properties(
    catalog: &Catalog,
    name: String,
    number: u8,
    flag: bool,
) -> Result<Operation, CatalogError> {
    let pairs = [
        ("compression", "zstd-9"),
        ("refreservation", "auto"),
        ("snapshot_limit", "3"),
        ("my:own", "value"),
        ("refreservation", "none"),
    ];
    let pair = pairs[usize::from(number) % pairs.len()];
    if number.is_multiple_of(2) {
        return catalog.plan_inherit(&Inherit {
            name,
            property: pair.0.to_owned(),
            is_recursive: flag,
            to_received: !flag,
        });
    }
    catalog.plan_set(&SetProperties {
        name,
        properties: texts(&[pair]),
        is_received: flag,
    })
}

/// Plans and applies all operations that can be. Returns the catalogue and the operations that were
/// done.
fn live(tries: &[Try]) -> (Catalog, Vec<Operation>) {
    let mut world = World::new();
    let mut blocks = Blocks::default();
    for tried in tries {
        let epoch = Epoch(world.epoch);
        let volumes: Vec<_> = world
            .catalog
            .datasets()
            .filter(|dataset| is_volume(dataset))
            .collect();
        for (volume, at) in volumes
            .into_iter()
            .zip([tried.1, tried.2, tried.3, tried.1 / 2])
        {
            let DatasetKind::Volume(state) = &volume.kind else {
                continue;
            };
            let end = state.size / u64::from(state.block_size);
            blocks.write(&world.catalog, volume.id, u64::from(at) % end, epoch);
        }
        let before = world.catalog.clone();
        let applied = world.run(|catalog, stamp| {
            plan(catalog, stamp, *tried)
                .unwrap_or_else(|| Err(CatalogError::mismatch("nothing to choose from")))
        });
        match applied {
            Ok(applied) => blocks.follow(&world.catalog, &applied),
            Err(_) => assert_eq!(world.catalog, before),
        }
        blocks.check(&world.catalog);
        same_after_storing(&world.catalog);
        assert!(world.catalog.next >= before.next, "numbers only go up");
        for dataset in world
            .catalog
            .datasets()
            .filter(|dataset| before.dataset(dataset.id).is_none())
        {
            assert!(
                dataset.id >= before.next,
                "number {:?} was used before",
                dataset.id
            );
        }
    }
    (world.catalog, world.done)
}

/// Checks that a catalogue that is read back is checked whole, and has the indexes of the original.
fn same_after_storing(catalog: &Catalog) {
    let mut read = Catalog::decode(&catalog.encode()).expect("what was written can be read");
    read.set_pool_name("tank");
    assert_eq!(&read, catalog);
    for dataset in catalog.datasets() {
        let name = catalog.name(dataset.id);
        assert_eq!(catalog.find(&name).map(|found| found.id), Ok(dataset.id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn histories_keep_what_must_hold(tries in tries()) {
        let (catalog, done) = live(&tries);
        let mut replayed = Catalog::new(1000, 77);
        replayed.set_pool_name("tank");
        for operation in done {
            let read = Operation::decode(&operation.encode()).expect("what was written can be read");
            prop_assert_eq!(&read, &operation);
            prop_assert!(replayed.apply(&read).is_ok());
        }
        prop_assert_eq!(replayed, catalog);
    }

    #[test]
    fn operations_of_another_pool_do_no_harm(here in tries(), there in tries()) {
        let (mut catalog, _) = live(&here);
        for operation in live(&there).1 {
            let before = catalog.clone();
            if catalog.apply(&operation).is_err() {
                prop_assert_eq!(&catalog, &before);
            }
            same_after_storing(&catalog);
        }
    }
}

/// Every kind of operation is done at times, so the histories do not pass by refusing everything.
#[test]
fn histories_do_something_of_everything() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut kinds = std::collections::BTreeMap::new();
    for _ in 0..40 {
        let tries = tries().new_tree(&mut runner).expect("tries").current();
        for operation in live(&tries).1 {
            let json = String::from_utf8(operation.encode()).expect("JSON");
            let kind = json.split('"').nth(1).expect("a name").to_owned();
            *kinds.entry(kind).or_insert(0) += 1;
        }
    }
    assert_eq!(kinds.len(), 13, "{kinds:?}");
    assert!(kinds.values().all(|count| *count >= 5), "{kinds:?}");
}
