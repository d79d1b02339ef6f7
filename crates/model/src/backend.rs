//! Backend of a logical unit as the configuration names it, and the facts that the name alone
//! tells.
//!
//! Only this file and the registry in `crates/backends` tell one kind from another. All other code
//! asks here for a neutral fact, or asks the registry for the backend itself.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;

/// Backend of a logical unit: the storage that holds its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum BackendSpec {
    /// Main memory. The contents vanish with the daemon.
    Memory {
        /// Size in bytes.
        size: u64,
    },
    /// A file.
    File {
        /// Path of the file. A relative path is below the state folder.
        #[schema(value_type = String)]
        path: PathBuf,
        /// Size in bytes.
        size: u64,
        /// Whether the space is reserved when the file is made.
        #[serde(default)]
        preallocate: bool,
    },
    /// A block device of this machine: a disk, a partition, or a zvol of ZFS.
    Device {
        /// Path of the device node below /dev.
        #[schema(value_type = String)]
        path: PathBuf,
    },
    /// A device of another machine, reached through this machine's initiator. The configuration
    /// names the device by its identity, not by its place, because a LUN may lead to another disk
    /// one day.
    Iscsi {
        /// Name of the device: `naa.…`, `eui.…` or `t10.…`.
        device: String,
    },
    /// A volume of a pool, or a snapshot, which can only be read.
    Volume {
        /// Full name of the volume or snapshot, as in `tank/vm1`.
        volume: String,
    },
}

impl BackendSpec {
    /// Returns a backend of `size` bytes of memory.
    pub fn memory(size: u64) -> Self {
        Self::Memory { size }
    }

    /// Returns a backend in a file of `size` bytes, without reserved space.
    pub fn file(path: impl Into<PathBuf>, size: u64) -> Self {
        Self::File {
            path: path.into(),
            size,
            preallocate: false,
        }
    }

    /// Returns a backend in a file of `size` bytes, all of them reserved.
    pub fn reserved_file(path: impl Into<PathBuf>, size: u64) -> Self {
        Self::File {
            path: path.into(),
            size,
            preallocate: true,
        }
    }

    /// Returns a backend on a block device of this machine.
    pub fn device(path: impl Into<PathBuf>) -> Self {
        Self::Device { path: path.into() }
    }

    /// Returns a backend on a disk of another machine, named by the disk's identity.
    pub fn remote_disk(device: impl Into<String>) -> Self {
        Self::Iscsi {
            device: device.into(),
        }
    }

    /// Returns a backend on a volume or snapshot of a pool.
    pub fn on_volume(volume: impl Into<String>) -> Self {
        Self::Volume {
            volume: volume.into(),
        }
    }

    /// Returns the full name of the backend's volume or snapshot, if the backend is one.
    pub fn volume(&self) -> Option<&str> {
        match self {
            Self::Volume { volume } => Some(volume),
            Self::Memory { .. } | Self::File { .. } | Self::Device { .. } | Self::Iscsi { .. } => {
                None
            }
        }
    }

