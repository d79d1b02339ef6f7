//! Temporary folders that carry the number of the process that owns them. So folders of a run that
//! was killed can be recognised and removed.

use anyhow::{Context as _, Result};
use tempfile::TempDir;

const PREFIX: &str = "sandstone-conformance-";

/// Makes a folder for `what`, which is removed with the value.
///
/// # Errors
/// The folder cannot be made.
pub(crate) fn folder(what: &str) -> Result<TempDir> {
    let prefix = format!("{PREFIX}{}-{what}-", std::process::id());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir()
        .context("make a temporary folder")
}

/// Removes the folders of runs that are over.
pub(crate) fn remove_stale() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if !std::path::Path::new(&format!("/proc/{owner}")).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
