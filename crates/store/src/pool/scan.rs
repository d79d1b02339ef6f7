//! Scrub and resilver: every block that is allocated is read, in the order in which blocks lie.
//!
//! A scrub verifies every copy and column of every block and repairs what is bad. A resilver
//! rebuilds, on a leaf that was away or is new, the blocks born in the epochs that it missed. Both
//! walk the trees of the last checkpoint, each block once: of a volume or snapshot those born after
//! the snapshot before it. Walking gathers pointers; a batch of them is sorted by address and
//! worked off, so that disks are read forwards.
//!
//! What a batch names stays as it is until two more checkpoints are durable. A batch that takes
//! longer is thrown away, and a smaller one gathered in its place. What a scrub verified of it is
//! known by where it lies and when it was born, and is not read again: a scrub that is paused for
//! long goes on where it was.
//!
//! Datasets come and go meanwhile. What of a dataset was not visited yet is visited in the one that
//! has its blocks from then on ([`Pool::scan_follows`]): in the snapshot that is taken of a volume,
//! in what builds on a snapshot that is destroyed. What is being freed is not rebuilt, so a
//! resilver is not over before that is free: its nodes and lists are read until then, and nobody
//! else may have them. Under load one checkpoint begins when the one before ends: what can only be
//! done between them ([`Pool::scan_between_checkpoints`]) is done in the moment at which one ends.
//!
//! A resilver goes before a scrub: the scrub that it interrupts begins again after it
//! (`scan/scrub.rs`).

mod gather;
mod outcome;
mod record;
mod scrub;
mod status;
mod targets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::state::{Pool, Tag};
use crate::format::list::Chunk;
use crate::format::{Address, DatasetId, Epoch, Pointer, SECTOR_SIZE};
use crate::snapshot::deadlist::Deadlist;
use crate::vdev::{Block, LeafId, Resilver, State, VdevEvent};

use gather::identity;
use outcome::Short;
pub(super) use record::{ScanRecord, ScrubRecord};
pub use status::{ScanKind, ScanState, ScanStatus};
use targets::{Found, Place, Target, Walking};

/// Sectors of blocks under way at once: 16 MiB, enough for neighbours to become large requests and
/// for several devices to work.
const IN_FLIGHT: u64 = 4096;

/// A scan under way.
#[derive(Debug)]
pub(super) struct Scan {
    /// Answers to what another one asked for are none of its business.
    number: u64,
    pub(super) status: ScanStatus,
    /// When it was paused. Microseconds.
    paused_us: u64,
    /// Blocks born later are of no interest: they are new.
    epoch: Epoch,
    /// The trees hold all blocks up to that epoch, and all of it is on the devices, when so many
    /// checkpoints are durable. (One that is being made has named its blocks already, and not
    /// written them.)
    begins_with: u64,
    has_begun: bool,
    leaves: Vec<Resilver>,
    /// A leaf left while it was rebuilt.
    has_left: bool,
    /// What cannot be rebuilt by it is to be tried again: something has changed since it began.
    is_to_be_repeated: bool,
    targets: VecDeque<Target>,
    walking: Option<(Target, Walking)>,
    /// The targets that the batch is of, each from where it begins there, to gather it again.
    batch_targets: Vec<Target>,
    batch: Vec<Found>,
    /// Blocks of a batch at most: fewer after one that took too long.
    most: usize,
    /// Dead lists as they were when no checkpoint was being made, to be walked next.
    lists: VecDeque<(DatasetId, Deadlist)>,
    /// A part of the list that is walked, as it was read.
    chunk: Option<((Address, Epoch), Chunk)>,
    /// How many blocks of the batch were begun.
    next: usize,
    /// Their sectors, but for those that a scrub verified: these count for good.
    batch_examined: u64,
    /// What a scrub verified of the batch, or of one that was thrown away: it is not read again.
    verified: BTreeSet<(Address, Epoch)>,
    /// Blocks that were in the batch that was thrown away, and have not been gathered again.
    again: usize,
    /// What of the batch cannot be read, and whose it is; it counts when the batch is done.
    batch_lost: Vec<Option<Place>>,
    /// Leaves that did not get something of the batch.
    batch_short: BTreeMap<LeafId, Short>,
    /// Leaves that did not get all that they miss.
    short: BTreeMap<LeafId, Short>,
    /// Nodes and parts of lists that cannot be read: walks go on behind them, also where one begins
    /// again because that was slow to tell.
    unreadable: BTreeSet<(Address, Epoch)>,
    /// Checkpoints that were durable when the batch was gathered.
    batch_checkpoints: u64,
    /// Sectors under way.
    in_flight: u64,
    /// A node or a part of a list that is read for the walk.
    awaited: Option<(Address, Epoch)>,
    /// A dead list comes next, and a checkpoint is being made.
    waits_for_checkpoint: bool,
    /// The batch is not complete.
    is_gathering: bool,
    /// All was rebuilt; it counts when that many checkpoints are durable.
    ends_with: Option<u64>,
    /// That many are, and nothing was being freed when the last of them was.
    is_settled: bool,
}

