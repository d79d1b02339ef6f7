//! Tests of each refusal: its kind, and its text.

use super::*;
use crate::catalog::request::{Holds, Inherit, Rename, Resize, Rollback, SetProperties};
use crate::catalog::{ErrorKind, MAX_USER_VALUE, ROOT};

/// Checks that the operation is refused with this kind and these words, and that nothing is
/// changed.
fn refused(
    world: &World,
    kind: ErrorKind,
    words: &str,
    plan: impl FnOnce(&Catalog, Stamp) -> Result<Operation, CatalogError>,
) {
    let error = plan(&world.catalog, world.stamp()).expect_err(words);
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(error.to_string().contains("nothing was changed"), "{error}");
}

/// Makes a folder, a volume in it with two snapshots, and a clone of the second one.
fn world() -> World {
    let mut world = World::new();
    world.folder("f");
    world.volume("f/v");
    world.snapshot("f/v@a");
    world.snapshot("f/v@b");
    world.clone_of("f/v@b", "c");
    world
}

fn folder(name: &str) -> CreateFolder {
    CreateFolder {
        name: name.to_owned(),
        ..Default::default()
    }
}

fn destroy(name: &str) -> Destroy {
    Destroy {
        names: vec![name.to_owned()],
        ..Default::default()
    }
}

fn take(names: &[&str]) -> TakeSnapshots {
    TakeSnapshots {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    }
}

fn rename(from: &str, to: &str) -> Rename {
    Rename {
        from: from.to_owned(),
        to: to.to_owned(),
        ..Default::default()
    }
}

#[test]
fn names() {
    let world = world();
    let long = "x".repeat(256);
    let deep = "a/".repeat(50) + "a";
    for (name, words) in [
        ("", "is not a name of a folder or volume"),
        ("/a", "'/a' has an empty part"),
        ("a//b", "'a//b' has an empty part"),
        ("a/", "'a/' has an empty part"),
        ("a@", "'a@' has an empty part"),
        ("..", "'..' is not allowed"),
        ("f/./b", "'.' is not allowed"),
        ("a%b", "contains the character '%'"),
        ("a@b@c", "contains the character '@'"),
        ("ä", "contains the character 'ä'"),
        (" a", "begins or ends with a space"),
        ("a@b", "is not a name of a folder or volume"),
        (&long, "255"),
        (&deep, "nested 51 deep; at most 50 levels"),
    ] {
        let request = CreateFolder {
            with_parents: true,
            ..folder(name)
        };
        refused(&world, ErrorKind::InvalidName, words, |catalog, stamp| {
            catalog.plan_create_folder(&request, stamp)
        });
    }
    let longest = "x".repeat(255);
    for name in ["a b-c_d.e:f", &longest] {
        assert!(
            world
                .catalog
                .plan_create_folder(&folder(name), world.stamp())
                .is_ok(),
            "{name}"
        );
    }
}

#[test]
fn creation() {
    let world = world();
    refused(
        &world,
        ErrorKind::Exists,
        "'tank/f' exists already",
        |catalog, stamp| catalog.plan_create_folder(&folder("f"), stamp),
    );
    refused(
        &world,
        ErrorKind::NotFound,
        "the folder 'tank/g' does not exist",
        |catalog, stamp| catalog.plan_create_volume(&volume("g/v"), stamp),
    );
    refused(
        &world,
        ErrorKind::InvalidValue,
        "'tank/f/v' is a volume, not a folder",
        |catalog, stamp| catalog.plan_create_volume(&volume("f/v/w"), stamp),
    );
    for (size, block_size, words) in [
        (0, 16 << 10, "the nearest possible size is 16K"),
        (
            (1 << 30) + 1,
            16 << 10,
            "the nearest possible size is 1G or 1048592K",
        ),
        (1 << 10, 16 << 10, "the nearest possible size is 16K"),
        (
            u64::MAX,
            16 << 10,
            "volsize cannot be 18446744073709551615; nothing was changed; the nearest possible size is 1E",
        ),
        (1 << 30, 2 << 10, "volblocksize cannot be 2048"),
        (1 << 30, 12 << 10, "use 4K, 8K, 16K, 32K, 64K or 128K"),
        (1 << 30, 256 << 10, "volblocksize cannot be 262144"),
    ] {
        let request = CreateVolume {
            size,
            block_size,
            ..volume("w")
        };
        refused(&world, ErrorKind::InvalidValue, words, |catalog, stamp| {
            catalog.plan_create_volume(&request, stamp)
        });
    }
}

