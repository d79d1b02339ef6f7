//! Tests of each operation: its effect on datasets, and the steps on blocks that the engine gets.

use super::*;
use crate::catalog::request::{
    Holds, Inherit, ReceiveInto, Rename, Resize, Rollback, SetProperties,
};
use crate::catalog::{Native, Property, ROOT, Source, Step};
use crate::stream::Begin;

/// Returns the snapshots of a volume by name, oldest first.
fn snapshots(world: &World, volume: &str) -> Vec<String> {
    let all = world.catalog.snapshots(world.id(volume));
    all.into_iter()
        .map(|snapshot| snapshot.name.clone())
        .collect()
}

fn epoch(world: &World, snapshot: &str) -> Epoch {
    world
        .catalog
        .find(snapshot)
        .expect(snapshot)
        .as_snapshot()
        .expect(snapshot)
        .epoch
}

fn value(world: &World, name: &str, property: &str) -> (String, Source) {
    let property = Property::parse(property).expect(property);
    let effective = world
        .catalog
        .property(world.id(name), &property)
        .expect(name);
    (effective.value.to_string(), effective.source)
}

fn set(world: &mut World, name: &str, pairs: &[(&str, &str)]) -> Result<Applied, CatalogError> {
    let request = SetProperties {
        name: name.to_owned(),
        properties: texts(pairs),
        is_received: false,
    };
    world.run(|catalog, _| catalog.plan_set(&request))
}

#[test]
fn folders_are_made_with_those_above() {
    let mut world = World::new();
    let request = CreateFolder {
        name: "a/b/c".to_owned(),
        with_parents: true,
        properties: texts(&[("compression", "zstd"), ("com.acme:team", "blue")]),
        ..Default::default()
    };
    let applied = world.run(|catalog, stamp| catalog.plan_create_folder(&request, stamp));
    assert_eq!(applied, Ok(Applied::default()));
    assert_eq!(world.catalog.name(world.id("a/b/c")), "a/b/c");
    assert_eq!(world.catalog.full_name(world.id("a/b/c")), "tank/a/b/c");
    assert_eq!(world.catalog.full_name(ROOT), "tank");
    // Properties belong to the last folder only.
    assert_eq!(
        value(&world, "a/b", "compression"),
        ("on".to_owned(), Source::Default)
    );
    assert_eq!(
        value(&world, "a/b/c", "compression"),
        ("zstd".to_owned(), Source::Local)
    );
    let children: Vec<_> = world
        .catalog
        .children(world.id("a"))
        .map(|child| child.id)
        .collect();
    assert_eq!(children, [world.id("a/b")]);
}

#[test]
fn a_volume_is_made_thin_or_thick() {
    let mut world = World::new();
    world.folder("vms");
    let applied =
        world.run(|catalog, stamp| catalog.plan_create_volume(&volume("vms/thin"), stamp));
    let created = Step::Create {
        volume: world.id("vms/thin"),
        size: 1 << 30,
        block_size: 16 << 10,
    };
    assert_eq!(applied.map(|applied| applied.steps), Ok(vec![created]));
    let thick = CreateVolume {
        is_thick: true,
        ..volume("vms/thick")
    };
    world
        .run(|catalog, stamp| catalog.plan_create_volume(&thick, stamp))
        .expect("thick");
    assert_eq!(
        world.catalog.settings(world.id("vms/thin")).refreservation,
        0
    );
    assert_eq!(
        world.catalog.settings(world.id("vms/thick")).refreservation,
        1 << 30
    );
    assert_eq!(
        value(&world, "vms/thick", "volblocksize"),
        ("16384".to_owned(), Source::None)
    );
}

