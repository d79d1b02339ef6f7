//! A simulated host, which imports the pool whenever it can and serves requests. It has a clock and
//! cables of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use pages::Pages;
use store::cache::Cache;
use store::catalog::request::{CreateVolume, Destroy, TakeSnapshots};
use store::engine::{
    Answer, Circumstances, Event, LeafLabels, Limits, Opening, Pace, Plan, Pool, PoolConfig,
    Protection, RecordRequest, Refusal, Request, RequestId, Stop, Takeover, examine,
};
use store::format::activity::ACTIVITY_OFFSET;
use store::format::label::{COPIES, LABEL_SIZE};
use store::format::{DatasetId, Who};
use store::vdev::layout::label_offset;
use store::vdev::{self, Class, LeafSpec, TopLevelKind, TopLevelSpec, VdevTree};

use super::Tally;
use super::content::{BLOCKS, Op};
use crate::disk::{DeviceOp, DeviceOutcome, SECTOR_SIZE};
use crate::random::Random;

/// Number of the first leaf.
const FIRST_LEAF: u64 = 100;
/// Request that makes the volume.
const MAKING: RequestId = RequestId(u64::MAX);
const VOLUME: &str = "volume";

/// Purpose of a request to a disk.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Label { disk: usize, copy: usize },
    Record(RecordRequest),
    Io(vdev::IoId),
}

/// Result of an operation: success, with the bytes of a read, or failure. The life of the host that
/// answered comes first; it may have ended since.
pub(super) type Answered = (u64, Op, Result<Option<Vec<u8>>, ()>);

/// Results of a host's work.
#[derive(Default)]
pub(super) struct Brought {
    pub(super) requests: Vec<(usize, DeviceOp, Purpose)>,
    pub(super) answers: Vec<Answered>,
    pub(super) lines: Vec<String>,
    /// Snapshots that the host found, if it has opened the pool.
    pub(super) has_opened: Option<BTreeSet<u64>>,
    pub(super) stopped: Option<String>,
}

enum HostStage {
    Off {
        until_us: u64,
    },
    Making(Box<Pool>),
    /// Labels are read, before the takeover or behind it.
    Labels {
        labels: Vec<LeafLabels>,
        waiting: usize,
        taken: Option<Box<Taken>>,
    },
    Taking {
        takeover: Box<Takeover>,
        disks: Vec<usize>,
    },
    Opening(Box<Opening>),
    Open(Box<Pool>),
}

struct Taken {
    protection: Protection,
    /// Disks that are used.
    disks: Vec<usize>,
}

pub(super) struct SimulatedHost {
    number: usize,
    /// Number of the installation. Clones of one machine share it.
    pub(super) installation: u64,
    /// Number that counts up with every start of the host's program.
    pub(super) life: u64,
    owned: BTreeSet<u64>,
    boot: u128,
    stage: HostStage,
    paused_us: u64,
    /// Rate of the host's clock, in per mille of the true rate; followed by the time by which it is
    /// ahead.
    rate: u64,
    ahead_us: u64,
    /// Disks that the host does not reach.
    pub(super) cut: BTreeSet<usize>,
    inbox: VecDeque<(u64, Purpose, DeviceOutcome)>,
    /// Size of each disk in bytes.
    pub(super) sizes: Vec<u64>,
    leaves: BTreeMap<u32, usize>,
    limits: Limits,
    dataset: DatasetId,
    asked: BTreeMap<u64, Op>,
    next_id: u64,
    /// Number of blocks that the first reads have not returned yet.
    unverified: usize,
    is_exporting: Option<u64>,
    opening: u64,
    brought: Brought,
}

impl fmt::Debug for SimulatedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            HostStage::Off { until_us } => format!("off until {until_us}"),
            HostStage::Making(_) => "making".to_owned(),
            HostStage::Labels { waiting, .. } => format!("waits for {waiting} labels"),
            HostStage::Taking { takeover, .. } => format!("{takeover:?}"),
            HostStage::Opening(opening) => format!("opening: done {}", opening.is_done()),
            HostStage::Open(pool) => format!("open: {:?}", pool.suspended_because()),
        };
        write!(
            f,
            "host {} {stage}, {} unverified, cut {:?}",
            self.number, self.unverified, self.cut
        )
    }
}

