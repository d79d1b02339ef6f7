//! The configuration that an array starts from ([`VdevTree`]), and the tree that it works with.

use smallvec::{SmallVec, smallvec};

use super::counts::BlockIo;
use super::device::LeafId;
use super::dtl::Dtl;
use super::geometry::{Column, Geometry};
use super::layout;
use super::raidz;
use crate::format::{Epoch, Extent};
use crate::log::ring::MOST_SECTORS as LOG_RING;

/// All top-level vdevs of a pool, by their number in addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevTree {
    /// Top-level vdevs, over which blocks are spread.
    pub top_levels: Vec<TopLevelSpec>,
}

/// Kind of a top-level vdev: how it keeps its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopLevelKind {
    /// Blocks lie on one leaf.
    Leaf,
    /// Blocks lie on each of the leaves.
    Mirror,
    /// Blocks lie in columns over the leaves, with parity.
    Raidz {
        /// Number of leaves that may be lost: 1, 2 or 3.
        parity: u8,
    },
    /// The vdev does not exist any more: a log vdev was removed, and its number is kept.
    Hole,
}

impl TopLevelKind {
    /// Returns the name of the top-level vdev with this number, as in `raidz1-0`.
    pub fn name(self, number: usize) -> String {
        match self {
            Self::Raidz { parity } => format!("raidz{parity}-{number}"),
            Self::Mirror => format!("mirror-{number}"),
            Self::Leaf | Self::Hole => format!("disk-{number}"),
        }
    }

    /// Returns how many of `slots` slots may be lost without losing a block.
    pub fn redundancy(self, slots: usize) -> usize {
        match self {
            Self::Leaf | Self::Hole => 0,
            Self::Mirror => slots.saturating_sub(1),
            Self::Raidz { parity } => usize::from(parity),
        }
    }
}

/// Purpose of a top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Blocks of volumes and of the pool itself.
    #[default]
    Normal,
    /// The log of durable writes, and nothing else.
    Log,
}

/// Configuration of a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLevelSpec {
    /// Kind of the vdev: how it keeps its blocks.
    pub kind: TopLevelKind,
    /// Purpose of the vdev.
    pub class: Class,
    /// Sectors used of each leaf; `None` for as many as the smallest leaf has. It is given if the
    /// pool exists: a larger leaf makes no larger vdev before the vdev is asked to grow.
    pub leaf_sectors: Option<u64>,
    /// First sectors of the two inner labels on each leaf; `None` if there are none.
    pub inner_labels: Option<[u64; 2]>,
    /// Children in order. In a raidz, the columns.
    pub slots: Vec<SlotSpec>,
}

impl TopLevelSpec {
    /// Makes a top-level vdev of whole leaves that uses all of the smallest.
    pub fn new(
        kind: TopLevelKind,
        class: Class,
        leaves: impl IntoIterator<Item = LeafSpec>,
    ) -> Self {
        let slots = leaves.into_iter().map(SlotSpec::single).collect();
        Self {
            kind,
            class,
            leaf_sectors: None,
            inner_labels: None,
            slots,
        }
    }

    /// Returns the vdev with inner labels, if it is large enough for them. The inner labels of a
    /// log vdev lie behind the space of its copies of groups.
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

    /// Returns the sectors of the vdev's own space that its inner labels take: all leaves' rows of
    /// each.
    pub fn inner_extents(&self, vdev: u16) -> impl Iterator<Item = Extent> {
        let columns = match self.kind {
            TopLevelKind::Raidz { .. } => self.slots.len() as u64,
            TopLevelKind::Leaf | TopLevelKind::Mirror | TopLevelKind::Hole => 1,
        };
        let rows = self.inner_labels.filter(|_| self.class == Class::Normal);
        rows.into_iter().flatten().map(move |row| Extent {
            vdev,
            sector: row * columns,
            sectors: (layout::LABEL_SECTORS * columns) as u32,
        })
    }

    /// Returns the reason why the inner labels cannot lie at their places, in a vdev that uses
    /// `leaf_sectors` sectors of each leaf.
    pub(super) fn misplaced_inner(&self, leaf_sectors: u64) -> Option<String> {
        let [first, second] = self.inner_labels?;
        let is_aligned = [first, second]
            .iter()
            .all(|at| at.is_multiple_of(layout::INNER_GRAIN));
        let end = |at: u64| at.saturating_add(layout::LABEL_SECTORS);
        let is_right = is_aligned && end(first) <= second && end(second) <= leaf_sectors;
        (!is_right).then(|| {
            format!("inner labels cannot lie at the sectors {first} and {second} of {leaf_sectors}")
        })
    }
}

/// Kind of a slot: the reason for its leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// The slot has one leaf.
    #[default]
    Single,
    /// A new leaf replaces the first one.
    Replacing,
    /// A spare stands in for the first leaf.
    Spare,
}

