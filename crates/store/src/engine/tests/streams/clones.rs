//! Clones are sent as their differences from their origins, and received as clones.
//!
//! The tests vary what was cloned, promoted and resized, and how often the stream is interrupted.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::catalog::request::{CloneSnapshot, Destroy, Resize, TakeSnapshots};
use crate::catalog::{Catalog, Dataset};
use crate::engine::tests::streams::whole::{
    SECTOR, SECTORS, Sink, Trouble, bytes, encoded, troubles, world,
};
use crate::engine::tests::world::World;
use crate::engine::{Plan, PoolErrorKind, Request};
use crate::format::DatasetId;
use crate::stream::Begin;

const BLOCK: u32 = 8192;

/// Step in the life of volumes and snapshots, which numbers choose.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, u64, u8),
    Clear(usize, u64, u64),
    Snapshot(usize),
    Clone(usize),
    Resize(usize, u64),
    Promote(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<usize>(), 0..SECTORS, 1..30_u64, any::<u8>())
            .prop_map(|(of, at, len, tag)| Step::Write(of, at, len, tag)),
        2 => (any::<usize>(), 0..SECTORS, 1..200_u64)
            .prop_map(|(of, at, len)| Step::Clear(of, at, len)),
        4 => any::<usize>().prop_map(Step::Snapshot),
        3 => any::<usize>().prop_map(Step::Clone),
        1 => (any::<usize>(), 1..3_u64).prop_map(|(of, half)| Step::Resize(of, half)),
        2 => any::<usize>().prop_map(Step::Promote),
    ];
    prop::collection::vec(step, 4..24)
}

/// Volumes `v0`, `v1` … with snapshots `s0`, `s1` …, which are numbered over all volumes.
struct Source {
    world: World,
    volumes: Vec<DatasetId>,
    snapshots: Vec<DatasetId>,
    /// Expected contents of each volume and snapshot.
    models: BTreeMap<DatasetId, Vec<u8>>,
}

impl Source {
    fn new(shape: usize) -> Self {
        let mut world = world(shape);
        let volume = world.create_volume("v0", SECTORS * SECTOR, BLOCK);
        let model = vec![0; (SECTORS * SECTOR) as usize];
        Self {
            world,
            volumes: vec![volume],
            snapshots: Vec::new(),
            models: [(volume, model)].into(),
        }
    }

    fn catalog(&self) -> &Catalog {
        self.world.pool.catalog()
    }

    fn name(&self, of: DatasetId) -> String {
        self.catalog().name(of)
    }

    fn perform(&mut self, step: &Step) {
        let (Step::Write(of, ..)
        | Step::Clear(of, ..)
        | Step::Snapshot(of)
        | Step::Clone(of)
        | Step::Resize(of, _)
        | Step::Promote(of)) = step;
        let volume = self.volumes[of % self.volumes.len()];
        let name = self.name(volume);
        let model = self.models.get_mut(&volume).expect("a model");
        let sectors = model.len() as u64 / SECTOR;
        let within = |at: u64, len: u64| {
            let at = at % sectors;
            (at, len.min(sectors - at))
        };
        match step {
            Step::Write(_, at, len, tag) => {
                let (at, len) = within(*at, *len);
                let bytes = bytes(len, *tag);
                model[(at * SECTOR) as usize..][..bytes.len()].copy_from_slice(&bytes);
                self.world.write(volume, at * SECTOR, &bytes, false);
            }
            Step::Clear(_, at, len) => {
                let (at, len) = within(*at, *len);
                model[(at * SECTOR) as usize..][..(len * SECTOR) as usize].fill(0);
                self.world.clear(volume, at * SECTOR, len * SECTOR);
            }
            Step::Resize(_, half) => {
                let size = half * SECTORS / 2 * SECTOR;
                model.resize(size as usize, 0);
                let may_shrink = true;
                let request = Resize {
                    name,
                    size,
                    may_shrink,
                };
                self.administer(Box::new(move |catalog, _| catalog.plan_resize(&request)));
            }
            Step::Snapshot(_) => {
                let model = model.clone();
                let name = format!("{name}@s{}", self.snapshots.len());
                let request = TakeSnapshots {
                    names: vec![name.clone()],
                    ..TakeSnapshots::default()
                };
                let plan: Plan =
                    Box::new(move |catalog, stamp| catalog.plan_snapshot(&request, stamp));
                self.administer(plan);
                let id = self.world.id(&name);
                self.snapshots.push(id);
                self.models.insert(id, model);
            }
            Step::Clone(of) => {
                let Some(at) = of.checked_rem(self.snapshots.len()) else {
                    return;
                };
                let origin = self.snapshots[at];
                let name = format!("v{}", self.volumes.len());
                let request = CloneSnapshot {
                    snapshot: self.name(origin),
                    name: name.clone(),
                    ..CloneSnapshot::default()
                };
                self.administer(Box::new(move |catalog, stamp| {
                    catalog.plan_clone(&request, stamp)
                }));
                let id = self.world.id(&name);
                self.volumes.push(id);
                self.models.insert(id, self.models[&origin].clone());
            }
            Step::Promote(_) => {
                let plan: Plan = Box::new(move |catalog, _| catalog.plan_promote(&name));
                // Only clones can be promoted, so some attempts fail.
                let _ = self.world.administer(plan);
            }
        }
    }