#[test]
fn properties() {
    let world = world();
    let long = "x".repeat(MAX_USER_VALUE + 1);
    use ErrorKind::{InvalidValue, ReadOnly};
    for (name, property, value, kind, words) in [
        (
            "f",
            "compression",
            "gzip",
            InvalidValue,
            "use one of on|off|lz4|zstd|zstd-1..zstd-19",
        ),
        (
            "f",
            "compression",
            "zstd-0",
            InvalidValue,
            "'zstd-0' is not a value of compression",
        ),
        (
            "f",
            "compression",
            "zstd-20",
            InvalidValue,
            "'zstd-20' is not a value",
        ),
        (
            "f",
            "compression",
            "zstd-+1",
            InvalidValue,
            "is not a value",
        ),
        (
            "f",
            "checksum",
            "sha256",
            InvalidValue,
            "on|off|xxh3|blake3",
        ),
        (
            "f",
            "primarycache",
            "some",
            InvalidValue,
            "all|metadata|none",
        ),
        (
            "f",
            "sync",
            "never",
            InvalidValue,
            "standard|always|disabled",
        ),
        ("f", "readonly", "yes", InvalidValue, "on|off"),
        ("f", "snapshot_limit", "-1", InvalidValue, "none|COUNT"),
        (
            "f",
            "compresion",
            "on",
            InvalidValue,
            "there is no property 'compresion'",
        ),
        ("f", "a:b", &long, InvalidValue, "has 8192 bytes"),
        (
            "f",
            "refreservation",
            "1G",
            InvalidValue,
            "refreservation cannot be set on a folder",
        ),
        (
            "f/v",
            "refreservation",
            "2G",
            InvalidValue,
            "cannot be more than volsize, 1G",
        ),
        (
            "f/v",
            "refreservation",
            "-1",
            InvalidValue,
            "none|auto|SIZE",
        ),
        (
            "f/v@a",
            "compression",
            "on",
            InvalidValue,
            "compression cannot be set on a snapshot",
        ),
        ("f/v", "used", "1", ReadOnly, "used is computed"),
        (
            "f/v",
            "volblocksize",
            "8K",
            ReadOnly,
            "volblocksize cannot be changed",
        ),
        (
            "f/v",
            "volsize",
            "2G",
            ReadOnly,
            "volsize is changed by resizing",
        ),
        (
            "g",
            "sync",
            "always",
            ErrorKind::NotFound,
            "'tank/g' does not exist",
        ),
    ] {
        let request = SetProperties {
            name: name.to_owned(),
            // All properties are set, or none.
            properties: texts(&[(property, value), ("my:own", "value")]),
            is_received: false,
        };
        refused(&world, kind, words, |catalog, _| catalog.plan_set(&request));
    }
    let none = SetProperties::default();
    refused(
        &world,
        InvalidValue,
        "no property is named",
        |catalog, _| catalog.plan_set(&none),
    );
    let inherit = Inherit {
        name: "f/v".to_owned(),
        property: "used".to_owned(),
        ..Default::default()
    };
    refused(&world, ReadOnly, "used is computed", |catalog, _| {
        catalog.plan_inherit(&inherit)
    });
}

#[test]
fn a_received_reservation_that_no_longer_fits_does_not_come_back() {
    let mut world = world();
    for (value, is_received) in [("1G", true), ("none", false)] {
        let request = SetProperties {
            name: "f/v".to_owned(),
            properties: texts(&[("refreservation", value)]),
            is_received,
        };
        world
            .run(|catalog, _| catalog.plan_set(&request))
            .expect(value);
    }
    let shrink = Resize {
        name: "f/v".to_owned(),
        size: 1 << 20,
        may_shrink: true,
    };
    world
        .run(|catalog, _| catalog.plan_resize(&shrink))
        .expect("shrink");
    let inherit = Inherit {
        name: "f/v".to_owned(),
        property: "refreservation".to_owned(),
        is_recursive: false,
        to_received: true,
    };
    refused(
        &world,
        ErrorKind::InvalidValue,
        "more than volsize, 1M",
        |catalog, _| catalog.plan_inherit(&inherit),
    );
}

