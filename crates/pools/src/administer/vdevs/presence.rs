//! Devices of a pool taken offline and used again: `pool offline`, `online`, `clear`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::engine::{LeafLabels, OpenErrorKind, examine};
use store::vdev::{ShapeErrorKind, VdevState};

use super::{Named, Site, failed, in_turn, refused};
use crate::devices::identity::{Identity, Located, locate};
use crate::devices::label::{self, Said};
use crate::setup::Place;
use block::BlockDevice;
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Device of a leaf as it was found, its labels, and its current place.
struct Known {
    device: Arc<dyn BlockDevice>,
    labels: LeafLabels,
    at: Place,
}

/// Device that is to be used again.
#[derive(Clone, Copy)]
enum Device<'a> {
    Leaf(&'a Named),
    Cache(&'a String),
}

impl Site<'_> {
    pub(super) fn offline(&self, names: &[String]) -> Result<(), Error> {
        let (caches, leaves) = self.caches_among(names);
        // Names that mean no device of the pool are refused before any device goes offline.
        let leaves = self.find_all(&leaves)?;
        for guid in caches.iter().filter_map(|name| self.cache(name)) {
            let done = self.handle("offline a cache of", move |hands| {
                hands.pool.offline_cache(guid, hands.now_us)
            })?;
            done.map_err(|error| failed(self.name, "offline a cache of", &error))?;
        }
        let leaves = leaves
            .iter()
            .filter(|named| named.leaf.state != VdevState::Offline);
        let leaves = leaves.map(|named| (named.path.display().to_string(), named));
        in_turn("taken offline", leaves, |named| {
            let leaf = named.leaf.leaf;
            self.shape("offline", &named.path, move |hands| {
                hands.pool.offline(leaf, hands.now_us)
            })
        })
    }

    pub(super) fn online(&self, names: &[String], expand: bool) -> Result<(), Error> {
        let (caches, leaves) = self.caches_among(names);
        let (spares, leaves): (Vec<String>, Vec<String>) = leaves
            .into_iter()
            .partition(|name| self.spare(name).is_some());
        self.ready_spares(&spares)?;
        let leaves = self.find_all(&leaves)?;
        let devices = leaves
            .iter()
            .map(|named| (named.path.display().to_string(), Device::Leaf(named)));
        let caches = caches
            .iter()
            .map(|name| (name.clone(), Device::Cache(name)));
        in_turn("brought online", devices.chain(caches), |device| {
            match device {
                Device::Leaf(named) => self.bring_online(named)?,
                Device::Cache(name) => self.clear_caches(std::slice::from_ref(name))?,
            }
            match device {
                _ if !expand => Ok(()),
                Device::Leaf(named) => self.expand(named),
                Device::Cache(name) => self.expand_cache(name),
            }
        })
    }

    /// Gives missing devices back to their spares, so that the spares stand ready.
    fn ready_spares(&self, names: &[String]) -> Result<(), Error> {
        for guid in names.iter().filter_map(|name| self.spare(name)) {
            let place = self.pool.host.places().remove(&guid).unwrap_or_default();
            let is_ready = self.handle("online a spare of", move |hands| {
                hands.devices.ready_spares().contains(&guid)
            })?;
            if is_ready {
                continue;
            }
            let Known { device, labels, at } = self.open_known(&place.path, guid)?;
            self.require_one_history(&at.path, guid, labels)?;
            self.keep_others_from(&[(at.path.clone(), Arc::clone(&device))], true)?;
            self.handle("online a spare of", move |hands| {
                hands.devices.keep_spare(guid, device);
                // A broken device may have waited for the spare.
                hands.devices.tell_away_spares(hands.pool);
                if let Some(place) = hands.shared.places().get_mut(&guid) {
                    place.is_back(at);
                }
            })?;
        }
        Ok(())
    }

    /// Splits the names into those of caches and all others.
    fn caches_among(&self, names: &[String]) -> (Vec<String>, Vec<String>) {
        let names = names.iter().cloned();
        names.partition(|name| self.cache(name).is_some())
    }

    /// Forgets the errors of caches, and uses failed or missing caches again.
    fn clear_caches(&self, names: &[String]) -> Result<(), Error> {
        for guid in names.iter().filter_map(|name| self.cache(name)) {
            let of_guid = self.status.caches.iter().find(|cache| cache.guid == guid);
            let is_used = of_guid.is_some_and(|cache| cache.state == VdevState::Online);
            let place = self.pool.host.places().remove(&guid).unwrap_or_default();
            let device = match is_used {
                true => None,
                false => {
                    let known = self.open_known(&place.path, guid)?;
                    let named = (known.at.path.clone(), Arc::clone(&known.device));
                    self.keep_others_from(&[named], true)?;
                    Some(known)
                }
            };
            let cleared = self.handle("online a cache of", move |hands| {
                let mut places = hands.shared.places();
                let place = places.entry(guid).or_default();
                place.trouble = None;
                if let (Some(known), Some(leaf)) = (device, hands.pool.leaf(guid)) {
                    hands.devices.attach(leaf, known.device);
                    place.is_back(known.at);
                }
                drop(places);
                hands.pool.online_cache(guid, hands.now_us)
            })?;
            cleared.map_err(|error| failed(self.name, "online a cache of", &error))?;
        }
        Ok(())
    }

    /// Reopens a leaf's device and uses it.
    pub(super) fn bring_online(&self, named: &Named) -> Result<(), Error> {
        let (leaf, guid) = (named.leaf.leaf, named.leaf.guid);
        if matches!(named.leaf.state, VdevState::Online | VdevState::Degraded) {
            return Ok(());
        }
        // The device of a spare in use is still open, for the time when the spare leaves its place.
        // It is closed here, because closing a failed device may take long.
        let before = self.handle("online", move |hands| hands.devices.take_spare(guid))?;
        drop(before);
        let Known { device, labels, at } = self.open_known(&named.path, guid)?;
        let is_spare = self.status.spares_in_use.contains(&guid);
        if let Err(refused) = self.require_as_before(named, &*device, labels.clone()) {
            if is_spare {
                self.handle("online", move |hands| {
                    hands.devices.keep_spare(guid, device)
                })?;
            }
            return Err(refused);
        }
        // The device is this pool's, and this host owns the pool. Registrations that another host
        // left on the device count for nothing.
        self.keep_others_from(&[(named.path.clone(), Arc::clone(&device))], true)?;
        self.shape("online", &named.path, move |hands| {
            let before = hands.devices.detach(leaf);
            hands.devices.attach(leaf, device);
            hands.pool.take_back(leaf, &labels);
            let result = hands.pool.online(leaf, hands.now_us);
            if result.is_err() {
                let device = hands.devices.detach(leaf);
                if let Some(before) = before {
                    hands.devices.attach(leaf, before);
                } else if let Some(device) = device.filter(|_| is_spare) {
                    hands.devices.keep_spare(guid, device);
                }
            } else if let Some(place) = hands.shared.places().get_mut(&guid) {
                place.is_back(at);
            }
            result
        })
    }

    /// Refuses a device that can no longer be used as the leaf.
    fn require_as_before(
        &self,
        named: &Named,
        device: &dyn BlockDevice,
        labels: LeafLabels,
    ) -> Result<(), Error> {
        self.require_one_history(&named.path, named.leaf.guid, labels)?;
        let len = device.geometry().len;
        if len >= named.leaf.size {
            return Ok(());
        }
        let path = named.path.display();
        Err(Error::new(
            ErrorKind::Refused,
            format!(
                "cannot online {path}: the device has {}, but had {} when it was last used",
                format_size(len),
                format_size(named.leaf.size)
            ),
            format!(
                "find out why it shrank, or use `sandstone pool replace {} {path}` with another device",
                self.name,
            ),
        ))
    }

    /// Opens a leaf's device, if its label and identity show that it was used as this leaf before.
    /// If a disk has a new name by now, this function finds it under the new name.
    fn open_known(&self, path: &Path, guid: u64) -> Result<Known, Error> {
        let place = self.pool.host.places().remove(&guid);
        let (path, stranger) = match locate(path, place.and_then(|of| of.identity).as_ref()) {
            Located::At(path) => (path, None),
            Located::Stranger { was, is } => (path.to_owned(), Some((was, is))),
        };
        let path = path.as_path();
        let refused = |why: String| {
            Error::new(
                ErrorKind::Refused,
                format!("cannot online {}: {why}", path.display()),
                format!(
                    "attach the device, or use `sandstone pool replace {} {}` to rebuild its data on another \
                     device",
                    self.name,
                    path.display()
                ),
            )
        };
        let (device, labels) = self.disks().open_with_labels(path).map_err(|error| {
            let next = error.next.clone();
            let mut refused = refused(error.message);
            refused.next = format!("{next}; or {}", refused.next);
            refused
        })?;
        match label::said(&labels) {
            Said::Leaf(config, leaf) if config.guid == self.status.guid && leaf == guid => {
                self.pools.lent().refuse(path).map_err(|error| {
                    let mut refused = refused(error.message);
                    let (pool, path) = (self.name, path.display());
                    refused.next =
                        format!("{}: `sandstone pool replace -f {pool} {path}`", error.next);
                    refused
                })?;
                if let Some((was, is)) = stranger {
                    return Err(self.copied(path, &was, &is));
                }
                let at = Place::at(path.to_owned());
                Ok(Known { device, labels, at })
            }
            Said::Leaf(config, _) => Err(refused(format!(
                "the device there belongs to pool {}, and is not the device of this pool",
                config.name
            ))),
            Said::Unusable(_, why) => Err(refused(why)),
            Said::Nothing => Err(refused(
                "the device there has no label of the pool".to_owned(),
            )),
        }
    }

    /// Refuses another device that took the place of a leaf's device and claims to be it.
    fn copied(&self, path: &Path, was: &Identity, is: &Identity) -> Error {
        let (name, path) = (self.name, path.display());
        Error::new(
            ErrorKind::Refused,
            format!(
                "cannot online {path}: its labels are right, but it is not the device that was used before; \
                 it may be an old copy of that device. It was {was}, and is {is}"
            ),
            format!(
                "put the previous device back; or rebuild this one from the others: `sandstone pool replace \
                 -f {name} {path}`; or, to use the data on this one, `sandstone pool export -f {name}` and \
                 then `sandstone pool import` with -d for each device"
            ),
        )
    }

    /// Refuses a device that was used without the devices in use now, and these without the device.
    /// Rebuilding the device would overwrite acknowledged data that is nowhere else.
    fn require_one_history(&self, path: &Path, guid: u64, labels: LeafLabels) -> Result<(), Error> {
        // Labels are written when devices come and go. If the labels are newer than those found
        // when the device was missing, they come from a use without the devices that were found.
        // This opening has not written to the device yet.
        let places = self.pool.host.places();
        let missing_at = places.get(&guid).and_then(|at| at.missing_at);
        let newest = label::newest(&labels).map(|(config, _)| config.generation);
        let is_newer = missing_at.is_some_and(|found| newest > Some(found));
        if !is_newer && !self.is_parted(labels) {
            return Ok(());
        }
        let (name, path) = (self.name, path.display());
        let give_up = match self.status.spares.contains(&guid) {
            true => format!(
                "`sandstone pool remove {name} {path}` and then `sandstone pool add -f {name} spare {path}`"
            ),
            false => format!("`sandstone pool replace -f {name} {path}`"),
        };
        Err(Error::new(
            ErrorKind::Refused,
            format!(
                "cannot online {path}: it was used without the other devices, and they without it: each side \
                 may have acknowledged changes that the other lacks"
            ),
            format!(
                "decide which side to keep: {give_up} discards the data on this device; to keep it and \
                 discard the others', use `sandstone pool export -f {name}` and then `sandstone pool import \
                 -f -d {path} {name}`"
            ),
        ))
    }

    /// Reports whether the labels of a device and those of the devices in use tell two histories.
    fn is_parted(&self, labels: LeafLabels) -> bool {
        let is_used =
            |named: &Named| matches!(named.leaf.state, VdevState::Online | VdevState::Degraded);
        let used = self.leaves().into_iter().filter(is_used);
        let used: Vec<PathBuf> = used.map(|named| named.path).collect();
        let mut all = self.disks().look_at_all(&used);
        all.push(labels);
        // The pool is open, so other faults of the labels do not matter here.
        examine(&all, Some(self.status.guid))
            .is_err_and(|error| error.kind == OpenErrorKind::Parted)
    }

    pub(super) fn expand(&self, named: &Named) -> Result<(), Error> {
        let (vdev, guid, had) = (named.vdev, named.leaf.guid, named.leaf.size);
        let Some(has) = self.size_now(guid, &named.path)? else {
            return Ok(());
        };
        self.require_changes()?;
        let done = self.handle("expand", move |hands| match hands.pool.leaf(guid) {
            Some(leaf) => hands.pool.resize_leaf(leaf, vdev, has),
            None => Ok(()),
        })?;
        done.map_err(|error| match error.kind {
            ShapeErrorKind::TooSmall => shrank(
                &named.path,
                [has, had],
                format!(
                    "restore its size, or use `sandstone pool replace {} {}` with another device",
                    self.name,
                    named.path.display()
                ),
            ),
            _ => refused("expand", &named.path, &error),
        })
    }

    /// Expands the cache to the current size of its device.
    fn expand_cache(&self, name: &str) -> Result<(), Error> {
        let Some(guid) = self.cache(name) else {
            return Ok(());
        };
        let place = self.pool.host.places().remove(&guid).unwrap_or_default();
        let Some(has) = self.size_now(guid, &place.path)? else {
            return Ok(());
        };
        let had = self.pool.host.ask(move |pool| {
            let caches = pool.config().caches.iter();
            let mut own = caches.filter(|spec| spec.guid == guid);
            own.next().map(|spec| spec.size)
        });
        let had = had.map_err(|error| failed(self.name, "expand a cache of", &error))?;
        if let Some(had) = had.filter(|had| has < *had) {
            let (pool, path) = (self.name, place.path.display());
            let next = format!(
                "restore its size, or remove it and add it again at its new size: `sandstone pool remove \
                 {pool} {path}` and then `sandstone pool add {pool} cache {path}`"
            );
            return Err(shrank(&place.path, [has, had], next));
        }
        let expanded = self.handle("expand a cache of", move |hands| {
            hands.pool.expand_cache(guid, has, hands.now_us)
        })?;
        expanded.map_err(|error| failed(self.name, "expand a cache of", &error))
    }

    /// Returns the current size of the device of a leaf or cache, or `None` if the device is not
    /// open.
    fn size_now(&self, guid: u64, path: &Path) -> Result<Option<u64>, Error> {
        let device = self.handle("expand", move |hands| {
            let leaf = hands.pool.leaf(guid);
            leaf.and_then(|leaf| hands.devices.of(leaf).cloned())
        })?;
        let Some(device) = device else {
            return Ok(None);
        };
        let geometry = device.refresh().map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("the size of {} cannot be read: {error}", path.display()),
                format!("see `sandstone pool status {}`", self.name),
            )
        })?;
        Ok(Some(geometry.len))
    }

    pub(super) fn clear(&self, names: &[String]) -> Result<(), Error> {
        let (named_caches, leaves) = self.caches_among(names);
        let is_named = |guid: u64| {
            named_caches
                .iter()
                .any(|name| self.cache(name) == Some(guid))
        };
        let caches = self.status.caches.iter();
        // A device that was taken offline stays offline until the user names it.
        let caches = caches.filter(|cache| cache.state != VdevState::Offline);
        let caches = caches.filter(|cache| names.is_empty() || is_named(cache.guid));
        let caches: Vec<String> = caches.map(|of| format!("{:016x}", of.guid)).collect();
        let named = if names.is_empty() {
            self.leaves()
        } else {
            self.find_all(&leaves)?
        };
        let mut still_lost = None;
        for named in named {
            let leaf = named.leaf.leaf;
            self.shape("clear", &named.path, move |hands| hands.pool.clear(leaf))?;
            let is_lost = matches!(
                named.leaf.state,
                VdevState::Faulted | VdevState::Removed | VdevState::Unavailable
            );
            if is_lost && let Err(error) = self.bring_online(&named) {
                // The counts are cleared. The state says that the device is still missing.
                let place = Some(error.message.clone());
                still_lost.get_or_insert(error);
                let guid = named.leaf.guid;
                self.handle("clear", move |hands| {
                    if let Some(at) = hands.shared.places().get_mut(&guid) {
                        at.trouble = place;
                    }
                })?;
            }
        }
        if names.is_empty() {
            self.handle("clear", |hands| {
                hands.unflushed.forget();
                hands.damaged.forget();
            })?;
        }
        for cache in caches {
            // The state of a missing cache says that it is still missing.
            if let Err(error) = self.clear_caches(&[cache]) {
                tracing::info!(pool = self.name, %error, "a cache is still missing");
                still_lost.get_or_insert(error);
            }
        }
        // A caller who named a device wants it back, and has to know if it is not.
        match still_lost.filter(|_| !names.is_empty()) {
            Some(error) => {
                Err(error.not_changed("the errors are forgotten; the device is still not used"))
            }
            None => Ok(()),
        }
    }
}

/// Refuses to use a device to its end, because it has shrunk. The sizes are the bytes it has now
/// and had before.
fn shrank(path: &Path, [has, had]: [u64; 2], next: String) -> Error {
    let (path, has, had) = (path.display(), format_size(has), format_size(had));
    Error::new(
        ErrorKind::Refused,
        format!(
            "cannot expand {path}: device is too small: it has {has}, but had {had} when it was last used"
        ),
        next,
    )
}
