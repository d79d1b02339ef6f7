//! Tests of streams that make clones of existing snapshots: the resulting operations, refusals, and
//! replay from the log.

use super::*;
use crate::catalog::request::ReceiveInto;
use crate::catalog::{ErrorKind, Receiving, Step};
use crate::stream::Begin;

/// Makes the beginning of a stream that goes on from a snapshot of another volume.
fn begin(from: u64, size: u64) -> Begin {
    Begin {
        pool: 99,
        volume: 1,
        snapshot: 501,
        from: Some(from),
        origin: Some("other/v@a".to_owned()),
        source: "other/c@s".to_owned(),
        path: String::new(),
        name: "s".to_owned(),
        created_s: 1234,
        size,
        block_size: 16 << 10,
        start: 0,
        properties: Some(texts(&[("compression", "zstd")])),
    }
}

fn into(name: &str, begin: Begin) -> ReceiveInto {
    ReceiveInto {
        name: name.to_owned(),
        begin,
        attempt: 7,
        is_resumable: true,
        with_parents: true,
    }
}

/// Makes a volume with a snapshot, and returns the snapshot's guid.
fn world() -> (World, u64) {
    let mut world = World::new();
    world.volume("v");
    let id = world.snapshot("v@a");
    let guid = world.catalog.dataset(id).expect("it").guid;
    (world, guid)
}

#[test]
fn a_stream_makes_a_clone_of_its_own_size() {
    for size in [1 << 30, 1 << 20] {
        let (mut world, guid) = world();
        let origin = world.id("v@a");
        let (begin, from_the_log) = (begin(guid, size), World::new());
        let request = into("f/c", begin.clone());
        let applied = world
            .run(|catalog, stamp| catalog.plan_begin_receive(&request, stamp))
            .expect("begins");
        let clone = world.id("f/c");
        let mut steps = vec![Step::Clone {
            clone,
            snapshot: origin,
            size: 1 << 30,
            block_size: 16 << 10,
        }];
        steps.extend((size != 1 << 30).then_some(Step::Resize {
            volume: clone,
            from: 1 << 30,
            to: size,
        }));
        assert_eq!(applied.steps, steps);
        assert_eq!(world.catalog.origin(clone), Some(origin));
        let receiving = world.catalog.receiving(clone).expect("on its way");
        assert!(receiving.is_new && receiving.from == Some(guid));
        let token = world.catalog.resume_token(clone).expect("a token");
        assert_eq!((token.snapshot, token.from), (501, Some(guid)));
        world.catalog.validate().expect("it fits together");

        world
            .run(|catalog, stamp| catalog.plan_end_receive(clone, 7, &begin, stamp))
            .expect("ends");
        let own = world.catalog.snapshots(clone);
        assert_eq!((own.len(), own[0].guid), (1, 501));
        assert_eq!(world.catalog.clones(origin), [clone]);
        // The log gives the same result again.
        let mut again = from_the_log;
        for operation in &world.done {
            let read = Operation::decode(&operation.encode()).expect("it is one");
            assert_eq!(read, *operation);
            again.catalog.apply(&read).expect("the same again");
        }
        assert_eq!(again.catalog, world.catalog);
    }
}

#[test]
fn what_was_given_up_goes_as_a_whole() {
    let (mut world, guid) = world();
    let before = world.catalog.clone();
    let request = into("c", begin(guid, 1 << 20));
    world
        .run(|catalog, stamp| catalog.plan_begin_receive(&request, stamp))
        .expect("begins");
    let clone = world.id("c");
    let applied = world
        .run(|catalog, _| catalog.plan_abort_receive(clone, Some(7)))
        .expect("given up");
    // The origin keeps all that it has.
    let after = world.catalog.dataset(world.id("v@a")).expect("it");
    let after = after.as_snapshot().expect("a snapshot").epoch;
    let free = Step::Free {
        dataset: clone,
        after,
    };
    assert_eq!(applied.steps, [free]);
    assert_eq!(world.catalog.datasets, before.datasets);
}

