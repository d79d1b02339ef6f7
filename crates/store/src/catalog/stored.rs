//! The catalogue on a disk, as JSON. All its rules are checked when it is read.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::check::{check_geometry, check_properties, check_receiving};
use super::dataset::{Dataset, DatasetKind};
use super::error::CatalogError;
use super::history::{History, HistoryEntry};
use super::name::{MAX_DEPTH, check_component};
use super::{Catalog, ROOT};
use crate::format::dataset::MAX_NAME;
use crate::format::{DatasetId, Epoch};

/// The catalogue as it lies on a disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// Next number that was never used.
    next: DatasetId,
    /// Datasets by number, ascending.
    datasets: Vec<Dataset>,
    /// Entries of the history, oldest first; absent if there are none.
    #[serde(default)]
    history: VecDeque<HistoryEntry>,
}

impl Serialize for Catalog {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Borrowed<'a> {
            next: DatasetId,
            datasets: Vec<&'a Dataset>,
            #[serde(skip_serializing_if = "History::is_empty")]
            history: &'a History,
        }
        let stored = Borrowed {
            next: self.next,
            datasets: self.datasets.values().collect(),
            history: &self.history,
        };
        stored.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Catalog {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(from)?;
        // The caller says which state is unchanged.
        Self::from_stored(stored).map_err(|error| serde::de::Error::custom(error.message))
    }
}

impl Catalog {
    /// Encodes the catalogue as it lies on a disk.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it is made of numbers, texts and lists of these")
    }

    /// Decodes a catalogue from a disk.
    ///
    /// # Errors
    /// [`super::ErrorKind::Mismatch`] if the bytes are no catalogue, or one in which something does
    /// not fit.
    pub fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        serde_json::from_slice(bytes).map_err(|error| {
            CatalogError::mismatch(format!("the catalogue of datasets cannot be read: {error}"))
        })
    }

    fn from_stored(stored: Stored) -> Result<Self, CatalogError> {
        let mut catalog = Self::empty();
        for dataset in stored.datasets {
            let id = dataset.id;
            if id >= stored.next || catalog.datasets.contains_key(&id) {
                return Err(damage(
                    &dataset,
                    "its number occurs twice, or was never assigned",
                ));
            }
            let is_root = id == ROOT;
            if is_root != dataset.name.is_empty() || is_root != (dataset.parent == id) {
                return Err(damage(
                    &dataset,
                    "only the root may have no name and be its own parent",
                ));
            }
            if catalog.child(dataset.parent, &dataset.name).is_some() && !is_root {
                return Err(damage(&dataset, "its name occurs twice"));
            }
            catalog.insert(dataset);
        }
        catalog.next = stored.next;
        catalog.history = History::of_entries(stored.history)?;
        if !catalog.dataset(ROOT).is_some_and(Dataset::is_folder) {
            return Err(CatalogError::mismatch("the catalogue has no root folder"));
        }
        catalog.validate()?;
        Ok(catalog)
    }

    /// Checks whether all parts of the catalogue fit together.
    pub(super) fn validate(&self) -> Result<(), CatalogError> {
        let mut own: BTreeMap<DatasetId, usize> = BTreeMap::new();
        for dataset in self.datasets.values() {
            self.validate_place(dataset)?;
            self.validate_properties(dataset)?;
            if dataset.kind != DatasetKind::Folder {
                self.validate_link(dataset)?;
            }
            if matches!(dataset.kind, DatasetKind::Snapshot(_)) {
                *own.entry(dataset.parent).or_default() += 1;
            }
        }
        // Links lead to older epochs, so that they end.
        for dataset in self
            .datasets
            .values()
            .filter(|dataset| dataset.as_volume().is_some())
        {
            let in_chain = self
                .chain(dataset.id)
                .take_while(|older| older.parent == dataset.id);
            if in_chain.count() != own.get(&dataset.id).copied().unwrap_or(0) {
                return Err(damage(dataset, "its snapshots do not form one chain"));
            }
        }
        Ok(())
    }

    fn validate_place(&self, dataset: &Dataset) -> Result<(), CatalogError> {
        if dataset.id == ROOT {
            return Ok(());
        }
        check_component(&dataset.name)?;
        let above = self.dataset(dataset.parent);
        let fits = match dataset.kind {
            DatasetKind::Snapshot(_) => above.is_some_and(|above| above.as_volume().is_some()),
            _ => above.is_some_and(Dataset::is_folder),
        };
        if !fits {
            return Err(damage(
                dataset,
                "its parent does not exist or cannot contain it",
            ));
        }
        // If folders lie in each other in a ring, this many steps do not reach the root.
        let most = MAX_DEPTH + 2;
        let last = self.lineage(dataset.id).take(most).last();
        if last.is_none_or(|last| last.id != ROOT) || self.name(dataset.id).len() > MAX_NAME {
            return Err(damage(
                dataset,
                "it is nested too deep, or its name is too long",
            ));
        }
        Ok(())
    }

    fn validate_properties(&self, dataset: &Dataset) -> Result<(), CatalogError> {
        // A received reservation may exceed the volume while a local one overrides it.
        for properties in [&dataset.properties, &dataset.received] {
            check_properties(dataset.kind.letter(), u64::MAX, properties)?;
        }
        Ok(())
    }

    fn validate_link(&self, dataset: &Dataset) -> Result<(), CatalogError> {
        let (size, block_size) = dataset.geometry().unwrap_or_default();
        check_geometry(size, block_size)?;
        check_receiving(self.receiving(dataset.id), size, block_size)?;
        let epoch = dataset.as_snapshot().map(|snapshot| snapshot.epoch);
        if epoch.is_some_and(|epoch| epoch == Epoch(0) || epoch >= Epoch::LAST) {
            return Err(damage(dataset, "its epoch is invalid"));
        }
        let Some(previous) = dataset.previous() else {
            return Ok(());
        };
        let older = self.dataset(previous).and_then(Dataset::as_snapshot);
        let fits = older.is_some_and(|older| {
            older.block_size == block_size && epoch.is_none_or(|epoch| epoch > older.epoch)
        });
        match fits {
            true => Ok(()),
            false => Err(damage(
                dataset,
                "it does not fit the snapshot that it builds on",
            )),
        }
    }
}

fn damage(dataset: &Dataset, fault: &str) -> CatalogError {
    let (id, name) = (dataset.id.0, &dataset.name);
    CatalogError::mismatch(format!("dataset {id} of the catalogue, '{name}': {fault}"))
}
