//! Datasets of pools that logical units serve, and that must not be taken away while served.
//!
//! The volume of a logical unit is the one whose numbers are noted for the unit, whatever its name
//! is now. Since the name was stored, another volume may have taken it. The name decides only if
//! nothing is noted yet.

use store::catalog::{Catalog, CatalogError, ErrorKind as Refusal, Operation, ROOT};
use store::format::DatasetId;

use config::placement;
use model::config::Config;
use model::volume_id::VolumeId;
use model::{Error, ErrorKind};

/// Logical units that serve volumes and snapshots.
#[derive(Clone, Debug, Default)]
pub struct Served {
    units: Vec<ServedUnit>,
    /// Units that are offline and idle. No host notices changes to their volumes.
    at_rest: Vec<String>,
}

#[derive(Clone, Debug)]
struct ServedUnit {
    name: String,
    /// Name of the volume, including the pool's name.
    volume: String,
    id: Option<VolumeId>,
    /// Whether the stored configuration already holds `id`.
    is_noted: bool,
}

impl Served {
    /// Collects the units of a configuration. `config` is in force; `followed` is `config` with the
    /// current names of volumes: [`Transactions::followed`](control::Transactions::followed).
    pub fn of(config: &Config, followed: &Config) -> Self {
        let (stored, notes) = (placement::notes(config), placement::notes(followed));
        let units = followed.units.iter().filter_map(|unit| {
            let volume = unit.backend.volume()?;
            let naa = unit.naa.as_str();
            let id = notes.get(naa).map(|note| &note.id);
            Some(ServedUnit {
                name: unit.name.clone(),
                volume: volume.to_owned(),
                id: id.cloned(),
                is_noted: id.is_some() && stored.get(naa).map(|note| &note.id) == id,
            })
        });
        Self {
            units: units.collect(),
            at_rest: Vec::new(),
        }
    }

    /// Adds the names of units that are offline and have no command under way.
    pub fn with_at_rest(self, at_rest: Vec<String>) -> Self {
        Self { at_rest, ..self }
    }

    #[cfg(test)]
    /// Returns a use of one volume by one unit.
    pub fn by(unit: &str, volume: &str) -> Self {
        let unit = ServedUnit {
            name: unit.to_owned(),
            volume: volume.to_owned(),
            id: None,
            is_noted: false,
        };
        Self {
            units: vec![unit],
            at_rest: Vec::new(),
        }
    }

    /// Returns the logical units on a volume or snapshot of this name.
    pub fn units_of(&self, name: &str) -> Vec<String> {
        let units = self.units.iter().filter(|unit| unit.volume == name);
        units.map(|unit| unit.name.clone()).collect()
    }

    /// Refuses to replace the volume of this name by something else.
    ///
    /// # Errors
    /// Units serve the volume, or wait for a volume of this name.
    pub fn refuse_volume(&self, name: &str) -> Result<(), Error> {
        self.refuse(name, |unit| unit.volume == name)
    }

    /// Refuses to take a pool away. `number` is the pool's number, if the pool is open.
    ///
    /// # Errors
    /// Units serve volumes of the pool.
    pub fn refuse_pool(&self, name: &str, number: Option<u64>) -> Result<(), Error> {
        let within = format!("{name}/");
        let number = number.map(|number| VolumeId::new(number, 0).pool);
        self.refuse(&format!("pool {name}"), |unit| match (&unit.id, &number) {
            (Some(id), Some(number)) => id.pool == *number,
            _ => unit.volume.starts_with(&within),
        })
    }

    fn refuse(&self, what: &str, is_meant: impl Fn(&ServedUnit) -> bool) -> Result<(), Error> {
        let meant = self.units.iter().filter(|unit| is_meant(unit));
        let units: Vec<&str> = meant.map(|unit| unit.name.as_str()).collect();
        match units.first() {
            None => Ok(()),
            Some(first) => Err(Error::new(
                ErrorKind::InUse,
                busy(what, &units.join(", lu ")),
                elsewhere(first),
            )),
        }
    }

    /// Refuses an operation that takes away a served dataset, or changes its content, in the pool
    /// with number `pool`. A new name does no harm if the volume is noted: the units follow it.
    pub fn refuse_operation(
        &self,
        pool: u64,
        catalog: &Catalog,
        operation: &Operation,
    ) -> Result<(), CatalogError> {
        let disturbed = catalog.disturbed_by(operation);
        let pool = VolumeId::new(pool, 0).pool;
        let served = self.units.iter().filter_map(|unit| {
            let dataset = unit.dataset(&pool, catalog)?;
            disturbed.contains(&dataset).then_some((unit, dataset))
        });
        for (unit, dataset) in served {
            let name = catalog.full_name(dataset);
            match operation {
                Operation::Rename { .. } | Operation::Promote { .. } if unit.is_noted => {}
                Operation::Rename { .. } | Operation::Promote { .. } => {
                    return Err(not_noted(&unit.name, &name));
                }
                Operation::Rollback { volume, .. } if *volume == dataset => {
                    if !self.at_rest.contains(&unit.name) {
                        let next = at_rest(&unit.name);
                        return Err(CatalogError::new(
                            Refusal::Busy,
                            busy(&name, &unit.name),
                            next,
                        ));
                    }
                }
                _ => {
                    let next = elsewhere(&unit.name);
                    return Err(CatalogError::new(
                        Refusal::Busy,
                        busy(&name, &unit.name),
                        next,
                    ));
                }
            }
        }
        Ok(())
    }
}

impl ServedUnit {
    /// Returns the dataset that the unit serves, if it is in the pool with this number and
    /// catalogue.
    fn dataset(&self, pool: &str, catalog: &Catalog) -> Option<DatasetId> {
        if let Some(id) = &self.id {
            return (id.pool == pool).then_some(DatasetId(id.dataset));
        }
        let (of, local) = self.volume.split_once('/')?;
        let found = (of == catalog.full_name(ROOT)).then(|| catalog.find(local).ok());
        found.flatten().map(|found| found.id)
    }
}

fn busy(what: &str, units: &str) -> String {
    format!("{what} is busy: lu {units} serves it")
}

/// Advises how a unit can give up its volume and stay the disk that its hosts know.
fn elsewhere(unit: &str) -> String {
    format!(
        "point lu {unit} to another volume first: sandstone lu modify {unit} --volume POOL/NAME; its NAA, \
         serial number and maps stay the same"
    )
}

fn at_rest(unit: &str) -> String {
    format!(
        "take the unit offline meanwhile: sandstone lu offline {unit}, roll back, sandstone lu online \
         {unit}; its identity and maps stay the same"
    )
}

/// Refuses a rename that the unit could not follow. It would lose the volume, and might find
/// another volume under the old name.
fn not_noted(unit: &str, volume: &str) -> CatalogError {
    CatalogError::new(
        Refusal::Busy,
        format!(
            "nothing was renamed: lu {unit} serves {volume}, but the configuration does not yet have the \
             volume's number, by which the unit would follow it"
        ),
        "make sure that the state folder can be written (df -h, sandstone status), and repeat the command: \
         it first stores the number",
    )
}
