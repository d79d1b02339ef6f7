//! The state of an open pool, and the ways in.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use pages::Pages;

use super::cache_vdevs::{self, CacheVdevs};
use super::checkpoint::Making;
use super::commit::Commit;
use super::config::PoolConfig;
use super::log_vdevs::LogVdevs;
use super::manifest::MAX_MANIFEST;
use super::read::{BlockReads, Pending};
use super::request::{Answer, Event, Output, PoolError, PoolErrorKind, Request, RequestId};
use super::scan::{Scan, ScanRecord, ScanState};
use super::signpost::Signposts;
use super::trim::Trims;
use super::unmerged::Unmerged;
use super::write::Write;
use crate::cache::{Cache, Charge};
use crate::catalog::{Catalog, Settings};
use crate::format::list::Chunk;
use crate::format::{Address, DatasetId, Epoch, Pointer, PoolKey};
use crate::map::hash::BuildNumberHasher;
use crate::map::{Layer, Map, Missing, NodeCache};
use crate::snapshot::deadlist::Deadlist;
use crate::space::{Extent, Space};
use crate::vdev::{self, Array, ArrayDone, DeviceOutcome, IoId, LeafId};

/// What bounds a pool's memory and delays.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of changes that are not on the devices yet; more wait.
    pub dirty_bytes: usize,
    /// Bytes of map nodes that are kept.
    pub node_bytes: usize,
    /// Changes of maps after which a checkpoint is made.
    pub updates: u64,
    /// Groups of the log after which a checkpoint is made: following them takes time at import.
    pub groups: u64,
    /// After so long without a checkpoint one is made, if anything changed. Microseconds.
    pub checkpoint_us: u64,
    /// After so long without a change one is made, if anything changed or what was freed waits for one. Microseconds.
    pub rest_us: u64,
    /// A group that nobody waits for is written after this. Microseconds.
    pub gather_us: u64,
    /// Nodes of maps that a call handles at most in work that nobody waits for; each takes about
    /// 80 microseconds.
    pub budget: usize,
    /// Blocks and nodes of deleted datasets that one checkpoint frees at most: each is an extent that
    /// waits in memory until two more are durable.
    pub freed_blocks: usize,
    /// Blocks that a scan gathers, to work them off in the order in which they lie.
    pub scan_batch: usize,
    /// Bytes that the manifest of a checkpoint may have, no more than a root can point to: what could need more is refused.
    pub manifest_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            dirty_bytes: 64 << 20,
            node_bytes: 256 << 20,
            updates: 1 << 20,
            groups: 1 << 16,
            checkpoint_us: 60_000_000,
            rest_us: 5_000_000,
            gather_us: 2_000,
            budget: 1,
            freed_blocks: 1 << 18,
            scan_batch: 1 << 16,
            manifest_bytes: MAX_MANIFEST,
        }
    }
}

impl Limits {
    /// So that maps, the changes that no checkpoint has, and what waits to be written take no more than about so many bytes
    /// of memory together, where that is less than these take by default. However few they are, a pool works.
    pub fn within(bytes: usize) -> Self {
        let by_default = Self::default();
        let bytes = bytes.max(LEAST_MEMORY);
        let updates = bytes / 8 * 3 / LAYERS_OF_CHANGES / Layer::CHANGE_BYTES;
        Self {
            node_bytes: by_default.node_bytes.min(bytes / 2),
            dirty_bytes: by_default.dirty_bytes.min(bytes / 8),
            updates: by_default.updates.min(updates as u64),
            ..by_default
        }
    }
}

/// What is taken in any case: with less, each long write would wait for the one before it.
const LEAST_MEMORY: usize = 32 << 20;

/// Changes are in memory as often as those after which a checkpoint is made: while it is made, twice as many are taken
/// at most, and others wait.
const LAYERS_OF_CHANGES: usize = 3;

