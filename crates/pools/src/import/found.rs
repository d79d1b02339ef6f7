//! Search for pools: what the labels on files and devices say, and which devices of each pool are
//! there.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use store::engine::{Examined, LeafLabels, OpenError, OpenErrorKind, PoolConfig, examine};

use self::layout::Layout;
use super::twins::{self, CopyOfOpen};
use crate::devices::disks::Disks;
use crate::devices::label::{self, Said};
use crate::devices::system::{Key, key};
use model::Error;
use model::pool::found::FoundPool;
use model::pool::twins::TwinsView;

mod layout;

/// File or device with labels.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    pub(crate) labels: LeafLabels,
    /// Whether the user named the file or device itself, so that it was not found in a folder.
    pub(crate) is_named: bool,
}

/// Labels and devices that a search found, by pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundPools {
    pub(crate) pools: BTreeMap<u64, Vec<Candidate>>,
    /// Devices that carry labels of open pools, but belong to none of these pools.
    pub(crate) copies: Vec<CopyOfOpen>,
    /// Names and numbers of open pools whose devices the search met.
    pub(crate) open: Vec<(String, u64)>,
    /// Devices with unusable labels that name no pool, and the reason for each.
    pub(crate) unusable: Vec<(PathBuf, String)>,
}

impl FoundPools {
    /// Describes every pool that was found, for a listing.
    pub(crate) fn describe(&self) -> Vec<FoundPool> {
        let pools = self.pools.iter().map(|(guid, on)| describe(*guid, on));
        let unusable = self.unusable.iter().map(|(path, why)| FoundPool {
            devices: vec![path.clone()],
            state: "UNAVAIL".to_owned(),
            problem: Some(why.clone()),
            ..FoundPool::default()
        });
        let copies = self.copies.iter().map(|copy| FoundPool {
            name: copy.pool.clone(),
            devices: vec![copy.path.clone()],
            state: "UNAVAIL".to_owned(),
            problem: Some(copy.told()),
            ..FoundPool::default()
        });
        pools.chain(unusable).chain(copies).collect()
    }

    /// Returns the pools that a name or number means.
    pub(crate) fn named(&self, wanted: &str) -> Vec<(FoundPool, u64)> {
        let mut named = self.all();
        named.retain(|(pool, _)| pool.name == wanted || pool.guid == wanted);
        named
    }

    /// Returns every pool, and its number.
    pub(crate) fn all(&self) -> Vec<(FoundPool, u64)> {
        let pools = self.pools.iter();
        pools
            .map(|(guid, on)| (describe(*guid, on), *guid))
            .collect()
    }

    /// Describes the other devices with labels, for an error about a pool that was not found.
    /// Returns an empty text if there are none.
    pub(crate) fn told_unusable(&self) -> String {
        let told = self.unusable.iter();
        let told = told.map(|(path, why)| format!("; {}: {why}", path.display()));
        let copies = self.copies.iter();
        let copies = copies.map(|copy| format!("; {}", copy.told()));
        told.chain(copies).collect()
    }
}

/// Returns the error for a search that several pools fit.
pub(crate) fn several(fitting: &[(FoundPool, u64)]) -> Error {
    let told = fitting.iter().map(|(pool, _)| {
        let devices = pool.devices.iter().map(|path| path.display().to_string());
        let devices: Vec<String> = devices.collect();
        format!("{} {} (on {})", pool.name, pool.guid, devices.join(", "))
    });
    let told: Vec<String> = told.collect();
    Error::invalid(
        format!("several pools were found: {}", told.join("; ")),
        "name one of them by its number",
    )
}

/// Finds all pools on the files, devices and folders in `paths`. If `paths` is empty, it searches
/// the devices of /dev and the disks of other machines. A device with several names is found once.
pub(crate) fn find_labels(disks: &Disks, paths: &[PathBuf]) -> FoundPools {
    let mut found = FoundPools::default();
    let mut default = vec![PathBuf::from("/dev")];
    default.extend(disks.remote_names());
    let is_asked = !paths.is_empty();
    let paths = if is_asked { paths } else { &default[..] };
    for (path, is_named) in places(paths) {
        let Some(labels) = disks.look_at(&path) else {
            continue;
        };
        let pools = match (twins::torn(&labels), label::said(&labels)) {
            (Some(both), _) => both.to_vec(),
            (None, Said::Nothing) => continue,
            (None, Said::Leaf(config, _)) => vec![config.guid],
            (None, Said::Unusable(Some(guid), _)) => vec![guid],
            (None, Said::Unusable(None, why)) => {
                found.unusable.push((path, why));
                continue;
            }
        };
        for guid in pools {
            let (path, labels) = (path.clone(), labels.clone());
            found.pools.entry(guid).or_default().push(Candidate {
                path,
                labels,
                is_named: is_named && is_asked,
            });
        }
    }
    found
}

/// Returns the files and devices that `paths` lead to, each once, and whether the user named each
/// itself.
fn places(paths: &[PathBuf]) -> Vec<(PathBuf, bool)> {
    let mut places: Vec<(PathBuf, bool)> = Vec::new();
    let mut seen: HashMap<Key, usize> = HashMap::new();
    for path in paths {
        for place in candidates(path) {
            let is_named = place == *path;
            let Some(key) = key(&place) else {
                continue;
            };
            match seen.get(&key) {
                // A name that the user gave goes before a name found in a folder.
                Some(at) if is_named && !places[*at].1 => places[*at] = (place, true),
                Some(_) => {}
                None => {
                    seen.insert(key, places.len());
                    places.push((place, is_named));
                }
            }
        }
    }
    places
}