#[test]
fn snapshots() {
    let world = world();
    for (names, kind, words) in [
        (
            &["f/v@a"][..],
            ErrorKind::Exists,
            "'tank/f/v@a' exists already",
        ),
        (
            &["f/v"],
            ErrorKind::InvalidName,
            "'tank/f/v' does not name a snapshot",
        ),
        (
            &["f@x"],
            ErrorKind::InvalidValue,
            "use -r for snapshots of all volumes in it",
        ),
        (&["g@x"], ErrorKind::NotFound, "'tank/g' does not exist"),
        (
            &["f/v@x", "f/v@y"],
            ErrorKind::InvalidValue,
            "'tank/f/v' is named twice",
        ),
    ] {
        refused(&world, kind, words, |catalog, stamp| {
            catalog.plan_snapshot(&take(names), stamp)
        });
    }
    let empty = Stamp {
        epoch: Epoch(2),
        ..world.stamp()
    };
    refused(
        &world,
        ErrorKind::Mismatch,
        "cannot belong to epoch 2",
        |catalog, _| catalog.plan_snapshot(&take(&["f/v@x"]), empty),
    );
    let two = TakeSnapshots {
        guid: Some(1),
        ..take(&["f/v@x", "c@x"])
    };
    refused(
        &world,
        ErrorKind::InvalidValue,
        "a guid can be given to one snapshot only",
        |catalog, stamp| catalog.plan_snapshot(&two, stamp),
    );
}

#[test]
fn limits_count_what_lies_below() {
    let mut world = world();
    world.folder("g");
    let limit = SetProperties {
        name: "f".to_owned(),
        properties: texts(&[("snapshot_limit", "2")]),
        is_received: false,
    };
    world
        .run(|catalog, _| catalog.plan_set(&limit))
        .expect("limit");
    let words = "'tank/f' has snapshot_limit=2";
    refused(&world, ErrorKind::LimitReached, words, |catalog, stamp| {
        catalog.plan_snapshot(&take(&["f/v@x"]), stamp)
    });
    // A snapshot that moves inside the folder counts already; one from outside does not.
    let inside = rename("f/v", "f/w");
    assert!(world.catalog.plan_rename(&inside, world.stamp()).is_ok());
    world.snapshot("c@x");
    refused(&world, ErrorKind::LimitReached, words, |catalog, stamp| {
        catalog.plan_rename(&rename("c", "f/c"), stamp)
    });
    let limit = SetProperties {
        name: "c".to_owned(),
        properties: texts(&[("snapshot_limit", "2")]),
        is_received: false,
    };
    world
        .run(|catalog, _| catalog.plan_set(&limit))
        .expect("limit");
    refused(
        &world,
        ErrorKind::LimitReached,
        "'tank/c' has snapshot_limit=2",
        |catalog, _| catalog.plan_promote("c"),
    );
}

#[test]
fn destruction() {
    let mut world = world();
    for (name, kind, words) in [
        ("", ErrorKind::ReadOnly, "'tank' is the pool's root folder"),
        (
            "f",
            ErrorKind::NotEmpty,
            "it contains 'tank/f/v'; nothing was changed; use -r",
        ),
        (
            "f/v",
            ErrorKind::HasSnapshots,
            "it has the snapshot 'tank/f/v@a'",
        ),
        ("f/v@b", ErrorKind::HasClones, "'tank/c' is a clone of it"),
        ("f/v@x", ErrorKind::NotFound, "'tank/f/v@x' does not exist"),
        ("f@a", ErrorKind::NotFound, "'tank/f@a' does not exist"),
        (
            "f/v@b%a",
            ErrorKind::NotFound,
            "name the older snapshot first",
        ),
        (
            "f/v@a,x",
            ErrorKind::NotFound,
            "'tank/f/v@x' does not exist",
        ),
    ] {
        refused(&world, kind, words, |catalog, _| {
            catalog.plan_destroy(&destroy(name))
        });
    }
    let recursive = Destroy {
        is_recursive: true,
        ..destroy("f")
    };
    refused(
        &world,
        ErrorKind::HasClones,
        "'volume promote tank/c' first",
        |catalog, _| catalog.plan_destroy(&recursive),
    );
    refused(
        &world,
        ErrorKind::InvalidName,
        "no dataset is named",
        |catalog, _| catalog.plan_destroy(&Destroy::default()),
    );
    let hold = Holds {
        tag: "backup".to_owned(),
        snapshots: vec!["f/v@a".to_owned()],
        is_recursive: false,
    };
    world
        .run(|catalog, stamp| catalog.plan_hold(&hold, stamp))
        .expect("hold");
    let words = "the hold 'backup' keeps it";
    refused(&world, ErrorKind::Held, words, |catalog, _| {
        catalog.plan_destroy(&destroy("f/v@a"))
    });
    let all = Destroy {
        with_clones: true,
        ..destroy("f")
    };
    refused(&world, ErrorKind::Held, words, |catalog, _| {
        catalog.plan_destroy(&all)
    });
}

