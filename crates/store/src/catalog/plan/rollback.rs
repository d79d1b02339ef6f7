//! Plans for volumes that go back to an earlier state, and for clones that become independent.

use std::collections::BTreeSet;

use super::request::Rollback;
use crate::catalog::Catalog;
use crate::catalog::error::CatalogError;
use crate::catalog::operation::Operation;
use crate::format::DatasetId;

impl Catalog {
    /// Plans to take a volume back to one of its snapshots. The volume's properties stay; its size
    /// is the snapshot's.
    ///
    /// # Errors
    /// NotFound; HasSnapshots and HasClones if newer ones are in the way; Held.
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

    /// Returns the refreservation for a volume that gets the size of a snapshot again. A receive
    /// that made the volume smaller kept its reservation. So a reservation as large as the smaller
    /// volume does not make the volume thick.
    pub(super) fn restored_reservation(&self, volume: DatasetId, size: u64) -> Option<u64> {
        let (now, _) = self.dataset(volume)?.geometry()?;
        match self.receiving(volume) {
            Some(_) if now < size => None,
            _ => self.adapted_reservation(volume, size),
        }
    }

    /// Plans the promotion of a clone: it takes over the snapshots that it depends on. The volume
    /// of which it was made becomes its clone, and may then be destroyed.
    ///
    /// # Errors
    /// NotFound; InvalidValue if the volume is no clone; Exists if both have a snapshot of one
    /// name; LimitReached.
    pub fn plan_promote(&self, name: &str) -> Result<Operation, CatalogError> {
        let clone = self.find_volume(name)?.id;
        let moved = self.promoted(clone);
        if let Some(origin) = moved.first() {
            self.check_moved_limits(moved.len() as u64, origin.parent, clone)?;
        }
        self.planned(Operation::Promote { clone })
    }
}
