//! Volumes that a sweep makes, one for each volblocksize, which can only be chosen for a new
//! volume. Each is as large as the measured one, lies in its pool and has its properties. Each has
//! a logical unit with the maps of the measured unit, and is removed at the end. The measured unit
//! itself is left alone.

use std::collections::{BTreeMap, BTreeSet};

use super::beneath::Beneath;
use super::journal::{Entry, Journal};
use super::volume::set;
use bench::sweep::volume_knobs::{MADE_WITH, PROPERTIES};
use config::change::{AddMap, CreateUnit};
use config::explain::Explanation;
use control::Client;
use control::answer::UnitView;
use control::endpoint::volume::How;
use control::endpoint::volume::Listed;
use control::endpoint::{lu, map, volume};
use control::transaction::Commit;
use control::transaction::Committed;
use initiator::own_name::initiator_name;
use model::config::BackendSpec;
use model::device_name;
use model::initiator::settings::{DeviceSettings, SessionSettings};
use model::initiator::url::{LunUrl, at_lun};
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::{Changed, DatasetView};
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Volumes that were made, by volblocksize.
pub(super) struct MadeVolumes {
    client: Client,
    made: BTreeMap<String, Made>,
}

/// Volume and its unit.
struct Made {
    volume: String,
    unit: String,
    /// Unit's name to initiators (`naa.…`).
    name: String,
    /// Name under which to open the unit.
    place: String,
    /// Working sets that hold data. A new volume holds none, and would answer reads without any
    /// I/O.
    filled: BTreeSet<Option<u64>>,
}

impl Made {
    /// Returns the backend of its unit.
    fn backend(&self) -> BackendSpec {
        BackendSpec::on_volume(&self.volume)
    }
}

impl MadeVolumes {
    /// Makes a volume for each of these block sizes, for the initiator that reaches the measured
    /// unit by `target`. If one cannot be made, none is left.
    pub(super) fn make(
        beneath: &Beneath,
        block_sizes: &BTreeSet<&String>,
        target: &str,
        journal: &mut Journal,
    ) -> Result<Self, Error> {
        let mut all = Self {
            client: beneath.client.clone(),
            made: BTreeMap::new(),
        };
        for block_size in block_sizes {
            if let Err(mut error) = all.make_one(beneath, block_size, target, journal) {
                error.message = format!("a volume with {MADE_WITH}={block_size}: {error}");
                if let Err(left) = all.remove() {
                    error.message = format!("{error}; and {left}");
                }
                return Err(error);
            }
        }
        Ok(all)
    }

    fn make_one(
        &mut self,
        beneath: &Beneath,
        block_size: &str,
        target: &str,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        let ending = format!("-sweep-{}", block_size.to_ascii_lowercase());
        let volume = format!("{}{ending}", beneath.volume.name);
        let unit = format!("{}{ending}", beneath.unit.spec.name);
        let create = create_volume(beneath, block_size, &volume)?;
        let _: Changed = self
            .client
            .ask(&volume::CHANGE, &[], &How::default(), &create)
            .map_err(|error| left_over(error, &unit, &volume))?;
        // From here on, the sweep must remove the volume.
        journal.note(&Entry::Made {
            created_s: created_s(&self.client, &volume)?.unwrap_or_default(),
            volume: volume.clone(),
            unit: unit.clone(),
        })?;
        let made = Made {
            volume,
            unit: unit.clone(),
            name: String::new(),
            place: String::new(),
            filled: BTreeSet::new(),
        };
        let backend = made.backend();
        self.made.insert(block_size.to_owned(), made);
        let spec = &beneath.unit.spec;
        let create = CreateUnit {
            name: unit.clone(),
            backend,
            block_size: spec.block_size,
            physical_block_size: None,
            new_volume: None,
            write_cache: spec.write_cache,
            read_only: false,
            thin: Some(spec.thin),
            threshold_percent: None,
            naa: None,
            serial: None,
        };
        let _: Committed = self
            .client
            .ask(&lu::CREATE, &[], &Commit::default(), &create)?;
        for map in &beneath.unit.maps {
            let add = AddMap {
                unit: unit.clone(),
                host: map.host.clone(),
                target: map.target.clone(),
                lun: None,
                read_only: false,
            };
            let _: Committed = self.client.ask(&map::ADD, &[], &Commit::default(), &add)?;
        }
        let view: UnitView = self.client.call(&lu::SHOW, &[&unit])?;
        let name = format!("naa.{}", view.spec.naa);
        let place = self.place_of(&unit, &name, target)?;
        if let Some(made) = self.made.get_mut(block_size) {
            (made.name, made.place) = (name, place);
        }
        Ok(())
    }