    fn administer(&mut self, plan: Plan) {
        self.world.administer(plan).expect("it can be done");
    }

    /// Makes the stream of a snapshot from the one before on, and the volume that it goes to. A
    /// clone goes as a clone.
    fn stream(&mut self, snapshot: DatasetId, start: u64) -> (String, Vec<u8>) {
        let catalog = self.catalog();
        let of = |id: DatasetId| catalog.dataset(id).expect("it");
        let (to, volume) = (of(snapshot), of(of(snapshot).parent));
        let from = to.previous().map(of);
        let foreign = from.filter(|from| from.parent != to.parent);
        let (size, block_size) = to.geometry().expect("blocks");
        let begin = Begin {
            pool: 77,
            volume: volume.guid,
            snapshot: to.guid,
            from: from.map(|from| from.guid),
            origin: foreign.map(|from| catalog.full_name(from.id)),
            source: catalog.full_name(snapshot),
            path: String::new(),
            name: to.name.clone(),
            created_s: 1234,
            size,
            block_size,
            start,
            properties: None,
        };
        let (name, older) = (format!("w/{}", volume.name), from.map(|from| from.id));
        (name, encoded(&mut self.world, &begin, older, snapshot))
    }
}

/// Interrupts a receive of a snapshot in some way, if the snapshot is not there yet.
fn interrupt(source: &mut Source, sink: &mut Sink, snapshot: DatasetId, trouble: &Trouble) {
    let start = sink.position().unwrap_or(0);
    let (_, stream) = source.stream(snapshot, start);
    let cut = stream.len() * trouble.cut / 1000;
    let name = source.name(snapshot);
    let is_there = |sink: &Sink| sink.world.pool.catalog().find(&format!("w/{name}")).is_ok();
    if is_there(sink) {
        return;
    }
    sink.receive(&stream[..cut]).expect("a part");
    if trouble.reopen {
        sink.world.reopen().expect("opens");
    }
    if sink.position().is_none() {
        return;
    }
    let dataset = sink.world.id(&sink.name);
    let (offset, len) = (0, 512);
    let read = Request::Read {
        dataset,
        offset,
        len,
    };
    let refused = sink.world.ask(read).expect_err("hidden");
    assert_eq!(refused.kind, PoolErrorKind::Receiving);
    if trouble.abort {
        let before = sink.world.pool.catalog().snapshots(dataset).len();
        sink.abort();
        let is_gone = sink.world.pool.catalog().find(&sink.name).is_err();
        assert_eq!(is_gone, before == 0, "a new clone goes as a whole");
    }
}

