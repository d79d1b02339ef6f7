//! Identity of a file or device, whatever path leads to it.
//!
//! Two logical units over one file or device would destroy each other's data. So would a unit on a
//! device of a pool. The daemon therefore refuses the second user, and can say who the first one
//! is. The locks of [`file`](crate::file) and [`device`](crate::device) keep other processes away.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// The identity of a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// A file, by file system and inode: the same through symbolic links, hard links and bind
    /// mounts.
    File { device: u64, inode: u64 },
    /// A block device, by number: the same through every node that has it.
    Device(u64),
}

/// Everything that a write changes: the file or device itself, and for a loop device the file
/// beneath it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backing(Vec<Identity>);

impl Backing {
    /// Returns the identity of the file or device node at `path`. A path that leads nowhere has
    /// none.
    pub fn at(path: &Path) -> Self {
        let Ok(metadata) = std::fs::metadata(path) else {
            return Self::default();
        };
        let mut identities = vec![identity(&metadata)];
        if let Identity::Device(number) = identities[0]
            && let Some(file) = loop_file(number)
            && let Ok(metadata) = std::fs::metadata(file)
        {
            identities.push(identity(&metadata));
        }
        Self(identities)
    }

    /// Reports whether writing to one changes the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().any(|identity| other.0.contains(identity))
    }
}

fn identity(metadata: &Metadata) -> Identity {
    if metadata.file_type().is_block_device() {
        Identity::Device(metadata.rdev())
    } else {
        Identity::File {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// The file that a loop device shows as a device.
fn loop_file(device: u64) -> Option<PathBuf> {
    let told = format!(
        "/sys/dev/block/{}:{}/loop/backing_file",
        major(device),
        minor(device)
    );
    let file = std::fs::read_to_string(told).ok()?;
    Some(PathBuf::from(file.trim_end_matches('\n')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_itself_by_every_path_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "a").expect("a file");
        std::fs::write(at("b"), "b").expect("a file");
        std::os::unix::fs::symlink(at("a"), at("symbolic")).expect("a link");
        std::fs::hard_link(at("a"), at("hard")).expect("a link");
        let of = |name: &str| Backing::at(&at(name));
        for same in ["a", "symbolic", "hard"] {
            assert!(of("a").overlaps(&of(same)), "{same}");
        }
        assert!(!of("a").overlaps(&of("b")));
        assert!(!of("missing").overlaps(&of("missing")));
        assert!(!Backing::default().overlaps(&Backing::default()));
    }
}
