//! Making pools, and ending them: `pool create`, `pool export`, `pool destroy`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::catalog::name::check_component;
use store::pool::PoolStatus;
use store::vdev::{Class, Kind, LeafSpec, TopLevelSpec, VdevTree};
use utoipa::ToSchema;

use super::disks::{self, Disks};
use super::host::{Begin, Place, PoolHost, Setup};
use super::registry::{OpenPool, Pools};
use super::vdev_request::{Additions, VdevRequest};
use super::{label, opening};
use crate::block::BlockDevice;
use crate::block::file::FileDevice;
use crate::config::quantity::format_size;
use crate::config::{Error, ErrorKind};

/// The smallest device, in bytes; zpool's.
const MIN_DEVICE: u64 = 64 << 20;

/// What zpool's syntax knows as something else than a pool's name.
const RESERVED: [&str; 9] = [
    "mirror", "raidz", "raidz1", "raidz2", "raidz3", "draid", "spare", "log", "cache",
];

/// `pool create`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name.
    pub name: String,
    /// Its top-level vdevs; blocks are spread over all of them.
    pub vdevs: Vec<VdevRequest>,
    /// Its log vdevs, devices and mirrors of these: durable writes are answered when they are there.
    #[serde(default)]
    pub logs: Vec<VdevRequest>,
    /// Its cache vdevs: blocks that memory gives up are kept there.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub caches: Vec<PathBuf>,
    /// Devices that stand ready to take another's place.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub spares: Vec<PathBuf>,
    /// Use devices that another pool's labels are on, and vdevs that differ in redundancy.
    #[serde(default)]
    pub force: bool,
    /// Make files of this size, in bytes, where paths do not exist.
    #[serde(default)]
    pub file_size: Option<u64>,
}

impl CreatePool {
    /// What it is made of.
    fn additions(&self) -> Additions<'_> {
        Additions {
            vdevs: &self.vdevs,
            logs: &self.logs,
            caches: &self.caches,
            spares: &self.spares,
        }
    }
}

/// An open leaf: its guid, its path and its device.
type Leaf = (u64, PathBuf, Arc<dyn BlockDevice>);

impl Pools {
    /// Makes a pool on files and devices; files that were made for it go again where that fails.
    ///
    /// # Errors
    /// What was wrong, and what to do.
    pub fn create(&self, request: &CreatePool) -> Result<(), Error> {
        let _changing = self.changing();
        self.check_name(&request.name)?;
        check_shape(request)?;
        let made = make_files(request.additions().paths(), request.file_size)?;
        self.create_on(request).inspect_err(|_| {
            for path in &made {
                // They are ours, and hold nothing.
                let _ = std::fs::remove_file(path);
            }
        })
    }

