//! Plans turn requests into operations. Names become numbers, words become values, and an action
//! that needs an explicit request is refused without one.

mod create;
mod destroy;
mod history;
mod hold;
mod property;
mod receive;
mod rename;
pub mod request;
mod resize;
mod rollback;
mod snapshot;

use std::collections::BTreeSet;

use super::error::{CatalogError, ErrorKind};
use super::name::Name;
use super::operation::{MAX_OPERATION, NewDataset, Operation};
use super::properties::Properties;
use super::property::Native;
use super::value::Value;
use super::{Catalog, ROOT};
use crate::format::DatasetId;
use request::Stamp;

/// Place of a new or renamed dataset.
struct Place {
    /// Folders that are made on the way.
    folders: Vec<NewDataset>,
    parent: DatasetId,
    /// Last part of the name.
    name: String,
    /// Next number after those of the folders.
    next: DatasetId,
}

impl Catalog {
    /// Returns an operation that can be applied, or the reason why it cannot.
    fn planned(&self, operation: Operation) -> Result<Operation, CatalogError> {
        self.check(&operation)?;
        let len = operation.encode().len();
        if len > MAX_OPERATION {
            return Err(CatalogError::new(
                ErrorKind::LimitReached,
                format!(
                    "the change is too large for one step: it takes {len} bytes, and {MAX_OPERATION} are \
                     allowed"
                ),
                "make the change in several parts",
            ));
        }
        Ok(operation)
    }

    /// Returns the place of a new folder or volume of this name. Missing folders are planned if the
    /// request asks for them.
    fn place(&self, name: &str, with_parents: bool, stamp: Stamp) -> Result<Place, CatalogError> {
        let parsed = Name::parse(name)?;
        let (Some((above, last)), None) = (parsed.split(), &parsed.snapshot) else {
            return Err(CatalogError::new(
                ErrorKind::InvalidName,
                format!("'{}' is not a name of a folder or volume", self.shown(name)),
                "use a name such as vms/disk1, without '@'",
            ));
        };
        let (mut parent, mut next) = (ROOT, self.next);
        let mut folders: Vec<NewDataset> = Vec::new();
        for component in above {
            let known = self.child(parent, component).filter(|_| folders.is_empty());
            if let Some(known) = known {
                parent = known;
                continue;
            }
            if !with_parents {
                let missing = above.join("/");
                return Err(CatalogError::new(
                    ErrorKind::NotFound,
                    format!("the folder '{}' does not exist", self.shown(&missing)),
                    "make it first, or use -p to make all missing folders",
                ));
            }
            let folder = stamp.dataset(next, parent, component);
            (parent, next) = (next, following(next));
            folders.push(folder);
        }
        Ok(Place {
            folders,
            parent,
            name: last.to_owned(),
            next,
        })
    }

    /// Refuses to give a dataset and all below it `more` more snapshots, if a limit forbids that.
    fn check_snapshot_limit(&self, id: DatasetId, more: u64) -> Result<(), CatalogError> {
        let limit = self.property(id, &Native::SnapshotLimit.into());
        let Some(Value::Limit(Some(limit))) = limit.map(|limit| limit.value) else {
            return Ok(());
        };
        if more == 0 || self.count_snapshots(id).saturating_add(more) <= limit {
            return Ok(());
        }
        Err(CatalogError::new(
            ErrorKind::LimitReached,
            format!("'{}' has snapshot_limit={limit}", self.full_name(id)),
            "destroy snapshots that are not needed, or raise snapshot_limit",
        ))
    }

    /// Checks the limits of the place to which snapshots move. Limits that count the snapshots
    /// already do not matter.
    fn check_moved_limits(
        &self,
        count: u64,
        from: DatasetId,
        to: DatasetId,
    ) -> Result<(), CatalogError> {
        let before: BTreeSet<_> = self.lineage(from).map(|above| above.id).collect();
        let mut changed = self.lineage(to).filter(|above| !before.contains(&above.id));
        changed.try_for_each(|above| self.check_snapshot_limit(above.id, count))
    }
}

impl Stamp {
    fn dataset(self, id: DatasetId, parent: DatasetId, name: &str) -> NewDataset {
        NewDataset {
            id,
            parent,
            name: name.to_owned(),
            created_s: self.time_s,
            guid: self.guid(id),
            properties: Properties::default(),
            received: Properties::default(),
        }
    }

    /// Returns a distinct guid for each dataset (SplitMix64's finisher).
    fn guid(self, id: DatasetId) -> u64 {
        let mut mixed = self.entropy ^ (u64::from(id.0) << 32 | u64::from(id.0));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Returns the next number. At the end of all numbers it returns its argument, which the check then
/// refuses.
fn following(id: DatasetId) -> DatasetId {
    DatasetId(id.0.saturating_add(1))
}
