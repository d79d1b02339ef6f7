//! Disks of other machines that logical units had: `lent.json` in the state folder. A pool that had such a disk before
//! must not take it for what it was. Its labels are at the ends and may be as they were, while all between is the unit's;
//! and the unit's data is somebody's, which nobody may overwrite without being asked.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::disks::is_remote;
use super::known;
use super::registry::Pools;
use crate::config::{Error, ErrorKind};

const FILE: &str = "lent.json";

/// The unit that had each disk last.
pub(super) type Lent = BTreeMap<String, String>;

/// Those of the last run; none where there is no such file.
///
/// # Errors
/// The file cannot be read or understood.
pub(super) fn load(state: &Path) -> io::Result<Lent> {
    match fs::read(state.join(FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lent::new()),
        Err(error) => Err(error),
    }
}

impl Pools {
    /// A logical unit has a disk of another machine from now on. When this returns that is in the state folder: so the
    /// first write of the unit comes after it, and no crash lets a pool forget that there was one.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub fn lend(&self, disk: &str, unit: &str) -> Result<(), Error> {
        self.change_lent(|lent| {
            lent.insert(disk.to_owned(), unit.to_owned()).as_deref() != Some(unit)
        })
    }

    /// A disk holds what a pool wrote there, as far as the pool needs it; or is taken as it is.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(super) fn take_back(&self, path: &Path) -> Result<(), Error> {
        let disk = path.display().to_string();
        match is_remote(path) {
            true => self.change_lent(|lent| lent.remove(&disk).is_some()),
            false => Ok(()),
        }
    }

    /// Refuses a disk that a unit had, for the pool that was there before.
    pub(super) fn refuse_lent(&self, path: &Path) -> Result<(), Error> {
        let disk = path.display().to_string();
        let Some(unit) = self.lent().get(&disk).cloned() else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::InUse,
            format!(
                "lu {unit} had it meanwhile, so what is on {disk} may not be the pool's any more"
            ),
            "if nothing of the unit is missed, have it rebuilt",
        ))
    }

    fn change_lent(&self, change: impl FnOnce(&mut Lent) -> bool) -> Result<(), Error> {
        let mut lent = self.lent();
        let mut new = lent.clone();
        if !change(&mut new) {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&new).map_err(io::Error::other);
        text.and_then(|text| known::replace(&self.options.state, FILE, &text))
            .map_err(|error| Error::storage("write lent.json in the state folder", error))?;
        *lent = new;
        Ok(())
    }
}
