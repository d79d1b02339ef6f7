//! The rules that an operation must obey. They are checked when the operation is planned, and again
//! before it is applied, since a replayed operation comes from a disk.

use std::collections::BTreeSet;

use super::dataset::Dataset;
use super::error::{CatalogError, ErrorKind};
use super::name::{self, check_component};
use super::operation::{NewClone, NewDataset, NewName, NewSnapshots, NewVolume, Operation};
use super::properties::Properties;
use super::property::Property;
use super::value::Value;
use super::{Catalog, ROOT};
use crate::format::{DatasetId, Epoch};

mod place;
mod receive;
mod values;

use place::{Growth, take_id};
use receive::check_received_clone;
pub(super) use receive::check_receiving;
pub(super) use values::{check_geometry, check_properties, check_settable};
use values::{check_volume_properties, too_much_reserved};

type Checked = Result<(), CatalogError>;

/// Length of the longest tag of a hold, in bytes.
const MAX_TAG: usize = 255;

impl Catalog {
    /// Checks whether an operation fits the catalogue.
    pub(super) fn check(&self, operation: &Operation) -> Checked {
        match operation {
            Operation::CreateFolder { folders } => self.check_new(folders, None),
            Operation::CreateVolume { folders, volume } => {
                self.check_new(folders, Some(&volume.dataset))?;
                check_geometry(volume.size, volume.block_size)?;
                check_receiving(volume.receiving.as_ref(), volume.size, volume.block_size)?;
                check_volume_properties(volume)
            }
            Operation::Destroy { ids } => self.check_destroy(ids, None),
            Operation::Snapshot(taken) => {
                self.check_snapshots(taken)?;
                let volumes = taken.snapshots.iter().map(|new| new.volume);
                self.check_not_receiving(volumes)
            }
            Operation::Clone { folders, clone } => {
                self.check_new(folders, Some(&clone.dataset))?;
                self.check_clone(clone)
            }
            Operation::Rollback {
                volume,
                snapshot,
                destroy,
                refreservation,
            } => self.check_rollback(*volume, *snapshot, destroy, *refreservation),
            Operation::Promote { clone } => self.check_promote(*clone),
            Operation::Rename { folders, renames } => self.check_renames(folders, renames),
            Operation::SetProperty { id, properties, .. } => self.check_set(*id, properties),
            Operation::Inherit {
                ids,
                property,
                keep_received,
            } => self.check_inherit(ids, property, *keep_received),
            Operation::Resize {
                volume,
                size,
                refreservation,
            } => {
                let dataset = self.existing(*volume)?;
                let Some(block_size) = dataset.as_volume().map(|volume| volume.block_size) else {
                    return Err(self.not_a(dataset, "volume"));
                };
                check_geometry(*size, block_size)?;
                self.check_not_receiving([*volume])?;
                self.check_reservation_after(*volume, *size, *refreservation)
            }
            Operation::Hold { snapshots, tag, .. } => self.check_holds(snapshots, tag, true),
            Operation::Release { snapshots, tag } => self.check_holds(snapshots, tag, false),
            Operation::BeginReceive {
                volume,
                size,
                receiving,
                refreservation,
            } => self.check_begin_receive(*volume, *size, receiving, *refreservation),
            Operation::NoteReceived { volume, position } => {
                self.check_note_received(*volume, *position)
            }
            Operation::EndReceive {
                taken,
                received,
                refreservation,
            } => self.check_end_receive(taken, received.as_ref(), *refreservation),
            Operation::Note(entry) => entry.check(),
        }
    }

    pub(super) fn existing(&self, id: DatasetId) -> Result<&Dataset, CatalogError> {
        let missing = || CatalogError::mismatch(format!("dataset {} does not exist", id.0));
        self.dataset(id).ok_or_else(missing)
    }

    pub(super) fn not_a(&self, dataset: &Dataset, wanted: &str) -> CatalogError {
        let kind = dataset.kind.as_str();
        CatalogError::new(
            ErrorKind::InvalidValue,
            format!(
                "'{}' is a {kind}, not a {wanted}",
                self.full_name(dataset.id)
            ),
            format!("name a {wanted}"),
        )
    }

