//! Opens a pool: from its labels to the state that it had.
//!
//! Labels say which vdevs make up the pool, and hold the roots of its last checkpoints. A root
//! counts only if at least two equal copies exist. A single copy may have been written or read in
//! the wrong place. The newest root leads to the manifest, and the manifest to the space map. Then
//! the log is followed to its end ([`crate::log::replay`]). A crash meanwhile changes nothing.
//!
//! The groups found may lie only in caches of devices, if the program was killed and the devices
//! kept their power. They may also lie on only one leaf of a mirror. So each group that is not
//! known to be durable is brought onto all its leaves before it counts.
//!
//! The end of the log is marked ([`end_mark`]). If a record there could not be read, or its group
//! is not whole, the next opening must not find it. All leaves are flushed before any caller sees
//! the pool, and before anything is written that builds on the groups found. So the next opening
//! finds exactly the groups that this opening found. Nothing else is written.

mod configurations;
mod copies;
mod end_mark;
pub(super) mod error;
mod examination;
pub(super) mod leaf_labels;
pub(super) mod leaves_behind;
pub(super) mod old_devices;
mod parted_leaves;
mod proven_groups;
mod rebuild;
pub mod reguid;
mod replay;
mod rewind;
mod ring;
mod roots;
mod search;
pub(super) mod sizes;
mod space;
mod twins;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use pages::Pages;

use super::Output;
use super::activity::condition::Condition;
use super::background_work::BackgroundWork;
use super::checkpoint::destroyed::Destroyed;
use super::checkpoint::schedule::Schedule;
use super::config::PoolConfig;
use super::contents::{Contents, Referenced};
use super::features::Feature;
use super::io::log_end::Start;
use super::limits::{Limits, MemoryCharge};
use super::manifest::{Job, JobRecord, Manifest, Persisted, from_hex};
use super::scan::under_way::Scans;
use super::state::Pool;
use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::engine::devices::caches::CacheVdevs;
use crate::engine::devices::disks::Disks;
use crate::engine::devices::label_rounds::Labels;
use crate::engine::devices::logs::LogVdevs;
use crate::engine::devices::tending::Tending;
use crate::engine::io::block_reads::BlockReads;
use crate::engine::io::log_end::Commit;
use crate::engine::io::pending::PendingRequests;
use crate::engine::io::second_place::SecondCopies;
use crate::engine::io::signpost_places::Signposts;
use crate::engine::io::stalled::Stalled;
use crate::engine::io::unmerged::Unmerged;
use crate::format::{Address, Epoch, Pointer, Root};
use crate::log::chain::Chain;
use crate::map::{Map, NodeCache};
use crate::snapshot::deadlist::Deadlist;
use crate::space::Space;
use crate::vdev::{
    self, Array, ArrayDone, ArrayErrorKind, Block, Class, DeviceOutcome, DeviceRequest, IoId,
    LeafId, Priority,
};

use old_devices::OldDevices;

pub use error::{OpenError, OpenErrorKind};
pub use examination::{Examined, MissingLog, examine, torn_identity, twins};
pub use leaf_labels::LeafLabels;
pub use leaves_behind::Behind;
pub use rebuild::{NewLabels, Rebuild, Trace, trace_places};
pub use rewind::{Back, Rewound};
pub use roots::Candidate;
pub use sizes::{Short, front_labels, rear_labels};
pub use twins::{Standing, Twin, Twins};

/// Pool that is being opened: it reads what it needs, then becomes a [`Pool`].
#[derive(Debug)]
pub struct Opening {
    pool: Box<Pool>,
    root: Root,
    ring: roots::Ring,
    stage: OpeningStage,
    /// Reads and writes under way, by tag.
    reading: HashMap<u64, Wanted>,
    /// Data of the reads that succeeded.
    got: BTreeMap<Wanted, Pages>,
    manifest: Option<Manifest>,
    replay: replay::ReplayState,
    search: search::Search,
    copies: copies::Copies,
    proven: proven_groups::Proven,
    /// Whether only the trees that the root leads to can prove that the root is right.
    is_lone: bool,
    /// Changes that may be given up; `None` if none may be.
    rewind: Option<rewind::Rewind>,
    failed: Option<OpenError>,
}

