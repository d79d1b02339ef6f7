//! The status of an array, in zpool's words.

use std::fmt;
use std::sync::Arc;

use super::Array;
use super::counts::{BlockIo, DirectReads, LeafIo};
use super::device::LeafId;
use super::layout;
use super::tree::{
    Class, LeafSpec, LeafState, SlotKind, SlotSpec, TopLevel, TopLevelKind, TopLevelSpec, VdevTree,
};
use crate::format::Epoch;
use crate::format::label::{COPIES, LABEL_SIZE};

/// Health of a leaf or a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VdevState {
    /// All is well.
    Online,
    /// Everything can be read, but a part of the redundancy is missing.
    Degraded,
    /// The device failed too often to be used.
    Faulted,
    /// The administrator put it aside.
    Offline,
    /// The device cannot be opened, or does not answer.
    Unavailable,
    /// The device went away.
    Removed,
}

impl fmt::Display for VdevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Faulted => "FAULTED",
            Self::Offline => "OFFLINE",
            Self::Unavailable => "UNAVAIL",
            Self::Removed => "REMOVED",
        })
    }
}

/// Errors of a leaf since they were cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that the device failed.
    pub read: u64,
    /// Writes and flushes that the device failed.
    pub write: u64,
    /// Reads that returned wrong bytes.
    pub checksum: u64,
}

/// Status of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafStatus {
    /// Position of the leaf.
    pub leaf: LeafId,
    /// Permanent GUID of the leaf.
    pub guid: u64,
    /// Size of its device in bytes.
    pub size: u64,
    /// Health of the leaf.
    pub state: VdevState,
    /// Errors of the leaf.
    pub errors: ErrorCounts,
    /// Work of its device.
    pub io: LeafIo,
    /// Whether blocks are missing on it that a resilver must rebuild.
    pub is_incomplete: bool,
}

/// Status of a child of a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    /// Kind of the slot: the reason for its leaves.
    pub kind: SlotKind,
    /// Leaves of the slot.
    pub leaves: Vec<LeafStatus>,
}

/// Status of a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLevelStatus {
    /// Number of the vdev in addresses.
    pub vdev: u16,
    /// Kind of the vdev: how it keeps its blocks.
    pub kind: TopLevelKind,
    /// Purpose of the vdev.
    pub class: Class,
    /// Health of the vdev: faulted if blocks cannot be read any more.
    pub state: VdevState,
    /// Sectors in its address space, parity included.
    pub sectors: u64,
    /// Children of the vdev.
    pub slots: Vec<SlotStatus>,
    /// Blocks that could not be read from it with right bytes.
    pub unreadable: u64,
    /// Whether unflushed writes are lost, so that flushes fail.
    pub is_lossy: bool,
    /// Blocks that were read and written.
    pub io: BlockIo,
}

impl TopLevelStatus {
    /// Reports whether more of its slots lack a part than redundancy covers. If so, blocks in those
    /// parts may be unreadable until a leaf that has them is back.
    pub fn is_lacking(&self) -> bool {
        let is_used =
            |leaf: &LeafStatus| matches!(leaf.state, VdevState::Online | VdevState::Degraded);
        let is_whole = |leaf: &LeafStatus| is_used(leaf) && !leaf.is_incomplete;
        let lacks = |slot: &&SlotStatus| !slot.leaves.iter().any(is_whole);
        self.slots.iter().filter(lacks).count() > self.kind.redundancy(self.slots.len())
    }
}

impl Array {
    /// Returns all top-level vdevs in the order of their numbers, holes too.
    pub fn top_levels(&self) -> impl Iterator<Item = TopLevelStatus> {
        self.top_levels.iter().enumerate().map(|(vdev, top)| {
            let slots = top.slots.iter().map(|slot| SlotStatus {
                kind: slot.kind,
                leaves: slot
                    .leaves
                    .iter()
                    .map(|leaf| self.leaf_status(*leaf))
                    .collect(),
            });
            TopLevelStatus {
                vdev: vdev as u16,
                kind: top.kind,
                class: top.class,
                state: self.top_level_state(vdev),
                sectors: top.sectors(),
                slots: slots.collect(),
                unreadable: top.unreadable,
                is_lossy: top.is_unflushable,
                io: self.io_of(top),
            }
        })
    }