/// The clone builds on the snapshot only by a snapshot of its own, which goes too. The rest of the
/// clone would then build on a snapshot that is gone: no readable catalogue.
#[test]
fn destruction_of_a_snapshot_whose_clone_loses_its_own_snapshots_too() {
    let mut world = world();
    world.snapshot("c@b");
    world.snapshot("c@d");
    for (names, is_recursive) in [
        (vec!["@b,d"], true),
        (vec!["@%"], true),
        (vec!["f/v@b", "c@b", "c@d"], false),
    ] {
        let request = Destroy {
            names: names.into_iter().map(str::to_owned).collect(),
            is_recursive,
            with_clones: false,
        };
        let words = "'tank/f/v@b' cannot be destroyed: 'tank/c' is a clone of it";
        refused(&world, ErrorKind::HasClones, words, |catalog, _| {
            catalog.plan_destroy(&request)
        });
    }
    world.destroy("@b,d", "R").expect("the clone goes too");
    assert!(world.catalog.find("c").is_err());
    assert!(world.catalog.find("f/v@a").is_ok());
}

#[test]
fn rollback_and_promotion() {
    let mut world = world();
    let mut request = Rollback {
        snapshot: "f/v@a".to_owned(),
        ..Default::default()
    };
    refused(
        &world,
        ErrorKind::HasSnapshots,
        "'tank/f/v@b' is newer",
        |catalog, _| catalog.plan_rollback(&request),
    );
    request.destroy_newer = true;
    refused(
        &world,
        ErrorKind::HasClones,
        "'tank/c' is a clone of it",
        |catalog, _| catalog.plan_rollback(&request),
    );
    request.with_clones = true;
    assert!(world.catalog.plan_rollback(&request).is_ok());
    request.snapshot = "c".to_owned();
    refused(
        &world,
        ErrorKind::InvalidValue,
        "'tank/c' is a volume, not a snapshot",
        |catalog, _| catalog.plan_rollback(&request),
    );
    refused(
        &world,
        ErrorKind::InvalidValue,
        "'tank/f/v' is not a clone",
        |catalog, _| catalog.plan_promote("f/v"),
    );
    world.snapshot("c@a");
    refused(
        &world,
        ErrorKind::Exists,
        "'tank/c@a' exists already, and the promotion would move",
        |catalog, _| catalog.plan_promote("c"),
    );
}

#[test]
fn renames() {
    let mut world = world();
    world.folder("f/g");
    // The snapshots of the volume in it would have names of 256 bytes and more.
    let long = "x".repeat(252);
    for (from, to, kind, words) in [
        (
            "",
            "x",
            ErrorKind::ReadOnly,
            "the root folder has the pool's name",
        ),
        ("c", "f", ErrorKind::Exists, "'tank/f' exists already"),
        (
            "c",
            "g/c",
            ErrorKind::NotFound,
            "the folder 'tank/g' does not exist",
        ),
        (
            "f",
            "f/g/h",
            ErrorKind::InvalidName,
            "'tank/f' cannot move into itself",
        ),
        (
            "f",
            "f/x",
            ErrorKind::InvalidName,
            "'tank/f' cannot move into itself",
        ),
        ("f", &long, ErrorKind::InvalidName, "a name has at most 255"),
        (
            "f/v@a",
            "f/w@a",
            ErrorKind::InvalidName,
            "change only the part behind '@'",
        ),
        (
            "f/v@a",
            "f/v",
            ErrorKind::InvalidName,
            "change only the part behind '@'",
        ),
        (
            "f/v@a",
            "@b",
            ErrorKind::Exists,
            "'tank/f/v@b' exists already",
        ),
    ] {
        refused(&world, kind, words, |catalog, stamp| {
            catalog.plan_rename(&rename(from, to), stamp)
        });
    }
    let with_parents = Rename {
        with_parents: true,
        ..rename("f", "f/new/x")
    };
    refused(
        &world,
        ErrorKind::InvalidName,
        "cannot move into itself",
        |catalog, stamp| catalog.plan_rename(&with_parents, stamp),
    );
    let nowhere = Rename {
        is_recursive: true,
        ..rename("f@x", "@y")
    };
    refused(
        &world,
        ErrorKind::NotFound,
        "has a snapshot 'x'",
        |catalog, stamp| catalog.plan_rename(&nowhere, stamp),
    );
}

