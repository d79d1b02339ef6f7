//! Creation and end of pools: `pool create`, `pool export`, `pool destroy`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::catalog::name::check_component;
use store::engine::{PoolProperty, PoolStatus};
use store::vdev::{Class, TopLevelKind, VdevTree};

use super::new_devices::{NewDevices, Over, check_devices, make_files, unmake_files};
use super::vdev_request::check;
use crate::devices::label;
use crate::fence::PoolFence;
use crate::import::{multihost, opening};
use crate::pool_thread::PoolThread;
use crate::registry::{OpenPool, Pools};
use crate::setup::{Begin, Place, Setup};
use crate::status::layout;
use model::pool::create::{CreatePool, ExportView};
use model::pool::status::PoolView;
use model::pool::vdev_request::VdevRequest;
use model::{Error, ErrorKind};

/// Words that zpool's syntax knows as something other than a pool's name.
const RESERVED: [&str; 9] = [
    "mirror", "raidz", "raidz1", "raidz2", "raidz3", "draid", "spare", "log", "cache",
];

impl Pools {
    /// Creates a pool on files and devices. If the creation fails, files that were created for the
    /// pool are deleted.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub fn create(&self, request: &CreatePool) -> Result<(), Error> {
        let _changing = self.changing();
        self.check_name(&request.name)?;
        check_shape(request)?;
        self.refuse_own(request.additions().paths())?;
        let _reserved = self
            .reserve(request.additions().paths())
            .map_err(|error| error.not_changed("the pool was not made, and nothing was changed"))?;
        let made = make_files(request.additions().paths(), request.file_size)?;
        self.create_on(request).inspect_err(|_| unmake_files(&made))
    }

    /// Returns the layout that the pool would have, and changes nothing.
    ///
    /// # Errors
    /// The reason that prevents the creation.
    pub fn would_create(&self, request: &CreatePool) -> Result<PoolView, Error> {
        let _changing = self.changing();
        self.check_name(&request.name)?;
        check_shape(request)?;
        self.refuse_own(request.additions().paths())?;
        let (disks, what) = (&self.options.disks, request.additions());
        check_devices(
            disks,
            what.paths(),
            request.file_size,
            &Over::of_no_pool(request.force),
        )?;
        let mut view = PoolView {
            name: request.name.clone(),
            ..PoolView::default()
        };
        layout(&mut view, what);
        Ok(view)
    }

    fn create_on(&self, request: &CreatePool) -> Result<(), Error> {
        let what = request.additions();
        let new = NewDevices::open(&self.options.disks, what, &Over::of_no_pool(request.force))?;
        let tree = VdevTree {
            top_levels: new.top_levels.clone(),
        };
        let mut config = opening::new_config(&request.name, &self.host_id(), tree);
        let guid = config.guid;
        config.caches.clone_from(&new.caches);
        config.spares.clone_from(&new.spares);
        let paths: Vec<PathBuf> = new
            .leaves
            .iter()
            .map(|leaf| leaf.place.path.clone())
            .collect();
        if let Some(is_on) = request.multihost {
            config.properties.set(PoolProperty::Multihost, is_on);
        }
        let protection = multihost::fresh(&config, &self.host_id(), &paths);
        let fence = protection.as_ref();
        let fence = fence.map(|of| PoolFence::new(&self.host_id(), of.opening));
        if let Some(fence) = &fence {
            fence.take(&new.named(), request.force)?;
        }
        new.label_beside(&config)?;
        let places = new.leaves.iter();
        let places = places.map(|leaf| (leaf.guid, leaf.place.clone()));
        let setup = Setup {
            begin: Begin::Create(Box::new(config)),
            places: places.collect(),
            devices: new
                .leaves
                .into_iter()
                .map(|leaf| (leaf.guid, leaf.device))
                .collect(),
            cache: self.cache_for_one_more(),
            host: self.host_id(),
            is_read_only: false,
            is_protected: protection.is_some(),
            protection,
            fence,
            io_uring: self.options.io_uring,
            disks: self.options.disks.clone(),
            events: self.options.events.clone(),
        };
        let host = PoolThread::start(&request.name, setup).map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {} cannot be made: {}", request.name, error.reason),
                "check the devices, then try again",
            )
            .not_changed("the pool was not made; data on the devices may be overwritten")
        })?;
        self.add(OpenPool::new(host, guid));
        let added = self.save();
        // This comes last: by now the labels say whose the devices are.
        let mut paths = what.paths();
        let kept = added.and_then(|()| paths.try_for_each(|path| self.lent().take_back(path)));
        // A pool that the next start would not know is no pool: data written to it until then would
        // be lost.
        kept.map_err(|error| {
            let undone = self
                .get(&request.name)
                .and_then(|pool| self.end(&request.name, &pool));
            if let Err(error) = undone {
                tracing::warn!(pool = request.name, %error, "a pool could not be made, and parts of it are \
                                                             left");
            }
            error.not_changed("the pool was not made; data on the devices may be overwritten")
        })
    }

    /// Writes all changes of a pool to its devices and lets the pool go, so that any host may
    /// import it. A pool that is not open, or has no engine any more, is forgotten, and its devices
    /// stay unchanged. The caller knows that nothing uses the pool.
    ///
    /// # Errors
    /// The pool does not exist, or its changes could not be written. In the latter case the pool
    /// stays open.
    pub fn export(&self, name: &str) -> Result<ExportView, Error> {
        let _changing = self.changing();
        let _reserved = self.reserve([])?;
        let is_shut = |pool: &OpenPool| pool.host.shut().map(|shut| shut.reason);
        let open = match self.why_absent(name) {
            Some(reason) => Err(reason),
            None => {
                let pool = self.get(name)?;
                is_shut(&pool).map_or(Ok(pool), Err)
            }
        };
        let forgotten = match open {
            Err(reason) => {
                // Units that lie on a pool without an engine would wait for it for ever, and show
                // its last trouble.
                if let Ok(pool) = self.get(name) {
                    pool.host.abandon();
                }
                Some(reason)
            }
            Ok(pool) => {
                pool.host.close(true).map_err(|error| {
                    Error::new(
                        ErrorKind::Refused,
                        format!("pool {name} cannot be exported: {error}"),
                        format!(
                            "see `sandstone pool status {name}`; if its devices are gone for good, \
                             `sandstone pool clear {name}` lets them go, and another export then forgets the \
                             pool"
                        ),
                    )
                })?;
                None
            }
        };
        self.remove(name)?;
        Ok(ExportView { forgotten })
    }

    /// Destroys a pool: everything in it is lost. The caller knows that nothing uses the pool.
    ///
    /// # Errors
    /// The pool is not open, or labels could not be wiped.
    pub fn destroy(&self, name: &str) -> Result<(), Error> {
        let _changing = self.changing();
        if let Some(reason) = self.why_absent(name) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "pool {name} is not open, so the labels of its devices cannot be wiped: {reason}"
                ),
                format!(
                    "`sandstone pool export {name}` forgets the pool and leaves its devices as they are; to \
                     wipe their labels, import the pool first"
                ),
            ));
        }
        let pool = self.get(name)?;
        pool.require_writable()?;
        if let Some(shut) = pool.host.shut().filter(|shut| shut.is_to_be_reopened) {
            // Another host may own the pool by now. Wiping the labels would destroy the other
            // host's data.
            return Err(Error::new(ErrorKind::InUse, shut.reason, shut.next));
        }
        let _reserved = self.reserve([])?;
        self.end(name, &pool)
    }

    /// Ends an open pool and wipes the labels of its devices.
    fn end(&self, name: &str, pool: &Arc<OpenPool>) -> Result<(), Error> {
        pool.host.abandon();
        let places = pool.host.places();
        let removed = self.remove(name);
        // If the list of pools cannot be written, the next start finds no labels, and says so.
        self.wipe_all(&places).and(removed)
    }

    /// Wipes the labels of all devices of a destroyed pool.
    fn wipe_all(&self, places: &BTreeMap<u64, Place>) -> Result<(), Error> {
        // A place whose device was missing holds nothing of the pool, or holds another device by
        // now.
        let disks = &self.options.disks;
        let places = places.iter().filter(|(_, place)| disks.exists(&place.path));
        // If one device cannot be wiped, the others are still wiped: nobody can ask for this again.
        let wiped = places.map(|(guid, place)| self.wipe(&place.path, *guid));
        let failed = wiped.filter_map(Result::err).reduce(|first, _| first);
        failed.map_or(Ok(()), Err)
    }

    /// Wipes the labels of a device that was this leaf of a destroyed pool.
    fn wipe(&self, path: &Path, leaf: u64) -> Result<(), Error> {
        let disks = &self.options.disks;
        let left = "the pool is closed, but labels of it are left on this device";
        let device = match disks.open(path) {
            Ok(device) => device,
            Err(error) => {
                // The device may have another user by now. Then nothing of the pool may be there.
                let labels = disks.look_at(path);
                let newest = labels.as_ref().map(label::newest);
                return match newest {
                    Some(found) if found.as_ref().is_none_or(|(_, on)| *on != leaf) => Ok(()),
                    _ => Err(Error::new(ErrorKind::InUse, error.message(), error.next())
                        .not_changed(left)),
                };
            }
        };
        label::wipe_leaf(&*device, leaf)
            .map_err(|error| label::failed("wipe", path, error).not_changed(left))
    }

    pub(crate) fn check_name(&self, name: &str) -> Result<(), Error> {
        check_component(name).map_err(|error| Error::invalid(error.message, error.next))?;
        let is_reserved = RESERVED.iter().any(|word| {
            name.strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        if is_reserved || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(Error::invalid(
                format!("a pool cannot have the name {name}"),
                "begin with a letter, and avoid words that name a kind of vdev",
            ));
        }
        let is_known = self.absent().iter().any(|absent| absent.known.name == name);
        if is_known || self.all().iter().any(|(other, _)| other == name) {
            return Err(Error::exists(
                format!("pool {name} exists already"),
                "choose another name; see `sandstone pool list`",
            ));
        }
        Ok(())
    }
}

