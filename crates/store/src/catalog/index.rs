//! The datasets themselves, and two indexes that change with them: by name, and by the snapshot on
//! which datasets build.

use std::collections::{BTreeMap, BTreeSet};

use super::ROOT;
use super::dataset::{Dataset, DatasetKind};
use super::history::History;
use super::properties::Properties;
use crate::format::DatasetId;

/// All datasets of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Next number that was never used.
    pub(super) next: DatasetId,
    pub(super) datasets: BTreeMap<DatasetId, Dataset>,
    /// Numbers of datasets by parent and last part of the name.
    pub(super) names: BTreeMap<(DatasetId, String), DatasetId>,
    /// Followers of each snapshot, by [`Dataset::previous`]: the next snapshot or the volume, and
    /// clones or their oldest snapshots.
    pub(super) followers: BTreeMap<DatasetId, BTreeSet<DatasetId>>,
    /// History of the pool.
    pub(super) history: History,
    /// Name of the pool, with which names in texts begin. It is not stored: an import may change
    /// it.
    pub(super) pool: String,
}

impl Catalog {
    /// Makes a pool's first catalogue, with the root folder only.
    pub fn new(created_s: u64, guid: u64) -> Self {
        let mut catalog = Self::empty();
        catalog.insert(Dataset {
            id: ROOT,
            parent: ROOT,
            name: String::new(),
            created_s,
            guid,
            properties: Properties::default(),
            received: Properties::default(),
            kind: DatasetKind::Folder,
        });
        catalog
    }

    /// Sets the name under which the pool is imported. Names in texts begin with it.
    pub fn set_pool_name(&mut self, pool: &str) {
        pool.clone_into(&mut self.pool);
    }

    /// Returns the pool's history, as far as it is kept.
    pub fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn empty() -> Self {
        Self {
            next: DatasetId(1),
            datasets: BTreeMap::new(),
            names: BTreeMap::new(),
            followers: BTreeMap::new(),
            history: History::default(),
            pool: String::new(),
        }
    }

    pub(super) fn insert(&mut self, dataset: Dataset) {
        let id = dataset.id;
        if id != ROOT {
            let key = (dataset.parent, dataset.name.clone());
            self.names.insert(key, id);
        }
        if let Some(previous) = dataset.previous() {
            self.followers.entry(previous).or_default().insert(id);
        }
        self.next = self.next.max(DatasetId(id.0.saturating_add(1)));
        self.datasets.insert(id, dataset);
    }

    pub(super) fn remove(&mut self, id: DatasetId) {
        self.set_previous(id, None);
        if let Some(dataset) = self.datasets.remove(&id) {
            self.names.remove(&(dataset.parent, dataset.name));
        }
    }

    /// Changes the snapshot on which a volume or snapshot builds.
    pub(super) fn set_previous(&mut self, id: DatasetId, previous: Option<DatasetId>) {
        let Some(dataset) = self.datasets.get_mut(&id) else {
            return;
        };
        let slot = match &mut dataset.kind {
            DatasetKind::Folder => return,
            DatasetKind::Volume(volume) => &mut volume.previous,
            DatasetKind::Snapshot(snapshot) => &mut snapshot.previous,
        };
        let before = std::mem::replace(slot, previous);
        if let Some(before) = before
            && let Some(followers) = self.followers.get_mut(&before)
        {
            followers.remove(&id);
            if followers.is_empty() {
                self.followers.remove(&before);
            }
        }
        if let Some(previous) = previous {
            self.followers.entry(previous).or_default().insert(id);
        }
    }

    /// Changes a dataset's place and name.
    pub(super) fn relabel(&mut self, id: DatasetId, parent: DatasetId, name: &str) {
        if let Some(dataset) = self.datasets.get_mut(&id) {
            let before = std::mem::replace(&mut dataset.name, name.to_owned());
            let above = std::mem::replace(&mut dataset.parent, parent);
            self.names.remove(&(above, before));
            self.names.insert((parent, name.to_owned()), id);
        }
    }
}
