//! Application of an operation: to the datasets at once, to blocks by the steps that are returned.

use std::collections::BTreeSet;

use super::applied::{Applied, Step};
use super::dataset::{Dataset, DatasetKind, Receiving, Snapshot, Volume};
use super::error::CatalogError;
use super::operation::{NewDataset, NewSnapshots, NewVolume, Operation};
use super::properties::Properties;
use super::property::{Native, Property};
use super::value::Value;
use super::{Catalog, ROOT};
use crate::format::{DatasetId, Epoch};

impl Catalog {
    /// Applies an operation.
    ///
    /// # Errors
    /// The operation does not fit the catalogue. Then nothing is changed. An operation that was
    /// planned against this very catalogue always fits.
    pub fn apply(&mut self, operation: &Operation) -> Result<Applied, CatalogError> {
        self.check(operation)?;
        let mut steps = Vec::new();
        match operation {
            Operation::CreateFolder { folders } => self.add_folders(folders),
            Operation::CreateVolume { folders, volume } => {
                self.add_folders(folders);
                steps.push(self.add_volume(volume, None));
            }
            Operation::Destroy { ids } => self.destroy(ids, &mut steps),
            Operation::Snapshot(taken) => self.take_snapshots(taken, &mut steps),
            Operation::Clone { folders, clone } => {
                self.add_folders(folders);
                let origin = self.dataset(clone.origin).and_then(Dataset::geometry);
                let (size, block_size) = origin.unwrap_or_default();
                let volume = NewVolume {
                    dataset: clone.dataset.clone(),
                    size,
                    block_size,
                    receiving: clone.receiving.clone(),
                };
                steps.push(self.add_volume(&volume, Some(clone.origin)));
                if let Some(size) = clone.size {
                    steps.push(self.resize(clone.dataset.id, size));
                }
            }
            Operation::Rollback {
                volume,
                snapshot,
                destroy,
                refreservation,
            } => {
                self.destroy(destroy, &mut steps);
                self.set_receiving(*volume, None);
                steps.push(self.roll_back(*volume, *snapshot));
                self.set_refreservation(*volume, *refreservation, &mut steps);
            }
            Operation::Promote { clone } => self.promote(*clone, &mut steps),
            Operation::Rename { folders, renames } => {
                self.add_folders(folders);
                for rename in renames {
                    self.relabel(rename.id, rename.parent, &rename.name);
                    self.settle(rename.id, &mut steps);
                }
            }
            Operation::SetProperty {
                id,
                properties,
                is_received,
            } => {
                self.set_properties(*id, properties, *is_received);
                self.settle(*id, &mut steps);
            }
            Operation::Inherit {
                ids,
                property,
                keep_received,
            } => self.inherit(ids, property, *keep_received, &mut steps)?,
            Operation::Resize {
                volume,
                size,
                refreservation,
            } => {
                steps.push(self.resize(*volume, *size));
                self.set_refreservation(*volume, *refreservation, &mut steps);
            }
            Operation::Hold {
                snapshots,
                tag,
                time_s,
            } => self.change_holds(snapshots, |holds| {
                holds.insert(tag.clone(), *time_s);
            }),
            Operation::Release { snapshots, tag } => self.change_holds(snapshots, |holds| {
                holds.remove(tag);
            }),
            Operation::BeginReceive { .. }
            | Operation::NoteReceived { .. }
            | Operation::EndReceive { .. } => self.receive(operation, &mut steps),
            Operation::Note(entry) => self.history.push(entry.clone()),
        }
        Ok(Applied { steps })
    }

    /// Receives a part of a stream into a volume.
    fn receive(&mut self, operation: &Operation, steps: &mut Vec<Step>) {
        match operation {
            Operation::BeginReceive {
                volume,
                size,
                receiving,
                refreservation,
            } => {
                steps.push(self.resize(*volume, *size));
                self.set_refreservation(*volume, *refreservation, steps);
                self.set_receiving(*volume, Some(receiving.clone()));
                steps.push(Step::Settings { dataset: *volume });
            }
            Operation::NoteReceived { volume, position } => {
                if let Some(DatasetKind::Volume(state)) = self.kind_mut(*volume)
                    && let Some(receiving) = &mut state.receiving
                {
                    receiving.position = *position;
                }
            }
            Operation::EndReceive {
                taken,
                received,
                refreservation,
            } => {
                for new in &taken.snapshots {
                    self.set_receiving(new.volume, None);
                    self.set_refreservation(new.volume, *refreservation, steps);
                    if let (Some(received), Some(volume)) =
                        (received, self.datasets.get_mut(&new.volume))
                    {
                        received.clone_into(&mut volume.received);
                    }
                    self.settle(new.volume, steps);
                }
                self.take_snapshots(taken, steps);
            }
            _ => {}
        }
    }