    fn create_on(&self, request: &CreatePool) -> Result<(), Error> {
        let mut leaves: Vec<Leaf> = Vec::new();
        let mut take = |path: &PathBuf| {
            let (guid, device) = (
                super::random_u64(),
                open_new(&self.options.disks, path, request.force)?,
            );
            let spec = LeafSpec::new(guid, device.geometry().len);
            leaves.push((guid, path.clone(), device));
            Ok::<_, Error>(spec)
        };
        let mut take_all = |paths: &[PathBuf]| paths.iter().map(&mut take).collect();
        let blocks = request.vdevs.iter().map(|vdev| (vdev, Class::Normal));
        let logs = request.logs.iter().map(|vdev| (vdev, Class::Log));
        let mut top_levels = Vec::new();
        for (vdev, class) in blocks.chain(logs) {
            let specs: Result<Vec<LeafSpec>, Error> = take_all(&vdev.paths);
            top_levels.push(TopLevelSpec::new(vdev.kind.kind(), class, specs?));
        }
        let (caches, spares) = (take_all(&request.caches)?, take_all(&request.spares)?);
        let host = self.host_id();
        let mut config = opening::new_config(&request.name, &host, VdevTree { top_levels });
        let guid = config.guid;
        (config.caches, config.spares) = (caches, spares);
        let beside = config.caches.iter().chain(&config.spares);
        for spec in beside {
            let leaf = leaves.iter().find(|(guid, _, _)| *guid == spec.guid);
            let Some((_, path, device)) = leaf else {
                continue;
            };
            label::write_beside(&**device, &config, spec.guid)
                .map_err(|error| label::failed("write", path, error))?;
        }
        let setup = Setup {
            begin: Begin::Create(Box::new(config)),
            devices: leaves
                .iter()
                .map(|(guid, _, device)| (*guid, Arc::clone(device)))
                .collect(),
            places: leaves
                .into_iter()
                .map(|(guid, path, _)| {
                    let place = Place {
                        path,
                        ..Place::default()
                    };
                    (guid, place)
                })
                .collect(),
            cache: self.cache_for_one_more(),
            host,
            is_read_only: false,
            io_uring: self.options.io_uring,
            disks: self.options.disks.clone(),
        };
        let host = PoolHost::start(&request.name, setup).map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {} cannot be made: {}", request.name, error.reason),
                "check the devices, then try again",
            )
            .not_changed("there is no such pool; what was on the devices may be overwritten")
        })?;
        self.add(OpenPool::new(host, guid))?;
        // Only now: their labels say whose they are.
        let mut taken = request.additions().paths();
        taken.try_for_each(|path| self.take_back(path))
    }

    /// Writes everything that a pool has taken to its devices and lets it go: any host may import it.
    /// The caller knows that nothing uses it.
    ///
    /// # Errors
    /// It is not open, or that could not be written; it stays open then.
    pub fn export(&self, name: &str) -> Result<(), Error> {
        let _changing = self.changing();
        let pool = self.get(name)?;
        pool.host.close(true).map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {name} cannot be exported: {error}"),
                format!("see `sandstone pool status {name}`"),
            )
        })?;
        self.remove(name)
    }

    /// Ends a pool: everything in it is lost. The caller knows that nothing uses it.
    ///
    /// # Errors
    /// It is not open, or labels could not be wiped.
    pub fn destroy(&self, name: &str) -> Result<(), Error> {
        let _changing = self.changing();
        let pool = self.get(name)?;
        pool.require_writable()?;
        pool.host.abandon();
        let places = pool.host.places();
        drop(pool);
        self.remove(name)?;
        // Where a device was missing there is nothing of it; or another one by now.
        let disks = &self.options.disks;
        let places = places.iter().filter(|(_, place)| disks.exists(&place.path));
        // One that cannot be wiped is no reason to leave labels on the others: nobody can ask for it again.
        let wiped = places.map(|(guid, place)| self.wipe(&place.path, *guid));
        let failed = wiped.filter_map(Result::err).reduce(|first, _| first);
        failed.map_or(Ok(()), Err)
    }

    /// Wipes the labels of a device that was this leaf of a pool that is no more.
    fn wipe(&self, path: &Path, leaf: u64) -> Result<(), Error> {
        let disks = &self.options.disks;
        let left = "the pool is not open any more, but labels of it are left on this device";
        let device = match disks.open(path) {
            Ok(device) => device,
            Err(error) => {
                // Somebody else has it by now, say: then nothing of the pool may be there.
                let labels = disks.look_at(path);
                let newest = labels.as_ref().map(label::newest);
                return match newest {
                    Some(found) if found.as_ref().is_none_or(|(_, on)| *on != leaf) => Ok(()),
                    _ => Err(
                        Error::new(ErrorKind::InUse, error.problem(), error.advice())
                            .not_changed(left),
                    ),
                };
            }
        };
        label::wipe_leaf(&*device, leaf)
            .map_err(|error| label::failed("wipe", path, error).not_changed(left))
    }

    pub(super) fn check_name(&self, name: &str) -> Result<(), Error> {
        check_component(name).map_err(|error| Error::invalid(error.problem, error.next))?;
        let is_reserved = RESERVED.iter().any(|word| {
            name.strip_prefix(word)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        if is_reserved || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(Error::invalid(
                format!("a pool cannot be called {name}"),
                "begin with a letter, and use no word that names a kind of vdev",
            ));
        }
        let is_known = self.absent().iter().any(|absent| absent.known.name == name);
        if is_known || self.all().iter().any(|(other, _)| other == name) {
            return Err(Error::exists(
                format!("there is a pool {name} already"),
                "choose another name; see `sandstone pool list`",
            ));
        }
        Ok(())
    }
}

