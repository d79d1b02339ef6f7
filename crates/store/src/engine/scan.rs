//! Scrub and resilver: every allocated block is read, in the order in which blocks lie.
//!
//! A scrub verifies every copy and column of every block and repairs bad ones. A resilver rebuilds
//! blocks on a leaf that was away or is new: the blocks born in the epochs that the leaf missed.
//! Both walk the trees of the last checkpoint, each block once: of a volume or snapshot, the blocks
//! born after the snapshot before it. The walk gathers pointers; a batch of them is sorted by
//! address and worked off, so that disks are read forwards.
//!
//! The blocks of a batch stay as they are until two more checkpoints are durable. A batch that
//! takes longer is thrown away, and a smaller one gathered in its place. Blocks that a scrub
//! verified of it are known by their places and births, and are not read again. So a scrub that is
//! paused for long continues where it was.
//!
//! Datasets come and go meanwhile. If a dataset was not fully visited, the rest is visited in the
//! dataset that has its blocks from then on ([`Pool::scan_follows`]). This is the snapshot that is
//! taken of a volume, or the dataset that builds on a destroyed snapshot. Blocks being freed are
//! not rebuilt, so a resilver ends only when they are free. Their nodes and lists are read until
//! then, and no other leaf may have them. Under load one checkpoint begins when the one before
//! ends. Work that is only possible between them ([`Pool::scan_between_checkpoints`]) is done in
//! the moment at which one ends.
//!
//! A resilver goes before a scrub: the scrub that it interrupts begins again after it
//! (`scan/scrub.rs`).

mod gather;
mod outcome;
pub(super) mod record;
mod scrub;
pub(super) mod status;
pub(super) mod targets;
pub(super) mod under_way;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::state::Pool;
use super::tags::Tag;
use crate::format::{Address, DatasetId, Pointer, SECTOR_SIZE};
use crate::vdev::{Block, LeafId, Resilver, VdevEvent};
use gather::identity;
use record::{ScanRecord, ScrubRecord};
use targets::ScanBlock;
use targets::{ScanTarget, Target};
use under_way::Scan;

pub use status::{ScanKind, ScanState, ScanStatus};

/// Sectors of blocks under way at once: 16 MiB, enough for neighbours to become large requests and
/// for several devices to work.
const IN_FLIGHT: u64 = 4096;

impl Pool {
    /// Returns the scan under way, or the last one that ended, even before the pool was opened.
    pub fn scan_status(&self) -> Option<ScanStatus> {
        let Some(scan) = &self.scans.present else {
            return self.scans.ended.map(|record| record.status());
        };
        let waiting = scan.batch.get(scan.next..).unwrap_or_default();
        let footprint = |found: &ScanTarget| self.sectors_of(&found.pointer);
        let waiting: u64 = waiting.iter().map(footprint).sum();
        Some(ScanStatus {
            scanned_sectors: scan.status.examined_sectors + waiting,
            ..scan.status
        })
    }

    /// Returns the outcome of the last ended scan, for checkpoints to keep.
    pub(super) fn last_ended_scan(&self) -> Option<ScanRecord> {
        let own = self.scans.present.as_ref();
        own.and_then(|scan| ScanRecord::of(&scan.status))
            .or(self.scans.ended)
    }

    /// Returns the kind and state of the last scan since the pool was opened.
    pub fn scan_state(&self) -> Option<(ScanKind, ScanState)> {
        let status = &self.scans.present.as_ref()?.status;
        Some((status.kind, status.state))
    }

    /// Returns the sectors of a block, of all its copies, parity included.
    fn sectors_of(&self, pointer: &Pointer) -> u64 {
        let footprint = |at: Address| self.footprint(at.vdev(), pointer.sectors);
        pointer.places().map(|at| u64::from(footprint(at))).sum()
    }

    /// Notes that a bad copy was rewritten.
    pub(super) fn note_repair(&mut self, event: &VdevEvent) {
        if let VdevEvent::Repaired { len, .. } = event
            && let Some(scan) = self.running_scrub()
        {
            scan.status.repaired_bytes += len;
        }
    }

