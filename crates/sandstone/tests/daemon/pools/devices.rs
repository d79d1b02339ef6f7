//! Pools whose devices fail, rot, vanish and are replaced, under the real daemon.
//!
//! The tests use the command line, and a client that writes meanwhile.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use testing::wait;

use crate::process::Process;
use crate::served::{self, BLOCK, TARGET, free_portal, read, sense, settings, write};
use crate::small_folder::inside_small_folder;

/// Number of blocks of one write.
pub(super) const BLOCKS: u64 = 512;

/// Returns the words of a device's line in `pool status`.
pub(crate) fn line_of(process: &Process, device: &str) -> Vec<String> {
    let status = process.done("pool status tank");
    // The text of an advice may name the device too, and stands above the rows.
    let rows = status.lines().skip_while(|line| line.trim() != "config:");
    let mut lines = rows.skip_while(|line| {
        let first = line.split_whitespace().next();
        let name = first.and_then(|first| Path::new(first).file_name());
        name.is_none_or(|name| name != device)
    });
    let row = lines.next();
    let row = row.unwrap_or_else(|| panic!("no {device} in {status}"));
    // A long note stands below, four columns to the right.
    let indent = |line: &str| line.len() - line.trim_start().len();
    let note = lines.take_while(|line| indent(line) == indent(row) + 4);
    let words = row.split_whitespace().skip(1);
    let words = words.chain(note.flat_map(str::split_whitespace));
    words.map(str::to_owned).collect()
}

/// Waits until no rebuild or replacement is left, and at least one has happened.
pub(crate) fn resilvered(process: &Process) -> String {
    let is_busy = [
        "in progress",
        "(resilvering)",
        "missed writes",
        "replacing-",
    ];
    let status = || process.done("pool status tank");
    wait::at_most(Duration::from_secs(120)).until_seen("it is resilvered", status, |status| {
        status.contains("resilvered ") && !is_busy.iter().any(|word| status.contains(word))
    })
}

/// Returns a text without its line breaks.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Creates and serves a volume.
pub(crate) fn serve(process: &Process, size: &str) -> SocketAddr {
    let portal = free_portal();
    process.done(&format!(
        "volume create -s -V {size} -o compression=off tank/vm1"
    ));
    process.done("lu create vm1 --volume tank/vm1");
    process.done(&format!("target create {TARGET} --portal {portal}"));
    process.done(&format!(
        "map add vm1 --every-host --target {TARGET} --lun 0"
    ));
    portal
}

pub(crate) fn pattern(number: u64) -> Vec<u8> {
    let bytes = 0..BLOCKS * BLOCK as u64;
    bytes
        .map(|at| (at.wrapping_mul(number * 2 + 1) >> 7) as u8 ^ number as u8)
        .collect()
}

pub(crate) fn write_all(portal: SocketAddr, numbers: std::ops::Range<u64>) {
    let mut session = served::log_in(portal, settings(1));
    for number in numbers {
        let told = write(&mut session, number * BLOCKS, &pattern(number));
        assert_eq!(sense(&told), None, "{number}");
    }
}

pub(crate) fn verify_all(portal: SocketAddr, numbers: std::ops::Range<u64>) {
    let mut session = served::log_in(portal, settings(2));
    for number in numbers {
        let data = read(&mut session, number * BLOCKS, BLOCKS as u32);
        assert!(data == pattern(number), "{number}");
    }
}

pub(crate) fn scrubbed_clean(process: &Process) {
    process.done("pool scrub -w tank");
    let status = process.done("pool status tank");
    assert!(status.contains("scrub repaired 0B"), "{status}");
    assert!(status.contains("with 0 errors on "), "{status}");
}

/// The failing device lies on a file system that is too small for it.
#[test]
fn a_device_fails_under_load_and_a_spare_takes_over() {
    let name = "pool_devices::a_device_fails_under_load_and_a_spare_takes_over";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    let mut process = Process::start();
    let weak = folder.join("weak").display().to_string();
    process.done(&format!(
        "pool create --size 128M tank mirror strong {weak} spare ready"
    ));
    assert_eq!(line_of(&process, "ready"), ["AVAIL"]);
    let portal = serve(&process, "64M");
    // 32 MiB: twice the room of the file system.
    write_all(portal, 0..128);
    let status = resilvered(&process);
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    assert!(
        flat(&status).contains("are faulted in response"),
        "{status}"
    );
    assert!(status.contains("\t    spare-1  "), "{status}");
    assert_eq!(line_of(&process, "weak")[0], "FAULTED");
    assert!(status.contains("INUSE     currently in use"), "{status}");
    scrubbed_clean(&process);
    verify_all(portal, 0..128);
    let events = process.done("pool events -H -o event tank");
    for said in [
        "weak is FAULTED",
        "the spare is in use",
        "resilvered ",
        "scrub repaired",
    ] {
        assert!(events.contains(said), "{said}: {events}");
    }
    // The broken device goes, and the spare stays for good.
    process.done("pool detach tank weak");
    let status = process.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    assert!(!status.contains("spare"), "{status}");
    process.kill();
    process.restart();
    verify_all(portal, 0..128);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
}

