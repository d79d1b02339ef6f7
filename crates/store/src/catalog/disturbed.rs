//! The datasets that an operation disturbs. A server of one of them must not lose it, nor find
//! another dataset under its name.

use std::collections::BTreeSet;

use super::{Catalog, Operation};
use crate::format::DatasetId;

impl Catalog {
    /// Returns all datasets that an operation takes away, or to which it gives another name or
    /// content. A volume that grows or shrinks is not among them: it stays the volume that it is,
    /// and its server follows.
    pub fn disturbed_by(&self, operation: &Operation) -> BTreeSet<DatasetId> {
        match operation {
            Operation::Destroy { ids } => ids.iter().copied().collect(),
            // Older snapshots of the volume stay as they are.
            Operation::Rollback {
                volume, destroy, ..
            } => destroy.iter().chain([volume]).copied().collect(),
            Operation::Promote { clone } => {
                let moved = self.promoted(*clone).into_iter();
                moved.map(|snapshot| snapshot.id).collect()
            }
            Operation::Rename { renames, .. } => {
                let below = renames.iter().flat_map(|rename| self.subtree(rename.id));
                below.map(|dataset| dataset.id).collect()
            }
            Operation::BeginReceive { volume, .. } => [*volume].into(),
            Operation::CreateFolder { .. }
            | Operation::CreateVolume { .. }
            | Operation::Snapshot(_)
            | Operation::Clone { .. }
            | Operation::SetProperty { .. }
            | Operation::Inherit { .. }
            | Operation::Resize { .. }
            | Operation::Hold { .. }
            | Operation::Release { .. }
            // Nobody has used the volume since the receive began.
            | Operation::NoteReceived { .. }
            | Operation::EndReceive { .. }
            | Operation::Note(_) => BTreeSet::new(),
        }
    }
}
