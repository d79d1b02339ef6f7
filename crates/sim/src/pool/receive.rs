//! Streams that are received while the power fails, again and again. An interrupted receive goes on
//! where it was durable, or vanishes. A complete snapshot equals the sent one bit by bit (invariant
//! 8).
//!
//! One pool sends to itself. Volume `v0` has some snapshots, and `copy` receives them one after the
//! other. In half of the histories, `c0` is a clone of one of them, and `copied` becomes a clone by
//! the stream that it receives. Each life may be cut at any answer of a disk. After each end of a
//! life the pool is proven offline. After each opening all complete snapshots are compared. In
//! [`HARD`] histories disks may also fail meanwhile, or the pool is so full that there is no room
//! for the copy until something else is destroyed.

use std::fmt;

use pages::Pages;
use store::catalog::request::{CloneSnapshot, CreateVolume, Destroy, ReceiveInto, TakeSnapshots};
use store::catalog::{Catalog, CatalogError, Operation as Change, Stamp};
use store::engine::{Answer, Pool, PoolError, PoolErrorKind, Received, Request, RequestId};
use store::engine::{Changes, WantedChanges};
use store::format::DatasetId;
use store::map::Change as BlockChange;
use store::stream::{Begin, Decoder, Encoder, Item};

use super::families::{Family, HARD, HARDER};
use super::{PoolSetup, PoolSubject};
use crate::disk::{Chances, Disk};
use crate::laboratory::{FailureKind, prove};
use crate::operation::{BLOCK_SIZE, VolumeId};
use crate::random::Random;
use crate::subject::{DiskRequest, FlawKind, Geometry, Subject as _, SubjectState, VolumeSpec};

/// Number of snapshots of the volume.
const SNAPSHOTS: usize = 3;
/// Number of snapshots of the clone, if there is one.
const CLONED: usize = 2;
/// Number of lives of a receive that may be cut. The life after them may not.
const CUTS: u32 = 4;
/// Number of receives that may find no room after the ballast is gone: its space is free with the
/// next checkpoints.
const FREEING: u32 = 20;
/// Number of disk answers that nothing here reaches.
const ENDLESS: u32 = 3_000_000;
/// Name of the volume that fills the pool.
const BALLAST: &str = "ballast";
/// Chances with which disks fail while they take a stream, in some histories.
const FAILING: Chances = Chances {
    lying_flush: 0,
    failed_flush: 10,
    failed_write: 3,
    lost_write: 0,
    misdirected_write: 0,
    misdirected_read: 0,
    failed_read: 5,
    bit_rot: 0,
    ruin: 0,
};

/// Hardship of a history besides power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hardship {
    None,
    Failing,
    Full,
}

/// Result of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of power cuts and kills.
    pub crashes: u64,
    /// Receives that went on where they were.
    pub resumed: u64,
    /// Receives that were given up and begun anew.
    pub given_up: u64,
    /// Receives that a disk or a lack of space ended.
    pub failed: u64,
    /// Pools that did not open any more or lacked blocks. This is allowed if all disks fail.
    pub refused: u64,
    /// Clones that were received.
    pub clones: u64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.resumed += other.resumed;
        self.given_up += other.given_up;
        self.failed += other.failed;
        self.refused += other.refused;
        self.clones += other.clones;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crashes, {} receives resumed, {} discarded, {} failed; {} refused to open; {} clones",
            self.crashes, self.resumed, self.given_up, self.failed, self.refused, self.clones
        )
    }
}

/// Reason why a step did not end.
enum End {
    /// The power failed.
    Cut,
    /// The pool failed a request.
    Failed(PoolError),
    /// The pool does not open.
    Refused(String),
    /// A result is wrong.
    Wrong(String),
}

impl From<String> for End {
    fn from(wrong: String) -> Self {
        Self::Wrong(wrong)
    }
}

/// Runs the history of one seed.
///
/// # Errors
/// The result that is wrong.
pub fn run(seed: u64) -> Result<Report, String> {
    let mut world = World::new(seed);
    let mut outcome = world.history();
    let is_lacking = match &outcome {
        Err(End::Refused(_)) => true,
        Err(End::Failed(error)) => error.kind == PoolErrorKind::Device,
        _ => false,
    };
    // All disks may have failed.
    if is_lacking && world.hardship == Hardship::Failing {
        world.report.refused += 1;
        outcome = Ok(());
    }
    outcome.map(|()| world.report).map_err(|end| match end {
        End::Refused(why) => format!("seed {seed}: the pool does not open: {why}"),
        End::Cut => format!("seed {seed}: a run without power cuts was cut"),
        End::Failed(error) => format!("seed {seed}: {error}"),
        End::Wrong(wrong) => format!("seed {seed}: {wrong}"),
    })
}

