//! Twins, as an administrator sees them: devices that share an identity, what each holds, and how
//! to choose one of them.

use std::path::{Path, PathBuf};

use store::engine::{LeafLabels, Standing, Twins, torn_identity, twins};

use super::found::{Candidate, name_of};
use crate::devices::identity::Identity;
use crate::devices::label;
use model::pool::twins::{TwinView, TwinsView};
use model::{Error, ErrorKind};

/// Devices with which a pool can be opened, as far as names tell.
pub(crate) struct Chosen {
    pub(crate) devices: Vec<Candidate>,
    /// Twins of which the user named none, or several.
    pub(crate) twins: Vec<TwinsView>,
    /// Twins of named devices. Nobody asked for these twins.
    pub(crate) left_out: Vec<PathBuf>,
}

/// Omits the twins of devices that the user named.
pub(crate) fn choose(guid: u64, mut devices: Vec<Candidate>) -> Chosen {
    let mut left_out = Vec::new();
    for of_leaf in found(guid, &devices) {
        let of_leaf = of_leaf.devices.iter();
        let (named, others): (Vec<usize>, Vec<usize>) = of_leaf
            .map(|twin| twin.device)
            .partition(|device| devices[*device].is_named);
        if named.len() == 1 {
            left_out.extend(others);
        }
    }
    let mut number = 0..;
    let is_left = |_: &mut Candidate| number.next().is_some_and(|own| left_out.contains(&own));
    let left_out = devices.extract_if(.., is_left);
    let left_out = left_out.map(|device| device.path).collect();
    let views = found(guid, &devices);
    Chosen {
        twins: views.iter().map(|of| view(of, &devices)).collect(),
        devices,
        left_out,
    }
}

fn found(guid: u64, devices: &[Candidate]) -> Vec<Twins> {
    let labels: Vec<LeafLabels> = devices.iter().map(|on| on.labels.clone()).collect();
    // Another part of the program reports unusable labels.
    twins(&labels, guid).unwrap_or_default()
}

fn view(of: &Twins, devices: &[Candidate]) -> TwinsView {
    let newest = match of.standing {
        Standing::Newest(device) => Some(device),
        Standing::Alike | Standing::Parted => None,
    };
    let twin = |twin: &store::engine::Twin| TwinView {
        path: devices[twin.device].path.clone(),
        size: twin.size,
        generation: twin.generation,
        checkpoint: twin.newest.map(|(epoch, _)| epoch.0),
        checkpoint_s: twin.newest.map(|(_, time_s)| time_s),
        is_exported: twin.is_exported,
        host: twin.host.clone(),
        is_newest: newest == Some(twin.device),
    };
    let standing = match newest.and_then(|newest| devices.get(newest)) {
        Some(newest) => format!(
            "{} is the newest: it has all checkpoints of its copies, and newer ones",
            newest.path.display()
        ),
        None if of.standing == Standing::Alike => {
            "their labels are equal, so nothing shows which was written last".to_owned()
        }
        None => "each was used without the other and has changes that the other lacks".to_owned(),
    };
    TwinsView {
        leaf: format!("{:016x}", of.leaf),
        standing: standing + &one_disk(of, devices),
        devices: of.devices.iter().map(twin).collect(),
    }
}

/// Returns a hint for two paths that may lead to one disk without the kernel saying so.
fn one_disk(of: &Twins, devices: &[Candidate]) -> String {
    let identity = |twin: &store::engine::Twin| Identity::of(&devices[twin.device].path);
    let mut names = of.devices.iter().map(|twin| identity(twin)?.wwn);
    let first = names.next().flatten();
    match first {
        Some(name) if names.all(|other| other.as_ref() == Some(&name)) => format!(
            " (all of them claim to be disk {name}: if they are paths of one disk, set up multipath, or name \
             one of them)"
        ),
        _ => String::new(),
    }
}

/// Refuses twins, and says how to choose one of them. `all` are the devices that were found of the
/// pool, and `paths` are the searched paths.
pub(crate) fn refuse(
    pool: &str,
    twins: &[TwinsView],
    all: &[PathBuf],
    paths: &[PathBuf],
    verb: &str,
) -> Result<(), Error> {
    if twins.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = twins.iter().map(TwinsView::told_with_holdings).collect();
    let (chosen, copies) = (example(twins, all, paths), copies(twins));
    Err(Error::new(
        ErrorKind::Refused,
        format!("pool {pool} was not opened: {}", told.join("\n")),
        format!(
            "name one of them, as in `sandstone pool {verb}{chosen} {pool}`; a device that is named itself \
             is used, and its copies in a folder are ignored. `sandstone pool reguid{copies} {pool} NEWNAME` \
             makes the copy a separate pool"
        ),
    ))
}

/// Returns options that name one device of each pair of twins, and the places of the pool's other
/// devices.
fn example(twins: &[TwinsView], all: &[PathBuf], paths: &[PathBuf]) -> String {
    let is_twin = |path: &PathBuf| {
        let mut devices = twins.iter().flat_map(|of| &of.devices);
        devices.any(|on| on.path == *path)
    };
    let folders = || paths.iter().filter(|path| !is_twin(path));
    let mut words: Vec<&Path> = match (all.iter().all(is_twin), paths) {
        (true, _) => Vec::new(),
        (false, []) => vec![Path::new("/dev")],
        (false, _) => folders().map(PathBuf::as_path).collect(),
    };
    words.extend(twins.iter().filter_map(TwinsView::example));
    options(words.into_iter())
}

/// Returns options that name one device for each leaf other than that of the example.
fn copies(twins: &[TwinsView]) -> String {
    let others = twins.iter().flat_map(|of| {
        let devices = of.devices.iter().map(|on| on.path.as_path());
        let other = devices.filter(move |path| Some(*path) != of.example());
        other.take(1)
    });
    options(others)
}

/// Formats paths as options of a command.
pub(crate) fn options<'a>(paths: impl Iterator<Item = &'a Path>) -> String {
    let options = paths.map(|path| format!(" -d {}", path.display()));
    options.collect()
}

/// Device that carries a label of an open pool, but is not one of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyOfOpen {
    /// Name of the pool.
    pub(crate) pool: String,
    /// Path of the copy.
    pub(crate) path: PathBuf,
    /// Device that was copied, as far as the pool knows it.
    pub(crate) of: String,
}

impl CopyOfOpen {
    /// Describes the copy, as a sentence without a full stop.
    pub(crate) fn told(&self) -> String {
        let Self { pool, path, of } = self;
        let path = path.display();
        format!(
            "{path} carries the label of a device of pool {pool}, which is open ({of}): if it is a copy of \
             that device, `sandstone pool reguid -d {path} {pool} NEWNAME` makes it a separate pool"
        )
    }

    /// Returns the copy, if the candidate is one.
    pub(crate) fn of(pool: &str, found: &Candidate) -> Option<Self> {
        let (config, leaf) = label::newest(&found.labels)?;
        config.lists(leaf).then(|| Self {
            pool: pool.to_owned(),
            path: found.path.clone(),
            of: name_of(&config, leaf),
        })
    }
}

/// Returns the numbers to search for, if a device's change of identity was interrupted.
pub(crate) fn torn(labels: &LeafLabels) -> Option<[u64; 2]> {
    torn_identity(labels).map(|(old, new)| [old, new])
}