impl SimulatedHost {
    pub(super) fn new(number: usize, random: &mut Random) -> Self {
        let limits = Limits {
            checkpoint_us: random.one_of(&[50_000, 400_000, 3_000_000]),
            groups: random.one_of(&[3, 30, 1 << 16]),
            ..Limits::default()
        };
        Self {
            number,
            installation: 1 + number as u64,
            life: 0,
            owned: BTreeSet::new(),
            boot: u128::from(random.within(1..u64::MAX)),
            stage: HostStage::Off {
                until_us: random.within(0..10_000_000),
            },
            paused_us: 0,
            rate: random.within(975..1025),
            ahead_us: random.within(0..1_000_000_000),
            cut: BTreeSet::new(),
            inbox: VecDeque::new(),
            sizes: Vec::new(),
            leaves: BTreeMap::new(),
            limits,
            dataset: DatasetId(0),
            asked: BTreeMap::new(),
            next_id: 0,
            unverified: usize::MAX,
            is_exporting: None,
            opening: 0,
            brought: Brought::default(),
        }
    }

    fn clock(&self, true_us: u64) -> u64 {
        self.ahead_us + true_us * self.rate / 1000
    }

    fn true_us(&self, clock_us: u64) -> u64 {
        (clock_us.saturating_sub(self.ahead_us) * 1000).div_ceil(self.rate)
    }

    fn who(&self) -> Who {
        Who {
            host: format!("machine{}/{:09x}", self.number, self.installation),
            boot: self.boot,
        }
    }

    pub(super) fn create(
        &mut self,
        shape: &[(TopLevelKind, usize)],
        size: u64,
        now_us: u64,
        random: &mut Random,
    ) {
        let mut guids = FIRST_LEAF..;
        let mut top = |(kind, leaves): &(TopLevelKind, usize)| {
            let leaves = guids
                .by_ref()
                .take(*leaves)
                .map(|guid| LeafSpec::new(guid, size));
            TopLevelSpec::new(*kind, Class::Normal, leaves)
        };
        let count: usize = shape.iter().map(|(_, leaves)| leaves).sum();
        let tree = VdevTree {
            top_levels: shape.iter().map(&mut top).collect(),
        };
        let config = PoolConfig::new("tank", 0x6a57, 4711, &self.who().host, tree);
        self.leaves = (0..count as u32)
            .map(|leaf| (leaf, leaf as usize))
            .collect();
        let clock_us = self.clock(now_us);
        let entropy = random.within(1..u64::MAX);
        let pool = Pool::create(
            config,
            entropy,
            1_000,
            self.limits,
            vdev::Limits::default(),
            cache(),
        );
        // A tree of this file always makes a pool.
        let mut pool = pool.unwrap();
        self.opening = random.within(1..u64::MAX);
        let protection = Protection::fresh(self.who(), self.opening, Pace::default());
        pool.protect(protection, true, clock_us);
        pool.tick(clock_us, 1_000);
        self.stage = HostStage::Making(Box::new(pool));
    }

    pub(super) fn reboot(&mut self, random: &mut Random) {
        self.boot = u128::from(random.within(1..u64::MAX));
    }

    /// Ends the host's program at once. The program begins again later.
    pub(super) fn die(&mut self, now_us: u64, back_us: u64) {
        if matches!(self.stage, HostStage::Making(_)) {
            return;
        }
        self.life += 1;
        self.inbox.clear();
        self.asked.clear();
        self.paused_us = now_us;
        self.unverified = usize::MAX;
        self.is_exporting = None;
        self.brought = Brought::default();
        self.stage = HostStage::Off {
            until_us: back_us.max(now_us),
        };
    }

    pub(super) fn pause(&mut self, until_us: u64) {
        if !matches!(self.stage, HostStage::Making(_)) {
            self.paused_us = until_us;
        }
    }

    pub(super) fn is_paused(&self, now_us: u64) -> bool {
        now_us < self.paused_us
    }

    pub(super) fn was_owner(&self, life: u64) -> bool {
        self.owned.contains(&life)
    }

    /// Reports whether the host serves, and has read all blocks once.
    pub(super) fn is_verified(&self) -> bool {
        matches!(self.stage, HostStage::Open(_))
            && self.unverified == 0
            && self.is_exporting.is_none()
    }

