//! Opening a pool: from its labels to the state that it had.
//!
//! Labels say what the pool is made of, and hold roots of its last checkpoints; at least two equal
//! copies make a root, since one alone may have been written or read in the wrong place. From the
//! newest the manifest is read, from there the space map, and then the log is followed to its end
//! ([`crate::log::replay`]). A crash meanwhile changes nothing.
//!
//! What was found may lie in caches of devices only (the program was killed, they kept their power),
//! and on one leaf of a mirror only. Before it counts, each group that is not known to have been durable is
//! brought onto all its leaves. The end that was found is marked ([`mark`]): a record that could not be
//! read there, or whose group is not whole, must not be found by the next opening. Before anybody sees what was found, and
//! before anything is written that builds on it, all leaves are flushed: what one opening found, the next one finds, and
//! not more. Nothing else is written.

mod behind;
mod configurations;
mod copies;
mod labels;
mod mark;
mod parted;
mod proven;
mod rebuild;
pub mod reguid;
mod replay;
mod rewind;
mod ring;
mod roots;
mod search;
mod sizes;
mod space;
mod twins;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use pages::Pages;

use super::Output;
use super::anew::Start;
use super::cache_vdevs::CacheVdevs;
use super::commit::Commit;
use super::config::PoolConfig;
use super::features::Feature;
use super::log_vdevs::LogVdevs;
use super::manifest::{Job, JobRecord, Manifest, Persisted, from_hex};
use super::read::BlockReads;
use super::signpost::Signposts;
use super::state::{Contents, Limits, Pool, Referenced};
use super::unmerged::Unmerged;
use crate::cache::{Cache, Charge};
use crate::catalog::Catalog;
use crate::format::{Address, Epoch, Pointer, Root};
use crate::log::chain::Chain;
use crate::map::{Map, NodeCache};
use crate::snapshot::deadlist::Deadlist;
use crate::space::{Purpose, Space};
use crate::vdev::{
    self, Array, ArrayDone, ArrayErrorKind, Block, Class, DeviceOutcome, DeviceRequest, IoId,
    LeafId, Priority,
};

pub use behind::Behind;
pub(super) use behind::Claim;
pub use labels::{Candidate, Examined, LeafLabels, MissingLog, examine, torn_identity, twins};
pub use rebuild::{NewLabels, Rebuild, Trace, trace_places};
pub use rewind::{Back, Rewound};
pub use sizes::{Short, front_labels, rear_labels};
pub use twins::{Standing, Twin, Twins};

/// The kind of an [`OpenError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpenErrorKind {
    /// No label of a pool was found.
    NoPool,
    /// Too many leaves are missing.
    Missing,
    /// What must be there is damaged.
    Damaged,
    /// The log is damaged: groups that were durable are missing in it.
    LogDamaged,
    /// A log vdev is away, and durable writes may be there and nowhere else.
    LogMissing,
    /// Another version of the program wrote it.
    Version,
    /// Another version of the program wrote it; this one may read it.
    ReadOnlyVersion,
    /// Its leaves went on without each other.
    Parted,
    /// A leaf holds an old copy, and no others make up for it.
    Old,
    /// Another host has it, or may have it.
    InUse,
    /// Devices share an identity: one is a copy of the other.
    Twins,
    /// The power failed while the pool got another identity (`open/reguid.rs`).
    Reguid,
}

/// Why a pool cannot be opened. Nothing was changed.
#[derive(Clone, Debug)]
pub struct OpenError {
    /// The step to take.
    pub kind: OpenErrorKind,
    /// What was wrong.
    pub context: String,
}

impl OpenError {
    /// An error.
    pub fn new(kind: OpenErrorKind, context: impl Into<String>) -> Self {
        let context = context.into();
        Self { kind, context }
    }

    /// A newer program wrote this.
    fn later(what: &str, version: u16) -> Self {
        let context = format!(
            "{what} of the pool was written by a newer version of the program, in format {version}; this one knows \
             formats up to {}. Nothing was changed; open it with the newer one",
            crate::format::NEWEST
        );
        Self::new(OpenErrorKind::Version, context)
    }

