//! New logical units: what nobody said of their physical blocks is asked of what lies beneath. A volume is
//! made first where it is asked for, and goes again where the unit cannot be made.

use super::api::Plane;
use super::transaction::{Commit, Committed};
use crate::block::BlockDevice;
use crate::config::change::{Change, CreateUnit, NewVolume, Share};
use crate::config::model::{BackendSpec, default_physical_block_size};
use crate::config::{Error, ErrorKind};
use crate::pool::dataset::{DatasetChange, split};
use crate::pool::history::Deed;

impl Plane {
    /// `lu create`
    ///
    /// # Errors
    /// What was wrong; there is no volume that was not there before.
    pub fn create_unit(
        &self,
        request: CreateUnit,
        how: Commit,
        deed: &Deed,
    ) -> Result<Committed, Error> {
        self.with_volume(request, how, deed, |request| {
            self.transactions.commit(&Change::CreateUnit(request), how)
        })
    }

    /// `share`, with a unit that is made where there is none of its name.
    ///
    /// # Errors
    /// As of [`Plane::create_unit`].
    pub fn share_unit(&self, request: Share, how: Commit, deed: &Deed) -> Result<Committed, Error> {
        let exists = self.transactions.config().unit(&request.unit).is_some();
        match request.create.clone().filter(|_| !exists) {
            None => self.transactions.commit(&Change::Share(request), how),
            Some(create) => self.with_volume(create, how, deed, |create| {
                let create = Some(create);
                let change = Change::Share(Share { create, ..request });
                self.transactions.commit(&change, how)
            }),
        }
    }

    fn with_volume(
        &self,
        mut request: CreateUnit,
        how: Commit,
        deed: &Deed,
        commit: impl FnOnce(CreateUnit) -> Result<Committed, Error>,
    ) -> Result<Committed, Error> {
        let BackendSpec::Volume { volume } = request.backend.clone() else {
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
        let new = request.new_volume.take().filter(|_| !how.dry_run);
        let mut notices = Vec::new();
        if let Some(new) = &new {
            notices = self.pools.change(&creation(&volume, new))?.notices;
        }
        let mut committed = self.described(request, &volume, how).and_then(commit);
        if committed.is_ok() && new.is_some() {
            self.pools.note(split(&volume).0, deed);
        }
        if committed.is_err() && new.is_some() {
            let undo = DatasetChange::Destroy {
                names: vec![volume],
                recursive: false,
                clones: false,
            };
            if let Err(error) = self.pools.change(&undo) {
                tracing::error!(%error, "a volume that was made for a logical unit stays");
            }
        }
        if let Ok(committed) = &mut committed {
            committed.notices.extend(notices);
        }
        committed
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
        how: Commit,
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