    fn add(&mut self, new: &NewDataset, kind: DatasetKind) {
        self.insert(Dataset {
            id: new.id,
            parent: new.parent,
            name: new.name.clone(),
            created_s: new.created_s,
            guid: new.guid,
            properties: new.properties.clone(),
            received: new.received.clone(),
            kind,
        });
    }

    fn add_folders(&mut self, folders: &[NewDataset]) {
        for folder in folders {
            self.add(folder, DatasetKind::Folder);
        }
    }

    fn add_volume(&mut self, new: &NewVolume, previous: Option<DatasetId>) -> Step {
        let (volume, size, block_size) = (new.dataset.id, new.size, new.block_size);
        let kind = DatasetKind::Volume(Volume {
            size,
            block_size,
            previous,
            receiving: new.receiving.clone(),
        });
        self.add(&new.dataset, kind);
        match previous {
            None => Step::Create {
                volume,
                size,
                block_size,
            },
            Some(snapshot) => Step::Clone {
                clone: volume,
                snapshot,
                size,
                block_size,
            },
        }
    }

    fn take_snapshots(&mut self, taken: &NewSnapshots, steps: &mut Vec<Step>) {
        for new in &taken.snapshots {
            let Some(volume) = self.dataset(new.volume).and_then(Dataset::as_volume) else {
                continue;
            };
            let snapshot = Snapshot {
                size: volume.size,
                block_size: volume.block_size,
                epoch: taken.epoch,
                previous: volume.previous,
                holds: Default::default(),
            };
            self.insert(Dataset {
                id: new.id,
                parent: new.volume,
                name: new.name.clone(),
                created_s: taken.created_s,
                guid: new.guid,
                properties: taken.properties.clone(),
                received: Properties::default(),
                kind: DatasetKind::Snapshot(snapshot),
            });
            self.set_previous(new.volume, Some(new.id));
            steps.push(Step::Snapshot {
                volume: new.volume,
                snapshot: new.id,
            });
        }
    }

    /// Destroys datasets. Snapshots on which exactly one other dataset builds are merged into it,
    /// oldest first, so that each dead list is looked through once. Then volumes go. Then the
    /// snapshots that volumes shared go, newest first: by then at most one dataset that stays
    /// builds on each.
    fn destroy(&mut self, ids: &[DatasetId], steps: &mut Vec<Step>) {
        let mut snapshots: Vec<(Epoch, DatasetId)> = Vec::new();
        let mut volumes = Vec::new();
        for id in ids {
            match self.dataset(*id).map(|dataset| &dataset.kind) {
                Some(DatasetKind::Snapshot(snapshot)) => snapshots.push((snapshot.epoch, *id)),
                Some(DatasetKind::Volume(_)) => volumes.push(*id),
                _ => {}
            }
        }
        snapshots.sort_unstable();
        let (alone, shared): (Vec<_>, Vec<_>) = snapshots
            .into_iter()
            .partition(|(_, id)| self.followers(*id).count() == 1);
        let order = alone
            .into_iter()
            .chain(volumes.into_iter().map(|id| (Epoch(0), id)));
        for (_, id) in order.chain(shared.into_iter().rev()) {
            steps.push(self.dissolve(id));
        }
        for id in ids {
            self.remove(*id);
        }
    }

    /// Takes a volume or snapshot out of the chain.
    fn dissolve(&mut self, id: DatasetId) -> Step {
        let after = self.shared_until(id);
        let previous = self.dataset(id).and_then(Dataset::previous);
        let next = self.followers(id).next();
        debug_assert!(self.followers(id).count() <= 1, "what else builds on it?");
        self.set_previous(id, None);
        let Some(next) = next else {
            return Step::Free { dataset: id, after };
        };
        self.set_previous(next, previous);
        Step::Merge {
            snapshot: id,
            next,
            after,
        }
    }

