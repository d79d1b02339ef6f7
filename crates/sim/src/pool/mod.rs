//! The store's pool under attack. [`PoolSubject`] connects [`store::engine::Pool`] to the
//! laboratory.
//!
//! | part | module |
//! |---|---|
//! | the pool as a subject: created, opened by its labels, asked | here |
//! | volumes, snapshots and properties | [`administer`] |
//! | labels read from disks | [`labels`] |
//! | vdevs, limits and properties, drawn from seeds | [`setup`] |
//! | disks that come and go | [`reshape`] |
//! | disks that grow | [`growth`] |
//! | readers and writers beside the engine | [`lanes`] |
//! | allocation, figures and copies proven offline | [`proof`] |
//! | durable records of the log, found on disks | [`records`] |
//! | copies of disks beside them, and copies that become a pool of their own | [`twins`] |
//! | families of histories: the attacks, and their strength | [`families`] |
//! | streams that are received while the power fails | [`receive`] |

mod administer;
pub mod families;
mod growth;
mod labels;
mod lanes;
mod proof;
pub mod receive;
mod records;
mod reshape;
pub mod setup;
mod twins;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use pages::Pages;
use store::cache::Cache;
use store::catalog::request::CreateVolume;
use store::catalog::{Catalog, CatalogError, Dataset, Operation as Change, Settings, Stamp};
use store::engine::{Answer as PoolAnswer, Event, Opening, Output, Plan, Pool, PoolError};
use store::engine::{
    PoolConfig, PoolProperties, PoolProperty, Recipe, Request, RequestId, ScanKind, ScanState,
};
use store::format::{DatasetId, PoolKey};
use store::vdev::{DeviceOp, DeviceOutcome, DeviceRequest, IoId, VdevState};

use crate::disk::{Disk, Medium, SLICE_SIZE};
use crate::operation::{BLOCK_SIZE, ChangeKind, Operation, VolumeId};
use crate::random::Random;
use crate::subject::{
    Answer, DiskRequest, Flaw, Geometry, Moves, Outcome, ProvenRecord, Subject, SubjectState,
    UnderWay, VolumeSpec,
};
use growth::Growth;
use labels::Labels;
use lanes::{Bench, Lanes, Wanted};
pub use setup::PoolSetup;

/// Number of the request that makes a volume of the beginning.
const MAKING: RequestId = RequestId(u64::MAX);
/// Numbers of requests whose answers are kept as they are. The laboratory's own numbers lie on both
/// sides.
const ASKED: std::ops::Range<u64> = 1 << 62..1 << 63;
const GUID: u64 = 0x5a_4d57;
/// First letter of the names of snapshots that were taken together.
const GROUP: char = 'g';
/// Host of these pools.
const HOST: &str = "laboratory";

/// A volume or snapshot of the pool.
#[derive(Clone, Debug)]
struct Known {
    dataset: DatasetId,
    name: String,
    blocks: u64,
    /// Size of a block in bytes.
    block_size: u32,
}

/// Stage of a subject.
enum PoolStage {
    /// Labels are read.
    Labels(Labels),
    /// The labels are followed.
    Opening(Box<Opening>),
    /// The subject's volumes are made.
    Making(Making),
    Open(Box<Pool>),
    Refused(String),
}

/// A new pool that is being made.
struct Making {
    pool: Box<Pool>,
    /// Volumes that are still to be made.
    volumes: VecDeque<VolumeSpec>,
    /// Whether the pool's first checkpoint is durable.
    is_there: bool,
    /// Whether the first of the volumes is being made.
    is_asked: bool,
}

