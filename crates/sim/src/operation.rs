//! What a history asks of a store: reads and changes of volumes, and administration.
//!
//! The engine's adapter carries them out; the model knows what each may lead to.

use std::fmt;
use std::ops::Range;

use crate::disk::SLICE_SIZE;

/// Bytes of a block of a volume, of which its size is a multiple.
pub const BLOCK_SIZE: usize = 4096;
/// Slices of 512 bytes in a block; what operations are measured in.
pub const SLICES_PER_BLOCK: u64 = (BLOCK_SIZE / SLICE_SIZE) as u64;

/// A volume or snapshot; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {}", self.0)
    }
}

/// What a change does to its slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Writes bytes that tell who wrote them.
    Write,
    /// Writes zeros.
    Zero,
    /// Unmaps, so that zeros are read.
    Unmap,
}

/// Volumes lie in so many folders, by their numbers, where a history has any.
pub const FOLDERS: u32 = 3;

/// The numbers of snapshots that were taken together begin here: so many for each group, one for each volume.
const GROUP: u32 = 1000;

impl VolumeId {
    /// The snapshot of a volume that is one of a group: all of one group have the same name behind `@`.
    ///
    /// # Panics
    /// Where so many volumes have no numbers.
    pub fn snapshot_of_group(self, group: u32) -> Self {
        assert!(self.0 < GROUP, "volumes have small numbers");
        Self((group + 1) * GROUP + self.0)
    }

    /// The group of a snapshot, where it is one of a group, and the volume that it was taken of.
    pub fn group(self) -> Option<(u32, Self)> {
        let group = (self.0 / GROUP).checked_sub(1)?;
        Some((group, Self(self.0 % GROUP)))
    }

    /// The folder of a volume.
    pub fn folder(self) -> u32 {
        self.0 % FOLDERS
    }
}

/// How an operation names what it destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Each by its own name.
    Each,
    /// As all that lies below a folder.
    Below(u32),
    /// As the snapshots of a group, of all volumes in a folder or in the pool.
    Group(u32, Option<u32>),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads slices.
    Read {
        /// Of this volume.
        volume: VolumeId,
        /// Which; not empty.
        slices: Range<u64>,
    },
    /// Changes slices.
    Change {
        /// Of this volume.
        volume: VolumeId,
        /// Which; not empty.
        slices: Range<u64>,
        /// To what.
        kind: ChangeKind,
        /// Not answered before it survives a power cut.
        durable: bool,
    },
    /// Tells which slices have space, and which are holes.
    Extents {
        /// Of this volume.
        volume: VolumeId,
        /// Which; not empty.
        slices: Range<u64>,
    },
    /// Makes all changes of a volume durable that were answered before.
    Flush {
        /// Of this volume.
        volume: VolumeId,
    },
    /// Administration.
    Admin(Admin),
}

/// Administration of a pool. What was answered survives a power cut; what was not may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// Makes a volume of zeros with volume blocks of 4 KiB.
    Create {
        /// Its name from now on.
        volume: VolumeId,
        /// Its size in blocks of 4 KiB.
        blocks: u64,
    },
    /// Takes snapshots of volumes at one moment.
    Snapshot {
        /// Of which volume, and the snapshot's name from now on.
        of: Vec<(VolumeId, VolumeId)>,
    },
    /// Makes a volume of a snapshot's contents.
    Clone {
        /// Whose.
        snapshot: VolumeId,
        /// Its name from now on.
        volume: VolumeId,
    },
    /// Gives a volume the contents of a snapshot that was taken of it.
    Rollback {
        /// Which volume.
        volume: VolumeId,
        /// To what.
        snapshot: VolumeId,
    },
    /// Gives a volume another size; new blocks are zeros.
    Resize {
        /// Which volume.
        volume: VolumeId,
        /// The size in blocks of 4 KiB.
        blocks: u64,
    },
    /// Destroys a volume or a snapshot of which there is no clone.
    Destroy {
        /// Which.
        volume: VolumeId,
    },
    /// Destroys several at once: all of them, or none.
    DestroyAll {
        /// Which.
        volumes: Vec<VolumeId>,
        /// By which names.
        named: Named,
    },
    /// Makes a clone what its origin was cloned from: no content changes.
    Promote {
        /// The clone.
        volume: VolumeId,
    },
    /// Gives a volume or snapshot another name: no content changes.
    Rename {
        /// Which.
        volume: VolumeId,
    },
    /// Has what is written from now on written otherwise: no content changes.
    SetProperty {
        /// Of which volume.
        volume: VolumeId,
        /// The number of a property and its value.
        choice: u32,
    },
    /// Keeps space for so much of a volume: no content changes.
    Reserve {
        /// Which volume.
        volume: VolumeId,
        /// Blocks of 4 KiB; 0 is none.
        blocks: u64,
    },
    /// Writes out what the log holds: no content changes.
    Checkpoint,
    /// Reads and repairs every copy: no content changes.
    Scrub,
    /// Changes what the pool lies on, where it lets itself be changed so: no content changes.
    Reshape(Reshape),
}

/// What is done with the disks of a pool. Numbers choose among those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshape {
    /// Another disk takes the place of one.
    Replace(u32),
    /// A disk gets a mirror.
    Attach(u32),
    /// A disk is taken out of a mirror, or out of a replacement.
    Detach(u32),
    /// A disk is put aside.
    Offline(u32),
    /// All that were put aside are used again.
    Online,
    /// Another top-level vdev.
    Add,
    /// Another log vdev.
    AddLog,
    /// A log vdev is taken away.
    RemoveLog(u32),
    /// The pool is told how large a disk is by now.
    Expand(u32),
    /// The same of all disks, one after the other.
    ExpandAll,
    /// All free space of a disk is trimmed; or its trim is paused or ended.
    Trim(u32),
}

impl Admin {
    /// The blocks for which it keeps space, where that is what it does.
    pub fn reserved(&self) -> Option<u64> {
        match self {
            Self::Reserve { blocks, .. } => Some(*blocks),
            _ => None,
        }
    }

    /// Whether other operations may run beside it.
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

/// Slices as blocks where they are whole ones.
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
