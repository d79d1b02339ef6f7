//! Lists of datasets that would not fit into a checkpoint: changes that make them longer are
//! refused, all others continue.

use crate::catalog::request::{
    CreateVolume, Destroy, Inherit, ReceiveInto, Resize, Rollback, SetProperties, TakeSnapshots,
};
use crate::catalog::{HistoryEntry, Operation};
use crate::engine::tests::world::World;
use crate::engine::{Limits, PoolError, PoolErrorKind, Request, RequestId};
use crate::format::DatasetId;
use crate::stream::Begin;
use crate::vdev::TopLevelKind;

const BLOCK: u64 = 4096;
/// Bytes of the manifest. A quarter is left for datasets; the rest is kept for the history and the
/// space map.
const LIMIT: usize = 384 << 10;
/// Rounds that a volume has blocks for.
const ROUNDS: u64 = 100;

fn world() -> World {
    let limits = Limits {
        manifest_bytes: LIMIT,
        ..Limits::default()
    };
    World::of_size(TopLevelKind::Leaf, 1, 512 << 20, limits)
}

/// Reports whether a change was made. If it was refused, the lists were the reason.
fn is_done(result: Result<(), PoolError>) -> bool {
    let Err(error) = result else {
        return true;
    };
    assert_eq!(error.kind, PoolErrorKind::Refused, "{error}");
    let text = error.to_string();
    for part in [
        "the lists of datasets",
        "nothing was changed",
        "destroy snapshots",
    ] {
        assert!(text.contains(part), "{text}");
    }
    false
}

impl World {
    /// Makes the history as long as it may be.
    pub(in crate::engine::tests) fn fill_history(&mut self) {
        for _ in 0..70 {
            let entry = HistoryEntry {
                text: "\"".repeat(2048),
                ..HistoryEntry::default()
            };
            self.administer(Box::new(move |_, _| Ok(Operation::Note(entry))))
                .expect("an entry");
        }
    }

    /// Makes a checkpoint without a check of the pool.
    fn go_on_to_checkpoint(&mut self) {
        let before = self.pool.schedule.made();
        self.pool.schedule.want();
        self.pool.tick(self.now_us, 1_000);
        self.settle();
        assert!(
            self.pool.schedule.made() > before,
            "{:?}",
            self.pool.condition.suspended()
        );
    }

    /// Overwrites a block of each earlier round, and writes one for each later round. So each round
    /// has lost a block in every later one.
    fn overwrite(&mut self, volume: DatasetId, round: u64) {
        let row = round * ROUNDS * BLOCK;
        let bytes = vec![round as u8 + 1; (round * BLOCK) as usize];
        if round > 0 {
            self.write(volume, row, &bytes, false);
        }
        for later in round + 1..ROUNDS {
            let at = (later * ROUNDS + round) * BLOCK;
            self.write(volume, at, &[round as u8 + 1; BLOCK as usize], false);
        }
    }

    fn try_snapshot(&mut self, name: String) -> bool {
        let request = TakeSnapshots {
            names: vec![name],
            ..TakeSnapshots::default()
        };
        is_done(self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_snapshot(&request, stamp)
        })))
    }

    fn try_create(&mut self, name: String) -> bool {
        let request = CreateVolume {
            name,
            size: 1 << 20,
            block_size: BLOCK as u32,
            ..CreateVolume::default()
        };
        is_done(self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_create_volume(&request, stamp)
        })))
    }

    fn try_set(&mut self, volume: &str, property: String, len: usize) -> bool {
        let request = SetProperties {
            name: volume.to_owned(),
            properties: [(property, "x".repeat(len))].into(),
            ..SetProperties::default()
        };
        is_done(self.administer(Box::new(move |catalog, _| catalog.plan_set(&request))))
    }

    fn make_room(&mut self, names: Vec<String>) {
        let request = Destroy {
            names,
            ..Destroy::default()
        };
        self.administer(Box::new(move |catalog, _| catalog.plan_destroy(&request)))
            .expect("whatever makes lists shorter is done");
        for _ in 0..4 {
            self.go_on_to_checkpoint();
        }
    }
}

