//! Tests of streams between pools on real files: whole, incremental, interrupted, refused.

use std::path::Path;
use std::sync::Arc;

use pages::Pages;

use super::super::served_datasets::Served;
use super::super::tests::{ask, create_volume, pattern, pools, read, request, write};
use super::super::{PoolVolume, Pools};
use super::Begins;
use block::{BlockErrorKind, Lane, Request};
use model::pool::dataset::change::DatasetChange;
use model::pool::stream::{ReceiveRequest, ReceiveView, SendRequest};
use model::pool::vdev_request::VdevKind;
use model::{Error, ErrorKind};

const SIZE: u64 = 32 << 20;
/// Property `volblocksize` of the volumes.
const BLOCK: u64 = 16 << 10;

fn made(folder: &Path) -> Arc<Pools> {
    let pools = pools(folder);
    let request = request(folder, VdevKind::Disk, 1);
    pools.create(&request).expect("a pool");
    pools
}

fn snapshot(pools: &Pools, name: &str) {
    let change = DatasetChange::Snapshot {
        names: vec![name.to_owned()],
        recursive: name.starts_with("tank@"),
        properties: [].into(),
    };
    pools.change(&change).expect("a snapshot");
}

fn open(pools: &Pools, name: &str) -> PoolVolume {
    pools.open_volume(name, 512).expect("opens")
}

fn send(pools: &Pools, request: &SendRequest) -> Vec<u8> {
    let mut stream = Vec::new();
    let sender = pools.sender(request).expect("a sender");
    sender
        .run(&mut |piece| {
            stream.extend(piece);
            Ok(())
        })
        .expect("sent");
    stream
}

fn whole(snapshot: &str) -> SendRequest {
    SendRequest {
        snapshot: snapshot.to_owned(),
        ..SendRequest::default()
    }
}

fn since(from: &str, snapshot: &str) -> SendRequest {
    SendRequest {
        from: Some(from.to_owned()),
        ..whole(snapshot)
    }
}

fn into(name: &str) -> ReceiveRequest {
    ReceiveRequest {
        name: name.to_owned(),
        ..ReceiveRequest::default()
    }
}

fn resumable(name: &str) -> ReceiveRequest {
    ReceiveRequest {
        resumable: true,
        ..into(name)
    }
}

/// Begins a stream while no unit serves anything.
fn by_nobody(begin: &mut Begins<'_>) -> Result<(), Error> {
    begin(&Served::default())
}

fn receive(
    pools: &Pools,
    request: ReceiveRequest,
    stream: &[u8],
) -> Result<Vec<ReceiveView>, Error> {
    let mut receiver = pools.receiver(request, &by_nobody)?;
    let fed = stream
        .chunks(100_000)
        .try_for_each(|piece| receiver.feed(piece));
    let outcome = fed.and_then(|()| receiver.finish());
    outcome.map_err(|error| receiver.give_up(error))
}

fn names(pools: &Pools) -> Vec<String> {
    let all = pools.datasets().into_iter();
    all.map(|dataset| dataset.name).collect()
}

fn property(pools: &Pools, name: &str, property: &str) -> String {
    let all = pools.datasets();
    let dataset = all.iter().find(|of| of.name == name).expect("a dataset");
    let found = dataset.properties.iter().find(|of| of.name == property);
    found.expect("a property").value.clone()
}

fn holds(pools: &Pools, name: &str) -> String {
    property(pools, name, "userrefs")
}

/// Returns all bytes of a volume or snapshot.
fn bytes(pools: &Pools, name: &str) -> Vec<u8> {
    let mut lane = Lane::standing().expect("a lane");
    let volume = open(pools, name);
    let mut all = Vec::new();
    for mib in 0..SIZE >> 20 {
        all.extend_from_slice(&read(&volume, &mut lane, mib << 20, 1 << 20));
    }
    all
}