    fn damaged(context: impl Into<String>) -> Self {
        Self::new(OpenErrorKind::Damaged, context)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for OpenError {}

/// A pool being opened: reads what it asks for, then becomes a [`Pool`].
#[derive(Debug)]
pub struct Opening {
    pool: Box<Pool>,
    root: Root,
    ring: ring::Ring,
    stage: Stage,
    /// What is being read, by tag: what it is.
    reading: HashMap<u64, Wanted>,
    /// What was read.
    got: BTreeMap<Wanted, Pages>,
    manifest: Option<Manifest>,
    replay: replay::State,
    search: search::Search,
    copies: copies::Copies,
    proven: proven::Proven,
    /// Whether the root must prove itself by the trees that it leads to.
    is_lone: bool,
    /// What may be given up; `None`: nothing.
    rewind: Option<rewind::Rewind>,
    failed: Option<OpenError>,
}

/// What is read.
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
    /// The topmost node of a volume or snapshot.
    Tree(usize),
    /// Sectors of a leaf of a log vdev.
    Copies {
        leaf: LeafId,
        vdev: u16,
        sector: u64,
        count: u64,
    },
    Record,
    /// The record of a group, from its copy; and one of its blocks.
    Copy,
    Inline(usize),
    /// The write of a group into the chain, whose copy was found.
    Restored,
    /// What is not needed any more: a write or flush of a log vdev.
    Wiped,
    Operation,
    /// All copies of what is known to have been durable.
    Proof,
    Block(usize),
    Search(search::Run),
    Ring,
    /// A mark where something else fits as well; and the write of one.
    Mark,
    NewMark,
    /// The write of a signpost that may not be there.
    Signpost,
    Flush,
}

impl Wanted {
    /// What whoever has to decide what to do would call it.
    fn name(self) -> &'static str {
        match self {
            Self::Manifest(_) => "the manifest of the newest checkpoint",
            Self::Index { .. } | Self::Page { .. } => "the space map",
            Self::Tree(_) => "the map of a volume",
            Self::Chunk => "the list of what the newest checkpoint dropped",
            Self::Copies { .. } | Self::Copy | Self::Inline(_) => "a log vdev",
            Self::Record
            | Self::Mark
            | Self::Operation
            | Self::Proof
            | Self::Block(_)
            | Self::Search(_) => "the log",
            Self::Ring => "the root of the newest checkpoint",
            Self::Restored | Self::Wiped | Self::NewMark | Self::Signpost | Self::Flush => {
                "what the log says"
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is done before the labels say whose the pool is.
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
    /// A new pool on an array of vdevs that nothing else uses. It exists when its first checkpoint is
    /// durable ([`super::Event::Checkpoint`]).
    ///
    /// # Errors
    /// The vdevs are none.
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
        let tree = pool.array.tree();
        if tree.top_levels.iter().any(|top| top.inner_labels.is_some()) {
            pool.config.features.require(Feature::InnerLabels);
        }
        pool.keep_inner_labels();
        // There are no labels yet that somebody could read without them.
        pool.want_second_copies();
        pool.use_second_copies();
        pool.heed_autotrim();
        pool.is_config_new = true;
        pool.is_checkpoint_wanted = true;
        let Some((next, extent)) = pool.place_record() else {
            let context = "the devices have no room for a pool";
            return Err(OpenError::new(OpenErrorKind::Missing, context));
        };
        pool.records.push_back((1, extent));
        pool.commit = Commit::new(Chain::new(0, next, 0), Start::Reached);
        Ok(pool)
    }
}

impl Opening {
    /// Begins to open the pool that was found in labels, at one of its roots.
    ///
    /// # Errors
    /// The vdevs are none, a log vdev is away that may be the only place of durable writes, or a leaf that others were
    /// being rebuilt from.
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
            replay: replay::State::new(pool.key, &root.root),
            pool: Box::new(pool),
            root: root.root.clone(),
            ring: examined.ring.clone(),
            stage: Stage::Hold,
            reading: HashMap::new(),
            got: BTreeMap::new(),
            manifest: None,
            search: search::Search::default(),
            copies: copies::Copies::default(),
            proven: proven::Proven::default(),
            is_lone: examined.is_lone_label,
            rewind: None,
            failed: None,
        };
        opening.pool.is_config_new = examined.is_config_new;
        opening.pool.note_short(&examined.short);
        let behind = examined.behind.iter();
        opening.pool.behind = behind.map(|of| (of.leaf, of.clone())).collect();
        opening.pool.now_us = now_us;
        opening.pool.last_checkpoint_us = now_us;
        opening.pool.rest.note_change(now_us);
        if let Some(protection) = &examined.protection {
            opening.pool.hold(protection.clone());
        }
        opening.go_on();
        Ok(opening)
    }

    /// What the devices have to do.
    pub fn take_requests(&mut self) -> Vec<DeviceRequest> {
        let pool = &mut self.pool;
        pool.array.release(pool.now_us, &mut pool.array_output);
        let requests = std::mem::take(&mut pool.array_output.requests);
        match self.is_owned() {
            true => requests,
            false => Vec::new(),
        }
    }

    /// Whether the pool is still this host's; else the opening is over.
    fn is_owned(&mut self) -> bool {
        if !self.pool.is_owned() {
            let reason = self.pool.suspended.clone().unwrap_or_default();
            self.failed = Some(OpenError::new(OpenErrorKind::InUse, reason));
        }
        self.pool.stopped.is_none()
    }

