//! Disks that hold blocks together: an [`Array`] of top-level vdevs (single leaves, mirrors, raidz)
//! takes reads and writes of logical blocks and turns them into requests for its leaves, keeps
//! redundancy, heals what a disk got wrong, and never returns bytes that fail their checksum.
//!
//! Sans-IO and deterministic: requests come out in [`Output`], answers go in by
//! [`Array::completed`], the time is an argument. Nothing here waits: a device that does not answer
//! is given up by [`Array::tick`], and what it answers later changes nothing.
//!
//! | file | what it knows |
//! |---|---|
//! | `device` | the requests for a leaf's device, and its answers |
//! | `layout` | where labels and data lie on a leaf |
//! | `tree` | the configuration an array starts from |
//! | `dtl` | which epochs a leaf missed |
//! | `geometry`, `raidz`, `parity` | which columns a block has, and what they hold |
//! | `leaf`, `queue` | a leaf's state, counters, and the order of its requests |
//! | `counts` | what was read and written, and how long it took |
//! | `dispatch` | from queues to devices and back; giving up |
//! | `read`, `heal` | reading, and finding the right bytes among wrong ones |
//! | `double` | blocks that lie twice |
//! | `write`, `repair`, `flush`, `trim`, `labels` | the other operations |
//! | `watches` | what was written while a block was read |
//! | `health`, `shape`, `status` | losing and regaining leaves, changing the tree, telling of it |
//!
//! What a caller owes: an address is not written while a read of its *former* block matters, an
//! epoch is told by [`Array::set_epochs`] before its first write, every [`DeviceRequest`] is answered
//! once (at the latest when the device is closed), and events of faults are made durable in the
//! labels.

mod counts;
mod device;
mod dispatch;
mod double;
mod dtl;
mod flush;
mod geometry;
mod heal;
mod health;
mod labels;
pub mod layout;
mod leaf;
mod operation;
mod queue;
mod raidz;
mod read;
mod shape;
mod status;
mod table;
mod tree;
mod trim;
mod watches;
mod write;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::format::{Address, Epoch, Pointer};

pub use counts::{BlockIo, Blocks, LeafIo, Transfers};
pub use device::{
    DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId,
};
pub use dtl::Dtl;
pub use health::Resilver;
pub use operation::{
    ArrayDone, ArrayError, ArrayErrorKind, Block, Output, Priority, Scrubbed, VdevEvent, Verify,
};
pub use queue::Limits;
pub use shape::{ShapeError, ShapeErrorKind};
pub use status::{ErrorCounts, LeafStatus, SlotStatus, State, TopLevelStatus};
pub use tree::{Class, Kind, LeafSpec, LeafState, SlotKind, SlotSpec, TopLevelSpec, VdevTree};

use dispatch::InFlight;
use leaf::Leaf;
use operation::{Answer, Operation};
use table::Table;
use tree::TopLevel;
use watches::Watches;

/// The vdevs of a pool.
#[derive(Debug)]
pub struct Array {
    limits: Limits,
    /// By their number in addresses.
    top_levels: Vec<TopLevel>,
    /// By [`LeafId`]; one that was detached keeps its place.
    leaves: Vec<Leaf>,
    /// The first that a block written now may be born in.
    epoch: Epoch,
    /// The last that any block was born in.
    newest: Epoch,
    operations: Table<Operation>,
    in_flight: Table<InFlight>,
    /// Answers of devices that their operations have not seen.
    answers: VecDeque<Answer>,
    /// Requests for what lies behind the end of a device that shrank.
    beyond: VecDeque<(LeafId, dispatch::Asked, u64)>,
    /// What copies of blocks that lie twice said, and the operations on these have not heard.
    double_news: double::News,
    /// Leaves that may have been asked for something in the background since [`Array::release`].
    with_news: Vec<LeafId>,
    /// Some leaf may have a flush to start.
    has_waiting_flushes: bool,
    /// Not before this is anything in flight late.
    next_deadline_us: Option<u64>,
    watches: Watches,
    /// Bad copies are rewritten when they are found.
    heals: bool,
}

impl Array {
    /// An array of the vdevs of `tree`, whose next block will be born in `epoch`.
    ///
    /// # Errors
    /// Where the tree is none: a raidz of too few leaves, a leaf that is too small.
    pub fn new(tree: &VdevTree, epoch: Epoch, limits: Limits) -> Result<Self, ShapeError> {
        let mut array = Self {
            limits,
            top_levels: Vec::new(),
            leaves: Vec::new(),
            epoch,
            newest: epoch,
            operations: Table::default(),
            in_flight: Table::default(),
            answers: VecDeque::new(),
            beyond: VecDeque::new(),
            double_news: double::News::new(),
            with_news: Vec::new(),
            has_waiting_flushes: false,
            next_deadline_us: None,
            watches: Watches::default(),
            heals: true,
        };
        for spec in &tree.top_levels {
            array.insert_top_level(spec)?;
        }
        Ok(array)
    }

    /// Blocks written from now on are born in `oldest` or later, and none was or is born after
    /// `newest`. A leaf that misses a write, or loses what was not flushed, misses the epochs from
    /// `oldest` on; one that is used again, those up to `newest`.
    pub fn set_epochs(&mut self, oldest: Epoch, newest: Epoch) {
        self.epoch = self.epoch.max(oldest);
        self.newest = self.newest.max(newest).max(oldest);
    }

    /// Whether bad copies that are found are rewritten, as they are unless this says otherwise: who only
    /// wants to know must not change anything.
    pub fn set_healing(&mut self, heals: bool) {
        self.heals = heals;
    }

    /// Sectors of its vdev that a block of `sectors` of payload takes, parity and padding
    /// included; 0 where there is no such vdev.
    pub fn footprint(&self, vdev: u16, sectors: u16) -> u32 {
        self.top_levels
            .get(usize::from(vdev))
            .map_or(0, |top| top.footprint(sectors))
    }

    /// Sectors that a leaf has of the copies of a block, about.
    pub fn share(&self, leaf: LeafId, pointer: &Pointer) -> u64 {
        let share = |place: Address| {
            let top = self.top_levels.get(usize::from(place.vdev()))?;
            let footprint = top.footprint(pointer.sectors);
            let share = match top.kind {
                Kind::Raidz { .. } => footprint.div_ceil(top.slots.len() as u32),
                Kind::Leaf | Kind::Mirror | Kind::Hole => footprint,
            };
            let is_there = top.leaves().any(|of| of == leaf);
            is_there.then_some(u64::from(share))
        };
        pointer.places().filter_map(share).sum()
    }

    /// Leaves that a top-level vdev may lose without losing a block.
    pub fn redundancy(&self, vdev: u16) -> usize {
        let top = self.top_levels.get(usize::from(vdev));
        top.map_or(0, TopLevel::redundancy)
    }

    fn leaf(&self, leaf: LeafId) -> &Leaf {
        &self.leaves[leaf.0 as usize]
    }

    fn leaf_mut(&mut self, leaf: LeafId) -> &mut Leaf {
        &mut self.leaves[leaf.0 as usize]
    }

    /// The top-level vdev of an address and the block's columns; `None` where it lies outside.
    fn locate(&self, address: Address, sectors: u16) -> Option<(&TopLevel, geometry::Geometry)> {
        let top = self.top_levels.get(usize::from(address.vdev()))?;
        Some((top, top.geometry(address.sector(), sectors)?))
    }
}