    fn io_of(&self, top: &TopLevel) -> BlockIo {
        let mut io = top.io;
        for leaf in top.leaves() {
            let direct = self.leaf(leaf).direct.blocks();
            io.read.operations += direct.operations;
            io.read.bytes += direct.bytes;
        }
        io
    }

    /// Returns the leaves that have all blocks of each top-level vdev whole, and the counts of
    /// reads of their devices beside the array. A vdev whose blocks lie in columns has none.
    pub fn whole_copies(&self) -> Vec<Vec<(LeafId, Arc<DirectReads>)>> {
        let copies = self.top_levels.iter().map(|top| {
            let is_whole = matches!(top.kind, TopLevelKind::Leaf | TopLevelKind::Mirror);
            let leaves = top
                .leaves()
                .filter(|leaf| is_whole && self.leaf(*leaf).is_complete());
            let with_counts = leaves.map(|leaf| (leaf, Arc::clone(&self.leaf(leaf).direct)));
            with_counts.collect()
        });
        copies.collect()
    }

    /// Returns the number of requests that were given up. The leaf of such a request is asked for
    /// nothing until it answers, and no event tells that.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Reports whether blocks may be written to a top-level vdev. It is for blocks, and keeps its
    /// data.
    pub fn is_writable(&self, vdev: u16) -> bool {
        let top = self.top_levels.get(usize::from(vdev));
        let takes_blocks = top.is_some_and(|top| {
            top.class == Class::Normal && top.kind != TopLevelKind::Hole && !top.is_unflushable
        });
        let state = || self.top_level_state(usize::from(vdev));
        takes_blocks && matches!(state(), VdevState::Online | VdevState::Degraded)
    }

    /// Reports whether a log vdev takes the log, and keeps its data. At least one of its leaves
    /// must be believed to have all of the log when the pool is opened.
    pub fn takes_log(&self, vdev: u16) -> bool {
        let top = self.top_levels.get(usize::from(vdev));
        let is_whole = |leaf: LeafId| self.leaf(leaf).is_complete();
        top.is_some_and(|top| {
            let is_log = top.class == Class::Log && top.kind != TopLevelKind::Hole;
            is_log && !top.is_unflushable && top.leaves().any(is_whole)
        })
    }

    /// Returns the epoch of the first root that all used leaves of a vdev have.
    pub fn joined(&self, vdev: u16) -> Epoch {
        let top = self.top_levels.get(usize::from(vdev));
        let leaves = top.into_iter().flat_map(TopLevel::leaves);
        let used = leaves
            .map(|leaf| self.leaf(leaf))
            .filter(|leaf| leaf.is_usable());
        used.map(|leaf| leaf.joined).max().unwrap_or_default()
    }

    /// Returns all leaves that were not detached.
    pub fn leaves(&self) -> impl Iterator<Item = LeafStatus> {
        (0..self.leaves.len() as u32)
            .map(LeafId)
            .filter(|leaf| self.leaf(*leaf).state != LeafState::Detached)
            .map(|leaf| self.leaf_status(leaf))
    }

    /// Returns the GUID of a leaf, also of a detached one.
    pub fn guid(&self, leaf: LeafId) -> Option<u64> {
        self.leaves.get(leaf.0 as usize).map(|leaf| leaf.guid)
    }

    /// Returns the top-level vdev of a leaf that holds blocks, and the vdev's number of columns.
    /// Returns `None` for other leaves.
    pub fn blocks_of(&self, leaf: LeafId) -> Option<(u16, u64)> {
        let own = self.leaves.get(leaf.0 as usize)?;
        let top = self.top_levels.get(usize::from(own.vdev))?;
        let is_of_blocks = own.state != LeafState::Detached && top.class == Class::Normal;
        is_of_blocks.then(|| (own.vdev, self.columns_of(own.vdev)))
    }

    /// Returns the number of leaves whose sectors make up the space of a top-level vdev.
    pub fn columns_of(&self, vdev: u16) -> u64 {
        match self.top_levels.get(usize::from(vdev)) {
            Some(top) if matches!(top.kind, TopLevelKind::Raidz { .. }) => top.slots.len() as u64,
            _ => 1,
        }
    }

