//! The configuration that an array starts from ([`VdevTree`]), and the tree it works with.

use smallvec::SmallVec;

use super::counts::BlockIo;
use super::device::LeafId;
use super::dtl::Dtl;
use super::layout;
use crate::format::{Epoch, Extent};
use crate::log::ring::MOST_SECTORS as LOG_RING;

/// All top-level vdevs of a pool, by their number in addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevTree {
    /// Blocks are spread over these.
    pub top_levels: Vec<TopLevelSpec>,
}

/// How a top-level vdev keeps its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// On one leaf.
    Leaf,
    /// On each of its leaves.
    Mirror,
    /// In columns over its leaves, with parity.
    Raidz {
        /// How many leaves may be lost: 1, 2 or 3.
        parity: u8,
    },
    /// Not any more: a log vdev was removed, and its number is kept.
    Hole,
}

impl Kind {
    /// Of so many slots, those that may be lost without losing a block.
    pub fn redundancy(self, slots: usize) -> usize {
        match self {
            Self::Leaf | Self::Hole => 0,
            Self::Mirror => slots.saturating_sub(1),
            Self::Raidz { parity } => usize::from(parity),
        }
    }
}

/// What a top-level vdev is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Blocks of volumes and of the pool itself.
    #[default]
    Normal,
    /// The log of durable writes only.
    Log,
}

/// A top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLevelSpec {
    /// How it keeps its blocks.
    pub kind: Kind,
    /// What it is for.
    pub class: Class,
    /// Sectors used of each leaf; `None` for as many as the smallest leaf has. Given where the
    /// pool exists: a larger leaf makes no larger vdev before it is asked to grow.
    pub leaf_sectors: Option<u64>,
    /// The first sectors of the two inner labels on each of its leaves; `None`: it has none.
    pub inner_labels: Option<[u64; 2]>,
    /// Its children in order; a raidz's columns.
    pub slots: Vec<SlotSpec>,
}

impl TopLevelSpec {
    /// A top-level vdev of whole leaves that uses all of the smallest.
    pub fn new(kind: Kind, class: Class, leaves: impl IntoIterator<Item = LeafSpec>) -> Self {
        let slots = leaves.into_iter().map(SlotSpec::single).collect();
        Self {
            kind,
            class,
            leaf_sectors: None,
            inner_labels: None,
            slots,
        }
    }

    /// The same with inner labels, where it is large enough for them. Those of a log vdev lie behind what its copies of
    /// groups take.
    #[must_use]
    pub fn with_inner_labels(self) -> Self {
        let leaves = self.slots.iter().flat_map(|slot| &slot.leaves);
        let sectors = leaves.map(|leaf| layout::data_sectors(leaf.size).unwrap_or(0));
        let places = layout::inner_labels(sectors.min().unwrap_or(0));
        let is_free = |[first, _]: &[u64; 2]| self.class == Class::Normal || *first >= LOG_RING;
        Self {
            inner_labels: places.filter(is_free),
            ..self
        }
    }

    /// The sectors of the vdev's own space that its inner labels take: all leaves' rows of each.
    pub fn inner_extents(&self, vdev: u16) -> impl Iterator<Item = Extent> {
        let columns = match self.kind {
            Kind::Raidz { .. } => self.slots.len() as u64,
            Kind::Leaf | Kind::Mirror | Kind::Hole => 1,
        };
        let rows = self.inner_labels.filter(|_| self.class == Class::Normal);
        rows.into_iter().flatten().map(move |row| Extent {
            vdev,
            sector: row * columns,
            sectors: (layout::LABEL_SECTORS * columns) as u32,
        })
    }

    /// Why its inner labels cannot lie where it says, in a vdev that uses so many sectors of each leaf.
    pub(super) fn misplaced_inner(&self, leaf_sectors: u64) -> Option<String> {
        let [first, second] = self.inner_labels?;
        let is_aligned = [first, second]
            .iter()
            .all(|at| at.is_multiple_of(layout::INNER_GRAIN));
        let end = |at: u64| at.saturating_add(layout::LABEL_SECTORS);
        let is_right = is_aligned && end(first) <= second && end(second) <= leaf_sectors;
        (!is_right)
            .then(|| format!("inner labels at the sectors {first} and {second} of {leaf_sectors}"))
    }
}

