//! Log and cache vdevs under the real daemon, which is killed under durable writes.
//!
//! Their files are taken away, and their devices fail. The tests use the command line, and a client
//! that writes meanwhile.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use initiator::connection::Connection;
use serde_json::Value;
use testing::wait;

use crate::pools::devices::{flat, line_of, serve};
use crate::process::Process;
use crate::served::{self, BLOCK, read, sense, settings};
use crate::small_folder::inside_small_folder;

/// Number of blocks of one write of the client.
const BLOCKS: u64 = 128;

fn pattern(number: u64) -> Vec<u8> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = BLOCKS * BLOCK as u64 / 8;
    let bytes = (0..words).flat_map(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).rotate_left(9);
        word.to_le_bytes()
    });
    bytes.collect()
}

/// Writes with FUA until the daemon ends. `done` counts the writes that were acknowledged as
/// durable.
fn write_durably(portal: SocketAddr, numbers: std::ops::Range<u64>, done: &AtomicU64) {
    let mut session = served::log_in(portal, settings(1));
    for number in numbers {
        let mut cdb = served::cdb(0x8a, number * BLOCKS, BLOCKS as u32);
        cdb[1] = 0x08;
        match session.write(0, &cdb, pattern(number)) {
            Ok(told) if told.status.is_some() => assert_eq!(sense(&told), None, "{number}"),
            _ => return,
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
}

fn write_all(portal: SocketAddr, numbers: std::ops::Range<u64>) {
    let (done, count) = (AtomicU64::new(0), numbers.end - numbers.start);
    write_durably(portal, numbers, &done);
    assert_eq!(done.into_inner(), count, "the session ended");
}

fn verify_all(portal: SocketAddr, numbers: std::ops::Range<u64>) {
    let mut session = served::log_in(portal, settings(2));
    for number in numbers {
        let data = read(&mut session, number * BLOCKS, BLOCKS as u32);
        assert!(data == pattern(number), "{number}");
    }
}

fn view(process: &Process) -> Value {
    let text = process.done("pool status --json tank");
    let views: Value = serde_json::from_str(&text).unwrap();
    views[0].clone()
}

/// Waits until the unit on the imported pool is served.
fn served_again(portal: SocketAddr) {
    let told = || {
        let mut session = Connection::open(portal, settings(3)).unwrap();
        // The first is the unit attention of a new session.
        [(); 2].map(|()| served::test_unit_ready(&mut session))
    };
    wait::until_seen("the unit is served", told, |told| told[1].is_none());
}

/// Waits until no data lies only on log vdevs: the next checkpoint sees to that.
fn settled(process: &Process) {
    process.done("pool sync tank");
    let held = || view(process)["logs"][0]["log"]["held"].clone();
    wait::at_most(Duration::from_secs(180)).until_seen("none is held", held, |held| *held == 0);
}

#[test]
fn a_daemon_killed_under_durable_writes_has_all_that_it_acknowledged() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b log mirror l0 l1");
    let portal = serve(&process, "64M");
    let mut written = 0;
    for pause_ms in [300, 700, 100] {
        let done = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&done);
        let start = written;
        let writer = std::thread::spawn(move || write_durably(portal, start..1024, &counted));
        wait::until("some of it is written", || {
            done.load(Ordering::SeqCst) >= 20
        });
        // The kill meets the log at different ages.
        std::thread::sleep(Duration::from_millis(pause_ms));
        let log = &view(&process)["logs"][0]["log"];
        assert_eq!(log["is_in_use"], true, "{log}");
        assert!(log["records"].as_u64().unwrap() >= 15, "{log}");
        process.kill();
        // The writer may end together with its lost session.
        drop(writer.join());
        written += done.load(Ordering::SeqCst);
        process.restart();
        assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
        verify_all(portal, 0..written);
        written = written.min(600);
    }
    process.done("pool scrub -w tank");
    let status = process.done("pool status tank");
    assert!(status.contains("with 0 errors on "), "{status}");
}