    /// Returns the leaves of a top-level vdev.
    pub fn leaves_of(&self, vdev: u16) -> impl Iterator<Item = LeafId> {
        let top = self.top_levels.get(usize::from(vdev));
        top.into_iter().flat_map(|top| top.leaves())
    }

    /// Returns the leaf with this GUID.
    pub fn find(&self, guid: u64) -> Option<LeafId> {
        self.leaves()
            .find(|leaf| leaf.guid == guid)
            .map(|leaf| leaf.leaf)
    }

    /// Reports whether the device of this GUID may still do requests that were given up. Its leaf
    /// was put aside or detached.
    pub fn is_unanswered(&self, guid: u64) -> bool {
        let mut leaves = self.leaves.iter();
        leaves.any(|leaf| leaf.guid == guid && leaf.abandoned > 0)
    }

    /// Returns the offset of label `number` of a leaf, in bytes. Labels 4 and 5 are the inner ones.
    /// Returns `None` if the leaf's device ends before, or its vdev has no label of that number.
    pub fn label_offset(&self, leaf: LeafId, number: usize) -> Option<u64> {
        let leaf = self.leaves.get(leaf.0 as usize)?;
        let offset = match number.checked_sub(COPIES as usize) {
            None => layout::label_offset(number as u64, leaf.size)?,
            Some(inner) => {
                let top = self.top_levels.get(usize::from(leaf.vdev))?;
                layout::sector_offset(*top.inner_labels?.get(inner)?)
            }
        };
        (offset + LABEL_SIZE as u64 <= leaf.reach).then_some(offset)
    }

    /// Returns the present configuration, to be written into labels. An array made of it goes on
    /// where this one is.
    pub fn tree(&self) -> VdevTree {
        let leaf = |id: &LeafId| {
            let leaf = self.leaf(*id);
            let missing = self.missing(*id).unwrap_or_default();
            LeafSpec {
                guid: leaf.guid,
                size: leaf.size,
                state: leaf.state,
                missing,
                joined: leaf.joined,
            }
        };
        let top_levels = self.top_levels.iter().map(|top| TopLevelSpec {
            kind: top.kind,
            class: top.class,
            leaf_sectors: Some(top.leaf_sectors),
            inner_labels: top.inner_labels,
            slots: top
                .slots
                .iter()
                .map(|slot| SlotSpec {
                    kind: slot.kind,
                    leaves: slot.leaves.iter().map(leaf).collect(),
                })
                .collect(),
        });
        VdevTree {
            top_levels: top_levels.collect(),
        }
    }

    pub(super) fn leaf_status(&self, id: LeafId) -> LeafStatus {
        let leaf = self.leaf(id);
        let state = match leaf.state {
            LeafState::Online if leaf.abandoned > 0 => VdevState::Unavailable,
            LeafState::Online => VdevState::Online,
            LeafState::Offline => VdevState::Offline,
            LeafState::Faulted => VdevState::Faulted,
            LeafState::Unavailable => VdevState::Unavailable,
            LeafState::Removed | LeafState::Detached => VdevState::Removed,
        };
        LeafStatus {
            leaf: id,
            guid: leaf.guid,
            size: leaf.size,
            state,
            errors: leaf.errors,
            io: LeafIo {
                read: leaf.io.read.plus(leaf.direct.transfers()),
                ..leaf.io
            },
            is_incomplete: !leaf.missing.is_empty() || leaf.missing_since.is_some(),
        }
    }

    fn top_level_state(&self, vdev: usize) -> VdevState {
        let top = &self.top_levels[vdev];
        let lost = top
            .slots
            .iter()
            .filter(|slot| {
                !slot
                    .leaves
                    .iter()
                    .any(|leaf| self.leaf(*leaf).is_complete())
            })
            .count();
        let away = top
            .slots
            .iter()
            .filter(|slot| !slot.leaves.iter().any(|leaf| self.leaf(*leaf).is_usable()))
            .count();
        let is_whole = top.leaves().all(|leaf| self.leaf(leaf).is_complete());
        match top.kind {
            TopLevelKind::Hole => VdevState::Online,
            _ if away > top.redundancy() => VdevState::Unavailable,
            _ if lost > 0 || !is_whole || top.is_unflushable => VdevState::Degraded,
            _ => VdevState::Online,
        }
    }
}
