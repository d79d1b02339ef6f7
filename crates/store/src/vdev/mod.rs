//! Disks that hold blocks together. An [`Array`] of top-level vdevs (single leaves, mirrors, raidz)
//! takes reads and writes of logical blocks and turns them into requests for its leaves. It keeps
//! redundancy, heals blocks that a disk got wrong, and never returns bytes that fail their
//! checksum.
//!
//! The array is sans-IO and deterministic. Requests come out in [`Output`], answers go in by
//! [`Array::completed`], and the time is an argument. Nothing here waits. [`Array::tick`] gives up
//! a device that does not answer, and its later answers change nothing.
//!
//! | file | content |
//! |---|---|
//! | `block`, `output` | what the array is asked to read, and its results |
//! | `device` | requests for a leaf's device, and its answers |
//! | `layout` | places of labels and data on a leaf |
//! | `tree` | the configuration that an array starts from |
//! | `dtl` | the epochs that a leaf missed |
//! | `geometry`, `raidz`, `raidz/parity` | the columns of a block, their contents, and the arithmetic of parity |
//! | `page_runs` | runs of bytes in which every sector is a page |
//! | `job` | a leaf's request and its answer, between the operation and the device |
//! | `leaf`, `leaf/queue`, `leaf/unflushed` | a leaf's state and counters, the order of its requests, and what a power cut would take |
//! | `counts` | the amounts that were read and written, and the times |
//! | `dispatch` | from queues to devices and back; giving up |
//! | `read`, `read/heal`, `read/repair` | reading, finding the right bytes among wrong ones, and rewriting those |
//! | `read/double_block` | blocks that lie twice |
//! | `write`, `flush`, `trim`, `raw_leaf` | the other operations |
//! | `write_watches` | the writes that happen while a block is read |
//! | `health`, `shape`, `status` | losing and regaining leaves, changing and reporting the tree |
//!
//! The caller has these duties:
//!
//! - An address is not written while a read of its *former* block matters.
//! - [`Array::set_epochs`] tells an epoch before its first write.
//! - Every [`DeviceRequest`] is answered once, at the latest when the device is closed.
//! - Events of faults are made durable in the labels.

mod block;
mod counts;
mod device;
mod dispatch;
mod dtl;
mod flush;
mod geometry;
mod health;
mod job;
pub mod layout;
mod leaf;
mod output;
mod page_runs;
mod raidz;
mod raw_leaf;
mod read;
mod shape;
mod status;
mod table;
mod tree;
mod trim;
mod write;
mod write_watches;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::format::{Address, Epoch, Pointer};

pub use block::{Block, Verify};
pub use counts::{BlockIo, Blocks, DirectReads, LeafIo, Transfers};
pub use device::{
    DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, IoId, LeafId,
};
pub use dtl::Dtl;
pub use health::Resilver;
pub use job::Priority;
pub use layout::sector_offset;
pub use leaf::queue::Limits;
pub use output::{ArrayDone, ArrayError, ArrayErrorKind, Output, Scrubbed, VdevEvent};
pub use shape::{ShapeError, ShapeErrorKind};
pub use status::{ErrorCounts, LeafStatus, SlotStatus, TopLevelStatus, VdevState};
pub use tree::{
    Class, LeafSpec, LeafState, SlotKind, SlotSpec, TopLevelKind, TopLevelSpec, VdevTree,
};

use dispatch::InFlight;
use flush::FlushOperation;
use job::Answer;
use leaf::Leaf;
use raw_leaf::LabelOperation;
use read::ReadOperation;
use read::double_block::DoubleOperation;
use read::repair::RepairOperation;
use table::Table;
use tree::TopLevel;
use trim::TrimOperation;
use write::WriteOperation;
use write_watches::Watches;

/// The operations under way, those of each kind by their numbers.
#[derive(Debug, Default)]
struct Operations {
    /// Reads. They are boxed, since each is taken out and put back at each answer.
    reads: Table<Box<ReadOperation>>,
    /// Reads of blocks that lie twice. No device answers them: each copy is read by an operation of
    /// its own.
    doubles: Table<Box<DoubleOperation>>,
    writes: Table<WriteOperation>,
    repairs: Table<RepairOperation>,
    flushes: Table<FlushOperation>,
    trims: Table<TrimOperation>,
    labels: Table<LabelOperation>,
}

