//! Placement of logical units: the volume that holds the data of a unit, whatever its present name;
//! and whether a change points a unit to other data.
//!
//! A volume changes its name by `volume rename`, by `volume promote` of a clone, or by an import of
//! its pool under a new name. The numbers of pool and volume stay. The configuration notes both
//! numbers beside the name. So a unit follows its volume, even if the power fails between a rename
//! and the change of the configuration.
//!
//! # Order
//! 1. The number of a unit's volume is stored. Otherwise `volume rename` is refused
//!    (`crates/pools/src/served_datasets.rs`).
//! 2. The volume gets its new name, durably.
//! 3. The new name is stored.
//!
//! If a power cut, a full disk or another request comes between these steps, the volume is found by
//! its number. Its old name may then belong to another volume, in this pool or in one that was
//! imported in its place. No unit is ever opened on that other volume
//! (`crates/target/src/opening.rs`). Only an administrator can ask for it, with `lu modify
//! --volume`.
//!
//! A note holds as long as the unit still names the volume in it. Pointing the unit elsewhere makes
//! the note void.

use std::collections::HashMap;

use model::config::{Config, UnitSpec};
use model::error::Error;
use model::volume_id::{PlacedUnit, VolumeId, Volumes};

/// Returns the name of the volume beneath the unit.
fn volume(unit: &UnitSpec) -> Option<&str> {
    unit.backend.volume()
}

/// Reports whether a note holds for one of these units.
fn holds(note: &PlacedUnit, units: &HashMap<&str, &UnitSpec>) -> bool {
    let unit = units.get(note.naa.as_str());
    unit.is_some_and(|unit| volume(unit) == Some(&note.volume))
}

/// Returns the notes that hold, by designator.
pub fn notes(config: &Config) -> HashMap<&str, &PlacedUnit> {
    let units = config.units_by_naa();
    let notes = config.identity.volumes.iter();
    let notes = notes.filter(|note| holds(note, &units));
    notes.map(|note| (note.naa.as_str(), note)).collect()
}

/// A unit of a configuration, and its noted volume.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Unit of the configuration.
    pub spec: &'a UnitSpec,
    /// Noted volume; `None` for other back ends, and if no volume is noted.
    pub volume: Option<&'a VolumeId>,
}

/// Lists the units of a configuration with their volumes.
pub fn placed(config: &Config) -> impl Iterator<Item = Placed<'_>> {
    let notes = notes(config);
    config.units.iter().map(move |spec| Placed {
        spec,
        volume: notes.get(spec.naa.as_str()).map(|note| &note.id),
    })
}

/// Returns a configuration with the present names of the units' volumes, and with notes of volumes
/// that were not known. Returns `None` if nothing has to change.
pub fn followed(config: &Config, volumes: &dyn Volumes) -> Option<Config> {
    let news = news(config, volumes);
    if news.is_empty() {
        return None;
    }
    let mut after = config.clone();
    take_over(&mut after, news);
    Some(after)
}

/// Collects news of the units' places: volumes that were not noted yet, and volumes with new names.
/// A unit with a noted volume takes no other volume, whichever has the name.
fn news(config: &Config, volumes: &dyn Volumes) -> Vec<PlacedUnit> {
    let notes = notes(config);
    let on_volumes = || {
        let units = config.units.iter();
        units.filter_map(|unit| Some((unit.naa.as_str(), volume(unit)?)))
    };
    let noted = on_volumes().filter_map(|(naa, _)| notes.get(naa).copied());
    let noted: Vec<&PlacedUnit> = noted.collect();
    let ids: Vec<VolumeId> = noted.iter().map(|note| note.id.clone()).collect();
    let names = noted.into_iter().zip(volumes.names(&ids));
    let renamed = names.filter_map(|(note, name)| {
        let volume = name.filter(|name| *name != note.volume)?;
        Some(PlacedUnit {
            volume,
            ..note.clone()
        })
    });
    let unknown = on_volumes().filter(|(naa, _)| !notes.contains_key(naa));
    let unknown: Vec<(&str, &str)> = unknown.collect();
    let names: Vec<String> = unknown.iter().map(|(_, name)| (*name).to_owned()).collect();
    let found = unknown.into_iter().zip(volumes.ids(&names));
    let new = found.filter_map(|((naa, name), id)| {
        Some(PlacedUnit {
            naa: naa.to_owned(),
            volume: name.to_owned(),
            id: id?,
        })
    });
    renamed.chain(new).collect()
}