    fn begin_scan(&mut self, kind: ScanKind, leaves: Vec<Resilver>) {
        let counts = self.space_counts();
        self.scans.ended = self.last_ended_scan();
        let number = self
            .scans
            .present
            .as_ref()
            .map_or(0, |before| before.number + 1);
        self.scans.present = Some(Scan {
            number,
            paused_us: 0,
            status: ScanStatus {
                kind,
                state: ScanState::Running,
                started_s: self.time_s(),
                ended_s: 0,
                scanned_sectors: 0,
                examined_sectors: 0,
                total_sectors: counts.allocated,
                repaired_bytes: 0,
                began_us: self.now_us(),
                bad: 0,
                repaired: 0,
                unrecoverable: 0,
            },
            epoch: self.epoch(),
            begins_with: self.next_checkpoint(),
            has_begun: false,
            leaves,
            has_left: false,
            is_to_be_repeated: false,
            targets: VecDeque::new(),
            walking: None,
            batch_targets: Vec::new(),
            batch: Vec::new(),
            most: self.limits().scan_batch,
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
            batch_checkpoints: self.checkpoints_made(),
            in_flight: 0,
            awaited: None,
            waits_for_checkpoint: false,
            is_gathering: false,
            ends_with: None,
            is_settled: false,
        });
        // The trees must have all that was written until now.
        self.want_checkpoint();
    }

    /// Reports whether a scan could do something now.
    pub(super) fn is_scan_working(&self) -> bool {
        let Some(scan) = &self.scans.present else {
            return false;
        };
        if !scan.is_active() && self.scans.waiting_scrub.is_some() {
            return true;
        }
        if scan.status.state != ScanState::Running || scan.awaited.is_some() {
            return false;
        }
        match scan.ends_with {
            Some(_) => scan.is_settled,
            None if scan.waits_for_checkpoint => !self.is_making_checkpoint(),
            None if !scan.has_begun => self.checkpoints_made() >= scan.begins_with,
            None if scan.next < scan.batch.len() => scan.in_flight < IN_FLIGHT,
            None => scan.in_flight == 0,
        }
    }

    /// Begins a resilver if a leaf needs one; else the scrub that waits.
    fn begin_due_scan(&mut self) {
        let is_resilvering = self.scans.present.as_ref().is_some_and(|scan| {
            scan.status.kind == ScanKind::Resilver && scan.status.state == ScanState::Running
        });
        if is_resilvering || self.is_suspended() {
            return;
        }
        let leaves = self.incomplete_leaves();
        if leaves
            .iter()
            .any(|of| !self.scans.unrebuilt.contains(&of.leaf))
        {
            // Rebuilding goes first.
            self.interrupt_scrub();
            self.begin_scan(ScanKind::Resilver, leaves);
        } else {
            self.begin_waiting_scrub();
        }
    }