#[test]
fn snapshots_of_a_folder_are_of_one_moment() {
    let mut world = World::new();
    world.folder("vms");
    let (one, two) = (world.volume("vms/1"), world.volume("vms/2"));
    world.volume("other");
    let moment = Epoch(world.epoch);
    let applied = world.snapshots(&["vms@x"], true).expect("snapshots");
    let steps = [one, two].map(|volume| Step::Snapshot {
        volume,
        snapshot: world.catalog.chain(volume).next().expect("one").id,
    });
    assert_eq!(applied.steps, steps);
    for name in ["vms/1@x", "vms/2@x"] {
        assert_eq!(epoch(&world, name), moment);
        assert_eq!(
            world
                .catalog
                .shared_until(world.catalog.find(name).expect(name).parent),
            moment
        );
    }
    assert!(world.catalog.find("other@x").is_err());
}

#[test]
fn destroying_a_snapshot_in_the_middle_merges_it_into_the_next() {
    let mut world = World::new();
    world.volume("v");
    let ids = ["v@a", "v@b", "v@c"].map(|name| world.snapshot(name));
    let after = epoch(&world, "v@a");
    let merge = |snapshot, next, after| Step::Merge {
        snapshot,
        next,
        after,
    };
    let applied = world.destroy("v@b", "").expect("b");
    assert_eq!(applied.steps, [merge(ids[1], ids[2], after)]);
    // The newest snapshot goes into the volume. The oldest one frees all blocks that it alone had.
    let applied = world.destroy("v@c", "").expect("c");
    assert_eq!(applied.steps, [merge(ids[2], world.id("v"), after)]);
    let applied = world.destroy("v@a", "").expect("a");
    assert_eq!(applied.steps, [merge(ids[0], world.id("v"), Epoch(0))]);
    assert_eq!(world.catalog.shared_until(world.id("v")), Epoch(0));
}

#[test]
fn a_range_goes_oldest_first() {
    let mut world = World::new();
    let volume = world.volume("v");
    let ids = ["v@a", "v@b", "v@c", "v@d", "v@e"].map(|name| world.snapshot(name));
    let (a, d) = (epoch(&world, "v@a"), ids[3]);
    let applied = world.destroy("v@b%c,e", "").expect("range");
    let merge = |snapshot, next, after| Step::Merge {
        snapshot,
        next,
        after,
    };
    let steps = [
        merge(ids[1], ids[2], a),
        merge(ids[2], d, a),
        merge(ids[4], volume, epoch(&world, "v@d")),
    ];
    assert_eq!(applied.steps, steps);
    assert_eq!(snapshots(&world, "v"), ["a", "d"]);
    world.destroy("v@%", "").expect("all");
    assert_eq!(snapshots(&world, "v"), [""; 0]);
}

#[test]
fn a_volume_goes_after_its_snapshots() {
    let mut world = World::new();
    world.folder("f");
    let volume = world.volume("f/v");
    let snapshot = world.snapshot("f/v@a");
    let applied = world.destroy("f", "r").expect("f");
    let steps = [
        Step::Merge {
            snapshot,
            next: volume,
            after: Epoch(0),
        },
        Step::Free {
            dataset: volume,
            after: Epoch(0),
        },
    ];
    assert_eq!(applied.steps, steps);
    assert_eq!(world.catalog.datasets().count(), 1);
    // Numbers are not given out again.
    assert!(world.volume("f") > snapshot);
}

#[test]
fn a_shared_snapshot_goes_after_its_clones() {
    let mut world = World::new();
    let volume = world.volume("v");
    let a = world.snapshot("v@a");
    let b = world.snapshot("v@b");
    let clone = world.clone_of("v@b", "c");
    let own = world.snapshot("c@x");
    assert_eq!(world.catalog.clones(b), [clone]);
    assert_eq!(world.catalog.origin(clone), Some(b));
    let until_a = epoch(&world, "v@a");
    let until_b = epoch(&world, "v@b");
    let applied = world.destroy("v@b", "R").expect("b");
    let steps = [
        Step::Merge {
            snapshot: own,
            next: clone,
            after: until_b,
        },
        Step::Free {
            dataset: clone,
            after: until_b,
        },
        Step::Merge {
            snapshot: b,
            next: volume,
            after: until_a,
        },
    ];
    assert_eq!(applied.steps, steps);
    assert_eq!(
        world
            .catalog
            .chain(volume)
            .map(|older| older.id)
            .collect::<Vec<_>>(),
        [a]
    );
}

