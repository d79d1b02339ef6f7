//! Search for the daemon's pools by device labels, for when `pools.json` no longer lists them.
//!
//! A pool belongs to this daemon if its labels say that this installation has it, and not that it
//! was exported. The search covers the devices of `/dev` and the disks of other machines that
//! sessions show, including those that appear later. It also covers the folders of all paths named
//! in older generations, in the remains of the damaged files, and in labels. Pools in other folders
//! cannot be found; the notice says so, and how to import them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use store::engine::PoolConfig;

use crate::devices::known::{KnownDevice, KnownPool};
use crate::devices::label;
use crate::import::found::{Candidate, find_labels, leaves};
use crate::registry::Pools;
use model::device_name::is_remote;
use model::{Error, ErrorKind};
use state_folder::Trouble;

/// Outcome of a search.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// Pools found, and pools of an older list whose devices were not found.
    pub(crate) pools: Vec<KnownPool>,
    /// Pools with two devices that are one leaf. The search does not guess which device is right.
    pub(crate) twins: Vec<(KnownPool, Error)>,
    /// News of other pools, as sentences without a full stop.
    pub(crate) told: Vec<String>,
}

impl Rebuilt {
    fn names(&self) -> impl Iterator<Item = &str> {
        let twins = self.twins.iter().map(|(pool, _)| pool);
        self.pools
            .iter()
            .chain(twins)
            .map(|pool| pool.name.as_str())
    }
}

/// Returns the folders of the absolute paths in these files, whatever else is wrong with the files.
pub(crate) fn folders_named_in(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let texts = files.iter().filter_map(|file| std::fs::read(file).ok());
    let mut folders = BTreeSet::new();
    for text in texts {
        let text = String::from_utf8_lossy(&text);
        let paths = text.split('"').filter(|part| part.starts_with('/'));
        folders.extend(paths.filter_map(|path| folder_of(Path::new(path))));
    }
    folders
}

/// Returns the folder of a pool's file. A device node has none, because device nodes are searched
/// anyway.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|_| path.is_absolute())?;
    (!folder.starts_with("/dev")).then(|| folder.to_owned())
}

impl Pools {
    /// Finds this daemon's pools by their labels. `known` is an older list, and `hints` are
    /// folders.
    pub(crate) fn rebuild(&self, known: &[KnownPool], hints: BTreeSet<PathBuf>) -> Rebuilt {
        let mut to_look = hints;
        let devices = known.iter().flat_map(|pool| &pool.devices);
        to_look.extend(devices.filter_map(|device| folder_of(&device.path)));
        to_look.extend([
            self.options.state.clone(),
            self.options.state.join("volumes"),
            PathBuf::from("/dev"),
        ]);
        to_look.extend(self.options.disks.remote_names());
        let mut searched = BTreeSet::new();
        let mut found = BTreeMap::new();
        // Labels name the places of the other devices, which may be in folders that nobody named.
        while !to_look.is_empty() {
            let paths: Vec<PathBuf> = std::mem::take(&mut to_look).into_iter().collect();
            let more = find_labels(&self.options.disks, &paths).pools;
            searched.extend(paths);
            let configs = more.values().flatten();
            let configs = configs.filter_map(|on| label::newest(&on.labels));
            let named = configs.flat_map(|(config, _)| config.paths.into_values());
            let folders = named.filter_map(|path| folder_of(Path::new(&path)));
            to_look.extend(folders.filter(|folder| !searched.contains(folder)));
            for (guid, on) in more {
                found.entry(guid).or_insert_with(Vec::new).extend(on);
            }
        }
        let rebuilt = self.judge(known, &found);
        *self.searched() = Some(searched);
        rebuilt
    }