/// A pool on simulated disks.
pub struct PoolSubject {
    setup: PoolSetup,
    stage: PoolStage,
    /// Disk of each leaf.
    disks: BTreeMap<u32, usize>,
    /// Disks that are leaves, or were.
    labelled: BTreeSet<usize>,
    known: BTreeMap<VolumeId, Known>,
    requests: Vec<DiskRequest>,
    answers: Vec<Answer>,
    /// Answers that are kept as they are.
    told: BTreeMap<u64, Result<PoolAnswer, PoolError>>,
    plans: u64,
    moves: Moves,
    now_us: u64,
    /// Size of each disk in bytes.
    sizes: Vec<u64>,
    growth: Growth,
    cache: Arc<Cache>,
    /// Readers and writers beside the engine, if there are any.
    lanes: Option<Lanes>,
}

/// Makes a write. Every other write of whole blocks is prepared by the settings that volumes have
/// at first, whatever they are by now. Some of these keep out of the cache.
fn writing(
    (dataset, block_size): (DatasetId, u32),
    offset: u64,
    data: Pages,
    durable: bool,
) -> Request {
    let is_plain = (offset / u64::from(block_size)).is_multiple_of(2);
    let recipe = Recipe::of(&Settings::default(), block_size).filter(|_| !is_plain);
    match recipe.and_then(|recipe| recipe.prepare(offset, &data)) {
        Some(prepared) => Request::WritePrepared {
            dataset,
            offset,
            prepared: match (offset / u64::from(block_size)).is_multiple_of(3) {
                true => prepared.passed(),
                false => prepared,
            },
            durable,
        },
        None => Request::Write {
            dataset,
            offset,
            data,
            durable,
        },
    }
}

impl Subject for PoolSubject {
    type Setup = PoolSetup;

    fn create(setup: &PoolSetup, geometry: &Geometry, now_us: u64) -> Self {
        let size = geometry.disk_sectors * BLOCK_SIZE as u64;
        let config = PoolConfig {
            spares: setup.spare_specs(size),
            properties: setup.pool_properties(),
            ..PoolConfig::new("tank", setup.guid, setup.secret, HOST, setup.tree(size))
        };
        let cache = setup.cache();
        let pool = Pool::create(
            config,
            setup.secret ^ 1,
            time_s(now_us),
            setup.limits,
            setup.vdev_limits,
            Arc::clone(&cache),
        );
        let stage = match pool {
            Ok(pool) => PoolStage::Making(Making {
                pool: Box::new(pool),
                volumes: geometry.volumes.iter().copied().collect(),
                is_there: false,
                is_asked: false,
            }),
            Err(error) => PoolStage::Refused(error.to_string()),
        };
        let mut subject = Self::at(setup, geometry, stage, now_us);
        subject.cache = cache;
        subject.disks = (0..setup.disks() as u32)
            .map(|leaf| (leaf, leaf as usize))
            .collect();
        subject.labelled = (0..setup.disks()).collect();
        if let PoolStage::Making(making) = &mut subject.stage {
            making.pool.tick(now_us, time_s(now_us));
        }
        subject.go_on();
        subject
    }

    fn open(setup: &PoolSetup, geometry: &Geometry, now_us: u64) -> Self {
        let (labels, requests) = Labels::new(geometry);
        let mut subject = Self::at(setup, geometry, PoolStage::Labels(labels), now_us);
        subject.requests = requests;
        subject
    }

    fn state(&self) -> SubjectState {
        match &self.stage {
            PoolStage::Labels(_) | PoolStage::Opening(_) | PoolStage::Making(_) => {
                SubjectState::Opening
            }
            PoolStage::Open(_) => SubjectState::Open,
            PoolStage::Refused(why) => SubjectState::Refused(why.clone()),
        }
    }

    fn volumes(&self) -> Vec<(VolumeId, u64)> {
        let known = self.known.iter();
        known.map(|(id, known)| (*id, known.blocks)).collect()
    }

    fn close(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.with_pool(|pool| pool.begin_closing(true, now_us));
    }

    fn is_closed(&self) -> bool {
        self.pool().is_some_and(Pool::is_settled)
    }

    fn moves(&self) -> Moves {
        self.moves
    }

    fn resized(&mut self, disk: usize, sectors: u64) {
        self.sizes[disk] = sectors * BLOCK_SIZE as u64;
    }