/// While requests are served, a share of the work that nobody waits for is done so often: with the budget of
/// [`Limits`], a third of the time.
const WORK_EVERY_US: u64 = 240;
/// Requests are served as long as the last one came no longer ago.
const SERVING_US: u64 = 2_000;
/// How often it is counted what is in memory beside the cache.
const CHARGE_EVERY_US: u64 = 50_000;
/// Extents that become free in one call.
const SETTLE_AT_ONCE: usize = 256;

/// A volume or snapshot at work.
#[derive(Debug)]
pub(super) struct Contents {
    /// Where its blocks lie.
    pub(super) map: Map,
    /// Bytes.
    pub(super) size: u64,
    /// Bytes.
    pub(super) block_size: u32,
    pub(super) settings: Settings,
    /// While a stream is received into it: whose changes count. Nobody else changes or reads it.
    pub(super) attempt: Option<u64>,
    /// Blocks of the snapshot before it that are not its own any more.
    pub(super) dead: Deadlist,
    /// Its blocks as of the last checkpoint.
    pub(super) referenced: Referenced,
}

/// The blocks of a volume or snapshot, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Referenced {
    /// Their sectors, parity not counted.
    pub(super) sectors: u64,
    /// How many they are; `None` where a program wrote the checkpoint that did not count them.
    pub(super) blocks: Option<u64>,
    /// How many of them are not packed; `None` as before.
    pub(super) whole: Option<u64>,
}

impl Referenced {
    /// No block.
    pub(super) const NOTHING: Self = Self {
        sectors: 0,
        blocks: Some(0),
        whole: Some(0),
    };
}

/// A volume or snapshot that was deleted and whose blocks are still to be freed.
#[derive(Debug)]
pub(super) struct Dying {
    pub(super) map: Map,
    /// Blocks born up to this epoch are others'.
    pub(super) after: Epoch,
}

/// What an operation of the array was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// The write of a group.
    Group(u64),
    /// A flush for all groups up to this one.
    Flush(u64),
    /// The write of copies of groups to a log vdev, and its flush.
    Copies(u16),
    CopiesFlush(u16),
    /// The read of a node.
    Node(Missing),
    /// The read of a volume's block.
    Block(Pointer),
    /// The read of a block for a stream; by the number of who waits for it.
    Stored(u64),
    /// The read of a part of a dead list, for the checkpoint, or for the scan.
    Chunk(Address),
    ScanChunk(u64),
    /// A block that a scan works off.
    Scan(super::scan::ScanBlock),
    /// A write of the checkpoint being made.
    Checkpoint(u64),
    /// The flush before its root is written.
    CheckpointFlush,
    /// A write or flush of a root into a label; of a leaf.
    Label(u32),
    /// A write or flush of the configuration into a label.
    Configuration,
    /// A look at an activity record, or the write of one; of a leaf.
    Activity(u32),
    /// A trim of free space of a top-level vdev.
    Trim(u16),
}

