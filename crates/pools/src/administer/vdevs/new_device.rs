//! New devices and files of a pool: opened or created for a change, and taken away if the change
//! fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::vdev::{LeafId, LeafSpec, LeafStatus};

use super::super::new_devices::{Over, make_files, open_new};
use super::Site;
use crate::fence::Named;
use crate::import::multihost;
use crate::import::opening::paths;
use crate::order::Hands;
use crate::random_u64;
use crate::setup::Place;
use block::BlockDevice;
use model::Error;
use model::device_name::is_remote;

impl Site<'_> {
    /// Returns what new devices may hold and lose: no devices of this pool. Until the labels say
    /// that a device left its place, data written over it would be taken for parts of blocks. The
    /// leaves that share the slot of `old` are exempt: they hold equal data at equal places.
    pub(super) fn over(&self, force: bool, old: Option<LeafId>) -> Over {
        let is_spare = |leaf: &LeafStatus| self.status.spares_in_use.contains(&leaf.guid);
        let is_old = |leaf: &LeafStatus| Some(leaf.leaf) == old;
        let slots = self.status.top_levels.iter().flat_map(|top| &top.slots);
        let others = slots.flat_map(|slot| {
            let is_own = slot.leaves.iter().any(is_old);
            let leaves = slot.leaves.iter();
            leaves.filter(move |leaf| !is_own || is_spare(leaf) && !is_old(leaf))
        });
        let caches = self.status.caches.iter().map(|cache| cache.guid);
        let beside = caches.chain(self.status.spares.iter().copied());
        Over {
            force,
            pool: self.status.guid,
            name: self.name.to_owned(),
            // Without an engine nothing is added.
            key: self.pool.host.ask(|pool| pool.config().key()).ok(),
            listed: others.map(|leaf| leaf.guid).chain(beside).collect(),
        }
    }

    /// Opens a device that is new to the pool, and gives it a new number.
    pub(super) fn open_new(
        &self,
        path: &Path,
        over: Over,
    ) -> Result<(LeafSpec, Arc<dyn BlockDevice>), Error> {
        if !path.is_absolute() && !is_remote(path) {
            return Err(Error::invalid(
                format!("{} is not an absolute path", path.display()),
                "write the full path, or the name of another machine's disk (naa.…)",
            ));
        }
        self.pools.refuse_own([path])?;
        let device = open_new(self.disks(), path, &over)?;
        self.keep_others_from(&[(path.to_owned(), Arc::clone(&device))], over.force)?;
        let spec = LeafSpec::new(random_u64(), device.geometry().len);
        Ok((spec, device))
    }

    /// Keeps other hosts from writing to the new devices, if the pool is protected or needs
    /// protection because of them.
    pub(super) fn keep_others_from(&self, devices: &[Named], force: bool) -> Result<(), Error> {
        if self.pool.host.fence().is_none() {
            let coming: Vec<PathBuf> = devices.iter().map(|(path, _)| path.clone()).collect();
            let host = self.pools.host_id();
            let change = self.handle("protect", move |hands| {
                multihost::set(hands, &host, &coming)
            })?;
            change.begin(self.pool)?;
        }
        match self.pool.host.fence() {
            Some(fence) => fence.take(devices, force),
            None => Ok(()),
        }
    }

    /// Creates the file that a change needs, and deletes the file if the change is refused.
    pub(super) fn with_file(
        &self,
        path: &Path,
        file_size: Option<u64>,
        change: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = self.pool.host.places();
        let made = make_files([path].into_iter(), file_size)?;
        change().inspect_err(|_| self.take_away(&made, &before))
    }

    /// Deletes the files that were created for a failed change. `before` holds the places that were
    /// known before the change.
    pub(super) fn take_away(&self, made: &[PathBuf], before: &BTreeMap<u64, Place>) {
        let places = self.pool.host.places().into_iter();
        let new = places.filter(|(guid, _)| !before.contains_key(guid));
        let used: Vec<PathBuf> = new.map(|(_, at)| at.path).collect();
        for path in made.iter().filter(|path| !used.contains(path)) {
            // The files were created here, and hold nothing.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Attaches the device of a new leaf and notes its place.
pub(super) fn settle_in(
    hands: &mut Hands<'_>,
    leaf: LeafId,
    guid: u64,
    place: Place,
    device: Arc<dyn BlockDevice>,
) {
    hands.devices.attach(leaf, device);
    hands.shared.places().insert(guid, place);
    hands.pool.set_paths(paths(&hands.shared.places()));
}