    fn sectors(&self) -> Option<(u64, u64)> {
        let pool = self.pool()?;
        Some((growth::sectors(pool), self.growth.durable))
    }

    fn under_way(&self) -> UnderWay {
        let Some(pool) = self.pool() else {
            return UnderWay::default();
        };
        let scan = pool.scan_state();
        let runs = |kind| scan == Some((kind, ScanState::Running));
        UnderWay {
            resilver: runs(ScanKind::Resilver),
            scrub: runs(ScanKind::Scrub),
            freeing: pool.is_freeing(),
            checkpoint: pool.is_making_checkpoint(),
            growth: self.growth.is_under_way,
        }
    }

    fn losable(&self) -> Vec<(Vec<usize>, usize)> {
        let Some(pool) = self.pool().filter(|pool| pool.is_labelled()) else {
            return Vec::new();
        };
        let tops = pool.status().top_levels.into_iter();
        let groups = tops.filter_map(|top| {
            let leaves: Vec<_> = top.slots.iter().flat_map(|slot| &slot.leaves).collect();
            let is_whole = leaves.len() == top.slots.len()
                && leaves
                    .iter()
                    .all(|leaf| leaf.state == VdevState::Online && !leaf.is_incomplete);
            let disks = leaves
                .iter()
                .map(|leaf| self.disks.get(&leaf.leaf.0).copied());
            let disks: Option<Vec<usize>> = disks.collect();
            let most = top.kind.redundancy(top.slots.len());
            (is_whole && most > 0).then_some((disks?, most))
        });
        groups.collect()
    }

    fn is_lacking(&self) -> bool {
        let Some(pool) = self.pool() else {
            return false;
        };
        let tops = pool.status().top_levels.into_iter();
        let mut leaves = tops.flat_map(|top| top.slots.into_iter().flat_map(|slot| slot.leaves));
        let lacks = leaves.any(|leaf| leaf.state == VdevState::Online && leaf.is_incomplete);
        lacks || !pool.is_labelled()
    }

    fn submit(&mut self, tag: u64, operation: &Operation, data: Pages, now_us: u64) {
        self.now_us = now_us;
        if let PoolStage::Open(pool) = &mut self.stage
            && pool.config().is_exported
        {
            pool.claim(HOST, now_us);
        }
        match operation {
            Operation::Admin(admin) => self.administer(tag, admin),
            operation => self.request(tag, operation, data),
        }
        self.go_on();
    }

    fn completed(&mut self, disk: usize, id: u64, outcome: DeviceOutcome, now_us: u64) {
        self.now_us = now_us;
        match &mut self.stage {
            PoolStage::Labels(labels) => self.requests.extend(labels.take(disk, id, outcome)),
            // The disk may be used again now.
            _ if id >= reshape::WIPING => drop(self.labelled.remove(&disk)),
            _ if id >= lanes::READING => {
                if let Some(lanes) = &mut self.lanes {
                    lanes.completed(id, outcome, now_us);
                }
            }
            PoolStage::Opening(opening) => opening.completed(IoId(id), outcome, now_us),
            PoolStage::Making(Making { pool, .. }) | PoolStage::Open(pool) => {
                pool.completed(IoId(id), outcome, now_us);
            }
            PoolStage::Refused(_) => {}
        }
        self.go_on();
    }

    fn next_tick_us(&self) -> Option<u64> {
        match &self.stage {
            PoolStage::Labels(_) | PoolStage::Refused(_) => None,
            PoolStage::Opening(opening) => opening.deadline_us(),
            PoolStage::Making(Making { pool, .. }) => pool.deadline_us(),
            PoolStage::Open(pool) => {
                let lanes_us = self.lanes.as_ref().and_then(Lanes::next_us);
                pool.deadline_us().into_iter().chain(lanes_us).min()
            }
        }
    }