    /// Exports the pool in order. Reports whether the host has the pool.
    pub(super) fn export(&mut self, now_us: u64, back_us: u64) -> bool {
        let clock_us = self.clock(now_us);
        let is_ready = !self.is_paused(now_us) && self.is_verified();
        let HostStage::Open(pool) = &mut self.stage else {
            return false;
        };
        if is_ready {
            self.is_exporting = Some(back_us);
            pool.begin_closing(back_us.is_multiple_of(2), clock_us);
        }
        is_ready
    }

    /// Takes an answer of a disk. The host processes it when it is awake.
    pub(super) fn answered(&mut self, life: u64, purpose: Purpose, outcome: DeviceOutcome) {
        if life == self.life {
            self.inbox.push_back((life, purpose, outcome));
        }
    }

    pub(super) fn has_answers(&self, now_us: u64) -> bool {
        !self.inbox.is_empty() && !self.is_paused(now_us)
    }

    /// Returns the time at which the host has something to do, in true time.
    pub(super) fn due_us(&self, now_us: u64) -> Option<u64> {
        let at_us = match &self.stage {
            _ if !self.inbox.is_empty() => Some(now_us),
            HostStage::Off { until_us } => Some(*until_us).filter(|at| *at < u64::MAX),
            HostStage::Making(pool) | HostStage::Open(pool) => {
                pool.deadline_us().map(|at| self.true_us(at))
            }
            HostStage::Labels { .. } => None,
            HostStage::Taking { takeover, .. } => takeover.deadline_us().map(|at| self.true_us(at)),
            HostStage::Opening(opening) => opening.deadline_us().map(|at| self.true_us(at)),
        };
        at_us.map(|at_us| at_us.max(self.paused_us))
    }

    /// Lets the host look at its clock.
    pub(super) fn wake(&mut self, now_us: u64, _random: &mut Random) {
        let clock_us = self.clock(now_us);
        self.take_answers(now_us);
        match &mut self.stage {
            HostStage::Off { until_us } if *until_us <= now_us => self.begin(),
            HostStage::Off { .. } | HostStage::Labels { .. } => {}
            HostStage::Making(pool) | HostStage::Open(pool) => {
                if pool.deadline_us().is_some_and(|at| at <= clock_us) {
                    pool.tick(clock_us, 1_000);
                }
            }
            HostStage::Taking { takeover, .. } => takeover.tick(clock_us),
            HostStage::Opening(opening) => opening.tick(clock_us, 1_000),
        }
    }

    pub(super) fn take_answers(&mut self, now_us: u64) {
        if self.is_paused(now_us) {
            return;
        }
        let clock_us = self.clock(now_us);
        while let Some((life, purpose, outcome)) = self.inbox.pop_front() {
            if life == self.life {
                self.take(purpose, outcome, clock_us);
            }
        }
    }

    fn take(&mut self, purpose: Purpose, outcome: DeviceOutcome, clock_us: u64) {
        match (&mut self.stage, purpose) {
            (
                HostStage::Labels {
                    labels, waiting, ..
                },
                Purpose::Label { disk, copy },
            ) => {
                *waiting -= 1;
                labels[disk].copies[copy] = outcome.unwrap_or_default();
            }
            (HostStage::Taking { takeover, .. }, Purpose::Record(request)) => {
                takeover.completed(&request, outcome.as_ref().ok(), clock_us);
            }
            (HostStage::Opening(opening), Purpose::Io(io)) => {
                opening.completed(io, outcome, clock_us)
            }
            (HostStage::Making(pool) | HostStage::Open(pool), Purpose::Io(io)) => {
                pool.completed(io, outcome, clock_us);
            }
            _ => {}
        }
    }

    /// Begins to import.
    fn begin(&mut self) {
        self.life += 1;
        self.read_labels(None);
    }

    fn read_labels(&mut self, taken: Option<Box<Taken>>) {
        let mut labels = Vec::new();
        let mut waiting = 0;
        for (disk, size) in self.sizes.iter().enumerate() {
            for copy in 0..COPIES {
                // Disks here are large enough.
                let offset = label_offset(copy, *size).unwrap();
                let len = LABEL_SIZE as u32;
                let copy = copy as usize;
                let purpose = Purpose::Label { disk, copy };
                self.brought
                    .requests
                    .push((disk, DeviceOp::Read { offset, len }, purpose));
                waiting += 1;
            }
            labels.push(LeafLabels {
                size: *size,
                ..LeafLabels::default()
            });
        }
        self.stage = HostStage::Labels {
            labels,
            waiting,
            taken,
        };
    }