/// Returns the name of a volume's origin.
fn origin(catalog: &Catalog, volume: &str) -> Option<String> {
    let volume = catalog.find(volume).expect("a volume").id;
    catalog.origin(volume).map(|origin| catalog.name(origin))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn clones_arrive_as_clones_however_often_they_are_interrupted(
        shapes in (0..3_usize, 0..3_usize),
        steps in steps(),
        troubles in prop::collection::vec(troubles(), 8),
        is_lazy: bool,
    ) {
        let mut source = Source::new(shapes.0);
        steps.iter().for_each(|step| source.perform(step));
        let mut sink = Sink::new(shapes.1, is_lazy);
        // Datasets that others build on were taken before them.
        for (number, snapshot) in source.snapshots.clone().into_iter().enumerate() {
            (sink.name, _) = source.stream(snapshot, 0);
            for trouble in troubles.get(number).into_iter().flatten() {
                interrupt(&mut source, &mut sink, snapshot, trouble);
            }
            let there = format!("w/{}", source.name(snapshot));
            if sink.world.pool.catalog().find(&there).is_err() {
                let (_, stream) = source.stream(snapshot, sink.position().unwrap_or(0));
                sink.receive(&stream).expect("all of it");
            }
            prop_assert!(sink.holds(&there, &source.models[&snapshot]), "{}", there);
        }
        sink.world.checkpoint();
        sink.world.reopen().expect("opens");
        for snapshot in &source.snapshots {
            let there = format!("w/{}", source.name(*snapshot));
            prop_assert!(sink.holds(&there, &source.models[snapshot]), "{} after opening", there);
        }
        for volume in &source.volumes {
            if source.catalog().snapshots(*volume).is_empty() {
                continue;
            }
            let name = source.name(*volume);
            let here = origin(source.catalog(), &name).map(|origin| format!("w/{origin}"));
            let there = origin(sink.world.pool.catalog(), &format!("w/{name}"));
            prop_assert_eq!(here, there, "{}", name);
        }
        // All datasets can be destroyed again, and then nothing is in use.
        let request = Destroy {
            names: vec!["w".to_owned()],
            is_recursive: true,
            with_clones: true,
        };
        if !source.snapshots.is_empty() {
            let plan: Plan = Box::new(move |catalog, _| catalog.plan_destroy(&request));
            sink.world.administer(plan).expect("it goes");
            for _ in 0..4 {
                sink.world.checkpoint();
            }
        }
        sink.world.reopen().expect("opens");
    }
}

/// Makes a volume of 100 blocks with a snapshot, a clone of it, and a pool that has the snapshot.
/// The clone has a snapshot in which 5 blocks differ.
fn cloned() -> (Source, Sink) {
    let mut source = Source::new(0);
    for step in [
        Step::Write(0, 0, 200, 1),
        Step::Snapshot(0),
        Step::Clone(0),
        Step::Write(1, 20, 10, 2),
        Step::Snapshot(1),
    ] {
        source.perform(&step);
    }
    let mut sink = Sink::new(1, false);
    let (name, stream) = source.stream(source.snapshots[0], 0);
    sink.name = name;
    sink.receive(&stream).expect("received");
    (source, sink)
}

fn used(sink: &Sink, name: &str) -> (u64, u64) {
    let usage = sink.world.pool.usage()[&sink.world.id(name)];
    (usage.by_dataset + usage.by_snapshots, usage.referenced)
}

#[test]
fn a_received_clone_takes_only_what_differs() {
    let (mut source, mut sink) = cloned();
    let (name, stream) = source.stream(source.snapshots[1], 0);
    assert!(stream.len() < 6 * BLOCK as usize, "{}", stream.len());
    sink.name = name;
    sink.receive(&stream).expect("received");
    sink.world.checkpoint();
    let (own, referenced) = used(&sink, "w/v1");
    let (whole, _) = used(&sink, "w/v0");
    // The nodes of its map count if only its snapshot has them.
    let block = u64::from(BLOCK);
    assert!((5 * block..7 * block).contains(&own), "{own}");
    assert!(
        own < whole / 10 && referenced >= 100 * block,
        "{own} {whole} {referenced}"
    );
    assert!(sink.holds("w/v1", &source.models[&source.snapshots[1]]));
}

