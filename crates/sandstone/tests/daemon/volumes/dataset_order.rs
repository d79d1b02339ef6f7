//! Order in which datasets are listed: snapshots follow their volume in the order of creation,
//! whatever their names are.

use serde_json::Value;

use crate::process::Process;

const ALL: [&str; 10] = [
    "tank",
    "tank/b",
    "tank/b@only",
    "tank/f",
    "tank/f/v",
    "tank/f/v@zebra",
    "tank/f/v@middle",
    "tank/f/v@apple",
    "tank/f/w",
    "tank/f/w@middle",
];

/// Starts a daemon with snapshots that were not taken in the order of their names.
///
/// One of them was taken together with another volume's snapshot.
fn with_snapshots() -> Process {
    let process = Process::start();
    process.done("pool create --size 256M tank a");
    process.done("volume create tank/f");
    for name in ["tank/f/w", "tank/f/v", "tank/b"] {
        process.done(&format!("volume create -s -V 16M {name}"));
    }
    process.done("volume snapshot tank/f/v@zebra");
    process.done("volume snapshot -r tank/f@middle");
    process.done("volume snapshot tank/f/v@apple");
    process.done("volume snapshot tank/b@only");
    process
}

fn names(process: &Process, line: &str) -> Vec<String> {
    let told = process.done(line);
    told.lines().map(str::to_owned).collect()
}

fn listed(process: &Process, arguments: &str) -> Vec<String> {
    names(process, &format!("volume list -H -o name {arguments}"))
}

/// Returns the names of a listing in JSON.
fn in_json(process: &Process, line: &str) -> Vec<String> {
    let rows: Vec<Value> = serde_json::from_str(&process.done(line)).unwrap();
    let named = rows.iter().map(|row| row["name"].as_str().unwrap());
    named.map(str::to_owned).collect()
}

#[test]
fn snapshots_are_listed_behind_their_volume_as_they_were_taken() {
    let mut process = with_snapshots();
    let snapshots = ALL.iter().filter(|name| name.contains('@'));
    let snapshots: Vec<&str> = snapshots.copied().collect();
    for _ in 0..2 {
        assert_eq!(listed(&process, "-t all"), ALL);
        assert_eq!(listed(&process, "-t snapshot"), snapshots);
        // A named dataset is listed too.
        let below = listed(&process, "-r -t snapshot tank/f");
        assert_eq!(below[0], "tank/f");
        assert_eq!(below[1..], snapshots[1..]);
        let got = "volume get -H -o name guid";
        assert_eq!(names(&process, got), ALL);
        assert_eq!(in_json(&process, "volume list --json -t all"), ALL);
        assert_eq!(in_json(&process, "volume get --json guid"), ALL);
        process.kill();
        process.restart();
    }
    // The order that the user asks for comes first. Equal entries stay in the order of creation.
    let own = ["tank/f/v@apple", "tank/f/v@middle", "tank/f/v@zebra"];
    let by_name = listed(&process, "-t snapshot -s name");
    assert_eq!(by_name[1..4], own);
    let newest_first = listed(&process, "-t snapshot -S createtxg");
    let newest_first = newest_first
        .iter()
        .filter(|name| name.starts_with("tank/f/v"));
    assert_eq!(newest_first.collect::<Vec<_>>(), own);
    assert_eq!(listed(&process, "-t snapshot -s type"), snapshots);
    process.done("volume hold -r keep tank/f@middle");
    for name in ["zebra", "apple"] {
        process.done(&format!("volume hold keep tank/f/v@{name}"));
    }
    let held = "volume holds -H tank/f/v@apple tank/f/v@middle tank/f/v@zebra";
    let held = names(&process, held);
    let held: Vec<&str> = held.iter().filter_map(|of| of.split('\t').next()).collect();
    assert_eq!(held, &ALL[5..8]);
    let told = process.done("volume destroy -n -v -r tank/b");
    assert!(
        told.starts_with("would destroy volume tank/b\nwould destroy snapshot tank/b@only\n"),
        "{told}"
    );
}

#[test]
fn snapshots_keep_their_place_whatever_happens_to_their_volume() {
    let process = with_snapshots();
    process.done("volume rename tank/f/v@zebra tank/f/v@newer");
    process.done("volume rename tank/f/v tank/f/a");
    let own = |name: &str| listed(&process, &format!("-r -t snapshot {name}"))[1..].to_vec();
    assert_eq!(
        own("tank/f/a"),
        ["tank/f/a@newer", "tank/f/a@middle", "tank/f/a@apple"]
    );
    // A clone takes over older snapshots than its own.
    process.done("volume clone tank/f/a@middle tank/c");
    process.done("volume snapshot tank/c@an-own-one");
    process.done("volume promote tank/c");
    assert_eq!(own("tank/f/a"), ["tank/f/a@apple"]);
    assert_eq!(
        own("tank/c"),
        ["tank/c@newer", "tank/c@middle", "tank/c@an-own-one"]
    );
    process.done("volume rollback -r tank/c@middle");
    process.done("volume snapshot tank/c@a");
    assert_eq!(own("tank/c"), ["tank/c@newer", "tank/c@middle", "tank/c@a"]);
    let told = process.done("volume destroy -n -v -R tank/c");
    let doomed: Vec<&str> = told.lines().take(4).collect();
    assert_eq!(
        doomed,
        [
            "would destroy volume tank/c",
            "would destroy snapshot tank/c@newer",
            "would destroy snapshot tank/c@middle",
            "would destroy snapshot tank/c@a",
        ]
    );
}