    fn fail(&mut self, now_us: u64, why: &str, random: &mut Random) {
        self.brought.lines.push(format!("gives up: {why}"));
        let until_us = now_us + random.within(200_000..15_000_000);
        let paused_us = self.paused_us;
        let (requests, lines) = (
            std::mem::take(&mut self.brought.requests),
            std::mem::take(&mut self.brought.lines),
        );
        self.die(now_us, until_us);
        drop(requests);
        self.brought.lines = lines;
        self.paused_us = paused_us;
    }

    /// Goes on from stage to stage.
    pub(super) fn go_on(&mut self, now_us: u64, random: &mut Random, tally: &mut Tally) -> Brought {
        let clock_us = self.clock(now_us);
        loop {
            let goes_on = match &mut self.stage {
                HostStage::Off { .. } => false,
                HostStage::Making(_) => self.make(clock_us),
                HostStage::Labels { waiting: 0, .. } => self.examine(now_us, random, tally),
                HostStage::Labels { .. } => false,
                HostStage::Taking { .. } => self.take_over(now_us, random, tally),
                HostStage::Opening(_) => self.follow(now_us, random, tally),
                HostStage::Open(_) => self.serve(now_us, random, tally),
            };
            if !goes_on {
                return std::mem::take(&mut self.brought);
            }
        }
    }

    fn make(&mut self, clock_us: u64) -> bool {
        let HostStage::Making(pool) = &mut self.stage else {
            return false;
        };
        let output = pool.take_output();
        let mut is_made = false;
        for event in &output.events {
            if matches!(event, Event::Checkpoint { .. }) && pool.catalog().find(VOLUME).is_err() {
                let request = CreateVolume {
                    name: VOLUME.to_owned(),
                    size: BLOCKS * 4096,
                    block_size: 4096,
                    ..CreateVolume::default()
                };
                let plan: Plan =
                    Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
                pool.administer(MAKING, plan, 7, clock_us);
            }
        }
        for (id, result) in &output.answers {
            is_made |= *id == MAKING && result.is_ok();
        }
        self.pass_on(output.requests);
        if is_made {
            self.become_open();
        }
        is_made
    }

    fn become_open(&mut self) {
        let stage = std::mem::replace(&mut self.stage, HostStage::Off { until_us: u64::MAX });
        let mut snapshots = BTreeSet::new();
        if let HostStage::Making(pool) | HostStage::Open(pool) = stage {
            let names = pool.catalog().datasets().map(|of| of.name.as_str());
            snapshots.extend(names.filter_map(|name| name.parse::<u64>().ok()));
            let found = pool.catalog().find(VOLUME);
            self.dataset = found.map_or(DatasetId(0), |found| found.id);
            self.stage = HostStage::Open(pool);
        }
        self.owned.insert(self.life);
        self.brought.has_opened = Some(snapshots);
        self.brought.lines.push("has opened the pool".to_owned());
    }

    fn pass_on(&mut self, requests: Vec<vdev::DeviceRequest>) {
        for request in requests {
            // Leaves here never change.
            let disk = self.leaves[&request.leaf.0];
            let purpose = Purpose::Io(request.io);
            self.brought.requests.push((disk, request.op, purpose));
        }
    }