/// An open pool.
#[derive(Debug)]
pub struct Pool {
    pub(super) key: PoolKey,
    pub(super) limits: Limits,
    pub(super) array: Array,
    pub(super) space: Space,
    pub(super) nodes: NodeCache,
    pub(super) cache: Arc<Cache>,
    /// What the maps take of its cap.
    pub(super) charge: Charge,
    /// When that was looked at last.
    pub(super) charged_us: u64,
    pub(super) catalog: Catalog,
    pub(super) contents: BTreeMap<DatasetId, Contents>,
    /// In which blocks are born now.
    pub(super) epoch: Epoch,
    pub(super) now_us: u64,
    /// When the last request came.
    pub(super) asked_us: Option<u64>,
    /// When work that nobody waits for was last done.
    pub(super) worked_us: u64,
    /// That is long enough ago, and something happened since.
    pub(super) is_work_owed: bool,
    /// Changes of maps since the last checkpoint began.
    pub(super) updates: u64,
    /// What is in no durable checkpoint yet.
    pub(super) unmerged: Unmerged,
    /// Sectors that volumes have reserved and do not use yet.
    pub(super) reserved: u64,
    /// Whether there are such volumes.
    pub(super) has_promised: bool,
    /// Seconds since 1970.
    pub(super) time_s: u64,
    pub(super) commit: Commit,
    pub(super) logs: LogVdevs,
    pub(super) caches: CacheVdevs,
    /// Requests that wait for something, by a number of ours.
    pub(super) pending: HashMap<u64, Pending, BuildNumberHasher>,
    pub(super) next_pending: u64,
    pub(super) reads: BlockReads,
    /// Blocks that waiting changes touch, by the first of each: others who change them wait.
    pub(super) locks: BTreeMap<(DatasetId, u64), super::write::Lock>,
    /// Changes that wait for room in memory or on the devices, in their order.
    pub(super) stalled: VecDeque<super::write::Ready>,
    /// Bytes that these hold beside their own: what their blocks were packed into. No more than may be dirty; what
    /// is beyond is packed again, on the one thread that has all else to do.
    pub(super) kept_packed: usize,
    /// Checkpoints since changes began to wait for space.
    pub(super) vain_checkpoints: u32,
    /// Changes of datasets that wait for their turn.
    pub(super) waiting: VecDeque<super::administer::Waiting>,
    /// Bytes that the lists of datasets take at most in a manifest, whatever is written; `None` where they were not
    /// counted yet.
    pub(super) lists: Option<usize>,
    pub(super) dying: Vec<Dying>,
    /// What is being freed, a part with each checkpoint.
    pub(super) jobs: VecDeque<super::manifest::Job>,
    /// Chunks of dead lists that were read for them.
    pub(super) chunks: BTreeMap<u64, Chunk>,
    pub(super) config: PoolConfig,
    /// The labels do not say it yet.
    pub(super) is_config_new: bool,
    /// The labels are to say that any host may import the pool, when all else is written.
    pub(super) is_export_wanted: bool,
    /// This host lets the pool go when all is written.
    pub(super) is_closing: bool,
    /// It is being written into them.
    pub(super) renewal: Option<super::labels::Renewal>,
    pub(super) checkpoint: Option<Making>,
    /// Checkpoints that became durable since the pool was opened.
    pub(super) checkpoints: u64,
    pub(super) scan: Option<Scan>,
    /// The last one that ended before that began, or before the pool was opened.
    pub(super) ended_scan: Option<ScanRecord>,
    /// A scrub that a resilver interrupted, running or paused: it begins again when that is over.
    pub(super) waiting_scrub: Option<ScanState>,
    /// Leaves that came back older than the pool and are not rebuilt yet, by guid.
    pub(super) behind: BTreeMap<u64, super::open::Behind>,
    /// Devices that were shorter than remembered when the pool was opened.
    pub(super) short: Vec<super::open::Short>,
    /// Leaves that the last resilver could not rebuild in full. That is not tried again before something has changed.
    pub(super) unrebuilt: BTreeSet<LeafId>,
    /// Leaves that answered again after they had been given up, since something else has changed.
    pub(super) heard_again: BTreeSet<LeafId>,
    /// Who waits for a checkpoint: the number that [`Pool::checkpoints`] must have reached.
    pub(super) syncs: Vec<(u64, RequestId)>,
    /// Questions that wait for a checkpoint to put a snapshot's changes into its tree.
    pub(super) unsettled: Vec<u64>,
    /// Changes of leaves that were seen, and up to which they were acted upon.
    pub(super) seen_events: u64,
    pub(super) tended_events: u64,
    /// Spares that left a slot and do not stand ready yet.
    pub(super) leaving_spares: BTreeSet<u64>,
    /// Spares whose devices are not there.
    pub(super) away_spares: BTreeSet<u64>,
    /// Leaves that fail often.
    pub(super) failures: super::failures::Failures,
    pub(super) is_checkpoint_wanted: bool,
    /// The labels say that blocks may lie twice.
    pub(super) may_lie_twice: bool,
    /// What was to lie twice and lies once.
    pub(super) written_once: super::second::WrittenOnce,
    pub(super) last_checkpoint_us: u64,
    pub(super) rest: super::rest::Rest,
    /// Sectors that data took since the last checkpoint began.
    pub(super) taken: u64,
    pub(super) tags: HashMap<u64, Tag, BuildNumberHasher>,
    pub(super) next_tag: u64,
    /// Where records lie that the last checkpoint's log needs, oldest first.
    pub(super) records: VecDeque<(u64, Extent)>,
    pub(super) signposts: Signposts,
    pub(super) trims: Trims,
    pub(super) persisted: super::manifest::Persisted,
    /// Why no changes are taken.
    pub(super) suspended: Option<String>,
    /// That is since none are to be taken.
    pub(super) is_read_only: bool,
    /// How the labels say that this host has the pool, where another one could reach its devices.
    pub(super) activity: Option<Box<super::activity::Owner>>,
    /// They are to say that it let the pool go, and then nothing more.
    pub(super) is_unprotecting: bool,
    /// Another host has the pool, or may have it: nothing is done any more.
    pub(super) stopped: Option<super::activity::Stop>,
    pub(super) array_output: vdev::Output,
    pub(super) output: Output,
}

