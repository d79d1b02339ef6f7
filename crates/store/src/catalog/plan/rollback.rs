//! Volumes that become again what they were, and clones that stand on their own.

use std::collections::BTreeSet;

use super::request::Rollback;
use crate::catalog::Catalog;
use crate::catalog::error::CatalogError;
use crate::catalog::operation::Operation;
use crate::format::DatasetId;

impl Catalog {
    /// A volume becomes again what a snapshot of it is. Its properties stay; its size is the snapshot's.
    ///
    /// # Errors
    /// NotFound; HasSnapshots and HasClones where newer ones are in the way; Held.
    pub fn plan_rollback(&self, request: &Rollback) -> Result<Operation, CatalogError> {
        let snapshot = self.find_snapshot(&request.snapshot)?;
        let volume = snapshot.parent;
        let mut doomed = BTreeSet::new();
        if request.destroy_newer || request.with_clones {
            let own = self.snapshots(volume).into_iter().rev();
            let newer = own.take_while(|newer| newer.id != snapshot.id);
            doomed.extend(newer.map(|newer| newer.id));
        }
        if request.with_clones {
            self.add_clones(&mut doomed);
        }
        let size = snapshot.geometry().map_or(0, |(size, _)| size);
        self.planned(Operation::Rollback {
            volume,
            snapshot: snapshot.id,
            destroy: doomed.into_iter().collect(),
            refreservation: self.restored_reservation(volume, size),
        })
    }

    /// What refreservation has to become where a volume gets the size of a snapshot again. One that a receive made
    /// smaller kept it: that it has as much as the smaller volume does not make it thick.
    pub(super) fn restored_reservation(&self, volume: DatasetId, size: u64) -> Option<u64> {
        let (now, _) = self.dataset(volume)?.geometry()?;
        match self.receiving(volume) {
            Some(_) if now < size => None,
            _ => self.adapted_reservation(volume, size),
        }
    }

    /// A clone takes over the snapshots that it depends on; the volume that it was made of becomes its clone, and
    /// may then be destroyed.
    ///
    /// # Errors
    /// NotFound; InvalidValue where it is no clone; Exists where both have a snapshot of the same name; LimitReached.
    pub fn plan_promote(&self, name: &str) -> Result<Operation, CatalogError> {
        let clone = self.find_volume(name)?.id;
        let moved = self.promoted(clone);
        if let Some(origin) = moved.first() {
            self.check_moved_limits(moved.len() as u64, origin.parent, clone)?;
        }
        self.planned(Operation::Promote { clone })
    }
}