    fn check_new(&self, folders: &[NewDataset], last: Option<&NewDataset>) -> Checked {
        let mut growth = Growth::new(self);
        for folder in folders {
            growth.add(folder)?;
            growth.add_folder(folder);
            check_properties('f', 0, &folder.properties)?;
            check_properties('f', 0, &folder.received)?;
        }
        match last {
            Some(dataset) => growth.add(dataset),
            None if folders.is_empty() => {
                Err(CatalogError::mismatch("the operation makes no folder"))
            }
            None => Ok(()),
        }
    }

    fn check_clone(&self, clone: &NewClone) -> Checked {
        let origin = self.existing(clone.origin)?;
        let Some(snapshot) = origin.as_snapshot() else {
            return Err(self.not_a(origin, "snapshot"));
        };
        let volume = NewVolume {
            dataset: clone.dataset.clone(),
            size: clone.size.unwrap_or(snapshot.size),
            block_size: snapshot.block_size,
            receiving: clone.receiving.clone(),
        };
        check_geometry(volume.size, volume.block_size)?;
        check_received_clone(&volume, origin.guid)?;
        check_volume_properties(&volume)
    }

    fn check_snapshots(&self, taken: &NewSnapshots) -> Checked {
        if taken.snapshots.is_empty() {
            return Err(CatalogError::mismatch("the operation takes no snapshot"));
        }
        check_properties('s', 0, &taken.properties)?;
        let mut next = self.next;
        let mut volumes = BTreeSet::new();
        for snapshot in &taken.snapshots {
            let volume = self.existing(snapshot.volume)?;
            if volume.as_volume().is_none() {
                return Err(self.not_a(volume, "volume"));
            }
            let name = format!("{}@{}", self.name(volume.id), snapshot.name);
            check_component(&snapshot.name)?;
            name::check_size(name.len(), 0, &name)?;
            if self.child(volume.id, &snapshot.name).is_some() {
                return Err(self.exists(&name));
            }
            if !volumes.insert(volume.id) {
                return Err(CatalogError::new(
                    ErrorKind::InvalidValue,
                    format!("'{}' is named twice", self.full_name(volume.id)),
                    "take one snapshot of each volume at a time",
                ));
            }
            next = take_id(next, snapshot.id)?;
            if taken.epoch <= self.shared_until(volume.id) || taken.epoch >= Epoch::LAST {
                let epoch = taken.epoch.0;
                return Err(CatalogError::mismatch(format!(
                    "snapshot '{}' cannot belong to epoch {epoch}",
                    self.shown(&name)
                )));
            }
        }
        Ok(())
    }

    /// Checks whether these datasets can go together: no dataset that stays may lie in them or
    /// build on them. `spared` is the volume that is rolled back. Its snapshots may go although it
    /// builds on them.
    fn check_destroy(&self, ids: &[DatasetId], spared: Option<DatasetId>) -> Checked {
        let doomed: BTreeSet<_> = ids.iter().copied().collect();
        if doomed.len() != ids.len() || (doomed.is_empty() && spared.is_none()) {
            return Err(CatalogError::mismatch(
                "the operation destroys nothing, or it names a dataset twice",
            ));
        }
        for id in &doomed {
            let dataset = self.existing(*id)?;
            let name = self.full_name(*id);
            if *id == ROOT {
                return Err(CatalogError::new(
                    ErrorKind::ReadOnly,
                    format!("'{name}' is the pool's root folder and cannot be destroyed"),
                    "destroy the datasets in it, or the pool with 'pool destroy'",
                ));
            }
            if let Some(child) = self.children(*id).find(|child| !doomed.contains(&child.id)) {
                return Err(self.still_contains(dataset, child));
            }
            let Some(snapshot) = dataset.as_snapshot() else {
                continue;
            };
            self.check_no_base(*id, |follower| !doomed.contains(&follower))?;
            if let Some(tag) = snapshot.holds.keys().next() {
                return Err(CatalogError::new(
                    ErrorKind::Held,
                    format!("'{name}' cannot be destroyed: the hold '{tag}' keeps it"),
                    format!("release it with 'volume release {tag} {name}'"),
                ));
            }
            if let Some(clone) = self.left_clone(*id, dataset.parent, &doomed) {
                let clone = self.full_name(clone);
                return Err(CatalogError::new(
                    ErrorKind::HasClones,
                    format!("'{name}' cannot be destroyed: '{clone}' is a clone of it"),
                    format!("use -R to destroy all clones too, or 'volume promote {clone}' first"),
                ));
            }
        }
        Ok(())
    }