/// Adds news to the notes of this configuration. A unit that was noted before keeps its place among
/// the notes.
fn take_over(config: &mut Config, news: Vec<PlacedUnit>) {
    let mut news: HashMap<String, PlacedUnit> = news
        .into_iter()
        .map(|noted| (noted.naa.clone(), noted))
        .collect();
    for unit in &mut config.units {
        if let Some(volume) = unit.backend.volume_mut()
            && let Some(noted) = news.get(&unit.naa)
        {
            volume.clone_from(&noted.volume);
        }
    }
    for note in &mut config.identity.volumes {
        if let Some(noted) = news.remove(&note.naa) {
            *note = noted;
        }
    }
    let mut new: Vec<PlacedUnit> = news.into_values().collect();
    new.sort_by(|one, other| one.naa.cmp(&other.naa));
    config.identity.volumes.extend(new);
}

/// Makes the note of a unit void, because an administrator points the unit to the present bearer of
/// the name.
pub fn forget(config: &mut Config, naa: &str) {
    let notes = config.identity.volumes.iter_mut();
    for note in notes.filter(|note| note.naa == naa) {
        note.volume.clear();
    }
}

/// Notes the volumes of units that a change made or pointed elsewhere, and forgets notes that hold
/// no more. If there are new notes, all other units follow their volumes too: a name given to one
/// unit may be the new name of another unit's volume. Returns whether the result has to be
/// validated again.
pub fn complete(before: &Config, after: &mut Config, volumes: &dyn Volumes) -> bool {
    let (old, notes_before) = (before.units_by_naa(), notes(before));
    let is_new = {
        let notes = notes(after);
        let is_new = |unit: &UnitSpec| {
            let naa = unit.naa.as_str();
            let same = old.get(naa);
            let is_pointed = notes_before.contains_key(naa) && !notes.contains_key(naa);
            is_pointed || same.is_none_or(|same| same.backend != unit.backend)
        };
        let mut on_volumes = after.units.iter().filter(|unit| volume(unit).is_some());
        on_volumes.any(is_new)
    };
    let mut is_followed = false;
    if is_new {
        let news = news(after, volumes);
        is_followed = !news.is_empty();
        take_over(after, news);
    }
    let mut notes = std::mem::take(&mut after.identity.volumes);
    let units = after.units_by_naa();
    notes.retain(|note| holds(note, &units));
    after.identity.volumes = notes;
    is_followed
}

/// Refuses two units on one volume, even under different names. Any number of units may be on one
/// snapshot.
///
/// # Errors
/// Two units are on one volume.
pub fn refuse_shared(config: &Config) -> Result<(), Error> {
    let mut by_volume: HashMap<&VolumeId, &UnitSpec> = HashMap::new();
    for unit in placed(config) {
        let is_volume = unit.spec.backend.writable_volume().is_some();
        let Some(id) = unit.volume.filter(|_| is_volume) else {
            continue;
        };
        if let Some(other) = by_volume.insert(id, unit.spec) {
            return Err(Error::invalid(
                format!(
                    "logical units {} and {} are on one volume, {}",
                    other.name,
                    unit.spec.name,
                    volume(unit.spec).unwrap_or_default()
                ),
                "give each unit its own volume: two units over one would destroy each other's data",
            ));
        }
    }
    Ok(())
}

