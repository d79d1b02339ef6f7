//! A pool, its disks and its user.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use pages::{Pages, PagesMut};
use smallvec::SmallVec;

use super::super::*;
use crate::cache::Cache;
use crate::catalog::request::CreateVolume;
use crate::engine::io::read::BlockSource;
use crate::format::{Address, DatasetId, SECTOR_SIZE};
use crate::vdev::{
    self, Class, DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, LeafId,
    LeafSpec, TopLevelKind, TopLevelSpec, VdevTree,
};
use crate::volume::blocks;

/// Bytes of a disk, unless a test says otherwise.
pub(super) const DISK: u64 = 64 << 20;

/// Bytes of the block cache.
const CACHE: usize = 4 << 20;

/// Disk: the sectors that were ever written.
pub(super) type Disk = BTreeMap<u64, Vec<u8>>;

pub(super) struct World {
    pub(super) pool: Pool,
    pub(super) disks: Vec<Disk>,
    /// Disks that are gone.
    pub(super) dead: BTreeSet<usize>,
    /// Disks that cannot trim.
    pub(super) untrimmable: BTreeSet<usize>,
    /// Ranges that disks were told are free: disk, first byte, bytes.
    pub(super) trimmed: Vec<(usize, u64, u64)>,
    /// Disks that take no writes, and answer all other requests.
    pub(super) unwritable: BTreeSet<usize>,
    /// Disks that are missing when the pool is opened.
    pub(super) absent: BTreeSet<usize>,
    /// Sectors that cannot be read when the pool is opened: disk, and sector of it.
    pub(super) unreadable: BTreeSet<(usize, u64)>,
    /// Disks that answer nothing; the next field holds their requests.
    pub(super) stuck: BTreeSet<usize>,
    pub(super) unanswered: Vec<DeviceRequest>,
    /// Whether answers of reads are held back from now on.
    pub(super) holds_reads: bool,
    /// Reads that are held back, each with the bytes that lay there then.
    held: Vec<(DeviceRequest, Pages)>,
    /// Bytes of which scans found no right copy.
    pub(super) unrecoverable: Vec<Span>,
    /// Events of the pool, except checkpoints.
    pub(super) events: Vec<Event>,
    answered: BTreeSet<RequestId>,
    /// Sectors that read as zeros the first time while the pool is opened, except in the runs that
    /// are searched for records.
    pub(super) misread: BTreeSet<(usize, u64)>,
    /// Disk of each leaf of the array.
    pub(super) leaves: HashMap<u32, usize>,
    pub(super) disk_size: u64,
    /// Bytes of the block cache of a pool that is opened.
    pub(super) cache_bytes: usize,
    /// Sizes of disks that have another size.
    pub(super) disk_sizes: BTreeMap<usize, u64>,
    /// Requests that the disks have not done yet.
    asked: VecDeque<DeviceRequest>,
    /// Whether each request is waited for only until it is answered, so that checkpoints are made
    /// meanwhile.
    pub(super) is_lazy: bool,
    pub(super) limits: Limits,
    pub(super) now_us: u64,
    next_id: u64,
}

fn vdev_limits() -> vdev::Limits {
    vdev::Limits::default()
}

fn cache(bytes: usize) -> Arc<Cache> {
    Arc::new(Cache::new(bytes, 7))
}

pub(super) fn read(disk: &Disk, offset: u64, len: usize) -> Pages {
    let mut buffer = PagesMut::allocate(len);
    for at in (0..len).step_by(SECTOR_SIZE) {
        match disk.get(&((offset + at as u64) / SECTOR_SIZE as u64)) {
            Some(sector) => buffer.copy_from(at, sector),
            None => buffer.zero(at, SECTOR_SIZE),
        }
    }
    buffer.freeze()
}

pub(super) fn write(disk: &mut Disk, offset: u64, data: &Pages) {
    for (number, sector) in data.to_vec().chunks(SECTOR_SIZE).enumerate() {
        disk.insert(offset / SECTOR_SIZE as u64 + number as u64, sector.to_vec());
    }
}