/// A snapshot that is sent, and the volume that receives it.
#[derive(Clone, Debug)]
struct Part {
    sent: String,
    /// Snapshot since which changes are sent, if any.
    from: Option<String>,
    /// Whether `from` is another volume's snapshot. The receiving volume becomes a clone then.
    is_clone: bool,
    /// Volume that receives the snapshot.
    into: &'static str,
    name: String,
    /// Content that the received snapshot must have.
    model: Vec<u8>,
}

impl Part {
    fn received(&self) -> String {
        format!("{}@{}", self.into, self.name)
    }
}

struct World {
    setup: PoolSetup,
    geometry: Geometry,
    subject: PoolSubject,
    disks: Vec<Disk>,
    requests: Vec<DiskRequest>,
    now_us: u64,
    next_tag: u64,
    random: Random,
    hardship: Hardship,
    /// Number of disk answers until the power fails.
    fuse: Option<u32>,
    /// Parts in the order in which they are sent.
    parts: Vec<Part>,
    /// Whether there is a clone.
    is_cloned: bool,
    report: Report,
}

impl World {
    fn new(seed: u64) -> Self {
        let (mut setup, climate) = Family::PowerCuts.of_seed(seed);
        let mut behaviour = climate.behaviour;
        let mut hardship = Hardship::None;
        if seed >= HARD {
            let mut random = Random::new(seed ^ 0x6861_7264).fork();
            hardship = random.one_of(&[Hardship::None, Hardship::Failing, Hardship::Full]);
            behaviour.trim_keeps_bytes = random.per_mille(300);
            setup.never_suspends = hardship != Hardship::Failing;
            setup.must_open = hardship != Hardship::Failing;
        }
        behaviour.cuts_at_flushes = seed >= HARDER;
        let mut random = Random::new(seed ^ 0x7374_7265_616d).fork();
        let unit = random.one_of(&[1, 2, 4, 8]);
        let geometry = Geometry {
            grown: Default::default(),
            disks: setup.disks(),
            disk_sectors: climate.disk_sectors.max(8 << 8),
            volumes: vec![VolumeSpec {
                id: VolumeId(0),
                blocks: 48,
                unit,
                is_thick: false,
            }],
        };
        let disk = |number: usize| {
            let random = Random::new(seed ^ (number as u64) << 32).fork();
            Disk::new(geometry.disk_sectors, behaviour.clone(), random)
        };
        let disks = (0..geometry.disks).map(disk).collect();
        Self {
            subject: PoolSubject::create(&setup, &geometry, 0),
            setup,
            geometry,
            disks,
            requests: Vec::new(),
            now_us: 0,
            next_tag: super::ASKED.start,
            random,
            hardship,
            fuse: None,
            parts: Vec::new(),
            is_cloned: Random::new(seed ^ 0x0063_6c6f_6e65).fork().per_mille(500),
            report: Report::default(),
        }
    }

    fn history(&mut self) -> Result<(), End> {
        self.wait_until_open()?;
        self.write_history()?;
        if self.hardship == Hardship::Full {
            self.fill()?;
        }
        for to in 0..self.parts.len() {
            let mut cuts = 0;
            while !self.has(to)? {
                let may_be_cut = cuts < CUTS;
                self.fuse = may_be_cut.then(|| self.random.within(1..400) as u32);
                let is_failing = may_be_cut && self.hardship == Hardship::Failing;
                self.set_chances(if is_failing {
                    FAILING
                } else {
                    Chances::default()
                });
                cuts += 1;
                let outcome = self.receive(to);
                self.set_chances(Chances::default());
                match outcome {
                    Ok(()) => {}
                    Err(End::Cut) => self.crash()?,
                    Err(End::Failed(_)) if is_failing => {
                        self.report.failed += 1;
                        self.crash()?;
                    }
                    Err(End::Failed(error))
                        if error.kind == PoolErrorKind::NoSpace
                            && self.hardship == Hardship::Full
                            && cuts < CUTS + FREEING =>
                    {
                        self.report.failed += 1;
                        self.make_room()?;
                    }
                    Err(wrong) => return Err(wrong),
                }
            }
            self.fuse = None;
            self.compare(to + 1)?;
        }
        self.crash()?;
        if self.is_cloned {
            let copied = self.id("copied")?;
            if self.catalog()?.origin(copied).is_none() {
                return Err(End::Wrong("a clone came as a volume of its own".to_owned()));
            }
            self.report.clones += 1;
        }
        self.compare(self.parts.len())
    }

