//! Pool over disks of other machines: two real daemons serve a disk each, and a third mirrors them.
//!
//! The tests use the command line, and a client that writes meanwhile.

use std::time::Duration;

use testing::wait;

use crate::pools::devices::{
    flat, line_of, resilvered, scrubbed_clean, serve, verify_all, write_all,
};
use crate::process::Process;
use crate::served::free_portal;

/// Daemon that serves one disk, and the disk's name.
pub(crate) struct Array {
    pub(crate) process: Process,
    pub(crate) naa: String,
    pub(crate) portal: std::net::SocketAddr,
    pub(crate) target: String,
}

impl Array {
    /// Starts an array with a disk of this size in bytes.
    pub(crate) fn start(number: u32, size: u64) -> Self {
        let process = Process::start();
        let portal = free_portal();
        let target = format!("iqn.2026-01.io.sandstone:array{number}");
        // The disk's writes stay in a volatile cache until they are flushed.
        process.done(&format!(
            "lu create disk --file disk.img --size {size} --write-cache"
        ));
        process.done(&format!("target create {target} --portal {portal}"));
        process.done(&format!(
            "map add disk --every-host --target {target} --lun 0"
        ));
        let naa = process.done("lu list -H -o naa");
        Self {
            process,
            naa: naa.trim().to_owned(),
            portal,
            target,
        }
    }

    pub(crate) fn log_in(&self, front: &Process) {
        front.done(&format!(
            "initiator login {} --portal {}",
            self.target, self.portal
        ));
    }
}

/// Waits until a verb prints this text.
pub(crate) fn until(process: &Process, line: &str, wanted: &str) -> String {
    let what = format!("{line}: {wanted:?}");
    let said = || process.verb(line).1;
    wait::until_seen(&what, said, |said| {
        said.contains(wanted) || flat(said).contains(wanted)
    })
}

/// Starts two arrays, and a daemon with a pool mirrored over them.
///
/// The size of one disk is no multiple of the pool's sectors.
pub(crate) fn mirrored() -> (Array, Array, Process) {
    let (a, b) = (
        Array::start(1, 128 << 20),
        Array::start(2, (128 << 20) + 512),
    );
    let front = Process::start();
    a.log_in(&front);
    b.log_in(&front);
    front.done(&format!("pool create tank mirror {} {}", a.naa, b.naa));
    (a, b, front)
}

#[test]
fn an_array_dies_and_comes_back_by_itself() {
    let (a, mut b, mut front) = mirrored();
    let portal = serve(&front, "64M");
    write_all(portal, 0..16);
    b.process.kill();
    // Nothing fails, and the pool goes on with one copy.
    write_all(portal, 16..48);
    let status = front.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    assert_eq!(line_of(&front, &b.naa)[0], "REMOVED", "{status}");
    // A disk in use by the pool cannot be taken from it.
    let refused = front.refused(&format!("initiator logout {} --yes", a.target));
    assert!(flat(&refused).contains("pool tank lies on"), "{refused}");
    b.process.restart();
    let status = resilvered(&front);
    assert!(status.contains(" state: ONLINE\n"), "{status}");
    verify_all(portal, 0..48);
    scrubbed_clean(&front);
    // The other array dies: the copy that was rebuilt is whole.
    drop(a);
    verify_all(portal, 0..48);
    front.kill();
}

#[test]
fn power_is_cut_everywhere_and_the_one_that_was_left_behind_is_back_first() {
    let (mut a, mut b, mut front) = mirrored();
    let portal = serve(&front, "64M");
    write_all(portal, 0..8);
    a.process.kill();
    write_all(portal, 8..24);
    let status = until(&front, "pool status tank", "DEGRADED");
    assert!(status.contains("REMOVED"), "{status}");
    b.process.kill();
    front.kill();
    // The array's knowledge is old, and it does not know that.
    a.process.restart();
    front.restart();
    let status = until(&front, "pool status tank", "waits for");
    assert!(flat(&status).contains("opens automatically"), "{status}");
    assert!(status.contains(&b.naa), "{status}");
    let said = front.refused(&format!("lu create disk --backend {}", a.naa));
    assert!(flat(&said).contains("is a device of pool tank"), "{said}");
    b.process.restart();
    until(&front, "pool status tank", " state: ");
    until(&front, "lu list -H -o state", "online");
    resilvered(&front);
    verify_all(portal, 0..24);
    scrubbed_clean(&front);
}

