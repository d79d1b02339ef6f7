//! Finding pools by the labels on files and devices, and opening them.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::pool::{Examined, LeafLabels, PoolConfig, examine};
use utoipa::ToSchema;

use super::host::{Begin, PoolHost, Setup};
use super::known::KnownPool;
use super::registry::{OpenPool, Pools};
use super::{devices, label};
use crate::config::{Error, ErrorKind};

/// `pool import`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Which pool: its name or number; without it, pools are only listed.
    #[serde(default)]
    pub pool: Option<String>,
    /// Files, devices, and folders of these, to look at; none is /dev.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
    /// Also where its labels say that another host has it.
    #[serde(default)]
    pub force: bool,
}

/// A pool that was found and is not open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// Its number.
    pub guid: String,
    /// Whether it was exported.
    pub is_exported: bool,
    /// Who had it last.
    pub host: String,
    /// What it was found on.
    #[schema(value_type = Vec<String>)]
    pub devices: Vec<PathBuf>,
    /// Devices of it that were not found.
    pub missing: usize,
    /// Why it cannot be imported; `None` where it can.
    pub problem: Option<String>,
}

/// Labels by pool: what lies where.
type Found = BTreeMap<u64, Vec<(PathBuf, LeafLabels)>>;

impl Pools {
    /// The pools that could be imported.
    pub fn importable(&self, paths: &[PathBuf]) -> Vec<FoundPool> {
        let found = self.scan(paths);
        found
            .iter()
            .map(|(guid, devices)| describe(*guid, devices))
            .collect()
    }

    /// Imports a pool; returns its name.
    ///
    /// # Errors
    /// It is not found, is another host's, or cannot be opened.
    pub fn import(&self, request: &ImportPool) -> Result<String, Error> {
        let _changing = self.changing();
        let wanted = request.pool.as_deref().unwrap_or_default();
        let found = self.scan(&request.paths);
        let described = found.iter().map(|(guid, on)| (describe(*guid, on), *guid));
        let mut fitting: Vec<(FoundPool, u64)> = described
            .filter(|(pool, _)| pool.name == wanted || pool.guid == wanted)
            .collect();
        let Some((pool, guid)) = fitting.pop() else {
            return Err(Error::not_found(
                format!("no pool {wanted} was found"),
                "name the files, devices or folders to look at with -d; `sandstone pool import` lists what there is",
            ));
        };
        if !fitting.is_empty() {
            return Err(Error::invalid(
                format!("there are several pools {wanted}"),
                "name the one that you mean by its number, as `sandstone pool import` lists it",
            ));
        }
        let is_absent = |name: &str| self.absent().iter().any(|absent| absent.known.name == name);
        if !is_absent(&pool.name) {
            self.check_name(&pool.name)?;
        }
        self.open_found(guid, &pool.devices, request.force)?;
        Ok(pool.name)
    }

    /// Opens a pool that this daemon had when it ended.
    pub(super) fn import_known(&self, known: &KnownPool) -> Result<(), Error> {
        let guid = u64::from_str_radix(&known.guid, 16)
            .map_err(|_| Error::invalid(format!("{} is no guid", known.guid), "import it again"))?;
        let paths: Vec<PathBuf> = known.devices.iter().map(|on| on.path.clone()).collect();
        let there: Vec<PathBuf> = paths.into_iter().filter(|path| path.exists()).collect();
        self.open_found(guid, &there, false)
    }