    fn set_chances(&mut self, chances: Chances) {
        for disk in &mut self.disks {
            disk.behaviour_mut().chances = chances;
        }
    }

    /// Fills the pool until about as much room is left as the copy takes.
    fn fill(&mut self) -> Result<(), End> {
        let volume = self.id("v0")?;
        let pool = self.subject.pool();
        let space = pool.and_then(|pool| pool.dataset_space(volume));
        let available = space.map_or(0, |space| space.available);
        let size = self.geometry.volumes[0].blocks * BLOCK_SIZE as u64;
        let left = self.random.within(0..2 * size);
        let request = CreateVolume {
            name: BALLAST.to_owned(),
            size: available.saturating_sub(left) / BLOCK_SIZE as u64 * BLOCK_SIZE as u64,
            block_size: BLOCK_SIZE as u32,
            is_thick: true,
            ..CreateVolume::default()
        };
        // If there is no room for the ballast, there is little for anything else.
        self.administer(move |catalog, stamp| catalog.plan_create_volume(&request, stamp))?
            .map(drop)
            .or_else(|error| match error.kind {
                PoolErrorKind::NoSpace => Ok(()),
                _ => Err(End::Failed(error)),
            })
    }

    /// Destroys the ballast. Its space is free soon.
    fn make_room(&mut self) -> Result<(), End> {
        self.fuse = None;
        if self.id(BALLAST).is_ok() {
            let request = Destroy {
                names: vec![BALLAST.to_owned()],
                ..Destroy::default()
            };
            self.administer(move |catalog, _| catalog.plan_destroy(&request))?
                .map_err(End::Failed)?;
        }
        self.next_tag += 1;
        let (tag, now_us) = (self.next_tag, self.now_us);
        self.subject
            .with_pool(|pool: &mut Pool| pool.sync(RequestId(tag), now_us));
        self.wait(tag)?.map(drop).map_err(End::Failed)
    }

    /// Writes the history that is sent later.
    fn write_history(&mut self) -> Result<(), End> {
        let size = (self.geometry.volumes[0].blocks * BLOCK_SIZE as u64) as usize;
        self.write_snapshots("v0", "copy", None, vec![0; size], SNAPSHOTS)?;
        if !self.is_cloned {
            return Ok(());
        }
        let number = self.random.within(0..SNAPSHOTS as u64) as usize;
        let Part { sent, model, .. } = self.parts[number].clone();
        let request = CloneSnapshot {
            snapshot: sent.clone(),
            name: "c0".to_owned(),
            ..CloneSnapshot::default()
        };
        self.administer(move |catalog, stamp| catalog.plan_clone(&request, stamp))?
            .map_err(End::Failed)?;
        self.write_snapshots("c0", "copied", Some(sent), model, CLONED)
    }

    /// Writes, clears and takes snapshots.
    fn write_snapshots(
        &mut self,
        volume: &str,
        into: &'static str,
        origin: Option<String>,
        mut model: Vec<u8>,
        count: usize,
    ) -> Result<(), End> {
        let spec = self.geometry.volumes[0];
        let mut from = origin.clone();
        for number in 0..count {
            for _ in 0..self.random.within(1..8) {
                let dataset = self.id(volume)?;
                let first = self.random.within(0..spec.blocks);
                let blocks = self.random.within(1..(spec.blocks - first).min(20) + 1);
                let (at, len) = (first as usize * BLOCK_SIZE, blocks as usize * BLOCK_SIZE);
                let offset = at as u64;
                let request = if self.random.per_mille(200) {
                    model[at..at + len].fill(0);
                    Request::Clear {
                        dataset,
                        offset,
                        len: len as u64,
                        durable: false,
                    }
                } else {
                    let tag = self.random.within(1..256) as u8;
                    let step = self.random.one_of(&[0, 1, 7]);
                    for (number, byte) in model[at..at + len].iter_mut().enumerate() {
                        *byte = tag.wrapping_add((number as u8).wrapping_mul(step));
                    }
                    Request::Write {
                        dataset,
                        offset,
                        data: Pages::from_bytes(&model[at..at + len]),
                        durable: false,
                    }
                };
                self.ask(request)?.map_err(End::Failed)?;
            }
            let name = format!("s{number}");
            let sent = format!("{volume}@{name}");
            let request = TakeSnapshots {
                names: vec![sent.clone()],
                ..TakeSnapshots::default()
            };
            self.administer(move |catalog, stamp| catalog.plan_snapshot(&request, stamp))?
                .map_err(End::Failed)?;
            self.parts.push(Part {
                sent: sent.clone(),
                from: from.replace(sent),
                is_clone: number == 0 && origin.is_some(),
                into,
                name,
                model: model.clone(),
            });
        }
        Ok(())
    }

