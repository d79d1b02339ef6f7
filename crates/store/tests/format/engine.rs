//! The engine on leaves in memory. It makes the image, and reads it again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use store::cache::Cache;
use store::catalog::DatasetKind;
use store::catalog::request::{
    CloneSnapshot, CreateVolume, Destroy, ReceiveInto, Rename, Resize, Rollback, SetProperties,
    TakeSnapshots,
};
use store::engine::{
    Answer, Event, LeafLabels, Limits, OpenError, Opening, Plan, Pool, PoolConfig, Received,
    Request, RequestId, ScanState, examine,
};
use store::format::DatasetId;
use store::pages::Pages;
use store::stream::Begin;
use store::vdev::{
    self, Class, DeviceError, DeviceErrorKind, DeviceOp, DeviceOutcome, DeviceRequest, LeafSpec,
    TopLevelSpec, VdevTree,
};

use super::disks::Disk;
use super::story::{Expected, STORY, Step, What, begin, bytes};

pub(crate) const LEAF: u64 = 8 << 20;

/// Memory of the block cache, unless a test says otherwise.
pub(crate) const MEMORY: usize = 4 << 20;

/// GUID of the first disk. Those of the others follow.
pub(crate) const FIRST_GUID: u64 = 0x5a4d_0000_0000_0001;

/// Number of the attempt of each receive.
const ATTEMPT: u64 = 7;

/// A pool and its leaves. Each leaf has its place among `disks`, by its number in the engine.
pub(crate) struct World {
    pub(crate) pool: Pool,
    disks: Vec<Disk>,
    places: HashMap<u32, usize>,
    /// Disks that are gone.
    dead: BTreeSet<usize>,
    /// Disks that do nothing any more, without an error.
    stuck: BTreeSet<usize>,
    now_us: u64,
    last_id: u64,
}

/// Returns the leaves after the whole story, at whose end the power was cut.
pub(crate) fn make_image() -> Vec<Disk> {
    let mut world = World::create();
    for (number, step) in STORY.iter().enumerate() {
        world.follow(number, step);
    }
    world.disks
}

/// Returns the configuration of an image's pool.
pub(crate) fn new_config(top_levels: Vec<TopLevelSpec>) -> PoolConfig {
    PoolConfig::new(
        "image",
        0x0123_4567_89ab_cdef,
        0xfedc_ba98_7654_3210,
        "elsewhere",
        VdevTree { top_levels },
    )
}

impl World {
    /// Creates a pool of a raidz1 of three, a mirror of two and a raidz3 of five.
    pub(crate) fn create() -> Self {
        let raidz = |parity| vdev::TopLevelKind::Raidz { parity };
        Self::of(
            &[
                (raidz(1), Class::Normal, 3),
                (vdev::TopLevelKind::Mirror, Class::Normal, 2),
                (raidz(3), Class::Normal, 5),
            ],
            0,
            MEMORY,
        )
    }

    /// Creates a pool of top-level vdevs with these numbers of disks, which come in this order, and
    /// `spares` spares behind them. The block cache has `memory` bytes.
    pub(crate) fn of(
        shape: &[(vdev::TopLevelKind, Class, u64)],
        spares: u64,
        memory: usize,
    ) -> Self {
        let mut guids = FIRST_GUID..;
        let mut some = |count: u64| -> Vec<LeafSpec> {
            let guids = guids.by_ref().take(count as usize);
            guids.map(|guid| LeafSpec::new(guid, LEAF)).collect()
        };
        let top_levels: Vec<_> = shape
            .iter()
            .map(|(kind, class, leaves)| TopLevelSpec::new(*kind, *class, some(*leaves)))
            .collect();
        let config = PoolConfig {
            spares: some(spares),
            ..new_config(top_levels)
        };
        Self::of_config(config, LEAF, memory)
    }

    /// Creates the pool of a configuration, on disks of `size` bytes.
    pub(crate) fn of_config(config: PoolConfig, size: u64, memory: usize) -> Self {
        let slots = config.tree.top_levels.iter().flat_map(|top| &top.slots);
        let in_slots = slots.map(|slot| slot.leaves.len()).sum::<usize>();
        let all = config.all_leaves().count();
        let pool = Pool::create(
            config,
            5,
            1_800_000_000,
            Limits::default(),
            vdev::Limits::default(),
            cache(memory),
        );
        let disk = Disk {
            size,
            ..Disk::default()
        };
        let mut world = Self {
            pool: pool.expect("a pool"),
            disks: vec![disk; all],
            places: (0..in_slots as u32)
                .map(|leaf| (leaf, leaf as usize))
                .collect(),
            dead: BTreeSet::new(),
            stuck: BTreeSet::new(),
            now_us: 0,
            last_id: 0,
        };
        world.tick(1);
        world.run(|events, _| {
            events
                .iter()
                .any(|event| matches!(event, Event::Checkpoint { .. }))
        });
        world
    }

