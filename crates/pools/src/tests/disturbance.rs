//! Tests, for random catalogues and changes, which datasets a change disturbs. The catalogue's
//! answer must equal the datasets that afterwards have another name or content, or are gone. So a
//! served dataset among them is kept, and no other change is refused.

use std::collections::BTreeMap;

use crate::dataset::steps;
use model::pool::dataset::change::DatasetChange;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use store::catalog::{Catalog, Dataset, Operation, Stamp};
use store::format::{DatasetId, Epoch};

/// Attempt: a verb, and numbers for its choices.
type Try = (u8, u8, u8, u8, bool);

fn tries() -> impl Strategy<Value = Vec<Try>> {
    prop::collection::vec(any::<Try>(), 1..60)
}

/// Catalogue, and the contents of its volumes and snapshots as numbers. Equal contents have equal
/// numbers.
struct World {
    catalog: Catalog,
    contents: BTreeMap<DatasetId, u64>,
    written: u64,
    /// Number of times that each verb disturbed something.
    disturbing: BTreeMap<&'static str, u32>,
}

impl World {
    fn new() -> Self {
        let mut catalog = Catalog::new(1000, 77);
        catalog.set_pool_name("tank");
        Self {
            catalog,
            contents: BTreeMap::new(),
            written: 0,
            disturbing: BTreeMap::new(),
        }
    }

    /// Returns the full name of an existing dataset of a kind.
    fn choose(&self, is_wanted: fn(&Dataset) -> bool, number: u8) -> Option<String> {
        let datasets = self.catalog.datasets();
        let wanted: Vec<_> = datasets.filter(|dataset| is_wanted(dataset)).collect();
        let at = usize::from(number).checked_rem(wanted.len())?;
        Some(self.catalog.full_name(wanted[at].id))
    }

    /// Returns the name of a snapshot that a folder or volume has, or that may exist below it.
    fn below(&self, a: u8, suffix: &str) -> Option<String> {
        let above = self.choose(|dataset| dataset.as_snapshot().is_none(), a)?;
        Some(format!("{above}@{suffix}"))
    }

    fn change(&self, (verb, a, b, c, flag): Try) -> Option<(&'static str, DatasetChange)> {
        let is_volume = |dataset: &Dataset| dataset.as_volume().is_some();
        let is_snapshot = |dataset: &Dataset| dataset.as_snapshot().is_some();
        let place = || {
            let folder = self.choose(Dataset::is_folder, b)?;
            let name = ["a", "b", "c", "d", "e/f"][usize::from(c % 5)];
            Some(format!("{folder}/{name}"))
        };
        let suffix = ["x", "y", "z"][usize::from(b % 3)];
        let properties = [("volsize".to_owned(), "64K".to_owned())].into();
        Some(match verb % 13 {
            0..=2 => {
                let change = DatasetChange::Create {
                    name: place()?,
                    size: (verb % 13 > 0).then_some(32 << 10),
                    block_size: Some(4096),
                    sparse: true,
                    parents: true,
                    properties: [].into(),
                };
                ("create", change)
            }
            3 | 4 => {
                let change = DatasetChange::Snapshot {
                    names: vec![self.below(a, suffix)?],
                    recursive: flag,
                    properties: [].into(),
                };
                ("snapshot", change)
            }
            5 | 6 => {
                let change = DatasetChange::Clone {
                    snapshot: self.choose(is_snapshot, a)?,
                    name: place()?,
                    parents: true,
                    properties: [].into(),
                };
                ("clone", change)
            }
            7 => {
                let change = DatasetChange::Destroy {
                    names: vec![self.choose(|_| true, a)?],
                    recursive: flag,
                    clones: c % 4 == 0,
                };
                ("destroy", change)
            }
            8 => {
                let change = DatasetChange::Rollback {
                    snapshot: self.choose(is_snapshot, a)?,
                    recursive: flag,
                    clones: c % 2 == 0,
                };
                ("rollback", change)
            }
            9 => {
                let name = self.choose(is_volume, a)?;
                ("promote", DatasetChange::Promote { name })
            }
            10 => {
                let change = DatasetChange::Rename {
                    from: self.choose(|dataset| dataset.as_snapshot().is_none(), a)?,
                    to: place()?,
                    parents: true,
                    recursive: false,
                };
                ("rename", change)
            }
            11 => {
                let change = DatasetChange::Rename {
                    from: match flag {
                        true => self.below(a, suffix)?,
                        false => self.choose(is_snapshot, a)?,
                    },
                    to: format!("@{}", ["x", "y", "z"][usize::from(c % 3)]),
                    parents: false,
                    recursive: flag,
                };
                ("rename snapshots", change)
            }
            _ => {
                let change = DatasetChange::Set {
                    names: vec![self.choose(is_volume, a)?],
                    properties,
                    shrink: true,
                };
                ("set", change)
            }
        })
    }

