//! Checks a pool: exactly the sectors that it needs are allocated, once each; its figures agree;
//! and every copy of every block is right.
//!
//! A pool at rest is read from its checkpoint and its log on. First come the structures outside of
//! trees. Then comes the tree of each dataset beside that of the snapshot before it (`descent.rs`),
//! and its dead list, which must be exactly the difference. Last come the structures being freed,
//! and the layers of the log. Each claims its sectors in a bitmap (`ledger.rs`). At the end the
//! bitmap must equal the space map. If it does not, all is walked again, to name the owners of the
//! wrong claims.
//!
//! Nothing is written, and bad copies are not repaired: that is a scrub's work. The check needs
//! memory for three bitmaps, and for the nodes that the pool's cache may keep.

mod descent;
mod ledger;
mod log;
mod report;
mod walk;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::scan::status::ScanState;
use super::state::Pool;
use crate::format::list::Chunk;
use crate::format::{Address, Epoch, Extent, Pointer};
use crate::map::Missing;
use crate::snapshot::deadlist::BlockCount;
use crate::vdev::{ArrayDone, Block, DeviceOutcome, DeviceRequest, IoId, LeafId, Priority};
use ledger::Bitmap;
use walk::Task;

pub use report::{Finding, FindingKind, Owner, Report};

/// Blocks whose copies are being read at once.
const VERIFIED_AT_ONCE: usize = 64;
/// Most sectors whose owners are looked for in a second pass.
const MAX_HUNTED: usize = 64;

/// Check under way. It borrows the pool, which must be at rest ([`Pool::is_at_rest`]). The best
/// time is right after the opening, before any request.
#[derive(Debug)]
pub struct Check<'a> {
    pool: &'a mut Pool,
    report: Report,
    /// Sectors that exactly one owner needs.
    reached: Bitmap,
    /// Sectors that an unknown number of owners needs.
    shared: Bitmap,
    /// First sectors of the blocks that one dataset has lost.
    dead: Bitmap,
    /// Counts of volumes' blocks among the dead ones, by their birth, and of the uncompressed ones.
    dead_counts: BTreeMap<Epoch, (BlockCount, u64)>,
    tasks: VecDeque<Task>,
    /// Whether the walk waits for a block.
    is_waiting: bool,
    reading: BTreeMap<u64, Wanted>,
    chunks: BTreeMap<u64, Option<Chunk>>,
    /// Addresses of nodes that cannot be read.
    lost: BTreeSet<u64>,
    /// Whether a part of the walk could not be read.
    is_partial: bool,
    to_verify: VecDeque<(Owner, Block)>,
    verifying: usize,
    /// Sectors whose owners are looked for.
    hunted: Vec<(FindingKind, Extent, BTreeSet<Owner>)>,
    stage: CheckStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckStage {
    Walk,
    /// Second walk, which looks for owners.
    Hunt,
    Done,
}

/// Purpose of a read.
#[derive(Clone, Debug)]
enum Wanted {
    Node(Owner, Missing),
    Chunk(Owner, Pointer),
    Record(u64, log::Records),
    Copies(Owner, Address, u16),
}

impl Pool {
    /// Reports whether the pool is at rest: no change waits, no checkpoint is being made, no scan
    /// is at work.
    pub fn is_at_rest(&self) -> bool {
        let scan = self.scan_status().map(|scan| scan.state);
        scan != Some(ScanState::Running)
            && !self.is_making_checkpoint()
            && self.is_log_at_rest()
            && !self.has_requests()
    }
}

impl<'a> Check<'a> {
    /// Begins to check a pool; `None` if it is not at rest.
    pub fn new(pool: &'a mut Pool) -> Option<Self> {
        if !pool.is_at_rest() {
            return None;
        }
        while !pool.space.settle(usize::MAX) {}
        pool.space.lift_holds();
        pool.set_healing(false);
        let mut check = Self {
            report: Report::default(),
            reached: Bitmap::new(&pool.space),
            shared: Bitmap::new(&pool.space),
            dead: Bitmap::new(&pool.space),
            dead_counts: BTreeMap::new(),
            tasks: VecDeque::new(),
            is_waiting: false,
            reading: BTreeMap::new(),
            chunks: BTreeMap::new(),
            lost: BTreeSet::new(),
            is_partial: false,
            to_verify: VecDeque::new(),
            verifying: 0,
            hunted: Vec::new(),
            stage: CheckStage::Walk,
            pool,
        };
        check.begin_walk();
        check.go_on();
        Some(check)
    }

    /// Takes the requests for the devices, which are all reads.
    pub fn take_requests(&mut self) -> Vec<DeviceRequest> {
        self.pool.take_disk_requests()
    }

    /// Takes the answer of a device.
    pub fn completed(&mut self, io: IoId, outcome: DeviceOutcome, now_us: u64) {
        self.pool.disk_completed(io, outcome, now_us);
        self.go_on();
    }

    /// Takes the time.
    pub fn tick(&mut self, now_us: u64) {
        self.pool.tick_disks(now_us);
        self.go_on();
    }

