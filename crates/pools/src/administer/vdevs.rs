//! Changes to the devices of a pool while it is in use: `pool offline`, `online`, `attach`,
//! `replace`, `detach`, `add`, `remove`, `clear`.
//!
//! Devices are opened here, never on the pool's thread. If an opening hangs, only its requester
//! waits, and not forever. A change is answered once the labels hold it.
//!
//! This file holds the changes, the ways to name a device and the wording of refusals. The verbs
//! are in the files beside it.

mod exchange;
mod growth;
mod new_device;
mod presence;

use std::path::{Path, PathBuf};

use store::engine::{PoolError, PoolStatus};
use store::vdev::{LeafStatus, ShapeError, ShapeErrorKind};

use crate::devices::disks::Disks;
use crate::import::multihost;
use crate::order::Hands;
use crate::registry::{OpenPool, Pools};
use crate::status::layout;
use model::pool::status::PoolView;
use model::pool::vdev_change::VdevChange;
use model::pool::vdev_request::Additions;
use model::{Error, ErrorKind};

/// Pool that is to be changed.
struct Site<'a> {
    name: &'a str,
    pools: &'a Pools,
    pool: &'a OpenPool,
    status: PoolStatus,
}

/// Leaf that the user named.
#[derive(Clone, Debug)]
struct Named {
    leaf: LeafStatus,
    vdev: u16,
    path: PathBuf,
}

impl Pools {
    /// Changes the devices of a pool, and returns once the labels hold the change.
    ///
    /// # Errors
    /// The reason that prevents the change.
    pub fn change_vdevs(&self, name: &str, change: &VdevChange) -> Result<(), Error> {
        let _changing = self.changing();
        let pool = self.get(name)?;
        pool.require_writable()?;
        if matches!(change, VdevChange::Clear { .. }) && is_stopped(&pool) {
            return self.reopen(name, &pool);
        }
        let status = pool.host.ask(|engine| engine.status());
        let status = status.map_err(|error| failed(name, "change", &error))?;
        let before = pool.host.places();
        let _reserved = change.takes().map(|new| self.reserve(new)).transpose()?;
        let site = Site {
            name,
            pools: self,
            pool: &pool,
            status,
        };
        let changed = site.change(change);
        // After a refusal too: with several devices, those before the refused one are already
        // changed.
        let synced = pool.host.sync();
        let synced = synced.and_then(|()| self.reconsider_protection(&pool));
        let saved = match change.takes() {
            Some(_) => self.save(),
            None => {
                self.keep();
                Ok(())
            }
        };
        changed?;
        saved?;
        synced.map_err(|error| {
            failed(name, "change", &error)
                .not_changed("the change is in force, and may be lost when the daemon ends")
        })?;
        // This comes last: by now the labels show that the devices are no longer those that units
        // had.
        let after = pool.host.places().into_iter();
        let mut new = after.filter(|(guid, _)| !before.contains_key(guid));
        new.try_for_each(|(_, at)| self.lent().take_back(&at.path))
    }

    /// Reviews the protection of a pool after a change. A disk that other hosts can reach may have
    /// left the pool, or was refused; then other hosts are no longer kept from it.
    fn reconsider_protection(&self, pool: &OpenPool) -> Result<(), PoolError> {
        let host = self.host_id();
        let change = pool
            .host
            .handle(move |hands| multihost::set(hands, &host, &[]))?;
        if matches!(change, multihost::Change::None) {
            return Ok(());
        }
        if let Err(error) = change.begin(pool) {
            tracing::warn!(%error, "only the pool's activity records protect it");
        }
        let synced = pool.host.sync();
        change.end(pool);
        synced
    }

    /// Waits until all writes that the pool has taken are durable and in a checkpoint, including
    /// writes that no host asked to flush.
    ///
    /// # Errors
    /// The pool does not exist, or takes no changes, or no longer. Unflushed writes may then be
    /// lost.
    pub fn sync(&self, name: &str) -> Result<(), Error> {
        let pool = self.get(name)?;
        pool.require_writable()?;
        let synced = pool.host.sync();
        synced.map_err(|error| {
            failed(name, "sync", &error).not_changed("unflushed writes may not be durable")
        })
    }