    fn examine(&mut self, now_us: u64, random: &mut Random, tally: &mut Tally) -> bool {
        let stage = std::mem::replace(&mut self.stage, HostStage::Off { until_us: u64::MAX });
        let HostStage::Labels {
            mut labels, taken, ..
        } = stage
        else {
            return false;
        };
        let clock_us = self.clock(now_us);
        if let Some(taken) = &taken {
            for (disk, of_disk) in labels.iter_mut().enumerate() {
                if !taken.disks.contains(&disk) {
                    of_disk.copies = Default::default();
                }
            }
        }
        let mut examined = match examine(&labels, None) {
            Ok(examined) if examined.unaccounted.is_empty() || examined.config.is_exported => {
                examined
            }
            Ok(_) => {
                tally.failed += 1;
                self.fail(now_us, "disks are away that may have newer changes", random);
                return false;
            }
            Err(error) => {
                tally.failed += 1;
                self.fail(now_us, &error.to_string(), random);
                return false;
            }
        };
        let Some(taken) = taken else {
            let there = examined.leaves.iter().enumerate();
            let there = there.filter_map(|(disk, guid)| Some((disk, (*guid)?)));
            let (disks, guids): (Vec<usize>, Vec<u64>) = there.unzip();
            self.opening = random.within(1..u64::MAX);
            let of = Circumstances {
                key: examined.config.key(),
                who: self.who(),
                opening: self.opening,
                chance: random.within(0..u64::MAX),
                pace: Pace::default(),
                is_exported: examined.config.is_exported,
                host: examined.config.host.clone(),
                is_read_only: false,
            };
            let takeover = Box::new(Takeover::new(of, &guids, clock_us));
            self.stage = HostStage::Taking { takeover, disks };
            return true;
        };
        examined.protection = Some(taken.protection);
        let root = examined.roots[0].clone();
        let opening = Opening::new(
            &examined,
            &root,
            self.limits,
            vdev::Limits::default(),
            cache(),
            clock_us,
        );
        match opening {
            Ok(opening) => {
                let leaves = examined.leaves.iter().enumerate();
                let leaf =
                    |(disk, guid): (usize, &Option<u64>)| Some((opening.leaf((*guid)?)?.0, disk));
                self.leaves = leaves.filter_map(leaf).collect();
                // Disks that are away are asked as well.
                for (disk, _) in self.sizes.iter().enumerate() {
                    if let Some(leaf) = opening.leaf(FIRST_LEAF + disk as u64) {
                        self.leaves.entry(leaf.0).or_insert(disk);
                    }
                }
                self.stage = HostStage::Opening(Box::new(opening));
                true
            }
            Err(error) => {
                tally.failed += 1;
                self.fail(now_us, &error.to_string(), random);
                false
            }
        }
    }

    fn take_over(&mut self, now_us: u64, random: &mut Random, tally: &mut Tally) -> bool {
        let HostStage::Taking { takeover, disks } = &mut self.stage else {
            return false;
        };
        for request in takeover.take_requests() {
            let disk = disks[request.device];
            // Disks here are large enough.
            let offset = label_offset(request.copy as u64, self.sizes[disk]).unwrap()
                + ACTIVITY_OFFSET as u64;
            let op = match request.write.clone() {
                Some(data) => DeviceOp::Write {
                    offset,
                    data,
                    durable: false,
                },
                None => DeviceOp::Read {
                    offset,
                    len: SECTOR_SIZE as u32,
                },
            };
            self.brought
                .requests
                .push((disk, op, Purpose::Record(request)));
        }
        match takeover.outcome().cloned() {
            None => false,
            Some(Ok(taken)) => {
                let used = disks.iter().enumerate();
                let used = used.filter(|(place, _)| !taken.left_out.contains(place));
                let disks: Vec<usize> = used.map(|(_, disk)| *disk).collect();
                // The pool is not imported read-only.
                let protection = taken.protection.unwrap();
                self.read_labels(Some(Box::new(Taken { protection, disks })));
                true
            }
            Some(Err(refusal)) => {
                match refusal {
                    Refusal::Active(_) => tally.active += 1,
                    Refusal::Contested(_) => tally.contested += 1,
                    Refusal::Slow | Refusal::NoDevice => tally.failed += 1,
                }
                self.fail(now_us, &refusal.to_string(), random);
                false
            }
        }
    }

    fn follow(&mut self, now_us: u64, random: &mut Random, tally: &mut Tally) -> bool {
        let HostStage::Opening(opening) = &mut self.stage else {
            return false;
        };
        let requests = opening.take_requests();
        let is_done = opening.is_done();
        self.pass_on(requests);
        if !is_done {
            return false;
        }
        let stage = std::mem::replace(&mut self.stage, HostStage::Off { until_us: u64::MAX });
        let HostStage::Opening(opening) = stage else {
            return false;
        };
        match opening.finish() {
            Ok(mut pool) => {
                let who = self.who();
                tally.takeovers +=
                    u64::from(pool.config().host != who.host && !pool.config().is_exported);
                pool.claim(&who.host, self.clock(now_us));
                self.stage = HostStage::Open(Box::new(pool));
                self.become_open();
                true
            }
            Err(error) => {
                tally.failed += 1;
                self.fail(now_us, &error.to_string(), random);
                false
            }
        }
    }