    /// Returns a clone of a volume's snapshot that would stay. It builds on the snapshot directly,
    /// or by snapshots of its own that all go.
    fn left_clone(
        &self,
        snapshot: DatasetId,
        volume: DatasetId,
        doomed: &BTreeSet<DatasetId>,
    ) -> Option<DatasetId> {
        let mut waiting: Vec<_> = self.followers(snapshot).collect();
        while let Some(id) = waiting.pop() {
            // Datasets that follow on snapshots of the volume itself are found by the check of
            // those snapshots.
            let Some(clone) = self.volume_of(id).filter(|of| *of != volume) else {
                continue;
            };
            if !doomed.contains(&id) {
                return Some(clone);
            }
            waiting.extend(self.followers(id));
        }
        None
    }

    fn still_contains(&self, dataset: &Dataset, child: &Dataset) -> CatalogError {
        let (name, child) = (self.full_name(dataset.id), self.full_name(child.id));
        if dataset.is_folder() {
            return CatalogError::new(
                ErrorKind::NotEmpty,
                format!("'{name}' cannot be destroyed: it contains '{child}'"),
                "use -r to destroy everything in it too",
            );
        }
        CatalogError::new(
            ErrorKind::HasSnapshots,
            format!("'{name}' cannot be destroyed: it has the snapshot '{child}'"),
            "use -r to destroy its snapshots too",
        )
    }

    fn check_rollback(
        &self,
        id: DatasetId,
        target: DatasetId,
        destroy: &[DatasetId],
        refreservation: Option<u64>,
    ) -> Checked {
        let volume = self.existing(id)?;
        if volume.as_volume().is_none() {
            return Err(self.not_a(volume, "volume"));
        }
        let doomed: BTreeSet<_> = destroy.iter().copied().collect();
        let own = self.chain(id).take_while(|older| older.parent == id);
        let mut newer = own.take_while(|older| older.id != target);
        let snapshot = self.existing(target)?;
        let Some(size) = snapshot.as_snapshot().map(|snapshot| snapshot.size) else {
            return Err(self.not_a(snapshot, "snapshot"));
        };
        if snapshot.parent != id || doomed.contains(&target) || doomed.contains(&id) {
            return Err(CatalogError::mismatch(
                "the snapshot belongs to another volume, or would be destroyed itself",
            ));
        }
        if let Some(newer) = newer.find(|newer| !doomed.contains(&newer.id)) {
            let (name, newer) = (self.full_name(id), self.full_name(newer.id));
            return Err(CatalogError::new(
                ErrorKind::HasSnapshots,
                format!("'{name}' cannot be rolled back: '{newer}' is newer"),
                "use -r to destroy all newer snapshots, or clone the old one instead",
            ));
        }
        self.check_destroy(destroy, Some(id))?;
        self.check_reservation_after(id, size, refreservation)
    }

    /// Checks that a volume does not reserve more than it can take after a change of its size.
    pub(super) fn check_reservation_after(
        &self,
        id: DatasetId,
        size: u64,
        changed: Option<u64>,
    ) -> Checked {
        if changed.unwrap_or_else(|| self.settings(id).refreservation) > size {
            return Err(too_much_reserved(size));
        }
        Ok(())
    }

    fn check_promote(&self, id: DatasetId) -> Checked {
        let clone = self.existing(id)?;
        if clone.as_volume().is_none() {
            return Err(self.not_a(clone, "volume"));
        }
        if self.origin(id).is_none() {
            return Err(CatalogError::new(
                ErrorKind::InvalidValue,
                format!("'{}' is not a clone", self.full_name(id)),
                "only clones depend on another volume's snapshots",
            ));
        }
        self.check_not_receiving([id])?;
        let prefix = self.name(id);
        for moved in self.promoted(id) {
            // A clone that is only being received never goes back to the snapshot. If the receive
            // is given up, the clone goes.
            let goes_back = |id| self.receiving(id).is_some_and(|of| !of.is_new);
            self.check_no_base(moved.id, goes_back)?;
            let name = format!("{prefix}@{}", moved.name);
            if self.child(id, &moved.name).is_some() {
                return Err(CatalogError::new(
                    ErrorKind::Exists,
                    format!(
                        "'{}' exists already, and the promotion would move a snapshot of that name here from \
                         the origin",
                        self.shown(&name)
                    ),
                    "rename one of the two snapshots first",
                ));
            }
            name::check_size(name.len(), 0, &name)?;
        }
        Ok(())
    }