    /// Returns the layout that the pool would have after an addition, and changes nothing.
    ///
    /// # Errors
    /// The reason that prevents the addition.
    pub fn would_add(&self, name: &str, change: &VdevChange) -> Result<PoolView, Error> {
        let _changing = self.changing();
        let pool = self.get(name)?;
        pool.require_writable()?;
        let status = pool.host.ask(|engine| engine.status());
        let status = status.map_err(|error| failed(name, "inspect", &error))?;
        let mut view = self.view(name)?;
        let site = Site {
            name,
            pools: self,
            pool: &pool,
            status,
        };
        if let VdevChange::Add {
            vdevs,
            logs,
            caches,
            spares,
            force,
            file_size,
            ..
        } = change
        {
            let what = Additions {
                vdevs,
                logs,
                caches,
                spares,
            };
            site.would_add(what, *force, *file_size)?;
            layout(&mut view, what);
        }
        Ok(view)
    }
}

impl Site<'_> {
    /// Makes the requested change. The labels hold it later.
    fn change(&self, change: &VdevChange) -> Result<(), Error> {
        match change {
            VdevChange::Offline { devices } => self.offline(devices),
            VdevChange::Online { devices, expand } => self.online(devices, *expand),
            VdevChange::Attach {
                device,
                new,
                force,
                file_size,
            } => self.with_file(new, *file_size, || self.attach(device, new, *force)),
            VdevChange::Replace {
                device,
                new,
                force,
                file_size,
            } => {
                let at = match new {
                    Some(new) => new.clone(),
                    None => self.find(device)?.path,
                };
                let new = new.as_deref();
                self.with_file(&at, *file_size, || self.replace(device, new, *force))
            }
            VdevChange::Detach { device } => self.detach(device),
            VdevChange::Add {
                vdevs,
                logs,
                caches,
                spares,
                force,
                file_size,
                ..
            } => {
                let what = Additions {
                    vdevs,
                    logs,
                    caches,
                    spares,
                };
                self.add(what, *force, *file_size)
            }
            VdevChange::Remove { devices } => self.remove(devices),
            VdevChange::Clear { devices } => self.clear(devices),
        }
    }
}

/// Reports whether the pool takes no more changes and can be reopened.
fn is_stopped(pool: &OpenPool) -> bool {
    let is_suspended = pool.host.ask(|engine| engine.suspended_because().is_some());
    let shut = pool.host.shut();
    is_suspended.unwrap_or_else(|_| shut.is_some_and(|shut| shut.is_to_be_reopened))
}

impl Site<'_> {
    fn disks(&self) -> &Disks {
        &self.pools.options.disks
    }

    fn leaves(&self) -> Vec<Named> {
        let places = self.pool.host.places();
        let tops = self.status.top_levels.iter();
        let leaves = tops.flat_map(|top| {
            let leaves = top.slots.iter().flat_map(|slot| &slot.leaves);
            leaves.map(|leaf| (top.vdev, leaf.clone()))
        });
        leaves
            .map(|(vdev, leaf)| {
                let place = places.get(&leaf.guid).cloned().unwrap_or_default();
                Named {
                    leaf,
                    vdev,
                    path: place.path,
                }
            })
            .collect()
    }

    /// Returns the cache that `name` means.
    fn cache(&self, name: &str) -> Option<u64> {
        let places = self.pool.host.places();
        let mut guids = self.status.caches.iter().map(|cache| cache.guid);
        guids.find(|guid| {
            let path = places.get(guid).map(|place| place.path.clone());
            is_meant(name, *guid, &path.unwrap_or_default())
        })
    }

    /// Returns the spare that `name` means, if it stands ready or only lacks its device.
    fn spare(&self, name: &str) -> Option<u64> {
        let places = self.pool.host.places();
        let mut guids = self.status.spares.iter().copied();
        guids.find(|guid| {
            let path = places.get(guid).map(|place| place.path.clone());
            is_meant(name, *guid, &path.unwrap_or_default())
        })
    }

    fn find_all(&self, names: &[String]) -> Result<Vec<Named>, Error> {
        names.iter().map(|name| self.find(name)).collect()
    }

    fn find(&self, name: &str) -> Result<Named, Error> {
        let mut found = self.leaves();
        found.retain(|named| is_meant(name, named.leaf.guid, &named.path));
        let numbers: Vec<String> = found
            .iter()
            .map(|named| format!("{:016x} ({})", named.leaf.guid, named.leaf.state))
            .collect();
        match (found.pop(), found.is_empty()) {
            (Some(named), true) => Ok(named),
            (Some(_), false) => Err(Error::invalid(
                format!("several devices of pool {} are called {name}", self.name),
                format!(
                    "give the full path, or the number of one device: {}",
                    numbers.join(", ")
                ),
            )),
            (None, _) if self.cache(name).is_some() => Err(Error::invalid(
                format!(
                    "{name} is a cache of pool {}, and no data depends on it",
                    self.name
                ),
                format!(
                    "use `sandstone pool remove {pool} {name}` to remove it, `sandstone pool online {pool} \
                     {name}` to use it again after a failure",
                    pool = self.name
                ),
            )),
            (None, _) => Err(Error::not_found(
                format!("pool {} has no device {name}", self.name),
                format!("see `sandstone pool status {}`", self.name),
            )),
        }
    }

    fn handle<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Hands<'_>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.pool.host.handle(work);
        done.map_err(|error| failed(self.name, doing, &error))
    }

    /// Changes the tree, and words the refusal.
    fn shape(
        &self,
        doing: &str,
        path: &Path,
        work: impl FnOnce(&mut Hands<'_>) -> Result<(), ShapeError> + Send + 'static,
    ) -> Result<(), Error> {
        self.require_changes()?;
        self.handle(doing, work)?
            .map_err(|error| refused(doing, path, &error))
    }

    /// Refuses to change a pool that takes no more changes.
    fn require_changes(&self) -> Result<(), Error> {
        let Some(reason) = &self.status.suspended else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Refused,
            format!("pool {} takes no changes: {reason}", self.name),
            format!(
                "check its devices, then use `sandstone pool clear {}`, which reopens the pool",
                self.name
            ),
        ))
    }
}