#[test]
fn snapshots_are_refused_before_dead_lists_are_too_long() {
    let mut world = world();
    world.fill_history();
    let volume = world.create_volume("v", ROUNDS * ROUNDS * BLOCK, BLOCK as u32);
    let mut taken = 0;
    loop {
        assert!(taken + 30 < ROUNDS, "no snapshot is refused");
        world.overwrite(volume, taken);
        if taken % 4 == 0 {
            world.go_on_to_checkpoint();
        }
        if !world.try_snapshot(format!("v@{taken}")) {
            break;
        }
        taken += 1;
    }
    assert!(taken > 25, "{taken}");
    // Writes continue, and checkpoints with them.
    for round in taken..taken + 20 {
        world.overwrite(volume, round);
        world.go_on_to_checkpoint();
        assert!(!world.try_snapshot("v@more".to_owned()));
        if round % 5 == 0 {
            world.reopen().expect("opens");
        }
    }
    world.checkpoint();
    world.make_room((0..15).map(|number| format!("v@{number}")).collect());
    for number in 0..2 {
        world.overwrite(volume, taken + 20 + number);
        assert!(world.try_snapshot(format!("v@again{number}")));
        world.checkpoint();
    }
    world.reopen().expect("opens");
}

#[test]
fn volumes_and_properties_are_refused_before_the_catalogue_is_too_long() {
    let mut world = world();
    world.fill_history();
    let mut made = 0;
    while world.try_create(format!("v{made}")) {
        made += 1;
        assert!(made < 2000, "no volume is refused");
    }
    assert!(made > 150, "{made}");
    world.checkpoint();
    world.reopen().expect("opens");
    assert!(!world.try_create("more".to_owned()));
    // This finds the longest property that there is room for.
    let mut len = 2048;
    let mut set = 0;
    while len > 0 {
        match world.try_set("v0", format!("a:{set}"), len) {
            true => set += 1,
            false => len /= 2,
        }
    }
    assert!(!world.try_set("v1", "a:b".to_owned(), 1000));
    world.checkpoint();
    world.reopen().expect("opens");
    // Changes that add nothing, or make the lists shorter, are done.
    let resize = Resize {
        name: "v3".to_owned(),
        size: 1 << 40,
        may_shrink: false,
    };
    world
        .administer(Box::new(move |catalog, _| catalog.plan_resize(&resize)))
        .expect("a larger volume");
    for property in 0..set {
        let inherit = Inherit {
            name: "v0".to_owned(),
            property: format!("a:{property}"),
            ..Inherit::default()
        };
        world
            .administer(Box::new(move |catalog, _| catalog.plan_inherit(&inherit)))
            .expect("what was set may go");
    }
    world.make_room((0..10).map(|number| format!("v{number}")).collect());
    assert!(world.try_create("more".to_owned()));
    assert!(world.try_set("v11", "a:b".to_owned(), 1000));
    world.checkpoint();
    world.reopen().expect("opens");
}

/// A shorter value in place of a longer one makes lists shorter.
#[test]
fn a_shorter_value_is_set_where_there_is_room_for_none() {
    let mut world = world();
    assert!(world.try_create("v".to_owned()));
    assert!(world.try_set("v", "a:long".to_owned(), 4000));
    world.fill_lists("v");
    assert!(world.try_set("v", "a:long".to_owned(), 3000));
    assert!(world.try_create("more".to_owned()));
}

/// Each rollback leaves a tree and a list that are being freed, while the volume stays. So later
/// rollbacks wait for these.
#[test]
fn rollbacks_wait_for_what_is_being_freed() {
    let mut world = world();
    world.fill_history();
    let volume = world.create_volume("v", 1 << 20, BLOCK as u32);
    world.write(volume, 0, &[1; BLOCK as usize], true);
    assert!(world.try_snapshot("v@s".to_owned()));
    world.write(volume, 0, &[2; BLOCK as usize], true);
    world.fill_lists("v");
    let asked = 2_000;
    for number in 0..asked {
        let request = Rollback {
            snapshot: "v@s".to_owned(),
            ..Rollback::default()
        };
        let id = RequestId(100_000 + number);
        let plan =
            Box::new(move |catalog: &crate::catalog::Catalog, _| catalog.plan_rollback(&request));
        world.pool.administer(id, plan, number, world.now_us);
    }
    let answers = world.settle();
    let done = answers.iter().filter(|(_, result)| result.is_ok());
    assert_eq!(
        done.count() as u64,
        asked,
        "{:?}",
        world.pool.condition.suspended()
    );
    assert_eq!(world.read(volume, 0, BLOCK as u32), [1; BLOCK as usize]);
    world.checkpoint();
    let flush = Request::Flush { dataset: volume };
    world.ask(flush).expect("the pool is not suspended");
}