/// A pool without redundancy has its only device on a full file system.
///
/// The pool takes no changes until there is room and the administrator clears it.
#[test]
fn a_pool_that_stopped_goes_on_when_it_is_cleared() {
    let name = "pool_devices::a_pool_that_stopped_goes_on_when_it_is_cleared";
    let Some(folder) = inside_small_folder(name) else {
        return;
    };
    let process = Process::start();
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; 8 << 20]).unwrap();
    let weak = folder.join("weak").display().to_string();
    process.done(&format!("pool create --size 128M tank {weak}"));
    let portal = serve(&process, "64M");
    let mut session = served::log_in(portal, settings(1));
    let mut written = 0;
    while sense(&write(&mut session, written * BLOCKS, &pattern(written))).is_none() {
        written += 1;
    }
    let status = flat(&process.done("pool status tank"));
    assert!(status.contains("state: SUSPENDED"), "{status}");
    assert!(
        status.contains("then use 'sandstone pool clear tank'"),
        "{status}"
    );
    for view in ["lu list", "status"] {
        let told = flat(&process.done(view));
        assert!(told.contains("lu vm1: fault: pool tank takes no"), "{told}");
        assert!(told.contains("sandstone pool clear tank"), "{told}");
    }
    // Nothing has changed: the pool stops again, or does not even open, and loses nothing.
    let _ = process.verb("pool clear tank");
    std::fs::remove_file(&ballast).unwrap();
    process.done("pool clear tank");
    let status = process.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    let told = process.done("lu list -H -o name,state,hindrances");
    assert_eq!(told, "vm1\tonline\t-\n");
    assert_eq!(
        sense(&write(&mut session, written * BLOCKS, &pattern(written))),
        None
    );
    verify_all(portal, 0..written + 1);
    scrubbed_clean(&process);
}

#[test]
fn a_raidz2_loses_two_and_gets_them_back() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank raidz2 d0 d1 d2 d3 d4");
    let portal = serve(&process, "64M");
    write_all(portal, 0..40);
    process.kill();
    let folder = process.folder().to_owned();
    for lost in ["d1", "d3"] {
        std::fs::remove_file(folder.join(lost)).unwrap();
    }
    process.restart();
    let status = process.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    assert!(
        flat(&status).contains("pool online tank DEVICE"),
        "{status}"
    );
    assert_eq!(
        line_of(&process, "d1"),
        ["UNAVAIL", "0", "0", "0", "cannot", "open"]
    );
    verify_all(portal, 0..40);
    write_all(portal, 40..60);
    let refused = process.refused("pool offline tank d0");
    assert!(refused.contains("no valid replicas"), "{refused}");
    process.done("pool replace -w --size 128M tank d1 n1");
    // The new file has the name of the old one.
    process.done("pool replace -w --size 128M tank d3");
    let status = process.done("pool status tank");
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    scrubbed_clean(&process);
    verify_all(portal, 0..60);
    let refused = process.refused("pool detach tank d0");
    assert!(refused.contains("cannot detach"), "{refused}");
}

/// Spoils bytes at random places, in about every `nth` sector, but not in the labels.
fn rot(path: &Path, nth: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let sectors = file.metadata().unwrap().len() / 4096;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for sector in 256..sectors - 256 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if (random >> 33).is_multiple_of(nth) {
            let at = sector * 4096 + (random >> 20) % 4096;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
        }
    }
}

#[test]
fn a_mirror_half_rotted_is_healed_and_every_repair_counted() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..100);
    process.done("volume snapshot tank/vm1@now");
    process.kill();
    rot(&process.folder().join("b"), 2);
    process.restart();
    process.done("pool scrub -w tank");
    let status = process.done("pool status tank");
    // This much rot is no accident.
    assert!(
        flat(&status).contains("have failed too often to be trusted"),
        "{status}"
    );
    assert!(status.contains(" with 0 errors on "), "{status}");
    assert!(!status.contains("repaired 0B"), "{status}");
    assert_eq!(line_of(&process, "a"), ["ONLINE", "0", "0", "0"]);
    let line = line_of(&process, "b");
    assert!(line[0] == "DEGRADED" && line[3] != "0", "{line:?}");
    scrubbed_clean(&process);
    process.done("pool clear tank");
    assert_eq!(line_of(&process, "b"), ["ONLINE", "0", "0", "0"]);
    assert_eq!(process.done("pool status -x"), "all pools are healthy\n");
    // The content of this device alone is good again.
    process.done("pool offline tank a");
    verify_all(portal, 0..100);
}