#[test]
fn a_clone_begins_as_its_snapshot_is() {
    let mut world = World::new();
    world.volume("v");
    let snapshot = world.snapshot("v@a");
    let request = Resize {
        name: "v".to_owned(),
        size: 2 << 30,
        may_shrink: false,
    };
    world
        .run(|catalog, _| catalog.plan_resize(&request))
        .expect("resize");
    let request = CloneSnapshot {
        snapshot: "v@a".to_owned(),
        name: "lab/c".to_owned(),
        with_parents: true,
        properties: texts(&[("refreservation", "auto")]),
    };
    let applied = world
        .run(|catalog, stamp| catalog.plan_clone(&request, stamp))
        .expect("clone");
    let clone = world.id("lab/c");
    let step = Step::Clone {
        clone,
        snapshot,
        size: 1 << 30,
        block_size: 16 << 10,
    };
    assert_eq!(applied.steps, [step]);
    assert_eq!(world.catalog.settings(clone).refreservation, 1 << 30);
    assert_eq!(world.catalog.shared_until(clone), epoch(&world, "v@a"));
    assert_eq!(value(&world, "lab/c", "origin").0, "tank/v@a");
    assert_eq!(value(&world, "v@a", "clones").0, "tank/lab/c");
}

#[test]
fn a_rollback_destroys_what_is_newer_and_takes_the_size_back() {
    let mut world = World::new();
    let thick = CreateVolume {
        is_thick: true,
        ..volume("v")
    };
    world
        .run(|catalog, stamp| catalog.plan_create_volume(&thick, stamp))
        .expect("v");
    let id = world.id("v");
    let a = world.snapshot("v@a");
    let resize = Resize {
        name: "v".to_owned(),
        size: 2 << 30,
        may_shrink: false,
    };
    world
        .run(|catalog, _| catalog.plan_resize(&resize))
        .expect("resize");
    assert_eq!(world.catalog.settings(id).refreservation, 2 << 30);
    let b = world.snapshot("v@b");
    let request = Rollback {
        snapshot: "v@a".to_owned(),
        destroy_newer: true,
        with_clones: false,
    };
    let after = epoch(&world, "v@a");
    let applied = world
        .run(|catalog, _| catalog.plan_rollback(&request))
        .expect("rollback");
    let steps = [
        Step::Merge {
            snapshot: b,
            next: id,
            after,
        },
        Step::Rollback {
            volume: id,
            snapshot: a,
            after,
            size: 1 << 30,
        },
        Step::Settings { dataset: id },
    ];
    assert_eq!(applied.steps, steps);
    assert_eq!(snapshots(&world, "v"), ["a"]);
    assert_eq!(world.catalog.settings(id).refreservation, 1 << 30);
    assert_eq!(value(&world, "v", "volsize").0, (1 << 30).to_string());
}