fn perform(disk: &mut Disk, op: &DeviceOp) -> Pages {
    match op {
        DeviceOp::Read { offset, len } => read(disk, *offset, *len as usize),
        DeviceOp::Write { offset, data, .. } => {
            write(disk, *offset, data);
            Pages::new()
        }
        DeviceOp::Flush => Pages::new(),
        // A trimmed sector reads as anything.
        DeviceOp::Trim { offset, len } => {
            let first = offset / SECTOR_SIZE as u64;
            for sector in first..first + len / SECTOR_SIZE as u64 {
                disk.insert(sector, vec![0xa5; SECTOR_SIZE]);
            }
            Pages::new()
        }
    }
}

impl World {
    /// Makes a new pool of one top-level vdev.
    pub(super) fn new(kind: TopLevelKind, disks: usize, limits: Limits) -> Self {
        Self::of_size(kind, disks, DISK, limits)
    }

    /// Makes a new pool of one top-level vdev, on disks of `size` bytes.
    pub(super) fn of_size(kind: TopLevelKind, disks: usize, size: u64, limits: Limits) -> Self {
        let leaves = (0..disks).map(|number| LeafSpec::new(100 + number as u64, size));
        let tree = VdevTree {
            top_levels: vec![TopLevelSpec::new(kind, Class::Normal, leaves)],
        };
        Self::of_tree(tree, disks, size, limits)
    }

    pub(super) fn of_tree(tree: VdevTree, disks: usize, size: u64, limits: Limits) -> Self {
        let config = PoolConfig::new("tank", 77, 4711, "here", tree);
        let pool = Pool::create(config, 5, 1_000, limits, vdev_limits(), cache(CACHE));
        let mut world = Self {
            pool: pool.expect("a pool"),
            disks: vec![Disk::new(); disks],
            leaves: (0..disks as u32)
                .map(|number| (number, number as usize))
                .collect(),
            disk_size: size,
            cache_bytes: CACHE,
            disk_sizes: BTreeMap::new(),
            asked: VecDeque::new(),
            is_lazy: false,
            limits,
            dead: BTreeSet::new(),
            untrimmable: BTreeSet::new(),
            trimmed: Vec::new(),
            unwritable: BTreeSet::new(),
            absent: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            stuck: BTreeSet::new(),
            unanswered: Vec::new(),
            holds_reads: false,
            held: Vec::new(),
            unrecoverable: Vec::new(),
            events: Vec::new(),
            answered: BTreeSet::new(),
            misread: BTreeSet::new(),
            now_us: 0,
            next_id: 0,
        };
        world.pool.tick(0, 1_000);
        world.settle();
        world
    }

    /// Lets the disks do everything, and time pass.
    pub(super) fn settle(&mut self) -> Vec<(RequestId, Result<Answer, PoolError>)> {
        self.run(None)
    }

    /// Lets the disks do their requests, one after the other, and time pass. Ends when nothing is
    /// left to do, or when the request `until` is answered.
    fn run(&mut self, until: Option<RequestId>) -> Vec<(RequestId, Result<Answer, PoolError>)> {
        let mut answers = Vec::new();
        for _ in 0..1_000_000 {
            let mut output = self.take_output();
            answers.append(&mut output.answers);
            self.asked.extend(output.requests);
            let is_answered = |id| answers.iter().any(|(of, _)| *of == id);
            if until.is_some_and(is_answered) {
                return answers;
            }
            let Some(request) = self.asked.pop_front() else {
                let Some(deadline) = self.pool.deadline_us() else {
                    return answers;
                };
                if deadline > self.now_us + 1_000_000 {
                    return answers;
                }
                self.now_us = self.now_us.max(deadline);
                self.pool.tick(self.now_us, 1_000 + self.now_us / 1_000_000);
                continue;
            };
            self.perform_one(request);
        }
        let (suspended, scan) = (self.pool.condition.suspended(), self.pool.scan_status());
        panic!("the pool does not come to rest: {suspended:?}, {scan:?}");
    }