impl Pool {
    /// Takes a request; its answer comes with [`Pool::take_output`], perhaps at once.
    pub fn submit(&mut self, id: RequestId, request: Request, now_us: u64) {
        self.submit_all([(id, request)], now_us);
    }

    /// Takes requests that came together: writes among them that are to be durable share a group.
    pub fn submit_all(
        &mut self,
        requests: impl IntoIterator<Item = (RequestId, Request)>,
        now_us: u64,
    ) {
        self.now_us = now_us;
        self.asked_us = Some(now_us);
        let mut requests = requests.into_iter().peekable();
        while let Some((id, request)) = requests.next() {
            // Most of what a block costs is waiting for memory: the next one comes near meanwhile.
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

    /// A device answered.
    pub fn completed(&mut self, io: IoId, outcome: DeviceOutcome, now_us: u64) {
        self.completed_all([(io, outcome)], now_us);
    }

    /// Devices answered, in this order.
    pub fn completed_all(
        &mut self,
        answers: impl IntoIterator<Item = (IoId, DeviceOutcome)>,
        now_us: u64,
    ) {
        self.now_us = now_us;
        if !self.is_owned() {
            // Whatever it was, nobody is told of it.
            return self.hand_out();
        }
        for (io, outcome) in answers {
            self.heed_reservation(&outcome);
            if self.stopped.is_some() {
                return self.hand_out();
            }
            if cache_vdevs::is_cache_io(io) {
                self.cache_completed(io, outcome);
            } else {
                self.array
                    .completed(io, outcome, now_us, &mut self.array_output);
            }
        }
        // Whoever waits for one of these shall not wait for that.
        self.is_work_owed |= now_us >= self.worked_us + WORK_EVERY_US;
        self.serve();
        self.hand_out();
    }

    /// Time has passed. `time_s` is the wall clock's, in seconds since 1970: it is noted in
    /// checkpoints and decides nothing.
    pub fn tick(&mut self, now_us: u64, time_s: u64) {
        self.now_us = now_us;
        self.time_s = time_s;
        if !self.is_owned() {
            return self.hand_out();
        }
        self.array.tick(now_us, &mut self.array_output);
        self.tick_caches();
        self.activity_go_on();
        self.go_on();
    }

    /// When [`Pool::tick`] must be called at the latest; `None`: nothing waits for time.
    pub fn deadline_us(&self) -> Option<u64> {
        let work = self.work_due_us();
        self.service_due_us().into_iter().chain(work).min()
    }

    /// When a share of what nobody waits for is to be done.
    pub fn work_due_us(&self) -> Option<u64> {
        // Changes that wait for a checkpoint are served by making it.
        let serves = (self.asked_us).is_some_and(|asked| self.now_us < asked + SERVING_US)
            && self.stalled.is_empty();
        let has_work = self.is_work_owed && self.suspended.is_none() || self.has_work();
        has_work.then_some(if serves {
            self.worked_us + WORK_EVERY_US
        } else {
            self.now_us
        })
    }

    /// When something is to be done that somebody waits for, or that is promised for a time.
    pub fn service_due_us(&self) -> Option<u64> {
        if self.stopped.is_some() {
            return None;
        }
        let activity = self.activity_due_us();
        if self.suspended.is_some() {
            return self.array.deadline_us().into_iter().chain(activity).min();
        }
        let group = self.commit.deadline_us(&self.limits);
        let copies = self.logs.deadline_us(self.now_us);
        let caches = self.caches.deadline_us();
        let checkpoint = self.timed_checkpoint_us();
        let (array, trim) = (self.array.deadline_us(), self.trim_due_us());
        let all = [array, group, copies, caches, checkpoint, activity, trim];
        all.into_iter().flatten().min()
    }

    /// What the calls since the last one brought.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// The same, into what the last call brought and whoever was meant has taken: its memory is used again.
    pub fn take_output_into(&mut self, taken: &mut Output) {
        debug_assert!(taken.requests.is_empty() && taken.answers.is_empty());
        taken.events.clear();
        std::mem::swap(&mut self.output, taken);
    }

    /// Does everything that somebody waits for, and a share of what nobody does.
    pub(super) fn go_on(&mut self) {
        self.worked_us = self.now_us;
        self.is_work_owed = false;
        self.serve();
        self.checkpoint_go_on();
        self.scan_go_on();
        self.tend_vdevs();
        self.space.settle(SETTLE_AT_ONCE);
        self.trim_go_on();
        self.export_go_on();
        self.close_go_on();
        self.serve();
        self.hand_out();
        self.charge_memory();
    }

    /// What is in memory of the maps, what waits to be written, and the lists of what waits to be free, counts into the cap
    /// of the cache.
    fn charge_memory(&mut self) {
        if self.now_us < self.charged_us + CHARGE_EVERY_US {
            return;
        }
        self.charged_us = self.now_us;
        let layers = self.contents.values().map(|of| of.map.layers.bytes());
        let maps = self.nodes.bytes() + layers.sum::<usize>();
        let records = self.records.capacity() * size_of::<(u64, Extent)>();
        let lists = self.space.lists_memory() + records;
        // Pages between those of blocks. Throwing blocks out may make more of them, so there is an end to it.
        let idle = pages::idle_bytes().min(self.cache.cap() / pages::IDLE_SHARE);
        let dirty = self.commit.dirty_bytes() + self.kept_packed;
        self.charge.set(maps + dirty + lists + idle);
    }

    /// Does everything that somebody waits for.
    pub(super) fn serve(&mut self) {
        loop {
            // What became of leaves first: acknowledgements depend on it.
            self.labels_go_on();
            let mut all_done = std::mem::take(&mut self.array_output.done);
            for (tag, done) in all_done.drain(..) {
                self.tag_done(tag, done);
            }
            // Its memory is used again, unless something was done at once meanwhile.
            if self.array_output.done.is_empty() {
                self.array_output.done = all_done;
            }
            self.administer_go_on();
            self.resume_stalled();
            // Who waited for one of those.
            self.administer_go_on();
            self.commit_go_on();
            self.labels_go_on();
            if self.array_output.done.is_empty() {
                break;
            }
        }
    }

    /// What was asked of the array by this tag is done.
    pub(super) fn tag_done(&mut self, tag: u64, done: ArrayDone) {
        if let Some(what) = self.tags.remove(&tag) {
            self.array_done(what, done);
        }
    }

    pub(super) fn hand_out(&mut self) {
        if !self.is_owned() {
            // Whoever waits is told by whoever runs the pool.
            self.output.answers.clear();
            self.output.requests.clear();
            self.array_output.requests.clear();
            self.caches.take_requests();
            return;
        }
        if self.is_let_go() {
            // Another host may have it from now on.
            self.array_output.requests.clear();
            self.caches.take_requests();
        }
        self.array.release(self.now_us, &mut self.array_output);
        self.output.requests.append(&mut self.array_output.requests);
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
                // An address that is none was asked of nobody.
                self.trimmed(vdev, result.unwrap_or_default());
            }
            (what, done) => debug_assert!(false, "{what:?} was answered with {done:?}"),
        }
    }

