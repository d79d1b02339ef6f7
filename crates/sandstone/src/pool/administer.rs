//! What a pool is made of, changed while it is in use: `pool offline`, `online`, `attach`, `replace`,
//! `detach`, `add`, `remove`, `clear`.
//!
//! Devices are opened here, never on the pool's thread: opening one that hangs keeps only who asked for it
//! waiting, and not for ever ([`devices::open`]). A change is answered when the labels have it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::pool::{PoolError, PoolStatus};
use store::vdev::{
    Class, LeafId, LeafSpec, LeafStatus, ShapeError, ShapeErrorKind, State, TopLevelSpec,
};
use utoipa::ToSchema;

use super::create::{VdevRequest, check_devices, make_files, open_new, redundancies};
use super::host::{Hands, Place};
use super::opening::paths;
use super::registry::{OpenPool, Pools};
use super::{devices, label};
use crate::block::BlockDevice;
use crate::config::quantity::format_size;
use crate::config::{Error, ErrorKind};

/// A change of what a pool is made of. Devices are named by their paths, or by the last part of these, or
/// by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum VdevChange {
    /// Puts devices aside.
    Offline {
        /// Which.
        devices: Vec<String>,
    },
    /// Uses devices again that were put aside, failed or were away.
    Online {
        /// Which.
        devices: Vec<String>,
        /// Use all of the space that they have by now.
        #[serde(default)]
        expand: bool,
    },
    /// Makes a mirror of a device, or adds one to its mirror.
    Attach {
        /// To which.
        device: String,
        /// The new one.
        #[schema(value_type = String)]
        new: PathBuf,
        /// Also where another pool's labels are on it.
        #[serde(default)]
        force: bool,
        /// Make a file of this size, in bytes, where there is none.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Rebuilds a device on another one, which then takes its place.
    Replace {
        /// Which.
        device: String,
        /// The new one; without it, another one at the same path. A spare stands in at once.
        #[serde(default)]
        #[schema(value_type = Option<String>)]
        new: Option<PathBuf>,
        /// Also where another pool's labels are on it.
        #[serde(default)]
        force: bool,
        /// Make a file of this size, in bytes, where there is none.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Takes a device out of its mirror, out of a replacement, or a spare out of use.
    Detach {
        /// Which.
        device: String,
    },
    /// Adds top-level vdevs and spares.
    Add {
        /// The vdevs.
        #[serde(default)]
        vdevs: Vec<VdevRequest>,
        /// Devices that stand ready.
        #[serde(default)]
        #[schema(value_type = Vec<String>)]
        spares: Vec<PathBuf>,
        /// Also where another pool's labels are on them, or redundancy differs.
        #[serde(default)]
        force: bool,
        /// Make files of this size, in bytes, where there are none.
        #[serde(default)]
        file_size: Option<u64>,
    },
    /// Takes away spares that stand ready.
    Remove {
        /// Which.
        devices: Vec<String>,
    },
    /// Forgets errors, and tries devices again that failed.
    Clear {
        /// Which; none is all.
        #[serde(default)]
        devices: Vec<String>,
    },
}

/// A pool at which something is changed.
struct Site<'a> {
    name: &'a str,
    pool: &'a OpenPool,
    status: PoolStatus,
}

/// A leaf that was named.
#[derive(Clone, Debug)]
struct Named {
    leaf: LeafStatus,
    vdev: u16,
    path: PathBuf,
}

impl Pools {
    /// Changes what a pool is made of; returns when the labels have it.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn change_vdevs(&self, name: &str, change: &VdevChange) -> Result<(), Error> {
        let _changing = self.changing();
        let pool = self.get(name)?;
        let status = pool.host.ask(|engine| engine.status());
        let status = status.map_err(|error| failed(name, "change", &error))?;
        let site = Site {
            name,
            pool: &pool,
            status,
        };
        match change {
            VdevChange::Offline { devices } => site.offline(devices),
            VdevChange::Online { devices, expand } => site.online(devices, *expand),
            VdevChange::Attach {
                device,
                new,
                force,
                file_size,
            } => site.with_file(new, *file_size, || site.attach(device, new, *force)),
            VdevChange::Replace {
                device,
                new,
                force,
                file_size,
            } => {
                let at = match new {
                    Some(new) => new.clone(),
                    None => site.find(device)?.path,
                };
                let new = new.as_deref();
                site.with_file(&at, *file_size, || site.replace(device, new, *force))
            }
            VdevChange::Detach { device } => site.detach(device),
            VdevChange::Add {
                vdevs,
                spares,
                force,
                file_size,
            } => site.add(vdevs, spares, *force, *file_size),
            VdevChange::Remove { devices } => site.remove(devices),
            VdevChange::Clear { devices } => site.clear(devices),
        }?;
        let synced = pool.host.sync();
        self.save()?;
        synced.map_err(|error| {
            failed(name, "change", &error)
                .not_changed("the change is in force and may be forgotten when the daemon ends")
        })
    }
}

