//! Plans for snapshots, of one volume or of many at one moment, and the snapshots that a name
//! means.

use std::collections::{BTreeMap, BTreeSet};

use super::following;
use super::request::{Stamp, TakeSnapshots};
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::name::Name;
use crate::catalog::operation::{NewSnapshot, NewSnapshots, Operation};
use crate::catalog::{Catalog, Dataset};
use crate::format::DatasetId;

impl Catalog {
    /// Plans snapshots of one moment. After them, the engine's epoch is the next one.
    ///
    /// # Errors
    /// Exists, NotFound, InvalidName, LimitReached; InvalidValue for a volume that is named twice.
    pub fn plan_snapshot(
        &self,
        request: &TakeSnapshots,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        let mut next = self.next;
        let mut snapshots = Vec::new();
        for text in &request.names {
            let name = Name::parse(text)?;
            let Some(snapshot) = &name.snapshot else {
                return Err(CatalogError::new(
                    ErrorKind::InvalidName,
                    format!("'{}' does not name a snapshot", self.shown(text)),
                    "add '@' and a name for the snapshot",
                ));
            };
            for volume in self.volumes_of_snapshots(&name, request.is_recursive)? {
                snapshots.push(NewSnapshot {
                    id: next,
                    volume: volume.id,
                    name: snapshot.clone(),
                    guid: stamp.guid(next),
                });
                next = following(next);
            }
        }
        if let Some(guid) = request.guid {
            let [snapshot] = snapshots.as_mut_slice() else {
                return Err(CatalogError::new(
                    ErrorKind::InvalidValue,
                    "a guid can be given to one snapshot only",
                    "name one volume only",
                ));
            };
            snapshot.guid = guid;
        }
        self.check_limits_of_new(&snapshots)?;
        self.planned(Operation::Snapshot(NewSnapshots {
            epoch: stamp.epoch,
            created_s: stamp.time_s,
            snapshots,
            properties: self.parse_properties(&request.properties, 0)?,
        }))
    }

    /// Returns the volumes of which `name` wants snapshots.
    fn volumes_of_snapshots(
        &self,
        name: &Name,
        is_recursive: bool,
    ) -> Result<Vec<&Dataset>, CatalogError> {
        let above = self.find(&name.path.join("/"))?;
        if above.as_volume().is_some() {
            return Ok(vec![above]);
        }
        let mut volumes = self.volumes_below(above.id);
        // A snapshot of everything omits volumes that are received only in part.
        volumes.retain(|volume| self.receiving(volume.id).is_none());
        if !is_recursive || volumes.is_empty() {
            let shown = self.full_name(above.id);
            let (fault, next) = match is_recursive {
                false => ("is a folder", "use -r for snapshots of all volumes in it"),
                true => ("contains no volume", "name a folder that contains volumes"),
            };
            return Err(CatalogError::new(
                ErrorKind::InvalidValue,
                format!("'{shown}' {fault}, and only volumes have snapshots"),
                next,
            ));
        }
        Ok(volumes)
    }

    pub(super) fn check_limits_of_new(
        &self,
        snapshots: &[NewSnapshot],
    ) -> Result<(), CatalogError> {
        let mut more: BTreeMap<DatasetId, u64> = BTreeMap::new();
        for above in snapshots.iter().flat_map(|new| self.lineage(new.volume)) {
            *more.entry(above.id).or_default() += 1;
        }
        for (id, count) in more {
            self.check_snapshot_limit(id, count)?;
        }
        Ok(())
    }

    /// Returns the snapshots that `text` means: `vol@name`, or with `is_recursive` all of that name
    /// below.
    pub(super) fn meant_snapshots(
        &self,
        text: &str,
        is_recursive: bool,
    ) -> Result<Vec<&Dataset>, CatalogError> {
        if !is_recursive {
            return Ok(vec![self.find_snapshot(text)?]);
        }
        let name = Name::parse(text)?;
        let above = self.find(&name.path.join("/"))?;
        let component = name.snapshot.as_deref().unwrap_or_default();
        let volumes = self.volumes_below(above.id).into_iter();
        let found: Vec<_> = volumes
            .filter_map(|volume| self.dataset(self.child(volume.id, component)?))
            .collect();
        if found.is_empty() {
            return Err(CatalogError::new(
                ErrorKind::NotFound,
                format!(
                    "no volume at or below '{}' has a snapshot '{component}'",
                    self.full_name(above.id)
                ),
                "list the snapshots with 'volume list -r -t snapshot'",
            ));
        }
        Ok(found)
    }

    /// Returns the snapshots that many texts mean, as [`Catalog::meant_snapshots`] does, each
    /// snapshot once.
    pub(super) fn all_meant_snapshots(
        &self,
        texts: &[String],
        is_recursive: bool,
    ) -> Result<Vec<DatasetId>, CatalogError> {
        let mut found = BTreeSet::new();
        for text in texts {
            let meant = self.meant_snapshots(text, is_recursive)?;
            found.extend(meant.iter().map(|snapshot| snapshot.id));
        }
        Ok(found.into_iter().collect())
    }
}
