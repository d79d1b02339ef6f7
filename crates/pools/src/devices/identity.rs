//! Identity of a device: the names that hardware and system give it, beside its path, and that a
//! copy does not have.
//!
//! A path says where a device was. A label says what was written there, and a copy carries an equal
//! label. Neither tells the disk from its twin. So the daemon remembers with each device a name
//! that no copy can have: the world wide name or serial number of a disk, or the inode and birth
//! time of a file. At the next start these names find the disk at a new path, and reveal a device
//! that took another's place.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statvfs, statx};
use serde::{Deserialize, Serialize};

use super::system::System;
use model::date::utc;
use model::device_name::is_remote;

/// Known names of a device beside its path. Another machine's disk has none: its path is its
/// identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// World wide name of a disk (`naa.…`, `eui.…`), or the number of a device mapper or md array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wwn: Option<String>,
    /// Serial number of a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) serial: Option<String>,
    /// Names below /dev/disk/by-id, if the disk has neither of the above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) by_id: Vec<String>,
    /// Number of a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<u32>,
    /// Identity of a file, or of the file behind a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<FileIdentity>,
}

/// Facts that tell a file from its copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    /// Number of the file system. Some file systems change it at each mount.
    pub(crate) filesystem: u64,
    pub(crate) inode: u64,
    /// Birth time of the file, in seconds since 1970 and nanoseconds. Not every file system keeps
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<(i64, u32)>,
    /// Bytes of the file before the start of a loop device.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) offset: u64,
}

fn is_zero(offset: &u64) -> bool {
    *offset == 0
}

/// Result of comparing a present device with the remembered one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdentityVerdict {
    Same,
    Other,
    /// The two share no name that could decide.
    Unknown,
}

impl Identity {
    /// Returns the identity of a device, or `None` if nothing is there or the disk is another
    /// machine's.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        if is_remote(path) {
            return None;
        }
        let found = fs::metadata(path).ok()?;
        if found.file_type().is_block_device() {
            let system = System::default();
            return Some(system.identity(&system.folder_of(found.rdev())?));
        }
        let file = FileIdentity::of(path);
        Some(Self {
            file,
            ..Self::default()
        })
    }

    /// Returns the number that is printed on a disk: its serial number, or its world wide name.
    pub(crate) fn printed(&self) -> Option<&str> {
        self.serial.as_deref().or(self.wwn.as_deref())
    }

    /// Compares the remembered device with the present one, by the strongest name that both have.
    pub(crate) fn compare(&self, there: &Self) -> IdentityVerdict {
        let by = |is_same: bool| match is_same {
            true => IdentityVerdict::Same,
            false => IdentityVerdict::Other,
        };
        if self.partition != there.partition {
            return IdentityVerdict::Other;
        }
        if let (Some(one), Some(other)) = (&self.wwn, &there.wwn) {
            return by(one == other);
        }
        if let (Some(one), Some(other)) = (&self.serial, &there.serial) {
            return by(one == other);
        }
        if let (Some(one), Some(other)) = (&self.file, &there.file) {
            return one.compare(other);
        }
        let has_kind = |name: &&String| there.by_id.iter().any(|of| kind(of) == kind(name));
        let mut comparable = self.by_id.iter().filter(has_kind).peekable();
        match comparable.peek() {
            None => IdentityVerdict::Unknown,
            Some(_) => by(comparable.any(|name| there.by_id.contains(name))),
        }
    }
}

/// Returns the start of a name below by-id: `wwn`, `ata`, `virtio`.
fn kind(name: &str) -> Option<&str> {
    name.split('-').next()
}

impl FileIdentity {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let asked = StatxFlags::INO | StatxFlags::BTIME;
        let status = statx(CWD, path, AtFlags::empty(), asked).ok()?;
        let has_birth = status.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = (status.stx_btime.tv_sec, status.stx_btime.tv_nsec);
        Some(Self {
            filesystem: statvfs(path).map_or(0, |of| of.f_fsid),
            inode: status.stx_ino,
            born: has_birth.then_some(born),
            offset: 0,
        })
    }

    fn compare(&self, there: &Self) -> IdentityVerdict {
        if (self.inode, self.offset) != (there.inode, there.offset) {
            return IdentityVerdict::Other;
        }
        match (self.born, there.born) {
            // No two file systems created a file of this number in one nanosecond.
            (Some(one), Some(other)) if one == other => IdentityVerdict::Same,
            (Some(_), Some(_)) => IdentityVerdict::Other,
            _ if self.filesystem == there.filesystem => IdentityVerdict::Same,
            _ => IdentityVerdict::Unknown,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.wwn, &self.serial, &self.file) {
            (Some(wwn), ..) => write!(f, "disk {wwn}")?,
            (None, Some(serial), _) => write!(f, "the disk with the serial number {serial}")?,
            (None, None, Some(file)) => {
                write!(f, "the file with inode {}", file.inode)?;
                if let Some((seconds, _)) = file.born {
                    write!(f, " made {}", utc(seconds.max(0).unsigned_abs()))?;
                }
            }
            (None, None, None) => match self.by_id.first() {
                Some(name) => write!(f, "disk {name}")?,
                None => write!(f, "a device without a serial number")?,
            },
        }
        match self.partition {
            Some(number) => write!(f, ", partition {number}"),
            None => Ok(()),
        }
    }
}