#[test]
fn promotion_moves_the_snapshots_up_to_the_origin() {
    let mut world = World::new();
    let volume = world.volume("v");
    for name in ["v@a", "v@b", "v@c"] {
        world.snapshot(name);
    }
    let clone = world.clone_of("v@b", "c");
    world.snapshot("c@x");
    let links = |world: &World, id| {
        world
            .catalog
            .chain(id)
            .map(|older| older.id)
            .collect::<Vec<_>>()
    };
    let before = [volume, clone].map(|id| links(&world, id));
    world
        .run(|catalog, _| catalog.plan_promote("c"))
        .expect("promote");
    assert_eq!(snapshots(&world, "c"), ["a", "b", "x"]);
    assert_eq!(snapshots(&world, "v"), ["c"]);
    assert_eq!(world.catalog.origin(clone), None);
    assert_eq!(world.catalog.origin(volume), Some(world.id("c@b")));
    assert_eq!(world.catalog.clones(world.id("c@b")), [volume]);
    assert_eq!([volume, clone].map(|id| links(&world, id)), before);
    // The other volume may go now, and the promoted clone can be promoted back.
    world
        .run(|catalog, _| catalog.plan_promote("v"))
        .expect("back");
    assert_eq!(snapshots(&world, "v"), ["a", "b", "c"]);
    world
        .run(|catalog, _| catalog.plan_promote("c"))
        .expect("again");
    world.destroy("v", "r").expect("v");
    assert_eq!(snapshots(&world, "c"), ["a", "b", "x"]);
}

#[test]
fn promotion_of_a_clones_clone_leaves_the_first_origin() {
    let mut world = World::new();
    world.volume("v");
    world.snapshot("v@a");
    world.clone_of("v@a", "c");
    world.snapshot("c@b");
    let last = world.clone_of("c@b", "d");
    world
        .run(|catalog, _| catalog.plan_promote("d"))
        .expect("promote");
    assert_eq!(snapshots(&world, "d"), ["b"]);
    assert_eq!(world.catalog.origin(last), Some(world.id("v@a")));
    assert_eq!(world.catalog.origin(world.id("c")), Some(world.id("d@b")));
    assert_eq!(world.catalog.clones(world.id("v@a")), [last]);
}

#[test]
fn renaming_moves_all_that_lies_below() {
    let mut world = World::new();
    world.folder("a");
    let volume = world.volume("a/v");
    let snapshot = world.snapshot("a/v@x");
    set(&mut world, "a", &[("sync", "always")]).expect("set");
    let rename = |from: &str, to: &str| Rename {
        from: from.to_owned(),
        to: to.to_owned(),
        with_parents: true,
        is_recursive: false,
    };
    let request = rename("a/v", "n/m/w");
    let applied = world
        .run(|catalog, stamp| catalog.plan_rename(&request, stamp))
        .expect("rename");
    let changed = [volume, snapshot].map(|dataset| Step::Settings { dataset });
    assert_eq!(applied.steps, changed);
    assert_eq!(world.catalog.name(snapshot), "n/m/w@x");
    assert_eq!(value(&world, "n/m/w", "sync").1, Source::Default);
    let request = rename("n/m/w@x", "@y");
    world
        .run(|catalog, stamp| catalog.plan_rename(&request, stamp))
        .expect("snapshot");
    assert_eq!(world.id("n/m/w@y"), snapshot);
    assert!(world.catalog.find("n/m/w@x").is_err());
}

#[test]
fn snapshots_of_one_name_are_renamed_together() {
    let mut world = World::new();
    world.folder("f");
    let ids = ["f/1", "f/2"].map(|name| world.volume(name));
    world.snapshots(&["f@x"], true).expect("snapshots");
    let request = Rename {
        from: "f@x".to_owned(),
        to: "f@y".to_owned(),
        with_parents: false,
        is_recursive: true,
    };
    world
        .run(|catalog, stamp| catalog.plan_rename(&request, stamp))
        .expect("rename");
    for id in ids {
        assert_eq!(world.catalog.snapshots(id)[0].name, "y");
    }
}