    fn tick(&mut self, now_us: u64) {
        self.now_us = now_us;
        match &mut self.stage {
            PoolStage::Labels(_) | PoolStage::Refused(_) => {}
            PoolStage::Opening(opening) => opening.tick(now_us, time_s(now_us)),
            PoolStage::Making(Making { pool, .. }) => pool.tick(now_us, time_s(now_us)),
            PoolStage::Open(_) => {
                self.step_lanes();
                if let PoolStage::Open(pool) = &mut self.stage
                    && (self.lanes.is_none() || pool.deadline_us().is_some_and(|at| at <= now_us))
                {
                    pool.tick(now_us, time_s(now_us));
                }
            }
        }
        self.go_on();
    }

    fn take_requests(&mut self, out: &mut Vec<DiskRequest>) {
        out.append(&mut self.requests);
    }

    fn take_answers(&mut self, out: &mut Vec<Answer>) {
        out.append(&mut self.answers);
    }

    fn proven_records(setup: &PoolSetup, disks: &[Medium]) -> Vec<ProvenRecord> {
        let (guid, secret) = (GUID, setup.secret);
        match setup.disks() == setup.shape.len() {
            true => records::proven(PoolKey { guid, secret }, disks),
            false => Vec::new(),
        }
    }

    fn metadata(_: &PoolSetup, disks: &[Medium]) -> Vec<(usize, u64)> {
        records::metadata(disks)
    }

    fn newest_root(setup: &PoolSetup, disks: &[Medium], geometry: &Geometry) -> Vec<(usize, u64)> {
        labels::newest_root(setup, disks, geometry)
    }

    fn marks(setup: &PoolSetup, disks: &[Medium]) -> Vec<(usize, u64)> {
        let (guid, secret) = (GUID, setup.secret);
        records::marks(PoolKey { guid, secret }, disks)
    }

    fn misses_a_record(why: &str) -> bool {
        why.starts_with("the log is damaged: group ")
    }

    fn is_twin(&self, medium: &Medium, sectors: u64) -> Option<bool> {
        let config = self.pool().map(Pool::config);
        config.map_or(Some(false), |config| {
            twins::is_twin(config, medium, sectors)
        })
    }

    fn refuses_twins(why: &str) -> bool {
        why.contains(twins::TOLD)
    }

    fn become_another(
        setup: &PoolSetup,
        copies: &mut [Medium],
        geometry: &Geometry,
        random: &mut Random,
    ) -> Option<Result<(PoolSetup, u64), String>> {
        Some(twins::become_another(setup, copies, geometry, random))
    }