/// The snapshot that a clone continues from stays while the clone is received. The shared blocks
/// are not freed with it.
#[test]
fn nobody_takes_the_origin_away_from_a_clone_that_is_received() {
    let (mut source, mut sink) = cloned();
    let (name, stream) = source.stream(source.snapshots[1], 0);
    sink.name = name;
    sink.receive(&stream[..stream.len() / 2]).expect("a part");
    let destroy = |name: &str, with_clones: bool| -> Plan {
        let request = Destroy {
            names: vec![name.to_owned()],
            is_recursive: with_clones,
            with_clones,
        };
        Box::new(move |catalog, _| catalog.plan_destroy(&request))
    };
    let error = sink
        .world
        .administer(destroy("w/v0@s0", false))
        .expect_err("it is needed");
    assert!(
        error.context.contains("'tank/w/v1' is not complete"),
        "{error}"
    );
    let promote: Plan = Box::new(|catalog, _| catalog.plan_promote("w/v1"));
    let error = sink.world.administer(promote).expect_err("not complete");
    assert!(error.context.contains("is not complete"), "{error}");
    sink.abort();
    sink.world.checkpoint();
    sink.world.reopen().expect("opens");
    assert!(sink.holds("w/v0@s0", &source.models[&source.snapshots[0]]));
    sink.world
        .administer(destroy("w/v0@s0", false))
        .expect("nothing needs it");
    sink.world.checkpoint();
    sink.world.reopen().expect("opens");
}

#[test]
fn a_clone_without_its_origin_is_refused() {
    let (mut source, mut sink) = cloned();
    let (_, stream) = source.stream(source.snapshots[1], 0);
    sink.name = "w/v0".to_owned();
    let error = sink.receive(&stream).map(drop);
    // An existing volume continues as before, if it is what the clone continues from.
    error.expect("v0 takes it, too");
    sink.name = "w/v1".to_owned();
    let request = Destroy {
        names: vec!["w".to_owned()],
        is_recursive: true,
        ..Destroy::default()
    };
    let plan: Plan = Box::new(move |catalog, _| catalog.plan_destroy(&request));
    sink.world.administer(plan).expect("it goes");
    let error = sink.receive(&stream).expect_err("no origin");
    assert!(
        error
            .context
            .contains("a clone of 'tank/v0@s0', but this pool does not have that snapshot"),
        "{error}"
    );
    assert!(
        sink.world.pool.catalog().find("w").is_err(),
        "nothing is left"
    );
    // The rest of a receive that was given up has nothing to continue from.
    let (_, rest) = source.stream(source.snapshots[1], 12);
    sink.receive(&rest).expect_err("nothing is there");
}

/// The origin is the snapshot nearest to the clone, if several may be.
#[test]
fn the_nearest_of_several_origins_is_taken() {
    let (mut source, mut sink) = cloned();
    let (_, origin_stream) = source.stream(source.snapshots[0], 0);
    let (_, stream) = source.stream(source.snapshots[1], 0);
    for name in ["a/deep/v0", "a/v0", "z"] {
        sink.name = name.to_owned();
        sink.receive(&origin_stream).expect("received");
    }
    for (name, expected) in [
        ("a/deep/v1", "a/deep/v0@s0"),
        ("a/v1", "a/v0@s0"),
        ("a/v0/x", ""),
        ("w/v1", "w/v0@s0"),
        ("y", "z@s0"),
    ] {
        sink.name = name.to_owned();
        if expected.is_empty() {
            sink.receive(&stream).expect_err("a volume is no folder");
            continue;
        }
        sink.receive(&stream).expect(name);
        let catalog = sink.world.pool.catalog();
        assert_eq!(origin(catalog, name).as_deref(), Some(expected), "{name}");
        assert!(sink.holds(name, &source.models[&source.snapshots[1]]));
    }
    let is_clone = |dataset: &&Dataset| {
        let catalog = sink.world.pool.catalog();
        dataset.as_volume().is_some() && catalog.origin(dataset.id).is_some()
    };
    assert_eq!(
        sink.world
            .pool
            .catalog()
            .datasets()
            .filter(is_clone)
            .count(),
        4
    );
}