#[test]
fn sizes_and_holds() {
    let mut world = world();
    let mut resize = Resize {
        name: "f/v".to_owned(),
        size: 512 << 20,
        may_shrink: false,
    };
    let words =
        "'tank/f/v' would shrink from 1G to 512M, and the data beyond the new end would be lost";
    refused(&world, ErrorKind::InvalidValue, words, |catalog, _| {
        catalog.plan_resize(&resize)
    });
    resize.size += 1;
    refused(
        &world,
        ErrorKind::InvalidValue,
        "is not a multiple of volblocksize, 16K",
        |catalog, _| catalog.plan_resize(&resize),
    );
    resize.name = "f".to_owned();
    refused(
        &world,
        ErrorKind::InvalidValue,
        "'tank/f' is a folder, not a volume",
        |catalog, _| catalog.plan_resize(&resize),
    );
    let mut holds = Holds {
        tag: "t".to_owned(),
        snapshots: vec!["f/v@a".to_owned()],
        is_recursive: false,
    };
    refused(
        &world,
        ErrorKind::NotFound,
        "'tank/f/v@a' has no hold 't'",
        |catalog, _| catalog.plan_release(&holds),
    );
    world
        .run(|catalog, stamp| catalog.plan_hold(&holds, stamp))
        .expect("hold");
    refused(
        &world,
        ErrorKind::Exists,
        "has a hold 't' already",
        |catalog, stamp| catalog.plan_hold(&holds, stamp),
    );
    holds.tag = "a\nb".to_owned();
    refused(
        &world,
        ErrorKind::InvalidName,
        "'a\\nb' is not a valid tag",
        |catalog, stamp| catalog.plan_hold(&holds, stamp),
    );
}

#[test]
fn operations_that_do_not_fit_change_nothing() {
    let mut world = world();
    let planned = world
        .catalog
        .plan_create_folder(&folder("x"), world.stamp())
        .expect("x");
    world.folder("y");
    let ids = |ids: &[u32]| ids.iter().map(|id| DatasetId(*id)).collect::<Vec<_>>();
    let (volume, clone) = (world.id("f/v"), world.id("c"));
    let rollback = |snapshot: &str, destroy| Operation::Rollback {
        volume,
        snapshot: world.id(snapshot),
        destroy,
        refreservation: None,
    };
    let wrong = [
        // The operation was planned before another change.
        planned,
        Operation::CreateFolder { folders: vec![] },
        Operation::Destroy { ids: vec![] },
        Operation::Destroy { ids: ids(&[99]) },
        Operation::Destroy {
            ids: vec![clone, clone],
        },
        Operation::Destroy { ids: vec![ROOT] },
        Operation::Promote {
            clone: DatasetId(99),
        },
        Operation::Promote { clone: ROOT },
        rollback("f/v@a", vec![]),
        rollback("f/v@b", vec![volume]),
        rollback("f/v@b", vec![world.id("f/v@b")]),
        rollback("c", vec![]),
        Operation::Resize {
            volume: ROOT,
            size: 1 << 20,
            refreservation: None,
        },
        Operation::Resize {
            volume,
            size: 1 << 20,
            refreservation: Some(2 << 20),
        },
        Operation::Rename {
            folders: vec![],
            renames: vec![],
        },
        Operation::Inherit {
            ids: vec![volume],
            property: "no such".to_owned(),
            keep_received: false,
        },
        Operation::Hold {
            snapshots: vec![volume],
            tag: "t".to_owned(),
            time_s: 0,
        },
    ];
    for operation in wrong {
        let before = world.catalog.clone();
        assert!(world.catalog.apply(&operation).is_err(), "{operation:?}");
        assert_eq!(world.catalog, before, "{operation:?}");
    }
}

#[test]
fn numbers_end() {
    let mut world = World::new();
    world.catalog.next = DatasetId(u32::MAX);
    refused(
        &world,
        ErrorKind::LimitReached,
        "no number left for another dataset",
        |catalog, stamp| catalog.plan_create_folder(&folder("x"), stamp),
    );
}