/// Writes a new volume until nothing more fits into the pool.
fn fill(pools: &Pools, name: &str) {
    create_volume(pools, name, 1 << 30);
    let mut lane = Lane::standing().expect("a lane");
    let volume = open(pools, name);
    let mut offset = 0;
    let mut state = 1_u64;
    for len in [1 << 20, BLOCK] {
        loop {
            let words = (0..len / 8).flat_map(|_| {
                // Noise, which cannot be compressed.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            });
            let request = Request::Write {
                offset,
                data: Pages::from_bytes(&words.collect::<Vec<u8>>()),
                durable: false,
            };
            match ask(&volume, &mut lane, request) {
                Ok(_) => offset += len,
                Err(error) => {
                    assert_eq!(error.kind(), BlockErrorKind::NoSpace, "{error}");
                    break;
                }
            }
        }
    }
}

/// Creates a volume with two snapshots.
fn with_history(pools: &Pools) {
    create_volume(pools, "tank/a", SIZE);
    let mut lane = Lane::standing().expect("a lane");
    let volume = open(pools, "tank/a");
    for mib in 0..20 {
        let bytes = pattern(1 << 20, mib as u8);
        write(&volume, &mut lane, mib << 20, &bytes, false);
    }
    snapshot(pools, "tank/a@one");
    write(
        &volume,
        &mut lane,
        3 << 20,
        &pattern(300_000 / 512 * 512, 99),
        false,
    );
    write(&volume, &mut lane, 5 << 20, &vec![0; 2 << 20], false);
    snapshot(pools, "tank/a@two");
    write(&volume, &mut lane, 0, &pattern(4096, 77), false);
}

#[test]
fn what_is_received_is_what_was_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = made(folder.path());
    with_history(&pools);
    let first = send(&pools, &whole("tank/a@one"));
    let second = send(&pools, &since("@one", "tank/a@two"));
    assert!(second.len() < first.len() / 4, "{}", second.len());
    assert_eq!(
        holds(&pools, "tank/a@one"),
        "0",
        "holds end with the stream"
    );
    receive(&pools, into("tank/b"), &first).expect("received");
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@one"));
    let view = receive(&pools, into("tank/b"), &second).expect("received");
    assert_eq!(view[0].snapshot, "tank/b@two");
    assert_eq!(bytes(&pools, "tank/b@one"), bytes(&pools, "tank/a@one"));
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@two"));
    for property_name in ["guid", "creation", "volsize"] {
        let of = |name: &str| property(&pools, name, property_name);
        assert_eq!(of("tank/b@two"), of("tank/a@two"), "{property_name}");
    }
    // The estimate is about right.
    let sender = pools.sender(&whole("tank/a@one")).expect("a sender");
    let estimate = sender.estimate().expect("an estimate")[0].bytes;
    // The filling of sectors is counted in the estimate, but not sent.
    let filling = (20 << 20) / (16 << 10) * 4096;
    let len = first.len() as u64;
    assert!(
        (len..len + filling).contains(&estimate),
        "{estimate} for {len}"
    );
    assert_eq!(
        holds(&pools, "tank/a@one"),
        "1",
        "held while it may be sent"
    );
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = made(folder.path());
    with_history(&pools);
    let first = send(&pools, &whole("tank/a@one"));
    let second = send(&pools, &since("tank/a@one", "tank/a@two"));
    let refused = |request, stream: &[u8]| receive(&pools, request, stream).expect_err("refused");
    let before = names(&pools);
    assert_eq!(refused(into("tank/b"), &second).kind, ErrorKind::NotFound);
    assert_eq!(refused(into("tank/a"), &first).kind, ErrorKind::Exists);
    assert_eq!(refused(into("tank/a"), &second).kind, ErrorKind::Exists);
    assert_eq!(refused(into("tank/a@x"), &first).kind, ErrorKind::Invalid);
    assert_eq!(refused(into("tank/no/b"), &first).kind, ErrorKind::NotFound);
    assert_eq!(
        refused(into("tank/b"), b"no stream").kind,
        ErrorKind::Corrupt
    );
    assert_eq!(names(&pools), before);
    // A logical unit serves the volume.
    let served = |begin: &mut Begins<'_>| begin(&Served::by("vm1", "tank/b"));
    let mut receiver = pools.receiver(into("tank/b"), &served).expect("begins");
    let error = receiver.feed(&first).expect_err("served");
    assert_eq!(receiver.give_up(error).kind, ErrorKind::InUse);
    // The volume was changed since its newest snapshot: refused without -F.
    receive(&pools, into("tank/b"), &first).expect("received");
    let mut lane = Lane::standing().expect("a lane");
    write(&open(&pools, "tank/b"), &mut lane, 0, &[1; 512], true);
    let error = refused(into("tank/b"), &second);
    assert!(error.message.contains("was modified"), "{error}");
    let rollback = ReceiveRequest {
        rollback: true,
        ..into("tank/b")
    };
    receive(&pools, rollback, &second).expect("received");
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@two"));
}

/// A rollback to the newest snapshot happens only for a stream that may then begin.
#[test]
fn nothing_is_rolled_back_for_a_stream_that_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = made(folder.path());
    with_history(&pools);
    let first = send(&pools, &whole("tank/a@one"));
    let second = send(&pools, &since("@one", "tank/a@two"));
    receive(&pools, into("tank/b"), &first).expect("received");
    // A receive that was given up leaves no rest.
    let cut = &second[..second.len() - 100];
    receive(&pools, resumable("tank/b"), cut).expect_err("cut");
    let token = property(&pools, "tank/b", "receive_resume_token");
    pools.abort_receive("tank/b").expect("given up");
    let rest = SendRequest {
        token: Some(token),
        ..SendRequest::default()
    };
    let rest = send(&pools, &rest);
    // The name is another snapshot's.
    let rename = DatasetChange::Rename {
        from: "tank/b@one".to_owned(),
        to: "tank/b@two".to_owned(),
        parents: false,
        recursive: false,
    };
    // The larger volume cannot reserve its space.
    let set = |name: &str, property: &str, value: &str| {
        let properties = [(property.to_owned(), value.to_owned())];
        let change = DatasetChange::Set {
            names: vec![name.to_owned()],
            properties: properties.into(),
            shrink: false,
        };
        pools.change(&change).expect("set");
    };
    set("tank/b", "refreservation", "32M");
    set("tank/a", "volsize", "1G");
    snapshot(&pools, "tank/a@large");
    let large = send(&pools, &since("@one", "tank/a@large"));
    let mut lane = Lane::standing().expect("a lane");
    write(&open(&pools, "tank/b"), &mut lane, 0, &[1; 512], true);
    let written = bytes(&pools, "tank/b");
    let rollback = || ReceiveRequest {
        rollback: true,
        ..into("tank/b")
    };
    let error = receive(&pools, rollback(), &rest).expect_err("no rest");
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(bytes(&pools, "tank/b") == written, "{error}");
    let error = receive(&pools, rollback(), &large).expect_err("too large");
    assert!(error.message.contains("would reserve"), "{error}");
    assert!(bytes(&pools, "tank/b") == written, "{error}");
    pools.change(&rename).expect("renamed");
    let error = receive(&pools, rollback(), &second).expect_err("the name");
    assert_eq!(error.kind, ErrorKind::Exists, "{error}");
    assert!(bytes(&pools, "tank/b") == written, "{error}");
    // Nothing else prevents the receive.
    let rename = DatasetChange::Rename {
        from: "tank/b@two".to_owned(),
        to: "tank/b@one".to_owned(),
        parents: false,
        recursive: false,
    };
    pools.change(&rename).expect("renamed");
    receive(&pools, rollback(), &second).expect("received");
    assert!(bytes(&pools, "tank/b") == bytes(&pools, "tank/a@two"));
}

