//! What logical units serve of pools: it is not taken away beneath them.

use std::collections::BTreeMap;

use store::catalog::{Catalog, CatalogError, ErrorKind as Refusal, Operation};
use store::format::DatasetId;

use crate::config::model::{BackendSpec, Config};
use crate::config::{Error, ErrorKind};

/// Volumes and snapshots that are served, by their names, and by which logical units.
#[derive(Clone, Debug, Default)]
pub struct Served {
    units: BTreeMap<String, Vec<String>>,
    /// Units that are offline and at rest: nobody notices what becomes of their volumes.
    at_rest: Vec<String>,
}

impl Served {
    /// By what a configuration says.
    pub fn of(config: &Config) -> Self {
        let mut units: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for unit in &config.units {
            if let BackendSpec::Volume { volume } = &unit.backend {
                let all = units.entry(volume.clone()).or_default();
                all.push(unit.name.clone());
            }
        }
        Self {
            units,
            at_rest: Vec::new(),
        }
    }

    /// The units, of which these are offline, with no command under way.
    pub fn with_at_rest(self, at_rest: Vec<String>) -> Self {
        Self { at_rest, ..self }
    }

    #[cfg(test)]
    pub(in crate::pool) fn by(unit: &str, volume: &str) -> Self {
        Self {
            units: [(volume.to_owned(), vec![unit.to_owned()])].into(),
            at_rest: Vec::new(),
        }
    }

    /// The logical units that serve a volume or snapshot.
    pub fn units_of(&self, name: &str) -> Vec<String> {
        self.units.get(name).cloned().unwrap_or_default()
    }

    /// Refuses to take `what` away: `is_meant` says of a volume's name whether it is meant.
    ///
    /// # Errors
    /// Units serve some of it.
    pub fn refuse(&self, what: &str, is_meant: impl Fn(&str) -> bool) -> Result<(), Error> {
        match self.busy(what, is_meant) {
            None => Ok(()),
            Some((problem, unit)) => Err(Error::new(ErrorKind::InUse, problem, elsewhere(&unit))),
        }
    }

    /// Refuses an operation that takes a served dataset away, or gives it another content. A new name is no harm: units
    /// follow their volumes.
    pub(in crate::pool) fn refuse_operation(
        &self,
        catalog: &Catalog,
        operation: &Operation,
    ) -> Result<(), CatalogError> {
        if matches!(
            operation,
            Operation::Rename { .. } | Operation::Promote { .. }
        ) {
            return Ok(());
        }
        let rolled_back = match operation {
            Operation::Rollback { volume, .. } => Some(*volume),
            _ => None,
        };
        for id in catalog.disturbed_by(operation) {
            self.refuse_one(catalog, id, rolled_back == Some(id))?;
        }
        Ok(())
    }

    fn refuse_one(
        &self,
        catalog: &Catalog,
        id: DatasetId,
        is_rolled_back: bool,
    ) -> Result<(), CatalogError> {
        let name = catalog.full_name(id);
        let Some((problem, unit)) = self.busy(&name, |served| served == name) else {
            return Ok(());
        };
        let units = self.units_of(&name);
        if is_rolled_back && units.iter().all(|unit| self.at_rest.contains(unit)) {
            return Ok(());
        }
        let next = match is_rolled_back {
            true => format!(
                "take it offline meanwhile: sandstone lu offline {unit}, roll back, sandstone lu online {unit}; its \
                 identity and maps stay"
            ),
            false => elsewhere(&unit),
        };
        Err(CatalogError::new(Refusal::Busy, problem, next))
    }

    /// The units that serve it, in words, and the first of them.
    fn busy(&self, what: &str, is_meant: impl Fn(&str) -> bool) -> Option<(String, String)> {
        let meant = self.units.iter().filter(|(volume, _)| is_meant(volume));
        let units: Vec<&str> = meant
            .flat_map(|(_, units)| units)
            .map(String::as_str)
            .collect();
        let first = (*units.first()?).to_owned();
        let problem = format!("{what} is busy: lu {} serves it", units.join(", lu "));
        Some((problem, first))
    }
}

/// How a unit lets its volume go and stays the disk that its hosts know.
fn elsewhere(unit: &str) -> String {
    format!(
        "point lu {unit} to another volume first: sandstone lu modify {unit} --volume POOL/NAME; its NAA, serial number and \
         maps stay"
    )
}
