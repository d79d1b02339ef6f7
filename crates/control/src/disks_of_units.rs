//! Devices that serve logical units. If a pool asks for one of them, the error names its unit. The
//! kernel would only say that the device is busy.

use std::path::{Path, PathBuf};

use crate::plane::Plane;
use block::backing::Backing;
use model::{Error, ErrorKind};

impl Plane {
    /// Refuses files and devices that serve a logical unit, whatever path names them.
    ///
    /// # Errors
    /// A file or device serves a logical unit.
    pub(super) fn refuse_disks_of_units<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), Error> {
        for path in paths {
            if let Some(unit) = self.unit_on(path) {
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!("{} holds the data of lu {unit}", path.display()),
                    "choose another device: `sandstone lu list -o name,backend` shows the devices of logical \
                     units",
                ));
            }
        }
        Ok(())
    }

    /// Returns the name of the unit whose data a file or device holds, whatever path names it.
    pub(super) fn unit_on(&self, path: &Path) -> Option<String> {
        let config = self.transactions.config();
        let wanted = Backing::at(path);
        let is_of = |used: PathBuf| Backing::at(&used).overlaps(&wanted);
        let mut units = config.units.iter();
        let unit = units.find(|unit| unit.backend.path(&self.state_folder).is_some_and(is_of))?;
        Some(unit.name.clone())
    }
}
