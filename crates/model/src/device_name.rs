//! Names of disks that the initiator reaches: `naa.6…`, `eui.…`. In paths, they take the place of a
//! device node of this machine.

use std::path::Path;

/// Reports whether `text` looks like the name of a device, possibly followed by options.
pub fn is_one(text: &str) -> bool {
    let mut kinds = ["naa.", "eui.", "t10.", "mpx."].iter();
    kinds.any(|kind| text.starts_with(kind))
}

/// Returns the name without its options.
pub fn without_options(text: &str) -> &str {
    text.split_once('?').map_or(text, |(name, _)| name)
}

/// Returns the name of the disk, if `path` is the name of another machine's disk.
pub fn of_path(path: &Path) -> Option<&str> {
    let name = path.to_str()?;
    (is_one(name) && !name.contains('/')).then_some(name)
}

/// Reports whether `path` is the name of another machine's disk.
pub fn is_remote(path: &Path) -> bool {
    of_path(path).is_some()
}
