//! Real daemon with a pool on files: created by the command line, served over iSCSI, killed and
//! started again.
//!
//! Every acknowledged change is there.

use std::net::SocketAddr;
use std::path::Path;

use initiator::connection::Connection;

use crate::process::Process;
use crate::served::{self, BLOCK, TARGET, free_portal, read, sense, settings, write};

pub(crate) fn log_in(portal: SocketAddr) -> Connection {
    served::log_in(portal, settings(1))
}

pub(crate) fn pattern(tag: u8) -> Vec<u8> {
    (0..64 * BLOCK).map(|at| (at / 5) as u8 ^ tag).collect()
}

#[test]
fn a_pool_serves_what_was_written_before_the_daemon_was_killed() {
    let mut process = Process::start();
    let portal = free_portal();
    process.done("pool create --size 256M tank mirror a b");
    process.done("volume create -s -V 64M -o compression=off tank/vm1");
    process.done("lu create vm1 --volume tank/vm1");
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done(&format!(
        "map add vm1 --every-host --target {TARGET} --lun 0"
    ));
    let mut session = log_in(portal);
    for number in 0..20_u8 {
        let told = write(&mut session, u64::from(number) * 63, &pattern(number));
        assert_eq!(sense(&told), None, "{number}");
    }
    process.done("volume snapshot tank/vm1@before");
    assert_eq!(sense(&write(&mut session, 0, &pattern(99))), None);
    process.kill();
    process.restart();
    let mut session = log_in(portal);
    assert_eq!(read(&mut session, 0, 63), pattern(99)[..63 * BLOCK]);
    assert_eq!(read(&mut session, 19 * 63, 64), pattern(19));
    assert_eq!(read(&mut session, 100_000, 8), vec![0; 8 * BLOCK]);
    drop(session);
    status_and_listings(&process);
    what_is_served_is_not_taken_away(&process);
}

fn status_and_listings(process: &Process) {
    let folder = process.folder().canonicalize().unwrap();
    let leaf = |name: &str| folder.join(name).display().to_string();
    let status = process.done("pool status tank");
    let start = "  pool: tank\n state: ONLINE\n  scan: none requested\nconfig:\n\n\tNAME";
    assert!(status.starts_with(start), "{status}");
    assert!(status.contains("\n\t  mirror-0  "), "{status}");
    for name in ["a", "b"] {
        let line = status.lines().find(|line| line.contains(&leaf(name)));
        let words: Vec<&str> = line.expect("a leaf").split_whitespace().skip(1).collect();
        assert_eq!(words, ["ONLINE", "0", "0", "0"]);
    }
    assert!(
        status.ends_with("\nerrors: No known data errors\n"),
        "{status}"
    );
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    let list = process.done("pool list -H -o name,health");
    assert_eq!(list, "tank\tONLINE\n");
    let list = process.done("volume list -H -p -t all -o name,volsize");
    assert_eq!(
        list,
        "tank\t-\ntank/vm1\t67108864\ntank/vm1@before\t67108864\n"
    );
    let got =
        process.done("volume get -H -o property,value,source compression,volblocksize tank/vm1");
    assert_eq!(got, "compression\toff\tlocal\nvolblocksize\t16K\t-\n");
}