/// Makes a change to several devices, one after the other. If one device is refused, the error
/// names the devices that were `done` before and stay changed.
fn in_turn<T>(
    done: &str,
    devices: impl IntoIterator<Item = (impl ToString, T)>,
    mut change: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut before: Vec<String> = Vec::new();
    for (name, device) in devices {
        change(device).map_err(|error| match before.is_empty() {
            true => error,
            false => error.not_changed(format!(
                "{} had been {done} before and stays so; the other devices were not changed",
                before.join(", ")
            )),
        })?;
        before.push(name.to_string());
    }
    Ok(())
}

/// Reports whether `word` means the leaf: its path, the last part of its path, or its number.
pub(crate) fn is_meant(word: &str, guid: u64, path: &Path) -> bool {
    word == format!("{guid:016x}")
        || is_same(Path::new(word), path)
        || !word.contains('/') && path.file_name().is_some_and(|name| name == word)
}

/// Reports whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    one == other || one.is_absolute() && real(one).is_some_and(|one| real(other) == Some(one))
}

fn failed(name: &str, doing: &str, error: &PoolError) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot {doing} pool {name}: {error}"),
        format!("see `sandstone pool status {name}`"),
    )
}

/// Words the refusal of a change to the tree, with the remedy.
fn refused(doing: &str, path: &Path, error: &ShapeError) -> Error {
    let path = path.display();
    let (why, next) = match error.kind {
        ShapeErrorKind::NotRedundant => (
            "no valid replicas: the other devices do not hold all of its data".to_owned(),
            "wait for the resilver to end, or attach or replace a device first",
        ),
        ShapeErrorKind::Busy => (
            error.context.clone(),
            "try again when the device has answered, or remove it from the machine first",
        ),
        ShapeErrorKind::TooSmall => (
            format!("device is too small: {}", error.context),
            "use a device that is at least as large as the smallest device of the vdev",
        ),
        ShapeErrorKind::WrongKind => (error.context.clone(), "see `sandstone pool status`"),
        ShapeErrorKind::NoSuchLeaf | ShapeErrorKind::Away | ShapeErrorKind::InUse => {
            (error.to_string(), "see `sandstone pool status`")
        }
    };
    Error::new(
        ErrorKind::Refused,
        format!("cannot {doing} {path}: {why}"),
        next,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_meant_by_path_name_or_number() {
        let path = Path::new("/dev/disk/by-id/x1");
        for word in ["/dev/disk/by-id/x1", "x1", "00000000000000ff"] {
            assert!(is_meant(word, 255, path), "{word}");
        }
        for word in ["by-id/x1", "x2", "ff", "/dev/x1"] {
            assert!(!is_meant(word, 255, path), "{word}");
        }
    }
}
