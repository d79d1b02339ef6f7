//! Plans for other names and other folders.

use super::request::{Rename, Stamp};
use crate::catalog::Catalog;
use crate::catalog::Dataset;
use crate::catalog::error::{CatalogError, ErrorKind};
use crate::catalog::name::Name;
use crate::catalog::operation::{NewName, Operation};

impl Catalog {
    /// Plans to give a dataset another name, or to move it to another folder.
    ///
    /// # Errors
    /// NotFound, Exists, InvalidName, LimitReached (snapshots below the new folder), ReadOnly (the
    /// root).
    pub fn plan_rename(&self, request: &Rename, stamp: Stamp) -> Result<Operation, CatalogError> {
        if request.from.contains('@') {
            return self.plan_rename_snapshots(request);
        }
        let dataset = self.find(&request.from)?;
        let place = self.place(&request.to, request.with_parents, stamp)?;
        // A new folder has no limit, and lies in the last existing one.
        let above = place
            .folders
            .first()
            .map_or(place.parent, |first| first.parent);
        self.check_moved_limits(self.count_snapshots(dataset.id), dataset.id, above)?;
        self.planned(Operation::Rename {
            folders: place.folders,
            renames: vec![NewName {
                id: dataset.id,
                parent: place.parent,
                name: place.name,
            }],
        })
    }

    fn plan_rename_snapshots(&self, request: &Rename) -> Result<Operation, CatalogError> {
        let from = Name::parse(&request.from)?;
        let to = match request.to.strip_prefix('@') {
            Some(snapshot) => Name {
                snapshot: Some(snapshot.to_owned()),
                ..from.clone()
            },
            None => Name::parse(&request.to)?,
        };
        let Some(name) = to.snapshot.filter(|_| to.path == from.path) else {
            return Err(CatalogError::new(
                ErrorKind::InvalidName,
                format!(
                    "'{}' cannot become '{}'",
                    self.shown(&request.from),
                    self.shown(&request.to)
                ),
                "change only the part behind '@' of a snapshot's name",
            ));
        };
        let meant = self.meant_snapshots(&request.from, request.is_recursive)?;
        let renamed = |snapshot: &Dataset| NewName {
            id: snapshot.id,
            parent: snapshot.parent,
            name: name.clone(),
        };
        self.planned(Operation::Rename {
            folders: Vec::new(),
            renames: meant.into_iter().map(renamed).collect(),
        })
    }
}