    /// A device answered.
    pub fn completed(&mut self, io: IoId, outcome: DeviceOutcome, now_us: u64) {
        self.pool.now_us = now_us;
        self.pool.heed_reservation(&outcome);
        if !self.is_owned() {
            return;
        }
        let pool = &mut self.pool;
        pool.array
            .completed(io, outcome, now_us, &mut pool.array_output);
        self.go_on();
    }

    /// Time has passed.
    pub fn tick(&mut self, now_us: u64, time_s: u64) {
        self.pool.now_us = now_us;
        self.pool.time_s = time_s;
        if !self.is_owned() {
            return;
        }
        let pool = &mut self.pool;
        pool.array.tick(now_us, &mut pool.array_output);
        pool.activity_go_on();
        self.go_on();
    }

    /// When [`Opening::tick`] must be called at the latest.
    pub fn deadline_us(&self) -> Option<u64> {
        let activity = self.pool.activity_due_us();
        self.pool
            .array
            .deadline_us()
            .into_iter()
            .chain(activity)
            .min()
    }

    /// Which device a leaf's guid is in this array.
    pub fn leaf(&self, guid: u64) -> Option<vdev::LeafId> {
        self.pool.leaf(guid)
    }

    /// Whether it is done, well or not.
    pub fn is_done(&self) -> bool {
        self.failed.is_some() || self.stage == Stage::Done
    }

    /// The pool.
    ///
    /// # Errors
    /// What was wrong; also where it is not done yet.
    pub fn finish(self) -> Result<Pool, OpenError> {
        match self.failed {
            Some(error) => Err(self.pool.named_short(error)),
            None if self.stage == Stage::Done => {
                let mut pool = self.pool;
                pool.heed_autotrim();
                Ok(*pool)
            }
            None => Err(OpenError::damaged("the pool is not open yet")),
        }
    }

    fn note_tag(&mut self, wanted: Wanted) -> u64 {
        self.pool.next_tag += 1;
        self.reading.insert(self.pool.next_tag, wanted);
        self.pool.next_tag
    }

    fn read(&mut self, wanted: Wanted, block: Block) {
        let tag = self.note_tag(wanted);
        let pool = &mut self.pool;
        let (now, out) = (pool.now_us, &mut pool.array_output);
        pool.array.read(tag, block, Priority::SyncRead, now, out);
    }