    /// A number for an operation of the array.
    pub(super) fn tag(&mut self, what: Tag) -> u64 {
        self.next_tag += 1;
        self.tags.insert(self.next_tag, what);
        self.next_tag
    }

    /// Whether there is something to do that waits for nothing but its turn.
    fn has_work(&self) -> bool {
        let making = self.checkpoint.as_ref();
        let is_due = self.is_checkpoint_due();
        let is_making = making.map_or(is_due, |making| {
            making.is_working(self.commit.chain.written_seq)
        });
        let is_untended =
            self.tended_events != self.seen_events || self.spares_that_left().next().is_some();
        let has_more = is_making || is_untended || self.is_scan_working() || self.is_export_due();
        self.suspended.is_none() && has_more || self.is_close_due()
    }

    /// Whether a checkpoint should be made for another reason than that the last one is old.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let is_long = self.updates >= self.limits.updates;
        // Writes that were under way when closing began lie behind the checkpoint that it asked for.
        let is_last = self.is_closing && self.has_changed();
        self.is_checkpoint_wanted || is_last || is_long || self.is_space_running_short()
    }

    /// Whether a checkpoint would find anything new.
    pub(super) fn has_changed(&self) -> bool {
        self.commit.chain.sealed_seq() > self.persisted.seq || !self.commit.group.is_empty()
    }

    pub(super) fn answer(&mut self, id: RequestId, result: Result<Answer, PoolError>) {
        self.output.answers.push((id, result));
    }

    pub(super) fn fail(&mut self, id: RequestId, kind: PoolErrorKind, context: impl Into<String>) {
        self.answer(id, Err(PoolError::new(kind, context)));
    }

    /// Data is born in another epoch from now on. Trees may still be born in any since the last
    /// checkpoint: in that which ended with the layer that they are made of.
    pub(super) fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.array.set_epochs(self.persisted.epoch.next(), epoch);
    }

    /// A block that something durable may still reach is needed no more.
    pub(super) fn drop_block(&mut self, pointer: &Pointer) {
        for extent in self.extents_of(pointer) {
            if let Err(fault) = self.space.drop_later(extent) {
                self.suspend(format!("the space map is wrong: {fault}"));
            }
        }
    }

    /// Takes no changes from now on: what is on the devices stays as it is.
    pub(super) fn suspend(&mut self, reason: String) {
        if self.suspended.is_none() {
            self.output.events.push(Event::Suspended {
                reason: reason.clone(),
            });
            self.suspended = Some(reason);
        }
    }

    /// The error of a change that is not taken any more.
    pub(super) fn suspension(&self) -> Option<PoolError> {
        let reason = self.suspended.as_ref()?;
        let kind = match self.is_read_only {
            true => PoolErrorKind::ReadOnly,
            false => PoolErrorKind::Suspended,
        };
        let context = format!("the pool takes no changes: {reason}");
        Some(PoolError::new(kind, context))
    }

    /// The bytes of blocks that are being written, by where they will lie.
    pub(super) fn in_flight(&self, address: Address) -> Option<&Pages> {
        self.commit.in_flight.get(&address.to_bits())
    }
}
