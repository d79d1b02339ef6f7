//! Snapshots sent from one pool and received into another are equal, bit by bit. The vdevs, block
//! sizes and compressions vary, and the stream is interrupted again and again.

use proptest::prelude::*;

use crate::catalog::request::{ReceiveInto, SetProperties, TakeSnapshots};
use crate::engine::io::wanted::cache_key;
use crate::engine::tests::world::World;
use crate::engine::{Answer, Limits, Plan, PoolError, PoolErrorKind, Received, Request};
use crate::engine::{Changes, WantedChanges};
use crate::format::DatasetId;
use crate::map::Change;
use crate::stream::{Begin, Decoder, Encoder, Item};
use crate::vdev::TopLevelKind;

pub(in crate::engine::tests) const SECTOR: u64 = 4096;
/// Sectors of the volume: more than one leaf of small blocks.
pub(in crate::engine::tests) const SECTORS: u64 = 1024;

const SHAPES: [(TopLevelKind, usize); 3] = [
    (TopLevelKind::Leaf, 1),
    (TopLevelKind::Mirror, 2),
    (TopLevelKind::Raidz { parity: 1 }, 3),
];

pub(in crate::engine::tests) fn world(shape: usize) -> World {
    let (kind, disks) = SHAPES[shape % SHAPES.len()];
    let limits = Limits {
        updates: 200,
        ..Limits::default()
    };
    World::new(kind, disks, limits)
}

/// Step in the life of the volume before a snapshot.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u8),
    Clear(u64, u64),
    Set(usize),
    Resize(u64),
}

const COMPRESSIONS: [&str; 3] = ["off", "lz4", "zstd"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..SECTORS, 1..40_u64, any::<u8>())
            .prop_map(|(at, len, tag)| Step::Write(at, len, tag)),
        2 => (0..SECTORS, 1..300_u64).prop_map(|(at, len)| Step::Clear(at, len)),
        1 => (0..COMPRESSIONS.len()).prop_map(Step::Set),
        1 => (1..3_u64).prop_map(Step::Resize),
    ];
    prop::collection::vec(step, 0..12)
}

pub(in crate::engine::tests) fn bytes(sectors: u64, tag: u8) -> Vec<u8> {
    let mut state = u64::from(tag) << 8 | 1;
    let len = sectors * SECTOR;
    (0..len)
        .map(|at| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(at);
            // A third of the blocks can be compressed.
            if tag.is_multiple_of(3) {
                tag
            } else {
                (state >> 50) as u8
            }
        })
        .collect()
}

/// Volume `v` of a world, which takes snapshots `s0`, `s1` ….
struct Source {
    world: World,
    /// Expected contents of each snapshot.
    models: Vec<Vec<u8>>,
}

impl Source {
    fn new(shape: usize, block_size: u32, history: &[Vec<Step>]) -> Self {
        let mut world = world(shape);
        let volume = world.create_volume("v", SECTORS * SECTOR, block_size);
        let mut source = Self {
            world,
            models: Vec::new(),
        };
        let mut model = vec![0; (SECTORS * SECTOR) as usize];
        for (number, steps) in history.iter().enumerate() {
            for step in steps {
                source.perform(volume, step, &mut model);
            }
            let request = TakeSnapshots {
                names: vec![format!("v@s{number}")],
                ..TakeSnapshots::default()
            };
            let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
            source.world.administer(plan).expect("a snapshot");
            source.models.push(model.clone());
        }
        source
    }