    /// Returns the latest time at which [`Check::tick`] must be called.
    pub fn deadline_us(&self) -> Option<u64> {
        let more = self.has_work().then_some(self.pool.now_us());
        more.or(self.pool.disks_due_us())
    }

    /// Finds the device in the pool's array that has a leaf's guid.
    pub fn leaf(&self, guid: u64) -> Option<LeafId> {
        self.pool.array_leaf(guid)
    }

    /// Reports whether the check is done.
    pub fn is_done(&self) -> bool {
        self.stage == CheckStage::Done
    }

    /// Returns the sectors found to be needed so far, and the allocated sectors, as a measure of
    /// progress.
    pub fn progress(&self) -> (u64, u64) {
        let counts = self.pool.space.counts();
        (self.reached.count(), counts.allocated + counts.deferred)
    }

    /// Returns the report. The pool can be used again, and heals again.
    pub fn finish(self) -> Report {
        self.pool.set_healing(true);
        drop(self.pool.take_disk_events());
        self.report
    }

    /// Reports whether there is work that waits for no device.
    fn has_work(&self) -> bool {
        let has_answers = self.pool.has_done();
        !self.is_done() && (has_answers || self.reading.is_empty() || self.can_walk())
    }

    fn can_walk(&self) -> bool {
        let has_room = self.to_verify.len() < VERIFIED_AT_ONCE;
        !self.is_waiting && !self.tasks.is_empty() && has_room
    }

    /// Does a bounded part of the work that needs no waiting.
    fn go_on(&mut self) {
        for _ in 0..self.pool.limits().budget.max(1) {
            for (tag, done) in self.pool.take_done() {
                if let Some(wanted) = self.reading.remove(&tag) {
                    self.answered(wanted, done);
                }
            }
            while self.verifying < VERIFIED_AT_ONCE
                && let Some((owner, block)) = self.to_verify.pop_front()
            {
                self.verify_copies(owner, block);
            }
            if self.can_walk() {
                self.walk();
            } else if self.reading.is_empty() && self.tasks.is_empty() {
                return self.end_pass();
            } else if !self.pool.has_done() {
                return;
            }
        }
    }

    fn verify_copies(&mut self, owner: Owner, block: Block) {
        self.verifying += 1;
        let wanted = Wanted::Copies(owner, block.address, block.sectors);
        let tag = self.tag(wanted);
        self.pool.scrub_block(tag, block);
    }

    fn tag(&mut self, wanted: Wanted) -> u64 {
        let tag = self.pool.tag_untold();
        self.reading.insert(tag, wanted);
        tag
    }

    /// Reads a block that the walk waits for.
    fn read(&mut self, wanted: Wanted, block: Block) {
        self.is_waiting = true;
        let tag = self.tag(wanted);
        self.pool.fetch_block(tag, block, Priority::SyncRead);
    }

    fn answered(&mut self, wanted: Wanted, done: ArrayDone) {
        match (wanted, done) {
            (Wanted::Node(owner, missing), ArrayDone::Read(result)) => {
                self.is_waiting = false;
                let filled = result.map_err(|error| error.to_string()).and_then(|block| {
                    self.pool
                        .fill_node(&missing, &block)
                        .map_err(|error| error.to_string())
                });
                if let Err(error) = filled {
                    self.lost.insert(missing.pointer.address.to_bits());
                    self.pool.fill_lost_node(&missing);
                    self.cannot_read(owner, &missing.pointer, error);
                }
            }
            (Wanted::Chunk(owner, pointer), ArrayDone::Read(result)) => {
                self.is_waiting = false;
                let chunk = result.ok().and_then(|block| Chunk::decode(&block));
                if chunk.is_none() {
                    self.cannot_read(
                        owner,
                        &pointer,
                        "the block there is not a part of a list".to_owned(),
                    );
                }
                self.chunks.insert(pointer.address.to_bits(), chunk);
            }
            (Wanted::Record(seq, before), ArrayDone::Read(result)) => {
                self.is_waiting = false;
                self.take_record(seq, before, result.ok());
            }
            (Wanted::Copies(owner, address, sectors), ArrayDone::Scrubbed(result)) => {
                self.verifying -= 1;
                let extent = self.extent_at(address, sectors);
                match result {
                    Ok(found) if found.bad == 0 => self.report.verified += 1,
                    Ok(found) => {
                        let context = match found.bad {
                            1 => "1 copy or column".to_owned(),
                            bad => format!("{bad} copies or columns"),
                        };
                        self.find(FindingKind::BadCopy, extent, owner, context);
                    }
                    // The walk has reported it.
                    Err(_) if self.lost.contains(&address.to_bits()) => {}
                    Err(error) => {
                        self.find(FindingKind::Unreadable, extent, owner, error.to_string());
                    }
                }
            }
            (wanted, done) => debug_assert!(false, "{wanted:?} was answered with {done:?}"),
        }
    }

    fn cannot_read(&mut self, owner: Owner, pointer: &Pointer, context: String) {
        self.is_partial = true;
        let extent = self.extent_at(pointer.address, pointer.sectors);
        self.find(FindingKind::Unreadable, extent, owner, context);
    }