/// Makes the beginning of a stream, with a snapshot and properties.
fn begin(from: Option<u64>, properties: usize) -> Begin {
    let value = |number| (format!("a:{number}"), "x".repeat(4000));
    Begin {
        pool: 99,
        volume: 1,
        snapshot: from.unwrap_or(500) + 1,
        from,
        origin: None,
        source: "other/v@s".to_owned(),
        path: String::new(),
        name: format!("s{}", from.unwrap_or(0)),
        created_s: 1234,
        size: 1 << 20,
        block_size: BLOCK as u32,
        start: 0,
        properties: Some((0..properties).map(value).collect()),
    }
}

impl World {
    fn try_begin(&mut self, name: &str, begin: &Begin, attempt: u64) -> bool {
        let request = ReceiveInto {
            name: name.to_owned(),
            begin: begin.clone(),
            attempt,
            is_resumable: true,
            with_parents: false,
        };
        is_done(self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_begin_receive(&request, stamp)
        })))
    }

    fn try_end(&mut self, name: &str, begin: &Begin, attempt: u64) -> bool {
        let (volume, begin) = (self.id(name), begin.clone());
        is_done(self.administer(Box::new(move |catalog, stamp| {
            catalog.plan_end_receive(volume, attempt, &begin, stamp)
        })))
    }

    /// Makes volumes until there is room for no more.
    fn fill_lists(&mut self, prefix: &str) {
        let mut made = 0;
        while self.try_create(format!("{prefix}{made}")) {
            made += 1;
            assert!(made < 2000, "no volume is refused");
        }
    }
}

/// Properties of up to 1 MiB come with each stream.
#[test]
fn streams_with_long_properties_are_refused_when_they_begin() {
    let mut world = world();
    world.fill_history();
    let stream = begin(None, 6);
    let mut begun = 0;
    while world.try_begin(&format!("v{begun}"), &stream, 7) {
        begun += 1;
        assert!(begun < 30, "no stream is refused");
    }
    assert!(begun > 1, "{begun}");
    world.checkpoint();
    world.reopen().expect("opens");
}

/// Room for the snapshot that ends a receive is kept from its beginning. Properties that come with
/// it for the volume may be refused, and the receive ends when there is room.
#[test]
fn a_receive_that_began_can_end() {
    let mut world = world();
    world.fill_history();
    let first = begin(None, 0);
    assert!(world.try_begin("w", &first, 7));
    world.fill_lists("a");
    assert!(world.try_end("w", &first, 7));
    world.make_room((0..10).map(|number| format!("a{number}")).collect());
    let second = begin(Some(first.snapshot), 2);
    assert!(world.try_begin("w", &second, 7));
    world.fill_lists("b");
    // A refused end is tried again, with the number of another attempt.
    assert!(!world.try_end("w", &second, 7));
    assert!(world.try_begin("w", &second, u64::MAX));
    assert!(!world.try_end("w", &second, u64::MAX));
    world.checkpoint();
    world.reopen().expect("opens");
    world.make_room((10..40).map(|number| format!("a{number}")).collect());
    assert!(world.try_end("w", &second, u64::MAX));
    world.checkpoint();
    world.reopen().expect("opens");
}

/// The receive of a new clone can end too. Its snapshot has a list for each snapshot that it builds
/// on.
#[test]
fn a_receive_of_a_clone_that_began_can_end() {
    let mut world = world();
    world.fill_history();
    assert!(world.try_create("v".to_owned()));
    let mut depth = 0;
    while depth < 3 {
        let volume = world.id("v");
        world.write(volume, depth * BLOCK, &[1; BLOCK as usize], false);
        assert!(world.try_snapshot(format!("v@{depth}")));
        depth += 1;
    }
    let origin = world.id("v@2");
    let guid = world.pool.catalog().dataset(origin).expect("it").guid;
    let stream = Begin {
        origin: Some("other/v@2".to_owned()),
        snapshot: 7,
        ..begin(Some(guid), 0)
    };
    let mut begun = 0;
    while world.try_begin(&format!("c{begun}"), &stream, 7) {
        begun += 1;
        assert!(begun < 2000, "no stream is refused");
        // The running estimate is never less than the real length.
        let counted = world.pool.count_lists(world.pool.catalog());
        let lists = world.pool.promises.lists().expect("they were counted");
        assert!(lists >= counted, "{lists} for {counted} after {begun}");
    }
    assert!(begun > 1, "{begun}");
    world.fill_lists("a");
    for number in 0..begun {
        assert!(
            world.try_end(&format!("c{number}"), &stream, 7),
            "{number} of {begun}"
        );
    }
    world.checkpoint();
    world.reopen().expect("opens");
}