    /// Lets the disks do their requests, and time pass until the given time.
    pub(super) fn pass_until(
        &mut self,
        until_us: u64,
    ) -> Vec<(RequestId, Result<Answer, PoolError>)> {
        let mut answers = Vec::new();
        loop {
            let mut output = self.take_output();
            answers.append(&mut output.answers);
            self.asked.extend(output.requests);
            let deadline = self.pool.deadline_us();
            if let Some(request) = self.asked.pop_front() {
                self.perform_one(request);
            } else if let Some(due_us) = deadline.filter(|due_us| *due_us <= until_us) {
                self.now_us = self.now_us.max(due_us);
                self.pool.tick(self.now_us, 1_000);
            } else {
                self.now_us = self.now_us.max(until_us);
                return answers;
            }
        }
    }

    /// Takes the pool's output. A spare that stands in gets its disk.
    fn take_output(&mut self) -> Output {
        let output = self.pool.take_output();
        for event in &output.events {
            match event {
                Event::SpareInUse { leaf, guid } => {
                    self.leaves.insert(leaf.0, (*guid - 100) as usize);
                }
                Event::Unrecoverable(span) => self.unrecoverable.push(*span),
                _ => {}
            }
        }
        let told = output.events.iter();
        let told = told.filter(|event| !matches!(event, Event::Checkpoint { .. }));
        self.events.extend(told.cloned());
        output
    }

    /// Lets a disk do one request, and answer unless that is held back.
    fn perform_one(&mut self, DeviceRequest { io, leaf, op }: DeviceRequest) {
        let disk = self.leaves.get(&leaf.0).copied();
        if disk.is_some_and(|disk| self.stuck.contains(&disk)) {
            self.unanswered.push(DeviceRequest { io, leaf, op });
            return;
        }
        match self.attempt(leaf, &op) {
            Ok(data) if self.holds_reads && matches!(op, DeviceOp::Read { .. }) => {
                self.held.push((DeviceRequest { io, leaf, op }, data));
            }
            outcome => self.pool.completed(io, outcome, self.now_us),
        }
    }

    /// Returns the answer of a leaf's disk: an error if the disk is gone, or was not found.
    fn attempt(&mut self, leaf: LeafId, op: &DeviceOp) -> DeviceOutcome {
        let disk = self.leaves.get(&leaf.0);
        if let Some(disk) = disk {
            self.require_inside(*disk, op);
        }
        match disk.filter(|disk| !self.dead.contains(disk)) {
            None => Err(DeviceError::new(DeviceErrorKind::Gone, "pulled")),
            Some(disk)
                if self.unwritable.contains(disk) && matches!(op, DeviceOp::Write { .. }) =>
            {
                Err(DeviceError::new(DeviceErrorKind::Medium, "worn out"))
            }
            Some(disk) => {
                if let DeviceOp::Trim { offset, len } = op {
                    if self.untrimmable.contains(disk) {
                        return Err(DeviceError::new(DeviceErrorKind::Unsupported, "a tape"));
                    }
                    self.trimmed.push((*disk, *offset, *len));
                }
                Ok(perform(&mut self.disks[*disk], op))
            }
        }
    }

    pub(super) fn ask(&mut self, request: Request) -> Result<Answer, PoolError> {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        self.pool.submit(id, request, self.now_us);
        self.answer_of(id)
    }

    /// Reports whether a request is answered before the disks have done anything more.
    pub(super) fn is_answered_at_once(&mut self, request: Request) -> bool {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        self.pool.submit(id, request, self.now_us);
        let output = self.pool.take_output();
        self.asked.extend(output.requests);
        output.answers.iter().any(|(of, _)| *of == id)
    }

    fn answer_of(&mut self, id: RequestId) -> Result<Answer, PoolError> {
        let answers = self.run(self.is_lazy.then_some(id));
        let mut own = answers.into_iter().filter(|(of, _)| *of == id);
        own.next().expect("an answer").1
    }

    pub(super) fn administer(&mut self, plan: Plan) -> Result<(), PoolError> {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        self.pool
            .administer(id, plan, 1000 + self.next_id, self.now_us);
        self.answer_of(id).map(drop)
    }

    pub(super) fn create_volume(&mut self, name: &str, size: u64, block_size: u32) -> DatasetId {
        let request = CreateVolume {
            name: name.to_owned(),
            size,
            block_size,
            ..CreateVolume::default()
        };
        let plan: Plan =
            Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
        self.administer(plan).expect("a volume");
        self.id(name)
    }