/// Checks whether the vdevs can make a pool.
fn check_shape(request: &CreatePool) -> Result<(), Error> {
    if request.vdevs.is_empty() {
        return Err(Error::invalid(
            "a pool needs a device",
            "name files or devices, as in `sandstone pool create tank mirror /dev/sda /dev/sdb`",
        ));
    }
    check(request.additions())?;
    let redundancy = VdevRequest::redundancy;
    let first = redundancy(&request.vdevs[0]);
    if let Some(other) = request.vdevs.iter().find(|vdev| redundancy(vdev) != first)
        && !request.force
    {
        return Err(Error::invalid(
            format!(
                "mismatched replication level: one vdev can lose {first} devices, another one {}",
                redundancy(other)
            ),
            "the pool is lost with its weakest vdev: give all vdevs the same redundancy, or use -f to make \
             it anyway",
        ));
    }
    Ok(())
}

/// Returns how many devices each top-level vdev of a pool may lose.
pub(crate) fn redundancies(status: &PoolStatus) -> Vec<usize> {
    let tops = status.top_levels.iter();
    let tops = tops.filter(|top| top.kind != TopLevelKind::Hole && top.class == Class::Normal);
    tops.map(|top| match top.kind {
        TopLevelKind::Leaf | TopLevelKind::Hole => 0,
        TopLevelKind::Mirror => top.slots.len().saturating_sub(1),
        TopLevelKind::Raidz { parity } => parity.into(),
    })
    .collect()
}
