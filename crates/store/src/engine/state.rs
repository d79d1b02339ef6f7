//! State of an open pool, and its entry points.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::activity::condition::Condition;
use super::background_work::BackgroundWork;
use super::checkpoint::destroyed::Destroyed;
use super::checkpoint::making::Making;
use super::checkpoint::schedule::Schedule;
use super::config::PoolConfig;
use super::contents::Contents;
use super::limits::{Limits, MemoryCharge};
use super::open::old_devices::OldDevices;
use super::request::{Answer, Event, Output, PoolError, PoolErrorKind, Request, RequestId};
use super::room::promises::Promises;
use super::scan::under_way::Scans;
use super::tags::Tag;
use super::trim::trims::Trims;
use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::engine::devices::caches::{self, CacheVdevs};
use crate::engine::devices::disks::Disks;
use crate::engine::devices::label_rounds::Labels;
use crate::engine::devices::logs::LogVdevs;
use crate::engine::devices::tending::Tending;
use crate::engine::io::block_reads::BlockReads;
use crate::engine::io::change::Write;
use crate::engine::io::log_end::Commit;
use crate::engine::io::pending::PendingRequests;
use crate::engine::io::second_place::SecondCopies;
use crate::engine::io::signpost_places::Signposts;
use crate::engine::io::stalled::Stalled;
use crate::engine::io::unmerged::Unmerged;
use crate::format::{DatasetId, Epoch, PoolKey};
use crate::map::NodeCache;
use crate::published::Published;
use crate::space::{Extent, Space};
use crate::vdev::{ArrayDone, DeviceOutcome, IoId, LeafId};

/// Extents that become free in one call.
const SETTLE_AT_ONCE: usize = 256;

/// Open pool.
#[derive(Debug)]
pub struct Pool {
    pub(super) key: PoolKey,
    pub(super) limits: Limits,
    pub(super) disks: Disks,
    pub(super) space: Space,
    pub(super) node_cache: NodeCache,
    pub(super) cache: Arc<Cache>,
    /// Places of blocks that readers find by themselves.
    pub(super) published: Arc<Published>,
    pub(super) charge: MemoryCharge,
    pub(super) catalog: Arc<Catalog>,
    pub(super) contents: BTreeMap<DatasetId, Contents>,
    /// Epoch in which blocks are born now.
    pub(super) epoch: Epoch,
    pub(super) background: BackgroundWork,
    /// Changes that are in no durable checkpoint yet.
    pub(super) unmerged: Unmerged,
    pub(super) promises: Promises,
    /// Wall clock in seconds since 1970.
    pub(super) time_s: u64,
    pub(super) commit: Commit,
    pub(super) logs: LogVdevs,
    pub(super) caches: CacheVdevs,
    pub(super) pending: PendingRequests,
    pub(super) reads: BlockReads,
    pub(super) stalled: Stalled,
    /// Changes of datasets that wait for their turn.
    pub(super) waiting: VecDeque<super::administer::waiting::Waiting>,
    pub(super) destroyed: Destroyed,
    pub(super) config: PoolConfig,
    pub(super) labels: Labels,
    pub(super) checkpoint: Option<Making>,
    pub(super) schedule: Schedule,
    pub(super) scans: Scans,
    pub(super) old_devices: OldDevices,
    pub(super) tending: Tending,
    /// Counts of the failures of leaves.
    pub(super) failures: crate::engine::devices::failures::Failures,
    pub(super) second_copies: SecondCopies,
    /// Places of the records that the last checkpoint's log needs, oldest first.
    pub(super) records: VecDeque<(u64, Extent)>,
    pub(super) signposts: Signposts,
    pub(super) trims: Trims,
    pub(super) persisted: super::manifest::Persisted,
    pub(super) condition: Condition,
    /// Activity records with which this host claims the pool, if another host could reach its
    /// devices.
    pub(super) activity: Option<Box<super::activity::owner::Owner>>,
    /// Whether the records are to let the pool go, after which no more are written.
    pub(super) is_unprotecting: bool,
    pub(super) output: Output,
}

impl Pool {
    /// Takes a request. Its answer comes with [`Pool::take_output`], perhaps at once.
    pub fn submit(&mut self, id: RequestId, request: Request, now_us: u64) {
        self.submit_all([(id, request)], now_us);
    }