#[test]
fn a_missing_log_is_named_and_given_up_only_when_asked() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b log fast");
    let portal = serve(&process, "64M");
    write_all(portal, 0..50);
    settled(&process);
    process.kill();
    let folder = process.folder().to_owned();
    std::fs::rename(folder.join("fast"), folder.join("away")).unwrap();
    process.restart();
    let status = flat(&process.done("pool status tank"));
    assert!(status.contains("state: UNAVAIL"), "{status}");
    assert!(
        status.contains("its log device is missing") && status.contains("/fast"),
        "{status}"
    );
    assert!(status.contains("pool import -m -d"), "{status}");
    let listed = flat(&process.done("pool import -d a -d b"));
    assert!(
        listed.contains("UNAVAIL status: its log device"),
        "{listed}"
    );
    assert!(
        listed.contains("-m imports the pool without it"),
        "{listed}"
    );
    let refused = flat(&process.refused("pool import -d a -d b tank"));
    assert!(
        refused.contains("without it they are lost") && refused.contains("pool import -m"),
        "{refused}"
    );
    // The log is found again, wherever it is.
    process.done("pool import -d . tank");
    assert_eq!(line_of(&process, "away")[0], "ONLINE");
    served_again(portal);
    verify_all(portal, 0..50);
    settled(&process);
    process.kill();
    std::fs::remove_file(folder.join("away")).unwrap();
    process.restart();
    process.done("pool import -m -d . tank");
    served_again(portal);
    verify_all(portal, 0..50);
    let status = process.done("pool status tank");
    assert!(
        status.contains(" state: ONLINE\n") && !status.contains("logs"),
        "{status}"
    );
    // From now on nobody misses the log.
    write_all(portal, 50..60);
    process.kill();
    process.restart();
    verify_all(portal, 0..60);
    process.done("pool add --size 128M tank log newer");
    write_all(portal, 60..70);
    assert_eq!(line_of(&process, "newer")[..4], ["ONLINE", "0", "0", "0"]);
    assert!(process.done("pool status tank").contains("\tlogs\n\t  /"));
}

#[test]
fn logs_come_and_go_while_they_are_used() {
    let process = Process::start();
    process.done("pool create --size 128M tank a");
    let portal = serve(&process, "64M");
    process.done("pool add --size 128M tank log l0");
    write_all(portal, 0..30);
    assert!(line_of(&process, "l0").len() > 4, "counts");
    process.done("pool attach -w --size 128M tank l0 l1");
    write_all(portal, 30..40);
    let refused = flat(&process.refused("pool remove tank l1"));
    assert!(refused.contains("half of a mirrored log"), "{refused}");
    assert!(refused.contains("pool remove tank mirror-1"), "{refused}");
    let refused = process.refused("pool remove tank a");
    assert!(
        refused.contains("only logs, caches and available spares can be removed"),
        "{refused}"
    );
    let refused = process.refused("pool remove tank b");
    assert!(refused.contains("has no device"), "{refused}");
    process.done("pool detach tank l0");
    write_all(portal, 40..50);
    process.done("pool remove tank l1");
    write_all(portal, 50..60);
    let status = process.done("pool status tank");
    assert!(
        !status.contains("logs") && status.contains(" state: ONLINE\n"),
        "{status}"
    );
    // A device that left is free for other pools.
    process.done("pool create other l0 log l1");
    let refused = process.refused("pool add tank log l1");
    assert!(refused.contains("l1"), "{refused}");
    let refused = process.refused("pool add --size 128M tank log raidz x y z");
    assert!(refused.contains("a log vdev cannot be raidz1"), "{refused}");
    verify_all(portal, 0..60);
}