    fn try_one(&mut self, tried: Try) {
        let Some((verb, change)) = self.change(tried) else {
            return;
        };
        for step in steps(&change).expect("sizes can be read") {
            self.write();
            let stamp = Stamp {
                epoch: Epoch(self.written),
                time_s: self.written,
                entropy: 42,
            };
            let Ok(operation) = step(&self.catalog, stamp) else {
                return;
            };
            let before = (self.catalog.clone(), self.contents.clone());
            let told = self.catalog.disturbed_by(&operation);
            self.catalog.apply(&operation).expect("it was planned");
            self.follow(&operation);
            let disturbed = before.0.datasets().filter(|dataset| {
                let id = dataset.id;
                self.catalog.dataset(id).is_none()
                    || self.catalog.full_name(id) != before.0.full_name(id)
                    || self.contents.get(&id) != before.1.get(&id)
            });
            let disturbed = disturbed.map(|dataset| dataset.id).collect();
            assert_eq!(told, disturbed, "{change:?}");
            if !told.is_empty() {
                assert!(change.may_disturb(), "{change:?}");
                *self.disturbing.entry(verb).or_default() += 1;
            }
        }
    }

    /// Gives every volume a new content.
    fn write(&mut self) {
        let datasets = self.catalog.datasets();
        for volume in datasets.filter(|dataset| dataset.as_volume().is_some()) {
            self.written += 1;
            self.contents.insert(volume.id, self.written);
        }
        self.written += 1;
    }

    fn follow(&mut self, operation: &Operation) {
        let contents = &mut self.contents;
        match operation {
            Operation::CreateVolume { volume, .. } => drop(contents.insert(volume.dataset.id, 0)),
            Operation::Snapshot(taken) => {
                for new in &taken.snapshots {
                    contents.insert(new.id, contents[&new.volume]);
                }
            }
            Operation::Clone { clone, .. } => {
                contents.insert(clone.dataset.id, contents[&clone.origin]);
            }
            Operation::Rollback {
                volume, snapshot, ..
            } => drop(contents.insert(*volume, contents[snapshot])),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_disturbed_is_told(tries in tries()) {
        let mut world = World::new();
        tries.into_iter().for_each(|tried| world.try_one(tried));
    }
}

/// Checks that the test does not pass by refusing everything.
#[test]
fn something_is_disturbed_by_every_verb() {
    let mut runner = TestRunner::deterministic();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..60 {
        let mut world = World::new();
        let tries = tries().new_tree(&mut runner).expect("tries").current();
        tries.into_iter().for_each(|tried| world.try_one(tried));
        for (verb, count) in world.disturbing {
            *counts.entry(verb).or_default() += count;
        }
    }
    let verbs = [
        "destroy",
        "promote",
        "rename",
        "rename snapshots",
        "rollback",
    ];
    assert!(counts.keys().eq(&verbs), "{counts:?}");
    assert!(counts.values().all(|count| *count >= 5), "{counts:?}");
}