#[test]
fn properties_come_from_the_nearest_above() {
    let mut world = World::new();
    let folder = world.folder("f");
    let volume = world.volume("f/v");
    let snapshot = world.snapshot("f/v@x");
    let pairs = [
        ("compression", "zstd-7"),
        ("primarycache", "metadata"),
        ("a:b", "c"),
        ("readonly", "on"),
    ];
    let applied = set(&mut world, "f", &pairs).expect("set");
    assert_eq!(
        applied.steps,
        [volume, snapshot].map(|dataset| Step::Settings { dataset })
    );
    let inherited = Source::Inherited(folder);
    assert_eq!(
        value(&world, "f/v", "compression"),
        ("zstd-7".to_owned(), inherited)
    );
    assert_eq!(value(&world, "f/v@x", "a:b"), ("c".to_owned(), inherited));
    assert_eq!(world.catalog.user_properties(snapshot).len(), 1);
    let settings = world.catalog.settings(volume);
    assert_eq!(
        (settings.compression.level(), settings.is_readonly),
        (7, true)
    );
    // Received values yield to local ones and override inherited ones.
    let request = SetProperties {
        name: "f/v".to_owned(),
        properties: texts(&[("compression", "off")]),
        is_received: true,
    };
    world
        .run(|catalog, _| catalog.plan_set(&request))
        .expect("received");
    assert_eq!(
        value(&world, "f/v", "compression"),
        ("off".to_owned(), Source::Received)
    );
    set(&mut world, "f/v", &[("compression", "lz4")]).expect("local");
    assert_eq!(
        value(&world, "f/v", "compression"),
        ("lz4".to_owned(), Source::Local)
    );
    let mut inherit = Inherit {
        name: "f/v".to_owned(),
        property: "compression".to_owned(),
        is_recursive: false,
        to_received: true,
    };
    world
        .run(|catalog, _| catalog.plan_inherit(&inherit))
        .expect("inherit -S");
    assert_eq!(value(&world, "f/v", "compression").1, Source::Received);
    inherit.to_received = false;
    world
        .run(|catalog, _| catalog.plan_inherit(&inherit))
        .expect("inherit");
    assert_eq!(value(&world, "f/v", "compression").1, inherited);
    inherit = Inherit {
        name: String::new(),
        is_recursive: true,
        ..inherit
    };
    world
        .run(|catalog, _| catalog.plan_inherit(&inherit))
        .expect("inherit -r");
    assert_eq!(value(&world, "f/v", "compression").1, Source::Default);
}

#[test]
fn a_volume_grows_and_shrinks() {
    let mut world = World::new();
    let volume = world.volume("v");
    for (size, from) in [(2 << 30, 1 << 30), (1 << 20, 2 << 30)] {
        let request = Resize {
            name: "v".to_owned(),
            size,
            may_shrink: true,
        };
        let applied = world
            .run(|catalog, _| catalog.plan_resize(&request))
            .expect("resize");
        let step = Step::Resize {
            volume,
            from,
            to: size,
        };
        assert_eq!(applied.steps, [step]);
        let info = world
            .catalog
            .property(volume, &Native::Volsize.into())
            .expect("volsize");
        assert_eq!(info.value.to_string(), size.to_string());
    }
}

#[test]
fn holds_come_and_go() {
    let mut world = World::new();
    world.folder("f");
    world.volume("f/v");
    world.volume("f/w");
    world.snapshots(&["f@x"], true).expect("snapshots");
    let request = Holds {
        tag: "backup".to_owned(),
        snapshots: vec!["f@x".to_owned()],
        is_recursive: true,
    };
    world
        .run(|catalog, stamp| catalog.plan_hold(&request, stamp))
        .expect("hold");
    assert_eq!(value(&world, "f/v@x", "userrefs").0, "1");
    let one = Holds {
        snapshots: vec!["f/v@x".to_owned()],
        is_recursive: false,
        ..request.clone()
    };
    world
        .run(|catalog, _| catalog.plan_release(&one))
        .expect("release one");
    world
        .run(|catalog, _| catalog.plan_release(&request))
        .expect("release the others");
    assert_eq!(value(&world, "f/w@x", "userrefs").0, "0");
    world.destroy("f", "r").expect("nothing holds");
}

