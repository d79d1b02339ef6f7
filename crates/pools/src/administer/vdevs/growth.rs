//! Devices that are added to a pool or taken away from it: `pool add`, `remove`.

use std::path::PathBuf;
use std::sync::Arc;

use store::vdev::{Class, ShapeError, TopLevelKind, TopLevelStatus};

use super::super::create::redundancies;
use super::super::new_devices::{NewDevices, check_devices, make_files};
use super::super::vdev_request::check;
use super::{Site, failed, in_turn, is_meant, refused};
use crate::devices::label;
use crate::import::opening::paths;
use crate::order::Hands;
use model::pool::vdev_request::{Additions, VdevRequest};
use model::{Error, ErrorKind};

/// Device or vdev that can be removed, because it holds no block that is nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Removable {
    /// Log vdev.
    Log(u16),
    /// Cache vdev.
    Cache(u64),
    /// Ready spare, and its path.
    Spare(u64, PathBuf),
}

impl Site<'_> {
    /// Adds all new devices or none. Every possible refusal comes before the first change.
    pub(super) fn add(
        &self,
        what: Additions<'_>,
        force: bool,
        file_size: Option<u64>,
    ) -> Result<(), Error> {
        self.check_addition(what, force)?;
        let before = self.pool.host.places();
        let made = make_files(what.paths(), file_size)?;
        let new = NewDevices::open(self.disks(), what, &self.over(force, None));
        let added = new.and_then(|new| {
            self.keep_others_from(&new.named(), force)?;
            self.add_devices(new)
        });
        added.inspect_err(|_| self.take_away(&made, &before))
    }

    /// Checks that the additions are allowed and possible, and changes nothing.
    pub(super) fn would_add(
        &self,
        what: Additions<'_>,
        force: bool,
        file_size: Option<u64>,
    ) -> Result<(), Error> {
        self.check_addition(what, force)?;
        check_devices(
            self.disks(),
            what.paths(),
            file_size,
            &self.over(force, None),
        )
    }

    fn check_addition(&self, what: Additions<'_>, force: bool) -> Result<(), Error> {
        check(what)?;
        self.pools.refuse_own(what.paths())?;
        self.check_redundancy(what.vdevs, force)?;
        self.require_changes()
    }

    /// Adds open devices in one step of the pool's thread.
    fn add_devices(&self, new: NewDevices) -> Result<(), Error> {
        let first = new.leaves.first().map(|leaf| leaf.place.path.clone());
        let config = self.pool.host.ask(|pool| pool.config().clone());
        let config = config.map_err(|error| failed(self.name, "add devices to", &error))?;
        new.label_beside(&config)?;
        let (added, new) = self.handle("add devices to", move |hands| {
            (settle_all(hands, &new), new)
        })?;
        added.map_err(|error| {
            // Not on the pool's thread: a device that hangs must not block the thread.
            new.unlabel_beside();
            refused("add", &first.unwrap_or_default(), &error)
        })
    }

    /// Checks that new vdevs may lose as many devices as the vdevs of the pool.
    fn check_redundancy(&self, vdevs: &[VdevRequest], force: bool) -> Result<(), Error> {
        let there = redundancies(&self.status);
        let first = there.first().copied().unwrap_or(0);
        // If the vdevs already differ, the administrator meant them to.
        let is_alike = there.iter().all(|one| *one == first);
        let mut new = vdevs.iter().map(VdevRequest::redundancy);
        match new.find(|other| *other != first) {
            Some(other) if !force && is_alike => Err(Error::invalid(
                format!(
                    "mismatched replication level: the vdevs of pool {} can lose {first} devices, a new vdev \
                     {other}",
                    self.name
                ),
                "the pool is lost with its weakest vdev: give all vdevs the same redundancy, or use -f to \
                 add it anyway",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn remove(&self, names: &[String]) -> Result<(), Error> {
        let mut leaving: Vec<(&str, Removable)> = Vec::new();
        for name in names {
            let one = self.removable(name)?;
            // A device that is named twice, for example by path and by number, is removed once.
            if leaving.iter().all(|(_, other)| *other != one) {
                leaving.push((name, one));
            }
        }
        in_turn("removed", leaving, |one| self.remove_one(one))
    }

    fn remove_one(&self, one: Removable) -> Result<(), Error> {
        match one {
            Removable::Log(vdev) => {
                let removed = self.pool.host.remove_log(vdev);
                removed.map_err(|error| failed(self.name, "remove a log from", &error))
            }
            Removable::Cache(guid) => {
                let removed = self.handle("remove a cache from", move |hands| {
                    hands.pool.remove_cache(guid, hands.now_us)
                })?;
                removed.map_err(|error| failed(self.name, "remove a cache from", &error))
            }
            Removable::Spare(guid, path) => self.remove_spare(guid, path),
        }
    }

    /// Returns the removable device that `name` means.
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
            Some(top) if top.kind == TopLevelKind::Leaf || name == title(top) => {
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
                // If the pool has no such device, the error says so.
                self.find(name)?;
                refuse(
                    "only logs, caches and available spares can be removed",
                    format!(
                        "use `sandstone pool detach {} DEVICE` for devices of mirrors and spares in use, \
                         `replace` for all other devices",
                        self.name
                    ),
                )
            }
        }
    }

    fn remove_spare(&self, guid: u64, path: PathBuf) -> Result<(), Error> {
        let removed = self.handle("remove a spare from", move |hands| {
            hands.pool.remove_spare(guid)?;
            hands.shared.places().remove(&guid);
            hands.pool.set_paths(paths(&hands.shared.places()));
            Ok(hands.devices.take_spare(guid))
        })?;
        // The spare may have been called at this moment.
        let device = removed.map_err(|error| refused("remove", &path, &error))?;
        let synced = self.pool.host.sync();
        synced.map_err(|error| failed(self.name, "remove a spare from", &error))?;
        // A spare that is missing, or that cannot be written, stops being a spare either way. A
        // device that was missing when the pool was opened may be there by now.
        if let Some(device) = device.or_else(|| self.disks().open(&path).ok())
            && let Err(error) = label::wipe_leaf(&*device, guid)
        {
            let path = path.display();
            tracing::warn!(%path, %error, "the labels of a removed spare could not be wiped");
        }
        Ok(())
    }
}

/// Gives a pool all new devices, or none.
fn settle_all(hands: &mut Hands<'_>, new: &NewDevices) -> Result<(), ShapeError> {
    hands.pool.require_label_room(new.leaves.len())?;
    hands.pool.add_all(&new.top_levels, &new.caches)?;
    for leaf in &new.leaves {
        hands.shared.places().insert(leaf.guid, leaf.place.clone());
        let device = Arc::clone(&leaf.device);
        match hands.pool.leaf(leaf.guid) {
            Some(of_pool) => hands.devices.attach(of_pool, device),
            None => hands.devices.keep_spare(leaf.guid, device),
        }
    }
    if !new.spares.is_empty() {
        hands.pool.add_spares(new.spares.iter().cloned());
    }
    hands.pool.set_paths(paths(&hands.shared.places()));
    Ok(())
}

/// Reports whether `name` means a log vdev, or a leaf of one.
fn is_log(top: &TopLevelStatus, name: &str, is_it: &dyn Fn(&u64) -> bool) -> bool {
    let mut leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
    top.kind != TopLevelKind::Hole && name == title(top) || leaves.any(|leaf| is_it(&leaf.guid))
}

/// Returns the name of a mirrored log in the pool's status.
fn title(top: &TopLevelStatus) -> String {
    format!("mirror-{}", top.vdev)
}