    /// Takes requests that came together. Durable writes among them share a group.
    pub fn submit_all(
        &mut self,
        requests: impl IntoIterator<Item = (RequestId, Request)>,
        now_us: u64,
    ) {
        self.heed_time(now_us);
        self.background.note_request(now_us);
        let mut requests = requests.into_iter().peekable();
        while let Some((id, request)) = requests.next() {
            // Most of a block's cost is waiting for memory, so the next block is prefetched
            // meanwhile.
            if let Some((_, Request::Write { data, .. })) = requests.peek() {
                data.prefetch(0);
            }
            self.begin(id, request);
        }
        self.serve();
        self.hand_out();
    }

    fn begin(&mut self, id: RequestId, request: Request) {
        match request {
            Request::Read {
                dataset,
                offset,
                len,
            } => self.begin_read(id, dataset, offset, len),
            Request::Write {
                dataset,
                offset,
                data,
                durable,
            } => self.begin_write(id, Write::data(dataset, offset, data, durable)),
            Request::WritePrepared {
                dataset,
                offset,
                prepared,
                durable,
            } => self.begin_write(id, Write::prepared(dataset, offset, prepared, durable)),
            Request::Unmap {
                dataset,
                offset,
                len,
                durable,
            } => self.begin_write(id, Write::unmap(dataset, offset, len, durable)),
            Request::Clear {
                dataset,
                offset,
                len,
                durable,
            } => self.begin_write(id, Write::zeros(dataset, offset, len, durable)),
            Request::Flush { dataset } => self.begin_flush(id, dataset),
            Request::Extents {
                dataset,
                offset,
                len,
            } => self.begin_extents(id, dataset, offset, len),
            Request::Receive {
                dataset,
                attempt,
                offset,
                content,
            } => self.begin_write(id, Write::received(dataset, offset, content, attempt)),
            Request::Changes(wanted) => self.begin_changes(id, wanted),
            Request::Stored { dataset, block } => self.begin_stored(id, dataset, block),
        }
    }

    /// Takes the answer of a device.
    pub fn completed(&mut self, io: IoId, outcome: DeviceOutcome, now_us: u64) {
        self.completed_all([(io, outcome)], now_us);
    }

    /// Takes answers of devices, in this order.
    pub fn completed_all(
        &mut self,
        answers: impl IntoIterator<Item = (IoId, DeviceOutcome)>,
        now_us: u64,
    ) {
        self.heed_time(now_us);
        if !self.is_owned() {
            // The answers do not matter: no caller is told of them.
            return self.hand_out();
        }
        for (io, outcome) in answers {
            self.heed_reservation(&outcome);
            if self.condition.stopped().is_some() {
                return self.hand_out();
            }
            if caches::is_cache_io(io) {
                self.cache_completed(io, outcome);
            } else {
                self.disks.completed(io, outcome);
            }
        }
        // A request that waits for one of these answers shall not wait for background work.
        self.background.note_answers(now_us);
        self.serve();
        self.hand_out();
    }

    /// Takes the time. `time_s` is the wall clock in seconds since 1970. Checkpoints note it, and
    /// it decides nothing.
    pub fn tick(&mut self, now_us: u64, time_s: u64) {
        self.heed_time(now_us);
        self.time_s = time_s;
        if !self.is_owned() {
            return self.hand_out();
        }
        self.disks.tick();
        self.tick_caches();
        self.activity_go_on();
        self.go_on();
    }

    /// Returns the latest time at which [`Pool::tick`] must be called; `None` if nothing waits for
    /// time.
    pub fn deadline_us(&self) -> Option<u64> {
        let work = self.work_due_us();
        self.service_due_us().into_iter().chain(work).min()
    }

    /// Returns the time at which a share of background work is due.
    pub fn work_due_us(&self) -> Option<u64> {
        // Changes may wait for a checkpoint; then making it serves requests.
        let serves = self.background.is_serving(self.now_us()) && self.stalled.is_empty();
        let has_work = self.background.is_owed() && !self.is_suspended() || self.has_work();
        has_work.then_some(if serves {
            self.background.next_us()
        } else {
            self.now_us()
        })
    }