#[test]
fn a_scrub_names_the_bytes_of_which_no_copy_is_right() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank a");
    let portal = serve(&process, "64M");
    write_all(portal, 0..4);
    process.done("volume snapshot tank/vm1@now");
    process.kill();
    let path = process.folder().join("a");
    let mut disk = std::fs::read(&path).unwrap();
    let sector = &pattern(2)[..4096];
    let mut sectors = disk.chunks_exact_mut(4096);
    sectors.find(|of| *of == sector).expect("written")[77] ^= 1;
    std::fs::write(&path, &disk).unwrap();
    process.restart();
    process.done("pool scrub -w tank");
    let first = 2 * BLOCKS * BLOCK as u64;
    let named = format!(
        "tank/vm1@now: 16384 bytes (16K) in 1 range cannot be read:\n\t  bytes {first} to "
    );
    for again in [false, true] {
        let status = process.done("pool status -v tank");
        assert!(status.contains(&named), "{status}");
        assert!(
            flat(&status)
                .contains("'tank/vm1', its later snapshots and its clones also lack these bytes"),
            "{status}"
        );
        assert!(
            status.contains("scrub found 1 block without a correct copy"),
            "{status}"
        );
        let events = process.done("pool events tank");
        let told = "tank/vm1@now: no correct copy of 16K was found at byte";
        assert!(events.contains(told), "{events}");
        if !again {
            // Findings are not kept over a restart; the next scrub finds the errors again.
            process.kill();
            process.restart();
            let status = process.done("pool status -v tank");
            assert!(
                flat(&status).contains("A scrub names the lost parts"),
                "{status}"
            );
            process.done("pool scrub -w tank");
        }
    }
}

#[test]
fn devices_are_put_aside_attached_grown_and_spared_by_hand() {
    let process = Process::start();
    process.done("pool create --size 128M tank d0");
    let portal = serve(&process, "64M");
    write_all(portal, 0..20);
    let refused = process.refused("pool offline tank d0");
    assert!(refused.contains("no valid replicas"), "{refused}");
    process.done("pool attach -w --size 128M tank d0 d1");
    assert!(process.done("pool status tank").contains("  mirror-0  "));
    process.done("pool offline tank d0");
    assert_eq!(line_of(&process, "d0")[0], "OFFLINE");
    write_all(portal, 20..40);
    process.done("pool online tank d0");
    resilvered(&process);
    scrubbed_clean(&process);
    process.done("pool detach tank d1");
    verify_all(portal, 0..40);
    // A device that left is free for other pools.
    process.done("pool add tank spare d1");
    let refused = process.refused("pool create other d1");
    assert!(refused.contains("d1"), "{refused}");
    process.done("pool remove tank d1");
    process.done("pool create other d1");
    process.done("pool destroy -y other");
    let file = OpenOptions::new()
        .write(true)
        .open(process.folder().join("d0"));
    file.unwrap().set_len(256 << 20).unwrap();
    let size = || -> u64 {
        let text = process.done("pool list -H -p -o size tank");
        text.trim().parse().unwrap()
    };
    let before = size();
    process.done("pool online -e tank d0");
    assert!(size() > before + (100 << 20), "{} {before}", size());
    let refused = process.refused("pool add --size 128M tank mirror m0 m1");
    assert!(
        refused.contains("mismatched replication level"),
        "{refused}"
    );
    process.done("pool add --size 128M tank m2");
    write_all(portal, 40..60);
    scrubbed_clean(&process);
    verify_all(portal, 0..60);
}

#[test]
fn a_device_that_something_else_holds_does_not_keep_the_pool_closed() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b");
    let portal = serve(&process, "64M");
    write_all(portal, 0..10);
    process.kill();
    let held = File::open(process.folder().join("b")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    process.restart();
    assert_eq!(line_of(&process, "b")[0], "UNAVAIL");
    write_all(portal, 10..20);
    let refused = process.refused("pool online tank b");
    assert!(refused.contains("cannot online"), "{refused}");
    drop(held);
    process.done("pool online tank b");
    resilvered(&process);
    assert_eq!(line_of(&process, "b"), ["ONLINE", "0", "0", "0"]);
    scrubbed_clean(&process);
    verify_all(portal, 0..20);
}

#[test]
fn a_spare_that_was_away_at_the_start_is_wiped_when_it_is_removed() {
    let mut process = Process::start();
    process.done("pool create --size 128M tank mirror a b spare ready");
    process.kill();
    let (ready, hidden) = (
        process.folder().join("ready"),
        process.folder().join("hidden"),
    );
    std::fs::rename(&ready, &hidden).unwrap();
    process.restart();
    std::fs::rename(&hidden, &ready).unwrap();
    process.done("pool remove tank ready");
    // No `-f` is needed: nothing marks the device as a pool's any more.
    process.done("pool create other ready");
}