/// The log device lies on a file system that is too small for it.
#[test]
fn a_log_that_fails_is_left_and_nothing_is_lost() {
    let name = "pool_logs_and_caches::a_log_that_fails_is_left_and_nothing_is_lost";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    let mut process = Process::start();
    let weak = Path::new(&folder).join("weak").display().to_string();
    process.done(&format!("pool create --size 128M tank a log {weak}"));
    let portal = serve(&process, "64M");
    // 32 MiB: twice the room of the file system.
    write_all(portal, 0..512);
    let status = process.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    assert!(
        flat(&status).contains("A log device is not used any more"),
        "{status}"
    );
    assert_eq!(line_of(&process, "weak")[0], "FAULTED");
    let events = process.done("pool events -H -o event tank");
    assert!(events.contains("is not used any more"), "{events}");
    process.kill();
    // The labels say that the loss does not matter.
    std::fs::remove_file(&weak).unwrap();
    process.restart();
    verify_all(portal, 0..512);
    process.done("pool remove tank weak");
    write_all(portal, 0..20);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

#[test]
fn a_cache_gives_what_memory_gave_up_and_is_never_missed() {
    let mut process = Process::start();
    process.done("pool create --size 256M tank a cache fast");
    let portal = serve(&process, "128M");
    // 100 MiB, and the daemon's memory for blocks is 64 MiB.
    write_all(portal, 0..1600);
    let hits = |process: &Process| {
        view(process)["caches"][0]["cache"]["hits"]
            .as_u64()
            .unwrap()
    };
    let mut before = hits(&process);
    for _ in 0..2 {
        verify_all(portal, 0..1600);
        verify_all(portal, 0..1600);
        assert!(hits(&process) > before, "{before}");
        before = hits(&process);
    }
    let line = line_of(&process, "fast").join(" ");
    assert!(
        line.starts_with("ONLINE 0 0 0 ") && line.contains(" hits, "),
        "{line}"
    );
    process.kill();
    let folder = process.folder().to_owned();
    std::fs::remove_file(folder.join("fast")).unwrap();
    process.restart();
    let status = process.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    assert!(
        flat(&status).contains("A cache device is not used"),
        "{status}"
    );
    assert_eq!(line_of(&process, "fast")[0], "UNAVAIL");
    verify_all(portal, 0..1600);
    let refused = process.refused("pool online tank fast");
    assert!(refused.contains("cannot online"), "{refused}");
    // The missing cache device may still be put aside: then it is not looked for any more.
    process.done("pool offline tank fast");
    assert_eq!(line_of(&process, "fast")[0], "OFFLINE");
    process.done("pool remove tank fast");
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    process.done("pool add --size 128M tank cache newer");
    verify_all(portal, 0..1600);
    process.kill();
    process.restart();
    assert_eq!(line_of(&process, "newer")[0], "ONLINE");
    process.done("pool remove tank newer");
    // A device that left is free for other pools.
    process.done("pool create other newer");
}

#[test]
fn a_cache_that_was_put_aside_stays_so_until_it_is_asked_for() {
    let mut process = Process::start();
    process.done("pool create --size 256M tank a cache fast slow");
    let portal = serve(&process, "32M");
    write_all(portal, 0..200);
    let refused = process.refused("pool offline tank fast nothing");
    assert!(refused.contains("has no device"), "{refused}");
    assert_eq!(line_of(&process, "fast")[0], "ONLINE");
    process.done("pool offline tank fast");
    process.done("pool offline tank fast");
    let state = |process: &Process| {
        let words = ["fast", "slow"].map(|name| line_of(process, name)[0].clone());
        words.join(" ")
    };
    assert_eq!(state(&process), "OFFLINE ONLINE");
    // Nobody holds the device, and only the administrator's command brings it back.
    process.done("pool clear tank");
    assert_eq!(state(&process), "OFFLINE ONLINE");
    process.kill();
    process.restart();
    served_again(portal);
    assert_eq!(state(&process), "OFFLINE ONLINE");
    verify_all(portal, 0..200);
    let status = flat(&process.done("pool status tank"));
    assert!(
        status.contains("state: ONLINE") && status.contains("A cache device is not used"),
        "{status}"
    );
    process.done("pool online tank fast");
    assert_eq!(state(&process), "ONLINE ONLINE");
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    verify_all(portal, 0..200);
    process.kill();
    process.restart();
    assert_eq!(state(&process), "ONLINE ONLINE");
}

#[test]
fn the_result_of_a_scrub_is_told_after_a_restart_and_an_import() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let scan = |process: &Process| {
        let status = process.done("pool status tank");
        let line = status.lines().find(|line| line.contains("scan: "));
        line.unwrap().to_owned()
    };
    assert_eq!(scan(&process), "  scan: none requested");
    process.done("pool scrub -w tank");
    let told = scan(&process);
    assert!(
        told.contains("scan: scrub repaired 0B in 00:00:0") && told.contains(" with 0 errors on 2"),
        "{told}"
    );
    let seen = view(&process)["scan_status"].clone();
    process.kill();
    process.restart();
    assert_eq!(scan(&process), told);
    assert_eq!(view(&process)["scan_status"], seen);
    // The event is not reported again.
    let events = process.done("pool events -H -o event tank");
    assert!(!events.contains("scrub"), "{events}");
    process.done("pool export tank");
    process.done("pool import -d . tank");
    assert_eq!(scan(&process), told);
}
