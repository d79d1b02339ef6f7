//! Names of disks that the initiator reaches: `naa.6…`, `eui.…`. They stand where the path of a
//! device of this machine would.

use std::path::Path;

/// Whether `text` means to be the name of a device, perhaps with options behind it.
pub fn is_one(text: &str) -> bool {
    let mut kinds = ["naa.", "eui.", "t10.", "mpx."].iter();
    kinds.any(|kind| text.starts_with(kind))
}

/// The name without the options.
pub fn without_options(text: &str) -> &str {
    text.split_once('?').map_or(text, |(name, _)| name)
}

/// The name of the disk, where a path is the name of another machine's disk.
pub fn of_path(path: &Path) -> Option<&str> {
    let name = path.to_str()?;
    (is_one(name) && !name.contains('/')).then_some(name)
}

/// Whether a path is the name of another machine's disk.
pub fn is_remote(path: &Path) -> bool {
    of_path(path).is_some()
}
