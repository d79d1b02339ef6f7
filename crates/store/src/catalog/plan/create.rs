//! Plans for new folders, volumes and clones.

use super::request::{CloneSnapshot, CreateFolder, CreateVolume, Stamp};
use crate::catalog::Catalog;
use crate::catalog::error::CatalogError;
use crate::catalog::operation::{NewClone, NewVolume, Operation};
use crate::catalog::property::Native;
use crate::catalog::value::Value;

impl Catalog {
    /// Plans a new folder.
    ///
    /// # Errors
    /// Exists, NotFound (the folder above), InvalidName, InvalidValue, ReadOnly (a property).
    pub fn plan_create_folder(
        &self,
        request: &CreateFolder,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        let place = self.place(&request.name, request.with_parents, stamp)?;
        let mut folder = stamp.dataset(place.next, place.parent, &place.name);
        folder.properties = self.parse_properties(&request.properties, 0)?;
        folder.received = self.parse_properties(&request.received, 0)?;
        let mut folders = place.folders;
        folders.push(folder);
        self.planned(Operation::CreateFolder { folders })
    }

    /// Plans a new volume.
    ///
    /// # Errors
    /// The errors of folders; InvalidValue for a size that is no multiple of the volblocksize, with
    /// the nearest sizes.
    pub fn plan_create_volume(
        &self,
        request: &CreateVolume,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        let place = self.place(&request.name, request.with_parents, stamp)?;
        let mut dataset = stamp.dataset(place.next, place.parent, &place.name);
        dataset.properties = self.parse_properties(&request.properties, request.size)?;
        dataset.received = self.parse_properties(&request.received, request.size)?;
        if request.is_thick {
            let reserved = Value::Reservation(Some(request.size));
            let set = dataset.properties.0.entry(Native::Refreservation.into());
            set.or_insert(reserved);
        }
        self.planned(Operation::CreateVolume {
            folders: place.folders,
            volume: NewVolume {
                dataset,
                size: request.size,
                block_size: request.block_size,
                receiving: None,
            },
        })
    }

    /// Plans a volume that begins as a snapshot is, and shares its blocks.
    ///
    /// # Errors
    /// The errors of volumes; InvalidValue if the dataset to be cloned is no snapshot.
    pub fn plan_clone(
        &self,
        request: &CloneSnapshot,
        stamp: Stamp,
    ) -> Result<Operation, CatalogError> {
        let origin = self.find_snapshot(&request.snapshot)?;
        let size = origin.geometry().map_or(0, |(size, _)| size);
        let place = self.place(&request.name, request.with_parents, stamp)?;
        let mut dataset = stamp.dataset(place.next, place.parent, &place.name);
        dataset.properties = self.parse_properties(&request.properties, size)?;
        self.planned(Operation::Clone {
            folders: place.folders,
            clone: NewClone {
                dataset,
                origin: origin.id,
                size: None,
                receiving: None,
            },
        })
    }
}