/// Present place of a remembered device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Located {
    /// The device is at this path, as far as is known. It may be missing altogether.
    At(PathBuf),
    /// A different device has taken its place.
    Stranger { was: Identity, is: Identity },
}

/// Looks for a remembered device at its old path, and among all disks if another device is there.
pub(crate) fn locate(path: &Path, was: Option<&Identity>) -> Located {
    let here = || Located::At(path.to_owned());
    let Some(was) = was else {
        return here();
    };
    let is = Identity::of(path);
    let verdict = is.as_ref().map(|is| was.compare(is));
    if verdict == Some(IdentityVerdict::Same) {
        return here();
    }
    match (System::default().find(was), is) {
        (Some(found), _) => Located::At(found),
        (None, Some(is)) if verdict == Some(IdentityVerdict::Other) => Located::Stranger {
            was: was.clone(),
            is,
        },
        (None, _) => here(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(wwn: &str, serial: &str, by_id: &[&str]) -> Identity {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Identity {
            wwn: some(wwn),
            serial: some(serial),
            by_id: by_id.iter().map(|name| (*name).to_owned()).collect(),
            ..Identity::default()
        }
    }

    #[test]
    fn what_says_most_decides() {
        let one = disk("naa.5", "S1", &["ata-A_S1", "wwn-5"]);
        assert_eq!(one.compare(&one), IdentityVerdict::Same);
        assert_eq!(
            one.compare(&disk("naa.6", "S1", &[])),
            IdentityVerdict::Other
        );
        assert_eq!(one.compare(&disk("", "S1", &[])), IdentityVerdict::Same);
        assert_eq!(
            one.compare(&disk("", "S2", &["wwn-5"])),
            IdentityVerdict::Other
        );
        assert_eq!(
            one.compare(&disk("", "", &["wwn-5"])),
            IdentityVerdict::Same
        );
        assert_eq!(
            one.compare(&disk("", "", &["ata-A_S2"])),
            IdentityVerdict::Other
        );
        // A name that only one of them has decides nothing.
        assert_eq!(
            one.compare(&disk("", "", &["usb-A_S1"])),
            IdentityVerdict::Unknown
        );
        assert_eq!(one.compare(&Identity::default()), IdentityVerdict::Unknown);
        let second = Identity {
            partition: Some(2),
            ..one.clone()
        };
        assert_eq!(one.compare(&second), IdentityVerdict::Other);
    }

    #[test]
    fn a_copy_of_a_file_is_another_file_and_a_renamed_one_is_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "what it holds").expect("written");
        let was = Identity::of(&path("a")).expect("it is there");
        fs::copy(path("a"), path("b")).expect("copied");
        fs::write(path("a"), "something else").expect("written");
        let is = |name: &str| was.compare(&Identity::of(&path(name)).expect("it is there"));
        assert_eq!(
            (is("a"), is("b")),
            (IdentityVerdict::Same, IdentityVerdict::Other)
        );
        assert!(matches!(
            locate(&path("b"), Some(&was)),
            Located::Stranger { .. }
        ));
        fs::rename(path("a"), path("c")).expect("renamed");
        fs::hard_link(path("c"), path("d")).expect("linked");
        assert_eq!(
            (is("c"), is("d")),
            (IdentityVerdict::Same, IdentityVerdict::Same)
        );
        // If nothing is there, the device is missing.
        assert_eq!(locate(&path("a"), Some(&was)), Located::At(path("a")));
        assert_eq!(locate(&path("b"), None), Located::At(path("b")));
    }

    #[test]
    fn file_systems_without_birth_times_tell_by_their_number() {
        let file = |filesystem, inode| FileIdentity {
            filesystem,
            inode,
            born: None,
            offset: 0,
        };
        assert_eq!(file(1, 2).compare(&file(1, 2)), IdentityVerdict::Same);
        assert_eq!(file(1, 2).compare(&file(1, 3)), IdentityVerdict::Other);
        assert_eq!(file(1, 2).compare(&file(4, 2)), IdentityVerdict::Unknown);
    }

    #[test]
    fn what_was_remembered_is_read_again() {
        let one = Identity {
            partition: Some(1),
            file: FileIdentity::of(Path::new("/")),
            ..disk("naa.5", "S1", &["ata-A_S1"])
        };
        let text = serde_json::to_string(&one).expect("JSON");
        assert_eq!(serde_json::from_str::<Identity>(&text).expect("read"), one);
        assert_eq!(
            serde_json::from_str::<Identity>("{}").expect("read"),
            Identity::default()
        );
    }
}
