//! What a pool gets besides, and gives back: `pool add`, `remove`.

use std::path::{Path, PathBuf};

use store::vdev::{Class, Kind, TopLevelSpec, TopLevelStatus};

use super::super::create::{make_files, redundancies};
use super::super::host::Place;
use super::super::label;
use super::super::opening::paths;
use super::super::vdev_request::{Additions, VdevRequest};
use super::new_device::settle_in;
use super::{Site, failed, is_meant};
use crate::block::BlockDevice;
use crate::config::{Error, ErrorKind};

/// What can be taken away from a pool, because no block lies there that is nowhere else.
#[derive(Clone, Debug)]
enum Removable {
    /// A log vdev.
    Log(u16),
    /// A cache vdev.
    Cache(u64),
    /// A spare that stands ready, and where.
    Spare(u64, PathBuf),
}

impl Site<'_> {
    pub(super) fn add(
        &self,
        what: Additions<'_>,
        force: bool,
        file_size: Option<u64>,
    ) -> Result<(), Error> {
        what.check()?;
        self.check_redundancy(what.vdevs, force)?;
        let made = make_files(what.paths(), file_size)?;
        let add = || {
            self.add_vdevs(what.vdevs, Class::Normal, force)?;
            self.add_vdevs(what.logs, Class::Log, force)?;
            self.add_caches(what.caches, force)?;
            self.add_spares(what.spares, force)
        };
        add().inspect_err(|_| self.take_away(&made))
    }

    fn add_vdevs(&self, vdevs: &[VdevRequest], class: Class, force: bool) -> Result<(), Error> {
        for vdev in vdevs {
            let mut leaves = Vec::new();
            let mut specs = Vec::new();
            for path in &vdev.paths {
                let (spec, device) = self.open_new(path, force)?;
                leaves.push((spec.guid, path.clone(), device));
                specs.push(spec);
            }
            let top = TopLevelSpec::new(vdev.kind.kind(), class, specs);
            self.shape("add", &vdev.paths[0], move |hands| {
                hands.pool.add(&top)?;
                for (guid, path, device) in leaves {
                    if let Some(leaf) = hands.pool.leaf(guid) {
                        settle_in(hands, leaf, guid, path, device);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn add_caches(&self, caches: &[PathBuf], force: bool) -> Result<(), Error> {
        for path in caches {
            let (spec, device) = self.open_new(path, force)?;
            self.write_first_label(path, &*device, spec.guid)?;
            let path = path.clone();
            let added = self.handle("add a cache to", move |hands| {
                let leaf = hands.pool.add_cache(&spec)?;
                settle_in(hands, leaf, spec.guid, path, device);
                Ok(())
            })?;
            added.map_err(|error| failed(self.name, "add a cache to", &error))?;
        }
        Ok(())
    }

    /// Says on a device that is no vdev's leaf whose it is.
    fn write_first_label(
        &self,
        path: &Path,
        device: &dyn BlockDevice,
        guid: u64,
    ) -> Result<(), Error> {
        let config = self.pool.host.ask(|pool| pool.config().clone());
        let config = config.map_err(|error| failed(self.name, "add a device to", &error))?;
        label::write_beside(device, &config, guid)
            .map_err(|error| label::failed("write", path, error))
    }

    fn add_spares(&self, spares: &[PathBuf], force: bool) -> Result<(), Error> {
        for path in spares {
            let (spec, device) = self.open_new(path, force)?;
            self.write_first_label(path, &*device, spec.guid)?;
            let path = path.clone();
            self.handle("add a spare to", move |hands| {
                let guid = spec.guid;
                let mut spares = hands.pool.config().spares.clone();
                spares.push(spec);
                hands.devices.keep_spare(guid, device);
                let place = Place {
                    path,
                    ..Place::default()
                };
                hands.shared.places().insert(guid, place);
                hands.pool.set_spares(spares);
                hands.pool.set_paths(paths(&hands.shared.places()));
            })?;
        }
        Ok(())
    }

    /// Vdevs that are added may lose as many devices as those that there are.
    fn check_redundancy(&self, vdevs: &[VdevRequest], force: bool) -> Result<(), Error> {
        let there = redundancies(&self.status);
        let first = there.first().copied().unwrap_or(0);
        // Where they differ already, that was wanted.
        let is_alike = there.iter().all(|one| *one == first);
        let mut new = vdevs.iter().map(VdevRequest::redundancy);
        match new.find(|other| *other != first) {
            Some(other) if !force && is_alike => Err(Error::invalid(
                format!(
                    "mismatched replication level: pool {} and what is added can lose {first} and {other} devices",
                    self.name
                ),
                "the pool is lost with its weakest vdev: make them alike, or use -f to add it all the same",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn remove(&self, names: &[String]) -> Result<(), Error> {
        let leaving: Result<Vec<Removable>, Error> =
            names.iter().map(|name| self.removable(name)).collect();
        for one in leaving? {
            match one {
                Removable::Log(vdev) => {
                    let removed = self.pool.host.remove_log(vdev);
                    removed.map_err(|error| failed(self.name, "remove a log from", &error))?;
                }
                Removable::Cache(guid) => {
                    let removed = self.handle("remove a cache from", move |hands| {
                        hands.pool.remove_cache(guid, hands.now_us)
                    })?;
                    removed.map_err(|error| failed(self.name, "remove a cache from", &error))?;
                }
                Removable::Spare(guid, path) => self.remove_spare(guid, path)?,
            }
        }
        Ok(())
    }

    /// What a name means of what can be removed.
    fn removable(&self, name: &str) -> Result<Removable, Error> {
        let places = self.pool.host.places();
        let path = |guid: &u64| places.get(guid).map(|place| place.path.clone());
        let is_it = |guid: &u64| is_meant(name, *guid, &path(guid).unwrap_or_default());
        if let Some(guid) = self.status.spares.iter().find(|guid| is_it(guid)) {
            return Ok(Removable::Spare(*guid, path(guid).unwrap_or_default()));
        }
        if let Some(guid) = self.cache(name) {
            return Ok(Removable::Cache(guid));
        }
        let mut logs = self.status.top_levels.iter();
        let log = logs.find(|top| top.class == Class::Log && is_log(top, name, &is_it));
        let refuse = |why: &str, next: String| {
            let message = format!("cannot remove {name}: {why}");
            Err(Error::new(ErrorKind::Refused, message, next))
        };
        match log {
            Some(top) if top.kind == Kind::Leaf || name == title(top) => {
                Ok(Removable::Log(top.vdev))
            }
            Some(top) => refuse(
                "it is half of a mirrored log",
                format!(
                    "use `sandstone pool remove {pool} {}` for the whole log, `sandstone pool detach {pool} {name}` \
                     for this device alone",
                    title(top),
                    pool = self.name
                ),
            ),
            None => {
                // One that is not there at all is told so.
                self.find(name)?;
                refuse(
                    "only logs, caches and spares that stand ready can be removed",
                    format!(
                        "use `sandstone pool detach {} DEVICE` for devices of mirrors and spares in use, \
                         `replace` for all others",
                        self.name
                    ),
                )
            }
        }
    }

    fn remove_spare(&self, guid: u64, path: PathBuf) -> Result<(), Error> {
        let device = self.handle("remove a spare from", move |hands| {
            let mut spares = hands.pool.config().spares.clone();
            spares.retain(|spare| spare.guid != guid);
            hands.pool.set_spares(spares);
            hands.shared.places().remove(&guid);
            hands.pool.set_paths(paths(&hands.shared.places()));
            hands.devices.take_spare(guid)
        })?;
        let synced = self.pool.host.sync();
        synced.map_err(|error| failed(self.name, "remove a spare from", &error))?;
        // What is not there, or cannot be written, is no spare any more either way.
        // One that was away when the pool was opened may be there by now.
        if let Some(device) = device.or_else(|| self.disks().open(&path).ok())
            && let Err(error) = label::wipe_leaf(&*device, guid)
        {
            let path = path.display();
            tracing::warn!(%path, %error, "the labels of a spare that was removed are not wiped");
        }
        Ok(())
    }
}

/// Whether a name means a log vdev, or a leaf of it.
fn is_log(top: &TopLevelStatus, name: &str, is_it: &dyn Fn(&u64) -> bool) -> bool {
    let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
    top.kind != Kind::Hole && name == title(top) || leaves.any(|leaf| is_it(&leaf.guid))
}

/// What a mirrored log is called in the pool's status.
fn title(top: &TopLevelStatus) -> String {
    format!("mirror-{}", top.vdev)
}