#[test]
fn snapshots_are_listed_as_they_were_taken_and_all_else_by_name() {
    let mut world = World::new();
    for name in ["b", "a"] {
        world.volume(name);
    }
    for name in ["b@z", "a@z", "b@y", "a@m", "a@a"] {
        world.snapshot(name);
    }
    let listed = |world: &World| -> Vec<String> {
        let all = world.catalog.listing(ROOT).into_iter();
        all.map(|dataset| world.catalog.name(dataset.id)).collect()
    };
    assert_eq!(
        listed(&world),
        ["", "a", "a@z", "a@m", "a@a", "b", "b@z", "b@y"]
    );
    world.clone_of("a@m", "c");
    world.snapshot("c@b");
    world
        .run(|catalog, _| catalog.plan_promote("c"))
        .expect("promote");
    assert_eq!(
        listed(&world),
        ["", "a", "a@a", "b", "b@z", "b@y", "c", "c@z", "c@m", "c@b"]
    );
}

/// Receives a stream into the volume "v": the snapshot `from` which it goes on, and the properties
/// that come with it.
fn receive(world: &mut World, from: Option<u64>, properties: Option<&[(&str, &str)]>) -> Applied {
    let begin = Begin {
        pool: 99,
        volume: 1,
        snapshot: from.unwrap_or(500) + 1,
        from,
        origin: None,
        source: "other/v@s".to_owned(),
        path: String::new(),
        name: format!("s{}", from.unwrap_or(500)),
        created_s: 1234,
        size: 1 << 20,
        block_size: 16 << 10,
        start: 0,
        properties: properties.map(texts),
    };
    let request = ReceiveInto {
        name: "v".to_owned(),
        begin: begin.clone(),
        attempt: 7,
        is_resumable: true,
        with_parents: false,
    };
    world
        .run(|catalog, stamp| catalog.plan_begin_receive(&request, stamp))
        .expect("begins");
    let volume = world.id("v");
    let token = world
        .catalog
        .resume_token(volume)
        .expect("it is on its way");
    assert_eq!(token.with_properties, properties.is_some());
    world
        .run(|catalog, stamp| catalog.plan_end_receive(volume, 7, &begin, stamp))
        .expect("ends")
}

#[test]
fn a_stream_with_properties_replaces_all_that_came_with_earlier_ones() {
    let mut world = World::new();
    receive(
        &mut world,
        None,
        Some(&[("compression", "zstd"), ("a:b", "c")]),
    );
    let received = |world: &World| {
        let of = &world.catalog.find("v").expect("it").received;
        std::collections::BTreeMap::from(of.clone())
    };
    assert_eq!(
        received(&world),
        texts(&[("compression", "zstd"), ("a:b", "c")])
    );
    set(&mut world, "v", &[("compression", "off")]).expect("local");
    receive(&mut world, Some(501), None);
    assert_eq!(
        received(&world),
        texts(&[("compression", "zstd"), ("a:b", "c")])
    );
    // Properties that a version does not know, and those that do not travel, are left out.
    let brought = [("d:e", "f"), ("refreservation", "1M"), ("unheardof", "x")];
    let applied = receive(&mut world, Some(502), Some(&brought));
    assert_eq!(received(&world), texts(&[("d:e", "f")]));
    assert_eq!(
        value(&world, "v", "compression"),
        ("off".to_owned(), Source::Local)
    );
    // Snapshots have the properties of their volume.
    for name in ["v", "v@s500", "v@s501"] {
        let dataset = world.id(name);
        assert!(
            applied.steps.contains(&Step::Settings { dataset }),
            "{name}"
        );
    }
    // An empty set of properties differs from none sent, also if it comes from the log.
    receive(&mut world, Some(503), Some(&[]));
    assert_eq!(received(&world), texts(&[]));
    let mut again = World::new();
    for operation in &world.done {
        let read = Operation::decode(&operation.encode()).expect("it is one");
        assert_eq!(read, *operation);
        again.catalog.apply(&read).expect("the same again");
    }
    assert_eq!(again.catalog, world.catalog);
}