/// Whether the vdevs make a pool.
fn check_shape(request: &CreatePool) -> Result<(), Error> {
    if request.vdevs.is_empty() {
        return Err(Error::invalid(
            "a pool needs a device",
            "name files or devices, as in `sandstone pool create tank mirror /dev/sda /dev/sdb`",
        ));
    }
    request.additions().check()?;
    let redundancy = VdevRequest::redundancy;
    let first = redundancy(&request.vdevs[0]);
    if let Some(other) = request.vdevs.iter().find(|vdev| redundancy(vdev) != first)
        && !request.force
    {
        return Err(Error::invalid(
            format!(
                "mismatched replication level: the vdevs can lose {first} and {} devices",
                redundancy(other)
            ),
            "the pool is lost with its weakest vdev: make them alike, or use -f to make it all the same",
        ));
    }
    Ok(())
}

/// How many devices each top-level vdev of a pool may lose.
pub(super) fn redundancies(status: &PoolStatus) -> Vec<usize> {
    let tops = status.top_levels.iter();
    let tops = tops.filter(|top| top.kind != Kind::Hole && top.class == Class::Normal);
    tops.map(|top| match top.kind {
        Kind::Leaf | Kind::Hole => 0,
        Kind::Mirror => top.slots.len().saturating_sub(1),
        Kind::Raidz { parity } => parity.into(),
    })
    .collect()
}

/// Makes the files that do not exist, where a size is given; returns them.
pub(super) fn make_files<'a>(
    paths: impl Iterator<Item = &'a Path>,
    file_size: Option<u64>,
) -> Result<Vec<PathBuf>, Error> {
    let mut made: Vec<PathBuf> = Vec::new();
    for path in paths {
        // Another machine's disk is there, or is not: opening it says why.
        if disks::is_remote(path) || path.exists() {
            continue;
        }
        let result = match file_size {
            None => Err(Error::not_found(
                format!("{} does not exist", path.display()),
                "check the path, or say how large a file to make of it, as in --size 10G",
            )),
            Some(size) if size < MIN_DEVICE => Err(too_small(path, size)),
            Some(size) => FileDevice::create(path, size - size % 4096, disks::FILE_OPTIONS)
                .map_err(|error| Error::invalid(error.problem(), error.advice())),
        };
        if let Err(error) = result {
            for path in &made {
                // They are ours, and hold nothing.
                let _ = std::fs::remove_file(path);
            }
            return Err(error);
        }
        made.push(path.to_owned());
    }
    Ok(made)
}

/// Opens a device for a new pool.
pub(super) fn open_new(
    disks: &Disks,
    path: &Path,
    force: bool,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let (device, labels) = disks.open_with_labels(path)?;
    if let Some((config, _)) = label::newest(&labels)
        && !force
    {
        let state = if config.is_exported {
            "exported"
        } else {
            "potentially active"
        };
        return Err(Error::new(
            ErrorKind::InUse,
            format!(
                "{} is part of {state} pool '{}'",
                path.display(),
                config.name
            ),
            "use -f to overwrite it, if nothing of that pool is missed",
        ));
    }
    let len = device.geometry().len;
    if len < MIN_DEVICE {
        return Err(too_small(path, len));
    }
    Ok(device)
}

fn too_small(path: &Path, size: u64) -> Error {
    Error::invalid(
        format!("{} has {}", path.display(), format_size(size)),
        format!("use devices of at least {}", format_size(MIN_DEVICE)),
    )
}
