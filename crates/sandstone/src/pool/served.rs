//! What logical units serve of pools: it is not taken away beneath them.

use std::collections::BTreeMap;

use store::catalog::{Catalog, CatalogError, ErrorKind as Refusal, Operation};

use crate::config::model::{BackendSpec, Config};
use crate::config::{Error, ErrorKind};

/// Volumes and snapshots that are served, by their names, and by which logical units.
#[derive(Clone, Debug, Default)]
pub struct Served(BTreeMap<String, Vec<String>>);

impl Served {
    /// By what a configuration says.
    pub fn of(config: &Config) -> Self {
        let mut served: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for unit in &config.units {
            if let BackendSpec::Volume { volume } = &unit.backend {
                let units = served.entry(volume.clone()).or_default();
                units.push(unit.name.clone());
            }
        }
        Self(served)
    }

    #[cfg(test)]
    pub(in crate::pool) fn by(unit: &str, volume: &str) -> Self {
        Self([(volume.to_owned(), vec![unit.to_owned()])].into())
    }

    /// The logical units that serve a volume or snapshot.
    pub fn units_of(&self, name: &str) -> Vec<String> {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Refuses to take `what` away: `is_meant` says of a volume's name whether it is meant.
    ///
    /// # Errors
    /// Units serve some of it.
    pub fn refuse(&self, what: &str, is_meant: impl Fn(&str) -> bool) -> Result<(), Error> {
        match self.busy(what, is_meant) {
            None => Ok(()),
            Some((problem, next)) => Err(Error::new(ErrorKind::InUse, problem, next)),
        }
    }

    /// Refuses an operation that takes a served dataset away, or gives it another name or content.
    pub(in crate::pool) fn refuse_operation(
        &self,
        catalog: &Catalog,
        operation: &Operation,
    ) -> Result<(), CatalogError> {
        for id in catalog.disturbed_by(operation) {
            let name = catalog.full_name(id);
            if let Some((problem, next)) = self.busy(&name, |served| served == name) {
                return Err(CatalogError::new(Refusal::Busy, problem, next));
            }
        }
        Ok(())
    }

    /// Who serves it, in words, and what to do about it.
    fn busy(&self, what: &str, is_meant: impl Fn(&str) -> bool) -> Option<(String, String)> {
        let meant = self.0.iter().filter(|(volume, _)| is_meant(volume));
        let units: Vec<&str> = meant
            .flat_map(|(_, units)| units)
            .map(String::as_str)
            .collect();
        let first = units.first()?;
        let problem = format!("{what} is busy: lu {} serves it", units.join(", lu "));
        Some((problem, format!("sandstone lu delete {first}")))
    }
}