    /// Continues with a scan, or begins one that is due.
    pub(super) fn scan_go_on(&mut self) {
        self.begin_due_scan();
        let checkpoints = self.checkpoints_made();
        let Some(scan) = &mut self.scans.present else {
            return;
        };
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
            if self.is_making_checkpoint() {
                return;
            }
            self.scan_between_checkpoints();
        }
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        if !scan.has_begun {
            if checkpoints < scan.begins_with {
                return;
            }
            self.plan_scan();
        }
        self.work_off();
    }

    /// Gives the scan the lists that belong to a checkpoint while one is being made.
    pub(super) fn scan_between_checkpoints(&mut self) {
        let (is_freeing, checkpoints) = (self.is_freeing(), self.checkpoints_made());
        let Some(scan) = &mut self.scans.present else {
            return;
        };
        if scan.status.state != ScanState::Running {
            return;
        }
        if scan.ends_with.is_some_and(|wanted| checkpoints >= wanted) {
            scan.is_settled = !is_freeing;
            if is_freeing {
                self.want_checkpoint();
            }
            return;
        }
        if !std::mem::take(&mut scan.waits_for_checkpoint) {
            return;
        }
        // The batch begins with these lists, since it is still empty.
        scan.batch_checkpoints = checkpoints;
        // A part has at least one chunk.
        let mut parts = 0;
        while let Some(scan) = &mut self.scans.present
            && let Some(Target::Dead(id)) = scan.targets.front().cloned()
            && parts < scan.most
        {
            scan.targets.pop_front();
            let dead = self.contents_of(id).map(|of| &of.dead);
            let list = dead.filter(|dead| !dead.is_empty()).cloned();
            if let (Some(list), Some(scan)) = (list, &mut self.scans.present) {
                parts += list.parts();
                scan.lists.push_back((id, list));
            }
        }
    }

    /// Plans a scan of everything that the trees of this moment reach.
    fn plan_scan(&mut self) {
        let datasets = self.datasets_in_use().map(|(id, _)| id).flat_map(|id| {
            let after = self.catalog().shared_until(*id);
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
        if let Some(scan) = &mut self.scans.present {
            scan.targets = targets;
            scan.has_begun = true;
        }
    }

    /// Moves the targets not yet visited from one dataset to another, which has its blocks from now
    /// on.
    pub(super) fn scan_follows(&mut self, from: DatasetId, to: DatasetId) {
        let Some(scan) = &mut self.scans.present else {
            return;
        };
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

    /// Begins as many blocks of the batch as may be under way; gathers the next batch when all are
    /// done.
    fn work_off(&mut self) {
        let (limits, checkpoints) = (self.limits(), self.checkpoints_made());
        loop {
            if self.is_batch_old() {
                self.gather_again();
            }
            let Some(scan) = &mut self.scans.present else {
                return;
            };
            let is_whole = !scan.is_gathering;
            if is_whole && scan.next < scan.batch.len() && scan.in_flight < IN_FLIGHT {
                self.begin_block();
                continue;
            }
            if !scan.is_gathering {
                if scan.next < scan.batch.len() || scan.in_flight > 0 {
                    return;
                }
                if !scan.batch.is_empty() && checkpoints == scan.batch_checkpoints {
                    scan.most = (scan.most * 2).min(limits.scan_batch);
                }
                // When as many blocks were gathered as were thrown away, none of the latter is
                // still to come.
                scan.again = scan.again.saturating_sub(scan.batch.len());
                if scan.again == 0 {
                    scan.verified.clear();
                }
                scan.batch.clear();
                (scan.next, scan.batch_examined) = (0, 0);
                self.tell_lost();
            }
            let Some(scan) = &self.scans.present else {
                return;
            };
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

    /// Reports whether the batch is so old that its blocks may have been freed and their places
    /// reused.
    fn is_batch_old(&self) -> bool {
        let scan = self.scans.present.as_ref();
        scan.is_some_and(|scan| self.checkpoints_made() > scan.batch_checkpoints + 1)
    }

    /// Counts the bytes of a block that these leaves get back.
    fn count_rebuilt(&mut self, leaves: &[LeafId], pointer: &Pointer) {
        let shares = leaves.iter().map(|leaf| self.share_of(*leaf, pointer));
        let bytes = shares.sum::<u64>() * SECTOR_SIZE as u64;
        if let Some(scan) = &mut self.scans.present {
            scan.status.repaired_bytes += bytes;
        }
    }

    fn begin_block(&mut self) {
        let Some(found) = self
            .scans
            .present
            .as_ref()
            .map(|scan| scan.batch[scan.next])
        else {
            return;
        };
        let ScanTarget { pointer, place } = found;
        let (of, sectors) = (identity(&pointer), self.sectors_of(&pointer));
        let Some(scan) = &mut self.scans.present else {
            return;
        };
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
                self.scrub_block(tag, Block::from(&pointer));
            }
            ScanKind::Resilver => {
                scan.in_flight += sectors * leaves.len() as u64;
                self.count_rebuilt(&leaves, &pointer);
                for leaf in leaves {
                    let tag = self.tag(tag(Some(leaf)));
                    self.rebuild_block(tag, Block::from(&pointer), leaf);
                }
            }
        }
    }
}