/// Lists the units that a change points to other data, by designator.
pub fn moved<'a>(before: &'a Config, after: &'a Config) -> Vec<&'a UnitSpec> {
    let old = before.units_by_naa();
    let differs = |unit: &UnitSpec| {
        let was = old.get(unit.naa.as_str());
        was.is_some_and(|was| was.backend != unit.backend)
    };
    // Most changes touch neither.
    if before.identity.volumes == after.identity.volumes && !after.units.iter().any(differs) {
        return Vec::new();
    }
    let (notes_before, notes_after) = (notes(before), notes(after));
    let differ = after.units.iter().filter(|unit| {
        let naa = unit.naa.as_str();
        let is_noted_anew = notes_before.get(naa).is_some_and(|was| {
            let is = notes_after.get(naa);
            is.is_none_or(|is| is.id != was.id)
        });
        differs(unit) || is_noted_anew
    });
    let is_moved = |unit: &&UnitSpec| {
        let naa = unit.naa.as_str();
        let ids = (notes_before.get(naa), notes_after.get(naa));
        let is_same = matches!(ids, (Some(was), Some(is)) if was.id == is.id);
        let Some(was) = old.get(naa) else {
            return false;
        };
        match (volume(was), volume(unit)) {
            (Some(_), Some(_)) => !is_same,
            _ => !unit.backend.is_at_place_of(&was.backend),
        }
    };
    differ.filter(is_moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::BackendSpec;

    /// Pool with these volumes.
    struct Pool(Vec<(&'static str, u32)>);

    fn id(dataset: u32) -> VolumeId {
        VolumeId::new(0x1111_1111_1111_1111, dataset)
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
            let name = |wanted| find(wanted).map(|(name, _)| (*name).to_owned());
            ids.iter().map(name).collect()
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
        let after = followed(&config, &exchanged).expect("news");
        assert_eq!(volumes_of(&after), ["tank/b", "new/a"]);
        assert!(moved(&config, &after).is_empty(), "the data is the same");
        assert_eq!(followed(&after, &exchanged), None);
    }

    #[test]
    fn an_administrator_that_points_a_unit_elsewhere_is_believed() {
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
        assert_eq!(followed(&after, &pool), None);
    }

    #[test]
    fn a_pool_that_is_away_changes_nothing_and_one_that_came_late_is_noted() {
        let config = placed(vec![unit("a", "tank/a")], &Pool(vec![]));
        assert!(config.identity.volumes.is_empty());
        assert_eq!(followed(&config, &Pool(vec![])), None);
        let noted = followed(&config, &Pool(vec![("tank/a", 7)])).expect("news");
        assert_eq!(noted.identity.volumes[0].id, id(7));
        assert_eq!(followed(&noted, &Pool(vec![])), None, "it is away again");
        assert_eq!(volumes_of(&noted), ["tank/a"]);
    }

    #[test]
    fn another_volume_of_the_name_is_taken_only_where_an_administrator_says_so() {
        let config = placed(vec![unit("a", "tank/a")], &Pool(vec![("tank/a", 1)]));
        // The unit's own pool is away, and another pool has its name; or the unit's volume is gone.
        let other = Pool(vec![("tank/a", 2)]);
        assert_eq!(followed(&config, &other), None);
        let mut after = config.clone();
        forget(&mut after, &config.units[0].naa);
        assert!(complete(&config, &mut after, &other));
        assert_eq!(after.identity.volumes[0].id, id(2));
        assert_eq!(moved(&config, &after), [&after.units[0]]);
        // Naming the unit's own volume changes nothing.
        let mut after = config.clone();
        forget(&mut after, &config.units[0].naa);
        complete(&config, &mut after, &Pool(vec![("tank/a", 1)]));
        assert_eq!(after, config);
    }

    #[test]
    fn two_units_are_on_one_snapshot_and_not_on_one_volume() {
        let pool = Pool(vec![("tank/a", 1), ("tank/b", 1), ("tank/a@s", 2)]);
        let two = |one: &str, other: &str| placed(vec![unit("a", one), unit("b", other)], &pool);
        let refused = refuse_shared(&two("tank/a", "tank/b")).expect_err("two");
        assert!(
            refused.message.contains("a and b are on one volume"),
            "{refused}"
        );
        refuse_shared(&two("tank/a@s", "tank/a@s")).expect("a snapshot");
        refuse_shared(&two("tank/a", "tank/a@s")).expect("two datasets");
    }

    #[test]
    fn a_unit_that_is_given_the_new_name_of_another_units_volume_is_seen_to_be_on_it() {
        let config = placed(vec![unit("a", "tank/a")], &Pool(vec![("tank/a", 1)]));
        let renamed = Pool(vec![("tank/b", 1)]);
        let mut after = config.clone();
        after.units.push(unit("b", "tank/b"));
        complete(&config, &mut after, &renamed);
        assert_eq!(volumes_of(&after), ["tank/b", "tank/b"]);
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
