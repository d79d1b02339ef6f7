//! The operations of a history on a store: reads and changes of volumes, and administration.
//!
//! The engine's adapter carries them out. The model knows the possible effects of each.

use std::fmt;
use std::ops::Range;

use crate::disk::SLICE_SIZE;

/// Bytes of a block of a volume. A volume's size is a multiple of it.
pub const BLOCK_SIZE: usize = 4096;
/// Number of slices of 512 bytes in a block. Operations are measured in slices.
pub const SLICES_PER_BLOCK: u64 = (BLOCK_SIZE / SLICE_SIZE) as u64;

/// Number of a volume or snapshot, never used again.
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
    /// The change writes bytes that name the change.
    Write,
    /// The change writes zeros.
    Zero,
    /// The change unmaps the slices, so that zeros are read.
    Unmap,
}

/// Number of folders in which volumes lie, by their numbers, if a history has any.
pub const FOLDERS: u32 = 3;

/// First number of snapshots that were taken together. Each group has this count of numbers, one
/// for each volume.
const GROUP: u32 = 1000;

impl VolumeId {
    /// Returns the snapshot of a volume that is one of a group. All snapshots of one group have one
    /// name behind `@`.
    ///
    /// # Panics
    /// The volume's number is too high to be in a group.
    pub fn snapshot_of_group(self, group: u32) -> Self {
        assert!(self.0 < GROUP, "volumes have small numbers");
        Self((group + 1) * GROUP + self.0)
    }

    /// Returns the group of a snapshot, if it is in one, and the volume of which it was taken.
    pub fn group(self) -> Option<(u32, Self)> {
        let group = (self.0 / GROUP).checked_sub(1)?;
        Some((group, Self(self.0 % GROUP)))
    }

    /// Returns the folder of a volume.
    pub fn folder(self) -> u32 {
        self.0 % FOLDERS
    }
}

/// Names by which an operation destroys volumes or snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Each is named by its own name.
    Each,
    /// All that lies below a folder is named.
    Below(u32),
    /// The snapshots of a group are named, of all volumes in a folder or in the pool.
    Group(u32, Option<u32>),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads slices.
    Read {
        /// Volume that is read.
        volume: VolumeId,
        /// Slices to read, not empty.
        slices: Range<u64>,
    },
    /// Changes slices.
    Change {
        /// Volume that is changed.
        volume: VolumeId,
        /// Slices to change, not empty.
        slices: Range<u64>,
        /// Kind of the change.
        kind: ChangeKind,
        /// Whether the change is answered only when it survives a power cut.
        durable: bool,
    },
    /// Asks which slices have space, and which are holes.
    Extents {
        /// Volume that is asked about.
        volume: VolumeId,
        /// Slices to ask about, not empty.
        slices: Range<u64>,
    },
    /// Makes all changes of a volume durable that were answered before.
    Flush {
        /// Volume that is flushed.
        volume: VolumeId,
    },
    /// Administration of the pool.
    Admin(Admin),
}

/// Administration of a pool. Answered operations survive a power cut. Others may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// Makes a volume of zeros with volume blocks of 4 KiB.
    Create {
        /// Number of the new volume.
        volume: VolumeId,
        /// Size in blocks of 4 KiB.
        blocks: u64,
    },
    /// Takes snapshots of volumes at one moment.
    Snapshot {
        /// Volumes, each with the number of its new snapshot.
        of: Vec<(VolumeId, VolumeId)>,
    },
    /// Makes a volume of a snapshot's contents.
    Clone {
        /// Snapshot that is cloned.
        snapshot: VolumeId,
        /// Number of the new volume.
        volume: VolumeId,
    },
    /// Gives a volume the contents of a snapshot that was taken of it.
    Rollback {
        /// Volume that is rolled back.
        volume: VolumeId,
        /// Snapshot to which the volume goes back.
        snapshot: VolumeId,
    },
    /// Gives a volume another size; new blocks are zeros.
    Resize {
        /// Volume of the new size.
        volume: VolumeId,
        /// Size in blocks of 4 KiB.
        blocks: u64,
    },
    /// Destroys a volume or a snapshot of which there is no clone.
    Destroy {
        /// Volume or snapshot to destroy.
        volume: VolumeId,
    },
    /// Destroys several volumes or snapshots at once: all of them, or none.
    DestroyAll {
        /// Volumes and snapshots to destroy.
        volumes: Vec<VolumeId>,
        /// Names by which they are destroyed.
        named: Named,
    },
    /// Promotes a clone: it takes the place of its origin. No content changes.
    Promote {
        /// Clone that is promoted.
        volume: VolumeId,
    },
    /// Gives a volume or snapshot another name: no content changes.
    Rename {
        /// Volume or snapshot that gets the name.
        volume: VolumeId,
    },
    /// Sets a property that affects later writes. No content changes.
    SetProperty {
        /// Volume of the property.
        volume: VolumeId,
        /// Number that chooses a property and its value.
        choice: u32,
    },
    /// Reserves space for a part of a volume. No content changes.
    Reserve {
        /// Volume of the reservation.
        volume: VolumeId,
        /// Number of blocks of 4 KiB; 0 is none.
        blocks: u64,
    },
    /// Writes out the content of the log. No content changes.
    Checkpoint,
    /// Reads and repairs every copy. No content changes.
    Scrub,
    /// Changes the disks of the pool, if the pool allows it. No content changes.
    Reshape(Reshape),
}

/// A change of the disks of a pool. Numbers choose among the existing disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// A new disk replaces one.
    Replace(u32),
    /// A disk gets a mirror.
    Attach(u32),
    /// A disk is taken out of a mirror, or out of a replacement.
    Detach(u32),
    /// A disk is taken offline.
    Offline(u32),
    /// All disks that were taken offline are used again.
    Online,
    /// A top-level vdev is added.
    Add,
    /// A log vdev is added.
    AddLog,
    /// A log vdev is removed.
    RemoveLog(u32),
    /// The pool is told the present size of a disk.
    Expand(u32),
    /// The pool is told the present sizes of all disks, one after the other.
    ExpandAll,
    /// All free space of a disk is trimmed, or its trim is paused or ended.
    Trim(u32),
}

impl Admin {
    /// Returns the number of blocks for which the operation reserves space, if it does that.
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

/// Slices, shown as blocks if they are whole ones.
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