/// A unit that comes while a stream begins is asked for before anything beneath it is rolled back.
#[test]
fn nothing_is_rolled_back_beneath_a_unit_that_comes_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = made(folder.path());
    with_history(&pools);
    let first = send(&pools, &whole("tank/a@one"));
    let second = send(&pools, &since("@one", "tank/a@two"));
    receive(&pools, into("tank/b"), &first).expect("received");
    let request = ReceiveRequest {
        rollback: true,
        ..into("tank/b")
    };
    let written = pattern(512, 45);
    let while_served = |begin: &mut Begins<'_>| {
        let mut lane = Lane::standing().expect("a lane");
        write(&open(&pools, "tank/b"), &mut lane, 0, &written, true);
        begin(&Served::by("vm1", "tank/b"))
    };
    let mut receiver = pools.receiver(request, &while_served).expect("begins");
    let error = receiver.feed(&second).expect_err("served");
    assert_eq!(receiver.give_up(error).kind, ErrorKind::InUse);
    let mut lane = Lane::standing().expect("a lane");
    assert_eq!(read(&open(&pools, "tank/b"), &mut lane, 0, 512), written);
}

#[test]
fn what_is_interrupted_goes_on_or_vanishes() {
    let folder = tempfile::tempdir().expect("a folder");
    let first_pools = made(folder.path());
    with_history(&first_pools);
    let stream = send(&first_pools, &whole("tank/a@one"));
    let cut = &stream[..stream.len() / 2];
    let error = receive(&first_pools, into("tank/b"), cut).expect_err("cut");
    assert!(
        error.not_changed.contains("nothing of tank/b was kept"),
        "{error:?}"
    );
    assert!(!names(&first_pools).contains(&"tank/b".to_owned()));
    // With -s the part stays, and nobody sees it.
    let error = receive(&first_pools, resumable("tank/b"), cut).expect_err("cut");
    assert!(error.next.contains("send -t 1-"), "{error:?}");
    first_pools.open_volume("tank/b", 512).expect_err("hidden");
    receive(
        &first_pools,
        into("tank/b"),
        &send(&first_pools, &whole("tank/a@two")),
    )
    .expect_err("another stream");
    // The part stays after a crash too.
    for (_, pool) in first_pools.all() {
        pool.host.abandon();
    }
    drop(first_pools);
    let pools = pools(folder.path());
    let token = property(&pools, "tank/b", "receive_resume_token");
    let rest = SendRequest {
        token: Some(token),
        ..SendRequest::default()
    };
    let rest = send(&pools, &rest);
    assert!(
        rest.len() < stream.len() * 2 / 3,
        "{} of {}",
        rest.len(),
        stream.len()
    );
    receive(&pools, resumable("tank/b"), &rest).expect("received");
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@one"));
    // Interrupted changes leave the volume unchanged.
    let changes = send(&pools, &since("@one", "tank/a@two"));
    let cut = &changes[..changes.len() - 100];
    let error = receive(&pools, into("tank/b"), cut).expect_err("cut");
    assert!(
        error.not_changed.contains("is as it was before"),
        "{error:?}"
    );
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@one"));
    receive(&pools, resumable("tank/b"), cut).expect_err("cut");
    pools.abort_receive("tank/b").expect("given up");
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@one"));
    receive(&pools, into("tank/b"), &changes).expect("received");
    assert_eq!(bytes(&pools, "tank/b"), bytes(&pools, "tank/a@two"));
}

