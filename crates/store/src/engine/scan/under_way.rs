//! Scan under way: what it visits, what it gathered, and what it could not read or rebuild.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::record::ScanRecord;
use super::status::{ScanState, ScanStatus};
use super::targets::{Place, ScanBlock, ScanTarget, Target, Walking};
use crate::format::list::Chunk;
use crate::format::{Address, DatasetId, Epoch};
use crate::snapshot::deadlist::Deadlist;
use crate::vdev::{LeafId, Resilver};

/// Scan under way, and what is known of others.
#[derive(Debug, Default)]
pub(in crate::engine) struct Scans {
    /// Scan under way, or the last one since the pool was opened.
    pub(super) present: Option<Scan>,
    /// Last scan that ended before the present one began, or before the pool was opened.
    pub(super) ended: Option<ScanRecord>,
    /// Scrub, running or paused, that a resilver interrupted. It begins again when the resilver is
    /// over.
    pub(super) waiting_scrub: Option<ScanState>,
    /// Leaves that the last resilver could not rebuild in full. The resilver is not tried again
    /// before something has changed.
    pub(super) unrebuilt: BTreeSet<LeafId>,
}

/// Scan under way.
#[derive(Debug)]
pub(in crate::engine) struct Scan {
    /// Number of the scan. Answers to another scan's requests are ignored.
    pub(super) number: u64,
    pub(in crate::engine) status: ScanStatus,
    /// Time at which the scan was paused, in microseconds.
    pub(super) paused_us: u64,
    /// Last epoch whose blocks are scanned. Blocks born later are new, and are ignored.
    pub(super) epoch: Epoch,
    /// Number of durable checkpoints at which the scan begins. The trees then hold all blocks up to
    /// that epoch, and all of these are on the devices. (A checkpoint being made has named its
    /// blocks already, and not written them.)
    pub(super) begins_with: u64,
    pub(super) has_begun: bool,
    pub(super) leaves: Vec<Resilver>,
    /// Whether a leaf left while it was rebuilt.
    pub(super) has_left: bool,
    /// Whether blocks that this scan cannot rebuild are to be tried again, since something has
    /// changed after it began.
    pub(super) is_to_be_repeated: bool,
    pub(super) targets: VecDeque<Target>,
    pub(super) walking: Option<(Target, Walking)>,
    /// Targets of the batch, each from its first block in the batch, to gather the batch again.
    pub(super) batch_targets: Vec<Target>,
    pub(super) batch: Vec<ScanTarget>,
    /// Most blocks of a batch. The number is smaller after a batch that took too long.
    pub(super) most: usize,
    /// Dead lists to be walked next, as they were when no checkpoint was being made.
    pub(super) lists: VecDeque<(DatasetId, Deadlist)>,
    /// Chunk of the walked list that was read.
    pub(super) chunk: Option<((Address, Epoch), Chunk)>,
    /// Number of the batch's blocks that were begun.
    pub(super) next: usize,
    /// Sectors of these blocks, except those that a scrub verified, which count for good.
    pub(super) batch_examined: u64,
    /// Blocks that a scrub verified of this batch, or of one that was thrown away. They are not
    /// read again.
    pub(super) verified: BTreeSet<(Address, Epoch)>,
    /// Blocks of the batch that was thrown away that have not been gathered again.
    pub(super) again: usize,
    /// Places of the batch's unreadable blocks. They count when the batch is done.
    pub(super) batch_lost: Vec<Option<Place>>,
    /// Leaves that did not get a block of the batch.
    pub(super) batch_short: BTreeMap<LeafId, Short>,
    /// Leaves that did not get all that they miss.
    pub(super) short: BTreeMap<LeafId, Short>,
    /// Nodes and chunks of lists that cannot be read. Walks continue after them, even a walk that
    /// begins again because the error came late.
    pub(super) unreadable: BTreeSet<(Address, Epoch)>,
    /// Checkpoints that were durable when the batch was gathered.
    pub(super) batch_checkpoints: u64,
    /// Sectors under way.
    pub(super) in_flight: u64,
    /// Node or chunk of a list that is read for the walk.
    pub(super) awaited: Option<(Address, Epoch)>,
    /// Whether a dead list comes next, and a checkpoint is being made.
    pub(super) waits_for_checkpoint: bool,
    /// Whether the batch is incomplete.
    pub(super) is_gathering: bool,
    /// Number of durable checkpoints at which the rebuilt data counts; `None` if not all is
    /// rebuilt.
    pub(super) ends_with: Option<u64>,
    /// Whether that number is reached, and nothing was being freed when the last of them became
    /// durable.
    pub(super) is_settled: bool,
}

impl Scan {
    /// Reports whether the scan has not ended.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.status.state, ScanState::Running | ScanState::Paused)
    }

    /// Gives back lists that were not walked, to be asked for again.
    pub(super) fn give_lists_back(&mut self) {
        for (id, _) in std::mem::take(&mut self.lists).into_iter().rev() {
            self.targets.push_front(Target::Dead(id));
        }
    }

    /// Notes that a scrub found a block right, or repaired it, so that it is not read again. This
    /// includes blocks of a batch that was thrown away meanwhile, which do not count yet.
    pub(super) fn note_verified(&mut self, block: &ScanBlock) {
        let is_new = self.verified.insert(block.of);
        let is_of_batch = block.gathered == self.batch_checkpoints;
        if is_of_batch {
            self.batch_examined = self.batch_examined.saturating_sub(block.sectors);
        }
        let examined = &mut self.status.examined_sectors;
        match (is_of_batch, is_new) {
            (true, true) | (false, false) => {}
            (true, false) => *examined = examined.saturating_sub(block.sectors),
            (false, true) => *examined += block.sectors,
        }
    }
}

/// Reason why a leaf does not get a block that it misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Short {
    /// The block has no right copy.
    Lost,
    /// The leaf does not take the block.
    Refused,
}

pub(super) fn keep_worst(all: &mut BTreeMap<LeafId, Short>, leaf: LeafId, short: Short) {
    let worst = all.entry(leaf).or_insert(short);
    *worst = short.max(*worst);
}