/// A block under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanBlock {
    /// The scan that asked for it.
    number: u64,
    of: (Address, Epoch),
    sectors: u64,
    /// Checkpoints that were durable when it was found.
    gathered: u64,
    /// Whose it is.
    place: Option<Place>,
    /// The leaf that it is rebuilt on; `None` in a scrub.
    leaf: Option<LeafId>,
}

impl Scan {
    /// It has not ended.
    fn is_active(&self) -> bool {
        matches!(self.status.state, ScanState::Running | ScanState::Paused)
    }

    /// Lists that were not walked are asked for again.
    fn give_lists_back(&mut self) {
        for (id, _) in std::mem::take(&mut self.lists).into_iter().rev() {
            self.targets.push_front(Target::Dead(id));
        }
    }
}

impl Pool {
    /// The scan under way, or the last one that ended, also where that was before the pool was
    /// opened.
    pub fn scan_status(&self) -> Option<ScanStatus> {
        let Some(scan) = &self.scan else {
            return self.ended_scan.map(|record| record.status());
        };
        let waiting = scan.batch.get(scan.next..).unwrap_or_default();
        let footprint = |found: &Found| self.sectors_of(&found.pointer);
        let waiting: u64 = waiting.iter().map(footprint).sum();
        Some(ScanStatus {
            scanned_sectors: scan.status.examined_sectors + waiting,
            ..scan.status
        })
    }

    /// How the last scan that has ended did: what checkpoints keep.
    pub(super) fn last_ended_scan(&self) -> Option<ScanRecord> {
        let own = self.scan.as_ref();
        own.and_then(|scan| ScanRecord::of(&scan.status))
            .or(self.ended_scan)
    }

    /// What scan there was since the pool was opened, and where it is.
    pub fn scan_state(&self) -> Option<(ScanKind, ScanState)> {
        let status = &self.scan.as_ref()?.status;
        Some((status.kind, status.state))
    }

    /// Sectors of a block, of all its copies, parity included.
    fn sectors_of(&self, pointer: &Pointer) -> u64 {
        let footprint = |at: Address| self.array.footprint(at.vdev(), pointer.sectors);
        pointer.places().map(|at| u64::from(footprint(at))).sum()
    }

    /// Something was rewritten because it was bad.
    pub(super) fn note_repair(&mut self, event: &VdevEvent) {
        if let VdevEvent::Repaired { len, .. } = event
            && let Some(scan) = self.running_scrub()
        {
            scan.status.repaired_bytes += len;
        }
    }

    /// Leaves that are there and miss something.
    fn incomplete_leaves(&self) -> Vec<Resilver> {
        let online = self.array.leaves().filter(|leaf| {
            leaf.is_incomplete && matches!(leaf.state, State::Online | State::Degraded)
        });
        online
            .filter_map(|leaf| self.array.start_resilver(leaf.leaf).ok())
            .filter(|resilver| !resilver.missing.is_empty())
            .collect()
    }

    fn begin_scan(&mut self, kind: ScanKind, leaves: Vec<Resilver>) {
        let counts = self.space.counts();
        self.ended_scan = self.last_ended_scan();
        let number = self.scan.as_ref().map_or(0, |before| before.number + 1);
        self.scan = Some(Scan {
            number,
            paused_us: 0,
            status: ScanStatus {
                kind,
                state: ScanState::Running,
                started_s: self.time_s,
                ended_s: 0,
                scanned_sectors: 0,
                examined_sectors: 0,
                total_sectors: counts.allocated,
                repaired_bytes: 0,
                began_us: self.now_us,
                bad: 0,
                repaired: 0,
                unrecoverable: 0,
            },
            epoch: self.epoch,
            begins_with: self.checkpoints + 1 + u64::from(self.checkpoint.is_some()),
            has_begun: false,
            leaves,
            has_left: false,
            is_to_be_repeated: false,
            targets: VecDeque::new(),
            walking: None,
            batch_targets: Vec::new(),
            batch: Vec::new(),
            most: self.limits.scan_batch,
            lists: VecDeque::new(),
            chunk: None,
            next: 0,
            batch_examined: 0,
            verified: BTreeSet::new(),
            again: 0,
            batch_lost: Vec::new(),
            batch_short: BTreeMap::new(),
            short: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            batch_checkpoints: self.checkpoints,
            in_flight: 0,
            awaited: None,
            waits_for_checkpoint: false,
            is_gathering: false,
            ends_with: None,
            is_settled: false,
        });
        // The trees must have all that was written until now.
        self.is_checkpoint_wanted = true;
    }

