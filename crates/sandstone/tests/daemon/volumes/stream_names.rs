//! Snapshots that `send -I` brings, and names of received volumes with `receive -d` and `-e`.
//!
//! The streams go from one real daemon to another, and the received data is read over iSCSI.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use super::stream::{assert_holds, begin, change, end, pipe, well, written};
use crate::pools::devices::flat;
use crate::process::Process;

/// Returns the names in a listing.
fn names(process: &Process, listing: &str) -> Vec<String> {
    let told = process.done(&format!("volume list -H -o name {listing}"));
    told.lines().map(str::to_owned).collect()
}

/// Returns all snapshots, in the order in which they came.
fn all_snapshots(process: &Process) -> Vec<String> {
    names(process, "-s createtxg -t snapshot")
}

fn get(process: &Process, property: &str, dataset: &str) -> String {
    let told = process.done(&format!("volume get -H -p -o value {property} {dataset}"));
    told.trim_end().to_owned()
}

/// Writes a stream into a file.
fn sent(from: &Process, send: &str, name: &str) -> PathBuf {
    let path = from.folder().join(name);
    let file = File::create(&path).unwrap();
    well(begin(from, send, Stdio::null(), file.into()));
    path
}

fn receive(to: &Process, line: &str, stream: &PathBuf) -> (bool, String) {
    let file = File::open(stream).unwrap();
    end(begin(to, line, file.into(), Stdio::null()))
}

#[test]
fn all_snapshots_in_between_arrive() {
    let (from, to) = (Process::start(), Process::start());
    from.done("pool create --size 256M tank a");
    to.done("pool create --size 256M pond a");
    let portal = written(&from, "tank/vm1");
    from.done("volume snapshot tank/vm1@one");
    change(portal, 99);
    from.done("volume snapshot tank/vm1@two");
    from.done("volume clone tank/vm1@two tank/clone");
    for (tag, name) in [(98, "three"), (97, "four")] {
        change(portal, tag);
        from.done(&format!("volume snapshot tank/vm1@{name}"));
    }
    let told = from.done("volume send -n -P -I @one tank/vm1@four");
    let steps = told.lines().filter(|line| line.starts_with("incremental"));
    let steps: Vec<Vec<&str>> = steps
        .map(|line| line.split('\t').take(3).collect())
        .collect();
    let expected = [
        ["incremental", "one", "tank/vm1@two"],
        ["incremental", "two", "tank/vm1@three"],
        ["incremental", "three", "tank/vm1@four"],
    ];
    assert_eq!(steps, expected, "{told}");

    // With a small i only the last one.
    for (name, how, snapshots) in [
        ("all", "-I", &["one", "two", "three", "four"][..]),
        ("last", "-i", &["one", "four"]),
    ] {
        let copy = format!("pond/{name}");
        let whole = format!("volume receive {copy}");
        pipe(&from, "volume send tank/vm1@one", &to, &whole);
        let changes = format!("volume send {how} tank/vm1@one tank/vm1@four");
        pipe(&from, &changes, &to, &whole);
        let expected: Vec<String> = snapshots
            .iter()
            .map(|snapshot| format!("{copy}@{snapshot}"))
            .collect();
        let found = all_snapshots(&to);
        let own = format!("{copy}@");
        let found: Vec<String> = found
            .into_iter()
            .filter(|of| of.starts_with(&own))
            .collect();
        assert_eq!(found, expected);
        for snapshot in snapshots {
            let tag = match *snapshot {
                "one" => 5,
                "two" => 99,
                "three" => 98,
                _ => 97,
            };
            let (there, here) = (format!("{copy}@{snapshot}"), format!("tank/vm1@{snapshot}"));
            assert_holds(&to, &there, tag);
            for property in ["guid", "creation"] {
                assert_eq!(get(&to, property, &there), get(&from, property, &here));
            }
        }
        assert_holds(&to, &copy, 97);
    }

    // For a clone, the snapshots before it too.
    from.done("volume snapshot tank/clone@later");
    pipe(
        &from,
        "volume send tank/vm1@one",
        &to,
        "volume receive pond/clone",
    );
    pipe(
        &from,
        "volume send -I tank/vm1@one tank/clone@later",
        &to,
        "volume receive pond/clone",
    );
    let found = all_snapshots(&to);
    let expected = ["one", "two", "later"].map(|name| format!("pond/clone@{name}"));
    for name in &expected {
        assert!(found.contains(name), "{found:?}");
    }
    assert_holds(&to, "pond/clone@one", 5);
    assert_holds(&to, "pond/clone", 99);

    for (line, told) in [
        (
            "-I @four tank/vm1@one",
            "'@four' is not older than 'tank/vm1@one'",
        ),
        ("-I @none tank/vm1@four", "'tank/vm1@none' does not exist"),
        ("-I pond/vm1@one tank/vm1@four", "in another pool"),
        ("-I @one -i @two tank/vm1@four", "cannot be used with"),
    ] {
        let text = flat(&from.refused(&format!("volume send {line}")));
        assert!(text.contains(told), "{line}: {text}");
    }
}

