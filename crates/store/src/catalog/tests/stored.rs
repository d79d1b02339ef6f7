//! Tests of the catalogue on disks: its very words, and the contents that are refused.

use super::*;
use crate::catalog::ErrorKind;

#[test]
fn a_catalogue_is_readable_by_anyone() {
    let mut world = World::new();
    let request = CreateVolume {
        is_thick: true,
        properties: texts(&[("compression", "zstd-3"), ("my:own", "a \"b\"")]),
        ..volume("v")
    };
    world
        .run(|catalog, stamp| catalog.plan_create_volume(&request, stamp))
        .expect("v");
    world.snapshot("v@a");
    let guids: Vec<_> = world
        .catalog
        .datasets()
        .map(|dataset| dataset.guid)
        .collect();
    let expected = format!(
        concat!(
            r#"{{"next":3,"datasets":["#,
            r#"{{"id":0,"parent":0,"name":"","created_s":1000,"guid":77,"kind":"folder"}},"#,
            r#"{{"id":1,"parent":0,"name":"v","created_s":1700000001,"guid":{},"properties":"#,
            r#"{{"compression":"zstd-3","my:own":"a \"b\"","refreservation":"1073741824"}},"#,
            r#""kind":{{"volume":{{"size":1073741824,"block_size":16384,"previous":2}}}}}},"#,
            r#"{{"id":2,"parent":1,"name":"a","created_s":1700000002,"guid":{},"#,
            r#""kind":{{"snapshot":{{"size":1073741824,"block_size":16384,"epoch":2}}}}}}]}}"#
        ),
        guids[1], guids[2]
    );
    assert_eq!(
        String::from_utf8(world.catalog.encode()).expect("JSON"),
        expected
    );
}

#[test]
fn an_operation_is_readable_by_anyone() {
    let mut world = World::new();
    world.volume("v");
    world.snapshot("v@a");
    world.destroy("v", "r").expect("v");
    let texts = world
        .done
        .iter()
        .map(|operation| String::from_utf8(operation.encode()).expect("JSON"));
    let texts: Vec<_> = texts.collect();
    assert!(texts[0].starts_with(
        r#"{"create_volume":{"folders":[],"volume":{"dataset":{"id":1,"parent":0,"name":"v""#
    ));
    assert!(texts[1].starts_with(
        r#"{"snapshot":{"epoch":2,"created_s":1700000002,"snapshots":[{"id":2,"volume":1,"name":"a","guid":"#
    ));
    assert_eq!(texts[2], r#"{"destroy":{"ids":[1,2]}}"#);
}

/// Each case replaces a part of a good catalogue.
#[test]
fn damage_is_told() {
    let mut world = World::new();
    world.folder("f");
    world.volume("f/v");
    world.snapshot("f/v@a");
    world.snapshot("f/v@b");
    world.clone_of("f/v@b", "c");
    let good = String::from_utf8(world.catalog.encode()).expect("JSON");
    assert!(Catalog::decode(good.as_bytes()).is_ok());
    for (from, to) in [
        (r#"{"next":6"#, r#"{"next":5"#),
        (r#"{"next":6"#, r#"{"next":6,"more":1"#),
        (r#""id":1,"#, r#""id":2,"#),
        (r#""id":0,"parent":0"#, r#""id":0,"parent":1"#),
        (r#""id":1,"parent":0"#, r#""id":1,"parent":1"#),
        (r#""id":1,"parent":0"#, r#""id":1,"parent":2"#),
        (r#""name":"f""#, r#""name":"f/g""#),
        (r#""name":"f""#, r#""name":"""#),
        (r#""name":"f""#, r#""name":"c""#),
        (r#""name":"b""#, r#""name":"a""#),
        (r#""block_size":16384"#, r#""block_size":4096"#),
        (r#""block_size":16384"#, r#""block_size":16385"#),
        (r#""size":1073741824"#, r#""size":1073741825"#),
        (r#""previous":4"#, r#""previous":3"#),
        (r#""previous":4"#, r#""previous":2"#),
        (r#","previous":3"#, ""),
        (r#","previous":3"#, r#","previous":4"#),
        (r#""epoch":4"#, r#""epoch":2"#),
        (r#""epoch":4"#, r#""epoch":1099511627776"#),
        (r#""kind":"folder""#, r#""kind":"file""#),
        (
            r#""kind":"folder"}"#,
            r#""kind":"folder","properties":{"used":"1"}}"#,
        ),
        (
            r#""kind":"folder"}"#,
            r#""kind":"folder","properties":{"sync":"no"}}"#,
        ),
        (
            r#""kind":"folder"}"#,
            r#""kind":"folder","properties":{"volsize":"4096"}}"#,
        ),
    ] {
        let damaged = good.replacen(from, to, 1);
        assert_ne!(damaged, good, "{from} is there");
        let error = Catalog::decode(damaged.as_bytes()).expect_err(to);
        assert_eq!(error.kind, ErrorKind::Mismatch, "{to}");
    }
}

#[test]
fn folders_in_a_ring_are_found() {
    let folder = |id, parent, name: &str| {
        format!(
            r#"{{"id":{id},"parent":{parent},"name":"{name}","created_s":0,"guid":0,"kind":"folder"}}"#
        )
    };
    let ring = [folder(0, 0, ""), folder(1, 2, "a"), folder(2, 1, "b")].join(",");
    let json = format!(r#"{{"next":3,"datasets":[{ring}]}}"#);
    let error = Catalog::decode(json.as_bytes()).expect_err("a ring");
    assert!(error.to_string().contains("nested too deep"), "{error}");
}

#[test]
fn unknown_words_in_operations_are_refused() {
    for json in [
        r#"{"destroy":{"ids":[1],"force":true}}"#,
        r#"{"explode":{}}"#,
        r#"{"destroy":{}}"#,
        r#"{"destroy":{"ids":[-1]}}"#,
        r#"{"set_property":{"id":1,"properties":{"sync":"no"}}}"#,
        "",
    ] {
        let error = Operation::decode(json.as_bytes()).expect_err(json);
        assert_eq!(error.kind, ErrorKind::Mismatch);
    }
}