    /// Returns the time at which work is due that a request waits for, or that is promised for a
    /// time.
    pub fn service_due_us(&self) -> Option<u64> {
        if self.condition.stopped().is_some() {
            return None;
        }
        let activity = self.activity_due_us();
        if self.is_suspended() {
            return self.disks.deadline_us().into_iter().chain(activity).min();
        }
        let group = self.group_due_us();
        let copies = self.logs.deadline_us(self.now_us());
        let caches = self.caches.deadline_us();
        let checkpoint = self.timed_checkpoint_us();
        let (array, trim) = (self.disks.deadline_us(), self.trim_due_us());
        let all = [array, group, copies, caches, checkpoint, activity, trim];
        all.into_iter().flatten().min()
    }

    /// Takes the output of the calls since the last one.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// Takes the output into `taken`, whose previous contents the caller has used. Its memory is
    /// reused.
    pub fn take_output_into(&mut self, taken: &mut Output) {
        debug_assert!(taken.requests.is_empty() && taken.answers.is_empty());
        taken.events.clear();
        std::mem::swap(&mut self.output, taken);
    }

    /// Does all work that requests wait for, and a share of the background work.
    pub(super) fn go_on(&mut self) {
        self.background.begin(self.now_us());
        self.serve();
        self.checkpoint_go_on();
        self.scan_go_on();
        self.tend_vdevs();
        self.settle_space(SETTLE_AT_ONCE);
        self.trim_go_on();
        self.export_go_on();
        self.close_go_on();
        self.serve();
        self.hand_out();
        self.charge_memory();
    }

    /// Charges the pool's memory to the cap of the cache: loaded maps, data waiting to be written,
    /// and lists of space waiting to be free.
    fn charge_memory(&mut self) {
        let datasets = self.datasets_in_use().len();
        if !self.charge.begin(datasets, self.disks.now_us()) {
            return;
        }
        let layers = self.datasets_in_use().map(|(_, of)| of.map.layers.bytes());
        let maps = self.node_bytes() + layers.sum::<usize>();
        let lists = self.space_lists_memory() + self.records_memory();
        // This counts the free pages between those of blocks. Evicting blocks may make more of
        // them, so the count is capped.
        let idle = pages::idle_bytes().min(self.cache.cap() / pages::IDLE_SHARE);
        let dirty = self.dirty_bytes() + self.stalled.kept_packed();
        self.charge.set(maps + dirty + lists + idle);
    }

    /// Does all work that requests wait for.
    pub(super) fn serve(&mut self) {
        loop {
            // Changes of leaves come first, since acknowledgements depend on them.
            self.labels_go_on();
            let mut all_done = self.disks.take_done();
            for (tag, done) in all_done.drain(..) {
                self.tag_done(tag, done);
            }
            self.disks.reuse(all_done);
            self.administer_go_on();
            self.resume_stalled();
            // This serves changes that waited for a stalled one.
            self.administer_go_on();
            self.commit_go_on();
            self.labels_go_on();
            if !self.disks.has_done() {
                break;
            }
        }
    }

    /// Takes the end of the array's operation with this tag.
    pub(super) fn tag_done(&mut self, tag: u64, done: ArrayDone) {
        if let Some(what) = self.disks.take_tag(tag) {
            self.array_done(what, done);
        }
    }

    pub(super) fn hand_out(&mut self) {
        if !self.is_owned() {
            // The caller that runs the pool tells the waiting requests.
            self.output.answers.clear();
            self.output.requests.clear();
            self.disks.drop_requests();
            self.caches.take_requests();
            return;
        }
        if self.is_let_go() {
            // Another host may have the pool from now on.
            self.disks.drop_requests();
            self.caches.take_requests();
        }
        self.disks.hand_out(&mut self.output.requests);
        self.output
            .requests
            .append(&mut self.caches.take_requests());
        self.note_events();
    }

