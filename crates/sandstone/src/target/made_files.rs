//! Files that a change of the configuration makes for its new units. Nothing is left of a change that is refused,
//! however late: an administrator who tries again with other words would find files in the way that nobody asked for.

use std::path::PathBuf;

/// Files that go again with this, unless the change holds.
#[derive(Debug, Default)]
pub(super) struct MadeFiles(Vec<PathBuf>);

impl MadeFiles {
    /// Takes in a file that was not there before this change.
    pub(super) fn add(&mut self, made: Option<PathBuf>) {
        self.0.extend(made);
    }

    /// The change holds.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "a file that was made for a refused change stays");
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