    pub(super) fn id(&self, name: &str) -> DatasetId {
        self.pool.catalog().find(name).expect("a dataset").id
    }

    pub(super) fn write(&mut self, dataset: DatasetId, offset: u64, bytes: &[u8], durable: bool) {
        let data = Pages::from_bytes(bytes);
        let request = Request::Write {
            dataset,
            offset,
            data,
            durable,
        };
        self.ask(request).expect("a write");
    }

    pub(super) fn clear(&mut self, dataset: DatasetId, offset: u64, len: u64) {
        let durable = true;
        let request = Request::Clear {
            dataset,
            offset,
            len,
            durable,
        };
        self.ask(request).expect("a clearing");
    }

    pub(super) fn read(&mut self, dataset: DatasetId, offset: u64, len: u32) -> Vec<u8> {
        let request = Request::Read {
            dataset,
            offset,
            len,
        };
        let data = match self.ask(request).expect("a read") {
            Answer::Data(data) => data.to_vec(),
            other => panic!("{other:?}"),
        };
        let size = self.pool.contents[&dataset].block_size;
        let blocks = blocks::touched(offset, len as usize, size as usize);
        blocks.for_each(|block| self.check_place(dataset, block));
        data
    }

    /// Checks that readers beside the engine find no block where it does not lie.
    pub(super) fn check_published(&mut self) {
        let all = self.pool.published().all();
        (all.into_iter()).for_each(|(dataset, block)| self.check_place(dataset, block));
    }

    fn check_place(&mut self, dataset: DatasetId, block: u64) {
        let mut found = SmallVec::new();
        let published = self.pool.published();
        if !published.look_up(dataset, block..block + 1, &mut found) {
            return;
        }
        match self.pool.find_outside_cache(dataset, block) {
            Ok(BlockSource::At(pointer)) => assert_eq!(found[0], pointer, "{block}"),
            // It is being written there.
            Ok(BlockSource::Data(_)) => assert!(self.pool.held(dataset, block).is_none()),
            Ok(BlockSource::Zeros) => assert!(found[0].is_hole(), "{block} is zeros: {found:?}"),
            Err(_) => {}
        }
    }

    /// Begins a checkpoint; the disks do only `steps` requests for it.
    pub(super) fn begin_checkpoint(&mut self, steps: usize) {
        self.pool.schedule.want();
        for _ in 0..steps {
            self.pool.tick(self.now_us, 1_000);
            self.asked.extend(self.pool.take_output().requests);
            if let Some(DeviceRequest { io, leaf, op }) = self.asked.pop_front() {
                let outcome = self.attempt(leaf, &op);
                self.pool.completed(io, outcome, self.now_us);
            }
        }
    }

    /// Makes a checkpoint until its roots are in all labels, and no further.
    pub(super) fn begin_checkpoint_up_to_roots(&mut self) {
        self.settle();
        let before = self.pool.persisted.epoch;
        self.pool.schedule.want();
        self.pool.tick(self.now_us, 1_000);
        while self.pool.persisted.epoch == before {
            assert!(self.do_one(), "{:?}", self.pool.condition.suspended());
        }
    }

    /// Empties the cache, so that reads come from disks again.
    pub(super) fn forget_cache(&mut self) {
        self.pool.cache.resize(0);
        self.pool.cache.resize(self.cache_bytes);
    }

    /// Begins to open the pool. The power fails after the disks have done `requests` requests for
    /// it.
    pub(super) fn open_in_part(&mut self, requests: usize) {
        self.asked.clear();
        let examined = self.examine().expect("labels");
        let (limits, cache) = (self.limits, cache(self.cache_bytes));
        let root = &examined.roots[0];
        let opening = Opening::new(&examined, root, limits, vdev_limits(), cache, self.now_us);
        let mut opening = opening.expect("an opening");
        let leaves = examined.leaves.iter().enumerate();
        let leaf = |(disk, guid): (usize, &Option<u64>)| Some((opening.leaf((*guid)?)?.0, disk));
        self.leaves = leaves.filter_map(leaf).collect();
        let mut done = 0;
        while !opening.is_done() && done < requests {
            for DeviceRequest { io, leaf, op } in opening.take_requests() {
                // Reads change nothing, so they do not count.
                let is_change = !matches!(op, DeviceOp::Read { .. });
                if is_change && done >= requests {
                    continue;
                }
                done += usize::from(is_change);
                let outcome = perform(&mut self.disks[self.leaves[&leaf.0]], &op);
                opening.completed(io, Ok(outcome), self.now_us);
            }
        }
    }

