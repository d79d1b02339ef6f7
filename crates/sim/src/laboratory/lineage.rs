//! Descent of snapshots and clones in a history, which decides whether an operation makes sense by
//! now.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Model;
use crate::operation::{Admin, Named, Operation, SLICES_PER_BLOCK, VolumeId};

/// Snapshots, clones and promotions that were asked for.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// Origin of each snapshot and clone.
    origins: BTreeMap<VolumeId, VolumeId>,
    /// Snapshots in the order in which they were taken.
    taken: BTreeMap<VolumeId, usize>,
    /// Clones that were promoted, and their former origins.
    promoted: BTreeSet<VolumeId>,
}

impl Lineage {
    /// Reports whether an operation makes sense by now.
    pub(super) fn makes_sense(&self, model: &Model, operation: &Operation) -> bool {
        let blocks = |volume| model.blocks(volume);
        let holds = |volume, end: u64| {
            blocks(volume).is_some_and(|blocks| end <= blocks * SLICES_PER_BLOCK)
        };
        let is_new = |volume: VolumeId| model.volumes().all(|known| known != volume);
        let is_snapshot = |volume| model.is_snapshot(volume);
        match operation {
            Operation::Read { volume, slices } | Operation::Extents { volume, slices } => {
                holds(*volume, slices.end)
            }
            Operation::Change { volume, slices, .. } => {
                holds(*volume, slices.end) && !is_snapshot(*volume)
            }
            Operation::Flush { volume } => blocks(*volume).is_some(),
            Operation::Admin(admin) => match admin {
                Admin::Create { volume, .. } => is_new(*volume),
                Admin::Snapshot { of } => of.iter().all(|(volume, snapshot)| {
                    blocks(*volume).is_some() && !is_snapshot(*volume) && is_new(*snapshot)
                }),
                Admin::Clone { snapshot, volume } => {
                    blocks(*snapshot).is_some() && is_snapshot(*snapshot) && is_new(*volume)
                }
                Admin::Rollback { volume, snapshot } => {
                    let mut children = self.children(model, *volume);
                    blocks(*volume).is_some()
                        && blocks(*snapshot).is_some()
                        && self.origins.get(snapshot) == Some(volume)
                        && children.all(|child| self.taken.get(&child) <= self.taken.get(snapshot))
                        && !self.is_of_promoted(*volume)
                }
                Admin::Resize { volume, .. } => blocks(*volume).is_some() && !is_snapshot(*volume),
                Admin::Destroy { volume } => {
                    blocks(*volume).is_some()
                        && self.children(model, *volume).next().is_none()
                        && !self.is_of_promoted(*volume)
                }
                Admin::DestroyAll { volumes, named } => {
                    self.go_together(model, volumes) && Self::is_all(model, volumes, *named)
                }
                Admin::Promote { volume } => {
                    let origin = self.origins.get(volume);
                    blocks(*volume).is_some()
                        && origin.is_some_and(|origin| blocks(*origin).is_some())
                        && !self.is_of_promoted(*volume)
                }
                Admin::Rename { volume } => blocks(*volume).is_some(),
                Admin::SetProperty { volume, .. } => {
                    blocks(*volume).is_some() && !is_snapshot(*volume)
                }
                Admin::Reserve {
                    volume,
                    blocks: wanted,
                } => {
                    blocks(*volume).is_some_and(|blocks| *wanted <= blocks) && !is_snapshot(*volume)
                }
                Admin::Checkpoint | Admin::Scrub | Admin::Reshape(_) => true,
            },
        }
    }

    /// Reports whether all of these are there, and nothing is left that stems from them.
    fn go_together(&self, model: &Model, volumes: &[VolumeId]) -> bool {
        volumes.iter().all(|volume| {
            let mut children = self.children(model, *volume);
            model.blocks(*volume).is_some()
                && children.all(|child| volumes.contains(&child))
                && !self.is_of_promoted(*volume)
        })
    }

    /// Reports whether these are all the volumes that the name means.
    fn is_all(model: &Model, volumes: &[VolumeId], named: Named) -> bool {
        let owner = |volume: VolumeId| volume.group().map_or(volume, |(_, of)| of);
        let is_meant = |volume: &VolumeId| match named {
            Named::Each => volumes.contains(volume),
            Named::Below(folder) => owner(*volume).folder() == folder,
            Named::Group(group, folder) => volume.group().is_some_and(|(of, volume)| {
                of == group && folder.is_none_or(|folder| volume.folder() == folder)
            }),
        };
        let meant: BTreeSet<VolumeId> = model.volumes().filter(is_meant).collect();
        meant == volumes.iter().copied().collect()
    }

    /// Returns the snapshots of a volume, or clones of a snapshot, that may exist.
    fn children<'a>(
        &'a self,
        model: &'a Model,
        volume: VolumeId,
    ) -> impl Iterator<Item = VolumeId> + 'a {
        let known = model.volumes();
        known.filter(move |child| self.origins.get(child) == Some(&volume))
    }

    /// Reports whether the volume stems from one whose snapshots may have moved to another volume.
    ///
    /// The laboratory does not know the owner of these snapshots.
    fn is_of_promoted(&self, volume: VolumeId) -> bool {
        let mut at = Some(volume);
        while let Some(volume) = at {
            if self.promoted.contains(&volume) {
                return true;
            }
            at = self.origins.get(&volume).copied();
        }
        false
    }

    /// Notes the snapshots and clones that a submitted operation makes.
    pub(super) fn note(&mut self, admin: &Admin) {
        match admin {
            Admin::Promote { volume } => {
                let mut at = Some(*volume);
                while let Some(volume) = at {
                    self.promoted.insert(volume);
                    at = self.origins.get(&volume).copied();
                }
            }
            Admin::Snapshot { of } => {
                for (volume, snapshot) in of {
                    self.origins.insert(*snapshot, *volume);
                    self.taken.insert(*snapshot, self.taken.len());
                }
            }
            Admin::Clone { snapshot, volume } => {
                self.origins.insert(*volume, *snapshot);
            }
            _ => {}
        }
    }
}