impl Site<'_> {
    fn offline(&self, names: &[String]) -> Result<(), Error> {
        for named in self.find_all(names)? {
            let leaf = named.leaf.leaf;
            if named.leaf.state == State::Offline {
                continue;
            }
            self.shape("offline", &named.path, move |hands| {
                hands.pool.offline(leaf, hands.now_us)
            })?;
        }
        Ok(())
    }

    fn online(&self, names: &[String], expand: bool) -> Result<(), Error> {
        for named in self.find_all(names)? {
            self.bring_online(&named)?;
            if expand {
                self.expand(&named)?;
            }
        }
        Ok(())
    }

    /// Opens a leaf's device anew and uses it.
    fn bring_online(&self, named: &Named) -> Result<(), Error> {
        let (leaf, guid) = (named.leaf.leaf, named.leaf.guid);
        if matches!(named.leaf.state, State::Online | State::Degraded) {
            return Ok(());
        }
        let device = self.open_known(&named.path, guid)?;
        let len = device.geometry().len;
        if len < named.leaf.size {
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "cannot online {}: it has {}, and had {} when it was last used",
                    named.path.display(),
                    format_size(len),
                    format_size(named.leaf.size)
                ),
                format!(
                    "find out who cut it, or use `sandstone pool replace {} {}` with another device",
                    self.name,
                    named.path.display()
                ),
            ));
        }
        self.shape("online", &named.path, move |hands| {
            let before = hands.devices.detach(leaf);
            hands.devices.attach(leaf, device);
            let result = hands.pool.online(leaf, hands.now_us);
            if result.is_err() {
                hands.devices.detach(leaf);
                if let Some(before) = before {
                    hands.devices.attach(leaf, before);
                }
            } else if let Some(place) = hands.shared.places().get_mut(&guid) {
                place.trouble = None;
            }
            result
        })
    }

    /// A leaf's device, where its label says that it is that leaf's.
    fn open_known(&self, path: &Path, guid: u64) -> Result<Arc<dyn BlockDevice>, Error> {
        let refused = |why: String| {
            Error::new(
                ErrorKind::Refused,
                format!("cannot online {}: {why}", path.display()),
                format!(
                    "attach the device, or use `sandstone pool replace {} {}` to rebuild it on another one",
                    self.name,
                    path.display()
                ),
            )
        };
        let (device, labels) = devices::open_with_labels(path).map_err(|error| {
            let advice = error.next.clone();
            let mut refused = refused(error.message);
            refused.next = format!("{advice}; or {}", refused.next);
            refused
        })?;
        match label::newest(&labels) {
            Some((config, leaf)) if config.guid == self.status.guid && leaf == guid => Ok(device),
            Some((config, _)) => Err(refused(format!(
                "what is there belongs to pool {} and is not the device that was there",
                config.name
            ))),
            None => Err(refused("what is there has no label of the pool".to_owned())),
        }
    }

    fn expand(&self, named: &Named) -> Result<(), Error> {
        let (leaf, vdev, guid) = (named.leaf.leaf, named.vdev, named.leaf.guid);
        let device = self
            .pool
            .host
            .handle(move |hands| hands.devices.of(leaf).cloned());
        let device = device.map_err(|error| failed(self.name, "expand", &error))?;
        let Some(device) = device else { return Ok(()) };
        let geometry = device.refresh().map_err(|error| {
            let path = named.path.display();
            Error::new(
                ErrorKind::Refused,
                format!("the size of {path} cannot be asked for: {error}"),
                format!("see `sandstone pool status {}`", self.name),
            )
        })?;
        let len = geometry.len;
        self.shape("expand", &named.path, move |hands| {
            match hands.pool.leaf(guid) {
                Some(leaf) => hands.pool.resize_leaf(leaf, vdev, len),
                None => Ok(()),
            }
        })
    }

    fn attach(&self, device: &str, new: &Path, force: bool) -> Result<(), Error> {
        let beside = self.find(device)?;
        let (spec, device) = self.open_new(new, force)?;
        let (leaf, at) = (beside.leaf.leaf, new.to_owned());
        self.shape("attach", new, move |hands| {
            let new = hands.pool.attach(leaf, &spec)?;
            settle_in(hands, new, spec.guid, at, device);
            Ok(())
        })
    }

    fn replace(&self, device: &str, new: Option<&Path>, force: bool) -> Result<(), Error> {
        let old = self.find(device)?;
        let new = new.unwrap_or(&old.path);
        let leaf = old.leaf.leaf;
        if let Some(guid) = self.ready_spare(new) {
            return self.shape("replace", &old.path, move |hands| {
                hands.pool.use_spare(leaf, guid).map(|_| ())
            });
        }
        let is_alone = is_same(new, &old.path);
        if is_alone && matches!(old.leaf.state, State::Online | State::Degraded) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{} is in use by the pool", old.path.display()),
                "name the device that is to take its place",
            ));
        }
        let (spec, device) = self.open_new(new, force)?;
        let at = new.to_owned();
        self.shape("replace", &old.path, move |hands| {
            let new = hands.pool.replace(leaf, &spec)?;
            settle_in(hands, new, spec.guid, at, device);
            Ok(())
        })
    }

    fn detach(&self, device: &str) -> Result<(), Error> {
        let named = self.find(device)?;
        let leaf = named.leaf.leaf;
        self.shape("detach", &named.path, move |hands| {
            hands.pool.detach(leaf, hands.now_us)
        })
    }

    fn add(
        &self,
        vdevs: &[VdevRequest],
        spares: &[PathBuf],
        force: bool,
        file_size: Option<u64>,
    ) -> Result<(), Error> {
        check_devices(vdevs, spares)?;
        self.check_redundancy(vdevs, force)?;
        let paths = vdevs.iter().flat_map(|vdev| &vdev.paths).chain(spares);
        let made = make_files(paths.map(PathBuf::as_path), file_size)?;
        let added = self.add_vdevs(vdevs, force);
        added
            .and_then(|()| self.add_spares(spares, force))
            .inspect_err(|_| self.take_away(&made))
    }

    fn add_vdevs(&self, vdevs: &[VdevRequest], force: bool) -> Result<(), Error> {
        for vdev in vdevs {
            let mut leaves = Vec::new();
            let mut specs = Vec::new();
            for path in &vdev.paths {
                let (spec, device) = self.open_new(path, force)?;
                leaves.push((spec.guid, path.clone(), device));
                specs.push(spec);
            }
            let top = TopLevelSpec::new(vdev.kind.kind(), Class::Normal, specs);
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

    fn add_spares(&self, spares: &[PathBuf], force: bool) -> Result<(), Error> {
        for path in spares {
            let (spec, device) = self.open_new(path, force)?;
            let config = self.pool.host.ask(|pool| pool.config().clone());
            let config = config.map_err(|error| failed(self.name, "add a spare to", &error))?;
            label::write_spare(path, &config, spec.guid).map_err(|error| {
                Error::storage(format!("write the labels of {}", path.display()), error)
            })?;
            let path = path.clone();
            self.handle("add a spare to", move |hands| {
                let guid = spec.guid;
                let mut spares = hands.pool.config().spares.clone();
                spares.push(spec);
                hands.devices.keep_spare(guid, device);
                let place = Place {
                    path,
                    trouble: None,
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

    fn remove(&self, names: &[String]) -> Result<(), Error> {
        let places = self.pool.host.places();
        let mut gone = Vec::new();
        for name in names {
            let spares = self.status.spares.iter();
            let at = |guid: &u64| places.get(guid).map(|place| place.path.clone());
            let found = spares
                .filter_map(|guid| Some((*guid, at(guid)?)))
                .find(|(guid, path)| is_meant(name, *guid, path));
            gone.push(found.ok_or_else(|| {
                Error::new(
                    ErrorKind::Refused,
                    format!("cannot remove {name}: only spares that stand ready can be removed"),
                    format!(
                        "use `sandstone pool detach {} DEVICE` for devices of mirrors and spares in use, \
                         `replace` for all others",
                        self.name
                    ),
                )
            })?);
        }
        for (guid, path) in gone {
            self.handle("remove a spare from", move |hands| {
                let mut spares = hands.pool.config().spares.clone();
                spares.retain(|spare| spare.guid != guid);
                hands.pool.set_spares(spares);
                hands.devices.take_spare(guid);
                hands.shared.places().remove(&guid);
                hands.pool.set_paths(paths(&hands.shared.places()));
            })?;
            let synced = self.pool.host.sync();
            synced.map_err(|error| failed(self.name, "remove a spare from", &error))?;
            // What is not there, or cannot be written, is no spare any more either way.
            if let Err(error) = label::wipe_leaf(&path, guid) {
                let path = path.display();
                tracing::warn!(%path, %error, "the labels of a spare that was removed are not wiped");
            }
        }
        Ok(())
    }

    fn clear(&self, names: &[String]) -> Result<(), Error> {
        let named = if names.is_empty() {
            self.leaves()
        } else {
            self.find_all(names)?
        };
        for named in named {
            let leaf = named.leaf.leaf;
            self.shape("clear", &named.path, move |hands| hands.pool.clear(leaf))?;
            let is_lost = matches!(
                named.leaf.state,
                State::Faulted | State::Removed | State::Unavailable
            );
            if is_lost && let Err(error) = self.bring_online(&named) {
                // Its counts are cleared; that it is still away is what its state says.
                let place = Some(error.message);
                let guid = named.leaf.guid;
                self.handle("clear", move |hands| {
                    if let Some(at) = hands.shared.places().get_mut(&guid) {
                        at.trouble = place;
                    }
                })?;
            }
        }
        Ok(())
    }

    /// A device that the pool has not had, with a new number.
    fn open_new(
        &self,
        path: &Path,
        force: bool,
    ) -> Result<(LeafSpec, Arc<dyn BlockDevice>), Error> {
        if !path.is_absolute() {
            return Err(Error::invalid(
                format!("{} is no absolute path", path.display()),
                "write it in full",
            ));
        }
        let device = open_new(path, force)?;
        let spec = LeafSpec::new(super::random_u64(), device.geometry().len);
        Ok((spec, device))
    }

    /// Makes the file that a change needs, and takes it away again where that is refused.
    fn with_file(
        &self,
        path: &Path,
        file_size: Option<u64>,
        change: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let made = make_files([path].into_iter(), file_size)?;
        change().inspect_err(|_| self.take_away(&made))
    }

    /// Files that were made for a change that came to nothing.
    fn take_away(&self, made: &[PathBuf]) {
        let used: Vec<PathBuf> = self
            .pool
            .host
            .places()
            .into_values()
            .map(|at| at.path)
            .collect();
        for path in made.iter().filter(|path| !used.contains(path)) {
            // They are ours, and hold nothing.
            let _ = std::fs::remove_file(path);
        }
    }

    /// The spare at a path that stands ready.
    fn ready_spare(&self, path: &Path) -> Option<u64> {
        let places = self.pool.host.places();
        let mut spares = self.status.spares.iter().copied();
        spares.find(|guid| places.get(guid).is_some_and(|at| is_same(&at.path, path)))
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

    fn find_all(&self, names: &[String]) -> Result<Vec<Named>, Error> {
        names.iter().map(|name| self.find(name)).collect()
    }

    fn find(&self, name: &str) -> Result<Named, Error> {
        let mut found = self.leaves();
        found.retain(|named| is_meant(name, named.leaf.guid, &named.path));
        match (found.pop(), found.is_empty()) {
            (Some(named), true) => Ok(named),
            (Some(_), false) => Err(Error::invalid(
                format!("pool {} has several devices {name}", self.name),
                "write the path in full",
            )),
            (None, _) => Err(Error::not_found(
                format!("no such device in pool {}: {name}", self.name),
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

    /// A change of the tree, and its refusal in words.
    fn shape(
        &self,
        doing: &str,
        path: &Path,
        work: impl FnOnce(&mut Hands<'_>) -> Result<(), ShapeError> + Send + 'static,
    ) -> Result<(), Error> {
        if let Some(reason) = &self.status.suspended {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("pool {} takes no changes: {reason}", self.name),
                "see to its devices, then restart the daemon: it opens the pool anew",
            ));
        }
        self.handle(doing, work)?
            .map_err(|error| refused(doing, path, &error))
    }
}

/// A new leaf has its device and its place.
fn settle_in(
    hands: &mut Hands<'_>,
    leaf: LeafId,
    guid: u64,
    path: PathBuf,
    device: Arc<dyn BlockDevice>,
) {
    hands.devices.attach(leaf, device);
    let place = Place {
        path,
        trouble: None,
    };
    hands.shared.places().insert(guid, place);
    hands.pool.set_paths(paths(&hands.shared.places()));
}

/// Whether a word means the leaf: its path, the last part of that, or its number.
fn is_meant(word: &str, guid: u64, path: &Path) -> bool {
    word == format!("{guid:016x}")
        || is_same(Path::new(word), path)
        || !word.contains('/') && path.file_name().is_some_and(|name| name == word)
}

/// Whether two paths lead to the same.
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

/// Why the tree cannot be changed so, and what to do instead.
fn refused(doing: &str, path: &Path, error: &ShapeError) -> Error {
    let path = path.display();
    let (why, next) = match error.kind {
        ShapeErrorKind::NotRedundant => (
            "no valid replicas: the other devices do not hold all that it holds".to_owned(),
            "wait for a resilver to end, or attach or replace a device first",
        ),
        ShapeErrorKind::Busy => (
            format!("it has not answered yet: {}", error.context),
            "try again when it has, or take it away from the machine first",
        ),
        ShapeErrorKind::TooSmall => (
            format!("device is too small: {}", error.context),
            "use a device that is at least as large as the smallest of the vdev",
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