    /// Decides which of the found pools are this daemon's.
    fn judge(&self, known: &[KnownPool], found: &BTreeMap<u64, Vec<Candidate>>) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        let number = |guid: &u64| format!("{guid:016x}");
        for (guid, on) in found {
            let older = known.iter().find(|known| known.guid == number(guid));
            let said = on.iter().filter_map(|on| label::newest(&on.labels));
            let newest = said
                .map(|(config, _)| config)
                .max_by_key(|of| of.generation);
            let Some(config) = newest.filter(|config| self.has_open(config)) else {
                continue;
            };
            if rebuilt.names().any(|name| name == config.name) {
                rebuilt.told.push(format!(
                    "there is another pool {name}, with the number {number}: `sandstone pool import {number} NEWNAME` opens \
                     it under another name",
                    name = config.name,
                    number = number(guid)
                ));
                continue;
            }
            let (pool, twins) = located(&config, on, older);
            match twins {
                None => rebuilt.pools.push(pool),
                Some(twins) => rebuilt.twins.push((pool, twins)),
            }
        }
        // Missing devices may appear later. A pool that was exported since is not waited for.
        let lost = known.iter().filter(|of| {
            let guid = u64::from_str_radix(&of.guid, 16).unwrap_or(0);
            !found.contains_key(&guid)
        });
        for pool in lost {
            if rebuilt.names().any(|name| name == pool.name) {
                continue;
            }
            rebuilt.told.push(format!(
                "no device was found of pool {}, which an older list names",
                pool.name
            ));
            rebuilt.pools.push(pool.clone());
        }
        rebuilt
    }

    /// Reports whether the labels say that this installation has the pool open.
    fn has_open(&self, config: &PoolConfig) -> bool {
        let installation = config.host.rsplit('/').next();
        !config.is_exported && installation == Some(self.options.installation.as_str())
    }

    /// Searches disks of other machines that appeared after the first search.
    pub(crate) fn search_on(&self) {
        let new: Vec<PathBuf> = {
            let mut searched = self.searched();
            let Some(searched) = searched.as_mut() else {
                return;
            };
            let names = self.options.disks.remote_names().into_iter();
            names.filter(|name| searched.insert(name.clone())).collect()
        };
        if new.is_empty() {
            return;
        }
        let found = find_labels(&self.options.disks, &new).pools;
        let rebuilt = self.judge(&[], &found);
        for (pool, error) in rebuilt.twins {
            if self
                .absent()
                .iter()
                .all(|absent| absent.known.name != pool.name)
                && self.all().iter().all(|(name, _)| *name != pool.name)
            {
                self.await_pool(pool, error);
            }
        }
        for pool in rebuilt.pools {
            self.take_found(pool);
        }
    }

    /// Opens a pool that was found later, or adds the found devices to a pool that waits for them.
    fn take_found(&self, found: KnownPool) {
        let _changing = self.changing();
        if self
            .all()
            .iter()
            .any(|(_, pool)| format!("{:016x}", pool.guid) == found.guid)
        {
            return;
        }
        let mut pool = found;
        let mut absent = self.absent().into_iter();
        if let Some(absent) = absent.find(|absent| absent.known.guid == pool.guid) {
            let others = absent.known.devices.into_iter();
            let is_new =
                |device: &KnownDevice| pool.devices.iter().all(|of| of.path != device.path);
            let more: Vec<KnownDevice> = others.filter(is_new).collect();
            pool.devices.extend(more);
        } else {
            tracing::warn!(pool = pool.name, "a pool from the lost list was found");
        }
        self.open_or_await(pool);
        self.keep();
    }
}

/// Returns the places of a pool's devices: found places, and for the others those of an older list
/// or the labels. If two devices are one leaf, it also returns why the pool is not opened.
fn located(
    config: &PoolConfig,
    on: &[Candidate],
    older: Option<&KnownPool>,
) -> (KnownPool, Option<Error>) {
    let mut places: BTreeSet<(u64, PathBuf)> = BTreeSet::new();
    let mut twins = None;
    for Candidate { path, labels, .. } in on {
        let Some((_, leaf)) = label::newest(labels) else {
            continue;
        };
        if let Some((_, other)) = places.iter().find(|(guid, _)| *guid == leaf) {
            let (name, other, path) = (&config.name, other.display(), path.display());
            twins = Some(Error::new(
                ErrorKind::Refused,
                format!("{other} and {path} both claim to be the same device of the pool"),
                format!(
                    "`sandstone pool import -d PATH {name}` opens it; name the paths of the devices to use"
                ),
            ));
        }
        places.insert((leaf, path.clone()));
    }
    let beside = config.spares.iter().chain(&config.caches);
    for guid in leaves(config).chain(beside.map(|leaf| leaf.guid)) {
        if let Some(path) = config.paths.get(&guid)
            && places.iter().all(|(found, _)| *found != guid)
        {
            places.insert((guid, PathBuf::from(path)));
        }
    }
    let devices = places.into_iter().map(|(guid, path)| {
        let number = format!("{guid:016x}");
        let before = older.into_iter().flat_map(|of| &of.devices);
        let mut before = before.filter(|of| of.guid == number && of.path == path);
        let before = before.next().cloned();
        before.unwrap_or_else(|| KnownDevice::new(guid, path, Vec::new()))
    });
    let pool = KnownPool {
        name: config.name.clone(),
        guid: format!("{:016x}", config.guid),
        devices: devices.collect(),
        is_read_only: older.is_some_and(|older| older.is_read_only),
    };
    (pool, twins)
}

/// Words the notice of a lost list and of the search's findings.
pub(crate) fn told(trouble: &Trouble, rebuilt: &Rebuilt) -> String {
    let names: Vec<&str> = rebuilt.names().collect();
    let pools = match names.is_empty() {
        true => "none of the devices belongs to a pool that this daemon had open".to_owned(),
        false => format!(
            "by their labels, this daemon had these pools open: {}",
            names.join(", ")
        ),
    };
    let mut sentences = vec![format!(
        "{}, and so is its newest copy; the daemon therefore searched devices for its pools: {pools}",
        trouble.reason
    )];
    sentences.extend(rebuilt.told.iter().cloned());
    sentences.extend(rebuilt.twins.iter().map(|(pool, error)| {
        let (name, message, next) = (&pool.name, &error.message, &error.next);
        format!("Pool {name} is not opened automatically: {message}; {next}")
    }));
    let local = rebuilt.pools.iter().flat_map(|pool| &pool.devices);
    let folders = local.filter(|on| !is_remote(&on.path));
    let folders: BTreeSet<PathBuf> = folders.filter_map(|on| folder_of(&on.path)).collect();
    let beside = match folders.is_empty() {
        true => "Files of pools were searched only in the state folder".to_owned(),
        false => {
            let folders: Vec<String> = folders.iter().map(|of| of.display().to_string()).collect();
            format!("Files of pools were found in {}", folders.join(", "))
        }
    };
    sentences.push(format!(
        "{beside}; this search cannot notice a pool in any other folder: `sandstone pool import -d FOLDER` \
         lists the pools there, and `sandstone pool import -d FOLDER NAME` opens one"
    ));
    sentences.join(". ")
}