    /// Returns the snapshots that a clone takes over when it is promoted, newest first.
    pub(super) fn promoted(&self, clone: DatasetId) -> Vec<&Dataset> {
        let mut foreign = self
            .chain(clone)
            .skip_while(|older| older.parent == clone)
            .peekable();
        let owner = foreign.peek().map(|origin| origin.parent);
        foreign
            .take_while(|older| Some(older.parent) == owner)
            .collect()
    }

    fn check_renames(&self, folders: &[NewDataset], renames: &[NewName]) -> Checked {
        let mut growth = Growth::new(self);
        for folder in folders {
            growth.add(folder)?;
            growth.add_folder(folder);
            check_properties('f', 0, &folder.properties)?;
            check_properties('f', 0, &folder.received)?;
        }
        if renames.is_empty() {
            return Err(CatalogError::mismatch("the operation renames nothing"));
        }
        let mut moved = BTreeSet::new();
        for rename in renames {
            let dataset = self.existing(rename.id)?;
            if rename.id == ROOT {
                return Err(CatalogError::new(
                    ErrorKind::ReadOnly,
                    "the root folder has the pool's name",
                    "export the pool and import it under another name",
                ));
            }
            if !moved.insert(rename.id) || (renames.len() > 1 && dataset.as_snapshot().is_none()) {
                return Err(CatalogError::mismatch(
                    "only snapshots can be renamed together, and each only once",
                ));
            }
            if dataset.as_snapshot().is_some() {
                growth.claim_snapshot(dataset, rename)?;
            } else {
                growth.claim_moved(dataset, rename)?;
            }
        }
        Ok(())
    }

    fn check_set(&self, id: DatasetId, properties: &Properties) -> Checked {
        let dataset = self.existing(id)?;
        let size = dataset.geometry().map_or(0, |(size, _)| size);
        check_properties(dataset.kind.letter(), size, properties)
    }

    fn check_inherit(&self, ids: &[DatasetId], property: &str, keep_received: bool) -> Checked {
        let property = Property::parse(property)?;
        if let Property::Native(native) = &property {
            check_settable(*native)?;
        }
        for id in ids {
            let dataset = self.existing(*id)?;
            let size = dataset.geometry().map_or(0, |(size, _)| size);
            let received = dataset.received.get(&property).filter(|_| keep_received);
            if matches!(received, Some(Value::Reservation(Some(bytes))) if *bytes > size) {
                return Err(too_much_reserved(size));
            }
        }
        Ok(())
    }

    fn check_holds(&self, snapshots: &[DatasetId], tag: &str, is_new: bool) -> Checked {
        if tag.is_empty() || tag.len() > MAX_TAG || tag.chars().any(char::is_control) {
            return Err(CatalogError::new(
                ErrorKind::InvalidName,
                format!("'{}' is not a valid tag for a hold", tag.escape_debug()),
                format!("use 1 to {MAX_TAG} bytes of text without control characters"),
            ));
        }
        for id in snapshots {
            let dataset = self.existing(*id)?;
            let Some(snapshot) = dataset.as_snapshot() else {
                return Err(self.not_a(dataset, "snapshot"));
            };
            let name = self.full_name(*id);
            match (is_new, snapshot.holds.contains_key(tag)) {
                (true, true) => {
                    return Err(CatalogError::new(
                        ErrorKind::Exists,
                        format!("'{name}' has a hold '{tag}' already"),
                        "use another tag",
                    ));
                }
                (false, false) => {
                    return Err(CatalogError::new(
                        ErrorKind::NotFound,
                        format!("'{name}' has no hold '{tag}'"),
                        format!("see its holds with 'volume holds {name}'"),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn exists(&self, name: &str) -> CatalogError {
        CatalogError::new(
            ErrorKind::Exists,
            format!("'{}' exists already", self.shown(name)),
            "use another name, or destroy or rename the dataset that has it",
        )
    }
}