    /// Makes a checkpoint, and checks the pool.
    pub(super) fn checkpoint(&mut self) {
        self.advance();
        self.check();
    }

    /// Makes a checkpoint.
    pub(super) fn advance(&mut self) {
        self.settle();
        let before = self.pool.persisted.epoch;
        self.pool.schedule.want();
        self.pool.tick(self.now_us, 1_000);
        self.settle();
        assert!(
            self.pool.persisted.epoch > before,
            "{:?}",
            self.pool.condition.suspended()
        );
    }

    /// Submits a request; the disks do nothing for it yet.
    pub(super) fn begin(&mut self, request: Request) -> RequestId {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        self.pool.submit(id, request, self.now_us);
        id
    }

    /// Counts, among the first reads that were held back, those of places where other data lies by
    /// now.
    pub(super) fn held_elsewhere(&mut self, first: usize) -> usize {
        let held = self.held.iter().take(first);
        let is_other = held.filter(|(of, then)| {
            let disk = &mut self.disks[self.leaves[&of.leaf.0]];
            perform(disk, &of.op).to_vec() != then.to_vec()
        });
        is_other.count()
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Reports whether a read of a place on the only disk is held back.
    pub(super) fn holds_read_of(&self, place: Address) -> bool {
        let wanted = vdev::layout::sector_offset(place.sector());
        let mut held = self.held.iter().map(|(of, _)| &of.op);
        held.any(|op| matches!(op, DeviceOp::Read { offset, .. } if *offset == wanted))
    }

    /// Lets the disks answer the reads held back: with the bytes that lay there then, or with the
    /// present ones.
    pub(super) fn answer_held(&mut self, is_as_then: bool) {
        self.holds_reads = false;
        for (DeviceRequest { io, leaf, op }, then) in std::mem::take(&mut self.held) {
            let outcome = match is_as_then {
                true => Ok(then),
                false => self.attempt(leaf, &op),
            };
            self.pool.completed(io, outcome, self.now_us);
        }
    }

    /// Examines the labels.
    pub(super) fn examine(&self) -> Result<Examined, OpenError> {
        examine(&self.labels(), None)
    }

    /// Examines the labels for the pool of this guid.
    pub(super) fn examine_pool(&self, guid: u64) -> Result<Examined, OpenError> {
        examine(&self.labels(), Some(guid))
    }

    /// Returns the labels of all disks.
    pub(super) fn labels(&self) -> Vec<LeafLabels> {
        let disks = self.disks.iter().enumerate();
        disks
            .map(|(number, disk)| {
                let size = *self.disk_sizes.get(&number).unwrap_or(&self.disk_size);
                let label = |offset: Option<u64>| match offset {
                    Some(offset) if !self.absent.contains(&number) => read(disk, offset, 256 << 10),
                    _ => Pages::new(),
                };
                let front = front_labels(size).map(label);
                let rear = rear_labels([&front[0], &front[1]], size).map(label);
                let ([zero, one], [two, three]) = (front, rear);
                let copies = [zero, one, two, three];
                LeafLabels { size, copies }
            })
            .collect()
    }

    /// Checks that no request goes beyond the end of a disk.
    fn require_inside(&self, disk: usize, op: &DeviceOp) {
        let size = *self.disk_sizes.get(&disk).unwrap_or(&self.disk_size);
        let end = match op {
            DeviceOp::Read { offset, len } => offset + u64::from(*len),
            DeviceOp::Write { offset, data, .. } => offset + data.len() as u64,
            DeviceOp::Trim { offset, len } => offset + len,
            DeviceOp::Flush => 0,
        };
        assert!(end <= size, "{op:?} of disk {disk}, which has {size} bytes");
    }

    /// Gives a disk another size. If it is shorter, the data beyond its end is gone.
    pub(super) fn resize_disk(&mut self, disk: usize, size: u64) {
        self.disk_sizes.insert(disk, size);
        self.disks[disk].split_off(&(size / SECTOR_SIZE as u64));
    }

    /// Returns the report of a check of the pool. The disks do its requests, which are only reads.
    pub(super) fn report(&mut self) -> check::Report {
        let mut check = check::Check::new(&mut self.pool).expect("a pool at rest");
        while !check.is_done() {
            let requests = check.take_requests();
            if requests.is_empty() {
                assert!(
                    check.deadline_us().is_some(),
                    "waits for nothing: {check:?}"
                );
                check.tick(self.now_us);
            }
            for DeviceRequest { io, leaf, op } in requests {
                let is_read = matches!(op, DeviceOp::Read { .. });
                assert!(is_read, "a check changes nothing: {op:?}");
                let data = match self.leaves.get(&leaf.0) {
                    None => Err(DeviceError::new(DeviceErrorKind::Gone, "not found")),
                    Some(disk) => Ok(perform(&mut self.disks[*disk], &op)),
                };
                check.completed(io, data, self.now_us);
            }
        }
        check.finish()
    }

    /// Checks the pool. If disks are gone, copies on them are missing.
    pub(super) fn check(&mut self) {
        if !self.dead.is_empty() {
            return;
        }
        self.check_published();
        let report = self.report();
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "{}", findings.join("\n"));
    }

