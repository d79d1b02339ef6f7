//! What a check found.

use std::fmt;

use crate::format::{DatasetId, Extent};

/// Findings of which a report tells in full; more are only counted.
pub(super) const MAX_FINDINGS: usize = 1000;

/// The kind of a [`Finding`]; these words stay what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Sectors belong to more than one owner: what one writes, another loses.
    DoubleAllocation,
    /// Sectors are needed, and the space map says that they are free: they will be written over.
    NotAllocated,
    /// An owner names sectors that do not exist.
    Beyond,
    /// Sectors are in use, and nobody reaches them. They are lost space, nothing worse.
    Leak,
    /// Nobody reaches these sectors by what could be read, but not all could be.
    Unproven,
    /// No copy is right.
    Unreadable,
    /// Some copies are wrong and can be repaired by a scrub.
    BadCopy,
    /// A block or node was born before a snapshot that does not have it, or after what leads to it.
    WrongBirth,
    /// A dead list is not what the snapshot before has and the dataset has no more.
    WrongDeadList,
    /// The sectors that a dataset is said to have are not those that it has.
    WrongReferenced,
    /// Figures or bitmaps of the space map do not agree with one another.
    WrongSpace,
}

impl FindingKind {
    /// For programs that read reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DoubleAllocation => "double-allocation",
            Self::NotAllocated => "not-allocated",
            Self::Beyond => "beyond",
            Self::Leak => "leak",
            Self::Unproven => "unproven",
            Self::Unreadable => "unreadable",
            Self::BadCopy => "bad-copy",
            Self::WrongBirth => "wrong-birth",
            Self::WrongDeadList => "wrong-dead-list",
            Self::WrongReferenced => "wrong-referenced",
            Self::WrongSpace => "wrong-space",
        }
    }
}

/// What sectors are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A block of a volume or snapshot: of the oldest that has it.
    Block {
        /// Whose.
        dataset: DatasetId,
        /// Its number.
        block: u64,
    },
    /// A node of a map.
    Node {
        /// Whose.
        dataset: DatasetId,
        /// 0 is a leaf.
        level: u8,
        /// Its position among those of its level.
        index: u64,
    },
    /// A part of a dead list.
    DeadList {
        /// Whose.
        dataset: DatasetId,
    },
    /// Something that was deleted and is not freed yet.
    Freeing,
    /// A record of the log.
    Record {
        /// Of this group.
        seq: u64,
    },
    /// The manifest of the last checkpoint.
    Manifest,
    /// A page of the space map, or a node that leads to it.
    SpaceMap {
        /// Of this top-level vdev.
        vdev: u16,
    },
    /// The list of what the last checkpoint dropped.
    DroppedList,
    /// Labels inside of the data area.
    InnerLabels {
        /// Of this top-level vdev.
        vdev: u16,
    },
    /// Dropped, and kept until two more checkpoints are durable.
    Dropped,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { dataset, block } => write!(f, "block {block} of dataset {}", dataset.0),
            Self::Node {
                dataset,
                level,
                index,
            } => write!(f, "node {level}/{index} of dataset {}", dataset.0),
            Self::DeadList { dataset } => write!(f, "the dead list of dataset {}", dataset.0),
            Self::Freeing => f.write_str("what is being freed"),
            Self::Record { seq } => write!(f, "group {seq} of the log"),
            Self::Manifest => f.write_str("the manifest"),
            Self::SpaceMap { vdev } => write!(f, "the space map of top-level vdev {vdev}"),
            Self::DroppedList => f.write_str("the list of what was dropped"),
            Self::InnerLabels { vdev } => {
                write!(f, "the inner labels of top-level vdev {vdev}")
            }
            Self::Dropped => f.write_str("what was dropped lately"),
        }
    }
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// Which sectors, where it is about sectors.
    pub extent: Option<Extent>,
    /// Whose they are.
    pub owners: Vec<Owner>,
    /// More about it.
    pub context: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if let Some(extent) = self.extent {
            let (vdev, first, end) = (extent.vdev, extent.sector, extent.end());
            write!(f, ": sectors {first}..{end} of top-level vdev {vdev}")?;
        }
        for owner in &self.owners {
            write!(f, ": {owner}")?;
        }
        if !self.context.is_empty() {
            write!(f, ": {}", self.context)?;
        }
        Ok(())
    }
}

/// What a check counted and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Volumes and snapshots.
    pub datasets: u64,
    /// Blocks of them, each counted once however many share it.
    pub blocks: u64,
    /// Nodes of their maps, likewise.
    pub nodes: u64,
    /// Blocks on dead lists.
    pub dead_blocks: u64,
    /// Sectors that somebody needs, with parity.
    pub reached_sectors: u64,
    /// Blocks and nodes of which every copy was read and is right.
    pub verified: u64,
    /// Of all that was to be verified what lies twice.
    pub twice: u64,
    /// What leads to other blocks and lies once, where its vdev has no redundancy.
    pub once: u64,
    /// What is wrong, at most the first thousand.
    pub findings: Vec<Finding>,
    /// How much more is wrong.
    pub more_findings: u64,
}

impl Report {
    /// Whether all is as it must be.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn add(
        &mut self,
        kind: FindingKind,
        extent: Option<Extent>,
        owners: &[Owner],
        context: impl Into<String>,
    ) {
        if self.findings.len() >= MAX_FINDINGS {
            self.more_findings += 1;
            return;
        }
        self.findings.push(Finding {
            kind,
            extent,
            owners: owners.to_vec(),
            context: context.into(),
        });
    }
}