    fn perform(&mut self, volume: DatasetId, step: &Step, model: &mut Vec<u8>) {
        let sectors = model.len() as u64 / SECTOR;
        let within = |at: u64, len: u64| {
            let at = at % sectors;
            (at, len.min(sectors - at))
        };
        match step {
            Step::Write(at, len, tag) => {
                let (at, len) = within(*at, *len);
                let bytes = bytes(len, *tag);
                self.world.write(volume, at * SECTOR, &bytes, false);
                model[(at * SECTOR) as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            Step::Clear(at, len) => {
                let (at, len) = within(*at, *len);
                self.world.clear(volume, at * SECTOR, len * SECTOR);
                model[(at * SECTOR) as usize..][..(len * SECTOR) as usize].fill(0);
            }
            Step::Set(number) => {
                let value = COMPRESSIONS[*number].to_owned();
                let request = SetProperties {
                    name: "v".to_owned(),
                    properties: [("compression".to_owned(), value)].into(),
                    is_received: false,
                };
                let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
                self.world.administer(plan).expect("set");
            }
            Step::Resize(half) => {
                let size = half * SECTORS / 2 * SECTOR;
                let request = crate::catalog::request::Resize {
                    name: "v".to_owned(),
                    size,
                    may_shrink: true,
                };
                let plan: Plan = Box::new(move |catalog, _| catalog.plan_resize(&request));
                self.world.administer(plan).expect("resized");
                model.resize(size as usize, 0);
            }
        }
    }

    /// Makes the stream of snapshot `to`, from `from` on. Blocks below `start` were sent before.
    fn stream(&mut self, from: Option<usize>, to: usize, start: u64) -> Vec<u8> {
        let id = |world: &World, number: usize| world.id(&format!("v@s{number}"));
        let (older, newer) = (from.map(|from| id(&self.world, from)), id(&self.world, to));
        let catalog = self.world.pool.catalog();
        let guid = |id: DatasetId| catalog.dataset(id).expect("a snapshot").guid;
        let (size, block_size) = catalog
            .dataset(newer)
            .and_then(|of| of.geometry())
            .expect("it");
        let begin = Begin {
            pool: 77,
            volume: 1,
            snapshot: guid(newer),
            from: older.map(guid),
            origin: None,
            source: format!("tank/v@s{to}"),
            path: String::new(),
            name: format!("s{to}"),
            created_s: 1234 + to as u64,
            size,
            block_size,
            start,
            properties: None,
        };
        encoded(&mut self.world, &begin, older, newer)
    }
}

/// Makes the stream of a snapshot, relative to an older one.
pub(in crate::engine::tests) fn encoded(
    world: &mut World,
    begin: &Begin,
    older: Option<DatasetId>,
    newer: DatasetId,
) -> Vec<u8> {
    let mut encoder = Encoder::new();
    assert!(encoder.begin(begin));
    let mut next = Some(begin.start);
    while let Some(start) = next {
        let wanted = WantedChanges {
            from: older,
            to: newer,
            start,
        };
        let found: Changes = match world.ask(Request::Changes(wanted)).expect("changes") {
            Answer::Changes(found) => found,
            other => panic!("{other:?}"),
        };
        for change in found.changes {
            match change {
                Change::Holes(range) => encoder.free(range.start, range.end - range.start),
                Change::Block { index, .. } => {
                    let request = Request::Stored {
                        dataset: newer,
                        block: index,
                    };
                    match world.ask(request).expect("a block") {
                        Answer::Stored(stored) => {
                            encoder.data(index, stored.compression, &stored.payload);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        next = found.next;
    }
    encoder.end();
    encoder.close();
    encoder.take()
}

/// Volume of a world that receives streams, here always `w`.
pub(in crate::engine::tests) struct Sink {
    pub(in crate::engine::tests) world: World,
    pub(in crate::engine::tests) name: String,
    attempt: u64,
}

impl Sink {
    pub(in crate::engine::tests) fn new(shape: usize, is_lazy: bool) -> Self {
        let mut world = world(shape);
        world.is_lazy = is_lazy;
        let name = "w".to_owned();
        Self {
            world,
            name,
            attempt: 0,
        }
    }

    fn begin(&mut self, begin: &Begin) -> Result<DatasetId, PoolError> {
        self.attempt += 1;
        let request = ReceiveInto {
            name: self.name.clone(),
            begin: begin.clone(),
            attempt: self.attempt,
            is_resumable: true,
            with_parents: true,
        };
        let plan: Plan =
            Box::new(move |catalog, stamp| catalog.plan_begin_receive(&request, stamp));
        self.world.administer(plan)?;
        Ok(self.world.id(&self.name))
    }

    /// Receives this part of a stream, and notes the blocks that are there then.
    pub(in crate::engine::tests) fn receive(&mut self, stream: &[u8]) -> Result<(), PoolError> {
        let mut decoder = Decoder::new();
        let mut current: Option<(Begin, DatasetId)> = None;
        let mut position = 0;
        for piece in stream.chunks(50_000) {
            decoder.feed(piece);
            while let Some(item) = decoder.next_item().expect("a stream") {
                let (offset, content, next) = match item {
                    Item::Begin(begin) => {
                        let volume = self.begin(&begin)?;
                        position = begin.start;
                        current = Some((*begin, volume));
                        continue;
                    }
                    Item::Data { block, packed } => {
                        let data = packed.unpack().expect("a block");
                        (block, Received::Data(data), block + 1)
                    }
                    Item::Free { first, count } => {
                        let (begin, _) = current.as_ref().expect("a part");
                        let len = count * u64::from(begin.block_size);
                        (first, Received::Holes(len), first + count)
                    }
                    Item::End => {
                        let (begin, volume) = current.take().expect("a part");
                        let attempt = self.attempt;
                        let plan: Plan = Box::new(move |catalog, stamp| {
                            catalog.plan_end_receive(volume, attempt, &begin, stamp)
                        });
                        self.world.administer(plan)?;
                        continue;
                    }
                    Item::Close => continue,
                };
                let (begin, volume) = current.as_ref().expect("a part");
                let request = Request::Receive {
                    dataset: *volume,
                    attempt: self.attempt,
                    offset: offset * u64::from(begin.block_size),
                    content,
                };
                self.world.ask(request)?;
                position = next;
            }
        }
        if let Some((_, volume)) = current {
            let attempt = self.attempt;
            let plan: Plan =
                Box::new(move |catalog, _| catalog.plan_note_received(volume, attempt, position));
            self.world.administer(plan)?;
        }
        Ok(())
    }

    pub(in crate::engine::tests) fn abort(&mut self) {
        let volume = self.world.id(&self.name);
        let plan: Plan = Box::new(move |catalog, _| catalog.plan_abort_receive(volume, None));
        self.world.administer(plan).expect("given up");
    }

    fn has(&self, number: usize) -> bool {
        let catalog = self.world.pool.catalog();
        catalog.find(&format!("w@s{number}")).is_ok()
    }

    pub(in crate::engine::tests) fn position(&self) -> Option<u64> {
        let catalog = self.world.pool.catalog();
        let volume = catalog.find(&self.name).ok()?.id;
        catalog
            .receiving(volume)
            .map(|receiving| receiving.position)
    }

    pub(in crate::engine::tests) fn holds(&mut self, name: &str, model: &[u8]) -> bool {
        let id = self.world.id(name);
        let catalog = self.world.pool.catalog();
        let size = catalog
            .dataset(id)
            .and_then(|of| of.geometry())
            .expect("it")
            .0;
        let read = self.world.read(id, 0, size as u32);
        read == model
    }
}

/// Interruption of a receive.
#[derive(Clone, Debug)]
pub(in crate::engine::tests) struct Trouble {
    /// Part of the stream after which the receive is interrupted, in thousandths.
    pub(in crate::engine::tests) cut: usize,
    /// Whether the pool is opened again, as after a crash.
    pub(in crate::engine::tests) reopen: bool,
    /// Whether the receive is given up, and begun anew.
    pub(in crate::engine::tests) abort: bool,
}

pub(in crate::engine::tests) fn troubles() -> impl Strategy<Value = Vec<Trouble>> {
    let trouble = (0..1000_usize, any::<bool>(), any::<bool>());
    let trouble = trouble.prop_map(|(cut, reopen, abort)| Trouble { cut, reopen, abort });
    prop::collection::vec(trouble, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Invariant 8.
    #[test]
    fn what_is_received_is_what_was_sent_however_often_it_is_interrupted(
        shapes in (0..3_usize, 0..3_usize),
        shift in 12..16_u32,
        history in prop::collection::vec(steps(), 1..4),
        troubles in prop::collection::vec(troubles(), 4),
        is_lazy: bool,
    ) {
        let mut source = Source::new(shapes.0, 1 << shift, &history);
        let mut sink = Sink::new(shapes.1, is_lazy);
        for (to, troubles) in troubles.iter().enumerate().take(history.len()) {
            let from = to.checked_sub(1);
            for trouble in troubles {
                if sink.has(to) {
                    // Only the end of the stream was cut off.
                    break;
                }
                let start = sink.position().unwrap_or(0);
                let stream = source.stream(from, to, start);
                let cut = stream.len() * trouble.cut / 1000;
                sink.receive(&stream[..cut]).expect("a part");
                if trouble.reopen {
                    sink.world.reopen().expect("opens");
                }
                let Some(_) = sink.position() else { continue };
                let volume = sink.world.id("w");
                let read = Request::Read { dataset: volume, offset: 0, len: 512 };
                let refused = sink.world.ask(read).expect_err("hidden");
                prop_assert_eq!(refused.kind, PoolErrorKind::Receiving);
                if trouble.abort {
                    sink.abort();
                    prop_assert_eq!(sink.position(), None);
                    match from {
                        Some(from) => {
                            let model = &source.models[from];
                            prop_assert!(sink.holds("w", model), "as before");
                        }
                        None => prop_assert!(sink.world.pool.catalog().find("w").is_err()),
                    }
                }
            }
            if !sink.has(to) {
                let stream = source.stream(from, to, sink.position().unwrap_or(0));
                sink.receive(&stream).expect("all of it");
            }
            prop_assert!(sink.holds("w", &source.models[to]), "s{}", to);
        }
        sink.world.checkpoint();
        sink.world.reopen().expect("opens");
        for (number, model) in source.models.iter().enumerate() {
            let holds = sink.holds(&format!("w@s{number}"), model);
            prop_assert!(holds, "s{} after opening", number);
        }
        let last = history.len() - 1;
        let own = source.stream(None, last, 0);
        let guid = |world: &World, name: &str| {
            let id = world.id(name);
            world.pool.catalog().dataset(id).expect("it").guid
        };
        let (here, there) = (format!("v@s{last}"), format!("w@s{last}"));
        prop_assert_eq!(guid(&source.world, &here), guid(&sink.world, &there));
        prop_assert!(!own.is_empty());
    }
}

fn two_snapshots() -> (Source, Sink) {
    let history = [
        vec![Step::Write(0, 100, 1), Step::Write(600, 40, 2)],
        vec![Step::Write(50, 20, 4), Step::Clear(600, 10)],
    ];
    let mut source = Source::new(0, 8192, &history);
    let mut sink = Sink::new(1, false);
    sink.receive(&source.stream(None, 0, 0)).expect("received");
    (source, sink)
}

#[test]
fn only_changes_travel() {
    let (mut source, _) = two_snapshots();
    let (whole, changes) = (source.stream(None, 1, 0), source.stream(Some(0), 1, 0));
    assert!(
        changes.len() < whole.len() / 3,
        "{} of {}",
        changes.len(),
        whole.len()
    );
}

#[test]
fn a_volume_that_was_modified_since_its_newest_snapshot_takes_no_changes() {
    let (mut source, mut sink) = two_snapshots();
    let changes = source.stream(Some(0), 1, 0);
    let volume = sink.world.id("w");
    for is_durable in [false, true] {
        sink.world.write(volume, 0, &bytes(1, 7), is_durable);
        let error = sink.receive(&changes).expect_err("modified");
        assert_eq!(error.kind, PoolErrorKind::Modified);
        sink.world.checkpoint();
        let error = sink.receive(&changes).expect_err("modified");
        assert_eq!(error.kind, PoolErrorKind::Modified);
        let request = crate::catalog::request::Rollback {
            snapshot: "w@s0".to_owned(),
            ..Default::default()
        };
        let plan: Plan = Box::new(move |catalog, _| catalog.plan_rollback(&request));
        sink.world.administer(plan).expect("rolled back");
    }
    // Checkpoints, openings and properties of the volume are no modification.
    sink.world.checkpoint();
    sink.world.reopen().expect("opens");
    sink.receive(&changes).expect("received");
    assert!(sink.holds("w", &source.models[1]));
}

/// The cache answers any reader, without a word to the pool.
#[test]
fn nothing_that_is_half_received_is_in_the_cache() {
    let (mut source, mut sink) = two_snapshots();
    let changes = source.stream(Some(0), 1, 0);
    let volume = sink.world.id("w");
    sink.world.read(volume, 0, 1 << 20);
    let cached = |sink: &mut Sink| {
        let cache = &mut sink.world.pool.cache;
        let has = |block: &u64| cache.get(cache_key(volume, *block)).is_some();
        (0..SECTORS).filter(has).count()
    };
    assert!(cached(&mut sink) > 0);
    sink.receive(&changes[..changes.len() / 2]).expect("a part");
    assert_eq!(cached(&mut sink), 0);
    sink.receive(&changes).expect("all of it");
    sink.world.read(volume, 0, 1 << 20);
    assert!(cached(&mut sink) > 0);
}

#[test]
fn nobody_else_changes_what_is_being_received() {
    let (mut source, mut sink) = two_snapshots();
    let changes = source.stream(Some(0), 1, 0);
    sink.receive(&changes[..changes.len() / 2]).expect("a part");
    let volume = sink.world.id("w");
    let data = pages::Pages::from_bytes(&bytes(2, 9));
    let write = Request::Write {
        dataset: volume,
        offset: 0,
        data: data.clone(),
        durable: true,
    };
    let refused = sink.world.ask(write).expect_err("receiving");
    assert_eq!(refused.kind, PoolErrorKind::Receiving);
    let plans: [Plan; 3] = [
        Box::new(|catalog, stamp| {
            let request = TakeSnapshots {
                names: vec!["w@x".to_owned()],
                ..TakeSnapshots::default()
            };
            catalog.plan_snapshot(&request, stamp)
        }),
        Box::new(|catalog, _| {
            let request = crate::catalog::request::Resize {
                name: "w".to_owned(),
                size: 8192,
                may_shrink: true,
            };
            catalog.plan_resize(&request)
        }),
        Box::new(|catalog, _| {
            let request = crate::catalog::request::Destroy {
                names: vec!["w@s0".to_owned()],
                ..Default::default()
            };
            catalog.plan_destroy(&request)
        }),
    ];
    for plan in plans {
        let error = sink.world.administer(plan).expect_err("receiving");
        assert!(error.context.contains("is not complete"), "{error}");
    }
    // Snapshots of all volumes omit the receiving one.
    sink.world.create_volume("x", 8192, 8192);
    let all = TakeSnapshots {
        names: vec!["@all".to_owned()],
        is_recursive: true,
        ..TakeSnapshots::default()
    };
    let plan: Plan = Box::new(move |catalog, stamp| catalog.plan_snapshot(&all, stamp));
    sink.world.administer(plan).expect("a snapshot");
    assert!(sink.world.pool.catalog().find("x@all").is_ok());
    assert!(sink.world.pool.catalog().find("w@all").is_err());
    // An attempt that another one took over counts no more; nor does one that was given up.
    let before = sink.attempt;
    sink.receive(&changes[..changes.len() / 2]).expect("again");
    let late = |attempt: u64| Request::Receive {
        dataset: volume,
        attempt,
        offset: 0,
        content: Received::Data(data.clone()),
    };
    sink.world.ask(late(before)).expect_err("an old try");
    let attempt = sink.attempt;
    sink.abort();
    sink.world.ask(late(attempt)).expect_err("given up");
    assert!(sink.holds("w", &source.models[0]));
    let torn = Request::Receive {
        dataset: volume,
        attempt,
        offset: 512,
        content: Received::Holes(8192),
    };
    sink.world.ask(torn).expect_err("no whole block");
}

#[test]
fn a_rest_must_go_on_where_the_receive_is() {
    let (mut source, mut sink) = two_snapshots();
    let changes = source.stream(Some(0), 1, 0);
    sink.receive(&source.stream(Some(0), 1, 30))
        .expect_err("nothing is there");
    sink.receive(&changes[..changes.len() / 2]).expect("a part");
    let position = sink.position().expect("it is interrupted");
    let beyond = source.stream(Some(0), 1, position + 1);
    sink.receive(&beyond).expect_err("a gap");
    sink.receive(&source.stream(None, 1, 0))
        .expect_err("another stream");
    // Sending from the beginning is right, too.
    sink.receive(&changes).expect("received");
    assert!(sink.holds("w", &source.models[1]));
}

impl Sink {
    fn set_reserved(&mut self, bytes: u64) {
        let request = SetProperties {
            name: "w".to_owned(),
            properties: [("refreservation".to_owned(), bytes.to_string())].into(),
            is_received: false,
        };
        let plan: Plan = Box::new(move |catalog, _| catalog.plan_set(&request));
        self.world.administer(plan).expect("there is room");
    }

    fn reserved(&self) -> u64 {
        let id = self.world.id("w");
        self.world.pool.catalog().settings(id).refreservation
    }

    /// Reserves all space that is not reserved, for others.
    fn reserve_the_rest(&mut self) {
        let mut number = 0;
        for size in [1 << 20, 64 << 10, 8 << 10] {
            loop {
                let request = crate::catalog::request::CreateVolume {
                    name: format!("other{number}"),
                    size,
                    block_size: 8192,
                    is_thick: true,
                    ..Default::default()
                };
                let plan: Plan =
                    Box::new(move |catalog, stamp| catalog.plan_create_volume(&request, stamp));
                if let Err(error) = self.world.administer(plan) {
                    assert_eq!(error.kind, PoolErrorKind::NoSpace, "{error}");
                    break;
                }
                number += 1;
            }
        }
    }
}

/// Makes two snapshots, the second of half the size, and a pool that has the first one.
fn smaller_snapshot() -> (Source, Sink) {
    let history = [
        vec![Step::Write(0, 100, 1)],
        vec![Step::Resize(1), Step::Write(50, 20, 4)],
    ];
    let mut source = Source::new(0, 8192, &history);
    let mut sink = Sink::new(0, false);
    sink.receive(&source.stream(None, 0, 0)).expect("received");
    (source, sink)
}

const WHOLE: u64 = SECTORS * SECTOR;

#[test]
fn a_receive_that_makes_a_volume_smaller_can_be_given_up_also_where_all_is_reserved() {
    for reopens in [false, true] {
        let (mut source, mut sink) = smaller_snapshot();
        sink.set_reserved(WHOLE);
        let changes = source.stream(Some(0), 1, 0);
        let cut = &changes[..changes.len() - 200];
        sink.receive(cut).expect("a part");
        sink.reserve_the_rest();
        if reopens {
            sink.world.reopen().expect("opens");
        }
        // A receive that continues gives no reserved space away, either.
        sink.receive(cut).expect("again");
        assert!(sink.position().is_some());
        sink.abort();
        assert_eq!(sink.reserved(), WHOLE);
        assert!(sink.holds("w", &source.models[0]));
        // The end of the receive makes the reservation smaller, and needs no room for that.
        sink.receive(&changes).expect("received");
        assert_eq!(sink.reserved(), WHOLE / 2);
        assert!(sink.holds("w", &source.models[1]));
        sink.world.reopen().expect("opens");
        assert_eq!(sink.reserved(), WHOLE / 2);
    }
}

#[test]
fn a_receive_that_is_given_up_leaves_the_reservation_that_there_was() {
    let (mut source, mut sink) = smaller_snapshot();
    let changes = source.stream(Some(0), 1, 0);
    let cut = &changes[..changes.len() - 200];
    // The reservation is that of the smaller volume, a little more, and less.
    for (before, ended) in [
        (WHOLE / 2, WHOLE / 2),
        (WHOLE / 2 + 8192, WHOLE / 2),
        (8192, 8192),
        (0, 0),
    ] {
        sink.set_reserved(before);
        sink.receive(cut).expect("a part");
        sink.abort();
        assert_eq!(sink.reserved(), before);
        // The same holds after a rollback.
        sink.receive(cut).expect("a part");
        let request = crate::catalog::request::Rollback {
            snapshot: "w@s0".to_owned(),
            ..Default::default()
        };
        let plan: Plan = Box::new(move |catalog, _| catalog.plan_rollback(&request));
        sink.world.administer(plan).expect("rolled back");
        assert_eq!(sink.reserved(), before);
        sink.receive(&changes).expect("received");
        assert_eq!(sink.reserved(), ended);
        let request = crate::catalog::request::Rollback {
            snapshot: "w@s0".to_owned(),
            destroy_newer: true,
            ..Default::default()
        };
        let plan: Plan = Box::new(move |catalog, _| catalog.plan_rollback(&request));
        sink.world.administer(plan).expect("rolled back");
    }
}

#[test]
fn a_thick_volume_that_a_receive_makes_larger_is_as_thick_as_before_where_it_is_given_up() {
    let history = [
        vec![Step::Resize(1), Step::Write(0, 100, 1)],
        vec![Step::Resize(2), Step::Write(50, 20, 4)],
    ];
    let mut source = Source::new(0, 8192, &history);
    let mut sink = Sink::new(0, false);
    sink.receive(&source.stream(None, 0, 0)).expect("received");
    sink.set_reserved(WHOLE / 2);
    let changes = source.stream(Some(0), 1, 0);
    sink.receive(&changes[..changes.len() - 200])
        .expect("a part");
    assert_eq!(sink.reserved(), WHOLE);
    sink.abort();
    assert_eq!(sink.reserved(), WHOLE / 2);
    sink.receive(&changes).expect("received");
    assert_eq!(sink.reserved(), WHOLE);
    assert!(sink.holds("w", &source.models[1]));
}

#[test]
fn questions_for_a_stream_are_for_snapshots() {
    let (mut source, _) = two_snapshots();
    let [volume, first, second] = ["v", "v@s0", "v@s1"].map(|name| source.world.id(name));
    let mut ask = |from, to| {
        let start = 0;
        let wanted = WantedChanges { from, to, start };
        source.world.ask(Request::Changes(wanted)).map(drop)
    };
    ask(Some(first), second).expect("older to newer");
    ask(Some(second), first).expect_err("newer to older");
    ask(None, volume).expect_err("a volume");
    ask(Some(volume), second).expect_err("a volume");
    let request = Request::Stored {
        dataset: first,
        block: 200,
    };
    source.world.ask(request).expect_err("a hole");
}
