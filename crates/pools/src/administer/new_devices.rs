//! Files and devices for a new or growing pool. Missing files are created, and devices are
//! inspected before they are overwritten. All are opened together, so that nothing is changed if
//! one of them cannot be used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::engine::PoolConfig;
use store::format::PoolKey;
use store::vdev::{Class, LeafSpec, TopLevelSpec};

use super::vdev_request::kind;
use crate::devices::disks::{self, Disks};
use crate::devices::label::Said;
use crate::devices::{MIN_DEVICE, foreign, label};
use crate::fence::Named;
use crate::random_u64;
use crate::setup::Place;
use block::BlockDevice;
use block::file::FileDevice;
use model::device_name::is_remote;
use model::pool::vdev_request::Additions;
use model::quantity::format_size;
use model::{Error, ErrorKind};

/// Open device that becomes a leaf.
pub(crate) struct NewLeaf {
    pub(crate) guid: u64,
    pub(crate) place: Place,
    pub(crate) device: Arc<dyn BlockDevice>,
}

/// New devices of a pool, all of them open.
pub(crate) struct NewDevices {
    /// Vdevs for blocks, then vdevs for the log.
    pub(crate) top_levels: Vec<TopLevelSpec>,
    pub(crate) caches: Vec<LeafSpec>,
    pub(crate) spares: Vec<LeafSpec>,
    /// Devices of all these vdevs.
    pub(crate) leaves: Vec<NewLeaf>,
}

impl NewDevices {
    /// Opens the named devices, and writes nothing.
    ///
    /// # Errors
    /// One of the devices cannot be used.
    pub(crate) fn open(disks: &Disks, what: Additions<'_>, over: &Over) -> Result<Self, Error> {
        let mut leaves: Vec<NewLeaf> = Vec::new();
        let mut open = |path: &PathBuf| {
            let (guid, device) = (random_u64(), open_new(disks, path, over)?);
            let spec = LeafSpec::new(guid, device.geometry().len);
            leaves.push(NewLeaf {
                guid,
                place: Place::at(path.clone()),
                device,
            });
            Ok::<_, Error>(spec)
        };
        let mut open_all = |paths: &[PathBuf]| -> Result<Vec<LeafSpec>, Error> {
            paths.iter().map(&mut open).collect()
        };
        let blocks = what.vdevs.iter().map(|vdev| (vdev, Class::Normal));
        let logs = what.logs.iter().map(|vdev| (vdev, Class::Log));
        let mut top_levels = Vec::new();
        for (vdev, class) in blocks.chain(logs) {
            let specs = open_all(&vdev.paths)?;
            let top = TopLevelSpec::new(kind(vdev.kind), class, specs);
            top_levels.push(top.with_inner_labels());
        }
        let (caches, spares) = (open_all(what.caches)?, open_all(what.spares)?);
        Ok(Self {
            top_levels,
            caches,
            spares,
            leaves,
        })
    }

    /// Returns the devices and their paths.
    pub(crate) fn named(&self) -> Vec<Named> {
        let leaves = self.leaves.iter();
        leaves
            .map(|leaf| (leaf.place.path.clone(), Arc::clone(&leaf.device)))
            .collect()
    }

    /// Writes labels to the devices that belong to no vdev, so that they name their pool.
    ///
    /// # Errors
    /// A device cannot be written. The labels of the devices before it are then taken back.
    pub(crate) fn label_beside(&self, config: &PoolConfig) -> Result<(), Error> {
        for leaf in self.beside() {
            if let Err(error) = label::write_beside(&*leaf.device, config, leaf.guid) {
                self.unlabel_beside();
                return Err(label::failed("write", &leaf.place.path, error));
            }
        }
        Ok(())
    }

    /// Takes back the labels of [`Self::label_beside`] after a failed change.
    pub(crate) fn unlabel_beside(&self) {
        for leaf in self.beside() {
            if let Err(error) = label::wipe_leaf(&*leaf.device, leaf.guid) {
                let path = leaf.place.path.display();
                tracing::warn!(%path, %error, "the labels of a device that the pool does not use could not \
                                               be wiped");
            }
        }
    }

    fn beside(&self) -> impl Iterator<Item = &NewLeaf> {
        let is_beside = |leaf: &&NewLeaf| {
            let mut beside = self.caches.iter().chain(&self.spares);
            beside.any(|spec| spec.guid == leaf.guid)
        };
        self.leaves.iter().filter(is_beside)
    }
}

/// Checks whether devices can be used, and changes nothing. Existing devices are opened and
/// inspected; missing files must be possible to create.
///
/// # Errors
/// One of the devices cannot be used.
pub(crate) fn check_devices<'a>(
    disks: &Disks,
    paths: impl Iterator<Item = &'a Path>,
    file_size: Option<u64>,
    over: &Over,
) -> Result<(), Error> {
    for path in paths {
        match is_to_be_made(path) {
            true => size_of_new(path, file_size).map(drop)?,
            false => open_new(disks, path, over).map(drop)?,
        }
    }
    Ok(())
}