    /// Whether a scan could do something now.
    pub(super) fn is_scan_working(&self) -> bool {
        let Some(scan) = &self.scan else { return false };
        if !scan.is_active() && self.waiting_scrub.is_some() {
            return true;
        }
        if scan.status.state != ScanState::Running || scan.awaited.is_some() {
            return false;
        }
        match scan.ends_with {
            Some(_) => scan.is_settled,
            None if scan.waits_for_checkpoint => self.checkpoint.is_none(),
            None if !scan.has_begun => self.checkpoints >= scan.begins_with,
            None if scan.next < scan.batch.len() => scan.in_flight < IN_FLIGHT,
            None => scan.in_flight == 0,
        }
    }

    /// Begins a resilver where a leaf needs one; where none does, the scrub that waits for that.
    fn begin_due_scan(&mut self) {
        let is_resilvering = self.scan.as_ref().is_some_and(|scan| {
            scan.status.kind == ScanKind::Resilver && scan.status.state == ScanState::Running
        });
        if is_resilvering || self.suspended.is_some() {
            return;
        }
        let leaves = self.incomplete_leaves();
        if leaves.iter().any(|of| !self.unrebuilt.contains(&of.leaf)) {
            // What is to be rebuilt goes first.
            self.interrupt_scrub();
            self.begin_scan(ScanKind::Resilver, leaves);
        } else {
            self.begin_waiting_scrub();
        }
    }

    /// Goes on with a scan, or begins one that is due.
    pub(super) fn scan_go_on(&mut self) {
        self.begin_due_scan();
        let checkpoints = self.checkpoints;
        let Some(scan) = &mut self.scan else { return };
        if scan.status.state != ScanState::Running || scan.awaited.is_some() {
            return;
        }
        if scan.ends_with.is_some() {
            if scan.is_settled {
                self.complete_resilver();
            }
            return;
        }
        if scan.waits_for_checkpoint {
            if self.checkpoint.is_some() {
                return;
            }
            self.scan_between_checkpoints();
        }
        let Some(scan) = &mut self.scan else { return };
        if !scan.has_begun {
            if checkpoints < scan.begins_with {
                return;
            }
            self.plan_scan();
        }
        self.work_off();
    }

    /// No checkpoint is being made: the scan gets what is a checkpoint's otherwise.
    pub(super) fn scan_between_checkpoints(&mut self) {
        let (is_freeing, checkpoints) = (self.is_freeing(), self.checkpoints);
        let Some(scan) = &mut self.scan else { return };
        if scan.status.state != ScanState::Running {
            return;
        }
        if scan.ends_with.is_some_and(|wanted| checkpoints >= wanted) {
            scan.is_settled = !is_freeing;
            self.is_checkpoint_wanted |= is_freeing;
            return;
        }
        if !std::mem::take(&mut scan.waits_for_checkpoint) {
            return;
        }
        // The batch begins with them: there is nothing in it yet.
        scan.batch_checkpoints = checkpoints;
        // A part has a chunk at least.
        let mut parts = 0;
        while let Some(Target::Dead(id)) = scan.targets.front().cloned()
            && parts < scan.most
        {
            scan.targets.pop_front();
            let of = self.contents.get(&id).filter(|of| !of.dead.is_empty());
            if let Some(of) = of {
                parts += of.dead.parts();
                scan.lists.push_back((id, of.dead.clone()));
            }
        }
    }

