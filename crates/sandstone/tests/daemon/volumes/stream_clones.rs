//! Clones between two real daemons: `send -R`, and `send -i` from the clone's origin, keep them
//! clones.
//!
//! This holds whatever was promoted, interrupted or added since. The received data is read over
//! iSCSI, and a received clone takes only the space of its differences.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use super::stream::{assert_holds, begin, change, end, pipe, well, written};
use super::stream_rest::{receive, sent};
use store::stream::{HEADER, PREAMBLE};
use testing::wait;

use crate::pools::devices::flat;
use crate::process::Process;
use crate::served::{TARGET, free_portal};

fn get(process: &Process, property: &str, dataset: &str) -> String {
    let told = process.done(&format!("volume get -H -p -o value {property} {dataset}"));
    told.trim_end().to_owned()
}

fn number(process: &Process, property: &str, dataset: &str) -> u64 {
    let value = get(process, property, dataset);
    value
        .parse()
        .unwrap_or_else(|_| panic!("{property} of {dataset}: {value}"))
}

/// Checks that a clone shares data with its origin.
///
/// By itself the clone takes its differences, which are two blocks, and the map nodes that only its
/// snapshots have. A checkpoint counts that.
fn assert_shares(process: &Process, snapshot: &str) {
    let (volume, _) = snapshot.split_once('@').unwrap();
    // The search for differences makes a checkpoint.
    process.done(&format!("volume send -n {snapshot}"));
    let what = format!("{volume} refers to more than 250 KiB, and uses less than 100 KiB");
    let sizes = || ["referenced", "used"].map(|column| number(process, column, volume));
    wait::at_most(Duration::from_secs(120)).until_seen(&what, sizes, |[referenced, used]| {
        *referenced > 250 << 10 && *used < 100 << 10
    });
}

/// Writes into the one piece of a volume that [`assert_holds`] tells apart.
fn change_volume(process: &Process, volume: &str, tag: u8) {
    let portal = free_portal();
    let target = format!("{TARGET}-{}", portal.port());
    process.done(&format!("lu create changed --volume {volume}"));
    process.done(&format!("target create {target} --portal {portal}"));
    process.done(&format!(
        "map add changed --every-host --target {target} --lun 0"
    ));
    super::stream::change_at(portal, &target, tag);
    process.done(&format!("target delete --yes {target}"));
    process.done("lu delete --yes changed");
}

/// Creates volumes of `tank/f` with their snapshot `now`, named so that clones come before their
/// origins.
///
/// They are `z`; `m`, a clone of `z@base`; and `a`, a clone of `m@own`.
fn source() -> (Process, SocketAddr) {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create tank/f");
    let portal = written(&process, "tank/f/z");
    process.done("volume snapshot tank/f/z@base");
    change(portal, 50);
    process.done("volume clone tank/f/z@base tank/f/m");
    change_volume(&process, "tank/f/m", 60);
    process.done("volume snapshot tank/f/m@own");
    process.done("volume clone tank/f/m@own tank/f/a");
    change_volume(&process, "tank/f/a", 70);
    process.done("volume snapshot -r tank/f@now");
    (process, portal)
}

/// Checks the received copies of [`source`].
fn assert_copied(to: &Process, folder: &str) {
    for (volume, origin) in [("z", "-"), ("m", "z@base"), ("a", "m@own")] {
        let origin = match origin {
            "-" => origin.to_owned(),
            origin => format!("{folder}/{origin}"),
        };
        assert_eq!(get(to, "origin", &format!("{folder}/{volume}")), origin);
    }
    for (name, tag) in [
        ("z@base", 5),
        ("z@now", 50),
        ("z", 50),
        ("m@own", 60),
        ("m@now", 60),
        ("a@now", 70),
        ("a", 70),
    ] {
        assert_holds(to, &format!("{folder}/{name}"), tag);
    }
}

