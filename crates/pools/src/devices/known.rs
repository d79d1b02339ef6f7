//! Which pools this daemon has, and where their devices were: `pools.json` in the state folder, what
//! zpool.cache is to ZFS. The truth about a pool is in its labels; this only says where to look at start.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use config::backup::PoolMembers;
use state_folder::{Found, KeptFile, open_json, seal_json};

/// A pool that this daemon has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownPool {
    /// Its name.
    pub(crate) name: String,
    /// Its number, 16 hexadecimal digits.
    pub(crate) guid: String,
    /// Where its devices were.
    pub(crate) devices: Vec<KnownDevice>,
    /// It is only read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_read_only: bool,
}

/// Where a leaf was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownDevice {
    /// The leaf's number, 16 hexadecimal digits.
    pub(crate) guid: String,
    /// Absolute; or the name of another machine's disk.
    pub(crate) path: PathBuf,
    /// The targets at which that was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) targets: Vec<String>,
    /// What tells it from a copy; `None`: nobody noted that yet, or its name says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    /// The generation of its pool's configuration when that was in all labels last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u64>,
}

impl KnownDevice {
    /// The leaf of this number, where it was found.
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

/// The pools that the list of a state folder names, and where their devices were. A list that is damaged names none.
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
/// Its name in its first line.
const KIND: &str = "pools";
/// How many earlier generations are kept.
const HISTORY: usize = 8;

/// `pools.json`, and what it says.
#[derive(Debug)]
pub(crate) struct PoolList {
    file: KeptFile,
    /// The content of the file; `None` where that is not known, or nothing.
    saved: Option<Vec<KnownPool>>,
    /// Why what was to be saved last is not in the file.
    failure: Option<String>,
}

impl PoolList {
    /// The list of a state folder.
    pub(crate) fn of(state: &Path) -> Self {
        Self {
            file: KeptFile::at(state.join(FILE), HISTORY),
            saved: None,
            failure: None,
        }
    }

    /// The pools of the last run.
    pub(crate) fn load(&mut self) -> Found<Vec<KnownPool>> {
        let found = self
            .file
            .load(|bytes| open_json::<Vec<KnownPool>>(KIND, bytes));
        if found.trouble.is_none() {
            self.saved = found.content.as_ref().map(|(_, pools)| pools.clone());
        }
        found
    }

    /// Keeps what does not count, and puts the file right where a generation is whole.
    pub(crate) fn put_right(&mut self, generation: Option<u64>) {
        self.file.put_right(generation);
    }

    /// Makes sure that the next [`Self::save`] does not want for space.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        self.file.reserve()
    }

    /// Gives back what was reserved and not used.
    pub(crate) fn release(&self) {
        self.file.release();
    }

    /// Replaces the list, unless it says this already.
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

    /// The file may hold something else from now on.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.saved = None;
    }

    /// Why what was to be saved last is not in the file; `None` where it is.
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