#[test]
fn a_disk_is_used_once_and_what_is_not_there_is_said() {
    let (a, b, front) = mirrored();
    let said = front.refused(&format!("pool create other {}", a.naa));
    assert!(flat(&said).contains("is a device of pool tank"), "{said}");
    let said = front.refused(&format!("lu create disk --backend {}", b.naa));
    assert!(flat(&said).contains("a pool uses it"), "{said}");
    let said = front.refused("pool create other naa.6000000000000000000000000000000a");
    assert!(flat(&said).contains("no session shows it"), "{said}");
    assert!(flat(&said).contains("initiator login"), "{said}");
    // After the export anybody may use the disks. They are found again without their place being
    // named.
    front.done("pool export tank");
    let found = front.done("pool import");
    assert!(found.contains("tank") && found.contains(&a.naa), "{found}");
    front.done(&format!("lu create disk --backend {}", b.naa));
    // One of the disks belongs to a unit by now: the pool goes without it, until it is free again.
    front.done("pool import tank");
    let status = front.done("pool status tank");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    front.done("lu delete disk --yes");
    // The unit's writes are not overwritten before the administrator says so.
    until(&front, "pool status tank", "lu disk used");
    front.done(&format!("pool replace -f tank {}", b.naa));
    until(&front, "pool status tank", " state: ONLINE\n");
    front.done("pool destroy tank --yes");
    let found = front.done("pool import");
    assert!(!found.contains("tank"), "{found}");
    front.done(&format!("pool create other {}", a.naa));
}

#[test]
fn what_a_disk_took_alone_is_not_overwritten_by_itself() {
    let (mut a, mut b, mut front) = mirrored();
    let portal = serve(&front, "64M");
    write_all(portal, 0..8);
    a.process.kill();
    write_all(portal, 8..24);
    until(&front, "pool status tank", "DEGRADED");
    b.process.kill();
    front.kill();
    a.process.restart();
    front.restart();
    until(&front, "pool status tank", "waits for");
    // A user who opens the stale half is told its state; the newest writes are only on the other
    // half.
    let found = flat(&front.done("pool import"));
    let told = format!("newest changes may be on {} only", b.naa);
    assert!(found.contains(&told), "{found}");
    let refused = flat(&front.refused("pool import tank"));
    assert!(refused.contains("changes are lost"), "{refused}");
    front.done("pool import -f tank");
    b.process.restart();
    let status = until(&front, "pool status tank", "was used without the other");
    assert!(status.contains(" state: DEGRADED\n"), "{status}");
    // As long as nobody takes the other half in, everything is there.
    front.kill();
    a.process.kill();
    front.restart();
    until(&front, "lu list -H -o state", "online");
    verify_all(portal, 0..24);
}

#[test]
fn destroying_a_pool_wipes_all_that_can_be_wiped() {
    for turn in 0..2 {
        let (a, b, front) = mirrored();
        front.done("pool export tank");
        let used = if turn == 0 { &a } else { &b };
        front.done(&format!("lu create disk --backend {}", used.naa));
        front.done("pool import tank");
        let said = front.refused("pool destroy tank --yes");
        assert!(flat(&said).contains("lu disk uses it"), "{said}");
        let other = if turn == 0 { &b } else { &a };
        front.done(&format!("pool create new {}", other.naa));
    }
}

#[test]
fn a_pool_that_waits_for_one_disk_does_not_wait_for_one_that_was_dead_before() {
    let (mut a, mut b) = (Array::start(1, 128 << 20), Array::start(2, 128 << 20));
    let c = Array::start(3, 128 << 20);
    let mut front = Process::start();
    for array in [&a, &b, &c] {
        array.log_in(&front);
    }
    front.done(&format!(
        "pool create tank mirror {} {} {}",
        a.naa, b.naa, c.naa
    ));
    let portal = serve(&front, "64M");
    // This disk never comes back.
    drop(c);
    write_all(portal, 0..8);
    until(&front, "pool status tank", "DEGRADED");
    a.process.kill();
    write_all(portal, 8..24);
    let line = || line_of(&front, &a.naa);
    wait::until_seen("the disk is given up", line, |line| line[0] == "REMOVED");
    // The last disk knows it.
    front.done("pool sync tank");
    b.process.kill();
    front.kill();
    a.process.restart();
    front.restart();
    until(&front, "pool status tank", "opens automatically");
    b.process.restart();
    until(&front, "lu list -H -o state", "online");
    verify_all(portal, 0..24);
}

#[test]
fn destroying_a_pool_tells_which_labels_are_left() {
    let (a, mut b, front) = mirrored();
    b.process.kill();
    let said = front.refused("pool destroy tank --yes");
    assert!(said.contains(&b.naa), "{said}");
    front.done(&format!("pool create new {}", a.naa));
}

#[test]
fn a_disk_is_nobody_elses_before_it_has_answered() {
    let (_a, b, front) = mirrored();
    let portal = serve(&front, "64M");
    write_all(portal, 0..8);
    b.process.signal("STOP");
    let writer = std::thread::spawn(move || write_all(portal, 8..12));
    // The writer's requests have time to reach the disk's session, which nothing shows.
    std::thread::sleep(Duration::from_secs(2));
    // The requests to this disk are not needed any more, but the disk may still carry them out.
    front.done(&format!("pool offline tank {}", b.naa));
    writer.join().expect("the other copy is enough");
    let said = front.refused(&format!("lu create disk --backend {}", b.naa));
    b.process.signal("CONT");
    assert!(flat(&said).contains("a pool uses it"), "{said}");
    let create = format!("lu create disk --backend {}", b.naa);
    wait::until_seen("it has answered", || front.verb(&create), |told| told.0);
}