    /// Returns the name of the backend's volume for a change, which follows a rename of the volume.
    pub fn volume_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Volume { volume } => Some(volume),
            Self::Memory { .. } | Self::File { .. } | Self::Device { .. } | Self::Iscsi { .. } => {
                None
            }
        }
    }

    /// Returns the name of the disk that this machine's initiator reaches for the backend.
    pub fn disk_of_initiator(&self) -> Option<&str> {
        match self {
            Self::Iscsi { device } => Some(device),
            Self::Memory { .. } | Self::File { .. } | Self::Device { .. } | Self::Volume { .. } => {
                None
            }
        }
    }

    /// Returns the path of the backend's file or device node on this machine.
    pub fn path(&self, state_folder: &Path) -> Option<PathBuf> {
        match self {
            Self::File { path, .. } => Some(state_folder.join(path)),
            Self::Device { path } => Some(Path::new("/dev").join(path)),
            Self::Memory { .. } | Self::Iscsi { .. } | Self::Volume { .. } => None,
        }
    }

    /// Returns the name of the data's place, as the configuration has it. Memory has no place.
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Memory { .. } => None,
            Self::File { path, .. } | Self::Device { path } => Some(path),
            Self::Iscsi { device } => Some(Path::new(device)),
            Self::Volume { volume } => Some(Path::new(volume)),
        }
    }

    /// Reports whether the other backend is of the same kind and holds its data in the same place.
    pub fn is_at_place_of(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.place() == other.place()
    }

    /// Returns the size in bytes that the configuration gives the backend. The sizes of other kinds
    /// come from elsewhere.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Memory { size } | Self::File { size, .. } => Some(*size),
            Self::Device { .. } | Self::Iscsi { .. } | Self::Volume { .. } => None,
        }
    }

    /// Returns the configured size of the backend of `unit`, in bytes, for a change.
    ///
    /// # Errors
    /// The size is set elsewhere. The error names the place.
    pub fn size_mut(&mut self, unit: &str) -> Result<&mut u64, Error> {
        match self {
            Self::Memory { size } | Self::File { size, .. } => Ok(size),
            Self::Device { path } => Err(Error::invalid(
                format!(
                    "{unit} is the device {}, whose size Sandstone cannot set",
                    path.display()
                ),
                "grow the device itself; the new size is noticed when the unit is next opened",
            )),
            Self::Iscsi { device } => Err(Error::invalid(
                format!("{unit} is {device}, whose size Sandstone cannot set"),
                "grow it at its own array; the initiator notices the new size by itself, or with sandstone \
                 initiator rescan",
            )),
            Self::Volume { volume } => Err(Error::invalid(
                format!("{unit} is the volume {volume}, whose size is set in its pool"),
                format!("sandstone volume set volsize=SIZE {volume}"),
            )),
        }
    }

    /// Reports whether the backend's name is that of a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.volume().is_some_and(|volume| volume.contains('@'))
    }

    /// Returns the full name of the backend's volume, unless it is a snapshot.
    pub fn writable_volume(&self) -> Option<&str> {
        self.volume().filter(|volume| !volume.contains('@'))
    }

    /// Reports whether the data vanishes with the unit and with the daemon.
    pub fn is_volatile(&self) -> bool {
        matches!(self, Self::Memory { .. })
    }

    /// Reports whether the configuration reserves all space of the backend.
    pub fn is_preallocated(&self) -> bool {
        matches!(self, Self::File { preallocate, .. } if *preallocate)
    }

    /// Checks the rules of the backend alone, for a unit with the given properties. `who` names the
    /// unit in an error.
    ///
    /// # Errors
    /// A rule is broken.
    pub fn check(&self, who: &str, block_size: u32, read_only: bool) -> Result<(), Error> {
        match self {
            Self::Memory { size } => check_size(who, *size, block_size),
            Self::File { path, size, .. } => {
                check_size(who, *size, block_size)?;
                check_file(who, path)
            }
            Self::Device { path } => check_device(who, path),
            Self::Iscsi { device } => check_disk_name(who, device),
            Self::Volume { volume } => {
                check_volume(who, volume)?;
                match self.is_snapshot() && !read_only {
                    true => Err(writable_snapshot(who, volume)),
                    false => Ok(()),
                }
            }
        }
    }
}

/// Shows the backend as listings show it.
impl fmt::Display for BackendSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { .. } => f.write_str("memory"),
            Self::File { path, .. } | Self::Device { path } => path.display().fmt(f),
            Self::Iscsi { device } => write!(f, "iscsi {device}"),
            Self::Volume { volume } => f.write_str(volume),
        }
    }
}

/// Abilities of a backend that its open device does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Writes that land where the old bytes were.
    pub overwrites: Overwrites,
    /// Whether the physical blocks of the device are those of a disk, which initiators must be
    /// told.
    pub has_physical_blocks: bool,
    /// Changes of the device that the unit takes over by itself.
    pub follows: Follows,
}

/// Writes that land where the old bytes were, so that SANITIZE destroys these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrites {
    /// No write is known to.
    #[default]
    Never,
    /// A write does where the space was never given back.
    UntilDiscarded,
    /// Every write does.
    Always,
}

/// Changes of a device that a logical unit takes over by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follows {
    /// No change.
    #[default]
    Nothing,
    /// A larger size.
    Growth,
    /// Every size, protection against writes, and the write cache.
    Everything,
}

fn check_size(who: &str, size: u64, block_size: u32) -> Result<(), Error> {
    let block = u64::from(block_size);
    if size == 0 || !size.is_multiple_of(block) {
        return Err(Error::invalid(
            format!(
                "{who}: a size of {size} bytes is not a positive multiple of its {block}-byte blocks"
            ),
            "write the size with a unit, as in 10G",
        ));
    }
    if size > i64::MAX as u64 {
        return Err(Error::invalid(
            format!("{who}: no file system holds {size} bytes in one file"),
            "ask for less than 8E",
        ));
    }
    Ok(())
}