    fn find(&mut self, kind: FindingKind, extent: Extent, owner: Owner, context: String) {
        if self.stage == CheckStage::Walk {
            self.report.add(kind, Some(extent), &[owner], context);
        }
    }

    fn extent_at(&self, address: Address, sectors: u16) -> Extent {
        Extent::at(address, self.pool.footprint(address.vdev(), sectors))
    }

    /// Queues every copy of a block to be read and verified, even if its readers would not verify
    /// it.
    fn queue_copies(&mut self, owner: Owner, pointer: &Pointer) {
        if self.stage != CheckStage::Walk {
            return;
        }
        let is_at_risk = self.pool.redundancy(pointer.address.vdev()) == 0;
        if pointer.is_double() {
            self.report.twice += 1;
        } else if is_at_risk && !matches!(owner, Owner::Block { .. }) {
            self.report.once += 1;
        }
        self.to_verify.push_back((owner, Block::verified(pointer)));
    }

    /// Claims sectors for an owner.
    fn claim(&mut self, owner: Owner, extent: Extent) {
        if self.stage == CheckStage::Hunt {
            for (_, hunted, owners) in &mut self.hunted {
                let is_there = hunted.vdev == extent.vdev
                    && hunted.sector < extent.end()
                    && extent.sector < hunted.end();
                if is_there {
                    owners.insert(owner);
                }
            }
        } else if !self.reached.holds(extent) {
            let context = String::new();
            self.find(FindingKind::Beyond, extent, owner, context);
        } else if self.reached.set(extent) < extent.sectors {
            self.hunt(FindingKind::DoubleAllocation, extent);
        }
    }

    /// Notes that the owners of these sectors are to be found.
    fn hunt(&mut self, kind: FindingKind, extent: Extent) {
        if self.hunted.len() < MAX_HUNTED {
            self.hunted.push((kind, extent, BTreeSet::new()));
        } else {
            self.report.add(kind, Some(extent), &[], "");
        }
    }

    fn end_pass(&mut self) {
        match self.stage {
            CheckStage::Walk => {
                self.reached.unite(&self.shared);
                self.report.reached_sectors = self.reached.count();
                self.compare();
                if self.hunted.is_empty() {
                    self.stage = CheckStage::Done;
                } else {
                    self.stage = CheckStage::Hunt;
                    self.begin_walk();
                }
            }
            CheckStage::Hunt => {
                for (kind, extent, owners) in std::mem::take(&mut self.hunted) {
                    let owners: Vec<Owner> = owners.into_iter().collect();
                    self.report.add(kind, Some(extent), &owners, "");
                }
                self.stage = CheckStage::Done;
            }
            CheckStage::Done => {}
        }
    }

    /// Compares the space map and its figures with the sectors reached.
    fn compare(&mut self) {
        for vdev in 0..self.pool.space.vdevs() {
            let words = || self.pool.space.words(vdev);
            let busy = words().map(|(busy, _)| busy);
            let leaked = self.reached.differing(vdev, busy, |own, busy| busy & !own);
            let busy = words().map(|(busy, _)| busy);
            let free = self.reached.differing(vdev, busy, |own, busy| own & !busy);
            let leak = match self.is_partial {
                true => FindingKind::Unproven,
                false => FindingKind::Leak,
            };
            for extent in leaked {
                self.report.add(leak, Some(extent), &[], "");
            }
            for extent in free {
                self.hunt(FindingKind::NotAllocated, extent);
            }
        }
        let waiting: Vec<Extent> = self.pool.space.waiting().collect();
        for extent in waiting.iter().filter(|extent| self.dead.holds(**extent)) {
            self.reached.clear(*extent);
        }
        for vdev in 0..self.pool.space.vdevs() {
            let view = self.pool.space.words(vdev).map(|(_, view)| view);
            for extent in self.reached.differing(vdev, view, |own, view| own ^ view) {
                let context = "the next checkpoint would record another state of these sectors";
                let kind = FindingKind::WrongSpace;
                if !self.is_partial {
                    self.report.add(kind, Some(extent), &[], context);
                }
            }
        }
        let counts = self.pool.space.counts();
        let waiting: u64 = waiting.iter().map(|extent| u64::from(extent.sectors)).sum();
        let dropped: u64 = (self.pool.space.dropped())
            .map(|extent| u64::from(extent.sectors))
            .sum();
        let needed = self.report.reached_sectors - waiting.min(self.report.reached_sectors);
        let allocated = needed - dropped.min(needed);
        let is_sum = counts.size == counts.available + counts.deferred + counts.allocated;
        if !self.is_partial && (counts.allocated != allocated || !is_sum) {
            let context = format!("the counts are {counts:?}, but {allocated} sectors are needed");
            let kind = FindingKind::WrongSpace;
            self.report.add(kind, None, &[], context);
        }
        if self.pool.space.double_drops() > 0 {
            let context = format!(
                "{} sectors were dropped twice",
                self.pool.space.double_drops()
            );
            let kind = FindingKind::WrongSpace;
            self.report.add(kind, None, &[], context);
        }
    }
}
