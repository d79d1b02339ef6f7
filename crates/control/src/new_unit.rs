//! New logical units: what nobody said of their physical blocks is asked of what lies beneath. A volume is
//! made first where it is asked for, and goes again where the unit cannot be made.

use std::sync::Arc;

use super::api::Plane;
use super::names_in_use::Held;
use super::transaction::{Commit, Committed};
use block::BlockDevice;
use config::change::{Change, CreateUnit, NewVolume, Share};
use model::config::default_physical_block_size;
use model::pool::dataset::change::DatasetChange;
use model::pool::dataset::name::split;
use model::pool::history::Deed;
use model::{Config, Error, ErrorKind};

impl Plane {
    /// `lu create`
    ///
    /// # Errors
    /// What was wrong; there is no volume that was not there before.
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

    /// `share`, with a unit that is made where there is none of its name; and the configuration right after it.
    ///
    /// # Errors
    /// As of [`Plane::create_unit`].
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
                    // It was deleted between the look and the change: now it has to be made.
                    Err(_) if request.create.is_some() && !exists() => continue,
                    done => return done,
                }
            };
            return self.with_volume(create, how, deed, |create| share(Some(create)));
        }
    }

    /// Keeps others from making the same unit, or a unit on the same volume, until this one is made.
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
                        "logical unit {} is on no volume that could be made",
                        request.name
                    ),
                    "name a volume as its backend",
                )),
            };
        };
        if !how.dry_run {
            // Another unit may still be listed under this name, which its volume had before. What cannot be stored now
            // refuses this unit as well.
            self.follow_or_tell();
        }
        let Some(new) = request.new_volume.take().filter(|_| !how.dry_run) else {
            return self.described(request, &volume, how).and_then(commit);
        };
        let notices = self.pools.change(&creation(&volume, &new))?.notices;
        let backend = request.backend.clone();
        let name = request.name.clone();
        let mut done = self.described(request, &volume, how).and_then(commit);
        // Somebody may have made the unit of something else, before this one came to it.
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

    /// Destroys a volume that was made for a unit which there is not, unless somebody else has made one of it.
    fn take_back(&self, volume: String) {
        let undo = DatasetChange::Destroy {
            names: vec![volume],
            recursive: false,
            clones: false,
        };
        let _unchanged = self.transactions.unchanged();
        if let Err(error) = self.pools.change_beneath(&undo, &self.served()) {
            tracing::error!(%error, "a volume that was made for a logical unit stays");
        }
    }

    /// The request with what a disk tells of itself, where it is one of a disk.
    fn described_by_disk(&self, mut request: CreateUnit) -> CreateUnit {
        if request.physical_block_size.is_none() {
            let plane = self.transactions.data_plane();
            let physical = plane.physical_block_size(&request.backend);
            request.physical_block_size = physical.map(supported);
        }
        request
    }

    /// The request with what the pool knows of the volume.
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
            // It may be one that would be made.
            Err(_) if how.dry_run => {}
            Err(error) => {
                let (problem, next) = (error.problem(), error.advice());
                return Err(Error::new(ErrorKind::NotFound, problem, next));
            }
        }
        Ok(request)
    }
}

/// ESXi and SQL Server support no larger ones.
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