    fn array_done(&mut self, what: Tag, done: ArrayDone) {
        match (what, done) {
            (Tag::Group(seq), ArrayDone::Written(result)) => self.group_written(seq, result),
            (Tag::Flush(seq), ArrayDone::Flushed(result)) => self.flushed(seq, result),
            (Tag::Copies(vdev), ArrayDone::Written(result)) => self.copies_written(vdev, result),
            (Tag::CopiesFlush(vdev), ArrayDone::Flushed(result)) => {
                self.copies_flushed(vdev, result)
            }
            (Tag::Node(missing), ArrayDone::Read(result)) => self.node_read(&missing, result),
            (Tag::Block(pointer), ArrayDone::Read(result)) => self.block_read(&pointer, result),
            (Tag::Stored(pending), ArrayDone::Read(result)) => self.stored_read(pending, result),
            (Tag::Checkpoint(write), ArrayDone::Written(result)) => {
                self.checkpoint_written(write, result)
            }
            (Tag::Chunk(address), ArrayDone::Read(result)) => self.chunk_read(address, result),
            (Tag::ScanChunk(scan), ArrayDone::Read(result)) => self.scan_chunk_read(scan, result),
            (Tag::Scan(block), done) => self.scanned(&block, done),
            (Tag::CheckpointFlush, ArrayDone::Flushed(result)) => self.checkpoint_flushed(result),
            (Tag::Label(leaf), ArrayDone::Written(result) | ArrayDone::Flushed(result)) => {
                self.label_done(leaf, result)
            }
            (Tag::Configuration, ArrayDone::Written(result) | ArrayDone::Flushed(result)) => {
                self.configuration_done(&result)
            }
            (Tag::Activity(leaf), done) => self.activity_done(LeafId(leaf), done),
            (Tag::Trim(vdev), ArrayDone::Trimmed(result)) => {
                // No device was asked about an invalid address.
                self.trimmed(vdev, result.unwrap_or_default());
            }
            (what, done) => debug_assert!(false, "{what:?} was answered with {done:?}"),
        }
    }

    /// Reports whether there is work that waits only for its turn.
    fn has_work(&self) -> bool {
        let is_making = match self.is_making_checkpoint() {
            true => self.is_checkpoint_working(),
            false => self.is_checkpoint_due(),
        };
        let is_untended = self.tending.is_due() || self.spares_that_left().next().is_some();
        let has_more = is_making || is_untended || self.is_scan_working() || self.is_export_due();
        !self.is_suspended() && has_more || self.is_close_due()
    }

    /// Tells an event to whoever runs the pool.
    pub(super) fn tell(&mut self, event: Event) {
        self.output.events.push(event);
    }

    pub(super) fn answer(&mut self, id: RequestId, result: Result<Answer, PoolError>) {
        self.output.answers.push((id, result));
    }

    pub(super) fn fail(&mut self, id: RequestId, kind: PoolErrorKind, context: impl Into<String>) {
        self.answer(id, Err(PoolError::new(kind, context)));
    }

    /// Begins an epoch: data is born in it from now on. Trees may still be born in any epoch since
    /// the last checkpoint: the epoch that ended with the layer from which the tree is made.
    pub(super) fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.disks.set_epochs(self.checkpoint_epoch().next(), epoch);
    }

    /// Takes no changes from now on. The data on the devices stays as it is.
    pub(super) fn suspend(&mut self, reason: String) {
        if self.condition.suspend(&reason) {
            self.tell(Event::Suspended { reason });
        }
    }

    /// Returns the error for changes that are no longer taken.
    pub(super) fn suspension(&self) -> Option<PoolError> {
        self.condition.refusal()
    }

    /// Reports whether no changes are taken.
    pub(super) fn is_suspended(&self) -> bool {
        self.condition.suspended().is_some()
    }

    /// Returns the reason why no changes are taken; it is empty if they are.
    pub(super) fn why_suspended(&self) -> String {
        self.condition.suspended().unwrap_or_default().to_owned()
    }

    /// Reports whether this host lets the pool go when all is written.
    pub(super) fn is_closing(&self) -> bool {
        self.condition.is_closing()
    }

    /// Reports whether requests wait that were taken, beside those that wait for durability alone.
    pub(super) fn has_requests(&self) -> bool {
        !(self.pending.is_empty() && self.stalled.is_empty() && self.waiting.is_empty())
    }

    /// Returns the wall clock in seconds since 1970.
    pub(super) fn time_s(&self) -> u64 {
        self.time_s
    }

    /// Returns the key that the pool's records are proven with.
    pub(super) fn key(&self) -> PoolKey {
        self.key
    }

    /// Returns the epoch in which blocks are born now.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the bounds on the pool's memory and delays.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }
}