    /// Receives a part: all of it, or the rest.
    fn receive(&mut self, to: usize) -> Result<(), End> {
        let part = self.parts[to].clone();
        let mut start = 0;
        if let Ok(copy) = self.id(part.into)
            && let Some(receiving) = self.catalog()?.receiving(copy)
        {
            start = receiving.position;
            if self.random.per_mille(300) {
                self.report.given_up += 1;
                start = 0;
                self.administer(move |catalog, _| catalog.plan_abort_receive(copy, None))?
                    .map_err(End::Failed)?;
            } else {
                self.report.resumed += 1;
            }
        }
        let stream = self.stream(&part, start)?;
        let attempt = self.random.within(1..u64::MAX);
        let notes_per_mille = self.random.one_of(&[0, 100, 500]);
        let mut decoder = Decoder::new();
        decoder.feed(&stream);
        let mut current: Option<(Begin, DatasetId)> = None;
        while let Some(item) = decoder.next_item().map_err(|error| error.to_string())? {
            let (block, content, next) = match item {
                Item::Begin(begin) => {
                    let volume = self.begin(part.into, &begin, attempt)?;
                    current = Some((*begin, volume));
                    continue;
                }
                Item::Data { block, packed } => {
                    let data = packed
                        .unpack()
                        .ok_or("a block does not unpack".to_owned())?;
                    (block, Received::Data(data), block + 1)
                }
                Item::Free { first, count } => {
                    let size = current.as_ref().map_or(0, |(begin, _)| begin.block_size);
                    let holes = Received::Holes(count * u64::from(size));
                    (first, holes, first + count)
                }
                Item::End => {
                    let Some((begin, volume)) = current.take() else {
                        break;
                    };
                    self.administer(move |catalog, stamp| {
                        catalog.plan_end_receive(volume, attempt, &begin, stamp)
                    })?
                    .map_err(End::Failed)?;
                    // The receive was acknowledged: it outlives everything.
                    return match self.has(to)? {
                        true => Ok(()),
                        false => Err(End::Wrong("the snapshot is not there".to_owned())),
                    };
                }
                Item::Close => break,
            };
            let Some((begin, volume)) = &current else {
                break;
            };
            let (dataset, offset) = (*volume, block * u64::from(begin.block_size));
            let request = Request::Receive {
                dataset,
                attempt,
                offset,
                content,
            };
            self.ask(request)?.map_err(End::Failed)?;
            if self.random.per_mille(notes_per_mille) {
                self.administer(move |catalog, _| {
                    catalog.plan_note_received(dataset, attempt, next)
                })?
                .map_err(End::Failed)?;
            }
        }
        Err(End::Wrong("the stream has no end".to_owned()))
    }

    fn begin(&mut self, into: &str, begin: &Begin, attempt: u64) -> Result<DatasetId, End> {
        let request = ReceiveInto {
            name: into.to_owned(),
            begin: begin.clone(),
            attempt,
            is_resumable: true,
            with_parents: false,
        };
        self.administer(move |catalog, stamp| catalog.plan_begin_receive(&request, stamp))?
            .map_err(End::Failed)?;
        self.id(into)
    }