/// Why a slot has the leaves it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// One leaf.
    #[default]
    Single,
    /// A new leaf takes the place of the first.
    Replacing,
    /// A spare stands in for the first.
    Spare,
}

/// A child of a top-level vdev: one leaf, or several that hold the same for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// Why.
    pub kind: SlotKind,
    /// At least one; the first is the one that was there first.
    pub leaves: Vec<LeafSpec>,
}

impl SlotSpec {
    /// A slot of one leaf.
    pub fn single(leaf: LeafSpec) -> Self {
        Self {
            kind: SlotKind::Single,
            leaves: vec![leaf],
        }
    }
}

/// Whether a leaf is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LeafState {
    /// It is used.
    #[default]
    Online,
    /// The administrator put it aside.
    Offline,
    /// It failed too much.
    Faulted,
    /// It could not be opened.
    Unavailable,
    /// It went away while it was used.
    Removed,
    /// It left the array.
    Detached,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpec {
    /// Its name for ever.
    pub guid: u64,
    /// Bytes of the device; where it is away, as it was last seen.
    pub size: u64,
    /// Whether it is used.
    pub state: LeafState,
    /// The epochs it missed, as its pool's labels say. A leaf that was away misses at least all
    /// epochs since that of its own label.
    pub missing: Dtl,
    /// The epoch of the first root that its labels get in this place, or one before that. A spare comes and goes
    /// under one GUID: this tells a label of another stay from one of this.
    pub joined: Epoch,
}

impl LeafSpec {
    /// A leaf that is there and misses nothing.
    pub fn new(guid: u64, size: u64) -> Self {
        Self {
            guid,
            size,
            state: LeafState::Online,
            missing: Dtl::new(),
            joined: Epoch(0),
        }
    }
}

/// A top-level vdev at work.
#[derive(Clone, Debug)]
pub(super) struct TopLevel {
    pub(super) kind: Kind,
    pub(super) class: Class,
    pub(super) slots: Vec<Slot>,
    /// Sectors used of each leaf.
    pub(super) leaf_sectors: u64,
    /// The first sectors of the inner labels on each leaf.
    pub(super) inner_labels: Option<[u64; 2]>,
    /// Writes that were answered as done are lost, and no flush may say otherwise.
    pub(super) is_unflushable: bool,
    /// Blocks that could not be read.
    pub(super) unreadable: u64,
    /// Blocks that were read and written.
    pub(super) io: BlockIo,
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) kind: SlotKind,
    pub(super) leaves: SmallVec<[LeafId; 2]>,
}

impl TopLevel {
    /// Slots that may be lost without losing a block.
    pub(super) fn redundancy(&self) -> usize {
        self.kind.redundancy(self.slots.len())
    }

    /// Sectors in its address space.
    pub(super) fn sectors(&self) -> u64 {
        match self.kind {
            Kind::Hole => 0,
            Kind::Leaf | Kind::Mirror => self.leaf_sectors,
            Kind::Raidz { .. } => self.leaf_sectors * self.slots.len() as u64,
        }
    }

    /// All its leaves.
    pub(super) fn leaves(&self) -> impl Iterator<Item = LeafId> {
        self.slots
            .iter()
            .flat_map(|slot| slot.leaves.iter().copied())
    }

    /// The leaves that hold a column.
    pub(super) fn holders(&self, slot: Option<u16>) -> impl Iterator<Item = LeafId> {
        let slots = match slot {
            None => &self.slots[..],
            Some(slot) => std::slice::from_ref(&self.slots[usize::from(slot)]),
        };
        slots.iter().flat_map(|slot| slot.leaves.iter().copied())
    }
}