    /// Returns the name of this unit, in the form in which `target` names the measured one.
    fn place_of(&self, unit: &str, name: &str, target: &str) -> Result<String, Error> {
        if device_name::is_one(target) {
            let options = target.split_once('?').map(|(_, options)| options);
            let options = options.map_or(String::new(), |options| format!("?{options}"));
            return Ok(format!("{name}{options}"));
        }
        let session = SessionSettings::new(initiator_name());
        let url = LunUrl::parse(target, session, DeviceSettings::default());
        let url = url.map_err(|error| Error::invalid(error.to_string(), "correct the URL"))?;
        let question = map::Question {
            initiator: url.target.session.initiator_name.clone(),
            unit: Some(unit.to_owned()),
        };
        let why: Explanation = self.client.ask(&map::EXPLAIN, &[], &question, &())?;
        let iqn = &url.target.name;
        let sight = why
            .sees
            .iter()
            .find(|it| it.target.eq_ignore_ascii_case(iqn));
        let sight = sight.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                why.conclusion,
                "map the unit to this initiator",
            )
        })?;
        Ok(at_lun(target, sight.lun))
    }

    /// Returns the place to open under this setting.
    pub(super) fn place(&self, setting: &BTreeMap<String, String>) -> Option<&str> {
        self.of(setting).map(|made| made.place.as_str())
    }

    /// Refuses to write to the unit opened for this setting if it is not the one made. A LUN may be
    /// another unit's by now, or belong to a daemon that shows the measured unit too.
    pub(super) fn check(
        &self,
        setting: &BTreeMap<String, String>,
        opened: Option<String>,
    ) -> Result<(), Error> {
        let Some(made) = self.of(setting) else {
            return Ok(());
        };
        let found = opened.unwrap_or_default();
        if found.eq_ignore_ascii_case(&made.name) {
            return Ok(());
        }
        let (unit, name) = (&made.unit, &made.name);
        Err(Error::new(
            ErrorKind::Refused,
            format!("the unit opened as {unit} is {found}, not {name}"),
            "name a portal of the daemon that makes the volumes, and do not change their maps during the sweep",
        ))
    }

    /// Sets the other properties of the volume of this setting.
    pub(super) fn set(&self, setting: &BTreeMap<String, String>) -> Result<(), Error> {
        let mut properties = setting.clone();
        properties.remove(MADE_WITH);
        match self.of(setting) {
            Some(made) if !properties.is_empty() => {
                let change = set(&made.volume, properties);
                let _: Changed = self
                    .client
                    .ask(&volume::CHANGE, &[], &How::default(), &change)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reports whether this working set of the setting's volume holds no data yet, and marks it as
    /// filled.
    pub(super) fn is_to_be_filled(
        &mut self,
        setting: &BTreeMap<String, String>,
        working_set: Option<u64>,
    ) -> bool {
        let block_size = setting.get(MADE_WITH);
        let made = block_size.and_then(|block_size| self.made.get_mut(block_size));
        made.is_some_and(|made| made.filled.insert(working_set))
    }

    /// Removes all volumes and units that were made.
    pub(super) fn remove(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        for made in std::mem::take(&mut self.made).into_values() {
            // A volume that cannot be removed does not keep the others.
            if let Err(error) = self.remove_one(&made) {
                first = first.and(Err(left_over(error, &made.unit, &made.volume)));
            }
        }
        first
    }

    fn remove_one(&self, made: &Made) -> Result<(), Error> {
        remove(&self.client, &made.volume, &made.unit)
    }

    fn of(&self, setting: &BTreeMap<String, String>) -> Option<&Made> {
        self.made.get(setting.get(MADE_WITH)?)
    }
}

/// Removes a volume and its unit.
fn remove(client: &Client, volume: &str, unit: &str) -> Result<(), Error> {
    let view: Result<UnitView, Error> = client.call(&lu::SHOW, &[unit]);
    let backend = BackendSpec::on_volume(volume);
    match view {
        Ok(view) if view.spec.backend == backend => {
            let how = Commit {
                cascade: true,
                ..Commit::default()
            };
            let _: Committed = client.ask(&lu::DELETE, &[unit], &how, &())?;
        }
        // The sweep did not make it: somebody else's has the name.
        Ok(_) => {}
        // It may not have been made.
        Err(error) if error.kind == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let destroy = DatasetChange::Destroy {
        names: vec![volume.to_owned()],
        recursive: false,
        clones: false,
    };
    let _: Changed = client.ask(&volume::CHANGE, &[], &How::default(), &destroy)?;
    Ok(())
}

/// Removes a volume that a killed sweep left, if it still exists. A later volume of that name is
/// not touched.
pub(super) fn remove_left(
    client: &Client,
    volume: &str,
    unit: &str,
    created: u64,
) -> Result<(), Error> {
    match created_s(client, volume)? {
        Some(found) if found == created => remove(client, volume, unit),
        _ => Ok(()),
    }
}

/// Returns the time at which a volume was made, or `None` if it does not exist.
fn created_s(client: &Client, volume: &str) -> Result<Option<u64>, Error> {
    let datasets: Vec<DatasetView> = client.ask(&volume::LIST, &[], &Listed::names_only(), &())?;
    let found = datasets.iter().find(|dataset| dataset.name == volume);
    Ok(found.map(|dataset| dataset.created_s))
}

/// Refuses to fill `count` volumes in a pool without room for them, because others write to the
/// pool too. `parts` are the measured sizes of a volume, if not all of it is measured.
pub(super) fn fits(
    beneath: &Beneath,
    count: usize,
    parts: impl Iterator<Item = Option<u64>>,
) -> Result<(), Error> {
    let (Some(size), Some(available)) = (beneath.volume.size, beneath.volume.available) else {
        return Ok(());
    };
    let largest = parts.map(|part| part.map_or(size, |part| part.min(size)));
    let largest = largest.max().unwrap_or(size);
    if largest.saturating_mul(count as u64) <= available {
        return Ok(());
    }
    let (largest, available) = (format_size(largest), format_size(available));
    Err(Error::new(
        ErrorKind::Refused,
        format!(
            "{MADE_WITH}: the sweep would fill {largest} for each of {count} values, and the pool has room \
             for {available}"
        ),
        "measure a part of the volume (--working-set 1G), or fewer values",
    ))
}

/// Returns a volume like the measured one, but with these blocks and thin: only measured parts take
/// space.
fn create_volume(beneath: &Beneath, block_size: &str, name: &str) -> Result<DatasetChange, Error> {
    let bytes = model::quantity::parse_size(block_size)
        .map_err(|reason| Error::invalid(reason, "choose another value"))?;
    let own = beneath.volume.properties.iter();
    let own = own.filter(|view| view.source == "local" && PROPERTIES.contains(&&*view.name));
    let properties = own.map(|view| (view.name.clone(), view.value.clone()));
    Ok(DatasetChange::Create {
        name: name.to_owned(),
        size: beneath.volume.size.map(|size| size / bytes * bytes),
        block_size: u32::try_from(bytes).ok(),
        sparse: true,
        parents: false,
        properties: properties.collect(),
    })
}

/// Adds to an error what stays behind, and the commands that remove it.
fn left_over(mut error: Error, unit: &str, volume: &str) -> Error {
    error.next = format!(
        "remove the leftovers of the sweep: sandstone lu delete {unit} --yes; sandstone volume destroy {volume}"
    );
    error
}