/// A full pool has no room for a block, but for the holes after it. The holes must not count as if
/// the block was there.
#[test]
fn what_found_no_room_comes_with_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = made(folder.path());
    create_volume(&pools, "tank/a", SIZE);
    let mut lane = Lane::standing().expect("a lane");
    let volume = open(&pools, "tank/a");
    write(&volume, &mut lane, 0, &pattern(1 << 20, 1), false);
    snapshot(&pools, "tank/a@one");
    let changed = pattern(BLOCK as usize, 99);
    write(&volume, &mut lane, 10 * BLOCK, &changed, false);
    let zeros = vec![0; 10 * BLOCK as usize];
    write(&volume, &mut lane, 11 * BLOCK, &zeros, false);
    snapshot(&pools, "tank/a@two");
    receive(&pools, into("tank/b"), &send(&pools, &whole("tank/a@one"))).expect("received");
    let changes = send(&pools, &since("@one", "tank/a@two"));
    fill(&pools, "tank/full");
    let error = receive(&pools, resumable("tank/b"), &changes).expect_err("no room");
    assert!(error.message.contains("fit into the pool"), "{error}");
    let destroy = DatasetChange::Destroy {
        names: vec!["tank/full".to_owned()],
        recursive: false,
        clones: false,
    };
    pools.change(&destroy).expect("room");
    let token = property(&pools, "tank/b", "receive_resume_token");
    let rest = SendRequest {
        token: Some(token),
        ..SendRequest::default()
    };
    receive(&pools, resumable("tank/b"), &send(&pools, &rest)).expect("received");
    assert!(bytes(&pools, "tank/b@two") == bytes(&pools, "tank/a@two"));
}