    /// Adds another disk, as a cache vdev.
    pub(crate) fn add_cache(&mut self) {
        let place = self.disks.len();
        let spec = LeafSpec::new(FIRST_GUID + place as u64, LEAF);
        let leaf = self.pool.add_cache(&spec).expect("a cache vdev");
        self.places.insert(leaf.0, place);
        self.disks.push(Disk {
            size: LEAF,
            ..Disk::default()
        });
    }

    /// Returns the present content of the leaves.
    pub(crate) fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// Returns the content of the leaves after a power cut.
    pub(crate) fn into_disks(self) -> Vec<Disk> {
        self.disks
    }

    /// Opens the pool on these leaves.
    pub(crate) fn open(disks: Vec<Disk>) -> Self {
        Self::try_open(disks).expect("opens")
    }

    /// Opens the pool on these leaves, or returns the error.
    pub(crate) fn try_open(disks: Vec<Disk>) -> Result<Self, OpenError> {
        let labels: Vec<LeafLabels> = disks
            .iter()
            .map(|disk| LeafLabels {
                size: disk.size,
                copies: [0, 1, 2, 3].map(|copy| {
                    let offset = vdev::layout::label_offset(copy, disk.size).expect("a leaf");
                    Pages::from_bytes(&disk.read(offset, 256 << 10))
                }),
            })
            .collect();
        let examined = examine(&labels, None)?;
        let root = &examined.roots[0];
        let opening = Opening::new(
            &examined,
            root,
            Limits::default(),
            vdev::Limits::default(),
            cache(MEMORY),
            0,
        );
        let mut opening = opening?;
        let guids = examined.leaves.iter().enumerate();
        let leaves = guids.filter_map(|(place, guid)| Some((opening.leaf((*guid)?)?.0, place)));
        let places: HashMap<u32, usize> = leaves.collect();
        let mut disks = disks;
        while !opening.is_done() {
            let requests = opening.take_requests();
            assert!(!requests.is_empty(), "opening waits for nothing");
            for DeviceRequest { io, leaf, op } in requests {
                let data = perform(&mut disks[places[&leaf.0]], &op);
                opening.completed(io, Ok(data), 0);
            }
        }
        Ok(Self {
            pool: opening.finish()?,
            disks,
            places,
            dead: BTreeSet::new(),
            stuck: BTreeSet::new(),
            now_us: 0,
            last_id: 0,
        })
    }

    /// Returns every volume and snapshot as the engine reads it. Volumes into which a stream is
    /// being received are left out: the engine lets nobody read them.
    pub(crate) fn contents(&mut self) -> BTreeMap<String, Expected> {
        let datasets: Vec<(String, DatasetId, (u64, u32))> = self
            .pool
            .catalog()
            .datasets()
            .filter(|dataset| dataset.kind != DatasetKind::Folder)
            .filter(|dataset| self.pool.catalog().receiving(dataset.id).is_none())
            .filter_map(|dataset| Some((dataset.id, dataset.geometry()?)))
            .map(|(id, geometry)| (self.name(id), id, geometry))
            .collect();
        let mut all = BTreeMap::new();
        for (name, id, (size, block_size)) in datasets {
            let blocks = self.blocks(id, size, block_size);
            all.insert(
                name,
                Expected {
                    size,
                    block_size,
                    blocks,
                },
            );
        }
        all
    }

    fn name(&self, id: DatasetId) -> String {
        let full = self.pool.catalog().full_name(id);
        full.strip_prefix("image/").unwrap_or(&full).to_owned()
    }

    /// Returns the blocks of a dataset that are not zeros.
    fn blocks(&mut self, dataset: DatasetId, size: u64, block_size: u32) -> BTreeMap<u64, Vec<u8>> {
        const AT_ONCE: u64 = 1 << 20;
        let mut blocks = BTreeMap::new();
        for offset in (0..size).step_by(AT_ONCE as usize) {
            let len = AT_ONCE.min(size - offset) as u32;
            let answer = self.ask(Request::Read {
                dataset,
                offset,
                len,
            });
            let Answer::Data(data) = answer else {
                panic!("{answer:?}")
            };
            if store::compress::is_zero(&data) {
                continue;
            }
            let first = offset / u64::from(block_size);
            for (block, bytes) in (first..).zip(data.to_vec().chunks(block_size as usize)) {
                if bytes.iter().any(|byte| *byte != 0) {
                    blocks.insert(block, bytes.to_vec());
                }
            }
        }
        blocks
    }