    fn go_on(&mut self) {
        loop {
            let done = std::mem::take(&mut self.pool.array_output.done);
            if done.is_empty() && (self.is_done() || self.is_waiting()) {
                return;
            }
            for (tag, done) in done {
                let wanted = self.reading.remove(&tag);
                match (wanted, done) {
                    (Some(wanted), ArrayDone::Read(result)) => self.note(wanted, result),
                    (Some(Wanted::Restored), ArrayDone::Written(Err(error))) => {
                        let context = format!("what a log vdev had cannot be written: {error}");
                        self.failed = Some(OpenError::new(OpenErrorKind::Missing, context));
                    }
                    (Some(Wanted::NewMark), ArrayDone::Written(_)) => self.go_on_behind_mark(),
                    (Some(Wanted::Flush), ArrayDone::Flushed(Err(error))) => {
                        let context = format!("what was found cannot be made durable: {error}");
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
        let is_labelling = self.pool.renewal.is_some() && self.pool.suspended.is_none();
        let is_held = self.stage != Stage::Hold || self.pool.is_held();
        !self.reading.is_empty() || is_labelling || !is_held
    }

    fn note(&mut self, wanted: Wanted, result: Result<Pages, vdev::ArrayError>) {
        match (wanted, result) {
            (_, Ok(data)) => drop(self.got.insert(wanted, data)),
            // No record there, or a block that never came to be: that is for the replay to judge. It is known
            // only where enough leaves answered that would have it (the array's `Checksum`). Otherwise the
            // only copy of what was acknowledged may be the one that nobody can read now, so this is not the
            // end of the log but a log whose end cannot be told.
            (Wanted::Record | Wanted::Mark | Wanted::Block(_), Err(error))
                if error.kind == ArrayErrorKind::Checksum => {}
            (Wanted::Record | Wanted::Mark | Wanted::Block(_), Err(error)) => {
                self.failed = self.end_is_untold(Self::untold_end(&error));
            }
            (Wanted::Search(run), Err(error)) => self.search_again(run, &error),
            // Whoever reads it is told.
            (Wanted::Proof, Err(_)) => {}
            // Of a copy that is torn, nothing was promised; what was proves the damage. One that cannot be read
            // may be the only place of what was promised.
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
            "where the log ends cannot be told: {error}, and the leaves that can be read are too few to know \
             whether something acknowledged lies there. Attach the leaves that are missing"
        );
        OpenError::new(kind, context)
    }

    /// Everything that was asked for is here, or never will be.
    fn advance(&mut self) -> Result<(), OpenError> {
        match self.stage {
            Stage::Hold => self.read_manifest(),
            Stage::Manifest => self.take_manifest(),
            Stage::Index => self.take_index(),
            Stage::Pages => self.take_pages(),
            Stage::Deferred => self.take_deferred(),
            Stage::Trees => self.begin_copies(),
            Stage::Copies => self.take_copies(),
            Stage::Log => self.take_record(),
            Stage::Mark => self.take_mark(),
            Stage::Verify => self.take_verified(),
            Stage::Restore => self.take_restored(),
            Stage::Search => self.take_search(),
            Stage::Ring(round) => self.flush_ring(round),
            Stage::RingFlush(round) => self.ring_flushed(round),
            Stage::NewMark => self.flush_found(),
            Stage::Flush => self.end(),
            Stage::Labels => self.end_with_labels(),
            Stage::Done => Ok(()),
        }
    }

    fn read_manifest(&mut self) -> Result<(), OpenError> {
        self.stage = Stage::Manifest;
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
            return Err(OpenError::damaged("the manifest is another checkpoint's"));
        }
        let pool = &mut self.pool;
        pool.catalog = manifest.catalog.clone();
        pool.catalog.set_pool_name(&pool.config.name);
        pool.ended_scan = manifest.scan;
        pool.waiting_scrub = manifest.scrub.map(|scrub| scrub.state());
        pool.trims.open(&manifest.trims);
        let contents: Result<BTreeMap<_, _>, OpenError> = manifest
            .contents
            .iter()
            .map(|record| {
                let damaged = || OpenError::damaged(format!("dataset {} is none", record.id.0));
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
        pool.jobs = jobs.ok_or_else(|| OpenError::damaged("a list of what to free is none"))?;
        pool.persisted = Persisted {
            epoch: self.root.epoch,
            seq: self.root.seq,
            manifest: self.root.manifest.clone(),
            ..Persisted::default()
        };
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
    Array::new(&config.tree, epoch, limits)
        .map_err(|error| OpenError::damaged(format!("the pool's vdevs make no pool: {error}")))
}

/// A pool of which nothing is known but its vdevs.
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
        // No block ever gets a place there.
        Class::Log => 0,
    });
    let sizes: Vec<u64> = sizes.collect();
    let mut pool = Pool {
        key: config.key(),
        limits,
        logs: LogVdevs::of_array(&array),
        caches: CacheVdevs::default(),
        array,
        space: Space::new(&sizes),
        nodes: NodeCache::new(limits.node_bytes),
        charge: Charge::new(Arc::clone(&cache)),
        charged_us: 0,
        cache,
        catalog,
        contents: BTreeMap::new(),
        epoch,
        now_us: 0,
        worked_us: 0,
        is_work_owed: false,
        updates: 0,
        unmerged: Unmerged::default(),
        reserved: 0,
        has_promised: false,
        time_s: 0,
        commit: Commit::new(Chain::new(0, Address::default(), 0), Start::Found),
        pending: HashMap::default(),
        next_pending: 0,
        reads: BlockReads::default(),
        locks: BTreeMap::new(),
        stalled: VecDeque::new(),
        kept_packed: 0,
        vain_checkpoints: 0,
        waiting: VecDeque::new(),
        lists: None,
        dying: Vec::new(),
        jobs: VecDeque::new(),
        chunks: BTreeMap::new(),
        config,
        is_config_new: false,
        is_export_wanted: false,
        is_closing: false,
        renewal: None,
        checkpoint: None,
        checkpoints: 0,
        scan: None,
        ended_scan: None,
        waiting_scrub: None,
        behind: BTreeMap::new(),
        short: Vec::new(),
        unrebuilt: BTreeSet::new(),
        heard_again: BTreeSet::new(),
        syncs: Vec::new(),
        unsettled: Vec::new(),
        // What is amiss from the start is looked at, too.
        seen_events: 1,
        tended_events: 0,
        leaving_spares: BTreeSet::new(),
        away_spares: BTreeSet::new(),
        failures: Default::default(),
        is_checkpoint_wanted: false,
        may_lie_twice: false,
        written_once: Default::default(),
        last_checkpoint_us: 0,
        rest: super::rest::Rest::default(),
        taken: 0,
        asked_us: None,
        tags: HashMap::default(),
        next_tag: 0,
        records: VecDeque::new(),
        signposts: Signposts::default(),
        trims: Default::default(),
        persisted: Persisted::default(),
        suspended: None,
        is_read_only: false,
        activity: None,
        is_unprotecting: false,
        stopped: None,
        array_output: vdev::Output::default(),
        output: Output::default(),
    };
    pool.use_second_copies();
    pool.keep_for_metadata();
    pool.begin_caches();
    pool
}
