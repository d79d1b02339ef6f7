//! Creation of logical units. If the request does not give the physical block size, it comes from
//! the storage beneath. If the request asks for a volume, the volume is made first, and destroyed
//! again if the unit cannot be made.

use std::sync::Arc;

use super::names_in_use::Held;
use super::transaction::{Commit, Committed};
use crate::plane::Plane;
use block::BlockDevice;
use config::change::{Change, CreateUnit, NewVolume, Share};
use model::config::default_physical_block_size;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::split;
use model::pool::history::Deed;
use model::{Config, Error, ErrorKind};

impl Plane {
    /// Makes a logical unit, for `lu create`.
    ///
    /// # Errors
    /// The unit could not be made. No new volume remains.
    pub fn create_unit(
        &self,
        request: CreateUnit,
        how: &Commit,
        deed: &Deed,
    ) -> Result<Committed, Error> {
        let _held = self.hold(&request.name, Some(&request));
        let commit = |request| {
            let change = Change::CreateUnit(request);
            self.transactions.commit_seen(&change, how)
        };
        let done = self.with_volume(request, how, deed, commit);
        done.map(|(committed, _)| committed)
    }

    /// Shares a logical unit, for `share`, and makes it if no unit has its name. Returns also the
    /// configuration right after the change.
    ///
    /// # Errors
    /// The errors of [`Plane::create_unit`] apply.
    pub fn share_unit(
        &self,
        request: &Share,
        how: &Commit,
        deed: &Deed,
    ) -> Result<(Committed, Arc<Config>), Error> {
        let _held = self.hold(&request.unit, request.create.as_ref());
        let share = |create: Option<CreateUnit>| {
            let request = Share {
                create,
                ..request.clone()
            };
            let change = Change::Share(request, self.default_portals.clone());
            self.transactions.commit_seen(&change, how)
        };
        let exists = || self.transactions.config().unit(&request.unit).is_some();
        loop {
            let create = request.create.clone();
            let Some(create) = create.filter(|_| !exists()) else {
                match share(None) {
                    // The unit was deleted between the look and the change. It has to be made now.
                    Err(_) if request.create.is_some() && !exists() => continue,
                    done => return done,
                }
            };
            return self.with_volume(create, how, deed, |create| share(Some(create)));
        }
    }

    /// Keeps other requests from making the unit, or a unit on its volume, until this request is
    /// done.
    fn hold(&self, unit: &str, create: Option<&CreateUnit>) -> Held<'_> {
        let volume = create.and_then(|create| create.backend.volume());
        let volume = volume.map(|volume| format!("volume {volume}"));
        let unit = format!("lu {unit}");
        self.making.hold([unit].into_iter().chain(volume).collect())
    }

    fn with_volume(
        &self,
        mut request: CreateUnit,
        how: &Commit,
        deed: &Deed,
        commit: impl FnOnce(CreateUnit) -> Result<(Committed, Arc<Config>), Error>,
    ) -> Result<(Committed, Arc<Config>), Error> {
        let Some(volume) = request.backend.volume().map(str::to_owned) else {
            return match &request.new_volume {
                None => commit(self.described_by_disk(request)),
                Some(_) => Err(Error::invalid(
                    format!(
                        "the backend of logical unit {} is not a volume, so no volume can be created",
                        request.name
                    ),
                    "name a volume as the backend",
                )),
            };
        };
        if !how.dry_run {
            // Another unit may still be listed under this name, which its volume had before. If the
            // new name cannot be stored now, this unit is refused too.
            self.follow_or_tell();
        }
        let Some(new) = request.new_volume.take().filter(|_| !how.dry_run) else {
            return self.described(request, &volume, how).and_then(commit);
        };
        let notices = self.pools.change(&creation(&volume, &new))?.notices;
        let backend = request.backend.clone();
        let name = request.name.clone();
        let mut done = self.described(request, &volume, how).and_then(commit);
        // Another request may have made the unit on a different backend first.
        let is_used = done.as_ref().is_ok_and(|(_, config)| {
            config
                .unit(&name)
                .is_some_and(|unit| unit.backend == backend)
        });
        match is_used {
            true => self.pools.note(split(&volume).0, deed),
            false => self.take_back(volume),
        }
        if let Ok((committed, _)) = &mut done {
            committed.notices.extend(notices);
        }
        done
    }

    /// Destroys a volume whose unit could not be made, unless another unit uses the volume by now.
    fn take_back(&self, volume: String) {
        let undo = DatasetChange::Destroy {
            names: vec![volume],
            recursive: false,
            clones: false,
        };
        let _unchanged = self.transactions.unchanged();
        if let Err(error) = self.pools.change_beneath(&undo, &self.served()) {
            tracing::error!(%error, "a volume that was created for a refused logical unit could not be \
                                     removed");
        }
    }

    /// Completes the request with the physical block size that a disk reports, if the backend is a
    /// disk.
    fn described_by_disk(&self, mut request: CreateUnit) -> CreateUnit {
        if request.physical_block_size.is_none() {
            let plane = self.transactions.data_plane();
            let physical = plane.physical_block_size(&request.backend);
            request.physical_block_size = physical.map(supported);
        }
        request
    }

    /// Completes the request with the facts that the pool knows of the volume.
    fn described(
        &self,
        mut request: CreateUnit,
        volume: &str,
        how: &Commit,
    ) -> Result<CreateUnit, Error> {
        match self.pools.open_volume(volume, request.block_size) {
            Ok(opened) => {
                let physical = opened.geometry().physical;
                request
                    .physical_block_size
                    .get_or_insert(supported(physical));
            }
            // The volume may be one that the real request would make.
            Err(_) if how.dry_run => {}
            Err(error) => {
                let (message, next) = (error.message(), error.next());
                return Err(Error::new(ErrorKind::NotFound, message, next));
            }
        }
        Ok(request)
    }
}

/// Limits the physical block size to the largest that ESXi and SQL Server support.
fn supported(physical: u32) -> u32 {
    physical.min(default_physical_block_size())
}

fn creation(name: &str, new: &NewVolume) -> DatasetChange {
    DatasetChange::Create {
        name: name.to_owned(),
        size: Some(new.size),
        block_size: new.block_size,
        sparse: !new.reserve,
        parents: false,
        properties: Default::default(),
    }
}
