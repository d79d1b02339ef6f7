//! Where the data of logical units lies: which volume, whatever that is called at the moment; and whether a change points
//! a unit to other data.
//!
//! A volume has another name after `volume rename`, `volume promote` of a clone, or an import of its pool under a new
//! name. Its pool's number and its own stay. The configuration notes both beside the name. So a unit follows its volume,
//! also where the power fails between a rename and the change of the configuration.
//!
//! A note holds as long as the unit has the volume's name from it. Whoever points a unit elsewhere makes it void.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{BackendSpec, Config, UnitSpec};

/// A volume or snapshot by what never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeId {
    /// The pool's number, 16 hexadecimal digits.
    pub pool: String,
    /// Its number in the pool, which is never used twice.
    pub dataset: u32,
}

/// A note of the place of a unit on a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacedUnit {
    /// The unit's designator.
    pub naa: String,
    /// The volume's name when it was noted.
    pub volume: String,
    /// The volume.
    pub id: VolumeId,
}

/// The volumes of open pools.
pub trait Volumes {
    /// The volumes or snapshots of these names; `None` of one that is not there, or whose pool is not open.
    fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>>;

    /// The names of these.
    fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>>;
}

/// The name of the volume that a unit is on.
fn volume(unit: &UnitSpec) -> Option<&str> {
    match &unit.backend {
        BackendSpec::Volume { volume } => Some(volume),
        _ => None,
    }
}

/// Whether a note holds for one of these units.
fn holds(note: &PlacedUnit, units: &HashMap<&str, &UnitSpec>) -> bool {
    let unit = units.get(note.naa.as_str());
    unit.is_some_and(|unit| volume(unit) == Some(&note.volume))
}

/// The notes that hold, by designator.
fn notes(config: &Config) -> HashMap<&str, &PlacedUnit> {
    let units = config.units_by_naa();
    let notes = config.identity.volumes.iter();
    let notes = notes.filter(|note| holds(note, &units));
    notes.map(|note| (note.naa.as_str(), note)).collect()
}

/// News of where units lie: volumes that were not noted yet, and those that have other names.
pub fn news(config: &Config, volumes: &dyn Volumes) -> Vec<PlacedUnit> {
    let notes = notes(config);
    let on_volumes: Vec<(&UnitSpec, &str)> = config
        .units
        .iter()
        .filter_map(|unit| Some((unit, volume(unit)?)))
        .collect();
    let note_of = |unit: &UnitSpec| notes.get(unit.naa.as_str()).copied();
    let noted: Vec<&PlacedUnit> = on_volumes
        .iter()
        .filter_map(|(unit, _)| note_of(unit))
        .collect();
    let ids: Vec<VolumeId> = noted.iter().map(|note| note.id.clone()).collect();
    let names = volumes.names(&ids);
    let known = noted
        .iter()
        .zip(names)
        .filter_map(|(note, name)| Some((note.naa.as_str(), name?)));
    let known: HashMap<&str, String> = known.collect();
    let unknown: Vec<&(&UnitSpec, &str)> = on_volumes
        .iter()
        .filter(|(unit, _)| !known.contains_key(unit.naa.as_str()))
        .collect();
    let asked: Vec<String> = unknown.iter().map(|(_, name)| (*name).to_owned()).collect();
    let found = volumes.ids(&asked);
    let renamed = noted.iter().filter_map(|note| {
        let name = known
            .get(note.naa.as_str())
            .filter(|name| **name != note.volume)?;
        Some(PlacedUnit {
            volume: name.clone(),
            ..(*note).clone()
        })
    });
    let new = unknown.iter().zip(found).filter_map(|((unit, name), id)| {
        let id = id?;
        let is_noted = note_of(unit).is_some_and(|note| note.id == id);
        (!is_noted).then(|| PlacedUnit {
            naa: unit.naa.clone(),
            volume: (*name).to_owned(),
            id,
        })
    });
    renamed.chain(new).collect()
}

/// Takes over news: units have the names that their volumes have.
pub fn take_over(config: &mut Config, news: &[PlacedUnit]) {
    let by_naa: HashMap<&str, &PlacedUnit> =
        news.iter().map(|noted| (noted.naa.as_str(), noted)).collect();
    let mut noted: Vec<PlacedUnit> = Vec::new();
    for unit in &mut config.units {
        if let Some(news) = by_naa.get(unit.naa.as_str())
            && let BackendSpec::Volume { volume } = &mut unit.backend
        {
            volume.clone_from(&news.volume);
            noted.push((*news).clone());
        }
    }
    let notes = &mut config.identity.volumes;
    notes.retain(|old| !by_naa.contains_key(old.naa.as_str()));
    notes.extend(noted);
}

/// Notes the volumes of units that a change made or pointed elsewhere, and forgets what holds no more.
pub fn complete(before: &Config, after: &mut Config, volumes: &dyn Volumes) {
    let old = before.units_by_naa();
    let is_new = |unit: &&UnitSpec| {
        let same = old.get(unit.naa.as_str());
        volume(unit).is_some() && same.is_none_or(|same| same.backend != unit.backend)
    };
    let changed: Vec<UnitSpec> = after.units.iter().filter(is_new).cloned().collect();
    if !changed.is_empty() {
        let changed = Config {
            units: changed,
            identity: after.identity.clone(),
            ..Config::default()
        };
        take_over(after, &news(&changed, volumes));
    }
    let mut notes = std::mem::take(&mut after.identity.volumes);
    let units = after.units_by_naa();
    notes.retain(|note| holds(note, &units));
    after.identity.volumes = notes;
}

