//! Scrub and resilver: every block that is allocated is read, in the order in which blocks lie.
//!
//! A scrub verifies every copy and column of every block and repairs what is bad. A resilver rebuilds,
//! on a leaf that was away or is new, the blocks born in the epochs that it missed. Both walk the trees
//! of the last checkpoint, each block once: of a volume or snapshot those born after the snapshot before
//! it. Walking gathers pointers; a batch of them is sorted by address and worked off, so that disks
//! are read forwards.
//!
//! What a batch names stays as it is until two more checkpoints are durable. A batch that takes longer
//! is thrown away, and a smaller one gathered in its place.
//!
//! Datasets come and go meanwhile. What of a dataset was not visited yet is visited in the one that has its blocks
//! from then on ([`Pool::scan_follows`]): in the snapshot that is taken of a volume, in what builds on a snapshot that
//! is destroyed. What is being freed is not rebuilt, so a resilver is not over before that is free: its nodes and lists
//! are read until then, and nobody else may have them. Under load one checkpoint begins when the one before ends: what can
//! only be done between them ([`Pool::scan_between_checkpoints`]) is done in the moment at which one ends.
//!
//! A resilver goes before a scrub: the scrub that it interrupts begins again after it (`scan/scrub.rs`).

mod record;
mod scrub;

use std::collections::VecDeque;
use std::ops::Range;

use pages::Pages;

use super::read::NodeWaiter;
use super::request::Span;
use super::state::{Pool, Tag};
use crate::format::list::Chunk;
use crate::format::node::{FAN_OUT, NodeId};
use crate::format::{Address, DatasetId, Epoch, Pointer, SECTOR_SIZE};
use crate::map::Missing;
use crate::map::walk::{Progress, Visit, Walk};
use crate::snapshot::deadlist::{Deadlist, Unread};
use crate::vdev::{
    ArrayDone, ArrayError, Block, LeafId, Priority, Resilver, Scrubbed, State, VdevEvent,
};

pub(super) use record::{ScanRecord, ScrubRecord};

/// Sectors of blocks under way at once: 16 MiB, enough for neighbours to become large requests and for
/// several devices to work.
const IN_FLIGHT: u64 = 4096;

/// What a scan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// Verifies everything.
    Scrub,
    /// Rebuilds what leaves miss.
    Resilver,
}

/// Where a scan is, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// It waits for a checkpoint, or is at work.
    Running,
    /// It goes on when it is told to.
    Paused,
    /// All was seen.
    Finished,
    /// It was stopped, or a leaf that it worked for went away.
    Canceled,
}

/// What a scan has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanStatus {
    /// What it does.
    pub kind: ScanKind,
    /// Where it is.
    pub state: ScanState,
    /// When it began, in seconds since 1970.
    pub started_s: u64,
    /// When it ended; 0 while it has not.
    pub ended_s: u64,
    /// Sectors of blocks that were found, parity included.
    pub scanned_sectors: u64,
    /// Sectors of blocks that were worked off, parity included.
    pub examined_sectors: u64,
    /// Sectors in use when it began, parity included: about what is to be examined.
    pub total_sectors: u64,
    /// Bytes that were rewritten because they were bad or missing.
    pub repaired_bytes: u64,
    /// Since the clock's beginning, without pauses: when its work began. Microseconds; 0 where that was before the pool
    /// was opened.
    pub began_us: u64,
    /// Copies and columns that were found bad.
    pub bad: u64,
    /// Those that were rewritten, and blocks that were rebuilt.
    pub repaired: u64,
    /// Blocks of which no right copy was found.
    pub unrecoverable: u64,
}

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
    /// checkpoints are durable. (One that is being made has named its blocks already, and not written them.)
    begins_with: u64,
    has_begun: bool,
    leaves: Vec<Resilver>,
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
    chunk: Option<(Address, Chunk)>,
    /// How many of them were begun.
    next: usize,
    /// Sectors of these.
    batch_examined: u64,
    /// Checkpoints that were durable when it was gathered.
    batch_checkpoints: u64,
    /// Sectors under way.
    in_flight: u64,
    is_waiting: bool,
    /// A dead list comes next, and a checkpoint is being made.
    waits_for_checkpoint: bool,
    /// The batch is not complete.
    is_gathering: bool,
    /// All was rebuilt; it counts when that many checkpoints are durable.
    ends_with: Option<u64>,
    /// That many are, and nothing was being freed when the last of them was.
    is_settled: bool,
}

