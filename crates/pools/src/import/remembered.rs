//! Devices that a pool had when the daemon last knew it: their present places, and other devices
//! that must not be taken for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use store::engine::Examined;

use super::twins::options;
use crate::devices::disks::Disks;
use crate::devices::identity::{Identity, Located, locate};
use crate::devices::known::{KnownDevice, KnownPool};
use crate::devices::label;
use model::device_name::is_remote;
use model::{Error, ErrorKind};

/// Devices of a pool that are there.
pub(crate) struct Remembered {
    /// Paths of devices that may be opened.
    pub(crate) there: Vec<PathBuf>,
    /// Strange devices at the places of leaves, by the leaves' guids.
    pub(crate) strangers: BTreeMap<u64, Stranger>,
}

/// Device at the former place of another device.
#[derive(Clone, Debug)]
pub(crate) struct Stranger {
    path: PathBuf,
    was: Identity,
    is: Identity,
    /// Whether the device carries the labels of the former device.
    is_twin: bool,
}

impl Stranger {
    /// Describes the fault, as a sentence without a full stop.
    pub(crate) fn told(&self) -> String {
        let Self { path, was, is, .. } = self;
        let path = path.display();
        match self.is_twin {
            true => format!(
                "{path} is not the device that was used, but has the same labels, so it may be an old copy \
                 of that device: it was {was}, and is {is}"
            ),
            false => format!("{path} is not the device that was used: it was {was}, and is {is}"),
        }
    }
}

/// Looks for the devices of a pool: at their old places, and disks also under new names.
pub(crate) fn remembered(disks: &Disks, known: &KnownPool, pool: u64) -> Remembered {
    let mut found = Remembered {
        there: Vec::new(),
        strangers: BTreeMap::new(),
    };
    for on in &known.devices {
        match locate(&on.path, on.identity.as_ref()) {
            // A later step checks at once for all disks of other machines whether they are there.
            Located::At(path) if is_remote(&path) || path.exists() => found.there.push(path),
            Located::At(_) => {}
            Located::Stranger { was, is } => {
                let Ok(leaf) = u64::from_str_radix(&on.guid, 16) else {
                    continue;
                };
                let labels = disks.look_at(&on.path);
                let said = labels.as_ref().and_then(label::newest);
                let stranger = Stranger {
                    path: on.path.clone(),
                    is_twin: said.is_some_and(|(of, own)| (of.guid, own) == (pool, leaf)),
                    was,
                    is,
                };
                let reason = stranger.told();
                tracing::warn!(pool = known.name, reason, "a device is not used");
                found.strangers.insert(leaf, stranger);
            }
        }
    }
    found
}

/// Advises how to accept twins that took the places of devices. Returns `None` if there are none.
pub(crate) fn accept_strangers(
    known: &KnownPool,
    strangers: &BTreeMap<u64, Stranger>,
) -> Option<String> {
    let twins = strangers.values().filter(|stranger| stranger.is_twin);
    let twins: Vec<&Stranger> = twins.collect();
    let first = twins.first()?;
    let paths = known.devices.iter().map(|on| on.path.as_path());
    let (name, path) = (&known.name, first.path.display());
    Some(format!(
        "put the previous device back; or, if {path} holds the right data, as after a move to another disk, \
         `sandstone pool import{} {name}` uses it from now on",
        options(paths)
    ))
}

/// Refuses devices that are all older than the pool at its last use here: they lack acknowledged
/// writes.
pub(crate) fn require_newest(examined: &Examined, known: &KnownPool) -> Result<(), Error> {
    let was = known.devices.iter().filter_map(|on| on.generation).max();
    let config = &examined.config;
    let Some(was) = was.filter(|was| config.generation < *was) else {
        return Ok(());
    };
    let (name, is) = (&config.name, config.generation);
    let used = |on: &KnownDevice| match &on.identity {
        Some(identity) => format!("{} ({identity})", on.path.display()),
        None => on.path.display().to_string(),
    };
    let used: Vec<String> = known.devices.iter().map(used).collect();
    Err(Error::new(
        ErrorKind::Refused,
        format!(
            "these devices hold an older state of pool {name}: their configuration has the number {is}, but \
             it was {was} when the pool was last used here. Later writes are not on these devices"
        ),
        format!(
            "attach the devices that were used: {}; to return to the older state and lose all later writes, \
             use `sandstone pool import -f` with -d for each of the older devices, and {name}",
            used.join(", ")
        ),
    ))
}
