//! Look-ups in the catalogue: by name, upwards, downwards, and along snapshots and clones.

use std::iter::successors;

use super::dataset::{Dataset, DatasetKind};
use super::error::{CatalogError, ErrorKind};
use super::name::Name;
use super::{Catalog, ROOT};
use crate::format::{DatasetId, Epoch};

impl Catalog {
    /// Returns a dataset by its number.
    pub fn dataset(&self, id: DatasetId) -> Option<&Dataset> {
        self.datasets.get(&id)
    }

    /// Returns all datasets, by number.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.datasets.values()
    }

    /// Finds a dataset by its name, for example `vms/disk1@monday`. The empty name is the root
    /// folder.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`], [`ErrorKind::NotFound`].
    pub fn find(&self, name: &str) -> Result<&Dataset, CatalogError> {
        let parsed = Name::parse(name)?;
        self.resolve(&parsed).ok_or_else(|| {
            CatalogError::new(
                ErrorKind::NotFound,
                format!("'{}' does not exist", self.shown(name)),
                "list all datasets with 'volume list -r -t all'",
            )
        })
    }

    /// Finds a volume by its name.
    ///
    /// # Errors
    /// The errors of [`Catalog::find`]; [`ErrorKind::InvalidValue`] if the dataset is no volume.
    pub fn find_volume(&self, name: &str) -> Result<&Dataset, CatalogError> {
        self.find_kind(name, "volume")
    }

    /// Finds a snapshot by its name.
    ///
    /// # Errors
    /// The errors of [`Catalog::find`]; [`ErrorKind::InvalidValue`] if the dataset is no snapshot.
    pub fn find_snapshot(&self, name: &str) -> Result<&Dataset, CatalogError> {
        self.find_kind(name, "snapshot")
    }

    fn find_kind(&self, name: &str, wanted: &str) -> Result<&Dataset, CatalogError> {
        let dataset = self.find(name)?;
        let kind = dataset.kind.as_str();
        if kind != wanted {
            return Err(CatalogError::new(
                ErrorKind::InvalidValue,
                format!("'{}' is a {kind}, not a {wanted}", self.shown(name)),
                format!("name a {wanted}"),
            ));
        }
        Ok(dataset)
    }

    pub(super) fn resolve(&self, name: &Name) -> Option<&Dataset> {
        let mut id = ROOT;
        for component in name.path.iter().chain(&name.snapshot) {
            id = self.child(id, component)?;
        }
        let dataset = self.dataset(id)?;
        // '/' does not lead to a snapshot, nor '@' to a folder.
        let is_snapshot = matches!(dataset.kind, DatasetKind::Snapshot(_));
        (is_snapshot == name.snapshot.is_some()).then_some(dataset)
    }

    pub(super) fn child(&self, parent: DatasetId, name: &str) -> Option<DatasetId> {
        self.names.get(&(parent, name.to_owned())).copied()
    }

    /// Returns a dataset's name without the pool's: `vms/disk1@monday`. The name is empty for the
    /// root, and for a dataset that does not exist.
    pub fn name(&self, id: DatasetId) -> String {
        let mut parts: Vec<&str> = Vec::new();
        for dataset in self.lineage(id) {
            let separator = match dataset.kind {
                DatasetKind::Snapshot(_) => "@",
                _ => "/",
            };
            if dataset.id != ROOT {
                parts.extend([dataset.name.as_str(), separator]);
            }
        }
        parts.pop();
        parts.reverse();
        parts.concat()
    }

    /// Returns a dataset's name with the pool's before it.
    pub fn full_name(&self, id: DatasetId) -> String {
        self.shown(&self.name(id))
    }

    /// Returns a name as texts show it.
    pub(super) fn shown(&self, name: &str) -> String {
        match (self.pool.as_str(), name) {
            ("", name) => name.to_owned(),
            (pool, "") => pool.to_owned(),
            (pool, name) => format!("{pool}/{name}"),
        }
    }

    /// Returns the dataset and all above it, up to the root.
    pub(super) fn lineage(&self, id: DatasetId) -> impl Iterator<Item = &Dataset> {
        successors(self.dataset(id), |below| match below.id {
            ROOT => None,
            _ => self.dataset(below.parent),
        })
    }

    /// Returns the datasets directly in a folder, or a volume's snapshots, by name.
    pub fn children(&self, id: DatasetId) -> impl Iterator<Item = &Dataset> {
        let from = (id, String::new());
        let within = self
            .names
            .range(from..)
            .take_while(move |((parent, _), _)| *parent == id);
        within.filter_map(|(_, child)| self.dataset(*child))
    }

    /// Returns the dataset and all below it, snapshots of volumes included. A dataset comes before
    /// those below it.
    pub fn subtree(&self, id: DatasetId) -> Vec<&Dataset> {
        let mut found = Vec::new();
        let mut waiting: Vec<&Dataset> = self.dataset(id).into_iter().collect();
        while let Some(dataset) = waiting.pop() {
            found.push(dataset);
            let first = waiting.len();
            waiting.extend(self.children(dataset.id));
            waiting[first..].reverse();
        }
        found
    }

    /// Returns the number of levels between a dataset and one above it.
    pub fn depth(&self, id: DatasetId, above: DatasetId) -> u32 {
        let steps = self.lineage(id).take_while(|of| of.id != above);
        // A name has fewer parts than fit.
        u32::try_from(steps.count()).unwrap_or(u32::MAX)
    }

    /// Returns the subtree in the order of listings: by name, but the snapshots of a volume in the
    /// order in which they were taken.
    pub fn listing(&self, id: DatasetId) -> Vec<&Dataset> {
        let mut found = self.subtree(id);
        let taken_at = |dataset: &Dataset| dataset.as_snapshot().map(|snapshot| snapshot.epoch);
        let of_one_volume = |one: &&Dataset, next: &&Dataset| {
            taken_at(one).is_some() && taken_at(next).is_some() && one.parent == next.parent
        };
        for snapshots in found.chunk_by_mut(of_one_volume) {
            snapshots.sort_by_key(|snapshot| taken_at(snapshot));
        }
        found
    }

    /// Returns the volumes at or below a dataset, in the order of [`Catalog::subtree`].
    pub fn volumes_below(&self, id: DatasetId) -> Vec<&Dataset> {
        let mut all = self.subtree(id);
        all.retain(|dataset| dataset.as_volume().is_some());
        all
    }

    /// Returns a volume's own snapshots, oldest first.
    pub fn snapshots(&self, volume: DatasetId) -> Vec<&Dataset> {
        let mut own: Vec<_> = self
            .chain(volume)
            .take_while(|older| older.parent == volume)
            .collect();
        own.reverse();
        own
    }

    /// Returns the snapshots that a volume or snapshot builds on, newest first, those of a clone's
    /// origin included.
    pub fn chain(&self, id: DatasetId) -> impl Iterator<Item = &Dataset> {
        let older = |dataset: &Dataset| dataset.previous().and_then(|id| self.dataset(id));
        let first = self.dataset(id).and_then(older);
        successors(first, move |dataset| older(dataset))
    }

    /// Returns the epochs of the snapshots of [`Catalog::chain`], ascending.
    pub fn epochs_beneath(&self, id: DatasetId) -> Vec<Epoch> {
        let snapshots = self.chain(id).filter_map(Dataset::as_snapshot);
        let mut epochs: Vec<Epoch> = snapshots.map(|snapshot| snapshot.epoch).collect();
        epochs.reverse();
        epochs
    }

    /// Returns the snapshot of which a clone was made; `None` for other volumes.
    pub fn origin(&self, volume: DatasetId) -> Option<DatasetId> {
        self.dataset(volume)?.as_volume()?;
        let foreign = self.chain(volume).find(|older| older.parent != volume);
        foreign.map(|snapshot| snapshot.id)
    }

    /// Returns the volumes that were cloned of a snapshot.
    pub fn clones(&self, snapshot: DatasetId) -> Vec<DatasetId> {
        let Some(owner) = self.dataset(snapshot).map(|dataset| dataset.parent) else {
            return Vec::new();
        };
        let volumes = self.followers(snapshot).filter_map(|id| self.volume_of(id));
        volumes.filter(|volume| *volume != owner).collect()
    }

    /// Returns the datasets that build directly on a snapshot: the next snapshot or the volume, and
    /// clones or their oldest snapshots.
    pub(super) fn followers(&self, snapshot: DatasetId) -> impl Iterator<Item = DatasetId> {
        self.followers.get(&snapshot).into_iter().flatten().copied()
    }

    /// Returns the dataset whose dead list takes the blocks that a snapshot loses next: the next
    /// snapshot of its volume, or the volume.
    pub fn next_of_volume(&self, snapshot: &Dataset) -> DatasetId {
        let is_own = |id: &DatasetId| self.volume_of(*id) == Some(snapshot.parent);
        let next = self.followers(snapshot.id).find(is_own);
        next.unwrap_or(snapshot.parent)
    }

    /// Returns the volume itself, or the volume that a snapshot belongs to.
    pub fn volume_of(&self, id: DatasetId) -> Option<DatasetId> {
        let dataset = self.dataset(id)?;
        match dataset.kind {
            DatasetKind::Folder => None,
            DatasetKind::Volume(_) => Some(id),
            DatasetKind::Snapshot(_) => Some(dataset.parent),
        }
    }

    /// Returns the epoch of the snapshot that a volume or snapshot builds on, 0 if there is none.
    /// Of the blocks that it drops, those born later are free; the others belong on its dead list.
    pub fn shared_until(&self, id: DatasetId) -> Epoch {
        self.chain(id)
            .next()
            .and_then(Dataset::as_snapshot)
            .map_or(Epoch(0), |snapshot| snapshot.epoch)
    }

    /// Returns the epochs of all snapshots that a volume or snapshot builds on, ascending. They
    /// divide its dead list into parts.
    pub fn shared_epochs(&self, id: DatasetId) -> Vec<Epoch> {
        let snapshots = self.chain(id).filter_map(Dataset::as_snapshot);
        let mut epochs: Vec<_> = snapshots.map(|snapshot| snapshot.epoch).collect();
        epochs.reverse();
        epochs
    }

    /// Returns the number of snapshots of a dataset and all below it.
    pub fn count_snapshots(&self, id: DatasetId) -> u64 {
        let all = self.subtree(id);
        all.iter()
            .filter(|dataset| dataset.as_snapshot().is_some())
            .count() as u64
    }
}