/// Reports whether a path names a file that does not exist yet.
fn is_to_be_made(path: &Path) -> bool {
    // Another machine's disk exists or does not. Opening it says why.
    !is_remote(path) && !path.exists()
}

/// Returns the size of a file that is to be created.
fn size_of_new(path: &Path, file_size: Option<u64>) -> Result<u64, Error> {
    match file_size {
        None => Err(Error::not_found(
            format!("{} does not exist", path.display()),
            "check the path (`sandstone pool disks` lists the disks of this machine), or give a size to make a \
             file of, as in --size 10G",
        )),
        Some(size) if size < MIN_DEVICE => Err(too_small(path, size)),
        Some(size) => Ok(size - size % 4096),
    }
}

/// Creates the missing files if a size is given, and returns their paths.
pub(crate) fn make_files<'a>(
    paths: impl Iterator<Item = &'a Path>,
    file_size: Option<u64>,
) -> Result<Vec<PathBuf>, Error> {
    let mut made: Vec<PathBuf> = Vec::new();
    for path in paths.filter(|path| is_to_be_made(path)) {
        let result = size_of_new(path, file_size).and_then(|size| {
            FileDevice::create(path, size, disks::FILE_OPTIONS)
                .map_err(|error| Error::invalid(error.message(), error.next()))
        });
        if let Err(error) = result {
            unmake_files(&made);
            return Err(error);
        }
        made.push(path.to_owned());
    }
    Ok(made)
}

/// Deletes files that were created for a failed change.
pub(crate) fn unmake_files(made: &[PathBuf]) {
    for path in made {
        // The files were created here, and hold nothing.
        let _ = std::fs::remove_file(path);
    }
}

/// Contents of a new device that may be overwritten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Over {
    /// Whether any contents may be overwritten, apart from the exceptions below.
    pub(crate) force: bool,
    /// Pool whose listed leaves, spares and caches may never be overwritten.
    pub(crate) pool: u64,
    pub(crate) name: String,
    pub(crate) listed: BTreeSet<u64>,
    /// Key of this pool's records. Devices of other pools with this key may never be overwritten.
    pub(crate) key: Option<PoolKey>,
}

impl Over {
    /// Returns the rules for a pool that has no device yet.
    pub(crate) fn of_no_pool(force: bool) -> Self {
        Self {
            force,
            ..Self::default()
        }
    }
}

/// Opens a device that is new to the pool. A device that holds something is refused, unless it may
/// be overwritten.
pub(crate) fn open_new(
    disks: &Disks,
    path: &Path,
    over: &Over,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let force = over.force;
    let (device, (labels, foreign)) = disks.open_and_look(path, move |device| {
        let labels = label::read(device)?;
        let foreign = match force {
            true => None,
            false => foreign::found(device, &labels)?,
        };
        Ok((labels, foreign))
    })?;
    let len = device.geometry().len;
    if len < MIN_DEVICE {
        return Err(too_small(path, len));
    }
    let said = label::said(&labels);
    if let Said::Leaf(config, leaf) = &said
        && config.guid == over.pool
        && over.listed.contains(leaf)
    {
        return Err(Error::new(
            ErrorKind::InUse,
            format!(
                "{} is a device of pool {} already, or a copy of it: {leaf:016x}",
                path.display(),
                over.name
            ),
            format!(
                "detach or remove that device first, or let this one replace it: `sandstone pool replace -f \
                 {} {leaf:016x} {}`; wipe this device if it is only a copy",
                over.name,
                path.display()
            ),
        ));
    }
    if let Said::Leaf(config, _) = &said
        && config.guid != over.pool
        && over.key == Some(config.key())
    {
        return Err(keyed_alike(path, &config.name, &over.name));
    }
    if force {
        return Ok(device);
    }
    let holds = match said {
        Said::Leaf(config, _) => {
            let state = match config.is_exported {
                true => "exported",
                false => "potentially active",
            };
            Some(format!("is part of {state} pool '{}'", config.name))
        }
        Said::Unusable(_, why) => Some(format!("may be part of a pool: {why}")),
        Said::Nothing => foreign.map(|what| format!("holds {what}")),
    };
    match holds {
        None => Ok(device),
        Some(holds) => Err(Error::new(
            ErrorKind::InUse,
            format!("{} {holds}", path.display()),
            "use -f to overwrite it, if its data is not needed",
        )),
    }
}

/// Refuses a device of a pool with an equal record key: one of the two pools was made from a copy
/// of the other's devices. Leftovers between blocks could pass for records of this pool's log.
fn keyed_alike(path: &Path, other: &str, pool: &str) -> Error {
    let path = path.display();
    Error::new(
        ErrorKind::InUse,
        format!(
            "{path} is a device of pool {other}, which shares its history with pool {pool}: old records on \
             the device could pass for records of {pool}"
        ),
        format!(
            "if its data is not needed, overwrite the whole device first, as `blkdiscard -z {path}` does"
        ),
    )
}

fn too_small(path: &Path, size: u64) -> Error {
    Error::invalid(
        format!("{} has {}", path.display(), format_size(size)),
        format!("use devices of at least {}", format_size(MIN_DEVICE)),
    )
}
