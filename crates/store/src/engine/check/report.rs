//! Report of a check.

use std::fmt;

use crate::format::{DatasetId, Extent};

/// Most findings that a report holds in full; further ones are only counted.
pub(super) const MAX_FINDINGS: usize = 1000;

/// Kind of a [`Finding`]. These words never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Sectors belong to more than one owner: a write of one owner destroys data of the other.
    DoubleAllocation,
    /// Sectors are needed, and the space map says that they are free: they will be overwritten.
    NotAllocated,
    /// An owner names sectors that do not exist.
    Beyond,
    /// Sectors are in use, and nothing reaches them. They are lost space, nothing worse.
    Leak,
    /// Sectors are in use, and nothing that could be read reaches them, but not everything could be
    /// read.
    Unproven,
    /// No copy is right.
    Unreadable,
    /// A block has wrong copies, which a scrub can repair.
    BadCopy,
    /// A block or node was born before a snapshot that does not have it, or after the node that
    /// leads to it.
    WrongBirth,
    /// A dead list is not the difference between the snapshot before and the dataset.
    WrongDeadList,
    /// The recorded number of a dataset's sectors is wrong.
    WrongReferenced,
    /// Figures or bitmaps of the space map do not agree with one another.
    WrongSpace,
}

impl FindingKind {
    /// Returns the word for programs that read reports.
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

/// Owner of sectors, which says what they are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Block of a volume or snapshot: of the oldest that has it.
    Block {
        /// Volume or snapshot that owns the block.
        dataset: DatasetId,
        /// Number of the block.
        block: u64,
    },
    /// Node of a map.
    Node {
        /// Volume or snapshot that owns the node.
        dataset: DatasetId,
        /// Level of the node; 0 is a leaf.
        level: u8,
        /// Position within the level.
        index: u64,
    },
    /// Part of a dead list.
    DeadList {
        /// Dataset that owns the list.
        dataset: DatasetId,
    },
    /// Deleted structure that is not freed yet.
    Freeing,
    /// Record of the log.
    Record {
        /// Number of the group.
        seq: u64,
    },
    /// Manifest of the last checkpoint.
    Manifest,
    /// Page of the space map, or a node that leads to it.
    SpaceMap {
        /// Number of the top-level vdev.
        vdev: u16,
    },
    /// List of the blocks that the last checkpoint dropped.
    DroppedList,
    /// Labels inside the data area.
    InnerLabels {
        /// Number of the top-level vdev.
        vdev: u16,
    },
    /// Dropped blocks, kept until two more checkpoints are durable.
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
            Self::Freeing => f.write_str("the list of blocks to free"),
            Self::Record { seq } => write!(f, "group {seq} of the log"),
            Self::Manifest => f.write_str("the manifest"),
            Self::SpaceMap { vdev } => write!(f, "the space map of top-level vdev {vdev}"),
            Self::DroppedList => f.write_str("the list of dropped blocks"),
            Self::InnerLabels { vdev } => {
                write!(f, "the inner labels of top-level vdev {vdev}")
            }
            Self::Dropped => f.write_str("recently dropped blocks"),
        }
    }
}

/// Fault that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the fault.
    pub kind: FindingKind,
    /// Sectors concerned, if the fault is about sectors.
    pub extent: Option<Extent>,
    /// Owners of the sectors.
    pub owners: Vec<Owner>,
    /// Text with details.
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

/// Counts and findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of volumes and snapshots.
    pub datasets: u64,
    /// Number of their blocks, each counted once however many datasets share it.
    pub blocks: u64,
    /// Number of nodes of their maps, each counted once.
    pub nodes: u64,
    /// Number of blocks on dead lists.
    pub dead_blocks: u64,
    /// Sectors that are needed, with parity.
    pub reached_sectors: u64,
    /// Number of blocks and nodes of which every copy was read and is right.
    pub verified: u64,
    /// Number of verified blocks that lie twice.
    pub twice: u64,
    /// Number of metadata blocks that lie once on a vdev without redundancy.
    pub once: u64,
    /// Findings, at most the first thousand.
    pub findings: Vec<Finding>,
    /// Number of further findings.
    pub more_findings: u64,
}

impl Report {
    /// Reports whether the check found no fault.
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