#[test]
fn a_package_brings_clones_as_clones() {
    let ((from, portal), to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    // Origins come first, and the output names the snapshot that each part starts from.
    let told = from.done("volume send -n -P -R tank/f@now");
    let steps: Vec<Vec<&str>> = told
        .lines()
        .map(|line| line.split('\t').take(3).collect())
        .collect();
    assert_eq!(steps[0][..2], ["full", "tank/f/z@base"], "{told}");
    let expected = [
        ["incremental", "base", "tank/f/z@now"],
        ["incremental", "tank/f/z@base", "tank/f/m@own"],
        ["incremental", "own", "tank/f/m@now"],
        ["incremental", "tank/f/m@own", "tank/f/a@now"],
    ];
    assert_eq!(steps[1..5], expected, "{told}");
    assert!(!told.contains("note"), "{told}");
    pipe(
        &from,
        "volume send -R tank/f@now",
        &to,
        "volume receive -p pond/copy",
    );
    assert_copied(&to, "pond/copy");
    assert_shares(&to, "pond/copy/m@now");
    assert_shares(&to, "pond/copy/a@now");
    // The stream is received again beside the first copy: each clone has its origin in its own
    // folder.
    pipe(
        &from,
        "volume send -R tank/f@now",
        &to,
        "volume receive -p pond/second",
    );
    assert_copied(&to, "pond/second");

    // Changes since then: a new clone of the base, one of a new volume, and one of neither.
    change(portal, 51);
    from.done("volume clone tank/f/m@now tank/f/b");
    change_volume(&from, "tank/f/b", 80);
    from.done("volume clone tank/f/z@base tank/f/c");
    from.done("volume snapshot tank/f/z@between");
    from.done("volume clone tank/f/z@between tank/f/d");
    from.done("volume snapshot -r tank/f@later");
    let send = "volume send -R -i @now tank/f@later";
    let told = flat(&from.done(&format!("{send} -n")));
    let note = "note: tank/f/c is sent whole, and becomes a volume of its own at the receiver: its origin tank/f/z@base is not sent";
    assert!(told.contains(note), "{told}");
    assert!(
        told.contains("send from tank/f/m@now to tank/f/b@later"),
        "{told}"
    );
    assert_eq!(told.matches("note").count(), 1, "{told}");
    let mut sender = begin(&from, send, Stdio::null(), Stdio::piped());
    let stream = sender.stdout.take().unwrap();
    let receiver = begin(
        &to,
        "volume receive pond/copy",
        stream.into(),
        Stdio::null(),
    );
    let (is_done, text) = end(sender);
    assert!(is_done && flat(&text).contains(note), "{text}");
    well(receiver);
    for (volume, origin, tag) in [
        ("z", "-", 51),
        ("m", "pond/copy/z@base", 60),
        ("a", "pond/copy/m@own", 70),
        ("b", "pond/copy/m@now", 80),
        ("c", "-", 5),
        // It was not sent, and this is the snapshot before it.
        ("d", "pond/copy/z@now", 51),
    ] {
        let copy = format!("pond/copy/{volume}");
        assert_eq!(get(&to, "origin", &copy), origin, "{volume}");
        assert_holds(&to, &copy, tag);
        assert_holds(&to, &format!("{copy}@later"), tag);
    }
    // With all snapshots in between it was sent.
    let send = "volume send -R -I @now tank/f@later";
    pipe(&from, send, &to, "volume receive pond/second");
    assert_eq!(get(&to, "origin", "pond/second/d"), "pond/second/z@between");
    assert_holds(&to, "pond/second/d@later", 51);
    assert_shares(&to, "pond/second/d@later");
}

#[test]
fn promoted_clones_arrive_as_what_they_are() {
    let ((from, _), to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    pipe(
        &from,
        "volume send -R tank/f@now",
        &to,
        "volume receive -p pond/before",
    );
    // Now z is a clone of m's, and m one of a's.
    from.done("volume promote tank/f/m");
    from.done("volume promote tank/f/a");
    assert_eq!(get(&from, "origin", "tank/f/z"), "tank/f/a@base");
    from.done("volume snapshot -r tank/f@later");
    pipe(
        &from,
        "volume send -R tank/f@later",
        &to,
        "volume receive -p pond/after",
    );
    for volume in ["z", "m", "a"] {
        let here = get(&from, "origin", &format!("tank/f/{volume}"));
        let there = get(&to, "origin", &format!("pond/after/{volume}"));
        assert_eq!(here.replace("tank/f", "pond/after"), there);
    }
    // The changes since then go on in place, and nothing is promoted there.
    pipe(
        &from,
        "volume send -R -i @now tank/f@later",
        &to,
        "volume receive pond/before",
    );
    assert_copied(&to, "pond/before");
    for copy in ["pond/before", "pond/after"] {
        for (volume, tag) in [("z", 50), ("m", 60), ("a", 70)] {
            assert_holds(&to, &format!("{copy}/{volume}@later"), tag);
        }
    }
}

#[test]
fn one_clone_is_sent_as_what_changed_since_its_origin() {
    let ((from, _), to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    let send = "volume send -p -i tank/f/z@base tank/f/m@now";
    let stream = sent(&from, send);
    let (is_done, text) = receive(&to, "volume receive pond/m", &stream);
    let text = flat(&text);
    assert!(!is_done, "{text}");
    for said in [
        "the stream makes 'pond/m' a clone of 'tank/f/z@base', but this pool does not have that snapshot",
        "nothing was changed",
        "receive 'tank/f/z@base' first",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(to.done("volume list -H -o name"), "pond\n");
    pipe(
        &from,
        "volume send tank/f/z@base",
        &to,
        "volume receive pond/z",
    );
    let (is_done, text) = receive(&to, "volume receive pond/m", &stream);
    assert!(is_done, "{text}");
    assert_eq!(get(&to, "origin", "pond/m"), "pond/z@base");
    assert_holds(&to, "pond/m", 60);
    assert_shares(&to, "pond/m@now");
    // It exists now; and changes alone are for an existing volume.
    let (is_done, text) = receive(&to, "volume receive pond/m", &stream);
    assert!(!is_done && text.contains("exists already"), "{text}");
    to.done("volume create -s -V 64M pond/other");
    let (is_done, text) = receive(&to, "volume receive pond/other", &stream);
    let said = "'pond/other' exists already, and the stream makes a new clone of 'tank/f/z@base'";
    assert!(!is_done && flat(&text).contains(said), "{text}");
    let changes = sent(&from, "volume send -i @base tank/f/z@now");
    let (is_done, text) = receive(&to, "volume receive pond/none", &changes);
    assert!(!is_done && text.contains("holds changes only"), "{text}");
    // A clone of that clone, and of one volume with all its snapshots.
    let send = "volume send -R -I tank/f/m@now tank/f/a@now";
    let text = from.refused(&format!("{send} -n"));
    assert!(text.contains("is not older than"), "{text}");
    let send = "volume send -R -I tank/f/z@base tank/f/m@now";
    pipe(&from, send, &to, "volume receive pond/all");
    assert_eq!(get(&to, "origin", "pond/all"), "pond/z@base");
    let send = "volume send -i tank/f/m@own tank/f/a@now";
    pipe(&from, send, &to, "volume receive pond/a");
    assert_eq!(get(&to, "origin", "pond/a"), "pond/all@own");
    assert_holds(&to, "pond/a", 70);
    // A clone whose origin lies elsewhere comes whole, and the output says so.
    let told = from.done("volume send -R -n tank/f/a@now");
    assert!(told.contains("tank/f/a is sent whole"), "{told}");
    pipe(
        &from,
        "volume send -R tank/f/a@now",
        &to,
        "volume receive pond/whole",
    );
    assert_eq!(get(&to, "origin", "pond/whole"), "-");
    assert_holds(&to, "pond/whole", 70);
}

/// Returns the position of the second block in the part of a stream that brings this snapshot.
fn within(stream: &[u8], snapshot: &str) -> usize {
    let source = format!("\"source\":\"{snapshot}\"");
    let (mut at, mut is_wanted) = (PREAMBLE, false);
    loop {
        let len = u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
        let record = &stream[at..at + HEADER + len];
        at += record.len();
        match record[0] {
            1 => is_wanted = String::from_utf8_lossy(record).contains(&source),
            2 if is_wanted => return at + HEADER,
            _ => {}
        }
    }
}

#[test]
fn what_was_interrupted_goes_on_with_clones_as_clones() {
    let ((from, _), mut to) = (source(), Process::start());
    to.done("pool create --size 256M pond a");
    let whole = sent(&from, "volume send -R tank/f@now");
    let cut = &whole[..within(&whole, "tank/f/m@own")];
    let (is_done, text) = receive(&to, "volume receive -s -p pond/copy", cut);
    assert!(!is_done && text.contains("pond/copy/m is kept"), "{text}");
    let token = || get(&to, "receive_resume_token", "pond/copy/m");
    assert_eq!(get(&to, "origin", "pond/copy/m"), "pond/copy/z@base");
    assert!(text.contains(&token()), "{text}");
    let text = flat(&to.refused("volume destroy -y pond/copy/z@base"));
    assert!(text.contains("'pond/copy/m' is not complete"), "{text}");
    let token = token();
    let position = token.split('-').nth(3);
    assert_ne!(position, Some("0"), "{token}");
    let rest = format!("volume send -t {token}");
    to.kill();
    to.restart();
    pipe(&from, &rest, &to, "volume receive -s pond/copy/m");
    assert_eq!(get(&to, "origin", "pond/copy/m"), "pond/copy/z@base");
    assert_holds(&to, "pond/copy/m@own", 60);
    // The rest comes with the same stream again: the received part is passed over.
    let mut receiver = begin(
        &to,
        "volume receive -v -s pond/copy",
        Stdio::piped(),
        Stdio::piped(),
    );
    std::io::Write::write_all(&mut receiver.stdin.take().unwrap(), &whole).unwrap();
    let output = receiver.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for name in ["z@base", "z@now", "m@own"] {
        let said = format!("pond/copy/{name} exists already; skipped");
        assert!(told.contains(&said), "{told}");
    }
    for name in ["m@now", "a@now"] {
        assert!(
            told.contains(&format!("received pond/copy/{name}")),
            "{told}"
        );
    }
    assert!(told.contains("\n2 snapshots in "), "{told}");
    assert_copied(&to, "pond/copy");
    assert_shares(&to, "pond/copy/m@now");

    // A receive that is not to go on leaves no half of a clone, and the origin free.
    to.done("volume destroy -y -R pond/copy");
    let (is_done, text) = receive(&to, "volume receive -p pond/copy", cut);
    assert!(
        !is_done && text.contains("nothing of pond/copy/m was kept"),
        "{text}"
    );
    let list = to.done("volume list -H -o name -t volume");
    assert_eq!(list, "pond/copy/z\n");
    // A receive that is to go on is given up by hand.
    let single = sent(&from, "volume send -i tank/f/z@base tank/f/m@own");
    let cut = &single[..within(&single, "tank/f/m@own")];
    let (is_done, text) = receive(&to, "volume receive -s pond/copy/m", cut);
    assert!(
        !is_done && text.contains("volume receive -A pond/copy/m"),
        "{text}"
    );
    to.done("volume receive -A pond/copy/m");
    let list = to.done("volume list -H -o name -t volume");
    assert_eq!(list, "pond/copy/z\n");
    to.done("volume destroy -y pond/copy/z@base");
    assert_holds(&to, "pond/copy/z@now", 50);
}