/// A child of a top-level vdev: one leaf, or several that hold equal content for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// Kind of the slot.
    pub kind: SlotKind,
    /// Leaves, at least one. The original leaf comes first.
    pub leaves: Vec<LeafSpec>,
}

impl SlotSpec {
    /// Makes a slot of one leaf.
    pub fn single(leaf: LeafSpec) -> Self {
        Self {
            kind: SlotKind::Single,
            leaves: vec![leaf],
        }
    }
}

/// State of a leaf: whether it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LeafState {
    /// The leaf is used.
    #[default]
    Online,
    /// The administrator took the leaf offline.
    Offline,
    /// The leaf failed too often.
    Faulted,
    /// The leaf could not be opened.
    Unavailable,
    /// The leaf went away while it was used.
    Removed,
    /// The leaf left the array.
    Detached,
}

/// Configuration of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpec {
    /// Permanent GUID of the leaf.
    pub guid: u64,
    /// Size of the device in bytes. If the device is away, the size when it was last seen.
    pub size: u64,
    /// State of the leaf.
    pub state: LeafState,
    /// Epochs that the leaf missed, as its pool's labels say. A leaf that was away misses at least
    /// all epochs since that of its own label.
    pub missing: Dtl,
    /// Epoch of the first root that its labels get in this place, or an earlier one. A spare comes
    /// and goes under one GUID. This epoch tells a label of another stay from one of this stay.
    pub joined: Epoch,
}

impl LeafSpec {
    /// Makes a leaf that is there and misses nothing.
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
    pub(super) kind: TopLevelKind,
    pub(super) class: Class,
    pub(super) slots: Vec<Slot>,
    /// Sectors used of each leaf.
    pub(super) leaf_sectors: u64,
    /// First sectors of the inner labels on each leaf.
    pub(super) inner_labels: Option<[u64; 2]>,
    /// Whether writes that were answered as done are lost, so that flushes must fail.
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
    /// Returns the number of slots that may be lost without losing a block.
    pub(super) fn redundancy(&self) -> usize {
        self.kind.redundancy(self.slots.len())
    }

    /// Returns the sectors in the vdev's address space.
    pub(super) fn sectors(&self) -> u64 {
        match self.kind {
            TopLevelKind::Hole => 0,
            TopLevelKind::Leaf | TopLevelKind::Mirror => self.leaf_sectors,
            TopLevelKind::Raidz { .. } => self.leaf_sectors * self.slots.len() as u64,
        }
    }

    /// Reports whether a block lies in the vdev.
    pub(super) fn holds(&self, sector: u64, sectors: u16) -> bool {
        let end = sector.checked_add(u64::from(self.footprint(sectors)));
        sectors > 0 && end.is_some_and(|end| end <= self.sectors())
    }

    /// Reports whether each leaf holds every block whole, in the block's own sectors.
    pub(super) fn is_whole_on_each_leaf(&self) -> bool {
        matches!(self.kind, TopLevelKind::Leaf | TopLevelKind::Mirror)
    }

    /// Returns a block's columns; `None` if the block does not lie in the vdev.
    pub(super) fn geometry(&self, sector: u64, sectors: u16) -> Option<Geometry> {
        if !self.holds(sector, sectors) {
            return None;
        }
        match self.kind {
            TopLevelKind::Hole => None,
            TopLevelKind::Leaf | TopLevelKind::Mirror => Some(Geometry {
                columns: smallvec![Column {
                    slot: None,
                    sector,
                    sectors: u32::from(sectors)
                }],
                parity: 0,
                padding: SmallVec::new(),
            }),
            TopLevelKind::Raidz { parity } => Some(raidz::geometry(
                self.slots.len() as u64,
                u64::from(parity),
                sector,
                sectors,
            )),
        }
    }

    /// Returns the sectors that a block of `sectors` of payload takes.
    pub(super) fn footprint(&self, sectors: u16) -> u32 {
        match self.kind {
            TopLevelKind::Raidz { parity } => raidz::footprint(
                self.slots.len() as u32,
                u32::from(parity),
                u32::from(sectors),
            ),
            TopLevelKind::Leaf | TopLevelKind::Mirror | TopLevelKind::Hole => u32::from(sectors),
        }
    }

    /// Returns all leaves of the vdev.
    pub(super) fn leaves(&self) -> impl Iterator<Item = LeafId> {
        self.slots
            .iter()
            .flat_map(|slot| slot.leaves.iter().copied())
    }

    /// Returns the leaves that hold a column.
    pub(super) fn holders(&self, slot: Option<u16>) -> impl Iterator<Item = LeafId> {
        let slots = match slot {
            None => &self.slots[..],
            Some(slot) => std::slice::from_ref(&self.slots[usize::from(slot)]),
        };
        slots.iter().flat_map(|slot| slot.leaves.iter().copied())
    }
}