fn check_file(who: &str, path: &Path) -> Result<(), Error> {
    if !path.as_os_str().is_empty() && path.components().all(|c| c.as_os_str() != "..") {
        return Ok(());
    }
    Err(Error::invalid(
        format!(
            "{who}: {:?} is not a path for its data",
            path.display().to_string()
        ),
        "name a file; relative paths are below the state folder and may not hold ..",
    ))
}

fn check_device(who: &str, path: &Path) -> Result<(), Error> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(Error::invalid(
        format!(
            "{who}: the device {} is not an absolute path",
            path.display()
        ),
        "write it in full, as in /dev/zvol/tank/vol1 or /dev/disk/by-id/…",
    ))
}

fn check_disk_name(who: &str, device: &str) -> Result<(), Error> {
    let named = ["naa.", "eui.", "t10."]
        .iter()
        .any(|kind| device.starts_with(kind));
    if named && device.len() <= 256 && !device.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{who}: {device:?} is not a device name that is equal on every path"),
        "use a name that begins with naa., eui. or t10., as sandstone initiator device list shows it",
    ))
}

fn check_volume(who: &str, volume: &str) -> Result<(), Error> {
    if !volume.starts_with('/') && volume.contains('/') {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{who}: {volume:?} is not the name of a volume"),
        "write it with its pool, as in tank/vm1",
    ))
}

fn writable_snapshot(who: &str, volume: &str) -> Error {
    Error::invalid(
        format!("{who}: {volume} is a snapshot, which cannot be written"),
        format!(
            "leave it read-only, or serve a clone of it: sandstone volume clone {volume} POOL/NAME"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_kind_are_those_of_its_serialized_form() {
        let kinds = [
            (
                BackendSpec::memory(512),
                r#"{"kind":"memory","size":512}"#,
                "memory",
            ),
            (
                BackendSpec::reserved_file("a", 512),
                r#"{"kind":"file","path":"a","size":512,"preallocate":true}"#,
                "a",
            ),
            (
                BackendSpec::device("/dev/a"),
                r#"{"kind":"device","path":"/dev/a"}"#,
                "/dev/a",
            ),
            (
                BackendSpec::remote_disk("naa.6"),
                r#"{"kind":"iscsi","device":"naa.6"}"#,
                "iscsi naa.6",
            ),
            (
                BackendSpec::on_volume("a/b"),
                r#"{"kind":"volume","volume":"a/b"}"#,
                "a/b",
            ),
        ];
        for (backend, stored, shown) in kinds {
            let text = serde_json::to_string(&backend).expect("JSON");
            assert_eq!(text, stored);
            let read: BackendSpec = serde_json::from_str(stored).expect("a backend");
            assert_eq!(read, backend);
            assert_eq!(backend.to_string(), shown);
        }
    }

    #[test]
    fn a_file_and_a_device_of_one_name_are_not_one_backend() {
        let file = BackendSpec::file("/dev/a", 512);
        let larger = BackendSpec::reserved_file("/dev/a", 1024);
        assert!(file.is_at_place_of(&larger));
        assert!(!file.is_at_place_of(&BackendSpec::device("/dev/a")));
        assert!(!file.is_at_place_of(&BackendSpec::file("/dev/b", 512)));
        assert!(BackendSpec::memory(512).is_at_place_of(&BackendSpec::memory(1024)));
    }

    #[test]
    fn only_memory_and_files_have_their_size_from_the_configuration() {
        for mut backend in [BackendSpec::memory(512), BackendSpec::file("a", 512)] {
            *backend.size_mut("vm").expect("a size") = 1024;
            assert_eq!(backend.size(), Some(1024));
        }
        let others = [
            (BackendSpec::device("/dev/a"), "the device /dev/a"),
            (BackendSpec::remote_disk("naa.6"), "vm is naa.6"),
            (BackendSpec::on_volume("a/b"), "the volume a/b"),
        ];
        for (mut backend, words) in others {
            let error = backend.size_mut("vm").expect_err("not ours").to_string();
            assert!(error.contains(words), "{error}");
            assert_eq!(backend.size(), None);
        }
    }
}