    fn open_found(&self, guid: u64, paths: &[PathBuf], force: bool) -> Result<(), Error> {
        let mut opened = Vec::new();
        for path in paths {
            // First locked, then read: nobody writes labels in between.
            let device = devices::open(path)
                .map_err(|error| Error::new(ErrorKind::InUse, error.problem(), error.advice()))?;
            let labels = label::read(path)
                .map_err(|error| Error::storage(format!("read {}", path.display()), error))?;
            opened.push((path.clone(), device, labels));
        }
        let labels: Vec<LeafLabels> = opened.iter().map(|(_, _, labels)| labels.clone()).collect();
        let examined = examine(&labels, Some(guid)).map_err(|error| {
            Error::new(
                ErrorKind::Refused,
                error.to_string(),
                "check that its devices are attached and their paths right",
            )
        })?;
        self.check_owner(&examined.config, force)?;
        let name = examined.config.name.clone();
        let leaves = examined.leaves.clone();
        let found = opened.into_iter().zip(leaves);
        let found: Vec<_> = found
            .filter_map(|((path, device, _), leaf)| Some((leaf?, path, device)))
            .collect();
        let setup = Setup {
            begin: Begin::Import(Box::new(examined)),
            devices: found
                .iter()
                .map(|(leaf, _, device)| (*leaf, Arc::clone(device)))
                .collect(),
            cache: self.cache_for_one_more(),
            host: self.host_id(),
            io_uring: self.options.io_uring,
        };
        let host = PoolHost::start(&name, setup).map_err(|reason| {
            Error::new(
                ErrorKind::Refused,
                format!("pool {name} cannot be opened: {reason}"),
                "attach what is missing, then import it again",
            )
        })?;
        let paths = found.into_iter().map(|(leaf, path, _)| (leaf, path));
        self.add(OpenPool {
            host: Arc::new(host),
            guid,
            paths: paths.collect(),
        })
    }

    /// Refuses a pool that another host may have open.
    fn check_owner(&self, config: &PoolConfig, force: bool) -> Result<(), Error> {
        let installation = |host: &str| host.rsplit('/').next().map(str::to_owned);
        let is_ours = installation(&config.host) == installation(&self.host_id());
        if config.is_exported || is_ours || force {
            return Ok(());
        }
        let machine = config.host.split('/').next().unwrap_or_default();
        Err(Error::new(
            ErrorKind::InUse,
            format!(
                "pool {} was last in use by {machine} and never exported there",
                config.name
            ),
            "export it there; if that machine is gone for good, import it with -f: \
             two hosts that write to one pool destroy it",
        ))
    }

    /// All pools on what `paths` name, except those that are open.
    fn scan(&self, paths: &[PathBuf]) -> Found {
        let own = self.all();
        let open: Vec<u64> = own.iter().map(|(_, pool)| pool.guid).collect();
        let mut found = Found::new();
        let mut seen = std::collections::HashSet::new();
        let default = [PathBuf::from("/dev")];
        let paths = if paths.is_empty() {
            &default[..]
        } else {
            paths
        };
        for path in paths.iter().flat_map(|path| candidates(path)) {
            let Ok(real) = std::fs::canonicalize(&path) else {
                continue;
            };
            if !seen.insert(real) {
                continue;
            }
            // What cannot be read holds no pool that could be imported.
            let Ok(labels) = label::read(&path) else {
                continue;
            };
            if let Some((config, _)) = label::newest(&labels)
                && !open.contains(&config.guid)
            {
                found.entry(config.guid).or_default().push((path, labels));
            }
        }
        found
    }
}

/// The files and devices that a path leads to: itself, or what lies directly in the folder. In /dev and
/// its like that is device nodes only.
fn candidates(path: &Path) -> Vec<PathBuf> {
    let is_candidate = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_block_device() || kind.is_file()
        })
    };
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| is_candidate(path))
        .collect();
    found.sort();
    found
}

fn describe(guid: u64, on: &[(PathBuf, LeafLabels)]) -> FoundPool {
    let labels: Vec<LeafLabels> = on.iter().map(|(_, labels)| labels.clone()).collect();
    let devices: Vec<PathBuf> = on.iter().map(|(path, _)| path.clone()).collect();
    let config = labels
        .iter()
        .filter_map(label::newest)
        .map(|(config, _)| config)
        .max_by_key(|config| config.generation);
    let examined: Result<Examined, _> = examine(&labels, Some(guid));
    let tops = config.iter().flat_map(|config| &config.tree.top_levels);
    let leaves: usize = tops
        .flat_map(|top| &top.slots)
        .map(|slot| slot.leaves.len())
        .sum();
    FoundPool {
        name: config.as_ref().map(|c| c.name.clone()).unwrap_or_default(),
        guid: format!("{guid:016x}"),
        is_exported: config.as_ref().is_some_and(|c| c.is_exported),
        host: config.map(|c| c.host).unwrap_or_default(),
        missing: leaves.saturating_sub(devices.len()),
        devices,
        problem: examined.err().map(|error| error.to_string()),
    }
}