/// Returns the files and devices that a path leads to: the path itself, or the direct entries of a
/// folder. In /dev and similar folders only device nodes count.
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

/// Describes a pool by the labels that were found.
pub(crate) fn describe(guid: u64, on: &[Candidate]) -> FoundPool {
    let chosen = twins::choose(guid, on.to_vec());
    let on = chosen.devices;
    let labels: Vec<LeafLabels> = on.iter().map(|on| on.labels.clone()).collect();
    let devices: Vec<PathBuf> = on.iter().map(|on| on.path.clone()).collect();
    let config = labels
        .iter()
        .filter_map(label::newest)
        .map(|(config, _)| config)
        .max_by_key(|config| config.generation);
    let examined: Result<Examined, OpenError> = examine(&labels, Some(guid));
    let leaf = |on: &Candidate| Some((label::newest(&on.labels)?.1, on.path.clone()));
    let places: BTreeMap<u64, PathBuf> = on.iter().filter_map(leaf).collect();
    let behind = examined.iter().flat_map(|of| &of.behind);
    let behind = behind.map(|of| of.leaf);
    // The examined configuration also knows which leaves are behind.
    let judged = examined.as_ref().map(|of| &of.config).ok();
    let layout = judged.or(config.as_ref()).map(|config| Layout {
        config,
        places: places.clone(),
        twins: &chosen.twins,
        behind: behind.collect(),
    });
    let problem = match &examined {
        Ok(examined) => missing_log(examined)
            .or_else(|| layout.as_ref().and_then(Layout::too_few))
            .or_else(|| examined.old_copy()),
        Err(error) if error.kind == OpenErrorKind::Twins => {
            let told = chosen.twins.iter().map(TwinsView::told);
            Some(told.collect::<Vec<String>>().join("; "))
        }
        Err(error) if error.kind == OpenErrorKind::Reguid => {
            let (paths, name) = (devices.iter().map(PathBuf::as_path), config.as_ref());
            let name = name.map(|config| config.name.as_str()).unwrap_or_default();
            Some(format!(
                "{error}; `sandstone pool reguid{} {name}`, with all devices that were named then, completes \
                 the change",
                twins::options(paths)
            ))
        }
        Err(error) => Some(error.to_string()),
    };
    let missing = config.iter().flat_map(|config| {
        let leaves = leaves(config).filter(|leaf| !places.contains_key(leaf));
        leaves.map(|leaf| name_of(config, leaf))
    });
    let missing: Vec<String> = missing.collect();
    let state = match (&problem, missing.is_empty() && !has_old_copies(&examined)) {
        (Some(_), _) => "UNAVAIL",
        (None, true) => "ONLINE",
        (None, false) => "DEGRADED",
    };
    let layout = layout.map(|layout| layout.sections(state));
    FoundPool {
        name: config.as_ref().map(|c| c.name.clone()).unwrap_or_default(),
        guid: format!("{guid:016x}"),
        is_exported: config.as_ref().is_some_and(|c| c.is_exported),
        host: config.map(|c| c.host).unwrap_or_default(),
        devices,
        unaccounted: examined.as_ref().map(unaccounted).unwrap_or_default(),
        rewind: None,
        is_between_numbers: matches!(&examined, Err(error) if error.kind == OpenErrorKind::Reguid),
        is_old_copy: matches!(&examined, Ok(examined) if problem == examined.old_copy() && problem.is_some()),
        is_log_missing: matches!(&examined, Ok(examined) if !examined.missing_logs.is_empty()),
        state: state.to_owned(),
        layout: layout.unwrap_or_default(),
        missing,
        problem,
        twins: chosen.twins,
        left_out: chosen.left_out,
        notes: Vec::new(),
    }
}

fn has_old_copies(examined: &Result<Examined, OpenError>) -> bool {
    examined.as_ref().is_ok_and(|of| !of.behind.is_empty())
}

/// Returns the names of missing devices that may have been used without the devices that were
/// found. A cleanly exported pool has none, as far as is known.
pub(crate) fn unaccounted(examined: &Examined) -> Vec<String> {
    let config = &examined.config;
    let away = examined.unaccounted.iter();
    let away = away.filter(|_| !config.is_exported);
    away.map(|guid| name_of(config, *guid)).collect()
}

/// Describes the missing log device and its consequence, if one is missing.
pub(crate) fn missing_log(examined: &Examined) -> Option<String> {
    let log = examined.missing_logs.first()?;
    let leaves = log.leaves.iter();
    let leaves: Vec<String> = leaves
        .map(|leaf| name_of(&examined.config, *leaf))
        .collect();
    let loss = match examined.config.is_exported {
        true => "the pool was exported cleanly, so nothing is lost without it",
        false => {
            "it may hold durable writes, of the last seconds before the pool was last used, that are nowhere \
             else; without it they are lost"
        }
    };
    Some(format!(
        "its log device is missing ({}): {loss}",
        leaves.join(", ")
    ))
}

/// Returns the guids of all leaves of a pool.
pub(crate) fn leaves(config: &PoolConfig) -> impl Iterator<Item = u64> {
    let slots = config.tree.top_levels.iter().flat_map(|top| &top.slots);
    slots.flat_map(|slot| slot.leaves.iter().map(|leaf| leaf.guid))
}

/// Returns the last known place of a leaf, or its number.
pub(crate) fn name_of(config: &PoolConfig, leaf: u64) -> String {
    let path = config.paths.get(&leaf).cloned();
    path.unwrap_or_else(|| format!("{leaf:016x}"))
}
