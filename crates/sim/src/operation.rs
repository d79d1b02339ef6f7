//! Operations that a history asks of a store: reads and changes of volumes, and administration.
//!
//! The engine's adapter carries them out; the model knows the possible results of each.

use std::fmt;
use std::ops::Range;

use crate::disk::SLICE_SIZE;

/// Bytes of a block; the size of a volume is a multiple of it.
pub const BLOCK_SIZE: usize = 4096;
/// Number of 512-byte slices in a block; operations are measured in slices.
pub const SLICES_PER_BLOCK: u64 = (BLOCK_SIZE / SLICE_SIZE) as u64;

/// Name of a volume or snapshot; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {}", self.0)
    }
}

/// Effect of a change on its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Writes bytes that name the change.
    Write,
    /// Writes zeros.
    Zero,
    /// Unmaps the slices, so that zeros are read.
    Unmap,
}

/// Number of folders that the volumes lie in, by their numbers, if a history has folders.
pub const FOLDERS: u32 = 3;

/// First number of the snapshots that were taken together, and the count of numbers for each group.
///
/// A group has one number for each volume.
const GROUP: u32 = 1000;

impl VolumeId {
    /// Returns the name of this volume's snapshot in a group. All names of a group are equal behind
    /// `@`.
    ///
    /// # Panics
    /// If the numbers do not suffice for the group.
    pub fn snapshot_of_group(self, group: u32) -> Self {
        assert!(self.0 < GROUP, "volumes have small numbers");
        Self((group + 1) * GROUP + self.0)
    }

    /// Returns the group of a snapshot and its volume, if the snapshot is one of a group.
    pub fn group(self) -> Option<(u32, Self)> {
        let group = (self.0 / GROUP).checked_sub(1)?;
        Some((group, Self(self.0 % GROUP)))
    }

    /// Returns the folder of a volume.
    pub fn folder(self) -> u32 {
        self.0 % FOLDERS
    }
}

/// Way in which an operation names the volumes that it destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Each volume by its own name.
    Each,
    /// All volumes below a folder.
    Below(u32),
    /// All snapshots of a group, in a folder or in the whole pool.
    Group(u32, Option<u32>),
}

/// Operation of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads slices.
    Read {
        /// Volume to read.
        volume: VolumeId,
        /// Slices to read; not empty.
        slices: Range<u64>,
    },
    /// Changes slices.
    Change {
        /// Volume to change.
        volume: VolumeId,
        /// Slices to change; not empty.
        slices: Range<u64>,
        /// New content of the slices.
        kind: ChangeKind,
        /// Whether the answer waits until the change survives a power cut.
        durable: bool,
    },
    /// Queries which slices have space, and which are holes.
    Extents {
        /// Volume to query.
        volume: VolumeId,
        /// Slices to query; not empty.
        slices: Range<u64>,
    },
    /// Makes all changes of a volume durable that were answered before.
    Flush {
        /// Volume to flush.
        volume: VolumeId,
    },
    /// Administration.
    Admin(Admin),
}

