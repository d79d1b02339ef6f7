//! Which pools this daemon has, and where their devices were: `pools.json` in the state folder, what
//! zpool.cache is to ZFS. The truth about a pool is in its labels; this only says where to look at start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A pool that this daemon has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownPool {
    /// Its name.
    pub(super) name: String,
    /// Its number, 16 hexadecimal digits.
    pub(super) guid: String,
    /// Where its devices were.
    pub(super) devices: Vec<KnownDevice>,
    /// It is only read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_read_only: bool,
}

/// Where a leaf was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownDevice {
    /// The leaf's number, 16 hexadecimal digits.
    pub(super) guid: String,
    /// Absolute; or the name of another machine's disk.
    pub(super) path: PathBuf,
    /// The targets at which that was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) targets: Vec<String>,
}

const FILE: &str = "pools.json";

/// The pools of the last run; none where there is no such file.
///
/// # Errors
/// The file cannot be read or understood.
pub(super) fn load(state: &Path) -> io::Result<Vec<KnownPool>> {
    let bytes = match fs::read(state.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&bytes).map_err(io::Error::other)
}

/// Replaces the file: after a crash there is the old or the new one.
///
/// # Errors
/// The state folder cannot be written.
pub(super) fn save(state: &Path, pools: &[KnownPool]) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(pools).map_err(io::Error::other)?;
    replace(state, FILE, &text)
}

/// Replaces a file of the state folder: after a crash there is the old or the new one.
///
/// # Errors
/// The state folder cannot be written.
pub(super) fn replace(state: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let (file, new) = (state.join(name), state.join(format!("{name}.new")));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut written = options.open(&new)?;
    written.write_all(text)?;
    written.sync_all()?;
    fs::rename(&new, &file)?;
    File::open(state)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(load(folder.path()).expect("none"), []);
        let pool = KnownPool {
            name: "tank".into(),
            guid: format!("{:016x}", 7),
            devices: vec![KnownDevice {
                guid: format!("{:016x}", 8),
                path: "/a".into(),
                targets: vec!["iqn.2026-01.io.sandstone:a".into()],
            }],
            is_read_only: true,
        };
        for pools in [vec![pool], vec![]] {
            save(folder.path(), &pools).expect("saved");
            assert_eq!(load(folder.path()).expect("loaded"), pools);
        }
        fs::write(folder.path().join(FILE), "{").expect("written");
        load(folder.path()).expect_err("damaged");
    }
}
