//! Changes of existing logical units: they grow, get other data, and follow their volumes to other
//! names.

use std::path::Path;

use super::author;
use super::transaction::{Commit, Committed};
use crate::plane::Plane;
use config::change::{Change, ModifyUnit};
use config::diff::{Action, Difference, FieldChange};
use model::config::UnitSpec;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::split;
use model::pool::history::Deed;
use model::quantity::format_size;
use model::{Config, Error, ErrorKind};
use pools::served_datasets::Served;

impl Plane {
    /// Returns the logical units that are on volumes of pools. A caller that takes something away
    /// reads them while the configuration is [`unchanged`](super::Transactions::unchanged).
    pub(super) fn served(&self) -> Served {
        let config = self.transactions.config();
        Served::of(&config, &self.transactions.followed())
    }

    /// Updates the names of units' volumes, and returns a notice if the names cannot be stored.
    /// Call it before volumes of units that are not noted yet could be renamed, and after any
    /// rename. If the names cannot be stored, the units stay on their volumes all the same, because
    /// the volumes' numbers are noted.
    pub fn follow_or_tell(&self) -> Option<String> {
        let error = self.transactions.follow_volumes().err()?;
        let notice = self.behind(&error);
        tracing::error!("{notice}");
        Some(notice)
    }

    /// Returns a notice that names the units still listed under old names of their volumes.
    fn behind(&self, error: &Error) -> String {
        let (stored, followed) = (self.transactions.config(), self.transactions.followed());
        let now = followed.units_by_naa();
        let pairs = stored.units.iter();
        let pairs = pairs.filter_map(|old| Some((old, now.get(old.naa.as_str())?)));
        let mut behind = pairs.filter_map(|(old, new)| {
            let (old_name, volume) = (old.backend.volume()?, new.backend.volume()?);
            (old_name != volume).then(|| {
                format!(
                    "lu {} serves {volume}, but the configuration still names {old_name}",
                    old.name
                )
            })
        });
        let first = behind.next().unwrap_or_else(|| {
            "the names of the volumes of logical units could not be stored in the configuration"
                .to_owned()
        });
        let more = match behind.count() {
            0 => String::new(),
            more => format!("; {more} more logical units likewise"),
        };
        format!(
            "{first}{more}: {}; {}. The daemon tries again with the next change of a volume, and at its \
             start",
            error.message, error.next
        )
    }

    /// Changes a logical unit, for `lu modify`, `lu online` and `lu offline`.
    ///
    /// # Errors
    /// The change failed. Nothing was changed, or the error tells what was.
    pub fn modify_unit(
        &self,
        name: &str,
        mut request: ModifyUnit,
        how: &Commit,
        deed: &Deed,
    ) -> Result<Committed, Error> {
        if let Some(backend) = &mut request.backend
            && backend.size() == Some(0)
            && let Some(path) = backend.path(&self.state_folder)
        {
            *backend.size_mut(name)? = length_of(&path)?;
        }
        self.follow_before_change_of(name, how)?;
        let grown = self.grow_first(name, &mut request, how)?;
        if let Some(grown) = grown.as_ref().filter(|_| !how.dry_run) {
            self.pools.note(split(&grown.name).0, deed);
            let generation = self.transactions.config().generation;
            author::note_differences(std::slice::from_ref(grown), generation);
            self.transactions.data_plane().try_again();
        }
        let change = Change::ModifyUnit(name.to_owned(), request);
        let committed = self.transactions.commit(&change, how);
        let mut committed = committed.map_err(|error| match &grown {
            Some(grown) if !how.dry_run => {
                error.not_changed(format!("{}; nothing else was changed", grown.in_words()))
            }
            _ => error,
        })?;
        committed.differences.extend(grown);
        Ok(committed)
    }

    /// Refuses to change a unit if its volume's new name cannot be stored. Otherwise, the change
    /// would affect another volume that has the old name by now.
    fn follow_before_change_of(&self, name: &str, how: &Commit) -> Result<(), Error> {
        if how.dry_run {
            return Ok(());
        }
        let followed = self.transactions.follow_volumes();
        let (stored, now) = (self.transactions.config(), self.transactions.followed());
        let backend = |config: &Config| config.unit(name).map(|unit| unit.backend.clone());
        match backend(&stored) == backend(&now) {
            true => Ok(()),
            false => followed,
        }
    }

    /// Grows the volume of a unit that is to be larger. The request for the unit then needs no
    /// size. The volume comes before the unit, because a unit's backend must not be smaller than
    /// the unit.
    fn grow_first(
        &self,
        name: &str,
        request: &mut ModifyUnit,
        how: &Commit,
    ) -> Result<Option<Difference>, Error> {
        // The volume keeps its name until it has grown.
        let _unchanged = (!how.dry_run).then(|| self.transactions.unchanged());
        let config = self.transactions.followed();
        let unit = config.unit(name);
        let backend = request.backend.as_ref().or(unit.map(|unit| &unit.backend));
        let volume = backend.and_then(|backend| backend.volume().map(str::to_owned));
        let (Some(unit), Some(volume), Some(size)) = (unit, volume, request.size) else {
            return Ok(None);
        };
        request.size = None;
        // The change is tried as a dry run first: a refused change must not have grown a volume.
        let asked = Commit {
            dry_run: true,
            ..how.clone()
        };
        let change = Change::ModifyUnit(name.to_owned(), request.clone());
        self.transactions.commit(&change, &asked)?;
        self.grow(unit, &volume, size, how.dry_run)
    }

    /// Grows the volume of a unit, as `volume set volsize` does. Returns `None` if the volume
    /// already has that size.
    fn grow(
        &self,
        unit: &UnitSpec,
        volume: &str,
        size: u64,
        dry_run: bool,
    ) -> Result<Option<Difference>, Error> {
        let change = DatasetChange::Set {
            names: vec![volume.to_owned()],
            properties: [("volsize".to_owned(), size.to_string())].into(),
            shrink: false,
        };
        let before = self.pools.volume_size(volume)?;
        if size < before {
            return Err(Error::invalid(
                format!(
                    "lu {} is the volume {volume} of {}; a size of {} would cut off data",
                    unit.name,
                    format_size(before),
                    format_size(size)
                ),
                format!(
                    "sandstone volume set --shrink volsize=SIZE {volume}, if the data beyond this size may \
                     be lost"
                ),
            ));
        }
        if size == before {
            return Ok(None);
        }
        match dry_run {
            true => self.pools.preview(&change, &Default::default())?,
            false => self.pools.change(&change)?,
        };
        Ok(Some(Difference {
            action: Action::Modify,
            object: "volume".to_owned(),
            name: volume.to_owned(),
            fields: vec![FieldChange {
                field: "volsize".to_owned(),
                old: Some(format_size(before)),
                new: Some(format_size(size)),
            }],
        }))
    }
}

/// The length of a file that is there.
fn length_of(path: &Path) -> Result<u64, Error> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        Error::new(
            ErrorKind::NotFound,
            format!("{} cannot be used: {error}", path.display()),
            "name an existing file; a relative path is below the state folder",
        )
    })?;
    match metadata.is_file() {
        true => Ok(metadata.len()),
        false => Err(Error::invalid(
            format!("{} is not a file", path.display()),
            "name a block device with --device",
        )),
    }
}
