//! List of this daemon's pools, and of the places of their devices: `pools.json` in the state
//! folder, the counterpart of ZFS's zpool.cache. The truth about a pool is in its labels; the list
//! only says where to look at the start.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use config::backup::PoolMembers;
use state_folder::{FoundFile, KeptFile, open_json, seal_json};

/// Pool of this daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownPool {
    /// Name of the pool.
    pub(crate) name: String,
    /// Number of the pool, 16 hexadecimal digits.
    pub(crate) guid: String,
    /// Last known places of its devices.
    pub(crate) devices: Vec<KnownDevice>,
    /// Whether the pool is only read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_read_only: bool,
}

/// Last known place of a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownDevice {
    /// Number of the leaf, 16 hexadecimal digits.
    pub(crate) guid: String,
    /// Absolute path, or the name of another machine's disk.
    pub(crate) path: PathBuf,
    /// Targets at which the disk was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) targets: Vec<String>,
    /// Identity that tells the device from a copy. `None` if it was not noted yet, or if the name
    /// suffices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    /// Generation of the pool's configuration when all labels last held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u64>,
}

impl KnownDevice {
    /// Returns the leaf of this number at the place where it was found.
    pub(crate) fn new(guid: u64, path: PathBuf, targets: Vec<String>) -> Self {
        Self {
            guid: format!("{guid:016x}"),
            path,
            targets,
            identity: None,
            generation: None,
        }
    }
}

/// Returns the pools in the list of a state folder, with the places of their devices. A damaged
/// list names none.
pub fn members(state: &Path) -> Vec<PoolMembers> {
    let found = PoolList::of(state).load();
    let (_, pools) = found.content.unwrap_or_default();
    let members = pools.into_iter().map(|pool| PoolMembers {
        name: pool.name,
        guid: pool.guid,
        devices: pool
            .devices
            .iter()
            .map(|device| device.path.display().to_string())
            .collect(),
    });
    members.collect()
}

const FILE: &str = "pools.json";
/// Name of the file's kind in its first line.
const KIND: &str = "pools";
/// Number of earlier generations that are kept.
const HISTORY: usize = 8;

/// `pools.json` and its contents.
#[derive(Debug)]
pub(crate) struct PoolList {
    file: KeptFile,
    /// Content of the file, or `None` if it is unknown or empty.
    saved: Option<Vec<KnownPool>>,
    /// Reason why the last save failed.
    failure: Option<String>,
}

impl PoolList {
    /// Returns the list of a state folder.
    pub(crate) fn of(state: &Path) -> Self {
        Self {
            file: KeptFile::at(state.join(FILE), HISTORY),
            saved: None,
            failure: None,
        }
    }

    /// Loads the pools of the last run.
    pub(crate) fn load(&mut self) -> FoundFile<Vec<KnownPool>> {
        let found = self
            .file
            .load(|bytes| open_json::<Vec<KnownPool>>(KIND, bytes));
        if found.trouble.is_none() {
            self.saved = found.content.as_ref().map(|(_, pools)| pools.clone());
        }
        found
    }

    /// Sets aside files that do not count, and repairs the file from a whole generation.
    pub(crate) fn put_right(&mut self, generation: Option<u64>) {
        self.file.put_right(generation);
    }

    /// Reserves space for the next [`Self::save`].
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        self.file.reserve()
    }

    /// Frees the reserved space that was not used.
    pub(crate) fn release(&self) {
        self.file.release();
    }

    /// Replaces the list, unless the file already holds it.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(crate) fn save(&mut self, pools: &[KnownPool]) -> io::Result<()> {
        if self.saved.as_deref() == Some(pools) {
            self.failure = None;
            return Ok(());
        }
        let generation = self.file.next_generation();
        let saved = seal_json(KIND, generation, &pools)
            .and_then(|bytes| self.file.save(generation, &bytes));
        self.saved = saved.is_ok().then(|| pools.to_vec());
        self.failure = saved.as_ref().err().map(io::Error::to_string);
        saved
    }

    /// Notes that the file may no longer hold the current list.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.saved = None;
    }

    /// Returns why the last save failed, or `None` if it did not.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut list = PoolList::of(folder.path());
        let nothing = list.load();
        assert!(nothing.content.is_none() && nothing.trouble.is_none());
        let pool = KnownPool {
            name: "tank".into(),
            guid: format!("{:016x}", 7),
            devices: vec![KnownDevice {
                identity: Identity::of(folder.path()),
                generation: Some(9),
                ..KnownDevice::new(8, "/a".into(), vec!["iqn.2026-01.io.sandstone:a".into()])
            }],
            is_read_only: true,
        };
        for pools in [vec![pool], vec![]] {
            list.save(&pools).expect("saved");
            let found = PoolList::of(folder.path()).load();
            assert_eq!(found.content.map(|(_, pools)| pools), Some(pools));
        }
    }

    #[test]
    fn what_is_said_already_is_not_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut list = PoolList::of(folder.path());
        list.save(&[]).expect("saved");
        let generation = list.file.stored();
        list.save(&[]).expect("nothing to do");
        assert_eq!(list.file.stored(), generation);
    }
}
