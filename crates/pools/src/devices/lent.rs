//! Disks of other machines that logical units had: `lent.json` in the state folder. A pool that had
//! such a disk before must not take it for its old device. The labels at the ends of the disk may
//! be unchanged, while all between them is the unit's. The unit's data has an owner, and nobody may
//! overwrite it without being asked.
//!
//! If the file is lost, nobody knows which disks units had. Then no pool takes another machine's
//! disk on its own, until an administrator has once said that the disk is the pool's.

//! Disks of other machines that logical units had: `lent.json` in the state folder. A pool that had
//! such a disk before must not take it for its old device. The labels at the ends of the disk may
//! be unchanged, while all between them is the unit's. The unit's data has an owner, and nobody may
//! overwrite it without being asked.
//!
//! If the file is lost, nobody knows which disks units had. Then no pool takes another machine's
//! disk on its own, until an administrator has once said that the disk is the pool's.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use model::device_name::is_remote;
use model::{Error, ErrorKind};
use state_folder::{KeptFile, open_json, seal_json};

const FILE: &str = "lent.json";
/// Name of the file's kind in its first line.
const KIND: &str = "lent disks";
/// Number of earlier generations that are kept.
const HISTORY: usize = 4;

/// Disks that logical units had, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disks {
    /// Unit that last had each disk.
    units: BTreeMap<String, String>,
    /// Disks that are known to be pools' since the file was lost, or `None` if nothing was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of_pools: Option<BTreeSet<String>>,
}

/// `lent.json` and its contents.
#[derive(Debug)]
pub(crate) struct Lent {
    file: KeptFile,
    disks: Disks,
}

impl Lent {
    /// Returns an empty list.
    pub(crate) fn of(state: &Path) -> Self {
        Self {
            file: KeptFile::at(state.join(FILE), HISTORY),
            disks: Disks::default(),
        }
    }

    /// Loads the list of the last run, and returns a notice if the file has troubles.
    pub(crate) fn load(&mut self) -> Option<String> {
        let found = self.file.load(|bytes| open_json::<Disks>(KIND, bytes));
        let generation = found.content.as_ref().map(|(generation, _)| *generation);
        self.disks = found.content.map(|(_, disks)| disks).unwrap_or_default();
        let trouble = found.trouble?;
        let is_whole = !trouble.is_newest_lost && !trouble.is_newer;
        self.file.put_right(generation.filter(|_| is_whole));
        if is_whole {
            return Some(format!(
                "{}; its copy in the history was used, so nothing is lost",
                trouble.reason
            ));
        }
        let mut disks = self.disks.clone();
        disks.of_pools.get_or_insert_default();
        if let Err(error) = self.save(disks.clone()) {
            tracing::warn!(%error, "the loss of lent.json could not be recorded");
        }
        self.disks = disks;
        Some(format!(
            "{}, and so is its newest copy. Pools therefore do not automatically use disks of other machines \
             that a logical unit may have used; if a pool waits for such a disk and no unit was served from \
             it, `sandstone pool import -f NAME` uses it",
            trouble.reason
        ))
    }

    fn save(&mut self, disks: Disks) -> Result<(), Error> {
        let generation = self.file.next_generation();
        seal_json(KIND, generation, &disks)
            .and_then(|bytes| self.file.save(generation, &bytes))
            .map_err(|error| Error::storage("write lent.json in the state folder", error))?;
        self.disks = disks;
        Ok(())
    }

    /// Reports whether the file must change if a pool takes this disk.
    fn is_marked(&self, disk: &str) -> bool {
        let is_new = |of_pools: &BTreeSet<String>| !of_pools.contains(disk);
        self.disks.units.contains_key(disk) || self.disks.of_pools.as_ref().is_some_and(is_new)
    }

    /// Notes that a logical unit has another machine's disk from now on. The note is in the state
    /// folder when this returns. So it precedes the unit's first write, and no crash lets a pool
    /// forget the unit.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(crate) fn lend(&mut self, disk: &str, unit: &str) -> Result<(), Error> {
        self.change(|disks| {
            disks.units.insert(disk.to_owned(), unit.to_owned());
            if let Some(of_pools) = &mut disks.of_pools {
                of_pools.remove(disk);
            }
        })
    }

    /// Notes that a disk again holds a pool's data, as far as the pool needs it, or that the pool
    /// takes it as it is.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(crate) fn take_back(&mut self, path: &Path) -> Result<(), Error> {
        let disk = path.display().to_string();
        if !is_remote(path) {
            return Ok(());
        }
        self.change(|disks| {
            disks.units.remove(&disk);
            if let Some(of_pools) = &mut disks.of_pools {
                of_pools.insert(disk);
            }
        })
    }

    /// Reserves space for [`Self::take_back`].
    pub(crate) fn reserve_to_take_back<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Path>,
    ) -> io::Result<()> {
        let mut disks = paths.into_iter().filter(|path| is_remote(path));
        match disks.any(|disk| self.is_marked(&disk.display().to_string())) {
            true => self.file.reserve(),
            false => Ok(()),
        }
    }

    /// Frees the reserved space that was not used.
    pub(crate) fn release(&self) {
        self.file.release();
    }

    /// Refuses a disk that a unit had to the pool that had the disk before.
    pub(crate) fn refuse(&self, path: &Path) -> Result<(), Error> {
        let disk = path.display().to_string();
        if !is_remote(path) || !self.is_marked(&disk) {
            return Ok(());
        }
        let Some(unit) = self.disks.units.get(&disk) else {
            return Err(Error::new(
                ErrorKind::InUse,
                format!(
                    "lent.json of the state folder was lost, so a logical unit may have used {disk} meanwhile"
                ),
                "if no unit was served from it since the pool used it, use it as it is with -f; otherwise \
                 have it rebuilt",
            ));
        };
        Err(Error::new(
            ErrorKind::InUse,
            format!(
                "lu {unit} used {disk} meanwhile, so the disk may not hold the pool's data any more"
            ),
            "if the unit's data is not needed, have the disk rebuilt",
        ))
    }

    fn change(&mut self, change: impl FnOnce(&mut Disks)) -> Result<(), Error> {
        let mut disks = self.disks.clone();
        change(&mut disks);
        match disks == self.disks {
            true => Ok(()),
            false => self.save(disks),
        }
    }
}