/// Purpose of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Wanted {
    Manifest(usize),
    Index {
        vdev: u16,
        node: usize,
    },
    Page {
        vdev: u16,
        number: usize,
    },
    Chunk,
    /// Topmost node of a volume or snapshot.
    Tree(usize),
    /// Sectors of a leaf of a log vdev.
    Copies {
        leaf: LeafId,
        vdev: u16,
        sector: u64,
        count: u64,
    },
    Record,
    /// Record of a group, read from the copy on a log vdev; [`Wanted::Inline`] is one of its
    /// blocks.
    Copy,
    Inline(usize),
    /// Write into the chain of a group whose copy was found.
    Restored,
    /// Write or flush of a log vdev that removes copies no longer needed.
    Wiped,
    Operation,
    /// All copies of data that is known to have been durable.
    Proof,
    Block(usize),
    Search(search::Run),
    Ring,
    /// Mark in a place that other data fits as well; [`Wanted::NewMark`] is the write of a mark.
    Mark,
    NewMark,
    /// Write of a signpost that may be missing.
    Signpost,
    Flush,
}

impl Wanted {
    /// Returns a name for errors that the administrator understands.
    fn name(self) -> &'static str {
        match self {
            Self::Manifest(_) => "the manifest of the newest checkpoint",
            Self::Index { .. } | Self::Page { .. } => "the space map",
            Self::Tree(_) => "the map of a volume",
            Self::Chunk => "the list of blocks that the newest checkpoint dropped",
            Self::Copies { .. } | Self::Copy | Self::Inline(_) => "a log vdev",
            Self::Record
            | Self::Mark
            | Self::Operation
            | Self::Proof
            | Self::Block(_)
            | Self::Search(_) => "the log",
            Self::Ring => "the root of the newest checkpoint",
            Self::Restored | Self::Wiped | Self::NewMark | Self::Signpost | Self::Flush => {
                "the changes in the log"
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpeningStage {
    /// Nothing is done until the labels say which host has the pool.
    Hold,
    Manifest,
    Index,
    Pages,
    Deferred,
    Trees,
    Copies,
    Log,
    Mark,
    Verify,
    Restore,
    Search,
    /// A round of labels.
    Ring(u8),
    RingFlush(u8),
    NewMark,
    Flush,
    Labels,
    Done,
}

impl Pool {
    /// Makes a new pool on an array of vdevs that nothing else uses. The pool exists when its first
    /// checkpoint is durable ([`super::Event::Checkpoint`]).
    ///
    /// # Errors
    /// The vdevs are invalid.
    pub fn create(
        config: PoolConfig,
        entropy: u64,
        time_s: u64,
        limits: Limits,
        vdev_limits: vdev::Limits,
        cache: Arc<Cache>,
    ) -> Result<Self, OpenError> {
        config.require_label_room()?;
        let epoch = Epoch(1);
        let array = array_of(&config, epoch, vdev_limits)?;
        let catalog = Catalog::new(time_s, entropy);
        let mut pool = empty(config, array, catalog, epoch, limits, cache);
        pool.time_s = time_s;
        let tree = pool.vdev_tree();
        if tree.top_levels.iter().any(|top| top.inner_labels.is_some()) {
            pool.require_feature(Feature::InnerLabels);
        }
        pool.keep_inner_labels();
        // No labels exist yet that a program without second copies could read.
        pool.want_second_copies();
        pool.use_second_copies();
        pool.heed_autotrim();
        pool.config_changed();
        pool.want_checkpoint();
        let Some((next, extent)) = pool.place_record() else {
            let context = "the devices are too small for a pool";
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        };
        pool.keep_record(1, extent);
        pool.begin_log(Chain::new(0, next, 0), Start::Reached);
        Ok(pool)
    }
}

impl Opening {
    /// Begins to open the pool that was found in labels, at one of its roots.
    ///
    /// # Errors
    /// The vdevs are invalid. Or a log vdev is missing that may hold the only copy of durable
    /// writes. Or a leaf is missing that other leaves were being rebuilt from.
    pub fn new(
        examined: &Examined,
        root: &Candidate,
        limits: Limits,
        vdev_limits: vdev::Limits,
        cache: Arc<Cache>,
        now_us: u64,
    ) -> Result<Self, OpenError> {
        examined.require_writable()?;
        examined.require_logs()?;
        examined.require_needed()?;
        let config = examined.config.clone();
        let epoch = root.root.epoch.next();
        let array = array_of(&config, epoch, vdev_limits)?;
        let catalog = Catalog::new(0, 0);
        let pool = empty(config, array, catalog, epoch, limits, cache);
        let mut opening = Self {
            replay: replay::ReplayState::new(pool.key(), &root.root),
            pool: Box::new(pool),
            root: root.root.clone(),
            ring: examined.ring.clone(),
            stage: OpeningStage::Hold,
            reading: HashMap::new(),
            got: BTreeMap::new(),
            manifest: None,
            search: search::Search::default(),
            copies: copies::Copies::default(),
            proven: proven_groups::Proven::default(),
            is_lone: examined.is_lone_label,
            rewind: None,
            failed: None,
        };
        if examined.is_config_new {
            opening.pool.config_changed();
        }
        opening.pool.note_short(&examined.short);
        for behind in &examined.behind {
            opening.pool.old_devices.note_behind(behind.clone());
        }
        opening.pool.heed_time(now_us);
        opening.pool.open_schedule();
        if let Some(protection) = &examined.protection {
            opening.pool.hold(protection.clone());
        }
        opening.go_on();
        Ok(opening)
    }

    /// Takes the requests for the devices.
    pub fn take_requests(&mut self) -> Vec<DeviceRequest> {
        let requests = self.pool.take_disk_requests();
        match self.is_owned() {
            true => requests,
            false => Vec::new(),
        }
    }

    /// Reports whether this host still owns the pool. If it does not, the opening ends.
    fn is_owned(&mut self) -> bool {
        if !self.pool.is_owned() {
            let reason = self.pool.why_suspended();
            self.failed = Some(OpenError::new(OpenErrorKind::InUse, reason));
        }
        self.pool.stopped().is_none()
    }

    /// Takes the answer of a device.
    pub fn completed(&mut self, io: IoId, outcome: DeviceOutcome, now_us: u64) {
        self.pool.heed_time(now_us);
        self.pool.heed_reservation(&outcome);
        if !self.is_owned() {
            return;
        }
        self.pool.disk_completed(io, outcome, now_us);
        self.go_on();
    }

    /// Takes the time.
    pub fn tick(&mut self, now_us: u64, time_s: u64) {
        self.pool.heed_time(now_us);
        self.pool.time_s = time_s;
        if !self.is_owned() {
            return;
        }
        self.pool.tick_disks(now_us);
        self.pool.activity_go_on();
        self.go_on();
    }

    /// Returns the latest time at which [`Opening::tick`] must be called.
    pub fn deadline_us(&self) -> Option<u64> {
        let activity = self.pool.activity_due_us();
        let disks = self.pool.disks_due_us();
        disks.into_iter().chain(activity).min()
    }

    /// Finds the device in this array that has a leaf's guid.
    pub fn leaf(&self, guid: u64) -> Option<vdev::LeafId> {
        self.pool.leaf(guid)
    }

    /// Reports whether the opening has ended, with success or an error.
    pub fn is_done(&self) -> bool {
        self.failed.is_some() || self.stage == OpeningStage::Done
    }

    /// Returns the pool.
    ///
    /// # Errors
    /// The opening failed, or has not ended yet.
    pub fn finish(self) -> Result<Pool, OpenError> {
        match self.failed {
            Some(error) => Err(self.pool.named_short(error)),
            None if self.stage == OpeningStage::Done => {
                let mut pool = self.pool;
                pool.heed_autotrim();
                Ok(*pool)
            }
            None => Err(OpenError::damaged("the pool is not open yet")),
        }
    }

    fn note_tag(&mut self, wanted: Wanted) -> u64 {
        let tag = self.pool.tag_untold();
        self.reading.insert(tag, wanted);
        tag
    }

    fn read(&mut self, wanted: Wanted, block: Block) {
        let tag = self.note_tag(wanted);
        self.pool.fetch_block(tag, block, Priority::SyncRead);
    }

    fn go_on(&mut self) {
        loop {
            let done = self.pool.take_done();
            if done.is_empty() && (self.is_done() || self.is_waiting()) {
                return;
            }
            for (tag, done) in done {
                let wanted = self.reading.remove(&tag);
                match (wanted, done) {
                    (Some(wanted), ArrayDone::Read(result)) => self.note(wanted, result),
                    (Some(Wanted::Restored), ArrayDone::Written(Err(error))) => {
                        let context =
                            format!("the copy that a log vdev lacked cannot be written: {error}");
                        self.failed = Some(OpenError::new(OpenErrorKind::Missing, context));
                    }
                    (Some(Wanted::NewMark), ArrayDone::Written(_)) => self.go_on_behind_mark(),
                    (Some(Wanted::Flush), ArrayDone::Flushed(Err(error))) => {
                        let context =
                            format!("the state that was found cannot be made durable: {error}");
                        self.failed = Some(OpenError::new(OpenErrorKind::Missing, context));
                    }
                    (Some(wanted), ArrayDone::Scrubbed(result)) => {
                        self.note(wanted, result.map(|_| Pages::new()));
                    }
                    (None, done) => self.pool.tag_done(tag, done),
                    _ => {}
                }
            }
            if self.failed.is_none()
                && !self.is_waiting()
                && let Err(error) = self.advance()
            {
                self.failed = Some(error);
            }
        }
    }

    fn is_waiting(&self) -> bool {
        let is_labelling = self.pool.is_labelling() && !self.pool.is_suspended();
        let is_held = self.stage != OpeningStage::Hold || self.pool.is_held();
        !self.reading.is_empty() || is_labelling || !is_held
    }

    fn note(&mut self, wanted: Wanted, result: Result<Pages, vdev::ArrayError>) {
        match (wanted, result) {
            (_, Ok(data)) => drop(self.got.insert(wanted, data)),
            // No record lies there, or the block was never completed: the replay judges that.
            // `Checksum` proves it, since the array reports it only if enough of the leaves that
            // would hold the data answered. Any other error may hide the only copy of acknowledged
            // data. Then this is not the end of the log: the end cannot be told.
            (Wanted::Record | Wanted::Mark | Wanted::Block(_), Err(error))
                if error.kind == ArrayErrorKind::Checksum => {}
            (Wanted::Record | Wanted::Mark | Wanted::Block(_), Err(error)) => {
                self.failed = self.end_is_untold(Self::untold_end(&error));
            }
            (Wanted::Search(run), Err(error)) => self.search_again(run, &error),
            // The error is reported where the data is used.
            (Wanted::Proof, Err(_)) => {}
            // A torn copy promised nothing. If its group was promised all the same, the proofs of
            // durability show the damage. A copy that cannot be read may be the only place of
            // promised data.
            (Wanted::Copy | Wanted::Inline(_), Err(error)) => {
                if error.kind != ArrayErrorKind::Checksum {
                    self.failed = Some(copies::unreadable(&error.to_string()));
                }
            }
            (
                Wanted::Copies {
                    vdev,
                    sector,
                    count,
                    ..
                },
                Err(_),
            ) => {
                self.copies_unread(vdev, sector, count);
            }
            (_, Err(error)) => {
                let context = format!("{} cannot be read: {error}", wanted.name());
                self.failed = Some(OpenError::damaged(context));
            }
        }
    }

    fn untold_end(error: &vdev::ArrayError) -> OpenError {
        let kind = match error.kind {
            ArrayErrorKind::Unavailable => OpenErrorKind::Missing,
            _ => OpenErrorKind::Damaged,
        };
        let context = format!(
            "the end of the log is unknown: {error}, and too few devices can be read to know whether \
             acknowledged writes follow. Attach the missing devices"
        );
        OpenError::new(kind, context)
    }

    /// Continues when every read and write under way has ended, with or without success.
    fn advance(&mut self) -> Result<(), OpenError> {
        match self.stage {
            OpeningStage::Hold => self.read_manifest(),
            OpeningStage::Manifest => self.take_manifest(),
            OpeningStage::Index => self.take_index(),
            OpeningStage::Pages => self.take_pages(),
            OpeningStage::Deferred => self.take_deferred(),
            OpeningStage::Trees => self.begin_copies(),
            OpeningStage::Copies => self.take_copies(),
            OpeningStage::Log => self.take_record(),
            OpeningStage::Mark => self.take_mark(),
            OpeningStage::Verify => self.take_verified(),
            OpeningStage::Restore => self.take_restored(),
            OpeningStage::Search => self.take_search(),
            OpeningStage::Ring(round) => self.flush_ring(round),
            OpeningStage::RingFlush(round) => self.ring_flushed(round),
            OpeningStage::NewMark => self.flush_found(),
            OpeningStage::Flush => self.end(),
            OpeningStage::Labels => self.end_with_labels(),
            OpeningStage::Done => Ok(()),
        }
    }

    fn read_manifest(&mut self) -> Result<(), OpenError> {
        self.stage = OpeningStage::Manifest;
        for (number, pointer) in self.root.manifest.clone().iter().enumerate() {
            self.read(Wanted::Manifest(number), Block::from(pointer));
        }
        Ok(())
    }

    fn take_manifest(&mut self) -> Result<(), OpenError> {
        let blocks = std::mem::take(&mut self.got);
        let bytes: Vec<u8> = blocks.values().flat_map(Pages::to_vec).collect();
        let len = usize::try_from(self.root.manifest_len).unwrap_or(usize::MAX);
        let bytes = bytes
            .get(..len)
            .ok_or_else(|| OpenError::damaged("the manifest is shorter than its root says"))?;
        let manifest = Manifest::understand(bytes)?;
        if manifest.epoch != self.root.epoch.0 {
            return Err(OpenError::damaged(
                "the manifest belongs to another checkpoint",
            ));
        }
        let pool = &mut self.pool;
        let mut catalog = manifest.catalog.clone();
        catalog.set_pool_name(&pool.config().name);
        pool.catalog = Arc::new(catalog);
        let scrub = manifest.scrub.map(|scrub| scrub.state());
        pool.open_scans(manifest.scan, scrub);
        pool.trims.open(&manifest.trims);
        let contents: Result<BTreeMap<_, _>, OpenError> = manifest
            .contents
            .iter()
            .map(|record| {
                let damaged = || {
                    OpenError::damaged(format!(
                        "the manifest names dataset {}, which is not a volume or snapshot",
                        record.id.0
                    ))
                };
                let dataset = pool.catalog.dataset(record.id).ok_or_else(damaged)?;
                let (size, block_size) = dataset.geometry().ok_or_else(damaged)?;
                let tree = record.tree.open().ok_or_else(damaged)?;
                let contents = Contents {
                    map: Map::new(tree),
                    size,
                    block_size,
                    settings: pool.catalog.settings(record.id),
                    attempt: pool.catalog.receiving(record.id).map(|of| of.attempt),
                    dead: record.open_dead().ok_or_else(damaged)?,
                    referenced: Referenced {
                        sectors: record.referenced,
                        blocks: record.blocks,
                        whole: record.whole,
                    },
                };
                Ok((record.id, contents))
            })
            .collect();
        pool.contents = contents?;
        let jobs: Option<VecDeque<Job>> = manifest.jobs.iter().map(open_job).collect();
        pool.open_jobs(jobs.ok_or_else(|| {
            OpenError::damaged("the manifest names an invalid list of blocks to free")
        })?);
        self.begin_index(manifest)
    }
}

fn open_job(record: &JobRecord) -> Option<Job> {
    Some(match record {
        JobRecord::Tree {
            tree,
            after,
            position,
        } => Job::Tree {
            tree: tree.open()?,
            after: Epoch(*after),
            position: *position,
        },
        JobRecord::Dead { list } => Job::Dead(Deadlist::decode(&from_hex(list)?)?),
        JobRecord::Chunks { list } => Job::Chunks(Deadlist::decode(&from_hex(list)?)?),
    })
}

fn array_of(config: &PoolConfig, epoch: Epoch, limits: vdev::Limits) -> Result<Array, OpenError> {
    Array::new(&config.tree, epoch, limits).map_err(|error| {
        OpenError::damaged(format!(
            "the vdevs in the labels do not form a pool: {error}"
        ))
    })
}

/// Makes a pool that knows nothing but its vdevs.
fn empty(
    config: PoolConfig,
    array: Array,
    mut catalog: Catalog,
    epoch: Epoch,
    limits: Limits,
    cache: Arc<Cache>,
) -> Pool {
    catalog.set_pool_name(&config.name);
    let sizes = array.top_levels().map(|top| match top.class {
        Class::Normal => top.sectors,
        // No block is ever placed on a log vdev.
        Class::Log => 0,
    });
    let sizes: Vec<u64> = sizes.collect();
    let mut pool = Pool {
        key: config.key(),
        limits,
        logs: LogVdevs::of_array(&array),
        caches: CacheVdevs::default(),
        disks: Disks::new(array),
        space: Space::new(&sizes),
        node_cache: NodeCache::new(limits.node_bytes),
        charge: MemoryCharge::new(&cache),
        cache,
        published: Arc::default(),
        catalog: Arc::new(catalog),
        contents: BTreeMap::new(),
        epoch,
        background: BackgroundWork::default(),
        unmerged: Unmerged::default(),
        promises: Default::default(),
        time_s: 0,
        commit: Commit::new(Chain::new(0, Address::default(), 0), Start::Found),
        pending: PendingRequests::default(),
        reads: BlockReads::default(),
        stalled: Stalled::default(),
        waiting: VecDeque::new(),
        destroyed: Destroyed::default(),
        config,
        labels: Labels::default(),
        checkpoint: None,
        schedule: Schedule::default(),
        scans: Scans::default(),
        old_devices: OldDevices::default(),
        tending: Tending::new(),
        failures: Default::default(),
        second_copies: SecondCopies::default(),
        records: VecDeque::new(),
        signposts: Signposts::default(),
        trims: Default::default(),
        persisted: Persisted::default(),
        condition: Condition::default(),
        activity: None,
        is_unprotecting: false,
        output: Output::default(),
    };
    pool.use_second_copies();
    pool.keep_for_metadata();
    pool.begin_caches();
    pool
}