    /// Returns the stream of a snapshot, from the one before on. Blocks below `start` have arrived.
    fn stream(&mut self, part: &Part, start: u64) -> Result<Vec<u8>, End> {
        let newer = self.id(&part.sent)?;
        let older = match &part.from {
            None => None,
            Some(from) => Some(self.id(from)?),
        };
        let mut encoder = Encoder::new();
        let begin = self.beginning(part, older, newer, start)?;
        if !encoder.begin(&begin) {
            return Err(End::Wrong("it is too long".to_owned()));
        }
        let mut next = Some(start);
        while let Some(start) = next {
            let wanted = WantedChanges {
                from: older,
                to: newer,
                start,
            };
            let found = match self.ask(Request::Changes(wanted))?.map_err(End::Failed)? {
                Answer::Changes(found) => found,
                other => return Err(End::Wrong(format!("{other:?}"))),
            };
            let Changes {
                changes,
                next: then,
            } = found;
            for change in changes {
                let block = match change {
                    BlockChange::Holes(range) => {
                        encoder.free(range.start, range.end - range.start);
                        continue;
                    }
                    BlockChange::Block { index, .. } => index,
                };
                let dataset = newer;
                let request = Request::Stored { dataset, block };
                match self.ask(request)?.map_err(End::Failed)? {
                    Answer::Stored(of) => encoder.data(block, of.compression, &of.payload),
                    other => return Err(End::Wrong(format!("{other:?}"))),
                }
            }
            next = then;
        }
        encoder.end();
        encoder.close();
        Ok(encoder.take())
    }

    fn beginning(
        &mut self,
        part: &Part,
        older: Option<DatasetId>,
        newer: DatasetId,
        start: u64,
    ) -> Result<Begin, End> {
        let catalog = self.catalog()?;
        let guid = |id: DatasetId| catalog.dataset(id).map_or(0, |of| of.guid);
        let geometry = catalog.dataset(newer).and_then(|of| of.geometry());
        let (size, block_size) = geometry.unwrap_or_default();
        let full_name = |name: &String| format!("tank/{name}");
        Ok(Begin {
            pool: 1,
            volume: 2,
            snapshot: guid(newer),
            from: older.map(guid),
            origin: part.from.as_ref().filter(|_| part.is_clone).map(full_name),
            source: full_name(&part.sent),
            path: String::new(),
            name: part.name.clone(),
            created_s: 5,
            size,
            block_size,
            start,
            properties: None,
        })
    }

    /// Checks that all complete snapshots are right, and that nobody may use half received ones.
    fn compare(&mut self, complete: usize) -> Result<(), End> {
        for number in 0..complete {
            let part = self.parts[number].clone();
            for name in [&part.sent, &part.received()] {
                self.compare_with(name, &part.model)?;
            }
        }
        ["copy", "copied"]
            .into_iter()
            .try_for_each(|volume| self.compare_newest(volume, complete))
    }

    /// Checks that the receiving volume equals the last snapshot that it received.
    fn compare_newest(&mut self, volume: &str, complete: usize) -> Result<(), End> {
        let Ok(copy) = self.id(volume) else {
            return Ok(());
        };
        if self.catalog()?.receiving(copy).is_none() {
            let mut parts = self.parts[..complete].iter();
            let Some(newest) = parts.rfind(|part| part.into == volume) else {
                return Err(End::Wrong(format!(
                    "{volume} is there, and received nothing"
                )));
            };
            let model = newest.model.clone();
            return self.compare_with(volume, &model);
        }
        let request = Request::Read {
            dataset: copy,
            offset: 0,
            len: BLOCK_SIZE as u32,
        };
        match self.ask(request)? {
            Err(error) if error.kind == PoolErrorKind::Receiving => Ok(()),
            other => Err(End::Wrong(format!("half of a volume was read: {other:?}"))),
        }
    }

    fn compare_with(&mut self, name: &str, model: &[u8]) -> Result<(), End> {
        let dataset = self.id(name)?;
        let request = Request::Read {
            dataset,
            offset: 0,
            len: model.len() as u32,
        };
        match self.ask(request)?.map_err(End::Failed)? {
            Answer::Data(data) if data.to_vec() == model => Ok(()),
            _ => Err(End::Wrong(format!("{name} is not what was sent"))),
        }
    }

    /// Cuts the power, or kills the program. Then opens the pool, and checks everything.
    fn crash(&mut self) -> Result<(), End> {
        self.fuse = None;
        self.report.crashes += 1;
        let is_power_cut = self.random.per_mille(700);
        for disk in &mut self.disks {
            match is_power_cut {
                true => disk.power_cut(),
                false => disk.detach(),
            }
        }
        self.requests.clear();
        self.prove()?;
        self.subject = PoolSubject::open(&self.setup, &self.geometry, self.now_us);
        self.wait_until_open()?;
        let mut complete = 0;
        while complete < self.parts.len() && self.has(complete)? {
            complete += 1;
        }
        self.compare(complete)
    }