/// A block of a batch.
#[derive(Clone, Copy, Debug)]
struct Found {
    pointer: Pointer,
    /// Whose it is, where a tree leads to it.
    place: Option<Place>,
}

/// A place in the tree of a volume or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    dataset: DatasetId,
    /// The node there; `None`: the block itself.
    level: Option<u8>,
    /// Counted within the level.
    index: u64,
}

/// Something whose blocks are visited.
#[derive(Clone, Debug)]
enum Target {
    /// A volume or snapshot from a block on, what was born after an epoch.
    Dataset {
        id: DatasetId,
        after: Epoch,
        position: u64,
    },
    /// The chunks of its dead list.
    Dead(DatasetId),
    /// What checkpoints write beside trees.
    Tables,
}

#[derive(Debug)]
enum Walking {
    Tree(Walk),
    Dead(Deadlist),
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

impl Found {
    fn elsewhere(pointer: Pointer) -> Self {
        Self {
            pointer,
            place: None,
        }
    }
}

impl Place {
    fn of_node(dataset: DatasetId, id: NodeId) -> Self {
        Self {
            dataset,
            level: Some(id.level),
            index: id.index,
        }
    }

    /// The blocks that it leads to.
    fn blocks(self) -> Range<u64> {
        let nodes = self.level.map_or(0, |level| u32::from(level) + 1);
        let each = (FAN_OUT as u64).saturating_pow(nodes);
        let first = self.index.saturating_mul(each);
        first..first.saturating_add(each)
    }
}

impl Target {
    fn dataset_mut(&mut self) -> Option<&mut DatasetId> {
        match self {
            Self::Dataset { id, .. } | Self::Dead(id) => Some(id),
            Self::Tables => None,
        }
    }
}

/// Why gathering stops for now.
enum Pause {
    Node(Missing),
    Chunk(Pointer),
    /// Dead lists are a checkpoint's while it is made.
    Checkpoint,
}

impl Pool {
    /// The scan under way, or the last one that ended, also where that was before the pool was opened.
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