#[test]
fn streams_that_no_clone_can_be_made_of_are_refused() {
    let (mut world, guid) = world();
    world.clone_of("v@a", "there");
    let refusal = |request: &ReceiveInto| {
        let error = world
            .catalog
            .plan_begin_receive(request, world.stamp())
            .expect_err("refused");
        (error.kind, error.to_string())
    };
    let (kind, text) = refusal(&into("c", begin(guid + 1, 1 << 20)));
    assert_eq!(kind, ErrorKind::NotFound);
    let said = "the stream makes 'tank/c' a clone of 'other/v@a', but this pool does not have that snapshot";
    assert!(
        text.contains(said) && text.contains("receive 'other/v@a' first"),
        "{text}"
    );
    let own = Begin {
        origin: None,
        ..begin(guid, 1 << 20)
    };
    let (kind, text) = refusal(&into("c", own));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("holds changes only"), "{text}");
    let rest = Begin {
        start: 5,
        ..begin(guid, 1 << 20)
    };
    let (kind, text) = refusal(&into("c", rest));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(text.contains("resumes an interrupted receive"), "{text}");
    let other_blocks = Begin {
        block_size: 8 << 10,
        ..begin(guid, 1 << 20)
    };
    let (kind, text) = refusal(&into("c", other_blocks));
    assert_eq!(kind, ErrorKind::Mismatch);
    assert!(
        text.contains("blocks of 8192 bytes, and 'tank/v@a' has blocks of 16384"),
        "{text}"
    );
    // An existing clone of the same snapshot, which a user made, has nothing of the stream's.
    let (kind, text) = refusal(&into("there", begin(guid, 1 << 20)));
    assert_eq!(kind, ErrorKind::Exists);
    assert!(text.contains("'tank/there' exists already"), "{text}");
}

/// Data on a disk may be anything.
#[test]
fn clones_that_receive_what_does_not_fit_are_not_made() {
    let (mut world, guid) = world();
    let request = into("c", begin(guid, 1 << 20));
    let planned = world
        .catalog
        .plan_begin_receive(&request, world.stamp())
        .expect("planned");
    let Operation::Clone { folders, clone } = planned.clone() else {
        panic!("{planned:?}");
    };
    let with = |change: fn(&mut Receiving)| {
        let mut clone = clone.clone();
        change(clone.receiving.as_mut().expect("a stream"));
        Operation::Clone {
            folders: folders.clone(),
            clone,
        }
    };
    let mut odd_size = clone.clone();
    odd_size.size = Some(5000);
    let wrong = [
        with(|of| of.from = None),
        with(|of| of.from = Some(3)),
        with(|of| of.position = 1),
        with(|of| of.is_new = false),
        with(|of| of.source = "x".repeat(2000)),
        Operation::Clone {
            folders: folders.clone(),
            clone: odd_size,
        },
    ];
    for operation in wrong {
        let before = world.catalog.clone();
        assert!(world.catalog.apply(&operation).is_err(), "{operation:?}");
        assert_eq!(world.catalog, before);
    }
    world.catalog.apply(&planned).expect("this one fits");
}

#[test]
fn another_clone_is_promoted_meanwhile_and_this_one_not() {
    let (mut world, guid) = world();
    world.clone_of("v@a", "other");
    let begin = begin(guid, 1 << 20);
    let request = into("c", begin.clone());
    world
        .run(|catalog, stamp| catalog.plan_begin_receive(&request, stamp))
        .expect("begins");
    let clone = world.id("c");
    let error = world
        .run(|catalog, _| catalog.plan_promote("c"))
        .expect_err("it is not complete");
    assert_eq!(error.kind, ErrorKind::Busy);
    world
        .run(|catalog, _| catalog.plan_promote("other"))
        .expect("promoted");
    assert_eq!(world.catalog.origin(clone), Some(world.id("other@a")));
    world
        .run(|catalog, stamp| catalog.plan_end_receive(clone, 7, &begin, stamp))
        .expect("ends");
    world.catalog.validate().expect("it fits together");
}