/// The units that a change points to other data, by designator.
pub fn moved<'a>(before: &'a Config, after: &'a Config) -> Vec<&'a UnitSpec> {
    let old = before.units_by_naa();
    let differ = after.units.iter().filter(|unit| {
        let was = old.get(unit.naa.as_str());
        was.is_some_and(|was| was.backend != unit.backend)
    });
    let differ: Vec<&UnitSpec> = differ.collect();
    if differ.is_empty() {
        return differ;
    }
    let (notes_before, notes_after) = (notes(before), notes(after));
    let is_moved = |unit: &&UnitSpec| {
        let naa = unit.naa.as_str();
        let ids = (notes_before.get(naa), notes_after.get(naa));
        let is_same = matches!(ids, (Some(was), Some(is)) if was.id == is.id);
        let Some(was) = old.get(naa) else {
            return false;
        };
        match (&was.backend, &unit.backend) {
            (BackendSpec::Memory { .. }, BackendSpec::Memory { .. }) => false,
            (BackendSpec::File { path: was, .. }, BackendSpec::File { path: is, .. }) => was != is,
            (BackendSpec::Volume { .. }, BackendSpec::Volume { .. }) => !is_same,
            (was, is) => was != is,
        }
    };
    differ.into_iter().filter(is_moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool with these volumes.
    struct Pool(Vec<(&'static str, u32)>);

    fn id(dataset: u32) -> VolumeId {
        VolumeId {
            pool: "1".repeat(16),
            dataset,
        }
    }

    impl Volumes for Pool {
        fn ids(&self, names: &[String]) -> Vec<Option<VolumeId>> {
            let find = |name: &String| self.0.iter().find(|(of, _)| of == name);
            names
                .iter()
                .map(|name| find(name).map(|(_, number)| id(*number)))
                .collect()
        }

        fn names(&self, ids: &[VolumeId]) -> Vec<Option<String>> {
            let find = |wanted: &VolumeId| self.0.iter().find(|(_, number)| id(*number) == *wanted);
            ids.iter()
                .map(|wanted| find(wanted).map(|(name, _)| (*name).to_owned()))
                .collect()
        }
    }

    fn unit(name: &str, volume: &str) -> UnitSpec {
        UnitSpec {
            name: name.into(),
            naa: format!("6{name:0>31}"),
            serial: name.into(),
            backend: BackendSpec::Volume {
                volume: volume.into(),
            },
            block_size: 512,
            physical_block_size: 4096,
            write_cache: false,
            read_only: false,
            thin: true,
            threshold_percent: None,
            offline: false,
        }
    }

    fn placed(units: Vec<UnitSpec>, pool: &Pool) -> Config {
        let mut config = Config {
            units,
            ..Config::default()
        };
        complete(&Config::default(), &mut config, pool);
        config
    }

    fn volumes_of(config: &Config) -> Vec<&str> {
        config.units.iter().filter_map(volume).collect()
    }

    #[test]
    fn units_follow_volumes_that_are_renamed_and_change_places() {
        let config = placed(
            vec![unit("a", "tank/a"), unit("b", "tank/b")],
            &Pool(vec![("tank/a", 1), ("tank/b", 2)]),
        );
        let exchanged = Pool(vec![("tank/b", 1), ("new/a", 2)]);
        let mut after = config.clone();
        take_over(&mut after, &news(&config, &exchanged));
        assert_eq!(volumes_of(&after), ["tank/b", "new/a"]);
        assert!(moved(&config, &after).is_empty(), "the data is the same");
        assert!(news(&after, &exchanged).is_empty());
    }

    #[test]
    fn who_points_a_unit_elsewhere_is_believed() {
        let pool = Pool(vec![("tank/a", 1), ("tank/b", 2)]);
        let config = placed(vec![unit("a", "tank/a")], &pool);
        let mut after = config.clone();
        after.units[0].backend = BackendSpec::Volume {
            volume: "tank/b".into(),
        };
        complete(&config, &mut after, &pool);
        assert_eq!(
            after.identity.volumes,
            [PlacedUnit {
                naa: after.units[0].naa.clone(),
                volume: "tank/b".into(),
                id: id(2),
            }]
        );
        assert_eq!(moved(&config, &after), [&after.units[0]]);
        assert!(news(&after, &pool).is_empty());
    }

    #[test]
    fn a_pool_that_is_away_changes_nothing_and_one_that_came_late_is_noted() {
        let config = placed(vec![unit("a", "tank/a")], &Pool(vec![]));
        assert!(config.identity.volumes.is_empty());
        assert!(news(&config, &Pool(vec![])).is_empty());
        let mut noted = config.clone();
        take_over(&mut noted, &news(&config, &Pool(vec![("tank/a", 7)])));
        assert_eq!(noted.identity.volumes[0].id, id(7));
        assert!(news(&noted, &Pool(vec![])).is_empty(), "it is away again");
        assert_eq!(volumes_of(&noted), ["tank/a"]);
    }

    #[test]
    fn a_unit_that_goes_takes_its_note_along() {
        let pool = Pool(vec![("tank/a", 1)]);
        let config = placed(vec![unit("a", "tank/a")], &pool);
        let mut after = config.clone();
        after.units.clear();
        complete(&config, &mut after, &pool);
        assert!(after.identity.volumes.is_empty());
    }
}