/// The vdevs of a pool.
#[derive(Debug)]
pub struct Array {
    limits: Limits,
    /// Top-level vdevs by their number in addresses.
    top_levels: Vec<TopLevel>,
    /// Leaves by [`LeafId`]. A detached leaf keeps its place.
    leaves: Vec<Leaf>,
    /// First epoch in which a block written now may be born.
    epoch: Epoch,
    /// Last epoch in which any block was born.
    newest: Epoch,
    operations: Operations,
    in_flight: Table<InFlight>,
    /// Answers of devices that their operations have not seen.
    answers: VecDeque<Answer>,
    /// Requests behind the end of a device that shrank.
    beyond: VecDeque<(LeafId, dispatch::Asked, u64)>,
    /// Results of operations on copies of blocks that lie twice, which those blocks' operations
    /// have not seen.
    double_news: read::double_block::News,
    /// Leaves that may have got background requests since [`Array::release`].
    with_news: Vec<LeafId>,
    /// Whether a leaf may have a flush to start.
    has_waiting_flushes: bool,
    /// Time before which no request in flight is late.
    next_deadline_us: Option<u64>,
    watches: Watches,
    /// Number of requests that were given up.
    given_up: u64,
    /// Whether bad copies are rewritten when they are found.
    heals: bool,
}

impl Array {
    /// Makes an array of the vdevs of `tree`, whose next block will be born in `epoch`.
    ///
    /// # Errors
    /// The tree is invalid: a raidz of too few leaves, a leaf that is too small.
    pub fn new(tree: &VdevTree, epoch: Epoch, limits: Limits) -> Result<Self, ShapeError> {
        let mut array = Self {
            limits,
            top_levels: Vec::new(),
            leaves: Vec::new(),
            epoch,
            newest: epoch,
            operations: Operations::default(),
            in_flight: Table::default(),
            answers: VecDeque::new(),
            beyond: VecDeque::new(),
            double_news: read::double_block::News::new(),
            with_news: Vec::new(),
            has_waiting_flushes: false,
            next_deadline_us: None,
            watches: Watches::default(),
            given_up: 0,
            heals: true,
        };
        for spec in &tree.top_levels {
            array.insert_top_level(spec)?;
        }
        Ok(array)
    }

    /// Sets the epochs of blocks. Blocks written from now on are born in `oldest` or later, and no
    /// block was or is born after `newest`. A leaf that misses a write, or loses unflushed writes,
    /// misses the epochs from `oldest` on. A leaf that is used again misses those up to `newest`.
    pub fn set_epochs(&mut self, oldest: Epoch, newest: Epoch) {
        self.epoch = self.epoch.max(oldest);
        self.newest = self.newest.max(newest).max(oldest);
    }

    /// Sets whether bad copies that are found are rewritten. By default they are. A caller that
    /// only inspects must not change anything.
    pub fn set_healing(&mut self, heals: bool) {
        self.heals = heals;
    }

    /// Returns the sectors of its vdev that a block of `sectors` of payload takes, parity and
    /// padding included. Returns 0 if there is no such vdev.
    pub fn footprint(&self, vdev: u16, sectors: u16) -> u32 {
        self.top_levels
            .get(usize::from(vdev))
            .map_or(0, |top| top.footprint(sectors))
    }

    /// Returns the approximate sectors that a leaf has of the copies of a block.
    pub fn share(&self, leaf: LeafId, pointer: &Pointer) -> u64 {
        let share = |place: Address| {
            let top = self.top_levels.get(usize::from(place.vdev()))?;
            let footprint = top.footprint(pointer.sectors);
            let share = match top.kind {
                TopLevelKind::Raidz { .. } => footprint.div_ceil(top.slots.len() as u32),
                TopLevelKind::Leaf | TopLevelKind::Mirror | TopLevelKind::Hole => footprint,
            };
            let is_there = top.leaves().any(|of| of == leaf);
            is_there.then_some(u64::from(share))
        };
        pointer.places().filter_map(share).sum()
    }

    /// Returns the number of leaves that a top-level vdev may lose without losing a block.
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

    /// Returns the top-level vdev of an address and the block's columns; `None` if the block lies
    /// outside.
    fn locate(&self, address: Address, sectors: u16) -> Option<(&TopLevel, geometry::Geometry)> {
        let top = self.top_levels.get(usize::from(address.vdev()))?;
        Some((top, top.geometry(address.sector(), sectors)?))
    }
}
