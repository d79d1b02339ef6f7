//! Plans for the destruction of datasets.

use std::collections::BTreeSet;

use super::request::Destroy;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::name::check_component;
use crate::catalog::operation::Operation;
use crate::catalog::{Catalog, Dataset};
use crate::format::DatasetId;

impl Catalog {
    /// Plans the destruction of datasets and their blocks. [`Operation::Destroy`] lists all of
    /// them, for `-n -v` too.
    ///
    /// # Errors
    /// NotFound, HasSnapshots, HasClones, NotEmpty, Held, ReadOnly (the root).
    pub fn plan_destroy(&self, request: &Destroy) -> Result<Operation, CatalogError> {
        let is_recursive = request.is_recursive || request.with_clones;
        let mut doomed = BTreeSet::new();
        for text in &request.names {
            for dataset in self.meant_to_go(text, is_recursive)? {
                doomed.insert(dataset.id);
                if is_recursive {
                    doomed.extend(self.subtree(dataset.id).iter().map(|below| below.id));
                }
            }
        }
        if request.with_clones {
            self.add_clones(&mut doomed);
        }
        if doomed.is_empty() {
            return Err(CatalogError::new(
                ErrorKind::InvalidName,
                "no dataset is named",
                "name a dataset to destroy",
            ));
        }
        let ids = doomed.into_iter().collect();
        self.planned(Operation::Destroy { ids })
    }

    /// Adds the clones of the doomed snapshots, with all the clones' snapshots, and the clones of
    /// those.
    pub(super) fn add_clones(&self, doomed: &mut BTreeSet<DatasetId>) {
        let mut waiting: Vec<_> = doomed.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            for clone in self.clones(id) {
                let below = self.subtree(clone);
                waiting.extend(
                    below
                        .iter()
                        .map(|dataset| dataset.id)
                        .filter(|id| doomed.insert(*id)),
                );
            }
        }
    }

    fn meant_to_go(&self, text: &str, is_recursive: bool) -> Result<Vec<&Dataset>, CatalogError> {
        let Some((path, list)) = text.split_once('@') else {
            return Ok(vec![self.find(text)?]);
        };
        let mut found = Vec::new();
        for part in list.split(',') {
            match part.split_once('%') {
                Some((first, last)) => found.extend(self.range(path, first, last, is_recursive)?),
                None => {
                    let name = format!("{path}@{part}");
                    found.extend(self.meant_snapshots(&name, is_recursive)?);
                }
            }
        }
        Ok(found)
    }

    /// Returns the snapshots of a volume, or of all volumes below, from `first` (empty: the oldest)
    /// to `last` (empty: the newest).
    fn range(
        &self,
        path: &str,
        first: &str,
        last: &str,
        is_recursive: bool,
    ) -> Result<Vec<&Dataset>, CatalogError> {
        for end in [first, last].into_iter().filter(|end| !end.is_empty()) {
            check_component(end)?;
        }
        let volumes = match is_recursive {
            true => self.volumes_below(self.find(path)?.id),
            false => vec![self.find_volume(path)?],
        };
        let mut found = Vec::new();
        for volume in volumes {
            let snapshots = self.snapshots(volume.id);
            let at = |name: &str| snapshots.iter().position(|snapshot| snapshot.name == name);
            let from = if first.is_empty() { Some(0) } else { at(first) };
            let to = match last {
                "" => snapshots.len().checked_sub(1),
                _ => at(last),
            };
            if let (Some(from), Some(to)) = (from, to) {
                found.extend(snapshots.get(from..=to).unwrap_or_default());
            }
        }
        if found.is_empty() {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "'{}' has no snapshots from '{first}' to '{last}'",
                    self.shown(path)
                ),
                "name the older snapshot first, as in vol@monday%friday",
            ));
        }
        Ok(found)
    }
}