/// Creates `tank/vms` with `tank/vms/a` and `tank/vms/deep/b`, and snapshots `now` of both.
fn folders() -> Process {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create tank/vms");
    let portal = written(&process, "tank/vms/a");
    change(portal, 44);
    process.done("lu delete --yes vm1");
    process.done("volume create -p -s -V 16M tank/vms/deep/b");
    process.done("volume snapshot -r tank/vms@now");
    process
}

#[test]
fn names_keep_as_much_as_was_asked_for() {
    let (from, to) = (folders(), Process::start());
    to.done("pool create --size 256M pond a");
    let one = sent(&from, "volume send tank/vms/a@now", "one");
    let all = sent(&from, "volume send -R tank/vms@now", "all");
    let pool = sent(&from, "volume send -R tank@now", "pool");
    to.done("volume create pond/in");
    let mut expected: Vec<String> = vec!["pond".to_owned(), "pond/in".to_owned()];
    for (line, stream, made) in [
        // The whole name without the pool; folders are made.
        ("-d pond", &one, &["pond/vms", "pond/vms/a"][..]),
        ("-d pond/in", &one, &["pond/in/vms", "pond/in/vms/a"]),
        // The last part.
        ("-e pond", &one, &["pond/a"]),
        ("-e pond/in", &one, &["pond/in/a"]),
        // With several volumes: the last part of the sent folder, and the names below it.
        (
            "-d pond/d",
            &all,
            &[
                "pond/d",
                "pond/d/vms",
                "pond/d/vms/a",
                "pond/d/vms/deep",
                "pond/d/vms/deep/b",
            ],
        ),
        (
            "-e pond/e",
            &all,
            &[
                "pond/e",
                "pond/e/vms",
                "pond/e/vms/a",
                "pond/e/vms/deep",
                "pond/e/vms/deep/b",
            ],
        ),
        (
            "-d pond/whole",
            &pool,
            &[
                "pond/whole",
                "pond/whole/vms",
                "pond/whole/vms/a",
                "pond/whole/vms/deep",
                "pond/whole/vms/deep/b",
            ],
        ),
        (
            "-e pond/last",
            &pool,
            &[
                "pond/last",
                "pond/last/tank",
                "pond/last/tank/vms",
                "pond/last/tank/vms/a",
                "pond/last/tank/vms/deep",
                "pond/last/tank/vms/deep/b",
            ],
        ),
        // Without either option, below the name.
        (
            "-p pond/plain",
            &all,
            &[
                "pond/plain",
                "pond/plain/a",
                "pond/plain/deep",
                "pond/plain/deep/b",
            ],
        ),
    ] {
        let (is_done, text) = receive(&to, &format!("volume receive {line}"), stream);
        assert!(is_done, "{line}: {text}");
        expected.extend(made.iter().map(|name| (*name).to_owned()));
        expected.sort();
        let mut found = names(&to, "-t folder,volume");
        found.sort();
        assert_eq!(found, expected, "{line}");
        let copy = made.iter().find(|name| name.ends_with("/a"));
        let copy = copy.copied().unwrap_or("pond/in/a");
        assert_holds(&to, copy, 44);
        assert_holds(&to, &format!("{copy}@now"), 44);
    }

    // An existing volume is not touched, and the refusal gives the name that it would have.
    for (line, name) in [
        ("-d pond", "pond/vms/a"),
        ("-e pond", "pond/a"),
        ("-e pond/in", "pond/in/a"),
    ] {
        let (is_done, text) = receive(&to, &format!("volume receive {line}"), &one);
        assert!(!is_done, "{line}: {text}");
        let text = flat(&text);
        assert!(text.contains(&format!("'{name}' exists already")), "{text}");
        assert!(text.contains("under another name"), "{text}");
        assert_holds(&to, name, 44);
    }
    let (is_done, text) = receive(&to, "volume receive -d -e pond", &one);
    assert!(!is_done && text.contains("cannot be used with"), "{text}");
    let mut found = names(&to, "-t folder,volume");
    found.sort();
    assert_eq!(found, expected);

    // The changes since then find the received volume with the old options.
    from.done("volume snapshot tank/vms/a@then");
    let changes = sent(&from, "volume send -i @now tank/vms/a@then", "changes");
    for (line, name) in [("-d pond", "pond/vms/a"), ("-e pond", "pond/a")] {
        let (is_done, text) = receive(&to, &format!("volume receive {line}"), &changes);
        assert!(is_done, "{line}: {text}");
        assert_holds(&to, &format!("{name}@then"), 44);
    }
}