    fn is_unreadable(&self, disk: usize, offset: u64, len: u32) -> bool {
        let sector = |byte: u64| byte / SECTOR_SIZE as u64;
        let range = (disk, sector(offset))..(disk, sector(offset + u64::from(len)));
        self.unreadable.range(range).next().is_some()
    }

    /// Returns the bytes of a disk that misreads some of its sectors once.
    fn misread_some(&mut self, disk: usize, offset: u64, data: &Pages) -> Pages {
        let mut bytes = data.to_vec();
        let first = offset / SECTOR_SIZE as u64;
        for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR_SIZE)) {
            if self.misread.remove(&(disk, sector)) {
                bytes.fill(0);
            }
        }
        Pages::from_bytes(&bytes)
    }

    /// Makes another machine with copies of the disks.
    pub(super) fn clone_disks(&self) -> Self {
        let mut other = Self::new(TopLevelKind::Leaf, 1, self.limits);
        other.disks.clone_from(&self.disks);
        other.disk_size = self.disk_size;
        other
    }

    /// Tears those of a disk's labels that are written in one round; the rest of each label stays.
    pub(super) fn tear_labels(&mut self, disk: usize, round: usize) {
        for copy in [round as u64, round as u64 + 2] {
            let offset = vdev::layout::label_offset(copy, self.disk_size).expect("a leaf");
            let torn = Pages::from_bytes(&[0xee; SECTOR_SIZE]);
            write(&mut self.disks[disk], offset, &torn);
        }
    }

    /// Returns the place of the log's next record: its sector on a leaf of a vdev that is no raidz.
    pub(super) fn end_of_log(&self) -> u64 {
        let sector = self.pool.commit.chain.next.sector();
        vdev::layout::sector_offset(sector) / SECTOR_SIZE as u64
    }

    /// Reports whether the disks have done all their requests.
    pub(super) fn is_at_rest(&mut self) -> bool {
        self.asked.extend(self.pool.take_output().requests);
        self.asked.is_empty()
    }

    /// Lets a disk do one request, or time pass. Returns whether there was anything to do.
    pub(super) fn do_one(&mut self) -> bool {
        let output = self.take_output();
        self.asked.extend(output.requests);
        self.answered
            .extend(output.answers.iter().map(|(id, _)| *id));
        let Some(request) = self.asked.pop_front() else {
            let soon = self.now_us + 1_000_000;
            let Some(deadline) = self.pool.deadline_us().filter(|at| *at <= soon) else {
                return false;
            };
            self.now_us = self.now_us.max(deadline);
            self.pool.tick(self.now_us, 1_000);
            return true;
        };
        self.perform_one(request);
        true
    }

    /// Reports whether [`World::do_one`] has answered a request.
    pub(super) fn is_answered(&self, id: RequestId) -> bool {
        self.answered.contains(&id)
    }

    /// Lets disks do the requests that they were stuck at.
    pub(super) fn answer_stuck(&mut self) {
        for DeviceRequest { io, leaf, op } in std::mem::take(&mut self.unanswered) {
            let data = perform(&mut self.disks[self.leaves[&leaf.0]], &op);
            self.pool.completed(io, Ok(data), self.now_us);
        }
    }

    /// Forgets the contents of memory and opens the pool again.
    pub(super) fn reopen(&mut self) -> Result<(), OpenError> {
        self.settle();
        self.reopen_now()
    }

    /// Opens the pool again at once: requests that the disks have not done are lost.
    pub(super) fn reopen_now(&mut self) -> Result<(), OpenError> {
        self.reopen_unchecked()?;
        self.check();
        self.settle();
        Ok(())
    }

    /// Opens the pool again at once, and does nothing more.
    pub(super) fn reopen_unchecked(&mut self) -> Result<(), OpenError> {
        self.asked.clear();
        let examined = self.examine()?;
        self.open(&examined, None).map(drop)
    }

    /// Forgets the contents of memory and rewinds the pool by this number of checkpoints.
    pub(super) fn rewind(&mut self, checkpoints: usize) -> Result<Rewound, OpenError> {
        self.go_back(Back {
            checkpoints,
            without_log: false,
        })
    }

    /// Forgets the contents of memory and rewinds the pool.
    pub(super) fn go_back(&mut self, back: Back) -> Result<Rewound, OpenError> {
        self.asked.clear();
        let examined = self.examine()?;
        let rewound = self.open(&examined, Some(back))?;
        self.check();
        Ok(rewound.expect("it may give up"))
    }

    /// Makes the power fail: requests that disks have not done are never done. Then opens the pool
    /// again.
    pub(super) fn crash(&mut self) -> Result<(), OpenError> {
        let examined = self.examine()?;
        self.crash_to(examined)
    }

    /// Makes the power fail, and opens the pool with labels that the test has changed.
    pub(super) fn crash_to(&mut self, examined: Examined) -> Result<(), OpenError> {
        self.asked.clear();
        self.unanswered.clear();
        self.stuck.clear();
        self.open(&examined, None).map(drop)
    }

    fn open(
        &mut self,
        examined: &Examined,
        back: Option<Back>,
    ) -> Result<Option<Rewound>, OpenError> {
        let (limits, cache, now_us) = (self.limits, cache(self.cache_bytes), self.now_us);
        let mut opening = match back {
            Some(back) => Opening::rewinding(examined, back, limits, vdev_limits(), cache, now_us)?,
            None => {
                let root = &examined.roots[0];
                Opening::new(examined, root, limits, vdev_limits(), cache, now_us)?
            }
        };
        let leaves = examined
            .leaves
            .iter()
            .enumerate()
            .filter_map(|(disk, guid)| Some((opening.leaf((*guid)?)?.0, disk)));
        self.leaves = leaves.collect();
        while !opening.is_done() {
            let requests = opening.take_requests();
            assert!(
                !requests.is_empty(),
                "opening waits for nothing: {opening:?}"
            );
            for DeviceRequest { io, leaf, op } in requests {
                let disk = self.leaves[&leaf.0];
                self.require_inside(disk, &op);
                let outcome = match &op {
                    DeviceOp::Read { offset, len } if self.is_unreadable(disk, *offset, *len) => {
                        Err(DeviceError::new(DeviceErrorKind::Medium, "a bad sector"))
                    }
                    DeviceOp::Read { offset, len } if *len as usize <= 16 * SECTOR_SIZE => {
                        let data = perform(&mut self.disks[disk], &op);
                        Ok(self.misread_some(disk, *offset, &data))
                    }
                    op => Ok(perform(&mut self.disks[disk], op)),
                };
                opening.completed(io, outcome, self.now_us);
            }
        }
        let rewound = opening.rewound();
        self.pool = opening.finish()?;
        self.dead.extend(&self.absent);
        self.unreadable.clear();
        Ok(rewound)
    }
}