    fn roll_back(&mut self, volume: DatasetId, snapshot: DatasetId) -> Step {
        let state = self.dataset(snapshot).and_then(Dataset::as_snapshot);
        let (size, after) = state.map_or((0, Epoch(0)), |state| (state.size, state.epoch));
        self.resize(volume, size);
        Step::Rollback {
            volume,
            snapshot,
            after,
            size,
        }
    }

    fn resize(&mut self, volume: DatasetId, to: u64) -> Step {
        let mut from = to;
        if let Some(DatasetKind::Volume(state)) = self.kind_mut(volume) {
            from = std::mem::replace(&mut state.size, to);
        }
        Step::Resize { volume, from, to }
    }

    /// Promotes a clone. Only names and owners change. Links between snapshots stay, and with them
    /// every dead list.
    fn promote(&mut self, clone: DatasetId, steps: &mut Vec<Step>) {
        let moved = self.promoted(clone).into_iter();
        let moved: Vec<_> = moved
            .map(|dataset| (dataset.id, dataset.name.clone()))
            .collect();
        for (id, name) in moved {
            self.relabel(id, clone, &name);
            steps.push(Step::Settings { dataset: id });
        }
    }

    fn set_properties(&mut self, id: DatasetId, properties: &Properties, is_received: bool) {
        if let Some(dataset) = self.datasets.get_mut(&id) {
            let set = match is_received {
                true => &mut dataset.received,
                false => &mut dataset.properties,
            };
            set.0.extend(properties.0.clone());
        }
    }

    fn set_receiving(&mut self, id: DatasetId, to: Option<Receiving>) {
        if let Some(DatasetKind::Volume(volume)) = self.kind_mut(id) {
            volume.receiving = to;
        }
    }

    fn set_refreservation(&mut self, id: DatasetId, to: Option<u64>, steps: &mut Vec<Step>) {
        if let Some(bytes) = to {
            let value = Value::Reservation(Some(bytes).filter(|bytes| *bytes > 0));
            let property = Property::from(Native::Refreservation);
            let properties = Properties([(property, value)].into());
            self.set_properties(id, &properties, false);
            steps.push(Step::Settings { dataset: id });
        }
    }

    fn inherit(
        &mut self,
        ids: &[DatasetId],
        property: &str,
        keep_received: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), CatalogError> {
        let property = Property::parse(property)?;
        for id in ids {
            if let Some(dataset) = self.datasets.get_mut(id) {
                dataset.properties.0.remove(&property);
                if !keep_received {
                    dataset.received.0.remove(&property);
                }
            }
        }
        // Settings below several of the named datasets are looked at once.
        let named: BTreeSet<_> = ids.iter().copied().collect();
        let mut affected = BTreeSet::new();
        for id in &named {
            let is_below = |above: &Dataset| named.contains(&above.id);
            if !self.lineage(*id).skip(1).any(is_below) {
                affected.extend(self.subtree(*id).into_iter().map(|dataset| dataset.id));
            }
        }
        self.push_settings(affected, steps);
        Ok(())
    }

    /// Notes that the settings at and below a dataset may have changed.
    fn settle(&self, id: DatasetId, steps: &mut Vec<Step>) {
        let below = self.subtree(id);
        self.push_settings(below.into_iter().map(|dataset| dataset.id), steps);
    }

    fn push_settings(&self, ids: impl IntoIterator<Item = DatasetId>, steps: &mut Vec<Step>) {
        let with_blocks = ids
            .into_iter()
            .filter(|id| *id != ROOT && self.volume_of(*id).is_some());
        steps.extend(with_blocks.map(|dataset| Step::Settings { dataset }));
    }

    fn change_holds(
        &mut self,
        snapshots: &[DatasetId],
        mut change: impl FnMut(&mut std::collections::BTreeMap<String, u64>),
    ) {
        for id in snapshots {
            if let Some(DatasetKind::Snapshot(snapshot)) = self.kind_mut(*id) {
                change(&mut snapshot.holds);
            }
        }
    }

    fn kind_mut(&mut self, id: DatasetId) -> Option<&mut DatasetKind> {
        self.datasets.get_mut(&id).map(|dataset| &mut dataset.kind)
    }
}