    /// Everything that the trees of this moment reach.
    fn plan_scan(&mut self) {
        let datasets = self.contents.keys().flat_map(|id| {
            let after = self.catalog.shared_until(*id);
            let (id, position) = (*id, 0);
            [
                Target::Dataset {
                    id,
                    after,
                    position,
                },
                Target::Dead(id),
            ]
        });
        let targets = std::iter::once(Target::Tables).chain(datasets).collect();
        if let Some(scan) = &mut self.scan {
            scan.targets = targets;
            scan.has_begun = true;
        }
    }

    /// What `from` had of what a scan has not visited yet, `to` has from now on.
    pub(super) fn scan_follows(&mut self, from: DatasetId, to: DatasetId) {
        let Some(scan) = &mut self.scan else { return };
        let walking = scan.walking.iter_mut().map(|(target, _)| target);
        let waiting = scan.targets.iter_mut().chain(&mut scan.batch_targets);
        let named = waiting.chain(walking).filter_map(Target::dataset_mut);
        let lists = scan.lists.iter_mut().map(|(id, _)| id);
        let lost = scan.batch_lost.iter_mut().flatten();
        for id in named
            .chain(lists)
            .chain(lost.map(|place| &mut place.dataset))
        {
            if *id == from {
                *id = to;
            }
        }
    }

    /// Begins as many blocks of the batch as may be under way; gathers the next when all are done.
    fn work_off(&mut self) {
        let now = self.now_us;
        loop {
            if self.is_batch_old() {
                self.gather_again();
            }
            let Some(scan) = &mut self.scan else { return };
            let is_whole = !scan.is_gathering;
            if is_whole && scan.next < scan.batch.len() && scan.in_flight < IN_FLIGHT {
                self.begin_block(now);
                continue;
            }
            if !scan.is_gathering {
                if scan.next < scan.batch.len() || scan.in_flight > 0 {
                    return;
                }
                if !scan.batch.is_empty() && self.checkpoints == scan.batch_checkpoints {
                    scan.most = (scan.most * 2).min(self.limits.scan_batch);
                }
                // When as many were gathered as were thrown away, none of those is still to come.
                scan.again = scan.again.saturating_sub(scan.batch.len());
                if scan.again == 0 {
                    scan.verified.clear();
                }
                scan.batch.clear();
                (scan.next, scan.batch_examined) = (0, 0);
                self.tell_lost();
            }
            let Some(scan) = &self.scan else { return };
            let is_over =
                scan.targets.is_empty() && scan.lists.is_empty() && scan.walking.is_none();
            if is_over {
                return self.end_scan();
            }
            if let Err(pause) = self.gather() {
                return self.wait_for_scan(pause);
            }
        }
    }

    /// Whether what the batch names may have been freed and used again.
    fn is_batch_old(&self) -> bool {
        let scan = self.scan.as_ref();
        scan.is_some_and(|scan| self.checkpoints > scan.batch_checkpoints + 1)
    }

    fn begin_block(&mut self, now: u64) {
        let Some(found) = self.scan.as_ref().map(|scan| scan.batch[scan.next]) else {
            return;
        };
        let Found { pointer, place } = found;
        let (of, sectors) = (identity(&pointer), self.sectors_of(&pointer));
        let Some(scan) = &mut self.scan else { return };
        scan.next += 1;
        if scan.verified.contains(&of) {
            return;
        }
        scan.batch_examined += sectors;
        scan.status.examined_sectors += sectors;
        let (kind, number, gathered) = (scan.status.kind, scan.number, scan.batch_checkpoints);
        let leaves: Vec<LeafId> = scan
            .leaves
            .iter()
            .filter(|resilver| resilver.missing.contains(pointer.birth))
            .map(|resilver| resilver.leaf)
            .collect();
        let tag = |leaf| {
            Tag::Scan(ScanBlock {
                number,
                of,
                sectors,
                gathered,
                place,
                leaf,
            })
        };
        match kind {
            ScanKind::Scrub => {
                scan.in_flight += sectors;
                let tag = self.tag(tag(None));
                let out = &mut self.array_output;
                self.array.scrub_block(tag, Block::from(&pointer), now, out);
            }
            ScanKind::Resilver => {
                scan.in_flight += sectors * leaves.len() as u64;
                let shares = leaves.iter().map(|leaf| self.array.share(*leaf, &pointer));
                scan.status.repaired_bytes += shares.sum::<u64>() * SECTOR_SIZE as u64;
                for leaf in leaves {
                    let tag = self.tag(tag(Some(leaf)));
                    let out = &mut self.array_output;
                    self.array
                        .rebuild_block(tag, Block::from(&pointer), leaf, now, out);
                }
            }
        }
    }
}
