//! Checks of new names, numbers and places of datasets.

use std::collections::{BTreeMap, BTreeSet};

use super::Checked;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::name::{self, check_component};
use crate::catalog::operation::{NewDataset, NewName};
use crate::catalog::{Catalog, Dataset};
use crate::format::DatasetId;

/// Names and numbers that an operation takes, beside those that are taken.
pub(super) struct Growth<'a> {
    catalog: &'a Catalog,
    next: DatasetId,
    names: BTreeSet<(DatasetId, &'a str)>,
    /// Names of the folders that are made.
    folders: BTreeMap<DatasetId, String>,
}

impl<'a> Growth<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            next: catalog.next,
            names: BTreeSet::new(),
            folders: BTreeMap::new(),
        }
    }

    /// Adds a folder or volume.
    pub(super) fn add(&mut self, new: &'a NewDataset) -> Checked {
        self.next = take_id(self.next, new.id)?;
        let name = self.claim(new.parent, &new.name)?;
        name::check_size(name.len(), name.split('/').count(), &name)
    }

    pub(super) fn add_folder(&mut self, new: &NewDataset) {
        let name = self.join(new.parent, &new.name);
        self.folders.insert(new.id, name);
    }

    pub(super) fn claim_snapshot(&mut self, dataset: &Dataset, rename: &'a NewName) -> Checked {
        if rename.parent != dataset.parent {
            return Err(CatalogError::new(
                ErrorKind::InvalidName,
                "a snapshot cannot move to another volume",
                "change only the part behind '@'",
            ));
        }
        check_component(&rename.name)?;
        let name = format!("{}@{}", self.catalog.name(dataset.parent), rename.name);
        name::check_size(name.len(), 0, &name)?;
        self.claim_free(rename.parent, &rename.name, &name)
    }

    pub(super) fn claim_moved(&mut self, dataset: &Dataset, rename: &'a NewName) -> Checked {
        let before = self.catalog.full_name(dataset.id);
        let name = self.claim(rename.parent, &rename.name)?;
        // A new folder lies in others, down to an existing one.
        if self.is_within(rename.parent, dataset.id) {
            return Err(CatalogError::new(
                ErrorKind::InvalidName,
                format!("'{before}' cannot move into itself"),
                "choose a folder outside of it",
            ));
        }
        let old = self.catalog.name(dataset.id).len();
        for below in self.catalog.subtree(dataset.id) {
            let path = self.catalog.name(below.id);
            let renamed = format!("{name}{}", path.get(old..).unwrap_or_default());
            let depth = renamed.split('/').count();
            name::check_size(renamed.len(), depth, &renamed)?;
        }
        Ok(())
    }

    fn is_within(&self, parent: DatasetId, id: DatasetId) -> bool {
        match self.folders.get(&parent) {
            // The name of a new folder begins with the name of an existing one.
            Some(name) => name.starts_with(&format!("{}/", self.catalog.name(id))),
            None => self.catalog.lineage(parent).any(|above| above.id == id),
        }
    }

    fn claim(&mut self, parent: DatasetId, name: &'a str) -> Result<String, CatalogError> {
        check_component(name)?;
        if !self.folders.contains_key(&parent) {
            let above = self.catalog.existing(parent)?;
            if !above.is_folder() {
                return Err(self.catalog.not_a(above, "folder"));
            }
        }
        let whole = self.join(parent, name);
        self.claim_free(parent, name, &whole)?;
        Ok(whole)
    }

    fn claim_free(&mut self, parent: DatasetId, name: &'a str, whole: &str) -> Checked {
        let is_taken = self.catalog.child(parent, name).is_some();
        if is_taken || !self.names.insert((parent, name)) {
            return Err(self.catalog.exists(whole));
        }
        Ok(())
    }

    fn join(&self, parent: DatasetId, name: &str) -> String {
        let above = match self.folders.get(&parent) {
            Some(above) => above.clone(),
            None => self.catalog.name(parent),
        };
        match above.as_str() {
            "" => name.to_owned(),
            above => format!("{above}/{name}"),
        }
    }
}

/// Takes a number and returns the next one. Numbers are given out in order.
pub(super) fn take_id(next: DatasetId, id: DatasetId) -> Result<DatasetId, CatalogError> {
    if id != next {
        let (id, next) = (id.0, next.0);
        return Err(CatalogError::mismatch(format!(
            "dataset {id} cannot be the next dataset, which is {next}"
        )));
    }
    let after = next.0.checked_add(1).map(DatasetId);
    after.ok_or_else(|| {
        CatalogError::new(
            ErrorKind::LimitReached,
            "the pool has no number left for another dataset",
            "send its volumes to a new pool",
        )
    })
}