    pub(crate) fn follow(&mut self, number: usize, step: &Step) {
        let text = str::to_owned;
        match *step {
            Step::Volume {
                name,
                size,
                block_size,
                properties,
            } => {
                let properties = properties
                    .iter()
                    .map(|(name, value)| (text(name), text(value)));
                let request = CreateVolume {
                    name: text(name),
                    size,
                    block_size,
                    with_parents: true,
                    properties: properties.collect(),
                    ..CreateVolume::default()
                };
                self.change(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
            }
            Step::Write {
                name,
                block,
                count,
                what,
            } => {
                let (dataset, size) = self.find(name);
                let offset = block * size;
                let data = Pages::from_bytes(&bytes(what, number, offset, (count * size) as usize));
                self.ask(Request::Write {
                    dataset,
                    offset,
                    data,
                    durable: true,
                });
            }
            Step::Clear { name, block, count } => {
                let (dataset, size) = self.find(name);
                let (offset, len) = (block * size, count * size);
                self.ask(Request::Clear {
                    dataset,
                    offset,
                    len,
                    durable: true,
                });
            }
            Step::Snapshot { names } => {
                let names = names.iter().map(|name| text(name)).collect();
                let request = TakeSnapshots {
                    names,
                    ..TakeSnapshots::default()
                };
                self.change(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
            }
            Step::Clone { snapshot, name } => {
                let request = CloneSnapshot {
                    snapshot: text(snapshot),
                    name: text(name),
                    with_parents: true,
                    ..CloneSnapshot::default()
                };
                self.change(move |catalog, stamp| catalog.plan_clone(&request, stamp));
            }
            Step::Destroy { name } => {
                let request = Destroy {
                    names: vec![text(name)],
                    ..Destroy::default()
                };
                self.change(move |catalog, _| catalog.plan_destroy(&request));
            }
            Step::Rollback { snapshot } => {
                let request = Rollback {
                    snapshot: text(snapshot),
                    ..Rollback::default()
                };
                self.change(move |catalog, _| catalog.plan_rollback(&request));
            }
            Step::Rename { from, to } => {
                let request = Rename {
                    from: text(from),
                    to: text(to),
                    ..Rename::default()
                };
                self.change(move |catalog, stamp| catalog.plan_rename(&request, stamp));
            }
            Step::Promote { clone } => {
                self.change(move |catalog, _| catalog.plan_promote(clone));
            }
            Step::Resize { name, size } => {
                let request = Resize {
                    name: text(name),
                    size,
                    may_shrink: true,
                };
                self.change(move |catalog, _| catalog.plan_resize(&request));
            }
            Step::LongNote { name } => {
                let properties = [("test:note".to_owned(), "long ".repeat(1000))].into();
                let name = text(name);
                let request = SetProperties {
                    name,
                    properties,
                    is_received: false,
                };
                self.change(move |catalog, _| catalog.plan_set(&request));
            }
            Step::Checkpoint => {
                self.tick(61_000_000);
                self.run(|events, _| {
                    events
                        .iter()
                        .any(|event| matches!(event, Event::Checkpoint { .. }))
                });
            }
            Step::BeginReceive { name, .. } => {
                let request = ReceiveInto {
                    name: text(name),
                    begin: self.begin(step),
                    attempt: ATTEMPT,
                    is_resumable: true,
                    with_parents: true,
                };
                self.change(move |catalog, stamp| catalog.plan_begin_receive(&request, stamp));
            }
            Step::Receive { name, block, count } => self.receive(number, name, block, count),
            Step::EndReceive { name, begun } => {
                let (dataset, _) = self.find(name);
                let begin = self.begin(begun);
                self.change(move |catalog, stamp| {
                    catalog.plan_end_receive(dataset, ATTEMPT, &begin, stamp)
                });
            }
            Step::AbortReceive { name, .. } => {
                let (dataset, _) = self.find(name);
                self.change(move |catalog, _| catalog.plan_abort_receive(dataset, None));
            }
            Step::Read { name, size } => {
                let (dataset, block_size) = self.find(name);
                for _ in 0..2 {
                    self.tick(100_000);
                    self.blocks(dataset, size, block_size as u32);
                }
            }
            Step::Pull { disk } => drop(self.dead.insert(disk)),
            Step::Hang { disks } => self.stuck.extend(disks),
        }
    }

    /// Returns the beginning of a stream that starts with this step.
    fn begin(&self, step: &Step) -> Begin {
        begin(step, |snapshot| {
            self.pool.catalog().find(snapshot).expect("it").guid
        })
    }

    /// Receives some blocks, and notes that they are there.
    fn receive(&mut self, number: usize, name: &str, block: u64, count: u64) {
        let (dataset, size) = self.find(name);
        let offset = block * size;
        let data = bytes(What::Text, number, offset, (count * size) as usize);
        self.ask(Request::Receive {
            dataset,
            attempt: ATTEMPT,
            offset,
            content: Received::Data(Pages::from_bytes(&data)),
        });
        let position = block + count;
        self.change(move |catalog, _| catalog.plan_note_received(dataset, ATTEMPT, position));
    }

    /// Finds a dataset and its volblocksize.
    fn find(&self, name: &str) -> (DatasetId, u64) {
        let dataset = self.pool.catalog().find(name).expect("a dataset");
        (dataset.id, dataset.geometry().expect("blocks").1.into())
    }

    fn change(
        &mut self,
        plan: impl FnOnce(
            &store::catalog::Catalog,
            store::catalog::Stamp,
        ) -> Result<store::catalog::Operation, store::catalog::CatalogError>
        + Send
        + 'static,
    ) {
        self.last_id += 1;
        let plan: Plan = Box::new(plan);
        self.pool.administer(
            RequestId(self.last_id),
            plan,
            1000 + self.last_id,
            self.now_us,
        );
        self.answer();
    }

    fn ask(&mut self, request: Request) -> Answer {
        self.last_id += 1;
        self.pool
            .submit(RequestId(self.last_id), request, self.now_us);
        self.answer()
    }

    /// Makes a checkpoint, after which labels describe the pool.
    pub(crate) fn sync(&mut self) {
        self.last_id += 1;
        self.pool.sync(RequestId(self.last_id), self.now_us);
        self.answer();
    }

    /// Reads every copy of every block, and finds them right.
    pub(crate) fn scrub(&mut self) {
        self.pool.scrub(self.now_us);
        for _ in 0..100_000 {
            let status = self.pool.scan_status().expect("a scrub");
            if status.state == ScanState::Finished {
                assert_eq!((status.bad, status.unrecoverable), (0, 0), "{status:?}");
                return;
            }
            self.run(|_, _| true);
            self.tick(1000);
        }
        panic!("the scrub does not end: {:?}", self.pool.scan_status());
    }

    /// Returns the answer to the last request.
    fn answer(&mut self) -> Answer {
        let id = RequestId(self.last_id);
        let mut found = None;
        self.run(|_, answers| {
            found = answers
                .iter()
                .find(|(of, _)| *of == id)
                .map(|(_, answer)| answer.clone());
            found.is_some()
        });
        found.expect("an answer").expect("what was asked for")
    }

    fn tick(&mut self, us: u64) {
        self.now_us += us;
        self.pool
            .tick(self.now_us, 1_800_000_000 + self.now_us / 1_000_000);
    }

    /// Lets leaves and time go on until a condition holds. Requests to the leaves that are open by
    /// then are not done before the next call: at the end of the story, never.
    fn run(
        &mut self,
        mut is_enough: impl FnMut(
            &[Event],
            &[(RequestId, Result<Answer, store::engine::PoolError>)],
        ) -> bool,
    ) {
        for _ in 0..100_000 {
            let output = self.pool.take_output();
            for event in &output.events {
                if let Event::SpareInUse { leaf, guid } = event {
                    self.places.insert(leaf.0, (guid - FIRST_GUID) as usize);
                }
            }
            let is_done = is_enough(&output.events, &output.answers);
            if is_done && output.requests.is_empty() {
                return;
            }
            if output.requests.is_empty() {
                let deadline = self.pool.deadline_us().expect("something to wait for");
                self.tick(deadline.saturating_sub(self.now_us).max(1));
            }
            for DeviceRequest { io, leaf, op } in output.requests {
                let place = self.places[&leaf.0];
                if !self.stuck.contains(&place) {
                    let outcome = self.attempt(place, &op);
                    self.pool.completed(io, outcome, self.now_us);
                }
            }
            if is_done {
                return;
            }
        }
        panic!("it does not come to be: {:?}", self.pool);
    }

    fn attempt(&mut self, place: usize, op: &DeviceOp) -> DeviceOutcome {
        match self.dead.contains(&place) {
            true => Err(DeviceError::new(DeviceErrorKind::Gone, "pulled")),
            false => Ok(perform(&mut self.disks[place], op)),
        }
    }
}

fn cache(bytes: usize) -> Arc<Cache> {
    Arc::new(Cache::new(bytes, 7))
}

fn perform(disk: &mut Disk, op: &DeviceOp) -> Pages {
    match op {
        DeviceOp::Read { offset, len } => Pages::from_bytes(&disk.read(*offset, *len as usize)),
        DeviceOp::Write { offset, data, .. } => {
            disk.write(*offset, &data.to_vec());
            Pages::new()
        }
        DeviceOp::Flush | DeviceOp::Trim { .. } => Pages::new(),
    }
}