#[test]
fn what_was_not_to_go_on_vanishes_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let first_pools = made(folder.path());
    with_history(&first_pools);
    let stream = send(&first_pools, &whole("tank/a@one"));
    let receiver = first_pools.receiver(into("tank/b"), &by_nobody);
    let mut receiver = receiver.expect("begins");
    receiver.feed(&stream[..stream.len() / 2]).expect("taken");
    let sender = first_pools.sender(&whole("tank/a@one")).expect("a sender");
    for (_, pool) in first_pools.all() {
        pool.host.abandon();
    }
    drop((receiver, sender, first_pools));
    let pools = pools(folder.path());
    assert!(!names(&pools).contains(&"tank/b".to_owned()));
    assert_eq!(holds(&pools, "tank/a@one"), "0");
}

#[test]
fn a_package_carries_all_volumes_and_snapshots() {
    let folder = tempfile::tempdir().expect("a folder");
    let pools = made(folder.path());
    with_history(&pools);
    create_volume(&pools, "tank/c", SIZE);
    let properties = [("compression".to_owned(), "zstd-3".to_owned())];
    let change = DatasetChange::Set {
        names: vec!["tank/c".to_owned()],
        properties: properties.into(),
        shrink: false,
    };
    pools.change(&change).expect("set");
    let sync = |value: &str| {
        let change = DatasetChange::Set {
            names: vec!["tank".to_owned()],
            properties: [("sync".to_owned(), value.to_owned())].into(),
            shrink: false,
        };
        pools.change(&change).expect("set");
    };
    // Both volumes inherit the property.
    sync("always");
    snapshot(&pools, "tank@all");
    let package = SendRequest {
        recursive: true,
        ..whole("tank@all")
    };
    let stream = send(&pools, &package);
    // A mistyped base does not turn the stream into a whole one.
    let mistyped = SendRequest {
        from: Some("@x".to_owned()),
        ..package.clone()
    };
    let error = pools.sender(&mistyped).expect_err("no such snapshot");
    assert!(error.message.contains("'x'"), "{error}");
    let folder = DatasetChange::Create {
        name: "tank/copy".to_owned(),
        size: None,
        block_size: None,
        sparse: false,
        parents: false,
        properties: [].into(),
    };
    pools.change(&folder).expect("a folder");
    sync("standard");
    let views = receive(&pools, into("tank/copy"), &stream).expect("received");
    for copy in ["tank/copy/a", "tank/copy/c"] {
        assert_eq!(property(&pools, copy, "sync"), "always", "{copy}");
    }
    let received: Vec<&str> = views.iter().map(|view| view.snapshot.as_str()).collect();
    let expected = ["a@one", "a@two", "a@all", "c@all"].map(|name| format!("tank/copy/{name}"));
    assert_eq!(received, expected);
    assert_eq!(
        bytes(&pools, "tank/copy/a@all"),
        bytes(&pools, "tank/a@all")
    );
    assert_eq!(property(&pools, "tank/copy/c", "compression"), "zstd-3");
    // The receiving side decides some properties itself.
    let decided = ReceiveRequest {
        parents: true,
        set: "sync=disabled\nmy:note=x=y".to_owned(),
        without: "compression".to_owned(),
        ..into("tank/other")
    };
    receive(&pools, decided.clone(), &stream).expect("received");
    let of = |name: &str| property(&pools, "tank/other/c", name);
    assert_eq!(
        [of("sync"), of("compression"), of("my:note")],
        ["disabled", "on", "x=y"]
    );
    for wrong in ["sync=never", "volsize=1G", "colour=red"] {
        let wrong = ReceiveRequest {
            set: wrong.to_owned(),
            ..decided.clone()
        };
        let refused = pools.receiver(wrong, &by_nobody).map(drop);
        assert_eq!(refused.expect_err("wrong").kind, ErrorKind::Invalid);
    }
    // All snapshots in between, of one volume.
    let between = SendRequest {
        intermediate: true,
        ..since("@one", "tank/a@all")
    };
    receive(&pools, into("tank/d"), &send(&pools, &whole("tank/a@one"))).expect("received");
    let views = receive(&pools, into("tank/d"), &send(&pools, &between)).expect("received");
    assert_eq!(views.len(), 2);
    assert_eq!(bytes(&pools, "tank/d"), bytes(&pools, "tank/a@all"));
}