    /// Sectors of a block, parity included.
    fn sectors_of(&self, pointer: &Pointer) -> u64 {
        let footprint = self
            .array
            .footprint(pointer.address.vdev(), pointer.sectors);
        footprint.into()
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
            targets: VecDeque::new(),
            walking: None,
            batch_targets: Vec::new(),
            batch: Vec::new(),
            most: self.limits.scan_batch,
            lists: VecDeque::new(),
            chunk: None,
            next: 0,
            batch_examined: 0,
            batch_checkpoints: self.checkpoints,
            in_flight: 0,
            is_waiting: false,
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
        if scan.status.state != ScanState::Running || scan.is_waiting {
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
        if !leaves.is_empty() && leaves != self.unrebuilt {
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
        if scan.status.state != ScanState::Running || scan.is_waiting {
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
        for id in named.chain(scan.lists.iter_mut().map(|(id, _)| id)) {
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
                scan.batch.clear();
                (scan.next, scan.batch_examined) = (0, 0);
            }
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
        let sectors = self.sectors_of(&pointer);
        let Some(scan) = &mut self.scan else { return };
        scan.next += 1;
        scan.batch_examined += sectors;
        scan.status.examined_sectors += sectors;
        let (kind, number, gathered) = (scan.status.kind, scan.number, scan.batch_checkpoints);
        let leaves: Vec<LeafId> = scan
            .leaves
            .iter()
            .filter(|resilver| resilver.missing.contains(pointer.birth))
            .map(|resilver| resilver.leaf)
            .collect();
        let tag = Tag::Scan {
            number,
            sectors,
            gathered,
            place,
        };
        match kind {
            ScanKind::Scrub => {
                scan.in_flight += sectors;
                let tag = self.tag(tag);
                let out = &mut self.array_output;
                self.array.scrub_block(tag, Block::from(&pointer), now, out);
            }
            ScanKind::Resilver => {
                scan.in_flight += sectors * leaves.len() as u64;
                let share = self.array.share(pointer.address.vdev(), pointer.sectors);
                scan.status.repaired_bytes +=
                    leaves.len() as u64 * u64::from(share) * SECTOR_SIZE as u64;
                for leaf in leaves {
                    let tag = self.tag(tag);
                    let out = &mut self.array_output;
                    self.array
                        .rebuild_block(tag, Block::from(&pointer), leaf, now, out);
                }
            }
        }
    }

    /// A block of so many sectors was worked off, that was found when so many checkpoints were durable.
    pub(super) fn scanned(
        &mut self,
        number: u64,
        sectors: u64,
        gathered: u64,
        place: Option<Place>,
        done: ArrayDone,
    ) {
        let Some(scan) = self.scan.as_mut().filter(|scan| scan.number == number) else {
            return;
        };
        scan.in_flight = scan.in_flight.saturating_sub(sectors);
        let result: Result<Scrubbed, ArrayError> = match done {
            ArrayDone::Scrubbed(result) => result,
            ArrayDone::Rebuilt(result) => result.map(|()| Scrubbed {
                bad: 0,
                repaired: 1,
            }),
            _ => return,
        };
        match result {
            Ok(scrubbed) => {
                scan.status.bad += u64::from(scrubbed.bad);
                scan.status.repaired += u64::from(scrubbed.repaired);
            }
            // It may be free by now; where it is not, it is gathered and examined again.
            Err(_) if self.checkpoints > gathered + 1 => {}
            Err(_) => {
                scan.status.unrecoverable += 1;
                self.tell_unrecoverable(place);
            }
        }
    }

    /// Tells which bytes cannot be read; of a dataset that is there.
    fn tell_unrecoverable(&mut self, place: Option<Place>) {
        let Some((place, of)) =
            place.and_then(|place| Some((place, self.contents.get(&place.dataset)?)))
        else {
            return;
        };
        let blocks = place.blocks();
        let at = |block: u64| block.saturating_mul(of.block_size.into()).min(of.size);
        let (offset, end) = (at(blocks.start), at(blocks.end));
        self.output.events.push(super::Event::Unrecoverable(Span {
            dataset: place.dataset,
            offset,
            len: end - offset,
        }));
    }

    /// Fills the next batch, in the order of addresses.
    fn gather(&mut self) -> Result<(), Pause> {
        let checkpoints = self.checkpoints;
        let Some(scan) = &mut self.scan else {
            return Ok(());
        };
        if !std::mem::take(&mut scan.is_gathering) {
            scan.batch_checkpoints = checkpoints;
            scan.batch_targets.clear();
            // Lists may be others by now, and so may its tree: it is walked on in that.
            scan.give_lists_back();
            if let Some((target, walking)) = scan.walking.take() {
                scan.targets.push_front(at(&target, &walking));
            }
        }
        let gathered = self.gather_some();
        if let Some(scan) = &mut self.scan {
            scan.is_gathering = gathered.is_err();
            let epoch = scan.epoch;
            scan.batch
                .retain(|Found { pointer, .. }| pointer.birth <= epoch && !pointer.is_lost());
            scan.batch
                .sort_unstable_by_key(|found| found.pointer.address);
        }
        gathered
    }

    fn gather_some(&mut self) -> Result<(), Pause> {
        while let Some(scan) = &mut self.scan {
            // A list is taken as a whole: where one is at is nothing that the next batch could go on from.
            let is_in_list = matches!(scan.walking, Some((_, Walking::Dead(_))));
            if scan.batch.len() >= scan.most && !is_in_list {
                return Ok(());
            }
            let Some((target, walking)) = scan.walking.take() else {
                if let Some((id, list)) = scan.lists.pop_front() {
                    let target = Target::Dead(id);
                    scan.batch_targets.push(target.clone());
                    scan.walking = Some((target, Walking::Dead(list)));
                    continue;
                }
                if matches!(scan.targets.front(), Some(Target::Dead(_))) {
                    // What there is of a batch is worked off first.
                    match scan.batch.is_empty() {
                        true => return Err(Pause::Checkpoint),
                        false => return Ok(()),
                    }
                }
                let Some(target) = scan.targets.pop_front() else {
                    return Ok(());
                };
                self.begin_target(target);
                continue;
            };
            if let Some(pause) = self.walk_target(target, walking) {
                return Err(pause);
            }
        }
        Ok(())
    }

    fn begin_target(&mut self, target: Target) {
        let walking = match &target {
            Target::Tables => {
                let tables = &self.persisted;
                let pages = tables.pages.iter().chain(&tables.index).flatten();
                let rest = tables.manifest.iter().chain(&tables.deferred);
                let all = pages.chain(rest).filter(|pointer| !pointer.is_hole());
                if let Some(scan) = &mut self.scan {
                    scan.batch.extend(all.copied().map(Found::elsewhere));
                    scan.batch_targets.push(target);
                }
                return;
            }
            Target::Dataset {
                id,
                after,
                position,
            } => self
                .contents
                .get(id)
                .map(|of| Walking::Tree(Walk::new(&of.map.tree, *position, Some(*after)))),
            // Lists come between checkpoints.
            Target::Dead(_) => None,
        };
        if let (Some(scan), Some(walking)) = (&mut self.scan, walking) {
            scan.batch_targets.push(target.clone());
            scan.walking = Some((target, walking));
        }
    }

    /// Visits some of a target.
    fn walk_target(&mut self, target: Target, mut walking: Walking) -> Option<Pause> {
        let mut found = Vec::new();
        let mut is_damaged = false;
        let (is_over, pause) = match &mut walking {
            Walking::Tree(walk) => {
                let mut budget = self.limits.budget;
                let Target::Dataset { id: dataset, .. } = target else {
                    return None;
                };
                let progress = walk.step(&mut self.nodes, &mut budget, |visit| {
                    let (pointer, place) = match visit {
                        Visit::Block { index, pointer } => {
                            let level = None;
                            let place = Place {
                                dataset,
                                level,
                                index,
                            };
                            (pointer, place)
                        }
                        Visit::Node { id, pointer } => (pointer, Place::of_node(dataset, id)),
                    };
                    let place = Some(place);
                    found.push(Found { pointer, place });
                });
                match progress {
                    Ok(Progress::Done) => (true, None),
                    Ok(Progress::More) => (false, None),
                    Err(missing) => (false, Some(Pause::Node(missing))),
                }
            }
            Walking::Dead(list) => {
                let read = self.scan.as_mut().and_then(|scan| scan.chunk.take());
                let read = |wanted: &Pointer| {
                    let read = read.filter(|(at, _)| *at == wanted.address);
                    read.map(|(_, chunk)| chunk)
                };
                match list.take_next(read) {
                    Ok(None) => (true, None),
                    Ok(Some(taken)) => {
                        found = taken.chunks.into_iter().map(Found::elsewhere).collect();
                        (false, None)
                    }
                    Err(Unread::Missing(pointer)) => (false, Some(Pause::Chunk(pointer))),
                    Err(Unread::Damaged(_)) => {
                        // Its checksum was right and it is nothing that belongs here: no scan can mend that.
                        is_damaged = true;
                        (true, None)
                    }
                }
            }
        };
        if is_damaged {
            self.count_unreachable();
        }
        let scan = self.scan.as_mut()?;
        scan.batch.append(&mut found);
        if !is_over {
            scan.walking = Some((target, walking));
        }
        pause
    }

    fn wait_for_scan(&mut self, pause: Pause) {
        let Some(scan) = &mut self.scan else { return };
        scan.waits_for_checkpoint = matches!(pause, Pause::Checkpoint);
        scan.is_waiting = !scan.waits_for_checkpoint;
        let number = scan.number;
        match pause {
            Pause::Checkpoint => {}
            Pause::Node(missing) => self.read_node(missing, NodeWaiter::Scan(number)),
            Pause::Chunk(pointer) => {
                let tag = self.tag(Tag::ScanChunk {
                    scan: number,
                    at: pointer.address,
                });
                let block = Block::from(&pointer);
                let (now, out) = (self.now_us, &mut self.array_output);
                self.array.read(tag, block, Priority::Background, now, out);
            }
        }
    }

    /// A part of a dead list was read, or cannot be.
    pub(super) fn scan_chunk_read(
        &mut self,
        number: u64,
        at: Address,
        result: Result<Pages, ArrayError>,
    ) {
        let chunk = result.ok().and_then(|block| Chunk::decode(&block));
        let is_readable = chunk.is_some();
        if let Some(scan) = self.scan.as_mut().filter(|scan| scan.number == number) {
            scan.chunk = chunk.map(|chunk| (at, chunk));
        }
        if self.scan_waited(number) && !is_readable {
            self.give_up_walk();
        }
    }

    /// A node that was waited for is here, or cannot be read: the walk goes on behind what it leads to.
    pub(super) fn scan_has_node(&mut self, number: u64, node: NodeId, is_readable: bool) {
        if !self.scan_waited(number) || is_readable {
            return;
        }
        if let Some(Target::Dataset { id, after, .. }) = self.give_up_walk() {
            let place = Place::of_node(id, node);
            let position = place.blocks().end;
            if let Some(scan) = &mut self.scan {
                scan.targets.push_front(Target::Dataset {
                    id,
                    after,
                    position,
                });
            }
            if !self.is_batch_old() {
                self.tell_unrecoverable(Some(place));
            }
        }
    }

    /// Whether the scan of this number waited for what came.
    fn scan_waited(&mut self, number: u64) -> bool {
        let scan = self.scan.as_mut().filter(|scan| scan.number == number);
        scan.is_some_and(|scan| std::mem::take(&mut scan.is_waiting))
    }

    fn give_up_walk(&mut self) -> Option<Target> {
        let given_up = self.scan.as_mut()?.walking.take();
        self.count_unreachable();
        given_up.map(|(target, _)| target)
    }

    /// What a node or a part of a list leads to cannot be found; the rest goes on. Where the batch is old, it may be free
    /// by now, and is looked for again otherwise.
    fn count_unreachable(&mut self) {
        let is_old = self.is_batch_old();
        if let Some(scan) = self.scan.as_mut().filter(|_| !is_old) {
            scan.status.unrecoverable += 1;
        }
    }

    /// The batch took too long: what it names may be something else by now.
    fn gather_again(&mut self) {
        let Some(scan) = &mut self.scan else { return };
        scan.batch.clear();
        scan.next = 0;
        scan.status.examined_sectors -= std::mem::take(&mut scan.batch_examined);
        scan.walking = None;
        scan.give_lists_back();
        scan.is_gathering = false;
        scan.most = (scan.most / 2).max(1);
        scan.batch_checkpoints = self.checkpoints;
        for target in scan.batch_targets.drain(..).rev() {
            scan.targets.push_front(target);
        }
    }

    /// All blocks were worked off. What was rebuilt counts when a checkpoint has flushed it.
    fn end_scan(&mut self) {
        let under_way = u64::from(self.checkpoint.is_some());
        let Some(scan) = &mut self.scan else { return };
        if scan.status.kind == ScanKind::Scrub {
            scan.status.state = ScanState::Finished;
            scan.status.ended_s = self.time_s;
            if scan.status.unrecoverable == 0 {
                // What could not be rebuilt before can be now, or is gone.
                self.unrebuilt.clear();
            }
            // It says so from then on.
            self.is_checkpoint_wanted = true;
        } else if scan.ends_with.is_none() {
            scan.ends_with = Some(self.checkpoints + 1 + under_way);
            self.is_checkpoint_wanted = true;
        }
    }

    /// Ends a resilver whose blocks are durable.
    fn complete_resilver(&mut self) {
        let Some(scan) = &mut self.scan else { return };
        scan.ends_with = None;
        scan.status.state = ScanState::Finished;
        scan.status.ended_s = self.time_s;
        // It says so, and that the leaves are whole, from then on.
        self.is_checkpoint_wanted = true;
        if scan.status.unrecoverable > 0 {
            self.unrebuilt = std::mem::take(&mut scan.leaves);
            return;
        }
        self.unrebuilt.clear();
        for resilver in std::mem::take(&mut scan.leaves) {
            // It may have gone away meanwhile, or have missed more: then there is another resilver.
            let _ = self
                .array
                .finish_resilver(&resilver, &mut self.array_output);
        }
        self.is_config_new = true;
    }
}

/// A target from where its walk is on.
fn at(target: &Target, walking: &Walking) -> Target {
    match (target, walking) {
        (Target::Dataset { id, after, .. }, Walking::Tree(walk)) => Target::Dataset {
            id: *id,
            after: *after,
            position: walk.position(),
        },
        _ => target.clone(),
    }
}