/// Administration of a pool.
///
/// An answered operation survives a power cut. An operation without an answer may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// Makes a volume of zeros with volume blocks of 4 KiB.
    Create {
        /// Name of the new volume.
        volume: VolumeId,
        /// Size of the volume, in blocks of 4 KiB.
        blocks: u64,
    },
    /// Takes snapshots of volumes at one moment.
    Snapshot {
        /// Pairs of a volume and the name of its new snapshot.
        of: Vec<(VolumeId, VolumeId)>,
    },
    /// Makes a volume with a snapshot's contents.
    Clone {
        /// Snapshot to clone.
        snapshot: VolumeId,
        /// Name of the new volume.
        volume: VolumeId,
    },
    /// Gives a volume the contents of one of its snapshots.
    Rollback {
        /// Volume to roll back.
        volume: VolumeId,
        /// Snapshot to return to.
        snapshot: VolumeId,
    },
    /// Gives a volume another size; new blocks are zeros.
    Resize {
        /// Volume to resize.
        volume: VolumeId,
        /// New size, in blocks of 4 KiB.
        blocks: u64,
    },
    /// Destroys a volume or a snapshot that has no clone.
    Destroy {
        /// Volume or snapshot to destroy.
        volume: VolumeId,
    },
    /// Destroys several volumes or snapshots at once: all of them, or none.
    DestroyAll {
        /// Volumes and snapshots to destroy.
        volumes: Vec<VolumeId>,
        /// Names that the operation gives.
        named: Named,
    },
    /// Exchanges the roles of a clone and its origin: no content changes.
    Promote {
        /// Clone to promote.
        volume: VolumeId,
    },
    /// Gives a volume or snapshot another name: no content changes.
    Rename {
        /// Volume or snapshot to rename.
        volume: VolumeId,
    },
    /// Changes a property of later writes: no content changes.
    SetProperty {
        /// Volume that has the property.
        volume: VolumeId,
        /// Number of the property and of its value.
        choice: u32,
    },
    /// Keeps space for a part of a volume: no content changes.
    Reserve {
        /// Volume that space is kept for.
        volume: VolumeId,
        /// Size of the reservation, in blocks of 4 KiB; 0 is none.
        blocks: u64,
    },
    /// Writes out the content of the log: no content changes.
    Checkpoint,
    /// Reads and repairs every copy: no content changes.
    Scrub,
    /// Changes the disks of the pool, if its vdevs allow it: no content changes.
    Reshape(Reshape),
}

/// Change of the disks of a pool. Numbers choose among the existing disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// Puts another disk in the place of a disk.
    Replace(u32),
    /// Adds a mirror to a disk.
    Attach(u32),
    /// Takes a disk out of a mirror, or out of a replacement.
    Detach(u32),
    /// Puts a disk aside.
    Offline(u32),
    /// Uses all disks again that were put aside.
    Online,
    /// Adds a top-level vdev.
    Add,
    /// Adds a log vdev.
    AddLog,
    /// Removes a log vdev.
    RemoveLog(u32),
    /// Tells the pool the present size of a disk.
    Expand(u32),
    /// Tells the pool the present sizes of all disks, one after the other.
    ExpandAll,
    /// Trims all free space of a disk, or pauses or ends its trim.
    Trim(u32),
}

impl Admin {
    /// Returns the size of the reservation in blocks, if the operation makes one.
    pub fn reserved(&self) -> Option<u64> {
        match self {
            Self::Reserve { blocks, .. } => Some(*blocks),
            _ => None,
        }
    }

    /// Reports whether other operations may run beside this one.
    pub fn is_concurrent(&self) -> bool {
        matches!(
            self,
            Self::Snapshot { .. }
                | Self::Checkpoint
                | Self::Scrub
                | Self::Reshape(_)
                | Self::Create { .. }
                | Self::Reserve { .. }
        )
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { volume, slices } => write!(f, "read {volume} {}", Span(slices)),
            Self::Extents { volume, slices } => {
                write!(f, "extents of {volume} {}", Span(slices))
            }
            Self::Change {
                volume,
                slices,
                kind,
                durable,
            } => {
                let kind = match kind {
                    ChangeKind::Write => "write",
                    ChangeKind::Zero => "zero",
                    ChangeKind::Unmap => "unmap",
                };
                let durable = if *durable { ", durable" } else { "" };
                write!(f, "{kind} {volume} {}{durable}", Span(slices))
            }
            Self::Flush { volume } => write!(f, "flush {volume}"),
            Self::Admin(admin) => write!(f, "{admin:?}"),
        }
    }
}

/// Display of slices, as blocks if they are whole blocks.
struct Span<'a>(&'a Range<u64>);

impl fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = *self.0;
        let per = SLICES_PER_BLOCK;
        if start.is_multiple_of(per) && end.is_multiple_of(per) {
            write!(f, "blocks {}..{}", start / per, end / per)
        } else {
            write!(f, "slices {start}..{end}")
        }
    }
}