    fn prove(&mut self, disks: &mut [Disk], now_us: u64) -> Vec<Flaw> {
        match &mut self.stage {
            PoolStage::Open(pool) => {
                let mut flaws = growth::check(pool, &self.disks, disks);
                flaws.extend(proof::prove(pool, &self.disks, disks, now_us));
                flaws
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the number of a volume or snapshot, by its name.
fn volume_id(catalog: &Catalog, dataset: &Dataset) -> Option<VolumeId> {
    let number = dataset.name.get(1..)?.parse().ok()?;
    if !dataset.name.starts_with(GROUP) {
        return Some(VolumeId(number));
    }
    let volume = volume_id(catalog, catalog.dataset(dataset.parent)?)?;
    Some(volume.snapshot_of_group(number))
}

/// Returns the wall clock of the simulation.
fn time_s(now_us: u64) -> u64 {
    1_000 + now_us / 1_000_000
}

impl PoolSubject {
    fn at(setup: &PoolSetup, geometry: &Geometry, stage: PoolStage, now_us: u64) -> Self {
        Self {
            setup: setup.clone(),
            stage,
            disks: BTreeMap::new(),
            labelled: BTreeSet::new(),
            known: BTreeMap::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            told: BTreeMap::new(),
            plans: 0,
            moves: Moves::default(),
            now_us,
            sizes: (0..geometry.disks)
                .map(|disk| geometry.sectors(disk) * BLOCK_SIZE as u64)
                .collect(),
            growth: Growth::default(),
            cache: setup.cache(),
            lanes: setup.with_lanes.then(|| Lanes::new(setup.secret ^ now_us)),
        }
    }

    /// Goes from stage to stage, and passes on the results of the pool.
    fn go_on(&mut self) {
        loop {
            let stage = std::mem::replace(&mut self.stage, PoolStage::Refused(String::new()));
            let (stage, goes_on) = match stage {
                PoolStage::Labels(labels) if labels.is_complete() => (self.examine(labels), true),
                PoolStage::Opening(opening) => self.follow(opening),
                PoolStage::Making(making) => self.make(making),
                PoolStage::Open(mut pool) => {
                    self.pass_on(&mut pool);
                    self.wipe_detached(&pool);
                    self.growth.go_on(&pool);
                    (PoolStage::Open(pool), false)
                }
                stage => (stage, false),
            };
            self.stage = stage;
            if !goes_on {
                return;
            }
        }
    }

    fn refused(&self, why: String) -> PoolStage {
        let may_refuse = !self.setup.must_open || Self::refuses_twins(&why);
        assert!(may_refuse, "the pool must open: {why}");
        PoolStage::Refused(why)
    }

    fn examine(&mut self, labels: Labels) -> PoolStage {
        let guid = self.setup.guid;
        let examined = match store::engine::examine(&labels.leaves, Some(guid)) {
            Ok(examined) => examined,
            Err(error) => return self.refused(error.to_string()),
        };
        let setup = &self.setup;
        let (limits, vdev_limits) = (setup.limits, setup.vdev_limits);
        let root = &examined.roots[0];
        match Opening::new(
            &examined,
            root,
            limits,
            vdev_limits,
            Arc::clone(&self.cache),
            self.now_us,
        ) {
            Err(error) => self.refused(error.to_string()),
            Ok(opening) => {
                let used = examined.leaves.iter().enumerate();
                self.labelled = (used.filter(|(_, guid)| guid.is_some()))
                    .map(|(disk, _)| disk)
                    .collect();
                let leaves = examined.leaves.iter().enumerate();
                let leaf =
                    |(disk, guid): (usize, &Option<u64>)| Some((opening.leaf((*guid)?)?.0, disk));
                self.disks = leaves.filter_map(leaf).collect();
                PoolStage::Opening(Box::new(opening))
            }
        }
    }

    fn follow(&mut self, mut opening: Box<Opening>) -> (PoolStage, bool) {
        self.send(opening.take_requests());
        if !opening.is_done() {
            return (PoolStage::Opening(opening), false);
        }
        match opening.finish() {
            Ok(pool) => {
                self.know(&pool);
                (PoolStage::Open(Box::new(pool)), true)
            }
            Err(error) => (self.refused(error.to_string()), false),
        }
    }

    /// Makes the volumes of the beginning, one after the other, when the pool exists.
    fn make(&mut self, mut making: Making) -> (PoolStage, bool) {
        let Output {
            requests,
            answers,
            events,
        } = making.pool.take_output();
        self.send(requests);
        for event in events {
            match event {
                Event::Suspended { reason } => return (PoolStage::Refused(reason), false),
                Event::Checkpoint { .. } => making.is_there = true,
                _ => {}
            }
        }
        for (_, result) in answers {
            if let Err(error) = result {
                return (PoolStage::Refused(error.to_string()), false);
            }
            making.volumes.pop_front();
            making.is_asked = false;
        }
        if !making.is_there || making.is_asked {
            return (PoolStage::Making(making), false);
        }
        let Some(spec) = making.volumes.front().copied() else {
            self.know(&making.pool);
            return (PoolStage::Open(making.pool), true);
        };
        making.is_asked = true;
        let request = self.setup.volume(spec);
        self.plan(&mut making.pool, MAKING, move |catalog, stamp| {
            catalog.plan_create_volume(&request, stamp)
        });
        (PoolStage::Making(making), true)
    }

    fn plan(
        &mut self,
        pool: &mut Pool,
        id: RequestId,
        plan: impl FnOnce(&Catalog, Stamp) -> Result<Change, CatalogError> + Send + 'static,
    ) {
        self.plans += 1;
        let entropy = self.setup.secret.wrapping_mul(self.plans | 1) ^ self.now_us;
        let plan: Plan = Box::new(plan);
        pool.administer(id, plan, entropy, self.now_us);
    }

    fn send(&mut self, requests: Vec<DeviceRequest>) {
        for DeviceRequest { io, leaf, op } in requests {
            let disk = self.disks.get(&leaf.0);
            let disk = *disk.unwrap_or_else(|| panic!("a request for {leaf:?}, which is away"));
            if let DeviceOp::Trim { len, .. } = &op {
                self.moves.trimmed += len / BLOCK_SIZE as u64;
            }
            self.requests.push(DiskRequest { disk, id: io.0, op });
        }
    }

    fn pass_on(&mut self, pool: &mut Pool) {
        let Output {
            requests,
            answers,
            events,
        } = pool.take_output();
        // Events come first: a spare that stands in is asked at once.
        for event in &events {
            if let Event::SpareInUse { leaf, guid } = event
                && let Some(disk) = self.setup.spare_disk(*guid)
            {
                self.moves.takeovers += 1;
                self.disks.insert(leaf.0, disk);
                self.labelled.insert(disk);
            }
        }
        self.send(requests);
        if !answers.is_empty() {
            self.know(pool);
        }
        for (RequestId(tag), result) in answers {
            match ASKED.contains(&tag) {
                true => drop(self.told.insert(tag, result)),
                false => self.answer(tag, result),
            }
        }
        for event in events {
            if let Event::Suspended { reason } = event {
                assert!(!self.setup.never_suspends, "suspended: {reason}");
            }
        }
    }

    /// Returns the pool, if it is open.
    fn pool(&self) -> Option<&Pool> {
        match &self.stage {
            PoolStage::Open(pool) => Some(pool),
            _ => None,
        }
    }

    /// Asks the pool itself, if it is open, with a number of [`ASKED`].
    fn with_pool(&mut self, ask: impl FnOnce(&mut Pool)) {
        if let PoolStage::Open(pool) = &mut self.stage {
            ask(pool);
        }
        self.go_on();
    }

    /// Returns the answer to a number of [`ASKED`].
    fn told(&mut self, tag: u64) -> Option<Result<PoolAnswer, PoolError>> {
        self.told.remove(&tag)
    }

    fn answer(&mut self, tag: u64, result: Result<PoolAnswer, PoolError>) {
        let outcome = match result {
            Ok(PoolAnswer::Data(data)) => Ok(Outcome::Data(data)),
            Ok(PoolAnswer::Extents(runs)) => Ok(Outcome::Extents(runs)),
            Ok(_) => Ok(Outcome::Done),
            Err(error) => Err(error.to_string()),
        };
        self.answers.push(Answer { tag, outcome });
    }

    /// Learns the existing volumes and snapshots.
    fn know(&mut self, pool: &Pool) {
        let catalog = pool.catalog();
        self.known = catalog
            .datasets()
            .filter_map(|dataset| {
                let (size, block_size) = dataset.geometry()?;
                let id = volume_id(catalog, dataset)?;
                let known = Known {
                    dataset: dataset.id,
                    name: catalog.name(dataset.id),
                    blocks: size / BLOCK_SIZE as u64,
                    block_size,
                };
                Some((id, known))
            })
            .collect();
    }

    fn fail(&mut self, tag: u64, why: impl Into<String>) {
        let outcome = Err(why.into());
        self.answers.push(Answer { tag, outcome });
    }

    fn request(&mut self, tag: u64, operation: &Operation, data: Pages) {
        let (Operation::Read { volume, .. }
        | Operation::Extents { volume, .. }
        | Operation::Change { volume, .. }
        | Operation::Flush { volume }) = operation
        else {
            return;
        };
        let Some(known) = self.known.get(volume) else {
            return self.fail(tag, "no such volume");
        };
        let (dataset, block_size) = (known.dataset, known.block_size);
        let size = known.blocks * BLOCK_SIZE as u64;
        let slice = SLICE_SIZE as u64;
        if let Operation::Read { slices, .. } = operation
            && let Some(lanes) = &mut self.lanes
        {
            let (offset, len) = (slices.start * slice, (slices.end - slices.start) * slice);
            let len = len as u32;
            let wanted = Wanted {
                tag,
                dataset,
                block_size,
                offset,
                len,
                size,
            };
            return lanes.read(wanted, self.now_us);
        }
        let request = match operation {
            Operation::Read { slices, .. } => Request::Read {
                dataset,
                offset: slices.start * slice,
                len: ((slices.end - slices.start) * slice) as u32,
            },
            Operation::Extents { slices, .. } => Request::Extents {
                dataset,
                offset: slices.start * slice,
                len: (slices.end - slices.start) * slice,
            },
            Operation::Change {
                slices,
                kind: ChangeKind::Write,
                durable,
                ..
            } => {
                let offset = slices.start * slice;
                match self.lanes {
                    None => writing((dataset, block_size), offset, data, *durable),
                    Some(_) => Request::Write {
                        dataset,
                        offset,
                        data,
                        durable: *durable,
                    },
                }
            }
            Operation::Change {
                slices,
                kind,
                durable,
                ..
            } => {
                let (start, end) = (slices.start * slice, slices.end * slice);
                let is_whole = |at: u64| at.is_multiple_of(block_size.into());
                let (offset, len, durable) = (start, end - start, *durable);
                // If UNMAP covers a block in part, the block may stay unchanged. The model has no
                // word for that.
                match *kind == ChangeKind::Unmap && is_whole(start) && is_whole(end) {
                    true => Request::Unmap {
                        dataset,
                        offset,
                        len,
                        durable,
                    },
                    false => Request::Clear {
                        dataset,
                        offset,
                        len,
                        durable,
                    },
                }
            }
            _ => Request::Flush { dataset },
        };
        let (id, now_us) = (RequestId(tag), self.now_us);
        let PoolStage::Open(pool) = &mut self.stage else {
            return;
        };
        match &mut self.lanes {
            Some(lanes) if matches!(operation, Operation::Change { .. }) => {
                let settings = pool.catalog().settings(dataset);
                lanes.change(id, request, (&settings, block_size), now_us);
            }
            _ => pool.submit(id, request, now_us),
        }
    }

    /// Lets lanes do what is due.
    fn step_lanes(&mut self) {
        if let PoolStage::Open(pool) = &mut self.stage
            && let Some(lanes) = &mut self.lanes
        {
            lanes.step(&mut Bench {
                pool,
                cache: &self.cache,
                disks: &self.disks,
                requests: &mut self.requests,
                answers: &mut self.answers,
                moves: &mut self.moves,
                now_us: self.now_us,
            });
        }
    }

    fn name(&self, volume: VolumeId) -> String {
        let known = self.known.get(&volume);
        known.map_or_else(String::new, |known| known.name.clone())
    }
}

impl PoolSetup {
    fn pool_properties(&self) -> PoolProperties {
        let mut properties = PoolProperties::default();
        if self.autotrim {
            properties.set(PoolProperty::Autotrim, true);
        }
        properties
    }

    fn cache(&self) -> Arc<Cache> {
        Arc::new(Cache::new(self.cache_bytes, self.secret))
    }

    /// Makes the request for a volume of the kind that this setup makes.
    fn volume(&self, spec: VolumeSpec) -> CreateVolume {
        CreateVolume {
            name: self.name_of(spec.id),
            with_parents: self.with_folders,
            size: spec.blocks * BLOCK_SIZE as u64,
            block_size: (spec.unit * BLOCK_SIZE as u64) as u32,
            properties: self.properties(spec.id),
            is_thick: spec.is_thick,
            ..CreateVolume::default()
        }
    }
}
