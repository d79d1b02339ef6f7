//! Checks of the devices that somebody names for a pool, and their kinds in the words of the store.

use std::collections::HashSet;

use store::vdev::TopLevelKind;

use model::Error;
use model::device_name::is_remote;
use model::pool::vdev_request::{Additions, VdevKind, VdevRequest};

/// Returns the kind of vdev in the words of the store.
pub(crate) fn kind(of: VdevKind) -> TopLevelKind {
    match of {
        VdevKind::Disk => TopLevelKind::Leaf,
        VdevKind::Mirror => TopLevelKind::Mirror,
        VdevKind::Raidz1 => TopLevelKind::Raidz { parity: 1 },
        VdevKind::Raidz2 => TopLevelKind::Raidz { parity: 2 },
        VdevKind::Raidz3 => TopLevelKind::Raidz { parity: 3 },
    }
}

/// Reports whether devices are named as they must be.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn check(additions: Additions<'_>) -> Result<(), Error> {
    for vdev in additions.vdevs.iter().chain(additions.logs) {
        let (least, name) = vdev.kind.least();
        let named = vdev.paths.len();
        if vdev.kind == VdevKind::Disk && named != 1 {
            return Err(Error::invalid(
                format!("a disk is a single device, but {named} were named"),
                "name each device as a vdev of its own, or make a mirror or raidz of them",
            ));
        }
        if named < least {
            return Err(Error::invalid(
                format!("a {name} needs at least {least} devices, but {named} were named"),
                "name more devices, or choose another kind of vdev",
            ));
        }
    }
    let can_be_log = |vdev: &&VdevRequest| matches!(vdev.kind, VdevKind::Disk | VdevKind::Mirror);
    if let Some(vdev) = additions.logs.iter().find(|vdev| !can_be_log(vdev)) {
        return Err(Error::invalid(
            format!("a log vdev cannot be {}", vdev.kind.least().1),
            "use single devices or mirrors for the log",
        ));
    }
    let mut seen = HashSet::new();
    for path in additions.paths() {
        if !path.is_absolute() && !is_remote(path) {
            return Err(Error::invalid(
                format!("{} is not an absolute path", path.display()),
                "write the full path, or the name of another machine's disk (naa.…)",
            ));
        }
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !seen.insert(real) {
            return Err(Error::invalid(
                format!("{} is named twice", path.display()),
                "name each device once",
            ));
        }
    }
    Ok(())
}