fn what_is_served_is_not_taken_away(process: &Process) {
    for line in [
        "pool export tank",
        "pool destroy -y tank",
        "volume destroy -y -r tank/vm1",
        "volume rollback tank/vm1@before",
    ] {
        let text = process.refused(line);
        assert!(text.contains("lu vm1 serves it"), "{text}");
    }
    let text = process.refused("volume create -V 10G tank/big");
    assert!(text.contains("nothing was changed"), "{text}");
    process.done("lu delete -y vm1");
    process.done("volume rollback tank/vm1@before");
    process.done("volume rename tank/vm1 tank/vm2");
    process.done("pool export tank");
    assert!(process.done("pool list").contains("no pools available"));
    let found = process.done(&format!("pool import -d {}", display(process.folder())));
    assert!(
        found.contains("pool: tank") && found.contains("ONLINE"),
        "{found}"
    );
    process.done(&format!(
        "pool import -d {} tank",
        display(process.folder())
    ));
    let list = process.done("volume list -H -o name -t volume");
    assert_eq!(list, "tank/vm2\n");
    process.done("pool destroy -y tank");
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn volumes_are_listed_in_the_order_of_a_property() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    for (name, size) in [("a", "9M"), ("b", "10M"), ("c", "8M")] {
        process.done(&format!("volume create -s -V {size} tank/{name}"));
    }
    let list = |line: &str| process.done(&format!("volume list -H -o name -t volume {line}"));
    assert_eq!(list("-s volsize"), "tank/c\ntank/a\ntank/b\n");
    assert_eq!(list("-S volsize"), "tank/b\ntank/a\ntank/c\n");
    let text = process.refused("volume list -s colour");
    assert!(text.contains("no property \"colour\""), "{text}");
}

/// Returns the cells of `pool history`, without times.
fn history(process: &Process, options: &str) -> Vec<String> {
    let told = process.done(&format!("pool history -H -p {options} tank"));
    let lines = told.lines().map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells[0], "tank", "{line}");
        assert!(cells[1].parse::<u64>().unwrap() > 1_700_000_000, "{line}");
        cells[2..].join("|")
    });
    lines.collect()
}

#[test]
fn the_history_tells_who_did_what_and_goes_where_the_pool_goes() {
    let mut process = Process::start();
    let commands = [
        "pool create --size 128M tank mirror a b",
        "volume create -s -V 16M tank/v",
        "volume set my:note=x tank/v",
        "volume snapshot tank/v@1",
        "pool scrub -w tank",
        "pool add --size 128M tank spare c",
        "lu create unit --size 8M --volume tank/u",
    ];
    for command in commands {
        process.done(command);
    }
    process.refused("volume create -s -V 16M tank/v");
    process.refused("pool offline tank nothing");
    let expected: Vec<String> = commands
        .iter()
        .map(|of| format!("sandstone {of}"))
        .collect();
    assert_eq!(history(&process, ""), expected);
    // An acknowledged change outlives the daemon.
    process.kill();
    process.restart();
    assert_eq!(history(&process, ""), expected);
    let all = history(&process, "-i");
    let scrubs = all.iter().filter(|line| line.starts_with("scrub "));
    assert_eq!(scrubs.count(), 2, "{all:?}");
    let long = history(&process, "-l");
    let who: Vec<&str> = long[0].split('|').collect();
    assert!(!who[1].is_empty() && who[1] != "-", "{long:?}");
    assert!(!who[2].is_empty() && who[2] != "-", "{long:?}");
    let told = process.done("pool history -il");
    assert!(told.starts_with("History for 'tank':\n2"), "{told}");
    assert!(told.contains(&format!(
        " {} [user {} on {}]\n",
        expected[0], who[1], who[2]
    )));
    assert!(
        told.contains(" [internal event] scrub in progress since 2"),
        "{told}"
    );
    process.done("lu delete unit");
    process.done("pool export tank");
    // Another daemon, as on another machine.
    let mut other = Process::start();
    let folder = process.folder().display().to_string();
    other.done(&format!("pool import -d {folder} tank"));
    let there = history(&other, "");
    assert_eq!(there[..expected.len()], expected[..]);
    let last = [
        "pool export tank".to_owned(),
        format!("pool import -d {folder} tank"),
    ];
    assert_eq!(
        there[expected.len()..],
        last.map(|of| format!("sandstone {of}"))
    );
    let text = other.done("pool history --json tank");
    let views: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(views[0]["pool"], "tank");
    assert_eq!(views[0]["entries"][0]["text"], expected[0].as_str());
    other.kill();
}