    fn serve(&mut self, now_us: u64, random: &mut Random, tally: &mut Tally) -> bool {
        let HostStage::Open(pool) = &mut self.stage else {
            return false;
        };
        let output = pool.take_output();
        let stopped = pool.stopped().cloned();
        let suspended = pool.suspended_because().map(str::to_owned);
        let is_let_go = self.is_exporting.filter(|_| pool.is_settled());
        self.pass_on(output.requests);
        for (id, result) in output.answers {
            let Some(op) = self.asked.remove(&id.0) else {
                continue;
            };
            self.unverified -= usize::from(matches!(op, Op::Verify { .. }) && result.is_ok());
            let outcome = match result {
                Ok(Answer::Data(data)) => Ok(Some(data.to_vec())),
                Ok(_) => Ok(None),
                Err(_) => Err(()),
            };
            self.brought.answers.push((self.life, op, outcome));
        }
        if let Some(stop) = stopped {
            match stop {
                Stop::Silent(_) => tally.silent += 1,
                Stop::Other(_) | Stop::Reserved(_) => tally.foreign += 1,
            }
            let why = suspended.unwrap_or_default();
            let answers = std::mem::take(&mut self.brought.answers);
            self.fail(now_us, &why, random);
            self.brought.answers = answers;
            self.brought.stopped = Some(why);
        } else if let Some(why) = suspended {
            let brought = std::mem::take(&mut self.brought);
            self.fail(now_us, &why, random);
            self.brought.answers = brought.answers;
            self.brought.lines.extend(brought.lines);
        } else if let Some(back_us) = is_let_go {
            let brought = std::mem::take(&mut self.brought);
            self.die(now_us, back_us);
            self.brought = brought;
            self.brought.lines.push("has let the pool go".to_owned());
        }
        false
    }

    /// Reads all blocks.
    pub(super) fn verify(&mut self, blocks: impl Iterator<Item = u64>, now_us: u64) {
        let ops: Vec<Op> = blocks.map(|block| Op::Verify { block }).collect();
        self.unverified = ops.len();
        self.ask(ops, now_us);
    }

    pub(super) fn ask(&mut self, ops: Vec<Op>, now_us: u64) {
        let clock_us = self.clock(now_us);
        let dataset = self.dataset;
        let HostStage::Open(pool) = &mut self.stage else {
            return;
        };
        for op in ops {
            if self
                .asked
                .values()
                .any(|other| other.object() == op.object())
            {
                continue;
            }
            self.next_id += 1;
            self.asked.insert(self.next_id, op);
            let request = match op {
                Op::Write { block, value } => {
                    let mut bytes = vec![0; 4096];
                    bytes[..8].copy_from_slice(&value.to_le_bytes());
                    // Noise does not pack.
                    let mut noise = Random::new(value);
                    bytes[8..]
                        .iter_mut()
                        .for_each(|byte| *byte = noise.within(0..256) as u8);
                    Request::Write {
                        dataset,
                        offset: block * 4096,
                        data: Pages::from_bytes(&bytes),
                        durable: true,
                    }
                }
                Op::Read { block } | Op::Verify { block } => Request::Read {
                    dataset,
                    offset: block * 4096,
                    len: 4096,
                },
                Op::Snapshot { .. } | Op::Destroy { .. } => {
                    pool.administer(RequestId(self.next_id), verb(op), 7, clock_us);
                    continue;
                }
            };
            pool.submit(RequestId(self.next_id), request, clock_us);
        }
    }
}

/// Returns the plan of an administrator's request.
fn verb(op: Op) -> Plan {
    let names = vec![format!("{VOLUME}@{}", op.object() - BLOCKS)];
    if let Op::Destroy { .. } = op {
        let request = Destroy {
            names,
            ..Destroy::default()
        };
        return Box::new(move |catalog, _| catalog.plan_destroy(&request));
    }
    let request = TakeSnapshots {
        names,
        ..TakeSnapshots::default()
    };
    Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp))
}

fn cache() -> Arc<Cache> {
    Arc::new(Cache::new(1 << 20, 7))
}
