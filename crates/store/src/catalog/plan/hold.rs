//! Plans for holds, which keep snapshots from being destroyed.

use super::request::{Holds, Stamp};
use crate::catalog::Catalog;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::operation::Operation;

impl Catalog {
    /// Plans a hold: the snapshots cannot be destroyed until it is released.
    ///
    /// # Errors
    /// NotFound, Exists (such a hold), InvalidName (the tag).
    pub fn plan_hold(&self, request: &Holds, stamp: Stamp) -> Result<Operation, CatalogError> {
        let snapshots = self.all_meant_snapshots(&request.snapshots, request.is_recursive)?;
        self.planned(Operation::Hold {
            snapshots,
            tag: request.tag.clone(),
            time_s: stamp.time_s,
        })
    }

    /// Plans the end of a hold. With `is_recursive`, it ends on all snapshots of the name below
    /// that have it.
    ///
    /// # Errors
    /// NotFound.
    pub fn plan_release(&self, request: &Holds) -> Result<Operation, CatalogError> {
        let mut snapshots = self.all_meant_snapshots(&request.snapshots, request.is_recursive)?;
        if request.is_recursive {
            snapshots.retain(|id| {
                let snapshot = self.dataset(*id).and_then(|dataset| dataset.as_snapshot());
                snapshot.is_some_and(|snapshot| snapshot.holds.contains_key(&request.tag))
            });
            if snapshots.is_empty() {
                return Err(CatalogError::new(
                    ErrorKind::NotFound,
                    format!("none of the snapshots has a hold '{}'", request.tag),
                    "list the holds with 'volume holds'",
                ));
            }
        }
        self.planned(Operation::Release {
            snapshots,
            tag: request.tag.clone(),
        })
    }
}