    /// Checks that the content of the disks is right, whatever was half received (invariant 6).
    fn prove(&mut self) -> Result<(), End> {
        let (setup, geometry) = (&self.setup, &self.geometry);
        match prove::<PoolSubject>(setup, geometry, &self.disks, self.now_us) {
            Err(FailureKind::Refused(why)) => Err(End::Refused(why)),
            Err(kind) => Err(End::Wrong(kind.to_string())),
            Ok(mut flaws) => {
                // More leaves may lack a part than redundancy covers.
                let may_lack = self.hardship == Hardship::Failing;
                flaws.retain(|flaw| flaw.kind != FlawKind::Lacking || !may_lack);
                match flaws.is_empty() {
                    true => Ok(()),
                    false => Err(End::Wrong(FailureKind::Flawed(flaws).to_string())),
                }
            }
        }
    }

    fn has(&mut self, number: usize) -> Result<bool, End> {
        let name = self.parts[number].received();
        Ok(self.catalog()?.find(&name).is_ok())
    }

    fn id(&mut self, name: &str) -> Result<DatasetId, End> {
        let found = self.catalog()?.find(name).map(|of| of.id);
        found.map_err(|error| End::Wrong(error.to_string()))
    }

    fn catalog(&mut self) -> Result<&Catalog, End> {
        let pool = self.subject.pool();
        let pool = pool.ok_or_else(|| End::Wrong("the pool is not open".to_owned()))?;
        Ok(pool.catalog())
    }

    fn ask(&mut self, request: Request) -> Result<Result<Answer, PoolError>, End> {
        self.next_tag += 1;
        let (tag, now_us) = (self.next_tag, self.now_us);
        self.subject
            .with_pool(|pool: &mut Pool| pool.submit(RequestId(tag), request, now_us));
        self.wait(tag)
    }

    fn administer(
        &mut self,
        plan: impl FnOnce(&Catalog, Stamp) -> Result<Change, CatalogError> + Send + 'static,
    ) -> Result<Result<Answer, PoolError>, End> {
        self.next_tag += 1;
        let (tag, now_us) = (self.next_tag, self.now_us);
        let entropy = self.random.within(1..u64::MAX);
        self.subject.with_pool(|pool: &mut Pool| {
            pool.administer(RequestId(tag), Box::new(plan), entropy, now_us);
        });
        self.wait(tag)
    }

    fn wait(&mut self, tag: u64) -> Result<Result<Answer, PoolError>, End> {
        for _ in 0..ENDLESS {
            if let Some(answer) = self.subject.told(tag) {
                return Ok(answer);
            }
            self.advance()?;
        }
        Err(End::Wrong("a request is never answered".to_owned()))
    }

    fn wait_until_open(&mut self) -> Result<(), End> {
        for _ in 0..ENDLESS {
            match self.subject.state() {
                SubjectState::Open => return Ok(()),
                SubjectState::Refused(why) => return Err(End::Refused(why)),
                SubjectState::Opening => self.advance()?,
            }
        }
        Err(End::Wrong("it never opens".to_owned()))
    }

    /// Lets the next event happen.
    fn advance(&mut self) -> Result<(), End> {
        self.collect();
        let disks = self.disks.iter().enumerate();
        let due = disks.filter_map(|(number, disk)| Some((disk.next_due_us()?, number)));
        let disk = due.min();
        let tick = self.subject.next_tick_us();
        match (disk, tick) {
            (Some((due_us, number)), tick) if tick.is_none_or(|tick| due_us <= tick) => {
                if let Some(fuse) = &mut self.fuse {
                    *fuse -= 1;
                    if *fuse == 0 {
                        return Err(End::Cut);
                    }
                }
                self.now_us = self.now_us.max(due_us);
                if let Some(done) = self.disks[number].complete(self.now_us) {
                    self.subject
                        .completed(number, done.id, done.outcome, self.now_us);
                }
            }
            (_, Some(tick)) => {
                self.now_us = self.now_us.max(tick);
                self.subject.tick(self.now_us);
            }
            _ => return Err(End::Wrong("everything waits for nothing".to_owned())),
        }
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        self.subject.take_requests(&mut self.requests);
        for DiskRequest { disk, id, op } in self.requests.drain(..) {
            self.disks[disk].submit(self.now_us, id, op);
        }
        self.subject.take_answers(&mut Vec::new());
    }
}
