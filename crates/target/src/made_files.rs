//! Files that a change of the configuration makes for its new units, or lengthens for its larger
//! ones. A refused change leaves nothing behind, however late the refusal comes. Otherwise an
//! administrator who tries again with other words would find unwanted files in the way, and space
//! taken without use.

use std::path::PathBuf;
use std::sync::Arc;

use backends::backend::Lengthened;
use block::BlockDevice;
use block::file::cut_back;

/// Files that dropping this restores to their former state, unless the change holds.
#[derive(Debug, Default)]
pub(super) struct MadeFiles {
    made: Vec<PathBuf>,
    /// Lengthened files, with the devices that are open on them. The units keep their former number
    /// of blocks until the change holds, so nobody has written to the added part.
    lengthened: Vec<(Lengthened, Arc<dyn BlockDevice>)>,
}

impl MadeFiles {
    /// Adds a file that did not exist before this change.
    pub(super) fn add(&mut self, made: Option<PathBuf>) {
        self.made.extend(made);
    }

    /// Adds a file that was shorter before this change, and the device that is open on it.
    pub(super) fn add_length(&mut self, lengthened: Lengthened, device: Arc<dyn BlockDevice>) {
        self.lengthened.push((lengthened, device));
    }

    /// Keeps the files, because the change holds.
    pub(super) fn keep(mut self) {
        self.made.clear();
        self.lengthened.clear();
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.made {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "a file that was created for a refused change \
                                                                could not be removed");
            }
        }
        for (Lengthened { path, before, now }, device) in &self.lengthened {
            if let Err(error) = cut_back(path, *now, *before) {
                tracing::warn!(path = %path.display(), %error, "a file that a refused change lengthened \
                                                                could not be cut back");
            }
            if let Err(error) = device.refresh() {
                tracing::warn!(path = %path.display(), %error, "the length of a file could not be read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_stays_only_where_the_change_holds() {
        let folder = tempfile::tempdir().unwrap();
        let [kept, undone, older] =
            ["kept", "undone", "older"].map(|name| folder.path().join(name));
        for path in [&kept, &undone, &older] {
            std::fs::write(path, "data").unwrap();
        }
        let made = |path: &PathBuf| {
            let mut made = MadeFiles::default();
            made.add(Some(path.clone()));
            made.add(None);
            made
        };
        made(&kept).keep();
        drop(made(&undone));
        assert!(kept.exists() && !undone.exists() && older.exists());
    }
}
